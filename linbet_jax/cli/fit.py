"""`linbet fit`."""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path

from linbet_jax.errors import InputError


def run(options: argparse.Namespace) -> int:
    """Fits a bandit to a log, prints what it says, and writes a picture and a sweep file.

    Raises:
        InputError: what the log's own checks say.
    """
    from linbet_jax.cli.progress import TerminalReporter
    from linbet_jax.experiments import fit as shown
    from linbet_jax.simulation import runtime
    from linbet_jax.statistics.logs import from_log

    runtime.prepare("cpu")
    source = Path(options.file)
    name = re.sub(r"\W+", "_", source.stem, flags=re.ASCII).strip("_") or "log"  # a bare key of TOML
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the text says it
            fit = from_log(options.file, options.payoff, epsilon=options.epsilon, name=name)
    except ValueError as error:
        raise InputError(str(error)) from error
    files = shown.write(fit, Path(options.out or f"linbet-fit-{name}"), name=name, source=source.name)
    TerminalReporter(quiet=options.quiet).show(shown.text(fit), files)
    return 0
