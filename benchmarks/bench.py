"""How fast linbet_jax runs here, beside plain NumPy and C loops: tables, and one JSON per run.

    python benchmarks/bench.py [--quick] [--scaling] [--only PART] [--compare OLD.json] [--out DIR]

`linbet bench` does the same. Exit status 1: a baseline plays other arms; 2: wrong input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from c_baseline import CBaseline

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one, under PYTHONSAFEPATH too

PARTS = ("kernels", "policies", "table")


SCRIPT = "python benchmarks/bench.py"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Wrong usage in one line."""
        self.exit(2, f"{_short(self.prog)}: error: {message}\n")


def _short(prog: str) -> str:
    """How errors name the program."""
    return "bench" if prog == SCRIPT else prog


def _parsed(argv: Sequence[str] | None, prog: str) -> argparse.Namespace:
    parser = _Parser(
        prog=prog,
        allow_abbrev=False,
        description="Times kernels, every policy on S1-S4 and, in the same process and in turn, plain NumPy runs and "
        "C loops that are first checked to play the same arms. Prints Markdown tables and writes one JSON per run. "
        "Several minutes.",
    )
    parser.add_argument("--quick", action="store_true", help="short horizons, fewer repeats: under a minute")
    parser.add_argument("--smoke", action="store_true", help="tiny runs that only show that it works; writes nothing")
    parser.add_argument(
        "--scaling", action="store_true", help="also growth in T, seeds, K, d and cores, with log-log pictures"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part alone; may be repeated")
    parser.add_argument("--baseline", metavar="FILE", help="the NumPy baseline (default: benchmarks/numpy_baseline.py)")
    parser.add_argument("--compare", metavar="OLD.json", help="also print new/old against the JSON of an earlier run")
    parser.add_argument("--out", metavar="DIR", default="linbet-bench", help="output folder (default ./linbet-bench)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None, *, prog: str = SCRIPT) -> int:
    """Measures, prints the tables and writes the results.

    Args:
        argv: the arguments; those of the process by default.
        prog: how help and errors name the command.
    """
    options = _parsed(argv, prog)
    for flag, path in (("--compare", options.compare), ("--baseline", options.baseline)):
        if path and not Path(path).exists():  # before anything heavy is imported
            print(f"{_short(prog)}: error: {flag} {path}: no such file", file=sys.stderr)
            return 2
    # One run on one core is what the baseline stands for; BLAS reads this when NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import baseline

    from linbet_jax.errors import InputError
    from linbet_jax.simulation.cores import usable_cores

    cores = usable_cores()
    _use(cores[:1])
    try:
        return _run(options, cores)
    except (InputError, baseline.MismatchError) as error:
        print(f"{_short(prog)}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    finally:
        _use(cores)


def _use(cores: Sequence[int]) -> None:
    """What is compared has one core; processes that measure several choose their own.

    With more at hand XLA shares out some operations of a single launch, which are too small to gain by it.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def _run(options: argparse.Namespace, cores: Sequence[int]) -> int:
    import baseline
    import report
    import scaling
    import suite

    from linbet_jax.errors import InputError
    from linbet_jax.simulation import runtime
    from linbet_jax.storage.results import write_json, write_text

    os.environ.setdefault(runtime.CACHE_SWITCH, "off")  # the time to compile is measured, not that to load
    device = runtime.prepare("cpu")

    def say(line: str) -> None:
        if not options.quiet:
            print(line, file=sys.stderr, flush=True)

    old = report.read(Path(options.compare)) if options.compare else None
    numpy = baseline.load(Path(options.baseline) if options.baseline else baseline.DEFAULT)
    out = Path(options.out)
    if not options.smoke:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {out}: {error.strerror or error}") from error

    loops, compiler = _loops()
    say(f"device: {device}; NumPy baseline: {numpy.path}. {compiler}")
    quick = options.quick or options.smoke
    parts = options.only or (["kernels", "table"] if quick else PARTS)
    plan = suite.Plan(tuple(parts), tuple(cores), quick, options.smoke, options.scaling)
    settings = {
        "parts": list(plan.parts),
        "quick": plan.quick,
        "scaling": plan.scaling,
        "baseline": numpy.path,
        "c": compiler,
        "load": round(os.getloadavg()[0], 2),
    }
    measurements = list(suite.run(plan, numpy, loops, say))
    results = report.document(measurements, settings)
    text = report.markdown(results)
    print(text)
    if old is not None:
        print("\n" + report.comparison(old, results))
    if options.smoke:
        return 0
    name = "bench-" + results["when"].replace(":", "").split("+")[0]
    files = [out / f"{name}.json", out / f"{name}.md"]
    write_json(files[0], results)
    write_text(files[1], text + "\n")
    if plan.scaling:
        files += scaling.draw(measurements, out)
    print()
    for path in files:
        print(path)
    return 0


def _loops() -> tuple[CBaseline | None, str]:
    """The C baseline, and a sentence on its compiler; or none, and why."""
    import c_baseline

    try:
        loops = c_baseline.load()
    except c_baseline.CompilerError as error:
        return None, f"C was not measured: {error}."
    return loops, loops.told


if __name__ == "__main__":
    raise SystemExit(main())
