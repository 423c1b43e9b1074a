"""Run folders: whole files, one configuration, one process."""

import errno
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from linbet_jax.errors import InputError
from linbet_jax.storage import results
from linbet_jax.storage.results import RunFolder, RunFolderError

CONFIG = {"seeds": 10, "numerics": {"dtype": "float64", "jax": "1"}}


def listing(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "table.md"
    results.write_text(path, "first")

    def stopped_half_way():
        with results.replacing(path) as temporary:
            temporary.write_text("half")
            assert path.read_text() == "first"
            assert temporary.parent == path.parent
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stopped_half_way()
    assert path.read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["table.md"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES])
@pytest.mark.parametrize("call", ["open", "fsync"])
def test_file_systems_that_cannot_flush_hold_nothing_up(tmp_path, monkeypatch, call, code):
    def refused(place, *more):
        if not (call == "open" and os.path.isfile(place)):
            raise OSError(code, os.strerror(code))
        return real(place, *more)

    real = os.open
    path = tmp_path / "table.md"
    path.write_text("first")
    with results.replacing(path) as temporary:
        temporary.write_text("second")
        monkeypatch.setattr(os, call, refused)
    monkeypatch.undo()
    assert path.read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["table.md"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_to_flush_is_an_error(tmp_path, monkeypatch, code):
    def broken(descriptor):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        results.write_text(tmp_path / "table.md", "text")
    assert list(tmp_path.iterdir()) == []


def test_new_files_obey_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        results.write_text(tmp_path / "a", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_json_holds_plain_numbers_and_no_nan(tmp_path):
    value = {"a": np.float32(0.5), "b": np.arange(2), "c": (1, float("nan")), "d": np.inf, "e": True, "λ": "ε"}
    results.write_json(tmp_path / "m.json", value)
    read = results.read_json(tmp_path / "m.json")
    assert read == {"a": 0.5, "b": [0, 1], "c": [1, None], "d": None, "e": True, "λ": "ε"}


def test_digests_do_not_depend_on_the_order_of_keys():
    assert results.digest({"a": 1, "b": 0.1}) == results.digest({"b": 0.1, "a": 1})
    assert results.digest({"a": 0.1}) != results.digest({"a": np.nextafter(0.1, 1).item()})


def test_the_same_configuration_carries_on(tmp_path):
    with RunFolder(tmp_path, CONFIG) as folder:
        folder.update_manifest(status="running", timings={"a": 1.0})
    with RunFolder(tmp_path, {"numerics": {"jax": "1", "dtype": "float64"}, "seeds": 10}) as folder:
        assert folder.manifest["timings"] == {"a": 1.0}


def test_another_configuration_is_refused_by_name_and_nothing_is_touched(tmp_path):
    with RunFolder(tmp_path, CONFIG):
        (tmp_path / "cells" / "one.parquet").write_bytes(b"numbers")
    before = listing(tmp_path)
    other = {"seeds": 20, "numerics": {"dtype": "float32", "jax": "1"}, "sets": ["S1"]}
    with pytest.raises(RunFolderError) as caught, RunFolder(tmp_path, other):
        pass
    message = str(caught.value)
    assert "seeds (10 there, 20 here)" in message
    assert 'numerics.dtype ("float64" there, "float32" here)' in message
    assert 'sets (null there, ["S1"] here)' in message
    assert "jax" not in message.replace(str(tmp_path), "")
    assert isinstance(caught.value, InputError)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("content", ["{", "[]", '{"config": 3}', '{"name": "somebody else\'s"}'])
def test_a_manifest_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"manifest\.json"), RunFolder(tmp_path, CONFIG):
        pass
    assert listing(tmp_path) == {"manifest.json": content.encode()}


def test_a_folder_of_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunFolderError, match=r"not empty.*thesis\.tex"), RunFolder(tmp_path, CONFIG):
        pass
    assert listing(tmp_path) == {"thesis.tex": b"precious"}


def test_a_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunFolderError, match="cannot use the folder"), RunFolder(place, CONFIG):
            pass
    assert listing(tmp_path) == {"file": b"precious"}


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    (tmp_path / ".manifest-0123456789ab.tmp.json").write_text("{")
    (tmp_path / ".lock").write_text("")
    with RunFolder(tmp_path, CONFIG):
        assert not list(tmp_path.glob(".manifest-*"))


HOLD = """
import sys, time
from linbet_jax.storage.results import RunFolder
with RunFolder(sys.argv[1], {"seeds": 10}):
    print("open", flush=True)
    time.sleep(60)
"""


@pytest.mark.timeout(60)
def test_one_process_at_a_time_and_a_dead_one_does_not_count(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(RunFolderError, match=f"process {holder.pid}"), RunFolder(tmp_path, {"seeds": 10}):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with RunFolder(tmp_path, {"seeds": 10}) as folder:
            assert folder.manifest["config"] == {"seeds": 10}


def test_the_lock_is_let_go_at_the_end(tmp_path):
    for _ in range(2):
        with RunFolder(tmp_path, CONFIG):
            pass
    with pytest.raises(RuntimeError, match="inside"), RunFolder(tmp_path, CONFIG):
        raise RuntimeError("inside")
    with RunFolder(tmp_path, CONFIG):
        pass


WRITE = """
import pathlib, sys
from linbet_jax.storage import results
for _ in range(200):
    results.write_text(pathlib.Path(sys.argv[1]), "b" * 4096)
"""


@pytest.mark.timeout(60)
def test_a_reader_never_sees_a_part(tmp_path):
    path = tmp_path / "curves.csv"
    results.write_text(path, "a" * 4096)
    seen = set()
    with subprocess.Popen([sys.executable, "-c", WRITE, str(path)]) as process:
        while process.poll() is None:
            seen.add(path.read_text())
    assert process.returncode == 0
    assert seen == {"a" * 4096, "b" * 4096}
    assert [p.name for p in tmp_path.iterdir()] == ["curves.csv"]


def test_the_manifest_is_readable_json(tmp_path):
    with RunFolder(tmp_path, CONFIG) as folder:
        folder.update_manifest(status="finished")
    assert json.loads((tmp_path / "manifest.json").read_text()) == {"status": "finished", "config": CONFIG}
