"""LinTS, Thompson sampling (Agrawal and Goyal, ICML 2013): the sub-Gaussian baseline that explores by chance."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.balls import Ball
from linbet_jax.kernels.gram import combined, compensated, dot, sweep_inverse
from linbet_jax.kernels.selection import argmax_index
from linbet_jax.noise.words import normals
from linbet_jax.policies._checks import check_params
from linbet_jax.policies.designs import AnySetsState, Arms, Design, FixedSet, FixedSetState
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register

_REFINEMENTS = 2  # Newton steps of a refresh: each squares the relative error of the root


class LintsParams(NamedTuple):
    """Hyperparameters of LinTS; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any  # the paper's is 1
    delta: Any
    theta_norm: Any  # enters the confidence region alone
    noise_scale: Any  # as OFUL's
    radius_scale: Any  # multiplies v and the region's radius; 1 is the paper
    horizon: Any


class LintsState(NamedTuple):
    """State of LinTS: memory O(d^2), for a fixed set O(K) more; independent of T."""

    # what gives V: for a fixed set [K] int32, how often each arm was played; else V [d, d] and what rounding has kept
    # out of it
    played: Any
    root: jax.Array  # [d, d], N with N^T N = V^-1
    turned: jax.Array  # [d, d], its transpose: every product then runs over contiguous numbers
    log_det: jax.Array  # [], ln(det V / det(lambda I))
    center: jax.Array  # [d], the ridge estimate
    moments: jax.Array  # [d], sum x y
    lost: jax.Array  # [d], what rounding has kept out of the moments so far


@functools.lru_cache(maxsize=128)
def lints(design: Design) -> Policy:
    """LinTS; parameters: :class:`LintsParams`.

    At every pull theta~ = theta_t + radius_scale v N^T z with z ~ N(0, I) afresh, of the law N(theta_t, v^2 V^-1), and
    the arm of the largest <x, theta~> is played. The square root N^T of V^-1 follows V by rank one, O(d^2): with
    w = N x and s = ||w||^2 the new one is N - w (N^T w)^T / (1 + s + sqrt(1 + s)).

    v = R sqrt(9 d ln(T/delta)), as in the corrected version of the paper (arXiv:1209.3352, Algorithm 1 with the T of
    a known horizon for its t). Its Theorem 1: regret O~(d^{3/2} sqrt(T)) with probability 1 - delta for sub-Gaussian
    noise, with constants for lambda = 1 and ||x||, ||theta*|| of at most 1.

    Deviations: the version in the proceedings has v = R sqrt(24 d ln(1/delta)/epsilon) with a free epsilon, and a
    rate T^{(1 + epsilon)/2}. lambda is free here. The confidence region is OFUL's: the paper's lemma follows from it.
    """
    fixed = isinstance(design, FixedSet)

    def as_design(state: LintsState) -> Any:
        """The state that the design's own functions take."""
        inverse = dot(state.turned, state.root)
        if fixed:
            return FixedSetState(state.played, inverse, jnp.zeros_like(state.log_det), state.log_det)
        gram, lost = state.played
        return AnySetsState(gram, inverse, state.log_det, lost)

    def init(arms: Arms, params: LintsParams) -> LintsState:
        start = design.init(arms, params.ridge)
        root = jnp.sqrt(start.inverse)
        zero = jnp.zeros(design.dim, root.dtype)
        played = start.counts if fixed else (start.gram, start.lost)
        return LintsState(played, root, root, start.log_det, zero, zero, zero)

    def select(key: jax.Array, state: LintsState, arms: jax.Array, params: LintsParams) -> jax.Array:
        scale = params.radius_scale * theory.at(theory.lints_scale, params, dim=design.dim)
        drawn = state.center + scale * combined(state.root, normals(key, design.dim, state.root.dtype))
        if isinstance(arms, Ball):
            return arms.best(drawn)
        values = combined(jax.lax.optimization_barrier(arms.T), drawn) if fixed else dot(arms, drawn)
        return argmax_index(values, jnp.zeros_like(values), jnp.zeros_like(state.log_det))

    def update(
        state: LintsState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: LintsParams
    ) -> LintsState:
        feature, payoff = arms[index], payoffs[0]
        whitened = combined(state.turned, feature)  # w = N x
        image = combined(state.root, whitened)  # V^-1 x = N^T w
        grown = 1 + jnp.sum(whitened * whitened)
        share = whitened / (grown + jnp.sqrt(grown))
        if fixed:
            played = state.played + (jnp.arange(arms.shape[0]) == index)
        else:
            gram, rest = state.played
            played = compensated(gram, rest, feature[:, None] * feature)
        moments, lost = compensated(state.moments, state.lost, feature * payoff)
        return LintsState(
            played=played,
            root=state.root - share[:, None] * image,
            turned=state.turned - image[:, None] * share,
            log_det=state.log_det + jnp.log(grown),
            center=state.center + image * ((payoff - jnp.sum(feature * state.center)) / grown),
            moments=moments,
            lost=lost,
        )

    def refresh(state: LintsState, arms: Arms, params: LintsParams) -> LintsState:
        gram = design.gram(as_design(state), arms, params.ridge)
        turned = state.turned
        for _ in range(_REFINEMENTS):  # Newton's step towards N^T N = V^-1; it turns N by no more than rounding
            miss = turned - dot(dot(turned, turned.T), dot(gram, turned))
            turned = turned + miss / 2
        inverse, log_det = sweep_inverse(gram)
        return state._replace(
            root=turned.T,
            turned=turned,
            log_det=log_det - design.dim * jnp.log(params.ridge),
            center=dot(inverse, state.moments),
        )

    def region(state: LintsState, arms: Arms, params: LintsParams) -> Region:
        played = as_design(state)
        radius = params.radius_scale * theory.at(theory.oful_radius, params, log_det_ratio=state.log_det)
        center = design.solve(played, arms, params.ridge, state.moments)
        return Region(center, radius, lambda v: design.norm(played, arms, params.ridge, v))

    return Policy(
        name="lints",
        init=init,
        select=select,
        update=update,
        region=region,
        refresh=refresh,
        finite=lambda state: jnp.isfinite(jnp.sum(state.center)),
        about=About(check=check_params),
    )


@register(
    "lints",
    label="LinTS",
    told=("noise_scale", "theta_norm"),
    color="#44AA99",
    cost=Cost(0.3, 4e-4, 6e-4),
    source="Agrawal, Goyal 2013",
    assumption="sub-Gaussian noise",
    regret="d^(3/2) T^½",
    valid="adaptive",
    time="K d + d²",
    memory="d² + K",
)
def make_lints(setup: Setup) -> tuple[Policy, LintsParams]:
    """LinTS; where the noise has no standard deviation its scale is 1, with a note."""
    scale, notes = setup.noise_scale("LinTS")
    params = setup.params(LintsParams, noise_scale=scale)
    v = theory.at(theory.lints_scale, params, dim=setup.bandit.dim)
    return lints(setup.design).with_notes(facts=(("v", v),), notes=notes), params
