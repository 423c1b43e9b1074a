"""Floors: the bytes of a policy's state, and one pass over that many bytes in memory."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from problems import Problem
from timing import timed

from linbet_jax.policies.policy import state_bytes

__all__ = ["Floor", "floor"]

BLOCK = 16  # seeds whose states lie side by side: the simulator's block on CPU
_PASSES = 2_000


class Floor(NamedTuple):
    """Bytes of one replication's state in float64, and seconds per seed-pull of reading and writing them once."""

    state_bytes: int
    seconds: float


def floor(problem: Problem) -> Floor:
    """Measures one pass, every number read, changed and written, over the states of one block of seeds."""
    kept = _state_bytes(problem)
    states = np.ones(BLOCK * kept // 8)

    def passes() -> None:
        for _ in range(_PASSES):
            np.multiply(states, 0.999, out=states)

    passes()
    states[:] = 1.0
    return Floor(kept, timed(passes).wall / _PASSES / BLOCK)


def _state_bytes(problem: Problem) -> int:
    """Of what the simulator carries from pull to pull."""
    policy, bandit = problem.made, problem.bandit
    assert bandit.arms is not None
    params = jax.tree.map(lambda _: jax.ShapeDtypeStruct((), jnp.float64), problem.params)
    arms = jax.ShapeDtypeStruct(bandit.arms.shape, jnp.float64)
    return state_bytes(policy, arms, params)
