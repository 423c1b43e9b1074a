"""What ``simulate`` is given, checked on the host before anything compiles: one clear sentence per mistake."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.policies.policy import Policy
from linbet_jax.theory import OWN_NORM

CPU_BLOCK = 16  # seeds per block: measured fastest from 8 to 64, and small runs waste least
MAX_CPU_BLOCK = 64  # batched LAPACK calls of 128 and more can hang for good on several CPU devices in JAX 0.10
GPU_STEP = 128  # a block on a GPU holds a multiple of it
GPU_BLOCK_BYTES = 2**27  # of state in a block there: 4000 to 5000 seeds of MENU and TOFU
MAX_GPU_BLOCK = 2**16


def x64_enabled() -> bool:
    """Whether JAX computes in 64 bits at present."""
    return bool(getattr(jax.config, "jax_enable_x64", False))


def whole_number(field: str, value: Any, least: int) -> int:
    """The value as an int, at least ``least``; the ValueError names field and value."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{field}={value!r}: must be a whole number, at least {least}")
    return int(value)


def is_number(text: str) -> bool:
    """Whether an entry of a text file is a number, as Python reads one."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def block_of(block_size: int | None, on_cpu: bool, rows: int, seed_bytes: Callable[[], int]) -> int:
    """Seeds per block for ``rows`` replications on each device, each with so many bytes of state.

    On a GPU as many as `GPU_BLOCK_BYTES` hold, shared out so that the last block is nearly full too.
    """
    if block_size is None:
        if on_cpu:
            return CPU_BLOCK
        most = min(MAX_GPU_BLOCK, max(GPU_STEP, GPU_BLOCK_BYTES // max(1, seed_bytes()) // GPU_STEP * GPU_STEP))
        blocks = -(-rows // most)
        return -(-rows // (blocks * GPU_STEP)) * GPU_STEP
    block = whole_number("block_size", block_size, 1)
    if on_cpu and block > MAX_CPU_BLOCK:
        raise ValueError(
            f"block_size={block}: must be at most {MAX_CPU_BLOCK} on CPU, since larger batches can hang JAX 0.10"
        )
    return block


def kind(value: Any) -> str:
    """A short name for something that is not what was expected."""
    return repr(value) if isinstance(value, str) else type(value).__name__


def check_dtype(dtype: npt.DTypeLike | None) -> str:
    """The run's dtype by name: float32 or float64, and only with 64 bits enabled."""
    if dtype is None:
        return str(jnp.zeros(()).dtype)
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r}: allowed are float32 and float64")
    if name == "float64" and not x64_enabled():
        raise ValueError("dtype='float64': needs jax.config.update('jax_enable_x64', True) first")
    return name


def check_devices(devices: Any) -> tuple[Any, ...]:
    """The devices to use, each once; the local ones by default."""
    if devices is None:
        default = getattr(jax.config, "jax_default_device", None)
        return (default,) if isinstance(default, jax.Device) else tuple(jax.local_devices(backend=default))
    chosen = tuple(devices) if isinstance(devices, (list, tuple)) else ()
    if not chosen or len(set(chosen)) != len(chosen) or not all(isinstance(device, jax.Device) for device in chosen):
        raise ValueError(
            f"devices={devices!r}: must name at least one device, each once: jax.devices()[:2] for example"
        )
    return chosen


def _integers(field: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    array: npt.NDArray[Any]
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.zeros((0, 0))
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{field}={value!r}: must be a non-empty one-dimensional array of integers")
    return array


def check_seeds(num_seeds: int | None, seeds: npt.ArrayLike | None) -> npt.NDArray[np.uint32]:
    """The seeds as uint32 [S], distinct."""
    if (num_seeds is None) == (seeds is None):
        raise ValueError(f"num_seeds={num_seeds!r}, seeds={seeds!r}: exactly one of the two must be given")
    if seeds is None:
        if whole_number("num_seeds", num_seeds, 1) > 2**32:
            raise ValueError(f"num_seeds={num_seeds}: must be at most 2^32, the number of seeds there are")
        return np.arange(int(num_seeds or 0), dtype=np.uint32)
    array = _integers("seeds", seeds)
    if array.min() < 0 or array.max() >= 2**32:
        raise ValueError(f"seeds={seeds!r}: must lie in 0..2^32 - 1")
    if np.unique(array).size != array.size:
        raise ValueError(f"seeds={seeds!r}: must be distinct; a repeated seed is not a new replication")
    return array.astype(np.uint32)


def check_rounds(horizon: int, num_records: int, record_at: npt.ArrayLike | None) -> npt.NDArray[np.int64]:
    """The pulls to record at, [R] int64, ending at the horizon."""
    if record_at is None:
        count = min(whole_number("num_records", num_records, 1), horizon)
        return np.array([-(-j * horizon // count) for j in range(1, count + 1)], np.int64)
    array = _integers("record_at", record_at)
    if array[0] < 1 or array[-1] > horizon or np.any(np.diff(array) <= 0):
        raise ValueError(f"record_at={record_at!r}: must increase within 1..{horizon}")
    array = array.astype(np.int64)
    return array if array[-1] == horizon else np.append(array, horizon)


def check_on_host(function: str, *arguments: Any) -> None:
    """Raises ValueError inside of a transformation: what is traced there cannot decide anything here."""
    leaves = jax.tree.leaves((arguments, jnp.zeros(())))  # under jit a new array is traced too
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise ValueError(f"{function} runs on the host: call it outside jit, vmap, grad and the like")


def check_key(key: Any) -> None:
    """Raises ValueError unless it is one typed key."""
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()):
        raise ValueError(f"key={key!r}: must be one typed key, jax.random.key(0) for example")


# Squared widths begin at ||x||^2 / lambda and are near 1 after the arm's first update: rounding leaves up to eps times
# their ratio of them. Measured in float32 until the first refresh, for d = 5 to 50 and 60 arms: widths are off by up to
# 1% at a ratio of 5e3, 5% at 3e4, 15% at 1e5, and by themselves at 5e5.
LARGEST_LOSS = 2.0**-7


def _check_ridge(ridge: float, bandit: LinearBandit, dtype: str) -> None:
    """Raises ValueError for a ridge that updates by rank one cannot follow in this dtype."""
    norm = bandit.arm_norm
    arms: Any = bandit.arms
    if bandit.generator is not None and norm == OWN_NORM:  # one of the fresh instances stands for all
        arms, _ = bandit.generator(jax.random.key(0, impl="threefry2x32"))
    if arms is not None:
        norm = float(np.max(np.linalg.norm(np.asarray(arms, np.float64), axis=1)))
    least = norm * norm * float(np.finfo(dtype).eps) / LARGEST_LOSS
    if ridge < least:
        other = "; dtype='float64' follows smaller ones" if dtype == "float32" else ""
        raise ValueError(
            f"ridge={ridge!r}: must be at least {least:.2g} in {dtype} for arms as long as {norm:.3g}, or rounding"
            f" spoils their widths{other}"
        )


def check_params(policy: Policy, params: Any, bandit: LinearBandit, horizon: int, dtype: str) -> None:
    """Checks a policy's parameters against the policy, the bandit, the horizon and the dtype of the run."""
    pulls = policy.pulls_per_epoch
    if horizon < pulls:
        raise ValueError(f"horizon={horizon}: {policy.name} needs at least one epoch of {pulls} pulls")
    made_for = getattr(params, "horizon", None)
    if isinstance(made_for, (int, float)) and horizon > made_for:
        raise ValueError(
            f"horizon={horizon}: {policy.name}'s parameters were made for horizon={made_for:.0f}; make new ones"
        )
    most = None if policy.buffers is None else policy.buffers.max_pulls
    if most is not None and horizon > most:
        raise ValueError(f"horizon={horizon}: this {policy.name} keeps at most {most} pulls; make a new one")
    if policy.about.check is not None:
        policy.about.check(params)
        ridge = getattr(params, "ridge", None)  # without a check it is one's own, and may mean anything
        if isinstance(ridge, numbers.Real):
            _check_ridge(float(ridge), bandit, dtype)
    if not bandit.resampling and getattr(params, "theta_norm", 0.0) == OWN_NORM:
        raise ValueError("theta_norm=inf: goes only with a bandit that draws a fresh instance per replication")
