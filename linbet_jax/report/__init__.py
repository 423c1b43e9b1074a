"""The report of a sweep: one HTML page that needs nothing else, the same figures as files, and tables."""

import linbet_jax.figures.plotting  # noqa: F401  it must be the first to import matplotlib
