"""What a task gives away without a model."""

import measure_baselines
import pandas as pd
import pytest
from support import run_of

from gnorm.files import read_json, write_json
from gnorm.statistics import baselines


def rows(*pairs):
    return [{"row": i, "text": text, "pair": None, "label": label} for i, (text, label) in enumerate(pairs)]


def test_the_majority_class_is_that_of_the_training_rows():
    train = rows(("a", 1), ("b", 1), ("c", 0))
    assert baselines.majority(train, rows(("d", 0), ("e", 0), ("f", 1), ("g", 0))) == 0.25
    assert baselines.majority(rows(("a", 1), ("b", 0)), rows(("c", 0))) == 1.0  # a tie goes to the lowest class


def test_a_bag_of_words_learns_words_and_pairs_of_them():
    train = rows(*[(f"good film {i}", 1) for i in range(12)], *[(f"not good film {i}", 0) for i in range(12)])
    found, strength = baselines.bag_of_words(train, rows(("good film x", 1), ("y not good film", 0)), 7)
    assert found == 1.0 and strength in baselines.STRENGTHS
    few = rows(("good", 1), ("bad", 0))  # too few to cross-validate
    assert baselines.bag_of_words(few, few, 7) == (1.0, 1.0)


def test_both_are_measured_on_the_lists_of_the_dataset(tmp_path):
    made = rows(
        *[(f"{word} {what}", label) for what in ("day", "night", "luck") for word, label in (("good", 1), ("bad", 0))]
    )
    pd.DataFrame(made).to_parquet(tmp_path / "rows.parquet")
    write_json(tmp_path / "splits.json", {"train": [0, 1, 2, 3], "evaluation": [4, 5]})
    measure_baselines.main(dataset_folder=str(tmp_path), seed=1, output=tmp_path / "baselines.json")
    found = read_json(tmp_path / "baselines.json")
    assert (found["trained"], found["evaluated"]) == (4, 2)
    assert found["majority"] == 0.5 and found["bag_of_words"] == 1.0


def test_the_table_says_whether_the_model_beats_both(smoke):
    table = pd.read_csv(smoke / "results/smoke/tables/baselines.csv").set_index("model")
    for model in ("BERT", "ALBERT"):
        found = read_json(smoke / f"results/smoke/{model}/baselines.json")
        reached = run_of(smoke / "results/smoke", model, "ae")[0]["accuracy"].iloc[0]
        assert table.loc[model, "model (%)"] == pytest.approx(100 * reached)
        better = reached > max(found["majority"], found["bag_of_words"])
        assert table.loc[model, "beats both"] == ("yes" if better else "no")
