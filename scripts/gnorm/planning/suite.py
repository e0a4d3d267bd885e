"""What a configuration asks for: its models and strategies, and the files that each of them has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from gnorm import imports, layout, scores
from gnorm.errors import UserError
from gnorm.files import read_json
from gnorm.planning.shapes import shape_of
from gnorm.pruning.rescoring import once
from gnorm.published import interchange, paper
from gnorm.scores import describe
from gnorm.settings import suites

PAGES = ("png", "pdf")  # kinds of a figure's file
TABLES = ("csv", "md", "tex", "html")  # ... and of a table's


def source(name: str) -> Path:
    """A module of the package as a file: `scores.gnorm` is scripts/gnorm/scores/gnorm.py."""
    return imports.PACKAGE.joinpath(*name.split(".")).with_suffix(".py")


def parts(count: int, size: int) -> list[tuple[int, int]]:
    """(first, last) of consecutive parts of `size`, the last one shorter if need be."""
    return [(first, min(first + size, count) - 1) for first in range(0, count, size)]


def _named(origin: dict[str, Any]) -> str:
    """Where rows or a checkpoint come from, in a few words."""
    named = next((str(origin[key]) for key in ("corpus", "family", "id", "package", "path") if key in origin), "")
    return f"{origin['source']}: {named}" if named else origin["source"]


def draws(figure: str) -> str:
    """The module that draws a figure."""
    return f"figures.{figure.lower()}"


def makes(table: str) -> str:
    """The module that makes a table."""
    return f"tables.{table}"


def without_a_run(kind: str) -> list[str]:
    """Tables or figures that can be made of the published results alone."""
    names = (imports.constant(path, "PUBLISHED", None) for path in sorted(source(kind).with_suffix("").glob("*.py")))
    return [name for name in names if name]


# Families of the models whose parameters the paper prints.
PAPER_FAMILIES = tuple(sorted({reported.family for reported in paper.MODELS.values()}))


class Suite:
    """A loaded configuration, and the published results that it names."""

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings
        self.published = interchange.scan(settings["published"]) if settings["published"] else interchange.Clone()
        self.name, self.models, self.jobs = settings["suite"], settings["models"], settings["jobs"]
        self.strategies = settings["strategies"]
        self.titles = {name: entry.get("title", name) for name, entry in self.models.items()}
        self.tasks = {name: entry["task"] for name, entry in self.models.items()}
        self.classifiers = [name for name, task in self.tasks.items() if task == "classification"]
        self.units = {name: entry["unit"] for name, entry in self.strategies.items()}
        drawn = {name: describe(entry["score"]).drawn for name, entry in self.strategies.items()}
        self.ranked = [name for name in self.strategies if not drawn[name]]
        self.random = [name for name in self.strategies if drawn[name]]
        # The authors' files are about heads; their names have room for one random strategy.
        self.of_heads = [name for name in self.ranked if self.units[name] == "heads"]
        self.of_neurons = [name for name in self.ranked if self.units[name] == "neurons"]
        self.published_names = {interchange.strategy_name(name): name for name in self.of_heads}
        self.published_random = next((name for name in self.random if self.units[name] == "heads"), None)
        self._check_folders()

    def _check_folders(self) -> None:
        """Refuse files that have the names of folders: Snakemake stops at them with a traceback."""
        folders = [Path(self.fill(template)) for template in (layout.RESULTS, layout.FIGURES)]
        for path in (*(folder.parent for folder in folders), *folders):
            if path.exists() and not path.is_dir():
                raise UserError(f"{path} is a file, and a folder of that name is needed: rename or remove the file")

    def fill(self, template: str, **values: object) -> str:
        return layout.fill(template, suite=self.name, **values)

    def of_each_run(self, template: str, **values: object) -> list[str]:
        """The file of every run that has a model of its own, model after model; run 0 has the model itself."""
        return [
            self.fill(layout.own(template), model=m, own=own, **values) for m in self.models for own in self.owns(m)
        ]

    def of_each(self, template: str, models: Iterable[str] | None = None, **values: object) -> list[str]:
        """The file of every model, or of these."""
        return [self.fill(template, model=m, **values) for m in (self.models if models is None else models)]

    @property
    def memory_mb(self) -> int | None:
        """What the token budget follows from, where the suite leaves it to memory; elsewhere memory changes nothing."""
        follows = self.jobs["batch_tokens"] == "auto" and self.jobs["memory_mb"] != "auto"
        return self.jobs["memory_mb"] if follows else None

    @property
    def loading(self) -> dict[str, Any]:
        """How jobs load and prune any model (`gnorm.models.loaded`)."""
        return {"threads": self.jobs["threads"], "surgery": self.settings["surgery"]}

    def bench(self, model: str, budget: bool = True, metrics: bool = False, own: str = "") -> dict[str, Any]:
        """What the workbench of a job with a model is made of (`gnorm.workbench`).

        `reuse_mb` is no part of it: no result depends on it. `budget` says whether the job keeps what a GPU has room
        for, `metrics` whether it measures any, `own` whether it is of a run with a model of its own.
        """
        settings = {
            "dataset_folder": self.fill(layout.DATASET, model=model),
            "tokens": self.jobs["batch_tokens"],
            "memory_mb": self.memory_mb,
            **self.loading,
        }
        if budget:
            settings["budget"] = self.fill(layout.TOKENS, model=model)
        if own:
            settings["resamples"] = False
        return settings | ({"metrics": self.metrics(model)} if metrics else {})

    # --- runs -----------------------------------------------------------------------------------------------------

    @property
    def independent(self) -> list[str]:
        """Models whose every run trains one of its own."""
        return [name for name, entry in self.models.items() if entry["vary"] == "training"]

    def owns(self, model: str) -> list[str]:
        """The wildcard `own` of each run that has a model of its own, of run 0 first."""
        return [layout.folder_of(run) for run in range(self.settings["runs"] if model in self.independent else 1)]

    def seed_of(self, own: str) -> int:
        """What is drawn at random in a run with a model of its own follows from this."""
        return self.settings["seed"] + layout.run_of(own)

    def run_parts(self, model: str) -> list[tuple[str, int, int]]:
        """(wildcard `own`, first, last) of the runs that share a job: those of one model."""
        if model in self.independent:
            return [(own, run, run) for run, own in enumerate(self.owns(model))]
        return [("", *part) for part in parts(self.settings["runs"], self.jobs["runs_per_job"])]

    # --- models ---------------------------------------------------------------------------------------------------

    @property
    def trained(self) -> list[str]:
        """Classifiers that are trained here: what needs no model is measured beside them."""
        return [name for name in self.classifiers if "epochs" in self.models[name]["checkpoint"]]

    @property
    def timed(self) -> list[str]:
        """Models whose speed, or what they write, is measured."""
        return [name for name in self.models if self.metrics_of_speed(name)]

    @cached_property
    def tied(self) -> list[str]:
        """Models whose layers share heads, as far as is known: of some only once their files are there."""
        return [name for name in self.models if self._is_tied(name)]

    def _is_tied(self, model: str) -> bool:
        if shape_of(model, self.settings).tied:
            return True
        try:  # of a family without a record, or a map of heads from outside
            return any(len(shared) > 1 for shared in read_json(self.fill(layout.HEADS, model=model))["shared"])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def metrics(self, model: str) -> list[str]:
        """What is measured at every step beside accuracy."""
        return [name for name in self.models[model]["metrics"] if name not in ("accuracy", *suites.AT_LEVELS)]

    def metrics_of_speed(self, model: str) -> list[str]:
        """What is measured at the levels of random pruning."""
        return [name for name in self.models[model]["metrics"] if name in suites.AT_LEVELS]

    def generation(self, model: str) -> dict[str, int] | None:
        """What a language model writes where its speed is measured."""
        return self.settings["generation"] if self.tasks[model] == "language_model" else None

    def wanted(self, model: str) -> str:
        """What is asked of a checkpoint once it is there, as JSON: a resource of a job is text."""
        return json.dumps(
            {
                "attention": ", ".join(suites.of_attention(self.settings)),  # what needs its weights, for a message
                "stop": self.settings["stop"],
                "solution": self.models[model].get("solution"),
                "levels": self.models[model]["random"]["levels"],
                "generation": self.generation(model) if self.metrics_of_speed(model) else None,
            }
        )

    # --- entropy --------------------------------------------------------------------------------------------------

    @cached_property
    def ranks_by_entropy(self) -> bool:
        """Whether anything ranks heads by entropy."""
        return bool(suites.scores_of(self.settings, *(name for name in scores.names() if describe(name).stored)))

    def entropy_rows(self, model: str) -> int:
        rows = self.models[model]["rows"]
        return rows["calibration"] if rows["entropy"] == "same" else rows["entropy"]

    def entropy_parts(self, model: str) -> list[tuple[int, int]]:
        return parts(self.entropy_rows(model), self.models[model]["shard_rows"])

    def shards(self, model: str, template: str = layout.ENTROPY_SHARD, own: str = "") -> list[str]:
        path = layout.own(template)
        return [self.fill(path, model=model, own=own, first=a, last=b) for a, b in self.entropy_parts(model)]

    def published_entropy(self, model: str) -> list[str]:
        """Entropy shards, and their mean, under the published names."""
        mean = self.fill(layout.PUBLISHED_ENTROPY, model=model, total=self.entropy_rows(model))
        return [*self.shards(model, layout.PUBLISHED_SHARD), mean]

    def shards_of(self, model: str, strategy: str, own: str = "") -> list[str]:
        """Shards that a strategy ranks by: scores taken once, with the settings that shards are made with."""
        entry = self.strategies[strategy]
        shared = entry["settings"] == self.settings["scores"].get(entry["score"])
        stored = describe(entry["score"]).stored and once(entry["rescore"]) and shared
        return self.shards(model, own=own) if stored else []

    def shards_compared(self, model: str, own: str = "") -> list[str]:
        """Shards that the comparison of criteria reads."""
        stored = any(describe(score).stored for score in self.settings["compare"])
        return self.shards(model, own=own) if stored else []

    # --- pruning --------------------------------------------------------------------------------------------------

    def trajectory(self, model: str, strategy: str, run: int = 0) -> str:
        """The file that holds a run."""
        return next(path for path, first, last in self._trajectories(model, strategy) if first <= run <= last)

    def _trajectories(self, model: str, strategy: str) -> list[tuple[str, int, int]]:
        path = self.fill(layout.own(layout.TRAJECTORY), model=model, strategy=strategy)
        return [
            (layout.fill(path, own=own, first=first, last=last), first, last)
            for own, first, last in self.run_parts(model)
        ]

    def criteria_parts(self, model: str, template: str) -> list[str]:
        """What the jobs that compare criteria write."""
        path = self.fill(layout.own(template), model=model)
        return [layout.fill(path, own=own, first=first, last=last) for own, first, last in self.run_parts(model)]

    def trajectories(self) -> list[tuple[str, str, str]]:
        """(file, model, strategy) of each."""
        return [(path, m, s) for m in self.models for s in self.ranked for path, *_ in self._trajectories(m, s)]

    def belonging(self, model: str, strategy: str) -> dict[str, Any]:
        """What the signature of a run says of the configuration, beside files, libraries and the machine."""
        said = {
            "strategy": self.models[model]["strategies"][strategy],
            "seed": self.settings["seed"],
            "stop": self.settings["stop"],
            "metrics": self.metrics(model),
            "threads": self.jobs["threads"],
        }
        return said if self.jobs["batch_tokens"] == "auto" else {**said, "tokens": self.jobs["batch_tokens"]}

    def goes_first(self, model: str, strategy: str = "", first: int = 0) -> int:
        """The priority of a dataset, checkpoint or part of runs, of which `first` is the first.

        All models come before what is done with them: one that is trained last would leave the other cores idle. But
        one model and the first runs of one of its strategies come before all, so that there is a curve to look at.
        Where runs are split, run 0 comes first.
        """
        if model == next(iter(self.models)) and strategy in ("", next(iter(self.ranked), "")) and first == 0:
            return 3
        split = len(self.run_parts(model)) > 1
        return 2 if not strategy else int(first == 0 and split)

    def unit(self, strategy: str) -> dict[str, Any]:
        """What a strategy prunes."""
        return {key: self.strategies[strategy][key] for key in ("unit", "group") if key in self.strategies[strategy]}

    def trials(self, model: str, strategy: str) -> int:
        """Random trials of one group."""
        return self.models[model]["random"].get("trials", self.strategies[strategy]["trials"])

    def all_trials(self, model: str, strategy: str) -> int:
        return self.trials(model, strategy) * self.models[model]["random"]["groups"]

    def trial_parts(self, model: str, strategy: str, own: str = "", template: str = layout.TRIALS_PART) -> list[str]:
        path = self.fill(layout.own(template), model=model, strategy=strategy, own=own)
        return [
            layout.fill(path, first=first, last=last)
            for first, last in parts(self.all_trials(model, strategy), self.jobs["trials_per_job"])
        ]

    def trial_tables(self) -> list[tuple]:
        """(file, model, strategy) of each, and the run where each run has trials on a model of its own."""
        tables = []
        for model in self.models:
            path = self.fill(layout.own(layout.TRIALS), model=model)
            for strategy in self.random:
                for run, own in enumerate(self.owns(model)):
                    of_run = (run,) if model in self.independent else ()
                    tables.append((layout.fill(path, strategy=strategy, own=own), model, strategy, *of_run))
        return tables

    def published_trials(self, model: str) -> list[str]:
        """A model's random workbooks under the published names: one a group, and the joined one if several."""
        if not self.published_random:
            return []
        groups = self.models[model]["random"]["groups"]
        size = {"trials": self.trials(model, self.published_random), "levels": self.models[model]["random"]["levels"]}
        named = [f"{k + 1}group" for k in range(groups)] + ([layout.ALL_GROUPS] if groups > 1 else [])
        return [self.fill(layout.PUBLISHED_TRIALS, model=model, group=group, **size) for group in named]

    def trial_range(self, model: str, group: str) -> tuple[int, int]:
        """First and last trial of a published workbook."""
        size = self.trials(model, self.published_random)
        if group == layout.ALL_GROUPS:
            return 0, self.all_trials(model, self.published_random) - 1
        k = int(group.removesuffix("group"))
        return (k - 1) * size, k * size - 1

    def published_curves(self) -> list[str]:
        return [p for name in self.published_names for p in self.of_each(layout.PUBLISHED_CURVE, published=name)]

    @property
    def intervals(self) -> dict[str, Any]:
        """How estimates are resampled (`gnorm.statistics.intervals.Bootstrap`)."""
        return self.settings["intervals"] | {"seed": self.settings["seed"]}

    @cached_property
    def outcomes(self) -> dict[str, list[tuple]]:
        """Files of what was answered on each row where heads are pruned (`gnorm.statistics.estimates.OfRows`)."""
        found: dict[str, list[tuple]] = {"runs": [], "trials": [], "compared": []}
        drawn = [name for name in self.random if self.units[name] == "heads"]
        for model in self.models:
            path = self.fill(layout.own(layout.OUTCOMES), model=model)
            for own, first, last in self.run_parts(model):
                part = layout.fill(path, own=own, first=first, last=last)
                found["runs"] += [(layout.fill(part, strategy=name), model, name) for name in self.of_heads]
            found["compared"] += [(path, model) for path in self.criteria_parts(model, layout.CRITERIA_OUTCOMES)]
            for name in drawn:
                for run, own in enumerate(self.owns(model)):
                    files = self.trial_parts(model, name, own, layout.TRIALS_OUTCOMES)
                    found["trials"] += [(f, model, name, run if model in self.independent else None) for f in files]
        return found

    def outcomes_of(self, suite: str, module: str | None = None) -> dict[str, list[tuple]]:
        """These files, or those that a table reads by its `OUTCOMES`; published results have none."""
        if suite == layout.PUBLISHED:
            return {}
        kinds = imports.constant(source(module), "OUTCOMES", ()) if module else tuple(self.outcomes)
        return {kind: self.outcomes[kind] for kind in kinds}

    def files_of_outcomes(self, suite: str, module: str | None = None) -> list[str]:
        return [path for files in self.outcomes_of(suite, module).values() for path, *_ in files]

    @property
    def signatures(self) -> list[str]:
        """What the parts of trajectories say of the libraries and the device that they were made with."""
        path = layout.own(layout.SIGNATURE)
        return [
            self.fill(path, model=model, own=own, first=first, last=last, strategy=name)
            for model in self.models
            for own, first, last in self.run_parts(model)
            for name in self.ranked
        ]

    @property
    def facts(self) -> dict[str, Any]:
        """What the reproduction report says of the configuration."""
        models = []
        for name, entry in self.models.items():
            data, checkpoint, rows = entry["dataset"], entry["checkpoint"], entry["rows"]
            row = {"name": name, "model": self.titles[name], "task": entry["task"].replace("_", " ")}
            row |= {"rows from": _named(data), "checkpoint": _named(checkpoint), "vary": entry["vary"]}
            models.append(row | {key: rows[key] for key in ("calibration", "evaluation")})
        strategies = {
            name: {key: entry[key] for key in ("score", "prune", "rescore") if key in entry and name in self.ranked}
            | {"score": entry["score"]}
            for name, entry in self.strategies.items()
        }
        own = {"suite": self.name, "runs": self.settings["runs"], "intervals": self.intervals}
        return {**own, "models": models, "strategies": strategies, "granularity": self._granularity}

    @property
    def _granularity(self) -> str:
        return self.settings["scores"]["gnorm"]["granularity"]

    # --- tables, figures, verdict ---------------------------------------------------------------------------------

    def needs(self, *names: str) -> list[str]:
        """Files that the results have under these names of `NEEDS`."""
        having = {"baselines": self.trained, "speeds": self.timed, "entropy": () if not self.ranks_by_entropy else None}
        return [
            path
            for name in names
            for template in layout.NEEDS[name]
            for path in (self.of_each(template, having.get(name)) if "{model}" in template else [self.fill(template)])
        ]

    def needs_of(self, module: str, suite: str) -> list[str]:
        """Files that a table or figure of a suite, or of the published results, needs."""
        if suite == layout.PUBLISHED:
            return [layout.fill(layout.TIDY, suite=suite)]
        optional = imports.constant(source(module), "OPTIONAL", ())
        return self.needs(*imports.constant(source(module), "NEEDS"), *optional)

    @cached_property
    def tables(self) -> list[str]:
        """All but those of something that no model of the suite has, or that no strategy prunes."""
        return [name for name in self.settings["tables"] if self._is_there(makes(name))]

    @cached_property
    def figures(self) -> list[str]:
        """All but those of something that no model of the suite has, or that no strategy prunes."""
        return [name for name in self.settings["figures"]["draw"] if self._is_there(draws(name))]

    def _is_there(self, module: str) -> bool:
        wanted = imports.constant(source(module), "NEEDS")
        unit = imports.constant(source(module), "UNIT", "heads")
        only = imports.constant(source(module), "ONLY", None)
        shown = (unit == "heads" or unit in self.units.values()) and (not only or getattr(self, only))
        return bool(shown and all(self.needs(need) for need in wanted))

    def results_of(self, module: str, suite: str) -> dict[str, Any]:
        """What a table or figure is made from, as keywords of `Results.of_module`."""
        root, strategies = layout.fill(layout.RESULTS, suite=suite), self.strategies_of(module, suite)
        made = {"root": root, "models": self.titles_of(suite), "strategies": strategies}
        return made | {"outcomes": self.outcomes_of(suite, module)}

    def strategies_of(self, module: str, suite: str) -> dict[str, dict[str, bool]]:
        """What a table or figure may know of the strategies, if it reads their results: whether orders are drawn."""
        if "tidy" not in imports.constant(source(module), "NEEDS"):
            return {}
        if suite == layout.PUBLISHED:
            return {s: {"drawn": s == interchange.DRAWN} for s in self.published.strategies}
        unit = imports.constant(source(module), "UNIT", "heads")
        return {s: {"drawn": s in self.random} for s in self.strategies if self.units[s] == unit}

    def shown(self, module: str) -> dict[str, Any]:
        """The settings that a table or figure reads: another value of any makes it again."""
        known = {**self.settings["solutions"], "columns": self.settings["figures"]["columns"]}
        known |= {"tasks": self.tasks, "metrics": self.settings["metrics"], "intervals": self.intervals}
        return {name: known[name] for name in imports.constant(source(module), "SHOWN", ())}

    def titles_of(self, suite: str) -> dict[str, str]:
        """Models as they are shown, of the suite or of the published results."""
        if suite != layout.PUBLISHED:
            return self.titles
        return {m: paper.MODELS[m].title if m in paper.MODELS else m for m in self.published.models}

    def verdict_models(self, suite: str) -> dict[str, str]:
        """The suite's models; of the published results also those of the paper that are missing there."""
        if suite != layout.PUBLISHED:
            return self.titles
        return {m: reported.title for m, reported in paper.MODELS.items()} | self.titles_of(suite)

    def evidence(self, suite: str) -> list[str]:
        """What the verdict on a run, or on the published results alone, is decided by."""
        if suite == layout.PUBLISHED:
            return self.published_evidence()
        return [*self.published_evidence(), *self.needs("tidy", "entropy", "gradients", "speeds", "splits")]

    def published_evidence(self) -> list[str]:
        """The published accuracies, and entropies, as they are looked at here."""
        return [layout.fill(layout.TIDY, suite=layout.PUBLISHED), layout.PUBLISHED_CHECK] if self.published else []

    def from_published(self) -> list[str]:
        """Everything that can be had from the published files alone."""
        if not self.published:
            raise UserError(
                "published: say where the results are, with --config published=PATH "
                "(a clone of the authors' repository, or results/SUITE)"
            )
        figures = [layout.fill(layout.FIGURE, figure=f, kind=kind) for f in without_a_run("figures") for kind in PAGES]
        tables = [layout.fill(layout.TABLE, table=name, kind="md") for name in without_a_run("tables")]
        verdict = layout.fill(layout.VERDICT, kind="md")
        files = [layout.fill(path, suite=layout.PUBLISHED) for path in (*figures, *tables, verdict)]
        return [*files, layout.PUBLISHED_CHECK]
