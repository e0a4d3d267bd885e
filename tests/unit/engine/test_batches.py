"""Batches: cut to a budget, halved where memory runs out, whatever the rows."""

import logging

import pytest
import torch
from support import Tiny, run_python

from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import LARGEST, LEAST, bytes_per_token, token_budget
from gnorm.errors import UserError
from gnorm.models import checkpoints, surgery
from gnorm.scores import entropy, gnorm


def too_large(model, tokens):
    """Make the model fail, as a full GPU would, on more than `tokens` tokens; returns the sizes of its batches."""
    given = []

    def refuse(_module, _args, kwargs):
        size = kwargs["input_ids"].numel()
        if size > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")
        given.append(size)

    model.register_forward_pre_hook(refuse, with_kwargs=True)
    return given


def score(tiny, made):
    return gnorm.score(tiny.model, tiny.heads, made)


def entropies(tiny, made):
    tiny.model.config._attn_implementation = "eager"
    return entropy.score(tiny.model, tiny.heads, made)


def correct(tiny, made):
    return torch.tensor(Evaluation(made, tiny.heads, 10).accuracy(tiny.model).correct, dtype=torch.float64)


@pytest.mark.parametrize("measure", [score, entropies, correct])
def test_out_of_memory_halves_the_budget_and_changes_nothing(make_tiny, measure, caplog):
    tiny = make_tiny("roberta")
    expected = measure(tiny, tiny.batches(20, tokens=10_000))
    made = tiny.batches(20, tokens=10_000)
    whole = made[0].tokens
    assert len(made) == 1
    given = too_large(tiny.model, whole // 3)
    assert torch.allclose(measure(tiny, made), expected, rtol=1e-12)
    assert "the budget is halved" in caplog.text and str(whole) in caplog.text
    assert len(made) >= 3 and sum(len(b.labels) for b in made) == 20 and sum(given) <= whole
    caplog.clear()
    assert torch.allclose(measure(tiny, made), expected, rtol=1e-12)  # the next step starts with the small batches
    assert not caplog.text


def test_kept_layers_are_let_go_before_batches_are_cut(make_tiny, caplog):
    tiny = make_tiny("bert")
    made = tiny.batches(20, tokens=10_000)
    evaluation = Evaluation(made, tiny.heads, 100)
    expected = evaluation.accuracy(tiny.model)
    surgery.prune(tiny.model, tiny.heads, [(2, 1)])

    def refuse(*_):
        if evaluation.kept_layers:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")

    tiny.model.register_forward_pre_hook(refuse)
    found = evaluation.accuracy(tiny.model, 2)
    assert "outputs of layers are not kept any longer" in caplog.text and "halved" not in caplog.text
    assert len(made) == 1 and not any(evaluation.stored.values())
    assert found == Evaluation(made, tiny.heads).accuracy(tiny.model) and found.evaluated == expected.evaluated


def test_later_batches_are_cut_without_failing_first(make_tiny, caplog):
    tiny = make_tiny("bert")
    made = [batches.make(tiny.tokenizer, rows, 100_000)[0] for rows in (tiny.rows[:30], tiny.rows[30:])]
    too_large(tiny.model, int(0.7 * min(batch.tokens for batch in made)))
    score(tiny, made)
    assert caplog.text.count("halved") == 1


def test_a_row_that_does_not_fit_alone(make_tiny):
    tiny = make_tiny("bert")
    too_large(tiny.model, 3)
    with pytest.raises(UserError, match="a single row of .* tokens does not fit into memory"):
        score(tiny, tiny.batches(4))


def test_batches_of_the_notebooks_are_never_cut(make_tiny):
    tiny = make_tiny("bert")
    settings = {"granularity": "batch", "batch_rows": 4}
    made = gnorm.batches(tiny.tokenizer, tiny.rows[:4], [1] * 4, 100, **settings)
    too_large(tiny.model, 20)
    with pytest.raises(UserError, match="lower scores.gnorm.batch_rows"):
        gnorm.score(tiny.model, tiny.heads, made, **settings)

    def full(*_):
        raise MemoryError

    tiny.model.register_forward_pre_hook(full)
    with pytest.raises(UserError, match="lower scores.gnorm.batch_rows"):
        gnorm.score(tiny.model, tiny.heads, made, **settings)


def test_other_errors_are_not_taken_for_full_memory(make_tiny):
    tiny = make_tiny("bert")

    def fail(*_):
        raise RuntimeError("something else")

    tiny.model.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="something else"):
        score(tiny, tiny.batches(4))


def test_where_onednn_makes_no_more_kernels_it_is_left_out(make_tiny, monkeypatch, caplog):
    """Its failure sticks, so that no batch would be small enough."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)  # and put back afterwards
    tiny = make_tiny("bert")
    expected = score(tiny, tiny.batches(4))

    def work(_module, _args):
        if torch.backends.mkldnn.enabled:
            raise RuntimeError("could not create a primitive")

    tiny.model.register_forward_pre_hook(work)
    made = tiny.batches(4)
    before = len(made)
    assert torch.equal(score(tiny, made), expected) and len(made) == before
    torch.backends.mkldnn.enabled = True
    gnorm.score(tiny.model, tiny.heads, tiny.batches(4), granularity="batch")  # batches that are never cut
    torch.backends.mkldnn.enabled = True
    evaluation = Evaluation(tiny.batches(4), tiny.heads, memory_mb=100)
    evaluation.accuracy(tiny.model)
    assert evaluation.kept_layers  # for nothing but want of memory are they given up
    assert "oneDNN found no memory for a kernel" in caplog.text and "halved" not in caplog.text


REAL = """
import resource, sys
import torch
from support import Tiny
from gnorm.engine.batches import each
from gnorm.logs import start
from gnorm.scores import gnorm
start(sys.argv[1], "memory")
tiny = Tiny("bert", layers=6, heads=8, width=128)
tiny.model.float()
tiny.rows = [tiny.rows[i % 60] for i in range(1600)]
small = tiny.batches(1600, tokens=2000)
expected = gnorm.score(tiny.model, tiny.heads, small)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 450 * 2**20,) * 2)
found = gnorm.score(tiny.model, tiny.heads, tiny.batches(1600, tokens=10**9))
assert torch.allclose(found, expected, rtol=1e-3), (found / expected)
"""


def test_memory_that_really_runs_out(tmp_path):
    """With an address space too small for one batch of all rows."""
    log = tmp_path / "log"
    made = run_python(REAL, str(log))
    assert made.returncode == 0, made.stderr[-3000:]
    assert "out of memory with" in log.read_text()


def test_cuts_cost_the_least():
    """Against all ways to cut a few rows."""
    random, tokens = torch.Generator().manual_seed(0), 60
    for _ in range(20):
        lengths = dict(enumerate(sorted(torch.randint(2, 70, (9,), generator=random).tolist())))
        found = batches._cut(list(range(9)), lengths, tokens)
        assert [i for part in found for i in part] == list(range(9))

        def cost(parts, lengths=lengths):
            return sum(max(lengths[i] for i in part) * len(part) + tokens / 32 for part in parts)

        def fits(parts, lengths=lengths):
            return all(len(part) == 1 or max(lengths[i] for i in part) * len(part) <= tokens for part in parts)

        ways = []
        for bits in range(2**8):
            ends = [i + 1 for i in range(8) if bits >> i & 1] + [9]
            ways.append([list(range(a, b)) for a, b in zip([0, *ends], ends, strict=False)])
        assert fits(found)
        assert cost(found) == pytest.approx(min(cost(parts) for parts in ways if fits(parts)))


def test_halves_hold_the_rows_without_needless_padding(make_tiny):
    (batch,) = make_tiny("roberta").batches(9, tokens=10_000)
    first, second = batch.halves()
    assert torch.equal(torch.cat([first.positions, second.positions]), batch.positions)
    assert (len(first.labels), len(second.labels)) == (5, 4)
    for part, mask in ((first, batch.mask[:5]), (second, batch.mask[5:])):
        assert part.mask.shape[1] == mask.sum(1).max() and torch.equal(part.mask.sum(1), mask.sum(1))
    assert first.mask.shape[1] < batch.mask.shape[1]


def test_long_rows_are_cut_and_counted(make_tiny, caplog):
    tiny = make_tiny("albert")  # pairs of texts
    longest = tiny.tokenizer.model_max_length
    rows = [dict(row) for row in tiny.rows[:5]]
    for row in rows[:2]:
        row["text"] = " ".join([row["text"]] * 20)
    made = gnorm.batches(tiny.tokenizer, rows, [1] * 5, 10_000)
    assert f"calibration rows: 2 of 5 are longer than {longest} tokens and are cut" in caplog.text
    assert max(batch.mask.sum(1).max() for batch in made) == longest
    assert torch.isfinite(gnorm.score(tiny.model, tiny.heads, made)).all()


def test_a_row_of_exactly_the_longest_length_is_not_counted(make_tiny, caplog):
    tiny = make_tiny("bert")
    words = tiny.rows[0]["text"].split()
    text = words[0]
    for i in range(200):
        longer = f"{text} {words[i % len(words)]}"
        if len(tiny.tokenizer(longer)["input_ids"]) > tiny.tokenizer.model_max_length:
            break
        text = longer
    rows = [{**tiny.rows[0], "text": text}]
    assert len(tiny.tokenizer(text)["input_ids"]) == tiny.tokenizer.model_max_length
    batches.make(tiny.tokenizer, rows, 100)
    assert not caplog.text


def test_empty_rows_are_scored_as_the_tokenizer_encodes_them(tiny):
    rows = [{**tiny.rows[0], "text": "", "pair": tiny.rows[0]["pair"] and ""}, *tiny.rows[1:4]]
    tiny.rows = rows
    together = gnorm.score(tiny.model, tiny.heads, tiny.batches(4))
    alone = sum(
        gnorm.squared_block_norms(tiny.model, tiny.heads, batch, "logit_norm")[0][0].sqrt()
        for batch in tiny.batches(4, tokens=1)
    )
    assert torch.allclose(together, (alone / 4).prod(0), rtol=1e-9)
    assert torch.isfinite(entropies(tiny, tiny.batches(4))).all()


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_tokenizer_without_a_limit_gets_the_models(tmp_path, family, caplog):
    tiny = Tiny(family)
    tiny.tokenizer.model_max_length = 10**30
    checkpoints.save(tmp_path / "model", tiny.model, tiny.tokenizer)
    model, tokenizer = checkpoints.load(tmp_path / "model")
    assert tokenizer.model_max_length == (52 if family == "bert" else 52 - tokenizer.pad_token_id - 1)
    row = {**tiny.rows[0], "text": tiny.rows[0]["text"] * 30}
    (batch,) = batches.make(tokenizer, [row], 1)
    model(**batch.inputs)  # one position more and the embedding would fail
    assert "1 of 1 are longer" in caplog.text


def test_the_budget_follows_memory(make_tiny, caplog):
    caplog.set_level(logging.INFO)
    tiny = make_tiny("bert")
    assert token_budget(77, tiny.model, tiny.heads, 1) == 77
    assert token_budget("auto", tiny.model, tiny.heads, 100_000) == LARGEST["cpu"]
    each = bytes_per_token(tiny.model, tiny.heads)
    budget = token_budget("auto", tiny.model, tiny.heads, 700 + 1.5 * 1024 * each / 2**20 + 1)
    assert budget == 1024
    assert "memory is short" not in caplog.text
    assert token_budget("auto", tiny.model, tiny.heads, 700) == LEAST
    assert "raise memory_mb in the suite, now 700" in caplog.text


GOOD = {"text": "up", "pair": None, "label": 0}
WRONG = [
    (
        {"text": "up", "label": 0},
        "calibration rows: row 1 has no `pair`: a row has `text`, `pair` .a second text, or None",
    ),
    ({"text": "up", "pair": None}, "row 1 has no `label`"),
    ("up", "row 1 has no `text`"),
    (GOOD | {"label": "negative", "row": 7}, "row 7 has the label 'negative': a row has .* .the number of its class"),
    (GOOD | {"label": 0.5}, "row 1 has the label 0.5"),
    (GOOD | {"label": -7}, "row 1 has the label -7: a row has"),
    (GOOD | {"text": 7}, "row 1 has the text 7: a row has"),
    (GOOD | {"pair": ["a"]}, r"row 1 has the pair \['a'\]: a row has"),
    (GOOD | {"label": None}, "row 1 and the first row: either all have a label, or none has"),
]


@pytest.mark.parametrize("row,message", WRONG)
@pytest.mark.fault(
    "a caller's rows lack `pair`, or have labels or texts of another form", "one line says what a row has"
)
def test_rows_of_another_form_are_one_line(make_tiny, row, message):
    tokenizer = make_tiny("bert").tokenizer
    for pack in (batches.make, batches.in_order):
        with pytest.raises(UserError, match=message) as caught:
            pack(tokenizer, [GOOD, row], 100, what="calibration rows")
        assert "\n" not in str(caught.value)
    assert batches.make(tokenizer, [GOOD, GOOD | {"label": torch.tensor(1)}, GOOD | {"label": True}], 100)
