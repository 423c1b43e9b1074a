"""A sweep's results in Python: `load(folder)` gives its cells, one tidy table, and summaries over seeds."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from linbet_jax.errors import InputError
from linbet_jax.simulation.notebook import html_table
from linbet_jax.storage.results import MANIFEST, RunFolderError, sweep_manifest
from linbet_jax.sweep import journal
from linbet_jax.sweep.journal import Journey
from linbet_jax.sweep.store import NUMBERS, SCHEMA, CellFileError, Rows, Store, read_notes, read_run

if TYPE_CHECKING:
    from linbet_jax.statistics import regret

WORDS = SCHEMA.field("set").type
QUANTITIES = ("regret", "payoff")
NAMES = ("set", "policy", "label", "horizon")
# Columns of the table that every cell has; constants of these names would say the same and are left out.
COLUMNS: Mapping[str, pa.DataType] = {
    **{name: SCHEMA.field(name).type for name in NUMBERS},
    "set": WORDS,
    "policy": WORDS,
    "label": WORDS,
    "horizon": pa.int64(),
    "cell": WORDS,
}


class PartialSweepWarning(UserWarning):
    """Some cells of a sweep are not whole; what is read is read without those that cannot be."""


@dataclasses.dataclass(frozen=True, repr=False)
class LoadedCell:
    """One cell of a sweep, finished or not.

    Attributes:
        id: hash of everything that decides its numbers.
        title: its name in messages.
        set: name of the data set.
        policy: its name in the sweep file.
        family: registry name of the policy, or a user's `module:function`; several policies may be of one family.
        label: how figures and tables name it.
        horizon: T, pulls.
        dtype: "float64" or "float32".
        options: the policy's options as given.
        parameters: the policy's hyperparameters.
        bandit: the bandit's constants, under the names of the paper.
        set_options: the set's options as given.
        swept: values of this cell that the sweep file varies; `policy.NAME` where set and policy both have a NAME.
        seeds: replications asked for.
        records: rows recorded per seed.
        state: "done"; "partial" (fewer seeds are stored than asked for), "failed", "damaged", "unreadable" (the system
            does not give its file), "started" or "missing".
        stored: replications that its file holds.
        unhealthy: of them, those that met something non-finite.
        error: why it failed or cannot be read; empty otherwise.
        journey: what the journal tells of it.
        path: of its file, there or not.
    """

    id: str
    title: str
    set: str
    policy: str
    family: str
    label: str
    horizon: int
    dtype: str
    options: Mapping[str, Any]
    parameters: Mapping[str, Any]
    bandit: Mapping[str, Any]
    set_options: Mapping[str, Any]
    swept: Mapping[str, Any]
    seeds: int
    records: int
    state: str
    stored: int
    unhealthy: int
    error: str
    journey: Journey
    path: Path

    def __repr__(self) -> str:
        error = f": {self.error}" if self.error else ""
        where = f"{self.label} on {self.set}, {self.horizon} pulls"
        return f"LoadedCell({where}, {self.stored} of {self.seeds} seeds, {self.state}{error})"

    def _repr_html_(self) -> str:
        """The same as a table, in a notebook."""
        return _cells_table([self], self.swept, self.error)

    @property
    def whole(self) -> bool:
        """Whether everything that was asked for is there."""
        return self.state == "done"

    @property
    def readable(self) -> bool:
        """Whether there are replications to read."""
        return self.state in ("done", "partial")

    @functools.cached_property
    def constants(self) -> dict[str, Any]:
        """Parameters and options under their names, the bandit's as `bandit_NAME`, the set's options as `set_NAME`."""
        policy = {**self.options, **self.parameters}
        constants = {name: value for name, value in policy.items() if name not in COLUMNS}
        constants |= {f"bandit_{name}": value for name, value in self.bandit.items()}
        return constants | {f"set_{name}": value for name, value in self.set_options.items()}

    def value(self, name: str) -> Any:
        """A field, a swept value, or a constant with or without `bandit_` or `set_`; None when the cell has none."""
        if name in (*NAMES, "id", "dtype", "state", "family"):
            return getattr(self, name)
        if name in self.swept:
            return self.swept[name]
        if name.startswith("policy."):
            name = name.removeprefix("policy.")
            return self.parameters.get(name, self.options.get(name))
        constants = self.constants
        return next((constants[key] for key in (name, f"bandit_{name}", f"set_{name}") if key in constants), None)

    def run(self) -> Rows:
        """The replications, read from the file.

        Raises:
            RunFolderError: there is no file, or it cannot be read or is damaged.
        """
        if self.state in _SPOILED:
            raise RunFolderError(self.error)
        if not self.readable:
            why = f": {self.error}" if self.error else ""
            raise RunFolderError(f"cell {self.id} ({self.label} on {self.set}) is {self.state}{why}")
        return read_run(self.path, self.id)


@dataclasses.dataclass(frozen=True, repr=False)
class CellPair:
    """Two cells compared seed by seed.

    Attributes:
        first: one cell.
        second: the other, on the same instance and horizon.
        difference: summary of first minus second at the horizon, over the seeds that both hold.
        wins: share of seeds in which the first value is the smaller one.
    """

    first: LoadedCell
    second: LoadedCell
    difference: regret.Summary
    wins: regret.Share

    def __repr__(self) -> str:
        first, second = (f"{cell.label} [{cell.id[:6]}]" for cell in (self.first, self.second))
        where = f"{self.first.set}, {self.first.horizon} pulls"
        return f"CellPair({first} minus {second} on {where}: {self.difference!r}, {self.wins!r})"


class Results:
    """The cells of a sweep folder. Use `load`; `select` gives parts of it.

    Whatever reads rows leaves out a cell whose file cannot be read, with a `PartialSweepWarning` that names it.

    Attributes:
        path: the folder, absolute.
        manifest: its manifest, as read.
        cells: all cells in the order of the sweep file, finished or not; those whose file turns out not to be readable
            say so from then on.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any], cells: Sequence[LoadedCell]) -> None:
        """Keeps what was read; no rows are read here."""
        self.path = path
        self.manifest = manifest
        self.cells = tuple(cells)

    def __repr__(self) -> str:
        return f"<Results {self.path}: {self.progress}>"

    def _repr_html_(self) -> str:
        """A table of the cells, in a notebook; no rows are read for it."""
        more = len(self.cells) - _SHOWN
        caption = f"{self.path}: {self.progress}" + (f"; the first {_SHOWN} of {len(self.cells)}" if more > 0 else "")
        return _cells_table(self.cells[:_SHOWN], self.swept, caption)

    @property
    def progress(self) -> str:
        """How many cells are done, and what the others are, in words."""
        others = {state: sum(cell.state == state for cell in self.cells) for state in _STATES}
        rest = ", ".join(f"{count} {state}" for state, count in others.items() if count)
        done = f"{sum(cell.whole for cell in self.cells)} of {len(self.cells)} cells done"
        return f"{done}; {rest}" if rest else done

    @property
    def complete(self) -> bool:
        """Whether every cell is done."""
        return all(cell.whole for cell in self.cells)

    @property
    def absent(self) -> tuple[LoadedCell, ...]:
        """The cells that are not done: what no table or average of this sweep (or not all of it) holds."""
        return tuple(cell for cell in self.cells if not cell.whole)

    def panels(self) -> dict[str, list[tuple[str, str, Rows]]]:
        """What a figure of the sweep shows: for each set and horizon every cell's label, policy and replications.

        A label names the values of the sweep in which the cells of one policy differ.
        """
        several = len({cell.horizon for cell in self.cells}) > 1
        titles = {cell.id: f"{cell.set}, T = {cell.horizon:,}" if several else cell.set for cell in self.cells}
        panels: dict[str, list[tuple[str, str, Rows]]] = {}
        for cell, rows in self._runs(self.cells):
            beside = [c for c in self.cells if titles[c.id] == titles[cell.id] and c.policy == cell.policy]
            names = [name for name in cell.swept if name not in ("radius_scale", "horizon")]
            differing = [name for name in names if any(c.value(name) != cell.value(name) for c in beside)]
            label = ", ".join([base_label(cell), *(f"{name} {cell.value(name)}" for name in differing)])
            panels.setdefault(titles[cell.id], []).append((label, cell.family, rows))
        return panels

    def _runs(self, cells: Iterable[LoadedCell]) -> Iterator[tuple[LoadedCell, Rows]]:
        """Cells with their replications, one at a time; those that cannot be read are left out and named at the end."""
        errors = []
        for cell in cells:
            read, run = self.run_of(cell)
            if run is not None:
                yield cell, run
            elif read.state in _SPOILED or read is not cell:
                errors.append(read.error)
        if errors:
            count = f"{len(errors)} cell{'s' if len(errors) > 1 else ''}"
            warnings.warn(f"left out {count}, see .absent: {'; '.join(errors)}", PartialSweepWarning, stacklevel=4)

    def run_of(self, cell: LoadedCell) -> tuple[LoadedCell, Rows | None]:
        """A cell with its replications; with None, and noted in `cells`, where its file cannot be read after all."""
        if not cell.readable:
            return cell, None
        try:
            return cell, cell.run()
        except CellFileError as error:
            marked = dataclasses.replace(cell, state=error.state, stored=0, unhealthy=0, error=str(error))
            self.cells = tuple(marked if other.id == cell.id else other for other in self.cells)
            return marked, None

    @property
    def swept(self) -> tuple[str, ...]:
        """Names of the parameters that take more than one value, as the manifest lists them."""
        return tuple(str(name) for name in self.manifest.get("swept") or ())

    @property
    def parameters(self) -> list[str]:
        """What the sweep varies beside sets, policies, horizons and dtypes."""
        return [name for name in self.swept if name not in (*NAMES, "dtype")]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        return tuple(self._types)

    @functools.cached_property
    def _constants(self) -> tuple[str, ...]:
        """Every constant and swept name that some cell has."""
        names = dict.fromkeys(name for cell in self.cells for name in cell.constants)
        return tuple(names | dict.fromkeys(self.parameters))

    @functools.cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """The table's columns; of a constant the Arrow type that holds the values of all cells."""
        return {**COLUMNS, **{name: _type_of(cell.value(name) for cell in self.cells) for name in self._constants}}

    @functools.cached_property
    def table(self) -> pa.Table:
        """One row per cell, seed and record, of all cells that hold any; read when first asked for.

        Columns: seed, pull, regret, payoff, health, set, policy, label, horizon, cell, and one per parameter, option,
        constant of the bandit (`bandit_K`), option of the set (`set_noise`) and swept name, null for cells without it.
        """
        return self.read()

    def read(self, columns: Iterable[str] | None = None, *, last: bool = False) -> pa.Table:
        """The table, or some of it: what does not fit into memory can be read in parts.

        Args:
            columns: names among `columns`; all by default.
            last: only each seed's last record, at the horizon.

        Returns:
            As `table`; empty, with all its columns, when no cell holds anything.

        Raises:
            InputError: an unknown column.
        """
        wanted = self.columns if columns is None else tuple(columns)
        for name in wanted:
            if name not in self._types:
                raise InputError(f"column {name!r}: the table has {', '.join(self.columns)}")
        schema = pa.schema([(name, self._types[name]) for name in wanted])
        batches = [_batch(cell, run.last if last else run, schema) for cell, run in self._runs(self.cells)]
        return pa.Table.from_batches(batches, schema=schema)

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame; ImportError without pandas."""
        _needs("pandas", "to_pandas")
        return self.table.unify_dictionaries().to_pandas()

    def to_xarray(self) -> Any:
        """The sweep as an xarray Dataset; ImportError without xarray.

        Variables: regret and payoff [cell, seed, record], health [cell, seed], pull [cell, record]. What a cell lacks
        is NaN (health and pull: -1). Its names and constants are coordinates along `cell`.
        """
        xarray = _needs("xarray", "to_xarray")
        runs = list(self._runs(self.cells))
        seeds = np.unique(np.concatenate([np.zeros(0, np.int64), *(run.seeds for _, run in runs)]))
        records = max((run.rounds.size for _, run in runs), default=0)
        shape = (len(runs), seeds.size, records)
        numbers = {name: np.full(shape, np.nan) for name in QUANTITIES}
        health, pulls = np.full(shape[:2], -1, np.int64), np.full((shape[0], records), -1, np.int64)
        for row, (_, run) in enumerate(runs):
            at, count = np.searchsorted(seeds, run.seeds), run.rounds.size
            for name, grid in numbers.items():
                grid[row, at, :count] = getattr(run, name)
            health[row, at], pulls[row, :count] = run.health, run.rounds
        coordinates: dict[str, Any] = {"cell": ("cell", [cell.id for cell, _ in runs]), "seed": ("seed", seeds)}
        for name in (*NAMES, *self._constants):
            values = [_fitting(cell.value(name), self._types[name]) for cell, _ in runs]
            coordinates[name] = ("cell", np.array(values, dtype=object if None in values else None))
        data: dict[str, Any] = {"health": (("cell", "seed"), health), "pull": (("cell", "record"), pulls)}
        data |= {name: (("cell", "seed", "record"), grid) for name, grid in numbers.items()}
        return xarray.Dataset(data, coords=coordinates)

    def select(self, **conditions: Any) -> Results:
        """The cells whose fields have the given values.

        Args:
            **conditions: a field (`policy`, `family`, `set`, `label`, `horizon`, `dtype`, `state`, `id`), parameter,
                option or constant of the bandit (`K` or `bandit_K`), and the value, or a list of values, that it may
                have.

        Returns:
            The sweep of these cells alone.

        Raises:
            InputError: no cell has such a field, or none has that value; the message lists what there is.
        """
        cells = self.cells
        for name, wanted in conditions.items():
            allowed = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
            there = {json.dumps(value): value for cell in self.cells if (value := cell.value(name)) is not None}
            if not there:
                known = ", ".join((*NAMES, "family", "dtype", "state", "id", *self._constants))
                raise InputError(f"{name}={wanted!r}: no cell has that field; there are {known}")
            for value in allowed:
                if not any(_same(value, other) for other in there.values()):
                    listing = ", ".join(list(there)[:20]) + (" ..." if len(there) > 20 else "")
                    raise InputError(f"{name}={value!r}: no cell has that value; there are {listing}")
            cells = tuple(cell for cell in cells if any(_same(value, cell.value(name)) for value in allowed))
        if not cells:
            raise InputError(
                f"no cell has all of {', '.join(f'{name}={value!r}' for name, value in conditions.items())}"
            )
        return Results(self.path, self.manifest, cells)

    def summary(self, quantity: str = "regret", *, level: float = 0.95) -> pa.Table:
        """One row per cell, whatever its state: statistics over seeds at the horizon.

        Args:
            quantity: "regret" or "payoff".
            level: coverage of the Student-t interval, in (0, 1).

        Returns:
            Arrow table: cell, set, policy, label, horizon, the swept parameters, state, seeds (stored), unhealthy, n,
            mean, sd, standard_error, low, high, median, trimmed_mean, error. Statistics that do not exist are null.

        Raises:
            InputError: an unknown quantity.
        """
        from linbet_jax.statistics import regret  # which loads SciPy: opening a folder does without

        _check_quantity(quantity)
        swept = {n: _type_of(c.value(n) for c in self.cells) for n in self.parameters}
        types: dict[str, pa.DataType] = {"cell": pa.string()} | dict.fromkeys(NAMES, pa.string())
        types |= {"horizon": pa.int64(), **swept, "state": pa.string(), "seeds": pa.int64()}
        types |= {name: pa.int64() if name in ("unhealthy", "n") else pa.float64() for name in _STATISTICS}
        rows = []
        for listed in self.cells:
            cell, run = self.run_of(listed)
            numbers = {}
            if run is not None:
                final = regret.summarize(getattr(run, quantity)[:, -1], run.health, level=level)
                numbers = {name: np.asarray(getattr(final, name)).item() for name in _STATISTICS}
                numbers = {name: value for name, value in numbers.items() if math.isfinite(value)}
            row = {"cell": cell.id, "state": cell.state, "seeds": cell.stored, "error": cell.error or None}
            row |= {name: getattr(cell, name) for name in NAMES} | numbers
            rows.append(row | {name: _fitting(cell.value(name), kind) for name, kind in swept.items()})
        return pa.Table.from_pylist(rows, schema=pa.schema({**types, "error": pa.string()}))

    def paired(
        self,
        first: str | Mapping[str, Any],
        second: str | Mapping[str, Any],
        *,
        quantity: str = "regret",
        level: float = 0.95,
    ) -> tuple[CellPair, ...]:
        """Compares cells seed by seed: all cells of a sweep share the key, so a seed met the same noise in both.

        Args:
            first: a policy's name, or conditions as in `select`, e.g. `{"policy": "tofu", "radius_scale": 0.03}`.
            second: likewise.
            quantity: as in `summary`.
            level: likewise.

        Returns:
            One entry for every two cells that have set, instance, horizon and dtype in common, and in what neither side
            names are alike: of one policy unless a side names a policy (or family, label or id), and equal in every
            swept parameter that both have.

        Raises:
            InputError: conditions that no cell meets, no two cells to compare, or an unknown quantity.
        """
        _check_quantity(quantity)
        for side in (first, second):
            if not isinstance(side, str | Mapping):
                raise InputError(f"paired({side!r}): must be a policy's name or a mapping of conditions, as in select")
        sides = [{"policy": side} if isinstance(side, str) else dict(side) for side in (first, second)]
        shared = self._unnamed({*sides[0], *sides[1]})
        left, right = (self.select(**side).cells for side in sides)
        couples = [(a, b) for a in left for b in right if a.id != b.id and _comparable(a, b, shared)]
        if not couples:
            alike = ", ".join(("set", "instance", "horizon", "dtype", *shared))
            raise InputError(f"nothing to compare between {first!r} and {second!r}: no two cells share {alike}")
        wanted = {cell.id: cell for couple in couples for cell in couple}
        runs = {cell.id: run.last for cell, run in self._runs(wanted.values())}
        pairs = [(a, b) for a, b in couples if a.id in runs and b.id in runs]
        if not pairs:
            why = "their cells are not computed yet, or cannot be read"
            raise InputError(f"nothing to compare between {first!r} and {second!r}: {why}")
        return tuple(compare(a, b, runs[a.id], runs[b.id], quantity=quantity, level=level) for a, b in pairs)

    def _unnamed(self, named: set[str]) -> list[str]:
        """What two cells must have in common when nobody names it: the policy, and every swept parameter."""
        if "id" in named:  # it names everything
            return []
        # `policy.delta`, `bandit_K` and `set_noise` name delta, K and noise where no other delta, K or noise is swept.
        plain = {n.removeprefix("policy.").removeprefix("bandit_").removeprefix("set_") for n in named - {*self.swept}}
        policy = [] if named & {"policy", "family", "label"} else ["policy"]
        return [*policy, *(name for name in self.swept if name not in {*NAMES, *named, *plain})]


_FIELDS = {"id": str, "set": str, "policy": str, "horizon": int, "seeds": int, "records": int, "dtype": str}
_TABLES = ("options", "parameters", "bandit", "set_options", "swept")  # of a manifest's entry, where it has them
_SPOILED = ("damaged", "unreadable")
_SHOWN = 60  # cells in a notebook's table
_STATES = ("partial", "failed", *_SPOILED, "started", "missing")
_STATISTICS = ("unhealthy", "n", "mean", "sd", "standard_error", "low", "high", "median", "trimmed_mean")


def load(folder: str | os.PathLike[str], *, warn: bool = True) -> Results:
    """Opens a sweep folder, running or finished; rows are read when they are asked for.

    Args:
        folder: what `linbet sweep --out` wrote.
        warn: say with a `PartialSweepWarning` when some cells are not whole.

    Raises:
        RunFolderError: the folder is not there or is not a sweep's.
    """
    path = Path(folder).resolve()  # a later change of the working folder changes nothing
    manifest = sweep_manifest(path)
    if "cells" not in manifest:
        raise RunFolderError(f"{path / MANIFEST} lists no cells")
    cells = loaded_cells(path, manifest, journal.read(path))
    sweep = Results(path, manifest, cells)
    if warn and not sweep.complete:
        warnings.warn(f"{path}: {sweep.progress}; see .absent", PartialSweepWarning, stacklevel=2)
    return sweep


def base_label(cell: LoadedCell, *, scaled: bool = True) -> str:
    """The policy's name, with every radius_scale but the paper's 1."""
    from linbet_jax.policies.registry import policy_label  # which loads JAX: opening a folder does without

    named = cell.label if cell.label != cell.policy else policy_label(cell.policy)
    scale = cell.parameters.get("radius_scale")
    literal = not isinstance(scale, (int, float)) or scale == 1.0
    return named if literal or not scaled or "×" in named else f"{named} ×{scale:g}"


def compare(
    first: LoadedCell, second: LoadedCell, run: Rows, other: Rows, *, quantity: str = "regret", level: float = 0.95
) -> CellPair:
    """Two cells compared over the seeds that both hold; InputError where there is none."""
    from linbet_jax.statistics import regret

    _, at, beside = np.intersect1d(run.seeds, other.seeds, assume_unique=True, return_indices=True)
    if at.size == 0:
        raise InputError(f"cells {first.id} and {second.id} have no seed in common")
    values = getattr(run, quantity)[at, -1], getattr(other, quantity)[beside, -1]
    health = run.health[at], other.health[beside]
    return CellPair(
        first,
        second,
        regret.paired_difference(*values, *health, level=level),
        regret.win_rate(*values, *health, level=level),
    )


def listed_cells(path: Path, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells that a manifest, read from this path, lists; RunFolderError where it is not as a sweep writes it."""
    cells = manifest.get("cells", [])
    if not isinstance(cells, list):
        raise RunFolderError(f"{path} is damaged: its cells are {cells!r}, not a list")
    for number, cell in enumerate(cells):
        held = cell if isinstance(cell, dict) else {}
        tables = {name: dict for name in ("source", *_TABLES) if held.get(name) is not None}
        for name, kind in (_FIELDS | tables).items():
            if not isinstance(held.get(name), kind):
                raise RunFolderError(
                    f"{path} is damaged: cell {number} has no {name}, or not one of type {kind.__name__}"
                )
        if not held["id"].isalnum():  # it becomes the name of a file
            raise RunFolderError(f"{path} is damaged: cell {number} has the id {held['id']!r}")
    return cells


def loaded_cells(
    folder: Path, manifest: Mapping[str, Any], events: Iterable[Mapping[str, Any]]
) -> tuple[LoadedCell, ...]:
    """The cells of a sweep's folder, from its manifest, the events of its journal and the notes of its files."""
    journeys = journal.journeys(events)
    return tuple(_loaded(folder, cell, journeys) for cell in listed_cells(folder / MANIFEST, manifest))


def _loaded(folder: Path, entry: Mapping[str, Any], journeys: Mapping[str, Journey]) -> LoadedCell:
    path = Store(folder).cell_path(entry["id"])
    journey = journeys.get(entry["id"], Journey())
    stored, unhealthy, error = 0, 0, journey.error
    try:
        notes = read_notes(path, entry["id"])
        stored, unhealthy = notes["seeds"][1], notes["unhealthy"]
        state = "done" if stored >= entry["seeds"] else "partial"
        error = error if state == "partial" else ""
    except CellFileError as trouble:
        state, error = trouble.state, error if trouble.state == "missing" else str(trouble)
        if state == "missing":
            state = {"failed": "failed", "started": "started", "part": "started"}.get(journey.last, "missing")
    fields = {name: entry[name] for name in _FIELDS} | {name: entry.get(name) or {} for name in _TABLES}
    return LoadedCell(
        title=entry.get("title", f"{entry['set']}/{entry['policy']}"),
        family=str((entry.get("source") or {}).get("policy") or entry["policy"]),
        label=str(entry.get("label") or entry["policy"]),
        state=state,
        stored=stored,
        unhealthy=unhealthy,
        error=error,
        journey=journey,
        path=path,
        **fields,
    )


def _batch(cell: LoadedCell, run: Rows, schema: pa.Schema) -> pa.RecordBatch:
    """One cell's part of the table."""
    columns, numbers = [], run.columns()
    for field in schema:
        if field.name in numbers:
            columns.append(pa.array(numbers[field.name], type=field.type))
        else:
            value = cell.id if field.name == "cell" else _fitting(cell.value(field.name), field.type)
            columns.append(pa.repeat(pa.scalar(value, type=field.type), run.regret.size))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _type_of(values: Iterable[Any]) -> pa.DataType:
    """The narrowest of bool, int64, float64 and (dictionary) string that holds all values."""
    kinds = {type(value) for value in values if value is not None}
    for allowed, kind in (({bool}, pa.bool_()), ({int}, pa.int64()), ({int, float}, pa.float64())):
        if kinds and kinds <= allowed:
            return kind
    return WORDS


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """The value as its column holds it: text where the cells' values are of several kinds."""
    if value is None or not pa.types.is_dictionary(kind):
        return value
    return value if isinstance(value, str) else json.dumps(value)


def _same(wanted: Any, value: Any) -> bool:
    """Equality, with floats equal up to rounding (0.3 is 0.1 + 0.2) and True unlike 1."""
    numbers = (int, float, np.integer, np.floating)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return isinstance(wanted, bool) and isinstance(value, bool) and wanted == value
    if isinstance(wanted, numbers) and isinstance(value, numbers):
        return math.isclose(float(wanted), float(value), rel_tol=1e-12)
    return type(wanted) is type(value) and bool(wanted == value)


def _comparable(first: LoadedCell, second: LoadedCell, shared: Sequence[str]) -> bool:
    """Whether two cells met the same noise on the same instance, and agree in what nobody asked to differ."""
    if any(getattr(first, name) != getattr(second, name) for name in ("set", "horizon", "dtype")):
        return False
    if first.bandit.get("instance_hash") != second.bandit.get("instance_hash"):
        return False
    values = [(first.value(name), second.value(name)) for name in shared]
    # Another policy may lack the parameter; one policy has it or not.
    lacking = first.policy != second.policy
    return all((lacking and None in (a, b)) or _same(a, b) for a, b in values)


def _cells_table(cells: Iterable[LoadedCell], swept: Iterable[str], caption: str) -> str:
    """Which cells they are, and how much of each is there."""
    names = [name for name in swept if name not in NAMES]

    def row(cell: LoadedCell) -> list[str]:
        values = [cell.value(name) for name in names]
        texts = ["" if value is None else str(_fitting(value, WORDS)) for value in values]
        return [cell.label, cell.set, str(cell.horizon), *texts, f"{cell.stored} of {cell.seeds}", cell.state]

    return html_table(map(row, cells), ["policy", "set", "horizon", *names, "seeds", "state"], caption=caption)


def _check_quantity(quantity: str) -> None:
    if quantity not in QUANTITIES:
        raise InputError(f"quantity={quantity!r}: must be 'regret' or 'payoff'")


def _needs(package: str, method: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"{method}() needs {package}: pip install 'linbet_jax[{package}]'") from error
