"""What `make check-gpu` makes of two trajectories, and what it says without a card; tests/gpu runs all of it."""

import os
import subprocess
import sys
from dataclasses import replace

import check_gpu
import pytest
import torch
from support import ROOT

from gnorm.benchmarks import card
from gnorm.pages.gpu import Line
from gnorm.pruning.trajectory import Step


def steps(order, scores):
    """A trajectory that prunes one slot after another, scored once."""
    made = [(Step(0, None, None, None, 0.9, 90, 100, 0, 3, 10, 0.1), scores)]
    for at, slot in enumerate(order, start=1):
        made.append((Step(at, *slot, scores[slot].item(), 0.8, 80, 100, at, 3 - at, 10, 0.1), None))
    return made


def good(lines):
    return [line.good for line in lines]


def test_orders_are_compared_up_to_near_ties():
    scores = torch.tensor([[1.0, 2.0, 2.0001]], dtype=torch.float64)
    here, other = [(0, 0), (0, 1), (0, 2)], [(0, 0), (0, 2), (0, 1)]
    assert good(card.same_order(steps(here, scores), steps(here, scores))) == [True] * 3
    line, *_ = card.same_order(steps(here, scores), steps(other, scores))
    assert line.good and line.found == "departs at step 2 of 3: scores 5e-05 apart, a near-tie"
    far = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    line, *_ = card.same_order(steps(here, far), steps(other, far))
    assert line.good is False and "NOT a near-tie" in line.found and "**NO**" in line.row
    # The CPU's choice was close to another one, but the card chose a third.
    close = torch.tensor([[1.0, 1.00001, 3.0]], dtype=torch.float64)
    line, *_ = card.same_order(steps(here, close), steps([(0, 2), (0, 0), (0, 1)], close))
    assert line.good is False


def test_scores_and_accuracies_are_compared():
    scores = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    order = [(0, 0), (0, 1), (0, 2)]
    other = [(replace(step, correct=step.correct - 5), taken) for step, taken in steps(order, scores * 1.01)]
    assert good(card.same_order(steps(order, scores), other)) == [True, False, False]


def test_a_part_that_fails_is_on_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("machine", "orders", "two_cards", "waits", "speed"):
        monkeypatch.setattr(card, name, lambda quick, **_: [Line("a part", "fine", True)])

    def broken(quick):
        raise RuntimeError("CUDA error: no kernel image\nand more")

    monkeypatch.setattr(card, "trained_twice", broken)
    assert check_gpu.main(quick=True) is False
    page = (tmp_path / "results/check-gpu/README.md").read_text()
    assert "| training | failed: CUDA error: no kernel image | **NO** |" in page and page.count("| a part |") == 5
    assert "Not as it should be: training." in page and page in capsys.readouterr().out


@pytest.mark.parametrize("second", [[], ["--second"]])
def test_without_a_card_it_says_so(tmp_path, second):
    if torch.cuda.is_available():
        pytest.skip("this machine has a card")
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts/check_gpu.py"), *second],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert made.returncode == 0 and "This machine has no NVIDIA card" in made.stdout, made.stderr
