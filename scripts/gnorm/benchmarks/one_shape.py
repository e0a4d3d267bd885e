"""One model shape: seconds and memory of a greedy step, of accuracy and of entropy, naively and here."""

from __future__ import annotations

import copy

import pandas as pd

from gnorm.benchmarks import clock, models, naive
from gnorm.benchmarks.shapes import SAME_ENCODER, SHAPES
from gnorm.engine.batches import in_order, make
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import LARGEST, bytes_per_token
from gnorm.logs import log
from gnorm.models import checkpoints
from gnorm.scores import entropy, gnorm

FULL = 256  # tokens from which a pass is about as fast as it gets
MEMORY_ROWS = (128, 256, 512)


def real_tokens(batches):
    return int(sum(batch.mask.sum() for batch in batches))


def sample(rows, part):
    """Take one of every `part` rows, evenly from short to long ones."""
    return sorted(rows, key=lambda row: len(row["text"].split()))[part // 2 :: part]


class Notes:
    """The measurements, one line per value."""

    def __init__(self, shape):
        self.shape, self.machine, self.lines = shape, clock.machine(), []

    def add(self, section, procedure, value, repeat=0, unit="s"):
        line = {"section": section, "shape": self.shape, "procedure": procedure, "repeat": repeat, "value": value}
        self.lines.append({**line, "unit": unit, "machine": self.machine})

    def compare(self, section, procedures, repeats, times=None):
        """Time the procedures by turns, so that a busy moment of the machine affects all of them.

        `times` says how often a procedure would have to run for all rows, if it runs on a part of them.
        """
        for repeat in range(repeats):
            for procedure, work in procedures.items():
                self.add(section, procedure, clock.seconds(work) * (times or {}).get(procedure, 1), repeat)
        last = {line["procedure"]: round(line["value"], 3) for line in self.lines[-len(procedures) :]}
        log.info("%s, seconds of the last round: %s", section, last)


def step(notes, stock, model, heads, shape, tokenizer, tokens, repeats):
    """Time scoring against the naive procedures on a few rows, and against its floor on a full batch."""
    rows = models.rows(shape, shape.rows)
    # To stay within minutes, 8 rows of the loop are timed, and one of the notebooks' passes, which are all alike.
    few = sample(rows, max(1, len(rows) // 8))
    one, fixed, batches = (
        in_order(tokenizer, few, 1),
        in_order(tokenizer, rows, shape.batch),
        make(tokenizer, rows, tokens),
    )
    full = make(tokenizer, models.rows(shape, round(FULL / shape.length)), tokens)
    naive.notebooks(stock, heads, fixed, 1)  # the first run allocates
    gnorm.score(model, heads, full)
    procedures = {
        "notebooks": lambda: naive.notebooks(stock, heads, fixed, 1),
        "sentences": lambda: naive.sentences(stock, heads, one),
        "engine": lambda: gnorm.score(model, heads, batches),
    }
    notes.compare("step", procedures, repeats, {"notebooks": shape.passes, "sentences": len(rows) / len(one)})
    at_full = {
        "engine": lambda: gnorm.score(model, heads, full),
        "floor": lambda: naive.floor(model, heads, full),
    }
    notes.compare("full", at_full, repeats + 2)  # a ratio near 1 needs more rounds
    notes.add("tokens", "step", real_tokens(batches), unit="tokens")
    notes.add("tokens", "full", real_tokens(full), unit="tokens")
    notes.add("tokens", "length", shape.length, unit="tokens")
    notes.add("tokens", "budget", max(batch.tokens for batch in full), unit="tokens")
    notes.add("tokens", "most", tokens, unit="tokens")
    largest = max(full, key=lambda batch: batch.tokens)  # the peak of a step
    return {"engine": lambda: gnorm.score(model, heads, [largest]), "notebooks": procedures["notebooks"]}


def evaluation(notes, stock, model, heads, shape, tokenizer, tokens, repeats, evaluated):
    """Time accuracy and entropy, one sentence at a time and here."""
    rows = models.rows(shape, evaluated)
    # A loop's time is the sum over its rows: to stay within minutes, 16 are timed.
    one, batches = in_order(tokenizer, sample(rows, max(1, len(rows) // 16)), 1), make(tokenizer, rows, tokens)
    accuracy = {
        "one at a time": lambda: naive.accuracy(stock, one),
        "here": lambda: Evaluation(batches, heads).accuracy(model),
    }
    entropies = {
        "one at a time": lambda: naive.entropy(stock, heads, one),
        "here": lambda: entropy.score(model, heads, batches),
    }
    naive.accuracy(stock, one[:8])
    times = {"one at a time": len(rows) / len(one)}
    notes.compare("accuracy", accuracy, repeats, times)
    notes.compare("entropy", entropies, repeats, times)
    notes.add("tokens", "accuracy", real_tokens(batches), unit="tokens")


def measure(name: str, repeats: int, evaluated: int) -> pd.DataFrame:
    """Make all measurements of one shape, one line per value."""
    shape = SHAPES[name]
    stock, heads = models.build(shape)  # as the library makes it; the fused copy is as it is loaded here
    model = checkpoints.fuse(copy.deepcopy(stock))
    tokenizer, tokens = models.Ids(shape), LARGEST[model.device.type]
    notes = Notes(name)
    work = step(notes, stock, model, heads, shape, tokenizer, tokens, repeats) if shape.passes else {}
    if name not in SAME_ENCODER:
        evaluation(notes, stock, model, heads, shape, tokenizer, tokens, repeats, evaluated)
    # Memory last: measuring it makes allocations slower.
    for repeat in range(repeats):
        for procedure, pass_ in work.items():
            notes.add("memory", procedure, clock.peak_mb(pass_), repeat, "MB")
    notes.add("memory", "model", sum(p.numel() * 4 for p in model.parameters()) / 2**20, unit="MB")
    notes.add("memory", "estimate a token", bytes_per_token(model, heads) / 2**20, unit="MB")
    if not shape.passes:
        length = round(shape.length)
        for count in MEMORY_ROWS:  # rows of one length, in batches of 64, so that only their number grows
            many = make(tokenizer, models.rows(shape, count, length), 64 * length)
            for repeat in range(repeats):
                used = clock.peak_mb(lambda many=many: entropy.score(model, heads, many))
                notes.add("entropy memory", f"{count} rows", used, repeat, "MB")
    return pd.DataFrame(notes.lines)
