"""The command `linbet`.

Exit status: 0 when every replication is healthy, 1 when one is not, 2 for wrong input (one line on stderr, nothing
overwritten), 130 after Ctrl-C (what is finished is kept), 141 when nobody reads the output any more (`| head`). Nothing
heavy is imported before a command needs it.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from linbet_jax.cli.parser import build_parser
from linbet_jax.errors import InputError, UnhealthyWarning

__all__ = ["main"]

WRONG_INPUT, INTERRUPTED, UNREAD = 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command of these arguments, by default of the process's own, and returns the exit status."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows question marks, no traceback
    try:
        try:
            options = build_parser().parse_args(argv)
            if options.module is None:
                options.bare.print_help()
                return 0
            command = importlib.import_module(f"linbet_jax.cli.{options.module}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnhealthyWarning)  # commands count unhealthy replications themselves
                status: int = command.run(options)
        finally:
            sys.stdout.flush()
        return status
    except InputError as error:
        _complain(f"error: {' '.join(str(error).split())}")
        return WRONG_INPUT
    except KeyboardInterrupt:
        _complain("interrupted; what is finished is kept, the same command carries on from there")
        if argv is None:
            # A thread may still be inside a computation, which nothing can cut short: do not wait for it.
            os._exit(INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output left (`| head`): the status is that of SIGPIPE
        return UNREAD
    except OSError as error:
        reason = error.strerror or error
        if error.filename is None and (_refuses(sys.stdout) or _takes_nothing(sys.stdout)):
            _complain(f"error: standard output cannot be written: {reason}")
            return WRONG_INPUT
        # A full disk, say: every file is written whole or not at all, so what is finished is kept.
        where = f" ({error.filename})" if error.filename else ""
        _complain(f"error: {reason}{where}; what is finished is kept")
        return WRONG_INPUT
    finally:
        _let_go(sys.stdout)
        _let_go(sys.stderr)


def _open_closed_streams() -> None:
    """Standard streams that were closed (`>&-`) lead nowhere: the next file to be opened would get their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (open to the end)


def _complain(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads stderr: the status says it
        print(f"linbet: {line}", file=sys.stderr, flush=True)


def _refuses(stream: TextIO) -> bool:
    """Whether a stream does not take what it still holds."""
    try:
        stream.flush()
    except OSError:
        return True
    return False


def _takes_nothing(stream: TextIO) -> bool:
    """Whether a stream that holds nothing any more would not take another line."""
    try:
        os.write(stream.fileno(), b"\n")
    except io.UnsupportedOperation:  # it leads to no file
        return False
    except OSError:
        return True
    return False


def _let_go(stream: TextIO) -> None:
    """Keeps the interpreter's last flush from failing on a stream that takes nothing."""
    if _refuses(stream):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
