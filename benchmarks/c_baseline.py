"""The C baseline: `c_baseline.c` compiled for this machine, checked to play the same arms before it is timed."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from baseline import MismatchError, draw, first_difference, variates
from problems import Problem
from timing import Clock, timed

from linbet_jax import noise, theory
from linbet_jax.kernels.whitening import num_shifts, root_quadrature

__all__ = ["POLICIES", "CBaseline", "CompilerError", "Run", "load"]

SOURCE = Path(__file__).resolve().with_name("c_baseline.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd")
_PULLS = 320_000  # of a sample, about

Numbers = npt.NDArray[np.float64]


class CompilerError(RuntimeError):
    """Why there is no C baseline here, in one sentence."""


class Sizes(NamedTuple):
    """What the compilation is told: d, K, shifts of TOFU's root and MENU's k; those of S3 and S1 by default."""

    dim: int = 10
    arms: int = 20
    shifts: int = 24
    groups: int = 317


class Run(NamedTuple):
    """Arms played [T] and the pseudo-regret after the last pull [1]."""

    arms: npt.NDArray[np.int32]
    regret: Numbers


class _Bandit(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("arms", "shift", "scale", "gaps"))


@dataclasses.dataclass(frozen=True)
class CBaseline:
    """A compiler that compiles `c_baseline.c`.

    Attributes:
        compiler: its path.
        version: what it says of itself.
    """

    compiler: str
    version: str

    @property
    def told(self) -> str:
        """A sentence for whoever reads its times."""
        return (
            f"C: one replication after the other, on noise of NumPy's generator, compiled by {self.version} with"
            f" {' '.join(FLAGS)}."
        )

    def play(self, problem: Problem, drawn: Numbers) -> Run:
        """One replication of T pulls on standard variates [T].

        Raises:
            RuntimeError: more payoffs of TOFU are doubtful at a time than there is room for.
        """
        return self._player(problem)(drawn)

    def check(self, problem: Problem, seed: int = 0) -> None:
        """Plays one run on linbet_jax's noise and compares its arms with linbet_jax's.

        Raises:
            MismatchError: naming the first pull that differs.
        """
        differs = first_difference(problem, self.play(problem, variates(problem, seed)), seed)
        if differs is not None:
            raise MismatchError(f"{problem.name}: the C baseline plays another arm at pull {differs + 1}")

    def sample(self, problem: Problem, seeds: int, *, play: bool = True) -> Clock:
        """Seconds per pull of some runs, each on variates drawn for it with NumPy's generator; or of drawing alone."""
        law, generator, player = problem.bandit.noise, np.random.default_rng(0), self._player(problem)
        runs = max(1, min(seeds, _PULLS // problem.horizon))

        def work() -> None:
            for _ in range(runs):
                drawn = draw(law, generator, problem.horizon)
                if play:
                    player(drawn)

        clock = timed(work)
        return Clock(clock.wall / (runs * problem.horizon), clock.cpu / (runs * problem.horizon))

    def _player(self, problem: Problem) -> Callable[[Numbers], Run]:
        """From variates [T] to a run; tables that all replications share are made here."""
        bandit, (name, made) = problem.bandit, _TABLES[problem.policy](problem)
        assert bandit.arms is not None
        assert bandit.means is not None
        function = getattr(_compiled(self.compiler, _sizes(problem)), name)
        function.restype = ctypes.c_double
        held = [_array(each) for each in (bandit.arms, *_payoff(problem), bandit.means.max() - bandit.means)]
        tables = [each if isinstance(each, float) else _array(each) for each in made]
        ridge, horizon = ctypes.c_double(problem.params.ridge), problem.horizon

        def player(drawn: Numbers) -> Run:
            drawn, played = _array(drawn), np.empty(horizon, np.int32)
            told = _Bandit(*map(_pointer, held))  # made here, since a pointer alone keeps no array alive
            passed = [ctypes.c_double(each) if isinstance(each, float) else _pointer(each) for each in tables]
            regret = function(told, ridge, horizon, _pointer(drawn), *passed, _pointer(played))
            if math.isnan(regret):
                raise RuntimeError(f"{problem.name}: the C baseline has no room for so many doubtful payoffs")
            return Run(played, np.array([regret]))

        return player


@functools.lru_cache(maxsize=1)
def load() -> CBaseline:
    """The compiler, once it has compiled the file for the default sizes.

    Raises:
        CompilerError: there is none, or it cannot.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise CompilerError(f"there is no C compiler ({', '.join(COMPILERS)}) on the path")
    said = _run(compiler, "--version")
    found = CBaseline(compiler, next(iter(said.stdout.splitlines()), compiler).strip())
    _compiled(compiler, Sizes())
    return found


@functools.lru_cache(maxsize=32)
def _compiled(compiler: str, sizes: Sizes) -> ctypes.CDLL:
    """The library for these sizes; its file is gone once it is loaded."""
    told = [f"-D{name.upper()}={size}" for name, size in sizes._asdict().items()]
    try:
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "c_baseline.so"
            done = _run(compiler, *FLAGS, *told, "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-lm")
            if done.returncode:
                lines = done.stderr.split("\n")
                reason = next((line for line in lines if "error" in line), " ".join(done.stderr.split()))
                raise OSError(reason or f"it ends with status {done.returncode}")
            return ctypes.CDLL(str(library))
    except OSError as error:
        raise CompilerError(f"{compiler} does not compile {SOURCE.name} here: {error}") from error


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """What a command writes and how it ends.

    Raises:
        CompilerError: it cannot be started.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CompilerError(f"{command[0]} cannot be started: {error.strerror or error}") from error


def _sizes(problem: Problem) -> Sizes:
    sizes = Sizes(problem.bandit.dim, problem.bandit.num_arms)
    if problem.policy == "tofu":
        return sizes._replace(shifts=num_shifts(_condition(problem), np.float64))
    return sizes._replace(groups=problem.made.pulls_per_epoch) if problem.policy == "menu" else sizes


def _condition(problem: Problem) -> float:
    """The largest condition number that linbet_jax's TOFU covers on this problem: a power of 10."""
    spread = problem.bandit.dim + problem.horizon * problem.bandit.arm_norm**2 / min(problem.params.ridge, 1.0)
    return 10.0 ** math.ceil(math.log10(1.01 * spread))


def _array(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(values, np.float64)


def _pointer(values: npt.NDArray[Any]) -> ctypes.c_void_p:
    return values.ctypes.data_as(ctypes.c_void_p)


def _payoff(problem: Problem) -> tuple[Numbers, Numbers]:
    """Shift and scale [K] of payoff = shift + scale * variate."""
    law, means = problem.bandit.noise, problem.bandit.means
    assert means is not None
    if isinstance(law, noise.Pareto):
        return np.zeros_like(means), means * ((law.shape - 1.0) / law.shape)
    assert isinstance(law, noise.StudentT), f"no payoffs of the law {law.name}"
    return means, np.full_like(means, law.scale)


# Tables over t = 1..T, in the order in which C takes them -----------------------------------------------------------


def _first(params: Any) -> float:
    """The radius before the first update."""
    return params.radius_scale * theory.initial_radius(ridge=params.ridge, theta_norm=params.theta_norm)


def _radii(formula: Callable[..., Any], problem: Problem, updates: int) -> Numbers:
    """The radius before the first update and after each of the others, [updates + 1]."""
    params = problem.params
    constants = {"dim": problem.bandit.dim, **params._asdict()}
    after = formula(np.arange(1.0, updates + 1), **theory.arguments(formula, constants))
    return np.concatenate([[_first(params)], np.broadcast_to(params.radius_scale * after, updates)])


def _tofu(problem: Problem) -> tuple[str, tuple[Any, ...]]:
    constants = {"dim": problem.bandit.dim, **problem.params._asdict()}
    pulls = np.arange(1.0, problem.horizon + 1)
    level = theory.tofu_level(pulls, **theory.arguments(theory.tofu_level, constants))
    shifts, weights = root_quadrature(_condition(problem), _sizes(problem).shifts)
    ridge = problem.params.ridge
    radius = _radii(theory.tofu_radius, problem, problem.horizon)
    return "tofu", (ridge * shifts, math.sqrt(ridge) * weights, level, radius)


def _menu(problem: Problem) -> tuple[str, tuple[Any, ...]]:
    return "menu", (_radii(theory.menu_radius, problem, problem.horizon // problem.made.pulls_per_epoch),)


def _oful(problem: Problem) -> tuple[str, tuple[Any, ...]]:
    """R sqrt(log_det + 2 ln(1/delta)) + sqrt(lambda) S."""
    params, first = problem.params, _first(problem.params)
    columns = math.inf, params.radius_scale * params.noise_scale, -2.0 * math.log(params.delta), first
    level, factor, inner, outer = (np.full(problem.horizon, value) for value in columns)
    return "ridge_rounds", (level, first, factor, inner, outer)


def _crt(problem: Problem) -> tuple[str, tuple[Any, ...]]:
    """alpha_t sqrt(log_det + 2 ln(t (t + 1) / delta)) + alpha_t b sqrt(p) + sqrt(lambda) S."""
    params, first, pulls = problem.params, _first(problem.params), np.arange(1.0, problem.horizon + 1)
    alpha = theory.crt_level(pulls, raw_moment_bound=params.raw_moment_bound, epsilon=params.epsilon)
    factor = params.radius_scale * alpha
    inner = 2.0 * np.log(pulls * (pulls + 1) / params.delta)
    return "ridge_rounds", (
        alpha, first, factor, inner, factor * params.raw_moment_bound * math.sqrt(1 + params.epsilon) + first
    )  # fmt: skip


_TABLES: dict[str, Callable[[Problem], tuple[str, tuple[Any, ...]]]] = {
    "tofu": _tofu,
    "menu": _menu,
    "oful": _oful,
    "crt": _crt,
}
POLICIES = tuple(_TABLES)
