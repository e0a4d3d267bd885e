"""Real tokenizers of each family, trained on a corpus.

The kind of subword model, the special tokens and the way a pair is joined follow the
family's published tokenizer, so that a tokenizer saved here loads through `AutoTokenizer`
like any other checkpoint.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, PreTrainedTokenizerFast

from gnorm import families
from gnorm.errors import UserError
from gnorm.models import folders, versions


def train(family: str, texts: list[str], vocabulary: int, length: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer of `family` with at most `vocabulary` tokens, cutting at `length` tokens.

    The same texts give the same tokenizer. The library's WordPiece and Unigram trainers
    break ties at random, its BPE trainer does not: so all three learn their pieces by
    BPE, and WordPiece and Unigram then segment by their own rules.
    """
    spec = families.load(family).scratch.tokenizer
    special = list(spec.special)
    tokenizer = Tokenizer(models.BPE())
    if spec.kind == "bytes":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        _learn_pieces(tokenizer, texts, vocabulary, special, sorted(pre_tokenizers.ByteLevel.alphabet()))
    elif spec.kind == "wordpiece":
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        counts, letters = _learn_pieces(tokenizer, texts, vocabulary, [], [], continuation="##")
        alphabet = sorted(letters | {"##" + letter for letter in letters})
        common = [t for t, _ in sorted(counts.items(), key=lambda c: (-c[1], c[0])) if t not in alphabet]
        tokens = special + (alphabet + common)[: vocabulary - len(special)]
        tokenizer.model = models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token=spec.unknown)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        counts, _ = _learn_pieces(tokenizer, texts, vocabulary - len(special), [], [])
        pieces = sorted(tokenizer.get_vocab())
        total = sum(counts.values()) + len(pieces)
        scored = [(piece, math.log((counts[piece] + 1) / total)) for piece in pieces]
        tokenizer.model = models.Unigram([(t, 0.0) for t in special] + scored, unk_id=special.index(spec.unknown))
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=spec.single,
        pair=spec.pair,
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in special],
    )
    wrapper = getattr(transformers, spec.wrapper)
    return versions.giving_segments(wrapper(tokenizer_object=tokenizer, model_max_length=length, **spec.options))


def _learn_pieces(
    tokenizer: Tokenizer, texts: list[str], size: int, special: list[str], alphabet: list[str], continuation: str = ""
) -> tuple[Counter[str], set[str]]:
    """Train `tokenizer`'s BPE, and count each piece in `texts` and collect their letters.

    A piece that continues a word is counted with `continuation` before it.
    """
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    counts: Counter[str] = Counter()
    for encoding in tokenizer.encode_batch(texts):
        previous = None
        for token, word in zip(encoding.tokens, encoding.word_ids, strict=True):
            counts[(continuation if word == previous else "") + token] += 1
            previous = word
    return counts, {letter for token in tokenizer.get_vocab() for letter in token}


def count(tokenizer: PreTrainedTokenizerFast, row: Mapping[str, Any]) -> int:
    """Count the tokens of a row, which must be some that the model knows."""
    pair = [row["pair"]] if row["pair"] is not None else []
    with folders.explained(f"row {row['row']} cannot be split into tokens"):
        given = tokenizer(row["text"], *pair, verbose=False)
    for name, known in getattr(tokenizer, "known", {}).items():
        if (most := max(given.get(name) or [0])) >= known:
            problem = f"row {row['row']} has {name} of {most:,}, and the model knows {known:,}, from 0"
            raise UserError(f"{problem}: take the tokenizer that it was trained with, and check config.json")
    return len(given["input_ids"])


def load(folder: str | Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a local checkpoint, cutting at the length its model can read."""
    if not Path(folder, "config.json").exists():
        raise UserError(f"{folder} holds no model saved by save_pretrained (config.json is missing)")
    tokenizer = versions.read_tokenizer(folder)
    with folders.explained(f"the tokenizer in {folder} cannot be loaded", folder):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        family = families.find(config.model_type)
        skipped = tokenizer.pad_token_id + 1 if family and family.positions_after_padding else 0
        positions = getattr(config, "max_position_embeddings", None)  # not every model has a limit
        if positions:
            tokenizer.model_max_length = min(tokenizer.model_max_length, positions - skipped)
        sizes = {
            name: getattr(config, key, None)
            for name, key in (("input_ids", "vocab_size"), ("token_type_ids", "type_vocab_size"))
        }
        tokenizer.known = {name: size for name, size in sizes.items() if isinstance(size, int)}
    return tokenizer
