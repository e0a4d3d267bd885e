"""When scores are taken."""

import pytest

from gnorm.pruning.rescoring import due, once, rounds


@pytest.mark.parametrize(
    ("rescore", "steps_after_which", "how_often"),
    [("every_step", [1, 2, 3, 4, 5, 6, 7], 8), ("never", [], 1), (3, [3, 6], 3), (8, [], 1)],
)
def test_a_trajectory_of_eight_steps(rescore, steps_after_which, how_often):
    """After the last step nothing is left to choose."""
    assert [step for step in range(1, 8) if due(rescore, step)] == steps_after_which
    assert rounds(rescore, 8) == how_often and rounds(rescore, 0) == 0
    assert once(rescore) == (rescore == "never")
