"""Launches: one compiled program for many replications, kept for the next ones, and run on every core or device."""

from __future__ import annotations

import collections
import functools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax.kernels.balls import Ball
from linbet_jax.policies.conformance import check_policy
from linbet_jax.policies.policy import state_bytes
from linbet_jax.simulation.checks import x64_enabled
from linbet_jax.simulation.display import LOGGER, Progress, compiling
from linbet_jax.simulation.lanes import abandon, first_lane, here, submit, wait_inside
from linbet_jax.simulation.replication import Plan, replicate
from linbet_jax.simulation.runtime import loops_stay_apart

THREEFRY = "threefry2x32"  # the generator of every run
CACHE_BYTES = 2**20  # states that take more are worked on in smaller batches on CPU, of
SMALL_SET = 4096  # numbers of a decision set, K d, up to which these are faster on a CPU:
_LIBRARY = "xla_cpu_experimental_ynn_fusion_type"  # none: no calls of a library for products and sums
_EMITTERS = "xla_cpu_use_fusion_emitters"  # off: JAX 0.10's older way to write loops, for those that are one kernel
_LEVEL = 2  # of LLVM's optimisations
FEWEST = 8  # seeds at least, which fill a vector register


class Leaf(NamedTuple):
    """One leaf of the parameters: [rows] values when it varies over the grid, else one value."""

    varies: bool
    values: Any


class Launch(NamedTuple):
    """What one compiled program is for; hashable."""

    plan: Plan
    devices: tuple[Any, ...]
    block_size: int
    treedef: Any  # of the parameters
    batched: tuple[bool, ...]  # which leaves of the parameters differ between replications
    arms: Any  # shape [K, d] and dtype of a decision set, or a `Ball` of such

    def check(self, varying: list[Any], shared: list[Any]) -> None:
        """Raise a ValueError where the policy's functions do not fit what this launch will call them with."""
        changing = self.plan.sampler is not None
        check_policy(self.plan.policy, *self._shapes(varying, shared), changing=changing, coverage=self.plan.coverage)

    def side_by_side(self, varying: list[Any], shared: list[Any]) -> int:
        """Seeds of a block that one ``vmap`` takes: on CPU fewer than all where their states would fill a cache."""
        seeds = self.block_size
        if self.plan.on_card:
            return seeds
        params, arms = self._shapes(varying, shared)
        held = state_bytes(self.plan.policy, None if self.plan.sampler is not None else arms, params)
        while seeds % 2 == 0 and seeds >= 2 * FEWEST and seeds * held > CACHE_BYTES:
            seeds //= 2
        return seeds

    def _shapes(self, varying: list[Any], shared: list[Any]) -> tuple[Any, Any]:
        """Shapes of one replication's parameters and of a decision set."""
        varied, common = iter(varying), iter(shared)
        leaves = [(next(varied), 1) if batched else (next(common), 0) for batched in self.batched]
        shapes = [jax.ShapeDtypeStruct(leaf.shape[rows:], leaf.dtype) for leaf, rows in leaves]
        return jax.tree.unflatten(self.treedef, shapes), self.arms


def _run_blocks(
    launch: Launch, seeds: jax.Array, varying: list[Any], shared: list[Any], world: Any, rounds: Any, key: Any
) -> dict[str, Any]:
    """All replications of one device, block after block: seeds [n], n a multiple of the block size."""

    def one(row: tuple[jax.Array, list[Any]]) -> dict[str, Any]:
        seed, varied = row[0], iter(row[1])
        common = iter(shared)
        leaves = [next(varied) if batched else next(common) for batched in launch.batched]
        return replicate(launch.plan, seed, jax.tree.unflatten(launch.treedef, leaves), world, rounds, key)

    return jax.lax.map(one, (seeds, varying), batch_size=launch.side_by_side(varying, shared))


class _Program:
    """A compiled launch."""

    def __init__(self, compiled: Any, closed: int) -> None:
        self.compiled = compiled  # what JAX compiled
        self.closed = closed  # the bytes of arrays that it closes over
        self.fastest = 0, 0.0  # pulls of the horizon that it ran last, and the seconds of the fastest such run

    def __call__(self, *arguments: Any) -> dict[str, Any]:
        """The outputs of a launch, once they are there.

        It waits inside JAX when they are due, which holds up a process that ends meanwhile. Before, and where
        nothing is known of the time they take, it asks now and then, which takes time from the launch.
        """
        begun, pulls = time.perf_counter(), int(arguments[4][-1])
        outputs: dict[str, Any] = self.compiled(*arguments)
        before, seconds = self.fastest
        if pulls >= before:
            time.sleep(0.9 * seconds)
        if pulls == before:
            wait_inside(outputs)
        while not all(values.is_ready() for values in outputs.values()):
            time.sleep(min(max(5e-5, (time.perf_counter() - begun) / 50), 0.01))
        took = time.perf_counter() - begun
        self.fastest = pulls, min(took, seconds) if pulls == before else took
        return outputs


_PROGRAMS: dict[Any, _Program] = {}  # the oldest use first
_PROGRAMS_LOCK = threading.Lock()
_MAX_PROGRAMS = 64  # on CPU each takes some 450 memory mappings, of which Linux grants a process 65 530
_MAX_BYTES = 2**27  # of arrays that programs close over, a policy's table for example; the newest program stays


def forget_times() -> None:
    """Makes programs forget how long they took: beside compilations that was too long, and the next run would wait."""
    with _PROGRAMS_LOCK:
        for program in _PROGRAMS.values():
            program.fastest = (0, 0.0)


def lower(launch: Launch, arguments: Any) -> Any:
    """Trace and lower one launch: every device runs its share of the replications."""
    mesh = jax.sharding.Mesh(np.array(launch.devices), ("seeds",))
    split, whole = jax.sharding.PartitionSpec("seeds"), jax.sharding.PartitionSpec()
    sharded = jax.shard_map(
        functools.partial(_run_blocks, launch),
        mesh=mesh,
        in_specs=(split, split, whole, whole, whole, whole),
        out_specs=split,
        check_vma=False,
    )
    return jax.jit(sharded).trace(*arguments)


def _program(launch: Launch, arguments: Any) -> tuple[Callable[..., dict[str, Any]], float]:
    """The compiled launch for these shapes, and the seconds spent compiling it now."""
    if _jit_disabled():
        launch.check(*arguments[1:3])
        return functools.partial(_run_blocks, launch), 0.0
    avals = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments))
    identity = (launch, jax.tree.structure(arguments), avals, x64_enabled(), prng_name(arguments[-1]))
    with _PROGRAMS_LOCK:
        program = _PROGRAMS.pop(identity, None)
        if program is not None:
            _PROGRAMS[identity] = program
            return program, 0.0
    started = time.perf_counter()
    with compiling(launch.plan.policy.name):
        launch.check(*arguments[1:3])
        traced = lower(launch, arguments)
        closed = sum(int(getattr(constant, "nbytes", 0)) for constant in traced.jaxpr.consts)
        program = _Program(_compile(traced.lower(), compiler_options(launch)), closed)
    with _PROGRAMS_LOCK:
        while _PROGRAMS and (
            len(_PROGRAMS) >= _MAX_PROGRAMS or sum(one.closed for one in _PROGRAMS.values()) + closed > _MAX_BYTES
        ):
            del _PROGRAMS[next(iter(_PROGRAMS))]
        _PROGRAMS[identity] = program
    return program, time.perf_counter() - started


def compiler_options(launch: Launch) -> dict[str, Any]:
    """What XLA is told beside its defaults.

    On CPU the second level of LLVM's optimisations: it compiles faster than the third, and TOFU and CRT run faster too.
    Vector registers of 512 bits, where there are such: loops that are one kernel sum products over whole registers in
    any case, other loops over half of them unless XLA is told, and in float32 a policy would play other arms after
    :func:`set_up_cpu` than without it. For small sets what is faster there, to compile above all. On a GPU: no choice
    of kernels by timing them, which may end otherwise the next time, and no operation whose order of additions is left
    open.
    """
    if launch.devices[0].platform != "cpu":
        return {"xla_gpu_autotune_level": 0, "xla_gpu_deterministic_ops": True}
    size = 0 if isinstance(launch.arms, Ball) else math.prod(launch.arms.shape)
    small: dict[str, Any] = {}
    if size <= SMALL_SET:
        small = {_LIBRARY: ""} if loops_stay_apart() else {_LIBRARY: "", _EMITTERS: False}
    return {"xla_backend_optimization_level": _LEVEL, "xla_cpu_prefer_vector_width": 512, **small}


def _compile(lowered: Any, options: dict[str, Any]) -> Any:
    """The program, without those options that this version of XLA does not know; the log names what moves last bits."""
    while True:
        try:
            return lowered.compile(compiler_options=options or None)
        except jax.errors.JaxRuntimeError as error:
            unknown = [name for name in options if f"No such compile option: '{name}'" in str(error)]
            if not unknown:
                raise
            if unknown[0] not in (_LIBRARY, _EMITTERS):
                LOGGER.warning(
                    "XLA does not know its option %s: last bits may not be those of other versions", unknown[0]
                )
            options = {name: value for name, value in options.items() if name not in unknown}


def _jit_disabled() -> bool:
    return bool(getattr(jax.config, "jax_disable_jit", False))


def launch_all(
    launch: Launch,
    lanes: int,
    arguments_of: Callable[[npt.NDArray[np.int64]], Any],
    pending: npt.NDArray[np.int64],
    total: int,
    chunk: int | None,
    progress: Progress | None,
    clock: dict[str, float],
    outputs: dict[str, npt.NDArray[Any]],
) -> None:
    """Run the pending rows of ``total`` launch by launch, in turn on every lane, and write their outputs in place."""
    unit = launch.block_size * len(launch.devices)
    per_launch = unit if chunk is None else max(1, chunk // (unit * lanes)) * unit

    def collect(rows: npt.NDArray[np.int64], result: dict[str, Any]) -> int:
        """Wait for a launch and keep its outputs; returns how many of its replications are done for good."""
        for field, values in result.items():
            host = np.asarray(values)[: rows.size]
            if field not in outputs:
                outputs[field] = np.zeros((total, *host.shape[1:]), host.dtype)
            outputs[field][rows] = host
        return int(rows.size - np.count_nonzero(outputs["overflow"][rows]))

    # Two launches for every lane: each has its next one at hand when it ends one.
    in_flight: collections.deque[tuple[npt.NDArray[np.int64], Future[dict[str, Any]]]] = collections.deque()
    done = total - pending.size
    begun, compiling = time.perf_counter(), 0.0

    def end_one() -> None:
        nonlocal done
        rows, launched = in_flight[0]
        while wait([launched], timeout=0.2).not_done:  # a signal that reaches another thread does not end a wait
            pass
        done += collect(rows, launched.result())
        in_flight.popleft()
        if progress is not None:
            progress(done, total)

    try:
        for lane, first in enumerate(range(0, pending.size, per_launch), first_lane()):
            rows = pending[first : first + per_launch]
            padded = np.concatenate([rows, np.full(per_launch - rows.size, rows[-1])])
            arguments = arguments_of(padded)
            program, seconds = _program(launch, arguments)
            compiling += seconds
            if len(in_flight) == 2 * lanes:
                end_one()
            run = functools.partial(program, *arguments)
            in_flight.append((rows, here(run) if _jit_disabled() else submit(lane % lanes, run)))
        while in_flight:
            end_one()
    finally:
        abandon(future for _, future in in_flight)  # none are left unless something was raised
    clock["compile"] += compiling
    clock["run"] += time.perf_counter() - begun - compiling


def threefry_key(key: jax.Array) -> jax.Array:
    """The key itself, or one of threefry with the words of another generator's key folded in; on no device of its own.

    A key that was committed to one device would pull the whole launch there.
    """
    words = np.asarray(jax.random.key_data(key))
    if str(jax.random.key_impl(key)) == THREEFRY:
        return jax.random.wrap_key_data(jnp.asarray(words), impl=THREEFRY)
    started = jax.random.key(0, impl=THREEFRY)
    for word in words.ravel():
        started = jax.random.fold_in(started, word)
    return started


def prng_name(key: jax.Array) -> str:
    """The generator of a run with this key, with the setting that changes its numbers."""
    implementation = str(jax.random.key_impl(key))
    partitionable = bool(getattr(jax.config, "jax_threefry_partitionable", True))
    source = "" if implementation == THREEFRY else f" from a key of {implementation}"
    return f"{THREEFRY}{source}, partitionable={partitionable}"
