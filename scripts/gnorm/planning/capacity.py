"""The cost of a suite before it runs: its jobs, their order, and what more of them at once make of it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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
    seconds = {job: costs.seconds(job.rule.name, dict(job.wildcards.items())) for job in jobs}
    chain = longest_chain(seconds, dag.dependencies)
    lines = [(job.rule.name, (job.resources.get("mem_mb") or 0) / 1000, seconds[job] / 60) for job in jobs]
    rules = pd.DataFrame(lines, columns=["rule", "GB", "min"]).groupby("rule")
    rules = rules.agg(jobs=("GB", "size"), GB=("GB", "max"), longest=("min", "max"), all=("min", "sum"))
    rules = rules.sort_values("all", ascending=False).rename(columns={"longest": "longest, min", "all": "all, min"})
    rules.loc["all"] = [rules["jobs"].sum(), rules["GB"].max(), rules["longest, min"].max(), rules["all, min"].sum()]
    longest = sum(seconds[job] for job in chain) / 60
    hours = {f"{n} at once": [max(longest, rules.loc["all", "all, min"] / n) / 60] for n in AT_ONCE}
    speed, seen = settings["device_speed"], len(costs.finished()) if costs.learning else 0
    device = f"{settings['jobs']['threads']} CPU threads" if speed is None else f"{speed:g} times two CPU cores"
    about = "{}: {:.1f} million parameters (from {}), {:g} tokens a row".format
    shapes = [(name, of, settings["models"][name]["row_tokens"]) for name, of in costs.shapes.items()]
    models = "\n".join(about(name, of.parameters / 1e6, of.source, tokens) for name, of, tokens in shapes)
    steps = " > ".join(
        " ".join([job.rule.name, *(v for k, v in job.wildcards.items() if v and k != "suite")]) for job in chain
    )
    return f"""Suite {settings["suite"]}, runs={settings["runs"]}: {len(jobs)} jobs. Nothing was run or downloaded.
Times are for {device} a job, predicted by {f"what {seen} finished jobs took" if seen else "flops alone"}.
{models}

{rules.to_markdown(floatfmt=("", ".0f", ".1f", ".1f", ".1f"))}

Longest chain, {longest:.1f} min: {steps}

Hours until all is done, at least:
{pd.DataFrame(hours).to_markdown(index=False, floatfmt=".2f")}
"""


def longest_chain(seconds: Mapping[Any, float], after: Mapping[Any, Iterable]) -> list:
    """The jobs that wait for each other longest; `seconds` has each after those that it waits for."""
    chains: dict[Any, tuple[float, list]] = {None: (0.0, [])}
    for job, own in seconds.items():
        before, jobs = max(
            (chains[other] for other in (None, *after.get(job, ())) if other in chains), key=lambda c: c[0]
        )
        chains[job] = before + own, [*jobs, job]
    return max(chains.values(), key=lambda chain: chain[0])[1]
