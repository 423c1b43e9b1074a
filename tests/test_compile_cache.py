"""The command line's compile cache: filled by a first process, used by a second, switched off by the environment."""

import os
import pwd
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from linbet_jax.simulation import runtime

SCRIPT = textwrap.dedent(
    """
    import jax
    from linbet_jax.simulation import runtime
    runtime.prepare("cpu")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
    import linbet_jax as lb
    bandit = lb.dataset("S3")
    policy, params = lb.make_policy("oful", bandit, horizon=50)
    result = lb.simulate(policy, params, bandit, horizon=50, num_seeds=2, key=jax.random.key(0))
    print(repr(float(result.regret.sum())), hits.count("/jax/compilation_cache/cache_hits"))
    """
)


def run(tmp_path, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "LINBET_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**kept, "XDG_CACHE_HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    regret, hits = done.stdout.split()
    return regret, int(hits)


@pytest.mark.timeout(280)
def test_a_second_process_compiles_from_the_cache(tmp_path):
    first = run(tmp_path)
    stored = list((tmp_path / "linbet_jax" / "compiled").iterdir())
    assert stored
    second = run(tmp_path)
    assert second[0] == first[0]
    assert second[1] > first[1]
    off = run(tmp_path, LINBET_COMPILE_CACHE="off")
    assert off == (first[0], 0)


def test_off_leaves_no_folder(tmp_path):
    run(tmp_path, LINBET_COMPILE_CACHE="off")
    assert not (tmp_path / "linbet_jax").exists()


def test_the_cache_is_in_the_users_folder_or_nowhere(tmp_path, monkeypatch):
    monkeypatch.delenv(runtime.CACHE_SWITCH, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert runtime.cache_folder() == tmp_path / "linbet_jax" / "compiled"
    for not_absolute in ("", "cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", not_absolute)
        assert runtime.cache_folder() == Path("/home/someone/.cache/linbet_jax/compiled")

    def unknown(user):
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME")
    assert runtime.cache_folder() is None  # not a folder called ~ in the working directory
