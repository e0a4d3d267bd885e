"""Models that strangers made: nothing outside their folder is read, nothing in it runs, sizes are those of weights."""

import json
import logging
import os
import re
import shutil
import struct
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import Malicious, Tiny, run_python

from gnorm import families
from gnorm.data import tokenizers
from gnorm.data.sources import local
from gnorm.engine import training
from gnorm.errors import UserError
from gnorm.files import read_json, write_json
from gnorm.models import checkpoints, export, folders, intake, versions
from gnorm.planning import shapes

PRIVATE = "-----BEGIN PRIVATE KEY-----\nnobody else may read this line\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small model as `save_pretrained` writes it, and the same with nothing but a vocabulary for a tokenizer."""
    tiny, top = Tiny("bert"), tmp_path_factory.mktemp("saved")
    tiny.model.float().save_pretrained(top / "model")
    versions.write_tokenizer(top / "model", tiny.tokenizer)
    shutil.copytree(top / "model", top / "plain")
    (top / "plain/tokenizer.json").unlink()
    pieces = sorted(tiny.tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    (top / "plain/vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in pieces))
    return top


@pytest.fixture
def model(saved, tmp_path):
    return shutil.copytree(saved / "model", tmp_path / "model")


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "home/.ssh/id_rsa"
    path.parent.mkdir(parents=True)
    path.write_text(PRIVATE)
    return path


def change(folder, file, **values):
    path = folder / file
    write_json(path, (read_json(path) if path.exists() else {}) | values)


def plan(folder):
    suite_entry = {"source": "local", "path": str(folder)}
    local.check(suite_entry, {}, "suites/mine.yaml: models.M.checkpoint")


def tune(folder):
    entry = {"path": str(folder), "dropout": 0.1, "epochs": 1, "batch": 2, "rate": 1e-4}
    training.finetune(entry, checkpoints.load_tokenizer(folder), [], ["a", "b"], 0)


# Whatever reads a model's folder: the suite's checks, and the jobs.
READERS = {
    "plan": plan,
    "tokenizer": tokenizers.load,
    "checkpoint": checkpoints.load,
    "finetune": tune,
    "exported": export.load,
}


def refused(folder, message, readers=tuple(READERS)):
    for name in readers:
        with pytest.raises(UserError, match=message) as caught:
            READERS[name](folder)
        assert "\n" not in str(caught.value) and "PRIVATE" not in str(caught.value), name


OPENED = (
    "vocab_file",
    "merges_file",
    "tokenizer_file",
    "vocab",
    "merges",
    "spm_file",
    "sp_model_kwargs",
    "init_inputs",
    "source_spm",
)


@pytest.mark.stranger(
    "a tokenizer's configuration names a private file as its vocabulary, in one of nine ways",
    "refused before anything opens it; file and key are named",
)
def test_paths_in_the_configuration_of_a_tokenizer(saved, tmp_path, secret, record_property):
    for kind in ("model", "plain"):
        for key in OPENED:
            folder = shutil.copytree(saved / kind, tmp_path / kind / key)
            value = {"init_inputs": [str(secret)], "sp_model_kwargs": {"model_file": str(secret)}}.get(key, str(secret))
            change(folder, "tokenizer_config.json", **{key: value, "tokenizer_class": "BertTokenizer"})
            refused(folder, rf"tokenizer_config.json: (model_file|{key}) names a file, .*id_rsa.*: take it out")
    record_property("tried", 2 * len(OPENED))


def test_the_library_would_have_taken_one_of_them(saved, tmp_path, secret):
    """So the attempts above are real: without the check the private lines are in the tokenizer."""
    from transformers import AutoTokenizer

    folder = shutil.copytree(saved / "plain", tmp_path / "plain")
    name = "vocab" if versions.FIVE else "vocab_file"
    change(folder, "tokenizer_config.json", **{name: str(secret), "tokenizer_class": "BertTokenizer"})
    taken = AutoTokenizer.from_pretrained(folder, unk_token=PRIVATE.splitlines()[0])
    assert {*PRIVATE.splitlines()} <= {*taken.get_vocab()}


def test_every_key_of_the_library_that_names_a_file_is_known():
    """A tokenizer's class lists them; there are some hundred."""
    import transformers

    sources = Path(transformers.__file__).parent.glob("models/*/tokenization*.py")
    listed = [found for path in sources for found in re.findall(r"VOCAB_FILES_NAMES = {(.*?)}", path.read_text(), re.S)]
    keys = {key for found in listed for key in re.findall(r'"(\w+)":', found)}
    assert {"vocab_file", "source_spm"} <= keys
    assert not [key for key in keys if not folders.NAMES_A_FILE.fullmatch(key)]


@pytest.mark.stranger(
    "a tokenizer's configuration names a file that is not there, or one of the working directory",
    "refused as well; what other versions leave behind, or null, is ignored",
)
def test_other_paths_of_a_tokenizer(saved, tmp_path, monkeypatch, record_property):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text(PRIVATE)
    for i, value in enumerate(("notes.txt", "../notes.txt", "/not/there", "vocab.txt")):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        change(folder, "tokenizer_config.json", vocab_file=value)
        refused(folder, "tokenizer_config.json: vocab_file names a file", ["plan", "checkpoint"])
    left_over = {"special_tokens_map_file": "/home/me/.cache/a1b2", "name_or_path": "/scratch/me/bert"}
    left_over["init_inputs"] = []
    folder = shutil.copytree(saved / "model", tmp_path / "left")
    change(folder, "tokenizer_config.json", **left_over, vocab_file=None, fast_tokenizer_files=["tokenizer.json"])
    (folder / "data_config.json").write_text('[{"name": "/etc/hostname"}]')  # notes that nothing reads
    checkpoints.load(folder)
    record_property("tried", 5)


@pytest.mark.stranger("any value of any configuration is the path of a private file", "refused; file and key are named")
def test_paths_anywhere(saved, tmp_path, secret, record_property):
    places = [
        ("config.json", {"problem_type": str(secret)}),
        ("config.json", {"text_config": {"deep": [{"er": str(secret)}]}}),
        ("config.json", {"some_cache": os.path.relpath(secret, tmp_path / "m2")}),
        ("generation_config.json", {"anything": f"{secret.parent}/../.ssh/id_rsa"}),
        ("special_tokens_map.json", {"unk_token": {"content": str(secret)}}),
        ("processor_config.json", {"image_processor": str(secret)}),
    ]
    for i, (file, values) in enumerate(places):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        change(folder, file, **values)
        refused(folder, rf"{file}: \w+ names a file, .*id_rsa", ["plan", "checkpoint"])
    record_property("tried", len(places))


LINKED = (
    "vocab.txt",
    "chat_template.jinja",
    "tokenizer.json",
    "model.safetensors",
    "additional_chat_templates/a.jinja",
)


@pytest.mark.stranger("a file or folder of a model is a link to a private one", "refused; link and target are named")
def test_links_out_of_the_folder(saved, tmp_path, secret, record_property):
    for i, name in enumerate(LINKED):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
        refused(folder, f"{name} leads out of .*, to {secret}: put a copy in its place, or remove it")
    folder = shutil.copytree(saved / "model", tmp_path / "linked folder")
    (folder / "additional_chat_templates").symlink_to(secret.parent)
    refused(folder, "additional_chat_templates leads out of", ["plan", "checkpoint"])
    (folder / "additional_chat_templates").unlink()
    (folder / "loop").symlink_to("loop")
    (folder / "notes").symlink_to("tokenizer.json")
    checkpoints.load(folder)  # these stay inside
    record_property("tried", len(LINKED) + 1)


def test_a_cache_of_the_hub_may_link_to_its_own_blobs(saved, tmp_path, secret):
    cache = tmp_path / "models--a--b"
    folder = cache / "snapshots/0123"
    shutil.copytree(saved / "model", cache / "blobs")
    folder.mkdir(parents=True)
    for path in (cache / "blobs").iterdir():
        (folder / path.name).symlink_to(f"../../blobs/{path.name}")
    for read in (plan, tokenizers.load, checkpoints.load):
        read(folder)
    (folder / "added_tokens.json").symlink_to(secret)
    refused(folder, "added_tokens.json leads out of", ["plan", "checkpoint"])


@pytest.mark.stranger("a model's folder holds a pipe, which no reader would come back from", "refused by name")
def test_a_pipe(model):
    for name in ("added_tokens.json", "config.json"):
        (model / name).unlink(missing_ok=True)
        os.mkfifo(model / name)
        refused(model, f"{name} is neither a file nor a folder: remove it")
        (model / name).unlink()


@pytest.mark.stranger(
    "an index of weights names files above the folder, absolute ones, or none", "refused; the name is shown"
)
def test_the_index_of_weights(model, tmp_path, record_property):
    (model / "model.safetensors").rename(tmp_path / "other.safetensors")
    names = list(load_file(tmp_path / "other.safetensors"))
    cases = ["../other.safetensors", str(tmp_path / "other.safetensors"), "..", "", None, 3, "a\\b"]
    for value in cases:
        write_json(model / "model.safetensors.index.json", {"metadata": {}, "weight_map": dict.fromkeys(names, value)})
        refused(model, "weight_map must name files of its folder, got", ["plan", "checkpoint", "finetune"])
    for whole in ({"metadata": {}}, {"weight_map": [1]}):
        write_json(model / "model.safetensors.index.json", whole)
        refused(model, "weight_map must name files of its folder", ["checkpoint"])
    (model / "model.safetensors.index.json").unlink()
    change(model, "config.json", transformers_weights="../other.safetensors")
    refused(model, "config.json: transformers_weights names a file", ["plan", "checkpoint"])
    record_property("tried", len(cases) + 3)


CODE = {"AutoConfig": "own.C", "AutoModelForSequenceClassification": "own.M", "AutoTokenizer": ["own.T", None]}


@pytest.mark.stranger(
    "configurations name code (auto_map, custom_pipelines) that lies beside the weights",
    "it does not run, is not copied, and is left out of all that is saved; the log says so",
)
def test_code_is_dropped(model, tmp_path, caplog, record_property):
    ran = tmp_path / "ran"
    (model / "own.py").write_text(f"import os\nos.mkdir({str(ran)!r})\n")
    pipelines = {"classify": {"impl": "own.P", "pt": ["AutoModelForSequenceClassification"]}}
    change(model, "config.json", auto_map=CODE, custom_pipelines=pipelines)
    change(model, "tokenizer_config.json", auto_map=CODE)
    change(model, "generation_config.json", nested={"auto_map": CODE})
    net, tokenizer = checkpoints.load(model)
    with caplog.at_level(logging.WARNING, "gnorm"):
        checkpoints.save(tmp_path / "kept", net, tokenizer)
        versions.write_tokenizer(tmp_path / "tokenizer", tokenizers.load(model))
    files = [path for folder in ("kept", "tokenizer") for path in (tmp_path / folder).rglob("*")]
    assert {path.suffix for path in files if path.name != folders.SUMS} <= {".json", ".safetensors", ".txt"}
    assert not any("auto_map" in path.read_text() for path in files if path.suffix == ".json")
    assert not any("own." in path.read_text() for path in files if path.suffix == ".json")
    assert "config.json names code of its own" in caplog.text and not ran.exists()
    assert checkpoints.load(tmp_path / "kept")[0].config.to_dict().get("auto_map") is None
    record_property("tried", 4)


@pytest.mark.stranger(
    "a model or tokenizer of no known architecture comes with its code",
    "refused; the line does not advise to trust it",
)
def test_a_model_that_is_only_code(saved, tmp_path, record_property):
    folder = shutil.copytree(saved / "model", tmp_path / "model")
    (folder / "own.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\n")
    change(folder, "config.json", model_type="own", auto_map=CODE)
    for name in ("tokenizer", "checkpoint", "finetune"):
        with pytest.raises(UserError) as caught:
            READERS[name](folder)
        assert "trust_remote_code" not in str(caught.value) and "\n" not in str(caught.value), name
        assert "has code of its own, which is not run" in str(caught.value)
    folder = shutil.copytree(saved / "plain", tmp_path / "plain")
    (folder / "vocab.txt").unlink()
    (folder / "own.model").write_text("x")
    change(folder, "tokenizer_config.json", auto_map=CODE, tokenizer_class="Own")
    with pytest.raises(UserError) as caught:
        checkpoints.load(folder)
    assert "trust_remote_code" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
    record_property("tried", 2)


@pytest.mark.stranger(
    "a configuration names a kernel of the hub as its attention", "refused; nothing is downloaded or run"
)
def test_kernels(saved, tmp_path, record_property):
    values = ["kernels-community/flash-attn", "evil/kernel@main:run", {"text_config": "evil/kernel"}]
    keys = ("attn_implementation", "_attn_implementation", "_experts_implementation")
    for i, key in enumerate(keys):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        change(folder, "config.json", **{key: values[i % 2]})
        refused(folder, f"config.json: {key} names code to be downloaded, .*/")
    folder = shutil.copytree(saved / "model", tmp_path / "nested")
    change(folder, "config.json", text_config={"attn_implementation": values[1]})
    refused(folder, "names code to be downloaded", ["plan", "checkpoint"])
    record_property("tried", len(keys) + 1)


def test_an_attention_of_this_machine_is_no_harm(model):
    """Another implementation that a configuration wishes for is not what the model gets."""
    change(model, "config.json", _attn_implementation="flash_attention_2", attn_implementation="flash_attention_2")
    assert checkpoints.load(model)[0].config._attn_implementation == "sdpa"
    tuned, _ = checkpoints.from_folder(checkpoints.CLASSES["classification"], model)
    assert tuned.config._attn_implementation == "sdpa"


@pytest.mark.stranger(
    "an adapter, quantized weights, or parts of a distributed run stand where a model should",
    "refused; the line says what to save in their place",
)
def test_what_is_no_plain_model(saved, tmp_path, secret, record_property):
    folder = shutil.copytree(saved / "model", tmp_path / "adapter")
    write_json(folder / "adapter_config.json", {"base_model_name_or_path": str(secret.parent), "peft_type": "LORA"})
    refused(folder, r"adapter_config.json belongs to an adapter: merge it into its model \(merge_and_unload\)")
    folder = shutil.copytree(saved / "model", tmp_path / "quantized")
    change(folder, "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
    refused(folder, "quantization_config: quantized weights cannot be pruned: take the model before")
    folder = shutil.copytree(saved / "model", tmp_path / "parts")
    shutil.copy(folder / "model.safetensors", folder / "shard-00001-model-00001-of-00001.safetensors")
    refused(folder, "shard-00001-model.* is a part of a distributed run's weights: save the model with save_pretrained")
    record_property("tried", 3)


@pytest.mark.stranger(
    "`generation_config.json` asks for code, endless texts or another file's contents",
    "it is data: what it says of texts is not used, paths are refused, what names code is left out",
)
def test_generation_configs(tmp_path, caplog, record_property):
    writer = Tiny("llama", writes=True)
    checkpoints.save(tmp_path / "model", writer.model.float(), writer.tokenizer)
    (tmp_path / "model" / folders.SUMS).unlink()  # a stranger's folder need not have any
    code = {"custom_generate": "evil/repo"}
    harmless = {"max_new_tokens": 10**15, "num_beams": 10**6, "do_sample": True}
    change(tmp_path / "model", "generation_config.json", **harmless, **code)
    net, tokenizer = checkpoints.load(tmp_path / "model")
    batch = writer.tokenizer("a b c", return_tensors="pt")
    assert net(batch["input_ids"]).logits.shape[0] == 1
    checkpoints.save(tmp_path / "kept", net, tokenizer)
    assert "evil" not in (tmp_path / "kept/generation_config.json").read_text()
    (tmp_path / "model/generation_config.json").write_text('{"max_length": ')
    refused(tmp_path / "model", "generation_config.json is damaged or cut short", ["plan", "checkpoint"])
    record_property("tried", 2)


@pytest.mark.stranger(
    "a folder brings `custom_generate/generate.py`, which transformers 4.53 runs whether it is trusted or not",
    "refused before the folder is loaded; nothing runs",
)
def test_code_that_writes_texts(tmp_path, record_property):
    writer, ran = Tiny("llama", writes=True), tmp_path / "ran"
    checkpoints.save(tmp_path / "model", writer.model.float(), writer.tokenizer)
    (tmp_path / "model" / folders.SUMS).unlink()  # a stranger's folder need not have any
    code = tmp_path / "model/custom_generate/generate.py"
    code.parent.mkdir()
    code.write_text(f"import os\nos.mkdir({str(ran)!r})\ndef generate(*_, **__): pass\n")
    refused(tmp_path / "model", "custom_generate holds code that replaces how the model writes, which is not run")
    code.parent.rename(tmp_path / "model/elsewhere")
    (tmp_path / "model/custom_generate").symlink_to("elsewhere")
    refused(tmp_path / "model", "custom_generate holds code", ["plan", "checkpoint"])
    assert not ran.exists()
    record_property("tried", 2)


HUGE = {
    "num_hidden_layers": 1_000_000,
    "hidden_size": 2**22,
    "intermediate_size": 2**40,
    "vocab_size": 10**11,
    "max_position_embeddings": 10**10,
    "type_vocab_size": 10**9,
    "num_labels": 10**9,
    "num_attention_heads": 10**9,
}


@pytest.mark.stranger(
    "a configuration says a million layers, or sizes that its weights do not have",
    "refused in seconds, before a module is built or memory taken",
)
def test_sizes_beyond_the_weights(saved, tmp_path, record_property):
    for key, value in HUGE.items():
        folder = shutil.copytree(saved / "model", tmp_path / key)
        change(folder, "config.json", **{key: value}, **({"id2label": None} if key == "num_labels" else {}))
        began = time.monotonic()
        with pytest.raises(UserError, match="the weights beside it|cannot be loaded") as caught:
            checkpoints.load(folder)
        assert time.monotonic() - began < 30 and "\n" not in str(caught.value)
        if key in ("num_hidden_layers", "hidden_size", "vocab_size", "num_labels", "type_vocab_size"):
            assert "the weights beside it" in str(caught.value)
    record_property("tried", len(HUGE))


# What stands in place of a number, a name or a list. `None` and 0 may have a meaning.
NONSENSE = ("x", -1, [1], {"a": 1}, 10**12, float("nan"))
TYPED = (  # keys of a configuration, and whether any of these values may stand there without effect
    *((key, False) for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")),
    *((key, False) for key in ("intermediate_size", "hidden_act", "id2label", "architectures", "head_map")),
    *((key, True) for key in ("output_hidden_states", "output_attentions", "return_dict", "chunk_size_feed_forward")),
    *((key, True) for key in ("dtype", "torch_dtype", "layer_norm_eps", "pad_token_id", "num_labels", "pruned_heads")),
    *((key, True) for key in ("model_type", "type_vocab_size", "max_position_embeddings", "is_decoder", "prune_by")),
)


def taken(folder):
    """Do with a model what the workflow does before it prunes it."""
    plan(folder)
    shapes.shape({"checkpoint": {"path": str(folder)}}).parameters  # noqa: B018
    tokenizer = tokenizers.load(folder)
    tokenizers.count(tokenizer, {"row": 0, "text": "a good film", "pair": None})
    net, own = checkpoints.load(folder)
    checkpoints.check_task(net, "classification", list(map(str, net.config.id2label.values())))
    intake.take(net, {"path": str(folder)})
    checkpoints.save(folder.parent / "kept", net, own)
    return net


@pytest.mark.stranger(
    "a key of a configuration holds a value of another kind: text, a list, an object, NaN, -1 or 10^12 for a number",
    "refused with one line that names the cause, with the details in the log; or it has no effect",
)
def test_values_of_another_kind(saved, tmp_path, record_property):
    for key, harmless in TYPED:
        for value in NONSENSE:
            folder = shutil.copytree(saved / "model", tmp_path / "m", dirs_exist_ok=True)
            change(folder, "config.json", **{key: value})
            began = time.monotonic()
            try:
                taken(folder)
            except UserError as error:
                assert "\n" not in str(error), (key, value)
            else:
                assert harmless, (key, value)
            assert time.monotonic() - began < 60, (key, value)
    record_property("tried", len(TYPED) * len(NONSENSE))


def test_a_wish_for_outputs_is_not_the_models(model):
    """They are asked for where they are wanted; the library refuses to save such a wish for attention."""
    change(model, "config.json", output_hidden_states="x", output_attentions=True, return_dict=False)
    taken(model)
    kept = read_json(model.parent / "kept/config.json")
    assert not kept.get("output_hidden_states") and not kept.get("output_attentions") and kept.get("return_dict", True)


@pytest.mark.parametrize("name", ["../data/archives", "/tmp/evil", "__init__", "", "x" * 5000, "a\0b", "bert/"])
def test_a_type_of_model_is_no_path(name, model):
    assert families.find(name) is None
    change(model, "config.json", model_type=name)
    shapes.shape({"checkpoint": {"path": str(model)}})
    refused(model, "config.json is|cannot be loaded", ["tokenizer", "checkpoint"])


DETAILS = """
import sys
from gnorm.logs import start
from gnorm.models import checkpoints
start(sys.argv[1], "job")
checkpoints.load(sys.argv[2])
"""


def test_details_are_in_the_log_alone(model, tmp_path):
    change(model, "config.json", layer_norm_eps="x", hidden_act="nothing")
    made = run_python(DETAILS, str(tmp_path / "log"), str(model))
    assert made.returncode and made.stderr.startswith(f"[job] the model in {model} cannot be loaded (")
    assert made.stderr.count("\n") == 1
    log = (tmp_path / "log").read_text()
    assert "Traceback (most recent call last)" in log and log.rstrip().endswith(made.stderr.strip()[len("[job] ") :])


@pytest.mark.stranger(
    "a configuration says a trillion classes, and the tokenizer beside it is read first",
    "refused before the library writes them down one by one",
)
def test_a_trillion_classes(model):
    change(model, "config.json", num_labels=10**12, id2label=None, label2id=None)
    began = time.monotonic()
    refused(model, "num_labels is 1,000,000,000,000, and the weights beside it are", ["tokenizer", "checkpoint"])
    assert time.monotonic() - began < 10


@pytest.mark.stranger(
    "layers that share their weights, as ALBERT's do, are a million", "refused: more than 100 are no model"
)
def test_a_million_shared_layers(tmp_path):
    tiny = Tiny("albert")
    checkpoints.save(tmp_path / "model", tiny.model.float(), tiny.tokenizer)
    checkpoints.load(tmp_path / "model")
    (tmp_path / "model" / folders.SUMS).unlink()
    change(tmp_path / "model", "config.json", num_hidden_layers=1_000_000)
    refused(tmp_path / "model", "num_hidden_layers is 1,000,000, and the weights beside it are", ["checkpoint"])


def test_sizes_are_looked_at_without_drawing_numbers(model):
    """The weights that fine-tuning draws must be those of before."""
    state = torch.random.get_rng_state()
    config = checkpoints.configuration(model)
    given = {versions.DTYPE: torch.float32, "attn_implementation": "sdpa", "trust_remote_code": False}
    checkpoints._check_size(checkpoints.CLASSES["classification"], config, model, given)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.stranger(
    "`tokenizer.json` pads every text to billions of tokens", "refused before a text is encoded; says what to take out"
)
def test_endless_padding(saved, tmp_path, record_property):
    padding = {"strategy": {"Fixed": 2**31}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    for i, changed in enumerate(({}, {"strategy": "BatchLongest", "pad_to_multiple_of": 2**31})):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        change(folder, "tokenizer.json", padding=padding | changed)
        readers = ["tokenizer", "checkpoint"]
        refused(folder, "tokenizer.json pads every text to 2,147,483,648 tokens: take `padding` out of it", readers)
    record_property("tried", 2)


def steps(*normalizers):
    return {"normalizer": {"type": "Sequence", "normalizers": [*normalizers]}}


TEMPLATE = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
RULES = {
    "no entry found for key": {"post_processor": TEMPLATE | {"single": [{"SpecialToken": {"id": "X", "type_id": 0}}]}},
    "charsmap": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////wAA"}},
    "retry-limit": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": False}
    },
    "row 0 has input_ids of 4,294,967,295, and the model knows": {
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 7], "cls": ["[CLS]", 2**32 - 1]}
    },
    "row 0 has token_type_ids of 9, and the model knows 2": {
        "post_processor": TEMPLATE | {"single": [{"Sequence": {"id": "A", "type_id": 9}}]}
    },
    "can make texts 1,152,921,504,606,846,976 times as long": steps(
        *[{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"}] * 20,
        steps(*[{"type": "Replace", "pattern": {"Regex": "a*"}, "content": "aaa"}] * 10)["normalizer"],
    ),
}


@pytest.mark.stranger(
    "the rules in `tokenizer.json` crash the library, never come to an end, make texts 10^18 times as long, or give "
    "numbers of tokens that the model does not have",
    "refused with one line, at the first row that shows it",
)
def test_rules_of_a_tokenizer(saved, tmp_path, record_property):
    row = {"row": 0, "text": "a" * 40 + "b", "pair": None}
    for i, (message, rules) in enumerate(RULES.items()):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        change(folder, "tokenizer.json", **rules)
        with pytest.raises(UserError, match=message) as caught:
            tokenizers.count(tokenizers.load(folder), row)
        assert "\n" not in str(caught.value)
    cleaning = {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}, {"type": "NFKD"}, {"type": "Lowercase"}
    change(folder, "tokenizer.json", **steps(*cleaning))
    assert tokenizers.count(tokenizers.load(folder), row) > 2
    record_property("tried", len(RULES))


@pytest.mark.stranger(
    "a tokenizer's configuration has no number for a length, or no names for inputs", "refused; the key is named"
)
def test_settings_of_a_tokenizer(saved, tmp_path, record_property):
    cases = [("model_max_length", "x"), ("model_max_length", -1), ("model_max_length", float("nan"))]
    cases += [("model_input_names", [[1]]), ("model_input_names", 3)]
    for i, (key, value) in enumerate(cases):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        change(folder, "tokenizer_config.json", **{key: value})
        for read in (tokenizers.load, checkpoints.load):
            with pytest.raises(UserError, match=f"tokenizer_config.json: {key} must be|the tokenizer in .* cannot be"):
                read(folder)
    record_property("tried", len(cases))


def safetensors(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def described(**tensors) -> bytes:
    return json.dumps(
        {name: {"dtype": "F32", "shape": s, "data_offsets": o} for name, (s, o) in tensors.items()}
    ).encode()


HEADERS = {
    "a header of 2**63 bytes": safetensors(b"{}", length=2**63),
    "a header longer than the file": safetensors(b"{}", length=10**6),
    "no header": b"",
    "a header that is no JSON": safetensors(b"\x00" * 64),
    "a header nested 100,000 deep": safetensors(b"[" * 100_000 + b"]" * 100_000),
    "overlapping tensors": safetensors(described(a=([2], [0, 8]), b=([2], [4, 12])), b"\0" * 12),
    "a tensor past the end": safetensors(described(a=([4], [0, 16])), b"\0" * 8),
    "a tensor of NaN dimensions": safetensors(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', b"\0" * 4),
    "negative dimensions": safetensors(described(a=([-1, -4], [0, 16])), b"\0" * 16),
    "dimensions whose product overflows": safetensors(described(a=([2**32, 2**32, 2], [0, 0]))),
    "an unknown type": safetensors(b'{"a":{"dtype":"EVIL","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4),
    "a tensor that stands twice": safetensors(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
        b"\0" * 8,
    ),
    "bytes that no tensor has": safetensors(described(a=([1], [0, 4])), b"\0" * 4096),
}


@pytest.mark.stranger(
    "the header of a safetensors file lies: its length, overlaps, ends, dimensions, types, names",
    "refused; the file is named",
)
def test_headers_of_safetensors(model, record_property):
    for what, content in HEADERS.items():
        (model / "model.safetensors").write_bytes(content)
        with pytest.raises(UserError, match="model.safetensors is damaged or cut short") as caught:
            checkpoints.load(model)
        assert "\n" not in str(caught.value), what
    record_property("tried", len(HEADERS))


@pytest.mark.stranger(
    "weights under other names or shapes than the configuration's", "refused; the first of them is named"
)
def test_weights_of_something_else(model, record_property):
    weights = load_file(model / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    for changed in (
        {name.replace("query", "q\nuery"): weights[name]},
        {name: torch.zeros(2, 3)},
        {name: torch.zeros(0)},
    ):
        others = {other: tensor for other, tensor in weights.items() if other != name}
        save_file(others | changed, model / "model.safetensors", {"format": "pt"})
        with pytest.raises(UserError, match=f"no weights of the right shape for {name}"):
            checkpoints.load(model)
    record_property("tried", 3)


@pytest.mark.stranger(
    "weights are a pickle with code in it (`pytorch_model.bin`, whole or in parts)",
    "nothing runs; the line says what it asked for, and to convert it to safetensors where it is trusted",
)
def test_pickled_weights(model, tmp_path, record_property):
    ran = tmp_path / "ran"
    torch.save(Malicious(ran), tmp_path / "proof.pt")
    torch.load(tmp_path / "proof.pt", weights_only=False)
    assert ran.exists()  # it would work
    ran.rmdir()
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    torch.save(weights, model / "pytorch_model.bin")
    checkpoints.load(model)  # weights alone are read
    for zipped in (True, False):
        torch.save(weights | {"x": Malicious(ran)}, model / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        said = (
            "pytorch_model.bin is refused: it is a pickle that asks for posix.mkdir, .*; convert it to model.safetens"
        )
        refused(model, said, ["checkpoint", "finetune", "exported"])
    (model / "pytorch_model.bin").rename(model / "pytorch_model-00001-of-00001.bin")
    parts = dict.fromkeys(weights, "pytorch_model-00001-of-00001.bin")
    write_json(model / "pytorch_model.bin.index.json", {"metadata": {}, "weight_map": parts})
    refused(model, "pytorch_model-00001-of-00001.bin is refused: it is a pickle that asks for", ["checkpoint"])
    (model / "pytorch_model-00001-of-00001.bin").write_bytes(b"\x80\x02garbage")
    with pytest.raises(UserError, match="00001.bin (is refused|is not a readable)") as caught:
        checkpoints.load(model)
    for advice in ("weights_only", "TF 2.0", "from_tf", "likely succeed", "\n"):
        assert advice not in str(caught.value)
    assert not ran.exists()
    record_property("tried", 4)


@pytest.mark.stranger(
    "weights of other frameworks alone (`tf_model.h5`, `flax_model.msgpack`, `model.gguf`)",
    "refused: none that are read here",
)
def test_weights_of_other_frameworks(model, record_property):
    (model / "model.safetensors").unlink()
    for name in ("tf_model.h5", "flax_model.msgpack", "model.gguf", "model.onnx"):
        (model / name).write_bytes(b"\x89HDF\r\n")
        refused(model, r"model has no weights \(model.safetensors or pytorch_model.bin\)", ["checkpoint", "finetune"])
    record_property("tried", 4)


ODD = [
    ("config.json", b"[1]", "must hold an object"),
    ("config.json", b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "lie too deep"),
    ("config.json", b'{"model_type": "bert", "hidden_size": 1' + b"0" * 5000 + b"}", "is damaged or cut short"),
    ("config.json", b'{"architectures": -1}', "architectures must be a list of names"),
    ("config.json", b'{"architectures": [[]]}', "architectures must be a list of names"),
    ("tokenizer_config.json", b"null", "must hold an object"),
    ("tokenizer_config.json", b"\xff\xfe{}", "is damaged or cut short"),
    ("special_tokens_map.json", b"[" * 100_000, "lie too deep|is damaged"),
]


@pytest.mark.stranger(
    "a configuration is no object, nested 100,000 deep, or has a number of 5,000 digits or no names",
    "refused; the file is named",
)
def test_odd_configurations(saved, tmp_path, record_property):
    for i, (file, content, message) in enumerate(ODD):
        folder = shutil.copytree(saved / "model", tmp_path / f"m{i}")
        (folder / file).write_bytes(content)
        refused(folder, f"{file}.* {message}", ["plan", "tokenizer", "checkpoint"])
    folder = shutil.copytree(saved / "model", tmp_path / "large")
    with open(folder / "generation_config.json", "wb") as file:
        file.truncate(folders.LARGEST + 1)
    refused(folder, "a configuration has at most", ["plan", "checkpoint"])
    record_property("tried", len(ODD) + 1)
