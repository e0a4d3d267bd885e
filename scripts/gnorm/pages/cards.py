"""The card of a pruned checkpoint: how the model was pruned, its cost and its quality."""

from __future__ import annotations

from dataclasses import dataclass


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
    classes = "" if writes else f"Classes: {', '.join(facts['classes'])}. "
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
        f"# {title}, {pruned} of {heads} {'attention heads' if unit == 'heads' else unit} pruned",
        "",
        f"Made by the suite `{suite}`: {unit} were removed by the strategy `{solution['strategy']}` up to the stop "
        f"point ({solution['chosen']}). {_how(facts['zeroed'])}",
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
        f"medians of {facts['repeats']} on {facts['processor']}, torch threads: {facts['threads']}; tokenizing is left "
        f"out, the two models take turns, rows have {facts['tokens']} tokens, and other work on the machine counts.",
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
        "```python",
        f"from transformers import {auto}, AutoTokenizer",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("this/folder")',
        f'model = {auto}.from_pretrained("this/folder")',
        "```",
        "",
        f"{classes}Saved and tried with transformers {facts['transformers']}; releases "
        "from 4.55 on fail in a layer that has no head left, and 5 no longer knows pruned heads.",
        "",
    ]
    return "\n".join(lines)


def _how(zeroed: bool) -> str:
    """Say how the folder stores that heads were removed."""
    if not zeroed:
        return "They are cut out of the weights, and `config.json` lists them."
    return (
        "transformers cannot build this model with fewer heads, so the weights have the unpruned shapes with zeros for "
        "the removed heads, which `config.json` lists as `zeroed_heads`: the outputs are those of the pruned model. "
        "Parameters, megabytes and times below are of the model with these heads cut out."
    )


def _line(what: str, before, after, form: str) -> str:
    return f"| {what} | {before:{form}} | {after:{form}} |"
