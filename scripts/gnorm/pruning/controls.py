"""A model without any heads, without any neurons, and without both, beside the untouched one."""

from __future__ import annotations

from typing import Any

from torch import nn

from gnorm.engine.evaluate import Evaluation
from gnorm.logs import log
from gnorm.models import surgery
from gnorm.models.accounting import count
from gnorm.models.heads import HeadMap
from gnorm.models.neurons import known, neuron_map
from gnorm.models.slots import SlotMap
from gnorm.workbench import Workbench


def controls(model: nn.Module, heads: HeadMap) -> dict[str, list[SlotMap]]:
    """List the maps whose slots each control removes; neurons only in known families."""
    without = {"nothing": [], "all heads": [heads]}
    if not known(model):
        log.warning("it is not known where a model of type %s has its neurons", model.config.model_type)
        return without
    neurons = neuron_map(model, 0)
    return without | {"all neurons": [neurons], "heads and neurons": [heads, neurons]}


def warn_of_guessing(accuracy: float, common: float | None) -> None:
    """Warn of a classifier that is worse than its task's most common class before anything is pruned."""
    if common is not None and accuracy < common:
        log.warning(
            "THE UNPRUNED MODEL IS RIGHT ON %.1f%% OF THE EVALUATION ROWS, always answering their most common class "
            "on %.1f%%: what pruning does to it says little; are `classes:` in the order of the model's outputs?",
            *(100 * accuracy, 100 * common),
        )


def measure(bench: Workbench, common: float | None) -> dict[str, dict[str, Any]]:
    """Measure accuracy, metrics and size of each control; `common` is the share of the most common class, if any."""
    evaluated, results = bench.batches("evaluation"), {}
    for name, maps in controls(bench.model, bench.heads).items():
        model = bench.copy()
        for slots in maps:
            surgery.prune(model, slots, slots.kept(model).nonzero().tolist())
        measured = Evaluation(evaluated, bench.heads, wanted=bench.metrics).accuracy(model)
        results[name] = {
            "correct": measured.correct,
            "evaluated": measured.evaluated,
            "metrics": measured.metrics,
            "parameters": count(model),
        }
        if not maps:
            warn_of_guessing(measured.value, common)
        log.info("without %s: accuracy %.3f, %d parameters", name, measured.value, results[name]["parameters"])
    return results
