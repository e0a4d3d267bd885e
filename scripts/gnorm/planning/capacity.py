"""The cost of a suite before it runs: its jobs, their order, and what more of them at once make of it."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pandas as pd

from gnorm.planning.cost import Costs

AT_ONCE = (1, 4, 16)


def report(snakefile: Path, config: dict, remaining: bool = False) -> str:
    """Predict every job of the workflow's own graph, or those left to do."""
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api, contextlib.redirect_stdout(io.StringIO()):
        workflow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(config=config),
            snakefile=snakefile,
        )
        workflow.dag(DAGSettings(forceall=not remaining)).printrulegraph()
        # Private, but nothing public tells jobs with all their wildcards and what they wait for: `--dag` draws a part.
        planned = workflow._workflow
        dag, settings = planned.dag, planned.globals["SETTINGS"]
    costs = Costs(settings, learning="device_speed" not in config)  # finished jobs tell of the device they ran on
    # Not the targets that only collect; each after those that it waits for.
    jobs = [job for level in dag.toposorted() for job in level if job.output and dag.needrun(job)]
    minutes = {job: costs.seconds(job.rule.name, dict(job.wildcards.items())) / 60 for job in jobs}
    lines = [(job.rule.name, 1, (job.resources.get("mem_mb") or 0) / 1000, minutes[job], minutes[job]) for job in jobs]
    rules = pd.DataFrame(lines, columns=["rule", "jobs", "GB", "longest, min", "all, min"])
    how = {"jobs": "sum", "GB": "max", "longest, min": "max", "all, min": "sum"}
    table = rules.groupby("rule").agg(how).sort_values("all, min", ascending=False)
    table.loc["all"] = rules.agg(how)
    ends: dict = {}  # when each ends at the earliest
    for job in jobs:
        ends[job] = minutes[job] + max((ends[other] for other in dag.dependencies[job] if other in ends), default=0)
    chain = max(ends.values(), default=0)
    hours = {f"{n} at once": [max(chain, rules["all, min"].sum() / n) / 60] for n in AT_ONCE}
    threads, speed = settings["jobs"]["threads"], settings["device_speed"]
    models = "\n".join(
        f"{name}: {of.parameters / 1e6:.1f} million parameters (from {of.source}), "
        f"{settings['models'][name]['row_tokens']:g} tokens a row"
        for name, of in costs.shapes.items()
    )
    return f"""Suite {settings["suite"]}, runs={settings["runs"]}: {len(jobs)} jobs. Nothing was run or downloaded.
Times are for {f"{threads} CPU threads" if speed is None else f"{speed:g} times two CPU cores"} a job, predicted by \
{f"what {len(costs.finished)} finished jobs took" if costs.finished else "flops alone"}.
{models}

{table.to_markdown(floatfmt=("", ".0f", ".1f", ".1f", ".1f"))}

Longest chain of jobs that wait for each other: {chain:.1f} min

Hours until all is done, at least:
{pd.DataFrame(hours).to_markdown(index=False, floatfmt=".2f")}
"""
