"""Who runs the parts of a sweep. An executor computes; the driver alone writes.

An executor takes parts and yields each with its outcome as it finishes, in any order. The numbers do not depend on it:
a part says everything, and `work.run_part` is what every executor calls.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from linbet_jax.errors import named
from linbet_jax.simulation.lanes import lanes_of
from linbet_jax.sweep.work import run_part

_THREADS = 2  # parts of this process at a time: one is compiled while another one runs


class Part(NamedTuple):
    """A piece of work.

    Attributes:
        number: its place in the driver's list.
        spec: plain data for `work.run_part`; picklable.
        cells: ids of the cells that it computes.
        titles: their names.
        program: number of its compiled program: parts of one number share a compile.
        pulls: seed-pulls, over all of its cells.
        cost: estimated seconds on one core.
    """

    number: int
    spec: Mapping[str, Any]
    cells: tuple[str, ...]
    titles: tuple[str, ...]
    program: int
    pulls: int
    cost: float


class PartOutcome(NamedTuple):
    """What became of a part.

    Attributes:
        result: what `work.run_part` returned; None when it was lost.
        error: why it was lost (a worker that died, say), as `Type: message`; None when it was not.
        worker: who ran it.
    """

    result: Mapping[str, Any] | None
    error: str | None
    worker: str


Wanted = Callable[[Part], bool]  # asked just before a part begins: False when its cells have failed meanwhile
Advance = Callable[[Part, int], None]  # seed-pulls of a part that are done so far; 0 says that it has begun


class Executor(Protocol):
    """What the driver needs of an executor; thread-safe callbacks may be called from any thread.

    Attributes:
        name: for messages.
        platform: "cpu" or "gpu", of the devices that compute.
        kind: the device's own name; part of every cell's identity.
        devices: what computes, in words, for the manifest.
        lanes: cores or devices that share one part: it fills them when its seeds are a multiple of lanes x block size.
        workers: parts that can run at the same time, for cutting large cells.
    """

    name: str
    platform: str
    kind: str
    devices: str
    lanes: int
    workers: int

    def run(self, parts: Sequence[Part], *, wanted: Wanted, advance: Advance) -> Iterator[tuple[Part, PartOutcome]]:
        """Yields every part that is still wanted with its outcome, as they finish.

        When the generator is closed (an error or Ctrl-C in the driver), parts that have not begun are dropped and
        nothing is waited for.
        """
        ...


def next_part(waiting: list[Part], busy: Collection[int]) -> Part | None:
    """Takes the first part whose program is not busy: its compiled program will soon be there for the others."""
    free = next((part for part in waiting if part.program not in busy), None)
    if free is not None:
        waiting.remove(free)
    return free


class InProcess:
    """Runs parts in this process, each shared by all local devices.

    Two threads take turns: one part compiles while another runs. Parts of one program never run at the same time, so
    that each program is compiled once.

    Args:
        devices: the devices to use; by default all local ones.
    """

    name = "in-process"
    workers = 1

    def __init__(self, devices: Sequence[Any] | None = None) -> None:
        """Looks at the devices, which starts JAX's backend."""
        lanes = lanes_of(devices)
        self._devices = devices
        self.platform = "cpu" if lanes.on_cpu else "gpu"
        self.kind: str = lanes.devices[0].device_kind
        self.lanes = lanes.shares
        self.devices = str(lanes)

    def run(self, parts: Sequence[Part], *, wanted: Wanted, advance: Advance) -> Iterator[tuple[Part, PartOutcome]]:
        """See :class:`Executor`."""
        waiting = list(parts)
        busy: set[int] = set()  # programs that are being run
        finished: queue.SimpleQueue[tuple[Part, PartOutcome | BaseException]] = queue.SimpleQueue()

        def compute(part: Part) -> None:
            try:
                finished.put((part, self._one(part, advance)))
            except BaseException as error:  # of a callback (the journal's disk is full): the driver's to raise
                finished.put((part, error))

        def begin() -> None:
            """Starts the first parts whose programs are free, as long as a thread is."""
            while len(busy) < _THREADS:
                part = next_part(waiting, busy)
                if part is None:
                    return
                if wanted(part):
                    busy.add(part.program)
                    # A daemon: nobody waits for it when the driver ends early.
                    threading.Thread(target=compute, args=(part,), name=f"sweep-{part.number}", daemon=True).start()

        begin()
        while busy:
            part, outcome = finished.get()
            busy.discard(part.program)
            if isinstance(outcome, BaseException):
                raise outcome
            begin()  # before the driver stores this part, so that the devices go on meanwhile
            yield part, outcome

    def _one(self, part: Part, advance: Advance) -> PartOutcome:
        advance(part, 0)
        try:
            result = run_part(
                part.spec,
                progress=lambda done, total: advance(part, part.pulls * done // total),
                devices=self._devices,
            )
        except BaseException as error:  # of the executor itself: what a simulation raises is in the result
            return PartOutcome(None, named(error), self.name)
        return PartOutcome(result, None, self.name)
