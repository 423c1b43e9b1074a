"""Where launches run: one program for all GPUs together, or on CPU one program on one device, in several lanes at once.

Several CPU devices would need a program of several partitions, which XLA compiles otherwise than the program of one
device: in float32 its last bits differ. A lane is a thread that calls the program of one device, so that a seed's bits
do not depend on how many cores there are; XLA runs what different threads call at the same time, and what one thread
calls in order.
"""

from __future__ import annotations

import functools
import itertools
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import jax

from linbet_jax.checks import check_devices
from linbet_jax.cores import usable_cores


class Lanes(NamedTuple):
    """What the replications of a simulation are shared between.

    Attributes:
        devices: what a program is compiled for; one on CPU.
        at_once: launches that run at the same time; 1 on anything but a CPU.
    """

    devices: tuple[Any, ...]
    at_once: int

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
    """The lanes for the devices a caller names.

    Args:
        devices: on CPU one lane for each. None takes the local devices of the default backend; on CPU one lane for
            each core this process may use, unless JAX was given a number of CPU devices.

    Raises:
        ValueError: devices that are none, or named twice.
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
    """Where a simulation begins: one lane on from the last one, so that small ones beside each other spread out."""
    return next(_TURN)


_TURN = itertools.count()


def submit(lane: int, launch: Callable[[], Any]) -> Callable[[], Any]:
    """Starts a launch on a lane, after those it was given before, of whichever simulation.

    JAX's settings that hold for one thread only (``jax.disable_jit()`` and the like) do not reach it.

    Returns:
        A function that waits until the launch is made and returns what it returned.
    """
    try:
        given = _lane(lane)
    except RuntimeError:  # Python is ending and starts no more threads
        launched = launch()
        return lambda: launched
    future: Future[Any] = Future()
    given.put((future, launch))
    return future.result


# Threads of our own: those of an executor take nothing on once the main thread has ended, while others may still run.
@functools.cache
def _lane(lane: int) -> queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]:
    given: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            _launch(*given.get())

    threading.Thread(target=work, name=f"linbet-lane-{lane}", daemon=True).start()
    return given


def _launch(future: Future[Any], launch: Callable[[], Any]) -> None:
    try:
        future.set_result(launch())
    except BaseException as error:  # the caller's to raise
        future.set_exception(error)
