"""Studies: cells that survive a kill, costs, writers, intervals; what precision, table2 and remark3 make of numbers.

The host side is tested with numbers made up here or a stand-in for the simulator; test_reproduce.py kills a real run.
"""

import argparse
import contextlib
import csv
import dataclasses
import math
import os
import time
from types import SimpleNamespace

import numpy as np
import pytest
from sweeps import manifest

from linbet_jax.cli import reproduce as command
from linbet_jax.experiments import driver, measure, precision, remark3, shared, table2
from linbet_jax.experiments.driver import CellResult, Outputs, StudyCell
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.policies.registry import PASS_MICROSECONDS, pull_microseconds
from linbet_jax.statistics import tables
from linbet_jax.statistics.intervals import RESAMPLES, share_interval
from linbet_jax.statistics.regret import fitted_exponent, summarize
from linbet_jax.storage.results import RunFolder, RunFolderError
from linbet_jax.sweep.store import Store


class Reporter:
    """Keeps everything it is told."""

    def __init__(self):
        self.lines, self.units, self.total = [], 0, None

    def say(self, line):
        self.lines.append(line)

    def advance(self, units):
        self.units += units

    def describe(self, description):
        pass

    def work(self, total, description):
        self.total = total
        return contextlib.nullcontext()


def compute(progress):
    return CellResult({"numbers": np.arange(3) * 1.5}, {"word": "seven"}, {"inside": 0.25})


def run(out, cells, reporter=None, *, code=(compute,), workers=1, **config):
    """A trial of (title, what decides its numbers, pulls, function)."""

    def show(found):
        titles.extend(found)
        return Outputs("the table", {}, {"table.md": "# One\n"}, 2, sections={"extra": {"k": 1}})

    titles = []
    parts = [StudyCell(title, own, pulls, float(pulls), work) for title, own, pulls, work in cells]
    plan = driver.Experiment("trial", {"seeds": 3, **config}, "float64", parts, code, show, workers)
    outputs, files = driver.run(plan, out, kind="cpu", devices="here", reporter=reporter or Reporter())
    assert titles == [cell.title for cell in parts]
    assert outputs.text == "the table"
    return files


def task(policy="crt", horizon=4096, *, set_name="S3", seeds=2, dtype="float64", **options):
    known = {"seeds": seeds, "scales": (1.0, 0.03), "key": 0, "dtype": dtype}
    return Task.on(set_name, policy, horizon=horizon, options=options, **known)


# The one runner


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cell_is_computed_once_and_loaded_ever_after(tmp_path, workers):
    calls = []

    def count(progress):
        calls.append(1)
        return compute(progress)

    cells = [("one", {"T": 7}, 30, count), ("two", {"T": 8}, 40, count)]
    reporter = Reporter()
    files = run(tmp_path / "run", cells, reporter, workers=workers)
    assert [path.name for path in files] == ["table.md", "manifest.json"]
    assert (reporter.total, reporter.units, len(calls)) == (70, 70, 2)
    assert {line.split(" (")[0] for line in reporter.lines[:2]} in (
        {"[1/2] one", "[2/2] two"},
        {"[1/2] two", "[2/2] one"},
    )
    assert reporter.lines[2:] == ["drawing"]
    first = manifest(tmp_path / "run")
    assert (first["status"], first["unhealthy"], first["extra"]) == ("finished", 2, {"k": 1})
    assert first["outputs"] == ["table.md"]
    assert first["config"]["experiment"] == "trial"
    assert first["config"]["numerics"]["dtype"] == "float64"
    assert list(first["cells"]) == ["one", "two"]
    two = first["cells"]["two"]
    assert (two["identity"], two["word"]) == ({"T": 8}, "seven")
    assert two["seconds"].keys() == {"wall", "cpu", "inside"}
    assert two["seconds"]["inside"] == 0.25

    reporter = Reporter()
    run(tmp_path / "run", cells, reporter, workers=workers)
    assert len(calls) == 2
    assert reporter.lines == ["2 of 2 cells are done already", "drawing"]
    assert manifest(tmp_path / "run")["cells"] == first["cells"]


def test_a_cell_that_measures_time_runs_alone():
    running, seen = [], []

    def work(title):
        def compute(progress):
            running.append(title)
            time.sleep(0.02)
            seen.append((title, list(running)))
            running.remove(title)
            return CellResult({"numbers": np.zeros(1)})

        return compute

    cells = [StudyCell(title, {}, 1, 1.0, work(title), alone=title == "timed") for title in ("timed", "a", "b", "c")]
    done = [cell.title for cell, _ in driver._computed(cells, 2, Reporter())]
    assert done[-1] == "timed"
    assert sorted(done) == ["a", "b", "c", "timed"]
    assert seen[-1] == ("timed", ["timed"])
    assert any(len(beside) == 2 for _, beside in seen)


def test_what_decides_a_cell_s_numbers_decides_its_id(tmp_path):
    calls = []

    def count(progress):
        calls.append(1)
        return compute(progress)

    def visit(own, code=(compute,)):
        run(tmp_path / "run", [("one", own, 1, count)], code=code)
        return len(calls)

    assert [visit({"T": 7}), visit({"T": 7}), visit({"T": 8}), visit({"T": 7})] == [1, 1, 2, 2]
    assert visit({"T": 7}, code=(compute, Reporter)) == 3  # other code


def test_a_damaged_cell_is_computed_again_and_said_so(tmp_path):
    run(tmp_path / "run", [("one", {}, 1, compute)])
    [path] = (tmp_path / "run" / "cells").glob("*.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    reporter = Reporter()
    run(tmp_path / "run", [("one", {}, 1, compute)], reporter)
    assert reporter.lines[0] == f"damaged: {path.name} is computed again"
    assert path.read_bytes() == whole


def test_a_run_that_fails_keeps_what_is_finished_and_another_run_is_refused(tmp_path):
    def fail(progress):
        raise KeyboardInterrupt

    one = ("one", {}, 1, compute)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", [one, ("two", {"b": 1}, 1, fail)])
    assert manifest(tmp_path / "run")["status"] == "running"
    assert not (tmp_path / "run" / "table.md").exists()
    reporter = Reporter()
    run(tmp_path / "run", [("one", {}, 1, fail), ("two", {"b": 1}, 1, compute)], reporter)
    assert reporter.lines[0] == "1 of 2 cells are done already"
    with pytest.raises(ValueError, match="two cells have one title"):
        run(tmp_path / "run", [one, one])
    with pytest.raises(RunFolderError, match=r"differs in seeds \(3 there, 4 here\)"):
        run(tmp_path / "run", [one], seeds=4)


def test_progress_within_a_cell_never_exceeds_it():
    reporter = Reporter()
    progress = driver.Progress(reporter, 25)
    told = progress.of(10)
    told(1, 3)
    assert reporter.units == 10
    told(3, 3)
    assert (reporter.units, progress.left) == (25, 0)  # 30 pulls, of a cell of 25


def test_a_table_of_arrays_gives_the_arrays_back():
    values = np.arange(6.0).reshape(1, 2, 3)
    table = driver.long_form({"stage": [4], "scale": (1.0, 0.3), "seed": range(3)}, {"x": values, "y": [[[5], [6]]]})
    assert {name: column.tolist() for name, column in table.items()} == {
        "stage": [4] * 6,
        "scale": [1.0] * 3 + [0.3] * 3,
        "seed": [0, 1, 2] * 2,
        "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        "y": [5] * 3 + [6] * 3,
    }
    assert np.array_equal(table["x"].reshape(1, 2, 3), values)


# Its cells in the sweeps' store

COLUMNS = {"seed": np.arange(3), "regret": np.array([0.5, np.nan, 1e300]), "first": np.array([3, 0, 1], np.int32)}
FACTS = {"notes": ["a", "λ"], "scale": 0.1}


@pytest.fixture
def store(tmp_path):
    (tmp_path / "cells").mkdir()
    return Store(tmp_path)


def test_columns_come_back_as_they_were_stored(store):
    assert store.read_columns("a" * 32) is None
    path = store.write_columns("a" * 32, COLUMNS, FACTS)
    columns, facts = store.read_columns("a" * 32)
    assert list(columns) == list(COLUMNS)
    for name, values in COLUMNS.items():
        np.testing.assert_array_equal(columns[name], values)
        assert columns[name].dtype == values.dtype
    assert facts == FACTS
    assert store.damaged == []
    content = path.read_bytes()
    store.write_columns("a" * 32, COLUMNS, FACTS)
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


def test_every_flipped_byte_of_a_cell_s_columns_is_noticed(store):
    path = store.write_columns("a" * 32, COLUMNS, FACTS)
    content = path.read_bytes()
    wrong = [content[: len(content) // 2], b"", b"no Parquet at all"]
    wrong += [content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :] for at in range(len(content))]
    for damaged in wrong:
        path.write_bytes(damaged)
        stored = store.read_columns("a" * 32)
        # A byte that nothing depends on (the name of the writing program, say) may differ; numbers may not.
        if stored is not None:
            assert stored[1] == FACTS
            assert all(np.array_equal(stored[0][name], COLUMNS[name], equal_nan=True) for name in COLUMNS)
    assert len(store.damaged) > 0.7 * len(wrong)


def test_another_cell_s_columns_are_damage(store):
    path = store.write_columns("a" * 32, COLUMNS, FACTS)
    path.rename(store.cell_path("b" * 32))
    assert store.read_columns("b" * 32) is None
    assert store.damaged == [f"{'b' * 32}.parquet"]


# The command


def test_the_cost_in_words():
    cells = [StudyCell(str(number), {}, 1_954_732, 50.1, compute) for number in range(12)]
    plan = driver.Experiment("trial", {}, "float64", cells, (), None)
    assert plan.cost(2) == "2.3e+07 seed-pulls in 12 cells, about 6 minutes on 2 cores"
    spared = [cell._replace(core_seconds=cell.core_seconds - driver.COMPILE_SECONDS) for cell in cells]
    assert dataclasses.replace(plan, cells=spared).cost(2).endswith("about 5 minutes on 2 cores")
    one = dataclasses.replace(plan, cells=[StudyCell("one", {}, 10, 0.5, compute)])
    assert one.cost(1) == "10 seed-pulls in 1 cell, about 1 minute on 1 core"


def options(out, **more):
    return argparse.Namespace(
        device="auto",
        seeds=None,
        full=True,
        dtype="float32",
        out=out,
        quiet=False,
        experiment="remark3",
        **more,
    )


def test_the_command_states_the_cost_before_it_starts(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command.runtime, "prepare", lambda device: SimpleNamespace(count=2, kind="cpu"))

    def stand_in(plan, out, *, kind, devices, reporter):
        reporter.say(f"starting in {out} with {plan.dtype}, {plan.config['seeds']} seeds")
        return Outputs("the table", {}, {}, 0, problems=["too good"]), (out / "a.md",)

    monkeypatch.setattr(driver, "run", stand_in)
    monkeypatch.chdir(tmp_path)
    assert command.run(options(None)) == 1
    out, err = capsys.readouterr()
    assert out == "the table\n\nlinbet-remark3/a.md\n"
    lines = err.splitlines()
    assert lines[1].startswith("remark3 --full: ")
    assert lines[1].endswith(" minutes on 2 cores")
    assert lines[2:] == ["starting in linbet-remark3 with float32, 64 seeds", "linbet: too good"]


# Writers


def test_numbers_and_spans():
    assert [tables.number(x) for x in (12345.6, -100.4, 99.96, 0.01234, 1e-9, math.nan)] == [
        "12,346", "-100", "100", "0.0123", "0", "–",
    ]  # fmt: skip
    assert tables.span(0.66666, 0.61, 0.7) == "0.667 [0.610, 0.700]"
    assert tables.span(0.66666, math.nan, math.nan, 2) == "0.67"
    assert tables.span(math.nan, 0, 1) == "–"
    assert tables.interval(summarize([1.0, 2.0, 3.0])) == "[-0.484, 4.48]"
    assert tables.interval(summarize([1.0])) == "–"


def test_tables_of_all_kinds():
    header, rows = ["a_b", "E|y|"], [["×1 & 5%", "$O(T^2)$"], ["–", "β"]]
    assert tables.markdown_table(["a", "b"], [["x", "E|y|"]]) == ["| a | b |", "|---|---|", r"| x | E\|y\| |", ""]
    assert tables.markdown_table(["a|", "b"], [["x", "1"]], left=1) == [r"| a\| | b |", "|:---|---:|", "| x | 1 |", ""]
    assert [tables.number(x) for x in (math.inf, -math.inf)] == ["∞", "−∞"]
    latex = tables.latex_table(header, rows, caption="50% of T", label="table:x").splitlines()
    assert latex[2] == r"\caption{50\% of T}\label{table:x}"
    assert latex[3:6] == [r"\begin{tabular}{lr}", r"\toprule", r"a\_b & E|y| \\"]
    assert latex[7:9] == [r"$\times$1 \& 5\% & $O(T^2)$ \\", r"-- & $\beta$ \\"]
    # A bracket or a star at the start of a row would be an argument of the row's end before it.
    starts = tables.latex_table(header, [["[1, 2]", "*"], ["* x", "[3]"]], caption="c", label="l").splitlines()[7:9]
    assert starts == [r"{[1, 2]} & {*} \\", r"{* x} & {[3]} \\"]
    assert tables.csv_text(["a", "b"], [[1, 0.1 + 0.2], [None, np.float64("nan")]]) == "a,b\n1,0.3\n,\n"
    assert tables.aligned_table(["name", "n"], [["x", "1,000"], ["long name", "2"]]).splitlines() == [
        "name           n",
        "---------  -----",
        "x          1,000",
        "long name      2",
    ]


# Intervals


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    # closed forms at the ends: 1 - (alpha/2)^(1/n); in the middle the published 0.1871 and 0.8129 of 5 out of 10
    [
        (0, 10, 0.0, 1 - 0.025 ** (1 / 10)),
        (10, 10, 0.025 ** (1 / 10), 1.0),
        (1, 1, 0.025, 1.0),
        (5, 10, 0.1871, 0.8129),
    ],
)
def test_the_exact_binomial_interval(count, total, low, high):
    found = share_interval(count, total, method="clopper-pearson")
    assert found == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def exponent(horizons, values, health):
    """As of samples of these values `[S, H]`."""
    tasks = [task("tofu", int(horizon), seeds=len(values)) for horizon in horizons]
    pairs = zip(tasks, np.transpose(values), np.transpose(health), strict=True)
    return shared.exponent([Sample(own, 1.0, regret, words) for own, regret, words in pairs])


def test_an_exact_power_law_has_its_exponent_and_no_width():
    t = np.array([100, 1000, 10_000])
    scales = np.array([[1.0], [2.0], [5.0]])
    found = exponent(t, scales * t**0.7, np.zeros((3, 3)))
    assert (found.value, found.low, found.high) == pytest.approx((0.7, 0.7, 0.7))
    assert (found.n, found.unhealthy) == (3, 0)


def test_the_bootstrap_draws_whole_seeds():
    t, rng = np.array([1e3, 4e3, 1.6e4]), np.random.default_rng(5)
    values = t**0.6 * np.exp(0.3 * rng.standard_normal((12, 3)))
    health = np.zeros((12, 3), int)
    health[4, 1] = 9
    found = exponent(t, values, health)
    kept = np.delete(values, 4, axis=0)
    assert (found.n, found.unhealthy) == (11, 1)
    assert found.value == pytest.approx(fitted_exponent(t, kept.mean(axis=0)))
    drawn = np.random.default_rng(0).integers(0, 11, (RESAMPLES, 11))
    slopes = [np.polyfit(np.log(t), np.log(kept[row].mean(axis=0)), 1)[0] for row in drawn]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(slopes, [0.025, 0.975])))
    assert found.low < found.value < found.high


def test_exponents_that_do_not_exist():
    t = [10, 100]
    nothing = exponent(t, np.array([[0.0, 5.0], [0.0, 6.0]]), np.zeros((2, 2)))
    assert np.isnan([nothing.value, nothing.low]).all()
    one = exponent(t, np.array([[1.0, 10.0]]), np.zeros((1, 2)))
    assert one.value == pytest.approx(1)
    assert np.isnan([one.low, one.high]).all()
    some = exponent(t, np.array([[0.0, 5.0], [1.0, 6.0]]), np.zeros((2, 2)))  # a resample has mean 0
    assert np.isfinite(some.value)
    assert np.isnan(some.low)


# float32 against float64


def stand_in(arms, regret, health=None):
    """Stands in for `simulate_grid`: arms and final regret by dtype, `[G][S][T]` and `[G][S]`, sliced by the seeds."""

    def simulate_grid(policy, grid, bandit, *, horizon, num_seeds, seeds, key, num_records, trace, dtype, progress):
        assert trace
        assert (num_seeds, num_records) == (None, 1)
        assert [params.radius_scale for params in grid] == [1.0, 0.03]
        return [
            SimpleNamespace(
                trace=SimpleNamespace(arms=np.array(arms[str(dtype)][g])[seeds]),
                regret=np.array(regret[str(dtype)][g], dtype)[seeds, None],
                health=np.array(health[str(dtype)][g] if health else np.zeros(len(arms[str(dtype)][g]), int))[seeds],
            )
            for g in range(2)
        ]

    return simulate_grid


def test_where_the_arms_part(monkeypatch):
    wide = [[[1, 2, 3, 4], [5, 5, 5, 5], [0, 0, 0, 0]], [[1, 1, 1, 1]] * 3]
    narrow = [[[1, 2, 0, 4], [5, 5, 5, 5], [9, 0, 0, 9]], [[1, 1, 1, 1]] * 3]
    monkeypatch.setattr(
        shared,
        "simulate_grid",
        stand_in(
            {"float64": wide, "float32": narrow},
            {"float64": [[10, 20, 30], [7, 7, 7]], "float32": [[11, 20, 28], [7, 7, 7]]},
        ),
    )
    monkeypatch.setattr(precision, "GROUP", 2)  # two groups of seeds
    reporter = Reporter()
    one = task(set_name="S1", horizon=400, seeds=3)
    found = precision._compute(one, driver.Progress(reporter, 10**6))
    arrays = {name: column.reshape(2, 3).tolist() for name, column in found.columns.items()}
    assert arrays["first"] == [[3, 0, 1], [0, 0, 0]]
    assert arrays["equal"] == [[0.75, 1.0, 0.5], [1.0, 1.0, 1.0]]
    assert arrays["regret_float64"] == [[10, 20, 30], [7, 7, 7]]
    assert arrays["regret_float32"] == [[11, 20, 28], [7, 7, 7]]
    assert {"health_float64", "health_float32"} <= arrays.keys()
    assert reporter.units == 2 * 2 * 3 * 400

    literal, small = precision.compare(one, found)
    assert (literal.agreeing, literal.first.size) == (1, 3)
    assert (literal.quantile(0), literal.quantile(0.5)) == (1, 2)
    assert (float(literal.wide.summary.mean), float(literal.difference.mean)) == (20, pytest.approx(-1 / 3))
    assert small.agreeing == 3
    assert math.isnan(small.quantile(0.5))
    assert small.chance == 1
    assert precision._row(small)[4:8] == ["3/3 [0.29, 1.00]", "–", "–", "100.0%"]


def written(outputs, folder):
    """The files of an experiment by their names."""
    with RunFolder(folder / "run", {}) as place:
        return {path.name: path for path in driver._write(outputs, place)}


def comparison(difference, *, policy="tofu", first=(5, 9, 7, 3), health=0):
    own, healthy = task(policy, 100, seeds=4), np.zeros(4, int)
    wide = np.full(4, 1000.0)
    narrow = Sample(own, 1.0, wide + np.array(difference), np.array([health, 0, 0, 0]))
    return precision.DtypeComparison(Sample(own, 1.0, wide, healthy), narrow, np.array(first), np.full(4, 0.5))


def test_rounding_is_no_difference_and_many_differences_are_advice():
    # t = mean / (sd / 2) with 3 degrees of freedom, whose distribution has a closed form
    def two_sided(t):
        angle = math.atan(t / math.sqrt(3))
        return 1 - 2 / math.pi * (angle + math.sin(angle) * math.cos(angle))

    moved = comparison([5.0, 5.5, 5.2, 5.1])
    assert moved.chance == pytest.approx(two_sided(5.2 / (np.std([5.0, 5.5, 5.2, 5.1], ddof=1) / 2)), rel=1e-6)
    assert comparison([1e-4, 1.1e-4, 1e-4, 1e-4]).chance == 1
    assert comparison([3.0] * 4).chance == 0
    mild = comparison([0.5, 2.5, 2.2, 3.1])
    assert 0.01 < mild.chance < 0.05
    safe = precision.advice([mild, comparison([0.0] * 4, policy="mom", first=[0] * 4)])
    assert safe[0] == (
        "Mean final regret: of 2 paired differences float32 - float64, 1 have a 95% interval without 0 (0.1 expected "
        "by chance), none after correction for the number of comparisons: float32 is safe for these statistics over "
        "seeds."
    )
    assert safe[1:3] == [
        "TOFU, replications that play the same arms throughout: 0 of 4 at T = 100; where they part, half do by pull 6.",
        "MoM, replications that play the same arms throughout: 4 of 4 at T = 100.",
    ]
    risky = precision.advice([moved, mild, comparison([0.0] * 4, health=7)])
    assert "2 have a 95% interval without 0" in risky[0]
    assert (
        "1 also after correction for the number of comparisons (S3 TOFU ×1 T=100: 5.2 [4.86, 5.54] of 1,000)"
        in risky[0]
    )
    assert risky[-1] == "Replications that met a non-finite number in either type: 1."


def test_the_share_still_in_agreement_is_a_step_function():
    at, shares = precision._survival(np.array([0, 3, 3, 50]), 100)
    assert at.tolist() == [1, 1, 3, 3, 50, 50, 100, 100]
    assert shares.tolist() == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_the_files_of_precision(tmp_path):
    found = [comparison([-5.0, 5.5, 5.2, -5.1]), comparison([0.0] * 4, policy="mom", first=[0] * 4)]
    files = written(precision._outputs(found), tmp_path)
    assert list(files) == ["agreement_100.png", "agreement_100.pdf", "precision.md", "precision.tex", "precision.csv"]
    assert all(path.stat().st_size > 300 for path in files.values())
    with files["precision.csv"].open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["first_divergence"] for row in rows] == ["5", "9", "7", "3", "0", "0", "0", "0"]
    assert rows[1]["regret_float32"] == "1005.5"
    assert "| S3 | 100 | MoM | ×1 | 4/4 [0.40, 1.00] | – | – | 50.0% | 1,000 | 0 [0, 0] |" in files[
        "precision.md"
    ].read_text("utf-8")


def test_the_plans_of_precision():
    usual, full = precision.plan(seeds=None, full=False), precision.plan(seeds=None, full=True)
    places = {(cell.identity["place"], cell.identity["horizon"]) for cell in usual.cells}
    long = {("S1", 100_000), ("S3", 100_000)}
    assert places == {("S1", 10_000), ("S2", 10_000), ("S3", 10_000), ("S4", 10_000)} | long
    assert {cell.identity["policy"] for cell in usual.cells} == {"menu", "mom", "tofu", "crt", "oful"}
    assert len(full.cells) == 40
    assert (usual.config["seeds"], full.config["seeds"]) == (32, 256)
    assert sum(cell.pulls for cell in usual.cells) == 2 * 2 * 32 * 5 * (4 * 10_000 + 2 * 100_000)
    assert full.core_seconds > 10 * usual.core_seconds


# What a simulation costs


@pytest.mark.parametrize(
    ("policy", "horizon", "compiling", "played"),
    [
        ("crt", 4096, [1.0, 0.0], [1024, 4096]),  # a short run compiles
        ("crt", 4096, [1.0, 2.0, 0.0], [1024, 4096, 4096]),  # the long one compiled again (a larger buffer): repeated
        ("crt", 512, [1.0, 0.0], [512, 512]),
        ("menu", 4096, [1.0, 0.0], [4096, 4096]),  # its program depends on the horizon
    ],
)
def test_what_is_timed_has_compiled_before(monkeypatch, policy, horizon, compiling, played):
    clock, calls = iter(range(100)), []

    def simulate_grid(policy, grid, bandit, *, horizon, num_seeds, **rest):
        calls.append(horizon)
        assert [params.radius_scale for params in grid] == [1.0, 0.03]
        shape = {"regret": np.full((num_seeds, 1), 10.0 * len(calls)), "health": np.zeros(num_seeds, int)}
        return [SimpleNamespace(compile_seconds=compiling[len(calls) - 1], **shape) for _ in grid]

    monkeypatch.setattr(shared, "simulate_grid", simulate_grid)
    monkeypatch.setattr(measure.time, "process_time", lambda: next(clock) ** 2)
    found = measure.first_run(task(policy, horizon), driver.Progress(Reporter(), 10**6))
    assert calls == played
    last = 2 * (len(played) - 1)  # of the clock's readings, the last run has the last two
    assert found.facts["cpu_seconds"] == (last + 1) ** 2 - last**2
    assert found.columns["regret"].tolist() == [10.0 * len(played)] * 4


def test_bytes_of_the_state():
    def size(*arguments, dtype="float64", **options):
        return measure.state_bytes(task(*arguments, dtype=dtype, **options))

    # The history: d numbers of an arm and one payoff a pull, 8 bytes each; all the rest is independent of T.
    assert size("tofu", 2000, method="full") - size("tofu", 1000, method="full") == 8 * 11 * 1000
    assert size("tofu", 2000, epochs=5) - size("tofu", 1000, epochs=5) == 8 * 11 * 1000
    assert size("crt", 1000) == size("crt", 10**6) == size("mom", 10**6)
    k = [math.ceil(24 * math.log(math.e * horizon / 0.1)) for horizon in (10**4, 10**6)]
    assert size("menu", 10**6) - size("menu", 10**4) == 8 * 10 * (k[1] - k[0])
    assert size("menu", 10**4, dtype="float32") < 0.51 * size("menu", 10**4)


def test_costs_of_tasks():
    one = task(horizon=1000, seeds=5)
    assert one.pulls == 10_000
    plan = driver.Experiment("trial", {}, "float64", measure.timed_cells({"a": one, "b": one}, 2), (), None)
    assert [cell.pulls for cell in plan.cells] == [10_000, 10_000, 20_000, 20_000]
    assert plan.core_seconds == pytest.approx(2 * driver.COMPILE_SECONDS + 6 * one.core_seconds)
    spared = one.cell().core_seconds - one.cell(programs=0).core_seconds
    assert spared == pytest.approx(driver.COMPILE_SECONDS)
    full, short = (task("tofu", horizon, method="full").core_seconds for horizon in (40_000, 20_000))
    assert 3.8 < full / short < 4
    known = {"num_arms": 20, "dim": 10}
    each = pull_microseconds("tofu", **known) + PASS_MICROSECONDS * 100 * 7
    assert task("tofu", 1000, epochs=7).core_seconds == pytest.approx(4000e-6 * each)


# Table 2


def made_up(exponents, times, *, seeds=3):
    """Samples and times of every variant that follow power laws exactly."""
    samples, cpu = {}, {}
    for name in table2.VARIANTS:
        for horizon in (16_384, 65_536, 262_144):
            title = f"S3/{name}/T={horizon}"
            samples[title] = [
                Sample(
                    task(name.split()[0], horizon, seeds=seeds),
                    scale,
                    horizon**e * (1 + 0.1 * np.arange(seeds)),
                    np.zeros(seeds, int),
                )
                for scale, e in zip((1.0, 0.03), exponents, strict=True)
            ]
            cpu[title] = 1e-6 * float(horizon) ** times[name] * np.array([2.0, 1.0]) / (2 * seeds)
    return samples, cpu


def test_exponents_of_power_laws_reach_every_output(tmp_path, monkeypatch):
    times = {name: 2.0 if name == "tofu full" else 1.0 for name in table2.VARIANTS}
    storage = {name: [100, 200, 400] if name.startswith("tofu") else [50, 50, 50] for name in table2.VARIANTS}
    monkeypatch.setattr(table2, "STORAGE", (10, 20, 40))
    found = table2.report_of(*made_up((1.0, 0.6), times), storage, 3, "float64")
    growth = found.growths["S3", "mom", 0.03]
    assert (growth.fitted.value, growth.promised) == (pytest.approx(0.6), 0.8)
    assert found.growths["S3", "crt", 1.0].promised == pytest.approx(5 / 6)
    assert found.growths["S3", "tofu epochs", 1.0].promised == pytest.approx(2 / 3)
    full = found.timings["tofu full"]
    assert (*full.fitted, full.last) == pytest.approx((2, 2, 2, 2))
    assert full.seconds.min() == pytest.approx(1e-6 * 16_384**2 / 6)  # of one replication, the quicker round
    assert (found.storage_exponent("tofu full"), found.storage_exponent("mom")) == (pytest.approx(1), 0)

    files = written(table2._outputs(found), tmp_path)
    assert set(files) == {f"table2{s}" for s in (".md", ".tex", ".csv")} | {
        f"table2_{s}" for s in ("regret.png", "regret.pdf", "cost.png", "cost.pdf")
    }
    lines = files["table2.md"].read_text(encoding="utf-8").splitlines()
    assert "| MoM | 0.800 | 1.00 [1.00, 1.00] | 0.60 [0.60, 0.60] |" in lines
    assert "| TOFU, full pass | $O(T^2)$ | 2.00 [2.00, 2.00] | 2.00 | $O(T)$ | 1.00 | 100 to 400 |" in lines
    assert "| MENU | $O(T\\log T)$ | 1.00 [1.00, 1.00] | 1.00 | $O(\\log T)$ | 0.00 | 50 to 50 |" in lines
    assert "| S3 | ×0.03 | 16,384 |" in "\n".join(lines)
    assert r"MENU & $O(T\log T)$ & 1.00 [1.00, 1.00]" in files["table2.tex"].read_text(encoding="utf-8")
    with files["table2.csv"].open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["algorithm"] == "tofu full"]
    assert {row["quantity"]: row["value"] for row in rows}["time exponent"] == "2"
    assert "O(T log T)" in table2._outputs(found).text


def test_the_plans_of_table2():
    usual, full = (table2.plan(seeds=None, full=full, dtype="float64") for full in (False, True))
    tasks, whole = (
        {cell.title: cell.identity for cell in plan.cells if "times" not in cell.title} for plan in (usual, full)
    )
    assert {own["place"] for own in tasks.values()} == {"S3", "S1"}
    assert {own["place"] for own in whole.values()} == {"S1", "S2", "S3", "S4"}
    assert {title.split("/")[1] for title in tasks} == set(table2.VARIANTS)
    assert not any("full" in title for title in tasks if title.startswith("S1"))
    assert max(own["horizon"] for title, own in tasks.items() if "tofu full" in title) == 8192
    assert tasks["S3/tofu epochs/T=4096"]["options"] == {"epochs": 12}
    assert tasks["S3/tofu full/T=1024"]["seeds"] == 4
    assert [cell.title for cell in usual.cells if "times" in cell.title] == ["times, round 1", "times, round 2"]
    for name, variant in table2.VARIANTS.items():  # every fit has two horizons at least
        assert sum(h >= variant.time_from for h in table2.horizons(name, False)) >= 2
    assert full.core_seconds > 10 * usual.core_seconds


# Remark 3


def test_what_m_buys(tmp_path):
    def one(count, microseconds, shift=0.0):
        regret = np.array([[1000.0, 1100.0, 900.0]] * 2)
        regret[1] += shift * np.array([1.0, 1.1, 0.9])
        own = task("tofu", 64, seeds=3, **({"epochs": count} if count else {}))
        samples = [
            Sample(own, scale, values, np.zeros(3, int)) for scale, values in zip((1.0, 0.03), regret, strict=True)
        ]
        return remark3.Measured(own, samples, 1e-6 * np.array([microseconds, 2 * microseconds]), 10 * count + 100)

    def report(*quick):
        return {"S3": [one(0, 3.0), one(1, quick[0], 50.0), one(64, quick[1])]}

    nothing = remark3.findings(report(2.9, 80.0))
    assert nothing[0] == (
        "S3, time: M = 1 is the quickest at 2.9 µs a pull and saves no CPU time over the pruned form (3 µs); M = T "
        "takes 80 µs. Its state is 1.1 times as large and grows with T; the pruned form's with log T."
    )
    assert nothing[1].endswith("leaves out 0 (0.1 expected by chance): none.")
    assert nothing[2].endswith("leaves out 0 (0.1 expected by chance): M = 1: 50 [37.6, 62.4].")
    assert "saves 50% of the pruned form's CPU time" in remark3.findings(report(1.5, 80.0))[0]
    written_files = written(remark3._outputs(report(2.9, 80.0)), tmp_path)
    files = {path.suffix: path for path in written_files.values()}
    assert set(files) == {".png", ".pdf", ".md", ".tex", ".csv"}
    text = files[".md"].read_text(encoding="utf-8")
    assert "| S3 | pruned | 1,000 | – | 1,000 | – | 3 | 1.00 | 100 |" in text
    assert "| S3 | M = T | 1,000 | 0 [0, 0] | 1,000 | 0 [0, 0] | 80 | 26.67 | 740 |" in text
    assert files[".csv"].read_text(encoding="utf-8").splitlines()[1].startswith("S3,pruned,64,1,3,0,1000,")


def test_the_plans_of_remark3():
    usual = remark3.plan(seeds=None, full=False, dtype="float64")
    assert remark3.counts(2048) == (1, 4, 16, 64, 256, 1024, 2048)
    assert remark3.counts(4096)[-3:] == (256, 1024, 4096)
    tasks = [cell.identity for cell in usual.cells if "times" not in cell.title]
    assert len(tasks) == 2 * 8
    assert {own["options"].get("epochs") for own in tasks} == {None, 1, 4, 16, 64, 256, 1024, 2048}
    whole = {cell.title: cell.identity for cell in remark3.plan(seeds=3, full=True, dtype="float32").cells}
    assert (whole["S4/M=10000"]["seeds"], whole["S4/M=10000"]["dtype"]) == (3, "float32")
