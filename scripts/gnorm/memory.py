"""How many tokens a batch may have, from the memory there is."""

from __future__ import annotations

import torch
from torch import nn

from gnorm import footprint
from gnorm.footprint import LARGEST, LIBRARIES_MB
from gnorm.heads import HeadMap
from gnorm.logs import log

LEAST = 256


def token_budget(setting: int | str, model: nn.Module, heads: HeadMap, job_mb: int | None, reuse_mb: int = 0) -> int:
    """The suite's `batch_tokens`; for `auto` the largest power of two that fits.

    A power of two up to a common limit, so that machines with enough memory make the same batches.
    `job_mb` is the suite's `memory_mb`: a CPU that runs out of it kills the job more often than it says so.
    None where jobs ask for what the model's size needs: then it is the limit, on every machine.
    """
    if setting != "auto":
        return int(setting)
    if job_mb is None and model.device.type == "cpu":
        return LARGEST["cpu"]
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
        more = "take a GPU with more" if job_mb is None else f"raise memory_mb in the suite, now {job_mb}"
        log.warning("memory is short: %s", more)
    return budget


def bytes_per_token(model: nn.Module, heads: HeadMap) -> int:
    """Memory that a token of a batch takes, at the peak of a scoring pass or of an entropy pass."""
    batch = LARGEST[model.device.type]
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", batch)
    writes = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    return footprint.bytes_per_token(
        heads.layers,
        heads.heads * heads.queries,
        heads.hidden,
        heads.inner,
        positions,
        tied=heads.shape[0] < heads.layers,
        batch=batch,
        size=model.dtype.itemsize,
        vocabulary=0 if writes is None else len(writes.weight),
    )
