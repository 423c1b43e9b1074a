"""Where launches run: one program for all GPUs together, or on CPU one program on one device, in several lanes at once.

Several CPU devices would need a program of several partitions, which XLA compiles otherwise than the program of one
device: in float32 its last bits differ. A lane is a thread that calls the program of one device, so that a seed's bits
do not depend on how many cores there are. Every launch runs on a lane: whoever waits for it hears Ctrl-C at once, which
a thread inside a program does not.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple

import jax

from linbet_jax.simulation.checks import check_devices
from linbet_jax.simulation.cores import usable_cores


class Lanes(NamedTuple):
    """What the replications of a simulation are shared between."""

    devices: tuple[Any, ...]  # what a program is compiled for; one on CPU
    at_once: int  # launches that run at the same time; 1 on anything but a CPU

    @property
    def on_cpu(self) -> bool:
        """Whether they are the cores of a CPU."""
        return bool(self.devices[0].platform == "cpu")

    @property
    def shares(self) -> int:
        """Shares of the replications that are computed side by side: one on each core or device."""
        return self.at_once * len(self.devices)

    def __str__(self) -> str:
        """E.g. ``cpu x2``."""
        return f"{self.devices[0].device_kind} x{self.shares}"


def lanes_of(devices: Any) -> Lanes:
    """The lanes for the devices a caller names, on CPU one for each; ValueError for what is no device, or named twice.

    None takes the local devices of the default backend; on CPU one lane for each core this process may use, unless JAX
    was given a number of CPU devices.
    """
    chosen = check_devices(devices)
    if chosen[0].platform != "cpu":
        return Lanes(chosen, 1)
    spread = devices is None and not cpu_devices_chosen()
    return Lanes(chosen[:1], max(len(chosen), len(usable_cores())) if spread else len(chosen))


def cpu_devices_chosen() -> bool:
    """Whether JAX was given a number of CPU devices, by its configuration or by the environment."""
    settings: Any = jax.config
    return devices_in_environment() or settings.jax_num_cpu_devices >= 0


def devices_in_environment() -> bool:
    """Whether the environment sets the number of CPU devices, which no configuration changes."""
    return "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")


def first_lane() -> int:
    """The lane of a simulation's first launch: the next one each time, so that small simulations spread out."""
    return next(_TURN)


_TURN = itertools.count()

_Queue = queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]  # None ends the lane
_LANES: dict[int, _Queue] = {}
_LOCK = threading.Lock()
_THREAD = "linbet-lane"


def submit(lane: int, launch: Callable[[], Any]) -> Future[Any]:
    """Starts a launch on a lane, after those it was given before, of whichever simulation.

    JAX's settings that hold for one thread only (``jax.disable_jit()`` and the like) do not reach it. Inside a
    callback of a launch, which would wait for its own lane, the caller makes the launch itself.

    Returns:
        What the launch will return or raise.
    """
    if _inside_a_launch():
        return here(launch)
    future: Future[Any] = Future()
    with contextlib.suppress(RuntimeError), _LOCK:  # Python is ending and starts no more threads
        if lane not in _LANES:
            _LANES[lane] = _start(lane)
        _LANES[lane].put((future, launch))
        return future
    return here(launch)


def here(launch: Callable[[], Any]) -> Future[Any]:
    """Makes a launch in the caller's own thread."""
    future: Future[Any] = Future()
    _make(future, launch)
    return future


def abandon(futures: Iterable[Future[Any]]) -> None:
    """Gives launches up: those not begun never run. One that has begun cannot be ended: its lane gets a successor."""
    running = [future for future in futures if not (future.cancel() or future.done())]
    if running:
        with _LOCK:
            for given in _LANES.values():
                given.put(None)
            _LANES.clear()


def _inside_a_launch() -> bool:
    """Whether this thread is a lane or one of XLA's, which runs Python in callbacks only."""
    thread = threading.current_thread()
    return thread.name.startswith(_THREAD) or isinstance(thread, threading._DummyThread)


# Threads of our own: those of an executor take nothing on once the main thread has ended, while others may still run.
def _start(lane: int) -> _Queue:
    given: _Queue = queue.SimpleQueue()

    def work() -> None:
        while (item := given.get()) is not None:
            _make(*item)
            del item  # the outputs are their reader's

    threading.Thread(target=work, name=f"{_THREAD}-{lane}", daemon=True).start()
    return given


def _make(future: Future[Any], launch: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(launch())
    except BaseException as error:  # the caller's to raise
        future.set_exception(error)


_LEFT = threading.Condition()
_inside, _ending = 0, False


def wait_inside(outputs: Any) -> None:
    """Waits inside JAX for outputs that are about to be there.

    A thread in there would crash a process that ends meanwhile. So the end waits for it, and lets no other in.
    """
    global _inside
    with _LEFT:
        if _ending:
            return
        _inside += 1
    try:
        jax.block_until_ready(outputs)
    finally:
        with _LEFT:
            _inside -= 1
            _LEFT.notify_all()


@atexit.register
def _end() -> None:
    global _ending
    with _LEFT:
        _ending = True
        _LEFT.wait_for(lambda: _inside == 0)
