"""OFUL (Abbasi-Yadkori, Pal, Szepesvari, NeurIPS 2011), the sub-Gaussian baseline."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax

from linbet_jax import theory
from linbet_jax.policies.designs import Design
from linbet_jax.policies.ridge import ridge_policy, scaled_radius
from linbet_jax.policy import Policy


class OfulParams(NamedTuple):
    """Hyperparameters of OFUL, all traced.

    Attributes:
        ridge: lambda > 0.
        delta: failure probability in (0, 1).
        theta_norm: S >= ||theta*||.
        noise_scale: R, the sub-Gaussian scale of the noise. Heavy tails have none: the noise's standard deviation where
            it is finite, else 1, is used unless another is given.
        radius_scale: multiplies every radius; 1 is the paper.
        horizon: T, the pulls the parameters were made for.
    """

    ridge: Any
    delta: Any
    theta_norm: Any
    noise_scale: Any
    radius_scale: Any
    horizon: Any


@functools.lru_cache(maxsize=128)
def oful(design: Design) -> Policy:
    """OFUL; parameters: :class:`OfulParams`."""

    def radius(updates: jax.Array, log_det_ratio: jax.Array, params: OfulParams) -> jax.Array:
        beta = theory.oful_radius(
            log_det_ratio=log_det_ratio,
            delta=params.delta,
            noise_scale=params.noise_scale,
            ridge=params.ridge,
            theta_norm=params.theta_norm,
        )
        return scaled_radius(updates, beta, params)

    return ridge_policy("oful", design, radius=radius)
