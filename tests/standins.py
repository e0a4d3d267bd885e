"""A mirror of the hub with stand-ins for the paper's models and datasets.

Models have the paper's layers, heads, positions and classes with heads 4 wide and random weights; datasets have
a few dozen rows with the real columns, label types and oddities.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from gnorm.data import corpora, tokenizers

HEAD_WIDTH = 4
ROWS = 60
# In an order of their own, so that nothing works by sorting.
LANGUAGES = "ja nl ar pl de it pt tr es hi el ur bg en fr zh ru th sw vi".split()


@dataclass(frozen=True)
class StandIn:
    model: str
    dataset: str  # folder of its splits
    split: str
    family: str
    layers: int
    heads: int
    classes: list[str]
    config: dict = field(default_factory=dict)


STAND_INS = {
    "BERT": StandIn(
        "hw2942/bert-base-chinese-finetuning-financial-news-sentiment-v2",
        "hw2942/financial-news-sentiment",
        "train.csv",
        "bert",
        12,
        12,
        ["Negative", "Neutral", "Positive"],
        {"max_position_embeddings": 512, "type_vocab_size": 2},
    ),
    "ALBERT": StandIn(
        "Alireza1044/albert-base-v2-mnli",
        "nyu-mll/glue/mnli",
        "validation_matched.parquet",
        "albert",
        12,
        12,
        ["LABEL_0", "LABEL_1", "LABEL_2"],
        {"max_position_embeddings": 512, "type_vocab_size": 2, "embedding_size": 8},
    ),
    "ROBERTA": StandIn(
        "siebert/sentiment-roberta-large-english",
        "rahmaabusalma/tweets_sentiment_analysis",
        "validation.parquet",
        "roberta",
        24,
        16,
        ["NEGATIVE", "POSITIVE"],
        {"max_position_embeddings": 514, "type_vocab_size": 1},
    ),
    "XLM_ROBERTA": StandIn(
        "papluca/xlm-roberta-base-language-detection",
        "papluca/language-identification",
        "validation.csv",
        "xlm-roberta",
        12,
        12,
        LANGUAGES,
        {"max_position_embeddings": 514, "type_vocab_size": 1},
    ),
}


def chinese_news() -> pd.DataFrame:
    """Headlines without spaces, labels 0, 1 and 2."""
    rng = random.Random("news")
    companies, moves = "贵州茅台 中国平安 招商银行 万科企业 比亚迪".split(), ("大幅下跌", "基本持平", "创新高")
    labels = [rng.randrange(3) for _ in range(ROWS)]
    titles = [f"{rng.choice(companies)}股价{moves[label]},成交额{rng.randint(2, 99)}亿元" for label in labels]
    return pd.DataFrame({"Title": titles, "labels": labels})


def sentence_pairs() -> pd.DataFrame:
    drawn = corpora.draw("inference", ROWS, seed=0)
    names = corpora.load("inference").LABELS
    return pd.DataFrame(
        {
            "premise": [row["text"] for row in drawn],
            "hypothesis": [row["pair"] for row in drawn],
            "label": [names.index(row["label_name"]) for row in drawn],
            "idx": range(ROWS),
        }
    )


def tweets() -> pd.DataFrame:
    """Labels 0 and 2 of the model's classes, and 1, which it does not have."""
    drawn = corpora.draw("tweets", ROWS, seed=0)
    numbers = {"negative": 0, "neutral": 1, "positive": 2}
    return pd.DataFrame(
        {"text": [row["text"] for row in drawn], "label": [numbers[row["label_name"]] for row in drawn]}
    )


def languages() -> pd.DataFrame:
    """Labels are language codes."""
    drawn = corpora.draw("languages", ROWS, seed=0)
    names = corpora.load("languages").LABELS
    codes = sorted(LANGUAGES)
    return pd.DataFrame(
        {
            "labels": [codes[names.index(row["label_name"])] for row in drawn],
            "text": [row["text"] for row in drawn],
        }
    )


TABLES = {"BERT": chinese_news, "ALBERT": sentence_pairs, "ROBERTA": tweets, "XLM_ROBERTA": languages}
TEXTS = ("Title", "premise", "hypothesis", "text")


def build(mirror: Path) -> Path:
    for name, made in STAND_INS.items():
        table, folder = TABLES[name](), mirror / "datasets" / made.dataset
        folder.mkdir(parents=True)
        if made.split.endswith(".csv"):
            table.to_csv(folder / made.split, index=False)
        else:
            table.to_parquet(folder / made.split, index=False)
        texts = [str(text) for column in TEXTS if column in table for text in table[column]]
        save_model(made, texts, mirror / "models" / made.model)
    # What a folder may hold beside what is needed: other weights, code, a trainer's leftovers.
    roberta = mirror / "models" / STAND_INS["ROBERTA"].model
    for name in ("pytorch_model.bin", "training_args.bin", "modeling_custom.py"):
        (roberta / name).write_text("raise SystemExit('this is never read')")
    return mirror


def save_model(made: StandIn, texts: list[str], folder: Path) -> None:
    built = tokenizers.train(made.family, texts, 400, 512)
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        made.family,
        vocab_size=len(built),
        hidden_size=HEAD_WIDTH * made.heads,
        num_hidden_layers=made.layers,
        num_attention_heads=made.heads,
        intermediate_size=2 * HEAD_WIDTH * made.heads,
        initializer_range=0.25,  # strong weights, so that heads differ
        id2label=dict(enumerate(made.classes)),
        label2id={name: i for i, name in enumerate(made.classes)},
        pad_token_id=built.pad_token_id,
        bos_token_id=built.bos_token_id,
        eos_token_id=built.eos_token_id,
        **made.config,
    )
    model = AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    if made.family == "albert":  # one model as older versions wrote it
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    built.save_pretrained(folder)
