"""Curves, stop points, accounting and tables against what they mean."""

import numpy as np
import pandas as pd
import pytest

from gnorm import layout, tables
from gnorm.errors import UserError
from gnorm.models import accounting
from gnorm.pages import workbooks
from gnorm.pruning import solutions
from gnorm.published import interchange
from gnorm.scores.random import order
from gnorm.statistics import curves


def test_area():
    assert curves.area([0, 0.5, 1], [1, 1, 0]) == pytest.approx(0.75)
    assert np.isnan(curves.area([0, 0.5], [1, 1]))
    assert curves.accuracy_at([0, 0.5, 1], [1, 0.8, 0], 0.75) == pytest.approx(0.4)
    assert np.isnan(curves.accuracy_at([0, 0.5], [1, 1], 0.75))


@pytest.mark.parametrize(
    "accuracy,expected",
    [
        ([1.0, 0.95, 0.9, 0.5, 0.0], 2),  # 0.9 is just within a tenth of the range
        ([1.0, 0.5, 0.95, 0.0], 2),  # a rebound counts
        ([0.9, 0.2, 0.1], 0),
        ([0.5, 0.5, 0.5], 2),  # nothing can be lost
    ],
)
def test_stop_point(accuracy, expected):
    assert curves.stop_point(accuracy, accuracy[-1], 0.10) == expected


def test_a_fixed_solution():
    trajectory = pd.DataFrame({"heads_pruned": [0, 2, 4], "accuracy": [1, 0.9, 0.85]})
    assert solutions.pick(trajectory, 0.0, 0.1, 4) == (2, "fixed")
    assert solutions.pick(trajectory, 0.0, 0.1, None) == (1, "automatic")  # the whole range, not what was walked
    assert solutions.pick(trajectory, 0.85, 0.1, None) == (0, "automatic")
    with pytest.raises(UserError, match="3 heads cannot be pruned; possible: 0, 2, 4"):
        solutions.pick(trajectory, 0.0, 0.1, 3)


# Parameters of the published shapes follow from the architecture alone.
SHAPES = {
    "bert": ({"vocab_size": 21128}, 3, [102_269_955, 102_267_648, 16_622_592, 85_054_464, 590_592, 2_307]),
    "albert": ({"vocab_size": 30000, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}, 3,
               [11_685_891, 11_683_584, 3_906_048, 7_186_944, 590_592, 2_307]),
    "xlm-roberta": ({"vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1}, 20,
                    [278_059_028, 277_453_056, 192_398_592, 85_054_464, 605_972]),
    "roberta": ({"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "hidden_size": 1024,
                 "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}, 2,
                [355_361_794, 354_310_144, 52_000_768, 302_309_376, 1_051_650]),
}  # fmt: skip


@pytest.mark.parametrize("family", SHAPES)
def test_modules_of_the_published_shapes(family):
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    shape, classes, expected = SHAPES[family]
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(
            AutoConfig.for_model(family, num_labels=classes, **shape)
        )
    rows = accounting.modules(model)
    parts = [size for name, depth, size in rows if depth < 2 or not name.startswith("classifier.")]
    assert parts == expected
    assert sum(size for name, depth, size in rows if name.startswith("classifier.")) == expected[-1]


def test_compare_is_what_the_modules_say():
    table = solutions.compare([("model", 0, 1000), ("model.a", 1, 250)], [("model", 0, 800), ("model.a", 1, 50)])
    assert table["share before (%)"].tolist() == [100, 25]
    assert table["share after (%)"].tolist() == [100, 6.25]
    assert table["MB after"].tolist() == [3200 / 2**20, 200 / 2**20]


def test_levels_run_evenly_from_none_to_all():
    assert curves.counts(144, 25) == list(range(0, 145, 6))
    assert curves.counts(12, 13) == list(range(13))
    assert curves.counts(10, 4) == [0, 3, 7, 10]
    with pytest.raises(UserError, match="at most 5"):
        curves.counts(4, 6)


def test_random_orders_differ_by_trial_and_repeat():
    slots = [(i, j) for i in range(4) for j in range(4)]
    assert order(slots, "a", 1, 0) == order(slots, "a", 1, 0)
    assert len({tuple(order(slots, s, 1, t)) for s in "ab" for t in range(3)}) == 6
    assert sorted(order(slots, "a", 1, 0)) == slots


def test_published_names():
    def name(template, **values):
        return layout.within("clone", template, model="BERT", **values).as_posix()

    folder = "clone/experiments_results"
    curve = name(layout.PUBLISHED_CURVE, published=interchange.strategy_name("ae"))
    assert curve == f"{folder}/pruned_heads_accuracy(BERT)basedonAE.csv"
    assert interchange.strategy_name("static_gnorm") == "StaticGnorm"
    trials = name(layout.PUBLISHED_TRIALS, trials=50, levels=25, group="2group")
    assert trials == f"{folder}/BERTrandompruned_heads_data_50x25_2group.xlsx"
    assert name(layout.PUBLISHED_ENTROPY, total=2329) == "clone/AE_calculation_results/BERT_2329AE.pt"
    shard = name(layout.PUBLISHED_SHARD, first=0, last=499)
    assert shard == "clone/AE_calculation_results/BERT0_499AE.pt"


def test_random_workbook(tmp_path):
    trials = pd.DataFrame({"trial": [4, 4, 5, 5], "heads_pruned": [0, 6, 0, 6], "accuracy": [0.9, 0.4, 0.9, 0.5]})
    workbooks.write(tmp_path / "a.xlsx", {"Sheet1": workbooks.random_table(trials)})
    found = pd.read_excel(tmp_path / "a.xlsx")
    assert found.columns.tolist() == ["Heads Pruned", "Trial_1", "Trial_2"]
    assert found.values.tolist() == [[0, 0.9, 0.9], [6, 0.4, 0.5]]


def test_tables_are_written_four_ways(tmp_path):
    table = pd.DataFrame({"model": ["a_b"], "share (%)": [12.3456], "heads": [1000], "none": [float("nan")]})
    paths = [str(tmp_path / f"t.{kind}") for kind in ("csv", "md", "tex", "html")]
    tables.write(table, {"share (%)": 1}, "50% of `a_b` & <more>", *paths)
    assert pd.read_csv(paths[0]).iloc[0, 1] == 12.3456
    assert "| a_b" in open(paths[1]).read() and "12.3 |" in open(paths[1]).read() and "1,000" in open(paths[1]).read()
    assert r"50\% of `a\_b`" in open(paths[2]).read() and r"\toprule" in open(paths[2]).read()
    assert "<td class=number>12.3</td>" in open(paths[3]).read()
    assert "<p>50% of <code>a_b</code> &amp; &lt;more&gt;</p>" in open(paths[3]).read()
