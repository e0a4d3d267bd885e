"""Settings that only together are impossible are refused while planning."""

import copy

import pytest
import yaml
from support import ROOT, copy_workflow, snakemake

from gnorm.errors import UserError
from gnorm.models import checkpoints
from gnorm.planning import consistency
from gnorm.pruning import limits, runs
from gnorm.settings import suites

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


def loaded(stop=None, **changes):
    """The settings of the suite smoke with an own `stop` and its first model alone, changed."""
    settings = copy.deepcopy(suites.load(CONFIG | {"suite": "smoke", "stop": stop or {}}, ROOT))
    return settings | {"models": {"BERT": settings["models"]["BERT"] | changes}}


@pytest.mark.parametrize("suite", ["smoke", "mini", "minilm", "paper"])
def test_shipped_suites_are_consistent(suite):
    consistency.check(suites.load(CONFIG | {"suite": suite}, ROOT))


TRAINED = {"source": "train", "family": "bert", "layers": 2, "heads": 4, "width": 16, "feed_forward": 16}
TRAINED |= {"vocabulary": 100, "length": 16, "epochs": 1, "batch": 4, "rate": 0.1}
TIED = TRAINED | {"family": "albert"}
LEVELS = {"groups": 1, "levels": 3}
UNKNOWN = {"source": "hub", "id": "some/model", "revision": "main"}

IMPOSSIBLE = [
    ({"heads": 3}, TRAINED, {"solution": 4}, "models.BERT.solution: 4 heads are more than `stop: heads: 3`"),
    ({"heads": 3}, UNKNOWN, {"solution": 4}, "models.BERT.solution: 4 heads are more than `stop: heads: 3`"),
    ({"fraction": 0.25}, TRAINED, {"solution": 3}, "3 heads are more than `stop: fraction: 0.25` .* prune, 2 of 8;"),
    ({"accuracy_drop": 0.1}, UNKNOWN, {"solution": 1}, "1 heads, and `stop: accuracy_drop` .* may end before them"),
    ({}, TRAINED, {"solution": 9}, "models.BERT.solution: 9 heads are more than the 8 that the model has"),
    ({}, TIED, {"solution": 3}, "solution: must be a multiple of the 2 layers that share their heads, got 3"),
    ({"heads": 3}, TIED, {"solution": 4}, "models.BERT.solution: 4 heads are more than `stop: heads: 3`"),
    ({"heads": 1}, TIED, {}, "stop: heads: 1 ends before the first head of BERT is pruned: a step prunes 2 of its 8"),
    ({"fraction": 0.1}, TRAINED, {}, "stop: fraction: 0.1 ends before the first head of BERT is pruned"),
    ({}, TRAINED, {"random": LEVELS | {"levels": 10}}, "random.levels: 8 prunable heads allow at most 9, got 10"),
]


@pytest.mark.parametrize("stop,checkpoint,changes,message", IMPOSSIBLE)
@pytest.mark.fault(
    "`stop`, `solution`, `random.levels` and a model's size contradict each other", "refused while planning"
)
def test_what_only_together_is_impossible(stop, checkpoint, changes, message):
    with pytest.raises(UserError, match=message) as caught:
        consistency.check(loaded(stop, checkpoint=checkpoint, **{"random": LEVELS} | changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "stop,checkpoint,solution",
    [
        ({}, TRAINED, 8),
        ({"heads": 3}, TRAINED, 3),
        ({"fraction": 0.375}, TRAINED, 3),
        ({"accuracy_drop": 0.0}, TRAINED, 0),
        ({"fraction": 0.5, "heads": 4}, TIED, 4),
        ({"fraction": 0.01}, UNKNOWN, 500),
    ],
)
def test_what_is_possible(stop, checkpoint, solution):
    consistency.check(loaded(stop, checkpoint=checkpoint, random=LEVELS, solution=solution))


@pytest.mark.parametrize("family", ["bert", "albert", "llama"])
def test_the_files_of_a_model_count_where_its_heads_are_known(make_tiny, tmp_path, family):
    """Each of these is what `slots` and `total` of the loaded model say."""
    tiny = make_tiny(family)
    tiny.model.config.save_pretrained(tmp_path)
    local = {"source": "local", "path": str(tmp_path)}
    slots, total = tiny.heads.shape[0] * tiny.heads.shape[1], tiny.heads.total
    consistency.check(loaded(checkpoint=local, random=LEVELS | {"levels": slots + 1}, solution=total))
    for changes in ({"random": LEVELS | {"levels": slots + 2}}, {"random": LEVELS, "solution": total + 1}):
        with pytest.raises(UserError):
            consistency.check(loaded(checkpoint=local, **changes))
        tiny.model.config.head_map = {"said": "by the model"}
        tiny.model.config.save_pretrained(tmp_path)
        consistency.check(loaded(checkpoint=local, **changes))  # known once it is loaded
        del tiny.model.config.head_map
        tiny.model.config.save_pretrained(tmp_path)


@pytest.mark.parametrize(
    "suite,group,indivisible,most",
    [
        ("paper", 512, "models.BERT: its 3072 neurons a layer", "models.ALBERT.random.levels: 6 groups .* at most 7"),
        ("mini", 64, "models.BERT: its 128 neurons a layer", "models.ALBERT.random.levels: 2 groups .* at most 3"),
    ],
)
def test_groups_of_neurons_fit_models_trained_here_and_from_outside(suite, group, indivisible, most):
    def check(group, **strategy):
        strategies = CONFIG["strategies"] | {"new": {"unit": "neurons"} | strategy}
        changes = {"suite": suite, "strategies": strategies, "neurons": {"group": group}}
        consistency.check(suites.load(CONFIG | changes, ROOT))

    check(8, score="fisher")
    check(8, score="random", trials=2)
    check(group, score="fisher")
    with pytest.raises(UserError, match=f"{indivisible} are no multiple of neurons.group in config.yaml, 100, which"):
        check(100, score="fisher")
    with pytest.raises(UserError, match=f"{most}, got .*; lower it, or neurons.group in config.yaml"):
        check(group, score="random", trials=2)


@pytest.mark.parametrize(
    "stop,family,said",
    [
        ({"fraction": 0.2}, "bert", "fraction: 0.2 ends before the first group of 8 neurons of BERT .strategy new. is"),
        ({"heads": 2}, "albert", None),
        ({"fraction": 0.25}, "bert", None),
        ({"fraction": 0.49}, "albert", "a step prunes 2 of its 4; raise it"),
        ({"accuracy_drop": 0}, "bert", None),
    ],
)
@pytest.mark.fault("`stop` ends before the first group of neurons is pruned", "refused while planning, or by the job")
def test_an_end_before_the_first_group_of_neurons(stop, family, said):
    """The model has 2 layers of 8 heads and of 16 neurons: a stop may suit the one and not the other."""
    strategies = CONFIG["strategies"] | {"new": {"score": "fisher", "unit": "neurons"}}
    settings = suites.load(
        CONFIG | {"suite": "smoke", "stop": stop, "strategies": strategies, "neurons": {"group": 8}}, ROOT
    )
    checkpoint = TRAINED | {"family": family, "heads": 8}
    settings |= {"models": {"BERT": settings["models"]["BERT"] | {"checkpoint": checkpoint, "random": LEVELS}}}
    if said is None:
        return consistency.check(settings)
    with pytest.raises(UserError, match=said):
        consistency.check(settings)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.fault("prompts of generation leave a model no position to write in", "refused while planning")
def test_prompts_that_fill_all_positions_of_a_model_in_a_folder(make_tiny, tmp_path, family):
    tiny = make_tiny(family, writes=True)
    positions = checkpoints.positions(tiny.model)
    tiny.model.config.save_pretrained(tmp_path)
    settings = loaded(checkpoint={"source": "local", "path": str(tmp_path)}, random=LEVELS)
    settings["models"]["BERT"] |= {"task": "language_model", "metrics": ["accuracy", "tokens_per_second"]}

    def check(prompt):
        consistency.check(settings | {"generation": {"prompts": 1, "new_tokens": 4, "prompt_tokens": prompt}})

    check(positions - 1)
    with pytest.raises(UserError, match=f"models.BERT.checkpoint.path: {positions} positions leave none to write in"):
        check(positions)
    settings["models"]["BERT"] |= {"metrics": ["accuracy", "perplexity"]}
    check(positions)  # it writes nothing


@pytest.mark.parametrize("family", ["bert", "albert", "llama"])
def test_a_loaded_model_has_the_size_that_was_planned(make_tiny, family):
    heads = make_tiny(family).heads
    size, (rows, slots) = limits.Size.of(heads), heads.shape
    assert (size.total, size.step, size.slots) == (heads.total, heads.layers // rows, rows * slots)
    limits.check(size, stop={}, solution=size.total, levels=size.slots + 1)
    for changes, said in (
        ({"solution": size.total + size.step}, "solution: .* heads are more than the"),
        ({"levels": size.slots + 2}, "random.levels: .* prunable heads allow at most"),
        ({"stop": {"fraction": 0.9 / size.slots}}, "config.yaml: stop: fraction: .* ends before the first head is"),
        ({"stop": {"heads": size.step}, "solution": 2 * size.step}, "solution: .* are more than `stop: heads"),
    ):
        with pytest.raises(UserError, match=said):
            limits.check(size, **{"stop": {}, "solution": None, "levels": 2} | changes)


@pytest.mark.parametrize("unit,said", [("neurons", "first neuron group is pruned"), ("heads", "first head is pruned")])
def test_a_job_refuses_an_end_before_its_first_step(make_tiny, unit, said):
    """What planning cannot know; a trajectory without a step would look like a finished one."""
    tiny = make_tiny("bert")
    strategy = {"score": "fisher", "unit": unit, "group": 8, "prune": "lowest", "rescore": "never"}
    job = {"runs": [0], "seed": 1, "stop": {"fraction": 0.001}, "state": None, "folder": ""}
    with pytest.raises(UserError, match=said):
        next(runs.prune(tiny, strategy=strategy, **job))


def test_the_workflow_checks_it(tmp_path):
    copy_workflow(tmp_path)
    made = snakemake(tmp_path, "-n", "--config", "suite=paper", "stop={heads: 100}")
    said = [line for line in (made.stdout + made.stderr).splitlines() if line.startswith("Error")]
    assert made.returncode and said == [
        "Error in the configuration: suites/paper.yaml: models.BERT.solution: 117 heads are more than `stop: heads: "
        "100` in config.yaml lets a trajectory prune; change either"
    ]
