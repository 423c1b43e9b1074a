"""A sweep in memory: frozen, checked, and free of files and devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

UNIFORM, LOWER_BOUND, ARMS = "uniform", "lower-bound", "arms"  # kinds of sets
SEPARATING = ("lock", "long", "trap")  # further kinds, whose values are dials
TABLES = {"noise": "law", "drift": "path"}  # values that are tables, and the key that says which kind of thing one is


@dataclasses.dataclass(frozen=True)
class Choice:
    """A set or a policy with single values."""

    label: str  # its name in the sweep file
    source: str  # a kind of set (S1 to S4, uniform, ..., arms), the name of a policy, or `module:function`
    values: Mapping[str, Any]  # what the file says of it, under the file's own names
    where: str  # the table that it comes from, for messages

    @property
    def custom(self) -> bool:
        """Whether a function of one's own makes it."""
        return ":" in self.source


@dataclasses.dataclass(frozen=True)
class CellChoice:
    """One policy on one set."""

    set: Choice  # what is played
    policy: Choice  # who plays
    horizon: int | None  # T in pulls; None is the paper's, which S1 to S4 have

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the set and of the policy."""
        return self.set.label, self.policy.label

    @property
    def values(self) -> dict[str, Any]:
        """Everything the file chose for this cell, flat: a law as a whole, and each of its parameters.

        What both set and policy name is told apart by `policy.`.
        """
        chosen = {name: value for name, value in self.set.values.items() if name != "options"}
        chosen = {"horizon": self.horizon, **self.set.values.get("options", {}), **chosen}
        chosen |= {(f"policy.{n}" if n in chosen else n): value for n, value in self.policy.values.items()}
        flat = {}
        for name, value in chosen.items():
            flat[name] = in_words(value)
            flat |= _parts(name, value)
        return flat


def _parts(name: str, value: Any) -> dict[str, Any]:
    """What a table holds, by its path; of a mixture that it is one."""
    if is_mixture(value):
        return {f"{name}.law": value["law"]}
    parts: dict[str, Any] = {}
    for field, entry in value.items() if isinstance(value, Mapping) else ():
        inner = _parts(f"{name}.{field}", entry)
        parts |= inner or {f"{name}.{field}": entry}
    return parts


def is_mixture(value: Any) -> bool:
    """Whether a value is the table of a mixture of laws, whose lists belong to it and multiply nothing."""
    return isinstance(value, Mapping) and value.get("law") == "Mixture"


def in_words(value: Any) -> Any:
    """A value as one entry of a table: a law as `Pareto(shape=2)`, a path likewise."""
    if not isinstance(value, Mapping):
        return value

    def written(entry: Any) -> str:
        inside = is_mixture(value) and isinstance(entry, list)
        return f"[{', '.join(str(in_words(one)) for one in entry)}]" if inside else str(in_words(entry))

    kind = next((key for key in TABLES.values() if key in value), "")
    arguments = ", ".join(f"{name}={written(entry)}" for name, entry in value.items() if name != kind)
    return f"{value.get(kind, '')}({arguments})"


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep file, read.

    Attributes:
        file: its name, for messages.
        folder: where the files and modules that it names are looked for.
        text: the file as written.
        overrides: `PATH=VALUE` assignments that were applied to it.
        name: free text.
        seeds: replications 0..seeds-1 of every cell.
        key: the number of the random key.
        records: evenly spaced records per replication.
        record_at: pulls to record at instead, or None.
        dtype: "float64" or "float32".
        device: "auto", "cpu" or "gpu".
        block_size: seeds per block, None for the device's default.
        cells: in the order of the file.
    """

    file: str
    folder: Path
    text: str
    overrides: tuple[str, ...]
    name: str
    seeds: int
    key: int
    records: int
    record_at: tuple[int, ...] | None
    dtype: str
    device: str
    block_size: int | None
    cells: tuple[CellChoice, ...]
