"""From tables with lists to single cells: products, paired lists, and `[[cells]]`."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from linbet_jax.errors import InputError
from linbet_jax.sweep.model import ARMS, LOWER_BOUND, SEPARATING, TABLES, UNIFORM, CellChoice, Choice, Sweep, is_mixture
from linbet_jax.sweep.schema import (
    CellTable,
    Document,
    PolicyTable,
    SetTable,
    checked,
    nearest,
    override,
    read_toml,
    shown,
)

PAPER = ("S1", "S2", "S3", "S4")
SETS = (*PAPER, UNIFORM, LOWER_BOUND, *SEPARATING)
RECORDS = 200

_BOUNDS = ("raw_moment_bound", "central_moment_bound", "theta_norm", "arm_norm", "mean_bound")
# Which keys of a set's table go with which kind of set.
_KEYS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PAPER, ("instance_seed", "resample", "noise", "drift", "epsilon", *_BOUNDS)),
    UNIFORM: ("K", "d", "best_mean", "instance_seed", "resample", "noise", "drift", "epsilon", *_BOUNDS),
    LOWER_BOUND: ("d", "epsilon", "instance_seed", "resample", "drift"),
    **dict.fromkeys(SEPARATING, ("gap", "angle", "length", "probability", "noise", "drift", "epsilon")),
    ARMS: ("arms", "theta_star", "noise", "drift", "epsilon", *_BOUNDS),
    "module:function": ("options",),
}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    UNIFORM: ("K", "d", "noise"),
    LOWER_BOUND: ("d", "epsilon"),
    ARMS: ("arms", "theta_star", "noise"),
}
_SET_KEYS = tuple(name for name in SetTable.model_fields if name not in ("set", "horizon"))
CELL_KEYS = (*CellTable.model_fields, *_SET_KEYS)  # of one of [[cells]], beside the policy's options

_Axes = Mapping[str, list[Any]]  # lists in the file: where each is, and the values it takes


def read(path: Path | str, overrides: Sequence[str] = ()) -> Sweep:
    """Reads a sweep file and writes out its grid; nothing is built or run.

    Args:
        path: the TOML file.
        overrides: `path.to.field=value` assignments, applied first to last.

    Raises:
        InputError: one line with the file, the path of the field and what is allowed.
    """
    place = Path(path)
    text, data = read_toml(place)
    for assignment in overrides:
        override(str(path), data, assignment)
    try:
        document = checked(Document, data)
        cells = _cells(document)
        _check_records(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return Sweep(
        file=str(path),
        folder=place.resolve().parent,
        text=text,
        overrides=tuple(overrides),
        records=document.records or RECORDS,
        record_at=None if document.record_at is None else tuple(document.record_at),
        cells=cells,
        **document.model_dump(include={"name", "seeds", "key", "dtype", "device", "block_size"}),
    )


def _check_records(document: Document) -> None:
    at = document.record_at
    if at is not None and document.records is not None:
        raise InputError(f"record_at = {shown(at)}: goes without records, which is {document.records}")
    if at is not None and any(b <= a for a, b in itertools.pairwise(at)):
        raise InputError(f"record_at = {shown(at)}: must increase")


def _cells(document: Document) -> tuple[CellChoice, ...]:
    """Every cell of the file once, in its order."""
    if not document.cells and not (document.sets and document.policies):
        missing = "policies" if document.sets else "sets"
        raise InputError(f"{missing}: is missing; a sweep has [sets.NAME] and [policies.NAME] tables, or [[cells]]")
    names = list(document.sets)
    for label, table in document.policies.items():
        for index, wanted in enumerate(table.sets or ()):
            if wanted not in names:
                raise InputError(f"policies.{label}.sets[{index}] = {wanted!r}: no such set{nearest(wanted, names)}")
            if wanted in (table.sets or ())[:index]:
                raise InputError(f"policies.{label}.sets[{index}] = {wanted!r}: is named twice; each set plays once")
    cells, paths = [], dict[str, None]()  # and every list of the file
    for set_label, (policy_label, policy) in itertools.product(document.sets, document.policies.items()):
        if policy.sets is None or set_label in policy.sets:
            cells += _product(document, set_label, policy_label, paths)
    for group, patterns in enumerate(document.zip):
        for n, pattern in enumerate(patterns):
            if not any(_matches(path, [pattern]) for path in paths):
                raise InputError(
                    f"zip[{group}][{n}] = {pattern!r}: names no list in this file{nearest(pattern, paths)}"
                )
    cells += [_single(document, index, table) for index, table in enumerate(document.cells)]
    return tuple(cells)


# One set with one policy ---------------------------------------------------------------------------------------------


def _product(document: Document, set_label: str, policy_label: str, paths: dict[str, None]) -> list[CellChoice]:
    """The cells of one set with one policy: every combination of the values of their lists, whose paths are noted."""
    set_table, policy_table = document.sets[set_label], document.policies[policy_label]
    where = f"sets.{set_label}"
    played = _played(set_label, set_table, where)
    player = Choice(policy_label, policy_table.policy or policy_label, policy_table.more, f"policies.{policy_label}")
    horizon, path = set_table.horizon, f"{where}.horizon"
    if horizon is None:
        horizon, path = document.horizon, "horizon"
    _check_horizon(horizon, played)
    axes = _axes(played, player, horizon, path)
    paths |= dict.fromkeys(axes)
    return [
        CellChoice(
            dataclasses.replace(played, values=_filled(played.values, chosen, played.where)),
            dataclasses.replace(player, values=_filled(player.values, chosen, player.where)),
            chosen[path] if isinstance(horizon, list) else horizon,
        )
        for chosen in _combinations(axes, document.zip)
    ]


def _set_source(label: str, table: SetTable, where: str) -> str:
    """What kind of set a table describes."""
    if table.arms is not None or table.theta_star is not None:
        if table.set is not None:
            raise InputError(
                f"{where}.set = {table.set!r}: goes without arms and theta_star, which are a set themselves"
            )
        return ARMS
    source = table.set or label
    known = source if ":" in source or source in SETS else source.upper()
    if ":" not in known and known not in SETS:
        hint = "" if table.set else " (the table's name stands for `set` where there is none)"
        raise InputError(f"{where}.set = {source!r}: no such set{hint}{nearest(source, [*SETS, 'module:function'])}")
    return known


def _played(label: str, table: SetTable, where: str) -> Choice:
    """The set that a table describes, with the keys that are given, all of them fitting its kind."""
    source = _set_source(label, table, where)
    kind = "module:function" if ":" in source else source
    given = {name: getattr(table, name) for name in _SET_KEYS if getattr(table, name) is not None}
    for name in given:
        if name not in _KEYS[kind]:
            raise InputError(f"{where}.{name}: does not go with set = {source!r}{nearest(name, _KEYS[kind])}")
    for name in _NEEDED.get(kind, ()):
        if name not in given:
            raise InputError(
                f"{where}.{name}: is missing; set = {kind!r} needs it: {SetTable.model_fields[name].description}"
            )
    return Choice(label, source, given, where)


def _check_horizon(horizon: Any, played: Choice) -> None:
    if horizon is None and played.source not in PAPER:
        needed = "is missing; only S1 to S4 have the paper's own: give one here or for all"
        raise InputError(f"{played.where}.horizon: {needed}")


def _axes(played: Choice, player: Choice, horizon: int | list[int] | None, path: str) -> _Axes:
    """The lists of a set, a policy and their horizon, which stands at the path."""
    horizons = [(path, horizon)] if isinstance(horizon, list) else []
    axes = dict([*horizons, *_lists(played.values, played.where), *_lists(player.values, player.where)])
    for place, values in axes.items():
        _check_axis(place, values)
    return axes


def _lists(values: Mapping[str, Any], where: str) -> Iterator[tuple[str, list[Any]]]:
    """The lists of a table with their paths; tables in it (a law, options) may hold lists too."""
    for name, value in values.items():
        path = f"{where}.{name}"
        if isinstance(value, list) and name != "theta_star":
            yield path, value
        elif isinstance(value, dict):
            yield from () if is_mixture(value) else _lists(value, path)
        elif not isinstance(value, (str, int, float, list)):
            raise InputError(f"{path} = {value}: must be a number, a text, true or false, not a date or time")


def _check_axis(path: str, values: list[Any]) -> None:
    if not values:
        raise InputError(f"{path} = []: must hold at least one value")
    for index, value in enumerate(values):
        for other in values[:index]:
            if value == other and isinstance(value, bool) == isinstance(other, bool):  # 1 and 1.0 too
                again = "twice" if repr(value) == repr(other) else f"beside {shown(other)}, which is equal"
                raise InputError(f"{path}: lists {shown(value)} {again}")
        if path.rpartition(".")[2] in TABLES and _holds_list(value):
            plural = "paths" if "path" in value else "laws"
            raise InputError(f"{path}[{index}] = {shown(value)}: a list of {plural} holds {plural} with single values")


def _holds_list(value: Any) -> bool:
    """Whether a table, or one within it, holds a list that would multiply the grid."""
    if not isinstance(value, Mapping) or is_mixture(value):
        return False
    return any(isinstance(entry, list) or _holds_list(entry) for entry in value.values())


def _filled(values: Mapping[str, Any], chosen: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A table with the chosen values, by their paths, in place of its lists."""
    filled = {}
    for name, value in values.items():
        path = f"{where}.{name}"
        inner = _filled(value, chosen, path) if isinstance(value, dict) else value
        filled[name] = chosen.get(path, inner)
    return filled


# Paired lists --------------------------------------------------------------------------------------------------------


def _combinations(axes: _Axes, zips: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
    """Every combination of the lists, path to value; those of one group step together, the others multiply."""
    owner: dict[str, int] = {}
    for path, (group, patterns) in itertools.product(axes, enumerate(zips)):
        if _matches(path, patterns) and owner.setdefault(path, group) != group:
            raise InputError(f"zip[{group}]: {path} is in zip[{owner[path]}] already")
    bundles: dict[int | str, list[str]] = {}  # paths by the number of their group; those in none by themselves
    for path, values in axes.items():
        bundle = bundles.setdefault(owner.get(path, path), [])
        if bundle and len(axes[bundle[0]]) != len(values):
            raise InputError(
                f"zip[{owner[path]}]: {bundle[0]} has {len(axes[bundle[0]])} values and {path} has {len(values)}; "
                "paired lists have one length"
            )
        bundle.append(path)
    steps = [list(zip(*(axes[path] for path in bundle), strict=True)) for bundle in bundles.values()]
    paths = list(itertools.chain(*bundles.values()))
    for combination in itertools.product(*steps):
        yield dict(zip(paths, itertools.chain(*combination), strict=True))


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


# Single cells --------------------------------------------------------------------------------------------------------


def _single(document: Document, index: int, cell: CellTable) -> CellChoice:
    """One of `[[cells]]`: a set and a policy, from the tables of these names where there are any, and its own keys."""
    where = f"cells[{index}]"
    set_keys = {name: value for name, value in cell.more.items() if name in _SET_KEYS}
    table = document.sets.get(cell.set)
    named = {"set": cell.set} if ":" in cell.set else {}
    base = named if table is None else table.model_dump(exclude_none=True)
    set_table = checked(SetTable, {**base, **set_keys}, f"{where}.")
    played = _played(cell.set, set_table, where)
    horizon = cell.horizon or set_table.horizon or document.horizon
    _check_horizon(horizon, played)
    policy_table = document.policies.get(cell.policy) or PolicyTable()
    options = policy_table.more | {name: value for name, value in cell.more.items() if name not in _SET_KEYS}
    player = Choice(cell.policy, policy_table.policy or cell.policy, options, where)
    for path, values in _axes(played, player, horizon, f"{where}.horizon").items():
        raise InputError(f"{path}: a cell has one value, and this has {len(values)}; name one in the cell")
    return CellChoice(played, player, horizon if isinstance(horizon, int) else None)
