"""Writes docs/mutants.md: which mutants the tests notice, and what is to be said of each that they do not."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import yaml
from changes import Mutant

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/mutants.md"
VERDICTS = Path(__file__).parent / "verdicts.yaml"
NOTICED = ("noticed", "took too long")

HEADER = """# What tests notice

Written by `make test-mutants`. It changes the code that numbers depend on in small ways, one at a time: `<` becomes
`<=`, `+` becomes `-`, a number is one more or less, a condition always or never holds, a call, an argument or a
statement is left out. Then it runs the tests that run the changed lines, until one fails. Changes that no number can
show are left out: messages, logs, annotations, devices. A mutant whose tests take {times} times as long as without it
counts as noticed.

Of {all} mutants {drawn} were drawn with a fixed seed. Tests notice {noticed} of them, **{share:.1%}** (95% interval
{low:.1%} to {high:.1%}), {late} by taking too long. At first they noticed {before}; tests written since then notice
{mended} more.
"""


def write(drawn: list[Mutant], known: dict[str, dict], count: int, times: int) -> None:
    """Write the page of a finished run; ends with an error if a survivor has not been looked at."""
    sys.path.append(str(ROOT / "scripts"))
    from gnorm.statistics.curves import wilson

    verdicts = yaml.safe_load(VERDICTS.read_text())
    equivalent, mended = verdicts["equivalent"] or {}, verdicts["mended"] or {}
    outcomes = {mutant.key: known[mutant.key]["outcome"] for mutant in drawn}
    survivors = [mutant for mutant in drawn if outcomes[mutant.key] not in NOTICED]
    fixed = [mutant for mutant in drawn if mutant.key in mended and mutant not in survivors]
    noticed = len(drawn) - len(survivors)
    low, high = wilson(noticed / len(drawn), len(drawn))
    text = HEADER.format(
        times=times,
        all=f"{count:,}",
        drawn=len(drawn),
        noticed=noticed,
        share=noticed / len(drawn),
        low=low,
        high=high,
        late=sum(outcome == "took too long" for outcome in outcomes.values()),
        before=noticed - len(fixed),
        mended=len(fixed),
    )
    text += _modules(drawn, outcomes)
    text += "\n## Survivors\n\n| where | change | verdict |\n|---|---|---|\n"
    for mutant in sorted(survivors, key=_place):
        text += _row(mutant, equivalent.get(mutant.key) or f"**not looked at yet** ({outcomes[mutant.key]})")
    text += "\n## Mended\n\nThese survived at first; the test that notices them now:\n\n"
    text += "| where | change | test |\n|---|---|---|\n"
    for mutant in sorted(fixed, key=_place):
        text += _row(mutant, f"`{mended[mutant.key]}`")
    PAGE.write_text(text)
    print(f"{PAGE.relative_to(ROOT)}: {noticed} of {len(drawn)} noticed")
    if unseen := [mutant.key for mutant in survivors if mutant.key not in equivalent]:
        sys.exit("\n".join([f"no verdict in {VERDICTS.relative_to(ROOT)} on:", *unseen]))


def _modules(drawn: list[Mutant], outcomes: dict[str, str]) -> str:
    lines = ["", "| module | drawn | noticed | took too long | survived |", "|---|---:|---:|---:|---:|"]
    for module in sorted({mutant.module for mutant in drawn}):
        of = Counter(outcomes[mutant.key] for mutant in drawn if mutant.module == module)
        late, all_noticed = of["took too long"], sum(of[name] for name in NOTICED)
        name = module.removeprefix("gnorm.").removesuffix(".__init__").replace(".", "/")
        lines.append(f"| `{name}` | {of.total()} | {all_noticed} | {late} | {of.total() - all_noticed} |")
    return "\n".join(lines) + "\n"


def _place(mutant: Mutant) -> tuple:
    return mutant.module, mutant.lines, mutant.key


def _row(mutant: Mutant, verdict: str) -> str:
    name = mutant.module.removeprefix("gnorm.").replace(".", "/")
    change = f"{_code(mutant.before)} becomes {_code(mutant.after)}"
    if mutant.before != mutant.statement:
        change += f" in {_code(mutant.statement)}"
    return f"| `{name}` {mutant.place} | {change} | {verdict} |\n"


def _code(text: str, longest: int = 100) -> str:
    text = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return f"`{text}`".replace("|", "\\|")
