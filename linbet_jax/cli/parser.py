"""The argument parser: the whole command line in one place, without importing anything heavy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from linbet_jax._version import __version__

__all__ = ["build_parser"]


class _Parser(argparse.ArgumentParser):
    """Wrong usage in one line on stderr, exit status 2."""

    def __init__(self, **settings: Any) -> None:
        """As argparse, without guessing abbreviated options."""
        settings |= {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter}
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """One line instead of the usage and a line."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of `linbet`; the parsed options name their command's module in `module`."""
    parser = _Parser(
        prog="linbet",
        description="Linear stochastic bandits with heavy-tailed payoffs: the experiments of Shao, Yu, King and Lyu "
        "(NeurIPS 2018).",
        epilog="Start with: linbet reproduce figure2",
    )
    parser.add_argument("--version", action="version", version=f"linbet_jax {__version__}")
    commands = _subcommands(parser, "command")
    reproduce = commands.add_parser(
        "reproduce", help="repeat an experiment of the paper", description="Repeat an experiment of the paper."
    )
    experiments = _subcommands(reproduce, "experiment")
    shared = _shared_options()
    experiments.add_parser(
        "figure2",
        parents=[shared],
        help="the four data sets, all policies, literal and tuned radii: picture, table, curves, manifest",
        description="Figure 2: MENU, MoM, TOFU, CRT and OFUL on S1-S4 at the paper's horizon, lambda and delta,\n"
        "with the papers' confidence radii and with radii scaled by one factor per policy and set, tuned on\n"
        "replications that the evaluation never uses. A killed run carries on where it was.",
    ).set_defaults(module="figure2")
    experiments.add_parser(
        "table1",
        parents=[shared],
        help="the four data sets' constants beside the paper's",
        description="Table 1: K, d, law, epsilon, b, c and the best arm's mean of S1-S4, computed, beside what\n"
        "the paper prints. It has no replications: --seeds, --tuning-seeds and --horizon change nothing.",
    ).set_defaults(module="table1")
    _add_sweep(commands)
    _add_status(commands)
    _add_bench(commands)
    commands.add_parser(
        "list",
        help="policies with their options, noise laws, data sets",
        description="Policies with their options, noise laws and data sets.",
    ).set_defaults(module="listing")
    return parser


def _add_sweep(commands: Any) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="a grid of policies, sets, laws and parameters over many seeds, from a TOML file",
        description="Runs every cell of a sweep file and keeps each, as soon as it is finished, as one Parquet file.\n"
        "The same command again computes what is missing and nothing else: after a kill, with more seeds, with\n"
        "more cells. See scripts/sweeps/ for files to start from.",
    )
    sweep.add_argument("file", metavar="FILE.toml", help="the sweep file")
    sweep.add_argument("--out", metavar="DIR", help="output folder (default ./linbet-NAME_OF_FILE)")
    sweep.add_argument(
        "--set",
        action="append",
        metavar="PATH=VALUE",
        help="another value for a field of the file, policies.tofu.delta=0.05 for example; may be repeated",
    )
    sweep.add_argument(
        "--dry-run",
        action="store_true",
        help="build and check everything, print cells, compiles, seed-pulls, bytes and a rough time, run nothing",
    )
    sweep.add_argument("--device", choices=("auto", "cpu", "gpu"), help="instead of the file's device")
    sweep.add_argument("--dtype", choices=("float64", "float32"), help="instead of the file's dtype")
    sweep.add_argument("--quiet", action="store_true", help="print nothing but errors")
    cluster = sweep.add_argument_group(
        "cluster",
        "Through Dask (extra linbet_jax[cluster], or [slurm]); the numbers are those of a run without. Traffic is\n"
        "unencrypted pickle: trusted networks only, or tls:// with certificates from Dask's configuration.",
    )
    cluster.add_argument(
        "--cluster",
        metavar="WHERE",
        help="local or local:N (worker processes here), tcp://HOST:PORT (a Dask scheduler), slurm (jobs of a queue)",
    )
    cluster.add_argument("--queue", metavar="NAME", help="slurm: the partition")
    cluster.add_argument("--account", metavar="NAME", help="slurm: who pays")
    cluster.add_argument("--jobs", type=_positive, metavar="N", help="slurm: jobs, each one worker (default 1)")
    cluster.add_argument("--cores", type=_positive, metavar="N", help="slurm: cores of a job (default 1)")
    cluster.add_argument("--memory", metavar="SIZE", help="slurm: memory of a job (default 4GB)")
    cluster.add_argument("--walltime", metavar="TIME", help="slurm: time of a job (default 01:00:00)")
    sweep.set_defaults(module="sweep")


def _add_status(commands: Any) -> None:
    status = commands.add_parser(
        "status",
        help="how far a sweep is: done, running, failed, to do, time left",
        description="How far the sweep in a folder is, also while it runs. Exit status 1 when a cell failed or a\n"
        "replication met a non-finite number.",
    )
    status.add_argument("folder", metavar="DIR", help="the sweep's folder")
    status.add_argument("--json", action="store_true", help="the same for programs")
    status.set_defaults(module="status")


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser(
        "bench",
        help="how fast it runs here, beside plain NumPy; tables and one JSON per run",
        description="Times kernels, every policy on S1-S4 and, in the same process and in turn, plain NumPy runs that\n"
        "are first checked to play the same arms. Prints Markdown tables and writes one JSON per run. A few minutes.",
    )
    bench.add_argument("--quick", action="store_true", help="short horizons, fewer repeats: under a minute")
    bench.add_argument("--scaling", action="store_true", help="also growth in T, seeds, K and d, with log-log pictures")
    bench.add_argument(
        "--only",
        action="append",
        choices=("kernels", "policies", "table"),
        help="measure this part alone; may be repeated",
    )
    bench.add_argument(
        "--baseline", metavar="FILE", help="the NumPy baseline (default ./benchmarks/numpy_baseline.py, if there)"
    )
    bench.add_argument("--compare", metavar="OLD.json", help="also print new/old against an earlier run's results")
    bench.add_argument("--out", metavar="DIR", help="output folder (default ./linbet-bench)")
    bench.add_argument("--quiet", action="store_true", help="no progress on stderr")
    bench.set_defaults(module="bench")


def _subcommands(parser: argparse.ArgumentParser, name: str) -> Any:
    return parser.add_subparsers(title=f"{name}s", metavar=name.upper(), required=True, parser_class=_Parser)


def _shared_options() -> argparse.ArgumentParser:
    """Options of every `reproduce` experiment."""
    shared = _Parser(add_help=False)
    shared.add_argument("--seeds", type=_positive, default=10, metavar="N", help="replications (default 10)")
    shared.add_argument(
        "--tuning-seeds",
        type=_positive,
        default=10,
        metavar="N",
        help="replications that choose the scale (default 10)",
    )
    shared.add_argument("--out", metavar="DIR", help="output folder (default ./linbet-EXPERIMENT; table1: none)")
    shared.add_argument("--sets", type=_names, metavar="S1,S3", help="data sets to run (default: all four)")
    shared.add_argument(
        "--horizon",
        type=_positive,
        metavar="T",
        help="pulls, instead of the paper's (a quick look: marked in every output as not the paper's)",
    )
    shared.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="floating-point type (default float64)"
    )
    shared.add_argument(
        "--device",
        choices=("auto", "cpu", "gpu"),
        default="auto",
        help="where to compute (default auto: GPU if there is one)",
    )
    shared.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return shared


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if not 1 <= value <= 10**9:
        limit = "at least 1" if value < 1 else "at most 1000000000"
        raise argparse.ArgumentTypeError(f"must be {limit}, got {value}")
    return value


def _names(text: str) -> Sequence[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"must name at least one data set, got {text!r}")
    return list(dict.fromkeys(names))
