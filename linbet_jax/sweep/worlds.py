"""The sets of a sweep as plain data: values that are checked, files that are read, and hashes of it all."""

from __future__ import annotations

import csv
import dataclasses
import functools
import inspect
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax import noise
from linbet_jax.bandit import LinearBandit
from linbet_jax.errors import InputError
from linbet_jax.provenance import instance_digest
from linbet_jax.results import digest
from linbet_jax.sweep import plugins
from linbet_jax.sweep.model import ARMS, SetChoice
from linbet_jax.sweep.schema import nearest, shown

__all__ = ["instance_hash", "spec", "with_files"]


def spec(choice: SetChoice, folder: Path) -> dict[str, Any]:
    """A set as plain data: its values, with the arms of a file read in, and `content`, the hash of it all.

    Raises:
        InputError: a file or a module that is not there or not usable; the message begins with the field.
    """
    plain: dict[str, Any] = {"label": choice.label, "source": choice.source, "values": dict(choice.values)}
    if choice.source == ARMS:
        arms = _arms(folder / choice.values["arms"], f"{choice.where}.arms")
        theta = choice.values["theta_star"]
        if isinstance(theta, str):
            theta = _column(_matrix(folder / theta, f"{choice.where}.theta_star"))
        plain["values"] |= {"arms": arms, "theta_star": np.asarray(theta, np.float64)}
    if ":" in choice.source:
        _, source = plugins.load(choice.source, folder, f"{choice.where}.set")
        plain |= {"folder": str(folder), "digest": source}
    if "noise" in choice.values:
        _law(choice.values["noise"], f"{choice.where}.noise")
    return {**plain, "content": digest(_written(plain))}


def with_files(plain: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    """A set's plain data with the files (`plugins.files`) that a function of one's own reads."""
    return {**plain, "files": files, "content": digest([plain["content"], files])} if files else plain


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
    drawn = None
    if bandit.changing or bandit.resampling:
        options = sorted(plain["values"].get("options", {}).items())
        drawn = (plain["source"], bandit.num_arms, bandit.dim, bandit.best_mean, options)
    read = [plain["files"]] if "files" in plain else []
    return instance_digest(bandit, (drawn, plain.get("digest"), *read))


# Laws ----------------------------------------------------------------------------------------------------------------


@functools.cache
def _laws() -> dict[str, Any]:
    found = {name: getattr(noise, name) for name in noise.__all__}
    return {name: law for name, law in found.items() if dataclasses.is_dataclass(law)}


def _law(values: Any, where: str) -> Any:
    """The payoff law of `{law = "Pareto", shape = 2}`."""
    arguments = dict(values)
    name = arguments.pop("law", None)
    if not isinstance(name, str) or name not in _laws():
        missing = "is missing" if name is None else f"= {shown(name)}: no such law"
        raise InputError(f"{where}.law {missing}{nearest(str(name), _laws())}")
    known = inspect.signature(_laws()[name]).parameters
    for field in arguments:
        if field not in known:
            raise InputError(f"{where}.{field}: unknown key{nearest(field, known)}")
    for field, parameter in known.items():
        if parameter.default is parameter.empty and field not in arguments:
            raise InputError(f"{where}.{field}: is missing; {name} needs it")
    try:
        return _laws()[name](**arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error


# Files ---------------------------------------------------------------------------------------------------------------


def _arms(path: Path, where: str) -> NDArray[np.float64]:
    return _matrix(path, where)


def _column(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """One row or one column as a vector; anything else is left for the bandit to refuse."""
    return matrix.reshape(-1) if 1 in matrix.shape else matrix


def _matrix(path: Path, where: str) -> NDArray[np.float64]:
    """Numbers [rows, columns] of a .csv (a first line of names is skipped), .npy or .parquet file."""
    readers = {".csv": _read_csv, ".npy": _read_npy, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{where} = {path.name!r}: must end in {', '.join(readers)}")
    try:
        matrix = np.atleast_2d(np.asarray(reader(path)))
        if matrix.size and matrix.dtype.kind not in "iuf":
            raise ValueError(f"it holds {matrix.dtype}")
        matrix = matrix.astype(np.float64)
    except FileNotFoundError:
        raise InputError(f"{where}: there is no file {path}") from None
    except Exception as error:  # the readers raise nearly anything on a file that is none of theirs
        raise InputError(f"{where}: {path} holds no table of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"{where}: {path} must hold a table of numbers, got the shape {matrix.shape}")
    return matrix


def _read_csv(path: Path) -> Any:
    with path.open(encoding="utf-8-sig", newline="") as file:  # spreadsheets write a byte-order mark
        rows = [row for row in csv.reader(file) if row]
    if not any(map(_is_number, rows[0])):  # names of the columns; a row with some numbers is none
        rows = rows[1:]
    return [[float(entry) for entry in row] for row in rows]


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True


def _read_npy(path: Path) -> Any:
    array = np.load(path, allow_pickle=False)
    return array if array.ndim == 2 else array.reshape(1, -1) if array.ndim == 1 else array


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    table = parquet.read_table(path)
    return np.column_stack([column.to_numpy() for column in table.columns])
