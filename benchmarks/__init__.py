"""Speed and memory, side by side with the naive procedures; `make bench` runs it all."""
