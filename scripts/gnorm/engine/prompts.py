"""Prompts for language models: the first tokens of evaluation rows."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from gnorm.engine import batches
from gnorm.errors import UserError
from gnorm.logs import log


def check_room(positions: int, prompt_tokens: int) -> None:
    """Refuse prompts that leave no position to write in."""
    if positions <= prompt_tokens:
        raise UserError(
            f"the model has {positions} positions and none left to write in after a prompt of {prompt_tokens} "
            f"tokens: set generation.prompt_tokens in config.yaml to {positions - 1} or less"
        )


def choose(
    tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict], prompts: int, prompt_tokens: int
) -> list[list[int]]:
    """Take the first tokens of the first rows that are longer than a prompt."""
    encoded = [row["input_ids"] for row in batches.encode(tokenizer, rows, "prompts")]
    long_enough = [ids[:prompt_tokens] for ids in encoded if len(ids) > prompt_tokens][:prompts]
    if not long_enough:
        raise UserError(
            f"no evaluation row is longer than the {prompt_tokens} tokens of a prompt: "
            "lower generation.prompt_tokens in config.yaml"
        )
    if len(long_enough) < prompts:
        message = "%d prompts, not generation.prompts, %d: no more evaluation rows are longer than %d tokens"
        log.warning(message, len(long_enough), prompts, prompt_tokens)
    return long_enough
