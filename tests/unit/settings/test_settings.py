"""Mistakes in the configuration give one line that says what to change."""

import copy
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT, copy_workflow

from gnorm import scores
from gnorm.errors import UserError
from gnorm.planning import consistency
from gnorm.settings import suites as settings

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


def changed(path, value):
    config = copy.deepcopy(CONFIG)
    *way, last = path.split(".")
    place = config
    for key in way:
        place = place.setdefault(key, {})
    place[last] = value
    return config


def test_what_needs_attention_weights_is_named():
    """A hybrid needs them if a member does."""
    config = copy.deepcopy(CONFIG) | {"compare": ["gnorm", "attribution", "hybrid"]}
    config["scores"] = {"hybrid": {"of": {"magnitude": 1, "entropy": -1}}}
    config["strategies"] |= {
        "products": {"score": "taylor"},
        "ranks": {"score": "hybrid"},
        "weights": {"score": "hybrid", "settings": {"of": {"magnitude": 1, "fisher": 1}}},
    }
    named = settings.of_attention(settings.load(config, ROOT))
    assert set(named) == {
        *("strategies.ae", "strategies.inverse_ae", "strategies.products", "strategies.ranks"),
        *("attribution of compare", "hybrid of compare"),
    }
    config |= {"compare": ["gnorm"], "strategies": {"greedy_gnorm": {"score": "gnorm"}}}
    assert settings.of_attention(settings.load(config, ROOT)) == []


def test_defaults_are_filled_in():
    found = settings.load({"suite": "mini", "strategies": {"greedy_gnorm": {"score": "gnorm"}}}, ROOT)
    assert found["scores"]["entropy"] == {"epsilon": 1e-7, "variant": "C"}
    assert found["strategies"]["greedy_gnorm"] == {
        "score": "gnorm",
        "prune": "lowest",
        "rescore": "every_step",
        "unit": "heads",
        "settings": {"objective": "logit_norm", "granularity": "sentence", "batch_rows": 32, "precision": "float32"},
    }
    assert found["models"]["BERT"]["rows"]["entropy"] == "same" and found["jobs"]["threads"] == 1


def test_the_shipped_configuration_is_what_the_schema_defaults_to():
    """But for the lists that it alone has."""
    bare = {"suite": "mini", "figures": {"draw": CONFIG["figures"]["draw"]}}
    bare |= {key: CONFIG[key] for key in ("strategies", "tables")}
    assert settings.load(bare, ROOT) == settings.load(CONFIG, ROOT)


@pytest.mark.parametrize("config", [None, [], "mini", 3])
def test_a_configuration_that_is_no_mapping(config):
    with pytest.raises(UserError, match="^config.yaml: must be of type object, got"):
        settings.load(config, ROOT)


def test_exponents_are_numbers():
    found = settings.load(changed("scores.entropy.epsilon", "1e-6"), ROOT)
    assert found["scores"]["entropy"]["epsilon"] == 1e-6


def test_numbers_are_what_the_schema_wants():
    found = settings.load(changed("runs", 4.0), ROOT)
    assert found["runs"] == 4 and isinstance(found["runs"], int)
    own = settings.load(changed("strategies.x", {"score": "entropy", "settings": {"epsilon": "1e-6"}}), ROOT)
    assert own["strategies"]["x"]["settings"] == {"epsilon": 1e-6, "variant": "C"}


def test_a_strategy_may_have_settings_of_its_own():
    entry = {"score": "gnorm", "settings": {"objective": "task_loss"}}
    found = settings.load(changed("strategies.by_loss", entry), ROOT)
    assert found["strategies"]["by_loss"]["settings"]["objective"] == "task_loss"
    assert found["strategies"]["greedy_gnorm"]["settings"]["objective"] == "logit_norm"


def paper(tmp_path, **changes):
    """The suite `paper` with changes to BERT's entry, under the name `mine`, in a copy of the workflow."""
    copy_workflow(tmp_path)
    suite = yaml.safe_load((tmp_path / "suites/paper.yaml").read_text())
    suite["models"]["BERT"] |= changes
    (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump(suite))
    return tmp_path


def test_hub_entries_have_defaults(tmp_path):
    dataset = {"source": "hub", "id": "a/b", "split": "train", "text": "t", "label": "l", "classes": "model"}
    root = paper(tmp_path, dataset=dataset, checkpoint={"source": "hub", "id": "a/b"})
    bert = settings.load(CONFIG | {"suite": "mine"}, root)["models"]["BERT"]
    assert bert["checkpoint"] == {"source": "hub", "id": "a/b", "revision": "main"}
    assert bert["dataset"] == dataset | {
        "revision": "main",
        "config": None,
        "pair": None,
        "unscored": [],
        "order": "as_is",
    }
    assert bert["rows"]["disjoint"] is True and settings.load(CONFIG, root)["hub_mirror"] is None


def test_a_model_may_have_a_size_of_batches_of_its_own():
    """Only where batches count, and a strategy that names a size keeps it."""
    config = CONFIG | {"suite": "paper"}
    by_sentence = settings.load(config, ROOT)["models"]["ROBERTA"]["strategies"]
    assert by_sentence == settings.load(config, ROOT)["strategies"]
    own = {"score": "gnorm", "settings": {"granularity": "batch", "batch_rows": 32}}
    config |= {"scores": {"gnorm": {"granularity": "batch"}}, "strategies": CONFIG["strategies"] | {"own": own}}
    found = settings.load(config, ROOT)["models"]
    sizes = {model: entry["strategies"]["greedy_gnorm"]["settings"]["batch_rows"] for model, entry in found.items()}
    assert sizes == {"BERT": 32, "ALBERT": 32, "ROBERTA": 4, "XLM_ROBERTA": 8}
    assert found["ROBERTA"]["strategies"]["own"]["settings"]["batch_rows"] == 32
    assert "batch_rows" not in found["ROBERTA"]["strategies"]["ae"]["settings"]


def smoke_with(tmp_path, **changes):
    """The models of the suite `smoke`, changes of the whole suite and of its models by name, under the name `mine`."""
    copy_workflow(tmp_path)
    suite = yaml.safe_load((tmp_path / "suites/smoke.yaml").read_text())
    for model, entry in suite["models"].items():
        entry |= changes.pop(model, {})
    (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump(suite | changes, sort_keys=False))
    return settings.load(CONFIG | {"suite": "mine"}, tmp_path)["models"]


def test_runs_vary_what_the_suite_says_or_the_model(tmp_path):
    def varied(**changes):
        return [entry["vary"] for entry in smoke_with(tmp_path, **changes).values()]

    assert varied() == ["rows", "rows"] and varied(vary="training") == ["training", "training"]
    assert varied(ALBERT={"vary": "training"}) == ["rows", "training"]
    assert varied(vary="training", ALBERT={"vary": "rows"}) == ["training", "rows"]
    with pytest.raises(UserError, match="mine.yaml: vary: there is no value 'train'; did you mean 'training'?"):
        varied(vary="train")


def test_a_loaded_model_varies_rows_only(tmp_path):
    loaded = {"checkpoint": {"source": "hub", "id": "a/b"}}
    for changes in ({"vary": "training", "BERT": loaded}, {"BERT": loaded | {"vary": "training"}}):
        with pytest.raises(UserError) as said:
            smoke_with(tmp_path, **changes)
        assert str(said.value) == (
            "suites/mine.yaml: models.BERT.vary: its checkpoint is loaded, not trained here, so its runs can vary "
            "rows only; set `vary: rows` for it"
        )
    assert smoke_with(tmp_path, vary="training", BERT=loaded | {"vary": "rows"})["BERT"]["vary"] == "rows"


def test_each_run_with_a_model_of_its_own_has_shards_and_trials(tmp_path):
    """Three runs in place of one are too many for Snakemake."""
    rows = {"rows": {"train": 200, "calibration": 40_000, "evaluation": 40}, "shard_rows": 8}
    assert smoke_with(tmp_path, BERT=rows)
    with pytest.raises(UserError, match="120000 rows are more than 10000 shards; raise it to 12"):
        smoke_with(tmp_path, BERT=rows | {"vary": "training"})
    trials = {"random": {"trials": 10_000, "levels": 3}}
    assert smoke_with(tmp_path, trials_per_job=1, BERT=trials)
    with pytest.raises(UserError, match="30000 trials are more than 10000 jobs; raise trials_per_job to 3"):
        smoke_with(tmp_path, trials_per_job=1, BERT=trials | {"vary": "training"})


HUB_MISTAKES = [
    ({"checkpoint": {"source": "hub", "id": "bert"}}, "checkpoint.id: must be owner/name, as on the hub, got 'bert'"),
    ({"checkpoint": {"source": "hub", "id": "a/b/c"}}, "checkpoint.id: must be owner/name, as on the hub"),
    ({"checkpoint": {"source": "hub"}}, "models.BERT.checkpoint: the key 'id' is missing"),
    ({"checkpoint": {"source": "hub", "id": "a/b", "revison": "x"}}, "did you mean 'revision'?"),
    (
        {"checkpoint": {"source": "hubb", "id": "a/b"}},
        "checkpoint.source: there is no source 'hubb'; did you mean 'hub'?",
    ),
    (
        {"dataset": {"source": "hub", "id": "a/b", "text": "t", "label": "l", "classes": "model"}},
        "models.BERT.dataset: the key 'split' is missing",
    ),
    (
        {"dataset": {"source": "file", "path": "a.csv", "text": "t", "label": "l", "classes": "modle"}},
        "dataset.classes: there is no value 'modle'; did you mean 'model'? allowed: model, a list of at least 2",
    ),
    (
        {
            "dataset": {"source": "file", "path": "a.csv", "text": "t", "label": "l", "classes": "model"},
            "checkpoint": {"source": "train", "family": "bert"},
            "rows": {"train": 5, "calibration": 5, "evaluation": 5},
        },
        "models.BERT.dataset.classes: `model` goes with a checkpoint that exists",
    ),
    ({"rows": {"calibration": 5, "evaluation": 5, "disjoint": "no"}}, "rows.disjoint: must be of type boolean"),
    ({"batch_rows": 0}, "models.BERT.batch_rows: must be at least 1, got 0"),
]


FILE = {"source": "file", "path": "a.csv", "text": "t"}
TRAIN = {"source": "train", "layers": 2}
LETTERS = {"source": "generated", "corpus": "letters"}
ROWS = {"train": 5, "calibration": 5, "evaluation": 5}
LABELLED = FILE | {"label": "l"}
SCORED = LABELLED | {"classes": ["a", "b"], "neutral": 1}
HUB_MISTAKES += [
    ({"dataset": LABELLED | {"label": "t", "classes": ["a", "b"]}}, "dataset.label: 't' is the column of `text` too"),
    ({"dataset": LABELLED | {"pair": "t", "classes": ["a", "b"]}}, "dataset.pair: 't' is the column of `text` too"),
    (
        {"dataset": LABELLED | {"classes": ["a", "b"], "columns": ["t", "stars"]}},
        "models.BERT.dataset.label: there is no column 'l'; allowed: t, stars",
    ),
    ({"dataset": LABELLED | {"columns": ["t", "l", "t"]}}, "models.BERT.dataset.columns: must name nothing twice"),
    (
        {"dataset": LABELLED | {"separator": ";;"}},
        "dataset.separator: must be the one character that separates columns, or null",
    ),
    (
        {"dataset": LABELLED | {"encoding": "utf8"}},
        "there is no value 'utf8'; did you mean 'utf-8'? allowed: null, utf-8, utf-16,",
    ),
    ({"dataset": LABELLED | {"encoding": "windows-1525"}}, "no value 'windows-1525'; did you mean 'windows-125"),
    ({"dataset": SCORED | {"unscored": ["c"]}}, "models.BERT.dataset.unscored: `neutral` gives every row a class"),
    ({"dataset": LABELLED | {"classes": ["a", "b", "a"]}}, "BERT.dataset.classes: 'a' stands there twice; name each"),
    ({"dataset": LABELLED | {"classes": [1, "1"]}}, "models.BERT.dataset.classes: '1' stands there twice"),
    ({"dataset": LABELLED | {"classes": [None, "b"]}}, "dataset.classes: null is no name; put it in quotes"),
    (
        {"dataset": LABELLED | {"classes": ["a", "b"], "unscored": ["c", "b"]}},
        "models.BERT.dataset.unscored: 'b' is one of `classes:` too; leave it out of either",
    ),
    ({"dataset": FILE}, "models.BERT.dataset: the key 'label' is missing"),
    ({"dataset": FILE | {"label": "l"}}, "models.BERT.dataset: the key 'classes' is missing"),
    ({"task": "language_model"}, "models.BERT.dataset.label: a language model's rows have none; leave it out"),
    ({"task": "regression"}, "models.BERT.task: there is no value 'regression'; allowed: classification, language"),
    ({"dataset": LETTERS}, "dataset.corpus: 'letters' has no labels: take another corpus, or set task: language_model"),
    (
        {"task": "language_model", "dataset": {"source": "generated", "corpus": "finance"}},
        "dataset.corpus: 'finance' has labels: take another corpus, or set task: classification",
    ),
    (
        {"task": "language_model", "dataset": LETTERS, "checkpoint": TRAIN | {"family": "bert"}, "rows": ROWS},
        "checkpoint.family: 'bert' goes with task: classification",
    ),
    (
        {"dataset": {"source": "generated", "corpus": "finance"}, "checkpoint": TRAIN | {"family": "gpt2"}},
        "checkpoint.family: 'gpt2' goes with task: language_model",
    ),
    (
        {
            "task": "language_model",
            "dataset": LETTERS,
            "checkpoint": TRAIN | {"family": "llama", "key_heads": 3},
            "rows": ROWS,
        },
        "checkpoint.key_heads: goes with llama and must divide the 8 heads, got 3",
    ),
    (
        {
            "task": "language_model",
            "dataset": LETTERS,
            "checkpoint": TRAIN | {"family": "llama", "key_heads": 2},
            "rows": ROWS,
        },
        "random.levels: 4 prunable heads allow at most 5, got 25",
    ),
    (
        {
            "task": "language_model",
            "dataset": LETTERS,
            "checkpoint": {"source": "finetune", "from": {"source": "hub", "id": "a/b"}},
            "rows": ROWS,
        },
        "checkpoint.source: 'finetune' goes with task: classification",
    ),
]


def test_a_language_model_needs_no_labels_and_gets_the_metrics_of_its_task(tmp_path):
    hub = {"source": "hub", "id": "a/b", "split": "train", "text": "t"}
    root = paper(tmp_path, task="language_model", dataset=hub)
    models = settings.load(CONFIG | {"suite": "mine"}, root)["models"]
    assert models["BERT"]["metrics"] == CONFIG["metrics"]["language_model"]
    assert models["ALBERT"]["metrics"] == CONFIG["metrics"]["classification"]
    assert models["ALBERT"]["task"] == "classification" and "label" not in models["BERT"]["dataset"]


def test_the_schema_knows_the_metrics_that_there_are():
    from gnorm.engine import metrics

    schema = yaml.safe_load((ROOT / "schemas/config.schema.yaml").read_text())["properties"]["metrics"]["properties"]
    assert {name for of_task in schema.values() for name in of_task["items"]["enum"]} == set(metrics.METRICS)
    timed = {name for name, metric in metrics.METRICS.items() if not metric.of_predictions}
    assert timed == set(metrics.AT_LEVELS)


@pytest.mark.parametrize("changes,message", HUB_MISTAKES)
def test_mistakes_in_entries_from_the_hub(tmp_path, changes, message):
    with pytest.raises(UserError) as caught:
        settings.load(CONFIG | {"suite": "mine"}, paper(tmp_path, **changes))
    assert message in str(caught.value) and str(caught.value).startswith("suites/mine.yaml: ")
    assert "\n" not in str(caught.value)


MISTAKES = [
    ("hub_mirror", 3, "hub_mirror: must be of type string or null, got 3"),
    ("run", 2, "there is no key 'run'; did you mean 'runs'?"),
    ("scores.entropy.epsilon", 0, "scores.entropy.epsilon: must be above 0, got 0"),
    ("scores.entropy.epsilon", "small", "scores.entropy.epsilon: must be of type number"),
    ("scores.entropy.espilon", 1e-7, "scores.entropy: there is no key 'espilon'; did you mean 'epsilon'?"),
    ("scores.entropy.variant", "D", "scores.entropy.variant: there is no value 'D'; allowed: A, B, C"),
    ("runs", -1, "runs: must be at least 1, got -1"),
    ("runs", 0, "runs: must be at least 1, got 0"),
    ("runs", "three", "runs: must be of type integer"),
    ("suite", "mimi", "suite: there is no suite 'mimi'; did you mean 'mini'?"),
    ("suite", "../mini", "there is no suite '../mini'"),
    (
        "strategies.greedy_gnorm.score",
        "gnrom",
        "strategies.greedy_gnorm.score: there is no score 'gnrom'; did you mean",
    ),
    ("strategies.new", {"prune": "lowest"}, "strategies.new: the key 'score' is missing"),
    (
        "strategies.new",
        {"score": "gnorm", "prune": "low"},
        "strategies.new.prune: there is no value 'low'; did you mean",
    ),
    (
        "strategies.new",
        {"score": "gnorm", "rescore": 0},
        "rescore: there is no value 0; allowed: every_step, never, int",
    ),
    (
        "strategies.new",
        {"score": "gnorm", "rescore": "nevr"},
        "strategies.new.rescore: there is no value 'nevr'; did you",
    ),
    ("strategies.Ae", {"score": "entropy"}, "strategies.Ae: its file names would be those of 'ae'"),
    (
        "strategies",
        {"greedy_gnorm": {"score": "gnorm"}, "AEinverse": {"score": "entropy"}},
        "strategies.AEinverse: its file names would be those of 'inverse_ae'",  # and be read as that strategy's
    ),
    ("tables", ["Areas"], "tables: there is no table 'Areas'; did you mean 'areas'?"),
    ("strategies.new", {"score": "gnorm", "trials": 3}, "`trials` goes with `score: random`"),
    (
        "strategies.random",
        {"score": "random", "trials": 3, "prune": "lowest"},
        "strategies.random.prune: a random order has no scores to choose by; leave `prune` out",
    ),
    (
        "strategies.new",
        {"score": "random", "trials": 3, "rescore": "never"},
        "strategies.new.rescore: a random order has no scores to choose by; leave `rescore` out",
    ),
    ("strategies.new", {"score": "gnorm", "settings": {"objectiv": 1}}, "did you mean 'objective'?"),
    ("strategies.a/b", {"score": "gnorm"}, "'a/b'"),
    ("strategies", {}, "strategies: must not be empty"),
    ("solutions.strategy", "greedy", "solutions.strategy: there is no strategy 'greedy'"),
    (
        "metrics.classification",
        ["accuracy", "perplexity"],
        "metrics.classification.1: there is no value 'perplexity'; allowed: accuracy, macro_f1, loss",
    ),
    ("metrics.language_model", ["macro_f1"], "metrics.language_model.0: there is no value 'macro_f1'"),
    ("metrics.classification", ["los"], "metrics.classification.0: there is no value 'los'; did you mean 'loss'?"),
    ("metrics.decoders", ["loss"], "metrics: there is no key 'decoders'"),
    ("metrics.language_model", ["loss", "loss"], "metrics.language_model: must name nothing twice"),
    ("stop", {"heads": -3}, "stop.heads: must be at least 1, got -3"),
    ("tables", ["area"], "tables: there is no table 'area'; did you mean 'areas'?"),
    ("figures.draw", ["Prunings"], "figures.draw: there is no figure 'Prunings'"),
    ("compare", ["gnorm", "fischer"], "compare: there is no score 'fischer'; did you mean 'fisher'?"),
    ("compare", ["gnorm", "gnorm"], "compare: must name nothing twice"),
    ("compare", [], "compare: must have at least 1 items"),
    ("scores.taylor.absolute", "sum", "scores.taylor.absolute: there is no value 'sum'; allowed: product, entries"),
    ("scores.attribution.steps", 0, "scores.attribution.steps: must be at least 1, got 0"),
    ("scores.shapley.permutations", 1, "scores.shapley.permutations: must be at least 2, got 1"),
    ("scores.mask_gradient.normalize", "layer", "scores.mask_gradient.normalize: must be of type boolean"),
    ("scores.hybrid.of", {"gnorm": "much", "fisher": 1}, "scores.hybrid.of.gnorm: must be of type number"),
    ("scores.hybrid.combine", "mean", "scores.hybrid.combine: there is no value 'mean'; allowed: sum, product"),
    ("strategies.new", {"score": "magnitude", "settings": {"steps": 1}}, "the score magnitude has no settings"),
    ("strategies.new", {"score": "fisher", "settings": {"objective": "task_loss"}}, "fisher has no settings"),
    ("scores.hard_concrete.steps", 0, "scores.hard_concrete.steps: must be at least 1, got 0"),
    ("scores.hard_concrete.rate", 0, "scores.hard_concrete.rate: must be above 0, got 0"),
    ("scores.hard_concrete.penalty", -1, "scores.hard_concrete.penalty: must be at least 0, got -1"),
    ("neurons.group", 0, "neurons.group: must be at least 1, got 0"),
    ("generation.new_tokens", 0, "generation.new_tokens: must be at least 1, got 0"),
    ("generation.prompts", 2000, "generation.prompts: must be at most 1024, got 2000"),
    ("generation.prompt_tokens", "four", "generation.prompt_tokens: must be of type integer, got 'four'"),
    ("generation.new_token", 50, "generation: there is no key 'new_token'; did you mean 'new_tokens'?"),
    (
        "strategies.new",
        {"score": "fisher", "unit": "neuron"},
        "strategies.new.unit: there is no value 'neuron'; did you mean 'neurons'?",
    ),
    (
        "strategies.new",
        {"score": "gnorm", "unit": "neurons"},
        "strategies.new.unit: gnorm scores heads alone; neurons are scored by fisher, hard_concrete, hybrid, leave_one",
    ),
    (
        "strategies.new",
        {"score": "hybrid", "unit": "neurons", "settings": {"of": {"fisher": 1, "taylor": 1}}},
        "strategies.new.unit: taylor scores heads alone",
    ),
    (
        "strategies.random",
        {"score": "random", "trials": 3, "unit": "neurons"},
        "strategies.random.unit: the paper's strategy random prunes heads; give the one of neurons another name",
    ),
    (
        "strategies",
        {"greedy": {"score": "fisher", "unit": "neurons"}},
        "solutions.strategy: there is no strategy 'greedy_gnorm'",
    ),
    (
        "strategies.new",
        {"score": "attribution", "settings": {"objective": "task_loss"}},
        "strategies.new.settings: objective: there is no value 'task_loss'",
    ),
]


def hybrid(**of):
    return {"score": "hybrid", "settings": {"of": of}}


HYBRIDS = [
    (hybrid(gnorm=1, hybrid=1), "a hybrid of hybrids is not possible; of: takes attribution, entropy, fisher"),
    (hybrid(gnorm=1, fischer=1), "of: there is no score 'fischer'; did you mean 'fisher'?"),
    (hybrid(gnorm=1), "of: a hybrid takes at least 2 criteria, got 1"),
    (hybrid(gnorm=1, fisher=0), "of: fisher has the weight 0; leave it out instead"),
]


@pytest.mark.parametrize("entry,message", HYBRIDS)
def test_hybrids_that_cannot_be(entry, message):
    with pytest.raises(UserError) as caught:
        settings.load(changed("strategies.new", entry), ROOT)
    assert message in str(caught.value) and str(caught.value).startswith("config.yaml: strategies.new: ")
    config = changed("scores.hybrid", entry["settings"])
    for used in ({"compare": ["gnorm", "hybrid"]}, {"suite": "paper"}):  # nothing there uses it
        with pytest.raises(UserError) as caught:
            settings.load(config | used, ROOT)
        assert message in str(caught.value) and str(caught.value).startswith("config.yaml: scores.hybrid: ")


@pytest.mark.parametrize(
    "check,checkpoint,said",
    [
        (settings.load, {"width": 40}, "checkpoint.width: 8 heads have 5 columns each, and llama turns them in pairs"),
        (
            lambda *given: consistency.check(settings.load(*given)),
            {"length": 8},
            "checkpoint.length: 8 positions leave none to write in after a prompt",
        ),
    ],
)
def test_a_decoder_that_could_not_be_trained_or_write(tmp_path, check, checkpoint, said):
    copy_workflow(tmp_path)
    model = {
        "task": "language_model",
        "dataset": {"source": "generated", "corpus": "letters"},
        "checkpoint": {"source": "train", "family": "llama", **checkpoint},
        "rows": {"train": 10, "calibration": 5, "evaluation": 5},
    }
    config = CONFIG | {"suite": "mine", "generation": {"prompt_tokens": 8}}
    (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump({"models": {"M": model}}))
    with pytest.raises(UserError, match=said):
        check(config, tmp_path)
    model["checkpoint"] |= {"width": 64, "length": 9}
    (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump({"models": {"M": model}}))
    check(config, tmp_path)


def test_a_hybrid_takes_no_gradients_of_batches():
    config = changed("scores.gnorm.granularity", "batch")
    settings.load(config, ROOT)
    with pytest.raises(UserError, match="of: gnorm cannot join a hybrid with granularity: batch"):
        settings.load(config | {"strategies": config["strategies"] | {"new": hybrid(gnorm=1, fisher=1)}}, ROOT)


def test_a_hybrid_has_the_settings_of_its_members():
    config = changed("scores.gnorm.objective", "task_loss")
    config["strategies"]["both"] = hybrid(gnorm="2", entropy=-1)
    found = settings.load(config, ROOT)["strategies"]["both"]["settings"]
    assert found["of"] == {"gnorm": 2.0, "entropy": -1} and found["combine"] == "sum"
    assert found["members"]["gnorm"]["objective"] == "task_loss" and found["members"]["entropy"]["variant"] == "C"


def test_compared_criteria_have_their_settings():
    config = changed("scores.gnorm.granularity", "batch")
    config |= {"suite": "paper", "compare": ["gnorm", "magnitude", "shapley"]}
    found = settings.load(config, ROOT)
    assert list(found["compare"]) == ["gnorm", "magnitude", "shapley"]
    assert found["compare"]["magnitude"] == {} and found["compare"]["shapley"] == {"permutations": 10}
    assert found["models"]["ROBERTA"]["compare"]["gnorm"]["batch_rows"] == 4
    assert found["models"]["BERT"]["compare"]["gnorm"]["batch_rows"] == 32


def in_suite(root, **parts):
    """The configuration with the suite smoke changed."""
    copy_workflow(root)
    suite = yaml.safe_load((ROOT / "suites/smoke.yaml").read_text()) | parts
    (root / "suites/smoke.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    return changed("suite", "smoke")


def test_a_suite_compares_by_settings_of_its_own(tmp_path):
    config = in_suite(tmp_path, compare={"shapley": {"permutations": 3}, "gnorm": {}})
    assert settings.load(copy.deepcopy(config), tmp_path)["compare"] == {
        "shapley": {"permutations": 3},
        "gnorm": config["scores"]["gnorm"],
    }
    listed = settings.load(config | {"compare": ["shapley"]}, tmp_path)
    assert listed["compare"] == {"shapley": {"permutations": 10}}  # the configuration's list holds for every suite


def test_a_batch_of_the_comparisons_own_is_not_the_models(tmp_path):
    models = yaml.safe_load((ROOT / "suites/smoke.yaml").read_text())["models"]
    models["BERT"]["batch_rows"] = 4
    own = {"granularity": "batch", "batch_rows": 8}
    config = in_suite(tmp_path, models=models, compare={"gnorm": own, "magnitude": {}})
    config["scores"]["gnorm"]["granularity"] = "batch"
    found = settings.load(config, tmp_path)["models"]["BERT"]
    assert found["compare"]["gnorm"]["batch_rows"] == 8
    assert found["strategies"]["greedy_gnorm"]["settings"]["batch_rows"] == 4


def test_suites_compare_every_criterion_or_the_cheap_ones():
    everything = {*scores.names()} - {"random"}
    costly = {"attribution", "shapley", "hard_concrete"}
    left_out = {"smoke": set(), "mini": costly, "minilm": costly | {"hybrid"}, "paper": costly | {"hybrid"}}
    for suite, missing in left_out.items():
        assert set(settings.load(changed("suite", suite), ROOT)["compare"]) == everything - missing


def test_a_suite_adds_strategies(tmp_path):
    own = {"fisher": {"score": "fisher"}, "ae": {"score": "entropy", "prune": "highest", "rescore": 2}}
    config = in_suite(tmp_path, strategies=own)
    found = settings.load(copy.deepcopy(config), tmp_path)["strategies"]
    assert list(found) == [*config["strategies"], "fisher"]
    assert found["fisher"]["rescore"] == "every_step" and found["ae"]["rescore"] == 2  # in place of the other


OF_SUITES = [
    ({"compare": {"shaply": {}}}, "compare: there is no score 'shaply'; did you mean 'shapley'?"),
    ({"compare": {}}, "compare: must not be empty"),
    ({"compare": {"shapley": {"orders": 3}}}, "compare.shapley: there is no key 'orders'"),
    ({"compare": {"fisher": {"steps": 3}}}, "compare.fisher: the score fisher has no settings"),
    ({"compare": {"entropy": {"variant": "A"}}}, "compare.entropy: shards hold its values; set scores.entropy"),
    ({"strategies": {"new": {"score": "fischer"}}}, "strategies.new.score: there is no score 'fischer'"),
    ({"strategies": {"new": {"scor": "fisher"}}}, "strategies.new: there is no key 'scor'; did you mean 'score'?"),
    ({"strategies": {"new": {"score": "gnorm", "unit": "neurons"}}}, "strategies.new.unit: gnorm scores heads alone"),
]


@pytest.mark.parametrize("parts,message", OF_SUITES)
def test_mistakes_in_a_suite_name_its_file(tmp_path, parts, message):
    with pytest.raises(UserError) as caught:
        settings.load(in_suite(tmp_path, **parts), tmp_path)
    assert str(caught.value).startswith(f"suites/smoke.yaml: {message}")


@pytest.mark.parametrize("score", ["gnorm", "gradient", "entropy", "taylor", "attribution"])
def test_criteria_that_need_attention_do_not_score_neurons(score):
    with pytest.raises(UserError, match=f"strategies.new.unit: {score} scores heads alone"):
        settings.load(changed("strategies.new", {"score": score, "unit": "neurons"}), ROOT)


def test_strategies_of_neurons_know_their_groups():
    config = changed("strategies.new", {"score": "fisher", "unit": "neurons"}) | {"neurons": {"group": 8}}
    found = settings.load(config, ROOT)["models"]["BERT"]["strategies"]
    assert found["new"]["group"] == 8 and "group" not in found["greedy_gnorm"]


def test_examples_can_be_copied():
    """The commented strategies of config.yaml, and the snippets of the README."""
    text = (ROOT / "config.yaml").read_text()
    shown = yaml.safe_load(re.sub(r"^  # (\w+: \{score.*\})$", r"  \1", text, flags=re.M))["strategies"]
    assert set(shown) - set(CONFIG["strategies"]) == {"hard_concrete", "neurons", "random_neurons"}
    found = settings.load(CONFIG | {"strategies": shown}, ROOT)["strategies"]
    assert found["neurons"]["group"] == found["random_neurons"]["group"] == 16 and found["ae"]["unit"] == "heads"
    snippets = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    snippets = [yaml.safe_load(snippet) for snippet in snippets if "strategies:" in snippet]
    assert len(snippets) == 4
    for snippet in snippets:
        settings.load(CONFIG | snippet | {"strategies": CONFIG["strategies"] | snippet["strategies"]}, ROOT)


@pytest.mark.parametrize("path,value,message", MISTAKES)
def test_mistakes(path, value, message):
    with pytest.raises(UserError) as caught:
        settings.load(changed(path, value), ROOT)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("config.yaml: ")


SUITE_MISTAKES = [
    ("rows", {"calibration": -5, "evaluation": 1}, "models.M.rows.calibration: must be at least 1, got -5"),
    ("rows", {"calibration": 5, "evaluation": "sam"}, "rows.evaluation: there is no value 'sam'; did you mean 'same'?"),
    ("rows", {"calibration": 5, "evaluation": 5}, "models.M.rows.train: must be above 0"),
    ("dataset", {"source": "generated", "corpus": "financ"}, "there is no corpus 'financ'; did you mean 'finance'?"),
    ("dataset", {"source": "generate", "corpus": "finance"}, "dataset.source: there is no source 'generate'; did you"),
    ("dataset", {"source": "generated", "corpse": "x"}, "models.M.dataset"),
    (
        "checkpoint",
        {"source": "train", "family": "brt"},
        "checkpoint.family: there is no family 'brt'; did you mean 'bert'?",
    ),
    (
        "checkpoint",
        {"source": "train", "family": "bert", "layer": 2},
        "there is no key 'layer'; did you mean 'layers'?",
    ),
    ("checkpoint", {"source": "train", "family": "bert", "heads": 7}, "heads: must divide the width 64, got 7"),
    ("random", {"levels": 34}, "random.levels: 32 prunable heads allow at most 33, got 34"),
    ("tittle", "M", "models.M: there is no key 'tittle'; did you mean 'title'?"),
]


@pytest.mark.parametrize("key,value,message", SUITE_MISTAKES)
def test_mistakes_in_a_suite(tmp_path, key, value, message):
    copy_workflow(tmp_path)
    model = {
        "dataset": {"source": "generated", "corpus": "finance"},
        "checkpoint": {"source": "train", "family": "bert"},
        "rows": {"train": 10, "calibration": 5, "evaluation": 5},
    }
    (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump({"models": {"M": model | {key: value}}}))
    with pytest.raises(UserError) as caught:
        settings.load(CONFIG | {"suite": "mine"}, tmp_path)
    assert message in str(caught.value) and str(caught.value).startswith("suites/mine.yaml: ")


@pytest.mark.parametrize("value", ["suite=mimi", "runs=-1", "scores={entropy: {epsilon: 0}}", "unknown=1"])
def test_snakemake_stops_with_one_line_and_writes_nothing(tmp_path, value):
    copy_workflow(tmp_path)
    before = sorted(p for p in tmp_path.rglob("*") if ".snakemake" not in p.parts and "__pycache__" not in p.parts)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--config", value]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode != 0
    own = ("Using workflow specific profile", "Config file config.yaml is extended")  # Snakemake's own lines
    said = [line for line in (made.stdout + made.stderr).splitlines() if line.strip() and not line.startswith(own)]
    assert len(said) == 1, said
    assert said[0].startswith("Error in the configuration: config.yaml: ")
    assert before == sorted(
        p for p in Path(tmp_path).rglob("*") if ".snakemake" not in p.parts and "__pycache__" not in p.parts
    )


def test_model_names_that_would_share_files(tmp_path):
    copy_workflow(tmp_path)
    suite = yaml.safe_load((tmp_path / "suites/smoke.yaml").read_text())
    suite["models"]["BERT2"] = suite["models"]["BERT"]
    (tmp_path / "suites/mine.yaml").write_text(yaml.safe_dump(suite))
    with pytest.raises(UserError, match="models.BERT2: the name is 'BERT' and a digit"):
        settings.load(CONFIG | {"suite": "mine"}, tmp_path)


@pytest.mark.parametrize(
    "content,message",
    [
        (
            "threads: 1\nmodels: {}\nthreads: 2\n",
            "mine.yaml: the key 'threads' stands in line 1 and in line 3: remove one",
        ),
        ("models:\n  A: {title: x, title: x}\n", "mine.yaml: the key 'title' stands in line 2 and in line 2"),
        ("models:\n  A:\n    rows: {}\n  A:\n    rows: {}\n", "the key 'A' stands in line 2 and in line 4"),
        ("models:\n\tA:\n", "mine.yaml, line 2: there is a tab; YAML is indented with spaces"),
        ("models:\n  A:\n  \ttitle: x\n", "mine.yaml, line 3: there is a tab"),
        ("models: [\n", "mine.yaml is not valid YAML"),
    ],
)
@pytest.mark.fault("a suite has a key twice, or tabs", "refused; file and lines are named")
def test_keys_that_stand_twice_and_tabs(tmp_path, content, message):
    copy_workflow(tmp_path)
    (tmp_path / "suites/mine.yaml").write_text(content)
    with pytest.raises(UserError) as caught:
        settings.load(CONFIG | {"suite": "mine"}, tmp_path)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content,expected",
    [
        (
            "bb: &bb {a: 1}\nx: {y: {base: &base {<<: *bb,\n a: 2}}}\nuser: {<<: *base}\n",
            {"bb": {"a": 1}, "x": {"y": {"base": {"a": 2}}}, "user": {"a": 2}},
        ),
        ("a: &a [{b: 1}]\nc: *a\nd: *a\n", {"a": [{"b": 1}], "c": [{"b": 1}], "d": [{"b": 1}]}),
        ("b: 1\n'1': 2\n1: 3\n", {"b": 1, "1": 2, 1: 3}),
        ("", None),
    ],
)
def test_merged_keys_do_not_stand_twice(tmp_path, content, expected):
    (tmp_path / "mine.yaml").write_text(content)
    assert settings._read(tmp_path / "mine.yaml") == expected
    settings.check_files([tmp_path / "mine.yaml"])


def test_a_key_twice_inside_what_is_merged_is_still_refused(tmp_path):
    (tmp_path / "mine.yaml").write_text("a: &a\n  b: 1\n  b: 2\nc: [{<<: *a}]\n")
    with pytest.raises(UserError, match="the key 'b' stands in line 2 and in line 3"):
        settings.check_files([tmp_path / "mine.yaml"])


@pytest.mark.fault("config.yaml, which Snakemake reads itself, has a key twice", "refused with one line")
def test_a_key_twice_in_the_configuration(tmp_path):
    copy_workflow(tmp_path)
    own = tmp_path / "config.yaml"
    own.write_text(own.read_text() + "\nsuite: smoke\n")
    made = subprocess.run([sys.executable, "-m", "snakemake", "-n"], cwd=tmp_path, capture_output=True, text=True)
    said = [line for line in (made.stdout + made.stderr).splitlines() if line.startswith("Error")]
    assert made.returncode and re.fullmatch(
        r"Error in the configuration: config.yaml: the key 'suite' stands in line \d+ and in line \d+: remove one",
        *said,
    )
