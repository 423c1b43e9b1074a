"""The command `linbet`.

Exit status: 0 when every replication is healthy, 1 when one is not, 2 for wrong input (one line on stderr, nothing
overwritten), 130 after Ctrl-C (what is finished is kept). Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from linbet_jax.cli.parser import build_parser
from linbet_jax.errors import InputError

__all__ = ["main"]

WRONG_INPUT, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments; those of the process by default.

    Returns:
        The exit status.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows question marks, no traceback
    options = build_parser().parse_args(argv)
    try:
        command = importlib.import_module(f"linbet_jax.cli.{options.module}")
        status: int = command.run(options)
        sys.stdout.flush()
        return status
    except InputError as error:
        print(f"linbet: error: {' '.join(str(error).split())}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        print("linbet: interrupted; what is finished is kept, the same command carries on from there", file=sys.stderr)
        if argv is None:
            # A thread may still be inside a computation, which nothing can cut short: do not wait for it.
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output left (`| head`): keep the interpreter's last flush from failing on it too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except OSError as error:
        # A full disk, say: every file is written whole or not at all, so what is finished is kept.
        where = f" ({error.filename})" if error.filename else ""
        print(f"linbet: error: {error.strerror or error}{where}; what is finished is kept", file=sys.stderr)
        return WRONG_INPUT
