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
from gnorm.pages.verdict import markdown
from gnorm.published import accuracies, facts, interchange, paper, verdict
from gnorm.published.claims import CLAIMS, SENTINEL
from gnorm.published.deciding import found as decided
from gnorm.published.evidence import PRINTED, Evidence, rows_known
from gnorm.statistics import outcomes
from gnorm.statistics.curves import wilson
from gnorm.statistics.estimates import COMPARE, Missing, OfRows
from gnorm.statistics.intervals import FAILS, HOLDS, UNDECIDED, Bootstrap

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
    numbers, of_claims = (table[table["part"].str.startswith("Table") == own] for own in (True, False))
    assert set(numbers["status"]) == {"reproduced", "differs"}
    assert set(of_claims["status"]) == {HOLDS, FAILS, UNDECIDED, "not published"}
    sizes = numbers[~numbers["item"].str.contains("accuracy")]
    assert len(sizes) == 4 * 3 + 2 * (8 + 8 + 7 + 7)
    wrong = sizes[sizes["status"] != "reproduced"]
    assert wrong[["model", "item"]].values.tolist() == [["BERT", "decrease of size (%)"]]  # 22.52 is a slip
    assert "slip" in wrong["evidence"].iloc[0]
    claims = table[table["part"] == "Claims"].set_index(["item", "model"])
    assert claims.loc[("Greedy-Gnorm beats attention entropy", "BERT"), "status"] == HOLDS
    beats = claims.loc[("Greedy-Gnorm beats attention entropy", "BERT")]
    power = {
        name: 100 * (paper.MODELS["BERT"].accuracy[0] / 100 - 0.5 / (POWERS[name] + 1))
        for name in ("greedy_gnorm", "ae")
    }
    assert beats["effect"] == pytest.approx(power["greedy_gnorm"] - power["ae"], abs=0.2)
    assert 0 < beats["low"] < beats["effect"] < beats["high"] and beats[["rows", "runs"]].tolist() == [2329, 1]
    assert claims.loc[("Rescoring after every head beats scoring once", "BERT"), "status"] == "not published"
    assert claims.loc[("Averaged over three independent runs", "BERT"), "status"] == FAILS
    left_out = claims.loc[("The entropy shards give the merged entropy", "XLM-RoBERTa"), "published"]
    assert left_out.startswith("holds") and "rows left out: 7723" in left_out
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
    assert table.loc[("Greedy-Gnorm beats attention entropy", "BERT"), "status"] == HOLDS


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
    assert both["published"].str.match("undecided: area .* points, no interval$").all()  # of how many rows is not known
    assert both["this run"].str.contains("95% interval", regex=False).all()
    assert both.set_index("model")["rows"].to_dict() == {"BERT": 40, "ALBERT": 16}
    assert (both["runs"] == 3).all() and (both["models"] == 1).all()


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
    evidence = Evidence(tidy, PRINTED)
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


BY_NAME = {claim.says: claim for claim in (*CLAIMS, *SENTINEL)}


def status(name, evidence, model):
    return decided(BY_NAME[name], evidence, model).status


def test_claims_can_fail(clone):
    """The opposite numbers give the opposite verdict."""
    tidy = published_tidy(clone)
    inside = tidy["strategy"].eq("random") & tidy["fraction_pruned"].between(0.01, 0.99)
    tidy["accuracy"] -= 0.05 * inside
    names = {"greedy_gnorm": "inverse_gnorm", "inverse_gnorm": "greedy_gnorm"}
    swapped = tidy.assign(strategy=tidy["strategy"].replace(names))
    right, wrong = (Evidence(t, PRINTED, published=True, known=rows_known(t)) for t in (tidy, swapped))
    assert right.known == {"BERT": 2329, "ALBERT": 9815, "ROBERTA": 1000, "XLM_ROBERTA": 3000}
    for name in (
        "Greedy-Gnorm beats attention entropy",
        "Inverse-Gnorm collapses first",
        "Greedy-Gnorm beats random pruning",
        "... at each level",
    ):
        for model in SIZES:
            assert (status(name, right, model), status(name, wrong, model)) == (HOLDS, FAILS), (name, model)
    with pytest.raises(Missing, match="add the strategy `static_gnorm` to config.yaml"):
        status("Rescoring after every head beats scoring once", right, "BERT")
    for name in ("Accuracy rebounds on the way", "Inverse-AE falls slower and more erratically"):
        found = decided(BY_NAME[name], right, "ROBERTA")  # which rows were right at which step is not known
        assert found.status == UNDECIDED and found.text.endswith("no interval") and not found.takes
    assert status("Averaged over three independent runs", right, "BERT") == FAILS
    least = {"B": 0.1, "C - B": 1e-9, "A - B": 1e-9}
    diagnostics = {"BERT": {"kendall_tau": {"C": 0.999}, "least": least}}
    changed = {"layer": np.array(1), "pruned": np.array([(0, 0), (1, 1)]), "change": np.ones((2, 4, 4))}
    own = Evidence(tidy, 1.0, entropy=diagnostics, gradients={"BERT": changed})
    of_facts = (facts.epsilon_keeps_the_order, facts.epsilon_shifts, facts.gradients_change_elsewhere)
    assert {fact(own, "BERT").status for fact in of_facts} == {HOLDS}
    broken = copy.deepcopy(own)
    broken.entropy["BERT"]["kendall_tau"]["C"], broken.entropy["BERT"]["least"]["B"] = 0.9, -1
    broken.gradients["BERT"]["change"][1, 3] = 0
    assert {fact(broken, "BERT").status for fact in of_facts} == {FAILS}


def sentinel_evidence(entropy=0.9, half=0.9, speed=1.5, spread=4.0):
    """Curves of one model that falls from 0.9 to 0.1, but by entropy keeps what is asked for up to 70%."""
    levels = [0.0, 0.25, 0.5, 0.7, 0.75, 1.0]
    rows = []
    for strategy, trials, values in (
        ("ae", [None], [0.9, 0.9, half, entropy, entropy - 0.05, 0.1]),
        ("random", [0, 1], [0.9, 0.7, 0.5, 0.3, 0.25, 0.1]),
    ):
        for trial in trials:
            for share, value in zip(levels, values, strict=True):
                row = {"model": "M", "strategy": strategy, "run": None if strategy == "random" else 0, "trial": trial}
                pruned = round(20 * share)
                row = row | {"heads_pruned": pruned, "heads_left": 20 - pruned}
                rows.append(row | {"fraction_pruned": share, "accuracy": value})
    speeds = pd.DataFrame({"strategy": "ae", "fraction_pruned": levels})
    speeds["tokens_per_second"] = [100.0, 100.0, 100.0, 100 * speed, 100 * speed, 900.0]
    speeds["lowest_tokens_per_second"] = speeds["tokens_per_second"] - spread
    speeds["highest_tokens_per_second"] = speeds["tokens_per_second"] + spread
    return Evidence(pd.DataFrame(rows), 1.0, known={"M": 100_000}, speeds={"M": speeds})


def with_rows(folder, evidence, magnitude=0.7, rows=1000, level=0.95):
    """The same with outcomes row by row, and those of a comparison: rows turn wrong one after another."""
    files, own = {"runs": [], "trials": [], "compared": []}, evidence.tidy
    order = np.random.default_rng(0).permutation(rows)
    levels = own[own["strategy"] == "ae"]["fraction_pruned"].tolist()
    compared = [0.9, *[magnitude] * (len(levels) - 2), 0.1]

    def kept(accuracies, curve=0, criterion=None):
        right = order < np.round(rows * np.array(accuracies))[:, None]
        values = {"heads": 20, "row": np.arange(rows), "answers": np.ones(rows), "label": np.ones(rows)}
        values |= {"curve": [curve] * len(right), "heads_pruned": np.round(20 * np.array(levels)), "predicted": right}
        made = outcomes.Outcomes.from_arrays(values | {"loss": 0.0 * right, "confidence": 0.0 * right})
        return made.ordered_by(criterion) if criterion else made

    for (strategy, trial), curve in own.groupby(["strategy", "trial"], dropna=False):
        path = str(folder / f"{strategy}{trial}.rows.npz")
        outcomes.write(path, kept(curve["accuracy"], 0 if pd.isna(trial) else trial))
        files["runs" if pd.isna(trial) else "trials"].append((path, "M", strategy, *([] if pd.isna(trial) else [None])))
    outcomes.write(folder / "compared.rows.npz", kept(compared, criterion="magnitude"))
    files["compared"].append((str(folder / "compared.rows.npz"), "M"))
    return dataclasses.replace(evidence, rows=OfRows(Bootstrap(level, 500, 1), **files))


def test_sentinels_claims_are_decided_both_ways_and_not_without_data(tmp_path):
    right, wrong = sentinel_evidence(), sentinel_evidence(entropy=0.2, half=0.3, speed=0.9)
    counted, names = [claim.says for claim in SENTINEL if "Magnitude" not in claim.says], [c.says for c in SENTINEL]
    assert [status(name, right, "M") for name in counted] == [HOLDS] * 3
    assert [status(name, wrong, "M") for name in counted] == [FAILS] * 3
    for folder, evidence, magnitude, expected in (("right", right, 0.7, HOLDS), ("wrong", wrong, 0.2, FAILS)):
        (tmp_path / folder).mkdir()
        own = with_rows(tmp_path / folder, evidence, magnitude)
        assert [status(name, own, "M") for name in names] == [expected] * 4
    assert "1.50 times as many" in decided(BY_NAME[names[3]], right, "M").text  # the model without any head is left out
    assert status(names[0], sentinel_evidence(entropy=0.885), "M") == FAILS  # more than a point at 70%
    assert status(names[0], sentinel_evidence(entropy=0.89), "M") == UNDECIDED
    bare = Evidence(right.tidy[right.tidy["strategy"] == "greedy_gnorm"], 1.0)
    for name in names:
        with pytest.raises(Missing):
            status(name, bare, "M")
    with pytest.raises(Missing, match="add `magnitude` to `compare`"):
        status(names[2], dataclasses.replace(own, rows=dataclasses.replace(own.rows, compared=())), "M")
    table = verdict.decide({"M": "Model"}, with_rows(tmp_path, right), None, no_parameters())
    own = table[table["part"] == "Sentinel-AI"]
    assert len(own) == 4 and set(own["status"]) == {HOLDS} and own["this run"].str.startswith("holds: ").all()
    text = markdown(table, True, "test", 0.95)
    assert text.count("Does it hold?") == 2 and "What Sentinel-AI says" in text
    of_nothing = verdict.decide({"M": "Model"}, Evidence(right.tidy, 1.0), None, no_parameters())
    found = of_nothing[of_nothing["part"] == "Sentinel-AI"]["status"].tolist()
    assert found == [UNDECIDED, UNDECIDED, "not run", "not run"]  # of how many rows is not known


@pytest.mark.parametrize(
    "speed,spread,holds",
    [
        (1.5, 24.0, HOLDS),
        (1.5, 26.0, UNDECIDED),
        (0.5, 24.0, FAILS),
        (0.5, 26.0, UNDECIDED),
        (1.0, 0.0, UNDECIDED),
    ],
)
def test_speed_is_decided_where_rounds_do_not_overlap(speed, spread, holds):
    found = facts.speed_rises(sentinel_evidence(speed=speed, spread=spread), "M")
    assert found.status == holds
    assert f"100 tokens a second with all heads ({100 - spread:.0f} to {100 + spread:.0f} over rounds)" in found.text
    assert (f"({100 * speed - spread:.0f} to {100 * speed + spread:.0f}): these overlap" in found.text) == (
        holds == UNDECIDED
    )


def no_parameters():
    return pd.DataFrame(columns=["model", "module", "before", "after"])


def test_an_undecided_claim_is_shown_as_one():
    table = verdict.decide({"M": "Model"}, sentinel_evidence(spread=30.0), None, no_parameters())
    row = table.set_index("item").loc["Speed rises with pruning"]
    assert row["status"] == "undecided" and row["this run"].startswith("undecided: 100 tokens a second")
    text = markdown(table, True, "test", 0.95)
    assert "- claims of Sentinel-AI: 2 holds, 1 undecided, 1 not run\n" in text
    assert re.search(r"\| Speed rises with pruning +\| \? +\|", text)


def test_perplexity_stands_beside_the_accuracy_that_decides():
    right = sentinel_evidence()
    claim = SENTINEL[0]
    assert "perplexity" not in decided(claim, right, "M").text
    steps = right.tidy["fraction_pruned"].map({0.0: 2.0, 0.25: 2.5, 0.5: 1234.5, 0.7: 3.0, 0.75: 9000.0, 1.0: 9000.0})
    of_tokens = dataclasses.replace(right, tidy=right.tidy.assign(perplexity=steps))
    found = decided(claim, of_tokens, "M")
    assert found.status == HOLDS and found.text.endswith("; perplexity 2.00 with all heads, at the most 1,234.50")
    of_classes = dataclasses.replace(right, tidy=right.tidy.assign(perplexity=math.nan))
    assert decided(claim, of_classes, "M").text == decided(claim, right, "M").text
    text = markdown(verdict.decide({"M": "Model"}, of_tokens, None, no_parameters()), True, "test", 0.95)
    assert "keeps performance: accuracy by entropy (`ae`) at every step up to 70%" in text


def test_items_are_counted_and_labelled_by_whose_they_are():
    table = verdict.decide({"M": "Model", "N": "Other"}, sentinel_evidence(), None, no_parameters())
    assert table.groupby("part")["paper"].agg(set).to_dict() == {"Claims": {"yes"}, "Sentinel-AI": {""}}
    text = markdown(table, True, "test", 0.95)
    counts = table.groupby(["part", "status"]).size()
    assert f"- claims of the paper: {counts['Claims', 'not run']} not run\n" in text
    assert "- claims of Sentinel-AI: 3 holds, 5 not run\n" in text and "The paper against" not in text


def advice(evidence):
    table = verdict.decide({"M": "Model"}, evidence, None, no_parameters())
    assert table.loc[table["status"] == "not run", "this run"].str.len().gt(10).all()
    return table[table["status"] == "not run"].set_index("item")["this run"].to_dict()


def test_what_was_not_run_says_what_to_add():
    whole = sentinel_evidence()
    assert set(advice(whole)) == {claim.says for claim in CLAIMS if not claim.only} | {"Magnitude beats random pruning"}
    of_nothing = advice(Evidence(whole.tidy[:0], 1.0))
    assert of_nothing["Greedy-Gnorm beats attention entropy"] == "add the strategy `greedy_gnorm` to config.yaml"
    assert "published=PATH" in of_nothing["The entropy shards give the merged entropy"]
    by_hand = {
        "Pruning up to 70% of the heads keeps performance": "add the strategy `ae` to config.yaml",
        "Entropy beats random pruning at high levels": "add the strategy `ae` to config.yaml",
        "Magnitude beats random pruning": COMPARE.format("magnitude"),
        "Speed rises with pruning": "add `tokens_per_second` to `metrics` of its task in config.yaml",
    }
    assert {name: of_nothing[name] for name in by_hand} == by_hand
    no_entropy = dataclasses.replace(whole, tidy=whole.tidy[whole.tidy["strategy"] != "ae"])
    no_entropy.speeds["M"] = whole.speeds["M"].assign(strategy="greedy_gnorm")
    assert advice(no_entropy)["Speed rises with pruning"] == "add the strategy `ae` to config.yaml"
    early = Evidence(whole.tidy[whole.tidy["fraction_pruned"] < 0.5], 1.0)
    said = advice(early)["Pruning up to 70% of the heads keeps performance"]
    assert said == "`ae` ends before the last head: set `stop: {}` in config.yaml"
    few = whole.tidy[whole.tidy["fraction_pruned"].isin([0, 1]) | (whole.tidy["strategy"] == "ae")]
    said = advice(Evidence(few, 1.0))["Entropy beats random pruning at high levels"]
    assert said == "raise `random.levels` in the suite"


TRAIN = "`vary: training` in the suite, for a model that it trains"


@pytest.mark.parametrize(
    ("published", "independent", "runs", "status", "said"),
    [
        (False, True, 1, "not run", "set `runs: 3` in config.yaml"),
        (False, True, 3, HOLDS, "holds: 3 runs, each with a model of its own"),
        (False, False, 1, "not run", f"set `runs: 3` in config.yaml and {TRAIN}"),
        (False, False, 3, "not run", f"3 runs resample the calibration rows of one model: set {TRAIN}"),
        (True, False, 1, FAILS, ""),
        (True, False, 3, HOLDS, ""),
    ],
)
def test_few_runs_of_ones_own_are_a_setting_and_say_nothing_about_the_paper(published, independent, runs, status, said):
    """Runs are independent where each trains a model."""
    run = pd.DataFrame({"fraction_pruned": [0, 0.5, 1], "heads_pruned": [0, 1, 2], "accuracy": [0.9, 0.8, 0.5]})
    run = run.assign(model="M", strategy="greedy_gnorm", trial=None, heads_left=2 - run["heads_pruned"])
    tidy = pd.concat([run.assign(run=i) for i in range(runs)])
    evidence = Evidence(tidy, 1.0, published=published, independent=("M",) if independent else ())
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
    evidence = Evidence(pd.concat(curves).assign(heads_left=lambda table: 4 - table["heads_pruned"]), 1.0)
    found = decided(BY_NAME["Greedy-Gnorm beats random pruning"], evidence, "M")
    assert f"area 0.575 against {0.25 + mean / 2:.3f}" in found.text
    assert (found.estimate.value > 0) is not apart


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


def test_wilsons_interval():
    low, high = wilson(0.9, 10)
    assert (round(low, 4), round(high, 4)) == (0.5958, 0.9821)
    assert wilson(1.0, 25)[1] == pytest.approx(1.0)


@pytest.mark.parametrize(("seen", "held"), [(0, True), (2, False)])
def test_a_run_is_held_out_if_no_evaluation_row_was_seen(seen, held):
    judged = dataclasses.replace(sentinel_evidence(), splits={"M": {"evaluation": [1, 2, 3], "seen": seen}})
    found = facts.held_out(judged, "M")
    assert found.text == f"{seen} of 3 rows were also trained or scored on" and (found.status == HOLDS) is held


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
        text = markdown(pd.DataFrame(columns=verdict.COLUMNS), True, "test", 0.95, warnings)
        assert text.startswith("# Verdict\n\n**Model is right on") == said
