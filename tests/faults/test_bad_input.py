"""Damaged, foreign and malicious files: refused, named, and never run."""

import random
import re
import shutil
import subprocess
from functools import partial

import merge_entropy
import merge_trials
import pandas as pd
import pytest
import torch
from support import shard_file
from transformers import AutoModelForSequenceClassification

from gnorm import files
from gnorm.data import tokenizers
from gnorm.errors import UserError
from gnorm.files import digest, load_tensors, save_tensors
from gnorm.models import checkpoints, folders
from gnorm.models.heads import Block, HeadMap
from gnorm.published import accuracies
from gnorm.scores import entropy
from gnorm.statistics import columns, tidy


@pytest.fixture
def shards(tmp_path):
    torch.manual_seed(0)
    values = torch.rand(12, 2, 3, dtype=torch.float64)
    return [shard_file(tmp_path / f"{i}-{i + 3}.pt", i, values[i : i + 4]) for i in (0, 4, 8)]


def refused(shards, name, reason, model=None):
    """By the merge, and by what ranks heads from the same shards."""
    heads = HeadMap(tuple(Block("", "", "", "", "", (i,)) for i in range(2)), heads=3, width=1, hidden=1)
    for read in (merge_entropy.merge, lambda paths, model: entropy.from_shards(heads, paths, [1] * 12, model)):
        with pytest.raises(UserError, match=reason) as caught:
            read(shards, model)
        assert name in str(caught.value) and "\n" not in str(caught.value)


def change(path, **changes):
    save_tensors(path, load_tensors(path) | changes)


@pytest.mark.fault("an entropy shard is cut short", "the merge refuses it by name")
def test_a_truncated_shard(shards, record_property):
    whole = open(shards[1], "rb").read()
    sizes = [0, 1, 100, len(whole) // 2, len(whole) - 22, len(whole) - 1]
    for size in sizes:
        with open(shards[1], "wb") as file:
            file.write(whole[:size])
        refused(shards, "4-7.pt", "is not a readable tensor file|is damaged")
    record_property("tried", len(sizes))


@pytest.mark.fault("a bit of an entropy shard is flipped", "refused by name, or nothing that is read has changed")
def test_a_flipped_bit(shards, record_property):
    """Every byte of the file, one bit each: headers, pickle, tensors, padding."""
    whole, expected = open(shards[1], "rb").read(), load_tensors(shards[1])
    draw, found = random.Random(1), 0
    places = range(0, len(whole), 3)
    for place in places:
        with open(shards[1], "wb") as file:
            file.write(whole[:place] + bytes([whole[place] ^ (1 << draw.randrange(8))]) + whole[place + 1 :])
        try:
            read = load_tensors(shards[1])
        except UserError as error:
            assert "4-7.pt" in str(error)
            found += 1
            continue
        assert read.keys() == expected.keys()
        for key, value in expected.items():
            same = torch.equal(read[key], value) if isinstance(value, torch.Tensor) else str(read[key]) == str(value)
            assert same, (place, key)
    assert found > len(places) / 4
    record_property("tried", len(places))


@pytest.mark.fault("an entropy shard has another shape", "the merge refuses it by name")
def test_a_wrong_shape(shards):
    change(shards[2], ranked=torch.rand(4, 2, 2).double())
    refused(shards, "8-11.pt", r"its ranked has the shape \(4, 2, 2\), not \(4, 2, 3\)")


@pytest.mark.fault("an entropy shard is of a model with other heads", "the merge refuses it by name")
def test_another_number_of_heads(shards, tmp_path):
    shards[1] = shard_file(tmp_path / "other.pt", 4, torch.rand(4, 2, 4).double())
    refused(shards, "other.pt", r"it is of \(2, 4\) heads, the shards before it are of \(2, 3\)")


@pytest.mark.fault("an entropy shard has more or fewer rows than its name says", "the merge refuses it by name")
def test_a_wrong_row_count(shards):
    change(shards[1], rows=torch.arange(3))
    refused(shards, "4-7.pt", "it holds 3 rows, not those from 4 to 7")


@pytest.mark.fault("an entropy shard holds NaN or Inf", "refused with file, layer, head and row")
def test_nan_inside(shards, record_property):
    for value in (float("nan"), float("inf")):
        shard = load_tensors(shards[0])
        shard["ranked"][2, 1, 0] = value
        save_tensors(shards[0], shard)
        refused(shards, "0-3.pt", "its ranked is not finite in layer 1, head 0, row 2")
    record_property("tried", 2)


@pytest.mark.fault("an entropy shard comes twice, or is missing", "the merge refuses it by name")
def test_duplicate_and_missing_shards(shards, record_property):
    refused([shards[0], shards[0], shards[2]], "0-3.pt", "a shard comes twice")
    refused([shards[0], shards[2]], "8-11.pt", "a shard is missing")
    record_property("tried", 2)


@pytest.mark.fault("an entropy shard, or all of them, are of another model", "the merge refuses them by name")
def test_a_shard_of_another_model(shards, record_property):
    refused(shards, "0-3.pt", "it is of another model", "other")
    change(shards[1], model="other")
    refused(shards, "4-7.pt", "it is of another model than the shards before it")
    record_property("tried", 2)


@pytest.mark.fault("a file that is no shard at all", "the merge refuses it by name")
def test_something_else(shards, record_property):
    save_tensors(shards[0], torch.ones(3))
    refused(shards, "0-3.pt", "it is not a shard of entropies")
    save_tensors(shards[0], {"first": 0})
    refused(shards, "0-3.pt", "it has no 'last'")
    record_property("tried", 2)


@pytest.mark.fault("a checkpoint is cut short or has a broken file", "refused; the file is named")
def test_a_damaged_checkpoint(tmp_path, make_tiny, record_property):
    tiny = make_tiny("bert")
    folder = tmp_path / "model"

    def fresh():
        shutil.rmtree(folder, ignore_errors=True)
        tiny.model.save_pretrained(folder)
        tiny.tokenizer.save_pretrained(folder)

    fresh()
    checkpoints.load(folder)
    weights = folder / "model.safetensors"
    for size in (0, 100, weights.stat().st_size // 2, weights.stat().st_size - 1):
        fresh()
        weights.write_bytes(weights.read_bytes()[:size])
        with pytest.raises(UserError, match="model.safetensors is damaged or cut short"):
            checkpoints.load(folder)
    fresh()
    (folder / "config.json").write_text('{"model_type": "be')
    for load in (checkpoints.load, tokenizers.load):
        with pytest.raises(UserError, match="config.json is damaged or cut short"):
            load(folder)
    fresh()
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="the tokenizer in .* cannot be loaded"):
        tokenizers.load(folder)
    record_property("tried", 6)


@pytest.fixture
def made(tmp_path, make_tiny):
    """A checkpoint as runs make it."""
    tiny = make_tiny("bert", layers=1)
    checkpoints.save(tmp_path / "model", tiny.model.float(), tiny.tokenizer)
    return tmp_path / "model"


@pytest.mark.fault("a bit of a checkpoint that a run has made is flipped, or a file of it is gone", "refused by name")
def test_a_flipped_bit_of_a_checkpoint(made, record_property):
    names = {path.name for path in made.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", folders.SUMS} <= names
    before = {name: weight.clone() for name, weight in checkpoints.load(made)[0].state_dict().items()}  # not the file's
    draw, tried = random.Random(0), 0
    for name in sorted(names):
        content = (made / name).read_bytes()
        for _ in range(40 if name == folders.SUMS else 10):
            flipped, at = bytearray(content), draw.randrange(8 * len(content))
            flipped[at // 8] ^= 1 << at % 8
            (made / name).write_bytes(flipped)
            with pytest.raises(UserError, match=re.escape(folders.SUMS if name == folders.SUMS else name)):
                checkpoints.load(made)
            tried += 1
        (made / name).unlink()
        if name != folders.SUMS:
            with pytest.raises(UserError, match=re.escape(name)):
                checkpoints.load(made)
        (made / name).write_bytes(content)
    after = checkpoints.load(made)[0].state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    record_property("tried", tried + len(names) - 1)


def test_digests_of_a_checkpoint_are_read_once_and_by_others_too(made, monkeypatch):
    read = []
    monkeypatch.setattr(folders, "digest", lambda path: read.append(path.name) or digest(path))
    checkpoints.load(made)
    names = sorted(path.name for path in made.iterdir() if path.name != folders.SUMS)
    assert sorted(read) == names
    checked = subprocess.run(["sha256sum", "--check", folders.SUMS], cwd=made, capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stdout.count(": OK") == len(names)
    assert type(AutoModelForSequenceClassification.from_pretrained(made)).__name__ == "BertForSequenceClassification"


def test_a_checkpoint_that_its_owner_changes(made):
    (made / "notes.txt").write_text("what a run has not written is not looked at")
    checkpoints.load(made)
    (made / "config.json").write_text((made / "config.json").read_text().replace("LABEL_0", "bad"))
    with pytest.raises(UserError, match=f"config.json has changed since .*remove {made}/SHA256SUMS") as refused:
        checkpoints.load(made)
    assert "copy it again, or delete the whole folder if a run made it" in str(refused.value)
    (made / folders.SUMS).unlink()
    assert checkpoints.load(made)[0].config.id2label[0] == "bad"


@pytest.mark.parametrize("line", ["/etc/passwd", "../secret", "", "a/../../secret"])
def test_digests_of_files_elsewhere_are_not_compared(made, line):
    (made.parent / "secret").write_text("x")
    with open(made / folders.SUMS, "a") as sums:
        sums.write(f"{'0' * 64}  {line}\n")
    with pytest.raises(UserError, match=f"{made}/SHA256SUMS is damaged: "):
        checkpoints.load(made)


STEPS = """run,step,layer,head,score,accuracy,correct,evaluated,heads_pruned,heads_left,parameters,seconds
0,0,,,,0.9,9,10,0,2,5,0.1
0,1,0,0,1.0,{},8,10,1,1,4,0.1
"""


@pytest.mark.fault(
    "a table has text where a number should be, or a column is renamed", "refused; file, column and row are named"
)
def test_tables_with_text_for_numbers(tmp_path, record_property):
    path = tmp_path / "0-0.csv"
    read = partial(tidy.labelled, path, columns.STEPS, model="BERT", strategy="ae")
    path.write_text(STEPS.format("0.8"))
    assert len(read()) == 2
    path.write_text(STEPS.format("eight"))
    with pytest.raises(UserError, match="0-0.csv: column 'accuracy' must hold numbers, row 1 has 'eight'"):
        read()
    path.write_text(STEPS.format("0.8").replace("heads_left", "left"))
    with pytest.raises(UserError, match="0-0.csv has no column 'heads_left'"):
        read()
    path.write_text("trial,heads_pruned,accuracy\n0,none,0.5\n")
    with pytest.raises(UserError, match="0-0.csv: column 'heads_pruned' must hold numbers, row 0 has 'none'"):
        merge_trials.main(paths=[path], trials=1, output=tmp_path / "out.csv")
    path.write_text("")
    with pytest.raises(UserError, match="0-0.csv cannot be read"):
        read()
    record_property("tried", 4)


@pytest.mark.fault(
    "a published workbook has a renamed column, or is no workbook", "refused by name, with the columns it has"
)
def test_workbooks_with_renamed_columns(tmp_path, record_property):
    path = str(tmp_path / "BERTrandompruned_heads_data_2x2_1group.xlsx")
    table = pd.DataFrame({"Heads Pruned": [0, 2], "Trial_1": [0.9, 0.5]})
    table.to_excel(path, index=False)
    assert len(accuracies.trials([path])) == 2
    table.rename(columns={"Heads Pruned": "Pruned"}).to_excel(path, index=False)
    with pytest.raises(UserError, match="1group.xlsx has no column 'Heads Pruned'; it has Pruned, Trial_1"):
        accuracies.trials([path])
    table.rename(columns={"Trial_1": "First"}).to_excel(path, index=False)
    with pytest.raises(UserError, match="1group.xlsx has no column 'Trial_1'"):
        accuracies.trials([path])
    whole = open(path, "rb").read()
    for content in (b"", whole[: len(whole) // 2], b"not a workbook"):
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(UserError, match="1group.xlsx cannot be read"):
            accuracies.trials([path])
    record_property("tried", 5)


@pytest.mark.fault("a published file has two columns of one name", "refused by name, with the column")
def test_published_columns_of_one_name(tmp_path, record_property):
    curve, workbook = tmp_path / "curve.csv", str(tmp_path / "random.xlsx")
    curve.write_text("Pruned_Heads,Accuracy,Accuracy\n0,0.9,0.8\n1,0.5,0.4\n")
    with pytest.raises(UserError, match="curve.csv has two columns 'Accuracy': remove one, or rename it"):
        accuracies.curve(str(curve))
    table = pd.DataFrame([[0, 0.9, 0.8], [1, 0.5, 0.4]], columns=["Heads Pruned", "Trial_1", "Trial_1"])
    table.to_excel(workbook, index=False)
    with pytest.raises(UserError, match="random.xlsx has two columns 'Trial_1': remove one, or rename it"):
        accuracies.trials([workbook])
    record_property("tried", 2)


def test_digests_tell_folders_apart(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_text("1")
    one = files.digest(tmp_path / "a")
    (tmp_path / "a/.snakemake_timestamp").touch()
    assert files.digest(tmp_path / "a") == one
    (tmp_path / "a/x").rename(tmp_path / "a/y")
    assert files.digest(tmp_path / "a") != one
