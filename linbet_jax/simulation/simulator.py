"""The simulator: replications batched over seeds in fixed blocks and shared between cores or devices.

Seeds run in blocks of a fixed size (``vmap``), blocks one after another on a core or device, and these side by side. A
seed's numbers depend on (key, seed) alone: not on how many seeds, blocks, launches, cores or policies run beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.noise import reveals_scales
from linbet_jax.policies.policy import Policy
from linbet_jax.simulation.casting import generator_of, law_of, seed_bytes, shape_of_set, stack, world_of
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
)
from linbet_jax.simulation.display import Progress, ProgressChoice, check_progress, showing, took_long
from linbet_jax.simulation.lanes import Lanes, lanes_of
from linbet_jax.simulation.launches import THREEFRY, Launch, Leaf, launch_all, lower, prng_name, threefry_key
from linbet_jax.simulation.replication import Plan, World
from linbet_jax.simulation.results import Coverage, Result, ResultList, Trace, unhealthy, warn_of
from linbet_jax.simulation.runtime import loops_stay_apart

STRETCH = 128  # pulls of a stretch, about: their noise is drawn at once
# Pulls of a stretch where it divides the horizon, as most that people choose, by the number of updates in turn: whether
# a pull is in time need not be asked then, which costs a copy of the state on a CPU and kernels on a GPU.
ROUND_STRETCHES = {1: 125, 2: 100}
REFRESH = 512  # pulls between recomputations of what rank-one updates drift in
MAX_ENLARGEMENTS = 6
_SET_UP = (
    "lb.set_up_cpu() before JAX's first computation makes each loop one kernel: up to three times as fast, with the"
    " same numbers"
)


def _stretch_epochs(horizon: int, policy: Policy, on_card: bool) -> int:
    """Epochs per stretch: about STRETCH pulls, no more than the horizon needs, a multiple of the updates in turn.

    On a CPU two at least where there are two: XLA dissolves a scan over one, and no loop is left that could be one
    kernel. A GPU has no such kernels, and less to keep of one epoch.
    """
    pulls, turns = policy.pulls_per_epoch, len(policy.updates)
    even = ROUND_STRETCHES.get(turns, 0) if pulls == 1 else 0
    if even and horizon % even == 0:
        return even
    least = 1 if on_card else 2
    return turns * -(-min(max(least, STRETCH // pulls), -(-horizon // pulls)) // turns)


def _plan(
    policy: Policy, bandit: LinearBandit, horizon: int, static_law: Any, dtype_name: str, on_card: bool = False
) -> Plan:
    """The plan of one attempt's program, without a trace and without coverage."""
    length = _stretch_epochs(horizon, policy, on_card)
    return Plan(
        policy=policy,
        sampler=bandit.sampler,
        generator=generator_of(bandit.generator, dtype_name)[0],
        epochs_per_stretch=length,
        guarded=policy.pulls_per_epoch > 1 or horizon % length != 0,
        refresh_stride=max(1, REFRESH // (length * policy.pulls_per_epoch)),
        static_law=static_law,
        trace_pulls=0,
        coverage=False,
        dtype=dtype_name,
        on_card=on_card,
        path=bandit.path,
    )


def program_key(
    policy: Policy, params: Any, bandit: LinearBandit, *, horizon: int, num_records: int, dtype: str
) -> Hashable:
    """What decides the compiled program of a run with ``separate=True``: runs of equal keys share one compile.

    `num_records` is how many records are in fact made, `dtype` a name; the others are as in :func:`simulate`.
    """
    law, static_law = law_of(bandit.noise, dtype)
    leaves, treedef = jax.tree.flatten(params)
    shapes = tuple((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in leaves)
    plan = _plan(policy, bandit, horizon, static_law, dtype)
    numbers = law, generator_of(bandit.generator, dtype)[1]
    world = jax.tree.structure(numbers), tuple(np.shape(leaf) for leaf in jax.tree.leaves(numbers))
    return plan, treedef, shapes, world, bandit.num_arms, bandit.dim, num_records


# The public functions

_NO_MESH = jax.sharding.Mesh(np.empty((), object), ())
_In = ParamSpec("_In")
_Out = TypeVar("_Out")


def _by_itself(function: Callable[_In, _Out]) -> Callable[_In, _Out]:
    """Runs the function on the host, under no mesh (a program brings its own) and under Threefry, whatever is set."""

    @functools.wraps(function)
    def alone(*args: _In.args, **kwargs: _In.kwargs) -> _Out:
        check_on_host("simulate", args, kwargs)
        with jax.set_mesh(_NO_MESH), jax.default_prng_impl(THREEFRY):
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
    progress: ProgressChoice = "auto",
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
        trace: also return every arm and payoff, [S, T] (memory grows with T); on a ball arms are [S, T, d].
        coverage: also return whether the policy's confidence region held theta* (:class:`Coverage`). It changes no
            choice; the policy must have a ``region``.
        dtype: float32 or float64; by default JAX's default float. float64 needs ``jax_enable_x64``.
        block_size: seeds per ``vmap`` block; by default 16 on CPU (64 at most), on a GPU as many as 128 MiB of state
            hold, in steps of 128 and 65536 at most. It decides rounding, not results' meaning. On CPU a block whose
            states take more than 1 MiB is worked on in halves, down to 8 seeds: a cache holds them.
        chunk_size: seeds that are computed at a time, on all devices or cores together, rounded down to whole blocks
            on each; by default one block on each, which bounds memory whatever the number of seeds.
        progress: "auto" shows a line of progress on stderr when that is a terminal, or in a notebook, once a run has
            taken two seconds; it goes when the run ends. Pipes, files, continuous integration, tests, further threads
            and processes get none. True shows it at once, wherever a line can be rewritten; False and None never. A
            function is called with (replications done, replications in all) between launches, and nothing is shown;
            a replication that has to be repeated with a larger buffer counts when it is done.
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
def simulate_grid(
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
    progress: ProgressChoice = "auto",
    devices: Sequence[Any] | None = None,
    separate: bool = False,
    warn: bool = True,
) -> ResultList:
    """Run several hyperparameter settings of one policy as one batch: one compile, full blocks, common noise.

    `grid` lists parameters of one structure, ``[params._replace(radius_scale=s) for s in scales]`` for example. With
    `separate` every parameter is batched, also those that all settings share: one program then serves any number and
    mix of settings, and a setting's bits do not depend on which others run beside it; sharing is a little faster. Where
    replications are unhealthy, an `UnhealthyWarning` says so unless `warn` is False. Every other argument and error is
    as in :func:`simulate`; `chunk_size` counts the replications of all settings together.

    Returns:
        A list of one :class:`Result` per setting, in order; a notebook shows it as a table.
    """
    check_progress(progress)
    batch = _checked(
        policy,
        grid,
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
        devices=devices,
        separate=separate,
    )
    with showing(progress, policy.name, batch.seeds.size * len(grid)) as advance:
        played = _play(batch, advance)
        if batch.lanes.on_cpu and loops_stay_apart():
            took_long("running", policy.name, played.clock["run"], _SET_UP)
    notes = unhealthy(policy, played.outputs["health"], np.tile(batch.seeds, len(grid)))
    if notes and warn:
        warn_of(*notes)
    return ResultList(_result(batch, played, number) for number in range(len(grid)))


@_by_itself
def traced(
    policy: Policy,
    params: Any,
    bandit: LinearBandit,
    *,
    horizon: int,
    num_seeds: int,
    dtype: npt.DTypeLike | None = None,
    block_size: int | None = None,
    devices: Sequence[Any] | None = None,
    for_card: bool | None = None,
) -> tuple[Any, Launch]:
    """The program of a run, for whoever looks at programs instead of running them.

    Arguments are as in :func:`simulate`, but `devices` need not be here. `for_card` says whether to trace what a GPU
    would play, on whatever devices; by default what these would. Returns what JAX traced (`jax.stages.Traced`), and
    what it was traced from.
    """
    batch = _checked(
        policy,
        [params],
        bandit,
        horizon=horizon,
        num_seeds=num_seeds,
        dtype=dtype,
        block_size=block_size,
        devices=devices,
        key=jax.random.key(0),
    )
    launch = _launch(batch, policy, not batch.lanes.on_cpu if for_card is None else for_card)
    rows = np.zeros(batch.block * len(batch.lanes.devices), np.int64)
    return lower(launch, batch.arguments(rows)), launch


def _checked(
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
    devices: Sequence[Any] | None = None,
    separate: bool = False,
) -> _Batch:
    """The batch that :func:`simulate_grid` was asked for, in the dtype of the run; ValueError for wrong input."""
    _check_what_is_played(policy, bandit, coverage)
    horizon = _check_horizon(policy, horizon)
    dtype_name = check_dtype(dtype)
    seed_array = check_seeds(num_seeds, seeds)
    rounds = check_rounds(horizon, num_records, record_at)
    check_key(key)
    _check_grid(policy, grid, bandit, horizon, dtype_name)
    lanes = lanes_of(devices)

    def bytes_each() -> int:
        return seed_bytes(policy, grid[0], bandit, horizon if trace else 0, dtype_name)

    block = block_of(block_size, lanes.on_cpu, -(-seed_array.size * len(grid) // lanes.shares), bytes_each)
    chunk = None if chunk_size is None else whole_number("chunk_size", chunk_size, 1)
    leaves, treedef = stack(grid, dtype_name, separate)
    law, static_law = law_of(bandit.noise, dtype_name)
    _, numbers = generator_of(bandit.generator, dtype_name)
    return _Batch(
        policy=policy,
        grid=list(grid),
        bandit=bandit,
        horizon=horizon,
        seeds=seed_array,
        rounds=rounds,
        key=threefry_key(key),
        prng=prng_name(key),
        trace=bool(trace),
        coverage=bool(coverage),
        dtype=dtype_name,
        lanes=lanes,
        block=block,
        chunk=chunk,
        leaves=leaves,
        treedef=treedef,
        world=world_of(bandit, law, dtype_name)._replace(instance=numbers),
        static_law=static_law,
    )


class _Batch(NamedTuple):
    """What a call asks for, checked and in its dtype: every setting of the grid [G] with every seed [S], G * S rows."""

    policy: Policy
    grid: list[Any]
    bandit: LinearBandit
    horizon: int
    seeds: npt.NDArray[np.uint32]
    rounds: npt.NDArray[np.int64]
    key: jax.Array  # that the run draws from
    prng: str  # its generator, and the one of the key as given
    trace: bool
    coverage: bool
    dtype: str
    lanes: Lanes
    block: int
    chunk: int | None
    leaves: list[Leaf]  # of the grid's parameters
    treedef: Any
    world: World
    static_law: Any

    def arguments(self, rows: npt.NDArray[np.int64]) -> Any:
        """What a launch of these rows is called with."""
        setting, place = np.divmod(rows, self.seeds.size)
        varying = [leaf.values[setting] for leaf in self.leaves if leaf.varies]
        shared = [leaf.values for leaf in self.leaves if not leaf.varies]
        arguments = (self.seeds[place], varying, shared, self.world, self.rounds.astype(np.int32), self.key)
        return jax.tree.map(jnp.asarray, arguments)


class _Played(NamedTuple):
    """The outcome of a batch."""

    outputs: dict[str, npt.NDArray[Any]]  # each [G * S, ...]
    repeated: npt.NDArray[np.bool_]  # [G * S]: played again with larger buffers
    clock: dict[str, float]  # seconds of "compile" and "run"


def _check_what_is_played(policy: Any, bandit: Any, coverage: bool) -> None:
    if not isinstance(policy, Policy):
        raise ValueError(f"policy={kind(policy)}: must be a linbet_jax.Policy, the first of what make_policy returns")
    if not isinstance(bandit, LinearBandit):
        raise ValueError(f"bandit={kind(bandit)}: must be a linbet_jax.LinearBandit, dataset('S3') for example")
    if coverage and policy.region is None:
        raise ValueError(f"coverage={coverage!r}: policy {policy.name} has no confidence region")
    if coverage and bandit.path is not None:
        raise ValueError(f"coverage={coverage!r}: {bandit.name} has no fixed theta* for a confidence region to hold")
    whole_number("pulls_per_epoch", policy.pulls_per_epoch, 1)
    if not policy.updates:
        raise ValueError(f"policy {policy.name}: update=(): must be a function, or a tuple of at least one")
    if policy.sees_scales and not reveals_scales(bandit.noise):
        raise ValueError(
            f"bandit={bandit.name}: policy {policy.name} sees the scale of each payoff, and {bandit.noise.name}"
            " noise reveals none; noise.Heteroscedastic does"
        )


def _check_horizon(policy: Policy, horizon: Any) -> int:
    pulls = whole_number("horizon", horizon, 1)
    most = 2**31 - 2 * max(STRETCH, policy.pulls_per_epoch)  # pulls are counted in int32
    if pulls >= most:
        raise ValueError(f"horizon={pulls}: must be below {most}")
    return pulls


def _check_grid(policy: Policy, grid: Any, bandit: LinearBandit, horizon: int, dtype_name: str) -> None:
    if not isinstance(grid, (list, tuple)) or hasattr(grid, "_asdict"):
        raise ValueError(f"grid={kind(grid)}: must be a list of parameters")
    if len(grid) == 0:
        raise ValueError("grid=[]: must hold at least one setting")
    for params in grid:
        check_params(policy, params, bandit, horizon, dtype_name)


def _launch(batch: _Batch, policy: Policy, on_card: bool) -> Launch:
    """The program that plays the batch with this policy, the batch's own or one with larger buffers."""
    plan = _plan(policy, batch.bandit, batch.horizon, batch.static_law, batch.dtype, on_card)
    return Launch(
        plan=plan._replace(trace_pulls=batch.horizon if batch.trace else 0, coverage=batch.coverage),
        devices=batch.lanes.devices,
        block_size=batch.block,
        treedef=batch.treedef,
        batched=tuple(leaf.varies for leaf in batch.leaves),
        arms=shape_of_set(batch.bandit, batch.dtype),
    )


def _play(batch: _Batch, progress: Progress | None) -> _Played:
    """Every row, those that overflow their buffers again and again with larger ones."""
    policy, size = batch.policy, batch.seeds.size * len(batch.grid)
    played = _Played({}, np.zeros(size, bool), {"compile": 0.0, "run": 0.0})
    pending = np.arange(size)
    for attempt in range(MAX_ENLARGEMENTS + 1):
        launch_all(
            _launch(batch, policy, not batch.lanes.on_cpu),
            batch.lanes.at_once,
            batch.arguments,
            pending,
            size,
            batch.chunk,
            progress,
            played.clock,
            played.outputs,
        )
        pending = np.flatnonzero(played.outputs["overflow"])
        if pending.size == 0:
            break
        enlarge = None if policy.buffers is None else policy.buffers.enlarge
        if enlarge is None or attempt == MAX_ENLARGEMENTS:
            raise ValueError(
                f"policy {policy.name}: seed {batch.seeds[pending[0] % batch.seeds.size]} overflows its buffers"
                + (f" after {attempt} enlargements" if attempt else "")
            )
        played.repeated[pending] = True
        policy = enlarge()
    return played


def _result(batch: _Batch, played: _Played, number: int) -> Result:
    """The result of setting ``number`` of the grid."""
    policy, outputs, count = batch.policy, played.outputs, batch.seeds.size
    rows = slice(number * count, (number + 1) * count)
    health = outputs["health"][rows]
    coverage, trace = None, None
    if batch.coverage:
        coverage = Coverage(outputs["first_miss"][rows].astype(np.int64), outputs["worst_ratio"][rows])
    if batch.trace:
        trace = Trace(outputs["trace_arms"][rows], outputs["trace_payoffs"][rows])
    return Result(
        name=policy.name,
        bandit=batch.bandit.name + (", fresh instances" if batch.bandit.generator is not None else ""),
        rounds=batch.rounds,
        regret=outputs["regret"][rows],
        payoff=outputs["payoff"][rows],
        health=health.astype(np.int64),
        seeds=batch.seeds.astype(np.int64),
        key=np.asarray(jax.random.key_data(batch.key)),
        final_estimate=outputs["estimate"][rows] if "estimate" in outputs else None,
        trace=trace,
        params=batch.grid[number],
        facts=dict(policy.about.facts),
        notes=policy.about.notes + unhealthy(policy, health, batch.seeds),
        block_size=batch.block,
        dtype=batch.dtype,
        device=str(batch.lanes),
        prng=batch.prng,
        reruns=int(np.count_nonzero(played.repeated[rows])),
        compile_seconds=played.clock["compile"],
        run_seconds=played.clock["run"],
        coverage=coverage,
    )
