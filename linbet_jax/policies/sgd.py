"""sgd: an estimate that a gradient step of optax moves at every pull, with simple exploration; a streaming baseline.

Nothing is proved of it: it is what a practitioner would try first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.balls import Ball
from linbet_jax.kernels.gram import combined, dot
from linbet_jax.kernels.selection import argmax_index
from linbet_jax.policies._checks import check_params, choice, number
from linbet_jax.policies.designs import Arms, Design, FixedSet
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register

if TYPE_CHECKING:  # imported where it is used: a bare checkout on a GPU machine plays the others without it
    import optax


class SgdParams(NamedTuple):
    """Hyperparameters of gradient policies; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any  # of the widths; used with ``explore="width"`` alone
    theta_norm: Any  # the radius of the ball that the default optimizer projects onto
    learning_rate: Any  # of the default optimizer; the step at pull t has the rate learning_rate / sqrt(t)
    clip: Any  # largest norm of a gradient in the default optimizer
    threshold: Any  # Huber's, in payoffs; used with ``loss="huber"`` alone
    exploration: Any  # the probability of a uniform arm, or what multiplies the widths
    radius_scale: Any  # multiplies ``exploration``
    horizon: Any


class SgdState(NamedTuple):
    """State of a gradient policy: independent of T."""

    theta: jax.Array  # [d], the estimate
    optimizer: Any  # the optimizer's state
    design: Any  # of the arms played; None with ``explore="epsilon"``


def projection(radius: Any) -> optax.GradientTransformation:
    """Shortens a step so that it ends within the Euclidean ball of this radius around 0; the last link of a chain."""
    import optax

    def projected(updates: Any, params: Any) -> Any:
        moved = params + updates
        square = jnp.sum(moved * moved)
        outside = square > radius * radius
        shrunk = moved * (radius / jnp.sqrt(jnp.where(outside, square, 1)))
        return jnp.where(outside, shrunk, moved) - params

    return optax.stateless(projected)


def shortened(limit: Any) -> optax.GradientTransformation:
    """`optax.clip_by_global_norm`, but exact also where the squares of a gradient exceed its dtype's range."""
    import optax

    def clipped(updates: Any, params: Any) -> Any:
        largest = jnp.max(jnp.abs(updates))
        unit = updates / jnp.where(largest > 0, largest, 1)
        norm = jnp.sqrt(jnp.sum(unit * unit))
        return jnp.where(largest * norm > limit, unit * (limit / jnp.where(norm > 0, norm, 1)), updates)

    return optax.stateless(clipped)


def default_optimizer(params: Any) -> optax.GradientTransformation:
    """Clips the gradient's norm, steps by learning_rate / sqrt(t) at pull t = 1, 2, ..., projects on ||theta|| <= S."""
    import optax

    rate = jnp.asarray(params.learning_rate)
    return optax.chain(
        shortened(params.clip),
        optax.scale_by_schedule(lambda count: -rate / jnp.sqrt((1 + count).astype(rate.dtype))),
        projection(params.theta_norm),
    )


@functools.lru_cache(maxsize=128)
def gradient(
    design: Design,
    *,
    optimizer: optax.GradientTransformation | Callable[[Any], optax.GradientTransformation] = default_optimizer,
    loss: str = "squared",
    explore: str = "epsilon",
) -> Policy:
    """A policy around an estimate that any optax optimizer moves at each pull; parameters: :class:`SgdParams`.

    The gradient is that of (x theta - y)^2 / 2 or of Huber's loss at the pull's payoff alone, so a pull costs what the
    optimizer costs on d numbers, O(K d) for the values and, with widths, what the design costs. No guarantee.

    Args:
        design: from :func:`linbet_jax.policies.design_of`, for the bandit that will be played.
        optimizer: a transformation, as ``optax.adam(0.01)``, or ``params -> transformation``, whose numbers are then
            traced. Policies compile once where it is the same object: make it once.
        loss: ``"squared"``, or ``"huber"``, whose residuals count no more than ``threshold``.
        explore: ``"epsilon"``: with probability radius_scale ``exploration`` an arm drawn uniformly, else the best one.
            ``"width"``: the arm of the largest <x, theta> + radius_scale exploration ||x|| in V^-1.

    Raises:
        ValueError: for an unknown option.
    """
    import optax

    choice("loss", loss, "squared", "huber")
    choice("explore", explore, "epsilon", "width")
    widths = explore == "width"

    def step_of(params: Any) -> optax.GradientTransformation:
        return optimizer if isinstance(optimizer, optax.GradientTransformation) else optimizer(params)

    def init(arms: Arms, params: Any) -> SgdState:
        theta = jnp.zeros(design.dim, params.ridge.dtype)
        return SgdState(theta, step_of(params).init(theta), design.init(arms, params.ridge) if widths else None)

    def values_of(arms: jax.Array, theta: jax.Array) -> jax.Array:
        fixed = isinstance(design, FixedSet)
        return combined(jax.lax.optimization_barrier(arms.T), theta) if fixed else dot(arms, theta)

    def select(key: jax.Array, state: SgdState, arms: jax.Array, params: Any) -> jax.Array:
        amount = params.radius_scale * params.exploration
        if widths:
            return design.optimistic(state.design, arms, state.theta, amount, values_of)
        if isinstance(arms, Ball):
            explore = jax.random.uniform(jax.random.fold_in(key, 1), (), jnp.float32) < amount
            return jnp.where(explore, arms.drawn(key), arms.best(state.theta))
        values = values_of(arms, state.theta)
        best = argmax_index(values, jnp.zeros_like(values), jnp.zeros((), values.dtype))
        coin, place = jax.random.uniform(key, (2,), jnp.float32)  # the same draws in both dtypes
        other = jnp.minimum((place * arms.shape[0]).astype(jnp.int32), arms.shape[0] - 1)
        return jnp.where((coin < amount) & (best >= 0), other, best)

    def update(state: SgdState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: Any) -> SgdState:
        feature = arms[index]
        residual = jnp.sum(feature * state.theta) - payoffs[0]
        if loss == "huber":
            residual = jnp.clip(residual, -params.threshold, params.threshold)
        updates, moved = step_of(params).update(residual * feature, state.optimizer, state.theta)
        theta = optax.apply_updates(state.theta, updates)
        return SgdState(theta, moved, design.add(state.design, arms, index)[0] if widths else None)

    def refresh(state: SgdState, arms: Arms, params: Any) -> SgdState:
        return state._replace(design=design.refresh(state.design, arms, params.ridge))

    return Policy(
        name="sgd",
        init=init,
        select=select,
        update=update,
        region=lambda state, arms, params: Region(state.theta),
        refresh=refresh if widths else None,
        finite=lambda state: jnp.isfinite(jnp.sum(state.theta)),
        about=About(check=check_params),
    )


@register(
    "sgd",
    label="SGD",
    told=("theta_norm",),
    color="#555599",
    cost=Cost(0.1, 3e-4, 1e-4),
    source="a reference line",
    assumption="none",
    time="K d",
    memory="d",
)
def make_sgd(
    setup: Setup,
    *,
    loss: str = "squared",
    explore: str = "epsilon",
    exploration: float = 0.1,
    learning_rate: float | None = None,
    clip: float | None = None,
    threshold: float | None = None,
) -> tuple[Policy, SgdParams]:
    """The default optimizer; rate 1/D^2, gradients up to D (D S + c^{1/(1 + epsilon)}), threshold c^{1/(1 + epsilon)}.

    A default of 0, where nothing is to be learnt, is 1 instead.
    """

    def known(field: str, option: str) -> float:
        value = setup.theta_norm if field == "theta_norm" else float(getattr(setup.bandit, field))
        if not math.isfinite(value):
            raise ValueError(
                f"{option}=None: its default needs a finite {field}, which the bandit has not; give {option}"
            )
        return value

    def noise(option: str) -> float:
        return known("central_moment_bound", option) ** (1 / (1 + setup.bandit.epsilon))

    if learning_rate is None:
        learning_rate = 1 / (known("arm_norm", "learning_rate") or 1.0) ** 2
    if clip is None:
        longest = known("arm_norm", "clip")
        clip = longest * (longest * known("theta_norm", "clip") + noise("clip")) or 1.0
    if threshold is None:
        threshold = (noise("threshold") or 1.0) if loss == "huber" else 1.0
    if explore == "epsilon" and number("exploration", exploration) > 1:
        raise ValueError(f"exploration={exploration}: must be at most 1 with explore='epsilon', a probability")
    params = setup.params(
        SgdParams,
        learning_rate=number("learning_rate", learning_rate),
        clip=number("clip", clip),
        threshold=number("threshold", threshold),
        exploration=number("exploration", exploration),
    )
    return gradient(setup.design, loss=loss, explore=explore), params
