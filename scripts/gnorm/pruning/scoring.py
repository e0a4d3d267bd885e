"""The rows and shards that a run's scores are computed from, and a strategy's score as a function of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gnorm import scores
from gnorm.data.rows import resample
from gnorm.engine import batches
from gnorm.engine.batches import Batch
from gnorm.engine.evaluate import Gathered
from gnorm.engine.finite import check_slots
from gnorm.engine.metrics import Predictions
from gnorm.logs import log
from gnorm.models.slots import SlotMap
from gnorm.pruning.rescoring import once
from gnorm.pruning.trajectory import choose
from gnorm.workbench import Workbench


def source(name: str, settings: Mapping[str, Any], shards: Sequence[str | Path]) -> str:
    """Tell where a criterion's scores come from.

    `shards` if other jobs have stored them, `own` for batches of its own, `shared` for batches of other criteria too.
    """
    described = scores.describe(name)
    if described.stored and shards:
        return "shards"
    return "own" if described.needs_own_batches(settings) else "shared"


class Source:
    """The rows of one run with their weights, in the shards or batches that a criterion reads."""

    def __init__(self, bench: Workbench, shards: Sequence[str | Path], run: int, seed: int):
        self.bench, self.shards, self.run, self.seed = bench, shards, run, seed

    def weights(self, name: str) -> list[int]:
        """How often each of the criterion's rows counts."""
        run = self.run if self.bench.resamples else 0
        return resample(len(self.bench.rows(scores.describe(name).rows)), run, self.seed)

    def stored(self, name: str) -> torch.Tensor:
        """Compute the scores from the shards."""
        bench = self.bench
        return scores.load(name).from_shards(bench.heads, self.shards, self.weights(name), bench.digest)

    def batches(self, name: str, settings: Mapping[str, Any]) -> list[Batch]:
        """Make the criterion's own batches, or those that it shares with all that read the same rows."""
        bench, which = self.bench, scores.describe(name).rows
        if source(name, settings, self.shards) == "shared":
            return bench.batches(which, self.weights(name))
        make = scores.load(name).batches
        packed = make(bench.tokenizer, bench.rows(which), self.weights(name), bench.tokens, **settings)
        return batches.resident(packed, bench.device)


class Scorer:
    """The strategy's score as a function of the model, on the rows of one run."""

    def __init__(
        self,
        bench: Workbench,
        slots: SlotMap,
        strategy: Mapping[str, Any],
        *,
        run: int = 0,
        seed: int = 0,
        shards: Sequence[str | Path] = (),
    ):
        name, self.described = strategy["score"], scores.describe(strategy["score"])
        self.criterion, self.strategy, self.settings, self.slots = (
            scores.load(name),
            strategy,
            strategy["settings"],
            slots,
        )
        self.rows, evaluated = bench.rows(self.described.rows), bench.rows("evaluation")
        if self.described.takes("seed"):
            self.settings = {"seed": seed + run, **self.settings}
        origin = Source(bench, shards, run, seed)
        self.fixed, self.batches = None, []
        if source(name, self.settings, shards) == "shards":  # read once, without running a model
            self.fixed = origin.stored(name)
        else:
            self.batches = origin.batches(name, self.settings)
        # Scored rows that are evaluated too, with their evaluation positions: scoring predicts them.
        self.shared: dict[int, int] = {}
        if (
            self.described.takes("seen")
            and not once(strategy["rescore"])
            and self.settings.get("precision", "float32") == "float32"
        ):
            weights = origin.weights(name)
            scored = {row["row"] for row, weight in zip(self.rows, weights, strict=True) if weight}
            self.shared = {row["row"]: i for i, row in enumerate(evaluated) if row["row"] in scored}

    def __call__(self, model: nn.Module) -> tuple[torch.Tensor, Mapping[int, Predictions]]:
        if self.fixed is not None:
            return self.fixed, {}
        predicted = Gathered(model, self.slots)
        settings = {**self.settings, "seen": predicted.add} if self.shared else self.settings
        score = self.criterion.score(model, self.slots, self.batches, **settings)
        check_slots(score, f"the score {self.strategy['score']}", unit=self.slots.unit)
        by_row = {self.rows[position]["row"]: of_row for position, of_row in predicted.by_row().items()}
        return score, {self.shared[row]: of_row for row, of_row in by_row.items() if row in self.shared}

    def evaluation_batches(self, bench: Workbench) -> list[Batch]:
        """Make batches of the evaluation rows; rows that scoring predicts have separate ones, which can be left out."""
        rows = bench.rows("evaluation")
        shared = [int(row["row"] in self.shared) for row in rows]
        packed = [
            batch
            for weights in (shared, [1 - s for s in shared])
            for batch in batches.make(bench.tokenizer, rows, bench.tokens, weights, "evaluation rows")
        ]
        return batches.resident(packed, bench.device)

    def report_precision(self, model: nn.Module) -> None:
        """Log how rounding changes the order of heads."""
        precision = self.settings.get("precision", "float32")
        if precision == "float32":
            return
        from scipy.stats import kendalltau  # takes half a second to import

        rounded, exact = (
            self.criterion.score(model, self.slots, self.batches, **{**self.settings, "precision": each})
            for each in (precision, "float32")
        )
        kept, end = self.slots.kept(model), self.strategy["prune"]
        log.warning(
            "scores in %s: Kendall's tau with float32 is %.4f over %d heads, first head %s",
            precision,
            kendalltau(rounded[kept], exact[kept]).statistic,
            int(kept.sum()),
            "the same" if choose(rounded, kept, end) == choose(exact, kept, end) else "another",
        )
