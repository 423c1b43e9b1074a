"""Measurements in a process of their own: pinned to given cores, with its own peak of memory.

`Worker` starts this file with the cores as its argument and talks to it in lines of JSON, so that runs of several
workers can be interleaved without compiling anew.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from timing import Clock

import linbet_jax

__all__ = ["Worker"]


class Worker:
    """A process on the given cores, one JAX CPU device for each. Use as a context manager."""

    def __init__(self, cores: Sequence[int]) -> None:
        """Starts it; JAX is imported in the background."""
        homes = [Path(__file__).resolve().parent, Path(linbet_jax.__file__).resolve().parents[1]]
        path = os.pathsep.join([*map(str, homes), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, __file__, ",".join(map(str, cores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        )

    def __enter__(self) -> Worker:
        """Nothing more to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the process."""
        if error is not None:
            self._process.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, policy: str, data_set: str, horizon: int, seeds: int) -> dict[str, Any]:
        """One run; wall and CPU seconds per seed-pull, seconds of compiling, and the process's peak memory so far.

        Raises:
            RuntimeError: the process died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([policy, data_set, horizon, seeds]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process measuring {policy} on {data_set} ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def sample(self, policy: str, data_set: str, horizon: int, seeds: int) -> Clock:
        """Seconds per seed-pull of one run."""
        answer = self.run(policy, data_set, horizon, seeds)
        return Clock(answer["wall"], answer["cpu"])


def _serve(cores: list[int]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    import jax

    jax.config.update("jax_enable_x64", True)
    from problems import Problem

    from linbet_jax.simulation import runtime

    runtime.set_up_cpu(len(cores))

    for line in sys.stdin:
        policy, data_set, horizon, seeds = json.loads(line)
        problem = Problem.of(policy, data_set, horizon)
        compiled = problem.warm()
        clock = problem.sample(seeds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        answer = {"wall": clock.wall, "cpu": clock.cpu, "compile": compiled, "peak_bytes": peak}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve([int(core) for core in sys.argv[1].split(",")])
