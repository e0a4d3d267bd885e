"""The benchmark's naive procedures compute what the engine computes; its shapes are the paper's."""

import time

import pytest
import torch
import yaml
from support import ROOT, run_python

from gnorm.benchmarks import clock, models, naive, shapes, summary
from gnorm.engine.batches import in_order
from gnorm.engine.evaluate import Evaluation
from gnorm.published import paper
from gnorm.published.architectures import without_weights
from gnorm.scores import entropy, gnorm
from gnorm.settings import suites

PAPER = suites.models_of(ROOT, "paper")


def test_the_notebooks_procedure_is_that_of_granularity_batch(tiny):
    made = in_order(tiny.tokenizer, tiny.rows[:7], 3)
    found = naive.notebooks(tiny.model, tiny.heads, made, tiny.heads.shape[0])
    assert torch.allclose(found, gnorm.score(tiny.model, tiny.heads, made, granularity="batch"), rtol=1e-9)
    assert not any(p.requires_grad or p.grad is not None for p in tiny.model.parameters())


def test_the_loop_over_sentences_is_that_of_granularity_sentence(tiny):
    found = naive.sentences(tiny.model, tiny.heads, in_order(tiny.tokenizer, tiny.rows[:6], 1))
    assert torch.allclose(found, gnorm.score(tiny.model, tiny.heads, tiny.batches(6)), rtol=1e-9)


def test_one_at_a_time_gives_the_same_accuracy_and_entropy(tiny):
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    one = in_order(tiny.tokenizer, tiny.rows[:9], 1)
    assert naive.accuracy(tiny.model, one) == Evaluation(tiny.batches(9), tiny.heads).accuracy(tiny.model).value
    tiny.model.config._attn_implementation = "eager"
    found = tiny.heads.to_slots(naive.entropy(tiny.model, tiny.heads, one))
    assert torch.allclose(found, entropy.score(tiny.model, tiny.heads, tiny.batches(9)), rtol=1e-9)


@pytest.mark.parametrize(
    "name,parameters",
    [("BERT", 102_269_955), ("ALBERT", 11_685_891), ("RoBERTa", 355_361_794), ("XLM-RoBERTa", 278_059_028)],
)
def test_shapes_are_those_of_the_paper(name, parameters):
    model = without_weights(shapes.SHAPES[name])
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_rows_have_realistic_lengths():
    lengths = [len(row["text"].split()) for row in models.rows(shapes.SHAPES["BERT"], 500)]
    assert sum(lengths) / 500 == pytest.approx(shapes.SHAPES["BERT"].length, rel=0.1)
    assert min(lengths) < 10 and max(lengths) > 40


def test_peak_memory_is_what_was_allocated():
    def work():
        tensor = torch.ones(40 * 2**18)  # 40 MB
        time.sleep(0.1)  # for the sampler to see it on a busy machine
        del tensor
        torch.ones(2**18)

    assert 35 < clock.peak_mb(work) < 50


@pytest.mark.parametrize("name", paper.MODELS)
def test_rows_and_batches_are_those_of_the_suite(name):
    shape, entry = shapes.SHAPES[paper.MODELS[name].title], PAPER[name]
    assert (shape.length, shape.batch) == (entry["row_tokens"], entry["batch_rows"])


def test_the_papers_runs_are_those_of_the_suite():
    """Rows scored, evaluated, and evaluated alone: as the suite has them, and nowhere else."""
    said = {name: summary.rows_of(entry) for name, entry in PAPER.items()}
    assert said == {
        "BERT": (2329, 2329, 0),
        "ALBERT": (9815, 9815, 0),
        "ROBERTA": (252, 1000, 1000),  # which of the rows that are scored have a class is not known
        "XLM_ROBERTA": (504, 3000, 2496),
    }
    apart = {"rows": {"calibration": 8, "evaluation": 20, "disjoint": True}, "dataset": {}}
    assert summary.rows_of(apart) == (8, 20, 20)
    written = yaml.safe_load((ROOT / "suites/paper.yaml").read_text())["models"]
    assert {n: e["rows"]["calibration"] for n, e in written.items()} == {n: rows[0] for n, rows in said.items()}


def test_summary_needs_no_torch():
    made = run_python("import sys, gnorm.benchmarks.plot, gnorm.pages.bench; print('torch' in sys.modules)")
    assert made.stdout.strip() == "False", made.stderr
