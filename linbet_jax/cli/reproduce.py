"""`linbet reproduce` for every experiment with cells: one module of `linbet_jax.experiments` each."""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path

from linbet_jax.cli.progress import TerminalReporter
from linbet_jax.simulation import runtime


def run(options: argparse.Namespace) -> int:
    """Runs the experiment named in the options and prints its text and files.

    The module of `linbet_jax.experiments` with its name has a function `plan`, which takes the options of the same
    names as its arguments. The status is 1 when a replication is unhealthy or the experiment found a problem.
    """
    took = runtime.prepare(options.device)
    from linbet_jax.experiments import driver

    plan = importlib.import_module(f"linbet_jax.experiments.{options.experiment.replace('-', '_')}").plan
    experiment = plan(**{name: getattr(options, name) for name in inspect.signature(plan).parameters})
    reporter = TerminalReporter(quiet=options.quiet)
    dtype = "float32 and float64" if experiment.dtype == "both" else experiment.dtype
    reporter.say(f"device: {took} ({options.device}), {dtype}")
    full = " --full" if getattr(options, "full", False) else ""
    reporter.say(f"{experiment.name}{full}: {experiment.cost(took.count)}")
    if experiment.notice:
        reporter.say(experiment.notice)
    out = Path(options.out or f"linbet-{experiment.name}")
    outputs, files = driver.run(experiment, out, kind=took.kind, devices=str(took), reporter=reporter)
    reporter.show(outputs.text, files)
    for problem in outputs.problems:
        print(f"linbet: {problem}", file=sys.stderr)
    if outputs.unhealthy:
        print(f"linbet: {outputs.unhealthy} replications met a non-finite number; see {out}", file=sys.stderr)
    return 1 if outputs.unhealthy or outputs.problems else 0
