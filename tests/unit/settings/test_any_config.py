"""Any configuration is accepted and plans, or is refused with a line that names the key."""

import copy
import random
import re
import resource
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ROOT, copy_workflow, snakemake

from gnorm.errors import UserError
from gnorm.settings.suites import load

DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
SUITES = {name: yaml.safe_load((ROOT / f"suites/{name}.yaml").read_text()) for name in ("mini", "smoke", "paper")}


def places(value, path=()):
    """Every place in nested settings, as keys."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


SCHEMA = {
    str(path[-1])
    for name in ("config", "suite")
    for path in places(yaml.safe_load((ROOT / f"schemas/{name}.schema.yaml").read_text()))
    if len(path) > 1 and path[-2] == "properties"
}

names = st.sampled_from(
    [
        "..",
        "../x",
        "a/b",
        "",
        " ",
        "tables",
        "state",
        "logs",
        "BERT2",
        "bert",
        "x\n",
        "é",
        "-",
        "random",
        "entropy",
        "\x00",
    ]
)
numbers = st.one_of(
    st.integers(-3, 40), st.sampled_from([0.5, -1.0, 1e300, float("nan"), float("inf"), 10**30, "1e-5", "1e999", "7"])
)
words = st.one_of(
    names, st.sampled_from(["same", "auto", "model", "every_step", "never", "lowest", "gnorm", "local", "file", "hub"])
)
plain = st.one_of(st.none(), st.booleans(), numbers, words, st.text(max_size=6), st.dates())
anything = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.one_of(words, st.integers(), st.none()), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def mutated(draw, valid):
    """Valid settings with up to three places changed, removed or added to."""
    value = copy.deepcopy(draw(valid))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(sorted(places(value), key=str)))
        if not path:
            if draw(st.integers(0, 9)) == 0:
                return draw(anything)
            target = value
        else:
            target = value
            for key in path[:-1]:
                target = target[key]
        kind = draw(st.sampled_from(["set", "remove", "add"]))
        if kind == "add" or not path:
            if isinstance(target, dict):
                target[draw(st.one_of(words, st.text(max_size=4), st.integers()))] = draw(anything)
        elif kind == "set":
            target[path[-1]] = draw(anything)
        else:
            del target[path[-1]]
    return value


configs = mutated(st.just(CONFIG))
suites = mutated(st.sampled_from(list(SUITES.values())))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    (folder / "suites").mkdir()
    for name in ("schemas", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def keys(value):
    return {str(key) for path in places(value) for key in path}


def decided(config, suite, root):
    """What became of it: the settings, or the refusal."""
    (root / "suites/any.yaml").write_text(yaml.dump(suite, Dumper=DUMPER, allow_unicode=True))
    if isinstance(config, dict) and config.get("suite") == "mini":
        config = config | {"suite": "any"}
    try:
        return load(copy.deepcopy(config), root), None
    except UserError as error:
        return None, str(error)


def check(config, suite, root):
    made, said = decided(config, suite, root)
    if said is None:
        assert made["models"] and made["strategies"]
        for model in made["models"]:
            assert re.fullmatch(r"[A-Za-z0-9_-]+", model)
        return
    assert "\n" not in said, said
    assert re.match(r"(config\.yaml|suites/any\.yaml|any\.yaml)\b", said), said
    whole = not isinstance(config, dict) or not isinstance(suite, dict)
    assert whole or any(repr(key)[1:-1] in said for key in (keys(config) | keys(suite) | SCHEMA) - {""}), said


OPTIONS = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@pytest.mark.fault(
    "any configuration: keys missing, added, or of any value",
    "accepted, or one line that names the key; never a traceback",
)
def test_any_config(root, record_property):
    tried = []

    @settings(max_examples=300, **OPTIONS)
    @given(configs)
    def run(config):
        tried.append(1)
        check(config, SUITES["smoke"], root)

    run()
    record_property("tried", len(tried))
    assert len(tried) >= 300


@pytest.mark.fault(
    "any suite: keys missing, added, or of any value", "accepted, or one line that names the key; never a traceback"
)
def test_any_suite(root, record_property):
    tried = []

    @settings(max_examples=300, **OPTIONS)
    @given(suites)
    def run(suite):
        tried.append(1)
        check(CONFIG, suite, root)

    run()
    record_property("tried", len(tried))
    assert len(tried) >= 300


def names_of(kind):
    return ["..", "../../x", "a/b", "/tmp/x", "", ".", "a b", "x\n", "é"] + (
        ["tables", "Logs", "solutions", "state", "benchmarks", "experiments_results"] if kind == "models" else []
    )


@pytest.mark.parametrize("kind", ["models", "strategies", "suite", "hub"])
@pytest.mark.fault(
    "a name has `..` or `/`, or is a folder of the results", "refused; nothing is written outside results/ and figures/"
)
def test_names_that_would_write_elsewhere(root, kind, record_property):
    tried = names_of(kind)
    for name in tried:
        config, suite = copy.deepcopy(CONFIG), copy.deepcopy(SUITES["paper" if kind == "hub" else "smoke"])
        if kind == "models":
            suite["models"][name] = suite["models"].pop("BERT")
        elif kind == "strategies":
            config["strategies"][name] = {"score": "gnorm"}
        elif kind == "suite":
            config["suite"] = name
        else:
            suite["models"]["BERT"]["dataset"]["split"] = f"../{name}"
        made, said = decided(config, suite, root)
        assert made is None and kind.removesuffix("s").removesuffix("ie") in said.replace("split", "hub"), said
    for identity in ("../x", "x/..", "./.", "a/b/c", "/a"):
        suite = copy.deepcopy(SUITES["paper"])
        suite["models"]["BERT"]["checkpoint"]["id"] = identity
        assert "models.BERT.checkpoint.id: must be owner/name" in decided(CONFIG, suite, root)[1]
    record_property("tried", len(tried) + 5)


def test_a_random_strategy_cannot_take_a_folder(root):
    config = copy.deepcopy(CONFIG)
    config["strategies"]["entropy"] = {"score": "random", "trials": 2}
    assert "strategies.entropy: results have a folder of that name" in decided(config, SUITES["smoke"], root)[1]


LARGE = [
    ("config", "runs", 10**9, "runs: must be at most 1000"),
    ("suite", "shard_rows", {"calibration": 10**8}, "shard_rows: 100000000 rows are more than 10000 shards"),
    (
        "suite",
        "random",
        {"trials": 10000, "groups": 100, "levels": 3},
        "random: 1000000 trials are more than 10000 jobs",
    ),
]


@pytest.mark.parametrize("where,key,value,said", LARGE)
def test_numbers_that_no_plan_can_hold(root, where, key, value, said):
    config, suite = copy.deepcopy(CONFIG), copy.deepcopy(SUITES["smoke"])
    if where == "config":
        config[key] = value
    elif key == "random":
        suite["models"]["BERT"]["random"] = value
    else:
        suite["models"]["BERT"]["rows"] |= value
    assert said in decided(config, suite, root)[1]


@pytest.mark.slow
@pytest.mark.fault(
    "a sample of generated configurations goes through Snakemake",
    "those accepted plan, those refused say so in one line",
)
def test_what_is_accepted_plans(tmp_path, record_property):
    tree = copy_workflow(tmp_path / "tree")
    found = []

    @settings(max_examples=120, **OPTIONS)
    @given(configs, mutated(st.just(SUITES["smoke"])))
    def collect(config, suite):
        if isinstance(config, dict) and all(isinstance(key, str) for key in config):
            found.append((config, suite))

    collect()
    draw = random.Random(1)
    root = tree
    (tree / "suites/any.yaml").write_text("")
    kinds = {True: [], False: []}
    for config, suite in found:
        made, said = decided(config, suite, root)
        kinds[said is None].append((config, suite))
    chosen = draw.sample(kinds[True], min(12, len(kinds[True]))) + draw.sample(kinds[False], 6)
    for config, suite in chosen:
        _, expected = decided(config, suite, tree)
        (tree / "config.yaml").write_text(
            yaml.safe_dump(config | {"suite": "any"} if config.get("suite") == "mini" else config)
        )
        made = snakemake(tree, "-n", "--quiet", "rules")
        said = made.stdout + made.stderr
        assert "Traceback" not in said, said[-3000:]
        assert (made.returncode == 0) == (expected is None), said[-3000:]
        if expected:
            assert "Error in the configuration: " in said
    record_property("tried", len(chosen))
    shutil.rmtree(tree)


def planning(tree: Path, models: int) -> float:
    """Seconds of CPU that it takes to plan so many models with 7 strategies in 3 runs."""
    model = SUITES["mini"]["models"]["BERT"]
    (tree / "suites/many.yaml").write_text(yaml.safe_dump({"models": {f"M{i:03}": model for i in range(models)}}))
    config = CONFIG | {"suite": "many"}
    config["strategies"] = CONFIG["strategies"] | {
        "by_loss": {"score": "gnorm", "settings": {"objective": "task_loss"}}
    }
    assert len(config["strategies"]) == 7
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = snakemake(tree, "-n", "--quiet", "rules")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert made.returncode == 0, made.stderr[-3000:]
    assert re.search(rf"prune_heads +{18 * models}\n", made.stdout + made.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.fault(
    "100 models x 7 strategies x 3 runs in one configuration", "planned, in time that grows as the number of models"
)
def test_many_models_plan(tmp_path):
    """How long it takes depends on the machine; what each model adds does not depend on how many there are."""
    tree = copy_workflow(tmp_path / "tree")
    one, few, many = (planning(tree, count) for count in (1, 25, 100))
    each, each_of_many = (few - one) / 24, (many - one) / 99
    assert each_of_many < 1.4 * each, f"1, 25 and 100 models: {one:.1f}, {few:.1f}, {many:.1f} s"
    shutil.rmtree(tree)
