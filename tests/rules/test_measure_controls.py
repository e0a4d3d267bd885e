"""What is left of a model without heads, without neurons, without both."""

import dataclasses
import json

import measure_controls
import pandas as pd
import pytest
from support import FAMILIES, OTHERS, on_disk, run_of

from gnorm.data import prepare
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.files import read_json
from gnorm.models.accounting import count
from gnorm.models.gates import Gates
from gnorm.models.heads import keep
from gnorm.models.neurons import neuron_map
from gnorm.pruning import controls
from gnorm.workbench import Workbench

NAMES = ["nothing", "all heads", "all neurons", "heads and neurons"]


def measure(folder, common=None, **settings):
    where = {"dataset_folder": folder / "dataset", "checkpoint": folder / "checkpoint"}
    bench = Workbench.load(**where, tokens=100, memory_mb=4000, keeps_outputs=False, **settings)
    measure_controls.main(bench=bench, common=common, output=folder / "controls.json")


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_controls_are_those_of_gates(family, make_tiny, tmp_path):
    case = on_disk(make_tiny(family), tmp_path)
    measure(tmp_path, metrics=["loss"])
    found = read_json(tmp_path / "controls.json")
    made, neurons = batches.make(case.tokenizer, case.rows[4:24], 100), neuron_map(case.model, 16)
    removed = dict(zip(NAMES, ([], [case.heads], [neurons], [case.heads, neurons]), strict=True))
    assert list(found) == NAMES
    for name, units in removed.items():
        closed = [Gates(case.model, unit) for unit in units]
        for gates in closed:
            gates.close([(row, slot) for row in range(gates.heads.shape[0]) for slot in range(gates.heads.shape[1])])
        measured = Evaluation(list(made), case.heads, wanted=["loss"]).accuracy(case.model)
        assert (found[name]["correct"], found[name]["evaluated"]) == (measured.correct, 20)
        assert found[name]["metrics"] == {"loss": pytest.approx(measured.metrics["loss"], rel=1e-4)}
        for gates in closed:
            gates.remove()
    assert found["nothing"]["parameters"] == count(case.model)
    cut = {name: found["nothing"]["parameters"] - part["parameters"] for name, part in found.items()}
    assert cut["heads and neurons"] == cut["all heads"] + cut["all neurons"] > cut["all heads"] > 0
    assert cut["all neurons"] == neurons.shape[0] * 64 * (
        len(neurons.parts) * 32 + (0 if "gate" in neurons.parts else 1)
    )


def test_without_a_map_of_neurons_there_are_the_controls_of_heads(make_tiny, tmp_path, monkeypatch, caplog):
    """As for a family whose heads were searched for."""
    on_disk(make_tiny("bert"), tmp_path)
    monkeypatch.setattr(controls, "known", lambda model: False)
    measure(tmp_path)
    assert list(read_json(tmp_path / "controls.json")) == NAMES[:2]
    assert "not known where a model of type bert has its neurons" in caplog.text


def test_neurons_are_those_of_the_model_whatever_a_head_map_says(make_tiny, tmp_path):
    """A map that came with the model need not know how many there are."""
    case = make_tiny("llama")
    given = dataclasses.replace(case.heads, inner=0)
    assert given.inner == 128 and case.heads.inner == 64
    keep(case.model, given)
    case = on_disk(case, tmp_path)
    measure(tmp_path)
    assert list(read_json(tmp_path / "controls.json")) == NAMES
    assert neuron_map(case.model, 0).width == 64


def test_the_table_of_controls(smoke):
    table = pd.read_csv(smoke / "results/smoke/tables/controls.csv").set_index(["model", "removed"])
    assert table.index.tolist() == [(model, name) for model in ("BERT", "ALBERT") for name in NAMES]
    for model in ("BERT", "ALBERT"):
        found = json.loads((smoke / f"results/smoke/{model}/controls.json").read_text())
        raw = run_of(smoke / "results/smoke", model, "ae")[0]
        for name, step in (("nothing", 0), ("all heads", -1)):
            assert table.loc[(model, name), "loss"] == pytest.approx(raw["loss"].iloc[step], rel=1e-4)
            assert table.loc[(model, name), "accuracy (%)"] == pytest.approx(100 * raw["accuracy"].iloc[step])
            assert table.loc[(model, name), "parameters"] == raw["parameters"].iloc[step]
        cut = [table.loc[(model, name), "share (%)"] for name in NAMES]
        assert cut[0] == 100 and cut[3] == pytest.approx(cut[1] + cut[2] - 100)
        assert found["all neurons"]["evaluated"] == raw["evaluated"].iloc[0]


@pytest.mark.fault("the unpruned model is worse than always answering the most common class", "the log says so, loudly")
def test_a_model_that_is_worse_than_guessing_is_said_loudly(make_tiny, tmp_path, caplog):
    """Give every row a label that the model does not choose, then the labels that it chooses."""
    case = on_disk(make_tiny("bert"), tmp_path)
    (batch,) = batches.make(case.tokenizer, case.rows[4:24], 100_000)
    chosen = dict(zip(batch.positions.tolist(), case.model(**batch.inputs).logits.argmax(1).tolist(), strict=True))
    for wrong, said in ((1, True), (0, False)):
        rows = [{**row, "label": (chosen.get(i - 4, 0) + wrong) % 3} for i, row in enumerate(case.rows)]
        pd.DataFrame(rows).to_parquet(tmp_path / "dataset/rows.parquet")
        caplog.clear()
        measure(tmp_path, prepare.majority(row["label"] for row in rows[4:]))
        warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert any(text.startswith("THE UNPRUNED MODEL IS RIGHT ON 0.0% OF") for text in warned) == said
