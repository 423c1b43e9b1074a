"""How often the simulator traces: promises to compile once are counted by chex."""

import contextlib

import chex
import pytest

from linbet_jax.simulation import launches


@contextlib.contextmanager
def programs_at_most(count):
    """Within the block the simulator, its programs forgotten, traces so many; one more is an AssertionError."""
    launches._PROGRAMS.clear()
    chex.clear_trace_counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launches, "_run_blocks", chex.assert_max_traces(launches._run_blocks, count))
        yield
