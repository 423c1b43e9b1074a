"""Running a sweep: what is missing in its folder is cut into parts, computed by an executor, and put there."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from linbet_jax.errors import InputError, named
from linbet_jax.statistics.tables import number
from linbet_jax.storage import provenance
from linbet_jax.storage.results import MANIFEST, RunFolder, RunFolderError, differences, digest
from linbet_jax.sweep.cells import PlannedCell, block_size, entries, numerics_of, plan
from linbet_jax.sweep.estimate import COMPILE_SECONDS, seed_seconds
from linbet_jax.sweep.executors import Executor, InProcess, Part, PartOutcome
from linbet_jax.sweep.journal import Journal
from linbet_jax.sweep.model import Sweep
from linbet_jax.sweep.store import FACTS, Piece, Rows, Store
from linbet_jax.sweep.table import listed_cells

PART_BYTES = 32 * 2**20  # of regret and payoff in one part: what bounds memory, whatever the number of seeds
PART_SECONDS = 30.0  # of all devices, estimated: what a kill can cost
_SHOWN = 6  # differences that a refusal names

Entry = dict[str, Any]  # of the manifest's list of cells


class SweepProgress(Protocol):
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
    """The progress of a run that nobody watches."""

    def say(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    describe = pulls = cell = say

    def cells(self, *_: Any, **__: Any) -> AbstractContextManager[None]:
        """A context without effect."""
        return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class SweepSummary:
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
    reporter: SweepProgress | None = None,
    keep_extra: bool = False,
    drop_extra: bool = False,
) -> SweepSummary:
    """Computes what is missing of a sweep and puts it into its folder; a killed run carries on here.

    Args:
        sweep: from `linbet_jax.sweep.read`.
        out: the folder; made when it does not exist.
        executor: who computes; by default this process, on all its devices.
        reporter: where progress goes; by default nowhere.
        keep_extra: whether the folder may hold finished cells that the sweep does not list (of a policy that is gone
            from the file, say). They stay in the folder, and `load`, `status` and reports show them as before.
        drop_extra: whether such cells are removed from the folder instead, for good.

    Raises:
        InputError: the sweep cannot be built, or the folder is another sweep's, in use, or holds cells that the sweep
            does not list. Nothing is changed then.
        OSError: a file cannot be written (a full disk); every file that was finished before is whole.
    """
    if keep_extra and drop_extra:
        raise InputError("keep_extra and drop_extra: choose one")
    executor = InProcess() if executor is None else executor
    progress: SweepProgress = _Silent() if reporter is None else reporter
    cells, claimed = _claim(sweep, Path(out), executor, refuse_extra=not (keep_extra or drop_extra))
    with claimed as folder:
        extra = _extra(folder.path, listed_cells(folder.path / MANIFEST, folder.manifest), cells)
        if drop_extra and extra:
            for entry in extra:
                Store(folder.path).drop(entry["id"])
            progress.say(f"removed {_cells(extra)} that {sweep.file} does not list")
            extra = []
        listed = [*entries(cells, sweep.seeds), *extra]
        journal = Journal(folder.path)
        folder.update_manifest(
            status="running",
            name=sweep.name,
            seeds=sweep.seeds,
            environment=provenance.environment(executor.devices),
            numerics=numerics_of(sweep, executor.kind),
            git=_git(),
            file=os.path.abspath(sweep.file),
            sweep_file=sweep.text,
            overrides=list(sweep.overrides),
            swept=list(dict.fromkeys(name for entry in listed for name in entry.get("swept") or ())),
            cells=listed,
        )
        try:
            summary = _Run(sweep, cells, folder.path, journal, executor, progress).finish()
        except BaseException as error:
            # Where the disk is full this cannot be written either, and what is there stays as it is.
            with contextlib.suppress(OSError):
                journal.write("interrupted", error=named(error))
                folder.update_manifest(status="interrupted")
            raise
        finally:
            journal.close()
        folder.update_manifest(status="failed" if summary.failed else "finished")
        return dataclasses.replace(summary, extra=len(extra))


def preview(
    sweep: Sweep, out: Path | str, executor: Executor, *, refuse_extra: bool = True
) -> list[tuple[PlannedCell, int]]:
    """The cells of a sweep and the seeds of each that its folder lacks, by its notes; refuses what `run` refuses."""
    cells, folder = _claim(sweep, Path(out), executor, refuse_extra=refuse_extra)
    if folder.path.exists():
        folder.check()
    store = Store(folder.path)
    return [(cell, max(0, sweep.seeds - store.held_seeds(cell.id))) for cell in cells]


def _claim(
    sweep: Sweep, out: Path, executor: Executor, *, refuse_extra: bool
) -> tuple[Sequence[PlannedCell], RunFolder]:
    """Builds the cells; returns them and their folder, which refuses what is not theirs."""
    numerics = numerics_of(sweep, executor.kind)
    cells = plan(sweep, numerics, executor.platform)
    config = {
        "kind": "sweep",
        "key": sweep.key,
        "records": sweep.records if sweep.record_at is None else list(sweep.record_at),
        "block_size": block_size(sweep, executor.platform),
        "identity": digest(sorted(cell.id for cell in cells))[:32],
    }

    def compare(manifest: Mapping[str, Any]) -> list[str]:
        """Names what keeps the sweep from carrying on in the folder: other numerics, fewer seeds, or no cell in common.

        More cells and more seeds are welcome: no number that is there changes by them.
        """
        held = manifest["config"]
        different = differences({**held, "identity": None}, {**config, "identity": None})
        if held.get("kind") != "sweep":
            return different
        different += differences(manifest.get("numerics", numerics), numerics)
        seeds = manifest.get("seeds", sweep.seeds)
        if not isinstance(seeds, int):
            raise RunFolderError(f"{MANIFEST} is damaged: its seeds are {seeds!r}, not a whole number")
        if seeds > sweep.seeds:
            different.append(
                f"seeds ({seeds} there, {sweep.seeds} here: they can only be raised; --set seeds={seeds} carries on)"
            )
        listed = listed_cells(out / MANIFEST, manifest)
        if not different and listed and not {entry["id"] for entry in listed} & {cell.id for cell in cells}:
            different = _changed(listed, [cell.entry for cell in cells])[:_SHOWN] or ["all its cells"]
        if not different and refuse_extra and (extra := _extra(out, listed, cells)):
            raise RunFolderError(
                f"{out} holds {_cells(extra)} that {sweep.file} does not list ({_which(extra, listed, cells)}): "
                "keep them with --keep-extra (keep_extra=True), remove them with --drop-extra (drop_extra=True), or "
                "choose another folder"
            )
        return different

    return cells, RunFolder(out, config, compare=compare)


def _cells(extra: Sequence[Any]) -> str:
    return f"{len(extra)} cell{'s' * (len(extra) != 1)}"


def finished(sweep: Sweep, out: Path | str) -> bool:
    """Whether a folder holds the whole sweep as CPUs compute it: a cluster would be started for nothing.

    Every cell is built, so that what cannot run is told (InputError) before a cluster waits for hours in a queue.
    """
    plan(sweep, numerics_of(sweep, "any"), "cpu" if sweep.device == "cpu" else "gpu")
    if sweep.device == "gpu" or not Path(out).is_dir():
        return False
    try:
        return not any(missing for _, missing in preview(sweep, out, InProcess(), refuse_extra=False))
    except InputError:  # another sweep's, or computed on GPUs: whoever runs it says so
        return False


# What is there and what is missing -----------------------------------------------------------------------------------


@dataclasses.dataclass
class _State:
    """One cell on its way."""

    cell: PlannedCell
    pieces: list[Piece] = dataclasses.field(default_factory=list)  # what is there, by seeds, without overlaps
    ends: list[Rows] = dataclasses.field(default_factory=list)  # last records of what this run has computed of it
    error: str | None = None  # what it failed with

    @property
    def unhealthy(self) -> int:
        """Seeds that met something non-finite, of those that are there."""
        return sum(piece.unhealthy for piece in self.pieces)

    def gaps(self, seeds: int) -> list[tuple[int, int]]:
        """Ranges of seeds that are missing."""
        bounds = [0, *(bound for piece in self.pieces for bound in (piece.start, piece.stop)), seeds]
        return [(start, stop) for start, stop in zip(bounds[::2], bounds[1::2], strict=True) if start < stop]


class _Run:
    """One run of a sweep, from what is there to what is asked."""

    def __init__(
        self,
        sweep: Sweep,
        cells: Sequence[PlannedCell],
        folder: Path,
        journal: Journal,
        executor: Executor,
        progress: SweepProgress,
    ) -> None:
        self._sweep, self._store, self._journal = sweep, Store(folder), journal
        self._executor, self._progress = executor, progress
        self._block = block_size(sweep, executor.platform)
        self._states = {cell.id: _State(cell) for cell in cells}
        self._done = 0
        self._compiling = 0.0  # seconds since the last report
        self._computed = 0
        self._lock = threading.Lock()
        self._advanced: dict[int, int] = {}  # seed-pulls of every part that has begun

    def finish(self) -> SweepSummary:
        """Computes what is missing."""
        for state in self._states.values():
            self._take_stock(state)
        for name in self._store.damaged:
            self._progress.say(f"damaged: {name} is computed again")
        if self._done:
            self._progress.say(f"{self._done} of {len(self._states)} cells are done already")
        parts = self._parts()
        if parts:
            self._journal.write("begun", cells=len(self._states), seed_pulls=sum(part.pulls for part in parts))
        with self._progress.cells(len(self._states), self._done, sum(part.cost for part in parts)):
            outcomes = self._executor.run(parts, wanted=self._wanted, advance=self._advance)
            with contextlib.closing(outcomes):  # type: ignore[type-var]
                for part, outcome in outcomes:
                    self._keep(part, outcome)
        states = self._states.values()
        return SweepSummary(
            folder=self._store.folder.parent,
            cells=len(states),
            computed=self._computed,
            failed={state.cell.title: state.error for state in states if state.error is not None},
            unhealthy={state.cell.title: state.unhealthy for state in states if state.unhealthy},
        )

    def _take_stock(self, state: _State) -> None:
        """Looks at the cell's files; a cell whose pieces are all there is put together at once."""
        cell, seeds = state.cell, self._sweep.seeds
        for piece in self._store.verified(cell.id, cell.rounds):
            if piece.stop <= seeds and all(piece.start >= other.stop for other in state.pieces):
                state.pieces.append(piece)
        if state.gaps(seeds):
            return
        self._done += 1
        whole = [piece.rows for piece in state.pieces] == [self._store.cell_path(cell.id)]
        if not whole or state.pieces[0].names != cell.names:  # the sweep file has changed the names since
            self._write(state)
        self._store.drop_parts(cell.id)

    def _write(self, state: _State) -> None:
        """Writes a cell whose pieces are all there."""
        seeds, cell = self._sweep.seeds, state.cell
        reruns = sum(piece.facts["reruns"] for piece in state.pieces)  # in the other facts all pieces agree
        facts = {**state.pieces[0].facts, "reruns": reruns}
        path = self._store.write_cell(cell.entry, seeds, [piece.rows for piece in state.pieces], facts)
        state.pieces = [Piece(0, seeds, state.unhealthy, cell.names, facts, path)]

    # Cutting the work ------------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        """Everything that is missing, cut and bundled, in the order of the cells."""
        seeds, lanes, workers = self._sweep.seeds, self._executor.lanes, self._executor.workers
        unit = self._block * lanes
        gaps = [(state.cell, *gap) for state in self._states.values() for gap in state.gaps(seeds)]
        longest = PART_SECONDS * lanes
        if workers > 1:  # every worker should have two parts at least, where the work allows it
            total = sum((stop - start) * seed_seconds(cell.entry) for cell, start, stop in gaps)
            longest = min(longest, total / (2 * workers))
        bundles: dict[tuple[int, int, int], list[PlannedCell]] = {}  # the last one of a batch and its seeds
        ranges: list[tuple[list[PlannedCell], int, int]] = []
        for cell, gap_start, gap_stop in gaps:
            most = min(PART_BYTES / (16 * len(cell.rounds)), longest / seed_seconds(cell.entry))
            size = max(1, int(most) // unit) * unit
            for start in range(gap_start, gap_stop, size):
                stop = min(start + size, gap_stop)
                bundle = bundles.get((cell.batch, start, stop), [])
                # Settings of one program fill each other's blocks; a part that fills its own gains nothing.
                if bundle and (stop - start) % unit != 0 and (len(bundle) + 1) * (stop - start) <= size:
                    bundle.append(cell)
                else:
                    bundles[cell.batch, start, stop] = [cell]
                    ranges.append((bundles[cell.batch, start, stop], start, stop))
        parts: list[Part] = []
        programs: set[int] = set()
        for cells, start, stop in ranges:
            parts.append(self._part(len(parts), cells, start, stop, compiles=cells[0].program not in programs))
            programs.add(cells[0].program)
        return parts

    def _part(self, number: int, cells: Sequence[PlannedCell], start: int, stop: int, *, compiles: bool) -> Part:
        running = (stop - start) * sum(seed_seconds(cell.entry) for cell in cells)
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
            cost=running + COMPILE_SECONDS * self._executor.lanes * compiles,
        )

    # While it runs ---------------------------------------------------------------------------------------------------

    def _wanted(self, part: Part) -> bool:
        return any(self._states[cell].error is None for cell in part.cells)

    def _advance(self, part: Part, done: int) -> None:
        with self._lock:
            if part.number not in self._advanced:
                for cell in part.cells:
                    self._journal.write("started", cell, seeds=[part.spec["start"], part.spec["stop"]])
                others = f" and {len(part.titles) - 1} more" if part.titles[1:] else ""
                self._progress.describe(part.titles[0] + others)
            pulls = done - self._advanced.get(part.number, 0)
            self._advanced[part.number] = done
        if pulls:
            self._progress.pulls(pulls, part.cost * pulls / part.pulls)

    def _keep(self, part: Part, outcome: PartOutcome) -> None:
        """Stores what a part gave, and reports every cell that is finished with it."""
        if outcome.result is None:
            for cell in part.cells:
                self._fail(self._states[cell], outcome.error or "lost", outcome.worker)
            return
        self._advance(part, part.pulls)
        self._computed += part.pulls
        self._compiling += outcome.result["compile_seconds"]
        times = {name: round(outcome.result[name] / len(part.cells), 4) for name in ("run_seconds", "compile_seconds")}
        for cell, result in outcome.result["cells"].items():
            state = self._states[cell]
            if "error" in result:
                self._fail(state, result["error"], outcome.worker)
            elif state.error is None:
                rows = Rows(part.spec["start"], *(result[name] for name in Rows._fields[1:]))
                facts = {name: result[name] for name in FACTS}
                self._add(state, rows, facts, {**times, "worker": outcome.worker})

    def _add(self, state: _State, rows: Rows, facts: dict[str, Any], times: Mapping[str, Any]) -> None:
        cell, count, seeds = state.cell, rows.health.size, self._sweep.seeds
        more = sum(stop - start for start, stop in state.gaps(seeds)) > count
        place = self._store.write_part(cell.entry, rows, facts) if more else rows
        state.pieces.append(Piece(rows.start, rows.stop, rows.unhealthy, cell.names, facts, place))
        state.ends.append(rows.last)
        state.pieces.sort(key=lambda piece: piece.start)
        times = {"seed_pulls": count * cell.horizon, **times}
        if more:
            seed_range = [rows.start, rows.stop]
            self._journal.write("part", cell.id, seeds=seed_range, unhealthy=rows.unhealthy, **times)
            return
        self._write(state)
        self._journal.write("done", cell.id, unhealthy=state.unhealthy, **times)
        self._done += 1
        ill = f", UNHEALTHY seeds {state.unhealthy}" if state.unhealthy else ""
        whole = sum(end.health.size for end in state.ends) == seeds
        regret = f"regret {_mean(state.ends)}" if whole else f"seeds {seeds}"
        compiling = f", compile {times['compile_seconds']:.1f} s" if times["compile_seconds"] >= 0.05 else ""
        self._report(f"{cell.title}  {regret}{ill} ({times['run_seconds']:.1f} s{compiling})")

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
        self._progress.cell(f"[{self._done + failed:{len(str(total))}d}/{total}] {line}", compiling=compiling)


def _mean(ends: Sequence[Rows]) -> str:
    """Final regret of a cell's healthy seeds, for a line of progress."""
    final = np.concatenate([rows.regret[rows.health == 0, -1] for rows in ends])
    if final.size == 0:
        return "of no healthy seed"
    spread = f" ± {number(np.std(final, ddof=1))} sd" if final.size > 1 else ""
    return f"{number(np.mean(final))}{spread}"


# Whose folder it is --------------------------------------------------------------------------------------------------


def _extra(folder: Path, listed: Sequence[Entry], cells: Sequence[PlannedCell]) -> list[Entry]:
    """Entries of finished cells that a folder lists beside these."""
    current, store = {cell.id for cell in cells}, Store(folder)
    return [entry for entry in listed if entry["id"] not in current and store.cell_path(entry["id"]).exists()]


def _which(extra: Sequence[Entry], listed: Sequence[Entry], cells: Sequence[PlannedCell]) -> str:
    """Policies and sets that the sweep has no longer, and in what the other cells differ from those that are new."""
    phrases, rest = [], list(extra)
    for field in ("policy", "set"):
        current = {cell.entry[field] for cell in cells}
        gone = list(dict.fromkeys(entry[field] for entry in rest if entry[field] not in current))
        phrases += [f"of {field} {', '.join(gone)}"] if gone else []
        rest = [entry for entry in rest if entry[field] in current]
    there = {entry["id"] for entry in listed}
    new = [cell.entry for cell in cells if cell.id not in there]
    for pair in dict.fromkeys((entry["set"], entry["policy"]) for entry in rest):
        before, after = ([e for e in side if (e["set"], e["policy"]) == pair] for side in (rest, new))
        changed = _changed(before, after)[:_SHOWN] if after else []
        phrases.append(f"of {'/'.join(pair)}" + (f", which differ in {', '.join(changed)}" if changed else ""))
    return "; ".join(phrases[:_SHOWN]) + ("; ..." if phrases[_SHOWN:] else "")


def _changed(lost: Sequence[Entry], new: Sequence[Entry]) -> list[str]:
    """Fields in which the cells that are gone from the file differ from those that are new in it."""
    before, after = [_flat(entry) for entry in lost], [_flat(entry) for entry in new]
    changed = []
    for name in dict.fromkeys(name for entry in (*before, *after) for name in entry):
        sides = [list(dict.fromkeys(str(entry[name]) for entry in side if name in entry)) for side in (before, after)]
        if sides[0] != sides[1] and not (set(sides[0]) & set(sides[1])):
            there, here = (", ".join(side[:4]) + (" ..." if side[4:] else "") or "none" for side in sides)
            changed.append(f"{name} ({there} there, {here} here)")
    return changed


def _flat(entry: Entry) -> Entry:
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
