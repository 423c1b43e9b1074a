"""What a worker of a cluster does: say where it is, set JAX up as the command line does, compute parts.

Everything goes in and out as plain data. A worker whose settings would give other numbers than the driver's computes
nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from linbet_jax.errors import InputError, named
from linbet_jax.simulation import runtime
from linbet_jax.simulation.checks import x64_enabled
from linbet_jax.storage import provenance
from linbet_jax.sweep.work import run_part


class WorkerSetup(NamedTuple):
    """What the driver asks of its workers."""

    device: str  # "cpu" or "gpu"
    places: Mapping[str, Sequence[int]]  # cores of each worker by its name; who is not in it came later
    lanes: int  # CPU devices of a worker that came later
    numbers: Mapping[str, Any]  # as `numbers` gives them for the driver; without `device_kind` it may be any


def numbers(kind: str) -> dict[str, Any]:
    """What must be equal in every process whose results are put together."""
    numerics = {name: value for name, value in provenance.numerics("", kind).items() if name != "dtype"}
    return {**numerics, "jax_enable_x64": x64_enabled()}


def where() -> dict[str, Any]:
    """Host and cores of this process; starts no device."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "cores": runtime.usable_cores()}


def prepare(setup: WorkerSetup, dask_worker: Any) -> dict[str, Any]:
    """Pins this process to its cores, sets JAX up, and says what it computes on; `Client.run` fills the worker in.

    Returns `kind`, `lanes` (devices of this process) and `differences`, what differs from the driver's numbers (in
    words for the driver: "there" is this worker). InputError where the worker runs parts side by side, or the device
    that was asked for is not there.
    """
    if dask_worker.state.nthreads != 1:
        raise InputError(f"it must have one thread (--nthreads 1), not {dask_worker.state.nthreads}")
    cores = setup.places.get(str(dask_worker.name))
    lanes = min(setup.lanes, len(runtime.usable_cores())) if cores is None else len(cores)
    if setup.device == "cpu" and cores is not None:
        _pin(cores)
    devices = runtime.prepare(setup.device, cores=lanes if setup.device == "cpu" else None)
    there = numbers(devices.kind)
    unequal = [f"{k} is {there.get(k)} there, {v} here" for k, v in setup.numbers.items() if there.get(k) != v]
    return {"kind": devices.kind, "lanes": devices.count, "differences": unequal}


def compute(setup: WorkerSetup, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a part in a worker: `worker`, its name for the journal, and `result` or `refused`, why it cannot run it."""
    from distributed import get_worker

    worker = get_worker()
    name = f"{socket.gethostname()}/{worker.name}"
    try:
        refused = "; ".join(prepare(setup, worker)["differences"])
    except Exception as error:  # whatever JAX raises where a driver or a device is broken
        refused = str(error) if isinstance(error, InputError) else named(error)
    return {"worker": name, "refused": refused} if refused else {"worker": name, "result": run_part(spec)}


def _pin(cores: Sequence[int]) -> None:
    """Keeps every thread of this process, and those that it will start, on these cores."""
    if not hasattr(os, "sched_setaffinity"):
        return
    threads = [int(path.name) for path in Path("/proc/self/task").iterdir()] if Path("/proc/self/task").is_dir() else []
    for thread in (0, *threads):
        with contextlib.suppress(OSError):  # a thread that has ended, or cores that a scheduler has taken away since
            os.sched_setaffinity(thread, cores)
