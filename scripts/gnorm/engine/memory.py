"""The number of tokens a batch may have, from the free memory and, on a GPU, from its speed."""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from gnorm.data.rows import read
from gnorm.devices import free_memory, repeatably
from gnorm.engine import batches, footprint
from gnorm.engine.footprint import LARGEST, LIBRARIES_MB
from gnorm.errors import UserError
from gnorm.files import read_json, write_json
from gnorm.logs import log
from gnorm.models import checkpoints
from gnorm.models.heads import HeadMap, head_map
from gnorm.models.slots import lowest_projections

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LEAST = 256
MOST = 2**18
FULL = 0.8  # of the memory that is free
RISES = 1.05  # how much faster a pass of twice the tokens must be, per token
SAMPLE = 64  # rows that are looked at for their usual length


@dataclass(frozen=True)
class Probe:
    """The inputs of a probe for a GPU's batch size: the same in every job of a model, whichever runs first.

    `kept` is the file that stores the result. All jobs of a model therefore make the same batches, and an interrupted
    job continues with the batches it had, also on another card. `reuse_mb` is left free for the outputs of layers.
    """

    checkpoint: str | Path
    dataset_folder: str | Path
    kept: str | Path
    reuse_mb: int = 0


def token_budget(
    setting: int | str,
    model: nn.Module,
    heads: HeadMap,
    job_mb: int | None,
    reuse_mb: int = 0,
    probe: Probe | None = None,
) -> int:
    """The suite's `batch_tokens`; for `auto` a power of two that fits.

    On a CPU it is the largest one up to a common limit, so that machines with enough memory make the same batches.
    `job_mb` is the suite's `memory_mb`. A CPU job that runs out of memory is usually killed without an error.
    `job_mb` is None where jobs ask for what the model's size needs: every machine then takes the limit.
    On a GPU a `probe` finds the budget; without a probe it is the largest one up to a limit.
    """
    if setting != "auto":
        return int(setting)
    if model.device.type == "cuda" and probe:
        return _kept_or_probed(model, probe)
    if job_mb is None and model.device.type == "cpu":
        return LARGEST["cpu"]
    model_mb = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    if model.device.type == "cuda":
        free_mb = free_memory(model.device) / 2**20 - model_mb - reuse_mb
    else:
        free_mb = job_mb - LIBRARIES_MB - 2 * model_mb - reuse_mb  # the unpruned model, and the one that loses heads
    fitting = int(FULL * free_mb * 2**20 / bytes_per_token(model, heads))
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


def _kept_or_probed(model: nn.Module, probe: Probe) -> int:
    """Read the budget that an earlier job of this model stored, or probe for it and store it."""
    size = sum(p.numel() for p in model.parameters())
    if not (kept := _kept(probe.kept, size)):
        tokens = _probed_on_a_copy(model.device, probe)
        _keep(probe.kept, {"tokens": tokens, "parameters": size, "card": torch.cuda.get_device_name(model.device)})
        kept = _kept(probe.kept, size) or {"tokens": tokens, "card": "this card"}  # another job may have been first
    log.info("batches of at most %d tokens, found on %s", kept["tokens"], kept["card"])
    return kept["tokens"]


def _probed_on_a_copy(card: torch.device, probe: Probe) -> int:
    """Probe a second copy of the model: most jobs prune one, and entropy jobs load theirs with slower attention."""
    try:
        model, tokenizer = checkpoints.load(probe.checkpoint, on=card)
    except Exception as error:
        if not batches.out_of_memory(error):
            raise
        log.warning("memory is short: the model fits only once; take a GPU with more")
        return LEAST
    return probed(model, head_map(model), tokenizer, read(probe.dataset_folder, "evaluation"), probe.reuse_mb)


def _kept(file: str | Path, size: int) -> dict | None:
    try:
        stored = read_json(file)
    except (FileNotFoundError, UserError):
        return None
    return stored if stored.get("parameters") == size else None


def _keep(file: str | Path, budget: dict) -> None:
    """Write the file whole, unless another job has written it; replace the file of another model."""
    file = Path(file)
    new = file.with_name(f".{file.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        write_json(new, budget)
        if file.exists() and not _kept(file, budget["parameters"]):
            os.replace(new, file)
            return
        try:
            os.link(new, file)  # fails if the file is there
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            os.replace(new, file)
    finally:
        new.unlink(missing_ok=True)


def probed(
    model: nn.Module, heads: HeadMap, tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict], reuse_mb: int = 0
) -> int:
    """Find the budget beyond which more tokens are no faster, or fill more than four fifths of the memory.

    Runs rows of the usual length forward and backward, with twice as many tokens each time.
    """
    encoded = sorted(batches.encode(tokenizer, rows[:SAMPLE]), key=lambda row: len(row["input_ids"]))
    usual = encoded[len(encoded) // 2]
    room = torch.cuda.memory_allocated(model.device) + FULL * free_memory(model.device) - reuse_mb * 2**20
    best = tokens = max(LEAST, 2 ** (len(usual["input_ids"]) - 1).bit_length())  # at least one row
    fastest = 0.0
    while tokens <= MOST:
        inputs = tokenizer.pad([usual] * (tokens // len(usual["input_ids"])), return_tensors="pt", padding_side="right")
        inputs = {name: value.to(model.device) for name, value in inputs.items()}
        try:
            seconds, peak = repeatably(lambda inputs=inputs: _measured(model, heads, inputs))
        except Exception as error:
            if not batches.out_of_memory(error):
                raise
            seconds, peak = float("inf"), float("inf")
        rate = inputs["input_ids"].numel() / seconds
        log.info("probe: %d tokens, %.0f a second, %.0f MB at the peak", tokens, rate, peak / 2**20)
        if peak > room and not fastest:
            log.warning("memory is short: take a GPU with more, or lower reuse_mb of the suite, now %d", reuse_mb)
        if peak > room or rate < RISES * fastest:
            break
        best, fastest, tokens = tokens, rate, 2 * tokens
    gc.collect()
    torch.cuda.empty_cache()
    return best


def _measured(model: nn.Module, heads: HeadMap, inputs: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Time a forward and backward pass, the best of three, and measure its peak memory."""
    torch.cuda.reset_peak_memory_stats(model.device)
    seconds = []
    for _ in range(4):  # the first one warms up
        torch.cuda.synchronize(model.device)
        began = time.perf_counter()
        with torch.enable_grad(), lowest_projections(model, heads) as roots:
            value = model(**inputs).logits.float().norm()
            if roots:
                torch.autograd.grad(value, roots)
        torch.cuda.synchronize(model.device)
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:]), torch.cuda.max_memory_allocated(model.device)
