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
    power,
)
from linbet_jax.kernels.gram import combined, compensated, dot, summed, sweep_inverse
from linbet_jax.kernels.selection import TIE_TOLERANCE, argmax_index
from linbet_jax.policies._checks import check_params
from linbet_jax.policies.designs import Arms
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register

FAR = {"float32": 1e15, "float64": 1e100}  # |z| beyond which psi(z) is p ln|z| - ln p; |z|^p is still finite there


MOST = {"float32": 1e30, "float64": 1e300}  # a payoff further from its reference counts as this: no sum becomes NaN


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
    """State of G-optimal elimination: memory O(K d), with medians also O(d k); independent of T.

    Attributes:
        pulls: [] int32, t. The same in every replication: under ``vmap`` it stays one number, and what happens at the
            end of a phase alone is computed there alone.
        active: [K] bool, the arms still in play.
        until: [K] int32, pulls of the phase after which each arm is done: arms are pulled in their order. After the last
            phase how many survivors there are up to each arm.
        counts: [K] int32, n_x, rows of this phase's design.
        images: [d, K], A^-1 X^T of this phase's design: a pull of x counts U[a, x] = <a, A^-1 x> for arm a.
        references: [K], r_x.
        offset: [K], sum_x n_x U[a, x] r_x of every arm a.
        widths: [K], e_a, literal.
        tally: what the estimator keeps of this phase's payoffs.
        best: [] int32, the arm that looked best when the last phase ended; -1 if its estimates were not finite.
        values: [K], r_a of the last whole phase; 0 before.
        fitted: [K] int32, rows of the design that these came from.
    """

    pulls: jax.Array
    active: jax.Array
    until: jax.Array
    counts: jax.Array
    images: jax.Array
    references: jax.Array
    offset: jax.Array
    widths: jax.Array
    tally: Any
    best: jax.Array
    values: jax.Array
    fitted: jax.Array


class _Pull(NamedTuple):
    """One payoff as the estimators take it."""

    feature: jax.Array  # [d], x
    deviation: jax.Array  # [], y - r_x
    images: jax.Array  # [d, K], A^-1 X^T
    copy: jax.Array  # [] int32, which pull of its row it is

    @property
    def products(self) -> jax.Array:
        """U[a, x] (y - r_x) of every arm a, [K]."""
        return combined(self.images, self.feature * self.deviation)


class _Estimator(NamedTuple):
    """A way to estimate <a, theta*> of all K arms from a phase's payoffs, one payoff at a time.

    Attributes:
        begin: ``(spread M [K], log_term L [], epsilon) -> tally``.
        width: ``(spread M [K], log_term L [], epsilon) -> [K]``, the noise term of e_a.
        add: ``(tally, pull, epsilon) -> tally``.
        end: ``(tally, images [d, K], copies k_l []) -> [K]``, estimates of sum U (y - r).
        centred: whether references help: they replace b by about c.
    """

    begin: Callable[[jax.Array, jax.Array, Any], Any]
    width: Callable[[jax.Array, jax.Array, Any], jax.Array]
    add: Callable[[Any, _Pull, Any], Any]
    end: Callable[[Any, jax.Array, jax.Array], jax.Array]
    centred: bool


class SumTally(NamedTuple):
    """What Catoni's and the truncated estimate keep.

    Attributes:
        limit: [K], Catoni's scale s_a, or the level H_a of truncation.
        total: [K], the sum of psi(s_a U[a, x] (y - r_x)), or of the U[a, x] (y - r_x) within the level; compensated.
        lost: [K], what rounding has kept out of it so far.
    """

    limit: jax.Array
    total: jax.Array
    lost: jax.Array

    def plus(self, terms: jax.Array) -> SumTally:
        """One more term of every arm."""
        return SumTally(self.limit, *compensated(self.total, self.lost, terms))


def _catoni() -> _Estimator:
    def begin(spread: jax.Array, log_term: jax.Array, epsilon: Any) -> SumTally:
        return SumTally(catoni_scale(spread, log_term, epsilon), jnp.zeros_like(spread), jnp.zeros_like(spread))

    def add(tally: SumTally, pull: _Pull, epsilon: Any) -> SumTally:
        p, far = 1 + epsilon, FAR[str(tally.total.dtype)]
        scaled = tally.limit * pull.products
        z = jnp.abs(scaled)
        near = jnp.minimum(z, far)
        beyond = z > far  # psi(z) is p ln z - ln p there: one logarithm serves both
        influence = jnp.log(jnp.where(beyond, z, 1 + near + power(near, p) / p))
        return tally.plus(jnp.sign(scaled) * jnp.where(beyond, p * influence - jnp.log(p), influence))

    def end(tally: SumTally, images: jax.Array, copies: jax.Array) -> jax.Array:
        return tally.total / jnp.where(tally.limit > 0, tally.limit, 1)

    return _Estimator(begin, catoni_width, add, end, centred=True)


def _btc() -> _Estimator:
    def begin(spread: jax.Array, log_term: jax.Array, epsilon: Any) -> SumTally:
        return SumTally(btc_level(spread, log_term, epsilon), jnp.zeros_like(spread), jnp.zeros_like(spread))

    def add(tally: SumTally, pull: _Pull, epsilon: Any) -> SumTally:
        products = pull.products
        return tally.plus(jnp.where(jnp.abs(products) <= tally.limit, products, 0))

    def end(tally: SumTally, images: jax.Array, copies: jax.Array) -> jax.Array:
        return tally.total

    return _Estimator(begin, btc_width, add, end, centred=True)


def _bmm(dim: int, most_copies: int) -> _Estimator:
    """The tally is [k, d]: sum x y of every copy."""

    def begin(spread: jax.Array, log_term: jax.Array, epsilon: Any) -> jax.Array:
        return jnp.zeros((most_copies, dim), spread.dtype)

    def width(spread: jax.Array, log_term: jax.Array, epsilon: Any) -> jax.Array:
        return bmm_width(spread, epsilon)

    def add(tally: jax.Array, pull: _Pull, epsilon: Any) -> jax.Array:
        moments = jax.lax.dynamic_index_in_dim(tally, pull.copy, keepdims=False) + pull.feature * pull.deviation
        return jax.lax.dynamic_update_index_in_dim(tally, moments, pull.copy, 0)

    def end(tally: jax.Array, images: jax.Array, copies: jax.Array) -> jax.Array:
        used = jnp.arange(most_copies)[:, None] < copies
        ordered = jnp.sort(jnp.where(used, summed(tally, images), jnp.inf), axis=0)
        return jax.lax.dynamic_index_in_dim(ordered, copies // 2, keepdims=False)  # k is odd

    return _Estimator(begin, width, add, end, centred=False)


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

    def begun(number: jax.Array) -> jax.Array:
        """Pulls before a phase."""
        return jnp.asarray((0, *ends), jnp.int32)[number]

    def begin(
        number: jax.Array, state: GoptElimState | None, arms: jax.Array, params: GoptElimParams, **news: Any
    ) -> Any:
        """Phase ``number`` + 1: its design, weights and widths, all known before its first payoff."""
        active, references, moments = news["active"], news["references"], news.pop("moments")
        rows, copies = (
            jnp.asarray([*(phase[part] for phase in phases), 0], jnp.int32)[number] for part in (0, 1)
        )  # none after the last phase
        counts, inverse, squared = greedy_design(arms, rows, params.ridge, active)
        images = summed(inverse, arms.T)
        rows_of, p = counts.astype(arms.dtype), 1 + params.epsilon

        def one(index: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            """The rows of one arm x in M^p and in sum U r; K x K numbers at once would be too many for many arms."""
            weights = combined(images, arms[index])
            powers = jnp.abs(weights) ** p * (rows_of[index] * moments[index])
            return sums[0] + powers, sums[1] + weights * (rows_of[index] * references[index])

        zeros = jnp.zeros_like(rows_of)
        powers, offset = jax.lax.fori_loop(0, arms.shape[0], one, (zeros, zeros))
        spread = powers ** (1 / p)
        failure = theory.elimination_failure(number + 1, num_arms=arms.shape[0], delta=params.delta)
        log_term = jnp.log(2 / failure)
        bias = theory.initial_radius(ridge=params.ridge, theta_norm=params.theta_norm) * jnp.sqrt(squared)
        changed: dict[str, Any] = {
            "until": jnp.cumsum(jnp.where(rows > 0, counts * copies, active), dtype=jnp.int32),
            "counts": counts,
            "images": images,
            "offset": offset,
            "widths": robust.width(spread, log_term, params.epsilon) + bias,
            "tally": robust.begin(spread, log_term, params.epsilon),
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
            values=zeros,
            fitted=jnp.zeros(arms.shape[0], jnp.int32),
        )

    def select(key: jax.Array, state: GoptElimState, arms: jax.Array, params: GoptElimParams) -> jax.Array:
        ahead = state.pulls < ends[-1]
        place = state.pulls - begun(running(state.pulls))
        if leftover == "uniform":
            survivors = state.until[-1].astype(arms.dtype)
            drawn = (jax.random.uniform(key, (), arms.dtype) * survivors).astype(jnp.int32)
            place = jnp.where(ahead, place, jnp.minimum(drawn, state.until[-1] - 1))
        index = jnp.sum(state.until <= place, dtype=jnp.int32)
        return index if leftover == "uniform" else jnp.where(ahead, index, state.best)

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
        copies = jnp.asarray([phase.copies for phase in phases], jnp.int32)[number - 1]
        values = robust.end(state.tally, state.images, copies) + state.offset  # r_a
        widths = params.radius_scale * state.widths
        bar = jnp.max(jnp.where(state.active, values - widths, -jnp.inf))
        tolerance = TIE_TOLERANCE[str(values.dtype)] * jnp.where(jnp.isfinite(bar), jnp.abs(bar), 0)
        survives = state.active & (values + widths >= bar - tolerance)
        active = jnp.where(jnp.any(survives), survives, state.active)  # only NaN leaves nobody
        references, moments = references_of(values, state.widths, params)
        best = argmax_index(jnp.where(active, values, -jnp.inf), jnp.zeros_like(values), jnp.zeros((), values.dtype))
        best = jnp.where(jnp.all(jnp.isfinite(values)), best, -1)
        return begin(
            number,
            state,
            arms,
            params,
            active=active,
            references=references,
            moments=moments,
            best=best,
            values=values,
            fitted=state.counts,
        )

    def update(
        state: GoptElimState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: GoptElimParams
    ) -> GoptElimState:
        number = running(state.pulls)
        copies = jnp.asarray([*(phase.copies for phase in phases), 1], jnp.int32)[number]
        most = MOST[str(arms.dtype)]
        deviation = jnp.clip(payoffs[0] - state.references[index], -most, most)
        pull = _Pull(arms[index], deviation, state.images, (state.pulls - begun(number)) % copies)
        played = state._replace(
            pulls=state.pulls + 1,
            tally=jax.lax.cond(
                state.pulls < ends[-1],
                lambda tally: robust.add(tally, pull, params.epsilon),
                lambda tally: tally,
                state.tally,
            ),
        )
        ended = jnp.any(played.pulls == jnp.asarray(ends, jnp.int32))
        return jax.lax.cond(ended, lambda state: end(state, arms, params), lambda state: state, played)

    def region(state: GoptElimState, arms: Arms, params: GoptElimParams) -> Region:
        """The ridge estimate that fits the r_a of the arms in the last whole phase's design; its radius is unknown."""
        rows = state.fitted.astype(arms.dtype)
        gram = params.ridge * jnp.eye(dim, dtype=arms.dtype) + dot(arms.T, arms * rows[:, None])
        return Region(dot(sweep_inverse(gram)[0], dot(arms.T, rows * state.values)))

    return Policy(
        name="gopt_elim",
        init=init,
        select=select,
        update=update,
        region=region,
        finite=lambda state: state.best >= 0,
        about=About(check=check_params),
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
    schedule = functools.partial(
        theory.elimination_phases,
        dim=setup.bandit.dim,
        num_arms=setup.bandit.num_arms,
        medians=estimator == "bmm",
    )
    phases = schedule(setup.horizon, delta=setup.delta)

    def check(params: GoptElimParams) -> None:
        check_params(params)
        if schedule(int(params.horizon), delta=params.delta) != phases:
            raise ValueError(
                f"delta={params.delta}, horizon={params.horizon:.0f}: they need other phases than this gopt_elim was"
                " made for; make_policy again instead of replacing these parameters"
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
    facts = (("phases", len(phases)), ("n_1", phases[0].rows), ("n_last", phases[-1].rows))
    facts += (("k", phases[-1].copies),) if estimator == "bmm" else ()
    return policy._replace(about=About(check=check, facts=facts)), params
