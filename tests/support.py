"""What tests share: small models of every family, rows for them, and workflows to run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from gnorm import families

ROOT = Path(__file__).resolve().parent.parent

FAMILIES = ("bert", "albert", "roberta", "xlm-roberta")
CORPORA = dict(zip(FAMILIES, ("finance", "inference", "tweets", "languages"), strict=True))


# What small models of further families have beside, or call otherwise.
OWN = {
    "distilbert": {"hidden_dim": 64},
    "electra": {"embedding_size": 16},
    "gpt2": {"n_inner": 64, "tie_word_embeddings": False},
    "llama": {"num_key_value_heads": 2, "attention_bias": True},
    "qwen2": {"num_key_value_heads": 2, "prune_by": "query"},
}
# ... and whose tokenizer they get.
OTHERS = {
    name: ("roberta" if families.load(name).decoder else "bert", OWN.get(name, {}))
    for name in families.names()
    if name not in FAMILIES
}


def draw_weights(model, seed: int) -> None:
    """Draw a model's matrices anew, in the order of their names: versions of the library draw them in other orders."""
    import torch

    generator, tables = torch.Generator().manual_seed(seed + 4), {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
            tables[f"{name}.weight"] = module.padding_idx
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.dim() > 1:
                weight.normal_(0, model.config.initializer_range, generator=generator)
                if name in tables:
                    weight[tables[name]] = 0


class Tiny:
    """An untrained model with strong weights, so that heads differ and attend unevenly."""

    def __init__(
        self, family: str, layers: int = 3, heads: int = 4, width: int = 32, seed: int = 0, writes: bool = False
    ):
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

        from gnorm.data import corpora, tokenizers
        from gnorm.models import checkpoints
        from gnorm.models.heads import head_map

        speaks, own = OTHERS.get(family, (family, {"embedding_size": 16} if family == "albert" else {}))
        speaks = {"qwen2": "llama"}.get(family, family) if writes else speaks
        name = "letters" if writes else CORPORA[speaks]
        corpus = corpora.load(name)
        drawn = corpora.draw(name, 60, seed)
        texts = [" ".join(filter(None, (r["text"], r["pair"]))) for r in drawn]
        self.tokenizer = tokenizers.train(speaks, texts, 300 if writes else 400, 48)
        classes = {None: None} if writes else {label: i for i, label in enumerate(corpus.LABELS)}
        self.rows = [{**r, "row": i, "label": classes.get(r["label_name"], -1)} for i, r in enumerate(drawn)]
        torch.manual_seed(seed)
        config = AutoConfig.for_model(
            family,
            vocab_size=len(self.tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=2 * width,
            max_position_embeddings=52,
            initializer_range=0.25,
            pad_token_id=self.tokenizer.pad_token_id,
            **({} if writes else {"num_labels": len(corpus.LABELS)}),
            **own,
        )
        attention = "eager" if family == "electra" else "sdpa"  # the library has no other for ELECTRA
        auto = AutoModelForCausalLM if writes else AutoModelForSequenceClassification
        self.model = auto.from_config(config, attn_implementation=attention)
        draw_weights(self.model, seed)
        self.model.double().eval().requires_grad_(False)
        self.heads = head_map(self.model)
        if family in OTHERS:
            checkpoints.fit(self.model, self.tokenizer)
            in_float64(self.model)

    def bench(self, rows: list[dict], evaluated: list[dict], tokens: int = 200, **settings):
        """A workbench with it, to score `rows` and evaluate others."""
        from gnorm.workbench import Workbench

        lists = {"calibration": rows, "entropy": rows, "evaluation": evaluated}
        return Workbench(model=self.model, tokenizer=self.tokenizer, lists=lists, tokens=tokens, **settings)

    def batches(self, rows=8, tokens=200, weights=None):
        from gnorm.engine import batches

        return batches.make(self.tokenizer, self.rows[:rows], tokens, weights)


def in_float64(model) -> None:
    """The library's RMSNorm rounds to float32 whatever it is given; 1e-12 can only be seen without that."""
    import torch

    class Exact(torch.nn.Module):
        def __init__(self, weight, epsilon):
            super().__init__()
            self.weight, self.epsilon = weight, epsilon

        def forward(self, hidden):
            return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.epsilon)

    for name, module in list(model.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            model.set_submodule(name, Exact(module.weight, module.variance_epsilon))


def on_disk(tiny: Tiny, folder: Path) -> Tiny:
    """Its checkpoint and rows as the rules have them; the model becomes what they load."""
    import pandas as pd
    from transformers import AutoModelForSequenceClassification

    from gnorm.files import write_json

    model = AutoModelForSequenceClassification.from_config(tiny.model.config)  # the library's own norms
    model.load_state_dict(tiny.model.float().state_dict())
    model.save_pretrained(folder / "checkpoint")
    tiny.tokenizer.save_pretrained(folder / "checkpoint")
    tiny.rows = [{**row, "row": i} for i, row in enumerate([row for row in tiny.rows if row["label"] >= 0][:24])]
    (folder / "dataset").mkdir()
    pd.DataFrame(tiny.rows).to_parquet(folder / "dataset/rows.parquet")
    scored, evaluated = list(range(4)), list(range(4, 24))
    lists = {"train": [], "calibration": scored, "entropy": scored, "evaluation": evaluated}
    write_json(folder / "dataset/splits.json", lists)
    tiny.model = model.eval().requires_grad_(False)
    return tiny


def run_of(results: Path, model: str, strategy: str, run: int = 0):
    """The steps of a run, from whichever part of the runs holds it, and that part's file of scores."""
    from gnorm.statistics.columns import read_run

    for path in (results / model / "trajectories" / strategy).glob("*-*.csv"):
        first, last = map(int, path.stem.split("-"))
        if first <= run <= last:
            return read_run(path, run), path.with_suffix(".scores.pt")
    raise FileNotFoundError(f"{results}: no run {run} of {model} {strategy}")


def part_files(stem: str | Path, *names: str) -> SimpleNamespace:
    """The outputs of a job that makes a part of trajectories, trials or a comparison."""
    ends = {"trajectories": "csv", "trials": "csv", "curves": "csv", "costs": "costs.csv", "signature": "json"}
    ends |= {"scores": "scores.csv" if "curves" in names else "scores.pt", "outcomes": "rows.npz"}
    return SimpleNamespace(**{name: Path(f"{stem}.{ends[name]}") for name in (*names, "outcomes", "signature")})


def copy_workflow(target: Path) -> Path:
    """The workflow's own files, times of change kept, without results."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


PYTHONPATH = os.pathsep.join(str(ROOT / name) for name in ("scripts", "tests"))


def run_python(program: str, *arguments: str, **variables: str | None) -> subprocess.CompletedProcess:
    """A program in a process of its own that finds the scripts, the package and what tests share.

    `variables` are set in its environment, or taken out if they are None.
    """
    environment = os.environ | {"PYTHONPATH": PYTHONPATH} | variables
    environment = {name: value for name, value in environment.items() if value is not None}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


def snakemake(folder: Path, *arguments: str, **variables: str | None) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")} | variables
    environment = {k: v for k, v in environment.items() if v is not None}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=1500)


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """Rule -> number of jobs that a dry-run plans."""
    made = snakemake(folder, "-n", *arguments, "--quiet", "rules")
    assert made.returncode == 0, made.stderr[-3000:]
    if "Nothing to be done" in made.stdout + made.stderr:
        return {}
    table = (made.stdout + made.stderr).split("Job stats:")[-1]
    found = {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}
    return {name: count for name, count in found.items() if name not in ("total", "all")}


def suite_of(name: str, **changes):
    """What a suite asks for, with changes of the configuration."""
    import yaml

    from gnorm.planning.suite import Suite
    from gnorm.settings import suites

    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"suite": name} | changes
    return Suite(suites.load(config, ROOT))


def finish(folder: Path, suite: str) -> Path:
    made = snakemake(folder, "--quiet", "rules", "--config", f"suite={suite}")
    assert made.returncode == 0, made.stderr[-5000:]
    return folder


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """A folder that the first worker to need it makes, and all others wait for."""
    top = factory.getbasetemp()
    top = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top
    folder, done = top / name, top / f"{name}.done"
    with FileLock(top / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def make_dataset(dataset, checkpoint, counts, folder, name="BERT"):
    """Run the script on a dataset's and a checkpoint's entry; the files in the folder have the names of the layout."""
    import make_dataset as script

    names = {"rows": "rows.parquet", "splits": "splits.json", "summary": "summary.md", "page": "summary.html"}
    outputs = {key: Path(folder, file) for key, file in (names | {"tokenizer": "tokenizer"}).items()}
    script.main(
        name=name,
        dataset=dataset,
        checkpoint=checkpoint,
        counts=counts,
        seed=1,
        outputs=SimpleNamespace(**outputs),
    )
    return outputs


ASKED = {"attention": "", "stop": {}, "solution": None, "levels": 2, "generation": None}  # of a checkpoint


def make_checkpoint(dataset, tokenizer, entry, out, heads, state=None, task="classification", **wanted):
    """Run the script on a dataset's folder, a tokenizer's and the checkpoint's entry; with a state it is trained."""
    import make_checkpoint as script

    script.main(
        dataset_folder=str(dataset),
        tokenizer_folder=tokenizer,
        checkpoint=entry,
        seed=1,
        state=state,
        wanted={"task": task, **ASKED, **wanted},
        outputs=SimpleNamespace(checkpoint=out, heads=heads),
    )


def costs_of(suite: str, learning: bool = False, **changes):
    """Predictions for a suite, with changes of the configuration."""
    import yaml

    from gnorm.planning.cost import Costs
    from gnorm.settings import suites

    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"suite": suite} | changes
    return Costs(suites.load(config, ROOT), learning)


def shard_file(path: Path, first: int, values, **changes) -> str:
    """A file of entropy shards as `entropy_shard` writes it, with values of rows x layers x heads."""
    import torch

    from gnorm.files import save_tensors
    from gnorm.scores import entropy

    count = len(values)
    sums = {v: values.sum(0) + i for i, v in enumerate(entropy.VARIANTS)}
    zeros = torch.zeros(values.shape[1:], dtype=torch.int64)
    content = {"first": first, "last": first + count - 1, "rows": torch.arange(count), "variant": "C"}
    content |= {"model": "one", "count": count, "mean": values.mean(0)}
    content |= {"epsilon": 1e-7, "ranked": values, "sums": sums, "nan_rows": zeros, "inf_rows": zeros}
    save_tensors(path, content | changes)
    return str(path)


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def counted(monkeypatch, model):
    """Calls of the model and of autograd from here on."""
    import torch

    calls = {"forward": 0, "backward": 0}
    original = torch.autograd.grad

    def backward(*args, **kwargs):
        calls["backward"] += 1
        return original(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "grad", backward)
    model.register_forward_pre_hook(lambda *_: calls.update(forward=calls["forward"] + 1))
    return calls


PREDICT = """
import json, sys
listed, *scripts = sys.argv[1:]
if scripts:
    sys.path.append(*scripts)
    import gnorm.hf
    assert "torch" not in sys.modules and "transformers" not in sys.modules
import torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedTokenizerFast
torch.set_num_threads(1)
stored = {} if transformers.__version__.startswith("5.") else {"torch_dtype": "auto"}  # what 5 does by itself
for folder, rows in json.load(open(listed)).items():
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    kind = AutoConfig.from_pretrained(folder).architectures[0]
    auto = AutoModelForSequenceClassification if "Classification" in kind else AutoModelForCausalLM
    model = auto.from_pretrained(folder, **stored).eval()
    found = {"dtype": str(model.dtype), "parameters": sum(p.numel() for p in model.parameters())}
    rows = [tokenizer(*texts, truncation=True, return_tensors="pt") for texts in rows]
    with torch.inference_mode():
        for name, dtype in (("logits", torch.float32), ("exact", torch.float64)):
            model.to(dtype)
            found[name] = [model(**row).logits[0].tolist() for row in rows]
    print(json.dumps(found | {"folder": folder}))
assert "textpruner" not in sys.modules and ("gnorm" in sys.modules) == bool(scripts)
"""


def pythons() -> list[str]:
    """The Python that runs this, and those of the environments that `make env` and `make versions` have made."""
    others = [ROOT / name / "bin/python" for name in (".venv", ".venv-v4")]
    made = [str(path) for path in others if path.exists() and not Path(sys.prefix).samefile(path.parent.parent)]
    return [sys.executable, *made]


def each_python() -> list:
    """`pythons()` to parametrize a test by, which is skipped for the one that is not here."""
    missing = pytest.mark.skip(reason="the other version of transformers is not here: make env, make versions")
    here, *other = pythons()
    others = [pytest.param(python, id="other") for python in other]
    return [pytest.param(here, id="here"), *(others or [pytest.param("", marks=missing, id="other")])]


def in_a_fresh_process(folder, rows, tmp_path, compact=False, python=sys.executable):
    """Logits, parameters and type of one checkpoint, as of many."""
    return each_in_a_fresh_process({folder: rows}, tmp_path, compact, python)[str(folder)]


def each_in_a_fresh_process(rows_of, tmp_path, compact=False, python=sys.executable, program=PREDICT):
    """Logits in float32 and float64, a row at a time, parameters and type of checkpoints, in one process.

    By plain transformers: -I keeps this project off the path; compact folders get it back for `import gnorm.hf`.
    Another program finds other things of each folder, and prints them in the same form.
    """
    texts = {str(folder): [texts_of(row) for row in rows] for folder, rows in rows_of.items()}
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    arguments = [str(tmp_path / "texts.json"), *([str(ROOT / "scripts")] if compact else [])]
    made = subprocess.run([python, "-I", "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    found = [json.loads(line) for line in made.stdout.splitlines()]
    return {one.pop("folder"): one for one in found}


def texts_of(row: dict) -> list[str]:
    return [row["text"], *([row["pair"]] if row["pair"] is not None else [])]
