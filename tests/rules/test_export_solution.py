"""The pruned solution as folders of its own, loaded by fresh processes with plain transformers."""

import itertools
import json
import re
import subprocess
from types import SimpleNamespace

import export_solution
import pandas as pd
import pytest
import torch
from support import FAMILIES, ROOT, in_a_fresh_process, planned, pythons

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.files import read_json, write_json
from gnorm.models import checkpoints, surgery
from gnorm.models.heads import head_map
from gnorm.pruning import exports
from gnorm.workbench import Workbench


def logits(model, made):
    """Return the logits of all rows, in the order of the rows."""
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


@pytest.mark.parametrize("form", ["checkpoint", "dense"])
@pytest.mark.parametrize("model", ["BERT", "ALBERT"])
def test_a_fresh_process_predicts_the_same(smoke, model, form, tmp_path):
    folder = smoke / "results/smoke"
    solution = read_json(folder / f"solutions/{model}/solution.json")
    rows = read(folder / model / "dataset", "evaluation")
    pruned, tokenizer = pruned_here(folder / model / "checkpoint", solution["pruned_slots"])
    compact = form == "checkpoint"
    found = in_a_fresh_process(folder / f"solutions/{model}/{form}", rows, tmp_path, compact)
    expected = logits(pruned, batches.make(tokenizer, rows, 500))
    got = torch.tensor(found["logits"])
    assert torch.equal(got.argmax(-1), expected.argmax(-1)) and torch.allclose(got, expected, atol=1e-5)
    assert found["parameters"] == solution["after" if compact else "before"]["parameters"]
    correct = (got.argmax(-1) == torch.tensor([row["label"] for row in rows])).float().mean().item()
    assert correct == pytest.approx(solution["after"]["accuracy"], abs=1e-6)


SAYS = """
rows = [(row["text"], row["pair"]) if row["pair"] else (row["text"],) for row in json.load(open(sys.argv[1]))]
with torch.inference_mode():
    logits = [model(**tokenizer(*row, truncation=True, return_tensors="pt")).logits[0].tolist() for row in rows]
print(json.dumps([sum(p.numel() for p in model.parameters()), str(model.dtype), logits]))
"""


@pytest.mark.parametrize("model", ["BERT", "ALBERT"])
def test_the_code_on_the_card_loads_both_folders(smoke, model, tmp_path):
    """As people run it, in a fresh process of each version that is here: parameters, type and logits of the run."""
    results = smoke / "results/smoke"
    folder, rows = results / f"solutions/{model}", read(results / model / "dataset", "evaluation")
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    solution = read_json(folder / "solution.json")
    pruned, tokenizer = pruned_here(results / model / "checkpoint", solution["pruned_slots"])
    expected = logits(pruned, batches.make(tokenizer, rows, 500))
    blocks = re.findall(r"```python\n(.*?)```", (folder / "checkpoint/README.md").read_text(), re.S)
    assert ["gnorm" in block for block in blocks] == [True, False]
    for python, (block, point) in itertools.product(pythons(), zip(blocks, ("after", "before"), strict=True)):
        installed = f"sys.path.append({str(ROOT / 'scripts')!r})" if "gnorm" in block else ""
        code = f"import json, sys\n{installed}\n{block}\nimport torch\n{SAYS}"
        command = [python, "-I", "-c", code, str(tmp_path / "rows.json")]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-2000:]
        parameters, dtype, found = json.loads(run.stdout.splitlines()[-1])
        assert parameters == solution[point]["parameters"] and dtype == "torch.float32"
        assert torch.allclose(torch.tensor(found), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_also_with_a_layer_that_has_no_head_left(family, make_tiny, tmp_path):
    tiny, stored = make_tiny(family), "bfloat16" if family == "roberta" else "float32"
    checkpoints.save(tmp_path / "whole", tiny.model.to(getattr(torch, stored)), tiny.tokenizer)
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
    measured = {"accuracy": 0.5, "correct": 6, "evaluated": 12, "metrics": {"loss": 0.25}}
    points = ("before", sizes[0]), ("after", sizes[1])
    solution |= {name: measured | {"parameters": size, "megabytes": size / 2**18} for name, size in points}
    write_json(tmp_path / "solution.json", solution)
    write_json(tmp_path / "heads.json", {"shared": [list(block.layers) for block in tiny.heads.blocks]})
    export_solution.main(
        bench=Workbench.load(dataset_folder=tmp_path, checkpoint=tmp_path / "whole", tokens=500, threads=1, on="cpu"),
        solution=tmp_path / "solution.json",
        heads=tmp_path / "heads.json",
        facts={"title": "A model", "suite": "test", "seen": 1},
        outputs=SimpleNamespace(
            checkpoint=tmp_path / "out", dense=tmp_path / "dense", latency=tmp_path / "latency.json"
        ),
    )
    expected = logits(pruned, batches.make(tiny.tokenizer, rows, 500))
    for form, size in (("out", sizes[1]), ("dense", sizes[0])):
        found = in_a_fresh_process(tmp_path / form, rows, tmp_path, compact=form == "out")
        assert (torch.tensor(found["logits"]) - expected).abs().max() < 1e-6 * expected.abs().max().clamp_min(1)
        assert found["parameters"] == size and found["dtype"] == f"torch.{stored}"
    assert sizes[1] < sizes[0]
    card = (tmp_path / "out/README.md").read_text()
    assert card == (tmp_path / "dense/README.md").read_text()
    assert f"| parameters | {sizes[0]:,} | {sizes[1]:,} |" in card
    assert f"Their weights are {stored}" in card and ('torch_dtype="auto"' in card) == (stored != "float32")
    assert "| correct, of 12 rows | 6 | 6 |" in card and "| loss | 0.25 | 0.25 |" in card
    assert "Of the rows that accuracy is measured on, 1 were also trained or scored on" in card
    assert "| 0-2, which share weights | 1, 2, 3 | 1 |" in card or "| 2 | 0, 1, 2, 3 | 0 |" in card


def test_a_saved_model_that_is_another_is_not_kept(make_tiny):
    tiny, other = make_tiny("bert"), make_tiny("bert", seed=1)
    made = tiny.batches(6)
    exports.check_same(tiny.model, tiny.model, made)
    with pytest.raises(RuntimeError, match="the saved model's logits are off by"):
        exports.check_same(other.model, tiny.model, made)


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
