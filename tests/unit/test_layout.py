"""Paths: one room for all of them."""

import re

import pytest
from support import ROOT

from gnorm import layout
from gnorm.data import rows

TEMPLATES = {name: value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)}


def test_fill_leaves_other_wildcards():
    assert layout.fill(layout.ROWS, suite="mini") == "results/mini/{model}/dataset/rows.parquet"
    assert layout.fill(layout.ROWS, suite="mini", model="BERT") == "results/mini/BERT/dataset/rows.parquet"


def test_a_file_in_any_folder():
    assert str(layout.within("/elsewhere", layout.MASK, model="BERT")) == "/elsewhere/solutions/BERT/mask.csv"


def test_no_two_files_share_a_path():
    paths = [path for name, path in TEMPLATES.items() if path.startswith(("results/", "figures/"))]
    assert len(paths) == len(set(paths)) > 40


def test_pattern_reads_a_name_back():
    curve = layout.pattern(layout.PUBLISHED_CURVE, model=r"[\w-]+", published=r"[\w-]+")
    name = layout.fill(layout.PUBLISHED_CURVE, suite="mini", model="BERT", published="AE").rpartition("/")[2]
    assert curve.fullmatch(name).groupdict() == {"model": "BERT", "published": "AE"}
    assert not curve.fullmatch(name.replace("(", "["))


def test_a_run_with_a_model_of_its_own_has_its_own_files():
    assert layout.of_run(layout.CHECKPOINT, 0) == layout.CHECKPOINT
    assert layout.of_run(layout.CHECKPOINT, 2) == "results/{suite}/{model}/run2/checkpoint"
    log = layout.log("prune_heads", "{model}/{strategy}/{first}-{last}")
    assert layout.of_run(log, 2) == "results/{suite}/logs/run2/prune_heads/{model}/{strategy}/{first}-{last}.log"
    # Beside the model's name, the run's number would read as the shard's: run 1 from row 10, or run 11 from row 0?
    shard = "results/{suite}/AE_calculation_results/run1/{model}{first}_{last}AE.pt"
    assert layout.of_run(layout.PUBLISHED_SHARD, 1) == shard
    assert [layout.run_of(layout.folder_of(run)) for run in (0, 1, 23)] == [0, 1, 23]


@pytest.mark.parametrize("name", ["tables", "Logs", "solutions", "AE_calculation_results", "state", "packages"])
def test_a_model_may_not_be_named_like_a_folder_of_results(name):
    assert not layout.is_model_name(name)


@pytest.mark.parametrize("name", ["dataset", "Checkpoint", "entropy", "trajectories", "download", "criteria", "run1"])
def test_a_random_strategy_may_not_be_named_like_a_folder_of_a_model(name):
    assert not layout.is_strategy_name(name)


def test_other_names_are_free():
    assert layout.is_model_name("BERT") and layout.is_strategy_name("random") and layout.is_strategy_name("runner")


def test_the_docs_list_every_file():
    assert (ROOT / "docs/results.md").read_text().endswith(f"\n\n{layout.table()}\n")


def test_what_reads_a_folder_of_rows_knows_its_files():
    assert f"{layout.DATASET}/{rows.ROWS}" == layout.ROWS and f"{layout.DATASET}/{rows.SPLITS}" == layout.SPLITS


def test_no_other_room_knows_a_path():
    """Names below results/ and figures/ stand in `layout` alone, but for the files of the folder that `rows` reads."""
    files = [*ROOT.glob("scripts/**/*.py"), *ROOT.glob("rules/*.smk"), ROOT / "Snakefile"]
    names = {path.split("/")[-1] for path in layout.HELD} - {"config.yaml"}  # one of that name is no result
    known = [re.escape(name) for name in names if "{" not in name and "." in name]
    said = re.compile(rf"""["'](results|figures)/|\{{(suite|model|strategy)\}}/\w|/({"|".join(known)})["']""")
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        if path.name != "layout.py"
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if said.search(line) and "layout." not in line
    ]
    assert not wrong, "\n".join(wrong)
