"""Models: where their heads and neurons are, and how these are removed."""
