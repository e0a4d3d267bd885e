"""Numbers read off results; no torch."""
