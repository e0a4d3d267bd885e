"""Head pruning: scores, surgery, trajectories and everything around them."""

import os

# Read when a library of the hub is first imported, so this comes before all of them. `gnorm.hub` alone lifts it.
os.environ.setdefault("HF_HUB_OFFLINE", "1")


class UserError(Exception):
    """A mistake the user can mend: shown as one line, without a traceback."""
