"""What a sweep will take, before it is run: counts, bytes, and a rough time from measured costs of a pull."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from linbet_jax.policies.registry import pull_microseconds
from linbet_jax.statistics.tables import duration
from linbet_jax.sweep.cells import PlannedCell
from linbet_jax.sweep.executors import Executor
from linbet_jax.sweep.model import Sweep

COMPILE_SECONDS = 3.0  # a program, when it is not in the compile cache
_BYTES_PER_ROW = 16.0  # of a cell's file: regret and payoff hardly compress, the other columns hardly need anything


def seed_seconds(entry: Mapping[str, Any]) -> float:
    """Estimated cost of one seed of a manifest's cell, in seconds of one core.

    TOFU with its whole history passes over it at every pull; a policy of one's own is taken for OFUL.
    """
    dim, horizon = entry["bandit"]["d"], entry["horizon"]
    arms = entry["bandit"]["K"] or 80 * dim  # a ball's arm costs about as much as the best of so many
    source = entry["source"]["policy"]
    passes = horizon if source == "tofu" and entry["options"].get("method") == "full" else 0
    return pull_microseconds(source, num_arms=arms, dim=dim, passes=passes) * horizon * 1e-6


def dry_run(sweep: Sweep, missing: Sequence[tuple[PlannedCell, int]], executor: Executor) -> str:
    """The cells of a sweep and what is left to compute of them (`driver.preview`) for this executor, in words."""
    cells, left = [cell for cell, _ in missing], [(cell, seeds) for cell, seeds in missing if seeds]
    programs = len({cell.program for cell, _ in left})
    pulls = sum(seeds * cell.horizon for cell, seeds in left)
    size = sweep.seeds * _BYTES_PER_ROW * sum(len(cell.rounds) for cell in cells)
    running = sum(seeds * seed_seconds(cell.entry) for cell, seeds in left)
    seconds = (running / executor.lanes + COMPILE_SECONDS * programs) / executor.workers
    takes = duration(seconds) if seconds < 1 else f"about {duration(seconds)}"
    width = max(len(cell.title) for cell in cells)
    lines = [f"{cell.title:{width}s}  T={cell.horizon}" for cell in cells]
    lines += [
        "",
        f"cells        {len(left)} of {len(cells)} to compute",
        f"programs     {programs} to compile",
        f"seed-pulls   {pulls:,} ({sweep.seeds} seeds)",
        f"results      {_bytes(size)}",
        f"time         {takes} on {executor.devices} (a rough estimate)",
    ]
    return "\n".join(lines)


def _bytes(size: float) -> str:
    units = iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000.0 and unit != "TB":
        size, unit = size / 1000.0, next(units)
    return f"about {size:.3g} {unit}"
