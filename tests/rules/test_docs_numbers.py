"""What README and docs show of a suite is what its kept result files say."""

import re
import subprocess
import sys

import pandas as pd
import pytest
from support import ROOT, copy_workflow

from gnorm.pages import kept
from gnorm.statistics.columns import read_csv

PAGES = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in kept.pages(ROOT)}


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_say_what_the_files_say(page):
    """If not: `make docs-numbers`. A mark says that nothing is collected yet exactly as long as that is so."""
    assert kept.filled(PAGES[page], ROOT) == PAGES[page]


def test_every_mark_is_understood_and_every_kept_file_is_shown():
    marks = [mark for text in PAGES.values() for mark in kept.MARKED.finditer(text)]
    assert len(marks) == sum(text.count("<!-- from: ") for text in PAGES.values()) >= 3
    wanted = {path for mark in marks for path in kept._kept(ROOT, mark["suite"], mark["name"])}
    assert set((ROOT / kept.DATA).glob("*/*")) <= wanted


def test_tables_look_as_a_reader_knows_them():
    row = {"model": "tweets", "strategy": "greedy_gnorm", "area": 0.96712, "area ±": 0.00051}
    row |= {"at 25%": 0.97656, "at 25% ±": 0, "at 50%": 0.98047, "at 50% ±": 0.0021, "at 75%": 0.97266, "at 75% ±": 0}
    worse = row | {"strategy": "ae", "area": 0.8316, "area ±": 0.0056}
    assert kept._areas(pd.DataFrame([row, worse])).splitlines()[2:] == [
        "| tweets | `greedy_gnorm` | **0.967 ± 0.001** | 97.7 ± 0.0% | 98.0 ± 0.2% | 97.3 ± 0.0% |",
        "| tweets | `ae` | 0.832 ± 0.006 | 97.7 ± 0.0% | 98.0 ± 0.2% | 97.3 ± 0.0% |",
    ]
    percent = {"majority class (%)": 51.17, "bag of words (%)": 75.0, "model (%)": 87.11}
    baselines = pd.DataFrame([{"model": "movie reviews", **percent}])
    sizes = {"size before (MB)": 86.65, "size after (MB)": 78.61}
    solution = {"model": "movie reviews", "heads": 72, "pruned": 43, "accuracy after (%)": 83.98, **sizes}
    assert kept._before(baselines, pd.DataFrame([solution])).splitlines()[2] == (
        "| movie reviews | 51.2% | 75.0% | 87.1% | 43 of 72 | 84.0% | 86.7 -> 78.6 MB |"
    )


def bench_lines():
    """Make one or two lines of every kind that the pages take; the second shape is measured in part."""
    lines = [
        ("greedy step", "BERT", "notebooks", 38.9, 38.4, 41.7, "s", None),
        ("greedy step", "BERT", "notebooks / engine", 24.86, 24.0, 26.3, "x", True),
        ("greedy step", "BERT", "engine", 1.593, 1.56, 1.6, "s", None),
        ("full batches", "BERT", "engine / floor", 1.031, 1.01, 1.09, "x", False),
        ("accuracy", "MiniLM", "one at a time / here", 3.33, 2.81, 3.55, "x", True),
        ("entropy", "MiniLM", "peak memory, 128 rows", 32.84, 31.8, 33.5, "MB", None),
        ("entropy", "MiniLM", "peak memory, 512 rows", 31.7, 31.6, 31.7, "MB", None),
        ("entropy", "MiniLM", "peak memory, most / least", 1.04, 1.04, 1.04, "x", True),
        ("memory", "BERT", "peak of a step, batches of 2048 tokens", 1049.2, 1042, 1050, "MB", None),
        ("memory", "BERT", "the model itself", 390, 390, 390, "MB", None),
        ("trajectory", "BERT of the suite", "without / with reuse", 1.57, 1.57, 1.72, "x", True),
        ("the paper's runs", "BERT", "greedy run here, extrapolated", 5.32, None, None, "h", None),
        ("exactness", "BERT", "float64, here, largest error", 2.94e-15, None, None, "relative", True),
        ("exactness", "ALBERT", "float64, here, largest error", 1e-15, None, None, "relative", True),
        ("exactness", "BERT", "float32 error, here / naive", 1.09, None, None, "x", True),
        ("exactness", "ALBERT", "float32 error, here / naive", 0.8, None, None, "x", True),
    ]
    return pd.DataFrame(lines, columns=["section", "shape", "what", "value", "low", "high", "unit", "reached"])


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_benchmark_is_told_in_tables_and_sentences(tmp_path):
    bench_lines().to_csv(tmp_path / "bench.csv", index=False)
    bench = read_csv(tmp_path / "bench.csv")
    assert cells(kept._speed(bench)) == [
        ["BERT", "38.9 s", "", "1.59 s", "24.9x (24-26.3)", "1.03x (1.01-1.09)", "", ""],
        ["MiniLM", "", "", "", "", "", "3.33x (2.81-3.55)", ""],
    ]
    assert cells(kept._memory(bench)) == [["BERT", "390 MB", "1,049 MB"]]
    assert "batches of 2048 tokens" in kept._memory(bench)
    assert cells(kept._hours(bench)) == [["BERT", "5.32 h", "", ""]]
    assert kept._found(bench).splitlines() == [
        "- 8 of 9 targets are reached.",
        "- Reusing the layers below a pruned head makes the evaluations of a trajectory 1.57x (1.57-1.72) faster on "
        "BERT of the suite.",
        "- Entropy takes 32.8 MB for 128 rows, 31.7 MB for 512 rows.",
        "- Against the naive loop in float64, scores are off by at most 2.9e-15 in float64; in float32, on the trained "
        "models of the suite, whole and with half of their heads pruned, by 0.8 to 1.09 times what the naive loop in "
        "float32 is off by.",
    ]


def test_sentences_about_areas_claims_and_criteria():
    headline = pd.DataFrame({"strategy": ["greedy_gnorm", "ae", "random"], "A": ["0.902 ± 0.02", "0.931 ± 0", "0.8"]})
    headline["B"] = ["0.5 ± 0.1", "0.5 ± 0.2", "0.4"]
    assert kept._ahead(headline).splitlines() == [
        "- `ae` is ahead of `greedy_gnorm` on 1 of 2: A",
        "- `random` is ahead of `greedy_gnorm` on none",
    ]
    rows = [
        ("Table 1", "heads", "A", "3", "reproduced"),
        ("Claims", "it beats", "A", "yes: 0.9 against 0.8", "reproduced"),
        ("Claims", "it beats", "B", "no: 0.7 against 0.8", "differs"),
        ("Claims", "of the paper", "A", "needs what was not run", "not run"),
    ]
    verdict = pd.DataFrame(rows, columns=["part", "item", "model", "this run", "status"])
    assert cells(kept._claims(verdict)) == [["it beats", "yes: 0.9 against 0.8", "no: 0.7 against 0.8"]]
    criteria = pd.DataFrame({"model": ["A", "B", "A"], "criterion": ["g", "g", "f"], "area": [0.12345, 0.5, 1]})
    assert cells(kept._criteria(criteria)) == [["g", "0.123", "0.500"], ["f", "1.000", ""]]


def test_the_page_of_the_benchmark_is_taken_over(tmp_path):
    """Until then its marks say so, and what stands between them stays."""
    tree = copy_workflow(tmp_path)
    before = kept.filled((tree / "docs/benchmark.md").read_text(), tree)
    (tree / "results/bench").mkdir(parents=True)
    bench_lines().to_csv(tree / "results/bench/bench.csv", index=False)
    (tree / "results/bench/bench.md").write_text("# Benchmark\n\nMeasured.\n\n## Growth\n\n| a |\n")
    assert kept.collect(tree)[-1] == "bench: collected bench, page"
    assert kept.fill(tree) == ["README.md", "docs/benchmark.md"] and kept.fill(tree) == []
    after = (tree / "docs/benchmark.md").read_text()
    marks = "<!-- from: bench/page -->\nMeasured.\n\n## Growth\n\n| a |\n<!-- end -->\n"
    assert after == f"# Benchmark\n\n{marks}" != before
    assert {path.name for path in (tree / "docs/data/bench").iterdir()} == {"bench.csv", "page.md"}


@pytest.mark.fault(
    "a number of README that comes from a suite is edited by hand", "a test finds that text and result files differ"
)
def test_numbers_go_from_a_run_to_the_page(tmp_path):
    """Those of a suite that was not run stay; a page that is edited by hand is found."""
    tree = copy_workflow(tmp_path)
    headline = "strategy,BERT\ngreedy_gnorm,0.123 ± 0.004\n"
    (tree / "results/mini/tables").mkdir(parents=True)
    (tree / "results/mini/tables/headline.csv").write_text(headline)
    (tree / "figures/mini").mkdir(parents=True)
    (tree / "figures/mini/PruningResults.png").write_bytes(b"a picture")
    before = (tree / "README.md").read_text()
    made = subprocess.run(
        [sys.executable, tree / "scripts/docs_numbers.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert made.stdout.splitlines() == [
        "mini: collected headline",
        "minilm: no finished run is here (results/minilm/tables/areas.csv); its numbers stay",
        "bench: no finished run is here (results/bench/bench.csv); its numbers stay",
        "changed: README.md",
    ]
    text = (tree / "README.md").read_text()
    assert (tree / "docs/data/mini/headline.csv").read_text() == headline
    assert (tree / "docs/pruning-results.png").read_bytes() == b"a picture"
    assert "<!-- from: mini/headline -->\n| strategy     | BERT          |\n" in text and "| 0.123 ± 0.004 |" in text
    without = re.compile(r"(?s)<!-- from: mini/.*?<!-- end -->")
    assert without.sub("", text) == without.sub("", before)
    assert kept.filled(text, tree) == text
    edited = text.replace("0.123", "0.124")
    assert kept.filled(edited, tree) == text != edited
