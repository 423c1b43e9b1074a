"""Progress on stderr: a live line on a terminal, one plain line per finished cell elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["Reporter"]


class Reporter:
    """What a command says while it works; safe to call from several threads.

    Args:
        quiet: say nothing at all.
    """

    def __init__(self, *, quiet: bool) -> None:
        """Decides between a live line, plain lines and silence."""
        self.quiet = quiet
        self._live: Progress | None = None
        self._total = self._done = 0
        if not quiet and sys.stderr.isatty():
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )

    def say(self, line: str) -> None:
        """One line, above the live one where there is one."""
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)

    @contextmanager
    def work(self, total: int, description: str) -> Iterator[None]:
        """Shows the progress of `total` units of work for as long as the block runs."""
        if self._live is None:
            yield
            return
        with self._live:
            self._task = self._live.add_task(description, total=total)
            yield

    def advance(self, units: int) -> None:
        """So many more units are done."""
        if self._live is not None:
            self._live.advance(self._task, units)

    def describe(self, description: str) -> None:
        """What is being worked on now."""
        if self._live is not None:
            self._live.update(self._task, description=description)
