"""The pruned solution as a checkpoint of its own, loaded by a process that has transformers and nothing of ours."""

import json
import re
import subprocess
import sys

import export_solution
import pandas as pd
import pytest
import torch
from support import FAMILIES, planned

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.files import read_json, write_json
from gnorm.models import checkpoints, surgery
from gnorm.models.heads import head_map

PREDICT = """
import json, sys
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
folder, rows = sys.argv[1], json.load(open(sys.argv[2]))
torch.set_num_threads(1)
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
with torch.inference_mode():
    logits = [model(**tokenizer(*texts, truncation=True, return_tensors="pt")).logits[0].tolist() for texts in rows]
assert not [name for name in sys.modules if name.split(".")[0] in ("gnorm", "textpruner")]
print(json.dumps({"logits": logits, "parameters": sum(p.numel() for p in model.parameters())}))
"""


def in_a_fresh_process(folder, rows, tmp_path):
    """Logits and parameters of a checkpoint, one row at a time; -I keeps this project off the path."""
    texts = [[row["text"], *([row["pair"]] if row["pair"] is not None else [])] for row in rows]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    command = [sys.executable, "-I", "-c", PREDICT, str(folder), str(tmp_path / "texts.json")]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    return json.loads(made.stdout)


def logits(model, made):
    """Of every row, in the rows' order."""
    with torch.inference_mode():
        found = {
            position: row
            for batch in made
            for position, row in zip(batch.positions.tolist(), model(**batch.inputs).logits, strict=True)
        }
    return torch.stack([found[position] for position in sorted(found)])


def pruned_here(checkpoint, slots):
    model, tokenizer = checkpoints.load(checkpoint, on="cpu")
    if slots:
        surgery.prune(model, head_map(model), [tuple(slot) for slot in slots])
    return model, tokenizer


@pytest.mark.parametrize("model", ["BERT", "ALBERT"])
def test_a_fresh_process_predicts_the_same(smoke, model, tmp_path):
    folder = smoke / "results/smoke"
    solution = read_json(folder / f"solutions/{model}/solution.json")
    rows = read(folder / model / "dataset", "evaluation")
    pruned, tokenizer = pruned_here(folder / model / "checkpoint", solution["pruned_slots"])
    found = in_a_fresh_process(folder / f"solutions/{model}/checkpoint", rows, tmp_path)
    expected = logits(pruned, batches.make(tokenizer, rows, 500))
    got = torch.tensor(found["logits"])
    assert torch.equal(got.argmax(-1), expected.argmax(-1)) and torch.allclose(got, expected, atol=1e-5)
    assert found["parameters"] == solution["after"]["parameters"]
    correct = (got.argmax(-1) == torch.tensor([row["label"] for row in rows])).float().mean().item()
    assert correct == pytest.approx(solution["after"]["accuracy"], abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_also_with_a_layer_that_has_no_head_left(family, make_tiny, tmp_path):
    tiny = make_tiny(family)
    checkpoints.save(tmp_path / "whole", tiny.model.float(), tiny.tokenizer)
    rows = [row for row in tiny.rows if row["label"] >= 0][:12]
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
    lists = {"train": [], "calibration": [0], "evaluation": list(range(12))}
    write_json(tmp_path / "splits.json", lists)
    first = tiny.heads.shape[0] - 1
    slots = [[first, head] for head in range(4)] if first else [[0, 1], [0, 3]]
    slots += [[0, 2]] if [0, 2] not in slots else []
    pruned, _ = pruned_here(tmp_path / "whole", slots)
    sizes = [sum(p.numel() for p in model.parameters()) for model in (tiny.model, pruned)]
    solution = {"strategy": "greedy_gnorm", "chosen": "automatic", "heads": tiny.heads.total}
    solution |= {"heads_pruned": tiny.heads.total - tiny.heads.left(pruned), "pruned_slots": slots}
    solution |= {"before": {"parameters": sizes[0]}, "after": {"parameters": sizes[1]}}
    write_json(tmp_path / "solution.json", solution)
    write_json(tmp_path / "heads.json", {"shared": [list(block.layers) for block in tiny.heads.blocks]})
    export_solution.main(
        "A model",
        "test",
        str(tmp_path),
        tmp_path / "whole",
        tmp_path / "solution.json",
        tmp_path / "heads.json",
        500,
        None,
        1,
        tmp_path / "out",
        tmp_path / "latency.json",
    )
    found = in_a_fresh_process(tmp_path / "out", rows, tmp_path)
    expected = logits(pruned, batches.make(tiny.tokenizer, rows, 500))
    assert torch.allclose(torch.tensor(found["logits"]), expected, atol=1e-4)
    assert found["parameters"] == sizes[1] < sizes[0]
    card = (tmp_path / "out/README.md").read_text()
    assert f"| parameters | {sizes[0]:,} | {sizes[1]:,} |" in card
    assert "Of the rows that accuracy is measured on, 1 were also trained or scored on" in card
    assert "| 0-2, which share weights | 1, 2, 3 | 1 |" in card or "| 2 | 0, 1, 2, 3 | 0 |" in card


def test_a_saved_model_that_is_another_is_not_kept(make_tiny):
    tiny, other = make_tiny("bert"), make_tiny("bert", seed=1)
    made = tiny.batches(6)
    export_solution.check_same(tiny.model, tiny.model, made)
    with pytest.raises(RuntimeError, match="the saved model's logits are off by"):
        export_solution.check_same(other.model, tiny.model, made)


@pytest.mark.parametrize("model", ["BERT", "ALBERT"])
def test_the_card_says_what_was_measured(smoke, model):
    folder = smoke / f"results/smoke/solutions/{model}"
    card = (folder / "checkpoint/README.md").read_text()
    solution, latency = read_json(folder / "solution.json"), read_json(folder / "latency.json")
    before, after = solution["before"], solution["after"]
    assert f"# {model}, {solution['heads_pruned']} of {solution['heads']} attention heads pruned" in card
    assert f"| accuracy (%) | {100 * before['accuracy']:.2f} | {100 * after['accuracy']:.2f} |" in card
    assert f"| parameters | {before['parameters']:,} | {after['parameters']:,} |" in card
    for size in ("1", "32"):
        line = f"| milliseconds for a batch of {size} | {latency['before'][size]:.1f} | {latency['after'][size]:.1f} |"
        assert line in card
        assert latency["before"][size] > 0 and latency["repeats"] == 20
    assert not re.search(r"/(tmp|home|root|work)/", card)


def test_times_are_no_input_of_anything(smoke, tmp_path, copy_of):
    """Latencies differ from run to run: a changed one must not make anything out of date."""
    tree = copy_of(smoke, tmp_path)
    path = tree / "results/smoke/solutions/BERT/latency.json"
    path.write_text(path.read_text().replace('"1":', '"1": 9'))
    assert planned(tree, "--config", "suite=smoke") == {}
