"""A sweep in memory: frozen, checked, and free of files and devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["ARMS", "LOWER_BOUND", "UNIFORM", "CellChoice", "PolicyChoice", "SetChoice", "Sweep"]

UNIFORM, LOWER_BOUND, ARMS = "uniform", "lower-bound", "arms"  # kinds of sets


@dataclasses.dataclass(frozen=True)
class SetChoice:
    """One set with single values.

    Attributes:
        label: its name in the sweep file.
        source: S1 to S4, uniform, lower-bound, arms, or `module:function`.
        values: what the file says of it, under the file's own names.
        where: the table that it comes from, for messages.
    """

    label: str
    source: str
    values: Mapping[str, Any]
    where: str


@dataclasses.dataclass(frozen=True)
class PolicyChoice:
    """One policy with single values.

    Attributes:
        label: its name in the sweep file.
        source: the name of a policy of this package, or `module:function`.
        options: what the file says of it.
        where: the table that it comes from, for messages.
    """

    label: str
    source: str
    options: Mapping[str, Any]
    where: str


@dataclasses.dataclass(frozen=True)
class CellChoice:
    """One policy on one set.

    Attributes:
        set: what is played.
        policy: who plays.
        horizon: T in pulls; None is the paper's, which S1 to S4 have.
    """

    set: SetChoice
    policy: PolicyChoice
    horizon: int | None

    @property
    def values(self) -> dict[str, Any]:
        """Everything the file chose for this cell, flat; what both set and policy name is told apart by `policy.`."""
        chosen = {name: value for name, value in self.set.values.items() if name != "options"}
        chosen = {"horizon": self.horizon, **self.set.values.get("options", {}), **chosen}
        own = {(f"policy.{name}" if name in chosen else name): value for name, value in self.policy.options.items()}
        return {**chosen, **own}


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
