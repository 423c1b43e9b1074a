"""`linbet reproduce` for every experiment that is a study: one module of `linbet_jax.reproduce` each."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from linbet_jax import runtime
from linbet_jax.cli.progress import Reporter

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Runs the experiment named in the options and prints its text and files.

    The options hold `experiment` (the module's name in `linbet_jax.reproduce`), those that all studies share, and in
    `own` the names of the experiment's own ones, which are passed to its `plan`.

    Returns:
        1 when a replication is unhealthy or the experiment found a problem, else 0.
    """
    took = runtime.prepare(options.device)
    experiment = importlib.import_module(f"linbet_jax.reproduce.{options.experiment}")
    name = options.experiment.replace("_", "-")
    chosen = {option: getattr(options, option) for option in getattr(options, "own", ())}
    if hasattr(options, "dtype"):
        chosen["dtype"] = options.dtype
    plan = experiment.plan(seeds=options.seeds, full=options.full, **chosen)
    reporter = Reporter(quiet=options.quiet)
    reporter.say(f"device: {took} ({options.device}), {chosen.get('dtype', 'float32 and float64')}")
    reporter.say(f"{name}{' --full' if options.full else ''}: {plan.cost.sentence(took.count)}")
    out = Path(options.out or f"linbet-{name}")
    outcome = experiment.reproduce(plan, out, kind=took.kind, devices=str(took), reporter=reporter)
    if not options.quiet:
        print(outcome.text)
        print()
        for path in outcome.files:
            print(path)
    for problem in outcome.problems:
        print(f"linbet: {problem}", file=sys.stderr)
    if outcome.unhealthy:
        print(f"linbet: {outcome.unhealthy} replications met a non-finite number; see {out}", file=sys.stderr)
    return 1 if outcome.unhealthy or outcome.problems else 0
