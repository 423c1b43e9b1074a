"""A sweep's files: one Parquet file per cell, and parts of large cells; the experiments keep their cells here too.

A cell's bytes depend on its contents alone: not on when, in how many parts or beside what it was computed. Every file
appears whole or not at all, is verified when it is met again, and what does not verify counts as not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from linbet_jax.errors import named
from linbet_jax.storage.results import CELLS, RunFolderError, digest, replacing

METADATA = "linbet_jax"
SCHEMA = pa.schema(
    [
        ("seed", pa.int64()),
        ("pull", pa.int64()),
        ("regret", pa.float64()),
        ("payoff", pa.float64()),
        ("health", pa.int64()),
        ("policy", pa.dictionary(pa.int32(), pa.string())),
        ("set", pa.dictionary(pa.int32(), pa.string())),
    ]
)
FACTS = ("facts", "notes", "block_size", "device", "prng", "reruns")
GROUP_ROWS = 2**17  # rows of a row group, rounded down to whole seeds: what is held in memory while files are merged
NUMBERS = SCHEMA.names[:5]
_DICTIONARIES = ["seed", "pull", "health", "policy", "set"]  # few different values; the others have nearly only such


class Rows(NamedTuple):
    """Replications of one cell, of consecutive seeds.

    Attributes:
        start: the first seed.
        rounds: `[R]` pulls after which a row was recorded; the last one is the horizon.
        regret: `[S, R]` cumulative pseudo-regret.
        payoff: `[S, R]` cumulative realised payoff.
        health: `[S]` 0, or the first pull at which something non-finite was met.
    """

    start: int
    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]
    payoff: NDArray[np.float64]
    health: NDArray[np.int64]

    def __repr__(self) -> str:
        seeds = f"seeds {self.start} to {self.stop - 1}" if self.health.size else "no seed"
        ill = f", {self.unhealthy} unhealthy" if self.unhealthy else ""
        return f"Rows({seeds}, {self.rounds.size} records{ill})"

    @property
    def stop(self) -> int:
        """One past the last seed."""
        return self.start + self.health.size

    @property
    def seeds(self) -> NDArray[np.int64]:
        """`[S]` the seeds, increasing."""
        return np.arange(self.start, self.stop, dtype=np.int64)

    @property
    def unhealthy(self) -> int:
        """Seeds whose health is not 0."""
        return int(np.count_nonzero(self.health))

    @property
    def last(self) -> Rows:
        """The same seeds with their last record alone, which keeps no other one in memory."""
        return Rows(self.start, self.rounds[-1:], self.regret[:, -1:], self.payoff[:, -1:], self.health).copy()

    def copy(self) -> Rows:
        """The same rows in arrays of their own."""
        return Rows(self.start, self.rounds.copy(), self.regret.copy(), self.payoff.copy(), self.health.copy())

    def columns(self) -> dict[str, NDArray[Any]]:
        """The same as columns `[S * R]`: seed, pull, regret, payoff and health."""
        seeds, records = self.regret.shape
        return {
            "seed": np.repeat(self.seeds, records),
            "pull": np.tile(self.rounds, seeds),
            "regret": self.regret.reshape(-1),
            "payoff": self.payoff.reshape(-1),
            "health": np.repeat(self.health, records),
        }

    def part(self, start: int, stop: int) -> Rows:
        """The seeds from start to stop."""
        places = slice(start - self.start, stop - self.start)
        return Rows(start, self.rounds, self.regret[places], self.payoff[places], self.health[places])


class Piece(NamedTuple):
    """Some or all seeds of a cell, in a verified file or in memory."""

    start: int  # the first seed
    stop: int  # one past the last seed
    unhealthy: int  # seeds whose health is not 0
    names: tuple[str, str, str]  # (set, policy, label) as written into the file
    facts: dict[str, Any]  # what the simulation reported beside the rows, by the names in `FACTS`
    rows: Path | Rows  # the file, or the rows themselves


class Store:
    """The `cells` folder of one sweep, or of one experiment, whose cells have columns of their own."""

    def __init__(self, folder: Path) -> None:
        """Remembers the place: the folder around it."""
        self.folder = folder / CELLS
        self.damaged: list[str] = []  # names of files that did not verify, in the order met

    def cell_path(self, cell: str) -> Path:
        """The file of a finished cell."""
        return self.folder / f"{cell}.parquet"

    def parts_path(self, cell: str) -> Path:
        """The folder of a large cell's finished parts."""
        return self.folder / f"{cell}.parts"

    def verified(self, cell: str, rounds: Sequence[int]) -> list[Piece]:
        """Files of a cell whose every byte is what was written, by their seeds: the whole cell, or parts of it.

        What does not verify is noted in `damaged`; what a killed run left half written is removed.
        """
        parts = self.parts_path(cell)
        for left in parts.glob(".*.tmp*"):
            left.unlink(missing_ok=True)
        pieces = []
        for path in (self.cell_path(cell), *sorted(parts.glob("*.parquet"))):
            with self._noting_damage(path), _reading(path):
                pieces.append(_verified(path, cell, rounds))
        return sorted(pieces, key=lambda piece: (piece.start, -piece.stop))

    def write_part(self, cell: Mapping[str, Any], rows: Rows, facts: Mapping[str, Any]) -> Path:
        """Keeps some seeds of a large cell; returns their file."""
        folder = self.parts_path(cell["id"])
        folder.mkdir(exist_ok=True)
        path = folder / f"{rows.start:010d}-{rows.stop:010d}.parquet"
        _write(path, cell, [rows], facts, rows.start, rows.stop)
        return path

    def write_cell(
        self, cell: Mapping[str, Any], seeds: int, pieces: Iterable[Path | Rows], facts: Mapping[str, Any]
    ) -> Path:
        """Writes a whole cell from files and rows that together hold its seeds in order, and removes its parts."""
        rows = (rows for piece in pieces for rows in (_read(piece) if isinstance(piece, Path) else [piece]))
        path = self.cell_path(cell["id"])
        _write(path, {**cell, "seeds": seeds}, rows, facts, 0, seeds)
        self.drop_parts(cell["id"])
        return path

    def drop_parts(self, cell: str) -> None:
        """Removes the parts of a cell that is whole."""
        shutil.rmtree(self.parts_path(cell), ignore_errors=True)

    def drop(self, cell: str) -> None:
        """Removes a cell, its parts too."""
        self.cell_path(cell).unlink(missing_ok=True)
        self.drop_parts(cell)

    def held_seeds(self, cell: str) -> int:
        """How many seeds of a cell its files say that they hold, whole or in parts; no row is read."""
        ranges = []
        for path in (self.cell_path(cell), *self.parts_path(cell).glob("*.parquet")):
            with contextlib.suppress(RunFolderError):  # not there, or damaged: to be computed
                ranges.append(read_notes(path, cell)["seeds"])
        held = reached = 0
        for first, count in sorted(ranges):
            held += max(0, first + count - max(first, reached))
            reached = max(reached, first + count)
        return held

    def write_columns(self, cell: str, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Path:
        """Keeps a cell of numbers in columns of one length, with what else is to be known of it (JSON-like)."""
        path = self.cell_path(cell)
        table = pa.Table.from_arrays([_column(values) for values in columns.values()], names=list(columns))
        with _writer(path, table.schema, list(columns)) as writer:
            writer.write_table(table)
            _seal(writer, _columns_digest(columns), {"id": cell, "facts": facts})
        return path

    def read_columns(self, cell: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """Columns and facts of a cell; None where there is no file, or a damaged one, which is noted in `damaged`."""
        path, held = self.cell_path(cell), None
        with self._noting_damage(path), _reading(path):
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                meta = _meta(file.metadata)
                table = file.read()
            columns = {name: table[name].to_numpy() for name in table.column_names}
            if meta["id"] != cell or not _sealed(_columns_digest(columns), meta):
                raise ValueError("it is not what was written")
            held = columns, meta["facts"]
        return held

    @contextlib.contextmanager
    def _noting_damage(self, path: Path) -> Iterator[None]:
        """Passes over a file that cannot be used; it stays: it may be the disk that cannot be read just now."""
        try:
            yield
        except CellFileError as error:
            if error.state != "missing":
                self.damaged.append(path.relative_to(self.folder).as_posix())


# Reading a finished cell ---------------------------------------------------------------------------------------------


class CellFileError(RunFolderError):
    """A cell's file gives no rows."""

    def __init__(self, state: str, message: str) -> None:
        """Keeps the state beside the sentence."""
        super().__init__(message)
        self.state = state  # "damaged" (its bytes are wrong), "missing", or "unreadable": the system does not give it


def read_notes(path: Path, identity: str) -> dict[str, Any]:
    """What a cell's file carries beside its rows: id, cell, facts, notes, seeds (first, count) and so on."""
    with _reading(path), path.open("rb") as file:
        return _notes(parquet.read_metadata(file), identity)


def read_run(path: Path, identity: str) -> Rows:
    """The rows of one cell's file, in arrays of the caller's own.

    It is damaged, too, where its rows are no table of seeds by records, or a healthy seed holds a number that is not
    finite.
    """
    with _reading(path):
        # From memory: a file that is replaced meanwhile does not change under the reader.
        file = parquet.ParquetFile(pa.BufferReader(path.read_bytes()), page_checksum_verification=True)
        first, count = _notes(file.metadata, identity)["seeds"]
        rows = _rows(file.read(columns=NUMBERS))
        if (rows.start, rows.health.size) != (first, count):
            raise ValueError(f"it holds the seeds {rows.start} to {rows.stop}, and not {count} from {first} on")
        if not np.isfinite([rows.regret, rows.payoff])[:, rows.health == 0].all():
            raise ValueError("a seed that it calls healthy holds a number that is not finite")
        return rows.copy()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Tells what the system refuses apart from damage, which makes the readers raise nearly anything."""
    try:
        yield
    except FileNotFoundError as error:
        raise CellFileError("missing", f"{path} is not there: the file was removed or its folder moved") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise CellFileError("unreadable", f"{path} cannot be read: {error.strerror}") from error
        reason = " ".join(str(error).split())
        raise CellFileError(
            "damaged", f"{path} is damaged: {reason}; run the sweep again to compute it anew"
        ) from error


def _notes(metadata: parquet.FileMetaData, identity: str) -> dict[str, Any]:
    try:
        notes = _meta(metadata)
        first, count = notes["seeds"]
        notes |= {"seeds": (int(first), int(count)), "unhealthy": int(notes["unhealthy"])}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its metadata cannot be read ({named(error)})") from error
    if notes.get("id") != identity:
        raise ValueError(f"it holds the cell {notes.get('id')}")
    return notes


# Files of rows -------------------------------------------------------------------------------------------------------


def _read(path: Path, cell: Mapping[str, Any] | None = None) -> Iterator[Rows]:
    """The rows of a file, a row group at a time; ValueError when they name another set or policy than the cell."""
    with parquet.ParquetFile(path, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            if cell is not None and any(
                set(table[name].unique().to_pylist()) != {cell[name]} for name in ("policy", "set")
            ):
                raise ValueError("rows of another set or policy")
            yield _rows(table)


def _verified(path: Path, cell: str, rounds: Sequence[int]) -> Piece:
    """What a file holds, when its every byte is what was written for this cell."""
    with parquet.ParquetFile(path) as file:
        notes = _notes(file.metadata, cell)
        sound = file.schema_arrow.remove_metadata().equals(SCHEMA)
    total, unhealthy = hashlib.sha256(), 0
    start = stop = notes["seeds"][0]
    for rows in _read(path, notes["cell"]):
        sound &= rows.start == stop and rows.rounds.tolist() == list(rounds)
        stop = rows.stop
        unhealthy += rows.unhealthy
        _digest(total, rows)
    if not sound or (notes["unhealthy"], sum(notes["seeds"])) != (unhealthy, stop) or not _sealed(total, notes):
        raise ValueError("it is not what was written")
    names = (notes["cell"]["set"], notes["cell"]["policy"], notes["cell"]["label"])
    return Piece(start, stop, unhealthy, names, {name: notes[name] for name in FACTS}, path)


def _write(
    path: Path, cell: Mapping[str, Any], pieces: Iterable[Rows], facts: Mapping[str, Any], start: int, stop: int
) -> None:
    """Writes rows in groups of one size, and what is known of them."""
    total = hashlib.sha256()
    seed, unhealthy = start, 0
    with _writer(path, SCHEMA, _DICTIONARIES) as writer:
        for rows in _regrouped(pieces, start):
            _digest(total, rows)
            unhealthy += rows.unhealthy
            seed = rows.stop
            writer.write_table(_table(rows, cell), row_group_size=rows.regret.size)
        if seed != stop:
            raise ValueError(f"cell {cell['id']}: holds the seeds {start} to {seed}, not to {stop}")
        meta = {"id": cell["id"], "cell": dict(cell), **{name: facts[name] for name in FACTS}}
        _seal(writer, total, {**meta, "seeds": [start, stop - start], "unhealthy": unhealthy})


@contextlib.contextmanager
def _writer(path: Path, schema: pa.Schema, dictionaries: list[str]) -> Iterator[parquet.ParquetWriter]:
    """A Parquet file that appears when the block ends without error, the same bytes for the same contents."""
    # A file of Python's own: a full disk is then an OSError with its number and name.
    with replacing(path) as temporary, temporary.open("wb") as file:
        writer = parquet.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=dictionaries,
            write_statistics=False,  # nothing else would tell when a flipped bit changed them
            write_page_checksum=True,
        )
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.is_open = False  # or it tries to end the file once more when it is collected
            raise


def _seal(writer: parquet.ParquetWriter, contents: Any, meta: Mapping[str, Any]) -> None:
    """Adds to a file what is known of it, with a checksum over that and the hash of its contents."""
    plain = json.loads(json.dumps(meta))
    plain["checksum"] = digest([contents.hexdigest(), plain])
    writer.add_key_value_metadata({METADATA: json.dumps(plain, sort_keys=True)})


def _sealed(contents: Any, meta: Mapping[str, Any]) -> bool:
    """Whether the checksum of a file is that of its contents and of what is known of it."""
    rest = {name: value for name, value in meta.items() if name != "checksum"}
    return bool(meta["checksum"] == digest([contents.hexdigest(), rest]))


def _meta(metadata: parquet.FileMetaData) -> dict[str, Any]:
    """What a file says of itself."""
    meta: dict[str, Any] = json.loads((metadata.metadata or {})[METADATA.encode()])
    return meta


def _columns_digest(columns: Mapping[str, NDArray[Any]]) -> Any:
    """Hash of columns: their names, types and values."""
    total = hashlib.sha256()
    for name, values in columns.items():
        total.update(f"{name}:{values.dtype.str}:{values.size};".encode() + np.ascontiguousarray(values).tobytes())
    return total


# Rows and Arrow's tables ---------------------------------------------------------------------------------------------


def _table(rows: Rows, cell: Mapping[str, Any]) -> pa.Table:
    numbers = [_column(values) for values in rows.columns().values()]
    first = _column(np.zeros(rows.regret.size, np.int32))
    words = [pa.DictionaryArray.from_arrays(first, _word(cell[name])) for name in ("policy", "set")]
    return pa.Table.from_arrays([*numbers, *words], schema=SCHEMA)


def _column(values: NDArray[Any]) -> pa.Array:
    """A column that shares the array's memory; `pa.array` would import pandas, which takes longer than a cell."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, pa.py_buffer(values)])


def _word(text: str) -> pa.Array:
    """An array of one text."""
    content = text.encode()
    ends = np.array([0, len(content)], np.int32)
    return pa.StringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(content))


def _rows(table: pa.Table) -> Rows:
    """The rows of a table; ValueError where they are no seeds by records, each seed with the same pulls."""
    columns = {name: table[name].to_numpy() for name in NUMBERS}
    seed = columns["seed"]
    records = int(np.count_nonzero(seed == seed[0])) if seed.size else 0
    if not records or seed.size % records:
        raise ValueError(f"it has {seed.size} rows, {records} of them of the first seed")
    seeds, pulls, regret, payoff, health = (values.reshape(-1, records) for values in columns.values())
    sorted_by_seed = np.all(seeds == seeds[0, 0] + np.arange(len(seeds))[:, None])
    sorted_by_pull = np.all(pulls == pulls[0]) and np.all(np.diff(pulls[0]) > 0)
    if not (sorted_by_seed and sorted_by_pull and np.all(health == health[:, :1])):
        raise ValueError("its rows are not sorted by seed and pull, the same pulls for each seed")
    return Rows(int(seed[0]), pulls[0], regret, payoff, health[:, 0])


def _regrouped(pieces: Iterable[Rows], start: int) -> Iterator[Rows]:
    """The same seeds in groups of one size, so that a file does not depend on the pieces it was made of."""
    held: list[Rows] = []
    seed = start
    for piece in pieces:
        if piece.start != seed:
            raise ValueError(f"seed {seed} is missing")
        size = max(1, GROUP_ROWS // piece.rounds.size)
        seed = piece.stop
        held.append(piece)
        while held and sum(rows.health.size for rows in held) >= size:
            whole = _joined(held)
            yield whole.part(whole.start, whole.start + size)
            held = [whole.part(whole.start + size, whole.stop)] if whole.health.size > size else []
    if held:
        yield _joined(held)


def _joined(pieces: Sequence[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    columns = [np.concatenate([getattr(p, name) for p in pieces]) for name in ("regret", "payoff", "health")]
    return Rows(pieces[0].start, pieces[0].rounds, *columns)


def _digest(total: Any, rows: Rows) -> None:
    """Adds rows to a hash, seed by seed, whatever groups they come in."""
    for index in range(rows.health.size):
        total.update(np.int64(rows.start + index).tobytes() + rows.health[index].tobytes())
        total.update(np.ascontiguousarray(rows.regret[index]).tobytes())
        total.update(np.ascontiguousarray(rows.payoff[index]).tobytes())
