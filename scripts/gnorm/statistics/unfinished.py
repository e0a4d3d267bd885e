"""Finished runs of trajectories, at any time, and which of them are of other settings than those of now.

Runs count wherever a signed part has them, also where the suite has divided them otherwise since. What they belong to
is compared as far as can be without a model: settings of the strategy, seed, stop, metrics, threads, a token budget
that is a number, and all files that the job read, code among them, as they are now. Not compared are the device, the
libraries, a token budget that follows from memory, and whether those files are themselves due to be made again:
`snakemake -n` tells. A part without a signature is that of a job that goes on, or was killed, and counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from gnorm import layout
from gnorm.errors import UserError
from gnorm.files import digest, read_json
from gnorm.statistics.columns import STEPS, read_table

ROOT = Path(__file__).parents[3]
NAMED = 3  # of what differs
PART = layout.pattern(layout.TRAJECTORY, first=r"\d+", last=r"\d+")
Curve = tuple[str, str]  # model, strategy
digest_now = cache(digest)  # all strategies of a model share its files


def signature_of(part: Path) -> Path:
    """The file that says what the runs of a part belong to."""
    runs = PART.fullmatch(part.name).groupdict()
    return part.with_name(Path(layout.fill(layout.SIGNATURE, **runs)).name)


def differences(part: Path, now: Mapping[str, Any]) -> list[str]:
    """What the runs of a signed part belong to that is something else now."""
    try:
        signature = read_json(signature_of(part))
        then, own = signature["belongs_to"], signature["files"][part.name]
        files = {name: stored for name, stored in then.items() if "/" in name}
    except (UserError, KeyError, TypeError, AttributeError):
        return ["signature, which cannot be read"]
    found = [f"{key} ({then.get(key)}, now {value})" for key, value in now.items() if then.get(key) != value]
    for name, stored in {**files, str(part): own}.items():
        path = next((path for path in (Path(name), ROOT / name) if path.is_file()), None)
        if path is None or digest_now(path) != stored:
            found.append(name)
    return found


def finished(
    paths: Iterable[str], runs: int, now: Mapping[str, Any]
) -> tuple[dict[int, pd.DataFrame], dict[int, list[str]]]:
    """The rows of a curve's finished runs by their number, and what those of earlier settings belong to."""
    tables, earlier, of_folder = {}, {}, {}
    for path in map(Path, paths):  # runs with a model of their own have a folder each
        first, last = map(int, PART.fullmatch(path.name).groups())
        of_folder.setdefault(path.parent, set()).update(range(first, min(last + 1, runs)))
    parts = [path for folder in of_folder for path in folder.glob("*.csv") if PART.fullmatch(path.name)]
    for part in sorted(parts):
        signed = signature_of(part).exists()
        if not signed and str(part) not in paths:
            continue
        differ = differences(part, now) if signed else []
        for number, table in read_table(part, STEPS).groupby("run"):
            if number in of_folder[part.parent] and differ:
                earlier[number] = differ
            elif number in of_folder[part.parent]:
                tables[number] = table
    return tables, {number: differ for number, differ in earlier.items() if number not in tables}


def there(
    trajectories: Iterable[tuple[str, str, str]], runs: int, now: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[Curve, pd.DataFrame], dict[Curve, str], dict[Curve, str]]:
    """The rows of finished runs, "2 of 3 runs" or so of each curve that lacks some, and which are outdated.

    `trajectories` has (file, model, strategy) of each; `now` has by model and strategy what a run that started now
    would belong to.
    """
    now = json.loads(json.dumps(now))  # in the form in which signatures are read
    paths, found, missing, outdated = {}, {}, {}, {}
    for path, *curve in trajectories:
        paths.setdefault(tuple(curve), []).append(str(path))
    for (model, strategy), own in paths.items():
        tables, earlier = finished(own, runs, now[model][strategy])
        if tables:
            found[model, strategy] = pd.concat(tables.values())
        if len(tables) < runs:
            missing[model, strategy] = f"{len(tables)} of {runs} runs"
        if earlier:
            differ = next(iter(earlier.values()))
            more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
            outdated[model, strategy] = f"{len(earlier)} of earlier settings: another {', '.join(differ[:NAMED])}{more}"
    return found, missing, outdated
