"""The one place where the version is written; packaging and the command line read it from here."""

__version__ = "0.1.0"
