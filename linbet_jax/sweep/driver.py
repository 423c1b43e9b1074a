"""Running a sweep: what is missing in its folder is cut into parts, computed by an executor, and put there."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from linbet_jax.statistics.tables import number
from linbet_jax.storage import provenance
from linbet_jax.storage.results import MANIFEST, RunFolder, RunFolderError, differences, digest
from linbet_jax.sweep.cells import Cell, block_size, entries, numerics_of, plan, swept_names
from linbet_jax.sweep.estimate import COMPILE_SECONDS, cell_microseconds
from linbet_jax.sweep.executors import Executor, InProcess, Outcome, Part
from linbet_jax.sweep.journal import Journal
from linbet_jax.sweep.model import Sweep
from linbet_jax.sweep.reading import listed_cells
from linbet_jax.sweep.store import Rows, Store, merged_facts

__all__ = ["Reporter", "Summary", "check", "run"]

PART_BYTES = 32 * 2**20  # of regret and payoff in one part: what bounds memory, whatever the number of seeds
PART_SECONDS = 30.0  # of all devices, estimated: what a kill can cost
_SHOWN = 6  # differences that a refusal names


class Reporter(Protocol):
    """Where progress goes; called from several threads."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def describe(self, description: str) -> None:
        """What is being worked on now."""

    def cells(self, total: int, done: int, seconds: float) -> AbstractContextManager[None]:
        """A context in which cells are worked off: so many in all, done already, and estimated seconds for the rest."""

    def pulls(self, seed_pulls: int, seconds: float) -> None:
        """So many seed-pulls more are done, and the share of the estimated seconds that they stood for."""

    def cell(self, line: str, *, compiling: float) -> None:
        """A cell is done or has failed; seconds spent compiling since the last call."""


class _Silent:
    """The reporter of those who want none."""

    def say(self, line: str) -> None:
        """Nothing."""

    def describe(self, description: str) -> None:
        """Nothing."""

    @contextlib.contextmanager
    def cells(self, total: int, done: int, seconds: float) -> Iterator[None]:
        """Nothing."""
        yield

    def pulls(self, seed_pulls: int, seconds: float) -> None:
        """Nothing."""

    def cell(self, line: str, *, compiling: float) -> None:
        """Nothing."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """How a run of a sweep ended.

    Attributes:
        folder: where it is.
        cells: in all.
        computed: seed-pulls that this run computed; 0 when everything was there.
        failed: title and error of every cell that raised.
        unhealthy: title and number of seeds that met something non-finite, of every cell that has such.
        extra: cells that the folder holds beside these (`keep_extra`).
    """

    folder: Path
    cells: int
    computed: int
    failed: Mapping[str, str]
    unhealthy: Mapping[str, int]
    extra: int = 0


def run(
    sweep: Sweep,
    out: Path | str,
    *,
    executor: Executor | None = None,
    reporter: Reporter | None = None,
    keep_extra: bool = False,
) -> Summary:
    """Computes what is missing of a sweep and puts it into its folder; a killed run carries on here.

    Args:
        sweep: from `linbet_jax.sweep.read`.
        out: the folder; made when it does not exist.
        executor: who computes; by default this process, on all its devices.
        reporter: where progress goes; by default nowhere.
        keep_extra: whether the folder may hold finished cells that the sweep does not list (of a policy that is gone
            from the file, say). They stay in the folder, and `load`, `status` and reports show them as before.

    Raises:
        InputError: the sweep cannot be built, or the folder is another sweep's, in use, or holds cells that the sweep
            does not list. Nothing is changed then.
        OSError: a file cannot be written (a full disk); every file that was finished before is whole.
    """
    computes = InProcess() if executor is None else executor
    tells: Reporter = _Silent() if reporter is None else reporter
    numerics = numerics_of(sweep, computes.kind)
    cells = plan(sweep, numerics, computes.platform)
    block = block_size(sweep, computes.platform)
    config = {
        "kind": "sweep",
        "key": sweep.key,
        "records": sweep.records if sweep.record_at is None else list(sweep.record_at),
        "block_size": block,
        "identity": digest(sorted(cell.id for cell in cells))[:32],
    }

    def compare(manifest: Mapping[str, Any]) -> list[str]:
        found = _differences(manifest, config, numerics, cells, sweep.seeds)
        extra = [] if found or keep_extra else _extra(Path(out), manifest, cells)
        if extra:
            count = f"{len(extra)} cell{'s' * (len(extra) != 1)}"
            raise RunFolderError(
                f"{out} holds {count} that {sweep.file} does not list ({_which(extra, manifest, cells)}): "
                "keep them with --keep-extra (keep_extra=True), or choose another folder"
            )
        return found

    with RunFolder(out, config, compare=compare) as folder:
        extra = _extra(folder.path, folder.manifest, cells)
        swept = [*swept_names(cells), *(name for entry in extra for name in entry.get("swept") or ())]
        store, journal = Store(folder.path), Journal(folder.path)
        folder.update_manifest(
            status="running",
            name=sweep.name,
            seeds=sweep.seeds,
            environment=provenance.environment(computes.devices),
            numerics=numerics,
            git=_git(),
            sweep_file=sweep.text,
            overrides=list(sweep.overrides),
            swept=list(dict.fromkeys(swept)),
            cells=[*entries(cells, sweep.seeds), *extra],
        )
        work = _Run(sweep, cells, store, journal, computes, tells, block)
        try:
            summary = work.finish()
        except BaseException as error:
            # Where the disk is full this cannot be written either, and what is there stays as it is.
            with contextlib.suppress(OSError):
                journal.write("interrupted", error=f"{type(error).__name__}: {error}")
                folder.update_manifest(status="interrupted")
            raise
        finally:
            journal.close()
        folder.update_manifest(status="failed" if summary.failed else "finished")
        return dataclasses.replace(summary, extra=len(extra))


def check(sweep: Sweep) -> None:
    """Builds every cell, so that what cannot run is told before an executor is started.

    Raises:
        InputError: the sweep cannot be built.
    """
    plan(sweep, numerics_of(sweep, "any"), "cpu" if sweep.device == "cpu" else "gpu")


# What is there and what is missing -----------------------------------------------------------------------------------


class _State:
    """One cell on its way: pieces of it that are there, by their seeds.

    Attributes:
        cell: which.
        pieces: files and rows with (start, stop) and facts, in order, without overlaps.
        stale: the file is whole but carries names that the sweep file has changed since.
        error: what it failed with.
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.pieces: list[tuple[int, int, Path | Rows, dict[str, Any]]] = []
        self.stale = False
        self.error: str | None = None
        self.unhealthy = 0

    def gaps(self, seeds: int) -> list[tuple[int, int]]:
        """Ranges of seeds that are missing."""
        found, place = [], 0
        for start, stop, *_ in self.pieces:
            found += [(place, start)] if start > place else []
            place = stop
        return [*found, (place, seeds)] if place < seeds else found

    def add(self, start: int, stop: int, piece: Path | Rows, facts: dict[str, Any]) -> None:
        """Another piece."""
        self.pieces.append((start, stop, piece, facts))
        self.pieces.sort(key=lambda each: each[0])


class _Run:
    """One run of a sweep, from what is there to what is asked."""

    def __init__(
        self,
        sweep: Sweep,
        cells: Sequence[Cell],
        store: Store,
        journal: Journal,
        executor: Executor,
        reporter: Reporter,
        block: int,
    ) -> None:
        self._sweep, self._store, self._journal, self._block = sweep, store, journal, block
        self._executor, self._reporter = executor, reporter
        self._states = {cell.id: _State(cell) for cell in cells}
        self._done = 0
        self._compiling = 0.0
        self._computed = 0
        self._lock = threading.Lock()
        self._advanced: dict[int, int] = {}
        self._charges: dict[int, float] = {}  # estimated seconds of one core of every part, compiling among them

    def finish(self) -> Summary:
        """Computes what is missing."""
        for state in self._states.values():
            self._take_stock(state)
        for name in self._store.damaged:
            self._reporter.say(f"damaged: {name} is computed again")
        if self._done:
            self._reporter.say(f"{self._done} of {len(self._states)} cells are done already")
        parts = self._parts()
        if parts:
            self._journal.write("begun", cells=len(self._states), seed_pulls=sum(part.pulls for part in parts))
        first = {part.program: part.number for part in reversed(parts)}  # the part that compiles it
        self._charges = {
            part.number: part.cost + COMPILE_SECONDS * self._executor.lanes * (first[part.program] == part.number)
            for part in parts
        }
        with self._reporter.cells(len(self._states), self._done, sum(self._charges.values())):
            running = self._executor.run(parts, wanted=self._wanted, advance=self._advance)
            with contextlib.closing(running) as outcomes:  # type: ignore[type-var]
                for part, outcome in outcomes:
                    self._keep(part, outcome)
        states = self._states.values()
        return Summary(
            folder=self._store.folder.parent,
            cells=len(states),
            computed=self._computed,
            failed={state.cell.title: state.error for state in states if state.error is not None},
            unhealthy={state.cell.title: state.unhealthy for state in states if state.unhealthy},
        )

    def _take_stock(self, state: _State) -> None:
        """Looks at the cell's files; a cell whose pieces are all there is put together at once."""
        cell, seeds = state.cell, self._sweep.seeds
        names = (cell.entry["set"], cell.entry["policy"], cell.entry["label"])
        for path, header in self._store.verified(cell.id, cell.rounds):
            if header.stop <= seeds and all(header.start >= stop for _, stop, *_ in state.pieces):
                state.add(header.start, header.stop, path, header.facts)
                state.unhealthy += header.unhealthy
                state.stale = state.stale or header.names != names
        if state.gaps(seeds):
            return
        self._done += 1
        if state.stale or [each[2] for each in state.pieces] != [self._store.cell_path(cell.id)]:
            self._write(state)
        self._store.drop_parts(cell.id)

    def _write(self, state: _State) -> None:
        facts = merged_facts([facts for *_, facts in state.pieces])
        pieces = [piece for _, _, piece, _ in state.pieces]
        path = self._store.write_cell(state.cell.entry, self._sweep.seeds, pieces, facts)
        state.pieces = [(0, self._sweep.seeds, path, facts)]

    # Cutting the work ------------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        """Everything that is missing, cut and bundled, in the order of the cells."""
        unit = self._block * self._executor.lanes
        total = sum(
            (stop - start) * self._cost(state.cell)
            for state in self._states.values()
            for start, stop in state.gaps(self._sweep.seeds)
        )
        longest = PART_SECONDS * self._executor.lanes
        if self._executor.workers > 1:  # every worker should have two parts at least, where the work allows it
            longest = min(longest, total / (2 * self._executor.workers))
        bundles: dict[tuple[int, int, int], list[list[Cell]]] = {}
        ranges: list[tuple[list[Cell], int, int]] = []
        for state in self._states.values():
            cell = state.cell
            most = min(PART_BYTES / (16 * len(cell.rounds)), longest / self._cost(cell))
            size = max(1, int(most) // unit) * unit
            for gap_start, gap_stop in state.gaps(self._sweep.seeds):
                for start in range(gap_start, gap_stop, size):
                    stop = min(start + size, gap_stop)
                    # Settings of one program fill each other's blocks; a part that fills its own gains nothing.
                    open_bundles = bundles.setdefault((cell.batch, start, stop), [])
                    fits = (
                        (stop - start) % unit != 0
                        and open_bundles
                        and (len(open_bundles[-1]) + 1) * (stop - start) <= size
                    )
                    if fits:
                        open_bundles[-1].append(cell)
                    else:
                        open_bundles.append([cell])
                        ranges.append((open_bundles[-1], start, stop))
        return [self._part(number, *each) for number, each in enumerate(ranges)]

    def _cost(self, cell: Cell) -> float:
        """Estimated seconds of one core for one seed."""
        return cell_microseconds(cell.entry) * cell.horizon * 1e-6

    def _part(self, number: int, cells: list[Cell], start: int, stop: int) -> Part:
        spec = {
            "cells": [cell.spec for cell in cells],
            "start": start,
            "stop": stop,
            "record_at": list(cells[0].rounds),
            "key": self._sweep.key,
            "dtype": self._sweep.dtype,
            "block_size": self._block,
        }
        return Part(
            number=number,
            spec=spec,
            cells=tuple(cell.id for cell in cells),
            titles=tuple(cell.title for cell in cells),
            program=cells[0].program,
            pulls=(stop - start) * sum(cell.horizon for cell in cells),
            cost=(stop - start) * sum(self._cost(cell) for cell in cells),
        )

    # While it runs ---------------------------------------------------------------------------------------------------

    def _wanted(self, part: Part) -> bool:
        return any(self._states[cell].error is None for cell in part.cells)

    def _advance(self, part: Part, pulls: int) -> None:
        with self._lock:
            if part.number not in self._advanced:
                self._advanced[part.number] = 0
                for cell in part.cells:
                    self._journal.write("started", cell, seeds=[part.spec["start"], part.spec["stop"]])
                self._reporter.describe(
                    part.titles[0] + (f" and {len(part.titles) - 1} more" if part.titles[1:] else "")
                )
            self._advanced[part.number] += pulls
        if pulls:
            self._reporter.pulls(pulls, self._charges[part.number] * pulls / part.pulls)

    def _keep(self, part: Part, outcome: Outcome) -> None:
        """Stores what a part gave, and reports every cell that is finished with it."""
        if outcome.result is None:
            for cell in part.cells:
                self._fail(self._states[cell], outcome.error or "lost", outcome.worker)
            return
        rest = part.pulls - self._advanced.get(part.number, 0)
        self._advance(part, rest)
        self._computed += part.pulls
        self._compiling += outcome.result["compile_seconds"]
        share = 1.0 / len(part.cells)
        for cell, found in outcome.result["cells"].items():
            state = self._states[cell]
            if "error" in found:
                self._fail(state, found["error"], outcome.worker)
                continue
            if state.error is not None:
                continue
            rows = Rows(part.spec["start"], *(found[name] for name in ("rounds", "regret", "payoff", "health")))
            times = {
                "seed_pulls": rows.health.size * state.cell.horizon,
                "run_seconds": round(outcome.result["run_seconds"] * share, 4),
                "compile_seconds": round(outcome.result["compile_seconds"] * share, 4),
                "worker": outcome.worker,
            }
            self._add(state, rows, found, times)

    def _add(self, state: _State, rows: Rows, facts: dict[str, Any], times: dict[str, Any]) -> None:
        cell = state.cell
        unhealthy = int(np.count_nonzero(rows.health))
        state.unhealthy += unhealthy
        state.add(rows.start, rows.stop, rows, {name: facts[name] for name in facts if name not in Rows._fields})
        if state.gaps(self._sweep.seeds):
            path = self._store.write_part(cell.entry, rows, facts)
            place = next(n for n, each in enumerate(state.pieces) if each[2] is rows)
            state.pieces[place] = (rows.start, rows.stop, path, state.pieces[place][3])
            self._journal.write("part", cell.id, seeds=[rows.start, rows.stop], unhealthy=unhealthy, **times)
            return
        self._write(state)
        self._journal.write("done", cell.id, unhealthy=state.unhealthy, **times)
        self._done += 1
        ill = f", UNHEALTHY seeds {state.unhealthy}" if state.unhealthy else ""
        regret = f"regret {_mean(rows)}" if rows.health.size == self._sweep.seeds else f"seeds {self._sweep.seeds}"
        self._report(f"{cell.title}  {regret}{ill} ({_seconds(times)})")

    def _fail(self, state: _State, error: str, worker: str) -> None:
        if state.error is not None:
            return
        state.error = error
        self._journal.write("failed", state.cell.id, error=error, worker=worker)
        self._report(f"{state.cell.title}  FAILED: {' '.join(error.split())}")

    def _report(self, line: str) -> None:
        total = len(self._states)
        failed = sum(state.error is not None for state in self._states.values())
        compiling, self._compiling = self._compiling, 0.0
        self._reporter.cell(f"[{self._done + failed:{len(str(total))}d}/{total}] {line}", compiling=compiling)


def _mean(rows: Rows) -> str:
    """Final regret of a cell's healthy seeds, for a line of progress."""
    final = rows.regret[rows.health == 0, -1]
    if final.size == 0:
        return "of no healthy seed"
    spread = f" ± {number(np.std(final, ddof=1))} sd" if final.size > 1 else ""
    return f"{number(np.mean(final))}{spread}"


def _seconds(times: Mapping[str, Any]) -> str:
    compiling = f", compile {times['compile_seconds']:.1f} s" if times["compile_seconds"] >= 0.05 else ""
    return f"{times['run_seconds']:.1f} s{compiling}"


# Whose folder it is --------------------------------------------------------------------------------------------------


def _differences(
    manifest: Mapping[str, Any],
    config: Mapping[str, Any],
    numerics: Mapping[str, Any],
    cells: Sequence[Cell],
    seeds: int,
) -> list[str]:
    """What keeps a folder from being carried on: other numerics, fewer seeds, or cells that are all others.

    More cells and more seeds are welcome: no number that is there changes by them.
    """
    held = {name: value for name, value in manifest["config"].items() if name != "identity"}
    found = differences(held, {name: value for name, value in config.items() if name != "identity"})
    if held.get("kind") != "sweep":
        return found
    found += differences(manifest.get("numerics", numerics), numerics)
    held_seeds = manifest.get("seeds", seeds)
    if not isinstance(held_seeds, int):
        raise RunFolderError(f"{MANIFEST} is damaged: its seeds are {held_seeds!r}, not a whole number")
    if held_seeds > seeds:
        found.append(f"seeds ({held_seeds} there, {seeds} here: they can only be raised)")
    listed = listed_cells(Path(MANIFEST), manifest)
    if found or not listed or {entry["id"] for entry in listed} & {cell.id for cell in cells}:
        return found
    return _changed(listed, [cell.entry for cell in cells])[:_SHOWN] or ["all its cells"]


def _extra(folder: Path, manifest: Mapping[str, Any], cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Entries of finished cells that a folder holds beside these."""
    ours, store = {cell.id for cell in cells}, Store(folder)
    listed = listed_cells(folder / MANIFEST, manifest)
    return [entry for entry in listed if entry["id"] not in ours and store.cell_path(entry["id"]).exists()]


def _which(extra: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    """Policies and sets that the sweep has no longer, and in what the other cells differ from those that are new."""
    found, rest = [], list(extra)
    for field in ("policy", "set"):
        ours = {cell.entry[field] for cell in cells}
        gone = list(dict.fromkeys(entry[field] for entry in rest if entry[field] not in ours))
        found += [f"of {field} {', '.join(gone)}"] if gone else []
        rest = [entry for entry in rest if entry[field] in ours]
    there = {entry["id"] for entry in listed_cells(Path(MANIFEST), manifest)}
    for pair in dict.fromkeys((entry["set"], entry["policy"]) for entry in rest):
        before = [entry for entry in rest if (entry["set"], entry["policy"]) == pair]
        new = [cell.entry for cell in cells if cell.id not in there]
        after = [entry for entry in new if (entry["set"], entry["policy"]) == pair]
        differing = _changed(before, after)[:_SHOWN] if after else []
        found.append(f"of {'/'.join(pair)}" + (f", which differ in {', '.join(differing)}" if differing else ""))
    return "; ".join(found[:_SHOWN]) + ("; ..." if found[_SHOWN:] else "")


def _changed(lost: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fields in which the cells that are gone from the file differ from those that are new in it."""
    before, after = [_flat(entry) for entry in lost], [_flat(entry) for entry in new]
    found = []
    for name in dict.fromkeys(name for entry in (*before, *after) for name in entry):
        sides = [list(dict.fromkeys(str(entry[name]) for entry in side if name in entry)) for side in (before, after)]
        if sides[0] != sides[1] and not (set(sides[0]) & set(sides[1])):
            there, here = (", ".join(side[:4]) + (" ..." if side[4:] else "") or "none" for side in sides)
            found.append(f"{name} ({there} there, {here} here)")
    return found


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry's fields by one name each; what the bandit's constants say last, for they follow from the others."""
    flat = {name: entry[name] for name in ("set", "policy", "horizon")}
    for section in ("set_options", "options", "parameters", "source", "bandit"):
        for name, value in (entry.get(section) or {}).items():
            if isinstance(value, dict):  # files and their hashes
                flat |= value
            else:
                flat.setdefault(name if section != "source" else f"{section}.{name}", value)
    return flat


def _git() -> str | None:
    """The git revision of this package's sources, where they are under git."""
    home = Path(__file__).parent.parent
    try:
        for command in (["ls-files", "--error-unmatch", "__init__.py"], ["rev-parse", "HEAD"]):
            done = subprocess.run(
                ["git", "-C", str(home), *command], capture_output=True, text=True, timeout=10, check=True
            )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
