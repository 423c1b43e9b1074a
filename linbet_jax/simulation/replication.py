"""One replication of one policy: a scan over the epochs of a stretch, in a loop over stretches; traced once.

Layout. A replication runs in *stretches* of about 128 pulls: the noise of a stretch is drawn at once, the policy steps
through its epochs, and the records that fall into it are read off the scan's outputs. Only the policy's state, two
compensated sums and the records are kept, so memory does not depend on T. The last stretch runs to its end: beyond T no
update changes the state and nothing is recorded, so that one program serves every T.

Randomness. With ``seed_key = fold_in(key, seed)`` the noise at pull t = 1.. is variate t of the law under
``fold_in(seed_key, 0)`` (`linbet_jax.noise.variates`, its scale `scales`), randomised choices come from
``fold_in(fold_in(seed_key, 1), t)``, changing decision sets from ``fold_in(seed_key, 2)``, fresh instances from
``fold_in(seed_key, 3)`` and a theta* that moves from ``fold_in(seed_key, 4)``. All policies of one key meet the same
noise at the same pull.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.balls import Ball
from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.noise import scales, variates
from linbet_jax.policies.policy import Policy, Region, SeesScale, Update, updated
from linbet_jax.theory import OWN_NORM


class Plan(NamedTuple):
    """Host numbers that shape the compiled program; one program per distinct plan and array shapes."""

    policy: Policy
    sampler: Any
    generator: Any
    epochs_per_stretch: int  # a multiple of the policy's updates in turn
    guarded: bool  # whether epochs may lie beyond T: T is no multiple of a stretch
    refresh_stride: int  # stretches between refreshes
    static_law: Any  # a law that is no pytree of numbers; None when the world carries it
    trace_pulls: int  # T when tracing, else 0
    coverage: bool  # whether to watch the confidence region
    dtype: str
    on_card: bool = False  # whether a GPU plays it: fewer kernels, and no branch that its host must wait for
    path: Any = None  # (key, pull) -> theta* [d], of a theta* that moves

    @property
    def width(self) -> int:
        """Pulls of a stretch."""
        return self.epochs_per_stretch * self.policy.pulls_per_epoch


class World(NamedTuple):
    """What is played, in the dtype of the run; entries that a kind of bandit lacks are None."""

    law: Any
    arms: Any  # [K, d], or a `Ball`
    theta_star: Any
    means: Any
    gaps: Any  # best mean minus mean, subtracted in float64
    instance: Any = ()  # numbers that the generator of fresh instances takes before the key


class _Run(NamedTuple):
    """What stays the same during a replication."""

    plan: Plan
    law: Any
    arms: Any  # [K, d] or a `Ball`, or None where sets change
    theta_star: Any  # [d], or None where it moves
    params: Any
    decision_set: Callable[[jax.Array], tuple[jax.Array, jax.Array, jax.Array]]  # pull -> arms, means [K], gaps [K]
    choice_key: jax.Array
    horizon: jax.Array
    theta_at: Any = None  # pull -> theta* [d], where it moves


class _Function:
    """A function of the arm, indexed like the array of its values that it stands for."""

    def __init__(self, function: Callable[[jax.Array], jax.Array]) -> None:
        self.function = function

    def __getitem__(self, arm: jax.Array) -> jax.Array:
        return self.function(arm)


class _Carry(NamedTuple):
    """What goes from epoch to epoch."""

    state: Any
    health: jax.Array
    regret: tuple[jax.Array, jax.Array]  # so far, as a compensated sum, like payoff
    payoff: tuple[jax.Array, jax.Array]
    coverage: Any  # (first miss [] int32, worst ratio []), or None


class _Curves(NamedTuple):
    """What is seen after each of an epoch's r pulls, or kept of a replication at its R records."""

    regret: jax.Array  # [r] or [R], cumulative
    payoff: jax.Array  # likewise
    trace: Any  # (arms [r] int32, payoffs [r]) when tracing, of a replication in whole stretches; else None


def replicate(
    plan: Plan, seed: jax.Array, params: Any, world: World, rounds: jax.Array, key: jax.Array
) -> dict[str, Any]:
    """One replication: seed [] uint32, rounds [R] int32 -> records and final facts."""
    seed_key = jax.random.fold_in(key, seed)
    law, dtype = world.law if plan.static_law is None else plan.static_law, jnp.dtype(plan.dtype)
    run = _begin(plan, seed_key, params, world, law, rounds[-1])
    policy, width, noise_key = plan.policy, plan.width, jax.random.fold_in(seed_key, 0)
    draws = (variates(law, noise_key, dtype), *([scales(law, noise_key, dtype)] if policy.sees_scales else []))

    zero = jnp.zeros((), dtype)
    state = policy.init(run.arms, run.params)
    coverage = (jnp.zeros((), jnp.int32), zero) if plan.coverage else None
    padded = -(-plan.trace_pulls // width) * width
    ball = world.arms if isinstance(world.arms, Ball) else None
    played = jnp.zeros(padded, jnp.int32) if ball is None else jnp.zeros((padded, ball.dim), dtype)
    trace = (played, jnp.zeros(padded, dtype)) if plan.trace_pulls else None
    nothing = jnp.zeros(rounds.shape, dtype)
    start = (
        _Carry(state, jnp.zeros((), jnp.int32), (zero, zero), (zero, zero), coverage),
        _Curves(nothing, nothing, trace),
    )
    stretches = ((run.horizon + width - 1) // width).astype(jnp.int32)
    carry, records = jax.lax.fori_loop(
        jnp.zeros((), jnp.int32), stretches, lambda i, both: _stretch(run, draws, rounds, i, *both), start
    )

    overflowed = None if policy.buffers is None else policy.buffers.overflowed
    out = {
        "health": carry.health,
        "regret": records.regret,
        "payoff": records.payoff,
        "overflow": jnp.zeros((), bool) if overflowed is None else overflowed(carry.state),
    }
    if policy.region is not None:
        out["estimate"] = policy.region(carry.state, run.arms, run.params).center
    if plan.coverage:
        out["first_miss"], out["worst_ratio"] = carry.coverage
    if plan.trace_pulls:
        out["trace_arms"], out["trace_payoffs"] = (values[: plan.trace_pulls] for values in records.trace)
    return out


def _begin(plan: Plan, seed_key: jax.Array, params: Any, world: World, law: Any, horizon: jax.Array) -> _Run:
    """What this replication plays: the world's set, changing sets, or an instance of its own."""
    dtype, choice_key = jnp.dtype(plan.dtype), jax.random.fold_in(seed_key, 1)
    if plan.sampler is not None:
        sets_key = jax.random.fold_in(seed_key, 2)

        def changing_set(pull: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            arms = plan.sampler(sets_key, pull).astype(dtype)
            means = dot(arms, world.theta_star)
            return arms, means, jnp.max(means) - means

        return _Run(plan, law, None, world.theta_star, params, changing_set, choice_key, horizon)
    arms, theta_star, means, gaps = world.arms, world.theta_star, world.means, world.gaps
    if isinstance(arms, Ball):
        best = arms.support(theta_star)
        means = _Function(lambda arm: dot(arm, theta_star))
        gaps = _Function(lambda arm: jnp.maximum(best - dot(arm, theta_star), 0))
    if plan.path is not None:
        path_key = jax.random.fold_in(seed_key, 4)

        def theta_at(pull: jax.Array) -> jax.Array:
            return jnp.asarray(plan.path(path_key, pull)).astype(dtype)

        def moving(pull: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            means = dot(arms, theta_at(pull))
            return arms, means, jnp.max(means) - means

        return _Run(plan, law, arms, None, params, moving, choice_key, horizon, theta_at)
    if plan.generator is not None:
        arms, theta_star = plan.generator(*world.instance, jax.random.fold_in(seed_key, 3))
        arms, theta_star = arms.astype(dtype), theta_star.astype(dtype)
        means = dot(arms, theta_star)
        gaps = jnp.max(means) - means
        params = _localise(params, theta_star)
    return _Run(plan, law, arms, theta_star, params, lambda pull: (arms, means, gaps), choice_key, horizon)


def _stretch(
    run: _Run,
    draws: Sequence[Callable[[jax.Array], jax.Array]],
    rounds: jax.Array,
    number: jax.Array,
    carry: _Carry,
    records: _Curves,
) -> tuple[_Carry, _Curves]:
    """Stretch ``number`` (from 0): draw its noise, scan over its epochs, refresh, read off what is recorded."""
    plan, pulls, updates = run.plan, run.plan.policy.pulls_per_epoch, run.plan.policy.updates
    width, turns = plan.width, len(updates)
    before = number * width  # pulls so far
    drawn = [_drawn(draw, before, width, plan.on_card).reshape(-1, turns, pulls) for draw in draws]
    epochs = (number * plan.epochs_per_stretch + jnp.arange(plan.epochs_per_stretch, dtype=jnp.int32)).reshape(
        -1, turns
    )

    def turn(carry: _Carry, inputs: tuple[jax.Array, ...]) -> tuple[_Carry, _Curves]:
        seen = []
        for place, update in enumerate(updates):
            carry, one = _epoch(run, update, carry, *(each[place] for each in inputs))
            seen.append(one)
        return carry, jax.tree.map(lambda *each: jnp.concatenate(each), *seen)

    most = _UNROLLED if plan.on_card and pulls == 1 else 1
    unroll = max(n for n in range(1, most + 1) if epochs.shape[0] % n == 0)
    carry, seen = jax.lax.scan(turn, carry, (epochs, *drawn), unroll=unroll)
    seen = jax.tree.map(lambda each: each.reshape(-1, *each.shape[2:]), seen)  # [width]
    refresh = plan.policy.refresh
    if refresh is not None:
        # After the first stretch too: the first updates take V^-1 = I / lambda down the most, and round the most.
        due = ((number + 1) % plan.refresh_stride == 0) | (number == 0)
        if plan.on_card and plan.refresh_stride == 1:
            fresh = refresh(carry.state, run.arms, run.params)
        else:
            fresh = jax.lax.cond(due, lambda s: refresh(s, run.arms, run.params), lambda s: s, carry.state)
        carry = carry._replace(state=fresh)

    place = rounds - before - 1
    here = (place >= 0) & (place < width)
    place = jnp.clip(place, 0, width - 1)
    trace = records.trace
    if trace is not None:
        trace = tuple(
            jax.lax.dynamic_update_slice_in_dim(old, new, before, 0) for old, new in zip(trace, seen.trace, strict=True)
        )
    last = jnp.minimum(run.horizon - before, width) - 1  # the last pull in time
    overflow = ~(jnp.isfinite(seen.regret[last]) & jnp.isfinite(seen.payoff[last])) & (carry.health == 0)
    health = jnp.where(overflow, jnp.minimum(before + width, run.horizon), carry.health).astype(jnp.int32)
    return carry._replace(health=health), _Curves(
        jnp.where(here, seen.regret[place], records.regret), jnp.where(here, seen.payoff[place], records.payoff), trace
    )


def _epoch(
    run: _Run,
    update: Update | SeesScale,
    carry: _Carry,
    number: jax.Array,
    drawn: jax.Array,
    scales: jax.Array | None = None,
) -> tuple[_Carry, _Curves]:
    """Epoch ``number`` (from 0): choose, pull r times with the standard variates drawn [r], of scales [r], update."""
    policy, params, law = run.plan.policy, run.params, run.law
    pulls = policy.pulls_per_epoch
    pull = number * pulls + 1  # its first pull, counted from 1
    whole = pull + pulls - 1 <= run.horizon  # pulls left over after the last whole epoch update nothing
    arms, means, gaps = run.decision_set(pull)
    choice = jnp.asarray(policy.select(jax.random.fold_in(run.choice_key, pull), carry.state, arms, params))
    index, bad_index = _index(arms, choice)
    offsets = jnp.arange(pulls)
    in_time = pull + offsets <= run.horizon
    if run.theta_at is None:
        mean, gap = means[index], None
    elif pulls == 1:
        mean, gap = means[index][None], gaps[index][None]
    else:  # theta* moves on during the epoch
        mean, gap = jax.vmap(lambda later: tuple(each[index] for each in run.decision_set(later)[1:]))(pull + offsets)
    payoffs = _rounded(law.payoff(drawn, mean).astype(drawn.dtype), run.horizon)

    def learnt(state: Any) -> Any:
        return updated(update, state, arms, index, payoffs, scales, params)

    # The two ways of a cond copy the state, which is felt where an update is all that a pull costs.
    if not run.plan.guarded:
        state = learnt(carry.state)
    elif run.plan.on_card:  # whose host would wait for every answer
        state = jax.tree.map(functools.partial(jnp.where, whole), learnt(carry.state), carry.state)
    else:
        state = jax.lax.cond(whole, learnt, lambda state: state, carry.state)
    coverage = carry.coverage
    if coverage is not None:
        assert policy.region is not None
        region = policy.region

        def watched(covered: Any) -> Any:
            return _covered(covered, region(state, run.arms, params), run.theta_star, pull + pulls - 1)

        coverage = jax.lax.cond(whole, watched, lambda covered: covered, coverage)

    if run.plan.sampler is not None or run.plan.generator is not None:  # fixed arms were checked on the host
        size = jnp.sqrt(jnp.sum(arms[index] ** 2) * jnp.sum(run.theta_star**2))
        bad_index = bad_index | _outside(law, means[index], size)
    elif run.theta_at is not None:
        size = jnp.sqrt(jnp.sum(arms[index] ** 2) * jnp.sum(run.theta_at(pull) ** 2))
        bad_index = bad_index | _outside(law, mean, size)
    bad = in_time & (bad_index | ~jnp.isfinite(payoffs))
    first_bad = jnp.min(jnp.where(bad, offsets, pulls))
    finite = _all_finite(state) if policy.finite is None else policy.finite(state)
    last = jnp.minimum(pull + pulls - 1, run.horizon)
    event = jnp.where(first_bad < pulls, pull + first_bad, jnp.where(finite, 0, last))
    health = jnp.where(carry.health == 0, event, carry.health).astype(jnp.int32)
    if gap is None:
        regrets = _rounded(gaps[index] * (offsets + 1).astype(drawn.dtype), run.horizon)
    else:
        regrets = _rounded(jnp.cumsum(gap), run.horizon)
    sums = payoffs if pulls == 1 else jnp.cumsum(payoffs)
    seen = _Curves(
        regret=carry.regret[0] + (carry.regret[1] + regrets),
        payoff=carry.payoff[0] + (carry.payoff[1] + sums),
        trace=(jnp.full((pulls, *index.shape), index), payoffs) if run.plan.trace_pulls else None,
    )
    regret, payoff = compensated(*carry.regret, regrets[-1]), compensated(*carry.payoff, sums[-1])
    return _Carry(state, health, regret, payoff, coverage), seen


def _index(arms: Any, choice: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The index of the arm chosen, on a ball the arm [d], and whether there is none such: another is then played."""
    if isinstance(arms, Ball):
        bad = ~arms.holds(choice)
        return jnp.where(bad, 0, choice), bad
    bad = (choice < 0) | (choice >= arms.shape[0])
    return jnp.where(bad, 0, choice).astype(jnp.int32), bad


_UNROLLED = 5  # turns that the scan's loop takes at once on a GPU: kernels of neighbours merge; more win little
_DRAWN_AT_ONCE = 64  # variates: their words stay in the first cache, for a block of 16 seeds
_VECTOR = 8  # what is left of a row after whole vectors would be drawn one by one


def _drawn(draw: Callable[[jax.Array], jax.Array], before: jax.Array, width: int, on_card: bool) -> jax.Array:
    """The standard variates of the ``width`` pulls after pull ``before``, [width].

    On CPU in turns of a loop, two at least, which also stores them: XLA would draw anew at every place where one is
    used. On a GPU all at once, where every turn would be kernels of its own.
    """
    if on_card:
        return draw(before + 1 + jnp.arange(width, dtype=jnp.int32))
    turns = max(2, -(-width // _DRAWN_AT_ONCE))
    few = -(-width // turns)
    few = -(-few // _VECTOR) * _VECTOR
    numbers = before + 1 + jnp.arange(turns * few, dtype=jnp.int32)
    return jax.lax.map(draw, numbers.reshape(turns, few)).reshape(-1)[:width]


def _rounded(values: jax.Array, horizon: jax.Array) -> jax.Array:
    """The values, rounded before they are added to others: last bits do not depend on what XLA makes one kernel.

    A compiler may round a product and the sum it enters once, or twice. Here it cannot tell that the bits stay: the
    word which they are combined with is 0 because T is positive, and T is an argument.
    """
    word = jnp.uint64 if values.dtype == jnp.float64 else jnp.uint32
    zero = (horizon >> 31).astype(word)
    return jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(values, word) ^ zero, values.dtype)


def _outside(law: Any, mean: jax.Array, size: jax.Array) -> jax.Array:
    """Whether the law has no payoff of this mean <x, theta*>, up to rounding: size is ||x|| ||theta*||."""
    low, high = law.mean_range
    slack = 1e-5 * size
    return (mean < low - slack) | (mean > high + slack)


def _covered(covered: tuple[jax.Array, jax.Array], region: Region, theta_star: jax.Array, pull: jax.Array) -> Any:
    """First miss and worst ratio with one more update seen; a radius of 0 is missed by an infinite ratio, or met."""
    assert region.norm is not None
    assert region.radius is not None
    first_miss, worst = covered
    distance, radius = region.norm(region.center - theta_star), region.radius
    missed = (first_miss == 0) & (distance > radius)
    ratio = distance / jnp.where(distance > 0, radius, 1)
    return jnp.where(missed, pull, first_miss).astype(jnp.int32), jnp.maximum(worst, ratio)


def _localise(params: Any, theta_star: jax.Array) -> Any:
    """For a fresh instance per replication `OWN_NORM` stands for that instance's own norm S."""
    if not hasattr(params, "theta_norm"):
        return params
    norm = jnp.sqrt(jnp.sum(theta_star * theta_star))
    return params._replace(theta_norm=jnp.where(params.theta_norm == OWN_NORM, norm, params.theta_norm))


def _all_finite(state: Any) -> jax.Array:
    floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating)]
    return jnp.all(jnp.asarray([jnp.all(jnp.isfinite(leaf)) for leaf in floats] or [True]))
