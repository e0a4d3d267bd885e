"""What is rerun, and what is not, on a finished tree; what a run leaves behind."""

import ast
import gc
import json
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from support import ROOT, copy_workflow, planned, run_of, run_python, snakemake, suite_of

from gnorm import imports
from gnorm.statistics.columns import read_run

SMOKE = ("--config", "suite=smoke")
ASKED = suite_of("smoke")


def append(path: Path, text: str = "\n# edited\n") -> None:
    path.write_text(path.read_text() + text)


def edit_config(folder: Path, **changes) -> None:
    path = folder / "config.yaml"
    config = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(config))


AFTER_PRUNING = {"collect_results", "make_table", "make_workbook", "draw_figure", "write_verdict", "write_report"}
AFTER_PRUNING |= {"write_reproduction"}


def test_a_second_run_does_nothing(smoke):
    made = snakemake(smoke, *SMOKE)
    assert "Nothing to be done" in made.stdout + made.stderr


def test_touching_a_module_reruns_nothing(smoke, tmp_path, copy_of):
    tree = copy_of(smoke, tmp_path)
    assert planned(tree, *SMOKE) == {}  # the copy is as finished as the original
    (tree / "scripts/gnorm/models/heads.py").touch()
    assert planned(tree, *SMOKE) == {}


def test_editing_a_figure_redraws_that_figure(smoke, tmp_path, copy_of):
    tree = copy_of(smoke, tmp_path)
    append(tree / "scripts/gnorm/figures/randompruning.py")
    assert planned(tree, *SMOKE) == {"draw_figure": 1, "write_reproduction": 1, "write_report": 1}
    made = snakemake(tree, *SMOKE)
    assert made.returncode == 0, made.stderr[-3000:]
    assert planned(tree, *SMOKE) == {}


# What follows from trajectories, trials and the comparison, beside tables, figures and the verdict.
FOLLOWS = AFTER_PRUNING | {"merge_entropy", "merge_trials", "merge_criteria", "export_entropy", "export_random"}
FOLLOWS |= {"export_accuracy", "find_solution", "export_solution"}
ONE_MODEL = {"make_dataset": 1, "make_checkpoint": 1, "prune_heads": 5, "compare_criteria": 1, "measure_controls": 1}
ONE_MODEL |= {"entropy_shard": 2, "gradient_change": 1, "measure_baselines": 1, "merge_entropy": 1, "find_solution": 1}


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("figures/style", {"draw_figure": len(ASKED.figures), "write_report": 1}),
        ("tables/entropy", {"make_table": 1, "make_workbook": 1, "write_report": 1}),
        ("published/verdict", {"write_verdict": 1, "write_report": 1}),
        ("statistics/comparisons", {"make_table": 1, "make_workbook": 1, "write_report": 1}),
        # Two models, greedy, inverse and static; the comparison has it too.
        ("scores/gnorm", {"prune_heads": 6, "compare_criteria": 2}),
        ("scores/magnitude", {"compare_criteria": 2}),
        ("data/sources/package", {}),
        ("data/sources/hub", {}),
        ("data/sources/generated", {rule: 2 * count for rule, count in ONE_MODEL.items()} | {"random_pruning": 3}),
        ("data/corpora/inference", ONE_MODEL | {"random_pruning": 1}),
        ("families/albert", ONE_MODEL | {"random_pruning": 1, "count_parameters": 1}),
        ("families/llama", {}),
        ("layout", {"draw_figure": len(ASKED.figures), "make_table": len(ASKED.tables), "write_verdict": 1}),
        (
            "workbench",
            {"prune_heads": 10, "random_pruning": 3, "compare_criteria": 2, "measure_controls": 2, "entropy_shard": 4},
        ),
        ("planning/cost", {}),
    ],
)
def test_editing_a_module_runs_what_depends_on_it(smoke, tmp_path, copy_of, module, expected):
    """And nothing else but what follows from these jobs."""
    tree = copy_of(smoke, tmp_path)
    append(tree / f"scripts/gnorm/{module}.py")
    plan = planned(tree, *SMOKE)
    assert {rule: plan.get(rule, 0) for rule in expected} == expected
    assert set(plan) <= {*expected, *(FOLLOWS if expected else ())}


def test_epsilon_redoes_entropy_and_what_ranks_by_it(smoke, tmp_path, copy_of):
    tree = copy_of(smoke, tmp_path)
    edit_config(tree, scores={"entropy": {"epsilon": 1e-5}})
    plan = planned(tree, *SMOKE)
    assert plan["entropy_shard"] == 4 and plan["merge_entropy"] == 2
    assert plan["prune_heads"] == 4  # two models, ae and inverse_ae
    untouched = {"make_dataset", "make_checkpoint", "random_pruning", "find_solution", "gradient_change"}
    assert not {*untouched, "measure_controls"} & set(plan)
    untouched_file = tree / "results/smoke/BERT/trajectories/greedy_gnorm/0-2.csv"
    before = untouched_file.stat().st_mtime_ns
    made = snakemake(tree, "results/smoke/tidy.csv", "entropy", *SMOKE)
    assert made.returncode == 0, made.stderr[-3000:]
    assert untouched_file.stat().st_mtime_ns == before
    assert '"epsilon": 1e-05' in (tree / "results/smoke/BERT/entropy/diagnostics.json").read_text()
    assert planned(tree, "results/smoke/tidy.csv", "entropy", *SMOKE) == {}


def test_adding_a_strategy_runs_the_new_jobs_only(smoke, tmp_path, copy_of):
    tree = copy_of(smoke, tmp_path)
    edit_config(tree, strategies={"by_loss": {"score": "gnorm", "settings": {"objective": "task_loss"}}})
    plan = planned(tree, *SMOKE)
    assert plan["prune_heads"] == 2 and plan["export_accuracy"] == 2
    assert set(plan) <= {"prune_heads", "export_accuracy"} | AFTER_PRUNING


def test_a_criterion_that_needs_attention_weights_trains_no_model_again(smoke, tmp_path, copy_of):
    """Though they are asked for when a checkpoint is made."""
    tree = copy_of(smoke, tmp_path)
    edit_config(tree, strategies={"products": {"score": "taylor"}}, compare=["gnorm", "attribution"])
    plan = planned(tree, *SMOKE)
    assert plan["prune_heads"] == 2 and plan["compare_criteria"] == 2
    assert set(plan) <= {"prune_heads", "compare_criteria", "merge_criteria", "export_accuracy"} | AFTER_PRUNING


def test_more_runs_make_those_that_are_missing(smoke, tmp_path, copy_of):
    """In a part of their own where runs are split; where all share a job, beside those of the signed part."""
    tree = copy_of(smoke, tmp_path)
    edit_config(tree, runs=5)
    plan = planned(tree, *SMOKE)
    assert plan["prune_heads"] == 10 and "random_pruning" not in plan  # a second part of each of two models' strategies
    assert plan["compare_criteria"] == 2
    suite = tree / "suites/smoke.yaml"
    suite.write_text(suite.read_text().replace("runs_per_job: 3", "runs_per_job: 5"))
    compared = "results/smoke/BERT/criteria/curves.csv"
    made = snakemake(tree, *SMOKE, "--", "results/smoke/BERT/trajectories/greedy_gnorm/0-4.csv", compared)
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stderr.count("run 0, 1, 2 are there already") == 2
    assert "run 3: accuracy" in made.stderr and "run 2: accuracy" not in made.stderr
    assert (tree / compared).read_text().startswith((smoke / compared).read_text())
    before, after = (tree / f"results/smoke/BERT/trajectories/greedy_gnorm/{part}.csv" for part in ("0-2", "0-4"))
    assert after.read_text().startswith(before.read_text())


def test_run_0_of_every_strategy_comes_before_other_runs(smoke, tmp_path, copy_of):
    """By both schedulers; jobs are only touched, in the order in which they would run on one core."""
    tree = copy_of(smoke, tmp_path)
    suite = tree / "suites/smoke.yaml"
    suite.write_text(suite.read_text().replace("runs_per_job: 3", "runs_per_job: 1"))
    for strategy, run in product((tree / "results/smoke").glob("*/trajectories/*"), range(3)):
        for end in ("csv", "scores.pt", "rows.npz", "json"):
            (strategy / f"{run}-{run}.{end}").touch()
    for scheduler in ("ilp", "greedy"):
        options = ("--touch", "--forcerun", "prune_heads", "--cores", "1", "--scheduler", scheduler)
        made = snakemake(tree, *options, *SMOKE, "--", "trajectories")
        assert made.returncode == 0, made.stderr[-3000:]
        order = re.findall(r"wildcards: .*strategy=\w+, first=(\d)", made.stdout + made.stderr)
        assert len(order) == 30 and order[:10] == ["0"] * 10 and {*order[10:]} == {"1", "2"}, (scheduler, order)


def test_neurons_and_trained_gates(smoke, tmp_path, copy_of):
    """Strategies of neurons run beside those of heads and are compared with none of them."""
    tree = copy_of(smoke, tmp_path)
    new = {
        "trained": {"score": "hard_concrete", "rescore": "never", "settings": {"steps": 5}},
        "neurons": {"score": "mask_gradient", "unit": "neurons", "rescore": "never"},
        "random_neurons": {"score": "random", "unit": "neurons", "trials": 4},
    }
    edit_config(tree, strategies=new, neurons={"group": 4})
    plan = planned(tree, *SMOKE)
    assert plan["prune_heads"] == 4 and plan["random_pruning"] == 3
    assert plan["mask_neurons"] == 2
    assert plan["export_accuracy"] == 2  # of the trained gates: the authors' files are about heads
    assert plan["make_table"] == 10  # those of strategies, and the one of neurons
    untouched = {"make_dataset", "make_checkpoint", "entropy_shard", "find_solution", "measure_controls"}
    assert not untouched & set(plan)
    assert not (smoke / "figures/smoke/NeuronPruning.png").exists()
    drawn = ["figures/smoke/PruningResults.png", "figures/smoke/NeuronPruning.png"]
    made = snakemake(tree, "tables", "exports", "verdict", *drawn, *SMOKE)
    assert made.returncode == 0, made.stderr[-3000:]
    before, after = smoke / "results/smoke", tree / "results/smoke"
    for name in ("tables/random.csv", "tables/stops.csv", "tables/solutions.csv", "tables/criteria.csv", "verdict.csv"):
        assert (before / name).read_bytes() == (after / name).read_bytes(), name
    keys = ["model", "strategy"]
    areas = [pd.read_csv(root / "tables/areas.csv").set_index(keys).sort_index() for root in (before, after)]
    pd.testing.assert_frame_equal(areas[0], areas[1].drop("trained", level="strategy"))
    assert "neurons" not in (after / "tables/headline.csv").read_text()
    table = pd.read_csv(after / "tables/neurons.csv")
    assert set(zip(table["model"], table["strategy"], table["groups"], strict=True)) == {
        (model, strategy, 8) for model in ("BERT", "ALBERT") for strategy in ("neurons", "random_neurons")
    }
    assert table["area"].between(0, 1).all()
    for model, steps in (("BERT", 8), ("ALBERT", 4)):
        controls = json.loads((after / model / "controls.json").read_text())
        for run in range(3):
            raw, _ = run_of(after, model, "neurons", run)
            assert len(raw) == steps + 1 and raw["heads_left"].tolist() == list(range(8, -1, -8 // steps))
            for name, step in (("nothing", 0), ("all neurons", steps)):
                assert raw.loc[step, ["correct", "parameters"]].tolist() == [
                    controls[name]["correct"],
                    controls[name]["parameters"],
                ]
        mask = pd.read_csv(after / f"solutions/{model}/neurons.mask.csv", header=None)
        first, _ = run_of(after, model, "neurons")
        lowest = first["accuracy"].iloc[0] - 0.1 * (first["accuracy"].iloc[0] - first["accuracy"].iloc[-1])
        last = first[first["accuracy"] >= lowest].iloc[-1]
        assert mask.shape == ({"BERT": 2, "ALBERT": 1}[model], 4) and mask.isin([0, 1]).all(axis=None)
        assert {tuple(slot) for slot in zip(*(mask == 0).to_numpy().nonzero(), strict=True)} == {
            tuple(slot) for slot in first.loc[1 : last["step"], ["layer", "head"]].astype(int).values.tolist()
        }
        heads, _ = run_of(after, model, "trained")
        assert controls["all heads"]["correct"] == heads["correct"].iloc[-1]
        assert controls["all heads"]["parameters"] == heads["parameters"].iloc[-1]
    tidy = pd.read_csv(after / "tidy.csv")
    assert set(tidy[tidy["unit"] == "neurons"]["strategy"]) == {"neurons", "random_neurons"}
    assert not list((after / "experiments_results").glob("*eurons*"))


def test_adding_a_model_runs_the_new_jobs_only(smoke, tmp_path, copy_of):
    """One's own model and rows: a checkpoint folder and a CSV file."""
    tree = copy_of(smoke, tmp_path)
    shutil.copytree(tree / "results/smoke/BERT/checkpoint", tree / "own_model")
    rows = pd.read_parquet(tree / "results/smoke/BERT/dataset/rows.parquet")
    rows[["text", "label_name"]].to_csv(tree / "own.csv", index=False)
    suite = yaml.safe_load((tree / "suites/smoke.yaml").read_text())
    suite["models"]["OWN"] = {
        "dataset": {
            "source": "file",
            "path": "own.csv",
            "text": "text",
            "label": "label_name",
            "classes": ["negative", "neutral", "positive"],
        },
        "checkpoint": {"source": "local", "path": "own_model"},
        "rows": {"calibration": 10, "evaluation": 30},
        "random": {"trials": 2, "levels": 3},
    }
    (tree / "suites/smoke.yaml").write_text(yaml.safe_dump(suite))
    plan = planned(tree, *SMOKE)
    assert plan["make_dataset"] == plan["make_checkpoint"] == plan["random_pruning"] == 1
    assert plan["prune_heads"] == 5 and plan["entropy_shard"] == 1
    made = snakemake(tree, "tables", *SMOKE)
    assert made.returncode == 0, made.stderr[-3000:]
    tidy = pd.read_csv(tree / "results/smoke/tidy.csv")
    assert set(tidy["model"]) == {"BERT", "ALBERT", "OWN"}
    assert planned(tree, "tables", *SMOKE) == {}


def test_targets(smoke, tmp_path, copy_of):
    tree = copy_of(smoke, tmp_path)
    for path in ("results/smoke/BERT/entropy", "figures/smoke", "results/smoke/tables", "results/smoke/report.html"):
        shutil.rmtree(tree / path) if (tree / path).is_dir() else (tree / path).unlink()
    assert set(planned(tree, "entropy", *SMOKE)) == {"entropy", "entropy_shard", "merge_entropy"}
    assert planned(tree, "results/smoke/BERT/entropy/shards/0-7.pt", *SMOKE) == {"entropy_shard": 1}
    figures = planned(tree, "figures", *SMOKE)
    assert figures["draw_figure"] == 7 and "write_report" not in figures
    assert planned(tree, "tables", *SMOKE)["make_table"] == 12
    assert planned(tree, "report", *SMOKE)["write_report"] == 1


def test_a_run_ends_with_what_came_out_of_its_targets(smoke, tmp_path, copy_of):
    """Whatever started it; `show_results` shows the same of a suite that is finished."""
    tree = copy_of(smoke, tmp_path)
    for name in ("verdict.md", "report.html"):
        (tree / "results/smoke" / name).unlink()
    made = snakemake(tree, "--quiet", "rules", *SMOKE, "--", "verdict")
    assert made.returncode == 0, made.stderr[-3000:]
    places = [line[:9].strip() for line in made.stdout.splitlines()]
    assert places == ["", "datasets", "models", "all rows", "verdict"]  # what it is made of is there too
    made = snakemake(tree, "--quiet", "rules", *SMOKE)
    assert made.returncode == 0, made.stderr[-3000:]
    for table in ("headline", "baselines", "solutions"):
        assert (tree / f"results/smoke/tables/{table}.md").read_text() in made.stdout
    assert made.stdout.endswith("verdict   results/smoke/verdict.md\nreport    results/smoke/report.html\n")
    shown = [sys.executable, tree / "scripts/show_results.py", "smoke"]
    assert subprocess.run(shown, cwd=tree, capture_output=True, text=True, check=True).stdout == made.stdout[1:]


def test_what_cannot_be_shown_is_said_in_one_line(tmp_path):
    (tmp_path / "results/mine").mkdir(parents=True)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/mini.yaml").touch()

    def show(*suites, folder=tmp_path):
        command = [sys.executable, ROOT / "scripts/show_results.py", *suites]
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return made.returncode, made.stdout + made.stderr

    assert show() == (1, "show_results: say which suite (mine, mini): python scripts/show_results.py SUITE\n")
    code, said = show("mine", "min")
    assert code == 1 and said.startswith("show_results: there is no suite 'min'") and said.count("\n") == 1
    assert show("mini") == (0, "nothing is there yet of mini\n")
    away = "show_results: there is no folder results/ here: start it in the folder of the workflow\n"
    assert show("mini", folder=tmp_path / "suites") == show(folder=tmp_path / "suites") == (1, away)


def test_figures_of_what_no_model_has_are_not_planned(tmp_path):
    """Tied heads without a tied model, random trials without a random strategy."""
    tree = copy_workflow(tmp_path)
    suite = yaml.safe_load((tree / "suites/smoke.yaml").read_text())
    del suite["models"]["ALBERT"]
    (tree / "suites/untied.yaml").write_text(yaml.safe_dump(suite))
    figures = "figures/untied/AlbertPruning.png", "figures/untied/RandomPruning.png"
    planned = snakemake(tree, "-n", "--config", "suite=untied", "--", "figures")
    assert planned.returncode == 0 and [name in planned.stdout for name in figures] == [False, True]
    config = yaml.safe_load((tree / "config.yaml").read_text())
    del config["strategies"]["random"]
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    planned = snakemake(tree, "-n", "--config", "suite=untied", "--", "figures")
    assert planned.returncode == 0 and [name in planned.stdout for name in figures] == [False, False]


def test_published_names_and_formats(smoke):
    folder = smoke / "results/smoke"
    names = {path.name for path in (folder / "experiments_results").iterdir()}
    assert {"BERTrandompruned_heads_data_4x3_1group.xlsx", "BERTrandompruned_heads_data_4x3_concated.xlsx"} <= names
    assert "ALBERTrandompruned_heads_data_4x3_concated.xlsx" not in names
    table = pd.read_csv(folder / "experiments_results/pruned_heads_accuracy(ALBERT)basedonAEinverse.csv")
    assert table.columns.tolist() == ["Pruned_Heads", "Accuracy"] and table["Pruned_Heads"].tolist() == [0, 2, 4]
    joined = pd.read_excel(folder / "experiments_results/BERTrandompruned_heads_data_4x3_concated.xlsx")
    assert joined.shape == (3, 9)
    parts = [torch.load(folder / f"AE_calculation_results/BERT{p}AE.pt", weights_only=True) for p in ("0_7", "8_15")]
    merged = torch.load(folder / "AE_calculation_results/BERT_16AE.pt", weights_only=True)
    assert merged.dtype == torch.float32 and merged.shape == (2, 2)
    assert torch.allclose((parts[0] + parts[1]) / 2, merged, atol=1e-6)


def test_aggregates_follow_from_raw_files(smoke):
    folder = smoke / "results/smoke"
    tidy = pd.read_csv(folder / "tidy.csv")
    for (model, strategy, run), group in tidy[tidy["run"].notna()].groupby(["model", "strategy", "run"]):
        raw, _ = run_of(folder, model, strategy, int(run))
        assert group["accuracy"].tolist() == raw["accuracy"].tolist()
        assert (group["heads_pruned"].to_numpy() + raw["heads_left"].to_numpy() == raw["heads_left"].iloc[0]).all()
        assert group["heads_pruned"].tolist() == raw["heads_pruned"].tolist()
        assert (raw["correct"] / raw["evaluated"] - raw["accuracy"]).abs().max() < 1e-12
    areas = pd.read_csv(folder / "tables/areas.csv").set_index(["model", "strategy"])
    for model in ("BERT", "ALBERT"):
        raw, _ = run_of(folder, model, "ae")
        x, y = 1 - raw["heads_left"] / raw["heads_left"].iloc[0], raw["accuracy"]
        by_hand = sum((x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(x) - 1))
        assert areas.loc[(model, "ae"), "area"] == pytest.approx(by_hand)
        trials = pd.read_csv(folder / f"{model}/random/trials.csv")
        expected = trials[trials["heads_pruned"] == trials["heads_pruned"].max() / 2]["accuracy"].mean()
        assert areas.loc[(model, "random"), "at 50%"] == pytest.approx(expected)
    assert len(pd.read_excel(folder / "all.xlsx", sheet_name=None)) == 13


def renamed(smoke, folder, models, strategies):
    """The finished suite's results, with other names of models and strategies."""
    for path in (smoke / "results/smoke").rglob("*"):
        parts = [models.get(part, part) for part in path.relative_to(smoke / "results/smoke").parts]
        if path.suffix in (".csv", ".json", ".npz"):
            folder.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder.joinpath(*parts))
    for path in [path for path in folder.glob("*/trajectories/*") if path.name in strategies]:
        path.rename(path.with_name(strategies[path.name]))
    for path in (folder / "tidy.csv", *folder.rglob("speed.csv")):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        names = {"model": models, "strategy": strategies}
        table.replace({column: names[column] for column in names if column in table}).to_csv(path, index=False)
    return folder


def rows_of(root, models, strategies):
    """Files of outcomes as `Suite.outcomes` lists them."""
    found = {"runs": [], "trials": [], "compared": []}
    for model in models:
        found["compared"] += [(str(path), model) for path in root.glob(f"{model}/criteria/shards/*.rows.npz")]
        for name, entry in strategies.items():
            for path in sorted(root.glob(f"{model}/trajectories/{name}/*.rows.npz")):
                found["runs"].append((str(path), model, name))
            for path in sorted(root.glob(f"{model}/{name}/shards/*.rows.npz")) if entry["drawn"] else ():
                found["trials"].append((str(path), model, name, None))
    return found


@pytest.mark.fault("models are named `NA` and `007`, a strategy `1e5`", "tables and figures are those of other names")
def test_names_that_look_like_numbers_or_like_nothing(smoke, tmp_path, record_property):
    from gnorm import figures, tables
    from gnorm.pages import workbooks
    from gnorm.statistics.columns import read_csv
    from gnorm.statistics.results import Results

    names = {"BERT": "NA", "ALBERT": "007"}, {"ae": "1e5"}
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    strategies = {name: {"drawn": name == "random"} for name in config["strategies"]}
    settings = config["solutions"] | {"columns": 2, "metrics": config["metrics"]}
    settings["intervals"] = config["intervals"] | {"seed": config["seed"]}
    settings["tasks"] = dict.fromkeys((*names[0], *names[0].values()), "classification")
    made = []
    for root, (models, strategy) in (
        (smoke / "results/smoke", ({}, {})),
        (renamed(smoke, tmp_path / "results", *names), names),
    ):
        own = {strategy.get(name, name): entry for name, entry in strategies.items()}
        given = {"root": root, "models": {models.get(m, m): models.get(m, m) for m in names[0]}, "strategies": own}
        kinds = rows_of(root, given["models"], own)
        for figure in ("pruningresults", "randompruning", "allfinalsolutions"):
            module = figures.load(figure)
            module.draw(Results.of_module(module, **given), settings)
        shown = {}
        for path in sorted((smoke / "results/smoke/tables").glob("*.csv")):
            module = tables.load(path.stem)
            given["outcomes"] = {kind: kinds[kind] for kind in getattr(module, "OUTCOMES", ())}
            files = {kind: tmp_path / f"{path.stem}.{kind}" for kind in ("csv", "markdown", "latex", "page")}
            tables.write(module.make(Results.of_module(module, **given), settings), module.DECIMALS, "", **files)
            shown[path.stem] = read_csv(files["csv"])
        workbooks.write(tmp_path / "all.xlsx", shown)
        found = pd.read_excel(tmp_path / "all.xlsx", sheet_name=None, keep_default_na=False, na_values=[""])
        assert all(
            found[name]["model"].tolist() == table["model"].tolist()
            for name, table in shown.items()
            if "model" in table
        )
        made.append(shown)
    expected, other = made
    for name, table in expected.items():
        changed = table.rename(columns=names[0]).replace({"model": names[0], "strategy": names[1], "against": names[1]})
        pd.testing.assert_frame_equal(changed, other[name])
    record_property("tried", 3 * len(expected))


def test_every_column_of_text_is_listed(smoke):
    """Or its names would be taken for numbers."""
    from gnorm.statistics.columns import TEXT

    for path in sorted((smoke / "results/smoke").rglob("*.csv")):
        if not path.name.endswith("mask.csv") and path.name != "headline.csv":  # numbers; a column a model
            table = pd.read_csv(path)
            texts = {name for name in table if table[name].dtype == object}
            texts = {name for name in texts if not table[name].dropna().isin([True, False]).all()}
            assert texts <= {*TEXT}, path


def test_nothing_is_left_behind(smoke):
    stray = [p for p in smoke.rglob(".*") if p.name.startswith(".") and p.parent != smoke and "results" in p.parts]
    assert [p for p in stray if p.name != ".snakemake_timestamp"] == []
    new = {p.name for p in smoke.iterdir()} - {p.name for p in ROOT.iterdir()}
    assert new <= {".snakemake"}


def test_stored_orders_replay_to_stored_accuracies(smoke):
    from gnorm.data.rows import read
    from gnorm.engine import batches
    from gnorm.engine.evaluate import Evaluation
    from gnorm.models import checkpoints
    from gnorm.models.heads import head_map
    from gnorm.pruning.trajectory import replay

    for model in ("BERT", "ALBERT"):
        folder = smoke / "results/smoke" / model
        for strategy, run in product(("greedy_gnorm", "inverse_gnorm", "static_gnorm", "ae", "inverse_ae"), range(3)):
            stored, _ = run_of(folder.parent, model, strategy, run)
            loaded, tokenizer = checkpoints.load(folder / "checkpoint")
            heads = head_map(loaded)
            evaluation = Evaluation(batches.make(tokenizer, read(folder / "dataset", "evaluation"), 8192), heads)
            order = stored.loc[1:, ["layer", "head"]].astype(int).values.tolist()
            replayed = list(replay(loaded, heads, evaluation, order, range(len(stored))))
            assert [measured.correct for _, measured in replayed] == stored["correct"].tolist()


def test_an_early_end_and_one_run(smoke, tmp_path, copy_of):
    """The stop point still knows the accuracy without any head; tables leave out what was not reached."""
    tree = copy_of(smoke, tmp_path)
    config = yaml.safe_load((tree / "config.yaml").read_text())
    del config["strategies"]["random"]
    (tree / "config.yaml").write_text(yaml.safe_dump(config | {"stop": {"fraction": 0.5}, "runs": 1}))
    made = snakemake(tree, "tables", *SMOKE)
    assert made.returncode == 0, made.stderr[-3000:]
    for model in ("BERT", "ALBERT"):
        whole = run_of(smoke / "results/smoke", model, "greedy_gnorm")[0]
        half = read_run(
            tree / f"results/smoke/{model}/trajectories/greedy_gnorm/0-0.csv"
        )  # one run: beside the old part
        assert half["correct"].tolist() == whole["correct"].tolist()[: len(whole) // 2 + 1]
        solution = json.loads((tree / f"results/smoke/solutions/{model}/solution.json").read_text())
        assert solution["all_pruned_accuracy"] == whole["accuracy"].iloc[-1]
    assert pd.read_csv(tree / "results/smoke/tables/areas.csv")["area"].isna().all()
    assert pd.read_csv(tree / "results/smoke/tables/random.csv").empty


def test_sources_are_read_whatever_finalizers_do():
    """One that parses while a module is parsed, as tracebacks do, made Python 3.11 fail now and then."""
    text, before = (ROOT / "scripts/gnorm/engine/metrics.py").read_text(), gc.get_threshold()

    class Parses:
        def __del__(self):
            ast.parse("x = 1")

    class Source:
        def read_text(self, **_options):
            for _ in range(3):
                garbage = Parses()
                garbage.itself = garbage
            gc.set_threshold(100, 1, 1)
            return text

    try:
        for _ in range(5):
            assert isinstance(imports.parsed(Source()), ast.Module)
            gc.collect()
    finally:
        gc.set_threshold(*before)


WITHOUT_A_RULE = ("show_results", "docs_numbers", "estimate_capacity", "check_gpu")  # the Makefile calls them
SCRIPTS = sorted(path.stem for path in (ROOT / "scripts").glob("*.py") if path.stem not in WITHOUT_A_RULE)


@pytest.fixture(scope="session")
def declared_inputs(smoke) -> dict[str, set[str]]:
    """Script -> the modules that every job of its rule has as inputs, as a dry-run prints them."""
    made = snakemake(
        smoke, "-n", "--forceall", *SMOKE, "published=results/smoke", "--", "all", "bench", "published", "preview"
    )
    fetched = [
        snakemake(smoke, "-n", "--forceall", "--config", f"suite={suite}", "--", "datasets")
        for suite in ("paper", "minilm")
    ]
    neurons = "strategies={neurons: {score: magnitude, unit: neurons}}"
    for target in ("GPT2/speed.csv", "solutions/BERT/neurons.mask.csv"):
        options = ("--config", "suite=mini", neurons, "--", f"results/mini/{target}")
        fetched.append(snakemake(smoke, "-n", "--forceall", *options))
    said = "".join(part for run in (made, *fetched) for part in (run.stdout, run.stderr))
    blocks = re.findall(r"^(?:local)?rule (\w+):\n    input: (.*)$", said, re.M)
    found: dict[str, set[str]] = {}
    for rule, inputs in blocks:
        modules = {name for name in inputs.split(", ") if name.startswith("scripts/")}
        found[rule] = found.get(rule, modules) & modules
    return found


@pytest.fixture(scope="session")
def loaded_modules() -> dict[str, set[str]]:
    """Script -> the modules of the project that importing it really loads."""
    program = """
import importlib, json, sys
own = lambda: [n for n in sys.modules if n.split(".")[0] == "gnorm"]
found = {}
for script in sys.argv[1:]:
    for name in own():
        del sys.modules[name]
    importlib.import_module(script)
    found[script] = [sys.modules[name].__file__ for name in own()]
print(json.dumps(found))
"""
    made = run_python(program, *SCRIPTS)
    assert made.returncode == 0, made.stderr
    loaded = json.loads(made.stdout.splitlines()[-1])
    return {script: {Path(f).relative_to(ROOT).as_posix() for f in files} for script, files in loaded.items()}


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_import_is_an_input_of_the_rule(script, loaded_modules, declared_inputs):
    """What importing a script really loads, its rule must watch."""
    assert loaded_modules[script] and loaded_modules[script] <= declared_inputs[script]


def test_jobs_run_this_package_even_if_another_one_is_installed(smoke, copy_of, tmp_path):
    tree, other = copy_of(smoke, tmp_path), tmp_path / "site-packages" / "gnorm"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('another gnorm')")
    table = "results/smoke/tables/areas.csv"
    made = snakemake(tree, *SMOKE, "--forcerun", "make_table", "--", table, PYTHONPATH=str(other.parent))
    assert made.returncode == 0 and "another gnorm" not in made.stderr, made.stderr[-2000:]


def test_figures_and_tables_import_no_torch():
    modules = [
        f"gnorm.{kind}.{p.stem}"
        for kind in ("figures", "tables")
        for p in (ROOT / f"scripts/gnorm/{kind}").glob("*.py")
        if p.stem != "__init__"
    ]
    program = f"import sys; import {', '.join(modules)}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT / "scripts", check=True)
