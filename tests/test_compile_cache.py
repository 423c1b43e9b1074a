"""The command line's compile cache: filled by a first process, used by a second, switched off by the environment."""

import json
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
    policy, params = lb.make_policy("uniform", bandit, horizon=50)
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
    off = run(tmp_path / "other", LINBET_COMPILE_CACHE="off")
    assert off == (first[0], 0)
    assert not (tmp_path / "other").exists()  # no folder either


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


SET_UP = textwrap.dedent(
    """
    import json, logging, os, sys
    import jax
    import linbet_jax as lb
    said = []
    class Kept(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
    logging.getLogger("linbet_jax").addHandler(Kept())
    logging.getLogger("linbet_jax").setLevel(logging.INFO)
    def set_up(choice):
        try:
            place = lb.set_up_cpu(compile_cache=choice)
        except ValueError as error:
            return str(error)
        return [place and str(place), jax.config.jax_compilation_cache_dir, len(said)]
    steps = [set_up(choice) for choice in json.loads(sys.argv[1])]
    seconds = jax.config.jax_persistent_cache_min_compile_time_secs
    print(json.dumps([steps, seconds, said]))
    """
)


def set_up(tmp_path, *choices, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "LINBET_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-c", SET_UP, json.dumps(choices)],
        env={**kept, "XDG_CACHE_HOME": str(tmp_path / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (done.returncode, done.stderr) == (0, "")  # nothing is printed
    return json.loads(done.stdout)


def test_a_script_may_ask_for_the_cache(tmp_path):
    mine, file = str(tmp_path / "mine"), tmp_path / "file"
    file.touch()
    steps, seconds, said = set_up(tmp_path, False, None, 3, "", str(file), mine, True, False)
    assert steps[:2] == [[None, None, 0]] * 2  # off: nothing is made
    assert steps[2] == "compile_cache=3: must be True, False or a folder"
    assert steps[3] == "compile_cache='': must be True, False or a folder"
    assert steps[4].startswith(f"compile_cache={str(file)!r}: ")
    assert steps[5:] == [[mine, mine, 1]] * 3  # the first one stays, and is told once
    assert said == [f"compiled programs are kept in {mine}"]
    assert (tmp_path / "mine").is_dir()
    assert not (tmp_path / "home").exists()
    assert seconds == 0.2


def test_a_script_gets_the_command_line_s_folder_unless_the_user_says_otherwise(tmp_path):
    home = str(tmp_path / "home" / "linbet_jax" / "compiled")
    own = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "7"}
    assert set_up(tmp_path, True, **own) == [[[home, home, 1]], 7.0, [f"compiled programs are kept in {home}"]]
    theirs = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "theirs")}
    place = theirs["JAX_COMPILATION_CACHE_DIR"]
    assert set_up(tmp_path, True, str(tmp_path / "x"), **theirs) == [[[place, place, 0]] * 2, 1.0, []]
    assert set_up(tmp_path, True, LINBET_COMPILE_CACHE="off") == [[[None, None, 0]], 1.0, []]
