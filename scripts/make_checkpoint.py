"""Train or fine-tune a model, or take one from a folder, and save it beside its tokenizer."""

import importlib

import torch

from gnorm import UserError, checkpoints
from gnorm.files import read_json, write_json
from gnorm.heads import LAYOUTS, head_map, keep
from gnorm.logs import start
from gnorm.rows import read
from gnorm.state import State, job

MADE = {"train": checkpoints.train, "finetune": checkpoints.finetune}


def heads_of(model):
    """Its head map; of an unknown family one that is searched for here and kept for all jobs."""
    if model.config.model_type in LAYOUTS:
        return head_map(model)
    # Loaded by name: only a checkpoint from outside can need it, and training must not depend on it.
    heads = importlib.import_module("gnorm.search").find(model)
    keep(model, heads)
    return heads


def main(dataset_folder, tokenizer_folder, checkpoint, seed, state, folder, heads_file, task="classification"):
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
        model, _ = checkpoints.load(checkpoint["path"])
        checkpoints.check_task(model, task, classes)
    if unit := checkpoint.get("from", checkpoint).get("prune_by"):
        model.config.prune_by = unit  # kept in the configuration, where every job finds it
    heads = heads_of(model)
    if not heads.kept(model).all() or getattr(model.config, "zeroed_heads", None):
        raise UserError(f"{checkpoint['path']} has pruned heads already; start from an unpruned checkpoint")
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
    )
