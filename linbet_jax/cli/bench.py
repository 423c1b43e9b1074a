"""`linbet bench`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Measures, prints the tables and writes the results; 1 when the NumPy baseline plays other arms."""
    # One run on one core is what the baseline stands for; BLAS reads this when NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from linbet_jax import runtime
    from linbet_jax.cli.progress import Reporter

    os.environ.setdefault(runtime.CACHE_SWITCH, "off")  # the time to compile is measured, not that to load
    took = runtime.prepare("cpu")
    from linbet_jax.bench import baseline, report, scaling, suite
    from linbet_jax.errors import InputError
    from linbet_jax.results import write_json, write_text

    parts = tuple(options.only or (suite.QUICK_PARTS if options.quick else suite.PARTS))
    old = report.read(Path(options.compare)) if options.compare else None
    found = baseline.load(Path(options.baseline) if options.baseline else None)
    out = Path(options.out or "linbet-bench")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror or error}") from error

    reporter = Reporter(quiet=options.quiet)
    reporter.say(f"device: {took}; NumPy baseline: {found.path if found else 'none'}")
    plan = suite.Plan(parts=parts, quick=options.quick, scaling=options.scaling)
    settings = {
        "parts": list(parts),
        "quick": plan.quick,
        "scaling": plan.scaling,
        "baseline": found.path if found else None,
        "load": round(os.getloadavg()[0], 2),
    }
    try:
        measurements = list(suite.run(plan, found, reporter.say))
    except baseline.MismatchError as error:
        print(f"linbet: error: {error}", file=sys.stderr)
        return 1
    held = report.document(measurements, settings)
    text = report.markdown(held)
    name = "bench-" + held["when"].replace(":", "").split("+")[0]
    files = [out / f"{name}.json", out / f"{name}.md"]
    write_json(files[0], held)
    write_text(files[1], text + "\n")
    if plan.scaling:
        files += scaling.draw(measurements, out)
    print(text)
    if old is not None:
        print("\n" + report.comparison(old, held))
    print()
    for path in files:
        print(path)
    return 0
