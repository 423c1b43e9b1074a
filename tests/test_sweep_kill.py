"""Sweeps that are killed, interrupted, started twice or out of disk: what is finished stays, and resuming gives the
bytes of an uninterrupted run.
"""

import os
import random
import signal
import time

import pytest
from sweeps import Server, manifest

SWEEP = """
seeds = 48
records = 20
horizon = 400
[sets.small]
arms = "arms.csv"
theta_star = [1.0, 0.5]
noise = {law = "Pareto", shape = [2.5, 3.0]}
[policies.oful]
radius_scale = [1.0, 0.1, 0.01]
[policies.greedy]
ridge = [1.0, 2.0, 3.0]
"""  # 12 cells


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("compiled"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "twelve.toml"
    path.write_text(SWEEP, encoding="utf-8")
    (path.parent / "arms.csv").write_text("1.0,0.0\n0.0,1.0\n0.5,0.5\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def uninterrupted(server, file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    status, log = server.run("sweep", file, "--out", folder / "run", log=folder / "log")
    assert status == 0, log
    return folder / "run"


def cells(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "cells").glob("*.parquet"))}


def wait_for(out, count):
    """Until so many cells are finished."""
    while len(list(out.glob("cells/[!.]*.parquet"))) < count:
        time.sleep(0.001)


@pytest.mark.timeout(200)
def test_killed_at_random_moments_and_resumed_is_the_same_as_uninterrupted(server, file, uninterrupted, tmp_path):
    moments = random.Random(4)
    kept = []
    for number in range(8):
        out, log = tmp_path / f"run{number}", tmp_path / f"log{number}"
        child = server.start("sweep", file, "--out", out, "--quiet", log=log, pause=0.005)
        wait_for(out, moments.randrange(12))
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        assert server.wait(child) in (-signal.SIGKILL, 0), log.read_text()
        kept.append(len(list(out.glob("cells/[!.]*.parquet"))))
        status, text = server.run("sweep", file, "--out", out, log=log)
        assert status == 0, text
        assert cells(out) == cells(uninterrupted)
        assert manifest(out) == manifest(uninterrupted)
        assert not list(out.glob("cells/.*"))
    assert len(set(kept) - {12}) >= 3, kept  # the moments were different ones


@pytest.mark.timeout(200)
def test_killed_after_three_of_six_cells_with_the_simulator_itself(server, file, tmp_path):  # W1
    arguments = ("--set", "policies.oful.radius_scale=[1.0, 0.1, 0.01]", "--set", "seeds=16", "--set", "horizon=64")
    alone = tmp_path / "oful.toml"
    alone.write_text(SWEEP.split("[policies.greedy]")[0], encoding="utf-8")
    (tmp_path / "arms.csv").write_bytes((file.parent / "arms.csv").read_bytes())
    whole, killed, log = tmp_path / "whole", tmp_path / "killed", tmp_path / "log"
    status, text = server.run("sweep", alone, "--out", whole, *arguments, log=log, real=True)
    assert status == 0, text
    assert len(cells(whole)) == 6
    child = server.start("sweep", alone, "--out", killed, *arguments, log=log, real=True, hold=3)
    wait_for(killed, 3)
    os.kill(child, signal.SIGKILL)
    assert server.wait(child) == -signal.SIGKILL
    kept = cells(killed)
    assert len(kept) == 3
    assert kept.items() <= cells(whole).items()
    status, text = server.run("sweep", alone, "--out", killed, *arguments, log=log, real=True)
    assert status == 0, text
    assert f"{len(kept)} of 6 cells are done already" in text
    assert cells(killed) == cells(whole)

    events = (killed / "journal.jsonl").read_text(encoding="utf-8")
    before = {path.name: path.stat().st_mtime_ns for path in (killed / "cells").iterdir()}
    status, text = server.run("sweep", alone, "--out", killed, *arguments, log=log, real=True)
    assert status == 0, text
    assert "6 of 6 cells are done already" in text
    assert "seed-pulls" not in text
    assert (killed / "journal.jsonl").read_text(encoding="utf-8") == events
    assert {path.name: path.stat().st_mtime_ns for path in (killed / "cells").iterdir()} == before


@pytest.mark.timeout(120)
def test_ctrl_c_is_130_and_what_is_done_is_kept(server, file, uninterrupted, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    child = server.start("sweep", file, "--out", out, log=log, hold=2)
    wait_for(out, 2)
    os.kill(child, signal.SIGINT)
    assert server.wait(child) == 130
    assert "interrupted; what is finished is kept" in log.read_text()
    assert "Traceback" not in log.read_text()
    kept = cells(out)
    assert len(kept) == 2
    assert kept.items() <= cells(uninterrupted).items()
    assert manifest(out)["status"] == "interrupted"
    status, text = server.run("status", out, log=log)
    assert status == 0
    assert "not running" in text
    assert f"{len(kept)} of 12 cells done, 0 failed, {12 - len(kept)} to do" in text
    status, text = server.run("sweep", file, "--out", out, log=log)
    assert f"{len(kept)} of 12 cells are done already" in text
    assert cells(out) == cells(uninterrupted)


@pytest.mark.timeout(120)
def test_two_sweeps_in_one_folder_at_once(server, file, uninterrupted, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    child = server.start("sweep", file, "--out", out, log=log, hold=5)
    wait_for(out, 5)
    status, text = server.run("sweep", file, "--out", out, log=tmp_path / "second")
    assert status == 2
    assert text.splitlines()[-1] == (
        f"linbet: error: another run (process {child}) is writing to {out}; wait for it or choose another folder"
    )
    status, text = server.run("status", out, log=tmp_path / "second")
    assert status == 0
    assert text.splitlines()[0] == f"{out}: running"
    assert text.splitlines()[1].startswith("5 of 12 cells done, 0 failed, 7 to do, ")
    os.kill(child, signal.SIGKILL)
    assert server.wait(child) == -signal.SIGKILL
    assert server.run("status", out, log=tmp_path / "second")[1].splitlines()[0] == f"{out}: not running"
    assert server.run("sweep", file, "--out", out, log=log)[0] == 0
    assert cells(out) == cells(uninterrupted)
    _, text = server.run("status", out, log=tmp_path / "second")
    assert text.splitlines() == [f"{out}: not running", "12 of 12 cells done, 0 failed, 0 to do"]


@pytest.mark.timeout(120)
def test_the_cell_that_is_computed_now_is_shown(server, file, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    child = server.start("sweep", file, "--out", out, log=log, hold=0)
    while not (out / "journal.jsonl").exists() or "started" not in (out / "journal.jsonl").read_text():
        time.sleep(0.001)
    _, text = server.run("status", out, log=tmp_path / "second")
    os.kill(child, signal.SIGKILL)
    server.wait(child)
    assert text.splitlines() == [
        f"{out}: running",
        "0 of 12 cells done, 0 failed, 12 to do",
        "  running    small/oful (noise.shape=2.5, radius_scale=1)",
    ]


@pytest.mark.timeout(120)
def test_where_no_file_can_be_finished_the_earlier_cells_stay_whole(server, file, uninterrupted, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    assert server.run("sweep", file, "--out", out, log=log)[0] == 0
    status, text = server.run("sweep", file, "--out", out, "--set", "seeds=6000", log=log, limit=100_000)
    assert status == 2
    assert "what is finished is kept" in text.splitlines()[-1]
    assert "Traceback" not in text
    assert cells(out) == cells(uninterrupted)
    assert not [path for path in out.rglob("*") if ".tmp" in path.name]
    status, text = server.run("sweep", file, "--out", out, "--set", "seeds=64", log=log)
    assert status == 2  # the sweep was raised to 6000 seeds
    assert "seeds (6000 there, 64 here: they can only be raised; --set seeds=6000 carries on)" in text
