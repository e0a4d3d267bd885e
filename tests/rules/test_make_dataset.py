"""Corpora, index lists, files, tokenizers and the summary."""

import json
import os
from collections import Counter

import pytest
from support import CORPORA, make_dataset, run_python
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer

from gnorm import families
from gnorm.data import corpora, prepare, tokenizers
from gnorm.data.rows import NO_CLASS, read
from gnorm.engine import batches
from gnorm.errors import UserError
from gnorm.models import versions

NAMES = [name for name in corpora.names() if corpora.load(name).LABELS]
COUNTS = {"train": 60, "calibration": 30, "entropy": "same", "evaluation": 20, "disjoint": True}


@pytest.mark.parametrize("name", NAMES)
def test_corpora_are_seeded_balanced_and_varied(name):
    rows = corpora.draw(name, 3000, seed=1)
    assert rows == corpora.draw(name, 3000, seed=1) != corpora.draw(name, 3000, seed=2)
    corpus = corpora.load(name)
    labels = Counter(row["label_name"] for row in rows)
    names = corpus.LABELS + getattr(corpus, "UNSCORED", ())
    assert set(labels) == set(names)
    assert min(labels.values()) > 0.6 * 3000 / len(names)
    assert len({(row["text"], row["pair"]) for row in rows}) == 3000
    assert len({word for row in rows for word in row["text"].split()}) > 60


def test_the_majority_is_that_of_rows_with_a_class():
    assert prepare.majority([0, 1, 1, NO_CLASS, NO_CLASS, NO_CLASS]) == 2 / 3
    assert prepare.majority([None, None]) is None and prepare.majority([]) is None


def test_more_rows_than_a_corpus_has(monkeypatch):
    corpus = corpora.load("letters")
    monkeypatch.setattr(corpus, "sample", lambda rng: (rng.choice("abc"), None, None))
    with pytest.raises(UserError, match="^rows: the corpus letters has fewer than 4 different rows; ask for fewer$"):
        corpora.draw("letters", 4, seed=0)


def test_there_are_twenty_languages():
    assert len(set(corpora.load("languages").LABELS)) == 20


def test_splits_are_disjoint_and_scored():
    rows, splits, classes = prepare.make({"source": "generated", "corpus": "tweets", "order": "as_is"}, COUNTS, seed=3)
    assert classes == ["negative", "positive"]
    assert {k: len(v) for k, v in splits.items()} == {"train": 60, "calibration": 30, "entropy": 30, "evaluation": 20}
    assert splits["entropy"] == splits["calibration"]
    used = splits["train"] + splits["calibration"] + splits["evaluation"]
    assert len(set(used)) == 110
    labels = rows["label"]
    assert all(labels[i] != NO_CLASS for i in splits["train"] + splits["evaluation"])
    # Scores read rows without a class, accuracy does not; a third of these tweets have none.
    assert 4 <= sum(labels[i] == NO_CLASS for i in splits["calibration"]) <= 16


def test_same_rows_for_calibration_and_evaluation():
    counts = COUNTS | {"evaluation": "same", "entropy": 50}
    rows, splits, _ = prepare.make({"source": "generated", "corpus": "tweets", "order": "as_is"}, counts, seed=3)
    assert splits["evaluation"] == [i for i in splits["calibration"] if rows["label"][i] != NO_CLASS]
    assert len(splits["entropy"]) == 50 and not set(splits["entropy"]) & set(splits["evaluation"])
    whole = prepare.split(
        [0] * 30, COUNTS | {"train": 0, "calibration": 5, "entropy": 30, "evaluation": 10}, "as_is", 0
    )
    assert whole["entropy"] == list(range(30))


def test_lists_that_overlap_start_at_the_first_row():
    counts = COUNTS | {"train": 0, "calibration": 5, "entropy": 8, "evaluation": 4, "disjoint": False}
    splits = prepare.split([0, NO_CLASS, 1, 1, NO_CLASS, 0, 0, 1, 0], counts, "as_is", 0)
    assert splits["calibration"] == [0, 1, 2, 3, 4] and splits["entropy"] == list(range(8))
    assert splits["evaluation"] == [0, 2, 3, 5]
    with pytest.raises(UserError, match="rows.evaluation asks for 4 rows, but only 2 are left"):
        prepare.split([0, NO_CLASS, 1], counts, "as_is", 0)


def test_rows_without_a_class_that_the_evaluation_passed_over_come_last():
    labels = [0, NO_CLASS, NO_CLASS, 1, 0, NO_CLASS, 1]
    counts = COUNTS | {"train": 0, "evaluation": 2}
    for calibration, expected in ((2, [4, 5]), (3, [4, 5, 6]), (4, [1, 4, 5, 6]), (5, [1, 2, 4, 5, 6])):
        splits = prepare.split(labels, counts | {"calibration": calibration}, "as_is", 0)
        assert splits["evaluation"] == [0, 3] and splits["calibration"] == expected
    entropy = prepare.split(labels, counts | {"calibration": 1, "entropy": 4}, "as_is", 0)["entropy"]
    assert entropy == [1, 4, 5, 6]


def test_too_many_rows_asked_for():
    with pytest.raises(UserError, match=r"rows.evaluation asks for 20 rows, but only 3 are left"):
        prepare.split([0, 1, 0], COUNTS, "as_is", 0)


FILE = {"source": "file", "text": "t", "pair": None, "label": "y", "classes": ["no", "yes"], "unscored": ["?"]}
FILE |= {"order": "shuffled"}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_files(tmp_path, kind):
    import pandas as pd

    table = pd.DataFrame({"t": [f"text {i}" for i in range(9)], "y": ["no", "yes", "?"] * 3})
    path = tmp_path / f"rows.{kind}"
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_parquet(path)
    counts = COUNTS | {"train": 0, "calibration": 4, "evaluation": 3}
    rows, splits, _ = prepare.make(FILE | {"path": str(path)}, counts, seed=0)
    assert rows["label"] == [0, 1, NO_CLASS] * 3
    assert len(splits["evaluation"]) == 3 and sorted(os.listdir(tmp_path)) == [path.name]


@pytest.mark.parametrize(
    "content,change,message",
    [
        ("t,y\na,no\n", {"text": "body"}, "has no column 'body'; it has t, y"),
        ("t,y\na,no\nb,maybe\n", {}, "row 1: label 'maybe' is none of the classes"),
        ("t,y\na,no\n,yes\n", {}, "row 1: the text is missing"),
    ],
)
def test_bad_files_are_explained(tmp_path, content, change, message):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(UserError, match=message):
        prepare.make(FILE | {"path": str(tmp_path / "rows.csv")} | change, COUNTS, seed=0)
    with pytest.raises(UserError, match="does not exist"):
        prepare.make(FILE | {"path": str(tmp_path / "none.csv")}, COUNTS, seed=0)


def test_unreadable_files_are_explained(tmp_path):
    (tmp_path / "rows.parquet").write_text("not parquet")
    with pytest.raises(UserError, match="rows.parquet cannot be read") as caught:
        prepare.make(FILE | {"path": str(tmp_path / "rows.parquet")}, COUNTS, seed=0)
    assert "\n" not in str(caught.value)


def test_classes_named_by_the_model(make_tiny, tmp_path):
    tiny = make_tiny("bert")
    tiny.model.config.id2label = {2: "maybe", 0: "yes", 1: "no"}
    tiny.model.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "rows.csv").write_text("t,y\na,no\nb,yes\nc,?\nd,maybe\n")
    dataset = FILE | {"path": str(tmp_path / "rows.csv"), "classes": "model", "order": "as_is"}
    checkpoint = {"source": "local", "path": str(tmp_path / "model")}
    counts = COUNTS | {"train": 0, "calibration": 4, "evaluation": "same"}
    files = make_dataset(dataset, checkpoint, counts, tmp_path)
    stored = json.loads(files["splits"].read_text())
    assert stored["classes"] == ["yes", "no", "maybe"] and stored["majority"] == 1 / 3
    assert stored["seen"] == 3  # of four that are scored, all but the one without a class are evaluated
    assert [row["label"] for row in read(tmp_path, "calibration")] == [1, 0, NO_CLASS, 2]
    (tmp_path / "model/config.json").write_text("{}")
    with pytest.raises(UserError, match=r"does not name its classes \(id2label\): list `classes:`"):
        prepare.model_classes(tmp_path / "model")


def test_classes_of_one_name(make_tiny, tmp_path):
    tiny = make_tiny("bert")
    tiny.model.config.id2label = {0: "yes", 1: "no", 2: "yes"}
    tiny.model.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "rows.csv").write_text("t,y\na,no\nb,yes\n")
    dataset = FILE | {"path": str(tmp_path / "rows.csv"), "classes": "model"}
    with pytest.raises(UserError, match=r"two of its classes have one name \(yes, no, yes\)"):
        make_dataset(dataset, {"source": "local", "path": str(tmp_path / "model")}, COUNTS, tmp_path)


TASKS = CORPORA | {"gpt2": "letters", "llama": "letters"}


@pytest.fixture(scope="module")
def built_elsewhere() -> dict:
    """Every family's tokenizer from another process, which hashes differently and trains in parallel."""
    program = f"""
import json
from gnorm.data import corpora, tokenizers
built = {{}}
for family, name in {TASKS!r}.items():
    texts = [" ".join(filter(None, (r["text"], r["pair"]))) for r in corpora.draw(name, 300, seed=0)]
    built[family] = json.loads(tokenizers.train(family, texts, 600, 40).backend_tokenizer.to_str())
print(json.dumps(built))
"""
    made = run_python(program, TOKENIZERS_PARALLELISM="true", PYTHONHASHSEED="7")
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


@pytest.mark.parametrize("family", families.trainable())
def test_tokenizers_load_and_repeat(family, tmp_path, built_elsewhere):
    rows = corpora.draw(TASKS[family], 300, seed=0)
    texts = [" ".join(filter(None, (r["text"], r["pair"]))) for r in rows]
    built = tokenizers.train(family, texts, 600, 40)
    versions.write_tokenizer(tmp_path, built)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert len(loaded) <= 600
    assert loaded.unk_token_id not in loaded(rows[0]["text"])["input_ids"][1:-1]  # GPT-2's is also that of the ends
    pair = loaded("one text", "another")["input_ids"]
    assert pair == built("one text", "another")["input_ids"]
    assert families.load(family).decoder or pair.count(loaded.sep_token_id) == (3 if "roberta" in family else 2)
    assert json.loads(built.backend_tokenizer.to_str()) == built_elsewhere[family]


@pytest.mark.parametrize("family", families.trainable())
def test_a_tokenizer_splits_texts_as_its_file_says(family, tmp_path):
    """Spaces, accents, letters in other forms, and the marks of a second text: on 5, some classes have other rules."""
    texts = ["a  b   c", "Ünïcödé café"]
    texts += ["\ufb01ne \u00bd \uff21", "``x'' “y”", "tab\tnew\nline", " lead", "trail ", "中文 字"]
    built = tokenizers.train(family, texts, 300, 40)
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    built.save_pretrained(plain)  # as other programs write it
    AutoConfig.for_model(family, type_vocab_size=2 if family in ("bert", "albert") else 1).save_pretrained(plain)
    versions.write_tokenizer(ours, built)
    file = Tokenizer.from_file(str(plain / "tokenizer.json"))
    for loaded in (tokenizers.load(plain), versions.read_tokenizer(ours), AutoTokenizer.from_pretrained(ours)):
        for text in texts:
            for row in ((text,), (text, "b")):
                given, expected = loaded(*row), file.encode(*row)
                assert given["input_ids"] == expected.ids
                assert ("token_type_ids" in given) == (family in ("bert", "albert"))
                assert given.get("token_type_ids", expected.type_ids) == expected.type_ids


def test_the_rule_writes_what_people_read(tmp_path):
    dataset = {"source": "generated", "corpus": "inference", "order": "as_is"}
    checkpoint = {"source": "train", "family": "albert", "vocabulary": 200, "length": 12}
    files = make_dataset(dataset, checkpoint, COUNTS, tmp_path, "ALBERT")
    assert [row["row"] for row in read(tmp_path, "calibration")] == json.loads(files["splits"].read_text())[
        "calibration"
    ]
    text = files["summary"].read_text()
    for expected in ("| calibration | 30 |", "share 0 rows", "| neutral | 1 |", "longer than the 12 tokens", " / "):
        assert expected in text
    assert AutoTokenizer.from_pretrained(files["tokenizer"]).model_max_length == 12


@pytest.mark.parametrize("family,limit", [("bert", 52), ("albert", 52), ("roberta", 50), ("xlm-roberta", 50)])
def test_a_local_tokenizer_cuts_at_what_its_model_reads(make_tiny, tmp_path, family, limit):
    tiny = make_tiny(family)  # 52 positions, of which RoBERTa leaves out those up to its padding id 1
    tiny.tokenizer.model_max_length = 10**30
    tiny.model.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    loaded = tokenizers.load(tmp_path)
    assert loaded.model_max_length == limit
    row = {"text": "word " * 500, "pair": None, "label": 0}
    (batch,) = batches.make(loaded, [row], 1)
    assert tiny.model(**batch.inputs).logits.isfinite().all() and batch.mask.shape[1] == limit


def test_the_job_does_without_torch(tmp_path):
    """Importing it would take longer than the rest of the job."""
    program = f"""
import runpy, sys
try:
    runpy.run_path("scripts/make_dataset.py", run_name="__main__")
except NameError as error:
    assert error.name == "snakemake"
from gnorm.data import tokenizers
from transformers import AutoTokenizer
tokenizers.train("albert", ["a few words"] * 9, 50, 12).save_pretrained({str(tmp_path)!r})
assert AutoTokenizer.from_pretrained({str(tmp_path)!r})("a word")["input_ids"]
assert "torch" not in sys.modules
"""
    made = run_python(program)
    assert made.returncode == 0, made.stderr[-2000:]
    assert "PyTorch" not in made.stderr
