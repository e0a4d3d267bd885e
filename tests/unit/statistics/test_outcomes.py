"""What was answered on every row: against rows alone, kept in a file, and enough for every other number."""

import copy
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from support import ROOT, Tiny, run_python
from tokenizers import processors

from gnorm.data.rows import NO_CLASS
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.metrics import METRICS, at_steps
from gnorm.errors import UserError
from gnorm.models import surgery
from gnorm.pruning.parts import Answered
from gnorm.pruning.scoring import Scorer
from gnorm.pruning.trajectory import Stop, follow
from gnorm.resume import State
from gnorm.statistics import outcomes
from gnorm.statistics.curves import area
from gnorm.statistics.outcomes import Outcomes

OF_CLASSES, OF_TEXT = ("macro_f1", "loss", "calibration_error"), ("perplexity", "loss")
DIGITS = {"rel": 2e-6}  # metrics keep six


def small(writes=False):
    """A model in float32, and rows in another order than their numbers, one of them without an answer."""
    tiny = Tiny("llama" if writes else "bert", layers=2, heads=2, writes=writes)
    tiny.model.float()
    tiny.rows = tiny.rows[13::-1]
    if writes:
        tiny.tokenizer.backend_tokenizer.post_processor = processors.ByteLevel()  # adds no tokens of its own
    tiny.rows[3] |= {"text": "Z"} if writes else {"label": NO_CLASS}
    return tiny


def naive(tiny, model, row):
    """(label, predicted, loss, confidence) of every answer that a row asks for, alone and without padding."""
    inputs = tiny.tokenizer(*filter(None, (row["text"], row["pair"])), return_tensors="pt")
    logits = model(**inputs).logits[0].double()
    if row["label"] is None:
        labels, logits = inputs["input_ids"][0, 1:].tolist(), logits[:-1]
    else:
        labels, logits = [row["label"]], logits[None]
    chances = logits.softmax(-1)
    return [
        (label, int(own.argmax()), -math.log(own[label]), float(own.max()))
        for label, own in zip(labels, chances, strict=True)
        if label >= 0
    ]


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("tokens", [40, 100_000])
def test_rows_are_in_the_order_of_the_list_whatever_the_batches(writes, tokens):
    tiny = small(writes)
    made = batches.make(tiny.tokenizer, tiny.rows, tokens)
    for gone in ([], [(0, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)]):
        model = copy.deepcopy(tiny.model)
        surgery.prune(model, tiny.heads, gone)
        measured = Evaluation(made, tiny.heads).accuracy(model)
        found, expected = measured.by_row, [naive(tiny, model, row) for row in tiny.rows]
        assert found.row.tolist() == [row["row"] for row in tiny.rows] != sorted(found.row)
        assert found.answers.tolist() == [len(own) for own in expected] and 0 in found.answers
        assert found.right.tolist() == [sum(a == b for a, b, *_ in own) for own in expected]
        assert found.loss == pytest.approx([sum(loss for *_, loss, _ in own) for own in expected], rel=1e-4)
        assert (found.right.sum(), found.answers.sum()) == (measured.correct, measured.evaluated)
        if writes:
            assert found.label is found.predicted is found.confidence is None
            continue
        assert found.label.tolist() == [row["label"] for row in tiny.rows]
        asked = found.answers > 0
        assert found.predicted[asked].tolist() == [own[0][1] for own in expected if own]
        assert found.confidence[asked] == pytest.approx([own[0][3] for own in expected if own], rel=1e-4)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))


def test_batches_cut_in_two_keep_their_rows(caplog):
    tiny = small()
    expected = Evaluation(batches.make(tiny.tokenizer, tiny.rows, 100_000), tiny.heads).accuracy(tiny.model).by_row
    made = batches.make(tiny.tokenizer, tiny.rows, 100_000)
    most = made[0].tokens // 3

    def refuse(_model, _arguments, inputs):
        if inputs["input_ids"].numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")

    tiny.model.register_forward_pre_hook(refuse, with_kwargs=True)
    found = Evaluation(made, tiny.heads).accuracy(tiny.model).by_row
    assert "the budget is halved" in caplog.text and len(made) >= 3
    assert found.predicted.tolist() == expected.predicted.tolist()
    assert found.loss == pytest.approx(expected.loss, rel=1e-4) and np.array_equal(found.row, expected.row)


@pytest.mark.parametrize("writes", [False, True])
def test_rows_that_scoring_predicts_are_kept_like_others(writes, monkeypatch):
    """Some of the evaluation rows are scored too, so that batches of known and of other rows mix."""
    tiny = small(writes)
    tiny.rows = [row for row in tiny.rows if writes or row["label"] >= 0]
    bench = tiny.bench(tiny.rows[2:7], tiny.rows, 60)
    strategy = {"score": "gnorm", "prune": "lowest", "rescore": "every_step", "settings": {}}

    def followed():
        score = Scorer(bench, tiny.heads, strategy)
        evaluation = Evaluation(score.evaluation_batches(bench), tiny.heads)
        steps = list(follow(copy.deepcopy(tiny.model), tiny.heads, evaluation, score, stop=Stop(heads=2)))
        return score.shared, [step.by_row for step, _ in steps]

    shared, found = followed()
    original = Scorer.__init__

    def unshared(self, *arguments, **settings):
        original(self, *arguments, **settings)
        self.shared = {}

    monkeypatch.setattr(Scorer, "__init__", unshared)
    _, expected = followed()
    assert len(shared) == 5 and len(found) == 3
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one.row, other.row) and np.array_equal(one.right, other.right)
        assert one.loss == pytest.approx(other.loss, rel=1e-3)


@pytest.fixture(scope="module", params=[False, True], ids=["classes", "text"])
def pruned(request, tmp_path_factory):
    """The steps of a trajectory, and what is kept of them."""
    tiny, wanted = small(request.param), OF_TEXT if request.param else OF_CLASSES
    order = iter([torch.tensor([[float(i), 1.0], [9.0, 0.5]]) for i in range(9)])
    evaluation = Evaluation(tiny.batches(20, 60), tiny.heads, 0, wanted)
    steps = [s for s, _ in follow(copy.deepcopy(tiny.model), tiny.heads, evaluation, lambda _: (next(order), {}))]
    state = State(tmp_path_factory.mktemp("state") / "run3.pt", {})
    answered = Answered(state, 3)
    for step in steps:
        answered.add(step.by_row, step.heads_pruned, tiny.heads.total)
    return SimpleNamespace(steps=steps, kept=answered.outcomes, wanted=wanted)


def test_every_number_of_a_trajectory_follows_from_it(pruned, tmp_path):
    outcomes.write(tmp_path / "0-0.rows.npz", pruned.kept)
    kept = outcomes.read(tmp_path / "0-0.rows.npz")
    assert kept.accuracy.tolist() == [step.accuracy for step in pruned.steps]
    assert kept.heads_pruned.tolist() == [step.heads_pruned for step in pruned.steps]
    assert kept.fraction_pruned.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert set(kept.curve) == {3}
    for found, step in zip(kept.metrics(pruned.wanted), pruned.steps, strict=True):
        assert found == pytest.approx(step.metrics, **DIGITS) and list(found) == list(step.metrics)


def test_a_file_gives_back_what_was_written_and_is_the_same_every_time(pruned, tmp_path):
    for name in ("one", "two"):
        outcomes.write(tmp_path / f"{name}.npz", pruned.kept)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    read = outcomes.read(tmp_path / "one.npz")
    assert list(read.arrays) == list(pruned.kept.arrays)
    for name, array in pruned.kept.arrays.items():
        assert array.dtype == read.arrays[name].dtype and np.array_equal(array, read.arrays[name])
    assert read.right.dtype == np.uint8 and read.loss.dtype == read.loss.dtype == np.float32


@pytest.mark.parametrize("few", [1, 2, 16])
def test_a_state_holds_as_much_as_was_recorded(pruned, tmp_path, monkeypatch, few):
    """A step whose rows were saved is not recorded yet if the job was killed just then."""
    monkeypatch.setattr(Answered, "FEW", few)
    state, total = State(tmp_path / "run3.pt", {}), len(pruned.steps)
    answered = Answered(state, 3)
    for recorded in range(total):
        answered.add(pruned.steps[recorded].by_row, pruned.steps[recorded].heads_pruned, pruned.kept.heads)
        for points in {recorded, recorded + 1} - {0}:
            again = Answered(state, 3)
            assert again.restore(points) and len(again.points) == points
    again = Answered(state, 3)
    assert again.restore(total - 1)
    again.add(pruned.steps[-1].by_row, pruned.steps[-1].heads_pruned, pruned.kept.heads)
    assert same(again.outcomes, pruned.kept) and len(list(tmp_path.glob("run3.rows*.pt"))) == -(-total // few)
    assert not Answered(state, 3).restore(17)


def test_parts_come_apart_and_together(pruned, tmp_path):
    """Through files, in any division: the types do not depend on it."""
    other = replace(pruned.kept, curve=pruned.kept.curve + 1)
    if other.predicted is not None:
        other = replace(other, predicted=other.predicted + np.int64(300))
    whole = outcomes.join([pruned.kept, other])
    assert same(whole.of_curve(3), pruned.kept) and np.array_equal(whole.of_curve(4).loss, other.loss)
    for name, made in (("whole", whole), ("joined", outcomes.join([whole.of_curve(curve) for curve in (3, 4)]))):
        outcomes.write(tmp_path / f"{name}.npz", made)
    assert (tmp_path / "joined.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    for name in ("row", "heads"):
        with pytest.raises(ValueError, match="cannot be joined"):
            outcomes.join([pruned.kept, replace(pruned.kept, **{name: getattr(pruned.kept, name) + 1})])


def test_criteria_are_told_apart(pruned):
    both = outcomes.join([pruned.kept.ordered_by(name) for name in ("gnorm", "leave_one_out")])
    assert both.criterion.tolist() == ["gnorm"] * len(pruned.steps) + ["leave_one_out"] * len(pruned.steps)
    found = both.of_criterion("leave_one_out")
    assert np.array_equal(found.loss, pruned.kept.loss) and set(found.criterion) == {"leave_one_out"}


def test_long_rows_have_room():
    by_row = SimpleNamespace(row=[7], answers=np.array([70_000]), right=np.array([300]), loss=np.ones(1), label=None)
    one = Outcomes.of(by_row, curve=0, heads_pruned=0, heads=4)
    assert (one.right.dtype, one.answers.dtype) == (np.uint16, np.uint32) and one.accuracy.tolist() == [300 / 70_000]


@pytest.mark.fault(
    "what was answered on each row is cut short, has a flipped bit, or is another kind of file", "refused by name"
)
def test_a_damaged_file_is_refused(pruned, tmp_path, record_property):
    path = tmp_path / "0-0.rows.npz"
    outcomes.write(path, pruned.kept)
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = [whole[:n] for n in (0, 10, middle, len(whole) - 1)]
    damaged += [whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], b"run,step\n0,0\n"]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(UserError, match="0-0.rows.npz is no readable file of outcomes"):
            outcomes.read(path)
    np.savez(path, loss=np.ones(3))
    with pytest.raises(UserError, match="is no readable file of outcomes"):
        outcomes.read(path)
    np.savez(path, **{**pruned.kept.arrays, "row": np.array([{}])})  # a pickle
    with pytest.raises(UserError, match="is no readable file of outcomes"):
        outcomes.read(path)
    with pytest.raises(FileNotFoundError):
        outcomes.read(tmp_path / "none.npz")
    record_property("tried", len(damaged) + 2)


def test_no_torch_is_needed_to_read_it():
    program = "import sys; from gnorm.statistics import outcomes; print({'torch', 'pandas'} & set(sys.modules))"
    made = run_python(program)
    assert made.stdout.strip() == "set()", made.stderr


@pytest.mark.parametrize("model", ["BERT", "ALBERT"])
def test_tables_of_a_suite_follow_from_it(smoke, model):
    """Accuracies, areas and metrics of every trajectory, random trial and comparison."""
    folder, seen = smoke / "results/smoke" / model, 0
    tidy = pd.read_csv(smoke / "results/smoke/tidy.csv").query("model == @model")
    areas = pd.read_csv(smoke / "results/smoke/tables/areas.csv").query("model == @model").set_index("strategy")
    wanted = at_steps(METRICS)
    for path in [*folder.glob("trajectories/*/*.rows.npz"), *folder.glob("random/shards/*.rows.npz")]:
        kept, strategy = outcomes.read(path), path.parent.name.replace("shards", "random")
        table = tidy[tidy["strategy"] == strategy]
        names = [name for name in wanted if table[name].notna().all()] if set(wanted) <= set(table) else OF_CLASSES
        for curve in np.unique(kept.curve):
            own, steps = kept.of_curve(curve), table[table["trial" if strategy == "random" else "run"] == curve]
            steps = steps.sort_values("heads_pruned")
            assert own.heads_pruned.tolist() == steps["heads_pruned"].tolist()
            assert own.accuracy.tolist() == steps["accuracy"].tolist()
            assert own.right.sum(1).tolist() == steps["correct"].tolist()
            for name in names:
                assert [one[name] for one in own.metrics(names)] == pytest.approx(steps[name].tolist(), **DIGITS)
            if strategy != "random" and curve == 0:
                assert area(own.fraction_pruned, own.accuracy) == pytest.approx(areas.loc[strategy, "area"])
            seen += 1
    assert seen == 5 * 3 + tidy["trial"].nunique()
    curves = pd.read_csv(folder / "criteria/curves.csv")
    kept = outcomes.join([outcomes.read(path) for path in sorted(folder.glob("criteria/shards/*.rows.npz"))])
    assert kept.criterion.tolist() == curves["criterion"].tolist() and kept.curve.tolist() == curves["run"].tolist()
    assert kept.accuracy.tolist() == curves["accuracy"].tolist()


def test_the_example_in_the_docs(smoke, monkeypatch, capsys):
    """It needs numpy alone."""
    text = (ROOT / "docs/results.md").read_text()
    program = text.partition("```python\n")[2].partition("```")[0].replace("results/mini", "results/smoke")
    monkeypatch.chdir(smoke)
    exec(program, {})
    table = pd.read_csv(smoke / "results/smoke/BERT/trajectories/greedy_gnorm/0-2.csv").query("run == 0")
    printed = capsys.readouterr().out.split("\n")
    assert [float(value) for value in printed[0].strip("[]").split()] == pytest.approx(table["accuracy"], abs=1e-3)
