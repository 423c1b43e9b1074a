"""`linbet report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def run(options: argparse.Namespace) -> int:
    """Writes a sweep's report and prints the files; 1, with the reason, unless every cell is done and healthy."""
    from linbet_jax.storage.results import sweep_manifest

    sweep_manifest(Path(options.folder))  # before what draws is imported: a wrong folder is told at once
    from linbet_jax.cli.progress import TerminalReporter
    from linbet_jax.report.build import write_report

    reporter = TerminalReporter(quiet=options.quiet)
    outcome = write_report(options.folder, options.out, formats=options.format, panels=options.panels, say=reporter.say)
    if not options.quiet:
        for path in outcome.files:
            print(path)
    for problem in outcome.problems:
        print(f"linbet: {options.folder}: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0
