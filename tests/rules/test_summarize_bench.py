"""The benchmark: what is measured comes out as a table, a page and a plot."""

from dataclasses import replace

import measure_growth
import measure_shape
import measure_suite
import pandas as pd
import summarize_bench
from support import ROOT, Tiny, snakemake

from gnorm.benchmarks import growth, shapes
from gnorm.benchmarks.summary import Measured
from gnorm.files import write_json
from gnorm.models import checkpoints
from gnorm.settings import suites


def test_everything_is_measured_and_summarized(tmp_path, monkeypatch):
    small = {"layers": 3, "heads": 4, "width": 32, "embedding": 16, "vocabulary": 100, "positions": 520, "classes": 2}
    for name, shape in shapes.SHAPES.items():
        own = small if shape.tied else small | {"embedding": 32}
        made = replace(shape, **own, length=12, rows=4, passes=min(shape.passes, 3))
        monkeypatch.setitem(shapes.SHAPES, name, made)
    monkeypatch.setattr(growth, "SHAPE", shapes.SHAPES["BERT"])
    monkeypatch.setattr(growth, "POINTS", growth.POINTS | {"heads kept": (4, 2, 1), "layers": (1, 2, 3)})
    monkeypatch.setattr(shapes, "NARROW", shapes.SHAPES["MiniLM"])
    files = []
    for name in shapes.SHAPES:
        files.append(tmp_path / f"{name}.csv")
        measure_shape.main(shape=name, repeats=3, evaluated=8, output=files[-1])
    measure_growth.main(repeats=3, output=tmp_path / "growth.csv")
    trained = {name: tmp_path / f"{name}.csv" for name in ("trajectory", "reuse", "exactness")}
    measure_suite.main(models=[small_model(tmp_path)], repeats=3, outputs=trained)
    outputs = {kind: tmp_path / f"bench.{kind}" for kind in ("csv", "markdown", "png", "pdf")}
    settings = {"repeats": 3, "evaluated": 8, "dpi": 60}
    parts = {"growth": tmp_path / "growth.csv", **trained}
    suite = suites.models_of(ROOT, "paper")
    summarize_bench.main(shapes=files, parts=parts, suite=suite, settings=settings, outputs=outputs)
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
    tiny = Tiny("bert")
    checkpoints.save(folder / "model", tiny.model.float(), tiny.tokenizer)
    data = folder / "dataset"
    data.mkdir()
    rows = [row for row in tiny.rows if row["label"] >= 0]
    pd.DataFrame(rows).to_parquet(data / "rows.parquet")
    write_json(data / "splits.json", {"calibration": [0, 1, 2, 3], "evaluation": list(range(4, 12))})
    return "BERT", folder / "model", {"dataset_folder": data, "memory_mb": 4000}


def test_ratios_are_of_the_same_round(tmp_path):
    """A machine that is twice as slow for one round does not widen a ratio."""
    records = [
        {"section": "step", "shape": "BERT", "procedure": p, "repeat": r, "value": v * slow, "machine": "m"}
        for r, slow in enumerate((1, 2, 1))
        for p, v in (("engine", 3.0), ("floor", 2.0))
    ]
    pd.DataFrame(records).to_csv(tmp_path / "x.csv", index=False)
    ratio = Measured([tmp_path / "x.csv"]).ratio("step", "BERT", "engine", "floor")
    assert ratio.tolist() == [1.5, 1.5, 1.5]


def test_bench_is_planned_apart_from_everything_else(smoke):
    planned = snakemake(smoke, "-n", "--config", "suite=smoke", "--quiet", "rules", "--", "bench")
    assert planned.returncode == 0, planned.stderr[-2000:]
    counts = dict(line.split()[:2] for line in (planned.stdout + planned.stderr).splitlines() if len(line.split()) == 2)
    assert (counts["measure_shape"], counts["summarize_bench"]) == ("5", "1")
    assert "prune_heads" not in counts
