"""Jitted kernels for linear bandits with heavy-tailed payoffs, each for ONE problem: batch them with ``jax.vmap``.

Importing this package reads no file, loads no plotting and changes no JAX setting. Every kernel follows the dtype of
its arrays. All raise ValueError at trace time where shapes do not match or an argument is no float32 or float64 array.
"""

from linbet_jax.kernels.fixed_design import bmm_estimate, btc_estimate, catoni_estimate, exact_design
from linbet_jax.kernels.gram import ridge_estimates
from linbet_jax.kernels.medians import median_center, median_of_means
from linbet_jax.kernels.selection import optimistic_arm
from linbet_jax.kernels.truncation import (
    DoubtfulState,
    doubtful_estimate,
    doubtful_init,
    doubtful_update,
    truncated_estimate,
)
from linbet_jax.kernels.whitening import (
    ShiftedInverses,
    inverse_sqrt,
    shifted_inverses,
    shifted_inverses_defer,
    shifted_inverses_settle,
    shifted_inverses_update,
)

__all__ = [
    "DoubtfulState",
    "ShiftedInverses",
    "bmm_estimate",
    "btc_estimate",
    "catoni_estimate",
    "doubtful_estimate",
    "doubtful_init",
    "doubtful_update",
    "exact_design",
    "inverse_sqrt",
    "median_center",
    "median_of_means",
    "optimistic_arm",
    "ridge_estimates",
    "shifted_inverses",
    "shifted_inverses_defer",
    "shifted_inverses_settle",
    "shifted_inverses_update",
    "truncated_estimate",
]
