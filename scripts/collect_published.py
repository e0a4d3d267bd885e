"""The published accuracies, read as they are, in the form of a suite's own table of results."""

import zipfile

import pandas as pd

from gnorm.errors import UserError
from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.statistics.results import COLUMNS


def read(path):
    try:
        return pd.read_csv(path) if path.endswith(".csv") else pd.read_excel(path)
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def checked(table, path, columns):
    """The table if it has these columns, and numbers in them."""
    for column in columns:
        if column not in table:
            raise UserError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}")
        if not pd.api.types.is_numeric_dtype(table[column]) or table[column].isna().any():
            raise UserError(f"{path}: column {column!r} must hold numbers only")
    accuracy = table[list(columns[1:])]
    if not ((accuracy >= 0) & (accuracy <= 1)).all(axis=None):
        raise UserError(f"{path}: accuracies must lie between 0 and 1")
    if not table[columns[0]].is_monotonic_increasing:
        raise UserError(f"{path}: column {columns[0]!r} must rise from row to row")
    return table


def curve(path):
    table = checked(read(path), path, ("Pruned_Heads", "Accuracy"))
    return pd.DataFrame({"heads_pruned": table["Pruned_Heads"], "accuracy": table["Accuracy"]})


def trials(paths):
    """Every trial of a model's groups, numbered through."""
    parts, count = [], 0
    for path in paths:
        table = read(path)
        names = [c for c in table if str(c).startswith("Trial_")]
        if not names:
            raise UserError(f"{path} has no column 'Trial_1'; it has {', '.join(map(str, table.columns))}")
        checked(table, path, ("Heads Pruned", *names))
        for name in names:
            part = pd.DataFrame({"heads_pruned": table["Heads Pruned"], "accuracy": table[name], "trial": count})
            parts.append(part)
            count += 1
    return pd.concat(parts)


def main(curves, random, output):
    """`curves` has (file, model, strategy) of each, `random` (files, model)."""
    parts = [curve(path).assign(model=model, strategy=strategy, run=0) for path, model, strategy in curves]
    parts += [trials(paths).assign(model=model, strategy="random") for paths, model in random]
    table = pd.concat(parts, ignore_index=True)
    # A model's last point has no head left: that is how many there were.
    table["fraction_pruned"] = table["heads_pruned"] / table.groupby("model")["heads_pruned"].transform("max")
    table = table.assign(unit="heads").reindex(columns=COLUMNS)
    table = table.astype(dict.fromkeys(("run", "trial", "step", "layer", "head"), "Int64"))
    log.info("%d rows of %d models", len(table), table["model"].nunique())
    with atomic(output) as temporary:
        table.to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "published results")
    main(snakemake.params.curves, snakemake.params.random, snakemake.output[0])
