"""sup_btc and sup_bmm (Xue, Wang, Wang, Zhang, IJCAI 2020): stages whose payoffs never decide what they hold.

Every stage keeps pulls of its own, its index set. Whether a pull enters a stage depends on the arms, on the widths
there and on payoffs of earlier stages, never on the stage's own payoffs (Auer 2002): given all that, its rows are a
fixed design, and the estimates of :mod:`linbet_jax.kernels.fixed_design` hold as they are. btc_ucb and bmm_ucb put
every pull into one stage and play the largest index instead, for which nothing is proved. Their widths are n^a ||x|| in
A^-1 where those of stages have the norm of the weights, which is less: so an arm that no row resembles is wide.

Deviations: constants are derived here unless ``constants="paper2020"``; the widest arm is explored, where the papers
say any wide one; one finite set that never changes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.fixed_design import power
from linbet_jax.kernels.gram import dot, sweep_inverse
from linbet_jax.kernels.selection import TIE_TOLERANCE, argmax_index
from linbet_jax.policies._checks import check_params, check_plan, choice
from linbet_jax.policies.designs import Arms
from linbet_jax.policies.policy import About, Buffers, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.staged_estimates import Estimator, Row, Stages, medians, truncation


class SupBtcParams(NamedTuple):
    """Hyperparameters of sup_btc and btc_ucb; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    mean_bound: Any  # the first stage's precision is L. 1/2 with the paper's constants, and, unused, without stages
    raw_moment_bound: Any
    epsilon: Any
    # multiplies the widths; truncation and the stages' precisions never see it. Below about 2 L/(sqrt(N) S D), N pulls
    # or epochs, even an empty stage looks precise: nothing is learnt, and the longest arm is played
    radius_scale: Any
    horizon: Any  # the one that stages were made for


class SupBmmParams(NamedTuple):
    """Hyperparameters of sup_bmm and bmm_ucb; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    mean_bound: Any
    central_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any  # it and delta must be those that k was made for; what is not said here is as in SupBtcParams


class SupState(NamedTuple):
    """State of a policy with stages."""

    stages: Stages  # what every stage knows
    # what the stages keep of them: of sup_btc `Truncated`, memory O(S T); of sup_bmm [S, k, d], sums of y x of every
    # copy
    payoffs: Any
    updates: jax.Array  # [] int32, pulls or epochs played. The same in every replication
    arm: jax.Array  # [] int32, the next one
    stage: jax.Array  # [] int32, the one that its payoffs enter; S where none does


@dataclasses.dataclass(frozen=True, eq=False)
class _Sup:
    """The functions of a policy; `rounds` is what the T of the stages counts: pulls, or epochs."""

    name: str
    num_stages: int
    rounds: Callable[[Any], Any]
    robust: Estimator
    staged: bool

    def init(self, arms: Arms, params: Any) -> SupState:
        """Stages without rows."""
        if arms is None:
            raise ValueError("this policy was made for a fixed decision set; make it for the bandit that it plays")
        zeros = jnp.zeros((self.num_stages, arms.shape[0]), arms.dtype)
        norms = jnp.sqrt(jnp.sum(arms * arms, axis=1) / params.ridge)
        stages = Stages(zeros.astype(jnp.int32), zeros, zeros, zeros + norms)
        updates = jnp.zeros((), jnp.int32)
        return SupState(stages, self.robust.begin(arms), updates, *self.decide(stages, updates, params))

    def decide(self, stages: Stages, updates: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        """The next arm, and the stage that its payoffs enter."""
        widths = params.radius_scale * self.robust.widths(stages, updates + 1, params, staged=self.staged)
        if not self.staged:
            return argmax_index(stages.values[0], widths[0] ** 2, jnp.ones_like(params.ridge)), jnp.zeros((), jnp.int32)
        precision, last = 2 * params.mean_bound, self.num_stages - 1
        least = precision / jnp.sqrt(self.rounds(params))
        zeros, zero = jnp.zeros_like(widths[0]), jnp.zeros_like(params.ridge)
        tolerance = TIE_TOLERANCE[str(widths.dtype)]

        def visit(carry: Any, stage: Any) -> tuple[Any, None]:
            active, decided, arm, entered = carry
            number, values, width = stage
            bar = precision * 0.5 ** (number + 1).astype(width.dtype)  # 2 L 2^-s, s from 1
            indices = jnp.where(active, values + width, -jnp.inf)
            best = argmax_index(indices, zeros, zero)
            narrow = jnp.all(~active | (width <= least))
            wide = ~narrow & jnp.any(active & (width > bar))
            widest = argmax_index(jnp.where(active, width, -jnp.inf), zeros, zero)
            most = jnp.max(indices)
            near = indices >= most - 2 * bar - tolerance * jnp.abs(most)
            survivors = active & near
            ends = narrow | wide | (number == last) | (jnp.sum(survivors) == 1)
            now = ~decided & ends
            arm = jnp.where(now, jnp.where(wide, widest, best), arm)
            entered = jnp.where(now & wide, number, entered)
            return (jnp.where(jnp.any(survivors), survivors, active), decided | ends, arm, entered), None

        numbers = jnp.arange(self.num_stages, dtype=jnp.int32)
        start = (
            jnp.ones(widths.shape[1], bool),
            jnp.zeros((), bool),
            jnp.zeros((), jnp.int32),
            jnp.full((), self.num_stages, jnp.int32),
        )
        (_, _, arm, entered), _ = jax.lax.scan(visit, start, (numbers, stages.values, widths))
        return arm, entered

    def select(self, key: jax.Array, state: SupState, arms: jax.Array, params: Any) -> jax.Array:
        """The arm decided on when the last payoff came."""
        return state.arm

    def update(self, state: SupState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: Any) -> SupState:
        """The stage that the payoffs enter, estimated anew, O(K^2 d + d^3) and its estimator; and the next arm."""
        stages, updates = state.stages, state.updates + 1
        recorded = state.stage < self.num_stages
        here = jnp.minimum(state.stage, self.num_stages - 1)
        counts = stages.counts[here] + (recorded & (jnp.arange(arms.shape[0]) == index))
        rows = counts.astype(arms.dtype)
        gram = params.ridge * jnp.eye(arms.shape[1], dtype=arms.dtype) + dot(arms.T, arms * rows[:, None])
        inverse, _ = sweep_inverse(gram)
        weights = dot(dot(arms, inverse), arms.T)
        powers = dot(power(jnp.abs(weights), 1 + params.epsilon), rows)
        row = Row(here, jnp.where(recorded, jnp.sum(counts), 0), counts, inverse, weights, powers)
        after, values, noise = self.robust.add(state.payoffs, jnp.asarray(index), payoffs, row, arms, params)
        changed = recorded & (jnp.arange(self.num_stages) == here)[:, None]
        stages = Stages(
            counts=jnp.where(changed, counts, stages.counts),
            values=jnp.where(changed, values, stages.values),
            noise=jnp.where(changed, noise, stages.noise),
            leverages=jnp.where(changed, jnp.sqrt(jnp.maximum(jnp.diagonal(weights), 0)), stages.leverages),
        )
        return SupState(stages, after, updates, *self.decide(stages, updates, params))

    def region(self, state: SupState, arms: Arms, params: Any) -> Region:
        """The ridge estimate that fits the r of the arms in the stage with the most rows; without a radius."""
        fullest = jnp.argmax(jnp.sum(state.stages.counts, axis=1))
        rows = state.stages.counts[fullest].astype(arms.dtype)
        gram = params.ridge * jnp.eye(arms.shape[1], dtype=arms.dtype) + dot(arms.T, arms * rows[:, None])
        return Region(dot(sweep_inverse(gram)[0], dot(arms.T, rows * state.stages.values[fullest])))


def _policy(play: _Sup, *, pulls_per_epoch: int = 1, history: int | None = None) -> Policy:
    return Policy(
        name=play.name,
        init=play.init,
        select=play.select,
        update=play.update,
        pulls_per_epoch=pulls_per_epoch,
        region=play.region,
        finite=lambda state: jnp.isfinite(jnp.sum(state.stages.values)) & (state.arm >= 0),
        buffers=None if history is None else Buffers(max_pulls=history),
        about=About(check=check_params),
    )


def _literal(constants: str) -> bool:
    choice("constants", constants, "derived", "paper2020")
    return constants == "paper2020"


@functools.lru_cache(maxsize=128)
def sup_btc(*, history: int, constants: str = "derived", staged: bool = True) -> Policy:
    """Truncated estimates in stages; parameters: :class:`SupBtcParams`.

    Stage s = 1, ..., S, S = floor(ln T), takes a pull where some arm still in play is wider than 2 L 2^-s; else arms
    that are surely worse than the best by its precision go, and the next stage decides. Where every width is within
    2 L/sqrt(T), or one arm is left, the largest index is played and nothing recorded.

    Guarantee (literal widths, one finite set or sets that are oblivious; independent noise): with probability 1 - delta
    all estimates are within their widths, and the regret is O(sqrt(d) T^{1/p}), logarithms apart.

    Args:
        history: pulls that a stage's buffer holds, the horizon.
        constants: ``"derived"`` (default) or ``"paper2020"``: the paper's level, width and precision 1, which assume
            S <= 1 and depend on the payoffs' unit.
        staged: False is btc_ucb: one stage that takes every pull, the largest index, and no guarantee.

    Raises:
        ValueError: for an unknown option.
    """
    literal, num_stages = _literal(constants), theory.sup_stages(history) if staged else 1
    robust = truncation(num_stages, history, literal)
    name = "sup_btc" if staged else "btc_ucb"
    return _policy(_Sup(name, num_stages, lambda params: params.horizon, robust, staged), history=history)


@functools.lru_cache(maxsize=128)
def sup_bmm(schedule: theory.SupSchedule, *, constants: str = "derived", staged: bool = True) -> Policy:
    """Medians of k ridge estimates in stages, each arm played k times in a row; parameters: :class:`SupBmmParams`.

    As :func:`sup_btc`, with epochs of k pulls for its pulls. The k copies must be independent given the past.

    Args:
        schedule: from :func:`linbet_jax.theory.sup_bmm_schedule`.
        constants: ``"derived"`` (default) or ``"paper2020"``.
        staged: False is bmm_ucb: one stage that takes every epoch, the largest index, and no guarantee.

    Raises:
        ValueError: for an unknown option.
    """
    literal, num_stages = _literal(constants), schedule.stages if staged else 1
    name = "sup_bmm" if staged else "bmm_ucb"
    epochs = float(schedule.epochs)
    robust = medians(num_stages, schedule.copies, literal)
    play = _Sup(name, num_stages, lambda params: jnp.asarray(epochs, params.ridge.dtype), robust, staged)
    return _policy(play, pulls_per_epoch=schedule.copies)


def _params(setup: Setup, kind: Any, name: str, constants: str) -> tuple[Any, tuple[str, ...]]:
    """Hyperparameters, and notes."""
    literal = _literal(constants)
    given = setup.given.get("mean_bound")
    if literal and given is not None:
        raise ValueError(f"mean_bound={given!r}: goes with constants='derived' alone")
    unused = {"mean_bound": 0.5} if literal or not name.startswith("sup") else {}
    params = setup.params(kind, **unused)
    if setup.bandit.changing:
        raise ValueError(
            f"bandit: {name} keeps what its estimates need by the arms of one decision set; this bandit's set changes"
            " from pull to pull"
        )
    if literal and setup.theta_norm * math.sqrt(setup.ridge) > 1:
        return params, (f"{name}: the widths of constants='paper2020' assume sqrt(ridge) S <= 1; here it is larger",)
    return params, ()


def _make_btc(setup: Setup, name: str, constants: str) -> tuple[Policy, SupBtcParams]:
    staged = name == "sup_btc"
    params, notes = _params(setup, SupBtcParams, name, constants)
    policy = sup_btc(history=setup.horizon, constants=constants, staged=staged)
    if not staged:
        return policy.with_notes(notes=notes), params
    stages = theory.sup_stages(setup.horizon)
    check = check_plan(theory.sup_stages, stages, lambda needed: f"{needed} stages, but this {name} has {stages}")
    return policy._replace(about=About(check=check, facts=(("stages", stages),), notes=notes)), params


def _make_bmm(setup: Setup, name: str, constants: str) -> tuple[Policy, SupBmmParams]:
    staged = name == "sup_bmm"
    params, notes = _params(setup, SupBmmParams, name, constants)
    schedule = functools.partial(
        theory.sup_bmm_schedule, num_arms=setup.bandit.num_arms, literal=_literal(constants), staged=staged
    )
    made = schedule(setup.horizon, delta=setup.delta)
    check = check_plan(schedule, made, f"other epochs than this {name} was made for", "delta")
    policy = sup_bmm(made, constants=constants, staged=staged)
    facts = (("k", made.copies), ("N", made.epochs), *((("stages", made.stages),) if staged else ()))
    return policy._replace(about=About(check=check, facts=facts, notes=notes)), params


@register(
    "sup_bmm",
    label="SupBMM",
    told=("epsilon", "central_moment_bound", "theta_norm", "mean_bound"),
    color="#999933",
    cost=Cost(0.25, 1.55e-3, 1e-4),
    source="after Xue, Wang, Wang, Zhang 2020",
    assumption="central moment",
    regret="d^½ T^(1/(1+ε))",
    valid="adaptive",
    sets="one finite",
    time="(K² d + d³)/k + d² + K d",
    memory="k d ln T",
)
def make_sup_bmm(setup: Setup, *, constants: str = "derived") -> tuple[Policy, SupBmmParams]:
    """sup_bmm with the epochs and stages of the horizon."""
    return _make_bmm(setup, "sup_bmm", constants)


@register(
    "sup_btc",
    label="SupBTC",
    told=("epsilon", "raw_moment_bound", "theta_norm", "mean_bound"),
    color="#661100",
    cost=Cost(1.0, 0.065, 0.0),
    source="after Xue, Wang, Wang, Zhang 2020",
    assumption="raw moment",
    regret="d^½ T^(1/(1+ε))",
    valid="adaptive",
    sets="one finite",
    time="K² d + d³ + K t rarely",
    memory="T ln T",
)
def make_sup_btc(setup: Setup, *, constants: str = "derived") -> tuple[Policy, SupBtcParams]:
    """sup_btc with the stages of the horizon."""
    return _make_btc(setup, "sup_btc", constants)


@register(
    "bmm_ucb",
    label="BMM-UCB",
    told=("epsilon", "central_moment_bound", "theta_norm"),
    color="#DDCC77",
    cost=Cost(0.25, 1.55e-3, 1e-4),
    source="SupBMM without its stages",
    assumption="central moment",
    sets="one finite",
    time="(K² d + d³)/k + d² + K d",
    memory="k d",
)
def make_bmm_ucb(setup: Setup, *, constants: str = "derived") -> tuple[Policy, SupBmmParams]:
    """bmm_ucb with the epochs of the horizon."""
    return _make_bmm(setup, "bmm_ucb", constants)


@register(
    "btc_ucb",
    label="BTC-UCB",
    told=("epsilon", "raw_moment_bound", "theta_norm"),
    color="#882255",
    cost=Cost(1.0, 0.065, 0.0),
    source="SupBTC without its stages",
    assumption="raw moment",
    sets="one finite",
    time="K² d + d³ + K t rarely",
    memory="T",
)
def make_btc_ucb(setup: Setup, *, constants: str = "derived") -> tuple[Policy, SupBtcParams]:
    """btc_ucb for the horizon."""
    return _make_btc(setup, "btc_ucb", constants)
