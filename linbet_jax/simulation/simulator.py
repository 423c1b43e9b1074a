"""The simulator: replications batched over seeds in fixed blocks and shared between cores or devices.

Seeds run in blocks of a fixed size (``vmap``), blocks one after another on a core or device, and these side by side. A
seed's numbers depend on (key, seed) alone: not on how many seeds, blocks, launches, cores or policies run beside it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import sys
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.errors import UnhealthyWarning
from linbet_jax.noise import traceable
from linbet_jax.policies.conformance import check_policy
from linbet_jax.policies.policy import Policy
from linbet_jax.simulation.checks import (
    block_of,
    check_dtype,
    check_key,
    check_on_host,
    check_params,
    check_rounds,
    check_seeds,
    kind,
    whole_number,
    x64_enabled,
)
from linbet_jax.simulation.lanes import abandon, first_lane, here, lanes_of, submit
from linbet_jax.simulation.replication import Plan, World, replicate

STRETCH = 128  # pulls whose noise is drawn at once; the nearest divisor of T is taken
REFRESH = 512  # pulls between recomputations of what rank-one updates drift in
MAX_ENLARGEMENTS = 6

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Trace:
    """Every choice and payoff: arms [S, T] int32 and payoffs [S, T]."""

    arms: npt.NDArray[np.int32]
    payoffs: npt.NDArray[np.floating[Any]]


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Whether the policy's confidence region held theta*, after each of its updates, for each seed.

    Attributes:
        first_miss: [S] int64; 0 when ||theta_t - theta*||_V <= beta_t at every update, else the first pull at whose
            update it was not. The region before the first payoff, which is the ball of radius S, does not count.
        worst_ratio: [S], the largest ||theta_t - theta*||_V / beta_t over the updates, beta_t with its radius_scale.
    """

    first_miss: npt.NDArray[np.int64]
    worst_ratio: npt.NDArray[np.floating[Any]]

    @property
    def covered(self) -> npt.NDArray[np.bool_]:
        """[S] whether the region held theta* at every update."""
        return self.first_miss == 0


@dataclasses.dataclass(frozen=True)
class Result:
    """What S replications of one policy with one setting gave.

    Attributes:
        name: of the policy.
        rounds: [R] int64, pulls after which a row is recorded; the last one is the horizon.
        regret: [S, R] cumulative pseudo-regret, sum over pulls of the best mean minus the played arm's mean.
        payoff: [S, R] cumulative realised payoff.
        health: [S] int64; 0, or the first pull at which something non-finite (or an arm index out of range) was met.
        seeds: [S] int64.
        final_estimate: [S, d], the centre of the last confidence region; None when the policy has none.
        trace: arms and payoffs of every pull, when asked for.
        params: the hyperparameters, as given.
        facts: numbers worth printing: k and N for MENU; m, r, q and block for MoM.
        notes: sentences that must travel with the numbers.
        block_size: seeds per block; bit-equality is promised for one block size, kind of device and JAX version.
        dtype: ``"float32"`` or ``"float64"``.
        device: kind and number of the devices (on CPU: cores) that ran it.
        prng: the generator with its setting, and the key's own where that is another.
        reruns: replications that were repeated with a larger buffer.
        compile_seconds: spent compiling in this call (0 when everything was compiled before).
        run_seconds: spent running, compilation apart.
        coverage: of theta* by the policy's confidence region, when asked for.
    """

    name: str
    rounds: npt.NDArray[np.int64]
    regret: npt.NDArray[np.floating[Any]]
    payoff: npt.NDArray[np.floating[Any]]
    health: npt.NDArray[np.int64]
    seeds: npt.NDArray[np.int64]
    final_estimate: npt.NDArray[np.floating[Any]] | None
    trace: Trace | None
    params: Any
    facts: dict[str, float]
    notes: tuple[str, ...]
    block_size: int
    dtype: str
    device: str
    prng: str
    reruns: int
    compile_seconds: float
    run_seconds: float
    coverage: Coverage | None = None


# Launches


class _Launch(NamedTuple):
    """What one compiled program is for; hashable."""

    plan: Plan
    devices: tuple[Any, ...]
    block_size: int
    treedef: Any  # of the parameters
    batched: tuple[bool, ...]  # which leaves of the parameters differ between replications
    set_shape: tuple[int, int]  # K and d

    def check(self, varying: list[Any], shared: list[Any]) -> None:
        """Raise a ValueError where the policy's functions do not fit what this launch will call them with."""
        own, common = iter(varying), iter(shared)
        leaves = [(next(own), 1) if batched else (next(common), 0) for batched in self.batched]
        shapes = [jax.ShapeDtypeStruct(leaf.shape[rows:], leaf.dtype) for leaf, rows in leaves]
        check_policy(
            self.plan.policy,
            jax.tree.unflatten(self.treedef, shapes),
            jax.ShapeDtypeStruct(self.set_shape, self.plan.dtype),
            changing=self.plan.sampler is not None,
            coverage=self.plan.coverage,
        )


def _run_blocks(
    launch: _Launch, seeds: jax.Array, varying: list[Any], shared: list[Any], world: Any, rounds: Any, key: Any
) -> dict[str, Any]:
    """All replications of one device, block after block: seeds [n], n a multiple of the block size."""

    def one(row: tuple[jax.Array, list[Any]]) -> dict[str, Any]:
        seed, own = row
        own_iter, shared_iter = iter(own), iter(shared)
        leaves = [next(own_iter) if batched else next(shared_iter) for batched in launch.batched]
        return replicate(launch.plan, seed, jax.tree.unflatten(launch.treedef, leaves), world, rounds, key)

    return jax.lax.map(one, (seeds, varying), batch_size=launch.block_size)


_PROGRAMS: dict[Any, tuple[Any, int]] = {}  # the compiled program and the bytes it closes over, the oldest use first
_PROGRAMS_LOCK = threading.Lock()
_MAX_PROGRAMS = 64  # on CPU each takes some 450 memory mappings, of which Linux grants a process 65 530
_MAX_BYTES = 2**27  # of arrays that programs close over, a policy's table for example; the newest program stays


def lower(launch: _Launch, arguments: Any) -> Any:
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


def _program(launch: _Launch, arguments: Any) -> tuple[Any, float]:
    """The compiled launch for these shapes, and the seconds spent compiling it now."""
    if _jit_disabled():
        launch.check(*arguments[1:3])
        return functools.partial(_run_blocks, launch), 0.0
    avals = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments))
    identity = (launch, jax.tree.structure(arguments), avals, x64_enabled(), prng_name(arguments[-1]))
    with _PROGRAMS_LOCK:
        found = _PROGRAMS.pop(identity, None)
        if found is not None:
            _PROGRAMS[identity] = found
            return found[0], 0.0
    started = time.perf_counter()
    launch.check(*arguments[1:3])
    wide = launch.devices[0].platform == "cpu" and launch.plan.dtype == "float64"
    traced = lower(launch, arguments)
    closed = sum(int(getattr(constant, "nbytes", 0)) for constant in traced.jaxpr.consts)
    compiled = _compile(traced.lower(), wide)
    with _PROGRAMS_LOCK:
        while _PROGRAMS and (
            len(_PROGRAMS) >= _MAX_PROGRAMS or sum(held for _, held in _PROGRAMS.values()) + closed > _MAX_BYTES
        ):
            del _PROGRAMS[next(iter(_PROGRAMS))]
        _PROGRAMS[identity] = compiled, closed
    return compiled, time.perf_counter() - started


def _compile(lowered: Any, wide: bool) -> Any:
    """Compile, if ``wide`` for all of a CPU's vector registers: of 512 bits XLA's own choice is a half.

    In float64 the numbers stay; in float32, where last bits would depend on the CPU's width, it is left alone.
    """
    if wide:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # a version of XLA without the option
            return lowered.compile(compiler_options={"xla_cpu_prefer_vector_width": 512})
    return lowered.compile()


def _jit_disabled() -> bool:
    return bool(getattr(jax.config, "jax_disable_jit", False))


def _stretch_epochs(horizon: int, policy: Policy) -> int:
    """Epochs per stretch: about STRETCH pulls, no more than the horizon needs, a multiple of the updates in turn.

    Two at least where there are two: XLA dissolves a scan over one, and no loop is left that could be one kernel.
    """
    pulls, turns = policy.pulls_per_epoch, len(policy.updates)
    return turns * -(-min(max(2, STRETCH // pulls), -(-horizon // pulls)) // turns)


def _plan(policy: Policy, bandit: LinearBandit, horizon: int, static_law: Any, dtype_name: str) -> Plan:
    """What shapes the program of one attempt, without a trace."""
    length = _stretch_epochs(horizon, policy)
    opening = None if policy.buffers is None else policy.buffers.opening
    playing = opening.policy if opening is not None and horizon <= opening.pulls else policy
    return Plan(
        policy=playing,
        sampler=bandit.sampler,
        generator=_generator(bandit.generator, dtype_name)[0],
        epochs_per_stretch=length,
        refresh_stride=max(1, REFRESH // (length * policy.pulls_per_epoch)),
        static_law=static_law,
        trace_pulls=0,
        coverage=False,
        dtype=dtype_name,
    )


def program_key(
    policy: Policy, params: Any, bandit: LinearBandit, *, horizon: int, num_records: int, dtype: str
) -> Hashable:
    """What decides the compiled program of a run with ``separate=True``: runs of equal keys share one compile.

    Args:
        policy: as in :func:`simulate`.
        params: its parameters.
        bandit: what is played.
        horizon: T.
        num_records: R, records in fact made.
        dtype: ``"float32"`` or ``"float64"``.
    """
    law, static_law = _law(bandit.noise, dtype)
    leaves, treedef = jax.tree.flatten(params)
    shapes = tuple((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in leaves)
    plan = _plan(policy, bandit, horizon, static_law, dtype)
    return plan, treedef, shapes, jax.tree.structure(law), bandit.num_arms, bandit.dim, num_records


# The public functions

_THREEFRY = "threefry2x32"
_NO_MESH = jax.sharding.Mesh(np.empty((), object), ())
_In = ParamSpec("_In")
_Out = TypeVar("_Out")


def _by_itself(function: Callable[_In, _Out]) -> Callable[_In, _Out]:
    """Runs it on the host, under no mesh (a program brings its own) and one generator whatever the caller's are."""

    @functools.wraps(function)
    def alone(*args: _In.args, **kwargs: _In.kwargs) -> _Out:
        check_on_host("simulate", args, kwargs)
        with jax.set_mesh(_NO_MESH), jax.default_prng_impl(_THREEFRY):
            return function(*args, **kwargs)

    return alone


def simulate(
    policy: Policy,
    params: Any,
    bandit: LinearBandit,
    *,
    horizon: int,
    num_seeds: int | None = None,
    seeds: npt.ArrayLike | None = None,
    key: jax.Array,
    num_records: int = 200,
    record_at: npt.ArrayLike | None = None,
    trace: bool = False,
    coverage: bool = False,
    dtype: npt.DTypeLike | None = None,
    block_size: int | None = None,
    chunk_size: int | None = None,
    progress: Progress | None = None,
    devices: Sequence[Any] | None = None,
) -> Result:
    """Run a policy on a bandit for many seeds.

    Args:
        policy: from :func:`linbet_jax.make_policy`, or a user's own :class:`linbet_jax.Policy`.
        params: its hyperparameters; Python numbers and floating arrays are cast to the dtype of the run.
        bandit: what is played.
        horizon: T >= 1, pulls; at most the horizon the parameters were made for.
        num_seeds: S >= 1, runs seeds 0..S-1. Exactly one of ``num_seeds`` and ``seeds`` is given.
        seeds: [S] distinct integers in 0..2^32 - 1.
        key: a typed key, ``jax.random.key(...)``. Seed s means the same thing whatever else runs beside it: all numbers
            come from JAX's threefry2x32. A key of another generator, whose numbers under ``vmap`` would depend on the
            batch (rbg), only starts it; samplers and a policy's ``select`` are given threefry keys too.
        num_records: R, evenly spaced records (all pulls when R >= T).
        record_at: [R] pulls at which to record instead, increasing, in 1..T; T is added when missing.
        trace: also return every arm and payoff, [S, T] (memory grows with T).
        coverage: also return whether the policy's confidence region held theta* (:class:`Coverage`). It changes no
            choice; the policy must have a ``region``.
        dtype: float32 or float64; by default JAX's default float. float64 needs ``jax_enable_x64``.
        block_size: seeds per ``vmap`` block; by default 16 on CPU (64 at most), elsewhere the next power of two that
            holds the seeds of a device (4096 at most). It decides rounding, not results' meaning.
        chunk_size: seeds that are computed at a time, on all devices or cores together, rounded down to whole blocks
            on each; by default one block on each, which bounds memory whatever the number of seeds.
        progress: called with (replications done, replications in all) between launches; one that has to be repeated
            with a larger buffer counts when it is done.
        devices: the devices to share the seeds between; by default all local ones of the default backend. On CPU one
            program serves all of them, as many launches at a time as there are devices; where JAX was given no number
            of CPU devices, by default one for every core this process may use.

    Returns:
        A :class:`Result`. When seeds are unhealthy an `UnhealthyWarning` (a RuntimeWarning) and the result's notes say
        so.

    Raises:
        ValueError: for wrong input, before anything compiles; or when a replication still overflows its buffers after
            every enlargement.
    """
    return simulate_grid(
        policy,
        [params],
        bandit,
        horizon=horizon,
        num_seeds=num_seeds,
        seeds=seeds,
        key=key,
        num_records=num_records,
        record_at=record_at,
        trace=trace,
        coverage=coverage,
        dtype=dtype,
        block_size=block_size,
        chunk_size=chunk_size,
        progress=progress,
        devices=devices,
    )[0]


@_by_itself
def simulate_grid(  # noqa: C901, PLR0912, PLR0915  # checks of every argument, in the order a user meets them
    policy: Policy,
    grid: Sequence[Any],
    bandit: LinearBandit,
    *,
    horizon: int,
    num_seeds: int | None = None,
    seeds: npt.ArrayLike | None = None,
    key: jax.Array,
    num_records: int = 200,
    record_at: npt.ArrayLike | None = None,
    trace: bool = False,
    coverage: bool = False,
    dtype: npt.DTypeLike | None = None,
    block_size: int | None = None,
    chunk_size: int | None = None,
    progress: Progress | None = None,
    devices: Sequence[Any] | None = None,
    separate: bool = False,
    warn: bool = True,
) -> list[Result]:
    """Run several hyperparameter settings of one policy as one batch: one compile, full blocks, common noise.

    Args:
        policy: as in :func:`simulate`.
        grid: parameters, all of one structure; for example ``[params._replace(radius_scale=s) for s in scales]``.
        bandit: as in :func:`simulate`, like every argument below.
        horizon: T.
        num_seeds: S.
        seeds: [S].
        key: typed key.
        num_records: R.
        record_at: [R].
        trace: also return arms and payoffs.
        coverage: also return whether the regions held theta*.
        dtype: float32 or float64.
        block_size: seeds per block.
        chunk_size: replications that are computed at a time.
        progress: a callable.
        devices: devices to use.
        separate: batch every parameter, also those that all settings share. One program then serves any number and mix
            of settings, and a setting's bits do not depend on which others run beside it; sharing is a little faster.
        warn: say with an `UnhealthyWarning` when replications are unhealthy, as :func:`simulate` does.

    Returns:
        One :class:`Result` per setting, in order.

    Raises:
        ValueError: as in :func:`simulate`.
    """
    if not isinstance(policy, Policy):
        raise ValueError(f"policy={kind(policy)}: must be a linbet_jax.Policy, the first of what make_policy returns")
    if not isinstance(bandit, LinearBandit):
        raise ValueError(f"bandit={kind(bandit)}: must be a linbet_jax.LinearBandit, dataset('S3') for example")
    if coverage and policy.region is None:
        raise ValueError(f"coverage={coverage!r}: policy {policy.name} has no confidence region")
    whole_number("pulls_per_epoch", policy.pulls_per_epoch, 1)
    if not policy.updates:
        raise ValueError(f"policy {policy.name}: update=(): must be a function, or a tuple of at least one")
    horizon = whole_number("horizon", horizon, 1)
    most = 2**31 - 2 * max(STRETCH, policy.pulls_per_epoch)  # pulls are counted in int32
    if horizon >= most:
        raise ValueError(f"horizon={horizon}: must be below {most}")
    dtype_name = check_dtype(dtype)
    seed_array = check_seeds(num_seeds, seeds)
    rounds = check_rounds(horizon, num_records, record_at)
    check_key(key)
    if not isinstance(grid, (list, tuple)) or hasattr(grid, "_asdict"):
        raise ValueError(f"grid={kind(grid)}: must be a list of parameters")
    if len(grid) == 0:
        raise ValueError("grid=[]: must hold at least one setting")
    if progress is not None and not callable(progress):
        raise ValueError(f"progress={progress!r}: must be callable")
    for params in grid:
        check_params(policy, params, bandit, horizon, dtype_name)
    lanes = lanes_of(devices)
    block = block_of(block_size, lanes.on_cpu, -(-seed_array.size * len(grid) // lanes.shares))
    chunk = None if chunk_size is None else whole_number("chunk_size", chunk_size, 1)

    rows_seed = np.tile(seed_array, len(grid))
    leaves, treedef = _stack(grid, dtype_name, separate)
    total = rows_seed.size
    law, static_law = _law(bandit.noise, dtype_name)
    _, numbers = _generator(bandit.generator, dtype_name)
    world = _world(bandit, law, dtype_name)._replace(instance=numbers)
    prng, key = prng_name(key), _threefry_key(key)
    outputs: dict[str, npt.NDArray[Any]] = {}
    pending = np.arange(total)
    clock = {"compile": 0.0, "run": 0.0}
    shape = bandit.num_arms, bandit.dim
    current, repeated = policy, np.zeros(total, bool)
    for attempt in range(MAX_ENLARGEMENTS + 1):
        plan = _plan(current, bandit, horizon, static_law, dtype_name)
        plan = plan._replace(trace_pulls=horizon if trace else 0, coverage=bool(coverage))
        launch = _Launch(plan, lanes.devices, block, treedef, tuple(leaf.varies for leaf in leaves), shape)
        _launch_all(
            launch, lanes.at_once, leaves, rows_seed, pending, world, rounds, key, chunk, progress, clock, outputs
        )
        pending = np.flatnonzero(outputs["overflow"])
        if pending.size == 0:
            break
        enlarge = None if current.buffers is None else current.buffers.enlarge
        if enlarge is None or attempt == MAX_ENLARGEMENTS:
            raise ValueError(
                f"policy {policy.name}: seed {int(rows_seed[pending[0]])} overflows its buffers"
                + (f" after {attempt} enlargements" if attempt else "")
            )
        repeated[pending] = True
        current = enlarge()

    count = seed_array.size
    unhealthy = _unhealthy(policy, outputs["health"], rows_seed)
    if unhealthy and warn:
        _warn(*unhealthy)
    results = []
    for g, params in enumerate(grid):
        own = slice(g * count, (g + 1) * count)
        results.append(
            Result(
                name=policy.name,
                rounds=rounds,
                regret=outputs["regret"][own],
                payoff=outputs["payoff"][own],
                health=outputs["health"][own].astype(np.int64),
                seeds=seed_array.astype(np.int64),
                final_estimate=outputs["estimate"][own] if "estimate" in outputs else None,
                trace=Trace(outputs["trace_arms"][own], outputs["trace_payoffs"][own]) if trace else None,
                params=params,
                facts=dict(policy.about.facts),
                notes=policy.about.notes + _unhealthy(policy, outputs["health"][own], seed_array),
                block_size=block,
                dtype=dtype_name,
                device=str(lanes),
                prng=prng,
                reruns=int(np.count_nonzero(repeated[own])),
                compile_seconds=clock["compile"],
                run_seconds=clock["run"],
                coverage=Coverage(outputs["first_miss"][own].astype(np.int64), outputs["worst_ratio"][own])
                if coverage
                else None,
            )
        )
    return results


def _unhealthy(policy: Policy, health: npt.NDArray[Any], seeds: npt.NDArray[Any]) -> tuple[str, ...]:
    """A sentence on the unhealthy ones among these replications, if there are any."""
    (ill,) = np.nonzero(health)
    if ill.size == 0:
        return ()
    first = ill[np.argmin(health[ill])]
    return (
        f"{policy.name}: {ill.size} of {health.size} replications met something non-finite, an arm index out of range "
        f"or a mean that the law does not have, first seed {seeds[first]} at pull {health[first]}: their numbers are "
        "worth nothing from there on",
    )


def _warn(sentence: str) -> None:
    """An `UnhealthyWarning` at the line outside this package that led here."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("linbet_jax"):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, UnhealthyWarning, stacklevel=level)


class _Leaf(NamedTuple):
    """One leaf of the parameters: [rows] values when it varies over the grid, else one value."""

    varies: bool
    values: Any


def _stack(grid: Sequence[Any], dtype_name: str, separate: bool) -> tuple[list[_Leaf], Any]:
    """Leaves of the grid's parameters in the dtype of the run; those equal in all settings are shared, if wanted."""
    flat = [jax.tree.flatten(params) for params in grid]
    treedef: Any = flat[0][1]
    for leaves, structure in flat[1:]:
        if structure != treedef or len(leaves) != len(flat[0][0]):
            raise ValueError(f"grid: settings must share one structure, got {treedef} and {structure}")
    stacked = []
    for column in zip(*(leaves for leaves, _ in flat), strict=True):
        arrays = [_cast(leaf, dtype_name) for leaf in column]
        if any(array.shape != arrays[0].shape or array.dtype != arrays[0].dtype for array in arrays):
            raise ValueError("grid: a parameter must have one shape and type in all settings")
        varies = separate or any(not np.array_equal(array, arrays[0], equal_nan=True) for array in arrays[1:])
        stacked.append(_Leaf(varies, np.stack(arrays) if varies else arrays[0]))
    return stacked, treedef


def _cast(leaf: Any, dtype_name: str) -> npt.NDArray[Any]:
    """A parameter: Python numbers and floating arrays in the dtype of the run, integer arrays as int32."""
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"params: {leaf!r} is not a number")
    if np.issubdtype(array.dtype, np.floating) or type(leaf) is int:
        return _fit("params", array, dtype_name)
    if not np.issubdtype(array.dtype, np.integer):
        return array
    if array.size and (array.min() < -(2**31) or array.max() >= 2**31):
        raise ValueError(f"params: the integer {leaf!r} does not fit into 32 bits")
    return array.astype(np.int32)


def _launch_all(
    launch: _Launch,
    lanes: int,
    leaves: list[_Leaf],
    rows_seed: npt.NDArray[np.uint32],
    pending: npt.NDArray[np.int64],
    world: World,
    rounds: npt.NDArray[np.int64],
    key: jax.Array,
    chunk: int | None,
    progress: Progress | None,
    clock: dict[str, float],
    outputs: dict[str, npt.NDArray[Any]],
) -> None:
    """Run the pending rows launch by launch, in turn on every lane, and write their outputs in place."""
    unit = launch.block_size * len(launch.devices)
    per_launch = unit if chunk is None else max(1, chunk // (unit * lanes)) * unit
    total = rows_seed.size
    settings = max([leaf.values.shape[0] for leaf in leaves if leaf.varies], default=1)
    shared = [leaf.values for leaf in leaves if not leaf.varies]
    record_rounds = rounds.astype(np.int32)

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
            varying = [leaf.values[padded // (total // settings)] for leaf in leaves if leaf.varies]
            arguments = (rows_seed[padded], varying, shared, world, record_rounds, key)
            arguments = jax.tree.map(jnp.asarray, arguments)
            program, seconds = _program(launch, arguments)
            compiling += seconds
            if len(in_flight) == 2 * lanes:
                end_one()
            run = functools.partial(_finish, program, arguments)
            in_flight.append((rows, here(run) if _jit_disabled() else submit(lane % lanes, run)))
        while in_flight:
            end_one()
    finally:
        abandon(future for _, future in in_flight)  # none are left unless something was raised
    clock["compile"] += compiling
    clock["run"] += time.perf_counter() - begun - compiling


def _finish(program: Callable[..., dict[str, Any]], arguments: Any) -> dict[str, Any]:
    """The outputs of a launch, once they are there.

    Asked for again and again: a thread that waits inside JAX crashes a process that ends meanwhile.
    """
    begun = time.perf_counter()
    outputs = program(*arguments)
    while not all(values.is_ready() for values in outputs.values()):
        time.sleep(min(max(5e-5, (time.perf_counter() - begun) / 50), 0.01))
    return outputs


def _fit(field: str, array: npt.NDArray[Any], dtype_name: str) -> npt.NDArray[Any]:
    """The array in the dtype of the run; a finite number that overflows there, or vanishes, is an error."""
    with np.errstate(over="ignore", under="ignore"):
        fitted = array.astype(dtype_name)
    lost = (np.isfinite(array) & ~np.isfinite(fitted)) | ((array != 0) & (fitted == 0))
    if np.any(lost):
        raise ValueError(
            f"{field}: {array[lost].flat[0]!r} is out of the range of {dtype_name}; use float64 or other units"
        )
    return fitted


def _law(noise: Any, dtype_name: str) -> tuple[Any, Any]:
    """A law as traced numbers (one compile serves all of them), or, when it is no pytree of numbers, as a constant."""
    huge = float(np.finfo(dtype_name).max)  # 10^39 degrees of freedom are as good as 10^38
    if not traceable(noise):
        return None, noise
    return jax.tree.map(lambda leaf: np.clip(leaf, -huge, huge).astype(dtype_name), noise), None


def _generator(generator: Any, dtype_name: str) -> tuple[Any, tuple[Any, ...]]:
    """A generator of fresh instances as a function and traced numbers: one compile serves all the numbers."""
    if not isinstance(generator, jax.tree_util.Partial) or generator.keywords:
        return generator, ()
    return generator.func, tuple(_cast(number, dtype_name) for number in generator.args)


def _world(bandit: LinearBandit, law: Any, dtype_name: str) -> World:
    def cast(value: Any) -> Any:
        return None if value is None else _fit("bandit", np.asarray(value), dtype_name)

    gaps = None if bandit.means is None else np.max(bandit.means) - bandit.means
    return World(law, cast(bandit.arms), cast(bandit.theta_star), cast(bandit.means), cast(gaps))


def _threefry_key(key: jax.Array) -> jax.Array:
    """The key itself, or one of threefry with the words of another generator's key folded in; on no device of its own.

    A key that was committed to one device would pull the whole launch there.
    """
    words = np.asarray(jax.random.key_data(key))
    if str(jax.random.key_impl(key)) == _THREEFRY:
        return jax.random.wrap_key_data(jnp.asarray(words), impl=_THREEFRY)
    started = jax.random.key(0, impl=_THREEFRY)
    for word in words.ravel():
        started = jax.random.fold_in(started, word)
    return started


def prng_name(key: jax.Array) -> str:
    """The generator of a run with this key, with the setting that changes its numbers."""
    own = str(jax.random.key_impl(key))
    partitionable = bool(getattr(jax.config, "jax_threefry_partitionable", True))
    return f"{_THREEFRY}{'' if own == _THREEFRY else f' from a key of {own}'}, partitionable={partitionable}"
