"""Pruning loops and what they leave."""
