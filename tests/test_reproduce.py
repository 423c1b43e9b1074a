"""`linbet reproduce figure2`: what is run on what, what is written, and that it can be killed and carried on.

The host side is tested with a stand-in for the simulator; the runs of whole processes use the real one.
"""

import csv
import fcntl
import inspect
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from linbet_jax.cli import main
from linbet_jax.cli.parser import build_parser
from linbet_jax.experiments import driver
from linbet_jax.experiments import figure2 as work
from linbet_jax.experiments.shared import Task
from linbet_jax.figures.plotting import save_figure
from linbet_jax.statistics import tuning

PICTURES = ("figure2.png", "figure2.pdf", "figure2_regret.png", "figure2_regret.pdf")
OUTPUTS = (*PICTURES, "figure2_tuning.png", "figure2_tuning.pdf", "table.md", "curves.csv")


# The host side, with a stand-in for the simulator


class Simulator:
    """Stands in for `simulate_grid`: regret that depends on policy, scale and key alone, and a log of the calls."""

    def __init__(self):
        self.calls = []
        self.unhealthy = {}  # policy -> (scale, seed) that falls ill in evaluation
        self.fail_after = None

    def __call__(self, policy, grid, bandit, *, horizon, num_seeds, key, num_records, dtype, progress, **_):
        if self.fail_after is not None and len(self.calls) >= self.fail_after:
            raise KeyboardInterrupt
        scales = [params.radius_scale for params in grid]
        self.calls.append((bandit.name, policy.name, scales, num_seeds, np.asarray(jax.random.key_data(key)).tolist()))
        rounds = np.unique(np.ceil(np.linspace(horizon / num_records, horizon, num_records)).astype(np.int64))
        results = []
        for scale in scales:
            speed = abs(np.log(scale / 0.02)) + 0.01 * np.arange(num_seeds)[:, None]
            health = np.zeros(num_seeds, np.int64)
            regret = speed * rounds
            if self.unhealthy.get(policy.name, (None,))[0] == scale:
                health[self.unhealthy[policy.name][1]] = 7
                regret[health > 0] = np.nan
            results.append(
                SimpleNamespace(
                    rounds=rounds,
                    regret=regret,
                    payoff=bandit.best_mean * rounds - regret,
                    health=health,
                    facts=dict(policy.about.facts),
                    notes=policy.about.notes,
                    block_size=16,
                    device="stand-in",
                    prng="threefry2x32",
                    reruns=0,
                    compile_seconds=0.5,
                    run_seconds=0.25,
                )
            )
        progress(len(scales) * num_seeds, len(scales) * num_seeds)
        return results


@pytest.fixture
def simulator(monkeypatch):
    stand_in = Simulator()
    monkeypatch.setattr(work.shared, "simulate_grid", stand_in)
    monkeypatch.setattr(tuning, "simulate_grid", stand_in)
    monkeypatch.setattr(driver, "save_figure", lambda figure, path: path.write_bytes(b"drawing"))
    return stand_in


def run(out, *more):
    return main(
        ["reproduce", "figure2", "--sets", "s1,S3", "--seeds", "3", "--tuning-seeds", "2", "--out", str(out), *more]
    )


def test_every_policy_tunes_on_one_key_and_is_evaluated_on_another(simulator, tmp_path, capsys):
    assert run(tmp_path / "run") == 0
    assert len(simulator.calls) == 2 * 5 * 2
    tuned = [call for call in simulator.calls if call[3] == 2]
    evaluation = [call for call in simulator.calls if call[3] == 3]
    assert {(call[0], call[1]) for call in tuned} == {(s, p) for s in ("S1", "S3") for p in work.POLICIES}
    assert all(call[2] == list(work.GRID) for call in tuned)
    assert all(call[2] == [1.0, 0.03] for call in evaluation)  # the stand-in's best scale of the grid
    [tuning_key] = {tuple(call[4]) for call in tuned}
    [evaluation_key] = {tuple(call[4]) for call in evaluation}
    assert tuning_key != evaluation_key
    out, err = capsys.readouterr()
    assert out.splitlines()[-9:] == [str(tmp_path / "run" / name) for name in (*OUTPUTS, "manifest.json")]
    assert len(re.findall(r"^\[ ?\d+/10\] S[13]/\w+  regret .* at ×0\.03 \(\d+\.\d s\)$", err, re.MULTILINE)) == 10
    assert "\x1b" not in out + err


def test_tuning_replications_share_no_random_number_with_the_evaluation():
    key = jax.random.key(work.SEED)
    other = tuning.tuning_key(key)
    folds = [jax.random.fold_in(base, seed) for base in (key, other) for seed in range(200)]
    words = {tuple(np.asarray(jax.random.key_data(k)).tolist()) for k in [*folds, key, other]}
    assert len(words) == 402


@pytest.mark.parametrize(
    ("regret", "health", "chosen"),
    [
        ([[9, 9], [1, 2], [3, 3]], [[0, 0], [0, 0], [0, 0]], 0.3),
        ([[9, 9], [1, 1], [1, 1]], [[0, 0], [0, 0], [0, 0]], 0.3),  # equal: the one nearest to the paper's
        ([[9, 9], [np.nan, 1], [3, 3]], [[0, 0], [5, 0], [0, 0]], 0.1),  # an unhealthy scale is out
        ([[9, 9], [0, 1], [3, 3]], [[0, 0], [5, 0], [0, 0]], 0.1),
        ([[9, 9], [1, 1], [3, 3]], [[1, 0], [1, 0], [1, 0]], 1.0),
    ],
)
def test_the_choice_of_the_scale(regret, health, chosen):
    assert tuning.choose_scale(np.array(regret, float), np.array(health), (1.0, 0.3, 0.1)) == chosen


def test_what_is_written(simulator, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(driver, "save_figure", save_figure)
    assert run(tmp_path / "run", "--horizon", "2000", "--quiet") == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "")
    folder = tmp_path / "run"
    assert {path.name for path in folder.iterdir()} == {*OUTPUTS, "manifest.json", "cells", ".lock"}
    for name in OUTPUTS:
        assert (folder / name).stat().st_size > 1000

    with (folder / "curves.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 5 * 2 * 200
    last = [row for row in rows if (row["set"], row["policy"], row["radii"]) == ("S1", "mom", "tuned")][-1]
    assert (last["pull"], last["radius_scale"], last["seeds"], last["unhealthy"]) == ("2000", "0.03", "3", "0")
    final = (abs(np.log(0.03 / 0.02)) + 0.01 * np.arange(3)) * 2000
    assert float(last["regret_mean"]) == pytest.approx(final.mean(), rel=1e-9)
    assert float(last["regret_sd"]) == pytest.approx(final.std(ddof=1), rel=1e-9)
    assert float(last["payoff_mean"]) == pytest.approx(4 * 2000 - final.mean(), rel=1e-9)
    assert {row["paper_horizon"] for row in rows} == {"no"}

    table = (folder / "table.md").read_text(encoding="utf-8")
    assert "QUICK LOOK at T=2000, not the paper's T" in table.splitlines()[0]
    assert "| **MENU** | tuned | 0.03 | " in table
    assert "| TOFU | literal | 1 | " in table.split("## S3")[0]
    assert "| **TOFU** | literal | 1 | " in table.split("## S3")[1]
    assert "| S1 | tuned | MENU ×0.03 - MoM ×0.03 | 0 | 0 | [0, 0] | no difference beyond chance | 0 | 0 |" in table
    assert "95 %" not in table

    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "finished"
    assert manifest["quick_look"] is True
    assert manifest["unhealthy"] == 0
    config = manifest["config"]
    assert (config["horizon"], config["seeds"], config["sets"]) == (2000, 3, ["S1", "S3"])
    assert config["radius_scale_grid"] == list(work.GRID)
    for name in ("jax", "jaxlib", "linbet_jax", "dtype", "device_kind", "prng", "code"):
        assert config["numerics"][name]
    for name in ("hash", "K", "d", "epsilon", "raw_moment_bound", "central_moment_bound", "theta_norm", "arm_norm"):
        assert manifest["instances"]["S3"][name]
    cell = manifest["cells"]["S1/menu"]
    assert cell["facts"]["k"] == 262
    assert cell["facts"]["N"] == 7
    assert cell["chosen_radius_scale"] == 0.03
    assert cell["seconds"].keys() == {"wall", "cpu", "compile", "tuning", "evaluation"}
    assert [cell["seconds"][name] for name in ("compile", "tuning", "evaluation")] == [1.0, 0.25, 0.25]
    assert {"m", "r"} <= manifest["cells"]["S1/mom"]["facts"].keys()
    assert cell["block_size"] == 16


def test_the_paper_s_own_horizon_is_not_marked(simulator, tmp_path, capsys):
    assert run(tmp_path / "run") == 0
    assert "QUICK LOOK" not in capsys.readouterr().out + (tmp_path / "run" / "table.md").read_text(encoding="utf-8")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["horizon"] == "paper"
    assert {title: cell["identity"]["horizon"] for title, cell in manifest["cells"].items() if "tofu" in title} == {
        "S1/tofu": 20_000,
        "S3/tofu": 10_000,
    }
    assert "NaN" not in (tmp_path / "run" / "manifest.json").read_text(encoding="utf-8")


def test_unhealthy_replications_are_counted_left_out_and_the_status_is_1(simulator, tmp_path, capsys):
    simulator.unhealthy["tofu"] = (1.0, 1)  # at the literal scale: in tuning and in the evaluation, on both sets
    assert run(tmp_path / "run") == 1
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith("linbet: 4 replications met a non-finite number; see ")
    assert "UNHEALTHY replications, left out of every mean: 4" in out
    table = (tmp_path / "run" / "table.md").read_text(encoding="utf-8")
    assert re.search(r"\| TOFU \| literal \| 1 \| .* \| 1 of 3 \|", table)
    assert "nan" not in table
    with (tmp_path / "run" / "curves.csv").open(encoding="utf-8") as file:
        ill = [row for row in csv.DictReader(file) if row["unhealthy"] != "0"]
    assert {(row["policy"], row["radii"], row["seeds"]) for row in ill} == {("tofu", "literal", "2")}
    assert all(float(row["regret_mean"]) > 0 for row in ill)
    assert run(tmp_path / "run", "--quiet") == 1  # what is stored is no healthier


def test_one_seed_has_no_intervals(simulator, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["reproduce", "figure2", "--sets", "S3", "--seeds", "1", "--tuning-seeds", "1", "--out", str(out)]) == 0
    with (out / "curves.csv").open(encoding="utf-8") as file:
        assert {row["regret_low"] + row["payoff_sd"] for row in csv.DictReader(file)} == {""}
    assert "no interval from one seed" in capsys.readouterr().out


def test_a_finished_run_computes_nothing_again(simulator, tmp_path, capsys):
    assert run(tmp_path / "run") == 0
    first = {name: (tmp_path / "run" / name).read_bytes() for name in OUTPUTS}
    seconds = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))["cells"]["S1/menu"][
        "seconds"
    ]
    count = len(simulator.calls)
    capsys.readouterr()
    assert run(tmp_path / "run") == 0
    assert len(simulator.calls) == count
    assert "10 of 10 cells are done already" in capsys.readouterr().err
    assert {name: (tmp_path / "run" / name).read_bytes() for name in OUTPUTS} == first
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["cells"]["S1/menu"]["seconds"] == seconds


def test_a_damaged_cell_alone_is_computed_again(simulator, tmp_path, capsys):
    assert run(tmp_path / "run") == 0
    first = {name: (tmp_path / "run" / name).read_bytes() for name in OUTPUTS}
    cell = sorted((tmp_path / "run" / "cells").iterdir())[3]
    cell.write_bytes(cell.read_bytes()[:-100])
    count = len(simulator.calls)
    assert run(tmp_path / "run") == 0
    assert len(simulator.calls) == count + 2
    assert f"damaged: {cell.name} is computed again" in capsys.readouterr().err
    assert {name: (tmp_path / "run" / name).read_bytes() for name in OUTPUTS} == first


def test_a_folder_of_another_run_is_refused_and_left_alone(simulator, tmp_path, capsys):
    assert run(tmp_path / "run") == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    count = len(simulator.calls)
    capsys.readouterr()
    for other in (("--seeds", "4"), ("--dtype", "float32"), ("--horizon", "900"), ("--sets", "S3")):
        assert run(tmp_path / "run", *other, "--quiet") == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert (
            f"holds another run, which differs in {'numerics.' if 'dtype' in other[0] else ''}{other[0][2:]} (" in err
            or ("--sets" in other and "sets (" in err)
        )
    assert len(simulator.calls) == count
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_ctrl_c_is_130_and_what_is_done_is_kept(simulator, tmp_path, capsys):
    simulator.fail_after = 6
    assert run(tmp_path / "run") == 130
    assert "interrupted; what is finished is kept" in capsys.readouterr().err
    kept = len(list((tmp_path / "run" / "cells").iterdir()))
    assert 1 <= kept <= 3
    assert not (tmp_path / "run" / "table.md").exists()
    simulator.fail_after, count = None, len(simulator.calls)
    assert run(tmp_path / "run") == 0
    assert len(simulator.calls) == count + 2 * (10 - kept)


def test_the_id_of_a_cell_changes_with_what_decides_its_numbers():
    def ids(numerics=(), **options):
        plan = work.plan(**{"sets": ("S1", "S3"), "horizon": 900, **options})
        return set(driver._identities(plan, dict(numerics)).values())

    usual = ids()
    assert len(usual) == 10
    for change in ({"seeds": 11}, {"tuning_seeds": 11}, {"horizon": 901}, {"dtype": "float32"}):
        assert not usual & ids(**change)
    assert not usual & ids({"jax": "0"})
    assert not usual & ids({"code": "0"})
    for name in ("GRID", "RECORDS", "SEED", "TUNING"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(work, name, (1.0,) if name == "GRID" else 7)
            assert not usual & ids()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "DATASETS", {})  # its panels and captions
        assert usual == ids()
    # Which other cells run beside it does not.
    assert ids(sets=("S3",)) < usual


def test_the_terminal_table_fits_a_terminal(simulator, tmp_path, capsys):
    assert run(tmp_path / "run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:16])) <= 110


@pytest.mark.parametrize("sets", ["S3", "S1,S3", "S1,S2,S3", "S1,S2,S3,S4"])
def test_nothing_written_in_a_figure_is_cut_off(simulator, tmp_path, monkeypatch, sets):
    figures = {}
    monkeypatch.setattr(driver, "save_figure", lambda figure, path: figures.update({path.name: figure}))
    arguments = ["--sets", sets, "--seeds", "3", "--tuning-seeds", "2", "--horizon", "2000", "--quiet"]
    assert main(["reproduce", "figure2", *arguments, "--out", str(tmp_path / "run")]) == 0
    for name in ("figure2.png", "figure2_regret.png"):
        figure = figures[name]
        figure.canvas.draw()
        title, note = figure.texts
        assert title.get_text().splitlines()[-1] == "QUICK LOOK at T=2000, not the paper's T"
        small_print = " ".join(note.get_text().split())
        assert "on the same instance under other noise (2 other seeds)" in small_print
        assert ("95% interval of the mean (Student t), clipped at 0" in small_print) == ("regret" in name)
        boxes = [text.get_window_extent() for text in (title, note, *(t for ax in figure.axes for t in ax.texts))]
        for box in (*boxes, *(ax.get_tightbbox() for ax in figure.axes)):
            assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
            assert 0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_the_verdict_on_the_paper_s_claim_rests_on_regret():
    def claim(first, second, health=None):
        words = np.array(health or [0] * len(first))

        def run(policy, scale, regret):
            regret, rounds = np.array(regret)[:, None], np.array([10_000])
            task = Task.on("S3", policy, seeds=len(words), scales=(1.0,), key=0, dtype="float64")
            return work.CurveRun(task, "tuned", scale, rounds, regret, 9000.0 - regret, words)

        return work.Claim(run("tofu", 0.01, first), run("crt", 1.0, second))

    low, high = [100.0, 200.0, 300.0], [500.0, 600.0, 710.0]
    assert claim(low, high).verdict == "TOFU ahead, as in the paper"
    assert claim(high, low).verdict == "CRT ahead, against the paper"
    assert claim([1.0, 9.0, 5.0], [5.0, 6.0, 4.0]).verdict == "no difference beyond chance"
    assert claim([1.0, 1.0], [1.001, 1.001]).verdict == "TOFU ahead, as in the paper"
    assert claim([1.0, 1.0], [1 + 9e-7, 1 + 9e-7]).verdict == "no difference beyond chance"  # rounding
    assert (
        claim([1.0], [2.0]).sentence == "regret TOFU ×0.01 - CRT = -1: no interval from one seed (payoff difference 1)"
    )
    assert claim([1.0], [2.0], [7]).verdict == "no seed healthy under both"
    assert claim(low, high).sentence == (
        "regret TOFU ×0.01 - CRT = -403 [-418, -389]: TOFU ahead, as in the paper (payoff difference 403 [389, 418])"
    )


def test_the_spread_of_a_progress_line_is_named():
    summary = work.summarize(np.array([100.0, 200.0, 300.0]))
    assert work._mean_sd(summary) == "200 ± 100 sd"
    assert work._mean_sd(summary, unit="") == "200 ± 100"


def test_settings_are_the_paper_s_by_default():
    options = build_parser().parse_args(["reproduce", "figure2"])
    plan = work.plan(**{name: getattr(options, name) for name in inspect.signature(work.plan).parameters})
    assert plan.config == work.plan().config
    asked = {name: plan.config[name] for name in ("sets", "seeds", "tuning_seeds", "horizon")}
    assert asked == {"sets": ["S1", "S2", "S3", "S4"], "seeds": 10, "tuning_seeds": 10, "horizon": "paper"}
    assert plan.dtype == "float64"
    assert len(plan.cells) == 20
    fields = ("place", "horizon", "delta", "ridge", "dtype")
    assert {tuple(cell.identity[field] for field in fields) for cell in plan.cells} == {
        ("S1", 20_000, 0.1, 1.0, "float64"),
        ("S2", 20_000, 0.1, 1.0, "float64"),
        ("S3", 10_000, 0.1, 1.0, "float64"),
        ("S4", 10_000, 0.1, 1.0, "float64"),
    }


# Whole processes, with the real simulator


ARGUMENTS = ("reproduce", "figure2", "--sets", "S1", "--horizon", "400", "--seeds", "2", "--tuning-seeds", "2")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder that all workers of this test session share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "figure2"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def environment(shared):
    """Compiled programs are shared by the processes of this file, so that only the first one waits for them."""
    return {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(shared / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
        "PYTHONIOENCODING": "utf-8",
    }


def command(out, *more):
    return [sys.executable, "-m", "linbet_jax", *ARGUMENTS, "--out", str(out), *more]


@pytest.fixture(scope="module")
def uninterrupted(environment, shared):
    """An uninterrupted run, made by the first worker that asks: its folder, output and messages."""
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "messages").exists():
            done = subprocess.run(
                command("run"), cwd=shared, env=environment, capture_output=True, text=True, timeout=280, check=False
            )
            assert done.returncode == 0, done.stderr
            (shared / "output").write_text(done.stdout, encoding="utf-8")
            (shared / "messages").write_text(done.stderr, encoding="utf-8")
    output, messages = ((shared / name).read_text(encoding="utf-8") for name in ("output", "messages"))
    return shared / "run", output, messages


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", "manifest.json")
    }


def manifest_of(folder):
    """The manifest without what a clock decided."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for cell in manifest["cells"].values():
        del cell["seconds"]
    return {name: section for name, section in manifest.items() if name not in ("timings", "seconds_of_last_run")}


@pytest.mark.timeout(300)
def test_a_run_for_real_ends_with_the_table_and_the_files(uninterrupted):
    folder, output, messages = uninterrupted
    assert "\x1b" not in output + messages
    assert messages.count("\n") == 4 + 5  # the device, the cost, the quick look, one plain line per cell, drawing
    lines = output.splitlines()
    assert "QUICK LOOK at T=400" in lines[0]
    assert lines[-9:] == [f"run/{name}" for name in (*OUTPUTS, "manifest.json")]
    cells = manifest_of(folder)["cells"]
    assert cells["S1/menu"]["device"] == f"cpu x{len(os.sched_getaffinity(0))}"


@pytest.mark.timeout(300)
def test_killed_and_resumed_is_the_same_as_uninterrupted(uninterrupted, environment, tmp_path):  # W1
    folder, _, _ = uninterrupted
    out = tmp_path / "run"
    with subprocess.Popen(command(out, "--quiet"), env=environment, stderr=subprocess.PIPE) as process:
        while process.poll() is None and len(list(out.glob("cells/[!.]*.parquet"))) < 2:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    kept = contents(out)
    assert 2 <= len([name for name in kept if name.endswith(".parquet")]) < 5
    assert not (out / "table.md").exists()

    resumed = subprocess.run(command(out), env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert resumed.returncode == 0, resumed.stderr
    assert re.search(r"^[2-4] of 5 cells are done already$", resumed.stderr, re.MULTILINE)
    assert contents(out) == contents(folder)
    assert manifest_of(out) == manifest_of(folder)


@pytest.mark.timeout(300)
def test_a_live_line_on_a_terminal_and_the_same_numbers(uninterrupted, environment, tmp_path):  # W4
    folder, _, _ = uninterrupted
    shutil.copytree(folder, tmp_path / "run")
    (one, *_) = sorted((tmp_path / "run" / "cells").glob("*.parquet"))
    one.unlink()  # it alone is computed
    ours, theirs = pty.openpty()
    shown = b""
    environment = {**environment, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command(tmp_path / "run"), env=environment, stdout=subprocess.DEVNULL, stderr=theirs
    ) as process:
        os.close(theirs)
        while True:
            ready, _, _ = select.select([ours], [], [], 0.1)
            if ready:
                try:
                    piece = os.read(ours, 4096)
                except OSError:  # the other end is closed
                    break
                shown += piece
            elif process.poll() is not None:
                break
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[" in shown
    assert b"left" in shown
    assert contents(tmp_path / "run") == contents(folder)


@pytest.mark.timeout(300)
def test_ctrl_c_ends_at_once_with_130(uninterrupted, environment, tmp_path):
    out = tmp_path / "run"
    with subprocess.Popen(command(out), env=environment, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and len(list(out.glob("cells/[!.]*.parquet"))) < 1:
            time.sleep(0.002)
        begun = time.perf_counter()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert time.perf_counter() - begun < 10
    assert "interrupted; what is finished is kept" in errors
    assert "Traceback" not in errors
