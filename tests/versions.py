"""What each family can do with a version of transformers: run by the Python of that version, with a folder of models.

    python tests/versions.py FOLDER

Every subfolder is a family, with a small checkpoint and `rows.json`. What is printed, as JSON, goes into the table of
docs/models.md (tests/unit/models/test_versions.py).
"""

import copy
import json
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "scripts"), str(Path(__file__).parent)]

import torch

CHECKS = ("score", "prune", "empty layer", "compact reload", "dense reload")
EXACT = 1e-12
SAME = 1e-5  # in float32; sums over zeros round in other places


def difference(model, other, batch):
    with torch.no_grad():
        return (model(**batch.inputs).logits - other(**batch.inputs).logits).abs().max().item()


def pruned_in_order(model, heads, batches):
    """The order in which Gnorm prunes all slots."""
    from gnorm.models import surgery
    from gnorm.pruning.trajectory import choose
    from gnorm.scores import gnorm

    order = []
    while heads.left(model):
        slot = choose(gnorm.score(model, heads, batches), heads.kept(model), "lowest")
        surgery.prune(model, heads, [slot])
        order.append(slot)
    return order


def tried(folder):
    """Numbers and outcomes of one family."""
    from support import in_float64

    from gnorm.engine import batches
    from gnorm.models import checkpoints, export, surgery
    from gnorm.models.heads import head_map
    from gnorm.scores import entropy, gnorm

    rows = json.loads((folder / "rows.json").read_text())
    single, tokenizer = checkpoints.load(folder, on="cpu")
    heads, model = head_map(single), copy.deepcopy(single)
    in_float64(model)
    model.double()
    made = batches.make(tokenizer, rows, 200)
    scores = {"gnorm": gnorm.score(model, heads, made), "entropy": entropy.score(model, heads, made)}
    distinct = {name: len(values.unique()) == values.numel() for name, values in scores.items()}
    order = pruned_in_order(copy.deepcopy(model), heads, made)
    row = [(0, head) for head in range(heads.shape[1])]
    cut = copy.deepcopy(model)
    surgery.prune(cut, heads, row)
    with surgery.gated(model, heads, row):
        empty = difference(model, cut, made[0])
    surgery.prune(single, heads, [*row, (heads.shape[0] - 1, heads.shape[1] - 1)])
    reloaded = {}
    for form, save in (("compact reload", export.save), ("dense reload", export.save_dense)):
        with tempfile.TemporaryDirectory() as saved:
            save(Path(saved, "out"), single, tokenizer)
            reloaded[form] = difference(export.as_plain(Path(saved, "out")), single, made[0])
    return {
        "scores": {name: values.tolist() for name, values in scores.items()},
        "order": order,
        "score": all(distinct.values()),
        "prune": len(order) == heads.shape[0] * heads.shape[1],
        "empty layer": empty < EXACT,
        **{form: value < SAME for form, value in reloaded.items()},
    }


if __name__ == "__main__":
    import transformers

    found = {folder.name: tried(folder) for folder in sorted(Path(sys.argv[1]).iterdir())}
    print(json.dumps({"version": transformers.__version__, "families": found}))
