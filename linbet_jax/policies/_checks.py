"""What a policy's numbers may be: one table for ``make_policy`` and for parameters that were replaced by hand.

All checks raise ValueError, naming the field, the value and what is allowed.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import jax

from linbet_jax.theory import OWN_NORM

_POSITIVE = (lambda value: 0.0 < value < math.inf, "positive and finite")
_AT_LEAST_0 = (lambda value: 0.0 <= value < math.inf, "at least 0 and finite")
_AT_LEAST_1 = (lambda value: 1.0 <= value < math.inf, "at least 1 and finite")
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "delta": (lambda value: 0.0 < value < 1.0, "in (0, 1)"),
    "epsilon": (lambda value: 0.0 < value <= 1.0, "in (0, 1]"),
    **dict.fromkeys(("ridge", "clip_scale", "learning_rate", "clip", "threshold"), _POSITIVE),
    **dict.fromkeys(("radius_scale", "theta_norm", "arm_norm", "mean_bound", "noise_scale"), _AT_LEAST_0),
    **dict.fromkeys(("raw_moment_bound", "central_moment_bound", "quantile", "exploration"), _AT_LEAST_0),
    **dict.fromkeys(("horizon", "epochs"), _AT_LEAST_1),
}

FIELDS = frozenset(_RANGES)  # the numbers that some policy is told


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond float64
        return math.inf if value > 0 else -math.inf


def number(field: str, value: Any) -> float:
    """The value as a host float within the field's range."""
    holds, allowed = _RANGES[field]
    # An array of one number without axes has a value, unless JAX traces it.
    scalar = getattr(value, "shape", None) == () and not isinstance(value, (numbers.Number, jax.core.Tracer))
    real = value.item() if scalar else value
    if isinstance(real, bool) or not isinstance(real, numbers.Real):
        raise ValueError(f"{field}={value!r}: must be a number, {allowed}")
    host = _float(real)
    if not holds(host):
        raise ValueError(f"{field}={value!r}: must be {allowed}")
    return host


def count(field: str, value: Any) -> int:
    """The value as a whole number, at least 1."""
    host = math.nan if isinstance(value, bool) or not isinstance(value, numbers.Real) else _float(value)
    if not (host.is_integer() and host >= 1):
        raise ValueError(f"{field}={value!r}: must be a whole number, at least 1")
    return int(host)


def flag(field: str, value: Any) -> bool:
    """The value, which must be True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{field}={value!r}: must be True or False")
    return value


def choice(field: str, value: Any, *allowed: str, between: str = " and ") -> None:
    """Checks that the value is one of these."""
    if value not in allowed:
        raise ValueError(f"{field}={value!r}: allowed are {between.join(map(repr, allowed))}")


def check_params(params: Any) -> None:
    """Check every known field of a NamedTuple of host numbers; `OWN_NORM` as theta_norm is the caller's to judge."""
    if not hasattr(params, "_asdict"):
        raise ValueError(
            f"params={type(params).__name__}: must be the NamedTuple that make_policy returned for this policy"
        )
    for field, value in params._asdict().items():
        if field in _RANGES and not (field == "theta_norm" and value == OWN_NORM):
            number(field, value)


def check_plan(
    plan: Callable[..., Any], made: Any, need: str | Callable[[Any], str], *fields: str
) -> Callable[[Any], None]:
    """A check of hyperparameters for a policy whose shapes were planned from the horizon and these fields.

    What other ones need is said in words, or by a function of their plan. ``plan(horizon, field=..., ...)`` must stay
    what the policy was made for.
    """

    def check(params: Any) -> None:
        check_params(params)
        values = {field: getattr(params, field) for field in fields}
        needed = plan(int(params.horizon), **values)
        if needed != made:
            values |= {"horizon": f"{params.horizon:.0f}"}
            listing = ", ".join(f"{field}={value}" for field, value in values.items())
            words = need if isinstance(need, str) else need(needed)
            they, them = ("they need", "these parameters") if fields else ("it needs", "it")
            raise ValueError(f"{listing}: {they} {words}; make_policy again instead of replacing {them}")

    return check
