"""What to change when a scheduler refuses or stops a job.

A scheduler's words stay in its profile: `profiles/*/advice.yaml` lists patterns of its messages and what each
means to the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import yaml

ASKED = ("mem_mb", "runtime", "gpu")
# How Snakemake reports a failed job, and a failed group of jobs by its first; a line with a time begins another report.
FAILED = (
    r"^Error in rule (?P<rule>[^\s:]+):\n(?P<said>(?:(?!\[).*\n)*?) +jobid: (?P<job>\S+)$",
    r"^    message: (?P<said>(?:(?!\[).*\n)*?)    jobs:\n        rule (?P<rule>\w+):\n +jobid: (?P<job>\S+)$",
)


def explain(logs: Sequence[str | Path], profiles: Path) -> list[str]:
    """A line for every rule in Snakemake's logs that failed in a way that some advice fits, as it was tried last."""
    text = "".join(Path(log).read_text(encoding="utf-8", errors="replace") for log in logs)
    known = [entry for path in sorted(profiles.glob("*/advice.yaml")) for entry in yaml.safe_load(path.read_text())]
    lines = {}
    for failed in (report for pattern in FAILED for report in re.finditer(pattern, text, re.M)):
        for entry in known:
            if re.search(entry["said"], failed["said"]):
                rule, asked = failed["rule"], _asked(text[: failed.start()], failed["job"])
                lines[rule, entry["said"]] = f"{rule}: {entry['advice'].strip().format(rule=rule, asked=asked)}"
                break
    return list(lines.values())


def _asked(text: str, job: str) -> str:
    """Resources of a job, where the log last says that it is run."""
    asked = re.findall(rf"^ +jobid: {re.escape(job)}\n(?:(?! *\[).+\n)*? +resources: (.+)$", text, re.M)
    values = dict(part.split("=", 1) for part in asked[-1].split(", ") if "=" in part) if asked else {}
    return ", ".join(f"{name}={values[name]}" for name in ASKED if name in values) or "its resources"
