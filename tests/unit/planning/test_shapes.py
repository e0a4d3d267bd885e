"""Dimensions of models, and memory: never too little for what was measured."""

from itertools import accumulate
from types import SimpleNamespace

import pytest
import torch
from support import costs_of
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForSequenceClassification

from gnorm import scores
from gnorm.engine.batches import Batch
from gnorm.engine.footprint import bytes_per_token
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.planning.shapes import shape, slots_of, steps_of
from gnorm.pruning.trajectory import Stop
from gnorm.published import paper


@pytest.mark.parametrize("name", paper.MODELS)
def test_parameters_are_those_of_the_paper(name):
    of = paper.MODELS[name]
    planned = costs_of("paper").shapes[name]
    assert planned.source == "the paper" and planned.slots == len("".join(of.mask.split()))
    classifier = of.width * of.classes + of.classes
    assert planned.parameters + classifier == of.parameters[0][1]


def test_dimensions_come_from_the_files_once_they_are_there(make_tiny, tmp_path):
    tiny = make_tiny("albert")
    tiny.model.config.save_pretrained(tmp_path)
    entry = {"checkpoint": {"source": "hub", "id": "someone/unknown"}}
    assert not shape(entry).known and shape(entry).layers == 24
    minilm = costs_of("minilm").shapes["TWEETS"]
    assert minilm.known and minilm.parameters == 22_713_216  # its authors say 22.7 million
    entry |= {"dimensions": costs_of("minilm").settings["models"]["TWEETS"]["dimensions"]}
    of_files = shape(entry, [tmp_path / "missing", tmp_path])
    classifier = sum(p.numel() for p in tiny.model.classifier.parameters())
    assert of_files.parameters + classifier == sum(p.numel() for p in tiny.model.parameters())
    assert shape({"checkpoint": {"source": "local", "path": str(tmp_path)}}) == of_files


def test_a_large_model_asks_for_more_memory_than_a_small_one():
    paper_suite, mini = costs_of("paper"), costs_of("mini")
    assert paper_suite.memory_mb("ROBERTA") > paper_suite.memory_mb("BERT") > mini.memory_mb("BERT")
    # What the benchmark measured: the model twice and the peak of a step, with the libraries.
    for name, model, peak in (("BERT", 390, 1221), ("ROBERTA", 1356, 2810), ("ALBERT", 45, 1640)):
        assert paper_suite.memory_mb(name) > 700 + 2 * model + peak


def peak_mb(work):
    """The most memory that is allocated at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda e: e.start_ns()))) / 2**20


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "llama"])
def test_a_long_row_takes_no_more_memory_than_is_said(family):
    """Attention matrices are most of it: of all layers for taylor and attribution, of one for entropy."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 12, "num_attention_heads": 8, "intermediate_size": 64}
    config = AutoConfig.for_model(
        family, vocab_size=50, max_position_embeddings=256, num_labels=2, pad_token_id=0, **sizes
    )
    model = checkpoints.fuse(AutoModelForSequenceClassification.from_config(config).eval().requires_grad_(False))
    heads, ids = head_map(model), torch.randint(1, 50, (1, 256), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    batch = Batch(inputs, torch.tensor([1]), torch.tensor([0]), torch.ones(1).double(), torch.tensor([0]))
    dimensions = (12, 8, 64, heads.inner, 256, family == "albert", 2048)
    plain, more = (256 * bytes_per_token(*dimensions, matrices=matrices) / 2**20 for matrices in (False, True))
    for name in ("gnorm", "entropy", "taylor", "attribution"):
        criterion, settings_of = scores.load(name), {"steps": 2} if name == "attribution" else {}
        used = peak_mb(lambda c=criterion, s=settings_of: c.score(model, heads, [batch], **s))
        if getattr(criterion, "ATTENTION", None) == "backward":
            assert plain < used < more < 1.4 * used, name
        else:
            assert used < plain, name


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_parameters_of_decoders_are_those_they_have(make_tiny, family, tmp_path):
    """Or a few more: K and V are counted as wide as Q, and a pooler too. Positions may have no weights."""
    tiny = make_tiny(family)
    rotary = family != "gpt2"
    tiny.model.config.max_position_embeddings = 5000 if rotary else 52
    tiny.model.config.save_pretrained(tmp_path)
    planned = shape({"checkpoint": {"source": "local", "path": str(tmp_path)}})
    parameters = sum(p.numel() for p in tiny.model.parameters())
    assert planned.rotary == rotary and parameters <= planned.parameters < 1.15 * parameters


def test_a_model_that_could_read_much_asks_for_what_a_batch_has(tmp_path):
    """Qwen2-0.5B: 131,072 positions, and batches of 2048 tokens."""
    sizes = {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}
    config = AutoConfig.for_model("qwen2", intermediate_size=4864, vocab_size=151936, **sizes)
    suite = costs_of("mini")
    suite.settings["models"]["LLAMA"]["checkpoint"] = {"source": "local", "path": str(tmp_path)}
    asked = []
    for positions in (131072, 2048, 512):
        config.max_position_embeddings = positions
        config.save_pretrained(tmp_path)
        suite.shapes["LLAMA"] = shape(suite.settings["models"]["LLAMA"])
        asked.append(suite.memory_mb("LLAMA"))
    assert suite.shapes["LLAMA"].parameters == pytest.approx(494e6, rel=0.1)
    assert asked[0] == asked[1] < 30_000 and asked[2] < asked[1]


def test_memory_for_attention_matrices_is_asked_for_where_a_criterion_keeps_them():
    def asked(**changes):
        return costs_of("paper", **{"compare": ["gnorm"], **changes}).memory_mb("BERT")

    strategies = {"greedy_gnorm": {"score": "gnorm"}}
    hybrid = {"score": "hybrid", "settings": {"of": {"fisher": 1, "taylor": 1}}}
    plain = asked(strategies=strategies)
    assert plain == asked(strategies=strategies, compare=["gnorm", "entropy", "shapley"])
    for more in ({"compare": ["taylor"]}, {"strategies": strategies | {"new": {"score": "attribution"}}}):
        assert asked(**{"strategies": strategies, **more}) > plain
    assert asked(strategies=strategies | {"new": hybrid}) > plain


def test_the_suite_may_say_what_a_job_asks_for():
    suite = costs_of("mini")
    suite.settings["jobs"]["memory_mb"] = 7777
    assert suite.memory_mb("BERT") == 7777


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("unit", ["heads", "neurons"])
def test_a_trajectory_takes_as_many_steps_as_its_plan_counts(tied, unit):
    of = SimpleNamespace(slots=10 if tied else 30, layers=3, feed_forward=40, tied=tied)
    strategy = {"unit": unit, "group": 4}
    slots, together = slots_of(strategy, of), 3 if tied else 1
    limits = [{}, *({"heads": n} for n in (0, 1, 2, 7, 29, 30, 99)), {"heads": 12, "fraction": 0.29}]
    for stop in limits + [{"fraction": share / 100} for share in range(1, 101)]:
        steps = 0
        while steps < slots and not Stop(**stop).enough((steps + 1) * together, slots * together):
            steps += 1
        assert steps_of(strategy, of, stop) == steps, stop


def test_a_share_of_heads_that_is_an_ulp_less_is_that_share():
    hundred = SimpleNamespace(slots=100, tied=False)
    assert steps_of({"unit": "heads"}, hundred, {"fraction": 0.29}) == 29  # 0.29 * 100 is less, by an ulp
