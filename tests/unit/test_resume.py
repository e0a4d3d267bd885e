"""Interrupted work goes on to the same results; a state of something else is refused and named."""

import copy
import hashlib
import re
import shutil
from types import SimpleNamespace

import pandas as pd
import prune_heads
import pytest
import random_pruning
import torch
import transformers
from snakemake.iocontainers import Namedlist
from support import ROOT, part_files

from gnorm import files
from gnorm.engine import training
from gnorm.engine.evaluate import Evaluation
from gnorm.errors import UserError
from gnorm.models import checkpoints, surgery
from gnorm.pruning.trajectory import Stop, follow, replay
from gnorm.resume import State, remove_finished
from gnorm.scores import gnorm
from gnorm.statistics import outcomes
from gnorm.statistics.columns import read_run
from gnorm.workbench import Workbench


def pieces(tiny, memory_mb=100):
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    calibration = tiny.batches(4)
    evaluation = Evaluation(tiny.batches(20), tiny.heads, memory_mb, ["macro_f1", "loss", "calibration_error"])
    evaluation.accuracy(tiny.model)  # as jobs do: outputs of the unpruned model are there
    return evaluation, lambda model: (gnorm.score(model, tiny.heads, calibration), {})


def told(steps):
    """Everything of a trajectory but its seconds, scores and what was answered on each row as bytes."""
    return [
        ({k: v for k, v in step.columns.items() if k != "seconds"}, scores, answered(step))
        for step, scores in ((s, None if t is None else t.numpy().tobytes()) for s, t in steps)
    ]


def answered(measured):
    """What was answered on each row, as bytes."""
    return {name: array.tobytes() for name, array in vars(measured.by_row).items()}


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
        found = replayed(past)
        assert found == whole[past:]
        assert [answered(one) for _, one in found] == [answered(one) for _, one in whole[past:]]
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


class Killing(State):
    """Ends the job after so many states of all its parts together."""

    left: int | None = None

    def save(self, value):
        super().save(value)
        if Killing.left is not None:
            Killing.left -= 1
            if not Killing.left:
                raise Killed


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
    monkeypatch.setattr(training, "SAVE_SECONDS", -1)  # after every step
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:20]
    checkpoints.save(tmp_path / "model", tiny.model.float(), tiny.tokenizer)
    tuned = ENTRY | {"path": tmp_path / "model", "dropout": 0.3}
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
    ({"m/a.bin": "1", "seed": 1}, {"m/a.bin": "2", "seed": 1}, r"another m/a.bin;"),
    ({"seed": 1}, {"seed": 1, "scripts/x.py": "1"}, r"another scripts/x.py;"),
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
    assert f"ignoring saved progress in {path}: it belongs to " in caplog.text
    assert re.search(said, caplog.text)
    assert not path.exists() and path.with_suffix(".refused").exists()
    State(path, now).save([2])
    State(path, now).finish()
    assert [p.name for p in tmp_path.iterdir()] == ["a.finished"]


def test_a_state_is_refused_and_finished_with_its_parts(tmp_path):
    state = State(tmp_path / "a.run1.pt", {"seed": 1})
    others = [State(tmp_path / f"{name}.pt", {}) for name in ("a.run10", "a", "b.run1")]
    for each in (*others, state, state.part("rows0"), state.part("rows16")):
        each.save([1])
    assert State(state.path, {"seed": 2}).load() is None
    refused = ["a.run1.refused", "a.run1.rows0.refused", "a.run1.rows16.refused"]
    assert sorted(path.name for path in tmp_path.glob("*.refused")) == refused
    state.save([2])
    state.part("rows0").save([2])
    state.finish()
    assert [path.name for path in sorted(tmp_path.glob("a.run1.*"))] == ["a.run1.finished", "a.run1.rows0.finished"]
    assert state.load() == [2] == state.part("rows0").load() and not list(tmp_path.glob("*.finished"))
    assert all(other.load() == [1] for other in others)
    assert state.part("rows0").belongs_to["part"] == "rows0"
    assert state.part("x").part("rows0").belongs_to["part"] == "x.rows0"


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
    of_run, unfinished = (State(tmp_path / f"state/run{run}/a.pt", {}) for run in (1, 2))
    for state in (of_run, unfinished):
        state.save([3])
    of_run.finish()
    remove_finished(tmp_path / "state")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == [
        "state",
        "state/run2",
        "state/run2/a.pt",
    ]
    unfinished.finish()
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
        assert "a.pt: it cannot be read" in caplog.text
    record_property("tried", len(damaged))


def job(folder, first="0", **changes):
    """A job as scripts see it: an input without a name, a folder, a list."""
    inputs = Namedlist([f"{folder}/outside", f"{folder}/model", f"{folder}/a.py", f"{folder}/b.py"])
    inputs._set_name("checkpoint", 1)
    inputs._set_name("code", 2, end=4)
    params = {"state": f"{folder}/state/BERT.ae.pt", "seed": 1, "stop": {}, "bench": {"tokens": "auto"}} | changes
    wildcards = Namedlist(fromdict={"model": "BERT", "first": first})
    return SimpleNamespace(rule="prune_heads", input=inputs, params=Namedlist(fromdict=params), wildcards=wildcards)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_bytes(b"1")
    (tmp_path / "model/.snakemake_timestamp").touch()
    for name in ("outside", "a.py", "b.py"):
        (tmp_path / name).write_bytes(b"2")
    return tmp_path


USED = {"device": "cpu", "tokens": 64}


def test_a_state_belongs_to_inputs_parameters_and_what_is_used(folder):
    state = State.of_job(job(folder), USED, apart=("first",))
    assert state.path == folder / "state/BERT.ae.pt"
    weights, code = hashlib.sha256(b"1").hexdigest(), hashlib.sha256(b"2").hexdigest()
    assert state.belongs_to == {
        "scripts/prune_heads.py": files.digest(ROOT / "scripts/prune_heads.py"),
        f"{folder}/model/weights": weights,
        **{f"{folder}/{name}": code for name in ("a.py", "b.py", "outside")},
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "wildcards": {"model": "BERT"},
        "seed": 1,
        "stop": {},
        **USED,
    }


def test_what_changes_a_step_is_refused_and_nothing_else(folder, caplog):
    def state(used=USED, **changes):
        return State.of_job(job(folder, **changes), used, apart=("first", "trials")).part("run0")

    state(trials=3).save([1])
    for same in ({"first": "4"}, {"trials": 5}, {"bench": {"tokens": 64, "memory_mb": 9000}}):
        assert state(**{"trials": 3, **same}).load() == [1], same
    for name in ("outside", "model/weights", "a.py", "b.py"):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(b"3")
        assert state(trials=3).load() is None and f"another {folder}/{name};" in caplog.text
        (folder / name).write_bytes(before)
        state(trials=3).save([1])
    for change, said in (
        ({"seed": 2}, r"another seed \(1, now 2\)"),
        ({"stop": {"heads": 2}}, r"another stop \({}, now {'heads': 2}\)"),
        ({"new": 1}, r"another new \(none, now 1\)"),
        ({"used": {**USED, "tokens": 32}}, r"another tokens \(64, now 32\)"),
        ({"used": {**USED, "device": "cuda"}}, r"another device \(cpu, now cuda\)"),
    ):
        assert state(**change).load() is None and re.search(said, caplog.text), said
        state().save([1])


def test_only_outputs_of_the_same_work_that_are_as_they_were_written_are_taken(tmp_path, caplog):
    made, state = tmp_path / "0-2.csv", State(tmp_path / "state/a.pt", {"seed": 1})
    made.write_text("run\n0\n")
    (tmp_path / "0-2.scores.pt").write_text("scores")
    signature = tmp_path / "0-2.json"
    assert list(state.signed(tmp_path)) == []  # without a signature a file says nothing of where it comes from
    state.sign(signature, made, tmp_path / "0-2.scores.pt")
    assert list(state.signed(tmp_path)) == [signature]
    assert list(State(state.path, {"seed": 2}).signed(tmp_path)) == []
    assert list(state.part("run0").signed(tmp_path)) == []
    made.write_text("run\n1\n")
    assert list(state.signed(tmp_path)) == []
    made.write_text("run\n0\n")
    assert list(state.signed(tmp_path)) == [signature]
    (tmp_path / "0-2.scores.pt").unlink()
    assert list(state.signed(tmp_path)) == [] and f"ignoring {signature}" in caplog.text
    for damaged in ("", "[]", "{}", signature.read_text()[:-20]):
        signature.write_text(damaged)
        assert list(state.signed(tmp_path)) == []


STRATEGY = {"score": "gnorm", "prune": "lowest", "rescore": 2, "settings": {}}


@pytest.mark.parametrize("kind", ["runs", "trials"])
def test_more_runs_or_trials_take_those_there_are(make_tiny, tmp_path, monkeypatch, kind):
    """From finished parts and from states, whatever part they were made in: to the same bytes, seconds too."""
    tiny = make_tiny("bert", layers=2, heads=2)
    rows, ran, real = [row for row in tiny.rows if row["label"] >= 0][:8], [], Workbench.copy
    monkeypatch.setattr(Workbench, "copy", lambda bench: ran.append(1) or real(bench))

    def make(first, last, folder="parts", seed=1, kills=None):
        """How many models were pruned for a part, and its outputs."""
        ran.clear()
        state = Killing(tmp_path / f"state/{kind}.pt", {"seed": seed})
        Killing.left = kills
        bench, name = tiny.bench(rows[:4], rows[2:], metrics=["loss"]), "trajectories" if kind == "runs" else "trials"
        outputs = part_files(tmp_path / folder / f"{first}-{last}", name, *(["scores"] if kind == "runs" else []))
        common, numbers = {"bench": bench, "seed": seed, "state": state, "outputs": outputs}, range(first, last + 1)
        if kind == "runs":
            prune_heads.main(**common, strategy=STRATEGY, runs=numbers, stop={})
        else:
            random_pruning.main(**common, strategy="random", unit={}, trials=numbers, levels=3)
        remove_finished(tmp_path / "state")  # as after a whole workflow
        return len(ran), outputs

    count, whole = make(0, 4, folder="whole")
    assert count == 5
    made = {first: make(first, last) for first, last in ((0, 1), (2, 3))}
    assert [count for count, _ in made.values()] == [2, 2]
    count, joined = make(0, 4)
    assert count == 1
    same_but_seconds(joined, whole)
    for _, part in made.values():  # what is taken over is taken as it is
        own = vars(part)["trajectories" if kind == "runs" else "trials"].read_text().splitlines()
        assert set(own) <= set(vars(joined)["trajectories" if kind == "runs" else "trials"].read_text().splitlines())
    assert make(0, 4, seed=2)[0] == 5  # signed for another seed
    with pytest.raises(Killed):  # within the third one
        make(0, 3, folder="cut", kills=2 * (11 if kind == "runs" else 6) + 2)
    count, grown = make(0, 4, folder="cut")
    assert count == 3
    same_but_seconds(grown, whole)


@pytest.mark.parametrize("kind", ["damaged", "gone"])
@pytest.mark.fault(
    "of a run's progress, what was answered on each row is damaged or gone", "named; the run starts anew"
)
def test_a_run_without_its_rows_starts_anew(make_tiny, tmp_path, caplog, kind):
    tiny = make_tiny("bert", layers=2, heads=2)
    rows = [row for row in tiny.rows if row["label"] >= 0][:8]
    job = {"bench": tiny.bench(rows[:4], rows[2:]), "strategy": STRATEGY, "runs": range(1), "seed": 1, "stop": {}}

    def make(name, kills=None):
        Killing.left = kills
        outputs, state = part_files(tmp_path / name, "trajectories", "scores"), Killing(tmp_path / "state/a.pt", {})
        prune_heads.main(**job, state=state, outputs=outputs)
        return outputs

    whole = make("whole/0-0")
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(Killed):
        make("cut/0-0", 7)
    kept = tmp_path / "state/a.run0.rows0.pt"
    kept.write_bytes(kept.read_bytes()[:-9]) if kind == "damaged" else kept.unlink()
    again = make("cut/0-0")
    assert "a.run0.pt: what was answered on each row is not there" in caplog.text
    assert ("a.run0.rows0.pt: it cannot be read" in caplog.text) == (kind == "damaged")
    same_but_seconds(again, whole)
    assert {path.suffix for path in (tmp_path / "state").iterdir()} == {".finished"}


def same_but_seconds(one, other):
    for a, b in zip(vars(one).values(), vars(other).values(), strict=True):
        if a.suffix == ".csv":
            tables = (pd.read_csv(path, dtype=str).drop(columns="seconds", errors="ignore") for path in (a, b))
            pd.testing.assert_frame_equal(*tables)
        elif a.suffix in (".pt", ".npz"):
            assert a.read_bytes() == b.read_bytes()


def test_a_run_can_be_read_before_the_next_one_is_over(make_tiny, tmp_path):
    tiny = make_tiny("bert", layers=2, heads=2)
    rows = [row for row in tiny.rows if row["label"] >= 0][:8]
    outputs = part_files(tmp_path / "0-2", "trajectories", "scores")
    state = Killing(tmp_path / "state.pt", {})
    job = {"bench": tiny.bench(rows[:4], rows[2:]), "strategy": STRATEGY, "runs": range(3), "seed": 1, "stop": {}}
    for kills, over in ((14, [0]), (12, [0, 1])):  # a run is five steps of two states each, and its end
        Killing.left = kills
        with pytest.raises(Killed):
            prune_heads.main(**job, state=state, outputs=outputs)
        assert pd.read_csv(outputs.trajectories)["run"].unique().tolist() == over
        assert len(read_run(outputs.trajectories, over[-1])) == 5 and not outputs.signature.exists()
        before = outputs.trajectories.read_text()
        outputs.trajectories.unlink()  # as Snakemake does where a job has failed
    Killing.left = None
    prune_heads.main(**job, state=state, outputs=outputs)
    assert outputs.trajectories.read_text().startswith(before)  # seconds too: from the state
    scores = files.load_tensors(outputs.scores)
    assert list(scores) == [0, 1, 2] and all(own.shape == (2, 2, 2) for own in scores.values())
    kept, table = outcomes.read(outputs.outcomes), pd.read_csv(outputs.trajectories)
    assert kept.curve.tolist() == table["run"].tolist() and kept.accuracy.tolist() == table["accuracy"].tolist()
    with pytest.raises(UserError, match="0-2.csv has no run 3; it has 0, 1, 2"):
        read_run(outputs.trajectories, 3)


def test_states_are_plain_data(tmp_path):
    """Read weights-only, like every tensor file."""
    state = State(tmp_path / "a.pt", {"strategy": {"score": "gnorm"}})
    state.save({"steps": [{"layer": None, "score": 0.1, "head": 3}], "over": False})
    assert state.load() == {"steps": [{"layer": None, "score": 0.1, "head": 3}], "over": False}
    assert files.load_tensors(state.path)["belongs_to"] == {"strategy": {"score": "gnorm"}}
