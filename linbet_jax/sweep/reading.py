"""What a sweep folder holds, read back: one cell's Parquet file, and the journal of the run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from linbet_jax.storage.results import RunFolderError
from linbet_jax.sweep import journal
from linbet_jax.sweep.store import METADATA

__all__ = ["CellFileError", "CellRun", "Journey", "listed_cells", "read_journal", "read_notes", "read_run"]

NUMBERS = ("seed", "pull", "regret", "payoff", "health")


class CellFileError(RunFolderError):
    """A cell's file gives no rows.

    Attributes:
        state: "damaged": its bytes are wrong; "missing": it is not there; "unreadable": the system does not give it.
    """

    def __init__(self, state: str, message: str) -> None:
        """Keeps the state beside the sentence."""
        super().__init__(message)
        self.state = state


@dataclasses.dataclass(frozen=True)
class CellRun:
    """The replications of one finished cell.

    Attributes:
        seeds: `[S]` the seeds, increasing.
        rounds: `[R]` pulls after which a row was recorded; the last one is the horizon.
        regret: `[S, R]` cumulative pseudo-regret.
        payoff: `[S, R]` cumulative realised payoff.
        health: `[S]` 0, or the first pull at which something non-finite was met.
    """

    seeds: NDArray[np.int64]
    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]
    payoff: NDArray[np.float64]
    health: NDArray[np.int64]

    @property
    def last(self) -> CellRun:
        """The same seeds with their last record alone, which keeps no other one in memory."""
        final = self.regret[:, -1:].copy(), self.payoff[:, -1:].copy()
        return CellRun(self.seeds, self.rounds[-1:].copy(), *final, self.health)


@dataclasses.dataclass(frozen=True)
class Journey:
    """What the journal tells of one cell.

    Attributes:
        last: the last event, e.g. "done" or "failed"; empty when there is none.
        error: of the last event, when it is a failure.
        seed_pulls: pulls played over all seeds, as far as the journal knows.
        run_seconds: spent computing.
        compile_seconds: spent compiling.
    """

    last: str = ""
    error: str = ""
    seed_pulls: int = 0
    run_seconds: float = 0.0
    compile_seconds: float = 0.0


def _damaged(path: Path, why: object) -> CellFileError:
    text = " ".join(str(why).split())
    return CellFileError("damaged", f"{path} is damaged: {text}; run the sweep again to compute it anew")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Tells what the system refuses apart from damage, which makes the readers raise nearly anything."""
    try:
        yield
    except CellFileError:
        raise
    except FileNotFoundError as error:
        raise CellFileError("missing", f"{path} is not there: the file was removed or its folder moved") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise CellFileError("unreadable", f"{path} cannot be read: {error.strerror}") from error
        raise _damaged(path, error) from error


def _notes(path: Path, metadata: Any, identity: str) -> dict[str, Any]:
    try:
        notes = json.loads((metadata.metadata or {})[METADATA.encode()])
        first, count = notes["seeds"]
        found = {**notes, "seeds": (int(first), int(count))}
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its metadata cannot be read ({type(error).__name__}: {error})") from error
    if found.get("id") != identity:
        raise _damaged(path, f"it holds the cell {found.get('id')}")
    return found


def read_notes(path: Path, identity: str) -> dict[str, Any]:
    """The JSON that a cell's file carries beside its rows: id, cell, facts, notes, seeds (first, count) and so on.

    Raises:
        CellFileError: the file is not there, cannot be read, is damaged, or is another cell's.
    """
    with _reading(path), path.open("rb") as file:
        return _notes(path, pq.read_metadata(file), identity)


def read_run(path: Path, identity: str) -> CellRun:
    """The rows of one cell's file as arrays.

    Raises:
        CellFileError: the file is not there, cannot be read, is damaged, is another cell's, its rows are no table of
            seeds by records, or a healthy seed in it holds a number that is not finite.
    """
    with _reading(path):
        # From memory: a file that is replaced meanwhile does not change under the reader.
        file = pq.ParquetFile(pa.BufferReader(path.read_bytes()), page_checksum_verification=True)
        first, count = _notes(path, file.metadata, identity)["seeds"]
        columns = file.read(columns=list(NUMBERS))
        table = {name: columns[name].to_numpy() for name in NUMBERS}
    rows = table["seed"].size
    if count < 1 or rows == 0 or rows % count:
        raise _damaged(path, f"it has {rows} rows for {count} seeds")
    grid = {name: values.reshape(count, -1) for name, values in table.items()}
    regular = (
        np.array_equal(grid["seed"], np.broadcast_to(np.arange(first, first + count)[:, None], grid["seed"].shape))
        and np.array_equal(grid["pull"], np.broadcast_to(grid["pull"][0], grid["pull"].shape))
        and bool(np.all(np.diff(grid["pull"][0]) > 0))
        and np.array_equal(grid["health"], np.broadcast_to(grid["health"][:, :1], grid["health"].shape))
    )
    if not regular:
        raise _damaged(path, "its rows are not sorted by seed and pull, the same pulls for each seed")
    if not np.isfinite([grid["regret"], grid["payoff"]])[:, grid["health"] == 0].all():
        raise _damaged(path, "a seed that it calls healthy holds a number that is not finite")
    return CellRun(
        seeds=grid["seed"][:, 0].astype(np.int64),
        rounds=grid["pull"][0].astype(np.int64),
        regret=grid["regret"].astype(np.float64),
        payoff=grid["payoff"].astype(np.float64),
        health=grid["health"][:, 0].astype(np.int64),
    )


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


def read_journal(folder: Path) -> dict[str, Journey]:
    """Each cell's story; without a journal, or with broken lines in it, what can be known."""
    events: dict[str, list[Mapping[str, Any]]] = {}
    for event in journal.read(folder):
        if isinstance(event.get("cell"), str):
            events.setdefault(event["cell"], []).append(event)
    return {cell: _journey(told) for cell, told in events.items()}


def _journey(events: Sequence[Mapping[str, Any]]) -> Journey:
    last = events[-1]

    def total(name: str) -> float:
        worked = (event.get(name) for event in events if event.get("event") in ("part", "done"))
        return float(sum(value for value in worked if isinstance(value, (int, float))))

    return Journey(
        last=str(last.get("event", "")),
        error=str(last.get("error") or "") if last.get("event") == "failed" else "",
        seed_pulls=int(total("seed_pulls")),
        run_seconds=total("run_seconds"),
        compile_seconds=total("compile_seconds"),
    )
