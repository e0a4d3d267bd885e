"""Configuration and suites: defaults, validation, and messages a user can act on."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from gnorm import imports, layout, scores
from gnorm.data import origins
from gnorm.data.sources import check_path
from gnorm.errors import UserError, unknown
from gnorm.files import check_yaml
from gnorm.published import interchange
from gnorm.scores import describe

# Read off its source: importing it would import numpy.
AT_LEVELS = imports.constant(imports.PACKAGE / "engine/metrics.py", "AT_LEVELS")
MOST_JOBS = 10_000  # of one kind for one model: Snakemake plans them all
PATHS = ("hub_mirror", "package_mirror", "published", "container")  # of the configuration
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, ten times as fast
_REPEATED = re.compile(r"(.+)\1{19}$")  # Snakemake takes such a name for an endless loop
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


def load(config: dict, root: Path) -> dict:
    """The configuration with its suite under `models`, defaults filled in; raises `UserError`."""
    as_given, config = config, check(config, _schema(root, "config"), "config.yaml")
    for key in PATHS:
        config[key] = config[key] and os.path.expanduser(config[key])
    if config["published"]:
        check_path(config["published"], "config.yaml: published")
    if config["suite"] in (layout.PUBLISHED, layout.BENCH):
        raise UserError(f"config.yaml: suite: {config['suite']!r} names a folder of its own; rename the suite's file")
    available = sorted(p.stem for p in (root / "suites").glob("*.yaml"))
    if config["suite"] not in available:
        raise UserError(f"config.yaml: suite: there is no {unknown(config['suite'], available, 'suite')}")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", config["suite"]):
        raise UserError(f"config.yaml: suite: {config['suite']!r} must have at most 80 letters, digits, _ and -")
    _check_end(config["suite"], "config.yaml: suite")
    name = f"suites/{config['suite']}.yaml"
    read = _read(root / name)
    suite = check(read, _schema(root, "suite"), name)
    _check_names(suite["models"], name)
    for entry in suite["models"].values():
        for part in (entry["dataset"], entry["checkpoint"], entry["checkpoint"].get("from", {})):
            if "path" in part:
                part["path"] = os.path.expanduser(part["path"])
    origins.check_together(suite["models"], name)
    for model, entry in suite["models"].items():
        _check_labels(entry["dataset"], entry["task"], f"{name}: models.{model}.dataset")
        origins.check(entry, f"{name}: models.{model}")
        entry["vary"] = _varied(entry, suite["vary"], f"{name}: models.{model}.vary")
    homes = dict.fromkeys(config["strategies"], "config.yaml") | dict.fromkeys(suite["strategies"], name)
    config["strategies"] |= suite.pop("strategies")
    _hybrid(config["scores"]["hybrid"], config, "config.yaml: scores.hybrid")  # used or not
    own_batches = {s for s, strategy in config["strategies"].items() if "batch_rows" in strategy["settings"]}
    given = as_given["strategies"] | read.get("strategies", {})  # before defaults came in
    _check_strategies(config, given, root, homes)
    for model, entry in suite["models"].items():
        _check_counts(entry, suite, config, f"{name}: models.{model}")
    compared, home = suite.pop("compare"), name
    if config["compare"] is not None:  # a list of the configuration holds for every suite
        compared, home = {criterion: {} for criterion in config["compare"]}, "config.yaml"
    own_compared = {criterion for criterion, own in compared.items() if "batch_rows" in own}
    config["compare"] = _compared(compared, config, root, home)
    for entry in suite["models"].values():
        entry["metrics"] = config["metrics"][entry["task"]]
        rows = entry.pop("batch_rows", None)
        entry["strategies"] = {
            s: strategy | {"settings": _with_batch_rows(strategy["settings"], None if s in own_batches else rows)}
            for s, strategy in config["strategies"].items()
        }
        entry["compare"] = {
            criterion: _with_batch_rows(own, None if criterion in own_compared else rows)
            for criterion, own in config["compare"].items()
        }
    for key, package, names in (
        ("tables", "tables", config["tables"]),
        ("figures.draw", "figures", config["figures"]["draw"]),
    ):
        known = [m for m in _modules(root, package) if "\nNEEDS = " in _source(root, package, m)]
        for wanted in names:
            if (wanted.lower() if package == "figures" else wanted) not in known:
                raise UserError(f"config.yaml: {key}: there is no {unknown(wanted, known, package[:-1])}")
    return config | {"models": suite.pop("models"), "jobs": suite}


def models_of(root: Path, suite: str) -> dict:
    """The models of a suite as its file has them, with the schema's defaults."""
    name = f"suites/{suite}.yaml"
    return check(_read(root / name), _schema(root, "suite"), name)["models"]


def _varied(entry: dict, of_suite: str, where: str) -> str:
    """What a model's runs vary; a loaded one is the same in every run."""
    vary = entry.get("vary", of_suite)
    if vary == "training" and "epochs" not in entry["checkpoint"]:
        raise UserError(
            f"{where}: its checkpoint is loaded, not trained here, so its runs can vary rows only; "
            "set `vary: rows` for it"
        )
    return vary


def _check_counts(entry: dict, suite: dict, config: dict, where: str) -> None:
    """No more jobs of a kind than Snakemake can plan."""
    models = config["runs"] if entry["vary"] == "training" else 1  # each has shards and trials
    rows = entry["rows"]["calibration"] if entry["rows"]["entropy"] == "same" else entry["rows"]["entropy"]
    rows *= models
    if rows > MOST_JOBS * entry["shard_rows"]:
        least = -(-rows // MOST_JOBS)
        raise UserError(f"{where}.shard_rows: {rows} rows are more than {MOST_JOBS} shards; raise it to {least}")
    for strategy in (s for s in config["strategies"].values() if "trials" in s):
        trials = entry["random"].get("trials", strategy["trials"]) * entry["random"]["groups"] * models
        if trials > MOST_JOBS * suite["trials_per_job"]:
            least = -(-trials // MOST_JOBS)
            raise UserError(
                f"{where}.random: {trials} trials are more than {MOST_JOBS} jobs; raise trials_per_job to {least}"
            )


def _check_end(name: str, where: str) -> None:
    if _REPEATED.search(name):
        raise UserError(f"{where}: {name!r} ends with the same letters 20 times in a row; choose another name")


def _check_names(models: dict, suite: str) -> None:
    """Names become folders and files.

    Published names join model and row numbers: BERT's rows 20-63 and BERT2's rows 0-63 must differ.
    """
    for name in models:
        _check_end(name, f"{suite}: models.{name}")
        if not layout.is_model_name(name):
            raise UserError(f"{suite}: models.{name}: results have a folder of that name; choose another")
    for short in models:
        for long in models:
            if re.fullmatch(re.escape(short) + r"\d.*", long):
                raise UserError(f"{suite}: models.{long}: the name is {short!r} and a digit; choose another")
    titles: dict[str, str] = {}
    for name, entry in models.items():
        if not (title := entry.get("title", name)).strip() or not title.isprintable():
            raise UserError(
                f"{suite}: models.{name}.title: {title!r} must be a line of text without control characters"
            )
        other = titles.setdefault(entry.get("title", name), name)
        if other != name:
            raise UserError(f"{suite}: models.{name}.title: {other!r} is shown under the same title; choose another")


def _check_labels(dataset: dict, task: str, where: str) -> None:
    """Whether the keys about labels of a dataset with columns are those that its task needs."""
    columns = [key for key in ("text", "pair", "label") if dataset.get(key) is not None]
    for key in columns:
        other = next(first for first in columns if dataset[first] == dataset[key])
        if other != key:
            raise UserError(f"{where}.{key}: {dataset[key]!r} is the column of `{other}` too; name another")
        if dataset.get("columns") and dataset[key] not in dataset["columns"]:
            raise UserError(f"{where}.{key}: there is no {unknown(dataset[key], dataset['columns'], 'column')}")
    for key in ("label", "classes", "neutral") if "text" in dataset else ():
        if task == "language_model" and dataset.get(key) is not None:
            raise UserError(
                f"{where}.{key}: a language model's rows have none; leave it out, or set task: classification"
            )
        if task == "classification" and key != "neutral" and key not in dataset:
            raise UserError(f"{where}: the key {key!r} is missing; a language model needs none (task: language_model)")
    classes = dataset["classes"] if isinstance(dataset.get("classes"), list) else []
    names = [str(name) for name in classes]
    for name in names:
        if None in classes:
            raise UserError(f"{where}.classes: null is no name; put it in quotes")
        if names.count(name) > 1:
            raise UserError(f"{where}.classes: {name!r} stands there twice; name each class once")
        if name in map(str, dataset["unscored"]):
            raise UserError(f"{where}.unscored: {name!r} is one of `classes:` too; leave it out of either")
    if dataset.get("neutral") and dataset["unscored"]:
        raise UserError(f"{where}.unscored: `neutral` gives every row a class or leaves it out; leave `unscored` out")
    if dataset.get("neutral") and len(dataset["classes"]) != 2:
        raise UserError(f"{where}.classes: `neutral` tells two classes apart, got {dataset['classes']!r}")


def _with_batch_rows(settings: dict, rows: int | None) -> dict:
    """Settings of a score with the model's size of a batch, if it has one and that means anything."""
    if rows is None or settings.get("granularity") != "batch":
        return settings
    return settings | {"batch_rows": rows}


def _check_strategies(config: dict, given: dict, root: Path, homes: dict[str, str]) -> None:
    """Strategies with their defaults make sense, and so does what was `given` of them in the files of `homes`."""
    for name, strategy in config["strategies"].items():
        where = f"{homes[name]}: strategies.{name}"
        _check_end(name, where)
        if strategy["score"] not in scores.names():
            raise UserError(f"{where}.score: there is no {unknown(strategy['score'], scores.names(), 'score')}")
        drawn = describe(strategy["score"]).drawn
        if drawn and not layout.is_strategy_name(name):
            raise UserError(f"{where}: results have a folder of that name; choose another")
        if drawn != ("trials" in strategy):
            raise UserError(f"{where}: `trials` goes with `score: random`, and `score: random` with `trials`")
        for key in ("prune", "rescore") if drawn else ():
            if key in given[name]:
                raise UserError(f"{where}.{key}: a random order has no scores to choose by; leave `{key}` out")
        strategy["settings"] = _score_settings(strategy, config, root, where, f"{where}.settings")
        if strategy["unit"] == "neurons":
            strategy["group"] = config["neurons"]["group"]
            _check_neurons(name, strategy, where)
    published = {known.lower(): name for name, known in interchange.PUBLISHED.items()}
    for name in config["strategies"]:
        other = published.setdefault(interchange.strategy_name(name).lower(), name)
        if other != name:
            raise UserError(f"{homes[name]}: strategies.{name}: its file names would be those of {other!r}")
    wanted = config["solutions"]["strategy"]
    ranked = [
        name
        for name, strategy in config["strategies"].items()
        if not describe(strategy["score"]).drawn and strategy["unit"] == "heads"
    ]
    if wanted not in ranked:
        raise UserError(f"config.yaml: solutions.strategy: there is no {unknown(wanted, ranked, 'strategy')}")


def _check_neurons(name: str, strategy: dict, where: str) -> None:
    """A strategy that prunes neurons has a score that can, and a name that nobody takes for one of heads."""
    if name in (*interchange.PUBLISHED, "random"):
        raise UserError(f"{where}.unit: the paper's strategy {name} prunes heads; give the one of neurons another name")
    able = [score for score in scores.names() if "neurons" in describe(score).units]
    for score in (strategy["score"], *strategy["settings"].get("members", {})):
        if score not in able:
            raise UserError(f"{where}.unit: {score} scores heads alone; neurons are scored by {', '.join(able)}")


def _score_settings(plan: dict, config: dict, root: Path, where: str, own_are: str) -> dict:
    """The configuration's settings of a score with the plan's own in their place; of a hybrid its members' too."""
    score, own = plan["score"], plan["settings"]
    if own:
        schema = _schema(root, "config")["properties"]["scores"]["properties"].get(score)
        if schema is None:
            raise UserError(f"{own_are}: the score {score} has no settings")
        checked = check(own, schema, own_are)
        own = {key: checked[key] for key in own}
    settings_of_score = {**config["scores"].get(score, {}), **own}
    if not describe(score).made_of_others:
        return settings_of_score
    settings_of_score = _hybrid(settings_of_score, config, where)
    for name, settings in settings_of_score["members"].items():
        if describe(name).needs_own_batches(settings):
            with_these = "".join(f" with {key}: {value}" for key, value in describe(name).batched.items())
            raise UserError(f"{where}: of: {name} cannot join a hybrid{with_these}, as it has batches of its own")
    return settings_of_score


def _hybrid(settings: dict, config: dict, where: str) -> dict:
    """The settings of a hybrid with those of its members."""
    others = [name for name in scores.names() if not describe(name).made_of_others]
    for name, weight in settings["of"].items():
        if name in scores.names() and name not in others:
            raise UserError(f"{where}: a hybrid of hybrids is not possible; of: takes {', '.join(others)}")
        if name not in others:
            raise UserError(f"{where}: of: there is no {unknown(name, others, 'score')}")
        if not weight:
            raise UserError(f"{where}: of: {name} has the weight 0; leave it out instead")
    if len(settings["of"]) < 2:
        raise UserError(f"{where}: of: a hybrid takes at least 2 criteria, got {len(settings['of'])}")
    return settings | {"members": {name: config["scores"].get(name, {}) for name in settings["of"]}}


def _compared(chosen: dict[str, dict], config: dict, root: Path, home: str) -> dict[str, dict]:
    """The criteria to compare with all their settings; `chosen` has those that the file `home` gives them."""
    compared_with = {}
    for name, own in chosen.items():
        if name not in scores.names():
            raise UserError(f"{home}: compare: there is no {unknown(name, scores.names(), 'score')}")
        if describe(name).stored and own:
            raise UserError(f"{home}: compare.{name}: shards hold its values; set scores.{name} in config.yaml")
        where = f"{home}: compare.{name}" if own else f"config.yaml: scores.{name}"
        compared_with[name] = _score_settings({"score": name, "settings": own}, config, root, where, where)
    return compared_with


def of_attention(config: dict) -> list[str]:
    """What of a loaded configuration reads attention matrices, which not every model gives."""
    return scores_of(config, *(score for score in scores.names() if describe(score).attention))


def scores_of(config: dict, *wanted: str) -> list[str]:
    """What of a loaded configuration takes one of these scores, by itself or as a member."""
    scored = [(f"strategies.{name}", entry["score"], entry["settings"]) for name, entry in config["strategies"].items()]
    scored += [(f"{name} of compare", name, settings) for name, settings in config["compare"].items()]
    return [where for where, score, settings in scored if {*wanted} & {score, *settings.get("members", {})}]


def check(value: Any, schema: dict, where: str) -> Any:
    """`value` with the schema's defaults; the first mistake is raised as one line."""
    try:
        value = _with_defaults(value, schema)
        _check_plain(value, where)
    except RecursionError:
        raise UserError(f"{where}: something in it contains itself") from None
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(value))
    if errors:
        raise UserError(f"{where}: {_explain(max(errors, key=jsonschema.exceptions.relevance))}")
    return value


def _check_plain(value: Any, where: str, key: str = "") -> None:
    """Keys are text and numbers are finite, which YAML does not promise."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{where}: {key + ': ' if key else ''}must be a finite number, got {value}")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        if isinstance(value, dict) and not isinstance(name, str):
            raise UserError(f"{where}: {key + ': ' if key else ''}the key {name!r} must be text, in quotes")
        _check_plain(part, where, _path([key, name] if key else [name]))


def _path(names: Iterable) -> str:
    """Keys from the outermost in; one that would break the line is quoted."""
    return ".".join(name if (name := str(key)).isprintable() else repr(name) for key in names)


class _Unique(_LOADER):
    """Refuses a key that stands twice in one mapping; YAML would take the last."""

    def get_single_node(self) -> yaml.Node | None:
        """Compose the document and look at it as it is written: construction puts merged keys among a mapping's own."""
        document = super().get_single_node()
        waiting, seen = [document], set()
        while waiting:
            node = waiting.pop()
            if not isinstance(node, yaml.CollectionNode) or id(node) in seen:  # an alias is the node that it names
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                _check_keys(node)
                waiting += [part for pair in reversed(node.value) for part in reversed(pair)]
            else:
                waiting += reversed(node.value)
        return document


def _check_keys(node: yaml.MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
        line, named = key.start_mark.line + 1, (key.tag, key.value)
        if named in lines:
            raise UserError(f"the key {key.value!r} stands in line {lines[named]} and in line {line}: remove one")
        lines[named] = line


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        check_yaml(text)
        return yaml.load(text, Loader=_Unique)
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = text.split("\n")[mark.line : mark.line + 1] if mark else []
        if line and "\t" in line[0]:
            raise UserError(
                f"{path.name}, line {mark.line + 1}: there is a tab; YAML is indented with spaces"
            ) from error
        raise UserError(f"{path.name} is not valid YAML: {' '.join(str(error).split())}") from error
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UserError(f"{path.name} is not valid YAML: {' '.join(str(error).split())}") from error


def check_files(paths: Iterable[str | Path]) -> None:
    """Read configuration files that Snakemake has read for what it says nothing about: keys that stand twice."""
    for path in map(Path, paths):
        if path.suffix in (".yaml", ".yml"):
            _read(path)


@cache
def _schema(root: Path, name: str) -> dict:
    """A schema with its references filled in, so that whoever reads it meets none."""
    schema = _read(root / "schemas" / f"{name}.schema.yaml")

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(part) for part in value]
        if not isinstance(value, dict):
            return value
        named = referred(value["$ref"]) if "$ref" in value else {}
        return {key: filled(part) for key, part in {**named, **value}.items() if key not in ("$ref", "$defs")}

    def referred(reference: str) -> dict:
        """What `#/a/b` is here, or `other.schema.yaml#/a/b` there."""
        file, _, path = reference.partition("#/")
        part = _schema(root, file.removesuffix(".schema.yaml")) if file else schema
        for key in path.split("/"):
            part = part[key]
        return part

    return filled(schema)


def _modules(root: Path, package: str) -> list[str]:
    folder = root / "scripts" / "gnorm" / package
    return sorted(p.stem for p in folder.glob("*.py") if p.stem != "__init__")


def _source(root: Path, package: str, module: str) -> str:
    return (root / "scripts" / "gnorm" / package / f"{module}.py").read_text(encoding="utf-8")


def _number(value: Any, schema: dict) -> Any:
    """Text as the number it spells, where a number is wanted.

    YAML 1.1 reads 1e-7 as text, and Snakemake hands on nested values of --config as text.
    """
    kinds = [option.get("type") for option in (schema, *schema.get("oneOf", []))]
    if isinstance(value, str) and ("number" in kinds or "integer" in kinds) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return int(value)
    return value


def _with_defaults(value: Any, schema: dict) -> Any:
    """`value` with every `default` of the schema that it does not set, at any depth."""
    if "oneOf" in schema and isinstance(value, dict):  # told apart by their `source`
        for option in schema["oneOf"]:
            if option.get("properties", {}).get("source", {}).get("const") == value.get("source"):
                schema = option
    if not isinstance(value, dict):
        return _number(value, schema)
    result = dict(value)
    for key, part in schema.get("properties", {}).items():
        if key not in result and "default" in part:
            result[key] = part["default"]
        if key in result:
            result[key] = _with_defaults(result[key], part)
    # In the schema's order: writing the same settings in another order must not rerun anything.
    known = schema.get("properties", {})
    result = {key: result[key] for key in (*(k for k in known if k in result), *(k for k in result if k not in known))}
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for key in result:
            if key not in schema.get("properties", {}):
                result[key] = _with_defaults(result[key], extra)
    return result


def _explain(error: jsonschema.ValidationError) -> str:
    if error.validator == "oneOf" and isinstance(error.instance, dict):
        return _explain_source(error)
    key = _path(error.absolute_path)
    where = f"{key}: " if key else ""
    rule = error.validator_value
    if error.validator == "additionalProperties":
        allowed = sorted(error.schema.get("properties", {}))
        wrong = sorted(set(error.instance) - set(allowed))[0]
        return f"{where}there is no {unknown(wrong, allowed, 'key')}"
    if error.validator == "required":
        missing = next(name for name in rule if name not in error.instance)
        said = error.schema.get("properties", {}).get(missing, {}).get("description")
        return f"{where}the key {missing!r} is missing" + (f" ({said})" if said else "")
    if error.validator == "enum":
        return f"{where}there is no {unknown(error.instance, rule, 'value')}"
    if error.validator == "pattern" and "description" in error.schema:
        return f"{where}must be {error.schema['description']}, got {error.instance!r}"
    if error.validator == "pattern" or error.validator == "propertyNames":
        return f"{where}{error.message}; use letters, digits, _ and -, 80 at most"
    if error.validator == "oneOf":
        words = [v for option in rule for v in option.get("enum", [option["const"]] if "const" in option else [])]
        kinds = [_kind(option) for option in rule if "type" in option]
        return f"{where}there is no {unknown(error.instance, words + kinds, 'value')}"
    said = error.schema.get("description", "")
    types = " or ".join([rule] if isinstance(rule, str) else rule) if error.validator == "type" else ""
    meaning = {
        "exclusiveMinimum": f"must be above {rule}",
        "minimum": f"must be at least {rule}",
        "exclusiveMaximum": f"must be below {rule}",
        "maximum": f"must be at most {rule}",
        "type": f"must be of type {types}",
        "minProperties": "must not be empty",
        "minItems": f"must have at least {rule} items",
        "uniqueItems": "must name nothing twice",
    }.get(error.validator, error.message)
    return f"{where}{meaning}, got {error.instance!r}" + (f" ({said})" if said else "")


def _kind(option: dict) -> str:
    if option["type"] == "array":
        return f"a list of at least {option['minItems']}"
    return f"{option['type']} from {option.get('minimum')}"


def _explain_source(error: jsonschema.ValidationError) -> str:
    """Explain against the alternative that the entry's `source` picks."""
    key = _path(error.absolute_path)
    sources = [option["properties"]["source"]["const"] for option in error.validator_value if "properties" in option]
    given = error.instance.get("source")
    if given not in sources:
        return f"{key}.source: there is no {unknown(given, sources, 'source')}"
    inner = [e for e in error.context if e.schema_path[0] == sources.index(given)]
    return _explain(max(inner, key=jsonschema.exceptions.relevance))
