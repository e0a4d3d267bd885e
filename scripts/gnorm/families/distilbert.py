"""DistilBERT: half of BERT's layers under names of their own."""

from gnorm.families import DIMENSIONS, Family, Layout

FAMILY = Family(
    name="distilbert",
    layout=Layout(
        layer="transformer.layer.{i}",
        attention="attention",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        output="attention.out_lin",
        up=("ffn.lin1",),
        down="ffn.lin2",
        counts=("n_heads",),
        sizes=("dim",),
    ),
    dimensions=DIMENSIONS | {"layers": "n_layers", "heads": "n_heads", "width": "dim", "feed_forward": "hidden_dim"},
)
