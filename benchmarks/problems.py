"""What is timed: a policy on one of the paper's data sets at a horizon, in float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from timing import Clock, timed

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.bandits.datasets import dataset
from linbet_jax.policies import make_policy
from linbet_jax.policies.policy import Policy
from linbet_jax.simulation.results import Result
from linbet_jax.simulation.simulator import simulate

__all__ = ["KEY", "Problem"]

KEY = 2018  # of every run here


@dataclasses.dataclass(frozen=True)
class Problem:
    """A policy with the paper's settings on a bandit.

    Attributes:
        policy: its name.
        bandit: what is played.
        horizon: T, pulls.
        made: the policy itself.
        params: its hyperparameters.
    """

    policy: str
    bandit: LinearBandit
    horizon: int
    made: Policy
    params: Any

    @classmethod
    def of(cls, policy: str, data_set: str, horizon: int) -> Problem:
        """On S1 to S4."""
        return cls.on(policy, dataset(data_set), horizon)

    @classmethod
    def on(cls, policy: str, bandit: LinearBandit, horizon: int) -> Problem:
        """On any bandit."""
        made, params = make_policy(policy, bandit, horizon=horizon)
        return cls(policy, bandit, horizon, made, params)

    @property
    def name(self) -> str:
        """As measurements are called."""
        return f"{self.policy}/{self.bandit.name}/T={self.horizon}"

    def run(self, seeds: int, *, horizon: int | None = None, **options: Any) -> Result:
        """Plays seeds 0, 1, ... and waits for the result; a shorter ``horizon`` stops there."""
        return simulate(
            self.made,
            self.params,
            self.bandit,
            horizon=self.horizon if horizon is None else horizon,
            num_seeds=seeds,
            key=jax.random.key(KEY),
            **options,
        )

    def warm(self, **options: Any) -> float:
        """Compiles what `sample` runs, by one seed of it; a tenth of a long run has the same program. The seconds."""
        horizon = self.horizon // 10 if self.horizon >= 100_000 else None
        return self.run(1, horizon=horizon, **options).compile_seconds

    def sample(self, seeds: int, **options: Any) -> Clock:
        """Wall and CPU seconds per seed-pull of one run, host work included, compiling not."""
        compiled: list[float] = []
        while True:
            clock = timed(lambda: compiled.append(self.run(seeds, **options).compile_seconds))
            if compiled[-1] == 0.0:
                return Clock(clock.wall / (seeds * self.horizon), clock.cpu / (seeds * self.horizon))
