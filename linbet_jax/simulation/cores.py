"""The cores of this machine that a process may use; asked before JAX is imported, which starts threads on them."""

from __future__ import annotations

import os


def usable_cores() -> list[int]:
    """Numbers of the cores that this process may use; where the system does not say which, as many as there are."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
