"""Look up known advisories about every locked version: `make audit`.

pip-audit asks the advisory service, from an environment of its own that is removed again. What could not be looked up
counts as not audited: an index that does not know the service answers as if there were no advisories.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("constraints.txt", "constraints-v4.txt")
TOOL = "pip-audit==2.10.1"
SERVICES = ("pypi", "osv")  # the second is asked if the first knows nothing
NOT_AUDITED = "NOT AUDITED: {}. Run `make audit` where pypi.org or api.osv.dev can be reached."


def judged(lock: str, answer: dict | str) -> tuple[list[str], bool]:
    """Lines about what pip-audit answers for a lock, and whether every version was looked up and has no advisory."""
    if isinstance(answer, str):
        return [NOT_AUDITED.format(f"{lock} ({answer})")], False
    parts = answer["dependencies"]
    skipped = [part for part in parts if "skip_reason" in part]
    lines = [
        f"{lock}: {part['name']} {part['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or '-'}"
        for part in parts
        for found in part.get("vulns", ())
    ]
    good = not lines and not skipped and bool(parts)
    lines.append(f"{lock}: {len(parts) - len(skipped)} versions looked up, {len(lines)} advisories")
    if skipped or not parts:
        why = skipped[0]["skip_reason"] if skipped else "it names none"
        lines.append(NOT_AUDITED.format(f"{len(skipped)} of {len(parts)} versions in {lock} ({why})"))
    return lines, good


def asked(python: Path, lock: str, service: str) -> dict | str:
    """What pip-audit answers, or why it does not."""
    command = [str(python), "-m", "pip_audit", "--requirement", lock, "--no-deps", "--disable-pip", "--format", "json"]
    command += ["--vulnerability-service", service, "--progress-spinner", "off"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        return json.loads(made.stdout)
    except json.JSONDecodeError:
        return (made.stderr.strip().splitlines() or ["no reason given"])[-1]


def looked_up(python: Path, lock: str) -> dict | str:
    """The answer of the first service that knows any version, or the first answer that there is."""
    answers = []
    for service in SERVICES:
        answers.append(asked(python, lock, service))
        if not isinstance(answers[-1], str) and any("skip_reason" not in part for part in answers[-1]["dependencies"]):
            return answers[-1]
    return answers[0]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin/python")
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", TOOL]
        if subprocess.run(install).returncode:
            print(NOT_AUDITED.format(f"{TOOL} cannot be installed"))
            return 1
        clean = True
        for lock in LOCKS:
            lines, good = judged(lock, looked_up(python, lock))
            print("\n".join(lines))
            clean &= good
    return int(not clean)


if __name__ == "__main__":
    sys.exit(main())
