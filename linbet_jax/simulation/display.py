"""What a simulation says while it runs: one line that rewrites itself, on a terminal or in a notebook; else nothing.

What is worth a word elsewhere goes to the logger ``linbet_jax``, at INFO: where compiled programs are kept, and, once
for a process, that compiling or running took long and could take less.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TextIO

import jax

Progress = Callable[[int, int], None]
ProgressChoice = Progress | bool | Literal["auto"] | None

LOGGER = logging.getLogger("linbet_jax")
PATIENCE = 2.0  # seconds before the line appears: what is over by then needs none
_TICK = 0.25  # seconds between its changes
_BAR = 24  # characters
LONG = 5.0  # seconds of compiling or of running that are worth a word

_here = threading.local()  # .line: of the simulation that this thread waits for
_told: set[str] = set()  # what was said in this process


def check_progress(progress: Any) -> None:
    """Raises ValueError for what ``simulate`` does not take."""
    named = progress is None or isinstance(progress, bool) or (isinstance(progress, str) and progress == "auto")
    if not (named or callable(progress)):
        raise ValueError(f"progress={progress!r}: must be 'auto', True, False or a function of two counts")


@contextlib.contextmanager
def showing(progress: ProgressChoice, name: str, total: int) -> Iterator[Progress | None]:
    """Yields a function of (replications done, in all) for as long as the block runs; None where nobody is told.

    `progress` is that function itself, and nothing is shown; None or False for nothing at all; "auto" for a line where
    somebody looks; True for the line at once, wherever a line can be rewritten. The line begins with `name`.
    """
    if progress is None or progress is False or not isinstance(progress, bool | str):
        yield progress or None
        return
    stream = _screen()
    if stream is None or (progress == "auto" and _alone()):
        yield None
        return
    line = _Line(stream, name, total, 0.0 if progress is True else PATIENCE)
    before, _here.line = getattr(_here, "line", None), line
    try:
        yield line.advance
    finally:
        _here.line = before
        line.end()


@contextlib.contextmanager
def compiling(name: str) -> Iterator[None]:
    """Says on the line of this thread that the block compiles, and in the log, once for a process, if it took long."""
    line, begun = getattr(_here, "line", None), time.monotonic()
    if line is not None:
        line.compiling = True
    try:
        yield
    finally:
        if line is not None:
            line.compiling = False
    settings: Any = jax.config
    keep = "" if settings.jax_compilation_cache_dir else "; lb.set_up_cpu(compile_cache=True) keeps them for the next"
    took_long("compiling", name, time.monotonic() - begun, f"runs of the same shapes in this process need none{keep}")


def took_long(what: str, name: str, seconds: float, advice: str) -> None:
    """Says once for a process, below the line and in the log, what took long, with a word of advice."""
    if seconds < LONG or what in _told:
        return
    _told.add(what)
    sentence = f"{what} {name} took {seconds:.0f} s; {advice}"
    LOGGER.info(sentence)
    line = getattr(_here, "line", None)
    if line is not None:
        line.last += f"linbet_jax: {sentence}\n"


def _in_notebook() -> bool:
    """Whether the code runs in a notebook's kernel, whose output has no terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _screen() -> TextIO | None:
    """Where a line can be rewritten: a notebook's output, or stderr when it is a terminal."""
    if _in_notebook():
        return sys.stdout
    try:
        terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return None
    return sys.stderr if terminal else None


def _alone() -> bool:
    """Whether nobody is likely to look: a test, continuous integration, a thread or a process beside the first."""
    processes = sys.modules.get("multiprocessing.process")
    first = processes is None or processes.current_process().name == "MainProcess"
    watched = first and threading.current_thread() is threading.main_thread()
    return not watched or bool({"CI", "PYTEST_CURRENT_TEST"} & set(os.environ))


class _Line:
    """One line, written by a thread of its own: compiling tells nobody how far it is."""

    def __init__(self, stream: TextIO, name: str, total: int, wait: float) -> None:
        self.compiling = False  # whether the simulation compiles at present
        self.last = ""  # what stays behind when the line goes
        self._stream, self._name, self._total, self._done = stream, name, total, 0
        self._begun, self._first, self._width = time.monotonic(), (0.0, 0), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, args=(wait,), name="linbet-progress", daemon=True)
        self._thread.start()

    def advance(self, done: int, total: int) -> None:
        """So many of so many replications are done."""
        if self._first[1] == 0:
            self._first = time.monotonic(), done  # the pace is known from here on: compiling is no part of it
        self._done, self._total = done, total

    def end(self) -> None:
        """Takes the line away; a notebook, which cannot, keeps how long it took."""
        self._over.set()
        self._thread.join()
        if self._width:
            took = f"{self._name}: {self._done} replications in {time.monotonic() - self._begun:.0f} s"
            self._put(f"{took}\n" if _in_notebook() else "")
        if self.last:
            self._put(self.last)

    def text(self) -> str:
        """The line at present."""
        spent = time.monotonic() - self._begun
        if self.compiling:
            return f"{self._name}: compiling, {spent:.0f} s"
        full = round(_BAR * self._done / max(1, self._total))
        bar = "━" * full + "─" * (_BAR - full)
        try:
            bar.encode(self._stream.encoding or "ascii")
        except UnicodeEncodeError:
            bar = "#" * full + "." * (_BAR - full)
        since, before = self._first
        left = ""
        if self._total > self._done > before > 0:
            left = f", {(time.monotonic() - since) * (self._total - self._done) / (self._done - before):.0f} s left"
        return f"{self._name} {bar} {self._done} of {self._total} replications, {spent:.0f} s{left}"

    def _write(self, wait: float) -> None:
        while not self._over.wait(wait):
            wait = _TICK
            self._put(self.text()[: shutil.get_terminal_size().columns - 1])

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that has gone
            self._stream.write(f"\r{' ' * self._width}\r{text}")
            self._stream.flush()
        self._width = 0 if text.endswith("\n") else len(text)
