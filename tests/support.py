"""What tests share: small models of every family, rows for them, and workflows to run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parent.parent

FAMILIES = ("bert", "albert", "roberta", "xlm-roberta")
CORPORA = dict(zip(FAMILIES, ("finance", "inference", "tweets", "languages"), strict=True))


# Further families: whose tokenizer they get here, and what their configurations call things.
OTHERS = {
    "distilbert": ("bert", {"hidden_dim": 64}),
    "electra": ("bert", {"embedding_size": 16}),
    "gpt2": ("roberta", {"n_inner": 64, "tie_word_embeddings": False}),
    "llama": ("roberta", {"num_key_value_heads": 2, "attention_bias": True}),
    "qwen2": ("roberta", {"num_key_value_heads": 2, "prune_by": "query"}),
}


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
        self.model.double().eval().requires_grad_(False)
        self.heads = head_map(self.model)
        if family in OTHERS:
            checkpoints.fit(self.model, self.tokenizer)
            in_float64(self.model)

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


def snakemake(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")} | variables
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
