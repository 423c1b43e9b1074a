"""`linbet reproduce figure2`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from linbet_jax import runtime
from linbet_jax.cli.progress import Reporter

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Runs the experiment and prints the table and the files' names; 1 when a replication is unhealthy."""
    took = runtime.prepare(options.device)
    from linbet_jax.reproduce.figure2 import Settings, reproduce

    settings = Settings(
        sets=tuple(options.sets or Settings.sets),
        seeds=options.seeds,
        tuning_seeds=options.tuning_seeds,
        horizon=options.horizon,
        dtype=options.dtype,
    )
    reporter = Reporter(quiet=options.quiet)
    reporter.say(f"device: {took} ({options.device}), {options.dtype}")
    if settings.horizon is not None:
        reporter.say(f"quick look: horizon {settings.horizon}, not the paper's; every output says so")
    out = Path(options.out or "linbet-figure2")
    outcome = reproduce(settings, out, kind=took.kind, devices=str(took), reporter=reporter)
    if not options.quiet:
        print(outcome.text)
        print()
        for path in outcome.files:
            print(path)
    if outcome.unhealthy:
        print(
            f"linbet: {outcome.unhealthy} replications met a non-finite number; see {out / 'table.md'}", file=sys.stderr
        )
        return 1
    return 0
