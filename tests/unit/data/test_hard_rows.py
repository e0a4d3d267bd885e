"""Rows that nobody expects: each has a defined outcome."""

import json
import logging

import pandas as pd
import pytest
import torch
from support import Tiny, make_dataset
from tokenizers import processors

from gnorm.data import prepare
from gnorm.data.rows import NO_CLASS, read
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.errors import UserError
from gnorm.scores import attribution, entropy, gnorm

CLASSES = ["negative", "neutral", "positive"]
COUNTS = {"train": 0, "calibration": 2, "entropy": "same", "evaluation": 2, "disjoint": True}


def dataset(path, **changes):
    entry = {"source": "file", "path": str(path), "text": "text", "pair": None, "label": "label", "classes": CLASSES}
    return entry | {"unscored": [], "order": "as_is"} | changes


@pytest.fixture
def made(make_tiny, tmp_path, caplog):
    """Make a dataset of texts for a small BERT; score and evaluate its rows."""
    tiny = make_tiny("bert")
    tiny.model.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    caplog.set_level(logging.INFO)

    def make(records, suffix="jsonl", counts=COUNTS, **changes):
        path = tmp_path / f"rows.{suffix}"
        if suffix == "csv":
            pd.DataFrame(records).to_csv(path, index=False)
        else:
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        checkpoint = {"source": "local", "path": str(tmp_path / "model")}
        make_dataset(dataset(path, **changes), checkpoint, counts, tmp_path)
        rows = {which: read(tmp_path, which) for which in ("calibration", "evaluation")}
        scored = batches.make(tiny.tokenizer, rows["calibration"], 200, what="calibration rows")
        score = gnorm.score(tiny.model, tiny.heads, scored)
        assert score.isfinite().all()
        evaluated = batches.make(tiny.tokenizer, rows["evaluation"], 200, what="evaluation rows")
        found = Evaluation(evaluated, tiny.heads).accuracy(tiny.model)
        return found, rows, caplog.text

    return make


def labelled(*texts):
    return [{"text": text, "label": CLASSES[i % 3]} for i, text in enumerate(texts)]


GOOD = labelled("profits rose", "sales fell", "nothing happened", "shares are up")

KEPT = {
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 🚀🚀",
    "right to left": "الأرباح ارتفعت עלייה ברווחים \u202eabc",
    "control characters": "a\x00b\x07\x1b[31m\u200b\ufeff\u2028",
    "unknown scripts": "𓀀𓀁 ᚠᚢᚦ 漢字 \U0010fffd",
    "one word of ten thousand letters": "x" * 10_000,
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.fault(
    "emoji, right-to-left text, control characters, unknown scripts, a word without end", "kept; scored and evaluated"
)
def test_odd_texts_are_kept(made, name):
    found, rows, _ = made(labelled(KEPT[name], "profits rose", KEPT[name], "sales fell"))
    assert found.evaluated == 2
    assert KEPT[name] in {row["text"] for row in rows["calibration"] + rows["evaluation"]}


@pytest.mark.parametrize("text", ["", "   ", "\t\n", "\u3000\xa0"])
@pytest.mark.fault(
    "a row is empty or only spaces, for a tokenizer that adds tokens of its own",
    "kept; the log counts such rows and names the first",
)
def test_blank_rows_are_kept_and_counted(made, text):
    found, _, said = made([*GOOD[:2], {"text": text, "label": "neutral"}, GOOD[3]])
    assert found.evaluated == 2
    assert "1 rows have no text but spaces (the first is row 2); they are kept" in said


@pytest.fixture(params=[True, False], ids=["language model", "classifier"])
def bare(request, tmp_path, caplog):
    """GPT-2 with a tokenizer that adds nothing to a text; a dataset of texts for it, scored and evaluated."""
    caplog.set_level(logging.INFO)
    tiny, writes = Tiny("gpt2", layers=2, writes=request.param), request.param
    tiny.tokenizer.backend_tokenizer.post_processor = processors.ByteLevel()
    tiny.model.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")

    def make(texts, **counts):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps({"text": text, "label": "neutral"}) + "\n" for text in texts))
        entry = dataset(path)
        if writes:
            del entry["label"], entry["classes"]
        checkpoint = {"source": "local", "path": str(tmp_path / "model")}
        make_dataset(entry, checkpoint, COUNTS | counts, tmp_path, "GPT2")
        rows = {which: read(tmp_path, which) for which in ("calibration", "evaluation")}
        scored = batches.make(tiny.tokenizer, rows["calibration"], 200)
        for criterion, settings in ((gnorm, {}), (entropy, {}), (attribution, {"steps": 1})):
            assert criterion.score(tiny.model, tiny.heads, scored, **settings).isfinite().all()
        evaluated = batches.make(tiny.tokenizer, rows["evaluation"], 200)
        found = Evaluation(evaluated, tiny.heads).accuracy(tiny.model)
        assert found.evaluated == sum((batch.labels != NO_CLASS).sum() for batch in evaluated)
        return rows

    make.tokenizer, make.writes = tiny.tokenizer, writes
    return make


@pytest.mark.fault(
    "a row is empty, for a tokenizer that adds no tokens of its own; or a language model's has one token",
    "left out; the log counts such rows, and so does the message if too few are left",
)
def test_rows_without_anything_to_read_or_predict_are_left_out(bare, caplog, record_property):
    assert [len(bare.tokenizer(text)["input_ids"]) for text in ("", "Z", " ")] == [0, 1, 1]
    rows = bare(["profits rose", "", "sales fell", "Z", "shares are up", "", "nothing happened", "up and down"])
    used = rows["calibration"] + rows["evaluation"]
    texts = ["profits rose", "sales fell", *([] if bare.writes else ["Z"]), "shares are up", "nothing happened"]
    assert {row["text"]: row["row"] for row in used} == {text: i for i, text in enumerate(texts[:4])}
    said = "3 of 8 rows have fewer than 2 tokens, so none to predict" if bare.writes else "2 of 8 rows have no token"
    assert f"{said}: they are left out" in caplog.text and "no text but spaces" not in caplog.text
    with pytest.raises(
        UserError, match="rows.calibration asks for 2 rows, but only 1 are left for it .1 of 4 rows have"
    ):
        bare(["profits rose", "", "sales fell", "shares are up"])
    with pytest.raises(UserError, match="no row is left: 4 of 4 rows have"):
        bare([""] * 4)
    record_property("tried", 3)


def test_rows_that_can_all_be_used_are_as_they_were(bare, caplog, tmp_path):
    bare([record["text"] for record in GOOD])
    alone, *_ = prepare.make(dataset(tmp_path / "rows.jsonl"), COUNTS, 1)
    stored = pd.read_parquet(tmp_path / "rows.parquet")
    assert stored["text"].tolist() == alone["text"] and stored["row"].tolist() == [0, 1, 2, 3]
    assert "left out" not in caplog.text


def test_a_batch_takes_no_row_without_a_token(bare):
    rows = [{"text": text, "pair": None, "label": 0, "row": 7 + i} for i, text in enumerate(("up", ""))]
    with pytest.raises(UserError, match="^calibration rows: row 8 has no token to read; leave it out$"):
        batches.make(bare.tokenizer, rows, 200, what="calibration rows")


@pytest.mark.fault("a text of 10,000 words", "cut to what the model reads; the log counts it")
def test_long_texts_are_cut_and_counted(made):
    found, rows, said = made(labelled("profits rose " * 5000, "sales fell", "up", "down"))
    assert found.evaluated == 2 and len(rows["evaluation"][0]["text"]) > 60_000
    assert "1 rows are longer than 48 tokens and will be cut" in said
    assert "evaluation rows: 1 of 2 are longer than 48 tokens and are cut" in said


@pytest.mark.fault(
    "a dataset of one row", "kept, where evaluation is `same`; refused with counts where lists must be disjoint"
)
def test_one_row(made, record_property):
    one = COUNTS | {"calibration": 1, "evaluation": "same"}
    found, _, _ = made(GOOD[:1], counts=one)
    assert found.evaluated == 1
    with pytest.raises(UserError, match=r"rows.calibration asks for 1 rows, but only 0 are left for it"):
        made(GOOD[:1], counts=COUNTS | {"calibration": 1, "evaluation": 1})
    record_property("tried", 2)


@pytest.mark.fault("all rows have one label", "kept; the log says that accuracy says little")
def test_one_label(made):
    found, _, said = made([record | {"label": "positive"} for record in GOOD])
    assert found.evaluated == 2
    assert "all evaluation rows have the label 'positive': their accuracy says little" in said


@pytest.mark.fault("a label that the model does not know", "refused with the row number")
def test_unknown_labels(made):
    with pytest.raises(UserError, match=r"row 2: label 'mixed' is none of the classes \(negative, neutral, positive\)"):
        made([*GOOD[:2], {"text": "x", "label": "mixed"}, GOOD[3]])


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.fault("a text, a second text or a label is missing", "refused with the row number")
def test_missing_values(made, suffix, record_property):
    with pytest.raises(UserError, match="row 1: the text is missing"):
        made([GOOD[0], {"text": None, "label": "neutral"}, *GOOD[2:]], suffix)
    with pytest.raises(UserError, match="row 3: the label is missing"):
        made([*GOOD[:3], {"text": "up", "label": None}], suffix)
    pairs = [record | {"second": "and so on"} for record in GOOD]
    pairs[2]["second"] = None
    with pytest.raises(UserError, match="row 2: the text is missing"):
        made(pairs, suffix, pair="second")
    record_property("tried", 3)


@pytest.mark.fault("rows are duplicates, within a list or across lists", "kept; the log counts them")
def test_duplicates(made):
    found, rows, said = made([GOOD[0]] * 4)
    assert found.evaluated == 2 and len(rows["calibration"]) == 2
    assert "3 rows repeat the text of another; they are kept" in said
    assert "2 evaluation rows have the text of a calibration row" in said


BROKEN = {
    "csv": b"text,label\n\xff\xfe\x00bad,neutral\n",
    "jsonl": b'{"text": "a", "label": "neutral"}\n{"text": \n',
    "parquet": b"PAR1 and then nothing",
}


@pytest.mark.parametrize("suffix", BROKEN)
@pytest.mark.fault("a dataset is no text, broken JSON or broken parquet", "refused; the file is named")
def test_unreadable_files(tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(BROKEN[suffix])
    with pytest.raises(UserError, match=f"rows.{suffix} cannot be read"):
        prepare.make(dataset(path), COUNTS, 1)


def test_scores_do_not_depend_on_blank_neighbours(make_tiny):
    """A row of two tokens beside a long one: padding counts for nothing."""
    tiny = make_tiny("bert")
    rows = [tiny.rows[0], {**tiny.rows[1], "text": ""}]
    together = gnorm.score(tiny.model, tiny.heads, batches.make(tiny.tokenizer, rows, 1000))
    alone = gnorm.score(tiny.model, tiny.heads, batches.make(tiny.tokenizer, rows, 1))
    assert torch.allclose(together, alone, rtol=1e-9)
