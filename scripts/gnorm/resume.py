"""How far a job has come, kept in a file that is no output: Snakemake deletes the outputs of a failed job.

A state says what it belongs to: the files of the model, the rows, the settings and the code. Any other is
refused: the log names it and what differs, it is set aside, and the job starts anew.

A job's finished state stays until the whole workflow has ended well. Snakemake may be killed before it
has noted that the job is done, and would do it again: then that takes seconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gnorm import imports
from gnorm.errors import UserError
from gnorm.files import digest, load_tensors, save_tensors
from gnorm.logs import log


class State:
    """One file, replaced whole after every step."""

    def __init__(self, path: str | Path, belongs_to: dict[str, Any]):
        self.path = Path(path)
        self.refused, self.finished = self.path.with_suffix(".refused"), self.path.with_suffix(".finished")
        self.belongs_to = json.loads(json.dumps(belongs_to))  # as it will be read

    def load(self) -> Any:
        """What was saved last, or None if there is nothing that this job may go on from."""
        if self.finished.exists():
            os.replace(self.finished, self.path)
        if not self.path.exists():
            return None
        try:
            stored = load_tensors(self.path)
            found = stored["belongs_to"]
            reason = self._difference(found)
        except (UserError, KeyError, TypeError, AttributeError) as error:
            reason = f"it cannot be read ({error})"
        if not reason:
            return stored["value"]
        os.replace(self.path, self.refused)
        log.warning(
            "%s is not gone on from: %s. It is now %s, and the job starts anew", self.path, reason, self.refused
        )
        return None

    def _difference(self, found: dict[str, Any]) -> str:
        """What else a state belongs to; of files only the names."""
        parts = []
        for key in {**found, **self.belongs_to}:
            then, now = found.get(key, "none"), self.belongs_to.get(key, "none")
            if then != now:
                parts.append(key if "/" in key else f"{key} ({then}, now {now})")
        return f"it belongs to another {', '.join(parts)}" if parts else ""

    def save(self, value: Any) -> None:
        """`value` is made of plain values and tensors."""
        save_tensors(self.path, {"belongs_to": self.belongs_to, "value": value})

    def finish(self) -> None:
        """The job's outputs are there."""
        self.refused.unlink(missing_ok=True)
        os.replace(self.path, self.finished)


def remove_finished(folder: str | Path) -> None:
    """To be called when nothing runs any longer."""
    for path in Path(folder).glob("*.finished"):
        path.unlink()
    if Path(folder).is_dir() and not os.listdir(folder):
        os.rmdir(folder)


def job(script: str, files: Iterable[str | Path], modules: Iterable[str] = ()) -> dict[str, Any]:
    """What any job's state belongs to: the files it reads, its code, and what computes.

    `files` may be folders; `modules` are those that the script loads by name.
    """
    import torch
    import transformers

    root = imports.PACKAGE.parents[1]
    sources = [root / "scripts" / f"{script}.py", *filter(None, map(imports.module_file, modules))]
    found = {path.relative_to(root).as_posix(): path for path in {*sources, *imports.closure(*sources)}}
    for path in map(Path, files):
        # Snakemake marks a folder with a file of its own.
        inside = [p for p in path.rglob("*") if p.is_file() and p.name != ".snakemake_timestamp"]
        found |= {p.as_posix(): p for p in (inside if path.is_dir() else [path])}
    return {
        **{name: digest(found[name]) for name in sorted(found)},
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
    }
