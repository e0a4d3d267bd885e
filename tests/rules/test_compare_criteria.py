"""Criteria side by side: the same scores and curves as strategies give, ranks, costs, the table and the figure."""

from dataclasses import replace
from types import SimpleNamespace

import compare_criteria
import matplotlib.pyplot as plt
import merge_criteria
import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from scipy.stats import spearmanr
from support import ROOT, part_files, run_of, suite_of

from gnorm import scores
from gnorm.engine import batches
from gnorm.errors import UserError
from gnorm.figures import criteria as figure
from gnorm.pruning import comparison
from gnorm.resume import State, remove_finished
from gnorm.scores import together
from gnorm.settings import suites as settings
from gnorm.statistics import outcomes
from gnorm.statistics.curves import area
from gnorm.statistics.results import Results, importance
from gnorm.tables import criteria as table
from gnorm.workbench import Workbench

MODELS = {"BERT": "BERT", "ALBERT": "ALBERT"}
CRITERIA = {*scores.names()} - {"random"}


def read(smoke, model, what):
    return pd.read_csv(smoke / f"results/smoke/{model}/criteria/{what}.csv")


def compare(folder, target, criteria, shards=(), runs=range(1), state=None):
    """The script on a model of the suite smoke; the files that it writes into `target`."""
    files = part_files(target / f"{runs[0]}-{runs[-1]}", "curves", "scores", "costs")
    compare_criteria.main(
        bench=Workbench.load(dataset_folder=folder / "dataset", checkpoint=folder / "checkpoint", tokens=2048),
        criteria=criteria,
        levels=3,
        runs=runs,
        seed=2026,
        state=state or State(target / "state.pt", {}),
        outputs=files,
        shards=shards,
    )
    return files


def test_slots_in_order():
    values = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert comparison.in_order(values, "lowest") == [(0, 1), (1, 0), (0, 0), (1, 1)]
    assert comparison.in_order(values, "highest") == [(1, 1), (0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("criterion,strategy", [("gnorm", "static_gnorm"), ("entropy", "ae")])
@pytest.mark.parametrize("run", [0, 2])
def test_scores_and_accuracies_are_those_of_the_strategy(smoke, model, criterion, strategy, run):
    steps, score_file = run_of(smoke / "results/smoke", model, strategy, run)
    stored = torch.load(score_file, weights_only=True)[run][0]
    scores = read(smoke, model, "scores").query(f"criterion == '{criterion}' and run == {run}")
    for line in scores.itertuples():
        # Strategies score in the same batches; a pass shared with others rounds differently.
        assert line.score == pytest.approx(stored[line.layer, line.head].item(), rel=1e-4)
    assert scores.sort_values("rank")[["layer", "head"]].values.tolist() == steps[["layer", "head"]][1:].values.tolist()
    reached = dict(zip(steps["heads_pruned"], steps["accuracy"], strict=True))
    curve = read(smoke, model, "curves").query(f"criterion == '{criterion}' and run == {run}")
    assert curve["heads_pruned"].iloc[0] == 0 and curve["fraction_pruned"].iloc[-1] == 1
    assert [reached[pruned] for pruned in curve["heads_pruned"]] == curve["accuracy"].tolist()


def test_costs(smoke):
    """Passes a row: 4 slots of BERT, 2 of ALBERT."""
    for model, slots in (("BERT", 4), ("ALBERT", 2)):
        costs = read(smoke, model, "costs").set_index("criterion")
        assert costs.loc["gnorm"].tolist() == costs.loc["taylor"].tolist() == [1, 1]
        assert costs.loc["entropy"].tolist() == [1, 0] and costs.loc["magnitude"].tolist() == [0, 0]
        assert costs.loc["leave_one_out"].tolist() == [1 + slots, 0]
        assert costs.loc["shapley"].tolist() == [2 + 2 * (slots - 1), 0]
        assert costs.loc["attribution"].tolist() == [2 * 2, 2 * 2] and costs.loc["hard_concrete"].tolist() == [5, 5]
        assert costs.loc["hybrid"].tolist() == [1, 0]  # entropy and magnitude


def test_every_criterion_ranks_every_head(smoke):
    for model, slots in (("BERT", 4), ("ALBERT", 2)):
        scores = read(smoke, model, "scores")
        assert set(scores["criterion"]) == CRITERIA and np.isfinite(scores["score"]).all()
        for _, ranked in scores.groupby(["criterion", "run"]):
            assert sorted(ranked["rank"]) == list(range(1, slots + 1))
        known = scores[scores["error"].notna()]  # who knows a standard error
        assert set(known["criterion"]) == {"shapley"} and len(known) == 3 * slots
        assert (known["error"] > 0).any()


def test_criteria_of_a_pass_are_scored_together():
    costs = {"gnorm": (1, 1), "hybrid": (2, 1), "shapley": (31, 0), "magnitude": (0, 0), "fisher": (1, 1)}
    assert comparison.scored_together(costs) == [["gnorm", "magnitude", "fisher"], ["shapley"], ["hybrid"]]
    assert comparison.scored_together({"shapley": (31, 0)}) == [["shapley"]]


def test_a_hybrid_takes_the_scores_of_its_members(smoke, tmp_path, monkeypatch):
    """Though it costs too much to be scored with them; entropy, which has rows of its own, is scored for it."""
    folder, scored = smoke / "results/smoke/BERT", []
    of_all = together.of_all
    monkeypatch.setattr(together, "of_all", lambda *a, **k: scored.append([*a[3]]) or of_all(*a, **k))
    monkeypatch.setattr("gnorm.scores.hybrid.of_all", together.of_all)
    members = {"shapley": {"permutations": 2}, "fisher": {}, "entropy": {"epsilon": 1e-7, "variant": "C"}}
    hybrid = {"of": {"shapley": 1, "fisher": 1, "entropy": -1}, "combine": "sum", "members": members}
    shards = sorted((folder / "entropy/shards").glob("*.pt"))
    files = compare(folder, tmp_path, {"hybrid": hybrid, **members}, shards)
    assert scored == [["fisher"], ["shapley"], ["hybrid"], ["entropy"]]
    found = pd.read_csv(files.scores).set_index(["criterion", "layer", "head"])["score"].sort_index()
    ranks = {name: found[name].rank() for name in members}
    expected = ranks["shapley"] + ranks["fisher"] - ranks["entropy"]
    assert found["hybrid"].tolist() == pytest.approx(expected.tolist())


def test_shards_of_another_model_are_refused(smoke, tmp_path):
    shards = sorted((smoke / "results/smoke/ALBERT/entropy/shards").glob("*.pt"))
    with pytest.raises(UserError, match="another model"):
        compare(smoke / "results/smoke/BERT", tmp_path, {"entropy": {}}, shards)


@pytest.mark.parametrize("criterion", ["leave_one_out", "magnitude"])
def test_a_criterion_gets_the_batches_it_asks_for(smoke, tmp_path, monkeypatch, criterion):
    """Any that has `batches`, not only Gnorm: alone, and with no pass shared."""
    module, folder, made = scores.load(criterion), smoke / "results/smoke/BERT", []

    def one_row_each(tokenizer, rows, weights, tokens, **settings):
        made.append(batches.make(tokenizer, rows, 1, weights))
        return made[-1]

    described, describe = replace(scores.describe(criterion), batched={}), scores.describe
    monkeypatch.setattr(scores, "describe", lambda name: described if name == criterion else describe(name))
    monkeypatch.setattr(module, "batches", one_row_each, raising=False)
    scored, own = [], module.score
    monkeypatch.setattr(
        module, "score", lambda model, heads, given, **k: scored.append(given) or own(model, heads, given, **k)
    )
    compare(folder, tmp_path, {"gnorm": {}, criterion: {}})
    assert len(made) == len(scored) == 1 and scored[0] is made[0] and len(made[0]) > 8


class Killed(Exception):
    pass


class Fragile(State):
    """Ends the job after so many states, as a kill would."""

    left = 0

    def save(self, value):
        super().save(value)
        Fragile.left -= 1
        if not Fragile.left:
            raise Killed


@pytest.mark.fault("a comparison of criteria is cut after any score or level", "it goes on to the same bytes")
def test_a_comparison_goes_on_from_everywhere(smoke, tmp_path, monkeypatch, caplog, record_property):
    caplog.set_level("INFO", "gnorm")
    folder, saved = (
        smoke / "results/smoke/BERT",
        2 * (5 + 12 * 3 * 2),
    )  # parts of a run, and twice the levels of its criteria
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"suite": "smoke"}
    criteria = settings.load(config, ROOT)["compare"]
    scored = []
    score_part = comparison.score_part
    monkeypatch.setattr(comparison, "score_part", lambda *given: scored.append(given) or score_part(*given))

    def cut_after(name, left):
        Fragile.left = left
        shards = sorted((folder / "entropy/shards").glob("*.pt"))
        state = Fragile(tmp_path / name / "state.pt", {})
        files = compare(folder, tmp_path / name, criteria, shards, range(2), state)
        return {what: path.read_bytes() for what, path in vars(files).items()}

    whole = cut_after("whole", -1)
    assert Fragile.left == -1 - saved and len(scored) == 2 * 5
    for cut in (1, 2, 7, saved // 2, saved - 1, saved):
        with pytest.raises(Killed):
            cut_after(f"cut{cut}", cut)
        scored.clear()
        assert cut_after(f"cut{cut}", -1) == whole
        # What was done is not done again, but for a level whose rows alone were saved.
        assert -1 - Fragile.left - (saved - cut) in (0, 1) and len(scored) < 2 * 5
    assert "goes on after" in caplog.text
    record_property("tried", 6)


def test_more_runs_take_those_there_are(smoke, tmp_path, monkeypatch):
    """However they are divided among jobs, and once merged, they are those of a comparison from scratch."""
    folder, ran, score_part = smoke / "results/smoke/BERT", [], comparison.score_part
    criteria = {"gnorm": {}, "shapley": {"permutations": 2}, "entropy": {"epsilon": 1e-7, "variant": "C"}}
    monkeypatch.setattr(comparison, "score_part", lambda *given: ran.append(given[1].run) or score_part(*given))

    def made(name, runs, seed=1):
        """The runs that are scored for a part, and its outputs."""
        ran.clear()
        state = State(tmp_path / f"state/{name}.pt", {"seed": seed})
        shards = sorted((folder / "entropy/shards").glob("*.pt"))
        outputs = compare(folder, tmp_path / name, criteria, shards, runs, state)
        remove_finished(tmp_path / "state")  # as after a whole workflow
        return sorted({*ran}), outputs

    def content(parts):
        return [path.read_bytes() for path in vars(parts).values()]

    first, whole = made("whole", range(3))
    assert first == [0, 1, 2]
    one, two, other = (made("more", runs) for runs in (range(1), range(1, 2), range(3)))
    assert [one[0], two[0], other[0]] == [[0], [1], [2]]
    assert content(other[1]) == content(whole)
    kept, curves = outcomes.read(whole.outcomes), pd.read_csv(whole.curves)
    assert kept.criterion.tolist() == curves["criterion"].tolist() and kept.curve.tolist() == curves["run"].tolist()
    assert kept.accuracy.tolist() == curves["accuracy"].tolist()
    assert kept.fraction_pruned.tolist() == curves["fraction_pruned"].tolist()
    assert set(kept.of_criterion("entropy").criterion) == {"entropy"}
    assert made("more", range(3), seed=2)[0] == [0, 1, 2]  # signed for another seed
    joined = SimpleNamespace(**{what: tmp_path / f"{what}.csv" for what in ("curves", "scores", "costs")})
    last = made("apart", range(2, 3))[1]
    for parts in ([one[1], two[1], last], [whole]):
        together_ = SimpleNamespace(**{what: [getattr(part, what) for part in parts] for what in vars(joined)})
        merge_criteria.main(parts=together_, outputs=joined)
        assert content(joined) == content(whole)[:3]


def test_the_table(smoke):
    asked = suite_of("smoke")
    rows = {
        kind: [(smoke / path, *of) for path, *of in files]
        for kind, files in asked.outcomes_of("smoke", "tables.criteria").items()
    }
    results = Results(smoke / "results/smoke", MODELS, {"random": {"drawn": True}}, table.NEEDS, outcomes=rows)
    made = table.make(results, {"intervals": asked.intervals})
    assert made["criterion"].tolist()[-1] == "random" and len(made) == 2 * (len(CRITERIA) + 1)
    curve = read(smoke, "BERT", "curves").query("criterion == 'fisher'")
    areas = [area(c["fraction_pruned"].tolist(), c["accuracy"].tolist()) for _, c in curve.groupby("run")]
    row = made.query("model == 'BERT' and criterion == 'fisher'").iloc[0]
    assert row["area"] == areas[0] and row["area ±"] == pytest.approx(np.std(areas, ddof=1))
    assert (row["forward"], row["backward"]) == (1, 1)
    scored = read(smoke, "BERT", "scores")
    of_shapley = scored.query("criterion == 'shapley' and run == 0")
    expected = of_shapley["error"].median() / of_shapley["score"].std()
    assert made.query("model == 'BERT' and criterion == 'shapley'")["noise"].iloc[0] == pytest.approx(expected)
    assert expected > 0 and np.isnan(row["noise"])
    ranks = importance(scored)
    assert row["like gnorm"] == pytest.approx(spearmanr(ranks["gnorm"], ranks["fisher"]).statistic)
    trials = made.query("model == 'BERT' and criterion == 'random'").iloc[0]
    shown = pd.read_csv(smoke / "results/smoke/tables/areas.csv").query("model == 'BERT' and strategy == 'random'")
    assert trials["area"] == pytest.approx(shown["area"].iloc[0])
    assert (trials["forward"], trials["backward"]) == (0, 0)


def test_the_figure(smoke):
    drawn = figure.draw(Results(smoke / "results/smoke", MODELS, {}, figure.NEEDS), {"columns": 2})
    axis = drawn.axes[0]
    names = [label.get_text() for label in axis.get_xticklabels()]
    assert names == list(read(smoke, "BERT", "costs")["criterion"]) and axis.get_title() == "BERT"
    ranks = importance(read(smoke, "BERT", "scores"))
    shown = [float(text.get_text()) for text in axis.texts]
    expected = [spearmanr(ranks[a], ranks[b]).statistic for a in names for b in names]
    assert shown == pytest.approx(expected, abs=0.0051)
    assert (
        shown[names.index("taylor") * len(names) + names.index("mask_gradient")] == 1
    )  # the same number, see taylor.py
    plt.close(drawn)
