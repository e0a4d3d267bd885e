"""The published results as input: read as they are, checked, and judged."""

import copy
import dataclasses
import math
import re
import shutil
from pathlib import Path

import collect_published
import count_parameters
import numpy as np
import pandas as pd
import pytest
import torch
from support import copy_workflow, snakemake

from gnorm import layout
from gnorm.errors import UserError
from gnorm.published import accuracies, interchange, paper, verdict
from gnorm.statistics.curves import collapse, rises, wilson

SIZES = {"BERT": (12, 12, 1), "ALBERT": (12, 12, 12), "ROBERTA": (24, 16, 1), "XLM_ROBERTA": (12, 12, 1)}
# Areas in this made-up clone: greedy best, inverse worst.
POWERS = {"greedy_gnorm": 4.0, "ae": 2.0, "inverse_ae": 1.0, "inverse_gnorm": 0.5}


def curve(model, strategy):
    """A made-up curve that starts at the paper's accuracy and goes through its solution."""
    layers, heads, step = SIZES[model]
    pruned = np.arange(0, layers * heads + 1, step)
    said = paper.MODELS[model]
    accuracy = said.accuracy[0] / 100 - 0.5 * (pruned / pruned[-1]) ** POWERS[strategy]
    if strategy == "greedy_gnorm":
        accuracy[pruned == said.pruned] = said.accuracy[1] / 100
    return pd.DataFrame({"Pruned_Heads": pruned, "Accuracy": accuracy})


def make_clone(folder: Path, models=tuple(SIZES)) -> Path:
    """Files with the authors' names, columns and types, oddities included; the numbers are made up."""
    for name in ("experiments_results", "AE_calculation_results"):  # what the authors call them
        (folder / name).mkdir(parents=True)
    random = np.random.default_rng(0)
    for model in models:
        layers, heads, _ = SIZES[model]
        for strategy in POWERS:
            name = interchange.strategy_name(strategy)
            path = layout.within(folder, layout.PUBLISHED_CURVE, model=model, published=name)
            curve(model, strategy).to_csv(path, index=False)
        levels = 13 if model == "ALBERT" else 25
        pruned = np.linspace(0, layers * heads, levels).round().astype(int)
        for group in range(1, 3 if model == "BERT" else 2):
            table = {"Heads Pruned": pruned}
            for trial in range(1, 6):
                base = paper.MODELS[model].accuracy[0] / 100 - 0.5 * (pruned / pruned[-1]) ** random.uniform(0.8, 1.5)
                table[f"Trial_{trial}"] = base
            size = {"trials": 5, "levels": levels, "group": f"{group}group"}
            path = layout.within(folder, layout.PUBLISHED_TRIALS, model=model, **size)
            pd.DataFrame(table).to_excel(path, index=False)
        shards = {
            "BERT": [(0, 1299), (1300, 2328)],
            "ALBERT": [(a, min(a + 4999, 9814)) for a in range(0, 9815, 5000)],
            "ROBERTA": [(0, 4999), (5000, 5204)],
            "XLM_ROBERTA": [(0, 7722), (7724, 9999)],
        }[model]
        total, rows = 0, 0
        for first, last in shards:
            mean = torch.tensor(random.uniform(0.1, 3, (layers, heads)), dtype=torch.float32, requires_grad=True)
            count = last - first + 1
            named_by_count = layout.within(folder, layout.PUBLISHED_ENTROPY, model=model, total=count)
            named_by_rows = layout.within(folder, layout.PUBLISHED_SHARD, model=model, first=first, last=last)
            torch.save(mean, named_by_count if model == "BERT" else named_by_rows)
            total, rows = total + count * mean.detach().double(), rows + count
        merged = layout.within(folder, layout.PUBLISHED_ENTROPY, model=model, total=rows)
        torch.save((total / rows).float(), merged)
    return folder


@pytest.fixture
def clone(tmp_path):
    return make_clone(tmp_path / "clone")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The target `published` on a whole made-up clone."""
    tree = copy_workflow(tmp_path_factory.mktemp("published"))
    make_clone(tree / "clone")
    made = snakemake(tree, "--config", "published=clone", "--", "published")
    assert made.returncode == 0, made.stderr[-4000:]
    return tree, made


def test_plans_neither_download_nor_model(judged):
    tree, made = judged
    jobs = made.stdout + made.stderr
    assert not any(f"rule {name}" in jobs for name in ("make_dataset", "make_checkpoint", "prune_heads", "fetch"))
    assert sorted(path.name for path in (tree / "results").iterdir()) == ["README.md", "published"]
    again = snakemake(tree, "--config", "published=clone", "--", "published")
    assert "Nothing to be done" in again.stdout + again.stderr


def test_writes_figures_tables_and_verdict(judged):
    tree, _ = judged
    for name in ("PruningResults", "RandomPruning"):
        assert (tree / f"figures/published/{name}.png").stat().st_size > 20_000
    areas = pd.read_csv(tree / "results/published/tables/areas.csv").set_index(["model", "strategy"])
    for power in (("BERT", "greedy_gnorm"), ("RoBERTa", "inverse_ae")):
        wanted = curve("BERT" if power[0] == "BERT" else "ROBERTA", power[1])
        x = wanted["Pruned_Heads"] / wanted["Pruned_Heads"].max()
        assert areas.loc[power, "area"] == pytest.approx(np.trapezoid(wanted["Accuracy"], x), abs=1e-12)
    stops = pd.read_csv(tree / "results/published/tables/stops.csv").set_index("model")
    assert stops.loc["ALBERT", ["picked", "picked: after (%)"]].tolist() == [36, pytest.approx(77.76)]
    table = pd.read_csv(tree / "results/published/verdict.csv").fillna("")
    assert set(table["status"]) == {"reproduced", "differs", "not published"}
    numbers = table[table["part"].str.startswith("Table")]
    sizes = numbers[~numbers["item"].str.contains("accuracy")]
    assert len(sizes) == 4 * 3 + 2 * (8 + 8 + 7 + 7)
    wrong = sizes[sizes["status"] != "reproduced"]
    assert wrong[["model", "item"]].values.tolist() == [["BERT", "decrease of size (%)"]]  # 22.52 is a slip
    assert "slip" in wrong["evidence"].iloc[0]
    claims = table[table["part"] == "Claims"].set_index(["item", "model"])
    assert claims.loc[("Greedy-Gnorm beats attention entropy", "BERT"), "status"] == "reproduced"
    assert claims.loc[("Rescoring after every head beats scoring once", "BERT"), "status"] == "not published"
    assert claims.loc[("Averaged over three independent runs", "BERT"), "status"] == "differs"
    left_out = claims.loc[("The entropy shards give the merged entropy", "XLM-RoBERTa"), "published"]
    assert left_out.startswith("yes") and "rows left out: 7723" in left_out
    assert "Does it hold?" in (tree / "results/published/verdict.md").read_text()


def test_missing_files_are_said_to_be_not_published(tmp_path):
    tree = copy_workflow(tmp_path)
    make_clone(tree / "clone", ("BERT",))
    for path in (tree / "clone").rglob("*inverse*"):
        path.unlink()
    for path in (tree / "clone").rglob("*.xlsx"):
        path.unlink()
    shutil.rmtree(tree / "clone/AE_calculation_results")  # as a suite without entropies leaves it
    made = snakemake(tree, "--config", "published=clone", "--", "published")
    assert made.returncode == 0, made.stderr[-4000:]
    table = pd.read_csv(tree / "results/published/verdict.csv").fillna("").set_index(["item", "model"])
    assert table.loc[("accuracy before (%)", "RoBERTa"), "status"] == "not published"
    assert table.loc[("parameters of encoder after", "RoBERTa"), "status"] == "reproduced"
    assert table.loc[("Greedy-Gnorm beats random pruning", "BERT"), "status"] == "not published"
    assert table.loc[("Greedy-Gnorm beats attention entropy", "BERT"), "status"] == "reproduced"


def test_results_of_this_workflow_can_stand_where_a_clone_stands(smoke, tmp_path, copy_of):
    tree = copy_of(smoke, tmp_path)
    config = ("--config", "suite=smoke", "published=results/smoke", "--")
    made = snakemake(tree, *config, "published", "verdict")
    assert made.returncode == 0, made.stderr[-4000:]
    own, read = (pd.read_csv(tree / f"results/{name}/tables/areas.csv") for name in ("smoke", "published"))
    own = own[own["strategy"] != "random"].set_index(["model", "strategy"])["area"]
    read = read[read["strategy"] != "random"].set_index(["model", "strategy"])["area"]
    assert set(own.index) == set(read.index) and (own - read.reindex(own.index)).abs().max() < 1e-9
    table = pd.read_csv(tree / "results/smoke/verdict.csv").fillna("")
    assert set(table["part"]) == {"Claims", "Sentinel-AI"}  # small models share the paper's names only
    both = table[table["item"] == "Greedy-Gnorm beats attention entropy"]
    assert (both["published"].str[:3] == both["this run"].str[:3]).all() and (both["published"] != "").all()


def test_no_clone_is_one_clear_line(tmp_path):
    tree = copy_workflow(tmp_path)
    for config, said in (
        (["published=nowhere"], "published: nowhere has no folder experiments_results"),
        (["suite=mini"], "published: say where the results are"),
    ):
        made = snakemake(tree, "-n", "--config", *config, "--", "published")
        assert made.returncode != 0 and said in made.stdout + made.stderr
        assert "Traceback" not in made.stdout + made.stderr


@pytest.mark.parametrize("model,pruned", [(m, r.pruned) for m, r in paper.MODELS.items()])
def test_parameters_and_sizes_digit_by_digit(model, pruned):
    said = paper.MODELS[model]
    assert len(said.gone()) * (said.layers if said.tied else 1) == pruned
    assert count_parameters.count(said) == list(said.parameters)


def test_the_slips_in_print_are_found():
    """Exact values give another last digit for four of the eight percentages of Table 1."""
    exact = {"BERT": (0.9682267067410906, 0.9008157986260197)}  # 2255 and 2098 of 2329 rows
    tidy = pd.DataFrame(
        [
            {"model": "BERT", "strategy": "greedy_gnorm", "run": 0, "trial": None, "heads_pruned": p, "accuracy": a}
            | {"heads_left": 144 - p, "fraction_pruned": p / 144}
            for p, a in ((0, exact["BERT"][0]), (117, exact["BERT"][1]), (144, 0.5))
        ]
    )
    parameters = pd.DataFrame(
        [("BERT", *row) for row in count_parameters.count(paper.MODELS["BERT"])],
        columns=["model", "module", "before", "after"],
    )
    evidence = verdict.Evidence(tidy, verdict.PRINTED)
    table = verdict.decide({"BERT": "BERT"}, None, evidence, parameters).set_index("item")
    assert table.loc["accuracy before (%)", "status"] == "reproduced"
    assert table.loc["accuracy after 117 heads (%)", "status"] == "reproduced"
    for item, printed, exactly in (
        ("decrease of accuracy (%)", "6.97", "6.96"),
        ("decrease of size (%)", "22.52", "22.51"),
    ):
        row = table.loc[item]
        assert row["status"] == "differs" and "slip of the last digit" in row["evidence"]
        assert row["paper"] == printed and exactly in (row["published"], row["this run"])


def test_claims_can_fail(clone):
    """The opposite numbers give the opposite verdict."""
    tidy = published_tidy(clone)
    swapped = tidy.copy()
    names = {"greedy_gnorm": "inverse_gnorm", "inverse_gnorm": "greedy_gnorm"}
    swapped["strategy"] = swapped["strategy"].replace(names)
    right, wrong = (verdict.Evidence(t, verdict.PRINTED, published=True) for t in (tidy, swapped))
    for claim in (
        verdict.greedy_beats("ae"),
        verdict.inverse_collapses_first,
        verdict.greedy_beats_random,
        verdict.greedy_beats_random_at_each_level,
    ):
        for model in SIZES:
            assert claim(right, model).holds and not claim(wrong, model).holds
    with pytest.raises(verdict.Missing, match="add the strategy `static_gnorm` to config.yaml"):
        verdict.greedy_beats("static_gnorm")(right, "BERT")
    assert verdict.rebounds(right, "ROBERTA") is not None and not verdict.three_runs(right, "BERT").holds
    least = {"B": 0.1, "C - B": 1e-9, "A - B": 1e-9}
    diagnostics = {"BERT": {"kendall_tau": {"C": 0.999}, "least": least}}
    changed = {"layer": np.array(1), "pruned": np.array([(0, 0), (1, 1)]), "change": np.ones((2, 4, 4))}
    own = verdict.Evidence(tidy, 1.0, entropy=diagnostics, gradients={"BERT": changed})
    assert verdict.epsilon_keeps_the_order(own, "BERT").holds and verdict.epsilon_shifts(own, "BERT").holds
    assert verdict.gradients_change_elsewhere(own, "BERT").holds
    broken = copy.deepcopy(own)
    broken.entropy["BERT"]["kendall_tau"]["C"], broken.entropy["BERT"]["least"]["B"] = 0.9, -1
    broken.gradients["BERT"]["change"][1, 3] = 0
    assert not verdict.epsilon_keeps_the_order(broken, "BERT").holds
    assert not verdict.epsilon_shifts(broken, "BERT").holds
    assert not verdict.gradients_change_elsewhere(broken, "BERT").holds


def sentinel_evidence(entropy=0.9, magnitude=0.7, speed=1.5, spread=4.0):
    """Curves of one model that falls from 0.9 to 0.1, but by entropy keeps what is asked for up to 70%."""
    levels = [0.0, 0.25, 0.5, 0.7, 0.75, 1.0]
    rows = []
    for strategy, trials, values in (
        ("ae", [None], [0.9, 0.9, 0.9, entropy, entropy - 0.05, 0.1]),
        ("random", [0, 1], [0.9, 0.7, 0.5, 0.3, 0.25, 0.1]),
    ):
        for trial in trials:
            for share, value in zip(levels, values, strict=True):
                row = {"model": "M", "strategy": strategy, "run": None if strategy == "random" else 0, "trial": trial}
                pruned = round(20 * share)
                row = row | {"heads_pruned": pruned, "heads_left": 20 - pruned}
                rows.append(row | {"fraction_pruned": share, "accuracy": value})
    criteria = pd.DataFrame({"criterion": "magnitude", "run": 0, "fraction_pruned": levels})
    criteria["accuracy"] = [0.9, magnitude, magnitude, magnitude, magnitude, 0.1]
    speeds = pd.DataFrame({"strategy": "ae", "fraction_pruned": levels})
    speeds["tokens_per_second"] = [100.0, 100.0, 100.0, 100 * speed, 100 * speed, 900.0]
    speeds["lowest_tokens_per_second"] = speeds["tokens_per_second"] - spread
    speeds["highest_tokens_per_second"] = speeds["tokens_per_second"] + spread
    return verdict.Evidence(pd.DataFrame(rows), 1.0, criteria={"M": criteria}, speeds={"M": speeds})


def test_sentinels_claims_are_decided_both_ways_and_not_without_data():
    claims = [claim.decide for claim in verdict.SENTINEL]
    right, wrong = sentinel_evidence(), sentinel_evidence(entropy=0.2, magnitude=0.2, speed=0.9)
    assert [claim(right, "M").holds for claim in claims] == [True] * 4
    assert [claim(wrong, "M").holds for claim in claims] == [False] * 4
    assert "1.50 times as many" in claims[3](right, "M").text  # the model without any head does not count
    assert claims[0](sentinel_evidence(entropy=0.885), "M").holds is False  # more than a point at 70%
    bare = verdict.Evidence(right.tidy[right.tidy["strategy"] == "greedy_gnorm"], 1.0)
    for claim in claims:
        with pytest.raises(verdict.Missing):
            claim(bare, "M")
    no_magnitude = copy.deepcopy(right)
    no_magnitude.criteria["M"]["criterion"] = "gnorm"
    with pytest.raises(verdict.Missing, match="add `magnitude` to `compare`"):
        claims[2](no_magnitude, "M")
    parameters = pd.DataFrame(columns=["model", "module", "before", "after"])
    table = verdict.decide({"M": "Model"}, right, None, parameters)
    own = table[table["part"] == "Sentinel-AI"]
    assert len(own) == 4 and set(own["status"]) == {"reproduced"} and own["this run"].str.startswith("yes").all()
    text = verdict.markdown(table, True, "test")
    assert text.count("Does it hold?") == 2 and "What Sentinel-AI says" in text
    of_nothing = verdict.decide({"M": "Model"}, verdict.Evidence(right.tidy, 1.0), None, parameters)
    status = of_nothing[of_nothing["part"] == "Sentinel-AI"]["status"].tolist()
    assert status == ["reproduced", "reproduced", "not run", "not run"]


@pytest.mark.parametrize(
    "speed,spread,holds",
    [(1.5, 24.0, True), (1.5, 26.0, None), (0.5, 24.0, False), (0.5, 26.0, None), (1.0, 0.0, None)],
)
def test_speed_is_decided_where_rounds_do_not_overlap(speed, spread, holds):
    found = verdict.speed_rises(sentinel_evidence(speed=speed, spread=spread), "M")
    assert found.holds is holds
    assert f"100 tokens a second with all heads ({100 - spread:.0f} to {100 + spread:.0f} over rounds)" in found.text
    assert (f"({100 * speed - spread:.0f} to {100 * speed + spread:.0f}): these overlap" in found.text) == (
        holds is None
    )


def no_parameters():
    return pd.DataFrame(columns=["model", "module", "before", "after"])


def test_an_undecided_claim_is_shown_as_one():
    table = verdict.decide({"M": "Model"}, sentinel_evidence(spread=30.0), None, no_parameters())
    row = table.set_index("item").loc["Speed rises with pruning"]
    assert row["status"] == "undecided" and row["this run"].startswith("undecided: 100 tokens a second")
    text = verdict.markdown(table, True, "test")
    assert "- claims of Sentinel-AI: 3 reproduced, 1 undecided\n" in text
    assert re.search(r"\| Speed rises with pruning +\| \? +\|", text)


def test_perplexity_stands_beside_the_accuracy_that_decides():
    right = sentinel_evidence()
    claim = verdict.SENTINEL[0]
    assert "perplexity" not in claim.decide(right, "M").text
    steps = right.tidy["fraction_pruned"].map({0.0: 2.0, 0.25: 2.5, 0.5: 1234.5, 0.7: 3.0, 0.75: 9000.0, 1.0: 9000.0})
    of_tokens = verdict.Evidence(right.tidy.assign(perplexity=steps), 1.0)
    found = claim.decide(of_tokens, "M")
    assert found.holds and found.text.endswith("; perplexity 2.00 with all heads, at the most 1,234.50")
    of_classes = verdict.Evidence(right.tidy.assign(perplexity=math.nan), 1.0)
    assert claim.decide(of_classes, "M") == claim.decide(right, "M")
    text = verdict.markdown(verdict.decide({"M": "Model"}, of_tokens, None, no_parameters()), True, "test")
    assert "keeps performance: accuracy, of language models that of next tokens" in text


def test_items_are_counted_and_labelled_by_whose_they_are():
    table = verdict.decide({"M": "Model", "N": "Other"}, sentinel_evidence(), None, no_parameters())
    assert table.groupby("part")["paper"].agg(set).to_dict() == {"Claims": {"yes"}, "Sentinel-AI": {""}}
    text = verdict.markdown(table, True, "test")
    counts = table.groupby(["part", "status"]).size()
    assert f"- claims of the paper: {counts['Claims', 'not run']} not run\n" in text
    assert "- claims of Sentinel-AI: 4 reproduced, 4 not run\n" in text and "The paper against" not in text


def advice(evidence):
    table = verdict.decide({"M": "Model"}, evidence, None, no_parameters())
    assert table.loc[table["status"] == "not run", "this run"].str.len().gt(10).all()
    return table[table["status"] == "not run"].set_index("item")["this run"].to_dict()


def test_what_was_not_run_says_what_to_add():
    whole = sentinel_evidence()
    assert set(advice(whole)) == {claim.says for claim in verdict.CLAIMS if not claim.only}
    of_nothing = advice(verdict.Evidence(whole.tidy[:0], 1.0))
    assert of_nothing["Greedy-Gnorm beats attention entropy"] == "add the strategy `greedy_gnorm` to config.yaml"
    assert "published=PATH" in of_nothing["The entropy shards give the merged entropy"]
    by_hand = {
        "Pruning up to 70% of the heads keeps performance": "add the strategy `ae` to config.yaml",
        "Entropy beats random pruning at high levels": "add the strategy `ae` to config.yaml",
        "Magnitude beats random pruning": "add the strategy `random` to config.yaml",
        "Speed rises with pruning": "add `tokens_per_second` to `metrics` of its task in config.yaml",
    }
    assert {name: of_nothing[name] for name in by_hand} == by_hand
    no_entropy = dataclasses.replace(whole, tidy=whole.tidy[whole.tidy["strategy"] != "ae"])
    no_entropy.speeds["M"] = whole.speeds["M"].assign(strategy="greedy_gnorm")
    assert advice(no_entropy)["Speed rises with pruning"] == "add the strategy `ae` to config.yaml"
    early = verdict.Evidence(whole.tidy[whole.tidy["fraction_pruned"] < 0.5], 1.0)
    said = advice(early)["Pruning up to 70% of the heads keeps performance"]
    assert said == "`ae` ends before the last head: set `stop: {}` in config.yaml"
    few = whole.tidy[whole.tidy["fraction_pruned"].isin([0, 1]) | (whole.tidy["strategy"] == "ae")]
    said = advice(verdict.Evidence(few, 1.0))["Entropy beats random pruning at high levels"]
    assert said == "raise `random.levels` in the suite"


TRAIN = "`vary: training` in the suite, for a model that it trains"


@pytest.mark.parametrize(
    ("published", "independent", "runs", "status", "said"),
    [
        (False, True, 1, "not run", "set `runs: 3` in config.yaml"),
        (False, True, 3, "reproduced", "yes: 3 runs, each with a model of its own"),
        (False, False, 1, "not run", f"set `runs: 3` in config.yaml and {TRAIN}"),
        (False, False, 3, "not run", f"3 runs resample the calibration rows of one model: set {TRAIN}"),
        (True, False, 1, "differs", ""),
        (True, False, 3, "reproduced", ""),
    ],
)
def test_few_runs_of_ones_own_are_a_setting_and_say_nothing_about_the_paper(published, independent, runs, status, said):
    """Runs are independent where each trains a model."""
    run = pd.DataFrame({"fraction_pruned": [0, 0.5, 1], "heads_pruned": [0, 1, 2], "accuracy": [0.9, 0.8, 0.5]})
    run = run.assign(model="M", strategy="greedy_gnorm", trial=None, heads_left=2 - run["heads_pruned"])
    tidy = pd.concat([run.assign(run=i) for i in range(runs)])
    evidence = verdict.Evidence(tidy, 1.0, published=published, independent=("M",) if independent else ())
    sides = (None, evidence) if published else (evidence, None)
    table = verdict.decide({"M": "Model"}, *sides, no_parameters()).set_index("item")
    row = table.loc["Averaged over three independent runs"]
    assert row["status"] == status and row["this run"] == said


@pytest.mark.parametrize(("apart", "mean"), [(False, 0.6), (True, 0.7)])
def test_claims_compare_run_0_with_trials_on_its_model(apart, mean):
    """Trials of another run prune another model."""
    levels = [0.0, 0.5, 1.0]
    middles = {("greedy_gnorm", 0, None): 0.65, ("random", 0, 0): 0.7, ("random", 1, 1): 0.5}
    curves = [
        pd.DataFrame({"fraction_pruned": levels, "accuracy": [0.9, middle, 0.1], "heads_pruned": [0, 2, 4]}).assign(
            model="M", strategy=strategy, trial=trial, run=run if apart or strategy != "random" else None
        )
        for (strategy, run, trial), middle in middles.items()
    ]
    evidence = verdict.Evidence(pd.concat(curves).assign(heads_left=lambda table: 4 - table["heads_pruned"]), 1.0)
    found = verdict.greedy_beats_random(evidence, "M")
    assert f"area 0.575 against {0.25 + mean / 2:.3f}" in found.text and found.holds is not apart


def published_tidy(folder):
    found = interchange.scan(folder)
    output = folder / "tidy.csv"
    collect_published.main(curves=found.all_curves(), random=found.all_trials(), output=output)
    return pd.read_csv(output)


def test_a_clone_is_read_as_it_is(clone):
    found = interchange.scan(clone)
    assert found.models == list(SIZES)
    assert found.strategies == ["greedy_gnorm", "inverse_gnorm", "ae", "inverse_ae", "random"]
    tidy = published_tidy(clone)
    assert tidy.groupby("model")["trial"].max().to_dict() == {"ALBERT": 4, "BERT": 9, "ROBERTA": 4, "XLM_ROBERTA": 4}
    assert set(tidy["strategy"]) == {*POWERS, "random"}
    greedy = tidy.query("model == 'ALBERT' and strategy == 'greedy_gnorm'")
    assert len(greedy) == 13 and greedy["fraction_pruned"].max() == 1


@pytest.mark.parametrize("name", ["static_gnorm", "loss_gnorm", "ae", "inverse_gnorm"])
def test_strategy_names_come_back(name):
    assert interchange.strategy_of(interchange.strategy_name(name)) == name


@pytest.mark.parametrize(
    "change,said",
    [
        (lambda t: t.rename(columns={"Accuracy": "acc"}), "has no column 'Accuracy'; it has Pruned_Heads, acc"),
        (lambda t: t.assign(Accuracy="high"), "column 'Accuracy' must hold numbers only"),
        (lambda t: t.assign(Accuracy=50.0), "accuracies must lie between 0 and 1"),
        (lambda t: t.iloc[::-1], "column 'Pruned_Heads' must rise"),
    ],
)
def test_a_curve_that_is_not_one_is_named(tmp_path, change, said):
    path = tmp_path / "curve.csv"
    change(curve("BERT", "ae")).to_csv(path, index=False)
    with pytest.raises(UserError, match="curve.csv.*" + said.replace("(", r"\(")):
        accuracies.curve(str(path))


def test_collapse_rises_and_intervals():
    assert collapse([0, 0.5, 1], [1.0, 0.6, 0.0]) == 1 and collapse([0, 0.5, 1], [1.0, 0.4, 0.0]) == 0.5
    assert rises([1, 0.5, 0.7, 0.6, 0.9]) == pytest.approx(0.5)
    assert rises([1, 0.5, 0.7, 0.6, 0.61], least=0.05) == pytest.approx(0.2)
    low, high = wilson(0.9, 10)
    assert (round(low, 4), round(high, 4)) == (0.5958, 0.9821)
    assert wilson(1.0, 25)[1] == pytest.approx(1.0)


@pytest.mark.parametrize(("seen", "held"), [(0, True), (2, False)])
def test_a_run_is_held_out_if_no_evaluation_row_was_seen(seen, held):
    judged = dataclasses.replace(sentinel_evidence(), splits={"M": {"evaluation": [1, 2, 3], "seen": seen}})
    found = verdict.held_out(judged, "M")
    assert found.text == f"{seen} of 3 rows were also trained or scored on" and found.holds == held


@pytest.mark.fault(
    "the unpruned model is worse than always answering the most common class", "the verdict's first line"
)
def test_a_model_that_is_worse_than_guessing_is_the_verdicts_first_line():
    evidence = sentinel_evidence()
    unpruned = evidence.tidy[evidence.tidy["heads_pruned"] == 0]["accuracy"].iloc[0]
    for majority, said in ((unpruned + 0.01, True), (unpruned, False), (None, False)):
        judged = dataclasses.replace(evidence, splits={"M": {"majority": majority}})
        warnings = judged.guesses({"M": "Model", "N": "Other"})
        assert len(warnings) == said
        text = verdict.markdown(pd.DataFrame(columns=["part", "status"]), True, "test", warnings)
        assert text.startswith("# Verdict\n\n**Model is right on") == said
