"""Sweeps through Dask: the same bytes as in process, and workers, schedulers and drivers that die."""

import contextlib
import importlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from linbet_jax import cli
from linbet_jax.errors import InputError
from linbet_jax.simulation import runtime
from linbet_jax.sweep import Cluster, InProcess, Part, launch, plugins, read, targets, worker
from linbet_jax.sweep import cluster as cluster_module
from linbet_jax.sweep import run as run_sweep
from linbet_jax.sweep.estimate import COMPILE_SECONDS
from linbet_jax.sweep.executors import next_part

pytest.importorskip("distributed")

CORES = len(runtime.usable_cores())
WORKERS = min(2, CORES)
PATH = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

# Policies that behave only in workers; the driver and a run in process build them as they are.
OWN = """
import multiprocessing, os, pathlib, signal, time
import linbet_jax as lb

def make(bandit, *, horizon, number=0, pause=0.0, die=False, fail=False):
    if multiprocessing.parent_process() is not None:
        time.sleep(pause)
        if fail:
            raise RuntimeError("it broke there")
        if die:
            mark = pathlib.Path(__file__).with_name("died")
            if not mark.exists():
                mark.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
    return lb.make_policy("uniform", bandit, horizon=horizon)
"""
SETS = """
seeds = 80
records = 4
horizon = 40
[sets.small]
arms = "arms.csv"
theta_star = [1.0, 0.5]
noise = {law = "Pareto", shape = 2.5}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweeps")
    (path / "own_in_workers.py").write_text(OWN)
    (path / "arms.csv").write_text("1.0,0.0\n0.0,1.0\n0.5,0.5\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Workers and drivers of this module find each other's compiled programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PYTHONPATH", PATH["PYTHONPATH"])
        yield


def write(folder, name, options, more=""):
    path = folder / f"{name}.toml"
    path.write_text(f'{SETS}\n[policies.own]\npolicy = "own_in_workers:make"\n{options}\n{more}')
    return path


def cells(path):
    return {each.name: each.read_bytes() for each in sorted((path / "cells").glob("*.parquet"))}


def events(path, kind):
    lines = (path / "journal.jsonl").read_text().splitlines() if (path / "journal.jsonl").exists() else []
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def in_process(file, out):
    """The same sweep without a cluster, and its cells."""
    summary = run_sweep(read(file), out, executor=InProcess())
    assert not summary.failed
    return cells(out)


@pytest.fixture(scope="module")
def local():
    with Cluster(f"local:{WORKERS}", device="cpu") as cluster:
        yield cluster


# What it costs -----------------------------------------------------------------------------------------------------


def part(number, program, cost):
    return Part(number, {}, (), (), program, 1, cost)


def test_no_two_workers_of_a_machine_compile_one_program():
    waiting = [part(0, 0, 1.0), part(1, 0, 1.0), part(2, 1, 1.0)]
    taken = [next_part(waiting, opening) for opening in ((), {0}, {0, 1}, {0})]
    assert [each and each.number for each in taken] == [0, 2, None, None]
    assert [each.number for each in waiting] == [1]
    assert next_part(waiting, ()).number == 1
    assert next_part(waiting, ()) is None


def test_local_workers_that_do_not_pay_are_said(monkeypatch):
    said = []
    cluster = Cluster("local", say=said.append)
    cluster.platform, cluster.lanes, cluster.workers = "cpu", 1, 2
    first = COMPILE_SECONDS + 0.1
    cluster._weigh([part(0, 0, first), part(1, 0, 0.1), part(2, 1, first)])
    (line,) = said
    assert line.startswith("--cluster local does not pay here: 2 programs to compile, and little to run")
    cluster._weigh([])
    cluster._weigh([part(0, 0, COMPILE_SECONDS + 1000.0)])
    assert said == [line]
    cluster._target = targets.Address("tcp://here:1")
    cluster._weigh([part(0, 0, first)])
    assert said == [line]
    assert not cluster._one_cache
    cluster._target = targets.Local()
    assert cluster._one_cache
    monkeypatch.setenv(runtime.CACHE_SWITCH, "off")
    assert not cluster._one_cache


def test_a_finished_sweep_starts_no_cluster(folder, tmp_path, monkeypatch, capsys):
    file = write(folder, "finished", "number = 1")
    in_process(file, tmp_path / "run")

    def started(*arguments, **settings):
        raise AssertionError("a cluster was started")

    monkeypatch.setattr(cluster_module, "Cluster", started)
    assert cli.main(["sweep", str(file), "--out", str(tmp_path / "run"), "--cluster", "local"]) == 0
    assert "nothing to compute: no cluster is started" in capsys.readouterr().err
    with pytest.raises(AssertionError, match="a cluster was started"):
        cli.main(["sweep", str(file), "--out", str(tmp_path / "run"), "--cluster", "local", "--set", "seeds=81"])


# The numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_the_same_bytes_as_in_process(local, folder, tmp_path):
    file = write(folder, "same", "number = [1, 2]", "[policies.oful]\nradius_scale = [1.0, 0.1]")
    assert (local.platform, local.kind, local.workers, local.lanes) == ("cpu", "cpu", WORKERS, CORES // WORKERS)
    summary = run_sweep(read(file), tmp_path / "there", executor=local)
    assert (summary.cells, summary.failed, summary.unhealthy) == (4, {}, {})
    assert summary.computed == 4 * 80 * 40
    assert len(cells(tmp_path / "there")) == 4
    assert cells(tmp_path / "there") == in_process(file, tmp_path / "here")
    assert {event["worker"].rpartition("/")[2] for event in events(tmp_path / "there", "done")} <= {"0", "1"}
    again = run_sweep(read(file), tmp_path / "there", executor=local)
    assert again.computed == 0


@pytest.mark.timeout(240)
def test_the_same_bytes_in_float32(local, folder, tmp_path):
    """Indices that are nearly equal part at the last bit: a worker of one core and a process of many agree in it."""
    file = folder / "single.toml"
    file.write_text(
        'dtype = "float32"\nseeds = 48\nrecords = 6\nhorizon = 3000\n[sets.S4]\n[policies.crt]\nradius_scale = 0.3\n'
    )
    assert not run_sweep(read(file), tmp_path / "there", executor=local).failed
    assert cells(tmp_path / "there") == in_process(file, tmp_path / "here")


@pytest.mark.timeout(120)
def test_every_worker_has_its_own_cores(local):
    found = local._ask(worker.where, local._there())
    cores = sorted(core for facts in found.values() for core in facts["cores"])
    assert cores == runtime.usable_cores()[: len(found) * local.lanes]
    assert {info["nthreads"] for info in local._there().values()} == {1}


@pytest.mark.timeout(60)
def test_workers_are_those_of_the_scheduler_not_of_the_client_s_memory(local, monkeypatch):
    monkeypatch.setattr(local._client, "scheduler_info", lambda **_: {"workers": {}})  # as it is amid a refresh
    assert len(local._there()) == WORKERS
    assert launch._platform(local._client, targets.Address("tcp://here:1"), "auto") == "cpu"


@pytest.mark.timeout(120)
def test_a_worker_with_other_numbers_computes_nothing(local, folder):
    setup = local._setup._replace(numbers={**local._setup.numbers, "jax": "0.0.1", "code": "other"})
    answer = local._client.submit(worker.compute, setup, {}, pure=False).result(timeout=60)
    assert sorted(answer) == ["refused", "worker"]
    here = local._setup.numbers
    words = {f"code is {here['code']} there, other here", f"jax is {here['jax']} there, 0.0.1 here"}
    assert set(answer["refused"].split("; ")) == words


@pytest.mark.timeout(120)
def test_a_driver_without_64_bits_is_refused(local, monkeypatch):
    monkeypatch.setattr(worker, "x64_enabled", lambda: False)
    with pytest.raises(InputError, match="would give other numbers: jax_enable_x64 is True there, False here"):
        local._ready()


# What fails ----------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_a_failing_part_fails_its_cell_alone(local, folder, tmp_path):
    file = write(folder, "fails", "number = [1, 2]\nfail = [false, true]")
    summary = run_sweep(read(file), tmp_path / "run", executor=local)
    assert summary.failed == dict.fromkeys(
        [f"small/own (number={n}, fail=True)" for n in (1, 2)], "RuntimeError: it broke there"
    )
    assert len(cells(tmp_path / "run")) == 2


@pytest.mark.timeout(120)
def test_parts_of_a_killed_worker_are_run_again_and_none_twice(local, folder, tmp_path):
    file = write(folder, "dies", "number = [1, 2, 3]\ndie = [false, true]")
    summary = run_sweep(read(file), tmp_path / "there", executor=local)
    there = local._ask(worker.where, local._there()).values()
    assert int((folder / "died").read_text()) not in {facts["pid"] for facts in there}
    assert (summary.cells, summary.failed) == (6, {})
    done = [event["cell"] for event in events(tmp_path / "there", "done")]
    assert len(done) == len(set(done)) == 6
    assert cells(tmp_path / "there") == in_process(file, tmp_path / "here")


def fake(number, program=0):
    return Part(number, {"n": number}, (f"cell{number}",), (f"title{number}",), program, 1, 1.0)


class Scripted(Cluster):
    """A cluster without Dask: every part ends as it is told."""

    def __init__(self, ends):
        super().__init__("local:1")
        self.ends, self.sent, self.platform = ends, [], "cpu"
        self.lanes = self.workers = 1
        self._client = SimpleNamespace(status="running", cancel=lambda futures: None)

    def _there(self):
        return {"tcp://one": {}}

    def _send(self, part, key):
        self.sent.append(part.number)
        ends = self.ends.get(part.number, [("finished", {"result": part.number, "worker": "one"})])
        status, value = ends.pop(0) if len(ends) > 1 else ends[0]
        return SimpleNamespace(
            key=key,
            status=status,
            result=lambda timeout: value,
            exception=lambda timeout: value,
            release=lambda: None,
            add_done_callback=lambda call: call(SimpleNamespace(key=key)),
        )

    def all(self, parts, wanted=lambda part: True):
        return [
            (part.number, outcome) for part, outcome in self.run(parts, wanted=wanted, advance=lambda part, n: None)
        ]


def killed():
    from distributed import KilledWorker

    return ("error", KilledWorker("key", SimpleNamespace(address="tcp://one"), 3))


def test_what_kills_every_worker_is_lost_and_what_was_beside_it_is_not():
    good = ("finished", {"result": 2, "worker": "one"})
    cluster = Scripted({1: [killed()], 2: [killed(), good]})
    found = dict(cluster.all([fake(1), fake(2), fake(3)]))
    assert found[1].error == "KilledWorker: every worker that ran it died, the last one tcp://one"
    assert (found[2].result, found[2].error, found[3].result) == (2, None, 3)
    assert cluster.sent == [1, 2, 3, 1, 2]


def test_an_executor_s_own_error_loses_its_part():
    found = Scripted({1: [("error", MemoryError("no more"))]}).all([fake(1), fake(2)])
    assert [(number, outcome.error) for number, outcome in found] == [(1, "MemoryError: no more"), (2, None)]


def test_a_refusal_and_a_lost_scheduler_end_the_run():
    with pytest.raises(InputError, match="the worker two came later and cannot join: jax is 1 there, 2 here"):
        Scripted({1: [("finished", {"refused": "jax is 1 there, 2 here", "worker": "two"})]}).all([fake(1)])
    with pytest.raises(ConnectionError, match="lost the scheduler of the cluster"):
        Scripted({1: [("cancelled", None)]}).all([fake(1)])


def test_a_worker_that_would_run_parts_side_by_side_is_refused(monkeypatch):
    double = SimpleNamespace(name="one", state=SimpleNamespace(nthreads=2))

    def run(function, *arguments, workers, on_error):
        try:
            return {workers[0]: function(*arguments, double)}
        except InputError as error:
            return {workers[0]: error}

    setup = worker.WorkerSetup("cpu", {}, 1, {})
    cluster = Scripted({})
    cluster._client.run = run
    with pytest.raises(InputError, match=r"tcp://one cannot compute: it must have one thread \(--nthreads 1\), not 2"):
        cluster._ask(worker.prepare, ["tcp://one"], setup)
    monkeypatch.setattr("distributed.get_worker", lambda: double)
    assert worker.compute(setup, {})["refused"] == "it must have one thread (--nthreads 1), not 2"


def test_who_dies_while_workers_are_asked_is_named(monkeypatch):
    def gone(**options):
        raise OSError("in <TCP (closed)>: Stream is closed")

    monkeypatch.setattr(launch, "connect", lambda *arguments: contextlib.nullcontext((cluster._client, "cpu")))
    cluster = Scripted({})
    cluster._client.get_versions = gone
    with pytest.raises(ConnectionError, match="lost the scheduler of the cluster"):
        cluster.__enter__()
    cluster._there = dict
    with pytest.raises(InputError, match="--cluster: the workers have gone meanwhile"):
        cluster.__enter__()


def test_without_any_worker_the_run_ends(monkeypatch):
    monkeypatch.setattr(cluster_module, "_ALONE_SECONDS", 0.05)
    monkeypatch.setattr(cluster_module, "_TICK_SECONDS", 0.02)
    cluster = Scripted({})
    cluster._there = dict
    with pytest.raises(ConnectionError, match="has had no worker for"):
        cluster.all([fake(1)])
    assert cluster.sent == []


def test_parts_that_are_not_wanted_are_dropped_and_programs_take_turns():
    cluster = Scripted({})
    parts = [fake(n, program) for n, program in enumerate((0, 0, 0, 1, 1, 2))]
    assert [number for number, _ in cluster.all(parts, lambda part: part.number != 4)] == [0, 3, 5, 1, 2]


def test_cores_are_divided_among_the_workers_that_share_them():
    shared, own = {"host": "a", "cores": [0, 1, 2, 3, 4]}, {"host": "b", "cores": [0, 1]}
    places = cluster_module._places({"x": shared, "y": shared, "z": own, "v": {"host": "a", "cores": [7]}})
    assert places == {"x": [0, 1], "y": [2, 3], "z": [0, 1], "v": [7]}
    crowded = cluster_module._places({name: {"host": "a", "cores": [3, 5]} for name in "pqr"})
    assert crowded == {"p": [3], "q": [5], "r": [3]}
    assert cluster_module._places({"x": shared, "y": shared}, 1) == {"x": [0], "y": [1]}


# Whole processes -----------------------------------------------------------------------------------------------------


def session(leader):
    """Processes that the leader of a session and its children have started and that still run."""
    found = []
    for path in Path("/proc").iterdir():
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split() if path.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == leader and fields[0] not in "ZX":
            found.append(int(path.name))
    return found


def gone(leader):
    """Waits for the last process of a session to end."""
    deadline = time.monotonic() + 30
    while session(leader) and time.monotonic() < deadline:
        time.sleep(0.05)
    return session(leader) == []


def start(*arguments, cwd):
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=cwd,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def slow(folder):
    # Seeds that fill their blocks, so that every cell is a part of its own.
    path = write(folder, "slow", "pause = 1.5\nnumber = [1, 2, 3, 4, 5, 6, 7, 8]")
    path.write_text(path.read_text().replace("seeds = 80", "seeds = 16\nblock_size = 1"))
    return path


@pytest.mark.timeout(200)
def test_a_killed_driver_leaves_no_process_and_ctrl_c_closes_everything(slow, tmp_path):
    command = ("linbet_jax", "sweep", slow, "--out", "run", "--cluster", "local:1", "--device", "cpu")
    out = tmp_path / "run"
    driver = start(*command, cwd=tmp_path)
    wait_for(lambda: events(out, "done"), driver)
    assert len(session(driver.pid)) > 1
    driver.kill()
    driver.communicate(timeout=60)
    assert gone(driver.pid)
    kept = cells(out)
    assert 1 <= len(kept) < 8

    driver = start(*command, cwd=tmp_path)
    wait_for(lambda: len(events(out, "begun")) == 2 and len(events(out, "done")) > len(kept), driver)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert err.splitlines()[-1].startswith("linbet: interrupted; what is finished is kept")
    assert "Traceback" not in err
    assert gone(driver.pid)
    assert [event["error"] for event in events(out, "interrupted")] == ["KeyboardInterrupt: "]
    assert len(kept) < len(cells(out)) < 8
    assert json.loads((out / "manifest.json").read_text())["status"] == "interrupted"
    assert in_process(slow, out) == in_process(slow, tmp_path / "here")


@pytest.mark.timeout(200)
def test_a_killed_scheduler_ends_the_run_and_keeps_what_was_gathered(slow, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_ANSWER_SECONDS", 60.0)  # a worker of a busy machine takes its time to come
    place = tmp_path / "scheduler.json"
    scheduler = start(
        "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
        "--scheduler-file", place, cwd=tmp_path,
    )  # fmt: skip
    crew = driver = None
    try:
        wait_for(place.exists, scheduler)
        wait_for(lambda: place.read_text().endswith("}"), scheduler)
        url = json.loads(place.read_text())["address"]
        crew = start("distributed.cli.dask_worker", url, "--nthreads", "1", "--no-dashboard", cwd=tmp_path)
        with pytest.raises(InputError, match=f"--device gpu: none of the 1 workers of {url} offers the resource GPU"):
            Cluster(url, device="gpu").__enter__()
        out = tmp_path / "run"
        driver = start("linbet_jax", "sweep", slow, "--out", "run", "--cluster", url, cwd=tmp_path)
        wait_for(lambda: events(out, "done"), driver)
        scheduler.kill()
        _, err = driver.communicate(timeout=100)
        assert driver.returncode == 2
        assert err.splitlines()[-1] == (
            f"linbet: error: lost the scheduler of the cluster at {url}; what is finished is kept"
        )
        assert "Traceback" not in err
        assert 1 <= len(cells(out)) < 8
        assert json.loads((out / "manifest.json").read_text())["status"] == "interrupted"
        assert in_process(slow, out) == in_process(slow, tmp_path / "here")
    finally:
        for process in (driver, crew, scheduler):
            if process is not None and process.returncode is None:
                process.kill()
                process.communicate(timeout=60)


SCRIPT = """
import sys
del sys.path[0]  # as in a script elsewhere: the working folder is not on the path
import jax, linbet_jax as lb
jax.config.update("jax_enable_x64", True)
with lb.sweep.Cluster("local:1", device="cpu") as cluster:
    print(lb.sweep.run(lb.sweep.read("own.toml"), "there", executor=cluster).failed)
"""


@pytest.mark.timeout(200)
def test_a_script_from_a_pipe_beside_modules_with_python_s_names(folder, tmp_path):
    """Workers import neither the script, which is not guarded and cannot be read again, nor what lies around."""
    for name in ("csv", "secrets", "signal", "types", "tornado"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} of the folder')")
    (tmp_path / "random.py").write_text("from helper import make")
    (tmp_path / "helper.py").write_text(OWN)
    (tmp_path / "arms.csv").write_text((folder / "arms.csv").read_text())
    file = write(tmp_path, "own", "number = 1")
    file.write_text(file.read_text().replace("own_in_workers:", "random:"))
    driver = subprocess.run([sys.executable, "-"], input=SCRIPT, cwd=tmp_path, capture_output=True, text=True)
    assert (driver.returncode, driver.stdout, driver.stderr) == (0, "{}\n", "")
    assert cells(tmp_path / "there") == in_process(file, tmp_path / "here")


# Modules of one's own ------------------------------------------------------------------------------------------------


def test_a_module_hides_no_other_one_and_is_found_all_the_same(tmp_path, monkeypatch):
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "taken_name.py").write_text("HERE = __file__\ndef make(): pass")
    monkeypatch.syspath_prepend(installed)
    (tmp_path / "netrc.py").write_text("raise RuntimeError('Python has one')")
    (tmp_path / "beside.py").write_text("import netrc\nHERE = __file__, netrc.__file__")
    for name in ("sched", "taken_name"):
        (tmp_path / f"{name}.py").write_text(f"import {name}, beside\ndef make(): return beside.HERE, {name}.__file__")
        monkeypatch.delitem(sys.modules, "netrc", raising=False)
        make, digest = plugins.load(f"{name}:make", tmp_path, "policy")
        (here, python_s), its_namesake = make()
        assert make.__code__.co_filename == str(tmp_path / f"{name}.py")
        assert here == str(tmp_path / "beside.py")
        assert not {python_s, its_namesake} & {str(path) for path in tmp_path.iterdir()}
        assert plugins.load(f"{name}:make", tmp_path, "policy") == (make, digest)
    found = importlib.import_module("taken_name").HERE
    assert found == str(installed / "taken_name.py")
    assert str(tmp_path) not in sys.path
    (tmp_path / "user.py").write_text("import taken_name\ndef make(): pass")
    taken = f"policy: user imports taken_name, which is {installed / 'taken_name.py'} and not the one in {tmp_path}"
    with pytest.raises(InputError, match=re.escape(taken)):
        plugins.load("user:make", tmp_path, "policy")


def test_every_sweep_has_its_own_helpers(tmp_path):
    for name in "ab":
        (tmp_path / name / "kit").mkdir(parents=True)
        (tmp_path / name / "helpers.py").write_text(f"NAME = '{name}'")
        (tmp_path / name / "kit" / "parts.py").write_text("from helpers import NAME\ndef make(): return NAME")
    assert [plugins.load("kit.parts:make", tmp_path / name, "policy")[0]() for name in "aba"] == list("aba")


def test_the_package_run_as_a_module_imports_nothing_of_the_working_folder(tmp_path):
    (tmp_path / "argparse.py").write_text("raise RuntimeError('argparse of the folder')")
    done = subprocess.run([sys.executable, "-m", "linbet_jax", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("__main__:make", "policy: __main__ is another module in each process; the function must be in its own file"),
        ("kit:make", "policy = 'kit:make': the module kit has no function make"),
    ],
)
def test_what_is_no_module_of_a_file_is_refused(reference, message, tmp_path):
    (tmp_path / "kit").mkdir()
    with pytest.raises(InputError, match=message):
        plugins.load(reference, tmp_path, "policy")


# What is refused before anything runs --------------------------------------------------------------------------------

FORMS = "must be local, local:N, tcp://HOST:PORT, tls://HOST:PORT or slurm"
WRONG = [
    (["--cluster", "foo"], f"--cluster foo: {FORMS}"),
    (["--cluster", ""], f"--cluster : {FORMS}"),
    (["--cluster", "local:x"], f"--cluster local:x: {FORMS}"),
    (["--cluster", "local:"], f"--cluster local:: {FORMS}"),
    (["--cluster", "slurm:q"], f"--cluster slurm:q: {FORMS}"),
    (["--cluster", "local:0"], f"--cluster local:0: must be from 1 to {CORES}, the cores that this process may use"),
    (["--cluster", "local:-1"], "--cluster local:-1: must be from 1 to"),
    (["--cluster", f"local:{CORES + 1}"], f"--cluster local:{CORES + 1}: must be from 1 to {CORES}"),
    (["--cluster", "tcp://host"], "--cluster tcp://host: must be tcp://HOST:PORT"),
    (["--cluster", "tcp://host:0"], "PORT from 1 to 65535"),
    (["--cluster", "tcp://host:70000"], "PORT from 1 to 65535"),
    (["--cluster", "http://host:80"], "must be tcp://HOST:PORT or tls://HOST:PORT"),
    (["--cluster", "slurm"], "--cluster slurm: needs --queue NAME"),
    (["--queue", "q"], "--queue: goes with --cluster slurm"),
    (["--cluster", "local", "--jobs", "2"], "--jobs: goes with --cluster slurm"),
    (["--cluster", "slurm", "--queue", "a b"], "--queue 'a b': must be a name"),
    (["--cluster", "slurm", "--queue", "q", "--account", "x;y"], "--account 'x;y': must be a name"),
    (["--cluster", "slurm", "--queue", "q", "--memory", "4"], "--memory '4': must be a number with KB, MB, GB or TB"),
    (["--cluster", "slurm", "--queue", "q", "--walltime", "soon"], "--walltime 'soon': must be MINUTES, HH:MM:SS or"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=lambda value: " ".join(value[:4]))
def test_wrong_options_are_refused(arguments, message, slow, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sweep", str(slow), "--out", "run", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("linbet: error: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(60)
def test_an_address_where_nothing_answers_is_refused(monkeypatch):
    monkeypatch.setattr(launch, "_ANSWER_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"--cluster tcp://127.0.0.1:9: no Dask scheduler answers there"):
        Cluster("tcp://127.0.0.1:9").__enter__()


@pytest.mark.timeout(60)
def test_an_address_where_something_else_answers_is_refused(local, monkeypatch):
    monkeypatch.setattr(launch, "_ANSWER_SECONDS", 0.5)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # Dask's client would wait for ever
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"tcp://127.0.0.1:{server.server_port}"
        with pytest.raises(InputError, match=f"--cluster {url}: no Dask scheduler answers there"):
            Cluster(url).__enter__()
        server.shutdown()
    with pytest.raises(InputError, match="no Dask scheduler answers there .*perhaps check your TLS configuration"):
        Cluster("tls://127.0.0.1:9").__enter__()
    url = next(iter(local._there()))
    with pytest.raises(InputError, match=f"--cluster {url}: is a Dask Worker, must be a scheduler"):
        Cluster(url).__enter__()


@pytest.mark.timeout(60)
def test_why_workers_cannot_be_started_is_told_in_a_sentence(monkeypatch):
    dask = pytest.importorskip("dask")
    reason = "ModuleNotFoundError: No module named 'not_there'"
    with (
        dask.config.set({"distributed.scheduler.preload": ["not_there"]}),
        pytest.raises(InputError, match=f"--cluster local: the workers cannot be started: {reason}"),
    ):
        Cluster("local:1", device="cpu").__enter__()
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(InputError, match="--cluster: Dask cannot be used: ModuleNotFoundError: import of dask halted"):
        Cluster("local:1", device="cpu").__enter__()


@pytest.mark.parametrize(
    ("target", "missing", "extra"),
    [("local", "distributed", "cluster"), (targets.Slurm("q"), "dask_jobqueue", "slurm")],
)
def test_an_extra_that_is_not_installed_is_named(target, missing, extra, monkeypatch):
    found = launch.importlib.util.find_spec
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None if name == missing else found(name))
    with pytest.raises(InputError, match=rf"not installed; pip install 'linbet_jax\[{extra}\]'"):
        Cluster(target).__enter__()


def test_a_gpu_that_is_not_here_is_refused(monkeypatch):
    monkeypatch.setattr(launch, "_gpus", list)
    with pytest.raises(InputError, match="--device gpu: JAX finds no GPU on this machine"):
        Cluster("local", device="gpu").__enter__()


def versions(**changed):
    packages = {"python": "3.11.7.final.0", **dict.fromkeys(cluster_module._EQUAL[1:], "1"), **changed}
    return {"packages": packages}


EQUAL = "versions must be equal everywhere: "


@pytest.mark.parametrize(
    ("scheduler", "there", "message"),
    [
        (versions(dask="2"), versions(), EQUAL + "dask is 2 at the scheduler, 1 here"),
        (versions(jax=None), versions(jax="0.9"), EQUAL + "jax is 0.9 at the worker a, 1 here"),
        (versions(), None, "the worker a does not answer"),
    ],
)
def test_versions_must_be_equal(scheduler, there, message):
    cluster = Scripted({})
    cluster._client.get_versions = lambda packages: {
        "client": versions(),
        "scheduler": scheduler,
        "workers": {"a": there},
    }
    with pytest.raises(InputError, match=f"--cluster: {message}"):
        cluster._check_versions(["a"])
    same = {"client": versions(), "scheduler": versions(jax=None), "workers": {"a": versions(python="3.11.9.final.0")}}
    cluster._client.get_versions = lambda packages: same
    cluster._check_versions(["a"])


def test_what_is_sent_is_plain_data():
    setup = worker.WorkerSetup("cpu", {"0": [0]}, 1, {"jax": "1"})
    assert pickle.loads(pickle.dumps(setup)) == setup


# Slurm ---------------------------------------------------------------------------------------------------------------


def job_script(target, platform):
    with contextlib.closing(launch._slurm_cluster(target, platform)) as cluster:
        return cluster.job_script()


def test_slurm_s_job_script():
    pytest.importorskip("dask_jobqueue")
    target = targets.Slurm("long", jobs=3, cores=8, memory="16GB", walltime="2-12:00:00", account="lab")
    lines = job_script(target, "cpu").splitlines()
    assert [line for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH -J linbet",
        "#SBATCH -p long",
        "#SBATCH -A lab",
        "#SBATCH -n 1",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --mem=15G",
        "#SBATCH -t 2-12:00:00",
    ]
    assert "export PYTHONSAFEPATH=1" in lines  # the job's folder may hold a types.py
    command = lines[-1]
    assert command.startswith(f"{sys.executable} -m distributed.cli.dask_worker tcp://")
    assert "--nthreads 1 " in command
    assert "--nworkers" not in command
    assert "GPU" not in "".join(lines)
    with_gpu = job_script(targets.Slurm("gpus"), "gpu").splitlines()
    assert "#SBATCH --gres=gpu:1" in with_gpu
    assert "export XLA_PYTHON_CLIENT_PREALLOCATE=false" in with_gpu
    assert with_gpu[-1].endswith("--resources GPU=1")
    assert not any("-A" in line for line in with_gpu if line.startswith("#SBATCH"))


def test_slurm_needs_its_commands(slow, tmp_path, capsys, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["sweep", str(slow), "--out", "run", "--cluster", "slurm", "--queue", "q", "--quiet"]) == 2
    assert "--cluster slurm: sbatch is not on this machine" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def commands(folder, sbatch, scancel, monkeypatch):
    """Stand-ins for Slurm's commands."""
    pytest.importorskip("dask_jobqueue")
    for name, lines in (("sbatch", sbatch), ("scancel", scancel)):
        (folder / name).write_text(f"#!/bin/bash\n{lines}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.timeout(60)
def test_what_slurm_says_against_a_job_is_told(tmp_path, monkeypatch):
    commands(tmp_path, 'echo "invalid partition: q" >&2; exit 1', "exit 0", monkeypatch)
    with pytest.raises(InputError, match="--cluster slurm: sbatch refuses the job: .*invalid partition: q"):
        Cluster(targets.Slurm("q", jobs=2)).__enter__()


@pytest.mark.timeout(60)
def test_a_site_s_settings_that_do_not_hold_are_told(tmp_path, monkeypatch):
    commands(tmp_path, "exit 1", "exit 0", monkeypatch)
    dask = pytest.importorskip("dask")
    with (
        dask.config.set({"jobqueue.slurm.interface": "not0"}),
        pytest.raises(InputError, match="--cluster slurm: the scheduler cannot be started: ValueError: 'not0' is not"),
    ):
        Cluster(targets.Slurm("q")).__enter__()


@pytest.mark.timeout(120)
def test_slurm_s_jobs_compute_and_are_cancelled(folder, tmp_path, monkeypatch):
    # The "job" runs here, in a session of its own, whose leader is the number of the job.
    sbatch = f'cp "$1" {tmp_path}/job; setsid bash {tmp_path}/job >{tmp_path}/log 2>&1 & echo "Submitted batch job $!"'
    commands(tmp_path, sbatch, f"echo $1 >>{tmp_path}/cancelled; kill -- -$1", monkeypatch)
    file = write(folder, "jobs", "number = [1, 2]")
    said = []
    with Cluster(targets.Slurm("q"), say=said.append) as cluster:
        assert (cluster.lanes, cluster.workers) == (1, 1)
        summary = run_sweep(read(file), tmp_path / "there", executor=cluster)
    assert said == ["waiting for the first of 1 jobs in the queue q"]
    assert (summary.cells, summary.failed) == (2, {})
    assert cells(tmp_path / "there") == in_process(file, tmp_path / "here")
    (job,) = (tmp_path / "cancelled").read_text().split()
    assert gone(int(job))


# GPUs ----------------------------------------------------------------------------------------------------------------


def test_every_gpu_has_a_worker_of_its_own(monkeypatch):
    made = {}
    monkeypatch.setattr(launch, "_gpus", lambda: ["4", "7"])
    monkeypatch.setattr("distributed.SpecCluster", lambda **options: made.update(options))
    monkeypatch.setattr(runtime, "usable_cores", lambda: list(range(8)))
    _, count, platform = launch._local(targets.Local(), "auto")
    assert (count, platform) == (2, "gpu")
    options = [made["workers"][index]["options"] for index in (0, 1)]
    assert [each["env"]["CUDA_VISIBLE_DEVICES"] for each in options] == ["4", "7"]
    assert {each["env"]["XLA_PYTHON_CLIENT_PREALLOCATE"] for each in options} == {"false"}
    assert [(each["resources"], each["nthreads"]) for each in options] == [({"GPU": 1}, 1)] * 2
    with pytest.raises(InputError, match="--cluster local:3: must be at most 2, one worker per GPU"):
        launch._local(targets.Local(3), "gpu")
    assert launch._local(targets.Local(3), "cpu")[1:] == (3, "cpu")
    assert "resources" not in made["workers"][0]["options"]


def test_gpus_are_counted_by_another_process(monkeypatch):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(launch.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=0, stdout="2\n"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert launch._gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5")
    assert launch._gpus() == ["3", "GPU-5"]
    monkeypatch.setattr(launch.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=1, stdout=""))
    assert launch._gpus() == []
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    assert launch._gpus() == []


def test_a_part_on_a_gpu_takes_the_resource_and_others_are_not_asked_for():
    sent, offers = {}, {"a": {"resources": {"GPU": 1}}, "b": {"resources": {}}}
    cluster = Scripted({})
    cluster._setup = None
    cluster._client = SimpleNamespace(
        submit=lambda function, *arguments, **options: sent.update(options),
        scheduler=SimpleNamespace(identity=lambda n_workers: {"workers": offers}),
        sync=lambda function, **options: function(**options),
    )
    for platform, resources, there in (("gpu", {"GPU": 1}, ["a"]), ("cpu", None, ["a", "b"])):
        cluster.platform = platform
        Cluster._send(cluster, fake(1), "key")
        assert (sent["resources"], sent["retries"]) == (resources, 0)
        assert list(Cluster._there(cluster)) == there
