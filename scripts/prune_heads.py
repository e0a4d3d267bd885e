"""Prune a model head by head by one strategy, for one or more runs."""

import copy
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch

from gnorm import scores
from gnorm.data.rows import read, resample
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation, Outcomes
from gnorm.engine.finite import check_slots
from gnorm.engine.memory import Probe, token_budget
from gnorm.files import atomic, digest, save_tensors
from gnorm.logs import log, start
from gnorm.logs import progress as announce
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.models.neurons import slot_map
from gnorm.pruning.trajectory import Step, Stop, choose, follow, near_ties
from gnorm.resume import State, job


class Scorer:
    """The strategy's score as a function of the model, on the rows of one run."""

    def __init__(
        self, strategy, heads, tokenizer, rows, evaluated, shards, run, seed, tokens, checkpoint=None, device=None
    ):
        self.criterion, self.described = scores.load(strategy["score"]), scores.describe(strategy["score"])
        self.strategy, self.settings, self.heads, self.rows = strategy, strategy["settings"], heads, rows
        self.fixed, self.shared = None, {}
        if self.described.takes("seed"):
            self.settings = {"seed": seed + run, **self.settings}
        weights = resample(len(rows), run, seed)
        if shards:  # entropy once, of rows that the shards have already
            self.fixed = self.criterion.from_shards(heads, shards, weights, checkpoint)
        elif self.described.needs_own_batches(self.settings):
            self.batches = self.criterion.batches(tokenizer, rows, weights, tokens, **self.settings)
        else:
            self.batches = batches.make(tokenizer, rows, tokens, weights, "calibration rows")
        if device and self.fixed is None:
            self.batches = batches.resident(self.batches, device)
        # Rows that are evaluated too, with their positions there: scoring predicts them.
        if (
            self.described.takes("seen")
            and strategy["rescore"] != "never"
            and self.settings.get("precision", "float32") == "float32"
        ):
            scored = {row["row"] for row, weight in zip(rows, weights, strict=True) if weight}
            self.shared = {row["row"]: i for i, row in enumerate(evaluated) if row["row"] in scored}

    def __call__(self, model):
        if self.fixed is not None:
            return self.fixed, {}
        predicted = Outcomes(model, self.heads)
        settings = {**self.settings, "seen": predicted.add} if self.shared else self.settings
        found = self.criterion.score(model, self.heads, self.batches, **settings)
        check_slots(found, f"the score {self.strategy['score']}", unit=self.heads.unit)
        by_row = {self.rows[position]["row"]: of_row for position, of_row in predicted.by_row().items()}
        return found, {self.shared[row]: of_row for row, of_row in by_row.items() if row in self.shared}

    def report_precision(self, model):
        """What rounding does to the order of heads, in the log."""
        from scipy.stats import kendalltau  # takes half a second to import

        rounded, exact = (
            self.criterion.score(model, self.heads, self.batches, **{**self.settings, "precision": precision})
            for precision in (self.settings["precision"], "float32")
        )
        kept, end = self.heads.kept(model), self.strategy["prune"]
        log.warning(
            "scores in %s: Kendall's tau with float32 is %.4f over %d heads, first head %s",
            self.settings["precision"],
            kendalltau(rounded[kept], exact[kept]).statistic,
            int(kept.sum()),
            "the same" if choose(rounded, kept, end) == choose(exact, kept, end) else "another",
        )


def evaluation_batches(tokenizer, rows, score, tokens):
    """Rows that scoring predicts have batches of their own, so that these can be left out."""
    shared = [int(row["row"] in score.shared) for row in rows]
    return [
        batch
        for chosen in (shared, [1 - s for s in shared])
        for batch in batches.make(tokenizer, rows, tokens, chosen, "evaluation rows")
    ]


class Progress:
    """The steps of one run, recorded after each."""

    def __init__(self, state):
        self.state, stored = state, state.load()
        self.steps, self.over = [], False
        if stored:
            taken = dict(zip(stored["taken"], stored["scores"], strict=True))
            self.steps = [(Step(**step), taken.get(i)) for i, step in enumerate(stored["steps"])]
            self.over = stored["over"]

    def add(self, step, taken):
        self.steps.append((step, taken))
        self.save()

    def save(self, over=False):
        self.over = over
        taken = {i: scores for i, (_, scores) in enumerate(self.steps) if scores is not None}
        self.state.save(
            {
                "steps": [asdict(step) for step, _ in self.steps],
                "taken": list(taken),
                "scores": torch.stack(list(taken.values())) if taken else torch.zeros(0),
                "over": over,
            }
        )

    def write(self, heads, trajectory_file, score_file):
        used = [taken for _, taken in self.steps[:-1] if taken is not None]  # nothing was chosen by the last step's
        save_tensors(score_file, torch.stack(used) if used else torch.zeros(0, *heads.shape))
        table = pd.DataFrame([step.columns for step, _ in self.steps]).astype({"layer": "Int64", "head": "Int64"})
        with atomic(trajectory_file) as temporary:
            table.to_csv(temporary, index=False)


def report_near_ties(run, steps, prune):
    """Choices that another batch size or number of threads may make otherwise, in the log."""
    close = near_ties(steps, prune)
    if close:
        shown = "; ".join(f"step {step}: {a} before {b}, {gap:.1e} apart" for step, a, b, gap in close[:5])
        log.warning(
            "run %d: %d of %d choices are near-ties, closer than float32 computes (%s%s)",
            run,
            len(close),
            len(steps) - 1,
            shown,
            "; ..." if len(close) > 5 else "",
        )


def main(
    dataset_folder,
    checkpoint,
    shards,
    strategy,
    seed,
    stop,
    tokens,
    memory_mb,
    reuse_mb,
    state,
    trajectory_files,
    score_files,
    metrics=(),
    budget=None,
):
    unpruned, tokenizer = checkpoints.load(checkpoint)
    evaluated = read(dataset_folder, "evaluation")
    probe = Probe(checkpoint, dataset_folder, budget, reuse_mb) if budget else None
    tokens = token_budget(tokens, unpruned, head_map(unpruned), memory_mb, reuse_mb, probe)
    heads = slot_map(unpruned, strategy)  # or neurons
    rows = read(dataset_folder, scores.describe(strategy["score"]).rows)
    modules = scores.modules(strategy["score"], strategy["settings"])
    belongs_to = {
        **job("prune_heads", [checkpoint, dataset_folder, *shards], modules),
        "device": unpruned.device.type,
        "tokens": tokens,
        "strategy": strategy,
        "seed": seed,
        "stop": stop,
        "metrics": list(metrics),
    }
    of = digest(checkpoint) if shards else None
    start_from = None  # runs that evaluate the same batches start from the same unpruned model
    done = []
    for trajectory_file in trajectory_files:
        run = int(Path(trajectory_file).stem.removeprefix("run"))
        progress = Progress(State(f"{state}.run{run}.pt", belongs_to | {"run": run}))
        done.append(progress)
        if progress.steps:
            log.info("run %d goes on after step %d", run, progress.steps[-1][0].step)
        if progress.over:
            continue
        model = copy.deepcopy(unpruned)
        score = Scorer(strategy, heads, tokenizer, rows, evaluated, shards, run, seed, tokens, of, unpruned.device)
        if strategy["settings"].get("precision", "float32") != "float32":
            score.report_precision(model)
        if score.shared:
            log.info("run %d: scoring also evaluates %d of %d rows", run, len(score.shared), len(evaluated))
        if score.shared or start_from is None:
            made = batches.resident(evaluation_batches(tokenizer, evaluated, score, tokens), unpruned.device)
            start_from = Evaluation(made, heads, reuse_mb // 2 if len(score_files) > 1 else reuse_mb, metrics)
            if not score.shared:
                start_from.accuracy(model)
        followed = follow(
            model,
            heads,
            start_from.copy(),
            score,
            strategy["prune"],
            strategy["rescore"],
            Stop(**stop),
            progress.steps[:],
        )
        left = heads.shape[0] * heads.shape[1] + 1 - len(progress.steps)
        for step, taken in announce(followed, f"run {run}: step", left):
            progress.add(step, taken)
        progress.save(over=True)
        steps = [step for step, _ in progress.steps]
        report_near_ties(run, progress.steps, strategy["prune"])
        log.info(
            "run %d: accuracy %.3f -> %.3f in %d steps", run, steps[0].accuracy, steps[-1].accuracy, len(steps) - 1
        )
    for progress, trajectory_file, score_file in zip(done, trajectory_files, score_files, strict=True):
        progress.write(heads, trajectory_file, score_file)
    for progress in done:
        progress.state.finish()


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} {snakemake.wildcards.strategy}")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        snakemake.input.get("shards", []),
        snakemake.params.strategy,
        snakemake.params.seed,
        snakemake.params.stop,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.resources.reuse_mb,
        snakemake.params.state,
        snakemake.output.trajectories,
        snakemake.output.scores,
        snakemake.params.metrics,
        snakemake.params.budget,
    )
