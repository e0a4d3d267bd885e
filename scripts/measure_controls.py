"""Metrics and size of a model without any heads, without any neurons, and without both, beside the untouched one."""

import copy

import torch

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import Probe, token_budget
from gnorm.files import write_json
from gnorm.logs import log, start
from gnorm.models import checkpoints, surgery
from gnorm.models.accounting import count
from gnorm.models.heads import head_map
from gnorm.models.neurons import known, neuron_map


def controls(model):
    """What to remove all slots of, by the control's name; neurons only where it is known which they are."""
    heads = head_map(model)
    found = {"nothing": [], "all heads": [heads]}
    if not known(model):
        log.warning("it is not known where a model of type %s has its neurons", model.config.model_type)
        return found
    neurons = neuron_map(model, 0)
    return found | {"all neurons": [neurons], "heads and neurons": [heads, neurons]}


def main(dataset_folder, checkpoint, tokens, memory_mb, output, metrics=(), budget=None, reuse_mb=0):
    unpruned, tokenizer = checkpoints.load(checkpoint)
    heads = head_map(unpruned)
    rows = read(dataset_folder, "evaluation")
    probe = Probe(checkpoint, dataset_folder, budget, reuse_mb) if budget else None
    tokens = token_budget(tokens, unpruned, heads, memory_mb, 0, probe)
    made = batches.resident(batches.make(tokenizer, rows, tokens, what="evaluation rows"), unpruned.device)
    found = {}
    for name, maps in controls(unpruned).items():
        model = copy.deepcopy(unpruned)
        for slots in maps:
            surgery.prune(model, slots, slots.kept(model).nonzero().tolist())
        measured = Evaluation(made, heads, wanted=metrics).accuracy(model)
        found[name] = {
            "correct": measured.correct,
            "evaluated": measured.evaluated,
            "metrics": measured.metrics,
            "parameters": count(model),
        }
        log.info("without %s: accuracy %.3f, %d parameters", name, measured.value, found[name]["parameters"])
    write_json(output, found)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} controls")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.output[0],
        snakemake.params.metrics,
        snakemake.params.budget,
        snakemake.resources.reuse_mb,
    )
