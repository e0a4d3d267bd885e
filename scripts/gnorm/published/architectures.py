"""Architectures of the paper's families as HuggingFace configurations."""

from __future__ import annotations

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel

from gnorm.published.paper import Architecture


def config(of: Architecture, layers: int | None = None) -> PretrainedConfig:
    return AutoConfig.for_model(
        of.family,
        vocab_size=of.vocabulary,
        hidden_size=of.width,
        num_hidden_layers=layers or of.layers,
        num_attention_heads=of.heads,
        intermediate_size=4 * of.width,
        max_position_embeddings=of.positions,
        num_labels=of.classes,
        type_vocab_size=of.token_types,
        pad_token_id=of.padding,
        **({"embedding_size": of.embedding} if of.embedding != of.width else {}),
    )


def without_weights(of: Architecture) -> PreTrainedModel:
    """A model whose tensors have shapes but no values, so that it takes no memory."""
    with torch.device("meta"):
        return AutoModelForSequenceClassification.from_config(config(of))
