"""The parts of the GPU check; each makes lines of its page. None depends on a suite or on the network."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import statistics
import subprocess
from functools import partial
from pathlib import Path

import torch

from gnorm import layout
from gnorm.benchmarks import clock, models, naive, shapes
from gnorm.data import corpora, tokenizers
from gnorm.devices import device
from gnorm.engine import batches, training
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import bytes_per_token, probed
from gnorm.files import load_tensors
from gnorm.logs import log
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.pages.gpu import Line
from gnorm.pruning.trajectory import NEAR, Stop, follow
from gnorm.scores import gnorm

FOLDER = Path(layout.CHECK_GPU)
MODEL = {"family": "bert", "heads": 4, "width": 64, "feed_forward": 128, "batch": 32, "rate": 0.001}
WAITS = 4  # of the host for the card per step, inside this project; copies of new indices are among them
SPAN = {True: (120, 30, 1), False: (4000, 500, 4)}  # quick or not: rows to train and to evaluate on, epochs
SCORED, TOKENS = 24, 2048  # rows that heads are scored on, and tokens of a batch, the same on every device


def machine(quick):
    """The card, its driver, and versions."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        driver = "unknown (nvidia-smi does not answer)"
    card = torch.cuda.get_device_properties(device())
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "textpruner")]
    return [
        Line("card", f"{card.name}, {card.total_memory / 2**30:.1f} GiB, {torch.cuda.device_count()} visible"),
        Line("driver, CUDA, cuDNN", f"{driver}, {torch.version.cuda}, {torch.backends.cudnn.version()}"),
        Line("versions", f"Python {platform.python_version()}, {', '.join(versions)}"),
        Line("CUBLAS_WORKSPACE_CONFIG", os.environ["CUBLAS_WORKSPACE_CONFIG"]),
        Line("deterministic kernels are on", *_said(torch.are_deterministic_algorithms_enabled())),
        precision(256 if quick else 2048),
    ]


def precision(size):
    """Check that a float32 product is exact: TF32 keeps 10 bits of 23, which is off by 1e-4 and more."""
    a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(i)) for i in range(2))
    exact = a.double() @ b.double()
    error = ((a.to(device()) @ b.to(device())).cpu() - exact).norm() / exact.norm()
    return Line("TF32 is off: error of a float32 product", f"{error:.1e}", error.item() < 1e-5)


def _said(good):
    return ("yes" if good else "no"), good


def dataset(quick):
    """Make rows of a generated corpus, to train and to evaluate on, and a tokenizer for them."""
    train, evaluated, _ = SPAN[quick]
    classes = corpora.load("finance").LABELS
    drawn = corpora.draw("finance", train + evaluated, 0)
    rows = [{**row, "row": i, "label": classes.index(row["label_name"])} for i, row in enumerate(drawn)]
    return rows[:train], rows[train:], classes, tokenizers.train("bert", [row["text"] for row in rows[:train]], 500, 48)


def trained_twice(quick):
    """Train twice and compare the bytes. The model is kept for the other checks."""
    shutil.rmtree(FOLDER / "checkpoint", ignore_errors=True)  # left by an earlier check
    rows, _, classes, built = dataset(quick)
    entry = MODEL | {"epochs": SPAN[quick][2], "layers": 2 if quick else 4}
    trained = [training.train(entry, built, rows, classes, 2026) for _ in range(2)]
    one, two = (model.state_dict() for model in trained)
    differ = [name for name in one if not torch.equal(one[name], two[name])]
    checkpoints.save(FOLDER / "checkpoint", trained[0].cpu(), built)
    message = f"{len(differ)} of {len(one)} tensors differ" if differ else f"all {len(one)} tensors are the same"
    return [Line("training twice gives the same bytes", message, not differ)]


def trajectory(on, quick, heads_pruned=None):
    """Prune the trained model by Greedy-Gnorm, step by step."""
    model, built = checkpoints.load(FOLDER / "checkpoint", on=on)
    heads, rows = head_map(model), dataset(quick)[1]
    scored, evaluated = (
        batches.resident(batches.make(built, part, TOKENS), model.device) for part in (rows[:SCORED], rows)
    )
    evaluation, stop = Evaluation(evaluated, heads, 100), Stop(heads=heads_pruned)
    return follow(model, heads, evaluation, lambda model: (gnorm.score(model, heads, scored), {}), stop=stop)


def order(steps):
    return [(step.layer, step.head) for step, _ in steps[1:]]


def same_order(cpu, card):
    """Compare the card's trajectory with the CPU's, up to the step where they differ."""
    pairs = list(zip(order(cpu), order(card), strict=True))
    departs = next((step for step, (a, b) in enumerate(pairs, start=1) if a != b), None)
    together = cpu[:departs], card[:departs]
    off = [abs(a.correct - b.correct) for (a, _), (b, _) in zip(*together, strict=True)]
    errors = [
        ((b - a).abs() / a.abs().clamp_min(1e-300))[a != 0].max().item()
        for (_, a), (_, b) in zip(*together, strict=True)
        if a is not None
    ]
    message, tie = f"the same {len(cpu) - 1} heads", True
    if departs:
        # Both chose by these scores.
        scores = next(rescored for _, rescored in reversed(together[0]) if rescored is not None)
        one, two = (scores[slot].item() for slot in pairs[departs - 1])
        gap = abs(one - two) / max(abs(one), abs(two), 1e-300)
        tie = gap < NEAR
        message = (
            f"departs at step {departs} of {len(cpu) - 1}: scores {gap:.0e} apart, {'' if tie else 'NOT '}a near-tie"
        )
    rows = cpu[0][0].evaluated
    return [
        Line("greedy order is the CPU's, but for near-ties", message, tie),
        Line("largest relative difference of a score", f"{max(errors):.1e}", max(errors) < 1e-3),
        Line("rows that are right on one device alone", f"{max(off)} of {rows}", max(off) <= max(1, rows // 100)),
    ]


def waits(quick):
    """Count how often a step makes the host wait for the card."""
    to_come, steps = trajectory(device(), quick, heads_pruned=3), []
    counted = clock.waits(lambda: steps.extend(to_come))
    own, all_of_them = clock.own(counted) / len(steps), sum(counted.values()) / len(steps)
    places = ", ".join(f"{Path(place).name} {count}" for place, count in counted.most_common(4))
    return [
        Line("waits per step in this project", f"{own:.1f}", own <= WAITS),
        Line("waits per step with those inside transformers", f"{all_of_them:.1f} ({places})"),
    ]


def speed(quick):
    """Time scores and whole steps against a bare forward and backward pass, and check the memory estimate."""
    shape = shapes.NARROW if quick else shapes.SHAPES["BERT"]
    model, heads = models.build(shape, 2 if quick else None)
    built, rows = models.Ids(shape), models.rows(shape, 32 if quick else 2000)
    tokens = probed(model, heads, built, rows)
    scored = batches.resident(batches.make(built, rows, tokens), model.device)
    gnorm.score(model, heads, scored)
    floors, scores = [], []
    for _ in range(2 if quick else 7):  # by turns
        floors.append(clock.seconds(lambda: naive.floor(model, heads, scored)))
        scores.append(clock.seconds(lambda: gnorm.score(model, heads, scored)))
    ratio = statistics.median(score / floor for score, floor in zip(scores, floors, strict=True))
    floor = statistics.median(floors)
    largest = max(scored, key=lambda batch: batch.tokens)
    peak = clock.peak_mb(lambda: gnorm.score(model, heads, [largest]))
    estimate = bytes_per_token(model, heads) * largest.tokens / 2**20
    evaluation = Evaluation(scored, heads, 0)
    steps = list(follow(model, heads, evaluation, lambda m: (gnorm.score(m, heads, scored), {}), stop=Stop(heads=4)))
    step = statistics.median(step.seconds for step, _ in steps[1:])
    name = "a narrow model" if quick else "BERT-base"
    return [
        Line(f"tokens of a batch that the probe finds for {name}", f"{tokens}"),
        Line(f"bare forward and backward pass, {len(rows)} rows", f"{floor:.3f} s"),
        Line("scoring all heads on them", f"{statistics.median(scores):.3f} s, {ratio:.2f} times the bare pass"),
        Line("a step: prune, score and evaluate them", f"{step:.3f} s, {step / floor:.2f} times the bare pass"),
        Line(
            f"memory of a batch of {largest.tokens} tokens, beside the estimate",
            f"{peak:.0f} MB, {estimate:.0f} MB",
            peak <= estimate,
        ),
    ]


def orders(quick):
    """Prune on this card and on the CPU."""
    on_card = list(trajectory(device(), quick))
    log.info("pruned on %s", device())
    return same_order(list(trajectory("cpu", quick)), on_card)


def two_cards(quick, second):
    """Prune in a second job at the same time, started by the command `second`: it takes another card."""
    if torch.cuda.device_count() < 2:
        return [Line("two jobs on two cards", "only one card is visible")]
    with subprocess.Popen(second, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as other:
        try:
            first = pruned(quick)
            output, _ = other.communicate(timeout=1800)
        finally:
            other.kill()
    if other.returncode:
        return [Line("two jobs on two cards", "the second job failed: " + output.strip().splitlines()[-1][:200], False)]
    theirs = load_tensors(FOLDER / "second.pt")
    same, alike = first["order"] == theirs["order"], first["card"] == theirs["card"]  # other cards round differently
    return [
        Line("two jobs on two cards", f"{first['device']} and {theirs['device']}", first["device"] != theirs["device"]),
        Line("both have pruned the same heads", "yes" if same else "no", same if alike else None),
    ]


def pruned(quick):
    """Prune on this card and return the order of heads."""
    slots = order(list(trajectory(device(), quick)))
    return {
        "device": str(device()),
        "card": torch.cuda.get_device_name(device()),
        "order": [list(slot) for slot in slots],
    }


def check(quick: bool, second: list[str]) -> list[Line]:
    """Make every part's lines. A part that fails is a line of the page, and its traceback is in the log."""
    lines = []
    parts = {
        "machine": machine,
        "training": trained_twice,
        "orders": orders,
        "two cards": partial(two_cards, second=second),
        "waits": waits,
        "speed": speed,
    }
    for name, part in parts.items():
        try:
            lines += part(quick)
        except Exception as error:
            log.exception("%s failed", name)
            message = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            lines.append(Line(name, f"failed: {message}", False))
        log.info("%s: done", name)
    return lines
