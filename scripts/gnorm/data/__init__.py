"""Rows, tokenizers and where they come from."""
