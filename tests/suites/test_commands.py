"""Every command of README, CONTRIBUTING and docs works as it is shown; what would compute is a dry run here."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, copy_workflow

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
PROGRAM = r"(?:snakemake|make|python scripts/\w+\.py)"
COMMAND = re.compile(rf"(?:\w+=\S* )*{PROGRAM}(?: .*)?")
AT_ONCE = ("--unlock", "python", "capacity")  # run as they are: they compute nothing
# Mentioned, but nothing to run.
CUT = {
    'CONDA_OVERRIDE_CUDA="" snakemake ...': "stands for the command before it",
}


def fenced(text: str) -> tuple[list[str], str]:
    """The lines of all code blocks, and the text without them."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    return "".join(blocks).splitlines(), re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.M | re.S)


def commands(text: str) -> list[str]:
    """Every call of snakemake, make or a script, without the comment behind it."""
    lines, rest = fenced(text)
    spans = re.findall(r"`([^`]+)`", rest.replace("\n", " "))
    parts = [part.strip() for line in (*lines, *spans) for part in re.split(r" && | +# |; ", line)]
    return [part for part in parts if COMMAND.fullmatch(part)]


FOUND = sorted({command for page in PAGES for command in commands(page.read_text(encoding="utf-8"))})


def test_commands_are_found():
    text = "Call `make demo`, or\n```bash\nmake env && snakemake -n   # both\nX=1 snakemake\nmakes no_sense\n```\n"
    assert commands(text) == ["make env", "snakemake -n", "X=1 snakemake", "make demo"]
    assert commands("`makeshift` and `make_dataset`, `snakemake.config`\n") == []
    assert len(FOUND) > 30 and set(CUT) <= set(FOUND)


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A clone with what the text asks the reader to bring: a suite `mine`, and published results."""
    folder = copy_workflow(tmp_path_factory.mktemp("commands"))
    (folder / "suites/mine.yaml").write_text((folder / "suites/smoke.yaml").read_text())
    curve = folder / "PATH/experiments_results/pruned_heads_accuracy(BERT)basedonGnorm.csv"
    curve.parent.mkdir(parents=True)
    curve.write_text("Pruned_Heads,Accuracy\n0,90.0\n144,30.0\n")
    return folder


@pytest.mark.parametrize("command", [c for c in FOUND if c not in CUT])
def test_a_command_that_is_shown_works(command, tree):
    words, variables = shlex.split(command), {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    program, *rest = words
    dry = not any(word in words for word in AT_ONCE)
    start = {
        "snakemake": [sys.executable, "-m", "snakemake", *(["-n"] if dry else [])],
        "make": ["make", f"BIN={Path(sys.executable).parent}", "--old-file=.venv/.complete", *(["-n"] if dry else [])],
        "python": [sys.executable],
    }[program]
    without_conda = "conda" in words and not shutil.which("conda")
    made = subprocess.run(
        [*start, *rest], cwd=tree, capture_output=True, text=True, env=os.environ | variables, timeout=600
    )
    said = made.stdout + made.stderr
    if without_conda:  # the arguments are understood
        assert made.returncode == 1 and "conda: command not found" in said, said[-3000:]
    else:
        assert made.returncode == 0, said[-3000:]
