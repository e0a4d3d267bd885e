"""A small model of a family on disk, and every job of the workflow that loads one, as the rules run it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import compare_criteria
import entropy_shard
import export_solution
import find_solution
import gradient_change
import make_checkpoint
import mask_neurons
import measure_controls
import measure_speed
import pandas as pd
import prune_heads
import random_pruning
import torch
from support import ASKED, Tiny, part_files

from gnorm import scores
from gnorm.data.rows import read
from gnorm.files import read_json, write_json
from gnorm.models import checkpoints
from gnorm.models.loaded import Loaded
from gnorm.resume import State
from gnorm.workbench import Workbench

FAMILIES = ("bert", "albert", "gpt2", "llama")
CRITERIA = {name: {} for name in scores.names() if not scores.describe(name).drawn} | {
    "attribution": {"steps": 2},
    "shapley": {"permutations": 2},
    "hard_concrete": {"steps": 2},
    "hybrid": {"of": {"entropy": -1, "fisher": 1}, "members": {"entropy": {}, "fisher": {}}},
}


def strategy(score, rescore="every_step", prune="lowest", settings=None, **others):
    return {"score": score, "prune": prune, "rescore": rescore, "settings": settings or {}, **others}


STRATEGIES = {
    "greedy": strategy("gnorm"),
    "bfloat16": strategy("gnorm", "never", settings={"precision": "bfloat16"}),
    "by_batch": strategy("gnorm", "never", settings={"granularity": "batch", "batch_rows": 3}),
    "ae": strategy("entropy", "never", "highest"),
    "ae_live": strategy("entropy", 3, "highest"),
    "neurons": strategy("mask_gradient", 2, unit="neurons", group=16),
}


class Interrupted(Exception):
    """What a kill is for a job that runs in this process."""


class Jobs:
    """The jobs of one model, their files in a folder."""

    def __init__(self, folder: Path, family: str, source: Path):
        self.folder, self.family, self.source = folder, family, source
        self.writes = family in ("gpt2", "llama")
        self.dataset, self.checkpoint = str(source / "dataset"), str(source / "checkpoint")
        self.metrics = ("perplexity", "loss") if self.writes else ("macro_f1", "loss", "calibration_error")
        self.shards = [str(folder / f"shards/{name}.pt") for name in ("0-2", "3-5")]
        self.budget = str(folder / "tokens.json")

    def bench(self, tokens="auto", **others):
        """A workbench as a rule's parameter `bench` describes it."""
        where = {"checkpoint": self.checkpoint, "dataset_folder": self.dataset, "budget": self.budget}
        return Workbench.load(**where, tokens=tokens, **others)

    def state(self, rule, name, bench, shards=(), **params):
        """The state of a rule's job."""
        files = [self.checkpoint, f"{self.dataset}/rows.parquet", f"{self.dataset}/splits.json", *shards]
        params["state"] = str(self.folder / f"{name}.pt")
        return State.of_job(SimpleNamespace(rule=rule, input=files, params=params, wildcards={}), bench.used)

    def entropy_shard(self):
        bench = self.bench(attention="eager", keeps_outputs=False)
        for path in self.shards:
            first, last = map(int, Path(path).stem.split("-"))
            outputs = SimpleNamespace(shard=path, mean=f"{path}.mean")
            entropy_shard.main(bench=bench, first=first, last=last, epsilon=1e-7, variant="C", outputs=outputs)

    def compare_criteria(self):
        outputs = part_files(self.folder / "criteria/0-0", "curves", "scores", "costs")
        bench = self.bench(reuse_mb=50)
        compare_criteria.main(
            bench=bench,
            criteria=CRITERIA,
            levels=3,
            runs=range(1),
            seed=7,
            state=self.state("compare_criteria", "criteria.state", bench, self.shards, criteria=CRITERIA),
            outputs=outputs,
            shards=self.shards,
        )

    def prune_heads(self, name="greedy", runs=1, stop=None, tokens="auto"):
        entry, shards = STRATEGIES[name], self.shards if name == "ae" else []
        bench = self.bench(tokens, reuse_mb=50, metrics=self.metrics)
        prune_heads.main(
            bench=bench,
            strategy=entry,
            runs=range(runs),
            seed=7,
            stop=stop or {},
            state=self.state("prune_heads", f"{name}.state", bench, shards, strategy=entry, stop=stop),
            outputs=part_files(self.folder / name / "runs", "trajectories", "scores"),
            shards=shards,
        )

    def random_pruning(self):
        bench = self.bench(reuse_mb=50, metrics=self.metrics)
        random_pruning.main(
            bench=bench,
            strategy="random",
            unit={},
            trials=range(2),
            levels=4,
            seed=7,
            state=self.state("random_pruning", "random.state", bench),
            outputs=part_files(self.folder / "random", "trials"),
        )

    def gradient_change(self):
        output = str(self.folder / "gradient_change.npz")
        bench = Loaded.load(checkpoint=self.checkpoint)
        gradient_change.main(bench=bench, rows=read(self.dataset, "calibration"), output=output)

    def measure_controls(self):
        bench = self.bench(metrics=self.metrics, keeps_outputs=False)
        measure_controls.main(bench=bench, common=None, output=str(self.folder / "controls.json"))

    def measure_speed(self):
        measure_speed.main(
            bench=Loaded.load(checkpoint=self.checkpoint),
            rows=read(self.dataset, "evaluation"),
            trajectories={"greedy": self.folder / "greedy/runs.csv"},
            levels=3,
            metrics=("repetition",),
            generation={"prompts": 2, "prompt_tokens": 3, "new_tokens": 3},
            output=str(self.folder / "speed.csv"),
        )

    def find_solution(self):
        outputs = {"solution": "solution.json", "mask": "mask.csv", "parameters": "parameters.csv"}
        find_solution.main(
            bench=Loaded.load(checkpoint=self.checkpoint, on="cpu"),
            trajectory=self.folder / "greedy/runs.csv",
            controls=self.folder / "controls.json",
            settings={"strategy": "greedy", "tolerance": 0.1, "fixed": None, "metrics": self.metrics},
            outputs=SimpleNamespace(**{key: self.folder / name for key, name in outputs.items()}),
        )

    def export_solution(self):
        where = {"checkpoint": self.checkpoint, "dataset_folder": self.dataset, "on": "cpu", "threads": 1}
        export_solution.main(
            bench=Workbench.load(**where),
            solution=self.folder / "solution.json",
            heads=self.source / "heads.json",
            facts={"title": "title", "suite": "suite", "seen": 0},
            outputs=SimpleNamespace(
                checkpoint=self.folder / "exported",
                dense=self.folder / "dense",
                latency=self.folder / "latency.json",
            ),
        )

    def mask_neurons(self):
        mask_neurons.main(
            bench=Loaded.load(checkpoint=self.checkpoint, on="cpu"),
            trajectory=self.folder / "neurons/runs.csv",
            controls=self.folder / "controls.json",
            group=16,
            tolerance=0.1,
            output=self.folder / "neurons.csv",
        )

    def make_checkpoint(self, name="trained", source="train", killed_after=None):
        """Train or fine-tune; `killed_after` so many savings of the state."""
        entry = {"epochs": 2, "batch": 16, "rate": 0.001}
        if source == "train":
            entry |= {"family": self.family, "layers": 2, "heads": 4, "width": 32, "feed_forward": 64}
            entry |= {"key_heads": 2} if self.family == "llama" else {}
        else:
            entry |= {"path": self.checkpoint, "dropout": 0.1}
        task = "language_model" if self.writes else "classification"
        save, saved = State.save, []

        def kill(state, value):
            save(state, value)
            saved.append(value["step"])
            if len(saved) == killed_after:
                raise Interrupted

        State.save = kill
        try:
            files = [f"{self.dataset}/rows.parquet", self.checkpoint]
            params = {"state": str(self.folder / f"{name}.pt"), "checkpoint": entry, "seed": 7}
            job = SimpleNamespace(rule="make_checkpoint", input=files, params=params, wildcards={})
            state = State.of_job(job, {"device": checkpoints.device().type})
            make_checkpoint.main(
                dataset_folder=self.dataset,
                tokenizer_folder=self.checkpoint,
                checkpoint=entry,
                seed=7,
                state=state,
                wanted={"task": task, **ASKED},
                outputs=SimpleNamespace(checkpoint=str(self.folder / name), heads=str(self.folder / f"{name}.json")),
            )
        finally:
            State.save = save

    def weights(self, name):
        from safetensors.torch import load_file

        return load_file(self.folder / name / "model.safetensors")

    def table(self, name):
        return pd.read_csv(self.folder / name)


def on_disk(folder: Path, family: str) -> Path:
    """An untrained model with strong weights and its rows, as the rules have them."""
    tiny = Tiny(family, layers=2, writes=family in ("gpt2", "llama"))
    config = tiny.model.config
    model = type(tiny.model)(config)  # with the library's own norms, see `in_float64`
    model.load_state_dict(tiny.model.float().state_dict())
    checkpoints.save(folder / "checkpoint", model.eval(), tiny.tokenizer)
    rows = [row for row in tiny.rows if row["label"] is None or row["label"] >= 0][:52]
    rows = [{**row, "row": i} for i, row in enumerate(rows)]
    (folder / "dataset").mkdir(parents=True)
    pd.DataFrame(rows).to_parquet(folder / "dataset/rows.parquet")
    lists = {"calibration": range(6), "entropy": range(6), "evaluation": range(6, 26), "train": range(len(rows))}
    classes = [] if tiny.rows[0]["label"] is None else [str(i) for i in range(config.num_labels)]
    write_json(folder / "dataset/splits.json", {name: list(of) for name, of in lists.items()} | {"classes": classes})
    heads = tiny.heads
    write_json(folder / "heads.json", {"shared": [list(block.layers) for block in heads.blocks]})
    return folder


def all_jobs(jobs: Jobs) -> None:
    """In the order of the workflow."""
    jobs.make_checkpoint()
    jobs.entropy_shard()
    jobs.compare_criteria()
    jobs.prune_heads("greedy", runs=2)
    for name in STRATEGIES:
        if name != "greedy":
            jobs.prune_heads(name)
    jobs.random_pruning()
    jobs.gradient_change()
    jobs.measure_controls()
    jobs.measure_speed()
    jobs.find_solution()
    jobs.export_solution()
    jobs.mask_neurons()


__all__ = ["FAMILIES", "STRATEGIES", "Interrupted", "Jobs", "all_jobs", "on_disk", "read_json", "torch"]
