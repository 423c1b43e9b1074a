"""JAX's settings for a command, a worker or a script: made once, before its first computation, never by an import."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax

from linbet_jax.errors import InputError
from linbet_jax.simulation.checks import whole_number
from linbet_jax.simulation.cores import usable_cores
from linbet_jax.simulation.display import LOGGER
from linbet_jax.simulation.lanes import cpu_devices_chosen, devices_in_environment

__all__ = ["Runtime", "prepare", "set_up_cpu", "usable_cores"]


@dataclasses.dataclass(frozen=True)
class Runtime:
    """What the command computes on."""

    platform: str  # "cpu" or "gpu"
    kind: str  # the device's own name, e.g. "cpu" or "NVIDIA H100"
    count: int  # devices of that platform in use

    def __str__(self) -> str:
        """One phrase for people, e.g. `cpu, 2 cores`."""
        if self.platform == "cpu":
            return f"cpu, {self.count} core{'s' if self.count != 1 else ''}"
        return f"{self.platform}, {self.count} x {self.kind}"


CACHE_SWITCH = "LINBET_COMPILE_CACHE"  # "off" keeps compiled programs out of the user's cache folder


def prepare(device: str, cores: int | None = None) -> Runtime:
    """Switches 64-bit floats and JAX's compile cache on, gives XLA one CPU device per usable core, picks the platform.

    The device is "cpu", "gpu", or "auto" for what JAX itself would take; InputError where it is not there. `cores` are
    CPU devices, by default what the environment says, or else one per core this process may use.
    """
    jax.config.update("jax_enable_x64", True)
    _keep_compiled(cache_folder())
    _use_cores(cores)
    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    try:
        devices = jax.devices("gpu") if device == "gpu" else jax.devices()
    except (RuntimeError, AssertionError) as error:  # JAX's own assertion, without words, for CUDA without its plugin
        if device != "gpu":
            settings: Any = jax.config
            raise InputError(
                f"JAX finds no device (JAX_PLATFORMS={settings.jax_platforms}): {str(error) or 'none'}"
            ) from error
        raise InputError(
            "--device gpu: JAX finds no GPU on this machine; for NVIDIA cards install the extra linbet_jax[cuda]"
        ) from error
    if device == "gpu" and jax.default_backend() != "gpu":
        jax.config.update("jax_default_device", devices[0])
    return Runtime(devices[0].platform, devices[0].device_kind, len(devices))


def cache_folder() -> Path | None:
    """Where compiled programs are kept between commands; None when the environment switches it off or names no home."""
    if os.environ.get(CACHE_SWITCH, "on").strip().lower() in ("off", "0", "no", "false"):
        return None
    cache = Path(os.path.expanduser("~")) / ".cache"  # where there is no home the tilde stays
    places = [folder for folder in (Path(os.environ.get("XDG_CACHE_HOME", "")), cache) if folder.is_absolute()]
    return places[0] / "linbet_jax" / "compiled" if places else None


_CACHE_SETTINGS = {  # each unless the environment says it: programs that take a moment to compile are worth keeping
    "jax_persistent_cache_min_compile_time_secs": 0.2,
    "jax_persistent_cache_min_entry_size_bytes": 0,
}


def _keep_compiled(folder: Path | None) -> Path | None:
    """A second run of the same shapes compiles from that folder, or from the one that JAX was given; which it is."""
    given = _cache_in_use()
    if given is not None:
        return Path(given)
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written to: compile every time
        return None
    if not os.access(folder, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    for name, value in _CACHE_SETTINGS.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)
    return folder


def _cache_choice(compile_cache: Any) -> Path | None:
    """The folder that a caller means; None for none."""
    if compile_cache is None or isinstance(compile_cache, bool):
        return cache_folder() if compile_cache else None
    if not isinstance(compile_cache, str | os.PathLike) or not os.fspath(compile_cache):
        raise ValueError(f"compile_cache={compile_cache!r}: must be True, False or a folder")
    folder = Path(os.fsdecode(compile_cache)).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"compile_cache={compile_cache!r}: {error.strerror or error}") from error
    if not os.access(folder, os.W_OK):
        raise ValueError(f"compile_cache={compile_cache!r}: must be a folder that can be written to")
    return folder


def set_up_cpu(cores: int | None = None, *, compile_cache: bool | str | os.PathLike[str] | None = False) -> Path | None:
    """Sets JAX up for fast simulations on the CPU; call it before JAX's first computation.

    Two settings, both for the whole process. XLA's CPU compiler makes one kernel of every loop that it can (its own
    rule does so for the smallest loops only): otherwise each operation of a pull is a task of its own, and handing out
    a task costs more than doing it. MENU takes a fifth of the time, OFUL and CRT on S3 half of it; the numbers stay.
    And each core becomes one CPU device. :func:`linbet_jax.simulate` uses every core without that too; with ``cores``
    it uses that many.

    A loop that is one kernel runs on one thread: a script whose own loops hold large matrix products on the CPU may
    prefer to do without.

    A third, when asked for, is JAX's compile cache: programs are kept in a folder, and the next process that needs one
    reads it instead of compiling. It holds what any JAX function of the process compiles, not simulations alone.

    Args:
        cores: CPU devices; by default one per core this process may use. A number of devices that the environment sets
            (``XLA_FLAGS``) stays.
        compile_cache: True for the folder that the command line uses (``~/.cache/linbet_jax/compiled``, or below
            ``XDG_CACHE_HOME``; ``LINBET_COMPILE_CACHE=off`` switches it off), or a folder, which is made; False and
            None write nothing anywhere. A cache that JAX was given already, by its configuration or the environment,
            stays with all its settings.

    Returns:
        The folder of the compile cache in use, or None; the logger ``linbet_jax`` says it too, once.

    Raises:
        ValueError: ``cores`` is no whole number, or below 1; ``compile_cache`` is no folder that can be written to.
        RuntimeError: JAX has computed something in this process before.
    """
    wanted = len(usable_cores()) if cores is None else whole_number("cores", cores, 1)
    folder = _cache_choice(compile_cache)
    if not devices_in_environment():
        try:
            jax.config.update("jax_num_cpu_devices", wanted)
        except RuntimeError as error:
            raise RuntimeError(
                "set_up_cpu() must come before JAX's first computation in this process: restart it (in a notebook, the"
                " kernel), or do without; the numbers are the same"
            ) from error
    _compile_loops_whole()
    before = _cache_in_use()
    place = _keep_compiled(folder)
    if place is not None and before is None:
        LOGGER.info("compiled programs are kept in %s", place)
    return place


def _cache_in_use() -> Any:
    settings: Any = jax.config
    return settings.jax_compilation_cache_dir


_LOOP_OPTION = "xla_cpu_small_while_loop_byte_threshold"  # XLA's CPU compiler makes loops below it one kernel


def loops_stay_apart() -> bool:
    """Whether nobody has said how XLA's CPU compiler is to treat loops: :func:`set_up_cpu` was not called."""
    return "xla_backend_extra_options" not in os.environ.get("XLA_FLAGS", "")


def _compile_loops_whole() -> None:
    """Has XLA make each loop one kernel; it reads the flag at its first use, and ignores an unknown option."""
    if loops_stay_apart():
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={_LOOP_OPTION}={2**40}".strip()


def _use_cores(cores: int | None) -> None:
    """One CPU device per core this process may use; what the user set in the environment stays."""
    _compile_loops_whole()
    if devices_in_environment() or (cores is None and cpu_devices_chosen()):
        return
    try:
        jax.config.update("jax_num_cpu_devices", len(usable_cores()) if cores is None else cores)
    except RuntimeError:
        # JAX was already at work in this process (a test, a notebook): its devices are what there is.
        if not jax.devices():
            raise
