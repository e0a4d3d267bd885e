"""The reproduction report: what it says, that it needs no network, and that what it counts is so."""

import re

import numpy as np
import pandas as pd
import pytest

from gnorm.pages import document, reproduction
from gnorm.published.verdict import COLUMNS

FACTS = {
    "suite": "test",
    "runs": 3,
    "granularity": "sentence",
    "intervals": {"level": 0.95, "resamples": 4000, "seed": 7},
    "strategies": {
        "greedy_gnorm": {"score": "gnorm", "prune": "lowest", "rescore": "every_step"},
        "ae": {"score": "entropy", "prune": "highest", "rescore": "never"},
        "seldom": {"score": "gnorm", "prune": "lowest", "rescore": 2},
        "random": {"score": "random"},
    },
    "models": [{"name": "M", "model": "Model", "task": "classification", "rows from": "generated: finance"}],
}
BEATS, REBOUNDS, SHARDS = (
    "Greedy-Gnorm beats attention entropy",
    "Accuracy rebounds on the way",
    "The entropy shards give the merged entropy",
)


def verdict():
    own = {"part": "Claims", "model": "Model", "published": "", "models": 1, "runs": 3, "rows": 500, "trials": 0}
    rows = [
        own | {"item": BEATS, "status": "holds", "this run": "holds: area 0.9", "effect": 3.0, "low": 1.0, "high": 5.2},
        own
        | {"item": REBOUNDS, "status": "undecided", "this run": "undecided: so so", "it takes": "1,234 rows"}
        | {"effect": -0.04, "low": -1.5, "high": 1.4},
        own | {"item": SHARDS, "status": "not run", "this run": "add `this`", "models": None, "runs": None},
    ]
    made = pd.DataFrame(rows, columns=COLUMNS).fillna({"it takes": "", "difference": ""})
    return made.assign(evidence="PruningResults")


def tidy():
    rows = [("greedy_gnorm", run, None, n) for run in range(3) for n in range(5)] + [
        ("ae", 0, None, n) for n in range(5)
    ]
    rows += [("seldom", 0, None, n) for n in range(5)] + [("random", None, t, n) for t in range(2) for n in (0, 4)]
    return pd.DataFrame(rows, columns=["strategy", "run", "trial", "heads_pruned"]).assign(model="M")


@pytest.fixture
def blocks(tmp_path):
    picture = tmp_path / "figures/PruningResults.png"
    picture.parent.mkdir()
    picture.write_bytes(b"\x89PNG")
    jobs = pd.DataFrame([["`prune_heads`", 2, 1.5, 1.0, 300.0]], columns=["job", *reproduction.HOURS])
    versions = pd.DataFrame([("runs", "torch", "2.13.0")], columns=["of", "what", "which"])
    given = {"verdict": verdict(), "tidy": tidy(), "facts": FACTS, "jobs": jobs, "versions": versions}
    return reproduction.blocks(**given, figures=[str(picture)])


def test_it_says_what_was_asked_done_found_and_not_found(blocks, tmp_path):
    page, text = document.html(blocks, "Report"), document.markdown(blocks, tmp_path / "results")
    parts = (
        "Scope",
        "Method and deviations",
        "Results, claim by claim",
        "What could not be decided",
        "What was not run",
    )
    for part in (*parts, "Cost", "Versions and hardware"):
        assert part in page and part in text
    for said in (
        "1 holds, 1 undecided, 1 not run",
        "AE underperforms Greedy-Gnorm",
        "1,234 rows",
        "area 0.9",
        "2.13.0",
    ):
        assert said in text
    assert "-1.5 to +1.4" in text and "| 1 / 3 / 500 / 0" in text and "add `this`" in text
    assert "<code>this</code>" in page and '<td class="status holds">holds</td>' in page
    assert "![PruningResults](../figures/PruningResults.png)" in text
    assert text.count("![PruningResults]") == 1 and "See the figure `PruningResults` above" in text


def test_it_needs_no_network_and_keeps_its_styles_to_itself(blocks):
    page = document.html(blocks, "Report")
    assert not re.search(r"https?:|url\(|<script|<link|@import", page)
    assert re.findall(r'src="([^"]{22})', page) == ["data:image/png;base64,"]
    rules = re.sub(r"@media print \{|\s+", " ", re.search(r"<style>(.*?)</style>", page, re.S)[1]).split("}")
    selectors = [selector for rule in rules if "{" in rule for selector in rule.split("{")[0].split(",")]
    assert selectors and all(selector.strip().startswith(".gnorm") for selector in selectors)


def test_intervals_are_drawn_to_scale():
    rows = [("A", "holds", 2.0, 1.0, 3.0), ("B", "undecided", -1.0, float("nan"), float("nan"))]
    drawn = document.Intervals("points", rows).html()
    zero = float(re.search(r'<line x1="([\d.]+)" y1="2"', drawn)[1])
    low, high = map(float, re.search(r'<line x1="([\d.]+)" y1="16" x2="([\d.]+)"', drawn).groups())
    one, other = map(float, re.findall(r'<circle cx="([\d.]+)"', drawn))
    point = low - zero
    assert point > 20 and high - zero == pytest.approx(3 * point, abs=0.3)
    assert one - zero == pytest.approx(2 * point, abs=0.3) and other - zero == pytest.approx(-point, abs=0.3)
    assert drawn.count("<line") == 2  # zero, and one interval


def test_passes_are_counted():
    """Greedy scores before each of four steps in three runs, entropy once, the third before two of its steps."""
    (row,) = reproduction.passes(tidy(), FACTS).to_dict("records")
    assert row == {"model": "Model", "accuracy measured": "29", "scores taken": str(3 * 4 + 1 + 2)}


def test_hours_are_summed_by_kind_of_job(tmp_path):
    head = "s\th:m:s\tmax_rss\tcpu_time\n"
    files = {
        "prune_heads/M/ae/0-0.tsv": head + "3600\t1:00:00\t100\t1800\n",
        "run1/prune_heads/M/ae/1-1.tsv": head + "1800\t0:30:00\t300\t900\n",
        "make_checkpoint/M.tsv": head + "36\t0:00:36\t-\t-\n",
        "make_checkpoint/N.tsv": "cut",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = reproduction.jobs_of(tmp_path).set_index("job")
    assert found.loc["`prune_heads`"].tolist() == [2, 1.5, 0.75, 300]
    assert found.loc["`make_checkpoint`", ["jobs", "hours"]].tolist() == [1, 0.01]
    assert np.isnan(found.loc["`make_checkpoint`", "most memory (MB)"])
    assert reproduction.jobs_of(tmp_path / "nowhere").empty
