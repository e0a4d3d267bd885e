"""BERT, and the layout that later encoders share."""

from gnorm.families import ENCODER, Family, Layout, Scratch, Tokenizer

LAYOUT = Layout(
    layer="encoder.layer.{i}",
    attention="attention.self",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    output="attention.output.dense",
    up=("intermediate.dense",),
    down="output.dense",
    counts=("num_attention_heads",),
    sizes=("all_head_size",),
)
FAMILY = Family(
    name="bert",
    layout=LAYOUT,
    textpruner=True,
    scratch=Scratch(
        tokenizer=Tokenizer(
            kind="wordpiece",
            wrapper="BertTokenizerFast",
            special=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            unknown="[UNK]",
        ),
        settings=ENCODER,
    ),
)
