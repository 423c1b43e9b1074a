"""JAX's settings for a command: made once, before its first computation, and never by the library itself."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import jax

from linbet_jax.errors import InputError

__all__ = ["Runtime", "prepare"]


@dataclasses.dataclass(frozen=True)
class Runtime:
    """What the command computes on.

    Attributes:
        platform: "cpu" or "gpu".
        kind: the device's own name, e.g. "cpu" or "NVIDIA H100".
        count: devices of that platform in use.
    """

    platform: str
    kind: str
    count: int

    def __str__(self) -> str:
        """One phrase for people, e.g. `cpu, 2 cores`."""
        if self.platform == "cpu":
            return f"cpu, {self.count} core{'s' if self.count != 1 else ''}"
        return f"{self.platform}, {self.count} x {self.kind}"


def prepare(device: str) -> Runtime:
    """Switches 64-bit floats on, gives XLA one CPU device per usable core, and picks the platform.

    Args:
        device: "cpu", "gpu", or "auto" for what JAX itself would take.

    Returns:
        The device taken.

    Raises:
        InputError: the device that was asked for is not there.
    """
    jax.config.update("jax_enable_x64", True)
    _use_all_cores()
    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    try:
        devices = jax.devices("gpu") if device == "gpu" else jax.devices()
    except RuntimeError as error:
        if device != "gpu":
            raise InputError(f"JAX finds no device: {error}") from error
        raise InputError(
            f"--device gpu: JAX finds no GPU on this machine (it has {jax.default_backend()}); "
            "for NVIDIA cards install the extra linbet_jax[cuda]"
        ) from error
    if device == "gpu" and jax.default_backend() != "gpu":
        jax.config.update("jax_default_device", devices[0])
    return Runtime(devices[0].platform, devices[0].device_kind, len(devices))


def _use_all_cores() -> None:
    """One CPU device per core this process may use; what the user set in the environment stays."""
    settings: Any = jax.config
    if settings.jax_num_cpu_devices >= 0 or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:
        # JAX was already at work in this process (a test, a notebook): its devices are what there is.
        if not jax.devices():
            raise
