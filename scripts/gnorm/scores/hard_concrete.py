"""Hard concrete: how far a head's gate stays open when training puts a price on open gates (Voita et al. 2019).

The weights stay frozen; each slot has a gate with one trained number, log alpha. A gate is drawn from the hard
concrete distribution (Louizos et al. 2018), which can be exactly 0 and exactly 1. Adam lowers the mean loss of the
rows plus `penalty` times the expected share of gates that are not 0. A step is one pass of all rows through one draw
of the gates, so the way rows are cut into batches changes nothing. The score is log alpha: slots whose gate is exactly
0 after training (`trained`) have the lowest scores.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from gnorm.engine import objectives
from gnorm.engine.batches import Batch, each
from gnorm.engine.finite import Checks
from gnorm.engine.passes import finite
from gnorm.logs import log
from gnorm.models.gates import Gates
from gnorm.models.slots import SlotMap, as_evaluated

PRUNE = "lowest"
PASSES = ("steps", "steps")
UNITS = ("heads", "neurons")

# The distribution's temperature, and the ends of the stretched interval that is cut to [0, 1].
BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1
START = 2.0  # log alpha before training: nearly open


@torch.inference_mode(False)
def score(
    model: nn.Module,
    heads: SlotMap,
    batches: list[Batch],
    steps: int = 100,
    rate: float = 0.1,
    penalty: float = 1.0,
    seed: int = 0,
) -> torch.Tensor:
    kept = heads.kept(model)
    log_alpha = torch.where(kept, START, 0.0).double().requires_grad_()
    if not kept.any():
        return log_alpha.detach()
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam([log_alpha], lr=rate)
    with as_evaluated(model), Gates(model, heads) as gates:
        for step in range(steps):
            with torch.enable_grad():
                drawn = sample(log_alpha, torch.rand(heads.shape, generator=generator, dtype=torch.float64))
                gates.values = drawn.detach().to(model.device).requires_grad_()
                loss, slope = mean_loss(model, heads, batches, gates)
                share = open_probability(log_alpha)[kept].mean()
                adam.zero_grad()
                ((drawn * slope).sum() + penalty * share).backward()
            adam.step()
            if step in (0, steps - 1):
                log.info("hard_concrete: step %d, loss %.4f, %.1f%% of gates open", step + 1, loss, 100 * share.item())
    scores = torch.where(kept, log_alpha.detach(), 0.0)
    off = (trained(scores)[kept] == 0).sum().item()
    log.info("hard_concrete: %d of %d gates are closed after %d steps", off, int(kept.sum()), steps)
    return finite(scores, "hard_concrete", heads)


def sample(log_alpha: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Draw gates, given uniform random numbers from 0 to 1."""
    uniform = uniform.clamp(1e-9, 1 - 1e-9)
    soft = torch.sigmoid((uniform.log() - (1 - uniform).log() + log_alpha) / BETA)
    return (soft * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def open_probability(log_alpha: torch.Tensor) -> torch.Tensor:
    """The probability that a gate is not 0, which is its expected L0 norm."""
    return torch.sigmoid(log_alpha - BETA * math.log(-GAMMA / ZETA))


def trained(log_alpha: torch.Tensor) -> torch.Tensor:
    """The gates to use after training, without noise."""
    return (torch.sigmoid(log_alpha) * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def mean_loss(model: nn.Module, heads: SlotMap, batches: list[Batch], gates: Gates) -> tuple[float, torch.Tensor]:
    """Compute the mean loss of the rows with these gates, and its gradient with respect to them."""

    checks, mean = Checks(model, heads), objectives.Mean()

    def work(batch: Batch) -> torch.Tensor:
        """Compute the loss, and its slope in every gate."""
        weights = objectives.weights(batch, "task_loss").to(model.device)
        batch = batch.to(model.device)
        logits = model(**batch.inputs).logits
        checks.logits(batch, logits)
        losses = objectives.of_rows(logits, batch, "task_loss")
        total = (losses * weights.to(losses)).sum()
        (slope,) = torch.autograd.grad(total, gates.values)
        return torch.cat([total.detach().double().view(1), slope.flatten()])

    for batch, loss_and_slope in each(batches, work):
        weights = objectives.weights(batch, "task_loss").to(model.device)
        mean.add(weights.new_ones(1), loss_and_slope.unsqueeze(0), weights.sum())
    checks.look()
    loss, *slope = mean.value().split([1, gates.values.numel()])
    return loss.item(), slope[0].view(heads.shape)
