"""The NumPy baseline: a file of plain single-run policies, checked to play the same arms before it is timed."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from problems import KEY, Problem
from timing import Clock, timed

from linbet_jax import noise
from linbet_jax.errors import InputError
from linbet_jax.noise.words import normals
from linbet_jax.simulation.simulator import simulate

__all__ = ["DEFAULT", "Baseline", "MismatchError", "Problem", "draw", "first_difference", "load", "variates"]

DEFAULT = Path(__file__).resolve().with_name("numpy_baseline.py")
_LONG = 20_000
_BLOCK_SECONDS = 0.15  # of rounds timed at each sampled t


class MismatchError(RuntimeError):
    """The baseline and linbet_jax played different arms: neither may be timed against the other."""


@dataclasses.dataclass(frozen=True)
class Baseline:
    """A loaded baseline file."""

    module: Any
    path: str

    def play(self, problem: Problem, seed: int) -> Any:
        """One run of T rounds on the noise that linbet_jax's replication ``seed`` meets; arms and regret [T]."""
        bandit, kind = problem.bandit, self._choices(problem)
        more = () if kind is None else (choices(problem, kind, seed),)
        told = (self._constants(problem), variates(problem, seed), self._payoff(bandit.noise))
        return self.module.POLICIES[problem.policy](bandit.arms, bandit.means, *told, *more)

    def _choices(self, problem: Problem) -> str | None:
        """The kind of random numbers that the policy chooses by; None for most."""
        kinds: dict[str, str] = getattr(self.module, "CHOICES", {})
        return kinds.get(problem.policy)

    def sample(self, problem: Problem, seed: int = 0) -> Clock:
        """Seconds per pull of one run, drawing as many variates with NumPy's own generator included."""
        variates(problem, seed)  # kept from here on: what linbet_jax drew is not timed
        law, generator, kind = problem.bandit.noise, np.random.default_rng(seed), self._choices(problem)
        if kind is not None:
            choices(problem, kind, seed)

        def run() -> None:
            draw(law, generator, problem.horizon)
            if kind == "normals":
                generator.standard_normal((problem.horizon, problem.bandit.dim))
            elif kind == "uniforms":
                generator.random((problem.horizon, 2))
            self.play(problem, seed)

        clock = timed(run)
        return Clock(clock.wall / problem.horizon, clock.cpu / problem.horizon)

    def check(self, problem: Problem, seed: int = 0) -> None:
        """Plays one run and compares its arms with linbet_jax's.

        Raises:
            MismatchError: naming the first pull that differs.
        """
        differs = first_difference(problem, self.play(problem, seed), seed)
        if differs is not None:
            raise MismatchError(f"{problem.name}: the NumPy baseline plays another arm at pull {differs + 1}")

    def sample_rounds(self, problem: Problem, at: Sequence[int], seed: int = 0) -> Clock:
        """Seconds per pull of a whole run of TOFU, from blocks of rounds timed at several t and integrated over t.

        The history before each block is linbet_jax's own run. The arms of the blocks are compared with it.

        Args:
            problem: of the policy "tofu".
            at: increasing rounds t at which a block begins.
            seed: the replication.

        Raises:
            MismatchError: naming the first pull that differs.
        """
        bandit, payoff = problem.bandit, self._payoff(problem.bandit.noise)
        assert bandit.means is not None
        played, payoffs, drawn = (*history(problem, seed), variates(problem, seed))
        nodes: list[tuple[float, Clock]] = []
        for start in at:
            policy = self.module.Tofu(bandit.arms, self._constants(problem))
            policy.load(played[:start], payoffs[:start])
            wall, cpu, t = time.perf_counter(), time.process_time(), start
            while t < problem.horizon and (t == start or time.perf_counter() - wall < _BLOCK_SECONDS):
                arm = policy.select()
                if arm != played[t]:
                    raise MismatchError(f"{problem.name}: the NumPy baseline plays another arm at pull {t + 1}")
                policy.observe(arm, payoff(drawn[t], bandit.means[arm]))
                t += 1
            rounds = t - start
            clock = Clock((time.perf_counter() - wall) / rounds, (time.process_time() - cpu) / rounds)
            nodes.append(((start + t) / 2, clock))
        times = [t for t, _ in nodes]

        def mean(costs: list[float]) -> float:
            """The mean over t = 0..T of the piecewise linear curve through the blocks, held constant at its ends."""
            ends = [0.0, *times, float(problem.horizon)]
            return float(np.trapezoid([costs[0], *costs, costs[-1]], ends)) / problem.horizon

        return Clock(mean([clock.wall for _, clock in nodes]), mean([clock.cpu for _, clock in nodes]))

    def _constants(self, problem: Problem) -> Any:
        params = problem.params._asdict()
        known = {field.name for field in dataclasses.fields(self.module.Constants)}
        told = {name: value for name, value in params.items() if name in known}
        return self.module.Constants(**{"delta": 0.1, **told, "horizon": problem.horizon})

    def _payoff(self, law: noise.PayoffLaw) -> Any:
        if isinstance(law, noise.Pareto):
            return self.module.pareto(law.shape)
        if isinstance(law, (noise.StudentT, noise.Gaussian)):
            return self.module.additive(getattr(law, "scale", getattr(law, "std", 1.0)))
        raise InputError(f"the NumPy baseline knows no payoffs of the law {law.name}")


def load(path: Path = DEFAULT) -> Baseline:
    """The baseline file.

    Raises:
        InputError: it cannot be loaded, or is no baseline.
    """
    if not path.is_file():
        raise InputError(f"--baseline {path}: no such file")
    spec = importlib.util.spec_from_file_location("linbet_numpy_baseline", path)
    if spec is None or spec.loader is None:
        raise InputError(f"--baseline {path}: not a Python file")
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"--baseline {path}: {type(error).__name__}: {error}") from error
    missing = [name for name in ("POLICIES", "Constants", "Tofu", "additive", "pareto") if not hasattr(module, name)]
    if missing:
        raise InputError(f"--baseline {path}: has no {missing[0]}")
    return Baseline(module, str(path))


def draw(law: noise.PayoffLaw, generator: np.random.Generator, pulls: int) -> npt.NDArray[np.float64]:
    """Standard variates of the law as a NumPy program draws them."""
    if isinstance(law, noise.StudentT):
        return generator.standard_t(law.df, pulls)
    if isinstance(law, noise.Pareto):
        return 1 + generator.pareto(law.shape, pulls)
    return generator.standard_normal(pulls)


@functools.lru_cache(maxsize=32)
def _variates(law: Any, horizon: int, seed: int) -> npt.NDArray[np.float64]:
    """The standard variates [T] of replication ``seed``, by the rule of `linbet_jax.simulation.replication`."""

    def draw(pulls: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(KEY), seed), 0)
        return noise.variates(law, key, jnp.float64)(pulls)

    return np.asarray(jax.jit(draw)(jnp.arange(1, horizon + 1, dtype=jnp.int32)))


def variates(problem: Problem, seed: int) -> npt.NDArray[np.float64]:
    """The standard noise variates [T] that replication ``seed`` meets."""
    law: Any = problem.bandit.noise  # hashable, which its protocol does not say
    return _variates(law, problem.horizon, seed)


@functools.lru_cache(maxsize=8)
def _choices(kind: str, dim: int, horizon: int, seed: int) -> npt.NDArray[np.float64]:
    chosen = jax.random.fold_in(jax.random.fold_in(jax.random.key(KEY), seed), 1)

    def draw(pull: jax.Array) -> jax.Array:
        key = jax.random.fold_in(chosen, pull)
        return normals(key, dim, jnp.float64) if kind == "normals" else jax.random.uniform(key, (2,), jnp.float32)

    return np.asarray(jax.jit(jax.vmap(draw))(jnp.arange(1, horizon + 1)), np.float64)


def choices(problem: Problem, kind: str, seed: int) -> npt.NDArray[np.float64]:
    """The random numbers by which replication ``seed`` chooses: ``"normals"`` [T, d] or ``"uniforms"`` [T, 2]."""
    return _choices(kind, problem.bandit.dim, problem.horizon, seed)


def history(problem: Problem, seed: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Arms and payoffs [T] of replication ``seed`` as linbet_jax plays it in float64."""
    trace = _trace(problem, seed)
    return trace.arms[0], np.asarray(trace.payoffs[0], np.float64)


_TRACES: dict[tuple[str, int], Any] = {}


def _trace(problem: Problem, seed: int) -> Any:
    identity = (problem.name, seed)
    if identity not in _TRACES:
        _TRACES[identity] = simulate(
            problem.made,
            problem.params,
            problem.bandit,
            horizon=problem.horizon,
            seeds=[seed],
            key=jax.random.key(KEY),
            trace=True,
            dtype="float64",
            num_records=1,
            devices=jax.local_devices()[:1],
            block_size=1 if problem.horizon > _LONG else None,  # a block is padded: wasted on a long run
        ).trace
    return _TRACES[identity]


def first_difference(problem: Problem, run: Any, seed: int) -> int | None:
    """The first pull (from 0) at which a baseline's run departs from linbet_jax's arms; None when it never does."""
    played, _ = history(problem, seed)
    different = np.flatnonzero(np.asarray(run.arms) != played)
    if different.size:
        return int(different[0])
    gaps = problem.bandit.means.max() - problem.bandit.means if problem.bandit.means is not None else np.zeros(0)
    regret = float(np.sum(gaps[played]))
    if not math.isclose(float(run.regret[-1]), regret, rel_tol=1e-9, abs_tol=1e-9):
        return problem.horizon - 1
    return None
