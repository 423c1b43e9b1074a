"""What decides a run's numbers and where they came from: versions, code, device, random keys."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from linbet_jax._version import __version__
from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.storage import sources

_COMPUTING = ("linbet_jax.sweep.work", "linbet_jax.statistics.tuning")  # whose numbers are kept: all that is in a cell


def sources_of(*modules: str) -> dict[str, bytes]:
    """What is written in the files of this package that importing these modules runs, by their places in it."""
    home = Path(__file__).parent.parent
    files = [file for module in modules for file in sources.files(home.parent, module)]
    held = sources.reached(files, home.parent, lambda name: name.partition(".")[0] == home.name)
    return {path.relative_to(home.parent).as_posix(): source.statements for path, source in held.items()}


@functools.cache
def code_digest(*modules: str) -> str:
    """Hash of what is written in the modules that compute the numbers, and in all of this package that they import.

    Files that only draw, print or keep are not among them, and comments, docstrings and layout count nowhere.
    """
    total = hashlib.sha256()
    for name, statements in sorted(sources_of(*modules).items()):
        total.update(f"{name}\0".encode() + statements + b"\0")
    return total.hexdigest()[:16]


def instance_digest(bandit: LinearBandit, recipe: object = None) -> str:
    """Hash of what is played: arms and theta_star to the last bit, law, and every constant a policy is told.

    `recipe` is what else makes it, by its `repr`. ValueError where a function draws arms or theta_star and there is no
    recipe, or where the law holds what a later run cannot compare.
    """
    if bandit.norm_ball is not None:
        recipe = (bandit.norm_ball, recipe)
    if recipe is None and (bandit.arms is None or bandit.theta_star is None):
        raise ValueError(f"{bandit.name} has no fixed instance to hash")
    total = hashlib.sha256()
    for array in (bandit.arms, bandit.theta_star):
        if array is not None:
            total.update(f"{array.shape}".encode() + np.ascontiguousarray(array, dtype="<f8").tobytes())
    try:
        law = _content(bandit.noise)
    except (TypeError, RecursionError) as error:
        allowed = "numbers, strings, arrays, and functions and classes of a module"
        raise ValueError(f"noise: {type(bandit.noise).__name__} must hold {allowed} alone, got {error}") from error
    total.update(repr((law, sorted(constants(bandit).items()))).encode())
    if recipe is not None:
        total.update(repr(recipe).encode())
    return total.hexdigest()[:16]


def _content(value: Any) -> Any:
    """A value as plain data without memory addresses: what pickling takes down; TypeError for what has none."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return array.dtype.str, array.shape, _content(array.tolist())
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if type(value) in (list, tuple):
        return [_content(entry) for entry in value]
    if type(value) in (set, frozenset):
        return sorted(repr(_content(entry)) for entry in value)
    if type(value) is dict:
        return sorted((repr(_content(key)), _content(entry)) for key, entry in value.items())
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        if not isinstance(value, type) and "<" in value.__qualname__:  # a lambda, or what closes over values
            raise TypeError(repr(value))
        return value.__qualname__
    try:
        parts = value.__reduce_ex__(2)
    except TypeError:
        raise TypeError(repr(value)) from None
    return [_content(list(part) if isinstance(part, Iterator) else part) for part in parts]


def constants(bandit: LinearBandit) -> dict[str, float]:
    """The numbers a policy may be told, under the names of the paper and of this package."""
    fields = ("epsilon", "raw_moment_bound", "central_moment_bound", "theta_norm", "arm_norm", "mean_bound")
    return {name: float(getattr(bandit, name)) for name in fields}


def numerics(dtype: str, kind: str, modules: Sequence[str] = _COMPUTING) -> dict[str, Any]:
    """What decides the numbers, computed by these modules on a device with this name, beside the experiment itself.

    Two runs with other values here are two runs.
    """
    settings: Any = jax.config
    return {
        "dtype": dtype,
        "device_kind": kind,
        "prng": str(settings.jax_default_prng_impl),
        "prng_partitionable": bool(settings.jax_threefry_partitionable),
        "linbet_jax": __version__,
        "code": code_digest(*modules),
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
    }


def environment(devices: str) -> dict[str, Any]:
    """Where a run took place, for the record only."""
    return {
        "devices": devices,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": importlib.metadata.version("scipy"),
        "platform": platform.platform(),
    }
