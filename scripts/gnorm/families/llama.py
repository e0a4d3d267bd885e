"""Llama: a decoder with rotary positions, gated neurons, and K/V heads that groups of query heads may share."""

from gnorm.families import Family, Layout, Scratch, Tokenizer

LAYOUT = Layout(
    layer="layers.{i}",
    attention="self_attn",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    output="self_attn.o_proj",
    up=("mlp.up_proj", "mlp.gate_proj"),
    down="mlp.down_proj",
    repeats="num_key_value_groups",
)
FAMILY = Family(
    name="llama",
    layout=LAYOUT,
    key_heads="num_key_value_heads",
    decoder=True,
    rotary=True,
    scratch=Scratch(
        tokenizer=Tokenizer(
            kind="bytes",
            wrapper="PreTrainedTokenizerFast",
            special=("<s>", "</s>", "<unk>", "<pad>"),
            # One token before the first word, so that the word is predicted, and one token to mark the end.
            single="<s> $A </s>",
            pair="<s> $A $B </s>",
            unknown="<unk>",
            options={
                "bos_token": "<s>",
                "eos_token": "</s>",
                "unk_token": "<unk>",
                "pad_token": "<pad>",
                "model_input_names": ("input_ids", "attention_mask"),
            },
        ),
        settings={},
    ),
)
