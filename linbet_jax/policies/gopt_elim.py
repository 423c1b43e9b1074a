"""Phased elimination on nearly G-optimal designs (the family of MED-PE: Tajdini, Scarlett, Jamieson 2025).

A phase fixes its design before its payoffs. So estimates of a fixed design apply as they are (Catoni's, truncated
means, medians of copies: :mod:`linbet_jax.kernels.fixed_design`), and nothing adaptive remains to be proved.
"""

from __future__ import annotations

import dataclasses
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
from linbet_jax.kernels.gram import combined, compensated, dot, ridge_estimates, summed
from linbet_jax.kernels.selection import TIE_TOLERANCE, argmax_index
from linbet_jax.policies._checks import check_params, check_plan, choice
from linbet_jax.policies.designs import Arms
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register

FAR = {"float32": 1e15, "float64": 1e100}  # |z| beyond which psi(z) is p ln|z| - ln p; |z|^p is still finite there
MOST = {"float32": 1e30, "float64": 1e300}  # a payoff further from its reference counts as this: no sum becomes NaN


class GoptElimParams(NamedTuple):
    """Hyperparameters of gopt_elim; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    raw_moment_bound: Any
    central_moment_bound: Any
    epsilon: Any
    radius_scale: Any  # multiplies the widths that eliminate
    horizon: Any  # it and delta must be those of the schedule


class GoptElimState(NamedTuple):
    """State of G-optimal elimination: memory O(K d), with medians also O(d k); independent of T."""

    # [] int32, t. The same in every replication: under ``vmap`` it stays one number, and what happens at the end of a
    # phase alone is computed there alone
    pulls: jax.Array
    active: jax.Array  # [K] bool, the arms still in play
    # [K] int32, pulls of the phase after which each arm is done: arms are pulled in their order. When all phases are
    # over, how many survivors there are up to each arm
    until: jax.Array
    counts: jax.Array  # [K] int32, n_x, rows of this phase's design
    images: jax.Array  # [d, K], A^-1 X^T of this phase's design: a pull of x counts U[a, x] = <a, A^-1 x> for arm a
    references: jax.Array  # [K], r_x
    offset: jax.Array  # [K], sum_x n_x U[a, x] r_x of every arm a
    widths: jax.Array  # [K], e_a, literal
    tally: Any  # what the estimator keeps of this phase's payoffs
    best: jax.Array  # [] int32, the arm that looked best when the last phase ended; -1 if its estimates were not finite
    values: jax.Array  # [K], r_a of the last whole phase; 0 before
    errors: jax.Array  # [K], e_a of these, literal; infinite before
    fitted: jax.Array  # [K] int32, rows of the design that these came from


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
    """A way to estimate <a, theta*> of all K arms from a phase's payoffs, one payoff at a time."""

    begin: Callable[[jax.Array, jax.Array, Any], Any]  # (spread M [K], log_term L [], epsilon) -> tally
    width: Callable[[jax.Array, jax.Array, Any], jax.Array]  # the same -> [K], the noise term of e_a
    add: Callable[[Any, _Pull, Any], Any]  # (tally, pull, epsilon) -> tally
    # (tally, images [d, K], copies k_l []) -> [K], estimates of sum U (y - r)
    end: Callable[[Any, jax.Array, jax.Array], jax.Array]
    centred: bool  # whether references help: they replace b by about c


class SumTally(NamedTuple):
    """What Catoni's and the truncated estimate keep."""

    limit: jax.Array  # [K], Catoni's scale s_a, or the level H_a of truncation
    # [K], the sum of psi(s_a U[a, x] (y - r_x)), or of the U[a, x] (y - r_x) within the level; compensated
    total: jax.Array
    lost: jax.Array  # [K], what rounding has kept out of it so far

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


@dataclasses.dataclass(frozen=True, eq=False)
class _Elimination:
    """The functions of the policy; what decides shapes and branches is here, as host numbers."""

    dim: int
    phases: tuple[theory.EliminationPhase, ...]
    robust: _Estimator
    leftover: str

    @functools.cached_property
    def ends(self) -> tuple[int, ...]:
        """Pulls after which each phase is over."""
        return tuple(itertools.accumulate(phase.rows * phase.copies for phase in self.phases))

    def running(self, pulls: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Number of the phase of the next pull, from 0, as many as there are when all are over; pulls before it."""
        number = jnp.sum(pulls >= jnp.asarray(self.ends, jnp.int32), dtype=jnp.int32)
        return number, jnp.asarray((0, *self.ends), jnp.int32)[number]

    def copies(self, number: jax.Array) -> jax.Array:
        """k_l of a phase."""
        return jnp.asarray([*(phase.copies for phase in self.phases), 1], jnp.int32)[number]

    def init(self, arms: Arms, params: GoptElimParams) -> GoptElimState:
        """The first phase, of all arms, around references of 0."""
        if arms is None:
            raise ValueError("this policy was made for a fixed decision set; make it for the bandit that it plays")
        zeros = jnp.zeros(arms.shape[0], arms.dtype)
        plan = self.plan(
            jnp.zeros((), jnp.int32),
            arms,
            params,
            active=jnp.ones(arms.shape[0], bool),
            references=zeros,
            moments=zeros + (params.raw_moment_bound if self.robust.centred else params.central_moment_bound),
        )
        return GoptElimState(
            **plan,
            pulls=jnp.zeros((), jnp.int32),
            best=jnp.zeros((), jnp.int32),
            values=zeros,
            errors=zeros + jnp.inf,
            fitted=jnp.zeros(arms.shape[0], jnp.int32),
        )

    def plan(
        self,
        number: jax.Array,
        arms: jax.Array,
        params: GoptElimParams,
        *,
        active: jax.Array,
        references: jax.Array,
        moments: jax.Array,
    ) -> dict[str, Any]:
        """Phase ``number`` + 1, as fields of the state: design, weights and widths, all before its first payoff."""
        rows = jnp.asarray([*(phase.rows for phase in self.phases), 0], jnp.int32)[number]  # 0 after the last phase
        counts, inverse, squared = greedy_design(arms, rows, params.ridge, active)
        images = summed(inverse, arms.T)
        rows_of, p = counts.astype(arms.dtype), 1 + params.epsilon
        played = jnp.cumsum(counts > 0, dtype=jnp.int32)

        def add(number: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            """The rows of one arm x in M^p and in sum U r; K x K numbers at once would be too many for many arms."""
            index = jnp.minimum(jnp.sum(played <= number), arms.shape[0] - 1)
            share = jnp.where(number < played[-1], rows_of[index], 0)
            weights = combined(images, arms[index])
            powers = power(jnp.abs(weights), p) * (share * moments[index])
            return sums[0] + powers, sums[1] + weights * (share * references[index])

        zeros = jnp.zeros_like(rows_of)
        most = jnp.minimum(rows, arms.shape[0])  # arms that a design of so many rows can have
        powers, offset = jax.lax.fori_loop(jnp.zeros_like(most), most, add, (zeros, zeros))
        spread = powers ** (1 / p)  # M
        failure = theory.elimination_failure(number + 1, num_arms=arms.shape[0], delta=params.delta)
        log_term = jnp.log(2 / failure)  # L
        bias = theory.initial_radius(ridge=params.ridge, theta_norm=params.theta_norm) * jnp.sqrt(squared)
        ahead = jnp.where(rows > 0, counts * self.copies(number), active)
        return {
            "active": active,
            "until": jnp.cumsum(ahead, dtype=jnp.int32),
            "counts": counts,
            "images": images,
            "references": references,
            "offset": offset,
            "widths": self.robust.width(spread, log_term, params.epsilon) + bias,
            "tally": self.robust.begin(spread, log_term, params.epsilon),
        }

    def select(self, key: jax.Array, state: GoptElimState, arms: jax.Array, params: GoptElimParams) -> jax.Array:
        """The arm whose turn it is; after the last phase the best one, or any survivor."""
        ahead = state.pulls < self.ends[-1]
        place = state.pulls - self.running(state.pulls)[1]
        if self.leftover == "greedy":
            return jnp.where(ahead, jnp.sum(state.until <= place, dtype=jnp.int32), state.best)
        drawn = jax.random.uniform(key, (), jnp.float32) * state.until[-1].astype(jnp.float32)  # alike in both dtypes
        place = jnp.where(ahead, place, jnp.minimum(drawn.astype(jnp.int32), state.until[-1] - 1))
        return jnp.sum(state.until <= place, dtype=jnp.int32)

    def update(
        self, state: GoptElimState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: GoptElimParams
    ) -> GoptElimState:
        """One pull more; where it is the last of a phase, what follows from the phase."""
        number, begun = self.running(state.pulls)
        most = MOST[str(arms.dtype)]
        deviation = jnp.clip(payoffs[0] - state.references[index], -most, most)
        pull = _Pull(arms[index], deviation, state.images, (state.pulls - begun) % self.copies(number))
        pulls = state.pulls + 1
        # Both predicates are the same for a whole batch: a branch is taken or not, where a select would compute both.
        tally = jax.lax.cond(
            state.pulls < self.ends[-1],
            lambda tally: self.robust.add(tally, pull, params.epsilon),
            lambda tally: tally,
            state.tally,
        )
        return jax.lax.cond(
            jnp.any(pulls == jnp.asarray(self.ends, jnp.int32)),
            lambda state: self.end(state, arms, params),
            lambda state: state,
            state._replace(pulls=pulls, tally=tally),
        )

    def end(self, state: GoptElimState, arms: jax.Array, params: GoptElimParams) -> GoptElimState:
        """The phase's estimates, who survives, and the next phase.

        Nothing here needs the images but through the estimates: else XLA would keep a second copy of them, and fill it
        at every pull.
        """
        number, _ = self.running(state.pulls)  # of the next phase
        values = self.robust.end(state.tally, state.images, self.copies(number - 1)) + state.offset  # r_a
        widths = params.radius_scale * state.widths
        bar = jnp.max(jnp.where(state.active, values - widths, -jnp.inf))
        tolerance = TIE_TOLERANCE[str(values.dtype)] * jnp.where(jnp.isfinite(bar), jnp.abs(bar), 0)
        survives = state.active & (values + widths >= bar - tolerance)
        active = jnp.where(jnp.any(survives), survives, state.active)  # only NaN leaves nobody
        best = argmax_index(jnp.where(active, values, -jnp.inf), jnp.zeros_like(values), jnp.zeros((), values.dtype))
        references, moments = self.around(values, state.widths, params)
        return state._replace(
            **self.plan(number, arms, params, active=active, references=references, moments=moments),
            best=jnp.where(jnp.all(jnp.isfinite(values)), best, -1),
            values=values,
            errors=state.widths,
            fitted=state.counts,
        )

    def around(self, values: jax.Array, widths: jax.Array, params: GoptElimParams) -> tuple[jax.Array, jax.Array]:
        """For the next phase r_x and m_x = (nu + e_x)^p, c + e_x^2 at p = 2, where that is below b; else 0 and b."""
        p = 1 + params.epsilon
        c, b = params.central_moment_bound, params.raw_moment_bound
        if not self.robust.centred:
            return jnp.zeros_like(values), jnp.zeros_like(values) + c
        moments = jnp.where(p == 2, c + widths * widths, (c ** (1 / p) + widths) ** p)
        closer = moments < b
        return jnp.where(closer, values, 0), jnp.where(closer, moments, b)

    def region(self, state: GoptElimState, arms: Arms, params: GoptElimParams) -> Region:
        """All theta within the widths of the last whole phase: |r_a - <a, theta>| <= radius_scale e_a for every arm.

        The centre is the ridge estimate that fits the r_a in that phase's design. The norm is the largest
        |r_a - <a, theta>| / e_a, of a theta that far from the centre.
        """
        assert arms is not None
        rows = state.fitted.astype(arms.dtype)
        gram = params.ridge * jnp.eye(self.dim, dtype=arms.dtype) + dot(arms.T, arms * rows[:, None])
        center = ridge_estimates(gram, dot(arms.T, rows * state.values)[:, None])[0]

        def norm(vector: jax.Array) -> jax.Array:
            misses = jnp.abs(state.values - dot(arms, center - vector))
            return jnp.max(jnp.where(misses > 0, misses / state.errors, 0))

        return Region(center, jnp.asarray(params.radius_scale, arms.dtype), norm)


@functools.lru_cache(maxsize=256)
def gopt_elim(
    dim: int,
    phases: tuple[theory.EliminationPhase, ...],
    *,
    estimator: str = "catoni",
    leftover: str = "greedy",
) -> Policy:
    """G-optimal elimination; parameters: :class:`GoptElimParams`.

    Phase l = 1, 2, ... takes n_l = 2d 2^{l-1} rows from the active arms, each the one of the largest leverage so far,
    estimates <a, theta*> of every arm as r_a with a width e_a that is known before the first payoff, and keeps the arms
    with r_a + e_a >= max (r - e). Estimates of the next phase are centred at these, which replaces b by about c.

    Guarantee (literal widths, derived here; the constants are not those of the paper): with probability 1 - delta the
    best arm is never dropped, a survivor of phase l is at most 4 max e away from it, and with Catoni's estimate the
    regret is at most

        4 d L + 28 C b^{1/p} sqrt(kappa) ln(2 K l (l+1)/delta)^{eps/p} T^{1/p} + 28 S sqrt(lambda kappa T),

    where L bounds |<x, theta*>|, C <= 1.4447, l is the last phase and kappa, the largest of n_l max a^T A_l^-1 a, is
    about d. Every phase's design is fixed before its payoffs, so this holds for adaptive play as it stands. Noise may
    be asymmetric and, but for ``"bmm"``, a martingale within the phase; the copies of ``"bmm"`` must be independent.
    With ``"uniform"`` leftovers the regret bound is the same: it uses nothing of a survivor but that it survived.

    Deviations: MED-PE designs for the moment of order p itself, which is better in d for infinite sets.

    Args:
        dim: d of the decision set, which must be the same at every pull.
        phases: from :func:`linbet_jax.theory.elimination_phases`; what is left after them is played by ``leftover``.
        estimator: ``"catoni"`` (default), ``"btc"`` (truncation) or ``"bmm"`` (medians of k_l pulls of each row).
        leftover: ``"greedy"`` (default) plays the surviving arm of the largest estimate, ``"uniform"`` every survivor
            with the same probability.

    Raises:
        ValueError: for an unknown option.
    """
    choice("estimator", estimator, "catoni", "btc", "bmm", between=", ")
    choice("leftover", leftover, "greedy", "uniform", between=", ")
    if estimator == "bmm":
        robust = _bmm(dim, max(phase.copies for phase in phases))
    else:
        robust = {"catoni": _catoni, "btc": _btc}[estimator]()
    play = _Elimination(dim, phases, robust, leftover)
    return Policy(
        name="gopt_elim",
        init=play.init,
        select=play.select,
        update=play.update,
        region=play.region,
        finite=lambda state: state.best >= 0,
        about=About(check=check_params),
    )


@register(
    "gopt_elim",
    label="G-opt. elimination",
    told=("epsilon", "raw_moment_bound", "central_moment_bound", "theta_norm"),
    color="#AA4499",
    cost=Cost(0.1, 5e-4, 2e-4),
    source="after Tajdini, Scarlett, Jamieson 2025",
    assumption="both moments",
    regret="d^½ T^(1/(1+ε))",
    valid="adaptive",
    sets="one finite",
    time="K d",
    memory="K d",
)
def make_gopt_elim(
    setup: Setup, *, estimator: str = "catoni", leftover: str = "greedy"
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
    check = check_plan(schedule, phases, "other phases than this gopt_elim was made for", "delta")
    policy = gopt_elim(setup.bandit.dim, phases, estimator=estimator, leftover=leftover)
    params = setup.params(GoptElimParams)
    facts: list[tuple[str, float]] = [("phases", len(phases)), ("n_1", phases[0].rows), ("n_last", phases[-1].rows)]
    if estimator == "bmm":
        facts.append(("k", phases[-1].copies))
    return policy._replace(about=About(check=check, facts=tuple(facts))), params
