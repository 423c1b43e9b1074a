"""`linbet bench`: runs the checkout's benchmarks, which are no part of the installed package."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from linbet_jax.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def run(options: argparse.Namespace) -> int:
    """As ``python benchmarks/bench.py`` with the same arguments.

    Raises:
        InputError: the package is not a checkout's.
    """
    if not (FOLDER / "bench.py").is_file():
        raise InputError(
            "the benchmarks are not part of the installed package; in a checkout of the sources run: "
            "python benchmarks/bench.py"
        )
    sys.path.insert(0, str(FOLDER))
    status: int = importlib.import_module("bench").main(options.arguments, prog="linbet bench")
    return status
