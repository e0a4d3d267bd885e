"""Speed and memory, side by side with the naive procedures; `make bench` runs it all."""

import gnorm  # noqa: F401 - takes the hub offline before a library of the hub is imported
