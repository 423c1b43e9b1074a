"""The registry: each policy's file registers it here, and :func:`make_policy` makes it from a name and a bandit.

What the rest of the package must know about a policy by name (how it is written, its colour, its cost, its rate) stands
in its own file and is read from here. A package of one's own registers more of them in the same way; the entry-point
group ``linbet_jax.policies`` names modules to import for the command line.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.metadata
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from linbet_jax.policies._checks import FIELDS, choice, count, number
from linbet_jax.policies.designs import Design, design_of
from linbet_jax.policies.policy import Policy
from linbet_jax.theory import BOUNDED, regret_exponent


class BanditFacts(Protocol):
    """What a policy may know of a bandit: never theta*, the means or the noise law."""

    @property
    def dim(self) -> int:
        """d."""

    @property
    def num_arms(self) -> int:
        """K."""

    @property
    def changing(self) -> bool:
        """Whether the decision set changes from pull to pull."""

    @property
    def epsilon(self) -> float:
        """The order of the moments is 1 + epsilon; 0 where payoffs have no mean."""

    @property
    def raw_moment_bound(self) -> float:
        """b."""

    @property
    def central_moment_bound(self) -> float:
        """c."""

    @property
    def theta_norm(self) -> float:
        """S."""

    @property
    def arm_norm(self) -> float:
        """D."""

    @property
    def mean_bound(self) -> float:
        """L >= |<x, theta*>|."""

    @property
    def noise_std(self) -> float:
        """Largest standard deviation of a payoff over the arms; infinite where there is none."""

    @property
    def symmetric_noise(self) -> bool | None:
        """Whether payoffs lie symmetrically about their means; None where nobody says."""


class Setup(NamedTuple):
    """What every factory is given, checked: the bandit's known constants and the common arguments.

    Its methods raise ValueError, naming the field, the value and what is allowed.

    Attributes:
        bandit: what a policy may know of it.
        design: the fastest one for its decision sets.
        horizon: T, pulls.
        delta: failure probability.
        ridge: lambda.
        radius_scale: multiplies every radius.
        theta_norm: S; infinite for a bandit that draws a fresh theta* per replication, whose own norm is used then.
        given: constants of the bandit that were given as options; see :attr:`Entry.told`.
    """

    bandit: BanditFacts
    design: Design
    horizon: int
    delta: float
    ridge: float
    radius_scale: float
    theta_norm: float
    given: Mapping[str, Any]

    def known(self, field: str, given: Any = None) -> float:
        """A constant of the bandit (epsilon, a moment bound, D) unless one is given, here or as an option, checked."""
        given = self.given.get(field) if given is None else given
        if given is not None:
            return number(field, given)
        value = getattr(self.bandit, field)
        if value == math.inf:
            raise ValueError(f"{field}=inf: the bandit has no finite one; give the policy {field} as an option")
        return number(field, value)

    def params(self, kind: Any, **numbers: Any) -> Any:
        """A policy's hyperparameters, a NamedTuple of this kind: these numbers, and all others from here."""

        def value(field: str) -> Any:
            if field == "horizon":
                return float(self.horizon)
            if field in self._fields:
                return getattr(self, field)
            if field not in _TOLD or (self.given.get(field) is None and not hasattr(self.bandit, field)):
                raise ValueError(f"{field}: the bandit has no such constant; give it by name, params(..., {field}=...)")
            return self.known(field)

        return kind(**numbers, **{field: value(field) for field in kind._fields if field not in numbers})

    def central_moment(self, policy: str, heteroscedastic: bool) -> float:
        """c of a policy that may be shown the scales of its payoffs: of the noise divided by its scale, if it is."""
        if not heteroscedastic:
            return self.known("central_moment_bound")
        given = self.given.get("central_moment_bound")
        unit = getattr(self.bandit, "unit_moment_bound", None)
        if unit is None:
            raise ValueError(
                f"heteroscedastic=True: {policy} then sees the scale of each payoff, and this bandit's noise reveals"
                " none; noise.Heteroscedastic does"
            )
        if given is None and unit == math.inf:
            raise ValueError(
                "central_moment_bound=inf: this bandit's law has no unit_moment; give the policy central_moment_bound"
                " as an option, of the noise divided by its scale"
            )
        return number("central_moment_bound", unit if given is None else given)

    def noise_scale(self, label: str) -> tuple[float, tuple[str, ...]]:
        """R of a policy made for sub-Gaussian noise: the one given, else the standard deviation; and notes.

        Where there is none it is 1, and the note says so.
        """
        given = self.given.get("noise_scale")
        if given is None and not math.isfinite(self.bandit.noise_std):
            return 1.0, (f"{label}'s noise_scale is 1: the noise has no finite standard deviation",)
        return number("noise_scale", self.bandit.noise_std if given is None else given), ()


class Cost(NamedTuple):
    """Microseconds of one core for one pull of one replication, roughly: base + per_value K d + per_square d^2."""

    base: float
    per_value: float
    per_square: float


_LIKE_OFUL = Cost(0.17, 4e-4, 4e-4)  # measured on an AMD EPYC in float64 on S1 to S4, as all costs
PASS_MICROSECONDS = 3e-4  # of one of TOFU's passes over its whole history, per pull in it and per d^2
Factory = Callable[..., tuple[Policy, Any]]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A registered policy.

    Attributes:
        name: as :func:`make_policy` knows it.
        make: ``(setup, **options) -> (policy, params)``; keyword-only arguments are its options.
        label: as legends and tables write it.
        told: further options, of constants that `Setup.params` takes from the bandit where they are not given.
        color: of its curves, as #RRGGBB; None takes one that is free.
        cost: what a pull costs, for the estimates that commands give before they start.
        source: the paper it comes from.
        assumption: what it asks of the noise.
        moment: ``"raw_moment_bound"`` or ``"central_moment_bound"``, which it is told, or None; by default the first of
            these in `told`.
        rate: epsilon -> the exponent of T in its regret bound, logarithms apart; by default
            :func:`linbet_jax.theory.regret_exponent`, where that has the policy. None where nothing is proved.
        regret: that bound in d and T, logarithms apart, as tables write it.
        valid: the play for which its guarantee is proved, as tables write it: ``"adaptive"`` (arms chosen from what was
            seen, as it plays), ``"in advance"`` (arms chosen before) or empty.
        sets: the decision sets that it plays; ``"any"`` are lists of arms, fixed or changing, and balls.
        time: of a pull, as tables write it: K arms in d dimensions.
        memory: of one replication, likewise.
        needs_mean: whether it refuses noise without a mean.
    """

    name: str
    make: Factory
    label: str
    told: tuple[str, ...] = ()
    color: str | None = None
    cost: Cost = _LIKE_OFUL
    source: str = ""
    assumption: str = ""
    moment: str | None = None
    rate: Callable[[Any], Any] | None = None
    regret: str = ""
    valid: str = ""
    sets: str = "any"
    time: str = ""
    memory: str = ""
    needs_mean: bool = True

    def check_mean(self, bandit: BanditFacts) -> None:
        """Raises ValueError where the noise has no mean, and the policy needs one."""
        if self.needs_mean and bandit.epsilon == 0.0:
            missing = _MOMENTS.get(self.moment or "", "E|payoff|")
            others = ", ".join(name for name in names() if not entry(name).needs_mean)
            raise ValueError(
                f"bandit: {self.name} needs a finite {missing}, and this bandit's noise has no mean; policies that need"
                f" no moment are {others}"
            )


_MOMENTS = {
    "raw_moment_bound": "moment E|payoff|^(1 + epsilon)",
    "central_moment_bound": "moment E|payoff - mean|^(1 + epsilon)",
}
_TOLD = (*_MOMENTS, "epsilon", "theta_norm", "arm_norm", "mean_bound", "noise_scale")  # what may be `told`
_ENTRIES: dict[str, Entry] = {}


def register(name: str, *, label: str | None = None, **about: Any) -> Callable[[Factory], Factory]:
    """Registers the decorated factory as a policy; see :class:`Entry` for the arguments, all optional.

    Raises:
        ValueError: another factory has the name already, or `told` names what is no constant of a bandit, or an option
            that the factory has itself.
    """

    def registered(make: Factory) -> Factory:
        existing = _ENTRIES.get(name)
        origin = make.__module__, make.__qualname__
        if existing is not None and (existing.make.__module__, existing.make.__qualname__) != origin:
            raise ValueError(f"policy {name!r}: registered already, by {existing.make.__module__}")
        for field in about.get("told", ()):
            choice("told", field, *_TOLD, between=", ")
            if field in inspect.signature(make).parameters:
                raise ValueError(f"told={field!r}: {name} has an option of this name itself; leave out one of the two")
        rate = functools.partial(regret_exponent, name) if name in BOUNDED else None
        moment = next((field for field in about.get("told", ()) if field in _MOMENTS), None)
        _ENTRIES[name] = Entry(name, make, label or name, **{"rate": rate, "moment": moment, **about})
        return make

    return registered


@functools.cache
def _load_entry_points() -> None:
    for point in importlib.metadata.entry_points(group="linbet_jax.policies"):
        point.load()


def names() -> tuple[str, ...]:
    """The names that :func:`make_policy` knows."""
    _load_entry_points()
    return tuple(_ENTRIES)


def entry(name: str) -> Entry:
    """A registered policy.

    Raises:
        ValueError: for an unknown name; the message lists the known ones.
    """
    if str(name) not in names():
        raise ValueError(f"policy {name!r}{_meant(str(name), names())}: known are {', '.join(names())}")
    return _ENTRIES[name]


def policy_label(policy: str, radius_scale: float = 1.0) -> str:
    """Name of a policy as legends and tables write it; every radius_scale but the paper's 1 is in it."""
    name = entry(policy).label if policy in names() else policy
    return name if radius_scale == 1.0 else f"{name} ×{radius_scale:g}"


def pull_microseconds(policy: str, *, num_arms: int, dim: int, passes: int = 0) -> float:
    """Estimated cost of one pull of one replication, in microseconds of one core; of an unknown policy, OFUL's.

    `passes` is how often a pull goes over what it knows of all earlier ones, 0 for a policy that never does: T for TOFU
    by its full method.
    """
    cost = entry(policy if policy in names() else "oful").cost
    return cost.base + cost.per_value * num_arms * dim + (cost.per_square + PASS_MICROSECONDS * passes) * dim * dim


def _meant(name: str, known: Iterable[str]) -> str:
    """The known name that is most like one, in brackets."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f" (did you mean {close[0]}?)" if close else ""


def options(name: str) -> dict[str, Any]:
    """A policy's own options and their defaults (None: taken from the bandit, or off)."""
    parameters = inspect.signature(entry(name).make).parameters
    factory_options = {key: value.default for key, value in parameters.items() if value.kind is value.KEYWORD_ONLY}
    return factory_options | dict.fromkeys(entry(name).told)


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
        **chosen: the policy's own options; see :func:`options` and the README beside this file.

    Returns:
        (policy, params). ``params`` is a NamedTuple of host floats; ``params._replace(radius_scale=0.1)`` changes one
        without a new compile.

    Raises:
        ValueError: naming the field, the value and what is allowed; nothing has been compiled by then.
    """
    about = entry(name)
    if not (hasattr(bandit, "changing") and hasattr(bandit, "raw_moment_bound")):
        raise ValueError(f"bandit={bandit!r}: must be a linbet_jax.LinearBandit, dataset('S3') for example")
    about.check_mean(bandit)
    return made(name, bandit, horizon=horizon, delta=delta, ridge=ridge, radius_scale=radius_scale, **chosen)


def made(
    name: str, bandit: BanditFacts, *, horizon: Any, delta: Any, ridge: Any, radius_scale: Any, **chosen: Any
) -> tuple[Policy, Any]:
    """What :func:`make_policy` makes, whether or not the noise has the mean that the policy needs."""
    if getattr(bandit, "norm_ball", None) is not None and entry(name).sets != "any":
        others = ", ".join(other for other in names() if entry(other).sets == "any")
        raise ValueError(
            f"bandit: {name} needs a finite list of arms, and this bandit's are a ball; policies that play it: {others}"
        )
    known = options(name)
    for option, value in chosen.items():
        if isinstance(value, (list, dict, set)):
            raise ValueError(f"{option}={value!r}: must be a single value")
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        option, listing = unknown[0], ", ".join(known) or "none"
        guess = "" if option in FIELDS else _meant(option, (*known, "horizon", "delta", "ridge", "radius_scale"))
        raise ValueError(f"option {option}={chosen[option]!r}{guess}: {name} knows {listing}")
    norm = chosen.get("theta_norm")
    about = entry(name)
    setup = Setup(
        bandit=bandit,
        design=design_of(bandit),
        horizon=count("horizon", horizon),
        delta=number("delta", delta),
        ridge=number("ridge", ridge),
        radius_scale=number("radius_scale", radius_scale),
        theta_norm=float(bandit.theta_norm) if norm is None else number("theta_norm", norm),
        given={field: chosen.pop(field) for field in about.told if field in chosen},
    )
    return about.make(setup, **chosen)
