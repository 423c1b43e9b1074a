"""A policy from outside the package, in one file: LinUCB with a constant width (Li, Chu, Langford, Schapire 2010)."""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp

from linbet_jax.policies import Cost, register, ridge_policy


class LinUcbParams(NamedTuple):
    ridge: Any
    alpha: Any  # the width's multiplier
    radius_scale: Any
    horizon: Any


def radius(updates, log_det_ratio, params):
    return params.radius_scale * params.alpha * jnp.ones_like(log_det_ratio)


@functools.lru_cache
def linucb(design):
    return ridge_policy("linucb", design, radius=radius)


@register(
    "linucb",
    label="LinUCB",
    color="#117733",
    cost=Cost(0.17, 4e-4, 4e-4),
    source="Li, Chu, Langford, Schapire 2010",
    assumption="sub-Gaussian noise",
    rate=lambda epsilon: 0.5,
)
def make_linucb(setup, *, alpha=1.0):
    return linucb(setup.design), LinUcbParams(setup.ridge, alpha, setup.radius_scale, float(setup.horizon))
