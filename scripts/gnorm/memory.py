"""How many tokens a batch may have, from the memory there is."""

from __future__ import annotations

import torch
from torch import nn

from gnorm.heads import HeadMap
from gnorm.logs import log

LARGEST = {"cpu": 2048, "cuda": 16384}  # on a CPU more is no faster (make bench); for a GPU it is a guess
LEAST = 256
LIBRARIES_MB = 700  # what a job takes before it loads a model


def token_budget(setting: int | str, model: nn.Module, heads: HeadMap, job_mb: int, reuse_mb: int = 0) -> int:
    """The suite's `batch_tokens`; for `auto` the largest power of two that fits.

    A power of two up to a common limit, so that machines with enough memory make the same batches.
    `job_mb` is what the job asks for: a CPU that runs out of it kills the job more often than it says so.
    """
    if setting != "auto":
        return int(setting)
    model_mb = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    if model.device.type == "cuda":
        free_mb = torch.cuda.mem_get_info(model.device)[0] / 2**20 - model_mb - reuse_mb
    else:
        free_mb = job_mb - LIBRARIES_MB - 2 * model_mb - reuse_mb  # the unpruned model, and the one that loses heads
    fitting = int(0.8 * free_mb * 2**20 / bytes_per_token(model, heads))
    budget = LARGEST[model.device.type]
    while budget > fitting and budget > LEAST:
        budget //= 2
    log.info("batches of at most %d tokens: memory has room for %d", budget, max(fitting, 0))
    if fitting < LEAST:
        log.warning("memory is short: raise memory_mb in the suite, now %d", job_mb)
    return budget


def bytes_per_token(model: nn.Module, heads: HeadMap) -> int:
    """Memory that a token of a batch takes, at the peak of a scoring pass or of an entropy pass."""
    size = model.dtype.itemsize
    # Kept for the backward pass of each layer: Q, K, V, context, two sums and more, the feed-forward layer's two.
    kept = 8 * heads.hidden + 2 * heads.inner
    if heads.shape[0] < heads.layers:  # tied layers wait for each other with their inputs and gradients
        kept += 6 * heads.hidden
    scoring = heads.layers * kept * size
    # One layer's attention, in float32 and in float64, its logarithms and products: at full length, or at the
    # longest that the largest batch has room for.
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", LARGEST["cuda"])
    length = min(positions, LARGEST[model.device.type])
    entropy = heads.heads * heads.queries * length * 6 * 8
    return max(scoring, entropy)
