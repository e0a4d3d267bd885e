"""What README and docs show of a suite is what its kept result files say."""

import re
import subprocess
import sys

import pandas as pd
import pytest
from support import ROOT, copy_workflow

from gnorm.pages import kept

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
