"""Decoders as language models: every criterion, evaluation, training, generation and the export against naive loops."""

import copy
import math
from types import SimpleNamespace

import export_solution
import measure_speed
import numpy as np
import oracles
import pandas as pd
import prune_heads
import pytest
import torch
from support import in_a_fresh_process, in_float64, make_checkpoint, make_dataset, part_files, pythons
from tokenizers import processors
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from gnorm.data import corpora, prepare
from gnorm.data.rows import NO_CLASS, read
from gnorm.engine import batches, speed, training
from gnorm.engine.evaluate import Evaluation, Gathered
from gnorm.errors import UserError
from gnorm.files import read_json, write_json
from gnorm.models import checkpoints, export, search, surgery
from gnorm.models.accounting import count, modules
from gnorm.models.gates import Gates
from gnorm.models.heads import PARTS, head_map, keep
from gnorm.models.loaded import Loaded
from gnorm.models.slots import eager, projection
from gnorm.pruning.trajectory import follow, replay
from gnorm.resume import State
from gnorm.scores import (
    attribution,
    entropy,
    fisher,
    gnorm,
    gradient,
    hard_concrete,
    leave_one_out,
    mask_gradient,
    random,
    shapley,
    taylor,
)
from gnorm.statistics.columns import read_run
from gnorm.workbench import Workbench

METRICS = ["accuracy", "perplexity", "loss"]


# Decoders that are not known: their heads are searched for.
SEARCHED = {
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32, "init_std": 0.25},
    "mistral": {"num_key_value_heads": 2, "intermediate_size": 64, "initializer_range": 0.25},
}


def searched(family, tiny):
    """A tiny decoder of a family that is not known, in the place of one that is."""
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tiny.tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=52,
        pad_token_id=tiny.tokenizer.pad_token_id,
        **SEARCHED[family],
    )
    torch.manual_seed(0)
    tiny.model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    tiny.model.double().eval().requires_grad_(False)
    checkpoints.fit(tiny.model, tiny.tokenizer)
    in_float64(tiny.model)
    return tiny


@pytest.fixture(
    params=["gpt2", "llama by group", "llama by query", "qwen2 by group", "opt", "mistral by group", "mistral by query"]
)
def decoder(request, make_tiny):
    family, _, unit = request.param.partition(" by ")
    made = searched(family, make_tiny("llama", writes=True)) if family in SEARCHED else make_tiny(family, writes=True)
    made.model.config.prune_by = unit or "group"
    if family in SEARCHED:
        keep(made.model, search.find(made.model))
    made.heads = head_map(made.model)
    made.rows = sorted(made.rows[:12], key=lambda row: len(row["text"]))[2:7]  # of different lengths
    return made


def padded(decoder):
    made = batches.in_order(decoder.tokenizer, decoder.rows, 3)
    assert any(batch.mask.min() == 0 for batch in made) and len(made) > 1
    return made


def close(found, expected, tolerance=1e-9):
    assert found.dtype == torch.float64 and expected.abs().max() > 1e-6
    assert ((found - expected).abs() <= tolerance * expected.abs() + 1e-12).all(), (found, expected)


def naive_norm(decoder, inputs):
    """The norm of all logits of one row, or of several with the padding's left out."""
    logits = decoder.model(**inputs).logits
    rows = [row[mask.bool()] for row, mask in zip(logits, inputs["attention_mask"], strict=True)]
    return torch.cat(rows).norm()


def block_norms(decoder, parts, value_of):
    """Norms of full weight gradients of one value, parts x slots."""
    model, heads = decoder.model, decoder.heads
    found = torch.zeros(len(parts), *heads.shape, dtype=torch.float64)
    kept = heads.kept(model)
    for index, block in enumerate(heads.blocks):
        for part, name in enumerate(parts):
            if kept[index].any():
                weight = projection(model, getattr(block, name)).weight.requires_grad_()
                (full,) = torch.autograd.grad(value_of(), weight)
                weight.requires_grad_(False)
                found[part, index, kept[index]] = heads.of_slots(model, index, name, full).norm(dim=(1, 2))
    return found


@pytest.mark.parametrize("gone", [[], [(0, 1), (2, 0)]], ids=["whole", "pruned"])
def test_criteria_equal_their_definitions(decoder, gone):
    """Sentence by sentence: full weight gradients, real gates, real surgery."""
    if gone:
        surgery.prune(decoder.model, decoder.heads, gone)
    model, heads, tokenizer = decoder.model, decoder.heads, decoder.tokenizer
    made, rows = padded(decoder), decoder.rows
    norms, of_loss, gates = [], [], []
    for row in rows:
        one = oracles.one(tokenizer, row)
        norms.append(block_norms(decoder, PARTS[:3], lambda one=one: naive_norm(decoder, one)))
        of_loss.append(block_norms(decoder, PARTS, lambda row=row: oracles.loss(model, tokenizer, row)))
        with Gates(model, heads) as gate:
            gate.values.requires_grad_()
            gates.append(torch.autograd.grad(oracles.loss(model, tokenizer, row), gate.values)[0])
    norms, of_loss, gates = (torch.stack(parts) for parts in (norms, of_loss, gates))
    close(gnorm.score(model, heads, made), norms.mean(0).prod(0))
    close(gnorm.score(model, heads, made, objective="task_loss"), of_loss[:, :3].mean(0).prod(0))
    close(gradient.score(model, heads, made), of_loss.mean(0).sum(0))
    close(mask_gradient.score(model, heads, made), gates.abs().mean(0))
    close(fisher.score(model, heads, made), gates.square().mean(0))
    close(leave_one_out.score(model, heads, made), oracles.leave_one_out(model, heads, tokenizer, rows))
    slots = [tuple(slot) for slot in heads.kept(model).nonzero().tolist()]
    orders = [random.order(slots, "shapley", 4, i) for i in range(2)]
    close(
        shapley.score(model, heads, made, permutations=2, seed=4),
        oracles.shapley(model, heads, tokenizer, rows, orders).mean(0),
    )


def test_hard_concrete(decoder):
    decoder.rows, settings = decoder.rows[:3], {"steps": 2, "rate": 0.2, "penalty": 0.5, "seed": 5}
    expected = oracles.hard_concrete(decoder, **settings)
    made = batches.in_order(decoder.tokenizer, decoder.rows, 2)
    found = hard_concrete.score(decoder.model, decoder.heads, made, **settings)
    assert (found != hard_concrete.START).all() and (found - expected).abs().max() < 1e-5


def test_a_gradient_a_batch_leaves_padding_out(decoder):
    """The notebooks' granularity: one gradient of the norm of all logits of a batch, divided by rows."""
    total = 0
    for first in range(0, len(decoder.rows), 3):
        texts = [row["text"] for row in decoder.rows[first : first + 3]]
        inputs = decoder.tokenizer(texts, padding=True, padding_side="right", return_tensors="pt")
        total = total + block_norms(decoder, PARTS[:3], lambda inputs=inputs: naive_norm(decoder, inputs))
    found = gnorm.score(decoder.model, decoder.heads, padded(decoder), granularity="batch")
    close(found, (total / len(decoder.rows)).prod(0))
    alone = gnorm.score(decoder.model, decoder.heads, padded(decoder))
    assert not torch.allclose(found, alone, rtol=1e-3)


def test_criteria_of_the_attention_matrix(decoder):
    """Decoders round a softmax that has its matrix to float32: hence the tolerance."""
    model, heads, rows = decoder.model, decoder.heads, decoder.rows[:3]
    made = batches.in_order(decoder.tokenizer, rows, 3)
    expected = mask_gradient.score(model, heads, made)
    assert torch.allclose(taylor.score(model, heads, made), expected, rtol=1e-4, atol=1e-7)
    with eager(model):
        naive = oracles.attribution(model, heads, decoder.tokenizer, rows, 2, "label_probability")
        of_rows = oracles.entropy(model, heads, decoder.tokenizer, rows, 1e-7, "C", causal=True)
    found = attribution.score(model, heads, made, steps=2)
    assert naive.abs().max() > 1e-5 and torch.allclose(found, naive, rtol=1e-4, atol=1e-7)
    by_slot = of_rows.mean(0).unflatten(1, (heads.heads, heads.queries)).mean(2)
    assert torch.allclose(entropy.score(model, heads, made), heads.to_slots(by_slot), rtol=1e-5)


def naive_predictions(decoder, model, rows):
    """(label, predicted, loss) of every token that follows one, row by row without padding."""
    found = []
    for row in rows:
        ids = oracles.one(decoder.tokenizer, row)["input_ids"][0]
        logits = model(input_ids=ids[None]).logits[0]
        for at in range(len(ids) - 1):
            chances = torch.softmax(logits[at], -1)
            found.append((int(ids[at + 1]), int(chances.argmax()), -math.log(chances[ids[at + 1]])))
    return found


def test_evaluation_equals_the_naive_loop(decoder):
    for gone in ([], [(0, 0), (1, 1)], [(row, head) for row in range(3) for head in range(decoder.heads.heads)]):
        model = copy.deepcopy(decoder.model)
        if gone:
            surgery.prune(model, decoder.heads, gone)
        naive = naive_predictions(decoder, model, decoder.rows)
        mean = sum(loss for *_, loss in naive) / len(naive)
        for memory in (0, 10):
            found = Evaluation(padded(decoder), decoder.heads, memory, METRICS).accuracy(model)
            assert found.evaluated == len(naive) and found.correct == sum(a == b for a, b, _ in naive)
            assert found.metrics["loss"] == pytest.approx(mean, rel=1e-5)
            assert found.metrics["perplexity"] == pytest.approx(math.exp(mean), rel=1e-5)
            assert list(found.metrics) == ["perplexity", "loss"]


def test_labels_are_next_tokens_and_padding_has_none(decoder):
    for batch in padded(decoder):
        for ids, mask, labels in zip(batch.inputs["input_ids"], batch.mask, batch.labels, strict=True):
            length = int(mask.sum())
            assert labels[: length - 1].tolist() == ids[1:length].tolist()
            assert (labels[length - 1 :] == NO_CLASS).all()
        first, second = batch.halves() if len(batch.labels) > 1 else (batch, batch)
        assert first.labels.shape == first.mask.shape and second.labels.shape == second.mask.shape


def test_a_row_without_a_next_token_counts_in_no_loss(decoder):
    bare = decoder.rows[0] | {"text": "Z"}
    decoder.tokenizer.backend_tokenizer.post_processor = processors.ByteLevel()  # adds no tokens of its own
    assert len(decoder.tokenizer(bare["text"])["input_ids"]) == 1
    with_it = batches.in_order(decoder.tokenizer, [*decoder.rows, bare], 3)
    without = batches.in_order(decoder.tokenizer, decoder.rows, 3)
    for criterion in (mask_gradient, leave_one_out):
        close(
            criterion.score(decoder.model, decoder.heads, with_it),
            criterion.score(decoder.model, decoder.heads, without),
        )
    evaluations = [Evaluation(made, decoder.heads, 0, METRICS).accuracy(decoder.model) for made in (with_it, without)]
    assert evaluations[0] == evaluations[1]
    with pytest.raises(UserError, match="no calibration row has"):
        mask_gradient.score(decoder.model, decoder.heads, batches.in_order(decoder.tokenizer, [bare], 1))


def test_what_scoring_predicts_needs_no_evaluation(decoder, monkeypatch):
    """Rows that are scored and evaluated are run once, and every metric is the same."""
    heads = decoder.heads
    predicted = Gathered(decoder.model, heads)
    gnorm.score(decoder.model, heads, padded(decoder), seen=predicted.add)
    known = predicted.by_row()
    expected = Evaluation(padded(decoder), heads, 0, METRICS).accuracy(decoder.model)
    evaluation = Evaluation(padded(decoder), heads, 0, METRICS)
    monkeypatch.setattr(evaluation, "_predict", lambda *_: pytest.fail("it was run again"))
    assert evaluation.accuracy(decoder.model, None, known) == expected


def test_steps_record_metrics_and_replay_to_them(decoder):
    heads = decoder.heads
    evaluation = Evaluation(padded(decoder), heads, 10, METRICS)
    steps = [
        step
        for step, _ in follow(
            copy.deepcopy(decoder.model), heads, evaluation, lambda m: (gnorm.score(m, heads, padded(decoder)), {})
        )
    ]
    assert list(steps[0].columns)[-3:] == ["seconds", "perplexity", "loss"]
    order = [(step.layer, step.head) for step in steps[1:]]
    again = Evaluation(padded(decoder), heads, 0, METRICS)
    found = [m.metrics for _, m in replay(copy.deepcopy(decoder.model), heads, again, order, range(len(steps)))]
    for step, metrics in zip(steps, found, strict=True):
        assert metrics == pytest.approx(step.metrics, rel=1e-5)


PROMPT_TOKENS = 4
GENERATION = {"prompts": 8, "prompt_tokens": PROMPT_TOKENS, "new_tokens": 24}


def writer(tiny, new):
    positions = checkpoints.positions(tiny.model)
    return speed.Writer(tiny.tokenizer, tiny.rows, positions, **GENERATION | {"new_tokens": new})


def test_generation_equals_the_librarys(decoder):
    """Greedy, with cached keys and values, whatever heads are gone: against generate(), and against no cache at all."""
    heads = decoder.heads
    prompts = writer(decoder, 12).prompts
    assert prompts.shape == (len(decoder.rows), PROMPT_TOKENS)
    whole_layer = [(0, head) for head in range(heads.heads)]
    everything = [(row, head) for row in range(3) for head in range(heads.heads)]
    for gone in ([], [(0, 0), (2, 1)], whole_layer, [*whole_layer, (1, 0)], everything):
        model = copy.deepcopy(decoder.model)
        surgery.prune(model, heads, gone)
        found = speed.generate(model, prompts, 12)
        assert found.shape == (len(prompts), 12)
        read = prompts
        for _ in range(12):  # no cache, everything again for every token
            read = torch.cat([read, model(input_ids=read).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
        assert torch.equal(found, read[:, PROMPT_TOKENS:])
        if not gone:
            model.generation_config = GenerationConfig(max_new_tokens=12, pad_token_id=0)
            theirs = model.generate(prompts, attention_mask=torch.ones_like(prompts), use_cache=True)
            assert torch.equal(found, theirs[:, PROMPT_TOKENS:])


def test_every_token_that_was_produced_counts_and_texts_stop_at_their_end(decoder):
    prompts = writer(decoder, 12).prompts
    whole = speed.generate(decoder.model, prompts, 12).tolist()
    end = whole[0][3]  # let that token be the end
    texts = [ids[: ids.index(end)] if end in ids else ids for ids in whole]
    assert len(texts[0]) < 12
    decoder.tokenizer.eos_token_id = end
    measured = writer(decoder, 12)(decoder.model)
    assert measured.tokens == 12 * len(prompts) and measured.seconds > 0
    assert measured.texts == tuple(decoder.tokenizer.decode(ids, skip_special_tokens=True) for ids in texts)


def test_a_text_is_not_longer_than_the_model_reads(decoder):
    measured = writer(decoder, 10_000)(decoder.model)
    assert measured.tokens <= len(decoder.rows) * (52 - PROMPT_TOKENS)


def test_timing_waits_for_the_device(monkeypatch):
    order = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("wait"))
    seconds, made = speed.timed(lambda: order.append("work") or 7, torch.device("cuda"))
    assert order == ["wait", "work", "wait"] and made == 7 and seconds >= 0


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_tokenizer_frames_a_text_and_survives_saving(make_tiny, family, tmp_path):
    tiny = make_tiny(family, writes=True)
    tiny.tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("Mido gave Rara a cup .", "héllo", ""):
        ids = tiny.tokenizer(text)["input_ids"]
        assert ids[0] == tiny.tokenizer.bos_token_id and ids[-1] == tiny.tokenizer.eos_token_id
        assert again(text)["input_ids"] == ids and set(again(text)) == {"input_ids", "attention_mask"}
        assert again.decode(ids, skip_special_tokens=True) == text
        assert again.pad_token_id not in ids


def test_the_corpus_has_what_attention_must_find():
    texts = [row["text"] for row in corpora.draw("letters", 400, 1)]
    assert len(set(texts)) == 400
    gifts = [text.split() for text in texts if " gave " in text]
    assert len(gifts) > 100 and all(w[0] in w[4:] and w[2] in w[5:] for w in gifts)  # both names come again
    for text in (t for t in texts if t.startswith("list")):
        opened = []
        for word in text.split():
            if word in "([{":
                opened.append(word)
            elif word in ")]}":
                assert {"(": ")", "[": "]", "{": "}"}[opened.pop()] == word
        assert not opened


COUNTS = {"train": 240, "calibration": 8, "entropy": "same", "evaluation": 10, "disjoint": True}
ENTRY = {"source": "train", "layers": 2, "heads": 4, "width": 32, "feed_forward": 32, "vocabulary": 300, "length": 48}
ENTRY |= {"epochs": 3, "batch": 16, "rate": 0.005}


@pytest.fixture(params=["gpt2", "llama"])
def trained(request, tmp_path):
    """Through the scripts: a dataset and a checkpoint."""
    entry = ENTRY | {"family": request.param} | ({"key_heads": 2} if request.param == "llama" else {})
    dataset = {"source": "generated", "corpus": "letters", "order": "as_is"}
    at = make_dataset(dataset, entry, COUNTS, tmp_path, "LM")
    outputs = tmp_path / "model", tmp_path / "heads.json"
    make_checkpoint(tmp_path, at["tokenizer"], entry, *outputs, State(tmp_path / "state.pt", {}))
    return tmp_path


def prune(bench, score, folder):
    """A greedy trajectory by the script; its file."""
    outputs = part_files(folder / score / "0-0", "trajectories", "scores")
    prune_heads.main(
        bench=bench,
        strategy={"score": score, "prune": "lowest", "rescore": "every_step", "settings": {}},
        runs=[0],
        seed=1,
        stop={},
        state=State(folder / f"{score}.pt", {}),
        outputs=outputs,
    )
    return outputs.trajectories


def point(parameters):
    """The model at a step, as a solution has it from the trajectory."""
    measured = {"accuracy": 0.5, "correct": 10, "evaluated": 20, "metrics": {"perplexity": 8.0}}
    return measured | {"parameters": parameters, "megabytes": parameters / 2**18}


def save_solution(bench, solution, folder):
    """Export by the script."""
    write_json(folder / "solution.json", solution)
    export_solution.main(
        bench=bench,
        solution=folder / "solution.json",
        heads=folder / "heads.json",
        facts={"title": "LM", "suite": "test", "seen": 0},
        outputs=SimpleNamespace(checkpoint=folder / "out", dense=folder / "dense", latency=folder / "latency.json"),
    )


def test_from_the_corpus_to_an_exported_decoder(trained, tmp_path):
    """Trained, pruned, timed and exported by the scripts; then loaded by transformers alone."""
    assert "No labels: what is predicted is each next token." in (trained / "summary.md").read_text()
    assert read_json(trained / "splits.json")["classes"] == []
    assert checkpoints.task_of(checkpoints.load(trained / "model")[0]) == "language_model"
    settings = {"dataset_folder": trained, "checkpoint": trained / "model", "tokens": 400, "metrics": METRICS}
    trajectory = prune(Workbench.load(**settings, reuse_mb=10), "gnorm", tmp_path)
    steps = read_run(trajectory)
    assert steps.columns.tolist()[-3:] == ["seconds", "perplexity", "loss"]
    assert np.allclose(np.exp(steps["loss"]), steps["perplexity"], rtol=1e-4)
    assert steps["perplexity"].between(1, 300).all() and steps["perplexity"].nunique() > 1
    slots, total = len(steps) - 1, int(steps["heads_left"].iloc[0])
    levels = slots // 2 + 1
    wanted = ["tokens_per_second", "lexical_diversity", "repetition"]
    measure_speed.main(
        bench=Loaded.load(checkpoint=trained / "model"),
        rows=read(trained, "evaluation"),
        trajectories={"greedy": trajectory},
        levels=levels,
        metrics=wanted,
        generation=GENERATION,
        output=tmp_path / "speed.csv",
    )
    speeds = pd.read_csv(tmp_path / "speed.csv")
    assert speeds["heads_pruned"].tolist() == [round(i * total / (levels - 1)) for i in range(levels)]
    assert (speeds["tokens_per_second"] > 0).all() and speeds["text"].notna().any()
    assert (
        speeds["parameters"].tolist() == steps.set_index("heads_pruned")["parameters"][speeds["heads_pruned"]].tolist()
    )
    model, tokenizer = checkpoints.load(trained / "model")
    heads, before = head_map(model), count(model)
    slots = [(0, 0), (1, 1)]
    surgery.prune(model, heads, slots)
    solution = {"strategy": "greedy_gnorm", "chosen": "automatic", "heads": heads.total, "heads_pruned": 2}
    solution |= {"pruned_slots": slots, "before": point(before), "after": point(count(model))}
    save_solution(Workbench.load(**settings, on="cpu"), solution, tmp_path)
    card = (tmp_path / "out/README.md").read_text()
    assert "pipeline_tag: text-generation" in card and "AutoModelForCausalLM" in card and "Classes" not in card
    assert "| next-token accuracy (%) |" in card and "| perplexity |" in card
    row = {"text": pd.read_parquet(trained / "rows.parquet")["text"][0], "pair": None}
    ours = model(**tokenizer(row["text"], return_tensors="pt")).logits[0]
    for form, size in (("out", count(model)), ("dense", before)):
        assert read_json(tmp_path / form / "config.json")["use_cache"]
        for python in pythons():
            found = in_a_fresh_process(tmp_path / form, [row], tmp_path, compact=form == "out", python=python)
            assert torch.allclose(torch.tensor(found["logits"][0]), ours, atol=1e-5) and found["parameters"] == size
    again, again_heads, _ = export.load(tmp_path / "out")
    assert count(again) == count(model) and torch.equal(again_heads.kept(again), heads.kept(model))


@pytest.mark.parametrize("family, unit", [("opt", None), ("mistral", "group"), ("mistral", "query")])
def test_a_searched_decoder_from_its_folder_to_its_export(family, unit, make_tiny, tmp_path):
    """By the scripts, as the rules run them: nobody has described the family."""
    tiny = make_tiny("llama", writes=True)
    searched(family, tiny)
    plain = AutoModelForCausalLM.from_config(tiny.model.config)  # the library's own norms
    plain.load_state_dict(tiny.model.float().state_dict())
    checkpoints.save(tmp_path / "own", plain, tiny.tokenizer)
    entry = {"source": "local", "path": str(tmp_path / "own"), **({"prune_by": unit} if unit else {})}
    dataset = {"source": "generated", "corpus": "letters", "order": "as_is"}
    at = make_dataset(dataset, entry, COUNTS | {"train": 0}, tmp_path, "LM")
    model_folder, outputs = tmp_path / "model", (tmp_path / "model", tmp_path / "heads.json")
    task = {"task": "language_model", "attention": "strategies.ae"}
    make_checkpoint(tmp_path, at["tokenizer"], entry, *outputs, **task)
    slots = 3 * (2 if unit == "group" else 4)
    assert read_json(tmp_path / "heads.json")["total"] == slots
    settings = {"dataset_folder": tmp_path, "checkpoint": model_folder, "tokens": 400, "metrics": METRICS}
    trajectories = {}
    for score in ("gnorm", "mask_gradient", "entropy"):
        trajectories[score] = prune(Workbench.load(**settings, reuse_mb=10), score, tmp_path)
        steps = read_run(trajectories[score])
        assert steps["heads_left"].tolist() == list(range(slots, -1, -1)) and steps["perplexity"].nunique() > 1
        assert steps["parameters"].is_monotonic_decreasing
    measure_speed.main(
        bench=Loaded.load(checkpoint=model_folder),
        rows=read(tmp_path, "evaluation"),
        trajectories=trajectories,
        levels=4,
        metrics=["tokens_per_second", "repetition"],
        generation=GENERATION,
        output=tmp_path / "speed.csv",
    )
    speeds = pd.read_csv(tmp_path / "speed.csv")
    assert len(speeds) == 12 and (speeds["tokens_per_second"] > 0).all()
    model, _ = checkpoints.load(model_folder)
    heads, before, gone = head_map(model), count(model), [(0, 0), (0, 1), (2, 1)]
    surgery.prune(model, heads, gone)
    solution = {"strategy": "greedy_gnorm", "chosen": "automatic", "heads": heads.total, "heads_pruned": 3}
    solution |= {"pruned_slots": gone, "before": point(before), "after": point(count(model))}
    save_solution(Workbench.load(**settings, on="cpu"), solution, tmp_path)  # compares logits with plain transformers
    again, again_heads, _ = export.load(tmp_path / "out")
    assert count(again) == count(model) and torch.equal(again_heads.kept(again), heads.kept(model))


def test_training_follows_the_seed(make_tiny):
    tiny = make_tiny("llama", writes=True)
    entry = ENTRY | {"family": "llama", "key_heads": 2, "epochs": 1}
    first, second, other = (training.train(entry, tiny.tokenizer, tiny.rows, [], seed) for seed in (1, 1, 2))
    pairs = list(zip(first.parameters(), second.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs) and not all(torch.equal(a, c) for a, _, c in pairs)
    assert first.config.num_key_value_heads == 2 and isinstance(
        first, checkpoints.KINDS[checkpoints.CLASSES["language_model"]][type(first.config)]
    )


def test_a_tied_head_is_counted_once(make_tiny, tmp_path):
    tiny = make_tiny("gpt2", writes=True)
    model = training.train(ENTRY | {"family": "gpt2", "epochs": 1}, tiny.tokenizer, tiny.rows[:16], [], 1)
    rows = {name: size for name, depth, size in modules(model) if depth < 2}
    assert rows == {"model": count(model), "transformer": count(model)}


def test_a_model_for_another_task_is_refused(make_tiny, tmp_path):
    classifier, decoder = make_tiny("bert"), make_tiny("gpt2", writes=True)
    for name, tiny in (("classifier", classifier), ("decoder", decoder)):
        checkpoints.save(tmp_path / name, tiny.model.float(), tiny.tokenizer)
    model, _ = checkpoints.load(tmp_path / "decoder")
    checkpoints.check_task(model, "language_model", [])
    with pytest.raises(UserError, match="is a GPT2LMHeadModel: set `task: language_model`"):
        checkpoints.check_task(model, "classification", ["a", "b"])
    model, _ = checkpoints.load(tmp_path / "classifier")
    with pytest.raises(UserError, match="is a BertForSequenceClassification: set `task: classification`"):
        checkpoints.check_task(model, "language_model", [])


def test_a_decoder_without_a_padding_token_is_padded_by_any(make_tiny):
    tiny = make_tiny("gpt2", writes=True)
    expected = Evaluation(padded_rows(tiny), tiny.heads, 0, METRICS).accuracy(tiny.model)
    tiny.tokenizer.pad_token = tiny.model.config.pad_token_id = None
    checkpoints.fit(tiny.model, tiny.tokenizer)
    assert tiny.tokenizer.pad_token_id == tiny.tokenizer.eos_token_id
    assert Evaluation(padded_rows(tiny), tiny.heads, 0, METRICS).accuracy(tiny.model) == expected


def padded_rows(tiny):
    return batches.in_order(tiny.tokenizer, tiny.rows[:7], 3)


def test_rows_of_a_file_need_no_labels(tmp_path):
    (tmp_path / "rows.csv").write_text("body\n" + "\n".join(f"text {i}" for i in range(30)))
    dataset = {"source": "file", "path": str(tmp_path / "rows.csv"), "text": "body", "pair": None, "unscored": []}
    counts = COUNTS | {"train": 0}
    rows, splits, classes = prepare.make(dataset | {"order": "as_is"}, counts, 1)
    assert classes == [] and set(rows["label"]) == {None} and len(splits["evaluation"]) == 10
    assert prepare.remarks(rows, splits) == []
