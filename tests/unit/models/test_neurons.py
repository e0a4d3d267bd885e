"""Neurons of the feed-forward layers: gated, cut out, scored, alone and together with heads, in every family."""

import copy

import oracles
import pandas as pd
import prune_heads
import pytest
import random_pruning
import torch
from scipy.stats import rankdata
from support import FAMILIES, OTHERS, counted, on_disk, part_files

from gnorm import scores
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.finite import NotFinite
from gnorm.errors import UserError
from gnorm.models import surgery
from gnorm.models.accounting import count
from gnorm.models.gates import Gates
from gnorm.models.neurons import neuron_map, pruned_neurons
from gnorm.pruning import masks
from gnorm.pruning.trajectory import follow
from gnorm.resume import State
from gnorm.scores import (
    fisher,
    hard_concrete,
    hybrid,
    leave_one_out,
    magnitude,
    mask_gradient,
    random,
    shapley,
    together,
)
from gnorm.workbench import Workbench

GROUP, GROUPS, INNER = 16, 4, 64
GATED = ("llama", "qwen2")


@pytest.fixture(params=[*FAMILIES, *OTHERS])
def any_family(request, make_tiny):
    made = make_tiny(request.param)
    made.neurons = neuron_map(made.model, GROUP)
    made.rows = [row for row in made.rows if row["label"] >= 0]
    return made


def logits(model, batch):
    with torch.no_grad():
        return model(**batch.inputs).logits


def every(slots):
    return [tuple(slot) for slot in torch.ones(slots.shape).nonzero().tolist()]


def cases(neurons):
    last = neurons.shape[0] - 1
    return [[(0, 2)], [(0, 0), (last, 3)], [(last, group) for group in range(GROUPS)], every(neurons)]


def zero_neurons(model, slots):
    """By hand, on the library's own names: zero columns of the projection down."""
    for row, group in slots:
        for name, module in model.named_modules():
            parts = name.split(".")
            if ".".join(parts[-2:]) in ("output.dense", "ffn.lin2", "mlp.c_proj", "mlp.down_proj") or name.endswith(
                "albert_layers.0.ffn_output"
            ):
                number = next(int(part) for part in parts if part.isdigit())
                if number == row and "attention" not in parts:
                    columns = module.weight if type(module).__name__ == "Linear" else module.weight.T
                    columns[:, group * GROUP : (group + 1) * GROUP] = 0


def test_the_map(any_family):
    tied = any_family.heads.shape[0] == 1
    assert any_family.neurons.shape == ((1 if tied else 3), GROUPS)
    assert any_family.neurons.total == 3 * GROUPS == any_family.neurons.left(any_family.model)
    assert any_family.neurons.blocks[0].layers == any_family.heads.blocks[0].layers
    gated = any_family.model.config.model_type in GATED
    assert any_family.neurons.parts == (("up", "gate", "down") if gated else ("up", "down"))


def test_structural_equals_zeroed_equals_gated(any_family):
    (batch,) = any_family.batches(6, tokens=10_000)
    untouched = logits(any_family.model, batch)
    for slots in cases(any_family.neurons):
        cut, zeroed = copy.deepcopy(any_family.model), copy.deepcopy(any_family.model)
        surgery.prune(cut, any_family.neurons, slots)
        zero_neurons(zeroed, slots)
        expected = logits(zeroed, batch)
        assert (expected - untouched).abs().max() > 1e-6  # the neurons matter
        assert (logits(cut, batch) - expected).abs().max() < 1e-12
        with surgery.gated(any_family.model, any_family.neurons, slots):
            assert (logits(any_family.model, batch) - expected).abs().max() < 1e-12
        assert torch.equal(logits(any_family.model, batch), untouched)
        assert {p.dtype for p in cut.parameters()} == {torch.float64}
        assert not any(p.requires_grad for p in cut.parameters())
        assert (~any_family.neurons.kept(cut)).nonzero().tolist() == sorted(map(list, slots))
        assert any_family.heads.kept(cut).all()


def test_heads_and_neurons_together_in_any_order(any_family):
    (batch,) = any_family.batches(6, tokens=10_000)
    heads, neurons = any_family.heads, any_family.neurons
    for gone in ([(0, 1)], every(heads)):
        for slots in cases(neurons):
            first, second = copy.deepcopy(any_family.model), copy.deepcopy(any_family.model)
            surgery.prune(first, heads, gone)
            surgery.prune(first, neurons, slots)
            surgery.prune(second, neurons, slots)
            surgery.prune(second, heads, gone)
            with surgery.gated(any_family.model, heads, gone), surgery.gated(any_family.model, neurons, slots):
                expected = logits(any_family.model, batch)
            assert (logits(first, batch) - expected).abs().max() < 1e-12
            assert torch.equal(logits(first, batch), logits(second, batch))
            assert count(first) == count(second)
            assert torch.equal(heads.kept(first), heads.kept(second))


def test_one_at_a_time_equals_at_once_and_takes_the_closed_form(any_family):
    (batch,) = any_family.batches(4, tokens=10_000)
    neurons, hidden = any_family.neurons, any_family.heads.hidden
    at_once = copy.deepcopy(any_family.model)
    surgery.prune(at_once, neurons, every(neurons))
    biases = sum(
        any_family.model.get_submodule(name).bias is not None for name in neurons.blocks[0].up
    )  # of the projections up; the one of the projection down stays
    each = GROUP * (len(neurons.parts) * hidden + biases)
    before = count(any_family.model)
    for slot in every(neurons)[::-1]:
        surgery.prune(any_family.model, neurons, [slot])
        assert before - count(any_family.model) == each
        before = count(any_family.model)
    assert torch.equal(logits(any_family.model, batch), logits(at_once, batch))
    assert pruned_neurons(at_once) == {row: list(range(INNER)) for row in range(neurons.shape[0])}


def test_groups_must_divide_and_stay_what_they_were(make_tiny):
    tiny = make_tiny("bert")
    with pytest.raises(UserError, match="neurons.group: must divide the 64 neurons of a layer, got 20; take 16"):
        neuron_map(tiny.model, 20)
    surgery.prune(tiny.model, neuron_map(tiny.model, 16), [(0, 1)])
    assert neuron_map(tiny.model, 8).kept(tiny.model)[0].tolist() == [True] * 2 + [False] * 2 + [True] * 4
    with pytest.raises(UserError, match="other groups than of 32"):
        neuron_map(tiny.model, 32).kept(tiny.model)
    tiny.model.config.model_type = "opt"
    with pytest.raises(UserError, match="no map of neurons for model type 'opt' .known: albert, bert"):
        neuron_map(tiny.model, 16)


def test_gates_of_neurons(any_family):
    (batch,) = any_family.batches(4, tokens=10_000)
    untouched = logits(any_family.model, batch)
    with Gates(any_family.model, any_family.neurons) as gates:
        gates[0, 0], gates[0, 1] = 0.25, 0
        weakened = logits(any_family.model, batch)
        scaled = copy.deepcopy(any_family.model)
        scaled.get_submodule(any_family.neurons.blocks[0].output)._forward_pre_hooks.clear()
        for block in any_family.neurons.blocks[1:]:
            scaled.get_submodule(block.output)._forward_pre_hooks.clear()
        down = any_family.neurons.of_slots(scaled, 0, "down")  # a view
        down[0] *= 0.25
        down[1] = 0
        assert (weakened - logits(scaled, batch)).abs().max() < 1e-12
        assert surgery.remove_closed(gates) == [(0, 1)]
        assert (logits(any_family.model, batch) - weakened).abs().max() < 1e-12
        gates.open()
    assert (logits(any_family.model, batch) - untouched).abs().max() > 1e-6


@pytest.mark.parametrize("gone", [[], [(0, 1), (0, 3)]], ids=["whole", "pruned"])
def test_criteria_equal_their_definitions(any_family, gone):
    """Sentence by sentence, with real gates, real surgery and the weights by hand."""
    model, neurons, rows = any_family.model, any_family.neurons, any_family.rows[:4]
    surgery.prune(model, neurons, gone)
    kept, made = neurons.kept(model), batches.in_order(any_family.tokenizer, rows, 3)
    gradients, left = torch.zeros(len(rows), *neurons.shape, dtype=torch.float64), torch.zeros(neurons.shape)
    left, whole = left.double(), sum(oracles.loss(model, any_family.tokenizer, row).item() for row in rows)
    for i, row in enumerate(rows):
        with Gates(model, neurons) as gates:
            gates.values.requires_grad_()
            (gradients[i],) = torch.autograd.grad(oracles.loss(model, any_family.tokenizer, row), gates.values)
    norms = torch.zeros(neurons.shape, dtype=torch.float64)
    for slot in map(tuple, kept.nonzero().tolist()):
        less = copy.deepcopy(model)
        surgery.prune(less, neurons, [slot])
        left[slot] = sum(oracles.loss(less, any_family.tokenizer, row).item() for row in rows) - whole
        block, at = neurons.blocks[slot[0]], int(kept[slot[0], : slot[1]].sum()) * GROUP
        for name in (*block.up, block.output):
            module = model.get_submodule(name)
            weight = module.weight if type(module).__name__ == "Linear" else module.weight.T  # out x in
            own = weight[:, at : at + GROUP] if name == block.output else weight[at : at + GROUP]
            norms[slot] += own.square().sum().sqrt()
    expected = {
        mask_gradient: gradients.abs().mean(0),
        fisher: gradients.square().mean(0),
        leave_one_out: left / len(rows),
        magnitude: norms,
    }
    for criterion, value in expected.items():
        assert value[kept].abs().max() > 1e-6
        assert torch.allclose(criterion.score(model, neurons, made), value, rtol=1e-9, atol=1e-12), criterion.__name__
    orders = [random.order([tuple(slot) for slot in kept.nonzero().tolist()], "shapley", 4, i) for i in range(2)]
    value = oracles.shapley(model, neurons, any_family.tokenizer, rows, orders).mean(0)
    found = shapley.score(model, neurons, made, permutations=2, seed=4)
    assert torch.allclose(found, value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("combine", ["sum", "product"])
def test_hybrid(any_family, combine):
    model, neurons = any_family.model, any_family.neurons
    surgery.prune(model, neurons, [(0, 1), (0, 3)])
    kept, made = neurons.kept(model), any_family.batches(4)
    weights = {"fisher": 1.0, "magnitude": -0.5, "shapley": 2.0}
    members = {"fisher": {}, "magnitude": {}, "shapley": {"permutations": 2}}
    expected = torch.zeros(neurons.shape, dtype=torch.float64)
    expected[kept] = 0.0 if combine == "sum" else 1.0
    for name, weight in weights.items():
        ranks = torch.tensor(rankdata(scores.load(name).score(model, neurons, made, **members[name])[kept].numpy()))
        expected[kept] = expected[kept] + weight * ranks if combine == "sum" else expected[kept] * ranks**weight
    found = hybrid.score(model, neurons, made, of=weights, combine=combine, members=members)
    assert (found[~kept] == 0).all() and len(found[kept].unique()) > 1
    assert torch.allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["mask_gradient", "fisher", "magnitude", "leave_one_out", "hard_concrete", "random"])
def test_the_cost_is_what_is_run(make_tiny, name, monkeypatch):
    tiny, settings = make_tiny("llama"), {"steps": 3} if name == "hard_concrete" else {}
    tiny.rows, neurons = [row for row in tiny.rows if row["label"] >= 0], neuron_map(tiny.model, GROUP)
    calls = counted(monkeypatch, tiny.model)
    scores.load(name).score(tiny.model, neurons, tiny.batches(4, tokens=10_000), **settings)
    assert (calls["forward"], calls["backward"]) == together.cost_of_all(tiny.model, neurons, {name: settings})


@pytest.mark.parametrize("name", ["mask_gradient", "leave_one_out", "shapley", "hard_concrete"])
def test_a_score_that_is_not_finite_names_the_neurons(make_tiny, name, monkeypatch):
    tiny, criterion = make_tiny("bert"), scores.load(name)
    neurons, nan = neuron_map(tiny.model, GROUP), torch.full((3, GROUPS), float("nan"), dtype=torch.float64)
    if name == "mask_gradient":
        monkeypatch.setattr(criterion, "by_layer", lambda mean, normalize: nan)
    elif name == "hard_concrete":
        monkeypatch.setattr(criterion, "mean_loss", lambda *_: (0.0, nan))
    else:
        monkeypatch.setattr(criterion.Ablation, "losses", lambda self, _: nan[0, :1].expand(len(self.batch.labels)))
    with pytest.raises(NotFinite, match=f"the score {name} of layer 0, neuron group 0 is nan"):
        criterion.score(tiny.model, neurons, tiny.batches(2))


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "llama"])
def test_a_trajectory_of_neurons_with_layers_reused_equals_that_without(make_tiny, family):
    tiny = make_tiny(family)
    tiny.rows, neurons, found = [row for row in tiny.rows if row["label"] >= 0], neuron_map(tiny.model, GROUP), []
    for memory_mb in (0, 100):
        model, evaluation = copy.deepcopy(tiny.model), Evaluation(tiny.batches(20), neurons, memory_mb)
        scored = tiny.batches(3)
        steps = follow(model, neurons, evaluation, lambda m, c=scored: (mask_gradient.score(m, neurons, c), {}))
        found.append([(s.layer, s.head, s.score, s.correct, s.heads_left, s.parameters) for s, _ in steps])
        assert (len(evaluation.kept_layers) > 0) == (memory_mb > 0 and family != "albert")
    assert found[0] == found[1]
    assert found[0][-1][4] == 0 and len(found[0]) == len(every(neurons)) + 1


def test_hard_concrete_closes_useless_neurons_first(make_tiny):
    tiny = make_tiny("bert")
    neurons = neuron_map(tiny.model, GROUP)
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    neurons.of_slots(tiny.model, 1, "down")[2] = 0
    found = hard_concrete.score(tiny.model, neurons, tiny.batches(8), steps=40, penalty=0.0)
    assert found[1, 2] == hard_concrete.START  # nothing moves a gate that does nothing
    found = hard_concrete.score(tiny.model, neurons, tiny.batches(8), steps=40, penalty=0.1)
    assert found[1, 2] < found.median()


def test_through_the_scripts_of_the_workflow(any_family, tmp_path):
    case, folder = on_disk(any_family, tmp_path), tmp_path
    strategy = {"score": "fisher", "prune": "lowest", "rescore": "never", "settings": {}}
    strategy |= {"unit": "neurons", "group": GROUP}
    where = {"dataset_folder": folder / "dataset", "checkpoint": folder / "checkpoint"}
    bench = Workbench.load(**where, tokens=100, memory_mb=4000, reuse_mb=10)
    outputs = part_files(folder / "runs/0-0", "trajectories", "scores")
    prune_heads.main(
        bench=bench,
        strategy=strategy,
        runs=[0],
        seed=1,
        stop={},
        state=State(folder / "state.pt", {}),
        outputs=outputs,
    )
    table = pd.read_csv(outputs.trajectories)
    slots = case.neurons.shape[0] * GROUPS
    assert len(table) == slots + 1 and table["heads_left"].iloc[-1] == 0
    assert table["parameters"].is_monotonic_decreasing
    random_pruning.main(
        bench=bench,
        strategy="random",
        unit=strategy,
        trials=range(2),
        levels=3,
        seed=1,
        state=State(folder / "trials.pt", {}),
        outputs=part_files(folder / "trials/0-1", "trials"),
    )
    trials = pd.read_csv(folder / "trials/0-1.csv")
    assert trials["heads_pruned"].tolist() == [0, case.neurons.total // 2, case.neurons.total] * 2
    assert (trials["heads_pruned"] + trials["heads_left"] == case.neurons.total).all()
    assert trials["accuracy"].iloc[2] == table["accuracy"].iloc[-1]
    assert count(case.model) == table["parameters"].iloc[0]


def test_a_mask_is_what_a_trajectory_has_left_and_both_masks_go_together(make_tiny, tmp_path):
    tiny = make_tiny("bert")
    neurons = neuron_map(tiny.model, GROUP)
    (batch,) = tiny.batches(4, tokens=10_000)
    order, columns = [(2, 1), (0, 3), (1, 0)], {"accuracy": 0.5, "correct": 1, "evaluated": 2}
    columns |= {"parameters": 9, "seconds": 0.0}
    steps = [
        {"run": run, "step": i, "layer": slot[0], "head": slot[1], "heads_pruned": i, "heads_left": 12 - i, **columns}
        for run, walked in ((1, order[::-1]), (0, order))
        for i, slot in enumerate([(None, None), *walked])
    ]
    pd.DataFrame(steps).to_csv(tmp_path / "0-1.csv", index=False)
    mask = masks.of_step(tmp_path / "0-1.csv", neurons, 2)
    assert masks.removed(mask) == [(0, 3), (2, 1)]
    assert masks.removed(masks.of_step(tmp_path / "0-1.csv", neurons, 2, run=1)) == [(0, 3), (1, 0)]
    masks.write(tmp_path / "neurons.csv", mask)
    assert torch.equal(masks.read(tmp_path / "neurons.csv", neurons), mask)
    (tmp_path / "heads.csv").write_text("1,1,0,1\n0,0,0,0\n1,1,1,1\n")
    gone = {
        name: masks.removed(masks.read(tmp_path / f"{name}.csv", slots))
        for name, slots in (("neurons", neurons), ("heads", tiny.heads))
    }
    with surgery.gated(tiny.model, tiny.heads, gone["heads"]), surgery.gated(tiny.model, neurons, gone["neurons"]):
        expected = logits(tiny.model, batch)
    surgery.prune(tiny.model, tiny.heads, gone["heads"])
    surgery.prune(tiny.model, neurons, gone["neurons"])
    assert (logits(tiny.model, batch) - expected).abs().max() < 1e-12
    with pytest.raises(UserError, match="has steps 0 to 3, not 4"):
        masks.of_step(tmp_path / "0-1.csv", neurons, 4)
    with pytest.raises(UserError, match="is of 12 slots, not of the model's 24"):
        masks.of_step(tmp_path / "0-1.csv", neuron_map(tiny.model, 8), 1)
    with pytest.raises(UserError, match="must hold 3 x 8 zeros and ones, one a neuron group"):
        masks.read(tmp_path / "neurons.csv", neuron_map(tiny.model, 8))
