"""Head pruning: scores, surgery, trajectories and everything around them.

Imports nothing: a rule runs again when a file that its script imports changes, and importing any part of the package
imports this file.
"""

__version__ = "0.9.0"
