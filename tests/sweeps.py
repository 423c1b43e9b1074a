"""Helpers of the sweep tests: a stand-in executor that computes without compiling, and a process to fork runs from.

The stand-in's numbers depend on (cell, seed, pull) alone, as the simulator's do. The server imports JAX once and
forks a child for every run before any device is started, so that a run costs a fraction of a second.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent


def rows(cell, start, stop, record_at):
    """Regret and payoff [n, R] of a cell's seeds: increasing, of many digits, and a function of (cell, seed, pull)."""
    word = int(hashlib.sha256(cell.encode()).hexdigest()[:8], 16)
    seeds, pulls = np.arange(start, stop)[:, None], np.asarray(record_at)[None, :]
    regret = pulls * (1.0 + np.sqrt((word % 1000) + seeds)) / 7.0
    return regret, 4.0 * pulls - regret


def manifest(folder):
    """Of a run."""
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


class StandIn:
    """An executor that computes nothing real.

    Args:
        failing: policies (by source) whose cells raise.
        ill: a seed that is unhealthy in every cell.
        pause: seconds that a part takes.
        hold: parts after which the next one begins and never ends.
        lanes, workers: as an executor's.
        kind: the device's name.
    """

    name = "stand-in"
    platform = "cpu"
    devices = "stand-in"

    def __init__(self, *, failing=(), ill=None, pause=0.0, hold=None, lanes=1, workers=1, kind="cpu"):
        self.failing, self.ill, self.pause, self.hold = failing, ill, pause, hold
        self.lanes, self.workers, self.kind = lanes, workers, kind
        self.parts = []

    def run(self, parts, *, wanted, advance):
        from linbet_jax.sweep import PartOutcome

        for part in parts:
            if not wanted(part):
                continue
            advance(part, 0)
            while len(self.parts) == self.hold:
                time.sleep(0.01)
            self.parts.append(part)
            time.sleep(self.pause)
            result = {"cells": {c["id"]: self.cell(part, c) for c in part.spec["cells"]}}
            yield part, PartOutcome({**result, "compile_seconds": 0.5, "run_seconds": 0.25}, None, self.name)

    def cell(self, part, cell):
        if cell["policy"]["source"] in self.failing:
            return {"error": "FloatingPointError: it broke"}
        start, stop = part.spec["start"], part.spec["stop"]
        regret, payoff = rows(cell["id"], start, stop, part.spec["record_at"])
        health = np.zeros(stop - start, np.int64)
        if self.ill is not None and start <= self.ill < stop:
            health[self.ill - start] = 3
            regret[self.ill - start] = np.nan
        facts = {"facts": {"k": 2.0}, "notes": ["a note"], "block_size": part.spec["block_size"], "device": "cpu"}
        return {
            "rounds": np.asarray(part.spec["record_at"]),
            "regret": regret,
            "payoff": payoff,
            "health": health,
            **facts,
            "prng": "threefry2x32",
            "reruns": 1,
        }


class Server:
    """Runs `linbet` in children of one process that has imported everything already."""

    def __init__(self, cache):
        command = [sys.executable, str(TESTS / "sweeps.py")]
        environment = {
            **os.environ,
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, **question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *argv, log, pause=0.0, hold=None, limit=None, real=False):
        """Starts `linbet argv`, with a stand-in executor unless `real`; returns the child's process id."""
        return self.ask(argv=[str(a) for a in argv], log=str(log), pause=pause, hold=hold, limit=limit, real=real)

    def wait(self, child):
        """The child's exit status; minus the signal that ended it."""
        return self.ask(wait=child)

    def run(self, *argv, log, **more):
        """Runs `linbet argv` to its end; returns its exit status and what it wrote."""
        status = self.wait(self.start(*argv, log=log, **more))
        return status, Path(log).read_text(encoding="utf-8")

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()


def _child(question):
    out = os.open(question["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(out, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if question["limit"] is not None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file beyond the limit is an error then, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (question["limit"], question["limit"]))
    from linbet_jax import cli
    from linbet_jax.sweep import executors

    if question["real"]:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # one device: 16 seeds of a cell are a part
        run_part, begun = executors.run_part, []

        def held(*arguments, **more):
            while len(begun) == question["hold"]:
                time.sleep(0.01)
            begun.append(1)
            return run_part(*arguments, **more)

        executors.run_part = held
    else:
        executors.InProcess = lambda: StandIn(pause=question["pause"], hold=question["hold"])
    status = cli.main(question["argv"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _serve():
    import pyarrow.parquet  # noqa: F401

    from linbet_jax.cli import status, sweep  # noqa: F401
    from linbet_jax.storage import provenance

    provenance.code_digest("linbet_jax.sweep.work")  # once, and not in every child
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            _, status_word = os.waitpid(question["wait"], 0)
            print(os.waitstatus_to_exitcode(status_word), flush=True)
            continue
        child = os.fork()
        if child == 0:
            try:
                _child(question)
            finally:
                os._exit(70)
        print(child, flush=True)


if __name__ == "__main__":
    _serve()
