"""What is particular to a card: training, states, memory, batch size, operations that are not deterministic."""

import gc
import logging
import os
import re

import pretended
import pytest
import torch
from jobs import FAMILIES, Interrupted, Jobs, on_disk, read_json
from support import FAMILIES as ENCODERS
from support import OTHERS, ROOT, Tiny, copy_workflow, snakemake

from gnorm import devices
from gnorm.benchmarks import models, shapes
from gnorm.data.rows import read
from gnorm.engine import batches, memory
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.finite import NotFinite
from gnorm.engine.memory import LEAST, Probe, token_budget
from gnorm.errors import UserError
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.scores import entropy, gnorm, mask_gradient

# Operations that the documentation of torch.use_deterministic_algorithms says will raise; pretended.py knows them too.
LISTED = """AvgPool3d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool2d FractionalMaxPool2d FractionalMaxPool3d
MaxUnpool1d MaxUnpool2d MaxUnpool3d interpolate ReflectionPad1d ReflectionPad2d ReflectionPad3d NLLLoss CTCLoss
EmbeddingBag put_ put_ histc bincount median grid_sample cumsum scatter_reduce resize_""".split()


@pytest.fixture
def source(tmp_path):
    return on_disk(tmp_path / "source", "bert")


@pytest.fixture
def loaded(source):
    """A model on the card, its map and its tokenizer."""
    model, tokenizer = checkpoints.load(source / "checkpoint")
    return model, head_map(model), tokenizer


def test_it_refuses_what_cuda_refuses(monkeypatch):
    there, here = torch.ones(2, 2, device="cuda"), torch.ones(2, 2)
    other = torch.ones(2, 2, device="cuda:1")
    for wrong in (
        lambda: there + here,
        lambda: there @ here,
        lambda: there + other,
        lambda: here[there.long()],
        lambda: torch.where(there > 0, here, there),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.raises(TypeError):
        there.numpy()
    assert (there + torch.tensor(1.0)).tolist() == [[2, 2], [2, 2]]  # a number may come from the host
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match="cumsum does not have a deterministic implementation"):
        there.cumsum(0)
    there.long().cumsum(0)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    with pytest.raises(RuntimeError, match="CuBLAS"):
        there @ there


def test_it_knows_what_torch_lists():
    """If this fails, torch has changed its list: look at `NEVER` and `SOMETIMES` of pretended.py again."""
    said = torch.use_deterministic_algorithms.__doc__.split("operations will throw a")[1].split("In addition")[0]
    assert re.findall(r"^ +\* :\w+:`torch\.(?:\w+\.)*(\w+)`", said, re.M) == LISTED


@pytest.mark.parametrize("family", [*ENCODERS, *OTHERS])
def test_no_family_needs_an_operation_that_is_not_deterministic(family):
    """Forward and backward to the weights, as in training, then scores and accuracy: those on the list would raise."""
    tiny = Tiny(family, writes=family in ("gpt2", "llama", "qwen2"))
    model = tiny.model.float().to(devices.device())
    assert torch.are_deterministic_algorithms_enabled()
    made = tiny.batches(6)
    model.requires_grad_().train()
    for batch in made:
        batch = batch.to(model.device)
        logits = model(**batch.inputs).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, -2), batch.labels.flatten(), ignore_index=-1).backward()
    model.requires_grad_(False).eval()
    pretended.USED.clear()
    for criterion in (gnorm, mask_gradient, entropy):
        assert criterion.score(model, tiny.heads, tiny.batches(6)).isfinite().all()
    Evaluation(tiny.batches(6), tiny.heads, 10).accuracy(model)
    assert torch.are_deterministic_algorithms_enabled() and pretended.USED["bmm"] > 10


def test_an_operation_without_a_deterministic_kernel_is_told(loaded, source, caplog, short_probe):
    """A stranger's model may use one: the job goes on, and its log says what that means."""
    model, heads, tokenizer = loaded

    def cumulate(_module, _args, output):
        return output + 0 * output.cumsum(-1)

    model.classifier.register_forward_hook(cumulate)
    rows = read(source / "dataset", "calibration")
    for work in (
        lambda: gnorm.score(model, heads, batches.make(tokenizer, rows, 1000)).isfinite().all(),
        lambda: memory.probed(model, heads, tokenizer, rows) >= LEAST,
    ):
        torch.use_deterministic_algorithms(True)
        caplog.clear()
        assert work()
        assert "cumsum has no deterministic kernel here: results may differ from run to run" in caplog.text


def test_a_card_that_torch_has_no_kernels_for(monkeypatch, fresh):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (7, 0) if device == 0 else (8, 0))
    assert devices.device() == torch.device("cuda:1")
    fresh()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (7, 0))
    with pytest.raises(UserError, match=r"no kernels for pretended card \(compute capability 7.0\): install a build"):
        devices.device()


def test_the_log_says_what_is_exact(caplog):
    caplog.set_level(logging.INFO)
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    assert devices.device() == torch.device("cuda:0")
    assert "on cuda:0; CUDA_VISIBLE_DEVICES is" in caplog.text
    assert "pretended card, TF32 off, deterministic on" in caplog.text
    assert torch.get_float32_matmul_precision() == "highest" and not torch.backends.cudnn.allow_tf32
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] in devices.FIXED


def test_the_users_own_workspace_wins(source, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    Jobs(tmp_path, "bert", source).make_checkpoint()
    assert not torch.are_deterministic_algorithms_enabled() and os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":0:0"
    assert "CUBLAS_WORKSPACE_CONFIG is :0:0: results may differ from run to run" in caplog.text


@pytest.mark.parametrize(
    "family,kind", [*((family, "train") for family in FAMILIES), ("bert", "finetune"), ("albert", "finetune")]
)
def test_training_goes_on_to_the_same_weights(family, kind, tmp_path):
    """Fine-tuning has dropout, for which the card draws."""
    jobs = Jobs(tmp_path, family, on_disk(tmp_path / "source", family))
    jobs.make_checkpoint("whole", kind)
    with pytest.raises(Interrupted):
        jobs.make_checkpoint("parts", kind, killed_after=1)
    jobs.make_checkpoint("parts", kind)
    one, two = jobs.weights("whole"), jobs.weights("parts")
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_training_does_not_go_on_on_another_kind_of_device(source, tmp_path, fresh, caplog):
    jobs = Jobs(tmp_path, "bert", source)
    with pytest.raises(Interrupted):
        jobs.make_checkpoint("moved", killed_after=1)
    fresh()
    with pretended.on_cpu():
        jobs.make_checkpoint("moved")
        jobs.make_checkpoint("here")
    assert "it belongs to another device (cuda, now cpu)" in caplog.text
    one, two = jobs.weights("moved"), jobs.weights("here")
    assert all(torch.equal(one[name], two[name]) for name in one)  # trained anew, on one device


def test_a_trajectory_does_not_go_on_on_another_kind_of_device(source, tmp_path, fresh, caplog, monkeypatch):
    from gnorm.pruning.runs import Steps

    jobs, real, steps = Jobs(tmp_path, "bert", source), Steps.add, []

    def add(progress, *step):
        real(progress, *step)
        steps.append(step)
        if len(steps) == 3:
            raise Interrupted

    monkeypatch.setattr(Steps, "add", add)
    with pretended.on_cpu(), pytest.raises(Interrupted):
        jobs.prune_heads()
    fresh()
    jobs.prune_heads()
    assert re.search(r"it belongs to another device \(cpu, now cuda\)", caplog.text)
    fresh()
    caplog.clear()
    steps.clear()
    jobs.prune_heads()  # the finished state is of the card: nothing is computed again
    assert not steps and "another device" not in caplog.text


def test_a_full_card_halves_the_batch(loaded, source, caplog):
    model, heads, tokenizer = loaded
    rows = read(source / "dataset", "train")
    card = pretended.CARDS[0]

    def score():
        made = batches.resident(batches.make(tokenizer, rows, 10_000), model.device)
        return gnorm.score(model, heads, made), len(made)

    expected, whole = score()
    before, card.peak = card.memory, card.live
    score()
    try:
        card.memory = card.live + (card.peak - card.live) // 2
        found, parts = score()
        assert "CUDA out of memory" not in caplog.text and "the budget is halved" in caplog.text
        assert whole == 1 and parts > 1
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)
        gc.collect()  # what earlier scores have left would make room
        card.memory = card.live + 1000
        with pytest.raises((UserError, torch.OutOfMemoryError), match="does not fit into memory|out of memory"):
            score()
    finally:
        card.memory = before


def test_the_batch_size_is_found_and_kept(loaded, source, tmp_path, caplog, short_probe):
    caplog.set_level(logging.INFO)
    model, heads, _ = loaded
    probe = Probe(source / "checkpoint", source / "dataset", tmp_path / "state/model.tokens.json")
    assert token_budget(77, model, heads, None, 0, probe) == 77 and not probe.kept.exists()
    found = token_budget("auto", model, heads, None, 0, probe)
    assert found >= LEAST and found & (found - 1) == 0
    assert (
        caplog.text.count("probe: ") >= 2
        and f"batches of at most {found} tokens, found on pretended card" in caplog.text
    )
    assert read_json(probe.kept)["tokens"] == found
    assert [path.name for path in probe.kept.parent.iterdir()] == ["model.tokens.json"]
    probe.kept.write_text(probe.kept.read_text().replace(str(found), "512"))
    caplog.clear()
    assert token_budget("auto", model, heads, None, 0, probe) == 512  # as an earlier job found it
    assert "probe: " not in caplog.text
    probe.kept.write_text("{}")  # of another model
    assert token_budget("auto", model, heads, None, 0, probe) >= LEAST and "probe: " in caplog.text


def test_the_first_job_to_keep_a_batch_size_sets_it(tmp_path, monkeypatch):
    file, one, two = tmp_path / "tokens.json", {"tokens": 512, "parameters": 9}, {"tokens": 1024, "parameters": 9}
    memory._keep(file, one)
    memory._keep(file, two)
    assert read_json(file) == one
    memory._keep(file, {**two, "parameters": 10})  # of another model
    assert read_json(file)["parameters"] == 10
    file.unlink()

    def none(*_):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(memory.os, "link", none)
    memory._keep(file, two)
    assert read_json(file) == two and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("length", [20, 300, 500])
def test_a_probe_goes_on_while_it_gets_faster(length, loaded, monkeypatch):
    """On a card that takes as long for 4096 tokens as for one, whatever the length of rows."""
    model, heads, _ = loaded
    monkeypatch.setattr(memory, "_measured", lambda _m, _h, inputs: (max(1, inputs["input_ids"].numel() / 4096), 1))
    rows = models.rows(shapes.NARROW, 3, length)
    assert memory.probed(model, heads, models.Ids(shapes.NARROW), rows) in (4096, 8192)


def test_a_probe_stops_where_memory_would_be_full(loaded, source, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    model, heads, tokenizer = loaded
    rows, real = read(source / "dataset", "evaluation"), memory._measured
    monkeypatch.setattr(memory, "_measured", lambda *given: (1e-3, real(*given)[1]))  # ever faster
    card, before = pretended.CARDS[0], pretended.CARDS[0].memory

    def tried():
        found = re.findall(r"probe: (\d+) tokens, .* (inf|\d+) MB at the peak", caplog.text)
        caplog.clear()
        return [int(tokens) for tokens, _ in found], [float(peak) for _, peak in found]

    try:
        at_start, card.memory = card.live / 2**20, card.live + 12 * 2**20
        found = memory.probed(model, heads, tokenizer, rows)
        tokens, peaks = tried()
        assert LEAST < found == tokens[-2] and peaks[-2] <= at_start + 0.8 * 12 < peaks[-1]
        assert memory.probed(model, heads, tokenizer, rows, reuse_mb=6) < found  # which stays free
        tried()
        assert memory.probed(model, heads, tokenizer, rows, reuse_mb=12) == LEAST
        assert "memory is short: take a GPU with more, or lower reuse_mb" in caplog.text
    finally:
        card.memory = before


def test_a_broken_weight_is_named_on_a_card_too(loaded, source):
    model, heads, tokenizer = loaded
    made = batches.resident(batches.make(tokenizer, read(source / "dataset", "evaluation"), 60), model.device)
    model.get_submodule(heads.blocks[1].value).weight[2 * heads.width, 0] = float("nan")
    for work in (lambda: Evaluation(made, heads).accuracy(model), lambda: gnorm.score(model, heads, made)):
        with pytest.raises(NotFinite, match=r"logits are not finite for row \d+: it begins in layer 1, head 2"):
            work()


def test_little_is_computed_in_float64(loaded, source):
    """Blocks are added up in float32: of float64, a score needs no more than a few numbers a token and head."""
    model, heads, tokenizer = loaded
    made = batches.resident(batches.make(tokenizer, read(source / "dataset", "calibration"), 1000), model.device)
    tokens = sum(batch.tokens for batch in made)
    pretended.DOUBLE.clear()
    gnorm.score(model, heads, made)
    assert 0 < sum(pretended.DOUBLE.values()) < 3 * 2 * tokens * heads.total, pretended.DOUBLE


def test_two_jobs_at_once_have_a_card_each(tmp_path):
    """Through Snakemake, as on a machine with two cards."""
    tree = copy_workflow(tmp_path / "tree")
    settings = {
        "PYTHONPATH": str(ROOT / "tests/gpu/everywhere"),
        "PRETENDED_CARDS": "2",
        "PRETENDED_HOST": str(tmp_path),
    }
    wanted = [f"results/smoke/{model}/checkpoint" for model in ("BERT", "ALBERT")]
    made = snakemake(tree, "--resources", "gpu=2", "--config", "suite=smoke", "--", *wanted, **settings)
    assert made.returncode == 0, made.stderr[-3000:]
    logs = [tree / f"results/smoke/logs/make_checkpoint/{model}.log" for model in ("BERT", "ALBERT")]
    used = [re.search(r"on (cuda:\d); .*TF32 off, deterministic on", path.read_text())[1] for path in logs]
    assert sorted(used) == ["cuda:0", "cuda:1"]
