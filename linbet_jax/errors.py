"""The error that means: the input is wrong, and its one-line message says what to change."""

__all__ = ["InputError"]


class InputError(ValueError):
    """Wrong input to a command. Raised before anything is computed or written; the command line exits with 2."""
