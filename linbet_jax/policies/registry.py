"""Making a policy and its parameters from a name, a bandit's known constants and options."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol

from linbet_jax import theory
from linbet_jax.policies._checks import count, flag, number
from linbet_jax.policies.designs import design_of
from linbet_jax.policies.medina_yang import CrtParams, MomParams, crt, mom
from linbet_jax.policies.menu import MenuParams, menu
from linbet_jax.policies.oful import OfulParams, oful
from linbet_jax.policies.reference import GreedyParams, UniformParams, greedy, uniform
from linbet_jax.policies.tofu import CAPACITY, CONDITION, MAX_CONDITION, TofuParams, tofu
from linbet_jax.policy import Policy


class BanditFacts(Protocol):
    """What a policy may know of a bandit: never theta*, the means or the noise law."""

    @property
    def dim(self) -> int:
        """d."""
        ...

    @property
    def changing(self) -> bool:
        """Whether the decision set changes from pull to pull."""
        ...

    @property
    def epsilon(self) -> float:
        """The order of the moments is 1 + epsilon."""
        ...

    @property
    def raw_moment_bound(self) -> float:
        """b."""
        ...

    @property
    def central_moment_bound(self) -> float:
        """c."""
        ...

    @property
    def theta_norm(self) -> float:
        """S."""
        ...

    @property
    def arm_norm(self) -> float:
        """D."""
        ...

    @property
    def noise_std(self) -> float:
        """Largest standard deviation of a payoff over the arms; infinite where there is none."""
        ...


class _Common:
    """The arguments that every factory shares, checked once."""

    def __init__(
        self, bandit: BanditFacts, horizon: int, delta: float, ridge: float, radius_scale: float, theta_norm: Any
    ) -> None:
        self.bandit = bandit
        self.design = design_of(bandit)
        self.horizon = horizon
        self.delta = delta
        self.ridge = ridge
        self.radius_scale = radius_scale
        if theta_norm is None:  # infinite for a bandit that draws a fresh theta* per replication: its own norm is used
            self.theta_norm = float(bandit.theta_norm)
        else:
            self.theta_norm = number("theta_norm", theta_norm)


def _known(field: str, given: Any, common: _Common) -> float:
    """A moment bound: the one given, else the bandit's."""
    return number(field, getattr(common.bandit, field) if given is None else given)


def _with_facts(policy: Policy, facts: tuple[tuple[str, float], ...] = (), notes: tuple[str, ...] = ()) -> Policy:
    return policy._replace(about=dataclasses.replace(policy.about, facts=facts, notes=notes))


def _make_menu(
    common: _Common, *, epsilon: float | None = None, central_moment_bound: float | None = None
) -> tuple[Policy, MenuParams]:
    smallest = theory.menu_smallest_horizon(common.delta)
    if common.horizon < smallest:
        raise ValueError(
            f"horizon={common.horizon}: MENU at delta={common.delta} needs T >= {smallest}"
            " (256 + 24 ln(e/delta), and one whole epoch)"
        )
    groups = theory.menu_groups(common.horizon, common.delta)
    params = MenuParams(
        ridge=common.ridge,
        theta_norm=common.theta_norm,
        central_moment_bound=_known("central_moment_bound", central_moment_bound, common),
        epsilon=number("epsilon", common.bandit.epsilon if epsilon is None else epsilon),
        radius_scale=common.radius_scale,
        horizon=float(common.horizon),
    )
    facts = (("k", groups), ("N", common.horizon // groups))
    return _with_facts(menu(common.design, groups=groups), facts), params


def _make_tofu(
    common: _Common,
    *,
    level: str = "proof",
    two_sided: bool = True,
    method: str = "pruned",
    root: str = "symmetric",
    epochs: int | None = None,
    capacity: int | None = None,
    epsilon: float | None = None,
    raw_moment_bound: float | None = None,
) -> tuple[Policy, TofuParams]:
    if epochs is not None:
        epochs = count("epochs", epochs)
        theory.tofu_retruncation_rounds(common.horizon, epochs)
    # trace(V) / lambda <= d + T D^2 / lambda bounds V's condition number. Powers of 10, and one for every lambda >= 1,
    # keep traces few.
    spread = common.bandit.dim + common.horizon * common.bandit.arm_norm**2 / min(common.ridge, 1.0)
    condition = 10.0 ** math.ceil(math.log10(1.01 * spread)) if math.isfinite(spread) else CONDITION
    if root == "symmetric" and method != "full" and condition > MAX_CONDITION:
        raise ValueError(
            f"ridge={common.ridge}: with arm_norm={common.bandit.arm_norm:.3g} and horizon={common.horizon} V may reach"
            f" the condition number {condition:.0e}, and TOFU's symmetric root covers {MAX_CONDITION:.0e}; give a"
            " larger ridge, or root='cholesky' or method='full'"
        )
    policy = tofu(
        common.design,
        level=level,
        two_sided=flag("two_sided", two_sided),
        method=method,
        root=root,
        epochs=epochs,
        history=common.horizon if method == "full" or epochs is not None else None,
        capacity=CAPACITY if capacity is None else count("capacity", capacity),
        condition=condition,
    )
    params = TofuParams(
        ridge=common.ridge,
        delta=common.delta,
        theta_norm=common.theta_norm,
        raw_moment_bound=_known("raw_moment_bound", raw_moment_bound, common),
        epsilon=number("epsilon", common.bandit.epsilon if epsilon is None else epsilon),
        radius_scale=common.radius_scale,
        horizon=float(common.horizon),
    )
    return policy, params


def _make_mom(
    common: _Common,
    *,
    radius: str = "valid",
    epsilon: float | None = None,
    central_moment_bound: float | None = None,
) -> tuple[Policy, MomParams]:
    order = number("epsilon", common.bandit.epsilon if epsilon is None else epsilon)
    schedule = theory.mom_schedule(common.horizon, delta=common.delta, epsilon=order)
    policy = mom(common.design, pulls=schedule.pulls, blocks=schedule.blocks, radius=radius)
    params = MomParams(
        ridge=common.ridge,
        delta=common.delta,
        theta_norm=common.theta_norm,
        central_moment_bound=_known("central_moment_bound", central_moment_bound, common),
        epsilon=order,
        radius_scale=common.radius_scale,
        horizon=float(common.horizon),
        epochs=float(schedule.epochs),
    )
    facts = (
        ("m", schedule.epochs),
        ("r", schedule.pulls),
        ("q", schedule.blocks),
        ("block", schedule.block_pulls),
    )
    notes: tuple[str, ...] = ()
    if schedule.shortened:
        notes = (
            f"MoM plays {schedule.epochs} epochs, fewer and longer than floor(T^(2 eps/(1 + 3 eps))), so that each of"
            f" the {schedule.blocks} blocks holds a pull",
        )
    return _with_facts(policy, facts, notes), params


def _make_crt(
    common: _Common,
    *,
    radius: str = "valid",
    scaled: bool = False,
    epsilon: float | None = None,
    raw_moment_bound: float | None = None,
) -> tuple[Policy, CrtParams]:
    params = CrtParams(
        ridge=common.ridge,
        delta=common.delta,
        theta_norm=common.theta_norm,
        raw_moment_bound=_known("raw_moment_bound", raw_moment_bound, common),
        epsilon=number("epsilon", common.bandit.epsilon if epsilon is None else epsilon),
        radius_scale=common.radius_scale,
        horizon=float(common.horizon),
    )
    return crt(common.design, radius=radius, scaled=flag("scaled", scaled)), params


def _make_oful(common: _Common, *, noise_scale: float | None = None) -> tuple[Policy, OfulParams]:
    notes: tuple[str, ...] = ()
    if noise_scale is None and not math.isfinite(common.bandit.noise_std):
        noise_scale, notes = 1.0, ("OFUL's noise_scale is 1: the noise has no finite standard deviation",)
    scale = number("noise_scale", common.bandit.noise_std if noise_scale is None else noise_scale)
    params = OfulParams(
        ridge=common.ridge,
        delta=common.delta,
        theta_norm=common.theta_norm,
        noise_scale=scale,
        radius_scale=common.radius_scale,
        horizon=float(common.horizon),
    )
    return _with_facts(oful(common.design), notes=notes), params


def _make_uniform(common: _Common) -> tuple[Policy, UniformParams]:
    return uniform(), UniformParams(horizon=float(common.horizon))


def _make_greedy(common: _Common) -> tuple[Policy, GreedyParams]:
    return greedy(common.design), GreedyParams(ridge=common.ridge, horizon=float(common.horizon))


_FACTORIES: dict[str, Callable[..., tuple[Policy, Any]]] = {
    "menu": _make_menu,
    "tofu": _make_tofu,
    "mom": _make_mom,
    "crt": _make_crt,
    "oful": _make_oful,
    "uniform": _make_uniform,
    "greedy": _make_greedy,
}


def names() -> tuple[str, ...]:
    """The names that :func:`make_policy` knows."""
    return tuple(_FACTORIES)


def options(name: str) -> dict[str, Any]:
    """A policy's own options and their defaults (None: taken from the bandit, or off).

    Raises:
        ValueError: for an unknown name; the message lists the known ones.
    """
    if name not in tuple(_FACTORIES):
        raise ValueError(f"policy {name!r}: known are {', '.join(_FACTORIES)}")
    parameters = inspect.signature(_FACTORIES[name]).parameters
    own = {key: value.default for key, value in parameters.items() if value.kind is value.KEYWORD_ONLY}
    return own if name in ("uniform", "greedy") else {**own, "theta_norm": None}


def make_policy(
    name: str,
    bandit: BanditFacts,
    *,
    horizon: int,
    delta: float = 0.1,
    ridge: float = 1.0,
    radius_scale: float = 1.0,
    **chosen: Any,
) -> tuple[Policy, Any]:
    """A policy and its parameters for a bandit.

    Args:
        name: one of :func:`names`.
        bandit: gives d, epsilon, the moment bounds b (raw) and c (central), S and D, unless they are given as options.
        horizon: T, pulls.
        delta: failure probability, in (0, 1).
        ridge: lambda, positive.
        radius_scale: multiplies every radius, beta_0 too; 1 is the paper, at least 0.
        **chosen: the policy's own options; see :func:`options` and the README's table.

    Returns:
        (policy, params). ``params`` is a NamedTuple of host floats; ``params._replace(radius_scale=0.1)`` changes one
        without a new compile.

    Raises:
        ValueError: naming the field, the value and what is allowed; nothing has been compiled by then.
    """
    known = options(name)
    for option, value in chosen.items():
        if isinstance(value, (list, dict, set)):
            raise ValueError(f"{option}={value!r}: must be a single value")
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        listing = ", ".join(known) or "none"
        raise ValueError(f"option {unknown[0]}={chosen[unknown[0]]!r}: {name} knows {listing}")
    common = _Common(
        bandit,
        horizon=count("horizon", horizon),
        delta=number("delta", delta),
        ridge=number("ridge", ridge),
        radius_scale=number("radius_scale", radius_scale),
        theta_norm=chosen.pop("theta_norm", None),
    )
    return _FACTORIES[name](common, **chosen)
