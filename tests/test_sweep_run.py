"""Running sweeps: what is computed and what is not, what the files hold, and that numbers do not depend on how.

The host side is tested with a stand-in executor (see `sweeps`), the numbers with the simulator itself.
"""

import contextlib
import errno
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sweeps import StandIn, manifest, rows

import linbet_jax as lb
from linbet_jax.cli import main
from linbet_jax.cli import sweep as command
from linbet_jax.errors import InputError
from linbet_jax.simulation import launches
from linbet_jax.storage.results import RunFolderError
from linbet_jax.sweep import InProcess, Part, PartOutcome, driver, executors, journal, read, run, status, store, work
from linbet_jax.sweep.cells import plan

ROOT = Path(__file__).resolve().parent.parent
SWEEP = """
name = "four"
seeds = 20
records = 5
horizon = 60
[sets.small]
arms = "arms.csv"
theta_star = [1.0, 0.5]
noise = {law = "Pareto", shape = 3.0}
[policies.oful]
radius_scale = [1.0, 0.1, 0.01]
[policies.greedy]
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "arms.csv").write_text("1.0,0.0\n0.0,1.0\n0.5,0.5\n", encoding="utf-8")
    path = tmp_path / "four.toml"
    path.write_text(SWEEP, encoding="utf-8")
    return path


def sweep(file, out, *overrides, executor=None, keep_extra=False, **more):
    executor = executor or StandIn(**more)
    return run(read(file, overrides), out, executor=executor, keep_extra=keep_extra), executor


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "cells").iterdir())}


def everything(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def table(folder, cell):
    return parquet.read_table(folder / "cells" / f"{cell}.parquet")


def ranges(executor):
    return [(len(part.cells), part.spec["start"], part.spec["stop"]) for part in executor.parts]


# What is written


def test_what_a_cell_s_file_holds(file, tmp_path):
    out = tmp_path / "run"
    summary, _ = sweep(file, out, ill=4)
    assert (summary.cells, summary.computed, summary.failed) == (4, 4 * 20 * 60, {})
    assert list(summary.unhealthy.values()) == [1] * 4
    cell = manifest(out)["cells"][1]
    held = table(out, cell["id"])
    assert held.schema.equals(
        pa.schema(
            [
                ("seed", pa.int64()),
                ("pull", pa.int64()),
                ("regret", pa.float64()),
                ("payoff", pa.float64()),
                ("health", pa.int64()),
                ("policy", pa.dictionary(pa.int32(), pa.string())),
                ("set", pa.dictionary(pa.int32(), pa.string())),
            ]
        )
    )
    regret, payoff = rows(cell["id"], 0, 20, [12, 24, 36, 48, 60])
    regret[4] = np.nan
    assert held["seed"].to_pylist() == np.repeat(np.arange(20), 5).tolist()
    assert held["pull"].to_pylist() == [12, 24, 36, 48, 60] * 20
    np.testing.assert_array_equal(held["regret"].to_numpy(), regret.reshape(-1))
    np.testing.assert_array_equal(held["payoff"].to_numpy(), payoff.reshape(-1))
    assert held["health"].to_pylist() == [3 if seed == 4 else 0 for seed in range(20) for _ in range(5)]
    assert set(held["policy"].to_pylist()) == {"oful"}
    assert set(held["set"].to_pylist()) == {"small"}
    path = out / "cells" / f"{cell['id']}.parquet"
    meta = json.loads(parquet.read_metadata(path).metadata[b"linbet_jax"])
    assert (meta["id"], meta["seeds"], meta["unhealthy"], meta["notes"]) == (cell["id"], [0, 20], 1, ["a note"])
    assert (meta["facts"], meta["block_size"], meta["device"], meta["reruns"]) == ({"k": 2.0}, 16, "cpu", 1)
    assert meta["cell"].items() <= cell.items()
    assert cell["parameters"]["radius_scale"] == 0.1
    assert cell["swept"] == {"radius_scale": 0.1}


def test_what_the_manifest_and_the_journal_say(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out, "seeds=16")
    said = manifest(out)
    assert (said["status"], said["name"], said["seeds"], said["swept"]) == ("finished", "four", 16, ["radius_scale"])
    assert said["sweep_file"] == SWEEP
    assert said["overrides"] == ["seeds=16"]
    assert said["git"] is None or re.fullmatch("[0-9a-f]{40}", said["git"])
    assert {"jax", "jaxlib", "linbet_jax", "code", "prng", "dtype", "device_kind"} <= said["numerics"].keys()
    assert {"python", "numpy", "platform", "devices"} <= said["environment"].keys()
    assert [(c["policy"], c["label"], c["seeds"], c["records"]) for c in said["cells"]] == [
        *[("oful", "OFUL", 16, 5)] * 3,
        ("greedy", "greedy", 16, 5),
    ]
    assert said["cells"][0]["bandit"]["law"] == "Pareto(3)"
    events = journal.read(out)
    assert [e["event"] for e in events] == ["begun", *["started", "done"] * 4]
    assert [e["cell"] for e in events[1::2]] == [c["id"] for c in said["cells"]]
    assert events[2].items() >= {"seed_pulls": 16 * 60, "run_seconds": 0.25, "compile_seconds": 0.5}.items()


def test_a_finished_sweep_computes_nothing_again(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out)
    before, said = contents(out), manifest(out)
    summary, executor = sweep(file, out)
    assert (summary.computed, executor.parts) == (0, [])
    assert contents(out) == before
    assert manifest(out) == said


def test_swapped_policies_stay_with_their_names_and_new_names_are_written(file, tmp_path):  # W2
    out = tmp_path / "run"
    sweep(file, out)
    before = contents(out)
    oful, greedy = SWEEP.index("[policies.oful]"), SWEEP.index("[policies.greedy]")
    file.write_text(SWEEP[:oful] + SWEEP[greedy:] + SWEEP[oful:greedy], encoding="utf-8")
    _, executor = sweep(file, out)
    assert executor.parts == []
    assert contents(out) == before
    for cell in manifest(out)["cells"]:
        assert set(table(out, cell["id"])["policy"].to_pylist()) == {cell["policy"]}

    file.write_text(SWEEP.replace("[policies.greedy]", '[policies.plain]\npolicy = "greedy"'), encoding="utf-8")
    _, executor = sweep(file, out)
    assert executor.parts == []
    cell = manifest(out)["cells"][3]
    assert (cell["policy"], cell["label"]) == ("plain", "plain")
    assert set(table(out, cell["id"])["policy"].to_pylist()) == {"plain"}
    fresh = tmp_path / "fresh"
    sweep(file, fresh)
    assert contents(out) == contents(fresh)


# Resuming


@pytest.mark.parametrize("damage", ["cut", "empty", "head", "checksum", "values", "other", "text"])
def test_a_damaged_cell_alone_is_found_and_computed_again(file, tmp_path, capsys, damage):
    out = tmp_path / "run"
    sweep(file, out)
    before = contents(out)
    path = sorted((out / "cells").iterdir())[2]
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = b""
    elif damage == "other":
        content = sorted((out / "cells").iterdir())[1].read_bytes()
    elif damage == "text":
        content = b"not Parquet at all"
    else:
        place = {"head": 5, "checksum": content.index(b"checksum") + 20, "values": len(content) // 3}[damage]
        content[place] ^= 16
    path.write_bytes(content)
    assert status(out).done == (3 if damage in ("cut", "empty", "other", "text") else status(out).done)
    reporter = Lines()
    executor = StandIn()
    run(read(file), out, executor=executor, reporter=reporter)
    assert [part.cells for part in executor.parts] == [(path.stem,)]
    assert reporter.lines[:2] == [f"damaged: {path.name} is computed again", "3 of 4 cells are done already"]
    assert contents(out) == before


@pytest.mark.parametrize("more", [20, 33])
def test_every_flipped_byte_is_found(file, tmp_path, more):
    out = tmp_path / "run"
    sweep(file, out, f"seeds={more}", "records=2")
    cell = manifest(out)["cells"][0]
    held = store.Store(out)
    path = held.cell_path(cell["id"])
    content = path.read_bytes()
    reference = table(out, cell["id"])
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        if held.verified(cell["id"], [30, 60]):  # what does not matter may change: the contents must be the same
            assert table(out, cell["id"]).equals(reference)
        path.write_bytes(content)
    assert len(held.damaged) > len(content) // 14


class Lines:
    """A reporter that keeps what it is told."""

    def __init__(self):
        self.lines, self.seed_pulls = [], 0

    def say(self, line):
        self.lines.append(line)

    def describe(self, description):
        pass

    def cells(self, total, done, seconds):
        return threading.Lock()

    def pulls(self, seed_pulls, seconds):
        self.seed_pulls += seed_pulls

    def cell(self, line, *, compiling):
        self.lines.append(line)


def test_progress_counts_every_pull_and_every_cell(file, tmp_path):
    reporter = Lines()
    run(read(file), tmp_path / "run", executor=StandIn(failing=("greedy",)), reporter=reporter)
    assert reporter.seed_pulls == 4 * 20 * 60
    assert [line.partition("  ")[0] for line in reporter.lines] == [
        "[1/4] small/oful (radius_scale=1)",
        "[2/4] small/oful (radius_scale=0.1)",
        "[3/4] small/oful (radius_scale=0.01)",
        "[4/4] small/greedy",
    ]
    assert re.search(r"regret [\d.,]+ ± [\d.]+ sd \(0\.\d s, compile 0\.\d s\)$", reporter.lines[0])
    assert reporter.lines[3].endswith("FAILED: FloatingPointError: it broke")


def test_seeds_can_be_raised_and_only_the_new_ones_are_run(file, tmp_path):
    out, fresh = tmp_path / "run", tmp_path / "fresh"
    sweep(file, out, "seeds=16")
    _, executor = sweep(file, out, "seeds=48")
    assert ranges(executor) == [(1, 16, 48)] * 4
    assert manifest(out)["seeds"] == 48
    sweep(file, fresh, "seeds=48")
    reruns = [json.loads(parquet.read_metadata(p).metadata[b"linbet_jax"])["reruns"] for p in (out / "cells").iterdir()]
    assert reruns == [2] * 4  # the stand-in says 1 for every part
    for cell in manifest(out)["cells"]:
        assert table(out, cell["id"]).equals(table(fresh, cell["id"]))
    with pytest.raises(
        RunFolderError, match=r"seeds \(48 there, 20 here: they can only be raised; --set seeds=48 carries on\)"
    ):
        sweep(file, out)


def test_a_sweep_can_grow(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out)
    kept = contents(out)
    _, executor = sweep(file, out, "policies.greedy.ridge=[1.0, 2.0]", "policies.uniform.policy=uniform")
    assert [len(part.cells) for part in executor.parts] == [1, 1]
    assert kept.items() <= contents(out).items()
    assert len(manifest(out)["cells"]) == 6


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policies.oful.delta=0.2", "delta (0.1 there, 0.2 here)"),
        ("policies.oful.radius_scale=[1.0, 0.5]", "radius_scale (0.1, 0.01 there, 0.5 here)"),
        ("horizon=70", "horizon (60 there, 70 here)"),
        ("sets.small.noise.shape=3.5", "noise (Pareto(shape=3.0) there, Pareto(shape=3.5) here)"),
        ("sets.small.theta_star=[1.0, 0.6]", "instance_hash ("),
        ("key=1", "key (0 there, 1 here)"),
        ("records=6", "records (5 there, 6 here)"),
        ("block_size=8", "block_size (16 there, 8 here)"),
        ("dtype=float32", 'dtype ("float64" there, "float32" here)'),
        ("policies.greedy.policy=uniform", "policy (greedy there, uniform here)"),
    ],
)
def test_a_folder_of_another_sweep_is_refused_with_a_diff_and_left_alone(file, tmp_path, override, message):
    out = tmp_path / "run"
    sweep(file, out)
    before = everything(out)
    with pytest.raises(RunFolderError) as raised:
        sweep(file, out, override)
    if not override.startswith("policies."):
        assert "holds another run, which differs in " in str(raised.value)
    elif "greedy" in override:  # the label is the table's name; what plays is the source
        message = (
            "does not list (of small/greedy, which differ in source.policy (greedy there, uniform here)): keep them"
        )
    else:
        message = f"does not list (of small/oful, which differ in {message}): keep them with --keep-extra"
    assert message in str(raised.value)
    assert everything(out) == before


def test_cells_that_are_gone_from_the_file_stay_when_they_may(file, tmp_path, capsys, monkeypatch):
    out, other = tmp_path / "run", "[sets.other]\nset = 'S3'\nhorizon = 60\n[policies."
    both = tmp_path / "both.toml"
    both.write_text(SWEEP.replace("[policies.", other, 1), encoding="utf-8")
    sweep(both, out)
    before = everything(out)
    for gone, message in (
        ("[policies.greedy]", f"{out} holds 2 cells that {both} does not list (of policy greedy): keep them with"),
        (other, f"{out} holds 4 cells that {both} does not list (of set other): keep them with --keep-extra"),
        (", 0.01", f"{out} holds 2 cells that {both} does not list (of small/oful; of other/oful): keep them with"),
    ):
        left = SWEEP.replace("[policies.", other, 1).replace(gone, "[policies." if gone == other else "")
        both.write_text(left, encoding="utf-8")
        with pytest.raises(RunFolderError) as raised:
            sweep(both, out)
        assert str(raised.value).startswith(message)
        assert everything(out) == before
    file.write_text(SWEEP.replace("[1.0, 0.1, 0.01]", "1.0").replace("[policies.greedy]", ""), encoding="utf-8")
    monkeypatch.setattr(executors, "InProcess", StandIn)
    assert main(["sweep", str(file), "--out", str(out), "--keep-extra"]) == 0
    assert capsys.readouterr().out == f"1 of 1 cells of 20 seeds are in {out}, beside 7 that the file does not list\n"
    assert contents(out) == {p.removeprefix("cells/"): c for p, c in before.items() if p.startswith("cells/")}
    held = lb.load(out)
    assert held.complete
    assert [cell.id for cell in held.cells] == [cell["id"] for cell in manifest(out)["cells"]]
    assert {(cell.set, cell.policy) for cell in held.cells} == {
        (name, policy) for name in ("small", "other") for policy in ("oful", "greedy")
    }
    assert held.swept == ("radius_scale",)
    assert status(out).cells == status(out).done == 8
    summary, executor = sweep(file, out, "key=0", keep_extra=True)
    assert (summary.cells, summary.extra, executor.parts) == (1, 7, [])
    with pytest.raises(RunFolderError, match="holds another run, which differs in horizon"):
        sweep(file, out, "horizon=70", keep_extra=True)
    both.write_text(SWEEP.replace("[policies.", other, 1), encoding="utf-8")  # and back
    summary, executor = sweep(both, out)
    assert (summary.cells, summary.extra, executor.parts) == (8, 0, [])


def test_cells_without_a_result_hold_nothing_back(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out, failing=("greedy",))
    file.write_text(SWEEP.replace("[policies.greedy]", ""), encoding="utf-8")
    summary, executor = sweep(file, out)
    assert (summary.cells, summary.extra, executor.parts) == (3, 0, [])
    assert status(out).cells == status(out).done == 3


def test_the_same_command_after_a_file_of_one_s_own_module_was_replaced_is_refused_and_says_so(file, tmp_path):
    out, data = tmp_path / "run", tmp_path / "table.npy"
    (tmp_path / "mine4.py").write_text(
        "import numpy as np\nfrom pathlib import Path\nimport linbet_jax as lb\n"
        "def make():\n    theta = np.load(Path(__file__).parent / 'table.npy')\n"
        "    return lb.LinearBandit(np.eye(2), theta, lb.noise.Gaussian())\n",
        encoding="utf-8",
    )
    file.write_text(SWEEP + "[sets.mine]\nset = 'mine4:make'\n", encoding="utf-8")
    np.save(data, [1.0, 0.5])
    sweep(file, out)
    np.save(data, [1.0, 0.25])
    with pytest.raises(
        RunFolderError, match=r"4 cells that .* \(of mine/oful, which .* table.npy \(.* there, .* here\)"
    ):
        sweep(file, out)
    summary, executor = sweep(file, out, keep_extra=True)
    assert (summary.extra, [part.pulls for part in executor.parts]) == (4, [3 * 20 * 60, 20 * 60])
    np.save(data, [1.0, 0.5])
    assert sweep(file, out, keep_extra=True)[1].parts == []


def test_a_folder_of_other_versions_or_of_anything_else_is_refused(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out)
    said = manifest(out)
    said["numerics"]["jax"] = "0.0.1"
    (out / "manifest.json").write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(RunFolderError, match=re.escape(f'jax ("0.0.1" there, "{jax.__version__}" here)')):
        sweep(file, out)
    with pytest.raises(RunFolderError, match=re.escape('device_kind ("cpu" there, "NVIDIA H100" here)')):
        sweep(file, tmp_path / "other", kind="cpu") and sweep(file, tmp_path / "other", kind="NVIDIA H100")
    said["config"] = {"experiment": "figure2"}
    (out / "manifest.json").write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(RunFolderError, match="experiment"):
        sweep(file, out)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(RunFolderError, match="is not empty and holds no manifest.json"):
        sweep(file, tmp_path / "letters")


# Cells that raise, seeds that fall ill, disks that fill


def test_a_cell_that_raises_is_recorded_and_the_others_go_on(file, tmp_path, capsys, monkeypatch):  # W3
    out = tmp_path / "run"
    monkeypatch.setattr(executors, "InProcess", lambda: StandIn(failing=("greedy",)))
    assert main(["sweep", str(file), "--out", str(out)]) == 1
    assert "linbet: small/greedy failed: FloatingPointError: it broke" in capsys.readouterr().err
    assert manifest(out)["status"] == "failed"
    assert len(contents(out)) == 3
    assert main(["status", str(out)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "3 of 4 cells done, 1 failed, 0 to do"
    assert shown[2] == "  failed     small/greedy: FloatingPointError: it broke"
    assert main(["status", str(out), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == {"small/greedy": "FloatingPointError: it broke"}
    assert (found["cells"], found["done"], found["to_do"], found["running"]) == (4, 3, 0, False)
    monkeypatch.setattr(executors, "InProcess", StandIn)
    assert main(["sweep", str(file), "--out", str(out), "--quiet"]) == 0  # tried again, and it is well
    assert main(["status", str(out)]) == 0


def test_parts_of_a_cell_that_failed_are_not_begun(file, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "PART_BYTES", 16 * 5 * 16)
    summary, executor = sweep(file, tmp_path / "run", "seeds=64", failing=("oful",))
    assert list(summary.failed) == [f"small/oful (radius_scale={scale})" for scale in ("1", "0.1", "0.01")]
    assert ranges(executor) == [(1, 0, 16)] * 3 + [(1, start, start + 16) for start in (0, 16, 32, 48)]


def test_unhealthy_seeds_are_counted_and_the_status_is_1(file, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    monkeypatch.setattr(executors, "InProcess", lambda: StandIn(ill=7))
    assert main(["sweep", str(file), "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert "linbet: small/greedy: 1 seeds met a non-finite number" in told
    assert "UNHEALTHY seeds 1" in told
    assert "nan" not in told
    assert main(["sweep", str(file), "--out", str(out), "--quiet"]) == 1  # what is stored is no healthier
    assert main(["status", str(out)]) == 1
    assert "  unhealthy  small/greedy: 1 seed" in capsys.readouterr().out


def test_a_full_disk_leaves_earlier_cells_whole_and_says_so(file, tmp_path, capsys, monkeypatch):
    out, fresh = tmp_path / "run", tmp_path / "fresh"
    monkeypatch.setattr(executors, "InProcess", StandIn)
    sweep(file, fresh)
    written = []

    def write_table(self, *arguments, **more):
        written.append(arguments)
        if len(written) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(self, *arguments, **more)

    original = parquet.ParquetWriter.write_table
    with monkeypatch.context() as patch:
        patch.setattr(parquet.ParquetWriter, "write_table", write_table)
        assert main(["sweep", str(file), "--out", str(out), "--quiet"]) == 2
    assert capsys.readouterr().err == "linbet: error: No space left on device; what is finished is kept\n"
    assert len(contents(out)) == 2
    assert contents(out).items() <= contents(fresh).items()
    assert main(["sweep", str(file), "--out", str(out), "--quiet"]) == 0
    assert contents(out) == contents(fresh)


def test_a_journal_that_was_cut_off_is_read_and_carried_on(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out, failing=("greedy",))
    path = out / "journal.jsonl"
    path.write_bytes(path.read_bytes() + b'{"time": "2026-01-01T00:00:00.000+00:00", "event": "don')
    assert status(out).failed == {"small/greedy": "FloatingPointError: it broke"}
    sweep(file, out)
    assert status(out).done == 4
    assert [e["event"] for e in journal.read(out)][-2:] == ["started", "done"]
    path.unlink()  # no number depends on it
    assert status(out).done == 4


@pytest.mark.timeout(60)
def test_status_needs_no_jax_and_a_sweep_neither_plots_nor_pandas(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out)
    code = """if True:
        import sys
        from linbet_jax.cli import main
        heavy = lambda: [name for name in ("jax", "scipy", "matplotlib", "pandas") if name in sys.modules]
        assert main(["status", sys.argv[1]]) == 0
        print(heavy())
        import linbet_jax.sweep.driver
        print(heavy())
    """
    done = subprocess.run([sys.executable, "-c", code, str(out)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["4 of 4 cells done, 0 failed, 0 to do", "[]", "['jax', 'scipy']"]


def test_status_of_what_is_no_sweep(tmp_path):
    with pytest.raises(RunFolderError, match=r"holds no sweep: it has no manifest\.json"):
        status(tmp_path)
    (tmp_path / "manifest.json").write_text('{"config": {"experiment": "figure2"}}', encoding="utf-8")
    with pytest.raises(RunFolderError, match="holds no sweep"):
        status(tmp_path)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("x", "its cells are 'x', not a list"),
        (None, "its cells are None, not a list"),
        ([3], "cell 0 has no id, or not one of type str"),
        (
            [{"id": "a", "set": "S1", "policy": "tofu", "horizon": 10, "seeds": "2", "options": {}}],
            "no seeds, or not one",
        ),
    ],
)
def test_a_manifest_that_is_json_and_yet_damaged_is_said_to_be(file, tmp_path, cells, message):
    out = tmp_path / "run"
    sweep(file, out)
    said = manifest(out)
    (out / "manifest.json").write_text(json.dumps({**said, "cells": cells}), encoding="utf-8")
    with pytest.raises(RunFolderError, match=message):
        status(out)
    with pytest.raises(RunFolderError, match=message):
        sweep(file, out)
    (out / "manifest.json").write_text(json.dumps({**said, "seeds": "many"}), encoding="utf-8")
    with pytest.raises(RunFolderError, match="its seeds are 'many', not a whole number"):
        sweep(file, out)


def test_journal_lines_that_are_no_events_are_passed_over(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out)
    before, journal = status(out), out / "journal.jsonl"
    last = json.loads(journal.read_text(encoding="utf-8").splitlines()[-2])
    for damage in (
        {"seed_pulls": "x"},
        {"run_seconds": None},
        {"time": 3},
        {"cell": []},
        {"event": 7},
        {"time": "soon"},
    ):
        with journal.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({**last, **damage}) + '\n[]\n3\n"begun"\n')
        assert status(out) == before, damage
    sweep(file, out)


def test_time_left_follows_the_pace_of_each_policy(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out, failing=("greedy",))
    # A run of which two cells of OFUL are done, in 10 and 10 seconds side by side.
    for path in sorted((out / "cells").iterdir())[:1]:
        path.unlink()
    ids = {cell["id"]: cell["policy"] for cell in manifest(out)["cells"]}
    done = [path.stem for path in sorted((out / "cells").iterdir())]
    lines = [{"time": "2026-01-01T00:00:00.000+00:00", "event": "begun", "cell": None}]
    lines += [
        {
            "time": "2026-01-01T00:00:10.000+00:00",
            "event": "done",
            "cell": cell,
            "seed_pulls": 20 * 60,
            "run_seconds": 10.0,
            "compile_seconds": 0.0,
        }
        for cell in done
    ]
    (out / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert set(ids.values()) == {"oful", "greedy"}
    assert status(out).to_do == 2
    assert status(out).seconds_left == pytest.approx(10.0)  # two cells of 10 s each, two at a time
    # What is left to compile counts: the programs of the cells that are done took 6 s each.
    lines = [{**line, "compile_seconds": 6.0} if "compile_seconds" in line else line for line in lines]
    (out / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    cells = {cell["id"]: (cell["policy"], cell["set"], str(cell["options"])) for cell in manifest(out)["cells"]}
    compiled = {cells[cell] for cell in done}
    new = {program for cell, program in cells.items() if cell not in done} - compiled
    waiting = len(new) * 12.0 / len(compiled)
    assert waiting > 0
    assert status(out).seconds_left == pytest.approx(10.0 + waiting / 2)


def test_an_error_that_cannot_be_encoded_is_a_failed_cell(tmp_path):
    with contextlib.closing(journal.Journal(tmp_path)) as writing:
        writing.write("failed", "a", error="bad \udc80 byte")
    [event] = journal.read(tmp_path)
    assert event["error"] == "bad \udc80 byte"


# Large cells


def test_a_large_cell_is_run_in_parts_that_are_kept_and_merged(file, tmp_path, monkeypatch):
    out, fresh = tmp_path / "run", tmp_path / "fresh"
    monkeypatch.setattr(driver, "PART_BYTES", 16 * 5 * 40)  # 40 seeds: two blocks of 16
    monkeypatch.setattr(store, "GROUP_ROWS", 5 * 48)

    class Stopping(StandIn):
        def run(self, parts, *, wanted, advance):
            for number, outcome in enumerate(super().run(parts, wanted=wanted, advance=advance)):
                if number == 5:
                    raise KeyboardInterrupt
                yield outcome

    with pytest.raises(KeyboardInterrupt):
        sweep(file, out, "seeds=112", executor=Stopping())
    first, second, *_ = manifest(out)["cells"]
    assert sorted(path.name for path in (out / "cells").iterdir()) == sorted(
        [f"{first['id']}.parquet", f"{second['id']}.parts"]
    )
    assert [path.name for path in (out / "cells" / f"{second['id']}.parts").iterdir()] == [
        "0000000000-0000000032.parquet"
    ]
    assert status(out).done == 1
    _, executor = sweep(file, out, "seeds=112")
    spans = [(0, 32), (32, 64), (64, 96), (96, 112)]
    assert ranges(executor) == [(1, *span) for span in spans[1:] + 2 * spans]
    assert len(contents_of_files(out)) == 4
    monkeypatch.setattr(driver, "PART_BYTES", 2**25)
    _, executor = sweep(file, fresh, "seeds=112")
    assert ranges(executor)[0] == (1, 0, 112)
    for cell in manifest(out)["cells"]:
        assert table(out, cell["id"]).equals(table(fresh, cell["id"]))
        path = out / "cells" / f"{cell['id']}.parquet"
        assert parquet.read_metadata(path).num_row_groups == 3  # 48 seeds each, whatever the parts
        assert table(out, cell["id"])["seed"].to_pylist() == np.repeat(np.arange(112), 5).tolist()


def test_memory_does_not_grow_with_the_seeds(file, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "PART_BYTES", 2**19)
    monkeypatch.setattr(store, "GROUP_ROWS", 2**13)
    peaks = []
    for name, seeds in (("first", 400), ("small", 400), ("large", 3200)):
        tracemalloc.start()
        for _ in range(2):  # computed in parts and merged, then verified
            sweep(file, tmp_path / name, f"seeds={seeds}", "records=60", "policies.oful.radius_scale=1.0")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[2] < 2.5e6, peaks  # bytes; a cell of 3200 seeds is 10 MB of columns


def contents_of_files(folder):
    return [path for path in (folder / "cells").iterdir() if path.is_file()]


def test_a_damaged_part_alone_is_computed_again(file, tmp_path, monkeypatch):
    out = tmp_path / "run"
    monkeypatch.setattr(driver, "PART_BYTES", 16 * 5 * 16)
    with pytest.raises(InputError, match="stop"):
        sweep(file, out, "seeds=64", executor=Stop(3))
    [folder] = (out / "cells").iterdir()
    damaged = sorted(folder.iterdir())[1]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (folder / ".half-0123.tmp.parquet").write_bytes(b"half")
    _, executor = sweep(file, out, "seeds=64")
    assert ranges(executor)[:2] == [(1, 16, 32), (1, 48, 64)]
    assert len(contents_of_files(out)) == len(contents(out)) == 4


class Stop(StandIn):
    """Breaks after so many parts."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def run(self, parts, *, wanted, advance):
        for number, outcome in enumerate(super().run(parts, wanted=wanted, advance=advance)):
            if number == self.after:
                raise InputError("stop")
            yield outcome


def test_work_is_cut_for_every_worker_and_by_time(file, tmp_path, monkeypatch):
    _, executor = sweep(file, tmp_path / "a", "seeds=160", workers=4)
    assert len(executor.parts) >= 8
    assert all((part.spec["stop"] - part.spec["start"]) % 16 == 0 for part in executor.parts)
    assert sorted({span[1:] for span in ranges(executor)})[0] == (0, 64)
    monkeypatch.setattr(driver, "PART_SECONDS", 33 * 60 * 0.174e-6)
    _, executor = sweep(file, tmp_path / "b", "seeds=160", "policies.oful.radius_scale=1.0")
    assert ranges(executor)[:5] == [(1, start, start + 32) for start in range(0, 160, 32)]


def test_settings_fill_each_other_s_blocks_where_that_saves_some(file, tmp_path):
    for lanes, seeds, expected in (
        (1, 20, [(3, 0, 20), (1, 0, 20)]),
        (1, 32, [(1, 0, 32)] * 4),
        (2, 16, [(3, 0, 16), (1, 0, 16)]),
        (2, 32, [(1, 0, 32)] * 4),
    ):
        _, executor = sweep(file, tmp_path / f"{lanes}-{seeds}", f"seeds={seeds}", lanes=lanes)
        assert ranges(executor) == expected


# The numbers


OWN = """
import jax
import jax.numpy as jnp
import linbet_jax as lb

def make(bandit, *, horizon, fails_at=-1):
    def select(key, state, arms, params):
        if fails_at == arms.shape[0]:
            raise FloatingPointError("it broke while it was traced")
        return state % arms.shape[0]
    turns = lb.Policy("turns", lambda arms, params: jnp.zeros((), jnp.int32), select, lambda s, a, i, p, params: s + 1)
    return turns, {"weight": 1.0}
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A sweep run by the simulator: 20 seeds, settings batched where they fill blocks."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "arms.csv").write_text("1.0,0.0\n0.0,1.0\n0.5,0.5\n", encoding="utf-8")
    (folder / "four.toml").write_text(SWEEP.partition("[policies.greedy]")[0], encoding="utf-8")
    summary = run(read(folder / "four.toml"), folder / "run")
    assert summary.computed == 3 * 20 * 60
    return folder


def parts_of(folder):
    return [e["cell"] for e in journal.read(folder) if e["event"] == "started"]


@pytest.mark.timeout(120)
def test_the_numbers_are_those_of_simulate_alone(real):
    for cell, built in zip(manifest(real / "run")["cells"], plans(real / "four.toml"), strict=True):
        result = lb.simulate(
            built.policy,
            built.params,
            built.bandit,
            horizon=60,
            num_seeds=20,
            key=jax.random.key(0),
            num_records=5,
            dtype="float64",
        )
        held = table(real / "run", cell["id"])
        np.testing.assert_allclose(held["regret"].to_numpy().reshape(20, 5), result.regret, rtol=1e-12)
        np.testing.assert_allclose(held["payoff"].to_numpy().reshape(20, 5), result.payoff, rtol=1e-12)
        assert held["pull"].to_pylist()[:5] == result.rounds.tolist()
        assert held["health"].to_pylist() == [0] * 100


def plans(file):
    return [work.build(cell.spec) for cell in plan(read(file), {"dtype": "float64"}, "cpu")]


@pytest.mark.timeout(200)
def test_bits_are_the_same_batched_alone_in_parts_resumed_and_on_one_device(real, tmp_path, monkeypatch):
    file, reference = real / "four.toml", contents(real / "run")
    for scale in ("1.0", "0.1", "0.01"):  # alone
        run(read(file, [f"policies.oful.radius_scale=[{scale}]"]), tmp_path / f"alone{scale}")
        assert contents(tmp_path / f"alone{scale}").items() <= reference.items()
    run(read(file), tmp_path / "one", executor=InProcess(jax.devices()[:1]))
    assert contents(tmp_path / "one") == reference
    run(read(file, ["seeds=5"]), tmp_path / "raised")  # more seeds later, twice
    run(read(file, ["seeds=17"]), tmp_path / "raised")
    run(read(file), tmp_path / "raised")
    assert contents(tmp_path / "raised") == reference
    monkeypatch.setattr(driver, "PART_BYTES", 1)  # parts of one block
    run(read(file), tmp_path / "parts", executor=InProcess(jax.devices()[:1]))
    assert len(parts_of(tmp_path / "parts")) == 6
    assert contents(tmp_path / "parts") == reference


MANY = """
seeds = 16
records = 3
horizon = [600, 1200, 1300]
[sets.a]
set = "uniform"
K = [3, 4]
d = 2
epsilon = [0.5, 1.0]
noise = {law = "StudentT", df = 3.0}
[sets.b]
set = "S3"
resample = true
[policies.menu]
delta = [0.1, 0.05]
[policies.mom]
[policies.tofu]
level = ["proof", "box"]
[policies.crt]
radius_scale = [1.0, 0.5]
[policies.oful]
noise_scale = [1.0, 2.0]
"""


def test_the_programs_that_are_counted_are_those_that_are_compiled(tmp_path, monkeypatch):
    programs = set()

    def program(launch, arguments):
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments))
        programs.add((launch, jax.tree.structure(arguments), shapes))
        seeds, records = arguments[0].size, arguments[4].size
        numbers = {name: jnp.zeros((seeds, records)) for name in ("regret", "payoff")}
        return lambda *_: {**numbers, "health": jnp.zeros(seeds, int), "overflow": jnp.zeros(seeds, bool)}, 0.0

    monkeypatch.setattr(launches, "_program", program)
    (tmp_path / "x.toml").write_text(MANY, encoding="utf-8")
    planned = plan(read(tmp_path / "x.toml"), {"dtype": "float64"}, "cpu")
    assert len(planned) == (3 * 4 + 3) * (2 + 1 + 2 + 2 + 2)
    summary = run(read(tmp_path / "x.toml"), tmp_path / "run")
    assert summary.failed == {}
    assert len(programs) == len({cell.program for cell in planned}) < len(planned) / 2


@pytest.mark.timeout(120)
def test_a_policy_that_breaks_is_a_failed_cell_of_its_own(real, tmp_path):
    (tmp_path / "ours.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "arms.csv").write_bytes((real / "arms.csv").read_bytes())
    text = (real / "four.toml").read_text(encoding="utf-8").replace("radius_scale = [1.0, 0.1, 0.01]", "")
    text += '[policies.turns]\npolicy = "ours:make"\nfails_at = [-1, 3]\n'
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    summary = run(read(tmp_path / "own.toml"), tmp_path / "run")
    assert list(summary.failed) == ["small/turns (fails_at=3)"]
    assert "it broke while it was traced" in summary.failed["small/turns (fails_at=3)"]
    cells = manifest(tmp_path / "run")["cells"]
    assert cells[0]["id"] in [Path(name).stem for name in contents(real / "run")]  # the same cell as there
    held = table(tmp_path / "run", cells[1]["id"])["regret"].to_numpy().reshape(20, 5)
    gaps = np.resize([0.0, 0.5, 0.25], 60)
    np.testing.assert_allclose(held, np.tile(np.cumsum(gaps)[11::12], (20, 1)))


def test_one_cell_of_a_batch_that_raises_fails_alone(real, monkeypatch):
    cells = plan(read(real / "four.toml"), manifest(real / "run")["numerics"], "cpu")
    bad = cells[1].id
    original = work.simulate_grid

    def simulate_grid(policy, grid, *arguments, **more):
        if any(params.radius_scale == 0.1 for params in grid):
            raise MemoryError("too much")
        return original(policy, grid, *arguments, **more)

    monkeypatch.setattr(work, "simulate_grid", simulate_grid)
    part = {
        "cells": [cell.spec for cell in cells],
        "start": 0,
        "stop": 20,
        "record_at": list(cells[0].rounds),
        "key": 0,
        "dtype": "float64",
        "block_size": 16,
    }
    found = work.run_part(part)["cells"]
    assert found[bad] == {"error": "MemoryError: too much"}
    for cell in cells:
        if cell.id != bad:
            held = table(real / "run", cell.id)["regret"].to_numpy()
            np.testing.assert_array_equal(found[cell.id]["regret"].reshape(-1), held)


def test_a_module_that_is_another_one_at_the_worker_is_an_error(tmp_path):
    (tmp_path / "ours2.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "own.toml").write_text(
        'horizon = 9\n[sets.S3]\n[policies.turns]\npolicy = "ours2:make"\n', encoding="utf-8"
    )
    [cell] = plan(read(tmp_path / "own.toml"), {"dtype": "float64"}, "cpu")
    spec = {**cell.spec, "policy": {**cell.spec["policy"], "digest": "0" * 16}}
    with pytest.raises(InputError, match="the module is another one here than where the sweep was started"):
        work.build(spec)


def test_what_a_module_imports_from_its_folder_decides_the_identity(tmp_path):
    (tmp_path / "ours3.py").write_text("from kit3.parts import step\nimport jax\n" + OWN, encoding="utf-8")
    (tmp_path / "kit3").mkdir()
    (tmp_path / "kit3" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "kit3" / "parts.py").write_text("from . import sizes\nstep = sizes.STEP\n", encoding="utf-8")
    (tmp_path / "unused3.py").write_text("", encoding="utf-8")
    (tmp_path / "own.toml").write_text(
        'horizon = 9\n[sets.S3]\n[policies.turns]\npolicy = "ours3:make"\n', encoding="utf-8"
    )
    found = []
    for step, unused in ((1, "a = 1"), (22, "a = 1"), (22, "a = 2"), (1, "a = 3")):  # of two sizes: for Python's cache
        (tmp_path / "kit3" / "sizes.py").write_text(f"STEP = {step}\n", encoding="utf-8")
        (tmp_path / "unused3.py").write_text(unused, encoding="utf-8")
        [cell] = plan(read(tmp_path / "own.toml"), {"dtype": "float64"}, "cpu")
        found.append(cell.id)
        assert sys.modules["ours3"].step == step  # what is hashed is what runs
    assert found[0] == found[3] != found[1] == found[2]


def test_there_is_no_callback_in_the_program(real, tmp_path, monkeypatch):  # W4
    programs = []

    def lower(launch, arguments):
        programs.append(str(original(launch, arguments).jaxpr))
        raise FloatingPointError("seen enough")

    original = launches.lower
    monkeypatch.setattr(launches, "lower", lower)
    summary = run(read(real / "four.toml", ["records=7"]), tmp_path / "run", reporter=Lines())
    assert len(summary.failed) == 3
    assert "fori_loop" in programs[0] or "while" in programs[0]
    assert not [program for program in programs if "callback" in program]


# Executors


def fake_parts(count, programs):
    return [Part(n, {"n": n, "start": 0, "stop": 1}, (str(n),), (str(n),), n % programs, 1, 1.0) for n in range(count)]


@pytest.mark.timeout(60)
def test_parts_of_one_program_never_run_at_the_same_time(monkeypatch):
    running, together, lock = [], [], threading.Lock()

    def run_part(spec, *, progress, devices):
        with lock:
            running.append(spec["n"] % 3)
            together.append(sorted(running))
        threading.Event().wait(0.005)
        with lock:
            running.remove(spec["n"] % 3)
        if spec["n"] == 7:
            raise SystemExit("gone")
        return {"n": spec["n"]}

    monkeypatch.setattr(executors, "run_part", run_part)
    begun = []
    parts = fake_parts(20, 3)
    outcomes = list(
        InProcess().run(
            parts, wanted=lambda part: part.number != 4, advance=lambda part, pulls: begun.append(part.number)
        )
    )
    assert sorted(part.number for part, _ in outcomes) == [n for n in range(20) if n != 4]
    assert all(outcome.result == {"n": part.number} for part, outcome in outcomes if part.number != 7)
    assert (parts[7], PartOutcome(None, "SystemExit: gone", "in-process")) in outcomes
    assert sorted(begun) == sorted(part.number for part, _ in outcomes)
    assert all(len(set(each)) == len(each) for each in together)
    assert max(map(len, together)) == 2


@pytest.mark.timeout(60)
def test_closing_the_executor_drops_what_has_not_begun(monkeypatch):
    ran = []
    monkeypatch.setattr(executors, "run_part", lambda spec, **_: ran.append(spec["n"]) or {})
    outcomes = InProcess().run(fake_parts(100, 5), wanted=lambda part: True, advance=lambda part, pulls: None)
    next(outcomes)
    outcomes.close()
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("sweep-")]
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads)
    assert len(ran) < 20


@pytest.mark.timeout(60)
def test_an_error_of_the_journal_s_disk_ends_the_run_instead_of_hanging(monkeypatch):
    def full(part, pulls):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(executors, "run_part", lambda spec, **_: {})
    with pytest.raises(OSError, match="No space left"):
        list(InProcess().run(fake_parts(4, 4), wanted=lambda part: True, advance=full))


# The command


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(executors, "InProcess", lambda: StandIn(lanes=2))


def test_plain_lines_when_piped(file, tmp_path, stand_in, capsys):  # W4
    assert main(["sweep", str(file), "--out", str(tmp_path / "run")]) == 0
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[0].startswith("device: cpu, ")
    assert [line[:6] for line in lines[1:5]] == ["[1/4] ", "[2/4] ", "[3/4] ", "[4/4] "]
    assert re.match(r"4,800 seed-pulls in .* seed-pulls/s; .* of compiling, partly side by side\)$", lines[5])
    assert out == f"4 of 4 cells of 20 seeds are in {tmp_path / 'run'}\n"
    assert "\x1b" not in out + err


def test_quiet_and_the_same_bytes(file, tmp_path, stand_in, capsys):  # W4
    assert main(["sweep", str(file), "--out", str(tmp_path / "loud")]) == 0
    capsys.readouterr()
    assert main(["sweep", str(file), "--out", str(tmp_path / "quiet"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert contents(tmp_path / "loud") == contents(tmp_path / "quiet")


@pytest.mark.timeout(60)
def test_a_live_view_on_a_terminal_and_the_same_bytes(file, tmp_path, stand_in, monkeypatch):  # W4
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(executors, "InProcess", lambda: StandIn(lanes=2, pause=0.15))
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        assert main(["sweep", str(file), "--out", str(tmp_path / "live")]) == 0
        monkeypatch.undo()
        terminal.flush()
        shown = b""
        while select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 65536)
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert b"\x1b[" in shown
    for expected in ("3/4 cells", "seed-pulls/s", "compile", "left", "small/oful (radius_scale=1) and 2 more"):
        assert expected in text
    sweep(file, tmp_path / "plain", lanes=2)
    assert contents(tmp_path / "live") == contents(tmp_path / "plain")


def test_a_dry_run_counts_and_runs_nothing(file, tmp_path, stand_in, capsys):
    arguments = ["sweep", str(file), "--out", str(tmp_path / "run"), "--dry-run", "--set", "seeds=1000"]
    assert main([*arguments, "--set", "policies.oful.delta=[0.1, 0.2]"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "small/oful (radius_scale=1, delta=0.1)     T=60"
    assert lines[8:11] == [
        "cells        7 of 7 to compute",
        "programs     2 to compile",
        "seed-pulls   420,000 (1000 seeds)",
    ]
    assert lines[11] == "results      about 560 kB"  # 7 x 1000 x 5 rows of 16 bytes
    assert re.fullmatch(r"time         (under 1|about \d+) s on stand-in \(a rough estimate\)", lines[12])
    assert not (tmp_path / "run").exists()


def test_a_dry_run_looks_into_the_folder_and_changes_nothing(file, tmp_path, stand_in, capsys):
    out = tmp_path / "run"
    sweep(file, out)
    damaged = sorted((out / "cells").iterdir())[0]
    damaged.write_bytes(b"PAR1")
    before = everything(out)

    def said(*more):
        assert main(["sweep", str(file), "--out", str(out), "--dry-run", *more]) == 0
        return capsys.readouterr().out.splitlines()

    assert said()[5:8] == [
        "cells        1 of 4 to compute",
        "programs     1 to compile",
        "seed-pulls   1,200 (20 seeds)",
    ]
    assert said("--set", "seeds=50")[5:8:2] == ["cells        4 of 4 to compute", "seed-pulls   8,400 (50 seeds)"]
    file.write_text(SWEEP.replace("[policies.greedy]", ""), encoding="utf-8")
    assert main(["sweep", str(file), "--out", str(out), "--dry-run"]) == 2
    assert "does not list (of policy greedy)" in capsys.readouterr().err
    assert said("--keep-extra")[-5].startswith("cells")
    assert everything(out) == before


def test_cells_that_the_file_no_longer_lists_can_be_dropped(file, tmp_path):
    out = tmp_path / "run"
    sweep(file, out)
    gone = [cell["id"] for cell in manifest(out)["cells"] if cell["policy"] == "greedy"]
    file.write_text(SWEEP.replace("[policies.greedy]", ""), encoding="utf-8")
    kept = contents(out).keys() - {f"{cell}.parquet" for cell in gone}
    summary = run(read(file), out, executor=StandIn(), drop_extra=True)
    assert (summary.computed, summary.extra) == (0, 0)
    assert contents(out).keys() == kept
    assert {f"{cell['id']}.parquet" for cell in manifest(out)["cells"]} == kept
    assert status(out).cells == status(out).done == 3
    with pytest.raises(InputError, match="keep_extra and drop_extra: choose one"):
        run(read(file), out, executor=StandIn(), keep_extra=True, drop_extra=True)


def test_status_says_what_is_damaged_and_what_carries_on(file, tmp_path, capsys):
    out = tmp_path / "run"
    sweep(file, out, "key=3")
    cell = manifest(out)["cells"][0]
    (out / "cells" / f"{cell['id']}.parquet").write_bytes(b"PAR1")
    assert main(["status", str(out)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("3 of 4 cells done, 0 failed, 1 to do")
    assert re.match(r"  damaged    small/oful \(radius_scale=1\): .* is damaged: ", lines[2])
    assert lines[3] == f"carry on with: linbet sweep {file} --out {out} --set key=3"
    sweep(file, out, "key=3")
    assert status(out).damaged == {}
    assert main(["status", str(out)]) == 0
    assert "carry on" not in capsys.readouterr().out


def test_the_estimate_of_bytes_is_near_the_truth(file, tmp_path):
    sweep(file, tmp_path / "run", "seeds=500", "records=60")
    sizes = [path.stat().st_size for path in (tmp_path / "run" / "cells").iterdir()]
    assert 0.3 < np.mean(sizes) / (16.0 * 500 * 60) < 1.2


def test_the_default_folder_is_named_after_the_file(file, tmp_path, stand_in, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "four.toml", "--quiet"]) == 0
    assert (tmp_path / "linbet-four" / "manifest.json").exists()
    assert command.run


@pytest.mark.parametrize("name", ["arms", "demo", "epsilon", "horizon", "paper"])
def test_the_ready_files_can_be_run(name):
    cells = plan(read(ROOT / "scripts" / "sweeps" / f"{name}.toml"), {"dtype": "float64"}, "cpu")
    swept = {value for cell in cells for value in cell.swept}
    expected = {
        "arms": "K",
        "demo": "radius_scale",
        "epsilon": "epsilon",
        "horizon": "horizon",
        "paper": "radius_scale",
    }
    assert expected[name] in swept
    if name == "paper":
        assert len(cells) == 4 * 5 * 3
        assert {(cell.entry["set"], cell.horizon) for cell in cells} == {
            ("S1", 20_000), ("S2", 20_000), ("S3", 10_000), ("S4", 10_000),
        }  # fmt: skip
