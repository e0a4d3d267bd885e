"""Pruned models as folders: compact ones, dense ones, and those of earlier releases."""

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers
from support import FAMILIES, OTHERS, ROOT, Tiny, each_in_a_fresh_process, each_python, in_float64, pythons, texts_of
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from gnorm import families
from gnorm.errors import UserError
from gnorm.models import checkpoints, export, rebuild, search, surgery, versions
from gnorm.models.accounting import count
from gnorm.models.gates import Gates
from gnorm.models.heads import head_map, keep, pruned_heads
from gnorm.models.loaded import Loaded
from gnorm.models.neurons import neuron_map, pruned_neurons, slot_map
from gnorm.pruning.controls import controls

EVERY = (*FAMILIES, *OTHERS)


def logits(model, batch):
    with torch.no_grad():
        return model(**batch.inputs).logits


def masks(tiny):
    """Slots of heads and of groups of 8 neurons: a few; a layer without heads; a layer without neurons; all of both."""
    rows, heads = tiny.heads.shape
    groups = neuron_map(tiny.model, 8).groups
    last = rows - 1
    everything = [(row, head) for row in range(rows) for head in range(heads)]
    return {
        "few": ([(0, 0), (last, heads - 1)], []),
        "empty": ([(0, head) for head in range(heads)], []),
        "neurons": ([(last, 0)], [(0, 1), *((last, group) for group in range(groups))]),
        "all": (everything, [(row, group) for row in range(rows) for group in range(groups)]),
    }


def pruned(tiny, which):
    heads, neurons = masks(tiny)[which]
    model = copy.deepcopy(tiny.model)
    surgery.prune(model, tiny.heads, heads)
    if neurons:
        surgery.prune(model, neuron_map(model, 8), neurons)
    return model


@pytest.mark.parametrize("which", ["few", "empty", "neurons", "all"])
@pytest.mark.parametrize("family", EVERY)
def test_both_forms_load(family, which, make_tiny, tmp_path):
    """Loaded by an Auto class, by the model's own class, and as a body without a head, in the shapes that are left."""
    tiny = make_tiny(family)
    tiny.model.float()
    (batch,) = tiny.batches(6, tokens=10_000)
    model = pruned(tiny, which)
    expected = logits(model, batch)
    assert (expected - logits(tiny.model, batch)).abs().max() > 1e-3
    export.save(tmp_path / "compact", model, tiny.tokenizer)
    export.save_dense(tmp_path / "dense", model, tiny.tokenizer)

    with export.rebuilding():
        for kind in (AutoModelForSequenceClassification, type(tiny.model)):
            loaded = kind.from_pretrained(tmp_path / "compact").eval()
            assert (logits(loaded, batch) - expected).abs().max() < 1e-6
            assert [p.shape for p in loaded.parameters()] == [p.shape for p in model.parameters()]
        body = AutoModel.from_pretrained(tmp_path / "compact").eval()
    with torch.no_grad():
        inside = getattr(model, model.base_model_prefix)(**batch.inputs)[0]
        assert (body(**batch.inputs)[0] - inside).abs().max() < 1e-5
    assert count(body) == count(getattr(model, model.base_model_prefix)) or family in ("bert", "roberta", "xlm-roberta")

    dense = AutoModelForSequenceClassification.from_pretrained(tmp_path / "dense").eval()
    assert torch.allclose(logits(dense, batch), expected, atol=1e-5)  # sums over zeros round in other places
    in_float64(dense)
    assert (logits(dense.double(), batch) - logits(copy.deepcopy(model).double(), batch)).abs().max() < 1e-12
    assert [p.shape for p in dense.parameters()] == [p.shape for p in tiny.model.parameters()]
    for form in ("compact", "dense"):
        again, heads, _ = export.load(tmp_path / form, on="cpu")
        assert torch.equal(heads.kept(again), tiny.heads.kept(model))
        assert pruned_neurons(again) == pruned_neurons(model)
        assert count(again) == count(model) < count(tiny.model)
        assert (logits(again, batch) - expected).abs().max() < 1e-4


DECODERS = ("gpt2", "llama", "qwen2")
CASES = [
    *((family, which, torch.float32, False) for family in EVERY for which in ("few", "empty", "all")),
    *((family, "neurons", torch.bfloat16, False) for family in EVERY),
    *((family, "few", torch.float32, True) for family in DECODERS),
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Every family pruned in every way, in both forms: name -> rows, their logits, parameters of both, and type."""
    root, cases = tmp_path_factory.mktemp("exported"), {}
    for family, which, dtype, writes in CASES:
        tiny, name = Tiny(family, writes=writes), f"{family} {which} {'writes' if writes else dtype}"
        checkpoints.save(root / "source", tiny.model.to(dtype), tiny.tokenizer)
        tiny.model, tokenizer = checkpoints.load(root / "source", on="cpu")
        model, rows = pruned(tiny, which), tiny.rows[:3]
        export.save(root / "compact" / name, model, tokenizer)
        export.save_dense(root / "dense" / name, model, tokenizer)
        each = [tokenizer(*texts_of(row), truncation=True, return_tensors="pt") for row in rows]
        with torch.no_grad():
            expected = {
                "logits": [model(**row).logits[0] for row in each],
                "exact": [model.double()(**row).logits[0] for row in each],
            }
        cases[name] = rows, expected, {"compact": count(model), "dense": count(tiny.model)}, str(dtype)
    return root, cases


def apart(found, expected):
    """The largest difference of lists of logits, as a part of the largest logit where that is above 1."""
    pairs = [(torch.tensor(one, dtype=other.dtype), other) for one, other in zip(found, expected, strict=True)]
    return max((one - other).abs().max() / other.abs().max().clamp_min(1) for one, other in pairs)


@pytest.mark.parametrize("form", ["compact", "dense"])
@pytest.mark.parametrize("python", each_python())
def test_fresh_processes_of_both_versions_load_every_family(python, form, exported, tmp_path):
    """Plain transformers, whichever version wrote the folder: logits, parameters, and the type of the source."""
    root, cases = exported
    rows_of = {root / form / name: rows for name, (rows, *_) in cases.items()}
    found = each_in_a_fresh_process(rows_of, tmp_path, compact=form == "compact", python=python)
    assert len(found) == len(cases) == len(CASES)
    for name, (_, expected, parameters, dtype) in cases.items():
        one = found[str(root / form / name)]
        assert (one["parameters"], one["dtype"]) == (parameters[form], dtype), name
        assert apart(one["exact"], expected["exact"]) < 1e-6, name
        # In float32 sums over the zeros of a dense folder, and the other version's, round in other places.
        assert apart(one["logits"], expected["logits"]) < 1e-5, name


PIPELINE = """
import json, sys
listed, scripts = sys.argv[1:]
sys.path.append(scripts)
import gnorm.hf
import torch
from transformers import AutoConfig, PreTrainedTokenizerFast, pipeline
torch.set_num_threads(1)
for folder, rows in json.load(open(listed)).items():
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    kind = AutoConfig.from_pretrained(folder).architectures[0]
    if "Classification" in kind:
        run = pipeline("text-classification", model=folder, tokenizer=tokenizer, device="cpu")
        rows = [dict(zip(("text", "text_pair"), texts)) for texts in rows]
        said = [run(row, top_k=None, function_to_apply="none", truncation=True) for row in rows]
        order = run.model.config.label2id
        said = [[one["score"] for one in sorted(row, key=lambda one: order[one["label"]])] for row in said]
        print(json.dumps({"folder": folder, "logits": said}))
        continue
    run = pipeline("text-generation", model=folder, tokenizer=tokenizer, device="cpu")
    settings = {"max_new_tokens": 5, "do_sample": False}
    said = [run(texts[0][:4], return_tensors=True, **settings)[0]["generated_token_ids"] for texts in rows]
    prompts = [tokenizer(texts[0][:4], return_tensors="pt") for texts in rows]
    try:
        static = [run.model.generate(**row, cache_implementation="static", **settings)[0].tolist() for row in prompts]
    except RuntimeError as error:
        static = str(error)
    print(json.dumps({"folder": folder, "written": said, "static": static}))
"""


@pytest.mark.parametrize("python", each_python())
def test_pipelines_of_both_versions(python, exported, tmp_path):
    """Every family classifies, decoders write; with a static cache, which 4 makes of one size for all layers, on 5."""
    root, cases = exported
    rows_of = {
        root / form / name: rows
        for form in ("compact", "dense")
        for name, (rows, *_) in cases.items()
        if name.endswith(("few torch.float32", "writes"))
    }
    found = each_in_a_fresh_process(rows_of, tmp_path, compact=True, python=python, program=PIPELINE)
    assert len(found) == 2 * (len(EVERY) + len(DECODERS))
    five = version_of(python).startswith("5.")
    for folder in rows_of:
        one, (rows, expected, *_) = found[str(folder)], cases[folder.name]
        if not folder.name.endswith("writes"):
            assert apart(one["logits"], expected["logits"]) < (1e-6 if folder.parent.name == "compact" else 1e-5), (
                folder
            )
            continue
        model, _, tokenizer = export.load(folder, on="cpu")
        for row, written in zip(rows, one["written"], strict=True):
            prompt = tokenizer(row["text"][:4], return_tensors="pt")
            with torch.no_grad():
                ours = model.generate(**prompt, max_new_tokens=5, do_sample=False)
            assert written == ours[0].tolist() and len(written) > len(prompt["input_ids"][0])
        if five or folder.parent.name == "dense":
            assert one["static"] == one["written"]
        else:
            assert one["static"].startswith("index_copy_(): Source/destination tensor must have same slice shapes")


def version_of(python):
    code = "import importlib.metadata as m; print(m.version('transformers'))"
    return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("which", ["empty", "neurons"])
@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "llama"])
def test_trainer_trains_and_saves_a_loaded_model(family, which, make_tiny, tmp_path):
    pytest.importorskip("accelerate", reason="Trainer needs accelerate, which the lock does not have")
    tiny = make_tiny(family)
    tiny.model.float()
    model = pruned(tiny, which)
    export.save(tmp_path / "out", model, tiny.tokenizer)
    with export.rebuilding():
        loaded = type(model).from_pretrained(tmp_path / "out")
    texts = [row["text"] for row in tiny.rows[:8]]
    given = tiny.tokenizer(texts, padding="max_length", max_length=12, truncation=True)
    rows = [{name: given[name][i] for name in given} | {"labels": i % 2} for i in range(8)]
    settings = {"max_steps": 2, "learning_rate": 0.01, "use_cpu": True, "save_strategy": "no", "report_to": []}
    arguments = transformers.TrainingArguments(tmp_path / "runs", disable_tqdm=True, **settings)
    trainer = transformers.Trainer(loaded, arguments, train_dataset=rows)
    assert trainer.train().global_step == 2
    trainer.save_model(tmp_path / "trained")
    with export.rebuilding():
        again = type(model).from_pretrained(tmp_path / "trained").eval()
    (batch,) = tiny.batches(6, tokens=10_000)
    assert torch.equal(logits(again, batch), logits(loaded.eval(), batch)) and count(again) == count(model)
    assert (logits(again, batch) - logits(model, batch)).abs().max() > 1e-3


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "llama", "qwen2"])
def test_a_loaded_model_can_be_used_like_any_other(family, make_tiny, tmp_path):
    """Saved again, in half precision, copied, pickled, trained by a step, and pruned further."""
    tiny = make_tiny(family)
    tiny.model.float()
    (batch,) = tiny.batches(6, tokens=10_000)
    model = pruned(tiny, "empty")
    export.save(tmp_path / "once", model, tiny.tokenizer)
    with export.rebuilding():
        loaded = type(model).from_pretrained(tmp_path / "once").eval()
        loaded.save_pretrained(tmp_path / "twice")
        again = type(model).from_pretrained(tmp_path / "twice").eval()
    assert torch.equal(logits(loaded, batch), logits(again, batch))
    for change in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        assert torch.equal(logits(change(loaded), batch), logits(loaded, batch))
    half = copy.deepcopy(loaded).to(torch.bfloat16)
    assert logits(half, batch).isfinite().all() and half.dtype == torch.bfloat16
    assert (logits(half.float(), batch) - logits(loaded, batch)).abs().max() < 0.2

    loss = again(**batch.inputs).logits.square().sum()
    loss.backward()
    untrained = [name for name, p in again.named_parameters() if p.numel() and p.grad is None]
    assert all("norm" in name or "ln_1" in name for name in untrained)  # before a layer without heads
    for which in ("empty", "few"):  # pruned further, also in a row that has lost a head
        model = pruned(tiny, which)
        export.save(tmp_path / which, model, tiny.tokenizer)
        with export.rebuilding():
            loaded = type(model).from_pretrained(tmp_path / which).eval()
        for slot in ((0, 1), (tiny.heads.shape[0] - 1, 1)):
            surgery.prune(loaded, head_map(loaded), [slot])
            surgery.prune(model, tiny.heads, [slot])
        assert torch.equal(logits(loaded, batch), logits(model, batch))
        assert torch.equal(head_map(loaded).kept(loaded), tiny.heads.kept(model))


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2"])
def test_a_decoder_without_heads_in_its_first_layer_writes(family, make_tiny, tmp_path):
    """The cache of keys and values counts tokens by its first layer, which has no head."""
    tiny = make_tiny(family, writes=True)
    tiny.model.float()
    model = pruned(tiny, "empty")
    export.save(tmp_path / "out", model, tiny.tokenizer)
    prompt = torch.tensor([tiny.tokenizer.encode("kalo", add_special_tokens=True)[:3]])
    with export.rebuilding():
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    loaded.generation_config.eos_token_id = None
    with torch.no_grad():
        every = torch.ones_like(prompt)
        written = loaded.generate(
            prompt, attention_mask=every, max_new_tokens=8, do_sample=False, pad_token_id=tiny.tokenizer.pad_token_id
        )
        whole = prompt
        for _ in range(8):
            whole = torch.cat([whole, model(input_ids=whole, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(written, whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_are_stored_as_they_were(dtype, make_tiny, tmp_path):
    tiny = make_tiny("bert")
    tiny.model.to(dtype)
    tiny.model.save_pretrained(tmp_path / "source")
    tiny.tokenizer.save_pretrained(tmp_path / "source")
    model, tokenizer = checkpoints.load(tmp_path / "source", on="cpu")
    assert model.dtype == torch.float32
    surgery.prune(model, tiny.heads, [(0, 1)])
    (batch,) = tiny.batches(6, tokens=10_000)
    for save in (export.save, export.save_dense):
        save(tmp_path / "out", model, tokenizer)
        name = str(dtype).removeprefix("torch.")
        config = json.loads((tmp_path / "out/config.json").read_text())
        assert name in (config.get("dtype"), config.get("torch_dtype"))
        stored = safetensors.torch.load_file(tmp_path / "out/model.safetensors")  # the note too
        assert {tensor.dtype for tensor in stored.values()} == {dtype}
        assert torch.equal(logits(export.as_plain(tmp_path / "out"), batch), logits(model, batch))
    with torch.no_grad():
        model.classifier.weight[0, 0] += 1e-6  # as training would: no longer exact
    export.save(tmp_path / "out", model, tokenizer)
    assert torch.equal(logits(export.as_plain(tmp_path / "out"), batch), logits(model, batch))


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("key", [None, "dtype", "torch_dtype"])
def test_a_configuration_need_not_say_the_type(file, key, make_tiny, tmp_path):
    """Many on the hub do not, and each version of transformers has a key of its own for it."""
    tiny = make_tiny("gpt2")
    tiny.model.to(torch.bfloat16).save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    if file.endswith(".bin"):
        (tmp_path / "model.safetensors").unlink()
        torch.save(tiny.model.state_dict(), tmp_path / file)
    config = json.loads((tmp_path / "config.json").read_text())
    config = {name: value for name, value in config.items() if name not in ("dtype", "torch_dtype")}
    config |= {key: "bfloat16"} if key else {}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model, tokenizer = checkpoints.load(tmp_path, on="cpu")
    surgery.prune(model, tiny.heads, [(0, 1)])
    for save in (export.save, export.save_dense):
        save(tmp_path / "out", model, tokenizer)
        assert checkpoints.stored_type(tmp_path / "out") == torch.bfloat16
        said = json.loads((tmp_path / "out/config.json").read_text())
        assert {said[name] for name in ("dtype", "torch_dtype") if name in said} == {"bfloat16"}
    with torch.no_grad():
        model.score.weight[0, 0] += 1e-6  # as training would: no longer exact
    export.save(tmp_path / "out", model, tokenizer)
    assert checkpoints.stored_type(tmp_path / "out") == torch.float32
    said = json.loads((tmp_path / "out/config.json").read_text())
    assert {said[name] for name in ("dtype", "torch_dtype") if name in said} == {"float32"}


def test_a_searched_map_goes_with_the_model(make_tiny, tmp_path):
    """Its names are those of the whole model, and a body alone is loaded too."""
    tiny = make_tiny("llama")
    tiny.model.float()
    (batch,) = tiny.batches(6, tokens=10_000)
    model = copy.deepcopy(tiny.model)
    keep(model, tiny.heads)
    surgery.prune(model, head_map(model), [(0, 0), (1, 1)])
    export.save(tmp_path / "out", model, tiny.tokenizer)
    with export.rebuilding():
        whole = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
        body = AutoModel.from_pretrained(tmp_path / "out").eval()
    assert (logits(whole, batch) - logits(model, batch)).abs().max() < 1e-6
    assert count(body) == count(model.model)


def test_folders_of_earlier_releases_load(make_tiny, tmp_path):
    """They list heads as `pruned_heads` where weights are cut, as `zeroed_heads` where they are zeros."""
    tiny = make_tiny("bert")
    tiny.model.float()
    (batch,) = tiny.batches(6, tokens=10_000)
    model = pruned(tiny, "few")
    checkpoints.save(tmp_path / "cut", model, tiny.tokenizer)
    other = make_tiny("llama")
    other.model.float()
    left = copy.deepcopy(other.model)
    keep(left, other.heads)
    left.config.head_map |= {"returns": 2, "reloads": False}  # fields of that time
    surgery.prune(left, head_map(left), [(0, 0)])
    export.save_dense(tmp_path / "zeros", left, other.tokenizer)
    assert json.loads((tmp_path / "zeros/config.json").read_text())["zeroed_heads"] == {"0": [0]}
    for folder, expected, made in (("cut", model, batch), ("zeros", left, other.batches(6, tokens=10_000)[0])):
        again, _, _ = export.load(tmp_path / folder, on="cpu")
        assert count(again) == count(expected)
        assert (logits(again, made) - logits(expected, made)).abs().max() < 1e-4


PLAIN = """
import json, sys
listed, *scripts = sys.argv[1:]
if scripts:
    sys.path.append(*scripts)
    import gnorm.hf
import torch, transformers
torch.set_num_threads(1)
for folder in json.load(open(listed)):
    said = ""
    try:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        said = "loads, "
        with torch.inference_mode():
            model(input_ids=torch.tensor([[5, 6, 7]]))
        said += "runs"
    except Exception as error:
        said += f"{type(error).__name__}: {error}"
    print(json.dumps({"folder": folder, "said": said}))
"""


def met(family, which, five):
    """What docs/models.md says that users meet without the import."""
    if five:
        return "RuntimeError: You set `ignore_mismatched_sizes` to `False`"
    if family in ("llama", "qwen2"):
        return f"AttributeError: '{family.capitalize()}Model' object has no attribute '_prune_heads'"
    if family == "gpt2" and which in ("empty", "all"):
        return "ZeroDivisionError: "
    if which in ("neurons", "all"):
        return "RuntimeError: Error(s) in loading state_dict for "
    return "loads, ZeroDivisionError: " if (family, which) == ("distilbert", "empty") else "loads, runs"


def met_in(python, folders, tmp_path, *scripts):
    """What comes of each folder by its name, and all that transformers reports; with `scripts`, after the import."""
    (tmp_path / "folders.json").write_text(json.dumps([str(folder) for folder in folders]))
    command = [python, "-I", "-c", PLAIN, tmp_path / "folders.json", *scripts]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return {Path(one["folder"]).name: one["said"] for one in map(json.loads, run.stdout.splitlines())}, run.stderr


@pytest.mark.parametrize("python", each_python())
def test_what_users_meet_without_the_import(python, exported, tmp_path):
    """transformers names the remedy where it reports on weights; with the import nothing is said of it."""
    root, cases = exported
    five = version_of(python).startswith("5.")
    names = [name for name in cases if not name.endswith("writes")]
    folders = [root / "compact" / name for name in names]
    said, report = met_in(python, folders, tmp_path)
    for name in names:
        family, which, _ = name.split()
        assert said[name].startswith(met(family, which, five)), (name, said[name])
        assert ("size mismatch" in said[name]) == ("Error(s) in loading" in said[name]), name
    reported = len(names) if five else sum("loads" in one for one in said.values())
    assert report.count(rebuild.NOTE) == reported > 0 and ("MISMATCH" in report) == five
    said, report = met_in(python, folders, tmp_path, ROOT / "scripts")
    assert {*said.values()} == {"loads, runs"} and rebuild.NOTE not in report and "UNEXPECTED" not in report


@pytest.mark.parametrize("python", each_python())
def test_a_searched_map_that_does_not_fit_the_other_version(python, make_tiny, tmp_path):
    """Attention of Qwen2-MoE counts its heads on 4, and on 5 takes what the weights give."""
    tiny, experts = make_tiny("llama"), {"num_experts": 4, "num_experts_per_tok": 4, "moe_intermediate_size": 16}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 64, "shared_expert_intermediate_size": 16, "vocab_size": len(tiny.tokenizer)}
    given = {"pad_token_id": tiny.tokenizer.pad_token_id, "initializer_range": 0.25}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("qwen2_moe", **sizes, **experts, **given)
    model = AutoModelForSequenceClassification.from_config(config).eval().requires_grad_(False)
    heads = search.find(model)
    keep(model, heads)
    surgery.prune(model, heads, [(0, 1)])
    export.save(tmp_path / "compact", model, tiny.tokenizer)
    export.save_dense(tmp_path / "dense", model, tiny.tokenizer)
    batch = tiny.batches(2, tokens=10_000)[0]
    for form in ("compact", "dense"):
        assert (logits(export.as_plain(tmp_path / form), batch) - logits(model, batch)).abs().max() < 1e-4
    said = met_in(python, [tmp_path / "compact", tmp_path / "dense"], tmp_path, ROOT / "scripts")[0]
    assert said["dense"] == "loads, runs"
    if versions.FIVE and not version_of(python).startswith("5."):
        compact = said["compact"]
        assert compact.startswith("UserError: head_map of this qwen2_moe was written on transformers 5.")
        assert "hidden_size, num_heads, num_key_value_heads may count heads too. Load the folder `dense`" in compact
    else:
        assert said["compact"] == "loads, runs"


@pytest.mark.parametrize("first", ["import gnorm.hf, transformers", "import transformers, gnorm.hf"])
def test_the_import_works_before_and_after_transformers(first, make_tiny, tmp_path):
    tiny = make_tiny("bert")
    tiny.model.float()
    export.save(tmp_path / "out", pruned(tiny, "few"), tiny.tokenizer)
    code = f"""
import sys
sys.path.insert(0, sys.argv[2])
{first}
before = transformers.BertModel(transformers.BertConfig(num_hidden_layers=1))  # a model that is not pruned
model = transformers.BertForSequenceClassification.from_pretrained(sys.argv[1])
print(sum(p.numel() for p in model.parameters()), "textpruner" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-I", "-c", code, tmp_path / "out", ROOT / "scripts"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split() == [str(count(pruned(tiny, "few"))), "False"]


def test_a_pruned_folder_is_no_start_for_a_suite(make_tiny, tmp_path):
    tiny = make_tiny("bert")
    tiny.model.float()
    for save in (export.save, export.save_dense):
        save(tmp_path / "out", pruned(tiny, "few"), tiny.tokenizer)
        with pytest.raises(UserError, match="out has pruned heads or neurons already; start from an unpruned"):
            checkpoints.load(tmp_path / "out")


@pytest.mark.parametrize("family", [name for name in EVERY if families.load(name).textpruner])
def test_both_surgeries_leave_the_same_weights(family, make_tiny):
    """Bit by bit, whichever cuts, and gates that were set before stay."""
    tiny = make_tiny(family)
    model, heads = copy.deepcopy(tiny.model), tiny.heads
    ours = copy.deepcopy(model)
    (batch,) = tiny.batches(6, tokens=10_000)
    last = (heads.shape[0] - 1, heads.heads - 1)
    for one in (model, ours):
        Gates(one, heads)[last] = 0.25
    assert heads.textpruner
    for which in ("few", "empty", "all"):
        slots = [slot for slot in masks(tiny)[which][0] if slot != last or which == "all"]
        surgery.prune(model, heads, slots)
        surgery.prune(ours, replace(heads, textpruner=False), slots)
        assert torch.equal(heads.kept(model), heads.kept(ours))
        theirs, mine = model.state_dict(), ours.state_dict()
        assert theirs.keys() == mine.keys() and all(torch.equal(theirs[name], mine[name]) for name in mine)
        assert (logits(model, batch) - logits(ours, batch)).abs().max() < 1e-12
    assert {row: sorted(gone) for row, gone in pruned_heads(model).items()} == {
        row: sorted(gone) for row, gone in pruned_heads(ours).items()
    }


def test_textpruner_works_on_its_own_terms(make_tiny):
    """Its public API prunes heads and feed-forward neurons of a model on this version of transformers."""
    from textpruner import GeneralConfig, TransformerPruner

    tiny = make_tiny("bert")
    whole, model = count(tiny.model), copy.deepcopy(tiny.model).float()
    heads = torch.ones(3, 4)
    heads[0, 1] = heads[2, :] = 0
    neurons = torch.ones(3, 64)
    neurons[:, 32:] = 0
    with surgery.prunable(model):
        TransformerPruner(model, general_config=GeneralConfig(use_device="cpu", output_dir=".")).prune(
            head_mask=heads, ffn_mask=neurons, save_model=False
        )
    (batch,) = tiny.batches(4, tokens=10_000)
    assert logits(model, batch).isfinite().all()
    assert whole - count(model) == 5 * (4 * 32 * 8 + 3 * 8) + 3 * 32 * (2 * 32 + 1)
    assert hasattr(model.bert, "prune_heads") == transformers.__version__.startswith("4.")


def test_the_setting_decides_what_cuts(tmp_path, make_tiny, monkeypatch):
    """With `surgery: own` TextPruner is never asked, and jobs prune alike."""
    tiny = make_tiny("bert")
    checkpoints.save(tmp_path, tiny.model.float(), tiny.tokenizer)
    asked, theirs = [], surgery._prune_with_textpruner
    monkeypatch.setattr(surgery, "_prune_with_textpruner", lambda *args: (asked.append(1), theirs(*args)))
    weights = []
    for which in ("textpruner", "own"):
        bench = Loaded.load(checkpoint=tmp_path, on="cpu", surgery=which)
        model = bench.copy()
        surgery.prune(model, bench.heads, [(0, 1), (2, 3)])
        weights.append(model.state_dict())
    assert asked == [1] and all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


def test_jobs_prune_by_what_the_setting_says(tmp_path, make_tiny, monkeypatch):
    """Trajectories and random trials take the workbench's map, not one of their own."""
    tiny = make_tiny("bert")
    checkpoints.save(tmp_path, tiny.model.float(), tiny.tokenizer)
    monkeypatch.setattr(surgery, "_prune_with_textpruner", lambda *_: pytest.fail("TextPruner was asked"))
    bench = Loaded.load(checkpoint=tmp_path, on="cpu", surgery="own")
    heads = slot_map(bench.model, bench.heads, {"unit": "heads"})
    surgery.prune(bench.copy(), heads, [(0, 1)])
    for maps in controls(bench.model, bench.heads).values():
        model = bench.copy()
        for slots in maps:
            surgery.prune(model, slots, [(0, 0)])


def test_models_that_are_not_known_here_stay_as_transformers_makes_them(tmp_path):
    """A vision model that transformers 4 has pruned is its own affair."""
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=8, patch_size=4
    )
    config.pruned_heads = {0: []}
    whole = transformers.ViTModel(config)
    with export.rebuilding():
        config.pruned_heads = {0: [1]} if transformers.__version__.startswith("5.") else {0: []}
        assert count(transformers.ViTModel(config)) == count(whole)


def test_looking_for_the_module_does_not_use_the_import_up(make_tiny, tmp_path):
    tiny = make_tiny("bert")
    tiny.model.float()
    export.save(tmp_path / "out", pruned(tiny, "few"), tiny.tokenizer)
    code = f"""
import sys, importlib.util
sys.path.append({str(ROOT / "scripts")!r})
import gnorm.hf
importlib.util.find_spec("transformers.modeling_utils")
import transformers
assert transformers.utils.is_sklearn_available()  # it is installed, and the import leaves that alone
transformers.BertForSequenceClassification.from_pretrained(sys.argv[1])
assert transformers.utils.is_sklearn_available()
"""
    run = subprocess.run([sys.executable, "-I", "-c", code, tmp_path / "out"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]


IDS = """
import sys, transformers
tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(sys.argv[1])
print(tokenizer("kalo <|im_start|>", "rise")["input_ids"], tokenizer.additional_special_tokens
      if hasattr(tokenizer, "additional_special_tokens") else tokenizer.extra_special_tokens)
"""


@pytest.mark.parametrize("family", ["bert", "albert", "qwen2"])
def test_tokenizers_with_tokens_of_their_own_are_read_on_both_versions(family, make_tiny, tmp_path):
    tiny = make_tiny(family)
    key = "extra_special_tokens" if versions.FIVE else "additional_special_tokens"
    tiny.tokenizer.add_special_tokens({key: ["<|im_start|>"]})
    versions.write_tokenizer(tmp_path, tiny.tokenizer)
    expected = f"{tiny.tokenizer('kalo <|im_start|>', 'rise')['input_ids']} ['<|im_start|>']"
    for python in pythons():
        run = subprocess.run([python, "-I", "-c", IDS, tmp_path], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-2000:]
        assert run.stdout.strip() == expected


@pytest.mark.parametrize("family", ["bert", "albert", "roberta", "gpt2"])
def test_a_tokenizer_keeps_the_special_tokens_that_only_its_class_names(family, make_tiny, tmp_path):
    """Many folders of the hub have a `tokenizer_config.json` without them."""
    tiny = make_tiny(family)
    tiny.model.config.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    named = {"bert": "Bert", "albert": "Albert", "roberta": "Roberta", "gpt2": "Roberta"}[family]
    bare = {"tokenizer_class": f"{named}Tokenizer", "model_max_length": 48}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(bare))
    (tmp_path / "special_tokens_map.json").unlink(missing_ok=True)
    names = ("cls_token", "sep_token", "unk_token", "pad_token", "mask_token")
    found = versions.read_tokenizer(tmp_path)
    assert [getattr(found, name) for name in names] == [getattr(tiny.tokenizer, name) for name in names]
    assert [found(row["text"])["input_ids"] for row in tiny.rows] == [
        tiny.tokenizer(row["text"])["input_ids"] for row in tiny.rows
    ]
