"""Score a model's heads by every criterion to compare, and prune it in the order of each."""

import copy

import pandas as pd
import torch

from gnorm import scores
from gnorm.data.rows import read, resample
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import Probe, token_budget
from gnorm.files import atomic, digest
from gnorm.logs import log, progress, start
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.pruning.trajectory import replay
from gnorm.resume import State, job
from gnorm.scores import together
from gnorm.statistics.curves import counts


def parts(costs):
    """Criteria to score in one go: all of a pass forward and back, which they may share, and each of the others.

    Those made of others come last, when theirs are there.
    """
    cheap = [name for name, passed in costs.items() if max(passed) <= 1]
    others = [name for name in costs if name not in cheap]
    others.sort(key=lambda name: scores.describe(name).takes("taken"))
    return [part for part in (cheap, *([name] for name in others)) if part]


def score_part(model, heads, tokenizer, folder, shards, criteria, run, seed, tokens, taken, checkpoint=None):
    """The scores of a run by criterion, and the standard errors of those that know theirs.

    Criteria that read the same batches share passes; entropies are in the shards, which must be of the model whose
    digest `checkpoint` is. `taken` are scores of other parts.
    """
    found, errors, shared = {}, {}, {}
    rows = read(folder, "calibration")
    weights = resample(len(rows), run, seed)
    for name, settings in criteria.items():
        criterion = scores.load(name)
        if scores.describe(name).stored:
            entropy_rows = resample(len(read(folder, "entropy")), run, seed)
            found[name] = criterion.from_shards(heads, shards, entropy_rows, checkpoint)
        elif scores.describe(name).needs_own_batches(settings):
            made = batches.resident(criterion.batches(tokenizer, rows, weights, tokens, **settings), model.device)
            found |= together.of_all(model, heads, made, {name: settings}, seed + run, errors=errors)
        else:
            shared[name] = settings
    if shared:
        made = batches.resident(batches.make(tokenizer, rows, tokens, weights, "calibration rows"), model.device)
        found |= together.of_all(model, heads, made, shared, seed + run, errors=errors, taken=taken)
    return found, errors


def in_order(values, prune):
    """Slots from the first to prune to the last; ties go to the lowest (layer, head)."""
    sign = 1 if prune == "lowest" else -1
    slots = [(row, head) for row in range(values.shape[0]) for head in range(values.shape[1])]
    return sorted(slots, key=lambda slot: (sign * values[slot].item(), slot))


class Progress:
    """Scores, standard errors and accuracies at the levels, by run and criterion, recorded as they come."""

    def __init__(self, state):
        self.state = state
        self.found = state.load() or {"scores": {}, "errors": {}, "curves": {}}
        self.scores, self.errors, self.curves = (self.found[key] for key in ("scores", "errors", "curves"))

    def scored(self, run, found, errors):
        self.scores |= {(run, name): values for name, values in found.items()}
        self.errors |= {(run, name): values for name, values in errors.items()}
        self.save()

    def taken(self, run, criteria):
        """A run's scores with their settings, of criteria that read the calibration rows in the batches of all."""
        described = {name: scores.describe(name) for name in criteria}
        apart = {name for name, of in described.items() if of.stored or of.needs_own_batches(criteria[name])}
        found = {name: own for name, own in criteria.items() if name not in apart and (run, name) in self.scores}
        return {name: (own, self.scores[run, name]) for name, own in found.items()}

    def measured(self, run, name, pruned, accuracy):
        self.curves.setdefault((run, name), []).append((pruned, accuracy))
        self.save()

    def save(self):
        self.state.save(self.found)


def main(
    folder, checkpoint, shards, criteria, levels, runs, seed, tokens, memory_mb, reuse_mb, state, outputs, budget=None
):
    unpruned, tokenizer = checkpoints.load(checkpoint)
    heads = head_map(unpruned)
    rows = read(folder, "evaluation")
    probe = Probe(checkpoint, folder, budget, reuse_mb) if budget else None
    tokens = token_budget(tokens, unpruned, heads, memory_mb, reuse_mb, probe)
    of = digest(checkpoint) if shards else None
    named = [module for name, settings in criteria.items() for module in scores.modules(name, settings)]
    belongs_to = {
        **job("compare_criteria", [checkpoint, folder, *shards], dict.fromkeys(named)),
        "device": unpruned.device.type,
        "tokens": tokens,
        "criteria": criteria,
        "levels": levels,
        "seed": seed,
    }
    done = Progress(State(state, belongs_to))
    if done.scores:
        log.info("goes on after %d scores and %d levels", len(done.scores), sum(map(len, done.curves.values())))
    costs = {name: together.cost_of_all(unpruned, heads, {name: settings}) for name, settings in criteria.items()}
    evaluated = batches.resident(batches.make(tokenizer, rows, tokens, what="evaluation rows"), unpruned.device)
    start_from = Evaluation(evaluated, heads, reuse_mb // 2)  # its outputs stay beside those of an order
    start_from.accuracy(unpruned)
    wanted = counts(heads.shape[0] * heads.shape[1], levels)
    todo = [(run, part) for run in range(runs) for part in parts(costs)]
    for run, part in progress(todo, "scores", len(todo)):
        if any((run, name) not in done.scores for name in part):
            chosen = {name: criteria[name] for name in part}
            taken = done.taken(run, criteria)
            found = score_part(unpruned, heads, tokenizer, folder, shards, chosen, run, seed, tokens, taken, of)
            done.scored(run, *found)
        for name in part:
            order = in_order(done.scores[run, name], scores.load(name).PRUNE)
            past, model = len(done.curves.get((run, name), [])), copy.deepcopy(unpruned)
            for _, measured in replay(model, heads, start_from.copy(), order, wanted, past):
                done.measured(run, name, heads.total - heads.left(model), measured.value)
    write(done, heads, criteria, costs, runs, outputs)
    log.info("%d criteria, %d runs, %d levels", len(criteria), runs, levels)
    done.state.finish()


def write(done, heads, criteria, costs, runs, outputs):
    scored, curves = [], []
    for run, name in [(run, name) for run in range(runs) for name in criteria]:
        values, errors = done.scores[run, name], done.errors.get((run, name))
        for rank, slot in enumerate(in_order(values, scores.load(name).PRUNE), start=1):
            error = None if errors is None else errors[slot].item()
            scored.append((name, run, *slot, values[slot].item(), error, rank))
        curves += [(name, run, pruned, pruned / heads.total, reached) for pruned, reached in done.curves[run, name]]
    for values, columns, output in (
        (scored, "criterion run layer head score error rank", outputs.scores),
        (curves, "criterion run heads_pruned fraction_pruned accuracy", outputs.curves),
        ([(name, *passed) for name, passed in costs.items()], "criterion forward backward", outputs.costs),
    ):
        with atomic(output) as temporary:
            pd.DataFrame(values, columns=columns.split()).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} criteria")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        snakemake.input.get("shards", []),
        snakemake.params.criteria,
        snakemake.params.levels,
        snakemake.params.runs,
        snakemake.params.seed,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.resources.reuse_mb,
        snakemake.params.state,
        snakemake.output,
        snakemake.params.budget,
    )
