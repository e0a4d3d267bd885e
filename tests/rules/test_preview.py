"""A curve to look at before all is done."""

import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import preview
import pytest
from matplotlib.image import imread
from support import copy_workflow, snakemake

from gnorm import files
from gnorm.statistics import unfinished
from gnorm.statistics.columns import STEPS

SMOKE = ("--config", "suite=smoke", "--")


NOW = {"seed": 1, "strategy": {"score": "gnorm", "settings": {"epsilon": 1e-7}}}


def write_part(path, runs, then=None, seed=1):
    """A part with these runs, and with `then` its signature."""
    path.parent.mkdir(parents=True, exist_ok=True)
    steps = [
        dict.fromkeys(STEPS, 1) | {"run": r, "heads_pruned": p, "heads_left": 4 - p, "accuracy": 0.5 / seed}
        for r in runs
        for p in range(5)
    ]
    pd.DataFrame(steps).to_csv(path, index=False)
    if then is not None:
        files.write_json(path.with_suffix(".json"), {"files": {path.name: files.digest(path)}, "belongs_to": then})


@pytest.fixture
def draw(tmp_path, caplog):
    """Write runs of (model, strategy), draw a preview of all six curves, and give the lines of its log."""

    def draw(finished: dict[tuple[str, str], int], runs: int = 2) -> list[str]:
        pairs = [(model, strategy) for model in ("A", "B") for strategy in ("gnorm", "ae", "neurons")]
        listed = [(f"{tmp_path}/{model}/{strategy}/0-{runs - 1}.csv", model, strategy) for model, strategy in pairs]
        for path, *pair in listed:
            if count := finished.get(tuple(pair), 0):
                write_part(Path(path), range(count))
        caplog.clear()
        with caplog.at_level("INFO", "gnorm"):
            preview.main(
                trajectories=listed,
                runs=runs,
                now={model: dict.fromkeys(("gnorm", "ae", "neurons"), NOW) for model in "AB"},
                units={"gnorm": "heads", "ae": "heads", "neurons": "neurons"},
                models={"A": "Model A", "B": "Model B"},
                strategies={"gnorm": {"drawn": False}, "ae": {"drawn": False}},
                settings={"columns": 2, "tasks": {"A": "classification", "B": "classification"}},
                dpi=50,
                outputs=[tmp_path / "Preview.png", tmp_path / "Preview.pdf"],
            )
        return caplog.messages

    return draw


def test_what_is_there_is_drawn_and_what_is_missing_is_said(draw, tmp_path):
    said = draw({})
    assert said[0] == "missing: gnorm of Model A (0 of 2 runs)" and len(said) == 7
    assert said[-1] == "no run is finished yet: there is nothing to draw" and not (tmp_path / "Preview.png").exists()
    said = draw({("A", "gnorm"): 2, ("A", "ae"): 1, ("B", "neurons"): 2})
    assert said[:2] == ["missing: ae of Model A (1 of 2 runs)", "missing: neurons of Model A (0 of 2 runs)"]
    assert said[-2] == f"drawn: {tmp_path}/Preview.png" and (tmp_path / "Preview.pdf").stat().st_size > 5000
    one = imread(tmp_path / "Preview.png").shape
    assert draw(dict.fromkeys([(m, s) for m in "AB" for s in ("gnorm", "ae", "neurons")], 2))[0].startswith("drawn: ")
    assert imread(tmp_path / "Preview.png").shape[1] > one[1]  # a panel for each model that has any curve


def test_runs_count_in_whatever_signed_part_they_are(draw, tmp_path):
    write_part(tmp_path / "A/gnorm/0-2.csv", range(3), NOW)
    write_part(tmp_path / "A/ae/0-2.csv", range(3))  # not of this division, and nobody knows of what settings
    said = draw({}, runs=1)
    assert "missing: ae of Model A (0 of 1 runs)" in said and not any("gnorm of Model A" in line for line in said)
    write_part(tmp_path / "A/gnorm/3-3.csv", [3], NOW)
    assert not any("gnorm of Model A" in line for line in draw({}, runs=4))
    said = draw({}, runs=5)
    assert "missing: gnorm of Model A (4 of 5 runs)" in said


def test_a_run_that_is_in_two_parts_is_drawn_once(tmp_path):
    for name, runs in (("0-0", [0]), ("0-2", range(3))):
        write_part(tmp_path / f"{name}.csv", runs, NOW)
    found, missing, outdated = unfinished.there([(f"{tmp_path}/0-2.csv", "A", "gnorm")], 3, {"A": {"gnorm": NOW}})
    assert found["A", "gnorm"].groupby("run").size().to_dict() == {0: 5, 1: 5, 2: 5} and not missing and not outdated


def test_a_run_with_a_model_of_its_own_is_looked_for_in_its_folder_alone(tmp_path):
    """Runs 1 and 2 of the model's own folder are of earlier, when they only resampled rows."""
    write_part(tmp_path / "A/0-2.csv", range(3), NOW)
    write_part(tmp_path / "A/run1/1-1.csv", [1], NOW, seed=2)
    listed = [(f"{tmp_path}/A/{name}.csv", "A", "gnorm") for name in ("0-0", "run1/1-1", "run2/2-2")]
    found, missing, _ = unfinished.there(listed, 3, {"A": {"gnorm": NOW}})
    assert found["A", "gnorm"].groupby("run")["accuracy"].first().to_dict() == {0: 0.5, 1: 0.25}
    assert missing == {("A", "gnorm"): "2 of 3 runs"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 2}, "another seed (2, now 1)"),
        ({"strategy": {"score": "gnorm", "settings": {"epsilon": 1}}}, "another strategy ({"),
        ({"{}/input": "0"}, "another {}/input"),
        ({"{}/gone": "0"}, "another {}/gone"),
        ({"scripts/preview.py": "0"}, "another scripts/preview.py"),
        ({f"{i}/gone": "0" for i in range(5)}, "another 0/gone, 1/gone, 2/gone and 2 more"),
    ],
)
def test_runs_of_earlier_settings_are_said_and_not_drawn(change, said, draw, tmp_path):
    (tmp_path / "input").write_text("1")
    change, said = {key.format(tmp_path): value for key, value in change.items()}, said.replace("{}", str(tmp_path))
    write_part(tmp_path / "A/gnorm/0-1.csv", range(2), NOW | change)
    write_part(tmp_path / "A/ae/0-1.csv", range(2), NOW | {f"{tmp_path}/input": files.digest(tmp_path / "input")})
    lines = draw({})
    assert "missing: gnorm of Model A (0 of 2 runs)" in lines and not any("ae of Model A" in line for line in lines)
    assert any(line.startswith(f"not drawn: gnorm of Model A (2 of earlier settings: {said}") for line in lines)
    write_part(tmp_path / "A/gnorm/0-0.csv", [0], NOW)  # the first is there anew
    lines = draw({})
    assert "missing: gnorm of Model A (1 of 2 runs)" in lines
    assert any(line.startswith(f"not drawn: gnorm of Model A (1 of earlier settings: {said}") for line in lines)


@pytest.mark.fault("a finished run was changed by hand when `preview` looks at it", "it is not drawn")
def test_what_was_changed_after_it_was_signed_is_not_drawn(draw, tmp_path):
    write_part(tmp_path / "A/gnorm/0-1.csv", range(2), NOW)
    write_part(tmp_path / "A/gnorm/0-1.csv", range(2), seed=2)
    assert f"not drawn: gnorm of Model A (2 of earlier settings: another {tmp_path}/A/gnorm/0-1.csv)" in draw({})
    (tmp_path / "A/gnorm/0-1.json").write_text("{")
    assert "not drawn: gnorm of Model A (2 of earlier settings: another signature, which cannot be read)" in draw({})


def test_it_is_drawn_while_a_run_goes_on_which_is_not_disturbed(tmp_path):
    """The first curve is there before the next, and before another model is trained to its end."""
    tree = copy_workflow(tmp_path)
    first, last = (f"results/smoke/BERT/trajectories/{name}/0-2.csv" for name in ("greedy_gnorm", "inverse_ae"))
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *SMOKE, last, first]
    run = subprocess.Popen(command, cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while not (tree / first).exists():
            assert run.poll() is None, run.stderr.read()[-3000:]
            time.sleep(0.1)
        drawn = snakemake(tree, *SMOKE, "preview")
        assert drawn.returncode == 0, drawn.stderr[-3000:]
        assert run.poll() is None and not (tree / last).exists()
        assert (tree / "results/smoke/running.json").exists()
    finally:
        said = run.communicate(timeout=300)[1]
    assert run.returncode == 0, said[-3000:]
    assert "missing: inverse_ae of BERT (0 of 3 runs)" in drawn.stderr
    assert "missing: greedy_gnorm of BERT" not in drawn.stderr
    assert (tree / "figures/smoke/Preview.png").exists() and (tree / last).exists()
    again = snakemake(tree, *SMOKE, "preview")
    assert again.returncode == 0 and "missing: inverse_ae of BERT" not in again.stderr
    assert "not drawn" not in again.stderr
    fewer = snakemake(tree, "--config", "suite=smoke", "runs=1", "--", "preview")
    assert fewer.returncode == 0, fewer.stderr[-3000:]
    assert "greedy_gnorm of BERT" not in fewer.stderr and "inverse_ae of BERT" not in fewer.stderr
    other = snakemake(tree, "--config", "suite=smoke", "seed=7", "--", "preview")
    assert other.returncode == 0, other.stderr[-3000:]
    assert "not drawn: inverse_ae of BERT (3 of earlier settings: another seed (2026, now 7))" in other.stderr
