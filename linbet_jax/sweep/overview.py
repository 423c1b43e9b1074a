"""`linbet status`: how far a sweep is, from its folder alone: manifest, journal and the last lines of the files."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from linbet_jax.storage.results import MANIFEST, RunFolderError, in_use, sweep_manifest
from linbet_jax.sweep import journal
from linbet_jax.sweep.journal import Journey
from linbet_jax.sweep.store import CellFileError, Store, read_notes

__all__ = ["Status", "listed_cells", "status"]


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
    entries = listed_cells(place / MANIFEST, manifest)
    titles = {entry["id"]: entry.get("title", f"{entry['set']}/{entry['policy']}") for entry in entries}
    unhealthy, damaged = _finished(Store(place), entries)
    events = journal.read(place)
    begun = max((n for n, event in enumerate(events) if event["event"] == "begun"), default=len(events))
    journeys = journal.journeys(events)
    running = in_use(place)
    busy = {event["cell"] for event in events[begun:] if event["event"] in ("started", "part")}
    waiting, failed = [], {}
    for entry in entries:
        journey = journeys.get(entry["id"], Journey())
        if entry["id"] not in unhealthy and journey.last == "failed":
            failed[titles[entry["id"]]] = journey.error
        elif entry["id"] not in unhealthy:
            waiting.append(entry)
    return Status(
        folder=str(place),
        name=str(manifest.get("name", "")),
        running=running,
        cells=len(entries),
        done=len(unhealthy),
        failed=failed,
        in_progress=tuple(titles[entry["id"]] for entry in waiting if running and entry["id"] in busy),
        to_do=len(waiting),
        seconds_left=_seconds_left(entries, waiting, journeys, events[begun:]),
        unhealthy={titles[cell]: count for cell, count in unhealthy.items() if count},
        damaged={titles[cell]: reason for cell, reason in damaged.items()},
        carry_on=_command(place, manifest),
    )


def _command(place: Path, manifest: Mapping[str, Any]) -> str:
    """The command that carries on, from the manifest of the run that was last in the folder."""
    file, overrides = manifest.get("file"), manifest.get("overrides") or []
    if not isinstance(file, str) or not isinstance(overrides, list):
        return ""
    words = ["linbet", "sweep", file, "--out", str(place), *(w for given in overrides for w in ("--set", str(given)))]
    return shlex.join(words)


def listed_cells(path: Path, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells that a sweep's manifest lists.

    Raises:
        RunFolderError: the list, or a cell in it, is not as a sweep writes it.
    """
    cells = manifest.get("cells", [])
    if not isinstance(cells, list):
        raise RunFolderError(f"{path} is damaged: its cells are {cells!r}, not a list")
    kinds = {"id": str, "set": str, "policy": str, "horizon": int, "seeds": int, "options": dict}
    for number, cell in enumerate(cells):
        for name, wanted in kinds.items():
            if not isinstance(cell, dict) or not isinstance(cell.get(name), wanted):
                raise RunFolderError(
                    f"{path} is damaged: cell {number} has no {name}, or not one of type {wanted.__name__}"
                )
    return cells


def _finished(store: Store, entries: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], dict[str, str]]:
    """Unhealthy seeds of every finished cell, whose file says that it holds all the seeds; why files cannot be used."""
    unhealthy, damaged = {}, {}
    for entry in entries:
        try:
            notes = read_notes(store.cell_path(entry["id"]), entry["id"])
        except CellFileError as error:
            if error.state != "missing":
                damaged[entry["id"]] = str(error)
            continue
        if notes["seeds"][1] >= entry["seeds"]:
            unhealthy[entry["id"]] = int(notes["unhealthy"])
    return unhealthy, damaged


def _program(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry["policy"], entry["set"], entry["horizon"], json.dumps(entry["options"], sort_keys=True)


def _seconds_left(
    entries: Sequence[Mapping[str, Any]],
    waiting: Sequence[Mapping[str, Any]],
    journeys: Mapping[str, Journey],
    recent: Sequence[Mapping[str, Any]],
) -> float | None:
    """From what pulls of each policy have taken in this sweep, and how much of that its last run did side by side.

    Cells of one policy, set, horizon and options are taken to share a compiled program; what no cell has compiled yet
    is taken to cost what the others did.
    """
    spent = sum(event.get("run_seconds", 0.0) for event in recent)
    worked = {cell: journey for cell, journey in journeys.items() if journey.seed_pulls}
    if not waiting or not spent or not worked:
        return None if waiting else 0.0
    begun, ended = (datetime.datetime.fromisoformat(event["time"]) for event in (recent[0], recent[-1]))
    side_by_side = spent / max((ended - begun).total_seconds(), 1e-3)
    policy = {entry["id"]: entry["policy"] for entry in entries}
    groups: dict[str | None, list[Journey]] = {None: list(worked.values())}  # by policy; under None all
    for cell, journey in worked.items():
        if cell in policy:
            groups.setdefault(policy[cell], []).append(journey)
    compiled = {_program(entry) for entry in entries if entry["id"] in worked}
    compiling = sum(journey.compile_seconds for journey in worked.values())
    total = len({_program(entry) for entry in waiting} - compiled) * compiling / max(len(compiled), 1)
    for entry in waiting:
        group = groups.get(entry["policy"], groups[None])
        pace = sum(journey.run_seconds for journey in group) / sum(journey.seed_pulls for journey in group)
        played = journeys.get(entry["id"], Journey()).seed_pulls
        total += max(0.0, entry["seeds"] * entry["horizon"] - played) * pace
    return total / max(side_by_side, 1.0)
