"""Whether a policy's functions fit the protocol: each is traced once, abstractly, as the simulator will call it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from linbet_jax.kernels.balls import Ball
from linbet_jax.policies.policy import Policy, WrongResult, updated

_ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (jax.errors.TracerBoolConversionError, "use jnp.where or jax.lax.cond where Python's `if` meets an array"),
    (jax.errors.TracerArrayConversionError, "use jax.numpy where NumPy meets an array of the simulation"),
    (jax.errors.TracerIntegerConversionError, "use jnp.take or jax.lax.dynamic_slice where an array is an index"),
    (
        jax.errors.ConcretizationTypeError,
        "leave arrays what they are: float(), int() and shapes need Python's numbers",
    ),
    (jax.errors.UnexpectedTracerError, "return what is computed instead of keeping it outside the function"),
)


def check_policy(policy: Policy, params: Any, arms: Any, *, changing: bool, coverage: bool) -> None:
    """Trace the functions that a run calls, and say in a sentence what does not fit.

    `params` and `arms` say shapes and dtypes: of its parameters, in the structure that it gets, and of a decision set
    [K, d] or a `Ball`, which may be `changing` from pull to pull. With `coverage` its region is asked about theta*.

    Raises:
        ValueError: naming the policy, the function and what is wrong with it.
    """
    name, ball = policy.name, isinstance(arms, Ball)
    dim, floating = (arms.dim, arms.radius.dtype) if ball else (arms.shape[1], arms.dtype)
    first = None if changing else arms
    key = jax.eval_shape(lambda: jax.random.key(0))
    chosen = jax.ShapeDtypeStruct((dim,), floating) if ball else jax.ShapeDtypeStruct((), jnp.int32)
    payoffs = jax.ShapeDtypeStruct((policy.pulls_per_epoch,), floating)

    def traced(function: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return jax.eval_shape(call, *arguments)
        except WrongResult as error:
            raise ValueError(f"policy {name}: {error}") from error
        except Exception as error:  # whatever a user's function raises while it is traced
            raise ValueError(f"policy {name}: {function} {_reason(error, policy, arms)}") from error

    state = traced("init", policy.init, first, params)
    index = traced("select", policy.select, key, state, arms, params)
    shape, dtype = getattr(index, "shape", None), getattr(index, "dtype", None)
    if ball and (shape != (dim,) or dtype != floating):
        raise ValueError(f"policy {name}: select must return an arm of the ball, {floating}[{dim}], not {_kind(index)}")
    if not ball and (shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.integer)):
        raise ValueError(f"policy {name}: select must return one integer, not {_kind(index)}")
    for update in policy.updates:
        with_scales = functools.partial(updated, update)
        after = traced("update", with_scales, state, arms, chosen, payoffs, payoffs, params)
        _same_state(name, "update", state, after)
    if policy.refresh is not None:
        _same_state(name, "refresh", state, traced("refresh", policy.refresh, state, first, params))
    overflowed = None if policy.buffers is None else policy.buffers.overflowed
    for function, call in (("finite", policy.finite), ("overflowed", overflowed)):
        if call is not None and getattr(result := traced(function, call, state), "shape", None) != ():
            raise ValueError(f"policy {name}: {function} must return one truth value, not {_kind(result)}")
    if policy.region is not None:
        _check_region(policy, state, first, params, dim, coverage, traced)


def _check_region(
    policy: Policy, state: Any, arms: Any, params: Any, dim: int, coverage: bool, traced: Callable[..., Any]
) -> None:
    region = policy.region
    assert region is not None

    def parts(state: Any, arms: Any, params: Any) -> Any:
        center, radius, norm = region(state, arms, params)
        return center, None if radius is None or norm is None else (radius, norm(center))

    center, pair = traced("region", parts, state, arms, params)
    bounded = pair is not None
    if getattr(center, "shape", None) != (dim,):
        raise ValueError(f"policy {policy.name}: region's center must have the shape [{dim}], not {_kind(center)}")
    shapes = [getattr(part, "shape", None) for part in jax.tree.leaves(pair)]
    if bounded and shapes != [(), ()]:
        raise ValueError(f"policy {policy.name}: region's radius and norm must be one number each, not {shapes}")
    if coverage and not bounded:
        raise ValueError(f"coverage=True: policy {policy.name} has no confidence region")


def _reason(error: Exception, policy: Policy, arms: Any) -> str:
    """What went wrong in a function, in words, and what to write instead where that is known."""
    if isinstance(arms, Ball):
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return f"does not fit the arms of a ball, which are no list: {first}; make the policy for this bandit"
    setting = (
        f"does not fit {arms.shape[0]} arms of dimension {arms.shape[1]}, {policy.pulls_per_epoch} pulls per epoch and"
        f" {arms.dtype}"
    )
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return f"cannot be compiled: {advice}"
    if isinstance(error, AttributeError | KeyError):
        return f"{setting}: {type(error).__name__}: {error}; does it ask for a parameter that params does not have?"
    message = str(error)
    shapes = re.findall(r"\((?:\d+, ?)*\d+,?\)", message)
    if policy.about.check is not None and len(shapes) > 1:  # the package's own fit the bandit they are made for
        met = " and ".join(f"[{shape.strip('(),')}]" for shape in shapes[:2])
        return f"{setting}: it was made for another decision set (shapes {met} meet); make the policy for this bandit"
    return f"{setting}: {message.splitlines()[0] if message else type(error).__name__}"


def _kind(value: Any) -> str:
    """A dtype and a shape, or the type of what has none."""
    return f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else type(value).__name__


def _same_state(policy: str, function: str, state: Any, after: Any) -> None:
    """Refuse a function that changes the structure, a shape or a dtype of the state."""
    before, behind = (str(jax.tree.structure(tree)) for tree in (state, after))
    if before != behind:
        raise ValueError(f"policy {policy}: {function} must return a state of the structure that init returns")
    for (path, old), new in zip(jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(after), strict=True):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ValueError(
                f"policy {policy}: {function} changes the state{jax.tree_util.keystr(path)} from"
                f" {old.dtype}{list(old.shape)} to {new.dtype}{list(new.shape)}"
            )
