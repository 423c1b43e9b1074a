"""The paper's experiments: what is run, what is written, what it shows. No terminal and no JAX settings here."""

import linbet_jax.figures.plotting  # noqa: F401  it must be the first to import matplotlib
