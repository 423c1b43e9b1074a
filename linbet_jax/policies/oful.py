"""OFUL (Abbasi-Yadkori, Pal, Szepesvari, NeurIPS 2011), the sub-Gaussian baseline."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax

from linbet_jax import theory
from linbet_jax.policies.designs import Design
from linbet_jax.policies.policy import Policy
from linbet_jax.policies.registry import Setup, register
from linbet_jax.policies.ridge import ridge_policy, scaled_radius


class OfulParams(NamedTuple):
    """Hyperparameters of OFUL; :mod:`linbet_jax.policies.policy` says what its fields are.

    Heavy tails have no noise_scale: the noise's standard deviation where it is finite, else 1, is used unless another
    is given.
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
        beta = theory.at(theory.oful_radius, params, log_det_ratio=log_det_ratio)
        return scaled_radius(updates, beta, params)

    return ridge_policy("oful", design, radius=radius)


@register(
    "oful",
    label="OFUL",
    told=("noise_scale", "theta_norm"),
    color="#CC79A7",
    source="Abbasi-Yadkori, Pal, Szepesvari 2011",
    assumption="sub-Gaussian noise",
    regret="d T^½",
    valid="adaptive",
    time="K d + d²",
    memory="d² + K",
)
def make_oful(setup: Setup) -> tuple[Policy, OfulParams]:
    """OFUL; where the noise has no standard deviation its scale is 1, with a note."""
    scale, notes = setup.noise_scale("OFUL")
    return oful(setup.design).with_notes(notes=notes), setup.params(OfulParams, noise_scale=scale)
