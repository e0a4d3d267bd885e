"""Time one model shape: a greedy step, accuracy and entropy, naively and here."""

import copy
import sys
from pathlib import Path

import pandas as pd
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))
from benchmarks import clock, naive, shapes
from gnorm.engine.batches import in_order, make
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import LARGEST, bytes_per_token
from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.models import checkpoints
from gnorm.scores import entropy, gnorm

FULL = 256  # tokens with which a pass is about as fast as it gets
MEMORY_ROWS = (128, 256, 512)


def real_tokens(made):
    return int(sum(batch.mask.sum() for batch in made))


def sample(rows, part):
    """One of every `part` rows, from short ones to long ones alike."""
    return sorted(rows, key=lambda row: len(row["text"]))[part // 2 :: part]


class Notes:
    """What was measured, one line a value."""

    def __init__(self, shape):
        self.shape, self.machine, self.lines = shape, clock.machine(), []

    def add(self, section, procedure, value, repeat=0, unit="s"):
        line = {"section": section, "shape": self.shape, "procedure": procedure, "repeat": repeat, "value": value}
        self.lines.append({**line, "unit": unit, "machine": self.machine})

    def compare(self, section, procedures, repeats, times=None):
        """Each procedure by turns, so that a busy moment of the machine hits all of them.

        `times` says how often a procedure would have to run for all rows, if it runs on a part of them.
        """
        for repeat in range(repeats):
            for procedure, work in procedures.items():
                self.add(section, procedure, clock.seconds(work) * (times or {}).get(procedure, 1), repeat)
        last = {line["procedure"]: round(line["value"], 3) for line in self.lines[-len(procedures) :]}
        log.info("%s, seconds of the last round: %s", section, last)


def step(notes, stock, model, heads, shape, tokenizer, tokens, repeats):
    """Scoring, against the naive procedures on a few rows, and against its floor on a full batch."""
    rows = shapes.rows(shape, shape.rows)
    # To stay within minutes: 8 rows of the loop, and one of the notebooks' passes, which are all the same work.
    few = sample(rows, max(1, len(rows) // 8))
    one, fixed, made = (
        in_order(tokenizer, few, 1),
        in_order(tokenizer, rows, shape.batch),
        make(tokenizer, rows, tokens),
    )
    full = make(tokenizer, shapes.rows(shape, round(FULL / shape.length)), tokens)
    naive.notebooks(stock, heads, fixed, 1)  # what is first allocates
    gnorm.score(model, heads, full)
    procedures = {
        "notebooks": lambda: naive.notebooks(stock, heads, fixed, 1),
        "sentences": lambda: naive.sentences(stock, heads, one),
        "engine": lambda: gnorm.score(model, heads, made),
    }
    notes.compare("step", procedures, repeats, {"notebooks": shape.passes, "sentences": len(rows) / len(one)})
    at_full = {
        "engine": lambda: gnorm.score(model, heads, full),
        "floor": lambda: naive.floor(model, heads, full),
    }
    notes.compare("full", at_full, repeats + 2)  # a ratio near 1 needs more rounds
    notes.add("tokens", "step", real_tokens(made), unit="tokens")
    notes.add("tokens", "full", real_tokens(full), unit="tokens")
    notes.add("tokens", "length", shape.length, unit="tokens")
    notes.add("tokens", "budget", max(batch.tokens for batch in full), unit="tokens")
    largest = max(full, key=lambda batch: batch.tokens)  # what a step takes at most
    return {"engine": lambda: gnorm.score(model, heads, [largest]), "notebooks": procedures["notebooks"]}


def evaluation(notes, stock, model, heads, shape, tokenizer, tokens, repeats, evaluated):
    """Accuracy and entropy, one sentence at a time and here."""
    rows = shapes.rows(shape, evaluated)
    # A loop's time is the sum over its rows: 16 are timed, to stay within minutes.
    one, made = in_order(tokenizer, sample(rows, max(1, len(rows) // 16)), 1), make(tokenizer, rows, tokens)
    accuracy = {
        "one at a time": lambda: naive.accuracy(stock, one),
        "here": lambda: Evaluation(made, heads).accuracy(model),
    }
    entropies = {
        "one at a time": lambda: naive.entropy(stock, heads, one),
        "here": lambda: entropy.score(model, heads, made),
    }
    naive.accuracy(stock, one[:8])
    times = {"one at a time": len(rows) / len(one)}
    notes.compare("accuracy", accuracy, repeats, times)
    notes.compare("entropy", entropies, repeats, times)
    notes.add("tokens", "accuracy", real_tokens(made), unit="tokens")


def main(name, repeats, evaluated, output):
    shape = shapes.SHAPES[name]
    stock, heads = shapes.build(shape)  # as the library makes it, and as it is loaded here
    model = checkpoints.fuse(copy.deepcopy(stock))
    tokenizer, tokens = shapes.Ids(shape), LARGEST[model.device.type]
    notes = Notes(name)
    work = step(notes, stock, model, heads, shape, tokenizer, tokens, repeats) if shape.passes else {}
    if name not in shapes.SAME_ENCODER:
        evaluation(notes, stock, model, heads, shape, tokenizer, tokens, repeats, evaluated)
    # Memory last: measuring it makes allocations slower.
    for repeat in range(repeats):
        for procedure, pass_ in work.items():
            notes.add("memory", procedure, clock.peak_mb(pass_), repeat, "MB")
    notes.add("memory", "model", sum(p.numel() * 4 for p in model.parameters()) / 2**20, unit="MB")
    notes.add("memory", "estimate a token", bytes_per_token(model, heads) / 2**20, unit="MB")
    if not shape.passes:
        length = round(shape.length)
        for count in MEMORY_ROWS:  # all of one length, in batches of 64, so that only their number grows
            many = make(tokenizer, shapes.rows(shape, count, length), 64 * length)
            for repeat in range(repeats):
                used = clock.peak_mb(lambda many=many: entropy.score(model, heads, many))
                notes.add("entropy memory", f"{count} rows", used, repeat, "MB")
    with atomic(output) as temporary:
        pd.DataFrame(notes.lines).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"bench {snakemake.wildcards.shape}")
    torch.set_num_threads(snakemake.threads)
    main(snakemake.wildcards.shape, snakemake.params.repeats, snakemake.params.evaluated, snakemake.output[0])
