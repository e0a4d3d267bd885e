"""ALBERT: one block of weights for all layers."""

from gnorm.families import ENCODER, Family, Layout, Scratch, Tokenizer

FAMILY = Family(
    name="albert",
    layout=Layout(
        layer="encoder.albert_layer_groups.{i}",
        attention="albert_layers.0.attention",
        query="albert_layers.0.attention.query",
        key="albert_layers.0.attention.key",
        value="albert_layers.0.attention.value",
        output="albert_layers.0.attention.dense",
        up=("albert_layers.0.ffn",),
        down="albert_layers.0.ffn_output",
        counts=("num_attention_heads",),
        sizes=("all_head_size",),
    ),
    embedding="embedding_size",
    tied="num_hidden_groups",
    demands={"inner_group_num": 1},
    textpruner=True,
    scratch=Scratch(
        tokenizer=Tokenizer(
            kind="unigram",
            wrapper="AlbertTokenizerFast",
            special=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            unknown="<unk>",
        ),
        settings=ENCODER,
    ),
)
