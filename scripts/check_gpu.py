"""Check this machine's GPU, in a few minutes, and write one page about it: make check-gpu.

The page is results/check-gpu/README.md. Nothing of it depends on a suite or on the network.
"""

import argparse
import importlib.metadata
import os
import platform
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

import torch

from benchmarks import clock, naive, shapes
from gnorm import hardware
from gnorm.data import corpora, tokenizers
from gnorm.devices import device
from gnorm.engine import batches, training
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import bytes_per_token, probed
from gnorm.errors import UserError
from gnorm.files import load_tensors, save_tensors, write_text
from gnorm.logs import log, start
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.pruning.trajectory import NEAR, Stop, follow
from gnorm.scores import gnorm

FOLDER = Path("results/check-gpu")
MODEL = {"family": "bert", "heads": 4, "width": 64, "feed_forward": 128, "batch": 32, "rate": 0.001}
WAITS = 4  # of the host for the card in a step, inside this project; copies of new indices are among them
SPAN = {True: (120, 30, 1), False: (4000, 500, 4)}  # quick or not: rows to train and to evaluate on, epochs
SCORED, TOKENS = 24, 2048  # rows that heads are scored on, and tokens of a batch, the same on every device


@dataclass(frozen=True)
class Line:
    """One thing that was checked; `good` is None where there is nothing to pass."""

    what: str
    found: str
    good: bool | None = None

    @property
    def row(self) -> str:
        return f"| {self.what} | {self.found} | {'' if self.good is None else 'yes' if self.good else '**NO**'} |"


def machine(quick):
    """The card, its driver, and versions."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\n")[0]
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
    """Whether a product of float32 matrices is one: TF32 keeps 10 bits of 23, which is off by 1e-4 and more."""
    a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(i)) for i in range(2))
    exact = a.double() @ b.double()
    error = ((a.to(device()) @ b.to(device())).cpu() - exact).norm() / exact.norm()
    return Line("TF32 is off: error of a float32 product", f"{error:.1e}", error.item() < 1e-5)


def _said(good):
    return ("yes" if good else "no"), good


def dataset(quick):
    """Rows of a generated corpus, to train and to evaluate on, and a tokenizer for them."""
    train, evaluated, _ = SPAN[quick]
    classes = corpora.load("finance").LABELS
    drawn = corpora.draw("finance", train + evaluated, 0)
    rows = [{**row, "row": i, "label": classes.index(row["label_name"])} for i, row in enumerate(drawn)]
    return rows[:train], rows[train:], classes, tokenizers.train("bert", [row["text"] for row in rows[:train]], 500, 48)


def trained_twice(quick):
    """Train twice: the same bytes? The model is kept for what follows."""
    shutil.rmtree(FOLDER / "checkpoint", ignore_errors=True)  # of an earlier check
    rows, _, classes, built = dataset(quick)
    entry = MODEL | {"epochs": SPAN[quick][2], "layers": 2 if quick else 4}
    models = [training.train(entry, built, rows, classes, 2026) for _ in range(2)]
    one, two = (model.state_dict() for model in models)
    differ = [name for name in one if not torch.equal(one[name], two[name])]
    checkpoints.save(FOLDER / "checkpoint", models[0].cpu(), built)
    found = f"{len(differ)} of {len(one)} tensors differ" if differ else f"all {len(one)} tensors are the same"
    return [Line("training twice gives the same bytes", found, not differ)]


def trajectory(on, quick, heads_pruned=None):
    """Greedy-Gnorm on the trained model, step by step."""
    model, built = checkpoints.load(FOLDER / "checkpoint", on=on)
    heads, rows = head_map(model), dataset(quick)[1]
    scored, evaluated = (
        batches.resident(batches.make(built, part, TOKENS), model.device) for part in (rows[:SCORED], rows)
    )
    evaluation, stop = Evaluation(evaluated, heads, 100), Stop(heads=heads_pruned)
    return follow(model, heads, evaluation, lambda model: (gnorm.score(model, heads, scored), {}), stop=stop)


def order(steps):
    return [(step.layer, step.head) for step, _ in steps[1:]]


def same_order(here, there):
    """How the card's trajectory compares with the CPU's, up to where they depart."""
    pairs = list(zip(order(here), order(there), strict=True))
    departs = next((step for step, (a, b) in enumerate(pairs, start=1) if a != b), None)
    together = here[:departs], there[:departs]
    off = [abs(a.correct - b.correct) for (a, _), (b, _) in zip(*together, strict=True)]
    errors = [
        ((b - a).abs() / a.abs().clamp_min(1e-300))[a != 0].max().item()
        for (_, a), (_, b) in zip(*together, strict=True)
        if a is not None
    ]
    found, tie = f"the same {len(here) - 1} heads", True
    if departs:
        scores = next(taken for _, taken in reversed(together[0]) if taken is not None)  # what both chose by
        one, two = (scores[slot].item() for slot in pairs[departs - 1])
        gap = abs(one - two) / max(abs(one), abs(two), 1e-300)
        tie = gap < NEAR
        found = (
            f"departs at step {departs} of {len(here) - 1}: scores {gap:.0e} apart, {'' if tie else 'NOT '}a near-tie"
        )
    rows = here[0][0].evaluated
    return [
        Line("greedy order is the CPU's, but for near-ties", found, tie),
        Line("largest relative difference of a score", f"{max(errors):.1e}", max(errors) < 1e-3),
        Line("rows that are right on one device alone", f"{max(off)} of {rows}", max(off) <= max(1, rows // 100)),
    ]


def waits(quick):
    """How often a step makes the host wait for the card."""
    to_come, steps = trajectory(device(), quick, heads_pruned=3), []
    found = clock.waits(lambda: steps.extend(to_come))
    own, all_of_them = clock.own(found) / len(steps), sum(found.values()) / len(steps)
    places = ", ".join(f"{Path(place).name} {count}" for place, count in found.most_common(4))
    return [
        Line("waits per step in this project", f"{own:.1f}", own <= WAITS),
        Line("waits per step with those inside transformers", f"{all_of_them:.1f} ({places})"),
    ]


def speed(quick):
    """Scores and whole steps beside a bare forward and backward pass, and the memory of a score beside the estimate."""
    shape = shapes.NARROW if quick else shapes.SHAPES["BERT"]
    model, heads = shapes.build(shape, 2 if quick else None)
    built, rows = shapes.Ids(shape), shapes.rows(shape, 32 if quick else 2000)
    tokens = probed(model, heads, built, rows)
    made = batches.resident(batches.make(built, rows, tokens), model.device)
    gnorm.score(model, heads, made)
    floors, scores = [], []
    for _ in range(2 if quick else 7):  # by turns
        floors.append(clock.seconds(lambda: naive.floor(model, heads, made)))
        scores.append(clock.seconds(lambda: gnorm.score(model, heads, made)))
    ratio = statistics.median(score / floor for score, floor in zip(scores, floors, strict=True))
    floor = statistics.median(floors)
    largest = max(made, key=lambda batch: batch.tokens)
    peak = clock.peak_mb(lambda: gnorm.score(model, heads, [largest]))
    estimate = bytes_per_token(model, heads) * largest.tokens / 2**20
    evaluation = Evaluation(made, heads, 0)
    steps = list(follow(model, heads, evaluation, lambda m: (gnorm.score(m, heads, made), {}), stop=Stop(heads=4)))
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
    there = list(trajectory(device(), quick))
    log.info("pruned on %s", device())
    return same_order(list(trajectory("cpu", quick)), there)


def two_cards(quick):
    """Prune in a second job at the same time: it takes another card."""
    if torch.cuda.device_count() < 2:
        return [Line("two jobs on two cards", "only one card is visible")]
    command = [sys.executable, __file__, "--second", *(["--quick"] if quick else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as second:
        try:
            first = pruned(quick)
            said, _ = second.communicate(timeout=1800)
        finally:
            second.kill()
    if second.returncode:
        return [Line("two jobs on two cards", "the second job failed: " + said.strip().splitlines()[-1][:200], False)]
    other = load_tensors(FOLDER / "second.pt")
    found, same = f"{first['device']} and {other['device']}", first["order"] == other["order"]
    alike = first["card"] == other["card"]  # other cards round differently
    return [
        Line("two jobs on two cards", found, first["device"] != other["device"]),
        Line("both have pruned the same heads", "yes" if same else "no", same if alike else None),
    ]


def pruned(quick):
    """Which heads go on this card, in their order."""
    slots = order(list(trajectory(device(), quick)))
    return {
        "device": str(device()),
        "card": torch.cuda.get_device_name(device()),
        "order": [list(slot) for slot in slots],
    }


PAGE = """# GPU check

{verdict}

| what | found | as it should be |
|---|---|---|
{rows}

Waits are those that torch's `set_sync_debug_mode` reports; it does not see copies from the host that need not wait.

Made by `make check-gpu`{quick}. To report a card, or a line that says **NO**: open an issue and attach this page.
"""


def write(lines, quick):
    bad = [line.what for line in lines if line.good is False]
    verdict = f"Not as it should be: {'; '.join(bad)}." if bad else "Everything is as it should be."
    rows = "\n".join(line.row for line in lines)
    page = PAGE.format(verdict=verdict, rows=rows, quick=" in its quick form" if quick else "")
    write_text(FOLDER / "README.md", page)
    print(f"\n{page}\npage: {FOLDER / 'README.md'}")
    return not bad


def main(quick):
    """Whether all is well. A part that fails is a line of the page, and its traceback is in the log."""
    lines = []
    for part in (machine, trained_twice, orders, two_cards, waits, speed):
        try:
            lines += part(quick)
        except Exception as error:
            log.exception("%s failed", part.__name__)
            said = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            lines.append(Line(part.__name__.replace("_", " "), f"failed: {said}", False))
        log.info("%s: done", part.__name__)
    return write(lines, quick)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller models and fewer rows")
    parser.add_argument("--second", action="store_true", help=argparse.SUPPRESS)  # the job on the other card
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    start(str(FOLDER / ("second.log" if asked.second else "check.log")), "check-gpu")
    if not torch.cuda.is_available():
        if unused := hardware.unused_card(looked=True):
            raise UserError(unused)
        print("This machine has no NVIDIA card: there is nothing to check. Everything runs on the CPU.")
    elif asked.second:
        save_tensors(FOLDER / "second.pt", pruned(asked.quick))
    else:
        sys.exit(not main(asked.quick))
