"""TOFU, truncation under OFU (Shao et al. 2018, Algorithm 2), in linear time or by the full pass over the history."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from linbet_jax import theory
from linbet_jax.kernels.gram import cholesky, dot, lower_inverse, rank_one_lower_inverse
from linbet_jax.kernels.selection import argmax_index, squared_widths
from linbet_jax.kernels.truncation import (
    DoubtfulState,
    doubtful_init,
    doubtful_resize,
    doubtful_update,
    is_kept,
    kept_sums,
)
from linbet_jax.kernels.whitening import (
    inverse_sqrt,
    shifted_inverses,
    shifted_inverses_defer,
    shifted_inverses_settle,
    shifted_inverses_update,
)
from linbet_jax.policies._checks import check_params
from linbet_jax.policies._designs import (
    ArmDesign,
    Design,
    arm_design_add,
    arm_design_gram,
    arm_design_init,
    arm_design_norm,
    arm_design_refresh,
    design_add,
    design_init,
    design_norm,
    design_refresh,
)
from linbet_jax.policies._ridge import at_start
from linbet_jax.policy import FixedSet, Opening, Policy

CAPACITY = (
    24  # doubtful payoffs at a time once the opening is over; a run that needs more is repeated with four times it
)
OPENING = 512  # first pulls, while widths are large and many payoffs doubtful
OPENING_CAPACITY = 8  # slots per dimension in the opening: about twice the most met on S1-S4
MAX_CONDITION = 1e14  # beyond it float64 has no digits left to tell V from its rounding
CONDITION = 1e8  # largest condition number of V that the rational root covers; beyond it the run is repeated


class TofuParams(NamedTuple):
    """Hyperparameters of TOFU, all traced.

    Attributes:
        ridge: lambda > 0.
        delta: failure probability in (0, 1).
        theta_norm: S >= ||theta*||.
        raw_moment_bound: b >= E|y|^{1 + epsilon}.
        epsilon: in (0, 1].
        radius_scale: multiplies every radius; 1 is the paper.
        horizon: T, which enters the level and the radius.
    """

    ridge: Any
    delta: Any
    theta_norm: Any
    raw_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any


class Root(NamedTuple):
    """A way to keep a root W of V^-1 (W^T W = V^-1) through rank-one updates; functions of a tracked state.

    Attributes:
        build: ``(gram [d, d], ridge) -> tracked``, afresh.
        add: ``(tracked, feature [d], ridge) -> tracked``, for V + x x^T.
        in_turn: the same as two functions to be used in turn, cheaper together than ``add`` twice; or none.
        matrix: ``(tracked) -> W [d, d]``.
        condition: the largest condition number of V it covers.
    """

    build: Callable[[jax.Array, jax.Array], Any]
    add: Callable[[Any, jax.Array, jax.Array], Any]
    in_turn: tuple[Callable[[Any, jax.Array, jax.Array], Any], ...]
    matrix: Callable[[Any], jax.Array]
    condition: float


def _symmetric_root(condition: float) -> Root:
    """V^{-1/2}, the paper's root, as a sum of shifted inverses."""
    return Root(
        build=lambda gram, ridge: shifted_inverses(gram, ridge, condition),
        add=functools.partial(shifted_inverses_update, condition=condition),
        in_turn=tuple(
            functools.partial(step, condition=condition) for step in (shifted_inverses_defer, shifted_inverses_settle)
        ),
        matrix=lambda tracked: tracked.root,
        condition=condition,
    )


def _cholesky_root() -> Root:
    """G^-1 with V = G G^T: another, cheaper algorithm with the same guarantee (the proof uses W^T W = V^-1 alone)."""
    return Root(
        build=lambda gram, ridge: lower_inverse(cholesky(gram)),
        add=lambda tracked, feature, ridge: rank_one_lower_inverse(tracked, feature),
        in_turn=(),
        matrix=lambda tracked: tracked,
        condition=float("inf"),
    )


class TofuState(NamedTuple):
    """Pruned TOFU for any decision sets: memory O(d^2 + capacity d), independent of T.

    Attributes:
        design: V and its inverse.
        root: tracked root of V^-1.
        doubtful: settled moments and the doubtful payoffs.
        center: [d], theta_t.
        spread: [], trace(V) / lambda, a bound on V's condition number.
        pulls: [] int32, t.
    """

    design: Design
    root: Any
    doubtful: DoubtfulState
    center: jax.Array
    spread: jax.Array
    pulls: jax.Array


class ArmTofuState(NamedTuple):
    """Pruned TOFU for a fixed set: as :class:`TofuState`, with offset = W^T s [d] and values = A theta_t [K]."""

    design: ArmDesign
    root: Any
    doubtful: DoubtfulState
    offset: jax.Array
    values: jax.Array
    spread: jax.Array
    pulls: jax.Array


class HistoryState(NamedTuple):
    """TOFU that keeps its history: memory O(T d).

    Attributes:
        design: V and its inverse.
        root: tracked root of V^-1; None for the full pass, which factors V anew at every pull.
        features: [T, d].
        payoffs: [T].
        kept: [d, d], row i is sum_tau y_tau x_tau over the payoffs kept in coordinate i; None for the full pass.
        center: [d], theta_t.
        spread: [], trace(V) / lambda.
        pulls: [] int32, t.
    """

    design: Design
    root: Any
    features: jax.Array
    payoffs: jax.Array
    kept: Any
    center: jax.Array
    spread: jax.Array
    pulls: jax.Array


@functools.lru_cache(maxsize=256)
def tofu(
    dim: int,
    *,
    level: str = "proof",
    two_sided: bool = True,
    method: str = "pruned",
    root: str = "symmetric",
    epochs: int | None = None,
    history: int | None = None,
    capacity: int = CAPACITY,
    condition: float = CONDITION,
) -> Policy:
    """TOFU for features [dim]; parameters: :class:`TofuParams`.

    Args:
        dim: d.
        level: ``"proof"`` (default) or ``"box"``; see :func:`linbet_jax.theory.tofu_level`.
        two_sided: truncate ``|u y| > b_t`` (default, as the proof needs) or ``u y > b_t`` (as the box prints).
        method: ``"pruned"`` (default; exact, linear time) or ``"full"`` (the pass over the whole history, O(T^2 d^2)).
        root: ``"symmetric"`` (the paper) or ``"cholesky"`` (a cheaper algorithm with the same analysis and radius).
        epochs: M, re-truncate the history only M times (Remark 3); None re-truncates at every pull.
        history: pulls that the history buffer holds, the horizon; needed by ``method="full"`` and ``epochs``.
        capacity: slots for doubtful payoffs after the first pulls, which have more of them. A replication that needs
            more is repeated with four times as many.
        condition: largest condition number of V covered by the symmetric root; likewise repeated when exceeded.

    Raises:
        ValueError: for an unknown option, or options that exclude each other.
    """
    for field, value, allowed in (
        ("level", level, ("proof", "box")),
        ("method", method, ("pruned", "full")),
        ("root", root, ("symmetric", "cholesky")),
    ):
        if value not in allowed:
            raise ValueError(f"{field}={value!r}: allowed are {' and '.join(map(repr, allowed))}")
    if method == "full" and epochs is not None:
        raise ValueError(f"epochs={epochs}: goes with method='pruned' alone; method='full' re-truncates at every pull")
    if (method == "full" or epochs is not None) and history is None:
        raise ValueError("history=None: method='full' and epochs need the horizon to size the history buffer")
    if capacity < 1:
        raise ValueError(f"capacity={capacity}: must be at least 1")

    def truncation_level(pulls: jax.Array, params: TofuParams) -> jax.Array:
        return theory.tofu_level(
            pulls.astype(params.ridge.dtype),
            horizon=params.horizon,
            delta=params.delta,
            dim=dim,
            raw_moment_bound=params.raw_moment_bound,
            epsilon=params.epsilon,
            level=level,
        )

    def radius(pulls: jax.Array, params: TofuParams) -> jax.Array:
        started = theory.tofu_radius(
            pulls.astype(params.ridge.dtype),
            horizon=params.horizon,
            delta=params.delta,
            dim=dim,
            raw_moment_bound=params.raw_moment_bound,
            epsilon=params.epsilon,
            ridge=params.ridge,
            theta_norm=params.theta_norm,
        )
        return at_start(pulls, started, params)

    def enlarge() -> Policy:
        return tofu(
            dim,
            level=level,
            two_sided=two_sided,
            method=method,
            root=root,
            epochs=epochs,
            history=history,
            capacity=4 * capacity,
            condition=max(condition, min(1e4 * condition, MAX_CONDITION)),
        )

    tracker = _symmetric_root(condition) if root == "symmetric" else _cholesky_root()
    parts = _Parts(dim, two_sided, tracker, capacity, truncation_level, radius)
    if method == "full":
        assert history is not None
        return _full(parts, root, history)._replace(max_pulls=history)
    if epochs is not None:
        assert history is not None
        return _by_epochs(parts, history, epochs)._replace(enlarge=enlarge, max_pulls=history)
    first = parts._replace(capacity=min(OPENING, max(capacity, OPENING_CAPACITY * dim * capacity // CAPACITY)))
    # The opening is too short for updates in pairs to repay compiling them.
    first = first._replace(root=tracker._replace(in_turn=()))
    opening = Opening(OPENING, _pruned(first), _handover(capacity)) if first.capacity > capacity else None
    return _pruned(parts)._replace(enlarge=enlarge, opening=opening)


def _handover(capacity: int) -> Callable[[Any], Any]:
    return lambda state: state._replace(doubtful=doubtful_resize(state.doubtful, capacity))


class _Parts(NamedTuple):
    dim: int
    two_sided: bool
    root: Root
    capacity: int
    level: Callable[[jax.Array, TofuParams], jax.Array]
    radius: Callable[[jax.Array, TofuParams], jax.Array]


def _finite_center(state: Any) -> jax.Array:
    return jnp.isfinite(jnp.sum(state.center))


def _beyond(root: Root, state: Any) -> jax.Array:
    """Whether V may have left the range of the root, and a wider one exists."""
    return (state.spread > root.condition) & (root.condition < MAX_CONDITION)


def _sound(root: Root, numbers: jax.Array, spread: jax.Array) -> jax.Array:
    """Finite, and within the range of the widest root there is."""
    widest = root.condition >= MAX_CONDITION and math.isfinite(root.condition)
    return jnp.isfinite(jnp.sum(numbers)) & ((spread <= root.condition) if widest else True)


def _select(parts: _Parts) -> Callable[..., jax.Array]:
    def select(key: jax.Array, state: Any, arms: jax.Array, params: TofuParams) -> jax.Array:
        del key
        widths = squared_widths(arms, state.design.inverse)
        return argmax_index(dot(arms, state.center), widths, parts.radius(state.pulls, params))

    return select


def _region(parts: _Parts) -> Callable[..., tuple[jax.Array, jax.Array]]:
    def region(state: Any, point: jax.Array, params: TofuParams) -> tuple[jax.Array, jax.Array]:
        return design_norm(state.design, state.center - point), parts.radius(state.pulls, params)

    return region


def _pruned(parts: _Parts) -> Policy:
    """The linear-time form: only doubtful payoffs are tested again."""
    dim, root = parts.dim, parts.root

    def init(params: TofuParams) -> TofuState:
        design = design_init(dim, params.ridge)
        return TofuState(
            design=design,
            root=root.build(design.gram, params.ridge),
            doubtful=doubtful_init(dim, parts.capacity, params.ridge.dtype),
            center=jnp.zeros(dim, params.ridge.dtype),
            spread=jnp.full((), dim, params.ridge.dtype),
            pulls=jnp.zeros((), jnp.int32),
        )

    def truncate(
        state: Any, feature: jax.Array, payoff: jax.Array, params: TofuParams, add: Callable[..., Any] = root.add
    ) -> tuple[Any, DoubtfulState, jax.Array, jax.Array, jax.Array]:
        pulls = state.pulls + 1
        tracked = add(state.root, feature, params.ridge)
        matrix = root.matrix(tracked)
        doubtful, sums = doubtful_update(
            state.doubtful, feature, payoff, matrix, parts.level(pulls, params), two_sided=parts.two_sided
        )
        spread = state.spread + dot(feature, feature) / params.ridge
        return tracked, doubtful, dot(matrix.T, sums), spread, pulls

    def update(state: TofuState, feature: jax.Array, payoffs: jax.Array, params: TofuParams) -> TofuState:
        design = design_add(state.design, feature)
        tracked, doubtful, offset, spread, pulls = truncate(state, feature, payoffs[0], params)
        center = dot(design.inverse, doubtful.moments) + offset
        return TofuState(design, tracked, doubtful, center, spread, pulls)

    def refresh(state: TofuState, params: TofuParams) -> TofuState:
        return state._replace(
            design=design_refresh(state.design, params.ridge), root=root.build(state.design.gram, params.ridge)
        )

    def overflowed(state: Any) -> jax.Array:
        return state.doubtful.overflow | _beyond(root, state)

    def fixed_init(arms: jax.Array, params: TofuParams) -> ArmTofuState:
        start = init(params)
        return ArmTofuState(
            design=arm_design_init(arms, params.ridge),
            root=start.root,
            doubtful=start.doubtful,
            offset=jnp.zeros(dim, arms.dtype),
            values=jnp.zeros(arms.shape[0], arms.dtype),
            spread=start.spread,
            pulls=start.pulls,
        )

    def fixed_select(key: jax.Array, state: ArmTofuState, arms: jax.Array, params: TofuParams) -> jax.Array:
        del key, arms
        return argmax_index(state.values, state.design.squared_widths, parts.radius(state.pulls, params))

    def fixed_update(
        state: ArmTofuState,
        arms: jax.Array,
        index: jax.Array,
        payoffs: jax.Array,
        params: TofuParams,
        add: Callable[..., Any] = root.add,
    ) -> ArmTofuState:
        design, _ = arm_design_add(state.design, arms, index)
        tracked, doubtful, offset, spread, pulls = truncate(state, arms[index], payoffs[0], params, add)
        values = dot(arms, dot(design.inverse, doubtful.moments) + offset)
        return ArmTofuState(design, tracked, doubtful, offset, values, spread, pulls)

    def fixed_region(
        state: ArmTofuState, arms: jax.Array, point: jax.Array, params: TofuParams
    ) -> tuple[jax.Array, jax.Array]:
        error = dot(state.design.inverse, state.doubtful.moments) + state.offset - point
        return arm_design_norm(state.design, arms, params.ridge, error), parts.radius(state.pulls, params)

    def fixed_refresh(state: ArmTofuState, arms: jax.Array, params: TofuParams) -> ArmTofuState:
        design = arm_design_refresh(state.design, arms, params.ridge)
        return state._replace(design=design, root=root.build(arm_design_gram(design, arms, params.ridge), params.ridge))

    def fixed_estimate(state: ArmTofuState, arms: jax.Array, params: TofuParams) -> jax.Array:
        inverse = arm_design_refresh(state.design, arms, params.ridge).inverse
        return dot(inverse, state.doubtful.moments) + state.offset

    return Policy(
        name="tofu",
        init=init,
        select=_select(parts),
        update=update,
        estimate=lambda state, params: state.center,
        region=_region(parts),
        refresh=refresh,
        overflowed=overflowed,
        finite=lambda state: _sound(root, state.center, state.spread),
        check=check_params,
        fixed=FixedSet(
            init=fixed_init,
            select=fixed_select,
            update=fixed_update,
            in_turn=tuple(functools.partial(fixed_update, add=add) for add in root.in_turn),
            estimate=fixed_estimate,
            region=fixed_region,
            refresh=fixed_refresh,
            overflowed=overflowed,
            finite=lambda state: _sound(root, state.values, state.spread),
        ),
    )


def _history_init(parts: _Parts, history: int, params: TofuParams) -> HistoryState:
    dtype = params.ridge.dtype
    return HistoryState(
        design=design_init(parts.dim, params.ridge),
        root=None,
        features=jnp.zeros((history, parts.dim), dtype),
        payoffs=jnp.zeros(history, dtype),
        kept=None,
        center=jnp.zeros(parts.dim, dtype),
        spread=jnp.full((), parts.dim, dtype),
        pulls=jnp.zeros((), jnp.int32),
    )


def _remember(state: HistoryState, feature: jax.Array, payoff: jax.Array) -> HistoryState:
    """Append a pull to the history and to V."""
    return state._replace(
        design=design_add(state.design, feature),
        features=jax.lax.dynamic_update_index_in_dim(state.features, feature, state.pulls, 0),
        payoffs=jax.lax.dynamic_update_index_in_dim(state.payoffs, payoff, state.pulls, 0),
        pulls=state.pulls + 1,
    )


def _full(parts: _Parts, root: str, history: int) -> Policy:
    """The reference: V is factored and the whole history truncated anew at every pull."""

    def update(state: HistoryState, feature: jax.Array, payoffs: jax.Array, params: TofuParams) -> HistoryState:
        state = _remember(state, feature, payoffs[0])
        gram = state.design.gram
        matrix = inverse_sqrt(gram) if root == "symmetric" else lower_inverse(cholesky(gram))
        sums = kept_sums(
            state.features,
            state.payoffs,
            matrix,
            parts.level(state.pulls, params),
            mask=jnp.arange(history) < state.pulls,
            two_sided=parts.two_sided,
        )
        return state._replace(center=dot(matrix.T, sums))

    return Policy(
        name="tofu",
        init=lambda params: _history_init(parts, history, params),
        select=_select(parts),
        update=update,
        estimate=lambda state, params: state.center,
        region=_region(parts),
        refresh=lambda state, params: state._replace(design=design_refresh(state.design, params.ridge)),
        finite=_finite_center,
        check=check_params,
    )


def _by_epochs(parts: _Parts, history: int, epochs: int) -> Policy:
    """Remark 3: the history is re-truncated at M geometrically spaced pulls, a new payoff once, on arrival."""
    root = parts.root
    scheduled = np.zeros(history + 1, bool)
    scheduled[list(theory.tofu_retruncation_rounds(history, epochs))] = True

    def init(params: TofuParams) -> HistoryState:
        state = _history_init(parts, history, params)
        return state._replace(root=root.build(state.design.gram, params.ridge), kept=jnp.zeros_like(state.design.gram))

    def update(state: HistoryState, feature: jax.Array, payoffs: jax.Array, params: TofuParams) -> HistoryState:
        state = _remember(state, feature, payoffs[0])
        tracked = root.add(state.root, feature, params.ridge)
        matrix = root.matrix(tracked)
        bound = parts.level(state.pulls, params)

        def weights(features: jax.Array, payoffs: jax.Array) -> jax.Array:
            products = dot(features, matrix.T) * payoffs[:, None]
            return jnp.where(is_kept(products, bound, parts.two_sided), payoffs[:, None], 0)  # [n, d]

        def everything(kept: jax.Array) -> jax.Array:
            return dot(weights(state.features, state.payoffs).T, state.features)  # free slots hold payoff 0

        def arrival(kept: jax.Array) -> jax.Array:
            return kept + weights(feature[None], payoffs)[0][:, None] * feature

        kept = jax.lax.cond(jnp.asarray(scheduled)[state.pulls], everything, arrival, state.kept)
        center = dot(matrix.T, jnp.sum(matrix * kept, axis=1))
        spread = state.spread + dot(feature, feature) / params.ridge
        return state._replace(root=tracked, kept=kept, center=center, spread=spread)

    def refresh(state: HistoryState, params: TofuParams) -> HistoryState:
        return state._replace(
            design=design_refresh(state.design, params.ridge), root=root.build(state.design.gram, params.ridge)
        )

    return Policy(
        name="tofu",
        init=init,
        select=_select(parts),
        update=update,
        estimate=lambda state, params: state.center,
        region=_region(parts),
        refresh=refresh,
        overflowed=lambda state: _beyond(root, state),
        finite=lambda state: _sound(root, state.center, state.spread),
        check=check_params,
    )
