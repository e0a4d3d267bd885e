"""Time one model shape: a greedy step, accuracy and entropy, naively and here."""

import sys
from pathlib import Path

import pandas as pd
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))
from benchmarks import clock, naive, shapes
from gnorm.batches import in_order, make
from gnorm.evaluate import Evaluation
from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.memory import LARGEST
from gnorm.scores import entropy, gnorm

SAME_ENCODER = ("XLM-RoBERTa",)  # as BERT: its accuracy and entropy would cost the same minutes again
MEMORY_ROWS = (128, 256, 512)


def step(model, heads, shape, tokenizer, tokens):
    """Procedures of one greedy step's scoring, naive and not."""
    rows = shapes.rows(shape, shape.rows)
    one, fixed, made = (
        in_order(tokenizer, rows, 1),
        in_order(tokenizer, rows, shape.batch),
        make(tokenizer, rows, tokens),
    )
    return {
        "notebooks": lambda: naive.notebooks(model, heads, fixed, shape.passes),
        "one pass": lambda: naive.notebooks(model, heads, fixed, 1),
        "sentences": lambda: naive.sentences(model, heads, one),
        "engine": lambda: gnorm.score(model, heads, made),
        "floor": lambda: naive.floor(model, heads, made),
    }


def main(name, repeats, rounds, evaluated, output):
    shape = shapes.SHAPES[name]
    model, heads = shapes.build(shape)
    tokenizer, tokens = shapes.Ids(shape), LARGEST[model.device.type]
    machine = clock.machine()
    found = []

    def note(section, procedure, value, repeat=0, unit="s"):
        record = {"section": section, "shape": name, "procedure": procedure, "repeat": repeat, "value": value}
        found.append({**record, "unit": unit, "machine": machine})

    def compare(section, procedures, rounds):
        """Each procedure `rounds` times, by turns, so that a busy moment of the machine hits all of them."""
        for repeat in range(rounds):
            for procedure, work in procedures.items():
                note(section, procedure, clock.seconds(work), repeat)
        last = {f["procedure"]: round(f["value"], 3) for f in found[-len(procedures) :]}
        log.info("%s, seconds of the last round: %s", section, last)

    procedures = step(model, heads, shape, tokenizer, tokens)
    for procedure in ("sentences", "engine", "floor"):  # the first run allocates
        procedures[procedure]()
    compare("step", {p: procedures[p] for p in ("engine", "floor")}, rounds)
    compare("against", {p: procedures[p] for p in ("notebooks", "sentences", "engine")}, repeats)

    if name not in SAME_ENCODER:
        rows = shapes.rows(shape, evaluated)
        one, made = in_order(tokenizer, rows, 1), make(tokenizer, rows, tokens)
        compare(
            "accuracy",
            {
                "one at a time": lambda: naive.accuracy(model, one),
                "here": lambda: Evaluation(made, heads).accuracy(model),
            },
            repeats,
        )
        model.config._attn_implementation = "eager"
        compare(
            "entropy",
            {
                "one at a time": lambda: naive.entropy(model, heads, one),
                "here": lambda: entropy.score(model, heads, made),
            },
            repeats,
        )
    model.config._attn_implementation = "sdpa"
    for repeat in range(repeats):
        note("memory", "step", clock.peak_mb(procedures["engine"]), repeat, "MB")
        note("memory", "notebooks", clock.peak_mb(procedures["one pass"]), repeat, "MB")
    note("rows", "step", shape.rows, unit="rows")
    note("memory", "model", sum(p.numel() * 4 for p in model.parameters()) / 2**20, unit="MB")
    model.config._attn_implementation = "eager"
    if name == "MiniLM":
        for count in MEMORY_ROWS:  # all of one length, so that only their number grows
            many = make(tokenizer, shapes.rows(shape, count, round(shape.length)), tokens)
            for repeat in range(repeats):
                used = clock.peak_mb(lambda many=many: entropy.score(model, heads, many))
                note("entropy memory", f"{count} rows", used, repeat, "MB")
    with atomic(output) as temporary:
        pd.DataFrame(found).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"bench {snakemake.wildcards.shape}")
    torch.set_num_threads(snakemake.threads)
    main(
        snakemake.wildcards.shape,
        snakemake.params.repeats,
        snakemake.params.rounds,
        snakemake.params.evaluated,
        snakemake.output[0],
    )
