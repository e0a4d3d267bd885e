"""Head pruning: scores, surgery, trajectories and everything around them."""


class UserError(Exception):
    """A mistake the user can mend: shown as one line, without a traceback."""
