"""Interrupted work goes on to the same results; a state of something else is refused and named."""

import copy
import hashlib
import re

import pytest
import torch

from gnorm import files
from gnorm.engine import training
from gnorm.engine.evaluate import Evaluation
from gnorm.models import checkpoints, surgery
from gnorm.pruning.trajectory import Stop, follow, replay
from gnorm.resume import State, job, remove_finished
from gnorm.scores import gnorm


def pieces(tiny, memory_mb=100):
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    calibration = tiny.batches(4)
    evaluation = Evaluation(tiny.batches(20), tiny.heads, memory_mb, ["macro_f1", "loss", "calibration_error"])
    evaluation.accuracy(tiny.model)  # as jobs do: outputs of the unpruned model are there
    return evaluation, lambda model: (gnorm.score(model, tiny.heads, calibration), {})


def told(steps):
    """Everything of a trajectory but its seconds, scores as bytes."""
    return [
        ({k: v for k, v in step.columns.items() if k != "seconds"}, scores)
        for step, scores in ((s, None if t is None else t.numpy().tobytes()) for s, t in steps)
    ]


@pytest.mark.parametrize("rescore", ["every_step", 3, "never"])
@pytest.mark.parametrize("family", ["bert", "albert"])
@pytest.mark.fault("a trajectory is cut after any of its steps", "it goes on to the same heads, scores and accuracies")
def test_a_trajectory_goes_on_from_every_step(make_tiny, family, rescore, record_property):
    tiny = make_tiny(family)
    evaluation, score = pieces(tiny)

    def followed(past=()):
        model = copy.deepcopy(tiny.model)
        return list(follow(model, tiny.heads, evaluation.copy(), score, "lowest", rescore, Stop(), past))

    whole = followed()
    for cut in range(len(whole) + 1):
        evaluation.measured.clear()
        assert told(whole[:cut] + followed(whole[:cut])) == told(whole)
    record_property("tried", len(whole) + 1)


def test_no_step_follows_a_trajectory_that_has_ended(make_tiny):
    tiny = make_tiny("bert")
    evaluation, score = pieces(tiny)
    stops = (Stop(heads=3), Stop(fraction=0.5), Stop(accuracy_drop=0.05))
    for stop in stops:
        options = {"rescore": "every_step", "stop": stop}
        whole = list(follow(copy.deepcopy(tiny.model), tiny.heads, evaluation.copy(), score, **options))
        model = copy.deepcopy(tiny.model)
        assert list(follow(model, tiny.heads, evaluation.copy(), score, **options, past=whole)) == []


@pytest.mark.parametrize("family", ["bert", "albert"])
@pytest.mark.fault("a random trial is cut after any of its levels", "it goes on to the same accuracies")
def test_a_trial_goes_on_from_every_level(make_tiny, family, record_property):
    tiny = make_tiny(family)
    evaluation, _ = pieces(tiny)
    rows, columns = tiny.heads.shape
    order = [(row, column) for row in range(rows) for column in range(columns)][::-1]
    levels = [0, 1, 2, len(order) // 2, len(order)]

    def replayed(past=0):
        evaluation.measured.clear()
        model = copy.deepcopy(tiny.model)
        return list(replay(model, tiny.heads, evaluation.copy(), order, levels, past))

    whole = replayed()
    for past in range(len(levels) + 1):
        assert replayed(past) == whole[past:]
    record_property("tried", len(levels) + 1)


def test_heads_pruned_at_once_are_those_pruned_one_by_one(tiny):
    one, other = copy.deepcopy(tiny.model), copy.deepcopy(tiny.model)
    order = [(0, 3), (tiny.heads.shape[0] - 1, 0), (0, 1)]
    for slot in order:
        surgery.prune(one, tiny.heads, [slot])
    surgery.prune(other, tiny.heads, order)
    for (name, a), (_, b) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


ENTRY = {
    "family": "bert", "layers": 2, "heads": 2, "width": 16, "feed_forward": 16, "epochs": 3, "batch": 8, "rate": 0.01,
}  # fmt: skip


class Killed(Exception):
    pass


class Fragile(State):
    """Ends the job after so many states, as a kill would."""

    def save(self, value):
        super().save(value)
        self.left -= 1
        if not self.left:
            raise Killed


@pytest.mark.fault("training is cut after any step", "it goes on to the same weights, bit by bit")
def test_training_goes_on_from_every_step(make_tiny, tmp_path, monkeypatch, record_property):
    """From scratch, and a pretrained model with dropout, whose draws must go on too."""
    monkeypatch.setattr(checkpoints, "SAVE_SECONDS", -1)  # after every step
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:20]
    checkpoints.save(tmp_path / "model", tiny.model.float(), tiny.tokenizer)
    tuned = ENTRY | {"source": "finetune", "from": {"path": tmp_path / "model"}, "dropout": 0.3}
    before = torch.are_deterministic_algorithms_enabled()
    try:
        for make, entry in ((training.train, ENTRY), (training.finetune, tuned)):
            whole = make(entry, tiny.tokenizer, rows, ["a", "b", "c"], 1)
            for kills in (1, 3, 4, 8):  # within an epoch, at its end, later
                state, tries = Fragile(tmp_path / "state.pt", {}), 0
                while True:
                    state.left, tries = kills, tries + 1
                    try:
                        model = make(entry, tiny.tokenizer, rows, ["a", "b", "c"], 1, state)
                        break
                    except Killed:
                        continue
                assert tries == -(-9 // kills) + (9 % kills == 0)
                state.finish()
                state.finished.unlink()
                for (name, a), (_, b) in zip(whole.state_dict().items(), model.state_dict().items(), strict=True):
                    assert torch.equal(a, b), name
    finally:
        torch.use_deterministic_algorithms(before)
    record_property("tried", 2 * (9 + 3 + 2 + 1))


REFUSALS = [
    ({"seed": 1}, {"seed": 2}, r"another seed \(1, now 2\)"),
    ({"m/a.bin": "1", "seed": 1}, {"m/a.bin": "2", "seed": 1}, r"another m/a.bin\."),
    ({"seed": 1}, {"seed": 1, "scripts/x.py": "1"}, r"another scripts/x.py\."),
]


@pytest.mark.parametrize("then,now,said", REFUSALS)
@pytest.mark.fault(
    "a state of another model, config or code", "refused, named with what differs, set aside; starts anew"
)
def test_a_state_of_something_else_is_refused_and_named(tmp_path, caplog, then, now, said):
    path = tmp_path / "a.pt"
    State(path, then).save([1])
    assert State(path, then).load() == [1]
    assert State(path, now).load() is None
    assert "a.pt is not gone on from: it belongs to " in caplog.text
    assert re.search(said, caplog.text)
    assert not path.exists() and path.with_suffix(".refused").exists()
    State(path, now).save([2])
    State(path, now).finish()
    assert [p.name for p in tmp_path.iterdir()] == ["a.finished"]


def test_a_finished_state_is_there_until_the_workflow_has_ended(tmp_path):
    state = State(tmp_path / "state/a.pt", {"seed": 1})
    state.save([1])
    state.finish()
    assert state.load() == [1] and not state.finished.exists()
    state.finish()
    other = State(tmp_path / "state/b.pt", {})
    other.save([2])
    remove_finished(tmp_path / "state")
    assert state.load() is None and other.load() == [2]
    other.finish()
    remove_finished(tmp_path / "state")
    assert list(tmp_path.iterdir()) == []
    remove_finished(tmp_path / "state")


@pytest.mark.fault("a state with a flipped bit, or cut short", "refused and named, set aside; starts anew")
def test_a_damaged_state_is_refused(tmp_path, caplog, record_property):
    state = State(tmp_path / "a.pt", {"seed": 1})
    state.save({"scores": torch.arange(100.0)})
    whole = state.path.read_bytes()
    middle = whole.index(torch.arange(100.0).numpy().tobytes()) + 200
    damaged = [whole[:n] for n in (0, 10, len(whole) // 2, len(whole) - 1)]
    damaged.append(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    for content in damaged:
        caplog.clear()
        state.path.write_bytes(content)
        assert state.load() is None
        assert "a.pt is not gone on from: it cannot be read" in caplog.text
    record_property("tried", len(damaged))


def test_a_state_belongs_to_files_code_and_libraries(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_bytes(b"1")
    (tmp_path / "model/.snakemake_timestamp").touch()
    (tmp_path / "rows").write_bytes(b"2")
    found = job("prune_heads", [tmp_path / "model", tmp_path / "rows"], ["gnorm.scores.gnorm"])
    assert found[f"{tmp_path}/model/weights"] == hashlib.sha256(b"1").hexdigest()
    assert found[f"{tmp_path}/rows"] == hashlib.sha256(b"2").hexdigest()
    code = {"scripts/prune_heads.py", "scripts/gnorm/scores/gnorm.py", "scripts/gnorm/pruning/trajectory.py"}
    assert code <= set(found) and not any("timestamp" in name for name in found)
    assert found["torch"] == torch.__version__


def test_states_are_plain_data(tmp_path):
    """Read weights-only, like every tensor file."""
    state = State(tmp_path / "a.pt", {"strategy": {"score": "gnorm"}})
    state.save({"steps": [{"layer": None, "score": 0.1, "head": 3}], "over": False})
    assert state.load() == {"steps": [{"layer": None, "score": 0.1, "head": 3}], "over": False}
    assert files.load_tensors(state.path)["belongs_to"] == {"strategy": {"score": "gnorm"}}
