"""What the package raises and warns of by names of its own."""

__all__ = ["InputError", "UnhealthyWarning", "named"]


class InputError(ValueError):
    """Wrong input to a command. Raised before anything is computed or written; the command line exits with 2."""


class UnhealthyWarning(RuntimeWarning):
    """Replications met something that their numbers do not survive; `Result.health` says which and at which pull."""


def named(error: BaseException) -> str:
    """An error in words: its type, and what it says."""
    return f"{type(error).__name__}: {error}"
