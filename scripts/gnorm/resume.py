"""The progress of a job, kept in a file that is no output: Snakemake deletes the outputs of a failed job.

A state says what it belongs to: the job's input files, code among them, its parameters, and the device, token budget
and libraries that it really used. Any other state is refused: the log names it and what differs, it is set aside, and
the job starts anew.

A job's finished state stays until the whole workflow has ended well. If Snakemake is killed before it notes that the
job is done, it runs the job again, which then takes seconds.

Work in runs or trials has a state for each of them, independent of how they share jobs. Finished outputs can be signed:
a later job with the same work then reuses them, however the work is divided.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gnorm.errors import UserError
from gnorm.files import digest, load_tensors, read_json, save_tensors, write_json
from gnorm.logs import log

SCRIPTS = Path(__file__).parents[1]


class State:
    """One file, replaced whole after every step; with those of its parts it is refused, and finished, at once."""

    def __init__(self, path: str | Path, belongs_to: Mapping[str, Any]):
        self.path = Path(path)
        self.refused, self.finished = self.path.with_suffix(".refused"), self.path.with_suffix(".finished")
        self.belongs_to = json.loads(json.dumps(belongs_to))  # in the form in which it will be read

    @classmethod
    def of_job(cls, job: Any, used: Mapping[str, Any], apart: tuple[str, ...] = ()) -> State:
        """The state of a Snakemake job, in the file that its parameter `state` names.

        `used` is what the job really computes with; it replaces the parameters that it was derived from. `apart` names
        parameters and wildcards that no step depends on, such as the number of runs.
        """
        return cls(job.params.get("state"), identity(job, used, apart))

    def part(self, name: str) -> State:
        """The state of one run or trial of a job, or of what grows in it."""
        own = f"{self.belongs_to['part']}.{name}" if "part" in self.belongs_to else name
        return type(self)(self.path.with_name(f"{self.path.stem}.{name}.pt"), {**self.belongs_to, "part": own})

    def load(self) -> Any:
        """Load what was saved last; None if there is no progress that this job may continue."""
        self._rename(".finished", ".pt")
        if not self.path.exists():
            return None
        try:
            stored = load_tensors(self.path)
            reason = self._difference(stored["belongs_to"])
        except (UserError, LookupError, TypeError, AttributeError, RuntimeError) as error:  # of any form
            reason = f"it cannot be read ({error})"
        if not reason:
            return stored["value"]
        self.refuse(reason)
        return None

    def refuse(self, reason: str) -> None:
        """Set the saved progress aside."""
        self._rename(".pt", ".refused")
        log.warning("ignoring saved progress in %s: %s; it is now %s", self.path, reason, self.refused)

    def _difference(self, other: Mapping[str, Any]) -> str:
        """Describe how another state differs; files are only named."""
        parts = []
        for key in {**other, **self.belongs_to}:
            then, now = other.get(key, "none"), self.belongs_to.get(key, "none")
            if then != now:
                parts.append(key if "/" in key else f"{key} ({then}, now {now})")
        return f"it belongs to another {', '.join(parts)}" if parts else ""

    def save(self, value: Any) -> None:
        """Save `value`, made of plain values and tensors."""
        save_tensors(self.path, {"belongs_to": self.belongs_to, "value": value})

    def finish(self) -> None:
        """Mark the state as finished, once the job's outputs are written."""
        for path in self._files(".refused"):
            path.unlink()
        self._rename(".pt", ".finished")

    def _files(self, suffix: str) -> list[Path]:
        """Its own file and those of its parts, as far as they are there."""
        of_parts = self.path.parent.glob(f"{self.path.stem}.*{suffix}")
        return [path for path in (self.path.with_suffix(suffix), *of_parts) if path.exists()]

    def _rename(self, before: str, after: str) -> None:
        for path in self._files(before):
            os.replace(path, path.with_suffix(after))

    def sign(self, signature: str | Path, *outputs: str | Path) -> None:
        """Write the identity of finished outputs, and their digests, into a file beside them."""
        digests = {Path(output).name: digest(output) for output in outputs}
        write_json(signature, {"files": digests, "belongs_to": self.belongs_to})

    def signed(self, folder: str | Path) -> Iterator[Path]:
        """Yield the signatures in a folder whose outputs belong to the same work and are unchanged."""
        for path in sorted(Path(folder).glob("*.json")):
            try:
                signature = read_json(path)
                same_work = signature["belongs_to"] == self.belongs_to
                if same_work and all(digest(path.with_name(name)) == own for name, own in signature["files"].items()):
                    yield path
            except (OSError, UserError, LookupError, TypeError, AttributeError, ValueError) as error:
                log.warning("ignoring %s: it cannot be read, or what it stands for (%s)", path, error)


def remove_finished(folder: str | Path) -> None:
    """Remove finished states; call it when no job runs any longer."""
    for path in Path(folder).rglob("*.finished"):
        path.unlink()
    for place in (*Path(folder).glob("*/"), Path(folder)):  # runs with a model of their own have folders inside
        if place.is_dir() and not os.listdir(place):
            os.rmdir(place)


def identity(job: Any, used: Mapping[str, Any], apart: tuple[str, ...] = ()) -> dict[str, Any]:
    """Collect what a Snakemake job's steps depend on: see `State.of_job`.

    The parameters `state`, a path, and `bench`, which `used` replaces, are left out.
    """
    import torch
    import transformers

    settings, wildcards = (
        {key: value for key, value in values.items() if key not in (*apart, "state", "bench")}
        for values in (job.params, job.wildcards)
    )
    return {
        **_digests([SCRIPTS / f"{job.rule}.py"], SCRIPTS.parent),
        **_digests(job.input),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "wildcards": wildcards,
        **settings,
        **used,
    }


def _digests(paths: Iterable[str | Path], root: Path | None = None) -> dict[str, str]:
    """Compute digests of files and of all files in folders, by their paths."""
    files = {}
    for path in map(Path, paths):
        # Snakemake puts a file of its own into a folder.
        inside = [p for p in path.rglob("*") if p.is_file() and p.name != ".snakemake_timestamp"]
        files |= {(p.relative_to(root) if root else p).as_posix(): p for p in (inside if path.is_dir() else [path])}
    return {name: digest(files[name]) for name in sorted(files)}
