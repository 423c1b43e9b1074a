"""A study: an experiment cut into cells, each kept as soon as it is finished, so that a killed run carries on.

An experiment is a module of this package with two functions:

    plan(*, seeds: int | None, full: bool, dtype: str) -> its own plan, an object with a `cost`
    reproduce(plan, out, *, kind, devices, reporter) -> Outcome

`plan` builds and checks everything before anything runs (seeds=None is the experiment's own default), and the plan's
`cost` says what is coming. `reproduce` opens a `Study` in the folder `out`, asks it for every cell and makes all its
outputs from the cells alone, so that drawing again computes nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Protocol

from numpy.typing import NDArray

from linbet_jax import provenance
from linbet_jax.costs import pull_microseconds
from linbet_jax.results import RunFolder, digest

__all__ = ["Cost", "Outcome", "Planned", "Reporter", "Study", "seed_pulls_cost"]

COMPILE_SECONDS = 5.0  # CPU time to trace and compile one program


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a finished run shows.

    Attributes:
        text: the table for a terminal.
        files: what was written, in the order worth opening.
        unhealthy: replications that met something non-finite.
        problems: findings that make the command end with status 1: a policy below a lower bound, say.
    """

    text: str
    files: tuple[Path, ...]
    unhealthy: int
    problems: tuple[str, ...] = ()


class Reporter(Protocol):
    """Where progress goes."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def advance(self, units: int) -> None:
        """So many pulls more are done, over all replications."""

    def describe(self, description: str) -> None:
        """What is being worked on now."""

    def work(self, total: int, description: str) -> contextlib.AbstractContextManager[None]:
        """A context in which `total` pulls are worked off."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a run will take, known before it starts.

    Attributes:
        cells: pieces of work.
        seed_pulls: pulls, over all replications.
        core_seconds: estimate of the CPU time.
    """

    cells: int
    seed_pulls: int
    core_seconds: float

    def __add__(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(
            self.cells + other.cells, self.seed_pulls + other.seed_pulls, self.core_seconds + other.core_seconds
        )

    def sentence(self, cores: int) -> str:
        """One phrase for people; the minutes are those of so many cores."""
        minutes = max(1, math.ceil(self.core_seconds / 60 / max(1, cores)))
        time_taken = f"{minutes:,} minute{'s' * (minutes != 1)} on {cores} core{'s' * (cores != 1)}"
        return f"{self.seed_pulls:.2g} seed-pulls in {self.cells} cell{'s' * (self.cells != 1)}, about {time_taken}"


def seed_pulls_cost(policy: str, *, num_arms: int, dim: int, horizon: int, replications: int) -> Cost:
    """One cell's cost; tracing and compiling one program is in it.

    Args:
        policy: registry name.
        num_arms: K.
        dim: d.
        horizon: T, pulls.
        replications: seeds, times settings of the parameters.
    """
    pulls = horizon * replications
    return Cost(1, pulls, COMPILE_SECONDS + 1e-6 * pulls * pull_microseconds(policy, num_arms=num_arms, dim=dim))


class Planned(Protocol):
    """What an experiment's `plan` returns, as far as the command line needs it."""

    @property
    def cost(self) -> Cost:
        """What the run will take."""
        ...


class Study:
    """A resumable experiment in a folder of its own. Use as a context manager.

    Args:
        name: of the experiment.
        config: JSON-like, everything the run is asked to do; its entry "dtype" is the floating-point type. Versions,
            code and device are added to it.
        out: the folder; it belongs to one configuration.
        kind: the device's own name; it decides the last bits of the numbers.
        devices: the devices in words, for the manifest.
        reporter: where progress goes.
        cost: of the whole run, for the progress line.

    Raises:
        RunFolderError: on entering, when the folder holds something else; nothing is changed then.
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        out: Path,
        *,
        kind: str,
        devices: str,
        reporter: Reporter,
        cost: Cost | None = None,
    ) -> None:
        """Remembers everything; nothing is touched before entering."""
        self.name = name
        self.numerics = provenance.numerics(str(config["dtype"]), kind)
        self.folder = RunFolder(out, {"experiment": name, **config, "numerics": self.numerics})
        self._devices, self._reporter = devices, reporter
        self._cost = cost or Cost(0, 0, 0.0)
        self._cells: dict[str, dict[str, Any]] = {}
        self._unreported = 0  # of the cell's pulls
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Study:
        """Locks the folder, checks that it is this run's, and marks it as running."""
        self._begun = time.perf_counter()
        with contextlib.ExitStack() as entering:
            entering.enter_context(self.folder)
            self.folder.update_manifest(status="running", environment=provenance.environment(self._devices))
            entering.enter_context(self._reporter.work(self._cost.seed_pulls, "starting"))
            self._open = entering.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unlocks the folder; what is finished stays in it."""
        self._open.__exit__(kind, error, trace)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    def file(self, name: str) -> Path:
        """Path of an output of this run."""
        return self.folder.file(name)

    def cell(
        self,
        title: str,
        own: Mapping[str, Any],
        compute: Callable[[], Mapping[str, NDArray[Any]]],
        *,
        pulls: int = 0,
    ) -> dict[str, NDArray[Any]]:
        """A piece of work: loaded from the folder, or computed and saved at once.

        Args:
            title: unique; its name in the manifest and on the terminal.
            own: JSON-like, everything that decides its numbers beside versions, code, device and dtype: policy and
                options, instance, horizon, seeds, key.
            compute: returns its arrays, none of objects. The source of the module it is written in is part of the
                cell's key: drawing belongs into another module, lest a new caption computes everything again.
            pulls: over all its replications, for the progress line.

        Returns:
            The arrays, as they are stored.
        """
        if title in self._cells:
            raise ValueError(f"two cells are called {title!r}")
        key = digest({"study": self.name, "numerics": self.numerics, "code": _source(compute), "own": dict(own)})
        timings: dict[str, Any] = dict(self.folder.manifest.get("timings", {}))
        damaged = len(self.folder.damaged)
        arrays = self.folder.load(key)
        for name in self.folder.damaged[damaged:]:
            self._reporter.say(f"damaged: {name} is computed again")
        self._reporter.describe(title)
        self._unreported = pulls
        if arrays is None:
            begun = time.perf_counter(), time.process_time()
            self.folder.save(key, compute())
            seconds = {"wall": time.perf_counter() - begun[0], "cpu": time.process_time() - begun[1]}
            timings[title] = {name: round(value, 3) for name, value in seconds.items()}
            self.folder.update_manifest(timings=timings)
            arrays = self.folder.load(key)
            assert arrays is not None
            self._reporter.say(f"{self._place()}{title} ({seconds['wall']:.1f} s)")
        else:
            self._reporter.say(f"{self._place()}{title}: done already")
        self._reporter.advance(self._unreported)
        self._cells[title] = {"key": key, "own": dict(own), "seconds": timings.get(title)}
        return arrays

    def progress(self, pulls: int) -> Callable[[int, int], None]:
        """What `simulate(..., progress=)` wants inside a cell, each replication being so many pulls."""
        seen = 0

        def advance(done: int, _: int) -> None:
            nonlocal seen
            units = min((done - seen) * pulls, self._unreported)
            seen, self._unreported = done, self._unreported - units
            self._reporter.advance(units)

        return advance

    def finish(self, files: Sequence[Path], unhealthy: int, **sections: Any) -> None:
        """Writes the manifest: the run is finished, and this is what it left.

        Args:
            files: the outputs.
            unhealthy: replications that met something non-finite.
            **sections: JSON-like; what else the manifest should say.
        """
        self.folder.update_manifest(
            **sections,
            status="finished",
            unhealthy=unhealthy,
            cells=self._cells,
            outputs=[path.name for path in files],
            seconds_of_last_run=round(time.perf_counter() - self._begun, 3),
        )

    def _place(self) -> str:
        total = self._cost.cells
        return f"[{len(self._cells) + 1:{len(str(total))}d}/{total}] " if total else ""


def _source(compute: Callable[..., Any]) -> str:
    """Hash of the file in which a function is written."""
    inner: Any = compute.func if isinstance(compute, functools.partial) else compute
    code: CodeType = inner.__code__
    return hashlib.sha256(Path(code.co_filename).read_bytes()).hexdigest()[:16]
