"""One replication of one policy: nested loops over stretches and epochs, traced once and batched by the simulator.

Layout. A replication runs in *stretches* of about 128 pulls: the noise of a stretch is drawn at once, the policy steps
through its epochs, and the records that fall into it are read off two cumulative sums. Only the policy's state, two
compensated sums and the records are kept, so memory does not depend on T.

Randomness. With ``seed_key = fold_in(key, seed)`` the noise at pull t = 1.. is variate t of the law under
``fold_in(seed_key, 0)`` (`linbet_jax.noise.variates`), randomised choices come from
``fold_in(fold_in(seed_key, 1), t)``, changing decision sets from ``fold_in(seed_key, 2)`` and fresh instances from
``fold_in(seed_key, 3)``. All policies of one key meet the same noise at the same pull.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.noise import variates
from linbet_jax.policy import Policy


class Plan(NamedTuple):
    """Host numbers that shape the compiled program; one program per distinct plan and array shapes."""

    policy: Policy
    sampler: Any
    generator: Any
    epochs_per_stretch: int
    whole: bool  # whether T is a whole number of stretches, so that the inner loop has a static length
    refresh_stride: int  # stretches between refreshes
    static_law: Any  # a law that is no pytree of numbers; None when the world carries it
    trace_pulls: int  # T when tracing, else 0
    coverage: bool  # whether to watch the confidence region
    dtype: str


class World(NamedTuple):
    """What is played, in the dtype of the run; entries that a kind of bandit lacks are None."""

    law: Any
    arms: Any
    theta_star: Any
    means: Any
    gaps: Any  # best mean minus mean, subtracted in float64
    instance: Any = ()  # numbers that the generator of fresh instances takes before the key


class _Carry(NamedTuple):
    state: Any
    health: jax.Array
    regret: tuple[jax.Array, jax.Array]  # so far, as a compensated sum, like payoff
    payoff: tuple[jax.Array, jax.Array]
    regrets: jax.Array  # [E, r] after every pull of this stretch, like payoff_sums
    payoff_sums: jax.Array
    traced: Any  # arms [E] and payoffs [E, r] of this stretch when tracing, else None
    coverage: Any  # (first miss [] int32, worst ratio []), or None


def _played(
    plan: Plan, seed_key: jax.Array, params: Any, world: World
) -> tuple[Any, Any, Any, Callable[[jax.Array], tuple[jax.Array, jax.Array, jax.Array]]]:
    """What this replication plays.

    Returns:
        Fixed arms [K, d] or None, theta* [d], the parameters, and a function of the pull: arms [K, d], means [K],
        gaps [K].
    """
    dtype = jnp.dtype(plan.dtype)
    arms, theta_star, means, gaps = world.arms, world.theta_star, world.means, world.gaps
    if plan.sampler is not None:
        sets_key = jax.random.fold_in(seed_key, 2)

        def changing_set(pull: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            current = plan.sampler(sets_key, pull).astype(dtype)
            values = dot(current, theta_star)
            return current, values, jnp.max(values) - values

        return None, theta_star, params, changing_set
    if plan.generator is not None:
        arms, theta_star = plan.generator(*world.instance, jax.random.fold_in(seed_key, 3))
        arms, theta_star = arms.astype(dtype), theta_star.astype(dtype)
        means = dot(arms, theta_star)
        gaps = jnp.max(means) - means
        params = _localise(params, theta_star)
    return arms, theta_star, params, lambda pull: (arms, means, gaps)


def replicate(
    plan: Plan, seed: jax.Array, params: Any, world: World, rounds: jax.Array, key: jax.Array
) -> dict[str, Any]:
    """One replication: seed [] uint32, rounds [R] int32 -> records and final facts."""
    policy, law = plan.policy, world.law if plan.static_law is None else plan.static_law
    pulls, length = policy.pulls_per_epoch, plan.epochs_per_stretch
    width = pulls * length
    horizon = rounds[-1]
    seed_key = jax.random.fold_in(key, seed)
    noise_key, choice_key = jax.random.fold_in(seed_key, 0), jax.random.fold_in(seed_key, 1)
    dtype = jnp.dtype(plan.dtype)
    arms, theta_star, params, decision_set = _played(plan, seed_key, params, world)
    num_epochs = horizon // pulls
    draw = variates(law, noise_key, dtype)
    zero_int = jnp.zeros((), jnp.int32)

    def epoch(
        j: jax.Array, carry: _Carry, player: _Player, update: Any, drawn: jax.Array, first_epoch: jax.Array
    ) -> _Carry:
        """Epoch j of a stretch: choose, pull, update. drawn [E, r]: standard variates."""
        number = first_epoch + j  # epochs before this one
        pull = number * pulls + 1  # its first pull, counted from 1
        current, values, gap = decision_set(pull)
        choice = jnp.asarray(player.select(jax.random.fold_in(choice_key, pull), carry.state, current, params))
        bad_index = (choice < 0) | (choice >= current.shape[0])
        index = jnp.where(bad_index, 0, choice).astype(jnp.int32)
        payoffs = law.payoff(drawn[j], values[index]).astype(dtype)

        def updated(state: Any) -> Any:
            return update(state, current, index, payoffs, params)

        if pulls == 1:
            state = updated(carry.state)
        else:  # pulls left over after the last whole epoch update nothing
            state = jax.lax.cond(number < num_epochs, updated, lambda state: state, carry.state)

        coverage = carry.coverage
        if plan.coverage:
            region = player.region
            assert region is not None

            def watched(seen: Any) -> Any:
                distance, radius = region(state, current, theta_star, params)
                return _covered(seen, distance, radius, pull + pulls - 1)

            coverage = jax.lax.cond(number < num_epochs, watched, lambda seen: seen, coverage)

        offsets = jnp.arange(pulls)
        in_time = pull + offsets <= horizon
        bad_payoff = ~jnp.isfinite(payoffs) & in_time
        if plan.sampler is not None or plan.generator is not None:  # fixed arms were checked on the host
            bad_index = bad_index | _outside(law, values[index])
        first_bad = jnp.where(bad_index, 0, jnp.min(jnp.where(bad_payoff, offsets, pulls)))
        last = jnp.minimum(pull + pulls - 1, horizon)
        event = jnp.where(first_bad < pulls, pull + first_bad, jnp.where(player.finite(state), 0, last))
        health = jnp.where((carry.health == 0) & (event > 0), event, carry.health).astype(jnp.int32)
        regrets = gap[index] * (offsets + 1).astype(dtype)
        payoff_sums = payoffs if pulls == 1 else jnp.cumsum(payoffs)
        traced = carry.traced
        if traced is not None:
            traced = traced[0].at[j].set(index), traced[1].at[j].set(payoffs)
        return _Carry(
            state=state,
            health=health,
            regret=compensated(*carry.regret, regrets[-1]),
            payoff=compensated(*carry.payoff, payoff_sums[-1]),
            regrets=carry.regrets.at[j].set(carry.regret[0] + (carry.regret[1] + regrets)),
            payoff_sums=carry.payoff_sums.at[j].set(carry.payoff[0] + (carry.payoff[1] + payoff_sums)),
            traced=traced,
            coverage=coverage,
        )

    def stretch(i: jax.Array, carry: dict[str, Any], player: _Player) -> dict[str, Any]:
        before = i * width
        drawn = _drawn(draw, before, width).reshape(length, pulls)
        nothing = jnp.zeros((length, pulls), dtype)
        traced = (jnp.zeros(length, jnp.int32), nothing) if plan.trace_pulls else None
        sums = carry["regret_sum"], carry["payoff_sum"]
        inner = _Carry(carry["state"], carry["health"], *sums, nothing, nothing, traced, carry.get("coverage"))
        run = functools.partial(epoch, player=player, drawn=drawn, first_epoch=i * length)
        turns = len(player.updates)

        def turn(number: jax.Array, inner: _Carry) -> _Carry:
            for place, update in enumerate(player.updates):
                inner = run(jnp.asarray(number * turns + place, jnp.int32), inner, update=update)
            return inner

        def single(j: jax.Array, inner: _Carry) -> _Carry:
            return run(jnp.asarray(j, jnp.int32), inner, update=player.updates[0])

        # A stretch is a whole number of turns, except the last one of a run.
        if plan.whole:
            if length >= turns:
                inner = jax.lax.fori_loop(0, length // turns, turn, inner) if length > turns else turn(zero_int, inner)
            if length % turns:
                inner = single(zero_int + length - 1, inner)
        else:
            epochs = ((jnp.minimum(width, horizon - before) + pulls - 1) // pulls).astype(jnp.int32)
            inner = jax.lax.fori_loop(zero_int, epochs // turns, turn, inner)
            if turns > 1:
                inner = jax.lax.fori_loop(epochs // turns * turns, epochs, single, inner)
        state = inner.state
        refresh = player.refresh
        if refresh is not None:
            # After the first stretch too: the first updates take V^-1 = I / lambda down the most, and round the most.
            due = ((i + 1) % plan.refresh_stride == 0) | (i == 0)
            state = jax.lax.cond(due, lambda s: refresh(s, arms, params), lambda s: s, state)

        place = rounds - before - 1
        here = (place >= 0) & (place < width)
        place = jnp.clip(place, 0, width - 1)
        out = dict(carry, state=state, health=inner.health)
        for field, total, after in (
            ("regret", inner.regret, inner.regrets),
            ("payoff", inner.payoff, inner.payoff_sums),
        ):
            out[field] = jnp.where(here, after.reshape(-1)[place], carry[field])
            out[field + "_sum"] = total
            overflowed = ~jnp.isfinite(total[0]) & (out["health"] == 0)
            out["health"] = jnp.where(overflowed, jnp.minimum(before + width, horizon), out["health"]).astype(jnp.int32)
        if plan.coverage:
            out["coverage"] = inner.coverage
        if plan.trace_pulls:
            flat = jnp.repeat(inner.traced[0], pulls), inner.traced[1].reshape(-1)
            for field, values in zip(("trace_arms", "trace_payoffs"), flat, strict=True):
                out[field] = jax.lax.dynamic_update_slice(carry[field], values, (before,))
        return out

    changing = plan.sampler is not None
    main = _player(policy, changing)
    first = main if policy.opening is None else _player(policy.opening.policy, changing)
    zero = jnp.zeros((), dtype)
    carry: dict[str, Any] = {
        "state": first.init(arms, params),
        "health": jnp.zeros((), jnp.int32),
        "regret": jnp.zeros(rounds.shape, dtype),
        "payoff": jnp.zeros(rounds.shape, dtype),
        "regret_sum": (zero, zero),
        "payoff_sum": (zero, zero),
    }
    if plan.coverage:
        carry["coverage"] = jnp.zeros((), jnp.int32), zero
    if plan.trace_pulls:
        padded = -(-plan.trace_pulls // width) * width
        carry["trace_arms"] = jnp.zeros(padded, jnp.int32)
        carry["trace_payoffs"] = jnp.zeros(padded, dtype)
    stretches = ((horizon + width - 1) // width).astype(jnp.int32)
    begun = jnp.zeros((), jnp.int32)
    if policy.opening is not None:
        until = jnp.minimum(stretches, -(-policy.opening.pulls // width))
        carry = jax.lax.fori_loop(begun, until, functools.partial(stretch, player=first), carry)
        carry["state"], begun = policy.opening.handover(carry["state"]), until
    carry = jax.lax.fori_loop(begun, stretches, functools.partial(stretch, player=main), carry)

    state = carry["state"]
    out = {field: carry[field] for field in ("health", "regret", "payoff")}
    out["overflow"] = jnp.zeros((), bool) if main.overflowed is None else main.overflowed(state)
    if main.estimate is not None:
        out["estimate"] = main.estimate(state, arms, params)
    if plan.coverage:
        out["first_miss"], out["worst_ratio"] = carry["coverage"]
    if plan.trace_pulls:
        for field in ("trace_arms", "trace_payoffs"):
            out[field] = carry[field][: plan.trace_pulls]
    return out


_DRAWN_AT_ONCE = 64  # variates: their words stay in the first cache, for a block of 16 seeds
_VECTOR = 8  # what is left of a row after whole vectors would be drawn one by one


def _drawn(draw: Callable[[jax.Array], jax.Array], before: jax.Array, width: int) -> jax.Array:
    """The standard variates of the ``width`` pulls after pull ``before``, [width].

    In turns of a loop, two at least, which also stores them: XLA would draw anew at every place where one is used.
    """
    turns = max(2, -(-width // _DRAWN_AT_ONCE))
    few = -(-width // turns)
    few = -(-few // _VECTOR) * _VECTOR
    numbers = before + 1 + jnp.arange(turns * few, dtype=jnp.int32)
    return jax.lax.map(draw, numbers.reshape(turns, few)).reshape(-1)[:width]


class _Player(NamedTuple):
    """A policy's functions in one calling convention, whichever of its two forms plays."""

    init: Callable[..., Any]  # (arms, params)
    select: Callable[..., Any]  # (key, state, arms, params)
    updates: tuple[Callable[..., Any], ...]  # each (state, arms, index, payoffs, params); used in turn, one or two
    estimate: Callable[..., Any] | None  # (state, arms, params)
    region: Callable[..., Any] | None  # (state, arms, point, params)
    refresh: Callable[..., Any] | None  # (state, arms, params)
    overflowed: Callable[..., Any] | None
    finite: Callable[..., Any]


def _player(policy: Policy, changing: bool) -> _Player:
    if policy.fixed is not None and not changing:
        fixed = policy.fixed
        return _Player(
            init=fixed.init,
            select=fixed.select,
            updates=fixed.in_turn or (fixed.update,),
            estimate=fixed.estimate,
            region=fixed.region,
            refresh=fixed.refresh,
            overflowed=fixed.overflowed,
            finite=fixed.finite or _all_finite,
        )
    estimate, region, refresh = policy.estimate, policy.region, policy.refresh
    return _Player(
        init=lambda arms, params: policy.init(params),
        select=policy.select,
        updates=(lambda state, arms, index, payoffs, params: policy.update(state, arms[index], payoffs, params),),
        estimate=None if estimate is None else lambda state, arms, params: estimate(state, params),
        region=None if region is None else lambda state, arms, point, params: region(state, point, params),
        refresh=None if refresh is None else lambda state, arms, params: refresh(state, params),
        overflowed=policy.overflowed,
        finite=policy.finite or _all_finite,
    )


def _outside(law: Any, mean: jax.Array) -> jax.Array:
    """Whether the law has no payoff of this mean, up to rounding."""
    low, high = law.mean_range
    slack = 1e-5 * jnp.abs(mean)
    return (mean < low - slack) | (mean > high + slack)


def _covered(seen: tuple[jax.Array, jax.Array], distance: jax.Array, radius: jax.Array, pull: jax.Array) -> Any:
    """First miss and worst ratio with one more update seen; a radius of 0 is missed by an infinite ratio, or met."""
    first_miss, worst = seen
    missed = (first_miss == 0) & (distance > radius)
    ratio = distance / jnp.where(distance > 0, radius, 1)
    return jnp.where(missed, pull, first_miss).astype(jnp.int32), jnp.maximum(worst, ratio)


def _localise(params: Any, theta_star: jax.Array) -> Any:
    """For a fresh instance per replication an infinite ``theta_norm`` stands for that instance's own norm S."""
    if not hasattr(params, "theta_norm"):
        return params
    own = jnp.sqrt(jnp.sum(theta_star * theta_star))
    return params._replace(theta_norm=jnp.where(jnp.isinf(params.theta_norm), own, params.theta_norm))


def _all_finite(state: Any) -> jax.Array:
    floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating)]
    return jnp.all(jnp.asarray([jnp.all(jnp.isfinite(leaf)) for leaf in floats] or [True]))
