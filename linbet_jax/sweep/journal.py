"""`journal.jsonl`: what happened in a sweep and when, for people and for times; no number of a result depends on it."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

JOURNAL = "journal.jsonl"


class Journal:
    """An open journal in a sweep's folder; every event is one line, appended at once."""

    def __init__(self, folder: Path) -> None:
        """Opens the file; a line that a killed run left unfinished is ended."""
        path = folder / JOURNAL
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def write(self, event: str, cell: str | None = None, **more: Any) -> None:
        """Appends one event: `begun`, `started`, `part`, `done`, `failed` or `interrupted`."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, "cell": cell, **more}, ensure_ascii=False)
        os.write(self._file, line.encode("utf-8", "backslashreplace") + b"\n")  # half a surrogate pair has no bytes

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def read(folder: Path) -> list[dict[str, Any]]:
    """Every event that can be read, oldest first; none where there is no journal."""
    try:
        lines = (folder / JOURNAL).read_bytes().splitlines()
    except OSError:
        return []
    events = []
    for line in lines:
        try:
            event = json.loads(line)
            datetime.datetime.fromisoformat(event["time"])
        except (KeyError, TypeError, ValueError):  # cut off by a kill, or no event
            continue
        if _sound(event):
            events.append(event)
    return events


def _sound(event: Mapping[str, Any]) -> bool:
    """Whether it is an event as :meth:`Journal.write` writes it, with numbers where there are numbers."""
    numbers = [event[name] for name in ("seed_pulls", "run_seconds", "compile_seconds") if name in event]
    worked = event.get("event") not in ("part", "done") or {"seed_pulls", "run_seconds"} <= event.keys()
    return (
        isinstance(event.get("event"), str)
        and isinstance(event.get("cell"), (str, type(None)))
        and all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers)
        and worked
    )


@dataclasses.dataclass(frozen=True)
class Journey:
    """What the journal tells of one cell."""

    last: str = ""  # the last event, e.g. "done" or "failed"; empty when there is none
    error: str = ""  # of the last event, when it is a failure
    seed_pulls: int = 0  # pulls played over all seeds, as far as the journal knows
    run_seconds: float = 0.0  # spent computing
    compile_seconds: float = 0.0  # spent compiling


def journeys(events: Iterable[Mapping[str, Any]]) -> dict[str, Journey]:
    """Each cell's story, from the events that `read` gives."""
    stories: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        if event.get("cell") is not None:
            stories.setdefault(event["cell"], []).append(event)
    journeys = {}
    for cell, story in stories.items():
        last, worked = story[-1], [event for event in story if event["event"] in ("part", "done")]
        journeys[cell] = Journey(
            last=last["event"],
            error=str(last.get("error") or "") if last["event"] == "failed" else "",
            seed_pulls=int(sum(event["seed_pulls"] for event in worked)),
            run_seconds=float(sum(event["run_seconds"] for event in worked)),
            compile_seconds=float(sum(event.get("compile_seconds", 0.0) for event in worked)),
        )
    return journeys
