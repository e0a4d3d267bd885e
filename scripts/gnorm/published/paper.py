"""The paper's four models as it reports them: shapes, tables, hand-picked solutions."""

from __future__ import annotations

from dataclasses import dataclass

# (module, parameters before, after), in the order of Tables 2-5.
Parameters = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    family: str
    layers: int
    heads: int
    width: int
    embedding: int
    vocabulary: int
    positions: int
    classes: int
    token_types: int = 2
    padding: int = 0  # id of the padding token
    tied: bool = False  # all layers share their weights


@dataclass(frozen=True, kw_only=True)
class Reported(Architecture):
    title: str
    split: str  # of the dataset that accuracy is measured on
    rows: int  # that accuracy is measured on, after every step with the fewest
    pruned: int  # heads, tied ones counted in every layer
    mask: str  # 1 = kept, one word per row of slots
    accuracy: tuple[float, float]  # Table 1, in percent, before and after
    accuracy_lost: float
    megabytes: tuple[float, float]
    megabytes_lost: float
    parameters: Parameters
    minutes: int  # of a greedy run, as the authors' notebook printed it

    @property
    def slots(self) -> int:
        """The number of heads that are pruned one by one: a tied head counts once."""
        return self.heads if self.tied else self.total

    @property
    def total(self) -> int:
        return self.layers * self.heads

    def gone(self) -> list[tuple[int, int]]:
        """List the slots that the paper's solution prunes."""
        rows = self.mask.split()
        return [(row, head) for row, bits in enumerate(rows) for head, bit in enumerate(bits) if bit == "0"]


# The models as the hub calls them.
HUB = {
    "hw2942/bert-base-chinese-finetuning-financial-news-sentiment-v2": "BERT",
    "Alireza1044/albert-base-v2-mnli": "ALBERT",
    "siebert/sentiment-roberta-large-english": "ROBERTA",
    "papluca/xlm-roberta-base-language-detection": "XLM_ROBERTA",
}

MODELS = {
    "BERT": Reported(
        title="BERT",
        family="bert",
        layers=12,
        heads=12,
        width=768,
        embedding=768,
        vocabulary=21128,
        positions=512,
        classes=3,
        split="train",
        rows=2329,
        pruned=117,
        mask="000000000000 100000100000 000000110000 101100000000 100100010100 001001001000 "
        "000010000000 001100001001 100010000100 011000000000 000001100000 000000000100",
        accuracy=(96.82, 90.08),
        accuracy_lost=6.97,
        megabytes=(390.13, 302.29),
        megabytes_lost=22.52,
        parameters=(
            ("model", 102_269_955, 79_244_355),
            ("backbone", 102_267_648, 79_242_048),
            ("embeddings", 16_622_592, 16_622_592),
            ("encoder", 85_054_464, 62_028_864),
            ("pooler", 590_592, 590_592),
            ("classifier", 2_307, 2_307),
            ("classifier.weight", 2_304, 2_304),
            ("classifier.bias", 3, 3),
        ),
        minutes=122,
    ),
    "ALBERT": Reported(
        title="ALBERT",
        family="albert",
        layers=12,
        heads=12,
        width=768,
        embedding=128,
        vocabulary=30000,
        positions=512,
        classes=3,
        tied=True,
        split="validation_matched",
        rows=9815,
        pruned=36,
        mask="111001111101",
        accuracy=(84.48, 77.76),
        accuracy_lost=7.95,
        megabytes=(44.58, 42.33),
        megabytes_lost=5.05,
        parameters=(
            ("model", 11_685_891, 11_095_491),
            ("backbone", 11_683_584, 11_093_184),
            ("embeddings", 3_906_048, 3_906_048),
            ("encoder", 7_186_944, 6_596_544),
            ("pooler", 590_592, 590_592),
            ("classifier", 2_307, 2_307),
            ("classifier.weight", 2_304, 2_304),
            ("classifier.bias", 3, 3),
        ),
        minutes=22,
    ),
    "ROBERTA": Reported(
        title="RoBERTa",
        family="roberta",
        layers=24,
        heads=16,
        width=1024,
        embedding=1024,
        vocabulary=50265,
        positions=514,
        classes=2,
        token_types=1,
        padding=1,
        split="validation",
        rows=1000,
        pruned=245,
        mask="0000000000000000 0000110110101000 1000001100000000 0110101111110001 0110011111110000 0011101100110111 "
        "1110011011111001 0011011111100111 1101100010001010 0110111100100111 1000001101000110 0001001010100000 "
        "0001111101101100 0001110100110001 0001011001011110 1011110000000010 1000101001011000 0100001000001011 "
        "0010001100000110 0011000011000000 0000000000100000 0000000000000001 0000000000000000 0000000000000000",
        accuracy=(87.80, 86.40),
        accuracy_lost=1.59,
        megabytes=(1355.60, 1110.42),
        megabytes_lost=18.09,
        parameters=(
            ("model", 355_361_794, 291_089_474),
            ("backbone", 354_310_144, 290_037_824),
            ("embeddings", 52_000_768, 52_000_768),
            ("encoder", 302_309_376, 238_037_056),
            ("classifier", 1_051_650, 1_051_650),
            ("classifier.dense", 1_049_600, 1_049_600),
            ("classifier.out_proj", 2_050, 2_050),
        ),
        minutes=471,
    ),
    "XLM_ROBERTA": Reported(
        title="XLM-RoBERTa",
        family="xlm-roberta",
        layers=12,
        heads=12,
        width=768,
        embedding=768,
        vocabulary=250002,
        positions=514,
        classes=20,
        token_types=1,
        padding=1,
        split="validation",
        rows=3000,  # by entropy 10,000
        pruned=105,
        mask="001100000000 111011100111 000000101110 010000000001 000000000011 000100100000 "
        "000001000000 001000000100 000000000000 000001101011 110100111011 010000100000",
        accuracy=(99.73, 90.97),
        accuracy_lost=8.78,
        megabytes=(1060.71, 981.88),
        megabytes_lost=7.43,
        parameters=(
            ("model", 278_059_028, 257_395_028),
            ("backbone", 277_453_056, 256_789_056),
            ("embeddings", 192_398_592, 192_398_592),
            ("encoder", 85_054_464, 64_390_464),
            ("classifier", 605_972, 605_972),
            ("classifier.dense", 590_592, 590_592),
            ("classifier.out_proj", 15_380, 15_380),
        ),
        minutes=84,
    ),
}


def same_model(name: str, total: int) -> Reported | None:
    """Find the paper's model of this name and number of heads; small models share its names only."""
    reported = MODELS.get(name)
    return reported if reported and reported.total == total else None
