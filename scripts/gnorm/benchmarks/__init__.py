"""Speed and memory beside the naive procedures (`make bench`), and the check of a GPU (`make check-gpu`)."""
