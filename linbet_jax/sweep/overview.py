"""`linbet status`: how far a sweep is, from its folder alone: manifest, journal and the last lines of the files."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from linbet_jax.storage.results import in_use, sweep_manifest
from linbet_jax.sweep import journal
from linbet_jax.sweep.table import LoadedCell, loaded_cells


@dataclasses.dataclass(frozen=True)
class Status:
    """How far a sweep is.

    Attributes:
        folder: where it is.
        name: the sweep file's own.
        running: whether a process is working on it now.
        cells: in all.
        done: finished cells.
        failed: title and error of cells that raised when they were last tried.
        in_progress: titles of cells that are being computed now; empty when nothing runs.
        to_do: cells that are neither finished nor failed; damaged ones among them.
        seconds_left: estimated from this sweep's own pace; None when there is nothing to go by.
        unhealthy: title and number of seeds that met something non-finite, of finished cells that have such.
        damaged: title of cells whose file cannot be used, and why.
        carry_on: the command that computes what is missing, as it was typed last; empty where the folder does not say.
    """

    folder: str
    name: str
    running: bool
    cells: int
    done: int
    failed: Mapping[str, str]
    in_progress: tuple[str, ...]
    to_do: int
    seconds_left: float | None
    unhealthy: Mapping[str, int]
    damaged: Mapping[str, str]
    carry_on: str

    @property
    def healthy(self) -> bool:
        """Whether nothing has failed, nothing is damaged and no seed is unhealthy."""
        return not (self.failed or self.damaged or self.unhealthy)


def status(folder: Path | str) -> Status:
    """Reads a sweep's folder.

    Raises:
        RunFolderError: there is no sweep in it.
    """
    place = Path(folder)
    manifest = sweep_manifest(place)
    events = journal.read(place)
    begun = max((n for n, event in enumerate(events) if event["event"] == "begun"), default=len(events))
    recent = events[begun:]
    busy = {event["cell"] for event in recent if event["event"] in ("started", "part")}
    running = in_use(place)
    cells = loaded_cells(place, manifest, events)
    failed = {cell.title: cell.journey.error for cell in cells if not cell.whole and cell.journey.last == "failed"}
    waiting = [cell for cell in cells if not cell.whole and cell.journey.last != "failed"]
    return Status(
        folder=str(place),
        name=str(manifest.get("name", "")),
        running=running,
        cells=len(cells),
        done=sum(cell.whole for cell in cells),
        failed=failed,
        in_progress=tuple(cell.title for cell in waiting if running and cell.id in busy),
        to_do=len(waiting),
        seconds_left=_seconds_left(cells, waiting, recent),
        unhealthy={cell.title: cell.unhealthy for cell in cells if cell.whole and cell.unhealthy},
        damaged={cell.title: cell.error for cell in cells if cell.state in ("damaged", "unreadable")},
        carry_on=_command(place, manifest),
    )


def _command(place: Path, manifest: Mapping[str, Any]) -> str:
    """The command that carries on, from the manifest of the run that was last in the folder."""
    file, overrides = manifest.get("file"), manifest.get("overrides") or []
    if not isinstance(file, str) or not isinstance(overrides, list):
        return ""
    words = ["linbet", "sweep", file, "--out", str(place), *(w for given in overrides for w in ("--set", str(given)))]
    return shlex.join(words)


def _program(cell: LoadedCell) -> tuple[Any, ...]:
    return cell.policy, cell.set, cell.horizon, json.dumps(cell.options, sort_keys=True)


def _seconds_left(
    cells: Sequence[LoadedCell], waiting: Sequence[LoadedCell], recent: Sequence[Mapping[str, Any]]
) -> float | None:
    """From what pulls of each policy have taken in this sweep, and how much of that its last run did side by side.

    Cells of one policy, set, horizon and options are taken to share a compiled program; what no cell has compiled yet
    is taken to cost what the others did.
    """
    spent = sum(event.get("run_seconds", 0.0) for event in recent)
    worked = [cell for cell in cells if cell.journey.seed_pulls]
    if not waiting or not spent or not worked:
        return None if waiting else 0.0
    begun, ended = (datetime.datetime.fromisoformat(event["time"]) for event in (recent[0], recent[-1]))
    side_by_side = spent / max((ended - begun).total_seconds(), 1e-3)
    compiled = {_program(cell) for cell in worked}
    compiling = sum(cell.journey.compile_seconds for cell in worked) / len(compiled)
    total = len({_program(cell) for cell in waiting} - compiled) * compiling
    for policy in dict.fromkeys(cell.policy for cell in waiting):
        alike = [cell.journey for cell in worked if cell.policy == policy] or [cell.journey for cell in worked]
        pace = sum(journey.run_seconds for journey in alike) / sum(journey.seed_pulls for journey in alike)
        left = (c.seeds * c.horizon - c.journey.seed_pulls for c in waiting if c.policy == policy)
        total += pace * sum(max(0, pulls) for pulls in left)
    return total / max(side_by_side, 1.0)
