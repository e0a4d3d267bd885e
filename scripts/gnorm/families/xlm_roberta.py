"""XLM-RoBERTa: RoBERTa's layers with a tokenizer for a hundred languages."""

from gnorm.families import ENCODER, Family, Scratch, Tokenizer
from gnorm.families.bert import LAYOUT

FAMILY = Family(
    name="xlm-roberta",
    layout=LAYOUT,
    positions_after_padding=True,
    textpruner=True,
    scratch=Scratch(
        tokenizer=Tokenizer(
            kind="unigram",
            wrapper="XLMRobertaTokenizerFast",
            special=("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
            unknown="<unk>",
        ),
        settings=ENCODER,
    ),
)
