"""What a sweep would do: every cell built and checked, and counts, bytes and a rough time in words."""

from __future__ import annotations

from linbet_jax.statistics.tables import duration
from linbet_jax.sweep.cells import numerics_of, plan
from linbet_jax.sweep.estimate import BYTES_PER_ROW, COMPILE_SECONDS, cell_microseconds
from linbet_jax.sweep.executors import Executor
from linbet_jax.sweep.model import Sweep

__all__ = ["text"]


def text(sweep: Sweep, executor: Executor) -> str:
    """The cells of a sweep and what they add up to.

    Raises:
        InputError: the sweep cannot be built.
    """
    cells = plan(sweep, numerics_of(sweep, executor.kind), executor.platform)
    programs = len({cell.program for cell in cells})
    pulls = sweep.seeds * sum(cell.horizon for cell in cells)
    size = sweep.seeds * BYTES_PER_ROW * sum(len(cell.rounds) for cell in cells)
    running = sweep.seeds * sum(cell.horizon * cell_microseconds(cell.entry) * 1e-6 for cell in cells)
    seconds = (running / executor.lanes + COMPILE_SECONDS * programs) / executor.workers
    width = max(len(cell.title) for cell in cells)
    lines = [f"{cell.title:{width}s}  T={cell.horizon}" for cell in cells]
    lines += [
        "",
        f"cells        {len(cells)}",
        f"compiles     {programs}",
        f"seed-pulls   {pulls:,} ({sweep.seeds} seeds)",
        f"results      {_bytes(size)}",
        f"time         about {duration(seconds)} on {executor.devices} (a rough estimate)",
    ]
    return "\n".join(lines)


def _bytes(size: float) -> str:
    units = iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000.0 and unit != "TB":
        size, unit = size / 1000.0, next(units)
    return f"about {size:.3g} {unit}"
