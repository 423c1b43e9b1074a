"""Dask clusters for sweeps: worker processes on this machine, a scheduler that runs already, jobs of a Slurm queue."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker, spawn
from typing import Any

from linbet_jax.errors import InputError, named
from linbet_jax.simulation import runtime
from linbet_jax.sweep.targets import Address, Local, Slurm, Target

GPU = "GPU"  # the resource that a worker with a GPU offers
_UP_SECONDS = 60.0  # for local workers to be there: they import JAX
_ANSWER_SECONDS = 10.0  # for a scheduler to answer and to have a worker
_NO_DASHBOARD = {"dashboard": False, "dashboard_address": ":0"}  # its usual port may be another cluster's
_CONFIG = {
    "distributed.scheduler.allowed-failures": 3,  # workers that may die of one part
    "distributed.worker.profile.enabled": False,
    "distributed.worker.multiprocessing-method": "spawn",  # JAX does not survive a fork
}


@contextlib.contextmanager
def connect(target: Target, device: str, say: Callable[[str], None]) -> Iterator[tuple[Any, str]]:
    """A client of a cluster that has a worker at least, and the platform of its devices, "cpu" or "gpu".

    What was started here is ended when the block ends, however it ends. Arguments and errors are those of `Cluster`.
    """
    extra = "slurm" if isinstance(target, Slurm) else "cluster"
    needed = ("dask_jobqueue", "distributed") if extra == "slurm" else ("distributed",)
    if any(importlib.util.find_spec(name) is None for name in needed):
        raise InputError(f"--cluster: needs Dask, which is not installed; pip install 'linbet_jax[{extra}]'")
    try:
        import dask
        import distributed  # noqa: F401
    except Exception as error:  # a configuration file of Dask's that is damaged, say
        raise InputError(f"--cluster: Dask cannot be used: {_reason(error)}") from error

    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(_CONFIG))
        stack.enter_context(_quiet())
        if isinstance(target, Local):
            stack.enter_context(_apart())
            cluster, count, platform = _local(target, device)
            stack.callback(cluster.close, timeout=_ANSWER_SECONDS)
            client = stack.enter_context(_client(cluster))
            client.wait_for_workers(count, timeout=_UP_SECONDS)
        elif isinstance(target, Slurm):
            platform = "gpu" if device == "gpu" else "cpu"
            cluster = _slurm(target, platform)
            stack.callback(cluster.close, timeout=_ANSWER_SECONDS)
            client = stack.enter_context(_client(cluster))
            _submit(cluster, target)
            say(f"waiting for the first of {target.jobs} jobs in the queue {target.queue}")
            client.wait_for_workers(1)
        else:
            _check_scheduler(target.url)
            client = stack.enter_context(_client(target.url))
            platform = _platform(client, target, device)
        yield client, platform


def workers(client: Any) -> dict[str, Any]:
    """What the scheduler knows of its workers, by address; OSError where it is gone."""
    # `Client.scheduler_info` returns an object that the client itself refreshes meanwhile, without any worker in it.
    identities: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return identities


def _client(cluster: Any) -> Any:
    from distributed import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions are compared later, in words of our own
        return Client(cluster, set_as_default=False, timeout=_ANSWER_SECONDS)


def _reason(error: BaseException) -> str:
    """What was at the bottom of an error."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return named(error).removesuffix(": ")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own log lines, warnings and errors of what is expected here, stay off the terminal."""
    import distributed  # noqa: F401  (sets its loggers up when it is imported)

    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    before = {name: logging.getLogger(name).level for name in ("distributed", *names)}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


# On this machine -----------------------------------------------------------------------------------------------------


def _local(target: Local, device: str) -> tuple[Any, int, str]:
    """A cluster of processes, their number, and their platform."""
    from distributed import Nanny, Scheduler, SpecCluster

    gpus = [] if device == "cpu" else _gpus()
    if device == "gpu" and not gpus:
        raise InputError("--device gpu: JAX finds no GPU on this machine; for NVIDIA cards install linbet_jax[cuda]")
    if target.workers is not None and gpus and target.workers > len(gpus):
        raise InputError(f"--cluster local:{target.workers}: must be at most {len(gpus)}, one worker per GPU")
    count = target.workers or len(gpus) or len(runtime.usable_cores())
    options = {
        "host": "127.0.0.1",
        "nthreads": 1,
        "memory_limit": 0,  # as in process: what a part needs, it takes
        "dashboard": False,
        "silence_logs": logging.CRITICAL + 1,
    }
    workers = {}
    for index in range(count):
        special: dict[str, Any] = {"env": {"DASK_LOGGING__DISTRIBUTED": "critical"}}
        if gpus:
            special["env"] |= {"CUDA_VISIBLE_DEVICES": gpus[index], "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
            special["resources"] = {GPU: 1}
        workers[index] = {"cls": Nanny, "options": {**options, **special}}
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, **_NO_DASHBOARD}}
    try:
        with _interrupts_held():
            cluster = SpecCluster(workers=workers, scheduler=scheduler, silence_logs=False, name="linbet")
    except Exception as error:  # whatever Dask's own configuration can break: preloads, folders, encryption
        raise InputError(f"--cluster local: the workers cannot be started: {_reason(error)}") from error
    return cluster, count, "gpu" if gpus else "cpu"


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Threads that begin in the block, and their processes, never see Ctrl-C: the driver ends them in order."""
    resource_tracker.ensure_running()  # or the first process would start it, and that lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Workers that begin in the block owe nothing to how the driver was started.

    They do not run its script again, of which they need nothing: it may be unguarded, or have come from a pipe. And
    they import nothing from the working folder, whose `types.py` would be taken for Python's own.
    """
    data, safe = spawn.get_preparation_data, os.environ.get("PYTHONSAFEPATH", "")  # empty is as good as not set

    def without_main(name: str) -> dict[str, Any]:
        worker = name.startswith("Dask Worker process")
        return {k: v for k, v in data(name).items() if not (worker and k.startswith("init_main"))}

    spawn.get_preparation_data, os.environ["PYTHONSAFEPATH"] = without_main, "1"
    try:
        yield
    finally:
        spawn.get_preparation_data, os.environ["PYTHONSAFEPATH"] = data, safe


def _gpus() -> list[str]:
    """CUDA_VISIBLE_DEVICES of each GPU that JAX finds; asked of another process, so that this one holds none."""
    if importlib.util.find_spec("jax_plugins") is None:
        return []
    code = "import jax; print(sum(device.platform == 'gpu' for device in jax.devices()))"
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    count = int(done.stdout) if done.returncode == 0 else 0
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return visible[:count] or [str(index) for index in range(count)]


# Elsewhere -----------------------------------------------------------------------------------------------------------


def _check_scheduler(url: str) -> None:
    """Refuses what is no scheduler of Dask's; its own client waits for ever where something else answers."""
    from distributed.core import rpc
    from distributed.security import Security
    from distributed.utils import LoopRunner

    async def kind() -> str:
        async with (
            asyncio.timeout(_ANSWER_SECONDS + 1.0),
            rpc(url, timeout=_ANSWER_SECONDS, connection_args=Security().get_connection_args("client")) as there,
        ):
            return str((await there.identity())["type"])

    try:
        answer = LoopRunner().run_sync(kind)
    except Exception as error:  # of the network, of TLS, or what another protocol's bytes are taken for
        raise InputError(f"--cluster {url}: no Dask scheduler answers there ({_reason(error)})") from error
    if answer != "Scheduler":
        raise InputError(f"--cluster {url}: is a Dask {answer}, must be a scheduler")


def _platform(client: Any, target: Address, device: str) -> str:
    """The platform of the workers of a running cluster; GPUs are taken where a worker offers the resource GPU."""
    try:
        client.wait_for_workers(1, timeout=_ANSWER_SECONDS)
    except TimeoutError as error:
        raise InputError(
            f"--cluster {target.url}: the scheduler has no worker; start some: dask worker {target.url} --nthreads 1"
        ) from error
    there = workers(client)
    offered = any(worker["resources"].get(GPU, 0) >= 1 for worker in there.values())
    if device == "gpu" and not offered:
        raise InputError(
            f"--device gpu: none of the {len(there)} workers of {target.url} offers the resource {GPU}; start one "
            f"for each GPU: CUDA_VISIBLE_DEVICES=0 dask worker {target.url} --nthreads 1 --resources '{GPU}=1'"
        )
    return "gpu" if offered and device != "cpu" else "cpu"


def _slurm(target: Slurm, platform: str) -> Any:
    for command in ("sbatch", "scancel"):
        if shutil.which(command) is None:
            raise InputError(f"--cluster slurm: {command} is not on this machine; run this where jobs are submitted")
    try:
        return _slurm_cluster(target, platform)
    except Exception as error:  # whatever Dask's own configuration can break: an interface that is not there, say
        raise InputError(f"--cluster slurm: the scheduler cannot be started: {_reason(error)}") from error


def _submit(cluster: Any, target: Slurm) -> None:
    """Submits the jobs; `scale` would do it behind our back, and keep to itself what Slurm says against it."""
    from distributed import Status

    for _ in range(target.jobs):
        cluster.worker_spec.update(cluster.new_worker_spec())

    async def submitted() -> None:
        await cluster

    try:
        cluster.sync(submitted)
    except (RuntimeError, ValueError, OSError) as error:
        for job in cluster.workers.values():
            if job.job_id is None:
                job.status = Status.failed  # Dask would stumble over it when it ends the others
        raise InputError(f"--cluster slurm: sbatch refuses the job: {' '.join(str(error).split())}") from error


def _slurm_cluster(target: Slurm, platform: str) -> Any:
    """No job is submitted yet. What is not said here (interface, log folder, ...) comes from Dask's own files."""
    import dask
    from dask_jobqueue.slurm import SLURMCluster

    scheduler = dask.config.get("jobqueue.slurm.scheduler-options", None) or {}
    config: dict[str, Any] = {name: list(dask.config.get(f"jobqueue.slurm.{name}", None) or []) for name in _LISTS}
    config["job-script-prologue"].append("export PYTHONSAFEPATH=1")  # no module of the folder hides one of Python's own
    if platform == "gpu":
        config["job-extra-directives"].append("--gres=gpu:1")
        config["worker-extra-args"] += ["--resources", f"{GPU}=1"]
        config["job-script-prologue"].append("export XLA_PYTHON_CLIENT_PREALLOCATE=false")
    return SLURMCluster(
        queue=target.queue,
        account=target.account,
        walltime=target.walltime,
        memory=target.memory,
        cores=1,  # threads of the worker: a part takes all cores of its job by itself
        processes=1,
        job_cpu=target.cores,
        job_name="linbet",
        scheduler_options={**_NO_DASHBOARD, **scheduler},
        **{name.replace("-", "_"): value for name, value in config.items()},
    )


_LISTS = ("job-extra-directives", "worker-extra-args", "job-script-prologue")
