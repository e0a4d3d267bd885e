"""`make test-mutants`: change the code in small ways, one at a time, and see which changes the tests notice.

A parent process imports the libraries once and nothing of this project. For every mutant it forks a child, which gets
the changed module instead of the real one, and runs the tests that run the changed lines, quickest first, until one
fails.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import ctypes
import gc
import hashlib
import importlib.abc
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

import changes
import pytest
from changes import Mutant

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/mutants"  # what runs which lines, and what became of each mutant, for `--again`
RULES = """
    check_entropy compare_criteria entropy_shard export_solution find_solution gradient_change measure_baselines
    measure_controls measure_speed merge_entropy prune_heads
""".split()
TESTS = [
    *(f"tests/unit/{name}" for name in ("engine", "published", "pruning", "scores", "statistics")),
    *(f"tests/unit/models/test_{name}.py" for name in ("families", "neurons", "own_model", "surgery")),
    *("tests/unit/data/test_hard_rows.py", "tests/unit/test_resume.py", "tests/unit/test_workbench.py"),
    *(f"tests/rules/test_{name}.py" for name in RULES),
]
MARKS = "not slow and not mini and not minilm"
SUITES = {"smoke", "mini"}  # fixtures that run whole suites, in processes of their own: no mutant gets there
# What numbers depend on.
SUBJECTS = """
    scores/*.py engine/ablation.py engine/batches.py engine/evaluate.py engine/metrics.py engine/objectives.py
    engine/passes.py models/gates.py models/slots.py pruning/comparison.py pruning/rescoring.py pruning/runs.py
    pruning/scoring.py pruning/trajectory.py pruning/trials.py statistics/baselines.py statistics/curves.py data/rows.py
""".split()
LIBRARIES = """
    torch torch._dynamo transformers transformers.pytorch_utils transformers.masking_utils hypothesis numpy pandas
    scipy.stats sklearn.linear_model sklearn.feature_extraction.text sklearn.model_selection pyarrow.parquet yaml
    jsonschema jinja2 safetensors.torch tokenizers
""".split()
FAMILIES = "auto bert albert roberta xlm_roberta distilbert electra gpt2 llama qwen2".split()
COUNT, SEED = 300, 28
LEAST, TIMES = 30, 5  # seconds of a core that a test may take: at least, and this often as much as without a mutant
ENOUGH = 120  # seconds of a core that a mutant's tests take together: those beyond are not run, and it has survived
LONGEST = 3600  # seconds by the clock: a mutant may also wait for ever
DIE_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG


def subjects() -> dict[str, Path]:
    """The modules that are changed, by name."""
    paths = [path for pattern in SUBJECTS for path in sorted((ROOT / "scripts/gnorm").glob(pattern))]
    return {".".join(path.relative_to(ROOT / "scripts").with_suffix("").parts): path for path in paths}


def all_mutants() -> list[Mutant]:
    return [mutant for name, path in subjects().items() for mutant in changes.mutants(name, path.read_text())]


def draw(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw mutants by the hash of their keys: a change of the code elsewhere draws the same ones."""
    return sorted(mutants, key=lambda m: hashlib.sha256(f"{seed} {m.key}".encode()).digest())[:count]


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a changed module in place of the real one, with some names in it from the start."""

    def __init__(self, module: str, path: Path, tree: ast.Module, **names):
        self.name, self.path, self.names = module.removesuffix(".__init__"), path, names
        self.code = compile(tree, str(path), "exec")

    def find_spec(self, name, _path=None, _target=None):
        if name != self.name:
            return None
        package = [str(self.path.parent)] if self.path.stem == "__init__" else None
        return importlib.util.spec_from_file_location(name, self.path, loader=self, submodule_search_locations=package)

    def exec_module(self, module):
        module.__dict__.update(self.names)
        exec(self.code, module.__dict__)


def mutated(mutant: Mutant) -> Replaced:
    path = subjects()[mutant.module]
    return Replaced(mutant.module, path, changes.apply(mutant, path.read_text()))


class Covering:
    """Notes which lines of the subjects each test runs, and how long it takes."""

    def __init__(self):
        self.now: dict[str, set[int]] = {}
        self.tests: dict[str, dict] = {}
        self.failed: list[str] = []
        for name, path in subjects().items():
            tree = changes.noting(path.read_text(), "__runs__")  # far cheaper than to trace all that a test runs
            sys.meta_path.insert(0, Replaced(name, path, tree, __runs__=partial(self.note, name)))

    def note(self, module: str, line: int) -> None:
        self.now.setdefault(module, set()).add(line)

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if not SUITES & set(item.fixturenames)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.now, began = {}, time.process_time()
        try:
            return (yield)
        finally:
            if self.now:
                lines = {name: sorted(own) for name, own in self.now.items()}
                self.tests[item.nodeid] = {"seconds": time.process_time() - began, "lines": lines}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)


class Chosen:
    """Runs some tests only, in their order; notes the first that fails, ends the process where one takes too long."""

    def __init__(self, tests: dict[str, float]):
        self.seconds, self.place = tests, {test: i for i, test in enumerate(tests)}
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        signal.setitimer(signal.ITIMER_PROF, max(LEAST, TIMES * self.seconds[item.nodeid]))  # ends in SIGPROF
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.failed:
            self.failed = report.nodeid


def pytest_in(folder: Path, plugin: object, files: Iterable[str], *arguments: str) -> int:
    return int(
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/tests", *arguments, *files],
            plugins=[plugin],
        )
    )


def measure(files: list[str], folder: Path) -> dict:
    """Run test files as they are, in a child."""
    covering = Covering()
    code = pytest_in(folder, covering, files, "-m", MARKS)
    return {"code": code, "failed": covering.failed, "tests": covering.tests}


def attempt(mutant: Mutant, tests: dict[str, float], folder: Path) -> dict:
    """Run a mutant's tests, in a child."""
    try:
        sys.meta_path.insert(0, mutated(mutant))
    except SyntaxError:  # a change that makes no program
        return {"code": 2, "failed": "it cannot be compiled"}
    chosen = Chosen(tests)
    code = pytest_in(folder, chosen, dict.fromkeys(test.split("::")[0] for test in tests), "-x")
    return {"code": code, "failed": chosen.failed}


class Child:
    """A forked process that does some work, and leaves what comes of it in a file."""

    def __init__(self, work: Callable[[Path], dict]):
        self.folder, self.began = Path(tempfile.mkdtemp(prefix="mutant-")), time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._be(work)

    def _be(self, work):
        code = 1
        try:
            os.setsid()
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
            resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            out = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT)
            os.dup2(out, 1)
            os.dup2(out, 2)
            (self.folder / "made.json").write_text(json.dumps(work(self.folder)))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    def over(self) -> dict | None:
        """What came of it, None while it works."""
        if time.monotonic() - self.began > LONGEST:
            os.killpg(self.pid, signal.SIGKILL)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return None
        made, log = self.folder / "made.json", (self.folder / "log").read_text(errors="replace")
        if made.exists():
            result = json.loads(made.read_text())
        else:
            result = {"code": -1, "failed": "", "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # what its tests have started
        shutil.rmtree(self.folder, ignore_errors=True)
        return result | {"log": log[-3000:], "seconds": round(time.monotonic() - self.began, 1)}


def side_by_side(works: Iterable[tuple[str, Callable[[Path], dict]]], workers: int) -> Iterator[tuple[str, dict]]:
    """Do works in children, so many at a time; yields the name of each with what came of it."""
    waiting, running = iter(works), {}
    while True:
        while len(running) < workers and (following := next(waiting, None)):
            name, work = following
            running[Child(work)] = name
        if not running:
            return
        for child in list(running):
            if (result := child.over()) is not None:
                yield running.pop(child), result
        time.sleep(0.02)


def read(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, value: dict) -> None:
    """Replace a file at once: a run that is cut off leaves the last whole one."""
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps(value, indent=1))
    whole.replace(path)


def digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()


def covering(places: list[str], workers: int) -> dict[str, dict]:
    """Every test that passes and runs lines of the subjects; files that are as they were are not run again."""
    stored = BUILD / "covering.json"
    known = read(stored)
    if missing := [place for place in places if not (ROOT / place).exists()]:
        sys.exit(f"no such tests: {', '.join(missing)}")
    shared = digest(*(ROOT / "scripts").rglob("*.py"), *(ROOT / "tests").glob("*.py"))
    files = {
        str(path.relative_to(ROOT)): digest(path) + shared
        for place in map(ROOT.joinpath, places)
        for path in ([place] if place.is_file() else sorted(place.rglob("test_*.py")))
    }
    works = [
        (file, lambda folder, file=file: measure([file], folder))
        for file, own in files.items()
        if known.get(file, {}).get("digest") != own
    ]
    for file, result in side_by_side(works, workers):
        if result["code"] not in (0, 1, 5):  # passed, some failed, none chosen
            sys.exit(f"{file} cannot be run:\n{result['log']}")
        tests = {name: test for name, test in result["tests"].items() if name not in result["failed"]}
        known[file] = {"digest": files[file], "tests": tests}
        left_out = f"; left out, as they fail by themselves: {', '.join(result['failed'])}" if result["failed"] else ""
        print(f"{file}: {len(tests)} tests, {result['seconds']:.0f} s{left_out}", flush=True)
        write(stored, known)
    return {name: test for file in files for name, test in known[file]["tests"].items()}


def tests_of(mutant: Mutant, tests: dict[str, dict]) -> dict[str, float]:
    """The tests that run a mutant's lines with the seconds that they take, quickest first, until it is enough."""
    (first, last), chosen = mutant.lines, {}
    for name, test in sorted(tests.items(), key=lambda item: item[1]["seconds"]):
        runs = any(first <= line <= last for line in test["lines"].get(mutant.module, ()))
        if runs and sum(chosen.values()) < ENOUGH:
            chosen[name] = test["seconds"]
    return chosen


def outcome(result: dict) -> str:
    """What became of a mutant."""
    if result["code"] == 0:
        return "survived"
    if result["code"] == 5:
        sys.exit(f"tests were to be run, and none was:\n{result['log']}")
    return "took too long" if result.get("signal") in (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL) else "noticed"


def attempts(drawn: list[Mutant], tests: dict[str, dict], workers: int) -> Iterator[tuple[Mutant, dict]]:
    by_key, works = {mutant.key: mutant for mutant in drawn}, []
    for mutant in drawn:
        own = tests_of(mutant, tests)
        if not own:
            yield mutant, {"outcome": "run by no test", "tests": 0, "by": ""}
            continue
        works.append((mutant.key, lambda folder, mutant=mutant, own=own: attempt(mutant, own, folder)))
    for key, result in side_by_side(works, workers):
        own = tests_of(by_key[key], tests)
        seconds = result["seconds"]
        yield by_key[key], {"outcome": outcome(result), "tests": len(own), "by": result["failed"], "seconds": seconds}


def imported() -> None:
    """Import once what every child needs; nothing of this project."""
    for name in (*LIBRARIES, *(f"transformers.models.{f}.modeling_{f}" for f in FAMILIES)):
        importlib.import_module(name)
    assert not any(name.split(".")[0] in ("gnorm", "support") for name in sys.modules)
    gc.collect()
    gc.freeze()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="mutants to draw")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files or folders of tests")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--again", action="store_true", help="only those that no test noticed when they last ran")
    options = parser.parse_args()
    os.chdir(ROOT)
    BUILD.mkdir(parents=True, exist_ok=True)
    imported()
    everything = all_mutants()
    drawn = draw(everything, options.count, SEED)
    tests = covering(options.tests, options.workers)
    stored = BUILD / "outcomes.json"
    known, now = read(stored), digest(*(ROOT / "scripts").rglob("*.py"), *(ROOT / "tests").rglob("*.py"))

    def done(mutant: Mutant) -> bool:
        """Whether a run that was cut off has tried it; with `--again` also whether any run has seen it noticed."""
        own = known.get(mutant.key, {"outcome": ""})
        return own["outcome"] in ("noticed", "took too long") if options.again else own.get("digest") == now

    left = [mutant for mutant in drawn if not done(mutant)]
    print(f"{len(everything)} mutants, {len(drawn)} drawn, {len(left)} to try, {len(tests)} tests", flush=True)
    for count, (mutant, result) in enumerate(attempts(left, tests, options.workers), start=1):
        known[mutant.key] = result | {"digest": now}
        write(stored, known)
        print(f"{count}/{len(left)} {result['outcome']} ({result['by'] or result['tests']}): {mutant.key}", flush=True)
    if options.count == COUNT and options.tests == TESTS:
        import page

        page.write(drawn, known, len(everything), TIMES)


if __name__ == "__main__":
    main()
