"""Kernels, one problem at a time and vmapped over a block of 16, without the cost of launching a program."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from baseline import Baseline
from timing import Clock, Measurement, interleave, timed

from linbet_jax.kernels import (
    doubtful_init,
    doubtful_update,
    inverse_sqrt,
    median_center,
    median_of_means,
    optimistic_arm,
    ridge_estimates,
    shifted_inverses,
    shifted_inverses_update,
    truncated_estimate,
)

__all__ = ["measure"]

BLOCK = 16  # problems side by side: the simulator's block of seeds on CPU
GROUPS = 317  # k of MENU at T = 20000, delta = 0.1
HISTORY = 5_000  # payoffs in the full truncation pass: the mean over a run of T = 10000
CAPACITY = 24  # doubtful payoffs kept
CONDITION = 1e6
_LOOPS = 32  # calls of a kernel inside one program
_SAMPLE_SECONDS = 0.05


class _Kernel(NamedTuple):
    name: str
    function: Callable[..., Any]  # of arrays of one problem
    make: Callable[[np.random.Generator], tuple[Any, ...]]  # one problem's arrays
    numpy: Callable[[Any, tuple[Any, ...]], Any] | None = None  # (baseline module, arrays) -> the same


def _arms(rng: np.random.Generator, dim: int) -> Any:
    return rng.uniform(size=(20 if dim == 10 else 100, dim))


def _gram(rng: np.random.Generator, dim: int) -> Any:
    arms = _arms(rng, dim)
    return np.eye(dim) + arms.T @ (rng.integers(1, 200, len(arms))[:, None] * arms)


def _kernels(dim: int) -> Iterable[_Kernel]:
    def history(rng: np.random.Generator) -> tuple[Any, ...]:
        features = _arms(rng, dim)[rng.integers(0, 20, HISTORY)]
        return features, rng.pareto(2.0, HISTORY) + 1, np.eye(dim) + features.T @ features, np.asarray(2.0)

    def doubtful(rng: np.random.Generator) -> tuple[Any, ...]:
        gram = _gram(rng, dim)
        state = jax.tree.map(np.asarray, doubtful_init(dim, CAPACITY))
        return state, _arms(rng, dim)[0], np.asarray(3.0), np.linalg.inv(np.linalg.cholesky(gram)), np.asarray(2.0)

    def shifted(rng: np.random.Generator) -> tuple[Any, ...]:
        built = jax.tree.map(np.asarray, shifted_inverses(jnp.asarray(_gram(rng, dim)), jnp.asarray(1.0), CONDITION))
        return built, _arms(rng, dim)[0], np.asarray(1.0)

    suffix = f"d={dim}"
    yield _Kernel(
        f"median_center k={GROUPS} {suffix}",
        median_center,
        lambda rng: (rng.standard_t(3.0, (GROUPS, dim)), _gram(rng, dim)),
        lambda module, arrays: module.median_center(*arrays),
    )
    yield _Kernel(
        f"ridge_estimates k={GROUPS} {suffix}",
        ridge_estimates,
        lambda rng: (_gram(rng, dim), rng.standard_t(3.0, (dim, GROUPS))),
    )
    yield _Kernel(
        f"truncated_estimate n={HISTORY} {suffix}",
        truncated_estimate,
        history,
        lambda module, arrays: module.truncated_estimate(
            (arrays[0] * arrays[1][:, None]).T, module.inverse_sqrt(arrays[2]), arrays[3]
        ),
    )
    yield _Kernel(f"doubtful_update capacity={CAPACITY} {suffix}", doubtful_update, doubtful)
    yield _Kernel(
        f"shifted_inverses_update {suffix}",
        functools.partial(shifted_inverses_update, condition=CONDITION),
        shifted,
    )
    yield _Kernel(
        f"inverse_sqrt {suffix}",
        inverse_sqrt,
        lambda rng: (_gram(rng, dim),),
        lambda module, arrays: module.inverse_sqrt(*arrays),
    )
    yield _Kernel(
        f"optimistic_arm K={20 if dim == 10 else 100} {suffix}",
        optimistic_arm,
        lambda rng: (_arms(rng, dim), rng.uniform(size=dim), np.linalg.inv(_gram(rng, dim)), np.asarray(10.0)),
        lambda module, arrays: module.optimistic(*arrays),
    )


def _looped(function: Callable[..., Any]) -> Any:
    """A program that calls a kernel again and again, each call waiting for all of the last one's results."""

    @jax.jit
    def program(arrays: tuple[Any, ...]) -> jax.Array:
        leaves, structure = jax.tree.flatten(arrays)
        first = next(i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating))

        def call(_: int, total: jax.Array) -> jax.Array:
            tied = [leaf + 0.0 * total if i == first else leaf for i, leaf in enumerate(leaves)]
            out = function(*jax.tree.unflatten(structure, tied))
            sums = [jnp.sum(leaf.astype(total.dtype)) for leaf in jax.tree.leaves(out)]
            return functools.reduce(jnp.add, sums)

        return jax.lax.fori_loop(0, _LOOPS, call, jnp.zeros((), leaves[first].dtype))

    return program


def measure(baseline: Baseline, *, repeats: int, dims: tuple[int, ...]) -> list[Measurement]:
    """Microseconds per problem of every kernel in float64, single and vmapped, and of NumPy's where it has one."""
    found: list[Measurement] = []
    for dim in dims:
        kernels = [*_kernels(dim), *([_mom()] if dim == dims[0] else [])]
        for kernel in kernels:
            rng = np.random.default_rng(7)
            one = kernel.make(rng)
            block = [kernel.make(rng) for _ in range(BLOCK)]
            stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *block)
            subjects = {
                "single": _sampler(_looped(kernel.function), jax.tree.map(jnp.asarray, one), _LOOPS),
                "vmap": _sampler(_looped(jax.vmap(kernel.function)), stacked, _LOOPS * BLOCK),
            }
            if kernel.numpy is not None:
                subjects["numpy"] = _numpy_sampler(kernel.numpy, baseline.module, one)
            samples = interleave(subjects, repeats=repeats)
            for subject, clocks in samples.items():
                values = tuple(1e6 * clock.wall for clock in clocks)
                found.append(Measurement(f"kernel/{kernel.name}/{subject}", "us per problem", values))
    return found


def _mom() -> _Kernel:
    return _Kernel(
        "median_of_means r=141 q=64",
        functools.partial(median_of_means, num_blocks=64),
        lambda rng: (rng.standard_t(3.0, 141),),
    )


def _sampler(program: Any, arrays: Any, problems: int) -> Callable[[], Clock]:
    once = timed(lambda: jax.block_until_ready(program(arrays)))  # compiles
    once = timed(lambda: jax.block_until_ready(program(arrays)))
    calls = max(1, round(_SAMPLE_SECONDS / max(once.wall, 1e-6)))

    def sample() -> Clock:
        clock = timed(lambda: [jax.block_until_ready(program(arrays)) for _ in range(calls)])
        return Clock(clock.wall / calls / problems, clock.cpu / calls / problems)

    return sample


def _numpy_sampler(function: Callable[..., Any], module: Any, arrays: tuple[Any, ...]) -> Callable[[], Clock]:
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < _SAMPLE_SECONDS:
        function(module, arrays)
        calls += 1

    def sample() -> Clock:
        clock = timed(lambda: [function(module, arrays) for _ in range(calls)])
        return Clock(clock.wall / calls, clock.cpu / calls)

    return sample
