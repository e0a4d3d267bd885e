"""GPT-2: a decoder whose Q, K and V come from one projection."""

from gnorm.families import DIMENSIONS, Family, Layout, Scratch, Tokenizer

FAMILY = Family(
    name="gpt2",
    layout=Layout(
        layer="h.{i}",
        attention="attn",
        query="attn.c_attn",
        key="attn.c_attn",
        value="attn.c_attn",
        output="attn.c_proj",
        up=("mlp.c_fc",),
        down="mlp.c_proj",
        counts=("num_heads",),
        sizes=("split_size",),
    ),
    dimensions=DIMENSIONS
    | {
        "layers": "n_layer",
        "heads": "n_head",
        "width": "n_embd",
        "feed_forward": "n_inner",  # four times the width where it is null
        "positions": "n_positions",
    },
    decoder=True,
    scratch=Scratch(
        tokenizer=Tokenizer(
            kind="bytes",
            wrapper="GPT2TokenizerFast",
            special=("<|endoftext|>", "<|padding|>"),
            # One token before the first word, so that the word is predicted, and one token to mark the end.
            single="<|endoftext|> $A <|endoftext|>",
            pair="<|endoftext|> $A $B <|endoftext|>",
            unknown="<|endoftext|>",
            options={"pad_token": "<|padding|>"},
        ),
        settings={"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    ),
)
