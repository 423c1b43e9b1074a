"""Traces are counted by chex where the simulator promises to compile once, and programs are compiled quickly."""

import contextlib

import chex
import jax
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


@contextlib.contextmanager
def _compiled(few):
    """Within the block JAX optimises programs little or fully, and so does the simulator, which has its own level."""
    before, level = jax.config.values["jax_disable_most_optimizations"], launches._LEVEL
    jax.config.update("jax_disable_most_optimizations", few)
    launches._LEVEL = 0 if few else 2
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
        launches._LEVEL = level


def quickly():
    """A block in which programs are compiled with few optimisations: for those that run once, and briefly."""
    return _compiled(few=True)


def compiled_fully():
    """A fixture, for tests about the bits of optimised programs, or of long runs, in a file that compiles quickly."""
    launches._PROGRAMS.clear()
    with _compiled(few=False):
        yield
    launches._PROGRAMS.clear()


def compiled_quickly():
    """A fixture, for tests whose programs are compared with nothing but an oracle: quick programs, and theirs alone."""
    launches._PROGRAMS.clear()
    with quickly():
        yield
    launches._PROGRAMS.clear()
