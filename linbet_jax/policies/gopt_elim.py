"""Phased elimination on nearly G-optimal designs (the family of MED-PE: Tajdini, Scarlett, Jamieson 2025).

A phase fixes its design before its payoffs. So estimates of a fixed design apply as they are (Catoni's, truncated
means, medians of copies: :mod:`linbet_jax.kernels.fixed_design`), and nothing adaptive remains to be proved.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.fixed_design import (
    bmm_width,
    btc_level,
    btc_width,
    catoni_scale,
    catoni_width,
    greedy_design,
    spread_of,
)
from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.kernels.selection import TIE_TOLERANCE, argmax_index
from linbet_jax.policies._checks import check_params
from linbet_jax.policies.designs import Arms
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register

FAR = {"float32": 1e15, "float64": 1e100}  # |z| beyond which psi(z) is p ln|z| - ln p; |z|^p is still finite there


class GoptElimParams(NamedTuple):
    """Hyperparameters of G-optimal elimination, all traced; horizon and delta must be those of the schedule.

    Attributes:
        ridge: lambda > 0.
        delta: failure probability in (0, 1).
        theta_norm: S >= ||theta*||.
        raw_moment_bound: b >= E|y|^{1 + epsilon}.
        central_moment_bound: c >= E|eta|^{1 + epsilon}.
        epsilon: in (0, 1].
        radius_scale: multiplies the widths that eliminate; 1 is literal.
        horizon: T, the pulls the schedule was made for.
    """

    ridge: Any
    delta: Any
    theta_norm: Any
    raw_moment_bound: Any
    central_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any


class GoptElimState(NamedTuple):
    """State of G-optimal elimination: memory O(K^2 + d^2), with medians also O(d k); independent of T.

    Attributes:
        pulls: [] int32, t. The same in every replication: under ``vmap`` it stays one number, and what happens at the
            end of a phase alone is computed there alone.
        active: [K] bool, the arms still in play.
        left: [K] int32, pulls of each arm that this phase still owes.
        counts: [K] int32, n_x, rows of this phase's design.
        inverse: [d, d], A^-1 of this phase's design.
        references: [K], r_x.
        offset: [K], sum_x n_x U[a, x] r_x of every arm a, with U = X A^-1 X^T.
        widths: [K], e_a, literal.
        tally: what the estimator keeps of this phase's payoffs.
        best: [] int32, the arm that looked best when the last phase ended.
        center: [d], the ridge estimate of theta* that fits the arms' estimates r_a of the last whole phase; 0 before.
    """

    pulls: jax.Array
    active: jax.Array
    left: jax.Array
    counts: jax.Array
    inverse: jax.Array
    references: jax.Array
    offset: jax.Array
    widths: jax.Array
    tally: Any
    best: jax.Array
    center: jax.Array


class _Pull(NamedTuple):
    """One payoff as the estimators take it."""

    index: jax.Array  # [] int32
    feature: jax.Array  # [d]
    deviation: jax.Array  # [], y - r_x
    copy: jax.Array  # [] int32, which pull of its row it is


class _Estimator(NamedTuple):
    """A way to estimate <a, theta*> of all K arms from a phase's payoffs, one payoff at a time.

    Attributes:
        begin: ``(weights U [K, K], spread M [K], log_term L [], epsilon) -> tally``.
        width: ``(spread M [K], log_term L [], epsilon) -> [K]``, the noise term of e_a.
        add: ``(tally, pull, epsilon) -> tally``, O(K) or O(d).
        end: ``(tally, images A^-1 X^T [d, K], copies k_l []) -> [K]``, estimates of sum U (y - r).
        watch: ``(tally) -> array`` that is finite while the tally is.
        centred: whether references help: they replace b by about c.
    """

    begin: Callable[[jax.Array, jax.Array, jax.Array, Any], Any]
    width: Callable[[jax.Array, jax.Array, Any], jax.Array]
    add: Callable[[Any, _Pull, Any], Any]
    end: Callable[[Any, jax.Array, jax.Array], jax.Array]
    watch: Callable[[Any], jax.Array]
    centred: bool


class CatoniTally(NamedTuple):
    """Sums of psi(z) for z = s_a U[a, x] (y - r_x).

    Attributes:
        weights: [K, K], row x: s_a U[a, x] of every arm a, over ``unit``.
        powers: [K, K], |weights|^p / p: no pull raises K numbers to a power.
        unit: [], the largest of the s_a |U[a, x]|.
        scale: [K], s_a.
        total: [K], a compensated sum, with ``lost``.
        lost: [K].
    """

    weights: jax.Array
    powers: jax.Array
    unit: jax.Array
    scale: jax.Array
    total: jax.Array
    lost: jax.Array


def _catoni() -> _Estimator:
    def begin(weights: jax.Array, spread: jax.Array, log_term: jax.Array, epsilon: Any) -> CatoniTally:
        scale = catoni_scale(spread, log_term, epsilon)
        scaled = weights * scale
        largest = jnp.max(jnp.abs(scaled))
        unit = jnp.where(largest > 0, largest, 1)
        scaled = scaled / unit
        zeros = jnp.zeros_like(scale)
        return CatoniTally(scaled, jnp.abs(scaled) ** (1 + epsilon) / (1 + epsilon), unit, scale, zeros, zeros)

    def add(tally: CatoniTally, pull: _Pull, epsilon: Any) -> CatoniTally:
        p, far = 1 + epsilon, FAR[str(tally.total.dtype)]
        size = tally.unit * jnp.abs(pull.deviation)
        near, beyond = jnp.minimum(size, far), p * jnp.log(jnp.maximum(size, far) / far)
        row = tally.weights[pull.index]
        influence = jnp.log(1 + jnp.abs(row) * near + tally.powers[pull.index] * near**p)  # ln(1 + |z| + |z|^p / p)
        influence = influence + jnp.where(row != 0, beyond, 0)
        signed = jnp.sign(row) * jnp.sign(pull.deviation) * influence
        total, lost = compensated(tally.total, tally.lost, signed)
        return tally._replace(total=total, lost=lost)

    def end(tally: CatoniTally, images: jax.Array, copies: jax.Array) -> jax.Array:
        return tally.total / jnp.where(tally.scale > 0, tally.scale, 1)

    return _Estimator(begin, catoni_width, add, end, lambda tally: tally.total, centred=True)


class BtcTally(NamedTuple):
    """Sums of U[a, x] (y - r_x) that are not beyond the level.

    Attributes:
        weights: [K, K], U.
        level: [K], H_a.
        total: [K], a compensated sum, with ``lost``.
        lost: [K].
    """

    weights: jax.Array
    level: jax.Array
    total: jax.Array
    lost: jax.Array


def _btc() -> _Estimator:
    def begin(weights: jax.Array, spread: jax.Array, log_term: jax.Array, epsilon: Any) -> BtcTally:
        zeros = jnp.zeros_like(spread)
        return BtcTally(weights, btc_level(spread, log_term, epsilon), zeros, zeros)

    def add(tally: BtcTally, pull: _Pull, epsilon: Any) -> BtcTally:
        product = tally.weights[pull.index] * pull.deviation
        kept = jnp.where(jnp.abs(product) <= tally.level, product, 0)
        total, lost = compensated(tally.total, tally.lost, kept)
        return tally._replace(total=total, lost=lost)

    return _Estimator(
        begin, btc_width, add, lambda tally, images, copies: tally.total, lambda tally: tally.total, centred=True
    )


def _bmm(dim: int, most_copies: int) -> _Estimator:
    """The tally is [k, d]: sum x y of every copy."""

    def begin(weights: jax.Array, spread: jax.Array, log_term: jax.Array, epsilon: Any) -> jax.Array:
        return jnp.zeros((most_copies, dim), weights.dtype)

    def add(tally: jax.Array, pull: _Pull, epsilon: Any) -> jax.Array:
        term = jnp.where(pull.feature == 0, 0, pull.feature * pull.deviation)
        moments = jax.lax.dynamic_index_in_dim(tally, pull.copy, keepdims=False) + term
        return jax.lax.dynamic_update_index_in_dim(tally, moments, pull.copy, 0)

    def end(tally: jax.Array, images: jax.Array, copies: jax.Array) -> jax.Array:
        used = jnp.arange(most_copies)[:, None] < copies
        ordered = jnp.sort(jnp.where(used, dot(tally, images), jnp.inf), axis=0)
        return jax.lax.dynamic_index_in_dim(ordered, copies // 2, keepdims=False)  # k is odd

    return _Estimator(
        begin, lambda spread, log_term, epsilon: bmm_width(spread, epsilon), add, end, lambda tally: tally, centred=False
    )


@functools.lru_cache(maxsize=256)
def gopt_elim(
    dim: int,
    phases: tuple[theory.EliminationPhase, ...],
    *,
    estimator: str = "catoni",
    leftover: str = "greedy",
) -> Policy:
    """G-optimal elimination; parameters: :class:`GoptElimParams`.

    Args:
        dim: d of the decision set, which must be the same at every pull.
        phases: from :func:`linbet_jax.theory.elimination_phases`; what is left after them is played by ``leftover``.
        estimator: ``"catoni"`` (default), ``"btc"`` or ``"bmm"``.
        leftover: ``"greedy"`` (default) plays the surviving arm of the largest estimate, ``"uniform"`` every survivor
            with the same probability.

    Raises:
        ValueError: for an unknown option.
    """
    for field, value, allowed in (
        ("estimator", estimator, ("catoni", "btc", "bmm")),
        ("leftover", leftover, ("greedy", "uniform")),
    ):
        if value not in allowed:
            raise ValueError(f"{field}={value!r}: allowed are {', '.join(map(repr, allowed))}")
    if estimator == "bmm":
        robust = _bmm(dim, max(phase.copies for phase in phases))
    else:
        robust = {"catoni": _catoni, "btc": _btc}[estimator]()
    ends = tuple(itertools.accumulate(phase.rows * phase.copies for phase in phases))  # pulls, one for every phase

    def running(pulls: jax.Array) -> jax.Array:
        """Number of the phase that the next pull belongs to, from 0; the number of phases when all are over."""
        return jnp.sum(pulls >= jnp.asarray(ends, jnp.int32))

    def begin(
        number: jax.Array, state: GoptElimState | None, arms: jax.Array, params: GoptElimParams, **news: Any
    ) -> Any:
        """Phase ``number`` + 1: its design, weights and widths, all known before its first payoff."""
        active, references, moments = news["active"], news["references"], news.pop("moments")
        rows, copies = (
            jnp.asarray([*(phase[part] for phase in phases), 0], jnp.int32)[number] for part in (0, 1)
        )  # none after the last phase
        counts, inverse, squared = greedy_design(arms, rows, params.ridge, active)
        weights = dot(dot(arms, inverse), arms.T)  # U [K, K]
        rows_of = counts.astype(arms.dtype)
        failure = theory.elimination_failure(number + 1, num_arms=arms.shape[0], delta=params.delta)
        log_term = jnp.log(2 / failure)
        spread = spread_of(weights, rows_of * moments, params.epsilon)
        bias = theory.initial_radius(ridge=params.ridge, theta_norm=params.theta_norm) * jnp.sqrt(squared)
        changed: dict[str, Any] = {
            "left": counts * copies,
            "counts": counts,
            "inverse": inverse,
            "offset": dot(weights, rows_of * references),
            "widths": robust.width(spread, log_term, params.epsilon) + bias,
            "tally": robust.begin(weights, spread, log_term, params.epsilon),
            **news,
        }
        return GoptElimState(**changed) if state is None else state._replace(**changed)

    def init(arms: Arms, params: GoptElimParams) -> GoptElimState:
        if arms is None:
            raise ValueError("this policy was made for a fixed decision set; make it for the bandit that it plays")
        zeros = jnp.zeros(arms.shape[0], arms.dtype)
        first = params.raw_moment_bound if robust.centred else params.central_moment_bound
        return begin(
            jnp.zeros((), jnp.int32),
            None,
            arms,
            params,
            pulls=jnp.zeros((), jnp.int32),
            active=jnp.ones(arms.shape[0], bool),
            references=zeros,
            moments=zeros + first,
            best=jnp.zeros((), jnp.int32),
            center=jnp.zeros(dim, arms.dtype),
        )

    def select(key: jax.Array, state: GoptElimState, arms: jax.Array, params: GoptElimParams) -> jax.Array:
        owed = state.left > 0
        if leftover == "uniform":
            chosen = jax.random.randint(key, (), 0, jnp.sum(state.active, dtype=jnp.int32), jnp.int32)
            other = jnp.argmax(jnp.cumsum(state.active) > chosen).astype(jnp.int32)
        else:
            other = state.best
        return jnp.where(jnp.any(owed), jnp.argmax(owed).astype(jnp.int32), other)

    def references_of(values: jax.Array, widths: jax.Array, params: GoptElimParams) -> tuple[jax.Array, jax.Array]:
        """For the next phase r_x and m_x = (nu + e_x)^p, where that is below b; else 0 and b."""
        p = 1 + params.epsilon
        c, b = params.central_moment_bound, params.raw_moment_bound
        if not robust.centred:
            return jnp.zeros_like(values), jnp.zeros_like(values) + c
        around = jnp.where(p == 2, c + widths * widths, (c ** (1 / p) + widths) ** p)
        closer = around < b
        return jnp.where(closer, values, 0), jnp.where(closer, around, b)

    def end(state: GoptElimState, arms: jax.Array, params: GoptElimParams) -> GoptElimState:
        """The phase's estimates, who survives, and the next phase."""
        number = running(state.pulls)  # of the next one
        images = dot(state.inverse, arms.T)
        copies = jnp.asarray([phase.copies for phase in phases], jnp.int32)[number - 1]
        values = robust.end(state.tally, images, copies) + state.offset  # r_a
        widths = params.radius_scale * state.widths
        bar = jnp.max(jnp.where(state.active, values - widths, -jnp.inf))
        tolerance = TIE_TOLERANCE[str(values.dtype)] * jnp.where(jnp.isfinite(bar), jnp.abs(bar), 0)
        survives = state.active & (values + widths >= bar - tolerance)
        active = jnp.where(jnp.any(survives), survives, state.active)  # only NaN leaves nobody
        references, moments = references_of(values, state.widths, params)
        best = argmax_index(jnp.where(active, values, -jnp.inf), jnp.zeros_like(values), jnp.zeros((), values.dtype))
        return begin(
            number,
            state,
            arms,
            params,
            active=active,
            references=references,
            moments=moments,
            best=best,
            center=dot(images, state.counts.astype(values.dtype) * values),
        )

    def play(
        state: GoptElimState, arms: jax.Array, index: jax.Array, payoff: jax.Array, params: GoptElimParams
    ) -> GoptElimState:
        """A pull of a phase."""
        number = running(state.pulls)
        begun = jnp.asarray((0, *ends), jnp.int32)[number]
        copies = jnp.asarray([*(phase.copies for phase in phases), 1], jnp.int32)[number]
        pull = _Pull(index, arms[index], payoff - state.references[index], (state.pulls - begun) % copies)
        played = state._replace(
            pulls=state.pulls + 1,
            left=state.left - (jnp.arange(arms.shape[0]) == index),
            tally=robust.add(state.tally, pull, params.epsilon),
        )
        ended = jnp.any(played.pulls == jnp.asarray(ends, jnp.int32))
        return jax.lax.cond(ended, lambda state: end(state, arms, params), lambda state: state, played)

    def update(
        state: GoptElimState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: GoptElimParams
    ) -> GoptElimState:
        return jax.lax.cond(
            state.pulls < ends[-1],
            lambda state: play(state, arms, index, payoffs[0], params),
            lambda state: state._replace(pulls=state.pulls + 1),
            state,
        )

    def check(params: GoptElimParams) -> None:
        check_params(params)
        # The number of arms is not among the parameters; it enters the schedule beside delta alone, through k_l.

    return Policy(
        name="gopt_elim",
        init=init,
        select=select,
        update=update,
        region=lambda state, arms, params: Region(state.center),
        finite=lambda state: jnp.isfinite(jnp.sum(robust.watch(state.tally)) + jnp.sum(state.widths)),
        about=About(check=check),
    )


@register(
    "gopt_elim",
    label="G-opt. elimination",
    color="#AA4499",
    cost=Cost(0.17, 4e-4, 4e-4),
    source="family of Tajdini, Scarlett, Jamieson 2025; constants derived here",
    assumption="moment bounds b (raw) and c (central) of order 1 + epsilon; a fixed finite set",
    moment="raw_moment_bound",
    rate=functools.partial(theory.regret_exponent, "gopt_elim"),
)
def make_gopt_elim(
    setup: Setup,
    *,
    estimator: str = "catoni",
    leftover: str = "greedy",
    epsilon: float | None = None,
    raw_moment_bound: float | None = None,
    central_moment_bound: float | None = None,
    theta_norm: float | None = None,
) -> tuple[Policy, GoptElimParams]:
    """G-optimal elimination with the schedule of the horizon."""
    if setup.bandit.changing:
        raise ValueError(
            "bandit: gopt_elim plans the pulls of a whole phase ahead, so it needs one decision set for all pulls;"
            " this bandit's changes from pull to pull"
        )
    phases = theory.elimination_phases(
        setup.horizon,
        dim=setup.bandit.dim,
        num_arms=setup.bandit.num_arms,
        delta=setup.delta,
        medians=estimator == "bmm",
    )
    policy = gopt_elim(setup.bandit.dim, phases, estimator=estimator, leftover=leftover)
    params = GoptElimParams(
        ridge=setup.ridge,
        delta=setup.delta,
        theta_norm=setup.theta_norm,
        raw_moment_bound=setup.known("raw_moment_bound", raw_moment_bound),
        central_moment_bound=setup.known("central_moment_bound", central_moment_bound),
        epsilon=setup.known("epsilon", epsilon),
        radius_scale=setup.radius_scale,
        horizon=float(setup.horizon),
    )
    facts = (("phases", len(phases)), ("n_1", phases[0].rows), ("n_last", phases[-1].rows), ("k", phases[-1].copies))
    return policy.with_notes(facts=facts), params
