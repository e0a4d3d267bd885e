"""The cost of a suite before it runs: its jobs, their order, and what more of them at once make of it."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnorm.planning.cost import Costs, nearest

DEVICES = (1, 4, 16)


@dataclass
class Job:
    rule: str
    seconds: float
    name: str = ""  # its wildcards
    memory_mb: int | None = None
    after: list[Job] = field(default_factory=list)  # those it waits for


def plan(snakefile: Path, config: dict, remaining: bool = False) -> tuple[list[Job], Costs]:
    """Every job of the workflow's own graph, or those left to do, each after those it waits for."""
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api, contextlib.redirect_stdout(io.StringIO()):
        workflow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(config=config),
            snakefile=snakefile,
        )
        workflow.dag(DAGSettings(forceall=not remaining)).printrulegraph()
        dag, settings = workflow._workflow.dag, workflow._workflow.globals["SETTINGS"]
    costs = Costs(settings, learning="device_speed" not in config)  # finished jobs tell of the device they ran on
    jobs: dict[Any, Job] = {}
    for job in (job for level in dag.toposorted() for job in level):
        if job.output and dag.needrun(job):  # not the targets that only collect
            wildcards = dict(job.wildcards.items())
            jobs[job] = Job(
                rule=job.rule.name,
                seconds=costs.seconds(job.rule.name, wildcards),
                name=" ".join(value for key, value in wildcards.items() if key != "suite"),
                memory_mb=job.resources.get("mem_mb"),
                after=[jobs[other] for other in dag.dependencies[job] if other in jobs],
            )
    return list(jobs.values()), costs


def longest_chain(jobs: list[Job]) -> list[Job]:
    """The jobs that wait for each other longest, in their order."""
    chains: dict[int, tuple[float, list[Job]]] = {}
    for job in jobs:  # after those that it waits for
        before = max((chains[id(other)] for other in job.after), key=lambda chain: chain[0], default=(0.0, []))
        chains[id(job)] = before[0] + job.seconds, [*before[1], job]
    return max(chains.values(), key=lambda chain: chain[0], default=(0.0, []))[1]


def report(jobs: list[Job], costs: Costs) -> str:
    settings, chain = costs.settings, longest_chain(jobs)
    lines = pd.DataFrame([(job.rule, job.seconds, job.memory_mb or 0) for job in jobs], columns=["rule", "s", "mb"])
    rules = lines.groupby("rule").agg(jobs=("s", "size"), mb=("mb", "max"), longest=("s", "max"), all=("s", "sum"))
    rules = rules.sort_values("all", ascending=False)
    rules.loc["all"] = len(jobs), rules["mb"].max(), rules["longest"].max(), rules["all"].sum()
    longest, total = sum(job.seconds for job in chain), rules["all"]["all"]
    spans = {f"{count} at once": [max(longest, total / count) / 3600] for count in DEVICES}
    shown = rules.assign(mb=rules["mb"] / 1000, longest=rules["longest"] / 60, all=rules["all"] / 60)
    shown.columns = ["jobs", "memory, GB", "longest, min", "all, min"]
    speed, seen = settings["device_speed"], len(costs.finished()) if costs.learning else 0
    device = f"{settings['jobs']['threads']} CPU threads" if speed is None else f"{speed:g} times two CPU cores"
    source = f"by what {seen} finished jobs took" if seen else "by flops alone"
    models = [
        f"{model}: {shape.parameters / 1e6:.1f} million parameters (from {shape.source}), "
        f"{settings['models'][model]['row_tokens']:g} tokens a row"
        for model, shape in costs.shapes.items()
    ]
    return "\n".join(
        [
            f"Suite {settings['suite']}, runs={settings['runs']}: {len(jobs)} jobs. Nothing was run or downloaded.",
            f"Times are for {device} a job, predicted {source}.",
            *models,
            "",
            shown.to_markdown(floatfmt=("", ".0f", ".1f", ".1f", ".1f")),
            "",
            f"Longest chain, {longest / 60:.1f} min: " + " > ".join(f"{job.rule} {job.name}".strip() for job in chain),
            "",
            "Hours until all is done, at least:",
            pd.DataFrame(spans).to_markdown(index=False, floatfmt=".2f"),
        ]
    )


def compare(costs: Costs) -> str:
    """Predictions beside what finished jobs took: by the law alone, and by what the other finished jobs took.

    A single job is off by the mean factor of its kind, whichever way.
    """
    finished, lines = costs.finished(), []
    for i, (rule, wildcards, seconds) in enumerate(finished):
        law = costs.law(rule, wildcards)
        others = costs.ratios(finished[:i] + finished[i + 1 :])
        lines.append((rule, seconds, law, law * nearest(rule, wildcards, others)))
    if not lines:
        return "No finished job has left its seconds in results/SUITE/benchmarks."
    jobs = pd.DataFrame(lines, columns=["rule", "measured", "law", "others"])
    off = np.log(jobs[["law", "others"]].div(jobs["measured"], axis=0)).abs().add_prefix("off ")
    jobs = pd.concat([jobs, off], axis=1)
    rules = pd.concat([jobs, jobs.assign(rule="all")]).groupby("rule", sort=False)
    shown = pd.DataFrame({"jobs": rules.size(), "measured, s": rules["measured"].sum()})
    for name in ("law", "others"):
        shown[f"{name} / measured"] = rules[name].sum() / rules["measured"].sum()
        shown[f"a job is off by ({name})"] = np.exp(rules[f"off {name}"].mean())
    return shown.to_markdown(floatfmt=("", ".0f", ".0f", *4 * [".2f"]))
