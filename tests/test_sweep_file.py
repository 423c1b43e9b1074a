"""Sweep files: what they say, how lists multiply and pair, and one line for everything that is wrong with them."""

import re
import shutil
import sys

import jax
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import linbet_jax as lb
from linbet_jax.errors import InputError
from linbet_jax.sweep import read, reads, work, worlds
from linbet_jax.sweep.cells import plan
from linbet_jax.sweep.schema import SetTable

TOFU = "[policies.tofu]\n"
SMALL = 'horizon = 50\n[sets.small]\nset = "uniform"\nK = 3\nd = 2\nnoise = {law = "StudentT", df = 3.0}\n'
MIXTURE = '{law = "Mixture", weights = [9, 1], laws = [{law = "Gaussian"}, {law = "StudentT", df = 2.5}]}'
MIXED = SMALL.replace('{law = "StudentT", df = 3.0}', MIXTURE)


def sweep(folder, text, *overrides):
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return read(path, overrides)


def cells(folder, text, *overrides):
    return plan(sweep(folder, text, *overrides), {"dtype": "float64"}, "cpu")


def chosen(cell, *names):
    values = {**cell.entry["set_options"], **cell.entry["options"], **cell.entry["parameters"], **cell.entry}
    return tuple(values[name] for name in names)


# What a file says


def test_a_plain_file_is_one_cell_with_the_paper_s_horizon_and_the_defaults(tmp_path):
    read_back = sweep(tmp_path, "[sets.S3]\n" + TOFU)
    assert (read_back.seeds, read_back.key, read_back.records, read_back.dtype) == (64, 0, 200, "float64")
    [cell] = plan(read_back, {}, "cpu")
    assert (cell.horizon, len(cell.rounds), cell.title) == (10_000, 200, "S3/tofu")
    policy, params = lb.make_policy("tofu", lb.dataset("S3"), horizon=10_000)
    built = work.build(cell.spec)
    assert built.params == params
    assert built.policy == policy
    assert np.array_equal(built.bandit.arms, lb.dataset("S3").arms)
    assert np.array_equal(built.bandit.theta_star, lb.dataset("S3").theta_star)
    assert cell.entry["label"] == "TOFU"
    assert cell.entry["options"] == {"level": "proof", "two_sided": True, "method": "pruned", "root": "symmetric"}
    assert cell.entry["parameters"]["delta"] == 0.1
    assert cell.entry["bandit"]["K"] == 20
    assert cell.entry["bandit"]["raw_moment_bound"] == lb.dataset("S3").raw_moment_bound


def test_a_count_is_a_whole_number_however_it_is_written(tmp_path):
    text = (
        "seeds = 1e2\nhorizon = [1e3, 2_000]\n[sets.x]\nset = 'uniform'\nK = 3.0\nd = 2\nnoise = {law = 'Gaussian'}\n"
    )
    found = sweep(tmp_path, text + "[policies.greedy]\n", "key=1e1")
    counts = (found.seeds, found.key, *(cell.horizon for cell in found.cells), found.cells[0].set.values["K"])
    assert counts == (100, 10, 1_000, 2_000, 3)
    assert all(type(count) is int for count in counts)


def test_lists_multiply_into_a_grid_in_the_order_of_the_file(tmp_path):
    text = "horizon = [400, 800]\n[sets.S1]\ninstance_seed = [0, 1]\n[sets.S3]\n"
    found = cells(tmp_path, text + "[policies.mom]\nradius_scale = [1.0, 0.1]\n[policies.oful]\n")
    assert len(found) == 2 * 2 * 3 + 2 * 3
    assert [c.title for c in found[:4]] == [
        "S1/mom (horizon=400, instance_seed=0, radius_scale=1)",
        "S1/mom (horizon=400, instance_seed=0, radius_scale=0.1)",
        "S1/mom (horizon=400, instance_seed=1, radius_scale=1)",
        "S1/mom (horizon=400, instance_seed=1, radius_scale=0.1)",
    ]
    assert found[0].swept == {"horizon": 400, "instance_seed": 0, "radius_scale": 1.0}
    assert found[-1].swept == {"horizon": 800}
    assert [c.entry["policy"] for c in found[8:]] == ["oful"] * 4 + ["mom"] * 4 + ["oful"] * 2
    one, other = (work.build(found[n].spec).bandit for n in (0, 2))
    assert np.array_equal(one.arms, lb.dataset("S1", instance_seed=0).arms)
    assert np.array_equal(other.arms, lb.dataset("S1", instance_seed=1).arms)


def test_laws_and_epsilon_can_be_swept_and_the_instance_stays(tmp_path):
    text = (
        '[sets.S3]\nnoise = {law = "Pareto", shape = [2.0, 2.5]}\nepsilon = [0.3, 0.5]\n'
        '[sets.laws]\nset = "S1"\nnoise = [{law = "Gaussian", std = 2.0}, {law = "StudentT", df = 3}]\n'
        "[policies.oful]\n"
    )
    found = cells(tmp_path, text)
    bandits = [work.build(c.spec).bandit for c in found]
    assert [(b.noise, b.epsilon) for b in bandits[:4]] == [
        (lb.noise.Pareto(shape), epsilon) for shape in (2.0, 2.5) for epsilon in (0.3, 0.5)
    ]
    assert [b.noise for b in bandits[4:]] == [lb.noise.Gaussian(2.0), lb.noise.StudentT(3)]
    assert all(np.array_equal(b.arms, lb.dataset("S3").arms) for b in bandits[:4])
    expected = lb.LinearBandit(lb.dataset("S3").arms, lb.dataset("S3").theta_star, lb.noise.Pareto(2.5), epsilon=0.3)
    assert bandits[2].raw_moment_bound == expected.raw_moment_bound
    assert found[0].swept == {"noise.shape": 2.0, "epsilon": 0.3}
    assert found[0].entry["set_options"] == {"noise": "Pareto(shape=2.0)", "epsilon": 0.3}
    assert [c.swept for c in found[4:]] == [{"noise": "Gaussian(std=2.0)"}, {"noise": "StudentT(df=3)"}]


def test_what_a_set_and_a_policy_both_name_is_told_apart(tmp_path):
    text = "[sets.S3]\nepsilon = [0.3, 0.5]\n[policies.tofu]\nepsilon = [0.2, 0.4]\n"
    assert [c.title for c in cells(tmp_path, text)] == [
        f"S3/tofu (epsilon={own}, policy.epsilon={told})" for own in (0.3, 0.5) for told in (0.2, 0.4)
    ]
    assert cells(tmp_path, text)[1].entry["parameters"]["epsilon"] == 0.4
    close = "[sets.S3]\n[policies.oful]\ndelta = [0.1, 0.1000000001]\n"
    assert [c.title for c in cells(tmp_path, close)] == ["S3/oful (delta=0.1)", "S3/oful (delta=0.1000000001)"]


def test_horizons_can_be_paired_too(tmp_path):
    text = 'zip = [["horizon", "*.delta"]]\nhorizon = [500, 900]\n[sets.S3]\n[policies.mom]\ndelta = [0.1, 0.2]\n'
    found = cells(tmp_path, text)
    assert [chosen(c, "horizon", "delta") for c in found] == [(500, 0.1), (900, 0.2)]
    assert found[1].swept == {"horizon": 900, "delta": 0.2}


def test_k_and_d_can_be_swept_and_the_lower_bound_too(tmp_path):
    text = (
        'horizon = 60\n[sets.uniform]\nK = [3, 5]\nd = [2, 4]\nnoise = {law = "StudentT", df = 3.0}\nbest_mean = 2.0\n'
        "[sets.lower-bound]\nd = 4\nepsilon = [0.5, 1.0]\nhorizon = 300\n[sets.fresh]\n"
        'set = "uniform"\nK = 2\nd = 2\nnoise = {law = "Gaussian"}\nresample = true\n[policies.uniform]\n'
    )
    found = cells(tmp_path, text)
    bandits = [work.build(c.spec).bandit for c in found]
    assert [(b.num_arms, b.dim) for b in bandits[:4]] == [(3, 2), (3, 4), (5, 2), (5, 4)]
    assert {b.best_mean for b in bandits[:4]} == {2.0}
    assert bandits[0] == lb.LinearBandit(bandits[0].arms, bandits[0].theta_star, lb.noise.StudentT(3.0), name="uniform")
    assert np.array_equal(
        bandits[0].arms, lb.datasets.make_instance(3, 2, bandits[0].noise, best_mean=2.0, seed=0).arms
    )
    assert np.array_equal(bandits[5].theta_star, lb.datasets.lower_bound(4, 1.0, 300).theta_star)
    assert bandits[6].resampling
    assert bandits[6].best_mean == 1.0


def test_paired_lists_step_together(tmp_path):
    text = (
        'zip = [["sets.*.epsilon", "policies.tofu.level"]]\n[sets.S3]\nepsilon = [0.3, 0.5]\n[policies.tofu]\n'
        'level = ["proof", "box"]\nradius_scale = [1.0, 0.1]\n[policies.oful]\n'
    )
    found = cells(tmp_path, text)
    assert [(c.entry["bandit"]["epsilon"], *chosen(c, "level", "radius_scale")) for c in found[:4]] == [
        (0.3, "proof", 1.0),
        (0.3, "proof", 0.1),
        (0.5, "box", 1.0),
        (0.5, "box", 0.1),
    ]
    assert [c.entry["bandit"]["epsilon"] for c in found[4:]] == [0.3, 0.5]


def test_single_cells_take_from_tables_and_from_themselves(tmp_path):
    text = (
        '[[cells]]\nset = "S1"\npolicy = "menu"\nhorizon = 2000\ndelta = 0.05\n'
        '[[cells]]\nset = "S3"\npolicy = "quick"\nepsilon = 0.25\nhorizon = 77\n'
        '[policies.quick]\npolicy = "tofu"\nroot = "cholesky"\nradius_scale = 0.5\nsets = ["S4"]\n'
        "[sets.S4]\nhorizon = 9\n"
    )
    found = cells(tmp_path, text)
    assert [c.title for c in found] == ["S4/quick", "S1/menu", "S3/quick"]
    assert chosen(found[1], "horizon", "delta") == (2000, 0.05)
    assert chosen(found[2], "horizon", "root", "radius_scale") == (77, "cholesky", 0.5)
    assert found[2].entry["bandit"]["epsilon"] == 0.25
    assert found[2].entry["label"] == "quick"
    with pytest.raises(InputError, match=r"S4/quick and cells\[2\] are one and the same cell; leave one of them out"):
        cells(tmp_path, text + "[[cells]]\nset = 'S4'\npolicy = 'quick'\n")


def test_overrides(tmp_path):
    text = "seeds = 3\n[sets.S3]\nhorizon = 500\n[policies.tofu]\n[[cells]]\nset = 'S1'\npolicy = 'oful'\n"
    changed = sweep(
        tmp_path,
        text,
        "policies.tofu.delta=0.05",
        "policies.tofu.level=box",
        "seeds=7",
        "sets.S3.epsilon=[0.1, 0.2]",
        "cells.0.horizon=30",
        'name = "a = b"',
    )
    assert (changed.seeds, changed.name, changed.text) == (7, "a = b", text)
    found = plan(changed, {}, "cpu")
    assert [chosen(c, "delta") for c in found[:2]] == [(0.05,), (0.05,)]
    assert {c.entry["options"]["level"] for c in found[:2]} == {"box"}
    assert [c.entry["bandit"]["epsilon"] for c in found[:2]] == [0.1, 0.2]
    assert found[2].horizon == 30


@pytest.mark.parametrize("kind", ["csv", "named.csv", "marked.csv", "npy", "parquet"])
def test_arms_from_files(tmp_path, kind):
    arms, theta = np.array([[1.0, 0.1], [0.3, 1 / 3], [0.5, 0.7]]), np.array([0.9, 0.1 + 0.2])
    name = f"arms.{kind.removeprefix('named.').removeprefix('marked.')}"
    if kind == "npy":
        np.save(tmp_path / name, arms)
        np.save(tmp_path / "theta.npy", theta)
    elif kind == "parquet":
        parquet.write_table(pa.table({"a": arms[:, 0], "b": arms[:, 1]}), tmp_path / name)
        parquet.write_table(pa.table({"t": theta}), tmp_path / "theta.parquet")
    else:
        head = "first,second\n" if kind.startswith("named") else ""
        lines = "".join(",".join(map(repr, row)) + "\n" for row in arms.tolist())
        marked = kind.startswith("marked")  # as spreadsheets write it: a byte-order mark is no name of a column
        (tmp_path / name).write_text(head + lines, encoding="utf-8-sig" if marked else "utf-8")
        (tmp_path / "theta.csv").write_text(",".join(map(repr, theta.tolist())) + "\n", encoding="utf-8")
    theta_name = f"theta.{name.partition('.')[2]}"
    text = (
        f'horizon = 40\n[sets.own]\narms = "{name}"\ntheta_star = {{}}\nnoise = {{{{law = "Pareto", shape = 3.0}}}}\n'
        "[policies.oful]\n"
    )
    [cell] = cells(tmp_path, text.format(f'"{theta_name}"'))
    bandit = work.build(cell.spec).bandit
    assert bandit == lb.LinearBandit(arms, theta, lb.noise.Pareto(3.0), name="own")
    [again] = cells(tmp_path, text.format(repr(theta.tolist())))
    assert again.id == cell.id  # the instance counts by content


@pytest.mark.parametrize(
    "array", [np.eye(2) * 1j, np.eye(2).astype(bool), np.array([["1", "2"]]), np.eye(2).astype("datetime64[s]")]
)
def test_arms_are_numbers(tmp_path, array):
    np.save(tmp_path / "arms.npy", array)
    text = "horizon = 9\n[sets.o]\narms = 'arms.npy'\ntheta_star = [1.0, 0.0]\nnoise = {law = 'Gaussian'}\n" + TOFU
    with pytest.raises(InputError, match="holds no table of numbers: it holds"):
        cells(tmp_path, text)


ARMS = "horizon = 9\n[sets.o]\narms = '{}'\ntheta_star = {}\nnoise = {{law = 'Gaussian'}}\n[policies.oful]\n"
HEAD = (
    "like pandas' header of columns without names; write the file with header=False, or 0.0 for 0 where this is an arm"
)
INDEX = "counts its rows, like an index; write the file with index=False, or 0.0 for 0 where this is a coordinate"
NAMELESS = "its first column has no name, like pandas' index; write the file with index=False, header=False"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1,2\n.1,.2,.3\n.4,.5,.6\n", f"reads [0, 1, 2], {HEAD}"),
        ("\ufeff0,1\n.1,.2\n", f"reads [0, 1], {HEAD}"),
        ('"0"\n.1\n.2\n', f"reads [0], {HEAD}"),
        ("0,.1,.2\n1,.3,.4\n", INDEX),
        ("arm,x,y\n0,.1,.2\n1,.3,.4\n2,.5,.6\n", INDEX),
        ("1,.1,.2\n2,.3,.4\n", INDEX),
        (",x,y\n7,.1,.2\n9,.3,.4\n", NAMELESS),
        (",0,1\n0,.1,.2\n1,.3,.4\n", NAMELESS),
        ("1.0,x\n1.0,2.0\n", "holds no table of numbers: row 1, column 2 reads 'x', which is no number"),
        ("x,y\n\n1.0,2.0\n3.0,\n", "holds no table of numbers: row 4, column 2 reads '', which is no number"),
        ("x,y\n1.0,2.0\n1.0\n", "holds no table of numbers: row 3 has 1 entries, and row 1 has 2"),
        ("1.0,2.0\n3.0,nan\n", "holds no table of numbers: row 2, column 2 is nan"),
        ("", "must hold a table of numbers, got the shape"),
    ],
)
def test_what_is_written_beside_the_arms_is_no_arm(tmp_path, text, message):
    (tmp_path / "arms.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        cells(tmp_path, ARMS.format("arms.csv", "[1.0, 0.0]"))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "text", ["0.0,1.0\n1.0,0.0\n", "0,1.0\n2,0.0\n", "x,y\n0,1.0\n2,3.0\n", "0.0,.5\n1.0,.5\n", "0,1\n"]
)
def test_arms_that_only_resemble_a_header_or_an_index_are_arms(tmp_path, text):
    (tmp_path / "arms.csv").write_text(text, encoding="utf-8")
    [cell] = cells(tmp_path, ARMS.format("arms.csv", "[1.0, 0.0]"))
    assert work.build(cell.spec).bandit.num_arms == text.count("\n") - text.count("x")


def test_binary_files_hold_no_header_and_no_index_either(tmp_path):
    beside = np.column_stack([np.arange(3), np.eye(3)])
    np.save(tmp_path / "index.npy", beside)
    np.save(tmp_path / "head.npy", np.vstack([np.arange(3), np.eye(3)]))
    np.save(tmp_path / "binary.npy", np.array([[0, 1], [1, 0], [1, 1]]))
    np.save(tmp_path / "hole.npy", np.array([[1.0, 2.0], [np.inf, 1.0]]))
    parquet.write_table(pa.table({"x": beside[:, 0], "y": beside[:, 1]}), tmp_path / "index.parquet")
    marked = pa.table({"x": beside[:, 1], "arm": beside[:, 2]})
    marked = marked.replace_schema_metadata({"pandas": '{"index_columns": ["arm"], "columns": []}'})
    parquet.write_table(marked, tmp_path / "marked.parquet")
    parquet.write_table(pa.table({"x": ["a", "b"]}), tmp_path / "words.parquet")
    for name, message in (
        ("index.npy", "counts its rows, like an index; write the file with index=False, or as .csv, with 0.0 for 0,"),
        ("head.npy", "reads [0, 1, 2], like pandas' header of columns without names; "),
        ("hole.npy", "row 2, column 1 is inf"),
        ("index.parquet", "counts its rows, like an index"),
        ("marked.parquet", "its column 'arm' is pandas' index; write the file with index=False"),
        ("words.parquet", "its column 'x' holds string"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            cells(tmp_path, ARMS.format(name, "[1.0, 0.0, 0.0]"))
    assert cells(tmp_path, ARMS.format("binary.npy", "[1.0, 0.0]"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_text_is_utf_8_with_or_without_a_mark(tmp_path, encoding):
    text = 'name = "café"\nseeds = 3\n' + ARMS.format("arms.csv", "[1.0, 0.0]")
    (tmp_path / "arms.csv").write_text("1.0,0.0\n0.0,1.0\n", encoding="utf-8")
    (tmp_path / "x.toml").write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert (read(tmp_path / "x.toml").text, read(tmp_path / "x.toml").name) == (text, "café")
    message = (
        "line 1 is not UTF-8; save the file" if encoding == "latin-1" else "it is UTF-16, or no text at all; save it"
    )
    (tmp_path / "x.toml").write_text(text, encoding=encoding)
    with pytest.raises(InputError, match=f"x.toml: cannot be read: {message} as UTF-8"):
        read(tmp_path / "x.toml")
    (tmp_path / "arms.csv").write_text("café,y\n1.0,0.0\n0.0,1.0\n", encoding=encoding)
    with pytest.raises(InputError, match=f"arms.csv holds no table of numbers: {message} as UTF-8"):
        cells(tmp_path, text)


def test_a_module_or_factory_that_exits_is_an_error_of_its_field(tmp_path):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    with pytest.raises(InputError, match="cannot import leaves .* SystemExit: 0"):
        cells(tmp_path, "[sets.S3]\n[policies.p]\npolicy = 'leaves:make'\n")
    (tmp_path / "exits.py").write_text("def make(bandit, **options):\n    raise SystemExit(0)\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"policies\.p: SystemExit: 0"):
        cells(tmp_path, "[sets.S3]\n[policies.p]\npolicy = 'exits:make'\n")
    with pytest.raises(InputError, match=r"policies\.p = |policies\.p"):
        cells(tmp_path, "[sets.S3]\n[policies.p]\npolicy = 'sys:exit'\n")
    for installed in ("math:floor", "runpy:run_path"):  # no source at all, and one that reads files unseen
        with pytest.raises(InputError, match=r"policies\.p: TypeError"):
            cells(tmp_path, f"[sets.S3]\n[policies.p]\npolicy = '{installed}'\n")


def test_options_of_one_s_own_do_not_shadow_columns(tmp_path):
    (tmp_path / "ours.py").write_text(POLICY, encoding="utf-8")
    with pytest.raises(InputError, match=r"policies\.p\.seed: an option cannot be called like a column"):
        cells(tmp_path, "[sets.S3]\n[policies.p]\npolicy = 'ours:make'\nseed = [1, 2]\n")


POLICY = """
import functools
import jax.numpy as jnp
import numpy as np
import linbet_jax as lb

@functools.lru_cache
def _policy(dim, step):
    def init(arms, params):
        return {"pulls": jnp.zeros((), jnp.int32), "sum": jnp.zeros(dim, params["weight"].dtype)}
    def select(key, state, arms, params):
        return (step * state["pulls"]) % arms.shape[0]
    def update(state, arms, index, payoffs, params):
        return {"pulls": state["pulls"] + 1, "sum": state["sum"] + params["weight"] * payoffs[0] * arms[index]}
    return lb.Policy("turns", init, select, update)

def make(bandit, *, horizon, step=1, weight=1.0):
    return _policy(bandit.dim, step), {"weight": weight, "more": {"table": np.zeros((9, 9)), "limit": np.inf}}

def broken(bandit, *, horizon):
    raise RuntimeError("no such thing")

def world(size=2, names=("a",)):
    return lb.LinearBandit(np.eye(size), np.arange(1.0, size + 1), lb.noise.StudentT(3.0), name="mine")

def not_a_world():
    return 7
"""


def test_policies_and_worlds_of_one_s_own(tmp_path):
    (tmp_path / "ours.py").write_text(POLICY, encoding="utf-8")
    text = (
        'horizon = 30\n[sets.mine]\nset = "ours:world"\noptions = {size = [2, 3], names = [["a", "b"]]}\n'
        '[policies.turns]\npolicy = "ours:make"\nstep = [1, 2]\nweight = [1.0, 0.5]\n'
    )
    found = cells(tmp_path, text)
    assert len(found) == 8
    assert len({c.program for c in found}) == 4  # the weight is traced, the step is not
    assert chosen(found[1], "step", "weight", "size") == (1, 0.5, 2)
    assert found[0].entry["label"] == "turns"
    built = work.build(found[5].spec)
    assert built.bandit.num_arms == 3
    assert built.params["weight"] == 0.5
    assert found[5].entry["parameters"] == {"weight": 0.5}
    ids = [c.id for c in found]
    assert [c.id for c in cells(tmp_path, text)] == ids
    (tmp_path / "ours.py").write_text('"""Ours."""\n' + POLICY + "\n# another comment\n", encoding="utf-8")
    assert [c.id for c in cells(tmp_path, text)] == ids
    (tmp_path / "ours.py").write_text(POLICY.replace("np.arange(1.0", "np.arange(1.5"), encoding="utf-8")
    assert not set(ids) & {c.id for c in cells(tmp_path, text)}  # what the source says is part of the identity


# Files that functions of one's own read

READERS = {
    "when it is called": "def table():\n    return np.load(HERE / 'table.npy')\n",
    "when it is imported": "TABLE = np.load(HERE / 'table.npy')\ndef table():\n    return TABLE\n",
    "once, in a module of its own": "from tables_of_ours import table\n",
    "unseen": "FILES = ['table.npy']\ndef table():\n    return UNSEEN(HERE / 'table.npy')\n",
}
CACHED = """
import functools
import numpy as np
from pathlib import Path

@functools.cache
def table():
    return np.loadtxt(Path(__file__).parent / "table.csv", ndmin=1)
"""
READING = """
import functools
import os
import numpy as np
import linbet_jax as lb
from pathlib import Path

HERE = Path(__file__).parent

def UNSEEN(path):  # as a library in C opens it: Python is not told
    pipe = os.popen(f"cat '{path}'")
    with pipe, pipe.buffer as stream:
        content = stream.read()
    return np.frombuffer(content[128:])

def world(scale=1.0):
    return lb.LinearBandit(np.eye(2), scale * table()[:2], lb.noise.StudentT(3.0))

def make(bandit, *, horizon, scale=1.0):
    policy, params = lb.make_policy("oful", bandit, horizon=horizon)
    return policy, params._replace(radius_scale=scale * float(table()[0]))
"""
READ_TWICE = """
horizon = 9
[sets.mine]
set = "reading:world"
options = { scale = [1.0, 2.0] }
[sets.S3]
[policies.theirs]
policy = "oful"
[policies.mine]
policy = "reading:make"
scale = [1.0, 3.0]
"""


def write_table(folder, first):
    np.save(folder / "table.npy", np.array([first, 0.5]))
    (folder / "table.csv").write_text(f"{first}\n0.5\n", encoding="utf-8")


@pytest.mark.parametrize("how", READERS)
def test_what_a_module_reads_decides_the_identity_and_is_what_runs(tmp_path, how):
    here, moved = tmp_path / "here", tmp_path / "moved"
    here.mkdir()
    (here / "reading.py").write_text(READING + READERS[how], encoding="utf-8")
    (here / "tables_of_ours.py").write_text(CACHED, encoding="utf-8")
    found = []
    for folder, first in ((here, 0.25), (here, 0.75), (here, 0.25), (moved, 0.75)):
        if folder == moved:
            shutil.copytree(here, moved)
            for name in ("reading", "tables_of_ours"):  # as in another process
                sys.modules.pop(name, None)
        write_table(folder, first)
        planned = cells(folder, READ_TWICE)
        for cell in planned:
            built = work.build(cell.spec)
            if cell.entry["set"] == "mine":
                assert built.bandit.theta_star[0] == first * cell.entry["set_options"]["scale"]
            if cell.entry["policy"] == "mine":
                assert built.params.radius_scale == first * cell.entry["options"]["scale"]
        found.append({cell.title: cell.id for cell in planned})
    assert len(set(found[0].values())) == 2 * 3 + 3
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert [title for title in found[0] if found[0][title] == found[1][title]] == ["S3/theirs"]


def test_a_cell_counts_the_files_that_its_own_options_name(tmp_path):
    (tmp_path / "named.py").write_text(
        READING.replace("world(scale=1.0):", "world(file):\n    scale = float((HERE / file).read_text())")
        + "def table():\n    return np.array([1.0, 0.5])\n",
        encoding="utf-8",
    )
    text = 'horizon = 9\n[sets.mine]\nset = "named:world"\noptions = {{ file = {} }}\n[policies.oful]\n'
    for file in "abc":
        (tmp_path / file).write_text("1.5" if file == "a" else "2.5", encoding="utf-8")
    one, two = (c.id for c in cells(tmp_path, text.format('["a", "b"]')))
    (tmp_path / "b").write_text("3.5", encoding="utf-8")
    found = [c.id for c in cells(tmp_path, text.format('["a", "b", "c"]'))]
    assert found[0] == one
    assert found[1] != two
    assert cells(tmp_path, text.format('"b"'))[0].entry["source"]["set_files"].keys() == {"b"}


def test_a_file_that_is_another_one_at_the_worker_is_an_error(tmp_path):
    (tmp_path / "reading2.py").write_text(READING + READERS["when it is imported"], encoding="utf-8")
    write_table(tmp_path, 0.25)
    [cell] = cells(tmp_path, 'horizon = 9\n[sets.S3]\n[policies.mine]\npolicy = "reading2:make"\n')
    write_table(tmp_path, 0.75)
    work._policy.cache_clear()  # as in a process that has built nothing yet
    del sys.modules["reading2"]
    reads.held[tmp_path] = {}
    with pytest.raises(InputError, match="the file table.npy is another one here than where the sweep was started"):
        work.build(cell.spec)


def test_what_is_installed_below_the_folder_does_not_count(tmp_path):
    text = 'horizon = 9\n[sets.S3]\n[policies.mine]\npolicy = "reading3:make"\n'
    for env, counts in ((".venv/lib/python3/site-packages/lib", False), ("data", True)):
        (tmp_path / env).mkdir(parents=True)
        write_table(tmp_path / env, 0.25)
        source = READING + f"ENV = '{env}'\n" + READERS["when it is imported"].replace("HERE", "HERE / ENV")
        (tmp_path / "reading3.py").write_text(source, encoding="utf-8")
        [cell] = cells(tmp_path, text)
        assert cell.entry["source"].get("policy_files", {}).keys() == ({f"{env}/table.npy"} if counts else set())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            "from pyarrow import parquet",
            "uses pyarrow, which may read files unseen: name those that decide numbers",
        ),
        ("def f(pd):\n    return pd.read_parquet('x')", "uses read_parquet, which may read files unseen"),
        ("import importlib\nx = importlib.import_module('math')", "uses import_module, which may read files unseen"),
        ("exec('')", "uses exec, which may read files unseen"),
        ("FILES = 'table.npy'", "FILES = 'table.npy' in "),
        ("FILES = ['none.npy']", "there is no file "),
        ("import pyarrow\nFILES = []", ""),
    ],
)
def test_files_that_are_read_unseen_are_named(tmp_path, more, message):
    name = f"unseen{abs(hash(more))}"
    (tmp_path / f"{name}.py").write_text(f"{POLICY}\n{more}\n", encoding="utf-8")
    text = f"[sets.S3]\n[policies.p]\npolicy = '{name}:make'\n"
    if not message:
        assert cells(tmp_path, text)
        return
    with pytest.raises(InputError, match=re.escape(message)):
        cells(tmp_path, text)


def test_a_mixture_is_one_law_and_several_are_told_as_a_whole(tmp_path):
    [cell] = cells(tmp_path, MIXED + TOFU)
    mixture = lb.noise.Mixture([lb.noise.Gaussian(), lb.noise.StudentT(2.5)], [9, 1])
    assert work.build(cell.spec).bandit.noise == mixture
    other = MIXTURE.replace("[9, 1]", "[4, 1]")
    pair = cells(tmp_path, SMALL.replace('{law = "StudentT", df = 3.0}', f"[{MIXTURE}, {other}]") + TOFU)
    assert [one.entry["bandit"]["law"].partition(" ")[0] for one in pair] == ["0.9", "0.8"]
    assert pair[0].swept == {"noise": "Mixture(weights=[9, 1], laws=[Gaussian(), StudentT(df=2.5)])"}
    assert pair[0].id == cell.id != pair[1].id


SCALED = '{law = "Heteroscedastic", noise = {law = "StudentT", df = [2.1, 3.0]}, spread = [0, 2]}'


def test_a_law_around_another_multiplies_by_both_of_their_lists(tmp_path):
    def with_law(law, policy):
        return cells(tmp_path, MIXED.replace(MIXTURE, law) + f"[policies.{policy}]\n")

    found = with_law(SCALED, "hvt_ucb")
    pairs = [(df, spread) for df in (2.1, 3.0) for spread in (0, 2)]
    assert [cell.swept for cell in found] == [{"noise.noise.df": df, "noise.spread": s} for df, s in pairs]
    laws = [work.build(cell.spec).bandit.noise for cell in found]
    assert laws == [lb.noise.Heteroscedastic(lb.noise.StudentT(df), spread) for df, spread in pairs]
    assert len({cell.id for cell in found}) == 4
    assert len({cell.program for cell in found}) == 1
    assert found[1].entry["set_options"]["noise"] == "Heteroscedastic(noise=StudentT(df=2.1), spread=2)"
    [shown] = with_law(
        SCALED.replace("[2.1, 3.0]", "3.0").replace("[0, 2]", "2.0"), "hvt_ucb]\nheteroscedastic = true #"
    )
    assert work.build(shown.spec).policy.sees_scales
    [mixed] = with_law(f'{{law = "Heteroscedastic", spread = 1, noise = {MIXTURE}}}', "tofu")
    parts = [lb.noise.Gaussian(), lb.noise.StudentT(2.5)]
    assert work.build(mixed.spec).bandit.noise.noise == lb.noise.Mixture(parts, [9, 1])


# A theta_star that moves


def test_any_set_with_fixed_arms_drifts_as_in_python(tmp_path):
    np.save(tmp_path / "arms.npy", np.random.default_rng(0).normal(size=(4, 2)))
    text = (
        'horizon = 60\n[sets.S1]\ndrift = {path = "rotating", angle = [1e-4, 1]}\n'
        '[sets.mine]\narms = "arms.npy"\ntheta_star = [1.0, 0.5]\nnoise = {law = "Gaussian"}\nmean_bound = 9.0\n'
        'drift = [{path = "jumping", every = 1e1}, {path = "rotating", angle = -0.5}]\n'
        '[sets.S3]\ndrift = {path = "rotating", angle = 1e-4}\n[policies.oful]\n'  # beyond T its means are negative
    )
    found = cells(tmp_path, text)
    assert [cell.swept for cell in found] == [
        {"drift.angle": 1e-4}, {"drift.angle": 1},
        {"drift": "jumping(every=10.0)"}, {"drift": "rotating(angle=-0.5)"}, {},
    ]  # fmt: skip
    bandits = [work.build(cell.spec).bandit for cell in found]
    S1 = lb.dataset("S1")
    assert bandits[:2] == [lb.drifting(S1, lb.rotating(S1.theta_star, a), name="S1") for a in (1e-4, 1.0)]
    mine = lb.LinearBandit(np.load(tmp_path / "arms.npy"), [1.0, 0.5], lb.noise.Gaussian(), mean_bound=9.0)
    paths = [lb.jumping([1.0, 0.5], 10), lb.rotating([1.0, 0.5], -0.5)]
    assert bandits[2:4] == [lb.drifting(mine, path, mean_bound=9.0, name="mine") for path in paths]
    S3 = lb.dataset("S3")
    assert bandits[4] == lb.drifting(S3, lb.rotating(S3.theta_star, 1e-4), horizon=60, name="S3")
    assert [cell.entry["bandit"]["drift"] for cell in found] == [
        "rotating, 0.0001 rad a pull", "rotating, 1 rad a pull", "jumping every 10 pulls", "rotating, -0.5 rad a pull",
        "rotating, 0.0001 rad a pull",
    ]  # fmt: skip
    assert len({cell.id for cell in found}) == 5

    part = {"cells": [found[2].spec], "start": 0, "stop": 2, "record_at": [10, 60], "key": 3, "dtype": "float64"}
    [result] = work.run_part({**part, "block_size": 2})["cells"].values()
    policy, params = lb.make_policy("oful", bandits[2], horizon=60)
    [alone] = lb.simulate_grid(
        policy, [params], bandits[2], horizon=60, num_seeds=2, key=jax.random.key(3), record_at=[10, 60],
        block_size=2, dtype="float64", separate=True,
    )  # fmt: skip
    np.testing.assert_array_equal(result["regret"], alone.regret)


def test_the_path_and_where_it_begins_are_part_of_the_identity(tmp_path):
    np.save(tmp_path / "arms.npy", np.eye(2))
    base = (
        'horizon = 50\n[sets.o]\narms = "arms.npy"\ntheta_star = [1.0, 0.5]\nnoise = {law = "Gaussian"}\n'
        "theta_norm = 2.0\nmean_bound = 2.0\ndrift = {path = 'jumping', every = 9}\n" + TOFU
    )
    [reference] = cells(tmp_path, base)
    [again] = cells(tmp_path, base.replace("every = 9", "every = 9.0"))
    assert again.id == reference.id
    others = [
        base.replace("every = 9", "every = 8"),
        base.replace("'jumping', every", "'rotating', angle"),
        base.replace("[1.0, 0.5]", "[0.5, 1.0]"),
        base.replace("drift", "# drift"),
    ]
    assert len({reference.id, *(cells(tmp_path, text)[0].id for text in others)}) == 5


# Identity


def test_a_law_that_cannot_be_compared_later_is_an_error_of_its_set(tmp_path, monkeypatch):
    def refuse(bandit, recipe):
        raise ValueError("noise: Mine must hold numbers alone")

    monkeypatch.setattr(worlds, "instance_digest", refuse)
    with pytest.raises(InputError, match=r"x\.toml: cell S3/tofu: sets\.S3: noise: Mine must hold numbers alone"):
        cells(tmp_path, "[sets.S3]\n" + TOFU)


def test_the_identity_is_what_decides_the_numbers_and_nothing_else(tmp_path):
    base = SMALL + "[policies.oful]\n"
    [reference] = cells(tmp_path, base)
    same = [
        base.replace("[sets.small]", "[sets.other]").replace("[policies.oful]", '[policies.mine]\npolicy = "oful"'),
        'name = "another"\nseeds = 7\n' + base,
        base + "delta = 0.1\nradius_scale = 1.0\nridge = 1\n",
        base.replace("[policies.oful]", "[policies.uniform]\n[policies.oful]"),
        base.replace("K = 3", "K = 3\ninstance_seed = 0\nepsilon = 1.0"),
        "records = 50\n" + base,  # as many as there are pulls
        "block_size = 16\n" + base,
    ]
    for text in same:
        assert reference.id in [c.id for c in cells(tmp_path, text)], text
    others = [
        "key = 1\n" + base,
        "records = 10\n" + base,
        "record_at = [10, 50]\n" + base,
        "block_size = 8\n" + base,
        base.replace("horizon = 50", "horizon = 51"),
        base.replace("df = 3.0", "df = 3.5"),
        base.replace("K = 3", "K = 3\nepsilon = 0.5"),
        base.replace("K = 3", "K = 3\ninstance_seed = 1"),
        base + "delta = 0.2\n",
        base + "radius_scale = 0.5\n",
        base + "noise_scale = 2.0\n",
        base.replace("oful", "greedy"),
    ]
    ids = [cells(tmp_path, text)[0].id for text in others]
    assert len({reference.id, *ids}) == len(others) + 1
    read_back = sweep(tmp_path, base)
    for numerics in ({"dtype": "float32"}, {"dtype": "float64", "jax": "0.0"}):
        assert plan(read_back, numerics, "cpu")[0].id != reference.id


def test_cells_of_equal_static_shape_share_a_program(tmp_path):
    text = (
        SMALL + "epsilon = [0.5, 1.0]\ninstance_seed = [0, 1]\n[policies.tofu]\ndelta = [0.1, 0.2]\n"
        'level = ["proof", "box"]\n[policies.oful]\nridge = [1.0, 2.0]\n'
    )
    found = cells(tmp_path, text)
    assert len(found) == 4 * 4 + 4 * 2
    assert len({c.program for c in found}) == 3
    assert len({c.batch for c in found}) == 3 * 4  # and every instance of a batch is one


# What is wrong with a file

SCALE = "{{law = 'Heteroscedastic', spread = 99{}}}"
WRONG = [
    (SMALL + "drift = 'rotating'\n" + TOFU, "sets.small.drift = 'rotating': must be how theta_star moves, {path = "),
    (SMALL + "drift = {angle = 1}\n" + TOFU, "sets.small.drift.path is missing; known are rotating, jumping"),
    (SMALL + "drift = {path = 'jumps'}\n" + TOFU, "small.drift.path = 'jumps': no such path; did you mean jumping?"),
    (SMALL + "drift = {path = 'jumping'}\n" + TOFU, "sets.small.drift.every: is missing; jumping needs it"),
    (SMALL + "drift = {path = 'jumping', every = 0}\n" + TOFU, "drift.every = 0: must be a whole number, 1 to 2147"),
    (SMALL + "drift = {path = 'jumping', every = 1.5}\n" + TOFU, "small.drift.every = 1.5: must be a whole number"),
    (SMALL + "drift = {path = 'jumping', every = true}\n" + TOFU, "drift.every = true: must be a whole number"),
    (SMALL + "drift = {path = 'rotating', angle = 'a'}\n" + TOFU, "drift.angle = 'a': must be a number, radians a"),
    (SMALL + "drift = {path = 'rotating', angle = inf}\n" + TOFU, "sets.small.drift.angle = inf: must be a number"),
    (SMALL + "drift = {path = 'rotating', every = 5}\n" + TOFU, "drift.every: unknown key; known are path, angle"),
    (SMALL + "drift = [{path = 'jumping', every = [1, 2]}]\n" + TOFU, "a list of paths holds paths with single values"),
    (SMALL + "resample = true\ndrift = {path = 'jumping', every = 5}\n" + TOFU, "drift: goes without resample = true"),
    ("[sets.S3]\ndrift = {path = 'jumping', every = 5}\n" + TOFU, "sets.S3.drift: path must keep means within 0 <= "),
    ("[sets.x]\nset = 'm:f'\ndrift = {path = 'jumping', every = 5}\n" + TOFU, "sets.x.drift: does not go with set"),
    (MIXED.replace(MIXTURE, SCALE.format("")) + TOFU, "noise.noise: is missing; Heteroscedastic needs it"),
    (MIXED.replace(MIXTURE, SCALE.format(", noise = 3")) + TOFU, "small.noise.noise = 3: must be a law"),
    (MIXED.replace(MIXTURE, SCALE.format(", noise = [1, 2]")) + TOFU, "small.noise.noise = 1: must be a law"),
    (MIXED.replace(MIXTURE, SCALE.format(", noise = {law = 'T'}")) + TOFU, "noise.noise.law = 'T': no such law"),
    (
        MIXED.replace(MIXTURE, SCALE.format(", noise = {law = 'Gaussian'}")) + TOFU,
        "sets.small.noise: Heteroscedastic: spread must be a number with 0 <= spread <= 30, got 99",
    ),
    (SMALL + "[policies.hvt_ucb]\nheteroscedastic = true\n", "hvt_ucb.heteroscedastic: heteroscedastic=True: hvt_ucb"),
    ("seedz = 3\n[sets.S3]\n" + TOFU, "seedz: unknown key; did you mean seeds?; known are name, seeds, key, records"),
    ("seeds = '3'\n[sets.S3]\n" + TOFU, "seeds = '3': must be a whole number of replications, at least 1"),
    ("seeds = 3.5\n[sets.S3]\n" + TOFU, "seeds = 3.5: must be a whole number of replications, at least 1"),
    ("seeds = 0\n[sets.S3]\n" + TOFU, "seeds = 0: must be a whole number of replications, at least 1"),
    ("key = -1\n[sets.S3]\n" + TOFU, "key = -1: must be a whole number, 0 to 4294967295"),
    ("dtype = 'float16'\n[sets.S3]\n" + TOFU, "dtype = 'float16': must be 'float64' or 'float32'"),
    ("device = 'tpu'\n[sets.S3]\n" + TOFU, "device = 'tpu': must be 'auto', 'cpu' or 'gpu'"),
    ("block_size = 65\n[sets.S3]\n" + TOFU, "block_size = 65: must be at most 64 on CPU"),
    ("horizon = 9.5\n[sets.S3]\n" + TOFU, "horizon = 9.5: must be a whole number, 1 to 2000000000, or a list of such"),
    ("horizon = []\n[sets.S3]\n" + TOFU, "horizon = []: must be a whole number, 1 to 2000000000, or a list of such"),
    ("horizon = [10, 10]\n[sets.S3]\n" + TOFU, "horizon: lists 10 twice"),
    ("records = 0\n[sets.S3]\n" + TOFU, "records = 0: must be a whole number of records, 1 to 1000000"),
    ("record_at = [5, 3]\n[sets.S3]\n" + TOFU, "record_at = [5, 3]: must increase"),
    ("record_at = [5]\nrecords = 3\n[sets.S3]\n" + TOFU, "record_at = [5]: goes without records, which is 3"),
    ("record_at = [5, 30000]\n[sets.S3]\n" + TOFU, "must increase within 1..10000"),
    ("sets = 3\n", "sets = 3: must be a table of sets"),
    ("[sets]\nS3 = 4\n" + TOFU, "sets.S3 = 4: must be a table"),
    ("[sets.S3]\n", "policies: is missing; a sweep has [sets.NAME] and [policies.NAME] tables, or [[cells]]"),
    (TOFU, "sets: is missing"),
    ("[sets.S3]\nepsilom = 3\n" + TOFU, "sets.S3.epsilom: unknown key; did you mean epsilon?; known are set, horizon,"),
    (
        "[sets.S3]\nepsilon = [0.1, 1.5]\n" + TOFU,
        "sets.S3.epsilon = [0.1, 1.5]: must be a number with 0 < epsilon <= 1",
    ),
    ("[sets.S3]\nepsilon = true\n" + TOFU, "sets.S3.epsilon = true: must be a number with 0 < epsilon <= 1"),
    ("[sets.S3]\nepsilon = nan\n" + TOFU, "sets.S3.epsilon = nan: must be a number with 0 < epsilon <= 1"),
    ("[sets.S3]\nepsilon = 0.9\n" + TOFU.replace("tofu", "mom"), ""),
    ("[sets.S3]\nepsilon = 1.0\n" + TOFU, "sets.S3.epsilon: epsilon must satisfy 0 < epsilon < 1"),
    ("[sets.S3]\nhorizon = 0\n" + TOFU, "sets.S3.horizon = 0: must be a whole number, 1 to 2000000000"),
    ("[sets.S3]\nresample = 1\n" + TOFU, "sets.S3.resample = 1: must be true (a fresh instance"),
    ("[sets.S3]\ninstance_seed = 4\nresample = true\n" + TOFU, "instance_seed must be None with resample=True, got 4"),
    ("[sets.S3]\nK = 3\n" + TOFU, "sets.S3.K: does not go with set = 'S3'; known are instance_seed, resample,"),
    ("[sets.S3]\noptions = {a = 3}\n" + TOFU, "sets.S3.options: does not go with set = 'S3'"),
    ("[sets.S7]\n" + TOFU, "sets.S7.set = 'S7': no such set (the table's name stands for `set` where there is none)"),
    ("[sets.a]\nset = 'unifrom'\n" + TOFU, "sets.a.set = 'unifrom': no such set; did you mean uniform?; known are S1"),
    (
        "[sets.uniform]\nK = 3\nd = 2\nhorizon = 9\n" + TOFU,
        "sets.uniform.noise: is missing; set = 'uniform' needs it: a law",
    ),
    (SMALL.replace("horizon = 50", "") + TOFU, "sets.small.horizon: is missing; only S1 to S4 have the paper's own"),
    (
        SMALL.replace("StudentT", "Students") + TOFU,
        "sets.small.noise.law = 'Students': no such law; did you mean StudentT?",
    ),
    (SMALL.replace('"StudentT"', "{a = 1}") + TOFU, "sets.small.noise.law = {'a': 1}: no such law"),
    (SMALL.replace("df =", "dof =") + TOFU, "sets.small.noise.dof: unknown key; did you mean df?; known are df, scale"),
    (SMALL.replace(", df = 3.0", "") + TOFU, "sets.small.noise.df: is missing; StudentT needs it"),
    (SMALL.replace("df = 3.0", "df = 0") + TOFU, "sets.small.noise: StudentT: df must satisfy 0.001 < df < inf"),
    (SMALL.replace("df = 3.0", "df = 1.0") + TOFU, "policies.tofu: bandit: tofu needs a finite moment E|payoff|^("),
    (
        SMALL.replace('"StudentT"', '"Custom"') + TOFU,
        "which a sweep file cannot hold; make the law in a function of",
    ),
    (MIXED.replace("df = 2.5", "df = [2.5, 3.0]") + TOFU, "sets.small.noise.laws[1]: StudentT: df must be one number"),
    (MIXED.replace("df", "dof") + TOFU, "sets.small.noise.laws[1].dof: unknown key; did you mean df?"),
    (MIXED.replace("[9, 1]", "[9]") + TOFU, "sets.small.noise: Mixture: weights must be 2 numbers, one for each law"),
    (MIXED.replace("laws = [", "parts = [") + TOFU, "sets.small.noise.parts: unknown key; known are laws, weights"),
    (MIXED.replace('{law = "Gaussian"}', "3") + TOFU, "sets.small.noise.laws[0] = 3: must be a law, {law ="),
    (re.sub(r"laws = \[.*\]", "laws = 3", MIXED) + TOFU, "sets.small.noise.laws = 3: must be a list of laws"),
    (SMALL.replace("df = 3.0", "df = 'x'") + TOFU, "sets.small.noise: "),
    (
        SMALL.replace("{law", "[{law").replace("3.0}", "[3.0, 4.0]}]") + TOFU,
        "a list of laws holds laws with single values",
    ),
    (
        SMALL.replace("{law", "[{law = 'Heteroscedastic', spread = 1, noise = {law").replace("3.0}", "[3, 4]}}]")
        + TOFU,
        "a list of laws holds laws with single values",
    ),
    (SMALL.replace("3.0", "2.0") + TOFU, "sets.small: epsilon must be given for Student t(2)"),
    (
        SMALL.replace("d = 2", "d = 1979-05-27") + TOFU,
        "sets.small.d = datetime.date(1979, 5, 27): must be a whole number",
    ),
    (
        "horizon = 1000\n[sets.lower-bound]\nd = 40\nepsilon = 0.5\n" + TOFU,
        "sets.lower-bound.d: dim must satisfy 2 <= dim",
    ),
    (
        "[sets.S3]\n[policies.tofuu]\n",
        "policies.tofuu.policy = 'tofuu': no such policy; did you mean tofu?; known are menu",
    ),
    ("[sets.S3]\n[policies.tofu]\npolicy = 3\n", "policies.tofu.policy = 3: must be the name of a policy"),
    (
        "[sets.S3]\n[policies.tofu]\nsets = ['S3', 'S3']\n",
        "policies.tofu.sets[1] = 'S3': is named twice; each set plays once",
    ),
    ("[sets.S3]\n[policies.tofu]\nsets = ['S4']\n", "policies.tofu.sets[0] = 'S4': no such set; known are S3"),
    (
        "[sets.S3]\n[policies.tofu]\ndleta = 0.1\n",
        "policies.tofu.dleta: unknown key; did you mean delta?; known are policy",
    ),
    ("[sets.S3]\n[policies.tofu]\nhorizon = 7\n", "policies.tofu.horizon: unknown key"),
    (
        "[sets.S3]\n[policies.tofu]\ndelta = [0.1, 2.0]\n",
        "cell S3/tofu (delta=2): policies.tofu.delta: delta=2.0: must be in (0, 1)",
    ),
    ("[sets.S3]\n[policies.tofu]\ndelta = 'x'\n", "policies.tofu.delta: delta='x': must be a number, in (0, 1)"),
    ("[sets.S3]\n[policies.tofu]\ndelta = []\n", "policies.tofu.delta = []: must hold at least one value"),
    ("[sets.S3]\n[policies.tofu]\ndelta = [[0.1]]\n", "policies.tofu.delta = [0.1]: must be a single value"),
    ("[sets.S3]\n[policies.tofu]\ndelta = [0.1, 0.1]\n", "policies.tofu.delta: lists 0.1 twice"),
    ("[sets.S3]\n[policies.tofu]\nridge = [1, 1.0]\n", "policies.tofu.ridge: lists 1.0 beside 1, which is equal"),
    (
        "horizon = 9\n[sets.m]\nset = 'ours:world'\noptions = {names = ['a', 'b']}\n[policies.oful]\n",
        "m/oful (names=a) and m/oful (names=b) are one and the same cell, whether names is 'a' or 'b'; leave",
    ),
    (
        "[[cells]]\nset = 'S3'\npolicy = 'oful'\n[[cells]]\nset = 'S3'\npolicy = 'oful'\nridge = 1\n",
        "cells[0] and cells[1] are one and the same cell, whether ridge is not given or 1; leave one of them out",
    ),
    ("[sets.S3]\n[policies.tofu]\ndelta = 1979-05-27\n", "policies.tofu.delta = 1979-05-27: must be a number, a text"),
    (
        "[sets.S3]\n[policies.tofu]\nlevel = 'boxx'\n",
        "policies.tofu.level: level='boxx': allowed are 'proof' and 'box'",
    ),
    ("[sets.S3]\n[policies.tofu]\nhorizon = [5, 6]\n", "policies.tofu.horizon: "),
    ("[sets.S3]\n[policies.tofu]\n'radius.scale' = [1.0, 2.0]\n", "policies.tofu.radius.scale: "),
    ("[sets.'S3 eps=0.5']\nset = 'S3'\nepsilon = 2\n" + TOFU, "sets.S3 eps=0.5.epsilon = "),
    (
        "[sets.S1]\nhorizon = 100\n[policies.menu]\n",
        "cell S1/menu: policies.menu: horizon=100: MENU at delta=0.1 needs T >= 336",
    ),
    (
        "[sets.S3]\n[policies.a]\npolicy = 'tofu'\n[policies.b]\npolicy = 'tofu'\n",
        "S3/a and S3/b are one and the same cell",
    ),
    (
        "zip = [['sets.S3.epsilon']]\n[sets.S3]\n" + TOFU,
        "zip = [['sets.S3.epsilon']]: must be a list of lists of paths",
    ),
    (
        "zip = [['sets.*.epsilon', 'policies.tofu.delta']]\n[sets.S3]\nepsilon = [0.1, 0.2]\n"
        + TOFU
        + "delta = [0.1, 0.2, 0.3]\n",
        "zip[0]: sets.S3.epsilon has 2 values and policies.tofu.delta has 3; paired lists have one length",
    ),
    (
        "zip = [['sets.*.epsilom', 'policies.tofu.delta']]\n[sets.S3]\nepsilon = [0.1, 0.2]\n"
        + TOFU
        + "delta = [0.1, 0.2]\n",
        "zip[0][0] = 'sets.*.epsilom': names no list in this file; did you mean sets.S3.epsilon?",
    ),
    (
        "zip = [['sets.*.epsilon', '*.delta'], ['*.delta', '*.ridge']]\n[sets.S3]\nepsilon = [0.1, 0.2]\n"
        + TOFU
        + "delta = [0.1, 0.2]\nridge = [1.0, 2.0]\n",
        "zip[1]: policies.tofu.delta is in zip[0] already",
    ),
    ("[[cells]]\nset = 'S3'\n", "cells[0].policy: is missing; must be the name of one of [policies]"),
    ("[[cells]]\nset = 'S3'\npolicy = 'tofu'\nhorizn = 3\n", "cells[0].horizn: unknown key; did you mean horizon?"),
    (
        "[[cells]]\nset = 'S3'\npolicy = 'tofu'\nepsilon = 7\n",
        "cells[0].epsilon = 7: must be a number with 0 < epsilon <= 1",
    ),
    ("[[cells]]\nset = 'S3'\npolicy = 'tofu'\nhorizon = [3]\n", "cells[0].horizon = [3]: must be a whole number"),
    (
        "[sets.S3]\nepsilon = [0.1, 0.2]\n[[cells]]\nset = 'S3'\npolicy = 'tofu'\n",
        "cells[0].epsilon: a cell has one value, and this has 2; name one in the cell",
    ),
    ("[[cells]]\nset = 'S3'\npolicy = 'tofu'\ndelta = 9\n", "cells[0].delta: delta=9: must be in (0, 1)"),
    ("x = = 3", "is not TOML: Invalid value (at line 1, column 5)"),
    ("horizon = 9\n[sets.m]\nset = 'nosuchmodule:make'\n" + TOFU, "sets.m.set: cannot import nosuchmodule (looked in "),
    (
        "horizon = 9\n[sets.m]\nset = 'ours:nothing'\n" + TOFU,
        "sets.m.set = 'ours:nothing': the module ours has no function",
    ),
    ("horizon = 9\n[sets.m]\nset = 'ours:a b'\n" + TOFU, "sets.m.set = 'ours:a b': must be 'module:function'"),
    ("horizon = 9\n[sets.m]\nset = 'ours:not_a_world'\n" + TOFU, "must return a linbet_jax.LinearBandit, got int"),
    (
        "horizon = 9\n[sets.m]\nset = 'ours:world'\n[sets.m.options]\nsice = 3\n" + TOFU,
        "sets.m: TypeError: world() got an",
    ),
    ("[sets.S3]\n[policies.p]\npolicy = 'ours:broken'\n", "cell S3/p: policies.p: RuntimeError: no such thing"),
    ("[sets.S3]\n[policies.p]\npolicy = 'ours:world'\n", "cell S3/p: policies.p: TypeError: world() "),
    (
        "horizon = 9\n[sets.o]\narms = 'none.csv'\ntheta_star = [1.0]\nnoise = {law = 'Gaussian'}\n" + TOFU,
        "sets.o.arms: there is no file ",
    ),
    (
        "horizon = 9\n[sets.o]\narms = 'ours.py'\ntheta_star = [1.0]\nnoise = {law = 'Gaussian'}\n" + TOFU,
        "sets.o.arms = 'ours.py': must end in .csv, .npy, .parquet",
    ),
    (
        "horizon = 9\n[sets.o]\narms = 'bad.csv'\ntheta_star = [1.0]\nnoise = {law = 'Gaussian'}\n" + TOFU,
        "bad.csv holds no table of numbers: row 2, column 2 reads 'x', which is no number",
    ),
    (
        "horizon = 9\n[sets.o]\narms = 'good.csv'\ntheta_star = [1.0]\nnoise = {law = 'Gaussian'}\n" + TOFU,
        "sets.o.theta_star: theta_star must have length 2",
    ),
    ("horizon = 9\n[sets.o]\narms = 'good.csv'\nnoise = {law = 'Gaussian'}\n" + TOFU, "sets.o.theta_star: is missing"),
    ("[sets.o]\nset = 'S3'\narms = 'good.csv'\n" + TOFU, "sets.o.set = 'S3': goes without arms and theta_star"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_input_names_file_field_and_what_is_allowed(tmp_path, text, message):
    (tmp_path / "ours.py").write_text(POLICY, encoding="utf-8")
    (tmp_path / "bad.csv").write_text("a,b\n1.0,x\n", encoding="utf-8")
    (tmp_path / "good.csv").write_text("1.0,0.0\n0.0,1.0\n", encoding="utf-8")
    if not message:  # at the edge of what is allowed
        assert cells(tmp_path, text)
        return
    with pytest.raises(InputError) as raised:
        cells(tmp_path, text)
    found = str(raised.value)
    assert found.startswith(f"{tmp_path / 'x.toml'}: ")
    assert message in found
    assert "\n" not in found


def test_wrong_overrides(tmp_path):
    text = "horizon = 100\n[sets.S3]\n[policies.tofu]\n[[cells]]\nset = 'S3'\npolicy = 'oful'\n"
    for override, message in (
        ("seeds", "--set seeds: must be PATH=VALUE"),
        ("=3", "--set =3: must be PATH=VALUE"),
        ("horizon.x=3", "--set horizon.x=3: horizon is a value, not a table"),
        ("cells.1.horizon=3", "--set cells.1.horizon=3: "),
        ("policies.tofu.dleta=0.1", "policies.tofu.dleta: unknown key; did you mean delta?"),
        ("polices.tofu.delta=0.1", "polices: unknown key; did you mean policies?"),
        ("seeds=-1", "seeds = -1: must be a whole number"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            cells(tmp_path, text, override)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="none.toml: cannot be read: No such file or directory"):
        read(tmp_path / "none.toml")


def test_float64_needs_64_bits(tmp_path):
    with jax.enable_x64(False), pytest.raises(InputError, match="dtype = .float64.: needs jax.config.update"):
        cells(tmp_path, "[sets.S3]\n" + TOFU)


def test_every_key_of_a_set_says_what_it_allows():
    assert all(field.description for field in SetTable.model_fields.values())


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000 + "]" * 5000])
def test_what_is_too_long_or_too_deep_for_a_number_or_a_list_is_said_to_be(value, tmp_path):
    with pytest.raises(InputError, match="is not TOML"):
        sweep(tmp_path, f"seeds = {value}")
    with pytest.raises(InputError, match="seeds"):
        sweep(tmp_path, "seeds = 2\nhorizon = 10\n[sets.S3]\n[policies.oful]\n", f"seeds={value}")
