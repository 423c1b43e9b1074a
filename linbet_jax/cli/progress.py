"""Progress on stderr: a live line on a terminal, one plain line per finished cell elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as LeftColumn

from linbet_jax.statistics.tables import duration


class TerminalReporter:
    """What a command says while it works; safe to call from several threads."""

    def __init__(self, *, quiet: bool, columns: Sequence[ProgressColumn] = ()) -> None:
        """Decides between a live line, of these further columns too, plain lines and silence."""
        self.quiet = quiet
        self._live: Progress | None = None
        if not quiet and sys.stderr.isatty():
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%"),
                *columns,
                TimeElapsedColumn(),
                TextColumn("left"),
                LeftColumn(),
                console=Console(stderr=True),
                transient=True,
            )

    def say(self, line: str) -> None:
        """One line, above the live one where there is one."""
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def show(self, text: str, files: Sequence[Path]) -> None:
        """What a command has made, on standard output."""
        if not self.quiet:
            print(text, *([""] if files else []), *files, sep="\n")

    @contextmanager
    def work(self, total: float, description: str) -> Iterator[None]:
        """Shows the progress of `total` units of work for as long as the block runs."""
        if self._live is None:
            yield
            return
        with self._live:
            self._task = self._live.add_task(description, total=total, cells="", rate="", compiling="")
            yield

    def advance(self, units: float) -> None:
        """So many more units are done."""
        if self._live is not None:
            self._live.advance(self._task, units)

    def describe(self, description: str) -> None:
        """What is being worked on now."""
        if self._live is not None:
            self._live.update(self._task, description=description)


class SweepReporter(TerminalReporter):
    """Progress of a sweep: cells, seed-pulls per second, compile time apart, time left."""

    def __init__(self, *, quiet: bool) -> None:
        """Nothing is done yet."""
        fields = ("cells", "rate", "compiling")
        super().__init__(quiet=quiet, columns=[TextColumn(f"{{task.fields[{field}]}}") for field in fields])
        self._lock = threading.Lock()
        self._pulls, self._compiling, self._estimated, self._spent = 0, 0.0, 0.0, 0.0
        self._total = self._done = 0
        self._begun = time.monotonic()

    @contextmanager
    def cells(self, total: int, done: int, seconds: float) -> Iterator[None]:
        """Shows the progress of `total` cells, of which `done` are done, for as long as the block runs."""
        self._total, self._done, self._estimated, self._begun = total, done, seconds, time.monotonic()
        with self.work(max(seconds, 1e-9), "starting"):
            self._show()
            yield

    def pulls(self, seed_pulls: int, seconds: float) -> None:
        """So many seed-pulls more, and what they were estimated to take."""
        with self._lock:
            self._pulls += seed_pulls
            self._spent += seconds
        self.advance(seconds)
        self._show()

    def cell(self, line: str, *, compiling: float) -> None:
        """A cell has ended."""
        with self._lock:
            self._done += 1
            self._compiling += compiling
        if self._live is None and self._done < self._total and self._spent > 0:  # at the pace so far
            rest = max(0.0, self._estimated - self._spent)
            line += f", {duration(rest * (time.monotonic() - self._begun) / self._spent)} left"
        self.say(line)
        self._show()

    def _rate(self) -> str:
        elapsed = max(time.monotonic() - self._begun, 1e-3)
        rate = self._pulls / elapsed
        scaled, unit = (rate / 1e6, "M") if rate >= 1e6 else (rate / 1e3, "k") if rate >= 1e3 else (rate, "")
        return f"{scaled:.3g}{unit} seed-pulls/s"

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(
                self._task,
                cells=f"{self._done}/{self._total} cells",
                rate=self._rate(),
                compiling=f"compile {self._compiling:.0f} s",
            )

    def summary(self) -> str:
        """Seed-pulls, their pace and the compile time of the whole run, for a last line; empty when nothing ran."""
        if not self._pulls:
            return ""
        elapsed, compiling = duration(time.monotonic() - self._begun), duration(self._compiling)
        rates = f"{self._rate()}; {compiling} of compiling, partly side by side"
        return f"{self._pulls:,} seed-pulls in {elapsed} ({rates})"
