"""`load`: a sweep's folder as cells, one tidy table and summaries; what is absent or damaged is named."""

import csv
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sweep_folders import cell, make_sweep, numbers, write_cell

import linbet_jax as lb
from linbet_jax.cli import main
from linbet_jax.storage.results import RunFolderError
from linbet_jax.sweep import table
from linbet_jax.sweep.store import read_run

EARLIER = Path(__file__).resolve().parent / "data" / "earlier_sweep"  # of earlier_sweep.toml, never to be made anew
CELLS = [
    cell("S3", "tofu"),
    cell("S3", "tofu", radius_scale=0.03),
    cell("S3", "oful", horizon=500, records=7, noise_scale=2),
    cell("S1", "oful"),
]


@pytest.fixture
def folder(tmp_path):
    return make_sweep(tmp_path / "sweep", CELLS, swept=["radius_scale"], unhealthy=[1])


def test_the_table_has_a_row_per_cell_seed_and_record(folder):
    sweep = lb.load(folder)
    assert sweep.complete
    assert sweep.progress == "4 of 4 cells done"
    assert sweep.table.num_rows == 6 * (20 + 20 + 7 + 20)
    assert sweep.table.column_names == list(sweep.columns)
    assert sweep.columns[:10] == (
        "seed", "pull", "regret", "payoff", "health", "set", "policy", "label", "horizon", "cell",
    )  # fmt: skip
    held = sweep.table.to_pydict()
    row = 6 * 20 + 2 * 20 + 4  # of the second cell: seed 2, record 4
    pulls, regret, payoff, _ = numbers(CELLS[1])
    assert (held["seed"][row], held["pull"][row]) == (2, pulls[4])
    assert (held["regret"][row], held["payoff"][row]) == (regret[2, 4], payoff[2, 4])
    assert [held["health"][6 * 20 + s * 20] for s in range(6)] == [17, 0, 0, 0, 0, 0]
    assert (held["set"][row], held["policy"][row], held["label"][row], held["horizon"][row]) == (
        "S3", "tofu", "TOFU", 1000,
    )  # fmt: skip
    assert (held["radius_scale"][row], held["level"][row], held["noise_scale"][row]) == (0.03, "proof", None)
    assert (held["bandit_K"][row], held["bandit_law"][row], held["bandit_epsilon"][-1]) == (20, "Pareto(2)", 1.0)
    assert held["noise_scale"][-6 * 20 - 1] == 2
    assert held["level"][-1] is None
    assert sweep.table.schema.field("bandit_K").type == pa.int64()


def test_parts_of_the_table(folder):
    sweep = lb.load(folder)
    last = sweep.read(["seed", "regret", "label"], last=True)
    assert (last.column_names, last.num_rows) == (["seed", "regret", "label"], 4 * 6)
    assert last["regret"].to_pylist()[:6] == list(numbers(CELLS[0])[1][:, -1])
    with pytest.raises(ValueError, match="column 'reward': the table has seed, pull"):
        sweep.read(["reward"])


def test_pandas_and_xarray_hold_the_same_numbers(folder):
    sweep = lb.load(folder)
    frame, data = sweep.to_pandas(), sweep.to_xarray()
    assert list(frame.columns) == list(sweep.columns)
    means = frame[frame.pull == frame.horizon].groupby("cell", observed=True).regret.mean()
    for place, entry in enumerate(CELLS):
        regret = numbers(entry)[1]
        assert means[entry["id"]] == pytest.approx(regret[:, -1].mean())
        held = data.sel(cell=entry["id"])
        np.testing.assert_array_equal(held.regret.values[:, : regret.shape[1]], regret)
        assert np.isnan(held.regret.values[:, regret.shape[1] :]).all()
        assert np.all(held.pull.values[regret.shape[1] :] == -1)
        assert held.radius_scale.item() == entry["parameters"]["radius_scale"]
        np.testing.assert_array_equal(held.health, sweep.cells[place].run().health)
    assert data.label.values.tolist() == ["TOFU", "TOFU", "OFUL", "OFUL"]


@pytest.mark.parametrize("package", ["pandas", "xarray"])
def test_an_extra_that_is_not_installed_is_named(folder, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"to_{package}\(\) needs {package}: pip install 'linbet_jax\[{package}\]'"):
        getattr(lb.load(folder), f"to_{package}")()


def test_selecting(folder):
    sweep = lb.load(folder)

    def places(**conditions):
        return [[c["id"] for c in CELLS].index(c.id) for c in sweep.select(**conditions).cells]

    assert places(policy="tofu") == [0, 1]
    assert places(policy=["tofu", "oful"], set="S3") == [0, 1, 2]
    assert places(radius_scale=0.01 + 0.02) == [1]
    assert places(bandit_epsilon=1) == places(law="StudentT(3)") == [3]
    assert sweep.select(radius_scale=0.03).table.num_rows == 120
    with pytest.raises(ValueError, match=r"policy='ucb': no cell has that value; there are \"tofu\", \"oful\""):
        sweep.select(policy="ucb")
    with pytest.raises(ValueError, match="scale=1: no cell has that field; there are set, policy"):
        sweep.select(scale=1)
    with pytest.raises(ValueError, match="no cell has all of set='S1', radius_scale=0.03"):
        sweep.select(set="S1", radius_scale=0.03)


def test_what_the_file_varies_has_a_column_by_its_own_name(tmp_path):
    cells = [cell("S3", "tofu", epsilon=0.5), cell("S3", "oful"), cell("S1", "oful")]
    cells[0]["swept"] = {"K": 20, "epsilon": 0.7, "policy.epsilon": 0.5}
    sweep = lb.load(make_sweep(tmp_path, cells, swept=["K", "epsilon", "policy.epsilon"]))
    rows = sweep.summary().to_pylist()
    # The set's epsilon, told apart from the policy's; where the file varies neither, what holds there.
    assert [row["epsilon"] for row in rows] == [0.7, 0.5, 1.0]
    assert [row["policy.epsilon"] for row in rows] == [0.5, None, None]
    assert set(sweep.table["K"].to_pylist()) == {20}
    assert [c.policy for c in sweep.select(**{"policy.epsilon": 0.5}).cells] == ["tofu"]


def test_a_row_per_cell_in_the_summary(folder):
    rows = lb.load(folder).summary().to_pylist()
    assert [row["cell"] for row in rows] == [entry["id"] for entry in CELLS]
    for row, entry in zip(rows, CELLS, strict=True):
        final, unhealthy = numbers(entry)[1][:, -1], entry is CELLS[1]
        wanted = lb.regret.summarize(final, [17 * unhealthy, 0, 0, 0, 0, 0])
        assert (row["seeds"], row["n"], row["unhealthy"]) == (6, 6 - unhealthy, int(unhealthy))
        for name in ("mean", "sd", "standard_error", "low", "high", "median", "trimmed_mean"):
            assert row[name] == getattr(wanted, name)
        assert (row["state"], row["error"], row["radius_scale"]) == ("done", None, entry["parameters"]["radius_scale"])
    payoffs = lb.load(folder).summary("payoff").to_pylist()
    assert payoffs[0]["mean"] == pytest.approx(numbers(CELLS[0])[2][:, -1].mean())
    with pytest.raises(ValueError, match="quantity='reward': must be 'regret' or 'payoff'"):
        lb.load(folder).summary("reward")


def test_pairs_are_seed_by_seed_on_one_instance(tmp_path):
    cells = [
        cell("S3", "tofu"), cell("S3", "tofu", radius_scale=0.03), cell("S3", "oful"),
        cell("S3", "oful", radius_scale=0.03), cell("S1", "oful"), cell("S3", "menu", seeds=4),
    ]  # fmt: skip
    sweep = lb.load(make_sweep(tmp_path, cells, swept=["radius_scale"], unhealthy=[2]))
    # The swept scale is shared unless one side names it.
    literal, scaled = sweep.paired("tofu", "oful")
    assert [(p.first.id, p.second.id) for p in (literal, scaled)] == [
        (cells[0]["id"], cells[2]["id"]), (cells[1]["id"], cells[3]["id"]),
    ]  # fmt: skip
    a, b = (numbers(cells[place])[1][:, -1] for place in (0, 2))
    wanted = lb.regret.paired_difference(a, b, None, [17, 0, 0, 0, 0, 0])
    assert (literal.difference.mean, literal.difference.low) == (wanted.mean, wanted.low)
    assert (literal.difference.n, literal.difference.unhealthy, literal.wins.unhealthy) == (5, 1, 1)
    assert literal.wins.wins == np.sum(a[1:] < b[1:])
    [scales] = sweep.paired({"policy": "tofu", "radius_scale": 1}, {"policy": "tofu", "radius_scale": 0.03})
    assert scales.difference.mean == pytest.approx((a - numbers(cells[1])[1][:, -1]).mean())
    # Fewer seeds on one side: those that both hold.
    assert [p.difference.n for p in sweep.paired("menu", "tofu")] == [4]
    with pytest.raises(ValueError, match="no two cells share set, instance, horizon, dtype, policy, radius_scale"):
        sweep.paired({"set": "S1"}, {"set": "S3"})
    with pytest.raises(ValueError, match=r"paired\(3\): must be a policy's name or a mapping of conditions"):
        sweep.paired(3, "oful")


def test_a_notebook_shows_the_cells_and_pairs_are_one_line(folder, monkeypatch):
    sweep = lb.load(folder, warn=False)
    shown = sweep._repr_html_()
    assert "<caption>" + str(folder.resolve()) in shown
    assert "<th>policy</th><th>set</th><th>horizon</th><th>radius_scale</th><th>seeds</th><th>state</th>" in shown
    assert "<tr><th>TOFU</th><td>S3</td><td>1000</td><td>0.03</td><td>6 of 6</td><td>done</td></tr>" in shown
    assert shown.count("<tr>") == 1 + len(CELLS)
    assert sweep.cells[1]._repr_html_().count("<tr>") == 2
    (pair,) = sweep.paired({"policy": "tofu", "radius_scale": 0.03}, {"policy": "tofu", "radius_scale": 1.0})
    line = repr(pair)
    assert line.startswith(f"CellPair(TOFU [{pair.first.id[:6]}] minus TOFU [{pair.second.id[:6]}] on S3, 1000 pulls: ")
    assert "\n" not in line
    monkeypatch.setattr(table, "_SHOWN", 2)
    assert "; the first 2 of 4</caption>" in sweep._repr_html_()
    assert sweep._repr_html_().count("<tr>") == 3


def test_pairs_are_alike_in_what_neither_side_names(tmp_path):
    """24 pairs of scales, not 96: a policy is compared with itself unless a side names one, and so is everything."""
    cells = [
        {**cell(s, "tofu", t, radius_scale=scale, delta=delta), "policy": policy}
        for s in ("S1", "S3") for t in (500, 1000) for policy in ("mine", "oful") for delta in (0.1, 0.2, 0.3)
        for scale in (1.0, 0.1)
    ]  # fmt: skip
    for place, entry in enumerate(cells):
        entry["id"] = f"{place:032d}"
    sweep = lb.load(make_sweep(tmp_path, cells, swept=["radius_scale", "horizon", "delta"]))

    def told(first, second):
        pairs = sweep.paired(first, second)
        alike = ("set", "horizon", "policy", "delta", "radius_scale")
        return len(pairs), {name for name in alike for p in pairs if p.first.value(name) != p.second.value(name)}

    assert told({"radius_scale": 1.0}, {"radius_scale": 0.1}) == (24, {"radius_scale"})
    assert told({"policy.radius_scale": 1.0}, {"policy.radius_scale": 0.1}) == (24, {"radius_scale"})
    assert told("mine", "oful") == (24, {"policy"})
    assert told({"radius_scale": 1.0, "policy": "mine"}, {"radius_scale": 0.1}) == (24, {"policy", "radius_scale"})
    assert told({"delta": 0.1}, {"delta": [0.2, 0.3]}) == (32, {"delta"})
    assert told({"id": cells[0]["id"]}, {"id": cells[9]["id"]}) == (1, {"policy", "delta", "radius_scale"})
    with pytest.raises(ValueError, match="share set, instance, horizon, dtype, policy, radius_scale$"):
        sweep.paired({"delta": 0.1}, {"delta": 0.1})


def test_what_is_absent_is_said(tmp_path):
    cells = [cell("S3", name) for name in ("tofu", "menu", "mom", "crt", "oful")]
    folder = make_sweep(tmp_path, cells, failed=[1], missing=[2], started=[3], status="running")
    write_cell(folder, cells[4], seeds=2)
    with pytest.warns(table.PartialSweepWarning, match="1 of 5 cells done; 1 partial, 1 failed, 1 started, 1 missing"):
        sweep = lb.load(folder)
    assert [c.state for c in sweep.cells] == ["done", "failed", "missing", "started", "partial"]
    assert [c.policy for c in sweep.absent] == ["menu", "mom", "crt", "oful"]
    rows = sweep.summary().to_pylist()
    assert [row["state"] for row in rows] == [c.state for c in sweep.cells]
    assert rows[1]["error"] == "ValueError: theta_norm=<b>-1</b> & more"
    assert [row["n"] for row in rows] == [6, None, None, None, 2]
    assert set(sweep.table["policy"].to_pylist()) == {"tofu", "oful"}
    with pytest.raises(RunFolderError, match=r"\(MENU on S3\) is failed: ValueError: theta_norm"):
        sweep.cells[1].run()
    with pytest.raises(ValueError, match="their cells are not computed yet"):
        sweep.paired("tofu", "menu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not lb.load(folder, warn=False).complete


def test_a_sweep_without_any_finished_cell_has_an_empty_table(tmp_path):
    sweep = lb.load(make_sweep(tmp_path, CELLS, missing=range(4)), warn=False)
    assert (sweep.table.num_rows, sweep.table.column_names) == (0, list(sweep.columns))


def spoil(path, how):
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        path.write_bytes(content[:400] + bytes([content[400] ^ 255]) + content[401:])
    elif how == "foreign":
        shutil.copy(path.with_name(f"{CELLS[1]['id']}.parquet"), path)
    else:
        held = pq.read_table(path).replace_schema_metadata(pq.read_metadata(path).metadata)
        if how == "shuffled":
            held = held.take([1, 0, *range(2, held.num_rows)])
        elif how == "short":
            held = held.slice(0, held.num_rows - 1)
        elif how == "column":
            held = held.drop_columns(["regret"])
        elif how == "metadata":
            held = held.replace_schema_metadata({})
        pq.write_table(held, path)


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "foreign", "shuffled", "short", "column", "metadata"])
def test_a_damaged_file_is_named_and_spoils_nothing_else(folder, how):
    path = folder / "cells" / f"{CELLS[0]['id']}.parquet"
    spoil(path, how)
    sweep = lb.load(folder, warn=False)
    with pytest.raises(RunFolderError, match=rf"{path} is damaged: "):
        sweep.cells[0].run()
    with pytest.warns(table.PartialSweepWarning, match=rf"left out 1 cell, see .absent: {path} is damaged: "):
        assert sweep.table.num_rows == 6 * (20 + 7 + 20)
    assert [c.id for c in sweep.absent] == [CELLS[0]["id"]]
    rows = lb.load(folder, warn=False).summary().to_pylist()
    assert [row["state"] for row in rows] == ["damaged", "done", "done", "done"]
    assert rows[0]["mean"] is None
    assert str(path) in rows[0]["error"]
    assert sweep.select(policy="oful").table.num_rows == 6 * 27


@pytest.mark.parametrize("how", ["cut", "shuffled"])  # noticed when the folder is opened, and when rows are read
def test_everything_reads_what_is_whole(tmp_path, how):
    cells = [cell("S3", policy, radius_scale=scale) for scale in (1.0, 0.03) for policy in ("tofu", "oful")]
    folder = make_sweep(tmp_path, cells, swept=["radius_scale"])
    path = folder / "cells" / f"{cells[0]['id']}.parquet"
    spoil(path, how)
    readers = {
        "read": lambda sweep: sweep.read(["seed"], last=True).num_rows // 6,
        "to_pandas": lambda sweep: sweep.to_pandas().cell.nunique(),
        "to_xarray": lambda sweep: sweep.to_xarray().sizes["cell"],
        "paired": lambda sweep: 3 * len(sweep.paired("tofu", "oful")),
    }
    for name, reader in readers.items():
        sweep = lb.load(folder, warn=False)
        with pytest.warns(table.PartialSweepWarning, match=rf"left out 1 cell, see .absent: {path} is damaged"):
            assert reader(sweep) == 3, name
        assert [c.id for c in sweep.absent] == [cells[0]["id"]]
        assert str(path) in sweep.absent[0].error
    with (
        pytest.warns(table.PartialSweepWarning),
        pytest.raises(ValueError, match="not computed yet, or cannot be read"),
    ):
        sweep.paired({"id": cells[0]["id"]}, {"id": cells[1]["id"]})


def test_only_damage_is_called_damage(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    sweep = lb.load("sweep")
    monkeypatch.chdir("/")
    assert sweep.path == folder
    assert sweep.read(last=True).num_rows == 4 * 6  # whatever the working folder is by now
    first, second, third, _ = (folder / "cells" / f"{entry['id']}.parquet" for entry in CELLS)
    first.unlink()
    second.unlink()
    second.mkdir()  # what the system refuses: root may read everything else
    third.write_bytes(b"PAR1")
    gone, refused = f"{first} is not there: the file was removed", f"{second} cannot be read: Is a directory"
    with pytest.warns(table.PartialSweepWarning, match=rf"left out 3 cells, see .absent: {gone}.*; {refused}; {third}"):
        assert sweep.table.num_rows == 6 * 20
    assert [c.state for c in sweep.cells] == ["missing", "unreadable", "damaged", "done"]
    assert ["damaged" in c.error for c in sweep.cells] == [False, False, True, False]
    assert sweep.progress == "1 of 4 cells done; 1 damaged, 1 unreadable, 1 missing"
    with pytest.raises(RunFolderError, match=refused):
        sweep.cells[1].run()
    assert [c.state for c in lb.load(folder, warn=False).cells] == ["missing", "unreadable", "damaged", "done"]
    shutil.rmtree(folder)
    with pytest.raises(RunFolderError, match="is not there: the file was removed or its folder moved"):
        sweep.cells[3].run()


def test_a_number_that_is_not_finite_in_a_healthy_seed_is_damage(folder):
    _, regret, _, _ = numbers(CELLS[3])
    regret[2, 5] = np.nan
    write_cell(folder, CELLS[3], regret=regret)
    sweep = lb.load(folder)
    assert [row["state"] for row in sweep.summary().to_pylist()] == ["done", "done", "done", "damaged"]
    with pytest.warns(table.PartialSweepWarning, match="calls healthy holds a number that is not finite"):
        assert sweep.table.num_rows == 6 * 47
    write_cell(folder, CELLS[3], regret=regret, health=[0, 0, 300, 0, 0, 0])
    assert lb.load(folder).summary()["n"].to_pylist() == [6, 5, 6, 5]


def test_no_flipped_byte_changes_a_number(tmp_path):
    """Every fifth byte of a file turned over: what is read is what was written, or nothing."""
    entry = cell("S3", "oful")
    path = write_cell(make_sweep(tmp_path, [entry]), entry)
    content, run, noticed = path.read_bytes(), lb.load(tmp_path).cells[0].run(), 0
    for place in range(0, len(content), 5):
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        try:
            found = read_run(path, entry["id"])
        except RunFolderError:
            noticed += 1
            continue
        for name in ("seeds", "rounds", "regret", "payoff", "health"):
            np.testing.assert_array_equal(getattr(found, name), getattr(run, name))
    assert noticed > 600


def test_what_is_no_sweep_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="holds no sweep: it has no manifest.json"):
        lb.load(tmp_path)
    for manifest in ([], {}, {"config": {"experiment": "figure2"}, "cells": []}, {"config": {"kind": "sweep"}}):
        (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        with pytest.raises(RunFolderError, match=r"holds no sweep|lists no cells"):
            lb.load(tmp_path)
    for spoiled, message in (
        ({"seeds": "x"}, "no seeds, or not one of type int"),
        ({"bandit": []}, "no bandit, or not one of type dict"),
        ({"id": "../../etc/passwd"}, "the id '../../etc/passwd'"),
    ):
        manifest = {"config": {"kind": "sweep"}, "cells": [{**CELLS[0], **spoiled}]}
        (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        with pytest.raises(RunFolderError, match=f"manifest.json is damaged: cell 0 has {message}"):
            lb.load(tmp_path)


def test_constants_of_several_kinds_are_text():
    kinds = [([1, 2], pa.int64()), ([1, 0.5], pa.float64()), ([True, None], pa.bool_())]
    for values, kind in kinds:
        assert table._type_of(values) == kind
    for values in ([1, "a"], [True, 1], [[1, 2]], [None]):
        assert table._type_of(values) == pa.dictionary(pa.int32(), pa.string())
    assert table._fitting(0.5, table._type_of([0.5, "box"])) == "0.5"


@pytest.mark.parametrize("numerics", ["its own", {"linbet_jax": "9.9.9", "code": "0"}, None])
def test_a_folder_of_an_earlier_version_is_still_read(tmp_path, capsys, numerics):
    """Whatever its manifest says of versions and of the code; the numbers are those that were printed then."""
    folder = shutil.copytree(EARLIER, tmp_path / "sweep")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["numerics"]["code"] == "ae4958aae7646c41"
    if numerics != "its own":
        manifest |= {"numerics": numerics, "git": None}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    sweep = lb.load(folder)
    assert (sweep.progress, sweep.swept) == ("4 of 4 cells done", ("radius_scale",))
    assert [(c.set, c.policy, c.value("radius_scale")) for c in sweep.cells] == [
        ("S3", "tofu", 1.0), ("S3", "tofu", 0.5), ("S3", "oful", 1.0), ("S3", "oful", 0.5),
    ]  # fmt: skip
    assert sweep.table.num_rows == 4 * 4 * 3
    run = sweep.cells[3].run()
    assert (run.rounds.tolist(), run.seeds.tolist(), run.health.tolist()) == ([20, 40, 60], [0, 1, 2, 3], [0] * 4)
    last = [18.493331, 12.312930, 25.102204, 28.579255], [206.183540, 198.049061, 158.813017, 135.286283]
    np.testing.assert_allclose([run.regret[:, -1], run.payoff[:, -1]], last, atol=1e-6)
    assert sweep.cells[0].journey.seed_pulls == 240
    means = [70.47062862317621, 70.32965163974444, 47.050293917086265, 21.121929840829406]
    np.testing.assert_allclose(sweep.summary()["mean"].to_pylist(), means, rtol=1e-12)
    assert main(["report", str(folder), "--format", "html", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    rows = list(csv.DictReader((folder / "report" / "summary.csv").read_text(encoding="utf-8").splitlines()))
    np.testing.assert_allclose([float(row["mean"]) for row in rows], means, rtol=1e-12)
    assert "an earlier sweep" in (folder / "report" / "index.html").read_text(encoding="utf-8")


def test_loading_imports_no_jax(folder):
    code = f"import sys, linbet_jax as lb; lb.load({str(folder)!r}).summary(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_a_sweep_s_figure_names_what_its_cells_differ_in():
    earlier = lb.load(Path(__file__).with_name("data") / "earlier_sweep")
    [(title, shown)] = earlier.panels().items()
    assert title == "S3"
    assert [(label, policy) for label, policy, _ in shown] == [
        ("TOFU", "tofu"), ("TOFU ×0.5", "tofu"), ("OFUL", "oful"), ("OFUL ×0.5", "oful"),
    ]  # fmt: skip
    texts = lb.plotting.curves(earlier).axes[0].texts
    assert sorted(text.get_text() for text in texts) == sorted(label for label, _, _ in shown)
    assert len({text.get_color() for text in texts}) == 4
    with pytest.raises(ValueError, match="int is no result"):
        lb.plotting.curves([earlier.cells[0].seeds])
