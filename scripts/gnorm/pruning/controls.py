"""A model without any heads, without any neurons, and without both, beside the untouched one."""

from __future__ import annotations

from typing import Any

from torch import nn

from gnorm.engine.evaluate import Evaluation
from gnorm.logs import log
from gnorm.models import surgery
from gnorm.models.accounting import count
from gnorm.models.heads import head_map
from gnorm.models.neurons import known, neuron_map
from gnorm.models.slots import SlotMap
from gnorm.workbench import Workbench


def controls(model: nn.Module) -> dict[str, list[SlotMap]]:
    """List the maps whose slots each control removes; neurons only in known families."""
    heads = head_map(model)
    without = {"nothing": [], "all heads": [heads]}
    if not known(model):
        log.warning("it is not known where a model of type %s has its neurons", model.config.model_type)
        return without
    neurons = neuron_map(model, 0)
    return without | {"all neurons": [neurons], "heads and neurons": [heads, neurons]}


def measure(bench: Workbench) -> dict[str, dict[str, Any]]:
    """Measure accuracy, metrics and size of each control."""
    evaluated, results = bench.batches("evaluation"), {}
    for name, maps in controls(bench.model).items():
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
        log.info("without %s: accuracy %.3f, %d parameters", name, measured.value, results[name]["parameters"])
    return results
