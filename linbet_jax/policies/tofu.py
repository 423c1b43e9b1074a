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
from linbet_jax.kernels.truncation import (
    DoubtfulState,
    doubtful_init,
    doubtful_update,
    doubtful_update_on_cpu,
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
from linbet_jax.policies._checks import check_params, choice, count, flag
from linbet_jax.policies.designs import Arms, Design
from linbet_jax.policies.policy import About, Buffers, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import scaled_radius

CAPACITY = 6  # doubtful payoffs at a time per dimension; on S1-S4 at most 4.6 of 64 seeds, all in the first pulls
LEAST_CAPACITY = 31  # where dimensions are few
MAX_CONDITION = 1e14  # beyond it float64 has no digits left to tell V from its rounding
CONDITION = 1e8  # largest condition number of V that the rational root covers; beyond it the run is repeated


class TofuParams(NamedTuple):
    """Hyperparameters of TOFU; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    raw_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any


class Root(NamedTuple):
    """A way to keep a root W of V^-1 (W^T W = V^-1) through rank-one updates; functions of a tracked state."""

    build: Callable[[jax.Array, jax.Array], Any]  # (gram [d, d], ridge) -> tracked, afresh
    add: Callable[[Any, jax.Array, jax.Array], Any]  # (tracked, feature [d], ridge) -> tracked, for V + x x^T
    # the same as two functions to be used in turn, cheaper together than `add` twice; or none
    in_turn: tuple[Callable[[Any, jax.Array, jax.Array], Any], ...]
    matrix: Callable[[Any], jax.Array]  # tracked -> W [d, d]
    condition: float  # the largest condition number of V that it covers


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
    """State of pruned TOFU: memory O(d^2 + capacity d), independent of T."""

    design: Any  # of the arms played
    root: Any  # tracked root of V^-1
    doubtful: DoubtfulState  # settled moments and the doubtful payoffs
    center: jax.Array  # [d], theta_t
    spread: jax.Array  # [], trace(V) / lambda, a bound on V's condition number
    pulls: jax.Array  # [] int32, t


class HistoryState(NamedTuple):
    """State of TOFU that keeps its history: memory O(T d)."""

    design: Any  # of the arms played
    root: Any  # tracked root of V^-1; None for the full pass, which factors V anew at every pull
    features: jax.Array  # [T, d]
    payoffs: jax.Array  # [T]
    # [d, d], row i is sum_tau y_tau x_tau over the payoffs kept in coordinate i; None for the full pass
    kept: Any
    center: jax.Array  # [d], theta_t
    spread: jax.Array  # [], trace(V) / lambda where the root has a range (with epochs); d, unchanged, in the full pass
    pulls: jax.Array  # [] int32, t


@functools.lru_cache(maxsize=256)
def tofu(
    design: Design,
    *,
    level: str = "proof",
    two_sided: bool = True,
    method: str = "pruned",
    root: str = "symmetric",
    epochs: int | None = None,
    history: int | None = None,
    capacity: int | None = None,
    condition: float = CONDITION,
) -> Policy:
    """TOFU; parameters: :class:`TofuParams`.

    Args:
        design: of the decision sets.
        level: ``"proof"`` (default) or ``"box"``; see :func:`linbet_jax.theory.tofu_level`.
        two_sided: truncate ``|u y| > b_t`` (default, as the proof needs) or ``u y > b_t`` (as the box prints).
        method: ``"pruned"`` (default; exact, linear time) or ``"full"`` (the pass over the whole history, O(T^2 d^2)).
        root: ``"symmetric"`` (the paper) or ``"cholesky"`` (a cheaper algorithm with the same analysis and radius).
        epochs: M, re-truncate the history only M times (Remark 3); None re-truncates at every pull.
        history: pulls that the history buffer holds, the horizon; needed by ``method="full"`` and ``epochs``.
        capacity: slots for doubtful payoffs, by default six per dimension and at least 31, up to whole tiles of 8. A
            replication that needs more is repeated with four times as many.
        condition: largest condition number of V covered by the symmetric root; likewise repeated when exceeded.

    Raises:
        ValueError: for an unknown option, or options that exclude each other.
    """
    choice("level", level, "proof", "box")
    choice("method", method, "pruned", "full")
    choice("root", root, "symmetric", "cholesky")
    if method == "full" and epochs is not None:
        raise ValueError(f"epochs={epochs}: goes with method='pruned' alone; method='full' re-truncates at every pull")
    if (method == "full" or epochs is not None) and history is None:
        raise ValueError("history=None: method='full' and epochs need the horizon to size the history buffer")
    capacity = max(LEAST_CAPACITY, CAPACITY * design.dim) if capacity is None else capacity
    if capacity < 1:
        raise ValueError(f"capacity={capacity}: must be at least 1")

    def truncation_level(pulls: jax.Array, params: TofuParams) -> jax.Array:
        number = pulls.astype(params.ridge.dtype)
        return theory.at(theory.tofu_level, params, number, dim=design.dim, level=level)

    def radius(pulls: jax.Array, params: TofuParams) -> jax.Array:
        number = pulls.astype(params.ridge.dtype)
        return scaled_radius(pulls, theory.at(theory.tofu_radius, params, number, dim=design.dim), params)

    def enlarge() -> Policy:
        return tofu(
            design,
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
    parts = _Parts(design, two_sided, tracker, capacity, truncation_level, radius)
    if method == "full":
        assert history is not None
        return _full(parts, root, history)
    if epochs is not None:
        assert history is not None
        return _by_epochs(parts, history, epochs, enlarge)
    return _pruned(parts, enlarge)


class _Parts(NamedTuple):
    design: Design
    two_sided: bool
    root: Root
    capacity: int
    level: Callable[[jax.Array, TofuParams], jax.Array]
    radius: Callable[[jax.Array, TofuParams], jax.Array]


def _policy(parts: _Parts, **functions: Any) -> Policy:
    """What the three forms share: optimism around the state's centre."""
    design = parts.design

    def select(key: jax.Array, state: Any, arms: jax.Array, params: TofuParams) -> jax.Array:
        return design.optimistic(state.design, arms, state.center, parts.radius(state.pulls, params))

    def region(state: Any, arms: Arms, params: TofuParams) -> Region:
        norm = functools.partial(design.norm, state.design, arms, params.ridge)
        return Region(state.center, parts.radius(state.pulls, params), norm)

    return Policy(name="tofu", select=select, region=region, about=About(check=check_params), **functions)


def _refresh(parts: _Parts) -> Callable[[Any, Arms, TofuParams], Any]:
    """The design and the tracked root computed anew."""

    def refresh(state: Any, arms: Arms, params: TofuParams) -> Any:
        gram = parts.design.gram(state.design, arms, params.ridge)
        return state._replace(
            design=parts.design.refresh(state.design, arms, params.ridge), root=parts.root.build(gram, params.ridge)
        )

    return refresh


def _beyond(root: Root, state: Any) -> jax.Array:
    """Whether V may have left the range of the root, and a wider one exists."""
    return (state.spread > root.condition) & (root.condition < MAX_CONDITION)


def _sound(root: Root, state: Any) -> jax.Array:
    """Finite, and within the range of the widest root there is."""
    widest = root.condition >= MAX_CONDITION and math.isfinite(root.condition)
    return jnp.isfinite(jnp.sum(state.center)) & ((state.spread <= root.condition) if widest else True)


def _grown(state: Any, feature: jax.Array, params: TofuParams) -> jax.Array:
    """trace(V) / lambda after one more arm."""
    return state.spread + dot(feature, feature) / params.ridge


def _pruned(parts: _Parts, enlarge: Callable[[], Policy]) -> Policy:
    """The linear-time form: only doubtful payoffs are tested again."""
    design, root = parts.design, parts.root

    def init(arms: Arms, params: TofuParams) -> TofuState:
        start = design.init(arms, params.ridge)
        dtype = start.inverse.dtype
        return TofuState(
            design=start,
            root=root.build(params.ridge * jnp.eye(design.dim, dtype=dtype), params.ridge),
            doubtful=doubtful_init(design.dim, parts.capacity, dtype),
            center=jnp.zeros(design.dim, dtype),
            spread=jnp.full((), design.dim, dtype),
            pulls=jnp.zeros((), jnp.int32),
        )

    def update(
        state: TofuState,
        arms: jax.Array,
        index: jax.Array,
        payoffs: jax.Array,
        params: TofuParams,
        add: Callable[..., Any] = root.add,
    ) -> TofuState:
        feature, pulls = arms[index], state.pulls + 1
        grown, _ = design.add(state.design, arms, index)
        tracked = add(state.root, feature, params.ridge)
        matrix = root.matrix(tracked)
        doubtful, sums = jax.lax.platform_dependent(
            state.doubtful,
            feature,
            payoffs[0],
            matrix,
            parts.level(pulls, params),
            cpu=functools.partial(doubtful_update_on_cpu, two_sided=parts.two_sided),
            default=functools.partial(doubtful_update, two_sided=parts.two_sided),
        )
        center = dot(grown.inverse, doubtful.moments) + dot(matrix.T, sums)
        return TofuState(grown, tracked, doubtful, center, _grown(state, feature, params), pulls)

    return _policy(
        parts,
        init=init,
        update=tuple(functools.partial(update, add=add) for add in root.in_turn) or update,
        refresh=_refresh(parts),
        finite=lambda state: _sound(root, state),
        buffers=Buffers(overflowed=lambda state: state.doubtful.overflow | _beyond(root, state), enlarge=enlarge),
    )


def _history_init(parts: _Parts, history: int, arms: Arms, params: TofuParams) -> HistoryState:
    design = parts.design.init(arms, params.ridge)
    dim, dtype = parts.design.dim, design.inverse.dtype
    return HistoryState(
        design=design,
        root=None,
        features=jnp.zeros((history, dim), dtype),
        payoffs=jnp.zeros(history, dtype),
        kept=None,
        center=jnp.zeros(dim, dtype),
        spread=jnp.full((), dim, dtype),
        pulls=jnp.zeros((), jnp.int32),
    )


def _remember(
    design: Design, state: HistoryState, arms: jax.Array, index: jax.Array, payoff: jax.Array
) -> HistoryState:
    """Append a pull to the history and to V."""
    return state._replace(
        design=design.add(state.design, arms, index)[0],
        features=jax.lax.dynamic_update_index_in_dim(state.features, arms[index], state.pulls, 0),
        payoffs=jax.lax.dynamic_update_index_in_dim(state.payoffs, payoff, state.pulls, 0),
        pulls=state.pulls + 1,
    )


def _full(parts: _Parts, root: str, history: int) -> Policy:
    """The reference: V is factored and the whole history truncated anew at every pull."""
    design = parts.design

    def update(
        state: HistoryState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: TofuParams
    ) -> HistoryState:
        state = _remember(design, state, arms, index, payoffs[0])
        gram = design.gram(state.design, arms, params.ridge)
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

    return _policy(
        parts,
        init=functools.partial(_history_init, parts, history),
        update=update,
        refresh=lambda state, arms, params: state._replace(design=design.refresh(state.design, arms, params.ridge)),
        finite=lambda state: jnp.isfinite(jnp.sum(state.center)),
        buffers=Buffers(max_pulls=history),
    )


def _by_epochs(parts: _Parts, history: int, epochs: int, enlarge: Callable[[], Policy]) -> Policy:
    """Remark 3: the history is re-truncated at M geometrically spaced pulls, a new payoff once, on arrival."""
    design, root = parts.design, parts.root
    scheduled = np.zeros(history + 1, bool)
    scheduled[list(theory.tofu_retruncation_rounds(history, epochs))] = True

    def init(arms: Arms, params: TofuParams) -> HistoryState:
        state = _history_init(parts, history, arms, params)
        nothing = jnp.zeros_like(state.design.inverse)
        identity = jnp.eye(design.dim, dtype=nothing.dtype)
        return state._replace(root=root.build(params.ridge * identity, params.ridge), kept=nothing)

    def update(
        state: HistoryState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: TofuParams
    ) -> HistoryState:
        feature = arms[index]
        state = _remember(design, state, arms, index, payoffs[0])
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
        return state._replace(root=tracked, kept=kept, center=center, spread=_grown(state, feature, params))

    return _policy(
        parts,
        init=init,
        update=update,
        refresh=_refresh(parts),
        finite=lambda state: _sound(root, state),
        buffers=Buffers(overflowed=lambda state: _beyond(root, state), enlarge=enlarge, max_pulls=history),
    )


@register(
    "tofu",
    label="TOFU",
    told=("epsilon", "raw_moment_bound", "theta_norm"),
    color="#D55E00",
    cost=Cost(0.2, 8e-4, 0.024),
    source="Shao, Yu, King, Lyu 2018, Algorithm 2",
    assumption="raw moment",
    regret="d T^(1/(1+ε))",
    valid="in advance",
    time="K d + C d²",
    memory="d² + C d",
)
def make_tofu(
    setup: Setup,
    *,
    level: str = "proof",
    two_sided: bool = True,
    method: str = "pruned",
    root: str = "symmetric",
    epochs: int | None = None,
    capacity: int | None = None,
) -> tuple[Policy, TofuParams]:
    """TOFU in the form that its options choose."""
    if epochs is not None:
        epochs = count("epochs", epochs)
        theory.tofu_retruncation_rounds(setup.horizon, epochs)
    # trace(V) / lambda <= d + T D^2 / lambda bounds V's condition number. Powers of 10, and one for every lambda >= 1,
    # keep traces few.
    spread = setup.bandit.dim + setup.horizon * setup.bandit.arm_norm**2 / min(setup.ridge, 1.0)
    condition = 10.0 ** math.ceil(math.log10(1.01 * spread)) if math.isfinite(spread) else CONDITION
    if root == "symmetric" and method != "full" and condition > MAX_CONDITION:
        raise ValueError(
            f"ridge={setup.ridge}: with arm_norm={setup.bandit.arm_norm:.3g} and horizon={setup.horizon} V may reach"
            f" the condition number {condition:.0e}, and TOFU's symmetric root covers {MAX_CONDITION:.0e}; give a"
            " larger ridge, or root='cholesky' or method='full'"
        )
    policy = tofu(
        setup.design,
        level=level,
        two_sided=flag("two_sided", two_sided),
        method=method,
        root=root,
        epochs=epochs,
        history=setup.horizon if method == "full" or epochs is not None else None,
        capacity=None if capacity is None else count("capacity", capacity),
        condition=condition,
    )
    return policy, setup.params(TofuParams)
