"""Estimates of time and memory: from dimensions alone, and never too little for what was measured."""

import inspect
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from support import ROOT
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForSequenceClassification

from gnorm import scores, settings
from gnorm.engine.batches import Batch
from gnorm.engine.footprint import bytes_per_token
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.planning import cost
from gnorm.published import paper

PREDICTING = {"gnorm", "gradient", "mask_gradient", "fisher", "taylor", "entropy"}


def load(suite, **changes):
    import yaml

    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"suite": suite} | changes
    loaded = settings.load(config, ROOT)
    shapes = {name: cost.shape(entry) for name, entry in loaded["models"].items()}
    return cost.Estimator(loaded, cost.laws(ROOT), shapes)


@pytest.mark.parametrize("name", paper.MODELS)
def test_parameters_are_those_of_the_paper(name):
    of = paper.MODELS[name]
    shape = load("paper").shapes[name]
    assert shape.source == "the paper" and shape.slots == len("".join(of.mask.split()))
    classifier = of.width * of.classes + of.classes
    assert shape.parameters + classifier == of.parameters[0][1]


def test_dimensions_come_from_the_files_once_they_are_there(make_tiny, tmp_path):
    tiny = make_tiny("albert")
    tiny.model.config.save_pretrained(tmp_path)
    entry = {"checkpoint": {"source": "hub", "id": "someone/unknown"}}
    assert cost.shape(entry).source.startswith("nothing") and cost.shape(entry).layers == 24
    shape = cost.shape(entry, [tmp_path / "missing", tmp_path])
    classifier = sum(p.numel() for p in tiny.model.classifier.parameters())
    assert shape.parameters + classifier == sum(p.numel() for p in tiny.model.parameters())
    assert cost.shape({"checkpoint": {"source": "local", "path": str(tmp_path)}}) == shape


def test_a_large_model_asks_for_more_than_a_small_one():
    paper_suite, mini = load("paper"), load("mini")
    greedy = {name: paper_suite.prune_heads(name, "greedy_gnorm", 1, False) for name in paper.MODELS}
    assert greedy["ROBERTA"] > greedy["BERT"] > greedy["ALBERT"] > 600
    assert mini.prune_heads("BERT", "greedy_gnorm", 3, False) < 60
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
    found = cost.shape({"checkpoint": {"source": "local", "path": str(tmp_path)}})
    parameters = sum(p.numel() for p in tiny.model.parameters())
    assert found.rotary == rotary and parameters <= found.parameters < 1.15 * parameters


def test_a_model_that_could_read_much_asks_for_what_a_batch_has(tmp_path):
    """Qwen2-0.5B: 131,072 positions, and batches of 2048 tokens."""
    sizes = {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}
    config = AutoConfig.for_model("qwen2", intermediate_size=4864, vocab_size=151936, **sizes)
    suite = load("mini")
    suite.settings["models"]["LLAMA"]["checkpoint"] = {"source": "local", "path": str(tmp_path)}
    asked = []
    for positions in (131072, 2048, 512):
        config.max_position_embeddings = positions
        config.save_pretrained(tmp_path)
        suite.shapes["LLAMA"] = cost.shape(suite.settings["models"]["LLAMA"])
        asked.append(suite.memory_mb("LLAMA"))
    assert suite.shapes["LLAMA"].megabytes == pytest.approx(4 * 494e6 / 2**20, rel=0.1)
    assert asked[0] == asked[1] < 30_000 and asked[2] < asked[1]


def test_memory_for_attention_matrices_is_asked_for_where_a_criterion_keeps_them():
    def asked(**changes):
        return load("paper", **{"compare": ["gnorm"], **changes}).memory_mb("BERT")

    strategies = {"greedy_gnorm": {"score": "gnorm"}}
    hybrid = {"score": "hybrid", "settings": {"of": {"fisher": 1, "taylor": 1}}}
    plain = asked(strategies=strategies)
    assert plain == asked(strategies=strategies, compare=["gnorm", "entropy", "shapley"])
    for more in ({"compare": ["taylor"]}, {"strategies": strategies | {"new": {"score": "attribution"}}}):
        assert asked(**{"strategies": strategies, **more}) > plain
    assert asked(strategies=strategies | {"new": hybrid}) > plain


def test_the_suite_may_say_what_a_job_asks_for():
    suite = load("mini")
    suite.settings["jobs"]["memory_mb"] = 7777
    assert suite.memory_mb("BERT") == 7777


def test_costs_grow_as_the_laws_say():
    suite = load("paper")
    once = suite.entropy_shard("BERT", 100) - suite.start("BERT")
    assert suite.entropy_shard("BERT", 300) - suite.start("BERT") == pytest.approx(3 * once)
    static = suite.prune_heads("BERT", "static_gnorm", 1, False)
    assert static < suite.prune_heads("BERT", "greedy_gnorm", 1, False)
    assert suite.prune_heads("BERT", "ae", 1, True) < static
    fast = load("paper", device_speed=20)
    slow = suite.prune_heads("BERT", "greedy_gnorm", 1, False) - suite.start("BERT")
    quick = fast.prune_heads("BERT", "greedy_gnorm", 1, False) - fast.start("BERT")
    assert slow / quick == pytest.approx(20 * cost.BENCH_THREADS / 4)  # the suite has 4 threads
    half = load("paper", stop={"fraction": 0.5})
    assert half.prune_heads("BERT", "ae", 1, True) < suite.prune_heads("BERT", "ae", 1, True)


def test_the_laws_fit_what_they_are_fitted_to():
    measured = cost.read_measured(ROOT / "benchmarks/calibration.csv")
    laws = cost.laws(ROOT)
    for point in measured:
        shape = cost.Shape("bert", point.layers, 12, point.width, point.feed_forward, 1, 1, 1, "")
        estimate = point.tokens * laws.token(point.procedure, shape)
        assert estimate == pytest.approx(point.thread_seconds, rel=0.35), point


def test_the_fit_recovers_a_law():
    def point(width):
        bare = cost.Measured("forward", "x", 2, width, 4 * width, 100, 1.0)
        return cost.Measured("forward", "x", 2, width, 4 * width, 100, 200 * (3e-9 * bare.flops + 5e-6 * bare.elements))

    assert cost.fit([point(width) for width in (64, 384, 768)]) == pytest.approx((3e-9, 5e-6))


def test_the_benchmarks_own_files_can_calibrate(tmp_path):
    (tmp_path / "shapes").mkdir()
    for name, factor in (("BERT", 1.0), ("MiniLM", 0.2)):
        lines = ["section,shape,procedure,repeat,value,unit,machine"]
        machine = '"4 threads of a CPU"'
        for section, procedure, value in (
            ("full", "engine", 2.0),
            ("accuracy", "here", 1.0),
            ("entropy", "here", 1.5),
            ("tokens", "full", 100),
            ("tokens", "accuracy", 100),
        ):
            scaled = value if section == "tokens" else value * factor
            lines.append(f"{section},{name},{procedure},0,{scaled},s,{machine}")
        Path(tmp_path, "shapes", f"{name}.csv").write_text("\n".join(lines) + "\n")
    laws = cost.laws(ROOT, tmp_path)
    bert = load("paper").shapes["BERT"]
    assert 100 * laws.token("forward", bert) == pytest.approx(4 * 1.0, rel=0.3)
    assert laws.token("scoring", bert) > laws.token("entropy", bert) > laws.token("forward", bert)
    slower = laws.token("forward", bert) / cost.laws(ROOT).token("forward", bert)
    assert laws.token("training", bert) / cost.laws(ROOT).token("training", bert) == pytest.approx(slower)


def test_a_score_costs_as_many_passes_as_it_says():
    settings_of = {"shapley": {"permutations": 5}, "attribution": {"steps": 2, "objective": "logit_norm"}}
    names = ("magnitude", "fisher", "leave_one_out", "shapley", "attribution", "both")
    strategies = {name: {"score": name, "rescore": "never"} for name in names if name != "both"}
    strategies["both"] = {"score": "hybrid", "rescore": "never", "settings": {"of": {"fisher": 1, "gnorm": 1}}}
    suite = load("paper", scores=settings_of, strategies=strategies, solutions={"strategy": "fisher"})
    seconds = {name: suite.prune_heads("BERT", name, 1, False) for name in names}
    score = {name: value - seconds["magnitude"] for name, value in seconds.items()}
    rows = suite.settings["models"]["BERT"]["rows"]["calibration"]
    forward, both_ways = (cost.KEPT * suite._pass(p, "BERT", rows) for p in ("forward", "scoring"))
    assert score["fisher"] == pytest.approx(both_ways)
    assert score["leave_one_out"] == pytest.approx(145 * forward)
    assert score["shapley"] == pytest.approx((2 + 5 * 143) * forward)
    assert score["attribution"] == pytest.approx(24 * both_ways)
    assert score["both"] == pytest.approx(2 * both_ways)  # at most; here they share none


def test_the_criteria_that_predict_are_those_that_take_what_is_seen():
    for name in {*scores.names()} - {"hybrid"}:
        takes = "seen" in inspect.signature(scores.load(name).score).parameters
        assert scores.describe(name).predicts({}) == takes == (name in PREDICTING), name
    assert not scores.describe("gnorm").predicts({"precision": "bfloat16"})
    assert scores.describe("hybrid").predicts({"members": {"magnitude": {}, "fisher": {}}})
    assert not scores.describe("hybrid").predicts({"members": {"magnitude": {}, "shapley": {}}})


@pytest.mark.parametrize("name", ["magnitude", "leave_one_out", "shapley", "attribution", "hard_concrete", "weights"])
def test_rows_that_scoring_does_not_predict_are_evaluated(name):
    """In the suite `paper` BERT is evaluated on the rows it is scored on."""
    entry = {"score": name}
    if name == "weights":
        entry = {"score": "hybrid", "settings": {"of": {"magnitude": 1, "random": 1}}}
    strategies = {"other": entry, "free": {"score": "gnorm"}, "entropy": {"score": "entropy"}}
    suite = load("paper", strategies=strategies, solutions={"strategy": "free"})
    rows, slots = suite.settings["models"]["BERT"]["rows"], suite.shapes["BERT"].slots
    assert rows["evaluation"] == rows["entropy"] == "same" and slots == 144

    def evaluating(name):
        """Seconds of a trajectory beside its scores."""
        plan = suite.settings["models"]["BERT"]["strategies"][name]
        score = suite._score(plan["score"], plan["settings"], "BERT", 2329, slots)
        return suite.prune_heads("BERT", name, 1, False) - suite.start("BERT") - cost.KEPT * slots * score

    passes = cost.KEPT * slots * cost.REUSED * suite._pass("forward", "BERT", 2329)
    assert evaluating("other") == pytest.approx(passes)
    assert evaluating("free") == pytest.approx(0, abs=1e-6 * passes)
    assert evaluating("entropy") == pytest.approx(0, abs=1e-6 * passes)


def test_a_strategy_of_neurons_has_a_step_a_group():
    strategies = {
        name: {"score": "leave_one_out", "rescore": "never", "unit": unit}
        for name, unit in (("of_heads", "heads"), ("of_neurons", "neurons"))
    }
    suite = load("paper", strategies=strategies, neurons={"group": 64}, solutions={"strategy": "of_heads"})
    slots = {"BERT": (144, 12 * 48), "ALBERT": (12, 48)}
    for model, counts in slots.items():
        rows = suite.settings["models"][model]["rows"]["calibration"]
        a_pass, evaluation = (suite._pass("forward", model, n) for n in (rows, suite.evaluated(model)))
        reused = 1 if model == "ALBERT" else cost.REUSED
        for name, count in zip(strategies, counts, strict=True):
            expected = cost.KEPT * ((1 + count) * a_pass + count * reused * evaluation)
            assert suite.prune_heads(model, name, 1, False) - suite.start(model) == pytest.approx(expected)


def test_controls_cost_four_evaluations():
    suite = load("paper")
    four = 4 * cost.KEPT * suite._pass("forward", "BERT", suite.evaluated("BERT"))
    assert suite.seconds("measure_controls", {"model": "BERT"}) - suite.start("BERT") == pytest.approx(four)


def test_a_comparison_costs_its_scores_and_its_curves():
    few, more = (load("paper", compare=names).compare_criteria("BERT") for names in (["fisher"], ["fisher", "taylor"]))
    suite = load("paper")
    a_score, evaluation = suite._pass("scoring", "BERT", 2329), cost.KEPT * suite._pass("forward", "BERT", 2329)
    assert more - few == pytest.approx(3 * (a_score + 24 * evaluation))
    assert load("paper", compare=["fisher", "entropy"]).compare_criteria("BERT") < more
