"""Table 1 of the paper: the constants of S1-S4, computed from instance and law, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from linbet_jax.bandits.datasets import DATASETS, dataset
from linbet_jax.errors import InputError
from linbet_jax.statistics.tables import aligned_table
from linbet_jax.storage import provenance
from linbet_jax.storage.results import RunFolder, write_text

LEGEND = """\
b: largest E|payoff|^(1+ε) over the arms, c: largest E|payoff - mean|^(1+ε), both exact from the law.
In brackets: Table 1 of the paper (– where it gives none)."""


def data_set_names(asked: Sequence[str] | None) -> tuple[str, ...]:
    """Names as the data sets spell them, all when none is asked for.

    Raises:
        InputError: an unknown name; the message lists the known ones.
    """
    known = {name.lower(): name for name in DATASETS}
    unknown = [name for name in asked or () if name.lower() not in known]
    if unknown:
        raise InputError(f"--sets: unknown data set {', '.join(unknown)}: known are {', '.join(DATASETS)}")
    return tuple(dict.fromkeys(known[name.lower()] for name in asked)) if asked else tuple(DATASETS)


def rows(sets: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The table's rows, all data sets unless some are named.

    Each holds name, K, d, law and epsilon of a set; b and c, the largest raw and central moments over the arms, and the
    best arm's mean payoff; the same three as the paper prints them, None where it does not; the hash of the instance.

    Raises:
        InputError: an unknown data set.
    """
    table = []
    for name in data_set_names(sets):
        spec, bandit = DATASETS[name], dataset(name)
        sizes = {"num_arms": bandit.num_arms, "dim": bandit.dim, "law": bandit.noise.name, "epsilon": bandit.epsilon}
        ours = {"b": bandit.raw_moment_bound, "c": bandit.central_moment_bound, "best_mean": bandit.best_mean}
        papers = {"paper_b": spec.paper_b, "paper_c": spec.paper_c, "paper_best_mean": spec.best_mean}
        table.append({"name": name, **sizes, **ours, **papers, "instance": provenance.instance_digest(bandit)})
    return table


def text(table: Sequence[Mapping[str, Any]]) -> str:
    """The table in aligned columns; every computed number with the paper's in brackets."""
    width = max(len(row["law"]) for row in table)  # laws are words: aligned to the left among numbers
    header = ("set", "K", "d", "law".ljust(width), "ε", "b (paper)", "c (paper)", "best mean (paper)")
    body = []
    for row in table:
        both = [(row[name], row[f"paper_{name}"]) for name in ("b", "c", "best_mean")]
        cells = [f"{value:.2f} ({'–' if paper is None else f'{paper:.2f}'})" for value, paper in both]
        sizes = [str(row["num_arms"]), str(row["dim"]), row["law"].ljust(width), f"{row['epsilon']:g}"]
        body.append([row["name"], *sizes, *cells])
    return f"{aligned_table(header, body)}\n\n{LEGEND}"


def write(table: Sequence[Mapping[str, Any]], out: Path) -> tuple[Path, ...]:
    """Writes the table and a manifest into a folder of its own.

    Raises:
        InputError: the folder holds something else.
    """
    config = {"experiment": "table1", "rows": list(table)}
    with RunFolder(out, config) as folder:
        write_text(folder.path / "table1.txt", text(table) + "\n")
        folder.update_manifest(status="finished", environment=provenance.environment("host"))
        return folder.path / "table1.txt", folder.path / "manifest.json"
