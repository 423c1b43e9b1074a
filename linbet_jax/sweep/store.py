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

from linbet_jax.storage.results import CELLS, digest, replacing

__all__ = ["SCHEMA", "Header", "Rows", "Store", "merged_facts"]

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
GROUP_ROWS = 2**17  # rows of a row group, rounded down to whole seeds: what is held in memory while files are merged
_DICTIONARIES = ["seed", "pull", "health", "policy", "set"]  # few different values; the others have nearly only such


class Rows(NamedTuple):
    """Consecutive seeds of one cell.

    Attributes:
        start: the first seed.
        rounds: [R] pulls.
        regret: [n, R].
        payoff: [n, R].
        health: [n].
    """

    start: int
    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]
    payoff: NDArray[np.float64]
    health: NDArray[np.int64]

    @property
    def stop(self) -> int:
        """One past the last seed."""
        return self.start + self.health.size

    def part(self, start: int, stop: int) -> Rows:
        """The seeds from start to stop."""
        own = slice(start - self.start, stop - self.start)
        return Rows(start, self.rounds, self.regret[own], self.payoff[own], self.health[own])


class Header(NamedTuple):
    """What a verified file says of itself.

    Attributes:
        start: the first seed.
        stop: one past the last seed.
        facts: what the simulation reported beside the rows: facts, notes, block_size, device, prng, reruns.
        names: (set, policy, label) as written into it.
        unhealthy: seeds whose health is not 0.
    """

    start: int
    stop: int
    facts: dict[str, Any]
    names: tuple[str, str, str]
    unhealthy: int


FACTS = ("facts", "notes", "block_size", "device", "prng", "reruns")


class Store:
    """The `cells` folder of one sweep, or of one experiment, whose cells have columns of their own.

    Args:
        folder: the folder around it.

    Attributes:
        damaged: names of files that did not verify, in the order met.
    """

    def __init__(self, folder: Path) -> None:
        """Remembers the place."""
        self.folder = folder / CELLS
        self.damaged: list[str] = []

    def cell_path(self, cell: str) -> Path:
        """The file of a finished cell."""
        return self.folder / f"{cell}.parquet"

    def parts_path(self, cell: str) -> Path:
        """The folder of a large cell's finished parts."""
        return self.folder / f"{cell}.parts"

    def verified(self, cell: str, rounds: Sequence[int]) -> list[tuple[Path, Header]]:
        """Files of a cell whose every byte is what was written, by their seeds: the whole cell, or parts of it.

        What does not verify is noted in `damaged`; what a killed run left half written is removed.
        """
        found = []
        places = [self.cell_path(cell)]
        parts = self.parts_path(cell)
        if parts.is_dir():
            for left in parts.glob(".*.tmp*"):
                left.unlink(missing_ok=True)
            places += sorted(parts.glob("*.parquet"))
        for path in places:
            if not path.exists():
                continue
            header = self._verify(path, cell, rounds)
            if header is None:
                # It stays until a better one replaces it: it may be the disk that cannot be read just now.
                self.damaged.append(path.relative_to(self.folder).as_posix())
            else:
                found.append((path, header))
        return sorted(found, key=lambda each: (each[1].start, -each[1].stop))

    def write_part(self, cell: Mapping[str, Any], rows: Rows, facts: Mapping[str, Any]) -> Path:
        """Keeps some seeds of a large cell; returns their file."""
        folder = self.parts_path(cell["id"])
        folder.mkdir(exist_ok=True)
        path = folder / f"{rows.start:010d}-{rows.stop:010d}.parquet"
        self._write(path, cell, [rows], facts, rows.start, rows.stop)
        return path

    def write_cell(
        self, cell: Mapping[str, Any], seeds: int, pieces: Sequence[Path | Rows], facts: Mapping[str, Any]
    ) -> Path:
        """Writes a whole cell from files and rows that together hold its seeds in order, and removes its parts."""
        rows = (each for piece in pieces for each in (self._read(piece, None) if isinstance(piece, Path) else [piece]))
        path = self.cell_path(cell["id"])
        self._write(path, {**cell, "seeds": seeds}, rows, facts, 0, seeds)
        self.drop_parts(cell["id"])
        return path

    def drop_parts(self, cell: str) -> None:
        """Removes the parts of a cell that is whole."""
        shutil.rmtree(self.parts_path(cell), ignore_errors=True)

    def write_columns(self, cell: str, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Path:
        """Keeps a cell of numbers in columns of one length, with what else is to be known of it (JSON-like)."""
        path = self.cell_path(cell)
        table = pa.Table.from_arrays([_column(values) for values in columns.values()], names=list(columns))
        meta = json.loads(json.dumps({"id": cell, "facts": facts}))
        meta["checksum"] = _checksum(_columns_digest(columns), meta)
        with _writer(path, table.schema, list(columns)) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({METADATA: json.dumps(meta, sort_keys=True)})
        return path

    def read_columns(self, cell: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """Columns and facts of a cell; None where there is no file, or a damaged one, which is noted in `damaged`."""
        path = self.cell_path(cell)
        if not path.exists():
            return None
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                meta = json.loads(file.metadata.metadata[METADATA.encode()])
                table = file.read()
            columns = {name: table[name].to_numpy() for name in table.column_names}
            checksum = meta.pop("checksum")
            sound = meta["id"] == cell and checksum == _checksum(_columns_digest(columns), meta)
        except Exception:  # broken bytes make the readers raise nearly anything
            sound = False
        if not sound:
            self.damaged.append(path.name)
            return None
        return columns, meta["facts"]

    def _write(
        self,
        path: Path,
        cell: Mapping[str, Any],
        rows: Iterable[Rows],
        facts: Mapping[str, Any],
        start: int,
        stop: int,
    ) -> None:
        with _writer(path, SCHEMA, _DICTIONARIES) as writer:
            _fill(writer, cell, rows, facts, start, stop)

    def _read(self, path: Path, cell: Mapping[str, Any] | None) -> Iterator[Rows]:
        """The rows of a file, a row group at a time; ValueError when they name another set or policy than the cell."""
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                if cell is not None and any(
                    set(table[name].unique().to_pylist()) != {cell[name]} for name in ("policy", "set")
                ):
                    raise ValueError("rows of another set or policy")
                yield _rows(table)

    def _verify(self, path: Path, cell: str, rounds: Sequence[int]) -> Header | None:
        """What a file holds, or None when it is damaged in any way or another cell's."""
        try:
            with parquet.ParquetFile(path) as file:
                if not file.schema_arrow.remove_metadata().equals(SCHEMA):
                    return None
                meta = json.loads(file.metadata.metadata[METADATA.encode()])
            total, seed, unhealthy = hashlib.sha256(), meta["seeds"][0], 0
            for rows in self._read(path, meta["cell"]):
                if rows.start != seed or rows.rounds.tolist() != list(rounds):
                    return None
                seed = rows.stop
                unhealthy += int(np.count_nonzero(rows.health))
                _digest(total, rows)
            checksum = meta.pop("checksum")
            if (meta["id"], meta["unhealthy"], sum(meta["seeds"])) != (cell, unhealthy, seed):
                return None
            if checksum != _checksum(total, meta):
                return None
            names = (meta["cell"]["set"], meta["cell"]["policy"], meta["cell"]["label"])
            return Header(meta["seeds"][0], seed, {name: meta[name] for name in FACTS}, names, unhealthy)
        except Exception:  # broken bytes make the readers raise nearly anything
            return None


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


def _fill(
    writer: parquet.ParquetWriter,
    cell: Mapping[str, Any],
    rows: Iterable[Rows],
    facts: Mapping[str, Any],
    start: int,
    stop: int,
) -> None:
    """Writes rows in groups of one size, and what is known of them."""
    total = hashlib.sha256()
    seed, unhealthy = start, 0
    for group in _regrouped(rows, start):
        _digest(total, group)
        unhealthy += int(np.count_nonzero(group.health))
        seed = group.stop
        writer.write_table(_table(group, cell), row_group_size=group.regret.size)
    if seed != stop:
        raise ValueError(f"cell {cell['id']}: holds the seeds {start} to {seed}, not to {stop}")
    meta = {"id": cell["id"], "cell": dict(cell), **{name: facts[name] for name in FACTS}}
    meta |= {"seeds": [start, stop - start], "unhealthy": unhealthy}
    meta = json.loads(json.dumps(meta))
    writer.add_key_value_metadata({METADATA: json.dumps({**meta, "checksum": _checksum(total, meta)}, sort_keys=True)})


def _checksum(rows: Any, meta: Mapping[str, Any]) -> str:
    """Hash of a file's rows and of what it says of them."""
    return digest([rows.hexdigest(), meta])


def _columns_digest(columns: Mapping[str, NDArray[Any]]) -> Any:
    """Hash of columns: their names, types and values."""
    total = hashlib.sha256()
    for name, values in columns.items():
        total.update(f"{name}:{values.dtype.str}:{values.size};".encode() + np.ascontiguousarray(values).tobytes())
    return total


def merged_facts(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Facts of a whole cell from those of its pieces: they agree but for the reruns, which add up."""
    return {**facts[0], "reruns": sum(each["reruns"] for each in facts)}


def _table(rows: Rows, cell: Mapping[str, Any]) -> pa.Table:
    seeds, records = rows.regret.shape
    first = _column(np.zeros(seeds * records, np.int32))
    return pa.Table.from_arrays(
        [
            _column(np.repeat(np.arange(rows.start, rows.stop, dtype=np.int64), records)),
            _column(np.tile(rows.rounds, seeds)),
            _column(rows.regret.reshape(-1)),
            _column(rows.payoff.reshape(-1)),
            _column(np.repeat(rows.health, records)),
            pa.DictionaryArray.from_arrays(first, _word(cell["policy"])),
            pa.DictionaryArray.from_arrays(first, _word(cell["set"])),
        ],
        schema=SCHEMA,
    )


def _column(values: NDArray[Any]) -> pa.Array:
    """A column that shares the array's memory; `pa.array` would import pandas, which takes longer than a cell."""
    kept = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(kept.dtype), kept.size, [None, pa.py_buffer(kept)])


def _word(text: str) -> pa.Array:
    """An array of one text."""
    content = text.encode()
    ends = np.array([0, len(content)], np.int32)
    return pa.StringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(content))


def _rows(table: pa.Table) -> Rows:
    columns = {name: table[name].to_numpy() for name in ("seed", "pull", "regret", "payoff", "health")}
    records = int(np.searchsorted(columns["seed"], columns["seed"][0], side="right"))
    shape = (columns["seed"].size // records, records)
    first = columns["seed"].reshape(shape)[:, 0]
    expected = np.repeat(np.arange(first[0], first[0] + shape[0]), records)
    if not np.array_equal(columns["seed"], expected) or np.any(
        columns["pull"].reshape(shape) != columns["pull"][:records]
    ):
        raise ValueError("rows are not sorted by seed and pull")
    return Rows(
        int(first[0]),
        columns["pull"][:records],
        columns["regret"].reshape(shape),
        columns["payoff"].reshape(shape),
        columns["health"].reshape(shape)[:, 0],
    )


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
        while held and sum(each.health.size for each in held) >= size:
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
