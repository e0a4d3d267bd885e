"""Train or fine-tune a model, or take one from a folder, and save it beside its tokenizer."""

import importlib

import torch

from gnorm.data.rows import read
from gnorm.engine import training
from gnorm.errors import UserError
from gnorm.files import read_json, write_json
from gnorm.logs import log, start
from gnorm.models import checkpoints
from gnorm.models.heads import LAYOUTS, head_map, keep, pruned_heads
from gnorm.resume import State, job

MADE = {"train": training.train, "finetune": training.finetune}


def heads_of(model, attention=""):
    """Its head map; one that came with the model, or that an unknown family is searched for, is checked and kept.

    `attention` names what in the configuration needs attention weights. Every known family gives them.
    """
    given = getattr(model.config, "head_map", None)
    if not given and model.config.model_type in LAYOUTS:
        return head_map(model)
    # Loaded by name: only a checkpoint from outside can need it, and training must not depend on it.
    search = importlib.import_module("gnorm.models.search")
    heads = search.confirm(model, head_map(model)) if given else search.find(model)
    if attention and not search.gives_attention(model, heads):
        raise UserError(
            f"{heads.blocks[0].attention} gives no attention weights with output_attentions, and config.yaml or the "
            f"suite has criteria that need them: leave out {attention}, or take others for them "
            "(`compare` may be a list in config.yaml)"
        )
    keep(model, heads)
    return heads


def check_unit(heads, unit):
    """Whether `prune_by` of the suite says what the map has."""
    if heads.queries == heads.share == 1:
        log.warning("prune_by: %s has no effect: every query head has a K and V of its own", unit)
    elif unit != (kept := "group" if heads.queries > 1 else "query"):
        raise UserError(f"prune_by: {unit} of the suite is not the {kept} of head_map in config.json: change either")


def main(
    dataset_folder,
    tokenizer_folder,
    checkpoint,
    seed,
    state,
    folder,
    heads_file,
    task="classification",
    attention="",
):
    classes = read_json(f"{dataset_folder}/splits.json")["classes"]
    tokenizer = checkpoints.load_tokenizer(tokenizer_folder)
    progress = None
    if checkpoint["source"] in MADE:
        pretrained = [checkpoint["from"]["path"]] if "from" in checkpoint else []
        belongs_to = {
            **job("make_checkpoint", [dataset_folder, tokenizer_folder, *pretrained]),
            "device": checkpoints.device().type,
            "checkpoint": checkpoint,
            "seed": seed,
        }
        progress = State(state, belongs_to)
        make = MADE[checkpoint["source"]]
        model = make(checkpoint, tokenizer, read(dataset_folder, "train"), classes, seed, progress)
    else:
        model, own = checkpoints.load(checkpoint["path"])
        checkpoints.check_task(model, task, classes)
        if task == "language_model" and "token_type_ids" in own.model_input_names:
            log.warning(
                "the tokenizer gives token_type_ids, and the model will get them, also to write: if it was trained "
                "without, take them out of model_input_names in tokenizer_config.json"
            )
    source = checkpoint.get("from", checkpoint)
    if any(pruned_heads(model).values()) or getattr(model.config, "zeroed_heads", None):
        raise UserError(f"{source['path']} has pruned heads already; start from an unpruned checkpoint")
    unit = source.get("prune_by")
    if unit:
        model.config.prune_by = unit  # kept in the configuration, where every job finds it
    heads = heads_of(model, attention)
    if unit:
        check_unit(heads, unit)
    checkpoints.save(folder, model, tokenizer)
    write_json(
        heads_file,
        {
            "layers": heads.layers,
            "heads": heads.heads,
            "width": heads.width,
            "total": heads.total,
            "shared": [list(block.layers) for block in heads.blocks],
        },
    )
    if progress:
        progress.finish()


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} checkpoint")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.tokenizer,
        snakemake.params.checkpoint,
        snakemake.params.seed,
        snakemake.params.state,
        snakemake.output.checkpoint,
        snakemake.output.heads,
        snakemake.params.task,
        snakemake.resources.attention,
    )
