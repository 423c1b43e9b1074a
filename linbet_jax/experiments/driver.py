"""The one runner of all experiments: cells that survive a kill, then the tables and figures made of them.

An experiment is a module of this package with a function `plan(**options) -> Experiment`, which builds and checks
everything before anything runs, and raises InputError for what its policies, theorems or data do not allow. It has
three parts: what is played (`plan`, and what computes a cell), what that gives (classes), and how it is shown
(`_outputs`, and what makes its tables, records and charts).

`run` computes its cells, keeps each in the run folder as soon as it is finished (the sweeps' store, one Parquet file a
cell), and hands their numbers to its `show`. Everything that is written is made from the stored cells alone, so that
drawing again computes nothing, and a killed run carries on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from linbet_jax.figures.plotting import save_figure
from linbet_jax.storage import provenance
from linbet_jax.storage.results import RunFolder, digest, write_text
from linbet_jax.sweep.store import Store

COMPILE_SECONDS = 5.0  # CPU time to trace and compile one program


# What an experiment says of itself -----------------------------------------------------------------------------------


class CellResult(NamedTuple):
    """What a cell computes."""

    # by name, numbers of one length: a table with one row a replication, or a record of one
    columns: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any] = {}  # JSON-like, what else is to be known: notes, say. It is stored beside the columns
    seconds: Mapping[str, float] = {}  # how long what took, for the manifest alone

    def where(self, column: str, value: float) -> CellResult:
        """The rows alone in which a column has a value."""
        rows = self.columns[column] == value
        return self._replace(columns={name: values[rows] for name, values in self.columns.items()})

    def shaped(self, *shape: int) -> dict[str, NDArray[Any]]:
        """The columns as arrays of a shape, that of the `long_form` they come from."""
        return {name: column.reshape(shape) for name, column in self.columns.items()}


class StudyCell(NamedTuple):
    """A piece of work."""

    title: str  # unique; its name in the manifest and on the terminal
    # JSON-like, everything that decides its numbers beside versions, code, device and dtype: policy and options,
    # instance, horizon, seeds, key
    identity: Mapping[str, Any]
    pulls: int  # over all its replications
    core_seconds: float  # estimate of the CPU time, compiling included
    compute: Callable[[Progress], CellResult]  # does it
    line: Callable[[CellResult], str] = lambda result: ""  # what is said of it when it has been computed
    alone: bool = False  # nothing else may run meanwhile: it measures time


class Outputs(NamedTuple):
    """What an experiment shows."""

    text: str  # for a terminal
    figures: Mapping[str, Figure]  # by the stem of their files; each is written as PNG and PDF
    documents: Mapping[str, str]  # texts by the name of their files
    unhealthy: int  # replications that met something non-finite
    problems: Sequence[str] = ()  # findings that make the command end with status 1: a policy below a lower bound, say
    sections: Mapping[str, Any] = {}  # JSON-like, what else the manifest should say


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An experiment, built and checked."""

    name: str  # of its command
    config: Mapping[str, Any]  # JSON-like, everything that was asked for; a folder belongs to one configuration
    dtype: str  # "float64", "float32", or "both"
    cells: Sequence[StudyCell]  # in the order of the outputs
    # functions, classes or modules that compute the cells: their source is part of what a cell is, so that a change
    # computes it again, while a new caption does not
    code: Sequence[Any]
    show: Callable[[Mapping[str, CellResult]], Outputs]  # makes the outputs from the cells' results by their titles
    workers: int = 1  # cells that are computed side by side
    notice: str = ""  # what must be said before it starts

    @property
    def core_seconds(self) -> float:
        """Estimate of the CPU time."""
        return sum(cell.core_seconds for cell in self.cells)

    def cost(self, cores: int) -> str:
        """What the run will take, in one phrase; the minutes are those of so many cores."""
        pulls, cells = sum(cell.pulls for cell in self.cells), len(self.cells)
        minutes = max(1, math.ceil(self.core_seconds / 60 / max(1, cores)))
        time_taken = f"{minutes:,} minute{'s' * (minutes != 1)} on {cores} core{'s' * (cores != 1)}"
        return f"{pulls:.2g} seed-pulls in {cells} cell{'s' * (cells != 1)}, about {time_taken}"


def long_form(axes: Mapping[str, ArrayLike], values: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """A table with one row for every combination of the axes' values, the last axis running fastest.

    The values have the axes' shape, or one that broadcasts to it; `column.reshape(shape)` is the array again.
    """
    places = np.meshgrid(*map(np.asarray, axes.values()), indexing="ij")
    columns = dict(zip(axes, places, strict=True))
    columns |= {name: np.broadcast_to(array, places[0].shape) for name, array in values.items()}
    return {name: array.reshape(-1) for name, array in columns.items()}


# What a run tells ----------------------------------------------------------------------------------------------------


class RunReporter(Protocol):
    """Where progress goes; called from several threads."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def advance(self, units: int) -> None:
        """So many pulls more are done, over all replications."""

    def describe(self, description: str) -> None:
        """What is being worked on now."""

    def work(self, total: int, description: str) -> contextlib.AbstractContextManager[None]:
        """A context in which `total` pulls are worked off."""


class Progress:
    """Passes on how many pulls of one cell are done, never more than it has."""

    def __init__(self, reporter: RunReporter, pulls: int) -> None:
        """Of a cell with so many pulls, over all its replications, nothing is done yet."""
        self._reporter, self.left = reporter, pulls

    def advance(self, pulls: int) -> None:
        """So many more are done."""
        units = min(pulls, self.left)
        self.left -= units
        self._reporter.advance(units)

    def of(self, horizon: int) -> Callable[[int, int], None]:
        """What `simulate_grid(..., progress=)` wants, each replication being so many pulls."""
        seen = 0

        def advance(done: int, _: int) -> None:
            nonlocal seen
            self.advance((done - seen) * horizon)
            seen = done

        return advance


# Running -------------------------------------------------------------------------------------------------------------


def run(
    experiment: Experiment, out: Path, *, kind: str, devices: str, reporter: RunReporter
) -> tuple[Outputs, tuple[Path, ...]]:
    """Computes what is not in the folder yet, then writes tables, figures and the manifest.

    `kind` is the device's own name, which decides the last bits of the numbers, `devices` says the same in words for
    the manifest. Returns what the experiment shows, and the files that were written.

    Raises:
        RunFolderError: the folder holds something else; nothing has been changed then.
    """
    begun = time.perf_counter()
    numerics = provenance.numerics(experiment.dtype, kind)
    ids = _identities(experiment, numerics)
    with RunFolder(out, {"experiment": experiment.name, **experiment.config, "numerics": numerics}) as folder:
        folder.update_manifest(status="running", environment=provenance.environment(devices))
        results = _finish(experiment, ids, folder, reporter)
        reporter.say("drawing")
        outputs = experiment.show(results)
        files = _write(outputs, folder)
        folder.update_manifest(
            **outputs.sections,
            status="finished",
            unhealthy=outputs.unhealthy,
            cells={
                title: {
                    "id": ids[title],
                    "identity": identity,
                    **results[title].facts,
                    "seconds": results[title].seconds,
                }
                for title, identity, *_ in experiment.cells
            },
            outputs=[path.name for path in files],
            seconds_of_last_run=round(time.perf_counter() - begun, 3),
        )
        return outputs, (*files, folder.path / "manifest.json")


def _identities(experiment: Experiment, numerics: Mapping[str, Any]) -> dict[str, str]:
    """Every cell's id by its title: the hash of everything that decides its numbers; other cells do not."""
    sources = [inspect.getsource(source) for source in (long_form, *experiment.code)]
    shared = {"experiment": experiment.name, "numerics": numerics, "code": digest(sources)}
    ids = {cell.title: digest({**shared, "cell": cell.identity})[:32] for cell in experiment.cells}
    if len(ids) < len(experiment.cells):
        raise ValueError(f"{experiment.name}: two cells have one title")
    return ids


def _finish(
    experiment: Experiment, ids: Mapping[str, str], folder: RunFolder, reporter: RunReporter
) -> dict[str, CellResult]:
    """Every cell's result by its title; what is not in the folder yet is computed and put there."""
    store = Store(folder.path)
    timings: dict[str, Any] = dict(folder.manifest.get("timings", {}))

    def load(title: str) -> CellResult | None:
        stored = store.read_columns(ids[title])
        return None if stored is None else CellResult(*stored, timings.get(title, {}))

    loaded = {cell.title: load(cell.title) for cell in experiment.cells}
    results = {title: result for title, result in loaded.items() if result is not None}
    for name in store.damaged:
        reporter.say(f"damaged: {name} is computed again")
    if results:
        reporter.say(f"{len(results)} of {len(experiment.cells)} cells are done already")
    missing = [cell for cell in experiment.cells if cell.title not in results]
    with reporter.work(sum(cell.pulls for cell in missing), "starting"):
        for cell, computed in _computed(missing, experiment.workers, reporter):
            store.write_columns(ids[cell.title], computed.columns, computed.facts)
            timings[cell.title] = computed.seconds
            folder.update_manifest(timings=timings)
            stored = load(cell.title)
            assert stored is not None
            results[cell.title] = stored
            place = f"[{len(results):{len(str(len(experiment.cells)))}d}/{len(experiment.cells)}]"
            reporter.say(f"{place} {cell.title}{cell.line(stored)} ({computed.seconds['wall']:.1f} s)")
    return {cell.title: results[cell.title] for cell in experiment.cells}


def _computed(
    cells: Sequence[StudyCell], workers: int, reporter: RunReporter
) -> Iterator[tuple[StudyCell, CellResult]]:
    """Every cell and its result, as they come; an error or Ctrl-C drops what has not begun and waits for nothing."""

    def compute(cell: StudyCell) -> CellResult:
        reporter.describe(cell.title)
        progress = Progress(reporter, cell.pulls)
        begun = time.perf_counter(), time.process_time()
        result = cell.compute(progress)
        seconds = {"wall": time.perf_counter() - begun[0], "cpu": time.process_time() - begun[1], **result.seconds}
        progress.advance(progress.left)
        return result._replace(seconds={name: round(value, 3) for name, value in seconds.items()})

    if workers == 1:
        for cell in cells:
            yield cell, compute(cell)
        return
    # The longest first, so that no thread is left alone with one at the end.
    together = sorted((cell for cell in cells if not cell.alone), key=lambda cell: -cell.core_seconds)
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        futures: dict[Future[CellResult], StudyCell] = {pool.submit(compute, cell): cell for cell in together}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    for cell in cells:
        if cell.alone:
            yield cell, compute(cell)


def _write(outputs: Outputs, folder: RunFolder) -> tuple[Path, ...]:
    """Writes figures and documents; returns their files."""
    files = []
    for stem, figure in outputs.figures.items():
        for suffix in (".png", ".pdf"):
            files.append(folder.path / f"{stem}{suffix}")
            save_figure(figure, files[-1])
    for name, text in outputs.documents.items():
        files.append(folder.path / name)
        write_text(files[-1], text)
    return tuple(files)
