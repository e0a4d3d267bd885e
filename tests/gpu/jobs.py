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
from support import Tiny

from gnorm.files import read_json, write_json
from gnorm.models import checkpoints
from gnorm.resume import State

FAMILIES = ("bert", "albert", "gpt2", "llama")
CRITERIA = {
    "gnorm": {},
    "gradient": {},
    "mask_gradient": {},
    "fisher": {},
    "taylor": {},
    "attribution": {"steps": 2},
    "leave_one_out": {},
    "shapley": {"permutations": 2},
    "hard_concrete": {"steps": 2},
    "entropy": {},
    "magnitude": {},
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
        self.options = ("auto", None)  # batch_tokens, memory_mb
        self.budget = str(folder / "tokens.json")

    def entropy_shard(self):
        for path in self.shards:
            first, last = map(int, Path(path).stem.split("-"))
            mean = f"{path}.mean"
            entropy_shard.main(
                self.dataset, self.checkpoint, first, last, 1e-7, "C", *self.options, path, mean, self.budget
            )

    def compare_criteria(self):
        outputs = SimpleNamespace(
            **{name: self.folder / f"criteria/{name}.csv" for name in ("scores", "curves", "costs")}
        )
        compare_criteria.main(
            *(self.dataset, self.checkpoint, self.shards, CRITERIA, 3, 1, 7, *self.options, 50),
            *(str(self.folder / "criteria.state"), outputs, self.budget),
        )

    def prune_heads(self, name="greedy", runs=1, stop=None, tokens="auto"):
        entry, shards = STRATEGIES[name], self.shards if name == "ae" else []
        tables = [str(self.folder / f"{name}/run{run}.csv") for run in range(runs)]
        prune_heads.main(
            *(self.dataset, self.checkpoint, shards, entry, 7, stop or {}, tokens, None, 50),
            *(str(self.folder / f"{name}.state"), tables, [t.replace(".csv", ".scores.pt") for t in tables]),
            *(self.metrics, self.budget),
        )

    def random_pruning(self):
        random_pruning.main(
            *(self.dataset, self.checkpoint, "random", {}, 0, 1, 4, 7, *self.options, 50),
            *(str(self.folder / "random.state"), str(self.folder / "random.csv"), self.metrics, self.budget),
        )

    def gradient_change(self):
        gradient_change.main(self.dataset, self.checkpoint, str(self.folder / "gradient_change.npz"))

    def measure_controls(self):
        output = str(self.folder / "controls.json")
        measure_controls.main(self.dataset, self.checkpoint, *self.options, output, self.metrics, self.budget)

    def measure_speed(self):
        generation = {"prompts": 2, "prompt_tokens": 3, "new_tokens": 3}
        ways = {"greedy": str(self.folder / "greedy/run0.csv")}
        output = str(self.folder / "speed.csv")
        measure_speed.main(self.dataset, self.checkpoint, ways, 3, ("repetition",), generation, output)

    def find_solution(self):
        outputs = [str(self.folder / name) for name in ("solution.json", "mask.csv", "parameters.csv")]
        way = str(self.folder / "greedy/run0.csv")
        find_solution.main(self.dataset, self.checkpoint, way, *self.options, "greedy", 0.1, None, *outputs)

    def export_solution(self):
        export_solution.main(
            *("title", "suite", self.dataset, self.checkpoint, str(self.folder / "solution.json")),
            *(str(self.source / "heads.json"), *self.options, 1, str(self.folder / "exported")),
            *(str(self.folder / "latency.json"), self.metrics),
        )

    def mask_neurons(self):
        way, controls = str(self.folder / "neurons/run0.csv"), str(self.folder / "controls.json")
        mask_neurons.main(self.checkpoint, way, controls, 16, 0.1, str(self.folder / "neurons.csv"))

    def make_checkpoint(self, name="trained", source="train", killed_after=None):
        """Train or fine-tune; `killed_after` so many savings of the state."""
        entry = {"source": source, "epochs": 2, "batch": 16, "rate": 0.001}
        if source == "train":
            entry |= {"family": self.family, "layers": 2, "heads": 4, "width": 32, "feed_forward": 64}
            entry |= {"key_heads": 2} if self.family == "llama" else {}
        else:
            entry |= {"from": {"path": self.checkpoint}, "dropout": 0.1}
        task = "language_model" if self.writes else "classification"
        save, saved = State.save, []

        def kill(state, value):
            save(state, value)
            saved.append(value["step"])
            if len(saved) == killed_after:
                raise Interrupted

        State.save = kill
        try:
            make_checkpoint.main(
                *(self.dataset, self.checkpoint, entry, 7, str(self.folder / f"{name}.state")),
                *(str(self.folder / name), str(self.folder / f"{name}.json"), task),
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
