"""What a model takes of memory, from its dimensions alone; imports nothing heavy."""

from __future__ import annotations

# Tokens of a batch. On a CPU more is no faster (make bench); on a GPU a probe finds the number (gnorm.engine.memory),
# and this is what is planned with.
LARGEST = {"cpu": 2048, "cuda": 16384}
LIBRARIES_MB = 700  # what a job takes before it loads a model


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
    """Memory that a token takes in a batch of at most `batch`, at the peak of a scoring pass or of an entropy pass.

    Of language models, whose tokens each have logits, with the size of their `vocabulary`. `matrices` is for criteria
    whose backward pass goes through the attention matrices of all layers.
    """
    longest = min(positions, batch)  # of a row in it, which may be far from what a model could read
    # Kept for the backward pass of each layer: Q, K, V, context, two sums and more, the feed-forward layer's two.
    kept = 8 * width + 2 * feed_forward
    if tied:  # tied layers wait for each other with their inputs and gradients
        kept += 6 * width
    scoring = layers * kept * size
    if matrices:  # one a layer, and in the layer at work its gradients, products and a sum of them
        scoring += (layers + 6) * heads * longest * size
    # One layer's attention at full length, in float32 and in float64, its logarithms and products.
    entropy = heads * longest * 6 * 8
    # Logits, their logarithms and their gradient, one of them in float64 where losses are compared.
    return max(scoring, entropy) + 4 * vocabulary * size
