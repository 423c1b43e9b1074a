"""What the package raises and warns of by names of its own."""

__all__ = ["InputError", "UnhealthyWarning"]


class InputError(ValueError):
    """Wrong input to a command. Raised before anything is computed or written; the command line exits with 2."""


class UnhealthyWarning(RuntimeWarning):
    """Replications met something that their numbers do not survive; `Result.health` says which and at which pull."""
