"""ELECTRA: BERT's layers over narrower embeddings."""

from gnorm.families import Family
from gnorm.families.bert import LAYOUT

FAMILY = Family(name="electra", layout=LAYOUT, embedding="embedding_size", textpruner=True)
