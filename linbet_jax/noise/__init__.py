"""Payoff laws: heavy-tailed (and a few light-tailed) distributions of one payoff given its arm's mean.

A law is a small immutable object: it hashes and compares by value, pickles, and is a JAX pytree whose leaves are its
parameters, so one compiled program serves every value of them. It answers two kinds of questions:

* inside jitted code, `standard(key, dtype)` draws one variate and `payoff(standard, mean)` turns it into a payoff;
* on the host, in NumPy float64, `cdf`, `raw_moment`, `central_moment`, `std` are exact: closed forms where they exist,
  else quadrature with a relative error below 1e-10. No moment is ever estimated by sampling.

A law of one's own needs what `PayoffLaw` lists (subclassing is optional). A subclass of a law here plays what it
overrides; it says its own moments where it changes them, and is a constant of the compiled program unless it is
registered as a pytree too.

Rooms: `words` makes variates of random words, `moments` integrates, `laws`, `empirical`, `mixture`,
`heteroscedastic` and `custom` are the laws.

The papers that laws name are listed in `linbet_jax/policies/README.md`.
"""

from linbet_jax.noise._base import (
    PayoffLaw,
    admissible_epsilon,
    check_means,
    reveals_scales,
    scales,
    traceable,
    variates,
)
from linbet_jax.noise.custom import Custom
from linbet_jax.noise.empirical import Empirical, EmpiricalPerArm
from linbet_jax.noise.heteroscedastic import Heteroscedastic
from linbet_jax.noise.laws import (
    Burr,
    CenteredPareto,
    Frechet,
    Gaussian,
    LogNormal,
    Pareto,
    Spikes,
    StudentT,
    SymmetricPareto,
    SymmetricStable,
    TwoPoint,
    TwoPointNoise,
    Weibull,
)
from linbet_jax.noise.mixture import Mixture
from linbet_jax.noise.words import exponential, float_dtype, half_turn, stream_words, uniform

__all__ = [
    "Burr", "CenteredPareto", "Custom", "Empirical", "EmpiricalPerArm", "Frechet", "Gaussian", "Heteroscedastic",
    "LogNormal", "Mixture", "Pareto", "PayoffLaw", "Spikes", "StudentT", "SymmetricPareto", "SymmetricStable",
    "TwoPoint", "TwoPointNoise", "Weibull", "admissible_epsilon", "check_means", "exponential", "float_dtype",
    "half_turn", "reveals_scales", "scales", "stream_words", "traceable", "uniform", "variates",
]  # fmt: skip
