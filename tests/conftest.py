"""Settings shared by all tests: 64-bit floats on (the library itself never changes JAX's configuration), and markers.

The time-out of every test is pytest-timeout's `timeout` in pyproject.toml: a deadlock ends as a failure.
"""

import contextlib
import ctypes
import gc
import os
import signal
import sys
from pathlib import Path

import compiling  # noqa: F401  before JAX: it sets how programs are compiled
import jax
import numpy as np
import pytest

# Shells start background jobs with Ctrl-C ignored, and children inherit that: tests that send it want it heard.
signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_enable_x64", True)

gc.set_threshold(10_000, 10, 10)  # tracing makes many objects, few of them garbage: it takes a twentieth less

# Tests of more than 1.2 s of processor time, most of it compiling; `pytest --durations=0` measures them anew.
SLOW = set(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").split())
# Files whose tests start processes, open sockets or drive a browser.
IO = {
    "test_cli", "test_cluster", "test_packaging", "test_readme", "test_report_browser", "test_runtime",
    "test_sweep_kill",
}  # fmt: skip
# Files that take half a minute or more come first, so that the workers, which take a file each, end together.
LONG = [
    "test_policies", "test_simulator", "test_replay", "test_noise", "test_reproduce", "test_cluster", "test_bench",
    "test_readme", "test_kernels", "test_runtime", "test_coverage",
]  # fmt: skip


LIMIT = 850 * 2**20  # bytes in memory


def _policy_of(item):
    """The policy or case, options and law that a test is parametrised with; empty where it is with none."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "case_name" in params:  # "tofu-box", of test_replay.py
        return params["case_name"].split("-")[0]
    return " ".join(str(params[name]) for name in ("name", "options", "law") if params.get(name))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    first = {}  # place of the first test of a policy in a file
    places = []
    for place, item in enumerate(items):
        if f"{item.path.stem}::{item.originalname}" in SLOW:
            item.add_marker("slow")
        if item.path.stem in IO:
            item.add_marker("io")
        policy = _policy_of(item)  # its programs are traced once for all tests of a file, which follow each other
        early = LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG)
        here = first.setdefault(f"{item.path.stem} {policy}" if policy else item.nodeid, place)
        places.append(early * len(items) + here)
    items[:] = [items[number] for number in np.argsort(places, kind="stable")]


@pytest.fixture(autouse=True)
def bounded_memory():
    """Compiled programs are what a worker of the suite holds most of: above a limit it lets go of them."""
    yield
    with open("/proc/self/statm", encoding="ascii") as statm:
        held = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if held > LIMIT and "linbet_jax.simulation.launches" in sys.modules:
        sys.modules["linbet_jax.simulation.launches"]._PROGRAMS.clear()
        jax.clear_caches()
        with contextlib.suppress(OSError, AttributeError):  # what was let go of goes back to the system, with glibc
            ctypes.CDLL(None).malloc_trim(0)
