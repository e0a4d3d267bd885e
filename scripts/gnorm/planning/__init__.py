"""What a run will cost, and how far it is."""
