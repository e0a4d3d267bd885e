"""A suite whose runs train models of their own, to the tables and the verdict."""

from pathlib import Path

import pandas as pd
import prune_heads
import pytest
import torch
import yaml
from support import copy_workflow, once, part_files, planned, run_of, snakemake

from gnorm.files import digest, read_json
from gnorm.resume import State
from gnorm.scores.entropy import read_shards
from gnorm.statistics.columns import read_run
from gnorm.workbench import Workbench

RUNS = 2
STRATEGIES = {
    "greedy_gnorm": {"score": "gnorm", "prune": "lowest", "rescore": "every_step"},
    "ae": {"score": "entropy", "prune": "highest", "rescore": "never"},
    "random": {"score": "random", "trials": 4},
}
COMPARED = {"gnorm": {}, "entropy": {}, "shapley": {"permutations": 2}}
CHOSEN = ("--config", "suite=smoke", f"runs={RUNS}")
BERT = "results/smoke/BERT"


def write(tree: Path, **changes) -> Path:
    """The suite `smoke` with BERT alone, whose runs train their own models, and few strategies."""
    suite = yaml.safe_load((tree / "suites/smoke.yaml").read_text())
    del suite["models"]["ALBERT"]
    (tree / "suites/smoke.yaml").write_text(yaml.safe_dump(suite | {"vary": "training", "compare": COMPARED} | changes))
    config = yaml.safe_load((tree / "config.yaml").read_text()) | {"strategies": STRATEGIES}
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    return tree


@pytest.fixture(scope="session")
def apart(tmp_path_factory) -> Path:
    """A finished run; never change it, copy it."""

    def make(folder: Path) -> None:
        made = snakemake(write(copy_workflow(folder)), "--quiet", "rules", *CHOSEN)
        assert made.returncode == 0, made.stderr[-5000:]

    return once(tmp_path_factory, "apart", make)


def test_which_jobs_a_run_of_its_own_adds(tmp_path):
    """Everything that reads its model, and nothing else; one dataset, and what is shown of run 0, stay as they are."""
    own = planned(write(copy_workflow(tmp_path)), *CHOSEN)
    write(copy_workflow(tmp_path), vary="rows", runs_per_job=1)
    rows = planned(tmp_path, *CHOSEN)
    # By rows the two runs of a strategy are two jobs already, and so are those of the comparison.
    added = {"make_checkpoint": 1, "entropy_shard": 2, "merge_entropy": 1, "random_pruning": 2, "merge_trials": 1}
    assert {rule: n - rows.get(rule, 0) for rule, n in own.items() if n != rows.get(rule)} == added
    assert own["make_dataset"] == own["measure_controls"] == own["find_solution"] == 1
    assert own["prune_heads"] == 4 and own["compare_criteria"] == 2 and own.keys() == rows.keys()


def test_nothing_is_done_twice(apart):
    assert planned(apart, *CHOSEN) == {}
    assert not (apart / "results/smoke/state").exists()


def test_run_0_is_that_of_a_suite_that_varies_rows(apart, smoke):
    weights = [tree / BERT / "checkpoint/model.safetensors" for tree in (apart, smoke)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    for strategy in ("greedy_gnorm", "ae"):
        one, other = (run_of(tree / "results/smoke", "BERT", strategy)[0] for tree in (apart, smoke))
        pd.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"))
    for name in ("random/trials.csv", "controls.json", "entropy/diagnostics.json", "heads.json"):
        assert (apart / BERT / name).read_bytes() == (smoke / BERT / name).read_bytes(), name
    for path in (apart / "results/smoke/experiments_results").glob("*.csv"):
        assert path.read_bytes() == (smoke / "results/smoke/experiments_results" / path.name).read_bytes()
    for name in ("BERT0_7AE.pt", "BERT8_15AE.pt", "BERT_16AE.pt"):
        one, other = (torch.load(t / f"results/smoke/AE_calculation_results/{name}") for t in (apart, smoke))
        assert torch.equal(one, other)
    masks = [tree / "results/smoke/solutions/BERT/mask.csv" for tree in (apart, smoke)]
    assert masks[0].read_bytes() == masks[1].read_bytes()


def test_a_run_has_its_own_model_entropies_and_orders(apart):
    first, second = (apart / BERT / own for own in ("", "run1"))
    assert digest(first / "checkpoint") != digest(second / "checkpoint")
    assert read_json(first / "heads.json") == read_json(second / "heads.json")
    of_models = [
        list(read_shards([own / f"entropy/shards/{part}.pt" for part in ("0-7", "8-15")], digest(own / "checkpoint")))
        for own in (first, second)
    ]
    assert all(torch.equal(a["rows"], b["rows"]) for a, b in zip(*of_models, strict=True))
    assert not any(torch.equal(a["mean"], b["mean"]) for a, b in zip(*of_models, strict=True))
    orders = [set(pd.read_csv(own / "random/trials.csv")["order"]) for own in (first, second)]
    assert len(orders[0] | orders[1]) > len(orders[0])
    compared = pd.read_csv(first / "criteria/scores.csv")
    slots = ["criterion", "layer", "head"]
    runs = [part.set_index(slots)["score"].sort_index() for _, part in compared.groupby("run")]
    assert len(runs) == RUNS
    for criterion in COMPARED:
        assert not (runs[0][criterion] == runs[1][criterion]).all(), criterion


def test_a_runs_trajectory_is_what_its_own_model_gives_on_the_rows_as_they_are(apart, tmp_path):
    """Pruned again by hand: the listed calibration rows, whatever the number of the run."""
    own = apart / BERT / "run1"
    strategy = STRATEGIES["greedy_gnorm"] | {"unit": "heads", "settings": {}}
    settings = {"dataset_folder": apart / BERT / "dataset", "threads": 1, "surgery": "internal"}
    expected = read_run(own / "trajectories/greedy_gnorm/1-1.csv", run=1)
    orders = []
    for run, resamples in ((0, True), (1, False), (1, True)):
        outputs = part_files(tmp_path / f"{run}-{resamples}", "trajectories", "scores")
        bench = Workbench.load(checkpoint=own / "checkpoint", resamples=resamples, **settings)
        state = State(tmp_path / f"state/{run}-{resamples}.pt", {"run": run, "resamples": resamples})
        prune_heads.main(
            bench=bench, strategy=strategy, runs=[run], seed=2026, stop={}, state=state, outputs=outputs, shards=[]
        )
        orders.append((read_run(outputs.trajectories, run), torch.load(outputs.scores)[run]))
    (listed, listed_scores), (again, scores), (_, resampled) = orders
    for made in (listed, again):
        same = ["step", "layer", "head", "score", "correct", "evaluated", "parameters"]
        pd.testing.assert_frame_equal(made[same], expected[same])
    stored = torch.load(own / "trajectories/greedy_gnorm/1-1.scores.pt")[1]
    assert torch.equal(scores, stored) and torch.equal(listed_scores, stored) and not torch.equal(resampled, stored)


def test_the_tidy_table_tells_runs_and_trials_apart(apart):
    tidy = pd.read_csv(apart / "results/smoke/tidy.csv")
    assert tidy["run"].notna().all() and set(tidy["run"]) == set(range(RUNS))
    random = tidy[tidy["strategy"] == "random"]
    trials = random.groupby("run")["trial"].unique()
    assert [sorted(numbers) for numbers in trials] == [[*range(8)]] * RUNS
    unpruned = tidy[tidy["heads_pruned"] == 0].groupby("run")["loss"].unique()
    assert unpruned.map(len).eq(1).all() and unpruned[0] != unpruned[1]  # whatever prunes it, a run has one model
    areas = pd.read_csv(apart / "results/smoke/tables/areas.csv").set_index("strategy")
    assert areas["curves"].to_dict() == {"greedy_gnorm": RUNS, "ae": RUNS, "random": 8 * RUNS}


def test_the_verdict_counts_runs_that_train_as_independent(apart, smoke):
    def said(tree):
        verdict = pd.read_csv(tree / "results/smoke/verdict.csv").set_index(["item", "model"])
        return verdict.loc[("Averaged over three independent runs", "BERT"), ["status", "this run"]].tolist()

    assert said(apart) == ["not run", "set `runs: 3` in config.yaml"]
    status, why = said(smoke)
    assert status == "not run" and why.startswith("3 runs resample the calibration rows of one model")


def test_logs_and_benchmarks_are_told_apart_by_run(apart):
    jobs = "prune_heads/BERT/greedy_gnorm/0-0", "run1/prune_heads/BERT/greedy_gnorm/1-1"
    for run, job in enumerate(jobs):
        assert f"run {run}: accuracy" in (apart / f"results/smoke/logs/{job}.log").read_text()
        assert (apart / f"results/smoke/benchmarks/{job}.tsv").read_text().startswith("s\t")


def test_going_back_to_rows_takes_run_0_as_it_is(apart, tmp_path, copy_of):
    """And what a run of its own has left behind counts nowhere."""
    tree = copy_of(apart, tmp_path)
    suite = tree / "suites/smoke.yaml"
    suite.write_text(suite.read_text().replace("vary: training", "vary: rows"))
    plan = planned(tree, *CHOSEN)
    assert plan["prune_heads"] == 2 and plan["compare_criteria"] == 1
    assert not {"make_checkpoint", "entropy_shard", "random_pruning", "measure_controls"} & set(plan)
    target = f"{BERT}/trajectories/greedy_gnorm/0-1.csv"
    made = snakemake(tree, *CHOSEN, "--", target, "preview")
    assert made.returncode == 0, made.stderr[-3000:]
    assert "run 0 are there already" in made.stderr and "run 0: accuracy" not in made.stderr
    one, other = (read_run(path, 0) for path in (tree / target, apart / BERT / "trajectories/greedy_gnorm/0-0.csv"))
    pd.testing.assert_frame_equal(one, other)
    resampled, own = read_run(tree / target, 1), read_run(tree / BERT / "run1/trajectories/greedy_gnorm/1-1.csv", 1)
    assert resampled["loss"].iloc[0] == one["loss"].iloc[0] != own["loss"].iloc[0]


def test_a_loaded_model_that_is_asked_to_train_is_refused_while_planning(apart, tmp_path, copy_of):
    tree = copy_of(apart, tmp_path)
    suite = yaml.safe_load((tree / "suites/smoke.yaml").read_text())
    suite["models"]["BERT"]["checkpoint"] = {"source": "local", "path": str(apart / BERT / "checkpoint")}
    (tree / "suites/smoke.yaml").write_text(yaml.safe_dump(suite))
    made = snakemake(tree, "-n", *CHOSEN)
    assert made.returncode and "Traceback" not in made.stdout + made.stderr
    assert "models.BERT.vary: its checkpoint is loaded" in made.stderr
