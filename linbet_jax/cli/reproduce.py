"""`linbet reproduce` for every experiment with cells: one module of `linbet_jax.experiments` each."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from linbet_jax.cli.progress import Reporter
from linbet_jax.simulation import runtime

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Runs the experiment named in the options and prints its text and files.

    The options hold `experiment` (the module's name in `linbet_jax.experiments`) and in `asked` the names of those that
    its `plan` takes.

    Returns:
        1 when a replication is unhealthy or the experiment found a problem, else 0.
    """
    took = runtime.prepare(options.device)
    from linbet_jax.experiments import driver

    experiment = importlib.import_module(f"linbet_jax.experiments.{options.experiment}")
    plan = experiment.plan(**{name: getattr(options, name) for name in options.asked})
    reporter = Reporter(quiet=options.quiet)
    dtype = "float32 and float64" if plan.dtype == "both" else plan.dtype
    reporter.say(f"device: {took} ({options.device}), {dtype}")
    full = " --full" if getattr(options, "full", False) else ""
    reporter.say(f"{plan.name}{full}: {plan.cost(took.count)}")
    if plan.notice:
        reporter.say(plan.notice)
    out = Path(options.out or f"linbet-{plan.name}")
    outputs, files = driver.run(plan, out, kind=took.kind, devices=str(took), reporter=reporter)
    if not options.quiet:
        print(outputs.text)
        print()
        for path in files:
            print(path)
    for problem in outputs.problems:
        print(f"linbet: {problem}", file=sys.stderr)
    if outputs.unhealthy:
        print(f"linbet: {outputs.unhealthy} replications met a non-finite number; see {out}", file=sys.stderr)
    return 1 if outputs.unhealthy or outputs.problems else 0
