"""`linbet reproduce table1`."""

from __future__ import annotations

import argparse
from pathlib import Path

from linbet_jax.cli.progress import TerminalReporter
from linbet_jax.simulation import runtime


def run(options: argparse.Namespace) -> int:
    """Prints the data sets' constants beside the paper's; with --out also writes them."""
    took = runtime.prepare(options.device)
    from linbet_jax.experiments import table1

    reporter = TerminalReporter(quiet=options.quiet)
    reporter.say(f"device: {took} ({options.device})")
    rows = table1.rows(options.sets)
    reporter.show(table1.text(rows), table1.write(rows, Path(options.out)) if options.out else ())
    return 0
