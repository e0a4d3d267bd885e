"""The point to stop at, its mask, and the model's parameters before and after."""

import pandas as pd
import torch

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import token_budget
from gnorm.errors import UserError
from gnorm.files import atomic, write_json
from gnorm.logs import log, start
from gnorm.models import checkpoints, surgery
from gnorm.models.accounting import modules
from gnorm.models.heads import head_map
from gnorm.pruning import masks
from gnorm.statistics.curves import megabytes, stop_point
from gnorm.statistics.results import STEPS, read_table


def accuracy_without_heads(trajectory, checkpoint, dataset_folder, tokens, memory_mb):
    """Where a whole trajectory ends; measured if this one ended early."""
    if trajectory["heads_left"].iloc[-1] == 0:
        return float(trajectory["accuracy"].iloc[-1])
    model, tokenizer = checkpoints.load(checkpoint, on="cpu")
    heads = head_map(model)
    surgery.prune(model, heads, heads.kept(model).nonzero().tolist())
    tokens = token_budget(tokens, model, heads, memory_mb)
    made = batches.make(tokenizer, read(dataset_folder, "evaluation"), tokens, what="evaluation rows")
    return Evaluation(made, heads).accuracy(model).value


def pick(trajectory, all_pruned, tolerance, fixed):
    """The step to stop at, and how it was chosen."""
    if fixed is None:
        return stop_point(trajectory["accuracy"].tolist(), all_pruned, tolerance), "automatic"
    pruned = (trajectory["heads_left"].iloc[0] - trajectory["heads_left"]).tolist()
    if fixed not in pruned:
        raise UserError(f"solution: {fixed} heads cannot be pruned; possible: {', '.join(map(str, pruned))}")
    return pruned.index(fixed), "fixed"


def compare(before, after):
    """Parameters, share and megabytes of each module, before and after."""
    table = pd.DataFrame(before, columns=["module", "depth", "parameters before"])
    table["parameters after"] = [size for _, _, size in after]
    for when in ("before", "after"):
        size = table[f"parameters {when}"]
        table[f"share {when} (%)"] = 100 * size / size.iloc[0]
        table[f"MB {when}"] = megabytes(size)
    order = ["parameters before", "share before (%)", "MB before", "parameters after", "share after (%)", "MB after"]
    return table[["module", *order]]


def main(
    dataset_folder,
    checkpoint,
    trajectory_file,
    tokens,
    memory_mb,
    strategy,
    tolerance,
    fixed,
    solution_file,
    mask_file,
    parameters_file,
):
    trajectory = read_table(trajectory_file, STEPS)
    all_pruned = accuracy_without_heads(trajectory, checkpoint, dataset_folder, tokens, memory_mb)
    step, chosen = pick(trajectory, all_pruned, tolerance, fixed)
    order = trajectory.loc[1:step, ["layer", "head"]].astype(int).values.tolist()
    model, _ = checkpoints.load(checkpoint, on="cpu")  # it only counts parameters
    heads = head_map(model)
    before = modules(model)
    if order:
        surgery.prune(model, heads, [tuple(slot) for slot in order])
    after = modules(model)
    table = compare(before, after)

    def point(at, rows):
        return {
            "accuracy": float(trajectory["accuracy"].iloc[at]),
            "parameters": rows[0][2],
            "megabytes": megabytes(rows[0][2]),
        }

    log.info("stop after %d of %d heads", heads.total - heads.left(model), heads.total)
    masks.write(mask_file, heads.kept(model))
    with atomic(parameters_file) as temporary:
        table.to_csv(temporary, index=False)
    write_json(
        solution_file,
        {
            "strategy": strategy,
            "chosen": chosen,
            "tolerance": tolerance,
            "all_pruned_accuracy": all_pruned,
            "heads": heads.total,
            "heads_pruned": heads.total - heads.left(model),
            "steps": step,
            "pruned_slots": order,
            "before": point(0, before),
            "after": point(step, after),
        },
    )


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} solution")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        snakemake.input.trajectory,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.params.strategy,
        snakemake.params.tolerance,
        snakemake.params.fixed,
        snakemake.output.solution,
        snakemake.output.mask,
        snakemake.output.parameters,
    )
