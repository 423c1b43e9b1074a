"""Runs the parts of a sweep on the workers of a Dask cluster. Workers compute; the driver alone writes.

Parts go out through a window of two per worker, so that no worker waits and nothing piles up. A worker that dies
loses nothing but its parts of the moment, which others repeat; a scheduler that dies ends the run, and what was
gathered is kept.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from linbet_jax.errors import InputError, named
from linbet_jax.simulation.runtime import cache_folder
from linbet_jax.sweep import launch, targets, worker
from linbet_jax.sweep.estimate import COMPILE_SECONDS
from linbet_jax.sweep.executors import Advance, Part, PartOutcome, Wanted, next_part

WINDOW = 2  # parts given to one worker at a time: one runs, one waits
_TICK_SECONDS = 1.0  # between looks at which workers there are
_ALONE_SECONDS = 60.0  # without any worker before the run is given up
_GATHER_SECONDS = 300.0  # for one part's numbers to arrive
_KILLED = "KilledWorker"
_EQUAL = ("python", "dask", "distributed", "msgpack", "cloudpickle", "jax", "jaxlib", "numpy")


class Cluster:
    """An executor (`executors.Executor`, with its attributes) on a Dask cluster. Use as a context manager.

    What is sent is unencrypted pickle: trusted networks only, or tls:// addresses.

    Args:
        target: `local`, `local:N`, `tcp://HOST:PORT`, `tls://HOST:PORT`, or a `targets.Slurm`.
        device: "cpu", "gpu", or "auto" for GPUs where there are.
        say: told, in lines for people, what is waited for and which workers are lost.

    Raises:
        InputError: on entering, when Dask is not installed, nothing answers, workers do not start, none has the device,
            or one would not give the same numbers as this process (other versions, code or settings).
        ConnectionError: on entering, when the scheduler dies meanwhile.
    """

    def __init__(
        self, target: str | targets.Target, *, device: str = "auto", say: Callable[[str], None] | None = None
    ) -> None:
        """Checks the target; nothing is started before entering."""
        self._target = targets.parse(target) if isinstance(target, str) else target
        self._device = device
        self._say = say or (lambda line: None)
        self._stack = contextlib.ExitStack()
        self.name = "Dask"

    def __enter__(self) -> Cluster:
        """Starts what is to be started, and asks every worker what it computes on."""
        with contextlib.ExitStack() as stack:
            self._client, self.platform = stack.enter_context(launch.connect(self._target, self._device, self._say))
            try:
                self._ready()
            except OSError as error:
                raise self._lost() from error
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends what was started here; workers of a cluster that ran before are left as they are."""
        self._stack.close()

    # Before the first part -------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        """Compares versions, gives every worker its cores, and lets it set JAX up."""
        there = self._there()
        if not there:
            raise InputError("--cluster: the workers have gone meanwhile")
        self._check_versions(there)
        names = {address: str(info["name"]) for address, info in there.items()}
        most = self._target.cores if isinstance(self._target, targets.Slurm) else None
        hosts = self._ask(worker.where, there)
        places = _places({names[address]: answer for address, answer in hosts.items()}, most)
        wanted = {name: value for name, value in worker.numbers("").items() if name != "device_kind"}
        setup = worker.WorkerSetup(self.platform, places, 1, wanted)
        prepared = self._ask(worker.prepare, there, setup)
        for address, facts in prepared.items():
            if facts["differences"]:
                unequal = "; ".join(facts["differences"])
                raise InputError(f"--cluster: the worker {names[address]} would give other numbers: {unequal}")
        kinds = collections.Counter(facts["kind"] for facts in prepared.values())
        if len(kinds) > 1:
            words = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
            raise InputError(f"--cluster: the workers have different devices ({words}): numbers would depend on luck")
        self.kind: str = next(iter(kinds))
        self.lanes = min(facts["lanes"] for facts in prepared.values())
        self.workers = self._target.jobs if isinstance(self._target, targets.Slurm) else len(there)
        self.devices = f"{self.kind} x{self.lanes} in each of {self.workers} workers"
        self._setup = setup._replace(lanes=self.lanes, numbers={**wanted, "device_kind": self.kind})

    def _there(self) -> dict[str, Any]:
        """Workers that can be used now, by address."""
        return {
            address: info
            for address, info in launch.workers(self._client).items()
            if self.platform == "cpu" or info["resources"].get(launch.GPU, 0) >= 1
        }

    def _check_versions(self, there: Iterable[str]) -> None:
        answers = self._client.get_versions(packages=["jax", "jaxlib"])
        if silent := [address for address in there if not answers["workers"].get(address)]:
            raise InputError(f"--cluster: the worker {silent[0]} does not answer")
        here = _packages(answers["client"])
        others = {"scheduler": answers["scheduler"], **{f"worker {a}": answers["workers"][a] for a in there}}
        unequal = []
        for name, versions in others.items():
            packages = _packages(versions)
            unequal += [
                f"{package} is {packages.get(package)} at the {name}, {here[package]} here"
                for package in (_EQUAL if name != "scheduler" else _EQUAL[1:5])
                if packages.get(package) != here[package]
            ]
        if unequal:
            more = f" and {len(unequal) - 3} more" if unequal[3:] else ""
            raise InputError(f"--cluster: versions must be equal everywhere: {'; '.join(unequal[:3])}{more}")

    def _ask(self, function: Callable[..., Any], there: Iterable[str], *arguments: Any) -> dict[str, Any]:
        """What a function of `worker` says in every worker."""
        answers: dict[str, Any] = self._client.run(function, *arguments, workers=list(there), on_error="return")
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                reason = answer if isinstance(answer, InputError) else named(answer)
                raise InputError(f"--cluster: the worker {address} cannot compute: {reason}") from answer
        return answers

    # The parts -------------------------------------------------------------------------------------------------------

    def run(self, parts: Sequence[Part], *, wanted: Wanted, advance: Advance) -> Iterator[tuple[Part, PartOutcome]]:
        """See `executors.Executor`.

        Raises:
            ConnectionError: the scheduler is gone, or there has been no worker for a minute.
            InputError: a worker that came later would give other numbers.
        """
        waiting, suspects = _spread(parts), list[Part]()
        running: dict[str, tuple[Part, Any]] = {}
        compiled, opening = set[int](), set[int]()  # programs that some worker has, and that a first one compiles
        self._weigh(parts)
        finished: queue.SimpleQueue[str] = queue.SimpleQueue()
        workers, run = self._watch(), secrets.token_hex(4)
        try:
            while waiting or running or suspects:
                there = next(workers)
                alone = not waiting  # then suspects, one at a time
                source, room = (suspects, 1) if alone else (waiting, WINDOW * len(there))
                while len(running) < room and (part := next_part(source, opening)) is not None:
                    if not wanted(part):
                        continue
                    if self._one_cache and part.program not in compiled:
                        opening.add(part.program)
                    advance(part, 0)
                    key = f"linbet-{run}-{part.number}" + ("-alone" if alone else "")
                    running[key] = part, self._send(part, key)
                    running[key][1].add_done_callback(lambda future: finished.put(future.key))
                try:
                    key = finished.get(timeout=_TICK_SECONDS)
                except queue.Empty:
                    continue
                part, future = running.pop(key)
                opening.discard(part.program)
                outcome = self._outcome(future)
                if outcome.result is not None:
                    compiled.add(part.program)
                future.release()  # or Dask computes it again when the worker that holds it dies
                if (outcome.error or "").startswith(_KILLED) and not key.endswith("-alone"):
                    suspects.append(part)  # Dask blames all that a dead worker had, also what only waited there
                else:
                    yield part, outcome
        finally:
            # Where the scheduler is gone there is nobody to tell.
            with contextlib.suppress(Exception):
                self._client.cancel([future for _, future in running.values()])

    @property
    def _one_cache(self) -> bool:
        """Whether workers find each other's compiled programs: then no two need compile one at the same time."""
        return isinstance(self._target, targets.Local) and cache_folder() is not None

    def _weigh(self, parts: Sequence[Part]) -> None:
        """Says when workers of this machine take longer than this process would: each starts and compiles by itself."""
        if not isinstance(self._target, targets.Local) or self.platform != "cpu" or not parts:
            return
        programs = len({part.program for part in parts})
        compiling = COMPILE_SECONDS * programs
        running = sum(part.cost for part in parts) / self.lanes - compiling  # as the driver counts, on all of a worker
        if running / self.workers < compiling:
            plural = "s" if programs > 1 else ""
            self._say(
                f"--cluster local does not pay here: {programs} program{plural} to compile, and little to run; every"
                " worker starts and loads them by itself. Without --cluster this process uses all cores"
            )

    def _send(self, part: Part, key: str) -> Any:
        """Dask's future of a part. To whichever worker: one that is named and dies could leave it waiting for ever."""
        return self._client.submit(
            worker.compute,
            self._setup,
            dict(part.spec),
            key=key,
            resources={launch.GPU: 1} if self.platform == "gpu" else None,
            retries=0,
            pure=False,
        )

    def _outcome(self, future: Any) -> PartOutcome:
        """What became of a part; raises what `run` does."""
        from distributed import KilledWorker

        if future.status == "error":
            error = future.exception(timeout=_GATHER_SECONDS)
            if isinstance(error, KilledWorker):
                last = str(getattr(error.last_worker, "address", error.last_worker))
                return PartOutcome(None, f"{_KILLED}: every worker that ran it died, the last one {last}", last)
            return PartOutcome(None, named(error), self.name)
        if future.status != "finished":  # Dask cancels every future when the scheduler is gone
            raise self._lost()
        try:
            answer: Mapping[str, Any] = future.result(timeout=_GATHER_SECONDS)
        except Exception as error:  # it ended well there, so that only the way here can have failed
            raise self._lost() from error
        if "refused" in answer:
            name, reason = answer["worker"], answer["refused"]
            raise InputError(f"--cluster: the worker {name} came later and cannot join: {reason}")
        return PartOutcome(answer["result"], None, answer["worker"])

    def _watch(self) -> Iterator[set[str]]:
        """Addresses of the workers, for ever; looked up once a second, when those that are gone are told."""
        there: set[str] = set()
        looked, seen = float("-inf"), time.monotonic()  # the last look, and the last one that met a worker
        while True:
            if time.monotonic() - looked >= _TICK_SECONDS:
                if self._client.status != "running":
                    raise self._lost()
                try:
                    present = set(self._there())
                except Exception as error:  # of the way to the scheduler
                    raise self._lost() from error
                for address in sorted(there - present):
                    self._say(f"worker {address} is gone; its parts are run elsewhere")
                there, looked = present, time.monotonic()
                seen = looked if there else seen
                if looked - seen > _ALONE_SECONDS:
                    raise ConnectionError(f"{self._place()} has had no worker for {_ALONE_SECONDS:.0f} s")
            yield there

    def _place(self) -> str:
        target = self._target
        return f"the cluster at {target.url}" if isinstance(target, targets.Address) else "the cluster"

    def _lost(self) -> ConnectionError:
        return ConnectionError(f"lost the scheduler of {self._place()}")


def _spread(parts: Sequence[Part]) -> list[Part]:
    """One part of every program, then a second of each, and so on.

    Workers then compile different programs at a time, and find those of the others in the compile cache.
    """
    rank: dict[int, Iterator[int]] = collections.defaultdict(itertools.count)  # of the next part of each program
    return sorted(parts, key=lambda part: next(rank[part.program]))


def _places(hosts: Mapping[str, Mapping[str, Any]], most: int | None = None) -> dict[str, list[int]]:
    """Cores of each worker by its name, at most so many: workers that share the same cores of a host divide them."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, facts in hosts.items():
        groups.setdefault((facts["host"], *facts["cores"]), []).append(name)
    places = {}
    for (_, *cores), names in groups.items():
        size = min(max(1, len(cores) // len(names)), most or len(cores))
        for index, name in enumerate(sorted(names)):
            first = index * size % len(cores)
            places[name] = cores[first : first + size]
    return places


def _packages(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Versions by package, Python's without its last number."""
    versions = dict(answer.get("packages") or {})
    return {**versions, "python": ".".join(str(versions.get("python")).split(".")[:2])}
