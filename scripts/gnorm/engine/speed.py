"""The number of tokens a model reads or writes per second, and the text it writes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn
from transformers import DynamicCache, PreTrainedTokenizerBase

from gnorm.engine import batches
from gnorm.engine.prompts import check_room, choose
from gnorm.logs import log

READ_ROWS = 32  # of a classifier's batch
LEAST_SECONDS = 0.05  # of one measurement: a small model writes its texts faster than a busy moment passes

Result = TypeVar("Result")


@dataclass(frozen=True)
class Measured:
    tokens: int  # that were produced, or read, in one go
    seconds: float  # of one go
    texts: tuple[str, ...] = ()  # what was written after each prompt


class Writer:
    """Greedy continuations of the first tokens of some rows, all at once.

    Decoding does not stop where a text ends, or a model that ends early would look slow: every pass gives a token of
    every prompt, and all are counted. Tokens after an end are no part of the text. `positions` is the number the
    model has: a longer text is cut to it.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        rows: Sequence[dict],
        positions: int,
        prompts: int,
        prompt_tokens: int,
        new_tokens: int,
    ):
        check_room(positions, prompt_tokens)
        room = positions - prompt_tokens
        if room < new_tokens:
            message = "the model has %d positions: %d new tokens a prompt, not generation.new_tokens, %d"
            log.warning(message, positions, room, new_tokens)
        self.tokenizer, self.new = tokenizer, min(new_tokens, room)
        self.segments = "token_type_ids" in tokenizer.model_input_names  # as where the model is scored
        self.prompts = torch.tensor(choose(tokenizer, rows, prompts, prompt_tokens))

    def __call__(self, model: nn.Module) -> Measured:
        prompts = self.prompts.to(model.device)
        generate(model, prompts, min(2, self.new), self.segments)  # to warm up
        seconds, written = timed(lambda: generate(model, prompts, self.new, self.segments), model.device, LEAST_SECONDS)
        texts = tuple(self.tokenizer.decode(self._text(ids), skip_special_tokens=True) for ids in written.tolist())
        return Measured(written.numel(), seconds, texts)

    def _text(self, ids: list[int]) -> list[int]:
        end = self.tokenizer.eos_token_id
        return ids[: ids.index(end)] if end in ids else ids


class Reader:
    """One forward pass of a batch of rows."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict]):
        (self.batch,) = batches.in_order(tokenizer, rows[:READ_ROWS], READ_ROWS)

    @torch.inference_mode()
    def __call__(self, model: nn.Module) -> Measured:
        inputs = self.batch.to(model.device).inputs
        model(**inputs)  # to warm up
        seconds, _ = timed(lambda: model(**inputs), model.device, LEAST_SECONDS)
        return Measured(int(self.batch.mask.sum()), seconds)


@torch.inference_mode()
def generate(model: nn.Module, prompts: torch.Tensor, new: int, segments: bool = False) -> torch.Tensor:
    """Write the `new` most likely tokens after prompts of one length, each given the tokens before it.

    With `segments` the model is told that all tokens are of the first segment, which GPT-2 adds as a token.
    """
    cache, read, written = DynamicCache(), prompts, []
    accepted = inspect.signature(model.forward).parameters
    for at in range(prompts.shape[1], prompts.shape[1] + new):
        places = torch.arange(at - read.shape[1], at, device=prompts.device)
        offered = {
            "attention_mask": prompts.new_ones(len(prompts), at),
            "position_ids": places.unsqueeze(0).expand(len(prompts), -1),
            "cache_position": places,
        }
        if segments:
            offered["token_type_ids"] = torch.zeros_like(read)
        known = {name: value for name, value in offered.items() if name in accepted}
        logits = model(input_ids=read, past_key_values=cache, use_cache=True, **known).logits[:, -1]
        read = logits.argmax(-1, keepdim=True)
        written.append(read)
    return torch.cat(written, dim=1)


def timed(work: Callable[[], Result], device: torch.device, least: float = 0.0) -> tuple[float, Result]:
    """Time `work` in seconds, with the device idle before and after.

    The work is repeated until `least` seconds have passed; the time is the mean.
    """
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began, passed, goes = time.perf_counter(), 0.0, 0
    while not goes or passed < least:
        result = work()
        wait()
        passed, goes = time.perf_counter() - began, goes + 1
    return passed / goes, result
