"""One forward and backward pass that several gradient criteria read.

A criterion that can share a pass has `reading(**settings)`. It says which signals of the pass the criterion reads,
which function of them is averaged over rows, and how the mean becomes a score. Readings of one objective share a pass.

A signal is a context manager of (model, heads, batch) that watches the model and yields a tensor, rows x ...
x slots, which is filled during the backward pass. Sentences do not interact, so one backward pass of the sum
of their objectives gives the gradients of each sentence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from gnorm.engine import objectives
from gnorm.engine.batches import Batch, each
from gnorm.engine.finite import Checks, check_differ, check_slots, collected
from gnorm.errors import UserError
from gnorm.models.heads import HeadMap
from gnorm.models.slots import SlotMap, as_evaluated, eager, lowest_projections, places_of
from gnorm.models.versions import asking_for_attention

# The objective is multiplied by this before gradients are taken: squared in float32, a block's norm may then
# lie anywhere from 1e-26 to 1e10. A power of two rounds nothing.
SCALE = 2.0**30

Signal = Callable[[nn.Module, SlotMap, Batch], AbstractContextManager[torch.Tensor]]
Seen = Callable[[Batch, torch.Tensor], None]


@dataclass(frozen=True)
class Reading:
    signals: tuple[Signal, ...]
    of_rows: Callable[..., torch.Tensor]  # the signals -> rows x ..., to be averaged
    finish: Callable[[torch.Tensor], torch.Tensor] = lambda mean: mean  # the mean over rows -> slots
    objective: str = "task_loss"
    precision: str = "float32"

    @property
    def shares(self) -> tuple[str, str]:
        """The key of a pass: readings with the same key share one."""
        return self.objective, self.precision


def read(
    model: nn.Module,
    heads: SlotMap,
    batches: list[Batch],
    readings: Mapping[str, Reading],
    seen: Seen | None = None,
) -> dict[str, torch.Tensor]:
    """Compute the score of each reading, with one pass per objective and precision."""
    passes: dict[tuple[str, str], dict[str, Reading]] = defaultdict(dict)
    for name, reading in readings.items():
        passes[reading.shares][name] = reading
    scores_by_name = {}
    for (objective, precision), group in passes.items():
        means = _means(model, heads, batches, objective, precision, group, seen)
        for name, mean in means.items():
            score = finite(group[name].finish(mean), name, heads)
            scores_by_name[name] = check_differ(score, name, heads, model, batches, mean)
    return {name: scores_by_name[name] for name in readings}


def _means(model, heads, batches, objective, precision, group, seen) -> dict[str, torch.Tensor]:
    signals = tuple(dict.fromkeys(signal for reading in group.values() for signal in reading.signals))
    checks = Checks(model, heads)
    work = partial(backward, model, heads, signals=signals, objective=objective, precision=precision, checks=checks)
    means = {name: objectives.Mean() for name in group}
    for batch, (read_off, logits) in each(batches, work):
        weights = objectives.weights(batch, objective).to(model.device)
        for name, reading in group.items():
            values = reading.of_rows(*(read_off[signal] for signal in reading.signals))
            checks.slots(values, f"the {name} of a row,", batch.rows)
            means[name].add(weights, values)
        if seen and precision == "float32":  # accuracy is never measured with rounded weights
            seen(batch, logits)
    checks.look()
    return {name: mean.value() for name, mean in means.items()}


def backward(
    model: nn.Module,
    heads: SlotMap,
    batch: Batch,
    signals: tuple[Signal, ...],
    objective: str | Callable[[torch.Tensor, Batch], torch.Tensor],
    precision: str = "float32",
    checks: Checks | None = None,
) -> tuple[dict[Signal, torch.Tensor], torch.Tensor]:
    """The signals of a batch's rows, and its logits; pruned slots are 0.

    The caller's `checks` see whether the logits are finite; without `checks`, this function does.
    """
    batch = batch.to(model.device)
    with ExitStack() as watching, torch.inference_mode(False), torch.enable_grad(), as_evaluated(model):
        roots = watching.enter_context(lowest_projections(model, heads))
        watched = {signal: watching.enter_context(signal(model, heads, batch)) for signal in signals}
        inputs = dict(batch.inputs)
        if attention_products in signals:
            watching.enter_context(eager(model))
            inputs |= asking_for_attention(model)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(**inputs).logits
        if logits.dtype == torch.bfloat16:
            logits = logits.float()
        if roots:  # out of autocast, which would round the signals' products too
            if callable(objective):
                value = objective(logits, batch)
            else:
                value = objectives.of_rows(logits, batch, objective).sum()
            torch.autograd.grad(SCALE * value, roots)
    with collected(checks, model, heads) as own:
        own.logits(batch, logits)
    return watched, logits.detach()


@contextmanager
def gate_gradients(model: nn.Module, heads: SlotMap, batch: Batch) -> Iterator[torch.Tensor]:
    """d objective / d gate of each row, rows x slots.

    The gate multiplies a head's output, so its gradient is the sum of output times gradient; one gate serves
    all layers of a slot, whose gradients add up.
    """
    kept = heads.kept(model)
    slopes = torch.zeros(len(batch.labels), *heads.shape, dtype=torch.float64, device=model.device)
    handles = []
    for row, block in enumerate(heads.blocks):
        columns = places_of(kept[row], model.device)

        def watch(_module, args, row=row, columns=columns):
            output = args[0].detach()

            def arrived(gradient):
                product = (output * gradient).unflatten(-1, (len(columns), heads.width))
                slopes[:, row, columns] += product.sum((1, 3), dtype=torch.float64) / SCALE

            args[0].register_hook(arrived)

        if len(columns):
            handles.append(model.get_submodule(block.output).register_forward_pre_hook(watch))
    try:
        yield slopes
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def attention_products(model: nn.Module, heads: HeadMap, batch: Batch) -> Iterator[torch.Tensor]:
    """A * d objective / dA of each row, rows x 2 x slots: the sum over the matrix, and that of absolute values.

    Sums run over the layers and query heads of a slot. Padding adds nothing: no token attends to it and no
    objective depends on it.
    """
    kept = heads.kept(model)
    sums = torch.zeros(len(batch.labels), 2, *heads.shape, dtype=torch.float64, device=model.device)
    handles = []
    for row, block in enumerate(heads.blocks):
        columns = places_of(kept[row], model.device)

        def watch(_module, _args, output, row=row, columns=columns):
            weights = attention_weights(output)
            matrix = weights.detach()

            def arrived(gradient):
                product = (matrix * gradient).unflatten(1, (len(columns), heads.queries))
                sums[:, 0, row, columns] += product.sum((2, 3, 4), dtype=torch.float64) / SCALE
                sums[:, 1, row, columns] += product.abs_().sum((2, 3, 4), dtype=torch.float64) / SCALE

            weights.register_hook(arrived)

        if len(columns):
            handles.append(model.get_submodule(block.attention).register_forward_hook(watch))
    try:
        yield sums
    finally:
        for handle in handles:
            handle.remove()


def attention_weights(output: tuple) -> torch.Tensor:
    """Read the attention matrices off an attention module's output, rows x heads x T x T."""
    if not isinstance(output, tuple) or len(output) < 2 or output[1] is None:
        raise UserError(
            "the model gives no attention weights (its attention module returns none with output_attentions): "
            "`taylor`, `attribution` and `entropy` need them, take another criterion"
        )
    return output[1]


def finite(score: torch.Tensor, name: str, heads: SlotMap) -> torch.Tensor:
    check_slots(score, f"the score {name}", unit=heads.unit)
    return score
