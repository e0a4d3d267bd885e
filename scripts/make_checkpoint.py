"""Train a model, or take one from a folder, and save it beside its tokenizer."""

import torch

from gnorm import UserError, checkpoints
from gnorm.files import read_json, write_json
from gnorm.heads import head_map
from gnorm.logs import start
from gnorm.rows import read
from gnorm.state import State, job


def main(dataset_folder, tokenizer_folder, checkpoint, seed, state, folder, heads_file):
    classes = read_json(f"{dataset_folder}/splits.json")["classes"]
    tokenizer = checkpoints.load_tokenizer(tokenizer_folder)
    progress = None
    if checkpoint["source"] == "train":
        belongs_to = {
            **job("make_checkpoint", [dataset_folder, tokenizer_folder]),
            "device": checkpoints.device().type,
            "checkpoint": checkpoint,
            "seed": seed,
        }
        progress = State(state, belongs_to)
        model = checkpoints.train(checkpoint, tokenizer, read(dataset_folder, "train"), classes, seed, progress)
    else:
        model, _ = checkpoints.load(checkpoint["path"])
        checkpoints.check_classes(model, classes)
    heads = head_map(model)
    if not heads.kept(model).all():
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
    )
