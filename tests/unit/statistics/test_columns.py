"""Tables of the project are read as they were written."""

import pandas as pd
import pytest

from gnorm.statistics.columns import TEXT, read_csv

NAMES = ["NA", "007", "None", "null", "nan", "1e5", "0.50", "inf", "True"]


@pytest.mark.fault("a model, strategy or criterion is named `NA`, `None`, `007` or `1e5`", "it keeps its name")
def test_names_stay_names_and_numbers_numbers(tmp_path, record_property):
    numbers = {"run": range(len(NAMES)), "accuracy": [0.5, *[None] * (len(NAMES) - 1)]}
    for names in (NAMES, NAMES[:1] * len(NAMES), NAMES[1:2] * len(NAMES)):
        pd.DataFrame({**dict.fromkeys(TEXT, names), **numbers}).to_csv(tmp_path / "table.csv", index=False)
        table = read_csv(tmp_path / "table.csv")
        assert all(table[column].tolist() == names for column in TEXT)
        assert table["run"].tolist() == list(range(len(NAMES))) and table["accuracy"].count() == 1
    record_property("tried", 3 * len(NAMES))


def test_an_empty_cell_is_missing(tmp_path):
    (tmp_path / "table.csv").write_text("model,accuracy\nBERT,\n,1\n")
    table = read_csv(tmp_path / "table.csv")
    assert table["model"].isna().tolist() == [False, True] and table["accuracy"].isna().tolist() == [True, False]
