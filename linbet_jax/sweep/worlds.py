"""The sets of a sweep as plain data: values that are checked, files that are read, and hashes of it all."""

from __future__ import annotations

import csv
import dataclasses
import functools
import inspect
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linbet_jax import noise
from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.errors import InputError
from linbet_jax.simulation.checks import is_number
from linbet_jax.storage.provenance import instance_digest
from linbet_jax.storage.results import digest
from linbet_jax.sweep import plugins, work
from linbet_jax.sweep.model import ARMS, Choice
from linbet_jax.sweep.schema import decoded, nearest, shown, unknown_key

EMPIRICAL = "Empirical"  # the law of numbers in a file
_PYTHON = {"Custom": "a Python function", "EmpiricalPerArm": "numbers of its own for each arm"}  # laws no file can hold


def spec(choice: Choice, folder: Path) -> dict[str, Any]:
    """A set as plain data: its values, files read in, and `content`, the hash of it all. Messages name the field."""
    plain: dict[str, Any] = {"label": choice.label, "source": choice.source, "values": dict(choice.values)}
    if choice.source == ARMS:
        arms = _arms(folder / choice.values["arms"], f"{choice.where}.arms")
        theta = choice.values["theta_star"]
        if isinstance(theta, str):
            theta = _column(_matrix(folder / theta, f"{choice.where}.theta_star")[0])
        plain["values"] |= {"arms": arms, "theta_star": np.asarray(theta, np.float64)}
    if choice.custom:
        _, source = plugins.load(choice.source, folder, f"{choice.where}.set")
        plain |= {"folder": str(folder), "digest": source}
    if "noise" in choice.values:
        plain["values"]["noise"] = _law(choice.values["noise"], folder, f"{choice.where}.noise")
    if "drift" in choice.values:
        if choice.values.get("resample"):
            raise InputError(f"{choice.where}.drift: goes without resample = true, whose theta* stays")
        plain["values"]["drift"] = _drift(choice.values["drift"], f"{choice.where}.drift")
    return {**plain, "content": digest(_written(plain))}


def _written(value: Any) -> Any:
    """The value as JSON can write it, arrays by shape and bytes; other values of a TOML file (dates) as text."""
    if isinstance(value, dict):
        return {name: _written(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_written(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return [list(value.shape), np.ascontiguousarray(value, dtype="<f8").tobytes().hex()]
    return value if isinstance(value, (str, int, float)) else str(value)


def instance_hash(plain: dict[str, Any], bandit: LinearBandit) -> str:
    """Hash of what is played, by content; what a function draws (fresh instances, changing sets) by what makes it."""
    drawn: Any = None
    if bandit.changing or bandit.resampling or bandit.path is not None:
        options = sorted(plain["values"].get("options", {}).items())
        drawn = (plain["source"], bandit.num_arms, bandit.dim, bandit.best_mean, options)
        if "drift" in plain["values"]:
            drawn = (*drawn, bandit.path)  # whose repr holds all of it, where it begins too
    read = [plain["files"]] if "files" in plain else []
    return instance_digest(bandit, (drawn, plain.get("digest"), *read))


# Laws ----------------------------------------------------------------------------------------------------------------


@functools.cache
def _laws() -> dict[str, dict[str, bool]]:
    """Laws of numbers alone, of numbers in a file, around another law, of several; their fields, True if needed."""
    exported = {name: getattr(noise, name) for name in noise.__all__}
    plain = {name: law for name, law in exported.items() if dataclasses.is_dataclass(law)}
    numbers = [name for name, law in plain.items() if all(f.type == "float" for f in dataclasses.fields(law))]
    fields = {n: inspect.signature(exported[n]).parameters for n in (*numbers, EMPIRICAL, "Heteroscedastic", "Mixture")}
    return {name: {f: p.default is p.empty for f, p in known.items()} for name, known in fields.items()}


def _kind(values: Any, where: str, key: str, known: Mapping[str, Mapping[str, bool]], example: str) -> str:
    """Which of the known kinds a table is, as this key says; its other keys are fields, all that are needed (True)."""
    if not isinstance(values, dict):
        raise InputError(f"{where} = {shown(values)}: must be a {key}, {example} for example")
    name = values.get(key)
    if not isinstance(name, str) or name not in known:
        missing = "is missing" if name is None else f"= {shown(name)}: no such {key}"
        raise InputError(f"{where}.{key} {missing}{nearest(str(name), known)}")
    for field in values:
        if field not in (key, *known[name]):
            raise InputError(unknown_key(f"{where}.{field}", field, known[name]))
    for field, needed in known[name].items():
        if needed and field not in values:
            raise InputError(f"{where}.{field}: is missing; {name} needs it")
    return name


def _law(values: Any, folder: Path, where: str) -> dict[str, Any]:
    """The table of a law, `{law = "Pareto", shape = 2}`, checked, with the numbers of a file that it names."""
    if isinstance(values, dict) and (python := _PYTHON.get(str(values.get("law")))) is not None:
        raise InputError(
            f"{where}.law = {shown(values['law'])}: is made of {python}, which a sweep file cannot hold; make the law"
            " in a function of a module beside the file that returns the whole bandit: set = 'module:function'"
        )
    name = _kind(values, where, "law", _laws(), '{law = "Pareto", shape = 2}')
    law = {field: _argument(name, field, value, folder, where) for field, value in values.items()}
    try:
        work.law(law)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error
    return law


def _argument(name: str, field: str, value: Any, folder: Path, where: str) -> Any:
    """An argument of a law: a law within it is checked too, and a file is read."""
    where = f"{where}.{field}"
    if field == "noise":
        return _law(value, folder, where)
    if (name, field) == ("Mixture", "laws"):
        if not isinstance(value, list):
            raise InputError(f"{where} = {shown(value)}: must be a list of laws")
        return [_law(part, folder, f"{where}[{n}]") for n, part in enumerate(value)]
    if (name, field) == (EMPIRICAL, "residuals"):
        if not isinstance(value, str):
            raise InputError(f"{where} = {shown(value)}: must be the name of a .csv, .npy or .parquet file")
        return _column(_matrix(folder / value, where)[0])
    return value


# Paths ---------------------------------------------------------------------------------------------------------------

_PATHS = {"rotating": "angle", "jumping": "every"}  # and the number that each is made of


def drift_in_words(path: Mapping[str, Any] | None) -> str:
    """How theta* moves: the table of a path that was checked; None where a function of one's own moves it."""
    if path is None:
        return "a path of its own"
    if path["path"] == "rotating":
        return f"rotating, {path['angle']:g} rad a pull"
    return f"jumping every {int(path['every']):,} pulls"


def _drift(values: Any, where: str) -> dict[str, Any]:
    """The table of a path, checked, its number of one type however it is written."""
    known = {name: {"path": True, field: True} for name, field in _PATHS.items()}
    name = _kind(values, where, "path", known, '{path = "rotating", angle = 1e-4}')
    field = _PATHS[name]
    number = values[field]
    real = isinstance(number, (int, float)) and not isinstance(number, bool)
    if field == "angle":
        if not (real and abs(number) < 1e300):
            raise InputError(f"{where}.angle = {shown(number)}: must be a number, radians a pull, or a list of such")
        return {"path": name, "angle": float(number)}
    if not (real and number == number // 1 and 1 <= number < 2**31):
        raise InputError(f"{where}.every = {shown(number)}: must be a whole number, 1 to 2147483647, or a list of such")
    return {"path": name, "every": int(number)}


# Files ---------------------------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """A file's numbers."""

    rows: Any  # of numbers
    lines: Sequence[int]  # of the file, where each row stands, from 1
    written: list[list[str]] | None = None  # the entries as words of the file; None where it holds them as numbers


def _arms(path: Path, where: str) -> NDArray[np.float64]:
    """Arms [K, d] of a file, unless its first row or column counts, as what pandas writes beside the numbers does."""
    matrix, written = _matrix(path, where)
    (num_arms, dim), least = matrix.shape, 1 if written else 3  # 0, 1 in a binary file may well be an arm
    first_row, first_column = matrix[0].tolist(), matrix[:, 0].tolist()
    points = "0.0 for 0" if written else "as .csv, with 0.0 for 0,"
    if written and not all(entry.isdecimal() for entry in written[0]):
        first_row = []
    if written and not all(row[0].isdecimal() for row in written):
        first_column = []
    if num_arms > 1 and dim >= least and first_row == list(range(dim)):
        raise InputError(
            f"{where}: the first row of {path} reads {shown(list(range(dim)))}, like pandas' header of columns without "
            f"names; write the file with header=False, or {points} where this is an arm"
        )
    if num_arms >= max(least, 2) and dim > 1 and first_column in (list(range(num_arms)), list(range(1, num_arms + 1))):
        raise InputError(
            f"{where}: the first column of {path} counts its rows, like an index; write the file with index=False, or "
            f"{points} where this is a coordinate"
        )
    return matrix


def _column(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """One row or one column as a vector; anything else is left for the bandit to refuse."""
    return matrix.reshape(-1) if 1 in matrix.shape else matrix


def _matrix(path: Path, where: str) -> tuple[NDArray[np.float64], list[list[str]] | None]:
    """Numbers [rows, columns] of a .csv (a first line of names is skipped), .npy or .parquet file, and its words."""
    readers = {".csv": _read_csv, ".npy": _read_npy, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{where} = {path.name!r}: must end in {', '.join(readers)}")
    try:
        table = reader(path)
        matrix = np.atleast_2d(np.asarray(table.rows))
        if matrix.size and matrix.dtype.kind not in "iuf":
            raise ValueError(f"it holds {matrix.dtype}")
        matrix = matrix.astype(np.float64)
        for row, column in np.argwhere(~np.isfinite(matrix))[: matrix.ndim == 2]:
            raise ValueError(f"row {table.lines[row]}, column {column + 1} is {matrix[row, column]}")
    except FileNotFoundError:
        raise InputError(f"{where}: there is no file {path}") from None
    except Exception as error:  # the readers raise nearly anything on a file that is none of theirs
        raise InputError(f"{where}: {path} holds no table of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"{where}: {path} must hold a table of numbers, got the shape {matrix.shape}")
    return matrix, table.written


def _read_csv(path: Path) -> _Table:
    reader = csv.reader(io.StringIO(decoded(path.read_bytes()), newline=""))
    lines, rows = [], []
    for row in reader:
        if row:
            lines.append(reader.line_num)
            rows.append([entry.strip() for entry in row])
            if len(row) != len(rows[0]):
                raise ValueError(f"row {lines[-1]} has {len(row)} entries, and row {lines[0]} has {len(rows[0])}")
    head = rows[0] if rows else []
    if head and not head[0] and all(entry.isdecimal() or not is_number(entry) for entry in head[1:]):
        raise ValueError(
            "its first column has no name, like pandas' index; write the file with index=False, header=False"
        )
    if not any(map(is_number, head)):  # names of the columns; a row with some numbers is none
        lines, rows = lines[1:], rows[1:]
    for line, row in zip(lines, rows, strict=True):
        for column, entry in enumerate(row, 1):
            if not is_number(entry):
                raise ValueError(f"row {line}, column {column} reads {entry!r}, which is no number")
    return _Table([[float(entry) for entry in row] for row in rows], lines, rows)


def _read_npy(path: Path) -> _Table:
    array = np.load(path, allow_pickle=False)
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    return _Table(rows, range(1, 1 + len(np.atleast_2d(rows))))


def _read_parquet(path: Path) -> _Table:
    from pyarrow import parquet

    table = parquet.read_table(path)
    for name in (table.schema.pandas_metadata or {}).get("index_columns", []):
        if name in table.column_names:
            raise ValueError(f"its column {name!r} is pandas' index; write the file with index=False")
    columns = [column.to_numpy() for column in table.columns]
    for name, column in zip(table.column_names, columns, strict=True):
        if column.dtype.kind not in "iuf":
            raise ValueError(f"its column {name!r} holds {table.schema.field(name).type}")
    return _Table(np.column_stack(columns), range(1, 1 + table.num_rows))
