"""The benchmark: its naive procedures compute what the engine computes, and its tables come out."""

import time

import measure_growth
import measure_shape
import measure_suite
import pandas as pd
import pytest
import summarize_bench
import torch
from support import snakemake

from benchmarks import clock, naive, shapes
from gnorm.engine.batches import in_order
from gnorm.engine.evaluate import Evaluation
from gnorm.files import write_json
from gnorm.models import checkpoints
from gnorm.published.architectures import without_weights
from gnorm.scores import entropy, gnorm


def test_the_notebooks_procedure_is_that_of_granularity_batch(tiny):
    made = in_order(tiny.tokenizer, tiny.rows[:7], 3)
    found = naive.notebooks(tiny.model, tiny.heads, made, tiny.heads.shape[0])
    assert torch.allclose(found, gnorm.score(tiny.model, tiny.heads, made, granularity="batch"), rtol=1e-9)
    assert not any(p.requires_grad or p.grad is not None for p in tiny.model.parameters())


def test_the_loop_over_sentences_is_that_of_granularity_sentence(tiny):
    found = naive.sentences(tiny.model, tiny.heads, in_order(tiny.tokenizer, tiny.rows[:6], 1))
    assert torch.allclose(found, gnorm.score(tiny.model, tiny.heads, tiny.batches(6)), rtol=1e-9)


def test_one_at_a_time_gives_the_same_accuracy_and_entropy(tiny):
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    one = in_order(tiny.tokenizer, tiny.rows[:9], 1)
    assert naive.accuracy(tiny.model, one) == Evaluation(tiny.batches(9), tiny.heads).accuracy(tiny.model).value
    tiny.model.config._attn_implementation = "eager"
    found = tiny.heads.to_slots(naive.entropy(tiny.model, tiny.heads, one))
    assert torch.allclose(found, entropy.score(tiny.model, tiny.heads, tiny.batches(9)), rtol=1e-9)


@pytest.mark.parametrize(
    "name,parameters",
    [("BERT", 102_269_955), ("ALBERT", 11_685_891), ("RoBERTa", 355_361_794), ("XLM-RoBERTa", 278_059_028)],
)
def test_shapes_are_those_of_the_paper(name, parameters):
    model = without_weights(shapes.SHAPES[name])
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_rows_have_realistic_lengths():
    lengths = [len(row["text"]) for row in shapes.rows(shapes.SHAPES["BERT"], 500)]
    assert sum(lengths) / 500 == pytest.approx(shapes.SHAPES["BERT"].length, rel=0.1)
    assert min(lengths) < 10 and max(lengths) > 40


def test_peak_memory_is_what_was_allocated():
    def work():
        tensor = torch.ones(40 * 2**18)  # 40 MB
        time.sleep(0.1)  # for the sampler to see it on a busy machine
        del tensor
        torch.ones(2**18)

    assert 35 < clock.peak_mb(work) < 50


def test_everything_is_measured_and_summarized(tmp_path, monkeypatch):
    for name, shape in shapes.SHAPES.items():
        monkeypatch.setitem(
            shapes.SHAPES,
            name,
            shapes.Shape(shape.family, 3, 4, 32, 100, 520, 2, 12, shape.batch, 4, min(shape.passes, 3)),
        )
    monkeypatch.setattr(measure_growth, "SHAPE", shapes.SHAPES["BERT"])
    monkeypatch.setattr(
        measure_growth, "POINTS", measure_growth.POINTS | {"heads kept": (4, 2, 1), "layers": (1, 2, 3)}
    )
    monkeypatch.setattr(shapes, "NARROW", shapes.SHAPES["MiniLM"])
    files = []
    for name in shapes.SHAPES:
        files.append(tmp_path / f"{name}.csv")
        measure_shape.main(name, 3, 8, files[-1])
    measure_growth.main(3, tmp_path / "growth.csv")
    suite = [tmp_path / f"{name}.csv" for name in ("trajectory", "reuse", "exactness")]
    measure_suite.main([small_model(tmp_path)], "auto", 4000, 3, *suite)
    outputs = {kind: tmp_path / f"bench.{kind}" for kind in ("csv", "markdown", "png", "pdf")}
    settings = {"repeats": 3, "evaluated": 8, "dpi": 60}
    summarize_bench.main(files, tmp_path / "growth.csv", *suite, settings, outputs)
    assert all(path.stat().st_size > 1000 for path in outputs.values())
    table = pd.read_csv(outputs["csv"])
    assert set(table["section"]) == {
        "greedy step",
        "full batches",
        "memory",
        "accuracy",
        "entropy",
        "trajectory",
        "growth",
        "the paper's runs",
        "exactness",
    }
    ratio = table.query("what == 'notebooks / engine' and shape == 'BERT'").iloc[0]
    assert ratio["target"] == ">= 15" and ratio["reached"] == (ratio["value"] >= 15)
    assert ratio["low"] <= ratio["value"] <= ratio["high"]
    exact = table.query("what == 'float64, here, largest error'")
    assert (exact["value"] < 1e-9).all() and list(exact["shape"]) == ["BERT", "BERT, half of the heads pruned"]
    assert len(table.query('section == "the paper\'s runs"')) == 12


def small_model(folder):
    from support import Tiny

    tiny = Tiny("bert")
    checkpoints.save(folder / "model", tiny.model.float(), tiny.tokenizer)
    data = folder / "dataset"
    data.mkdir()
    rows = [row for row in tiny.rows if row["label"] >= 0]
    pd.DataFrame(rows).to_parquet(data / "rows.parquet")
    write_json(data / "splits.json", {"calibration": [0, 1, 2, 3], "evaluation": list(range(4, 12))})
    return "BERT", folder / "model", data


def test_ratios_are_of_the_same_round(tmp_path):
    """A machine that is twice as slow for one round does not widen a ratio."""
    records = [
        {"section": "step", "shape": "BERT", "procedure": p, "repeat": r, "value": v * slow, "machine": "m"}
        for r, slow in enumerate((1, 2, 1))
        for p, v in (("engine", 3.0), ("floor", 2.0))
    ]
    pd.DataFrame(records).to_csv(tmp_path / "x.csv", index=False)
    ratio = summarize_bench.Measured([tmp_path / "x.csv"]).ratio("step", "BERT", "engine", "floor")
    assert ratio.tolist() == [1.5, 1.5, 1.5]


def test_bench_is_planned_apart_from_everything_else(smoke):
    planned = snakemake(smoke, "-n", "--config", "suite=smoke", "--quiet", "rules", "--", "bench")
    assert planned.returncode == 0, planned.stderr[-2000:]
    counts = dict(line.split()[:2] for line in (planned.stdout + planned.stderr).splitlines() if len(line.split()) == 2)
    assert (counts["measure_shape"], counts["summarize_bench"]) == ("5", "1")
    assert "prune_heads" not in counts
