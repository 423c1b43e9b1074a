"""What a simulation shows while it runs, and where it shows nothing."""

import io
import logging
import multiprocessing.process
import sys
import threading
import types

import jax
import pytest

import linbet_jax as lb
from linbet_jax.simulation import display


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    encoding = "utf-8"

    def isatty(self):
        super().isatty()  # an error when it is closed
        return True


@pytest.fixture
def screen(monkeypatch):
    """A terminal somebody looks at."""
    shown = Screen()  # in names of the module's own: pytest sets Python's and the environment's before each test
    streams = types.SimpleNamespace(stderr=shown, stdout=io.StringIO(), modules=dict(sys.modules))
    monkeypatch.setattr(display, "sys", streams)
    monkeypatch.setattr(display, "os", types.SimpleNamespace(environ={}))
    monkeypatch.setattr(multiprocessing.process.current_process(), "_name", "MainProcess")
    monkeypatch.setattr(display, "PATIENCE", 0.0)
    monkeypatch.setattr(display, "_TICK", 0.01)
    return shown


def run(progress, done=(3, 7)):
    """What a run of ten replications tells; it waits until the line has been written."""
    with display.showing(progress, "tofu", 10) as tell:
        if tell is not None:
            for number in done:
                tell(number, 10)
            line = display._here.line
            while f"{done[-1]} of" not in line._stream.getvalue():
                line._thread.join(0.01)
    return tell


def test_a_line_on_a_terminal_that_goes_when_the_run_ends(screen):
    assert run("auto") is not None
    *_, line, blank, rest = screen.getvalue().split("\r")
    assert "7 of 10 replications" in line
    assert (blank, rest) == (" " * len(line), "")
    assert not [thread for thread in threading.enumerate() if thread.name == "linbet-progress"]


@pytest.mark.parametrize("progress", [None, False])
def test_no_line_where_none_is_wanted(screen, progress):
    assert run(progress) is None
    assert screen.getvalue() == ""


def test_a_function_is_told_and_nothing_is_shown(screen):
    told = []

    def tell(done, total):
        told.append((done, total))

    with display.showing(tell, "tofu", 10) as given:
        assert given is tell
    assert screen.getvalue() == ""


@pytest.mark.parametrize("name", ["CI", "PYTEST_CURRENT_TEST"])
def test_nobody_looks_at_tests(screen, monkeypatch, name):
    monkeypatch.setitem(display.os.environ, name, "1")
    assert run("auto") is None
    assert run(True) is not None  # asked for


def test_processes_and_threads_beside_the_first_show_nothing(screen, monkeypatch):
    given = []
    beside = threading.Thread(target=lambda: given.append(run("auto")))
    beside.start()
    beside.join()
    assert given == [None]
    monkeypatch.setattr(multiprocessing.process.current_process(), "_name", "SpawnProcess-1")
    assert run("auto") is None
    assert screen.getvalue() == ""


@pytest.mark.parametrize("progress", ["auto", True])
def test_pipes_files_and_dumb_terminals_are_never_written_to(screen, monkeypatch, progress):
    pipe, closed = io.StringIO(), Screen()
    closed.close()
    for stream in (pipe, closed, None):
        monkeypatch.setattr(display.sys, "stderr", stream)
        assert run(progress) is None
    assert pipe.getvalue() == ""
    monkeypatch.setattr(display.sys, "stderr", screen)
    monkeypatch.setitem(display.os.environ, "TERM", "dumb")
    assert run(progress) is None
    assert screen.getvalue() == ""


def test_a_short_run_shows_nothing(screen, monkeypatch):
    monkeypatch.setattr(display, "PATIENCE", 60.0)
    with display.showing("auto", "tofu", 10) as tell:
        tell(10, 10)
    assert screen.getvalue() == ""


def test_a_notebook_keeps_what_it_took(screen, monkeypatch):
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(display.sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    output = Screen()
    output.isatty = lambda: False
    monkeypatch.setattr(display.sys, "stdout", output)
    run("auto", done=(10,))
    assert output.getvalue().rsplit("\r", 1)[1] == "tofu: 10 replications in 0 s\n"
    assert screen.getvalue() == ""


def test_letters_that_a_terminal_lacks(screen):
    screen.encoding = "ascii"
    run(True, done=(5,))
    assert "#" * 12 + "." * 12 in screen.getvalue()


def test_compiling_is_named_and_said_once(screen, monkeypatch, caplog):
    monkeypatch.setattr(display, "LONG", 0.0)
    monkeypatch.setattr(display, "_told", set())
    with caplog.at_level(logging.INFO, "linbet_jax"), display.showing(True, "tofu", 10):
        line = display._here.line
        for _ in range(2):
            with display.compiling("tofu"):
                assert line.text().startswith("tofu: compiling")
        assert "compiling" not in line.text()
    (record,) = caplog.records
    assert record.getMessage().startswith("compiling tofu took 0 s; runs of the same shapes in this process need none")
    assert screen.getvalue().endswith(f"linbet_jax: {record.getMessage()}\n")


def test_a_long_run_says_once_what_set_up_cpu_would_gain(screen, monkeypatch, caplog):
    monkeypatch.setattr(display, "LONG", 0.0)
    monkeypatch.setattr(display, "_told", {"compiling"})
    bandit = lb.dataset("S3")
    policy, params = lb.make_policy("uniform", bandit, horizon=20)

    def said(flags):
        monkeypatch.setenv("XLA_FLAGS", flags)
        caplog.clear()
        with caplog.at_level(logging.INFO, "linbet_jax"):
            lb.simulate(policy, params, bandit, horizon=20, num_seeds=2, key=jax.random.key(0), progress=True)
        return [record.getMessage() for record in caplog.records]

    assert said("--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1") == []
    (sentence,) = said("")
    assert sentence.startswith("running uniform took 0 s; lb.set_up_cpu() before JAX's first computation makes")
    assert screen.getvalue().endswith(f"linbet_jax: {sentence}\n")
    assert said("") == []


def test_the_time_left_leaves_compiling_out(screen, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: clock[0])
    with display.showing(True, "tofu", 10) as tell:
        line = display._here.line
        clock[0] = 100.0
        tell(2, 10)
        assert "left" not in line.text()
        clock[0] = 101.0
        tell(4, 10)
        assert line.text().endswith("4 of 10 replications, 101 s, 3 s left")


def test_simulate_and_tune_show_it_and_change_no_number(screen):
    bandit = lb.dataset("S3")
    policy, params = lb.make_policy("uniform", bandit, horizon=20)
    quiet, shown = (
        lb.simulate(policy, params, bandit, horizon=20, num_seeds=2, key=jax.random.key(0), progress=progress)
        for progress in (False, True)
    )
    assert (quiet.regret == shown.regret).all()
    with pytest.raises(ValueError, match="progress='yes': must be 'auto', True, False or a function of two counts"):
        lb.tune("oful", "S3", horizon=20, key=jax.random.key(0), progress="yes")
