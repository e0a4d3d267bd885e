"""The mistakes that a user can mend."""


class UserError(Exception):
    """A mistake the user can mend: shown as one line, without a traceback."""
