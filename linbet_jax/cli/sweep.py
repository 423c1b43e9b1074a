"""`linbet sweep`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from linbet_jax.cli import runtime
from linbet_jax.cli.progress import SweepReporter

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Computes what is missing of a sweep; 1 when a cell failed or a replication is unhealthy."""
    overrides = list(options.set or [])
    overrides += [f'{name}="{value}"' for name in ("device", "dtype") if (value := getattr(options, name)) is not None]
    from linbet_jax.sweep.grid import read

    sweep = read(options.file, overrides)  # before a device is started: a wrong file is told at once
    took = runtime.prepare(sweep.device)
    from linbet_jax.sweep import driver, dryrun
    from linbet_jax.sweep.executors import InProcess

    executor = InProcess()
    if options.dry_run:
        print(dryrun.text(sweep, executor))
        return 0
    reporter = SweepReporter(quiet=options.quiet)
    reporter.say(f"device: {took} ({sweep.device}), {sweep.dtype}")
    out = Path(options.out or f"linbet-{Path(options.file).stem}")
    summary = driver.run(sweep, out, executor=executor, reporter=reporter)
    if reporter.summary():
        reporter.say(reporter.summary())
    if not options.quiet:
        healthy = summary.cells - len(summary.failed)
        print(f"{healthy} of {summary.cells} cells of {sweep.seeds} seeds are in {out}")
    for title, error in summary.failed.items():
        print(f"linbet: {title} failed: {' '.join(error.split())}", file=sys.stderr)
    for title, count in summary.unhealthy.items():
        print(f"linbet: {title}: {count} seeds met a non-finite number", file=sys.stderr)
    return 1 if summary.failed or summary.unhealthy else 0
