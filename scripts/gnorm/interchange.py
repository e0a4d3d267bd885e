"""File names and formats of the authors' repository, so that results can stand in for a clone of it."""

from __future__ import annotations

PUBLISHED = {
    "greedy_gnorm": "GreedyGnorm",
    "inverse_gnorm": "InverseGreedyGnorm",
    "ae": "AE",
    "inverse_ae": "AEinverse",
}


def strategy_name(strategy: str) -> str:
    """A strategy in published file names; one they do not have gets a name of the same pattern."""
    camel = "".join(part[:1].upper() + part[1:] for part in strategy.replace("-", "_").split("_"))
    return PUBLISHED.get(strategy, camel)


def accuracy_file(model: str, strategy: str) -> str:
    return f"pruned_heads_accuracy({model})basedon{strategy_name(strategy)}.csv"


def random_file(model: str, trials: int, levels: int, group: int) -> str:
    return f"{model}randompruned_heads_data_{trials}x{levels}_{group}group.xlsx"


def joined_random_file(model: str, trials: int, levels: int) -> str:
    return f"{model}randompruned_heads_data_{trials}x{levels}_concated.xlsx"


def shard_file(model: str, first: int, last: int) -> str:
    return f"{model}{first}_{last}AE.pt"


def entropy_file(model: str, rows: int) -> str:
    return f"{model}_{rows}AE.pt"
