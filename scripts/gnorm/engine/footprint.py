"""The memory a model takes, from its dimensions alone; imports nothing heavy."""

from __future__ import annotations

# Tokens of a batch. On a CPU more is no faster (make bench); on a GPU a probe finds the number (gnorm.engine.memory),
# and plans use the one given here.
LARGEST = {"cpu": 2048, "cuda": 16384}
LIBRARIES_MB = 700  # memory of a job before it loads a model


def bytes_per_token(
    layers: int,
    heads: int,
    width: int,
    feed_forward: int,
    positions: int,
    tied: bool,
    batch: int,
    size: int = 4,
    vocabulary: int = 0,
    matrices: bool = False,
) -> int:
    """Memory per token in a batch of at most `batch` tokens, at the peak of a scoring pass or an entropy pass.

    `vocabulary` is the size of a language model's, where each token has logits. `matrices` is for criteria whose
    backward pass goes through the attention matrices of all layers.
    """
    longest = min(positions, batch)  # tokens of a row in a batch: often far fewer than a model could read
    # Kept for the backward pass of each layer: Q, K, V, context, two sums and more, the feed-forward layer's two.
    kept = 8 * width + 2 * feed_forward
    if tied:  # tied layers wait for each other with their inputs and gradients
        kept += 6 * width
    scoring = layers * kept * size
    if matrices:  # one per layer, and gradients, products and their sum in the layer at work
        scoring += (layers + 6) * heads * longest * size
    # One layer's attention at full length, in float32 and in float64, its logarithms and products.
    entropy = heads * longest * 6 * 8
    # Logits, their logarithms and their gradient, one of them in float64 where losses are compared.
    return max(scoring, entropy) + 4 * vocabulary * size
