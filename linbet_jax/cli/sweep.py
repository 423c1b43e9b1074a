"""`linbet sweep`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linbet_jax.sweep.targets import Target


def run(options: argparse.Namespace) -> int:
    """Computes what is missing of a sweep; 1 when a cell failed or a replication is unhealthy."""
    overrides = list(options.set or [])
    overrides += [f'{name}="{value}"' for name in ("device", "dtype") if (value := getattr(options, name)) is not None]
    from linbet_jax.sweep.grid import read

    sweep = read(options.file, overrides)  # before JAX is imported: a wrong file is told at once
    target = _target(options)
    from linbet_jax.cli.progress import SweepReporter
    from linbet_jax.simulation import runtime

    reporter = SweepReporter(quiet=options.quiet)
    out = Path(options.out or f"linbet-{Path(options.file).stem}")
    beside = {"keep_extra": options.keep_extra, "drop_extra": options.drop_extra}
    if target is None or options.dry_run:
        took = runtime.prepare(sweep.device)
        from linbet_jax.sweep import driver, estimate
        from linbet_jax.sweep.executors import InProcess

        executor = InProcess()
        if options.dry_run:
            refuse = not any(beside.values())
            print(estimate.dry_run(sweep, driver.preview(sweep, out, executor, refuse_extra=refuse), executor))
            return 0
        reporter.say(f"device: {took} ({sweep.device}), {sweep.dtype}")
        summary = driver.run(sweep, out, executor=executor, reporter=reporter, **beside)
    else:
        runtime.prepare("cpu")  # the GPUs are the workers'
        from linbet_jax.sweep import driver
        from linbet_jax.sweep.cluster import Cluster

        if driver.finished(sweep, out):
            reporter.say("nothing to compute: no cluster is started")
            summary = driver.run(sweep, out, reporter=reporter, **beside)
        else:
            with Cluster(target, device=sweep.device, say=reporter.say) as cluster:
                reporter.say(f"device: {cluster.devices} ({sweep.device}), {sweep.dtype}")
                summary = driver.run(sweep, out, executor=cluster, reporter=reporter, **beside)
    if reporter.summary():
        reporter.say(reporter.summary())
    if not options.quiet:
        computed = summary.cells - len(summary.failed)
        extra = f", beside {summary.extra} that the file does not list" if summary.extra else ""
        print(f"{computed} of {summary.cells} cells of {sweep.seeds} seeds are in {out}{extra}")
    for title, error in summary.failed.items():
        print(f"linbet: {title} failed: {' '.join(error.split())}", file=sys.stderr)
    for title, count in summary.unhealthy.items():
        print(f"linbet: {title}: {count} seeds met a non-finite number", file=sys.stderr)
    return 1 if summary.failed or summary.unhealthy else 0


def _target(options: argparse.Namespace) -> Target | None:
    """Where to run beside this process, from the options of the group `cluster`; None for this process."""
    from linbet_jax.sweep.targets import parse

    known = {name: getattr(options, name) for name in ("queue", "account", "jobs", "cores", "memory", "walltime")}
    slurm = {name: value for name, value in known.items() if value is not None}
    return parse(options.cluster or "", **slurm) if options.cluster is not None or slurm else None
