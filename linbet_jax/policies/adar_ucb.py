"""adar_ucb: trimmed means of K arms, told neither epsilon nor a moment (Genalti, Marsigli, Gatti, Metelli, COLT 2024).

AdaR-UCB plays an arm twice a step. The second payoffs of an arm say how heavy its tail is: the level M is where
sum min(y'^2/M^2, 1) over them is q = (1 + sqrt(2))^2 ln tau^3. The first payoffs, which M never saw, are trimmed there.

Deviations: arms that have no level yet come first, the lowest of them before the others, and an arm has one as soon as
the equation has a root, which takes more than q payoffs y' that are not 0; the paper asks for 4 ln tau^3 of them, where
there may be none.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.selection import argmax_index
from linbet_jax.policies._checks import check_params
from linbet_jax.policies.designs import Arms
from linbet_jax.policies.policy import About, Buffers, Policy
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.robust_ucb import check_orthonormal, region_of

_MOST = {"float32": 1e15, "float64": 1e150}  # a payoff beyond it counts as this: no square overflows


class AdarUcbParams(NamedTuple):
    """Hyperparameters of adar_ucb; :mod:`linbet_jax.policies.policy` says what its fields are."""

    radius_scale: Any
    horizon: Any  # that of the buffers


class Ordered(NamedTuple):
    """The payoffs of every arm, the C largest by size one by one and the smaller ones as sums."""

    sizes: jax.Array  # [K, C], the largest |y|, falling; 0 where there is none
    squares: jax.Array  # [K, C + 1], column i: the sum of the squares of all payoffs but the i largest
    sums: jax.Array | None = None  # [K, C + 1], that of the payoffs; None where nobody asks for it

    def plus(self, here: jax.Array, payoff: jax.Array) -> Ordered:
        """One payoff more of the arm where ``here`` [K] is True, O(K C)."""
        size = jnp.abs(payoff)
        larger = ~here[:, None] | (self.sizes >= size)  # [K, C]: these stay where they are, smaller ones move on
        with_it = jnp.concatenate([jnp.ones_like(larger[:, :1]), larger], axis=1)  # [K, C + 1]: sums that it enters

        def moved(columns: jax.Array) -> jax.Array:
            return jnp.concatenate([columns[:, :1], columns[:, :-1]], axis=1)

        def grown(columns: jax.Array, term: jax.Array) -> jax.Array:
            return jnp.where(with_it, columns + jnp.where(here, term, 0)[:, None], moved(columns))

        pushed = jnp.where(with_it[:, :-1], size, moved(self.sizes))
        sizes = jnp.where(larger, self.sizes, pushed)
        sums = None if self.sums is None else grown(self.sums, payoff)
        return Ordered(sizes, grown(self.squares, payoff * payoff), sums)


class AdarUcbState(NamedTuple):
    """State of adar_ucb: memory O(K C), C of the order of ln T."""

    steps: jax.Array  # [] int32, steps of two pulls done
    counts: jax.Array  # [K] int32, n, steps of each arm
    nonzero: jax.Array  # [K] int32, how many of its second payoffs are not 0
    first: Ordered  # its first payoffs, which are averaged
    second: Ordered  # its second payoffs, which give the level
    means: jax.Array  # [K], trimmed means of the first payoffs; plain ones where there is no level
    widths: jax.Array  # [K], theirs; infinite where there is no level
    full: jax.Array  # [] bool, whether a level needed more of the largest payoffs than there is room for


def _column(columns: jax.Array, number: jax.Array) -> jax.Array:
    """One column of every row: [K, C + 1], [K] -> [K]."""
    return jnp.sum(jnp.where(jnp.arange(columns.shape[1]) == number[:, None], columns, 0), axis=1)


def _level(second: Ordered, mass: Any) -> tuple[jax.Array, jax.Array]:
    """M [K] with sum min(y^2/M^2, 1) = q, and how many payoffs are beyond it [K].

    At M = |y_(i)|, the i-th largest, that sum is i + (sum of the smaller squares)/y_(i)^2. It grows with i, so those
    where it is below q are beyond M, j of them, and M^2 = (sum of all smaller squares)/(q - j).
    """
    rank, squares = jnp.arange(1, second.squares.shape[1]), second.sizes * second.sizes
    beyond = jnp.sum((squares > 0) & (second.squares[:, 1:] < (mass - rank) * squares), axis=1)
    return jnp.sqrt(_column(second.squares, beyond) / jnp.where(beyond < mass, mass - beyond, 1)), beyond


def _init(arms: Arms, params: AdarUcbParams, *, capacity: int) -> AdarUcbState:
    if arms is None:
        raise ValueError("adar_ucb keeps one mean per arm; make it for the bandit that it plays, with one fixed set")
    num_arms = arms.shape[0]
    zeros, none = jnp.zeros((num_arms, capacity + 1), arms.dtype), jnp.zeros(num_arms, jnp.int32)
    second = Ordered(zeros[:, :-1], zeros)
    start, means = jnp.zeros((), jnp.int32), zeros[:, 0]
    return AdarUcbState(
        start, none, none, second._replace(sums=zeros), second, means, means + jnp.inf, jnp.zeros((), bool)
    )


def _select(key: jax.Array, state: AdarUcbState, arms: jax.Array, params: AdarUcbParams) -> jax.Array:
    new = jnp.isinf(state.widths)
    best = argmax_index(state.means, jnp.where(new, 0, state.widths) ** 2, params.radius_scale)
    return jnp.where(jnp.any(new), jnp.argmax(new).astype(jnp.int32), best)


def _update(
    state: AdarUcbState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: AdarUcbParams
) -> AdarUcbState:
    """The two payoffs, and what step tau + 1 makes of all arms: its logarithm moves every level."""
    payoffs = jnp.clip(payoffs, -_MOST[str(arms.dtype)], _MOST[str(arms.dtype)])
    here = jnp.arange(arms.shape[0]) == index
    counts, nonzero = state.counts + here, state.nonzero + (here & (payoffs[1] != 0))
    first, second = state.first.plus(here, payoffs[0]), state.second.plus(here, payoffs[1])
    steps = state.steps + 1
    step = (steps + 1).astype(arms.dtype)
    mass, room = theory.adar_ucb_mass(step), first.sizes.shape[1]
    level, largest = _level(second, mass)
    known = nonzero > mass
    beyond = jnp.sum((first.sizes > level[:, None]) & known[:, None], axis=1)
    full = known & ((largest == room) | ((beyond == room) & (counts > room)))
    assert first.sums is not None
    total, pulls = _column(first.sums, beyond), counts.astype(arms.dtype)
    means = total / jnp.maximum(pulls, 1)
    variance = jnp.maximum(_column(first.squares, beyond) - total * means, 0) / jnp.maximum(pulls - 1, 1)
    width = theory.adar_ucb_width(jnp.maximum(pulls, 1), step=step, variance=variance, level=level)
    return AdarUcbState(
        steps, counts, nonzero, first, second, means, jnp.where(known, width, jnp.inf), state.full | jnp.any(full)
    )


@functools.lru_cache(maxsize=64)
def adar_ucb(*, capacity: int) -> Policy:
    """AdaR-UCB for arms that are orthonormal; parameters: :class:`AdarUcbParams`.

    In step tau = 1, 2, ... the arm with the largest m + sqrt(2 V ln tau^3/n) + 10 M ln tau^3/n is played twice: m and V
    are mean and sample variance of its n first payoffs, where one beyond M counts as 0. M solves
    sum min(y^2/M^2, 1) = (1 + sqrt(2))^2 ln tau^3 over the n second payoffs y; an arm without a solution comes first.

    The paper bounds the regret by 46 (K ln(T/2))^{eps/p} (b T)^{1/p} and smaller terms, p = 1 + eps, for every order
    and moment that the payoffs have, where E[y 1{|y| > m}] <= 0 for the best arm and every m (truncated
    non-positivity). Symmetric noise has that where the best mean is not positive; Pareto payoffs have it not. An arm
    whose payoffs are nearly always 0 never gets a level, and is played on and on.
    A payoff beyond 1e150 (in float32 1e15) counts as that, so that no square overflows.

    The whole history decides, but only the largest payoffs of each arm are needed one by one: O(K C) a step.

    Args:
        capacity: C, how many of its largest payoffs are kept of each arm; a replication that needs more is repeated
            with four times as many.
    """
    return Policy(
        name="adar_ucb",
        init=functools.partial(_init, capacity=capacity),
        select=_select,
        update=_update,
        pulls_per_epoch=2,
        region=lambda state, arms, params: region_of(arms, state.means),
        finite=lambda state: jnp.isfinite(jnp.sum(state.first.squares[:, 0] + state.second.squares[:, 0])),
        buffers=Buffers(overflowed=lambda state: state.full, enlarge=lambda: adar_ucb(capacity=4 * capacity)),
        about=About(check=check_params),
    )


@register(
    "adar_ucb",
    label="AdaR-UCB",
    color="#CC6677",
    cost=Cost(1.5, 0.12, 0.0),
    source="Genalti, Marsigli, Gatti, Metelli 2024",
    assumption="truncated non-positivity",
    regret="K^(ε/(1+ε)) T^(1/(1+ε))",
    valid="adaptive",
    sets="orthonormal",
    time="K ln T",
    memory="K ln T",
)
def make_adar_ucb(setup: Setup) -> tuple[Policy, AdarUcbParams]:
    """adar_ucb for one finite set of orthonormal arms, with room for what the horizon's last level may need."""
    check_orthonormal(setup, "adar_ucb")
    most = theory.adar_ucb_mass(max(1, setup.horizon // 2))
    capacity = min(math.ceil(most + 4 * math.sqrt(most)) + 1, max(1, setup.horizon // 2))
    return adar_ucb(capacity=capacity), setup.params(AdarUcbParams)
