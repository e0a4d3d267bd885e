"""The reproduction report, from the files of a run."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest
import write_reproduction

from gnorm.files import write_json
from gnorm.published.verdict import COLUMNS

FACTS = {
    "suite": "test",
    "runs": 1,
    "granularity": "batch",
    "strategies": {"ae": {"score": "entropy", "rescore": "never"}},
}
FACTS["intervals"] = {"level": 0.9, "resamples": 4000, "seed": 7}
FACTS["models"] = [{"name": "M", "model": "Model", "rows from": "generated: finance", "evaluation": 40}]


@pytest.fixture
def signatures(tmp_path):
    for number, torch in enumerate(("2.13.0", "2.13.0", "2.14.0")):
        own = {"transformers": "5.23.0", "torch": torch, "device": "cpu", "threads": 2, "seed": 1}
        write_json(tmp_path / f"{number}.json", {"belongs_to": own})
    return [tmp_path / f"{number}.json" for number in range(3)]


def test_versions_are_those_that_the_runs_were_made_with(signatures):
    found = write_reproduction.versions(signatures).set_index("what")["which"]
    assert found[["transformers", "torch", "device", "threads"]].tolist() == ["5.23.0", "2.13.0, 2.14.0", "cpu", "2"]
    assert found["pandas"] == pd.__version__ and found["processor"]


def test_a_page_and_the_same_as_markdown(tmp_path, signatures):
    says = "Greedy-Gnorm beats attention entropy"
    row = {"part": "Claims", "item": says, "model": "Model", "status": "undecided", "this run": "undecided: area 0.9"}
    row |= {"effect": 0.5, "low": -1.0, "high": 2.0, "models": 1, "runs": 1, "rows": 40, "trials": 0}
    pd.DataFrame([row | {"it takes": "640 rows", "evidence": "PruningResults"}], columns=COLUMNS).to_csv(
        tmp_path / "verdict.csv", index=False
    )
    steps = pd.DataFrame({"model": "M", "strategy": "ae", "run": 0, "trial": None, "heads_pruned": range(3)})
    steps.to_csv(tmp_path / "tidy.csv", index=False)
    outputs = SimpleNamespace(page=tmp_path / "made/page.html", markdown=tmp_path / "made/page.md")
    given = {"verdict": tmp_path / "verdict.csv", "tidy": tmp_path / "tidy.csv", "signatures": signatures}
    write_reproduction.main(**given, figures=[], benchmarks=tmp_path, facts=FACTS, outputs=outputs)
    for text in (outputs.page.read_text(), outputs.markdown.read_text()):
        for said in (
            says,
            "640 rows",
            "-1.0 to +2.0",
            "1 / 1 / 40 / 0",
            "90% interval",
            "one gradient a batch",
            "2.14.0",
        ):
            assert said in text, said
        assert not re.search(r"(?i)\bnan\b", text)
