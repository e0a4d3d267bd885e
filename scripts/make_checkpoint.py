"""Train or fine-tune a model, or take one from a folder, and save it beside its tokenizer."""

import json

import torch

from gnorm.data.rows import read, splits
from gnorm.engine import prompts, training
from gnorm.files import write_json
from gnorm.logs import start
from gnorm.models import checkpoints, intake
from gnorm.pruning import limits
from gnorm.resume import State


def main(*, dataset_folder, tokenizer_folder, checkpoint, seed, state, wanted, outputs):
    """Make the model that the suite's `checkpoint` describes; what is trained goes on from `state`.

    `wanted` has its task, and what the suite goes on to ask of it: a model that cannot do it is refused here.
    """
    classes = splits(dataset_folder)["classes"]
    tokenizer = checkpoints.load_tokenizer(tokenizer_folder)
    if state:
        make = training.finetune if "path" in checkpoint else training.train
        model = make(checkpoint, tokenizer, read(dataset_folder, "train"), classes, seed, state)
    else:
        model, own = checkpoints.load(checkpoint["path"])
        checkpoints.check_task(model, wanted["task"], classes)
        checkpoints.check_inputs(own, wanted["task"])
    heads = intake.take(model, checkpoint, wanted["attention"])
    limits.check(limits.Size.of(heads), stop=wanted["stop"], solution=wanted["solution"], levels=wanted["levels"])
    if (generation := wanted["generation"]) is not None:
        prompts.check_room(checkpoints.positions(model), generation["prompt_tokens"])
        prompts.choose(
            tokenizer, read(dataset_folder, "evaluation"), generation["prompts"], generation["prompt_tokens"]
        )
    checkpoints.save(outputs.checkpoint, model, tokenizer)
    write_json(outputs.heads, intake.summary(heads))
    if state:
        state.finish()


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model}{snakemake.wildcards.own} checkpoint")
    params = snakemake.params
    torch.set_num_threads(params.threads)
    used = {"device": checkpoints.device().type}
    main(
        dataset_folder=params.dataset_folder,
        tokenizer_folder=snakemake.input.tokenizer,
        checkpoint=params.checkpoint,
        seed=params.seed,
        state=State.of_job(snakemake, used) if "epochs" in params.checkpoint else None,
        wanted={"task": params.task, **json.loads(snakemake.resources.wanted)},
        outputs=snakemake.output,
    )
