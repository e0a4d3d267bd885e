"""Batches, passes and what is measured of them."""
