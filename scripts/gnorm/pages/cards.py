"""The card of a pruned checkpoint: how the model was pruned, its cost and its quality."""

from __future__ import annotations

from dataclasses import dataclass

from gnorm.shown import in_markdown


@dataclass(frozen=True)
class Point:
    """The model before or after pruning."""

    accuracy: float
    correct: int
    metrics: dict[str, float]  # other metrics, by title
    parameters: int
    megabytes: float
    milliseconds: dict[int, float]  # batch size -> median


def write(
    title: str, suite: str, solution: dict, shared: list[list[int]], points: tuple[Point, Point], facts: dict
) -> str:
    before, after = points
    writes = facts["task"] == "language_model"
    auto = "AutoModelForCausalLM" if writes else "AutoModelForSequenceClassification"
    classes = "" if writes else f"Classes: {', '.join(map(in_markdown, facts['classes']))}. "
    heads, pruned = solution["heads"], solution["heads_pruned"]
    unit = "heads" if facts["queries"] == 1 else f"groups of {facts['queries']} heads"
    gone: dict[int, list[int]] = {}
    for row, head in solution["pruned_slots"]:
        gone.setdefault(row, []).append(head)
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {'text-generation' if writes else 'text-classification'}",
        "---",
        "",
        f"# {in_markdown(title)}, {pruned} of {heads} {'attention heads' if unit == 'heads' else unit} pruned",
        "",
        f"Made by the suite `{suite}`: {unit} were removed by the strategy `{solution['strategy']}` up to the stop "
        f"point ({solution['chosen']}). `config.json` lists them.",
        "",
        "| | before | after |",
        "|---|---:|---:|",
        _line(unit, heads, heads - pruned, "d"),
        _line(
            "next-token accuracy (%)" if writes else "accuracy (%)", 100 * before.accuracy, 100 * after.accuracy, ".2f"
        ),
        _line(
            f"correct, of {facts['evaluated']} {'tokens' if writes else 'rows'}", before.correct, after.correct, ",d"
        ),
        *(_line(name, value, after.metrics[name], ".4g") for name, value in before.metrics.items()),
        _line("parameters", before.parameters, after.parameters, ",d"),
        _line("megabytes (float32)", before.megabytes, after.megabytes, ".2f"),
        *(
            _line(f"milliseconds for a batch of {size}", before.milliseconds[size], after.milliseconds[size], ".1f")
            for size in before.milliseconds
        ),
        "",
        f"Of the rows that accuracy is measured on, {facts['seen']} were also trained or scored on. Milliseconds are "
        f"medians of {facts['repeats']} on {in_markdown(facts['processor'])}, torch threads: {facts['threads']}; "
        f"tokenizing is left out, the two models take turns, rows have {facts['tokens']} tokens, and other work on the "
        "machine counts.",
        "",
        f"## Pruned {unit}",
        "",
        f"| layers | {unit} pruned | kept |",
        "|---|---|---:|",
    ]
    each = heads // sum(len(layers) for layers in shared)
    for row, layers in enumerate(shared):
        where = f"{layers[0]}" if len(layers) == 1 else f"{layers[0]}-{layers[-1]}, which share weights"
        lines.append(
            f"| {where} | {', '.join(map(str, sorted(gone.get(row, [])))) or '-'} | {each - len(gone.get(row, []))} |"
        )
    lines += [
        "",
        "## Use",
        "",
        f"{classes}There are two folders, with the same outputs. Their weights are {facts['stored']}"
        + (
            "."
            if facts["stored"] == "float32"
            else ", and transformers 5 loads them so; version 4 makes them float32, or with "
            '`from_pretrained(..., torch_dtype="auto")` leaves them.'
        ),
        "",
        "`checkpoint` has only the weights that are left. It is the smaller and faster one, and needs the package "
        "`gnorm`:",
        "",
        *_code(auto, facts["tokenizer"], "checkpoint", "import gnorm.hf"),
        "",
        "Without that import transformers 5 stops with `MISMATCH` of sizes in its report, where the line to import "
        "stands too. Version 4 removes heads of some families by itself, and stops with other errors in others.",
        "",
        "`dense` has the shapes of the unpruned model, with zeros for what was removed: plain transformers loads it. "
        f"It is no smaller and no faster than the unpruned model: {before.parameters:,} parameters.",
        "",
        *_code(auto, facts["tokenizer"], "dense"),
        "",
        f"Saved with transformers {facts['transformers']}. Both folders load with {' and '.join(facts['supported'])}, "
        "where these know the model.",
        "",
    ]
    return "\n".join(lines)


def _code(auto: str, tokenizer: str, folder: str, *first: str) -> list[str]:
    return [
        "```python",
        *first,
        f"from transformers import {auto}, {tokenizer}",
        "",
        f'tokenizer = {tokenizer}.from_pretrained("{folder}")',
        f'model = {auto}.from_pretrained("{folder}")',
        "```",
    ]


def _line(what: str, before, after, form: str) -> str:
    return f"| {what} | {before:{form}} | {after:{form}} |"
