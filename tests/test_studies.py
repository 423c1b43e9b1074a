"""Studies: cells that survive a kill, costs, writers, intervals; what precision, table2 and remark3 make of numbers.

The host side is tested with numbers made up here or a stand-in for the simulator; only the run that is killed is real.
"""

import argparse
import contextlib
import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from linbet_jax import dataset, tables
from linbet_jax.cli import main
from linbet_jax.cli import study as command
from linbet_jax.intervals import RESAMPLES
from linbet_jax.regret import fitted_exponent, summarize
from linbet_jax.reproduce import (
    intervals,
    measure,
    precision,
    precision_outputs,
    remark3,
    remark3_outputs,
    study,
    table2,
    table2_outputs,
)
from linbet_jax.results import RunFolderError


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


def opened(out, reporter=None, **config):
    return study.Study(
        "trial",
        {"dtype": "float64", "seeds": 3, **config},
        out,
        kind="cpu",
        devices="here",
        reporter=reporter or Reporter(),
        cost=study.Cost(2, 70, 1.0),
    )


# The study itself


def test_a_cell_is_computed_once_and_loaded_ever_after(tmp_path):
    calls = []

    def compute():
        calls.append(len(calls))
        return {"numbers": np.arange(3) * 1.5, "word": np.array("seven")}

    for again in (False, True):
        reporter = Reporter()
        with opened(tmp_path / "run", reporter) as trial:
            first = trial.cell("one", {"T": 7}, compute, pulls=40)
            assert first["numbers"].tolist() == [0.0, 1.5, 3.0]
            assert str(first["word"]) == "seven"
            trial.cell("two", {"T": 8}, compute, pulls=30)
            trial.finish([trial.file("table.md")], 2, extra={"k": 1})
        assert calls == [0, 1]
        assert (reporter.total, reporter.units) == (70, 70)
        ends = [": done already" if again else " s)"] * 2
        assert all(line.endswith(end) for line, end in zip(reporter.lines, ends, strict=True))
        assert [line.split("] ")[0] for line in reporter.lines] == ["[1/2", "[2/2"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["status"], manifest["unhealthy"], manifest["extra"]) == ("finished", 2, {"k": 1})
    assert manifest["outputs"] == ["table.md"]
    assert manifest["cells"]["two"]["own"] == {"T": 8}
    assert set(manifest["cells"]["one"]["seconds"]) == {"wall", "cpu"}
    assert manifest["config"]["experiment"] == "trial"
    assert manifest["config"]["numerics"]["dtype"] == "float64"


def test_what_decides_a_cell_s_numbers_decides_its_key(tmp_path, monkeypatch):
    calls = []

    def compute():
        calls.append(1)
        return {"x": np.zeros(1)}

    def visit(own):
        with opened(tmp_path / "run") as trial:
            trial.cell("one", own, compute)

    visit({"T": 7})
    visit({"T": 7})
    assert len(calls) == 1
    visit({"T": 8})
    assert len(calls) == 2
    monkeypatch.setattr(study, "_source", lambda compute: "another file")
    visit({"T": 7})
    assert len(calls) == 3


def test_a_damaged_cell_is_computed_again_and_said_so(tmp_path):
    def visit(reporter):
        with opened(tmp_path / "run", reporter) as trial:
            return trial.cell("one", {}, lambda: {"x": np.arange(4)})

    visit(Reporter())
    [path] = (tmp_path / "run" / "cells").glob("*.npz")
    path.write_bytes(path.read_bytes()[:-20])
    reporter = Reporter()
    assert visit(reporter)["x"].tolist() == [0, 1, 2, 3]
    assert reporter.lines[0] == f"damaged: {path.name} is computed again"


def test_a_run_that_fails_keeps_what_is_finished_and_another_run_is_refused(tmp_path):
    def fail():
        raise KeyboardInterrupt

    with opened(tmp_path / "run") as trial:
        trial.cell("one", {}, lambda: {"x": np.arange(4)})
        with pytest.raises(KeyboardInterrupt):
            trial.cell("two", {"b": 1}, fail)
    assert json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))["status"] == "running"
    with opened(tmp_path / "run") as trial:
        trial.cell("one", {}, fail)
        with pytest.raises(ValueError, match="two cells are called 'one'"):
            trial.cell("one", {}, fail)
    with (
        pytest.raises(RunFolderError, match=r"differs in seeds \(3 there, 4 here\)"),
        opened(tmp_path / "run", seeds=4),
    ):
        pass


def test_progress_within_a_cell_never_exceeds_it(tmp_path):
    reporter = Reporter()
    with opened(tmp_path / "run", reporter) as trial:

        def compute():
            advance = trial.progress(10)
            advance(1, 3)
            assert reporter.units == 10
            advance(3, 3)
            assert reporter.units == 25  # 30 pulls, of a cell of 25
            return {}

        trial.cell("one", {}, compute, pulls=25)
    assert reporter.units == 25


def test_the_cost_in_words():
    assert study.Cost(12, 23_456_789, 601.0).sentence(2) == "2.3e+07 seed-pulls in 12 cells, about 6 minutes on 2 cores"
    assert study.Cost(1, 10, 0.5).sentence(1) == "10 seed-pulls in 1 cell, about 1 minute on 1 core"
    small, large = (
        study.seed_pulls_cost("tofu", num_arms=20, dim=10, horizon=horizon, replications=5) for horizon in (10, 20)
    )
    assert (small.seed_pulls, large.seed_pulls) == (50, 100)
    assert large.core_seconds - small.core_seconds == pytest.approx(50e-6 * (0.2 + 8e-4 * 200 + 0.024 * 100))
    assert (small + large).cells == 2


def options(out, **more):
    return argparse.Namespace(
        device="auto", seeds=None, full=True, dtype="float32", out=out, quiet=False, experiment="remark3", **more
    )


def test_the_command_states_the_cost_before_it_starts(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command.runtime, "prepare", lambda device: SimpleNamespace(count=2, kind="cpu"))

    def reproduce(plan, out, *, kind, devices, reporter):
        reporter.say(f"starting in {out} with {plan.dtype}, {plan.seeds} seeds")
        return study.Outcome("the table", (out / "a.md",), 0, problems=("too good",))

    monkeypatch.setattr(remark3, "reproduce", reproduce)
    monkeypatch.chdir(tmp_path)
    assert command.run(options(None)) == 1
    out, err = capsys.readouterr()
    assert out == "the table\n\nlinbet-remark3/a.md\n"
    lines = err.splitlines()
    assert lines[1].startswith("remark3 --full: ")
    assert lines[1].endswith(" minutes on 2 cores")
    assert lines[2:] == ["starting in linbet-remark3 with float32, 64 seeds", "linbet: too good"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["precision", "--dtype", "float32"], "unrecognized arguments: --dtype float32"),
        (["table2", "--dtype", "float16"], "--dtype: invalid choice: 'float16'"),
        (["remark3", "--seeds", "0"], "--seeds: must be at least 1, got 0"),
    ],
)
def test_wrong_usage_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", *arguments])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


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
    found = intervals.share(count, total)
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert found.value == count / total


def test_shares_that_cannot_be():
    with pytest.raises(ValueError, match="count=3, total=2"):
        intervals.share(3, 2)


def test_an_exact_power_law_has_its_exponent_and_no_width():
    t = np.array([100, 1000, 10_000])
    scales = np.array([[1.0], [2.0], [5.0]])
    found = intervals.bootstrap_exponent(t, scales * t**0.7, np.zeros((3, 3)))
    assert (found.value, found.low, found.high) == pytest.approx((0.7, 0.7, 0.7))
    assert (found.seeds, found.unhealthy) == (3, 0)


def test_the_bootstrap_draws_whole_seeds():
    t, rng = np.array([1e3, 4e3, 1.6e4]), np.random.default_rng(5)
    values = t**0.6 * np.exp(0.3 * rng.standard_normal((12, 3)))
    health = np.zeros((12, 3), int)
    health[4, 1] = 9
    found = intervals.bootstrap_exponent(t, values, health)
    kept = np.delete(values, 4, axis=0)
    assert (found.seeds, found.unhealthy) == (11, 1)
    assert found.value == pytest.approx(fitted_exponent(t, kept.mean(axis=0)))
    drawn = np.random.default_rng(0).integers(0, 11, (RESAMPLES, 11))
    slopes = [np.polyfit(np.log(t), np.log(kept[row].mean(axis=0)), 1)[0] for row in drawn]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(slopes, [0.025, 0.975])))
    assert found.low < found.value < found.high


def test_exponents_that_do_not_exist():
    t = [10, 100]
    nothing = intervals.bootstrap_exponent(t, np.array([[0.0, 5.0], [0.0, 6.0]]), np.zeros((2, 2)))
    assert np.isnan([nothing.value, nothing.low]).all()
    one = intervals.bootstrap_exponent(t, np.array([[1.0, 10.0]]), np.zeros((1, 2)))
    assert one.value == pytest.approx(1)
    assert np.isnan([one.low, one.high]).all()
    some = intervals.bootstrap_exponent(
        t, np.array([[0.0, 5.0], [1.0, 6.0]]), np.zeros((2, 2))
    )  # a resample has mean 0
    assert np.isfinite(some.value)
    assert np.isnan(some.low)


# float32 against float64


def stand_in(arms, regret, health=None):
    """Stands in for `simulate_grid`: arms and final regret by dtype, `[G][S][T]` and `[G][S]`, sliced by the seeds."""

    def simulate_grid(policy, grid, bandit, *, horizon, seeds, key, record_at, trace, dtype):
        assert trace
        assert record_at == [horizon]
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
        precision,
        "simulate_grid",
        stand_in(
            {"float64": wide, "float32": narrow},
            {"float64": [[10, 20, 30], [7, 7, 7]], "float32": [[11, 20, 28], [7, 7, 7]]},
        ),
    )
    monkeypatch.setattr(precision, "GROUP", 2)  # two groups of seeds
    done = []
    plan = precision.Plan((), 3)
    arrays = precision._compare(
        precision.Run("S1", "crt", 400), dataset("S1"), plan, lambda count, total: done.append(count)
    )
    assert arrays["first"].tolist() == [[3, 0, 1], [0, 0, 0]]
    assert arrays["equal"].tolist() == [[0.75, 1.0, 0.5], [1.0, 1.0, 1.0]]
    assert arrays["regret"].tolist() == [[[10, 20, 30], [7, 7, 7]], [[11, 20, 28], [7, 7, 7]]]
    assert arrays["health"].shape == (2, 2, 3)
    assert done == [8, 12]

    literal, small = precision_outputs.comparisons("S1", "crt", 400, (1.0, 0.03), arrays)
    assert (literal.agreeing.count, literal.agreeing.total) == (1, 3)
    assert (literal.quantile(0), literal.quantile(0.5)) == (1, 2)
    assert (float(literal.regret.mean), float(literal.difference.mean)) == (20, pytest.approx(-1 / 3))
    assert small.agreeing.value == 1
    assert math.isnan(small.quantile(0.5))
    assert small.chance == 1
    assert precision_outputs._cells(small)[4:8] == ["3/3 [0.29, 1.00]", "–", "–", "100.0%"]


def comparison(difference, *, policy="tofu", first=(5, 9, 7, 3), health=0):
    wide = np.full(4, 1000.0)
    words = np.zeros((2, 4), int)
    words[1, 0] = health
    return precision_outputs.Comparison(
        "S3", policy, 100, 1.0, np.array(first), np.full(4, 0.5), wide, wide + np.array(difference), words
    )


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
    safe = precision_outputs.advice([mild, comparison([0.0] * 4, policy="mom", first=[0] * 4)])
    assert safe[0] == (
        "Mean final regret: of 2 paired differences float32 - float64, 1 have a 95% interval without 0 (0.1 expected "
        "by chance), none after correction for the number of comparisons: float32 is safe for these statistics over "
        "seeds."
    )
    assert safe[1:3] == [
        "TOFU, replications that play the same arms throughout: 0 of 4 at T = 100; where they part, half do by pull 6.",
        "MoM, replications that play the same arms throughout: 4 of 4 at T = 100.",
    ]
    risky = precision_outputs.advice([moved, mild, comparison([0.0] * 4, health=7)])
    assert "2 have a 95% interval without 0" in risky[0]
    assert (
        "1 also after correction for the number of comparisons (S3 TOFU ×1 T=100: 5.2 [4.86, 5.54] of 1,000)"
        in risky[0]
    )
    assert risky[-1] == "Replications that met a non-finite number in either type: 1."


def test_the_share_still_in_agreement_is_a_step_function():
    at, shares = precision_outputs._survival(np.array([0, 3, 3, 50]), 100)
    assert at.tolist() == [1, 1, 3, 3, 50, 50, 100, 100]
    assert shares.tolist() == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_the_files_of_precision(tmp_path):
    found = [comparison([-5.0, 5.5, 5.2, -5.1]), comparison([0.0] * 4, policy="mom", first=[0] * 4)]
    files = precision_outputs.write(found, tmp_path)
    assert [path.name for path in files] == [
        "agreement_100.png", "agreement_100.pdf", "precision.md", "precision.tex", "precision.csv",
    ]  # fmt: skip
    assert all(path.stat().st_size > 300 for path in files)
    with files[-1].open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["first_divergence"] for row in rows] == ["5", "9", "7", "3", "0", "0", "0", "0"]
    assert rows[1]["regret_float32"] == "1005.5"
    assert "| S3 | 100 | MoM | ×1 | 4/4 [0.40, 1.00] | – | – | 50.0% | 1,000 | 0 [0, 0] |" in files[2].read_text(
        "utf-8"
    )


def test_the_plans_of_precision():
    usual, full = precision.plan(seeds=None, full=False), precision.plan(seeds=None, full=True)
    cells = {(run.set_name, run.horizon) for run in usual.runs}
    assert cells == {("S1", 10_000), ("S2", 10_000), ("S3", 10_000), ("S4", 10_000), ("S1", 100_000), ("S3", 100_000)}
    assert {run.policy for run in usual.runs} == {"menu", "mom", "tofu", "crt", "oful"}
    assert len(full.runs) == 40
    assert (usual.seeds, full.seeds) == (32, 256)
    assert usual.cost.seed_pulls == 2 * 2 * 32 * 5 * (4 * 10_000 + 2 * 100_000)
    assert full.cost.core_seconds > 10 * usual.cost.core_seconds


# What a simulation costs


def task(policy="crt", horizon=4096, *, seeds=2, **options):
    return measure.Task("S3", policy, tuple(options.items()), horizon, seeds, (1.0, 0.03))


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

    def simulate_grid(policy, grid, bandit, *, horizon, num_seeds, record_at, **rest):
        calls.append(horizon)
        assert [params.radius_scale for params in grid] == [1.0, 0.03]
        shape = {"regret": np.full((num_seeds, 1), 10.0 * len(calls)), "health": np.zeros(num_seeds, int)}
        return [SimpleNamespace(compile_seconds=compiling[len(calls) - 1], **shape) for _ in grid]

    monkeypatch.setattr(measure, "simulate_grid", simulate_grid)
    monkeypatch.setattr(measure.time, "process_time", lambda: next(clock) ** 2)
    found = measure.first_run(task(policy, horizon), dataset("S3"), "float64")
    assert calls == played
    last = 2 * (len(played) - 1)  # of the clock's readings, the last run has the last two
    assert float(found["cpu"]) == (last + 1) ** 2 - last**2
    assert found["regret"].tolist() == [[10.0 * len(played)] * 2] * 2


def test_bytes_of_the_state():
    def size(*arguments, dtype="float64", **options):
        return measure.state_bytes(task(*arguments, **options), dataset("S3"), dtype)

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
    assert measure.tasks_cost([one, one], 2).cells == 4
    assert measure.tasks_cost([one, one], 2).seed_pulls == 60_000
    full, short = (task("tofu", horizon, method="full").core_seconds for horizon in (40_000, 20_000))
    assert 3.8 < full / short < 4


# Table 2


def made_up(exponents, times, *, seeds=3):
    """Measurements of every variant that follow power laws exactly."""
    measured = {}
    for name in table2_outputs.VARIANTS:
        for horizon in (16_384, 65_536, 262_144):
            regret = np.stack([horizon**e * (1 + 0.1 * np.arange(seeds)) for e in exponents])
            cpu = 1e-6 * float(horizon) ** times[name] * np.array([2.0, 1.0])
            own = measure.Task("S3", name.split()[0], (), horizon, seeds, (1.0, 0.03))
            measured[f"S3/{name}/T={horizon}"] = table2_outputs.Measured(own, regret, np.zeros((2, seeds), int), cpu)
    return measured


def test_exponents_of_power_laws_reach_every_output(tmp_path):
    times = {name: 2.0 if name == "tofu full" else 1.0 for name in table2_outputs.VARIANTS}
    storage = {name: [100, 200, 400] if name.startswith("tofu") else [50, 50, 50] for name in table2_outputs.VARIANTS}
    found = table2_outputs.report(made_up((1.0, 0.6), times), (10, 20, 40), storage, "S3", 3, "float64")
    growth = found.growth("S3", "mom", 0.03)
    assert (growth.fitted.value, growth.promised) == (pytest.approx(0.6), 0.8)
    assert found.growth("S3", "crt", 1.0).promised == pytest.approx(5 / 6)
    assert found.growth("S3", "tofu epochs", 1.0).promised == pytest.approx(2 / 3)
    full = found.timings["tofu full"]
    assert (full.fitted, full.last, *full.ends) == pytest.approx((2, 2, 2, 2))
    assert full.seconds.min() == pytest.approx(1e-6 * 16_384**2 / 6)  # of one replication, the quicker round
    assert (found.storages["tofu full"].fitted, found.storages["mom"].fitted) == (pytest.approx(1), 0)

    files = {path.name: path for path in table2_outputs.write(found, tmp_path)}
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
    assert "O(T log T)" in table2_outputs.text(found)


def test_the_plans_of_table2():
    usual, full = (table2.plan(seeds=None, full=full, dtype="float64") for full in (False, True))
    assert {task.set_name for task in usual.tasks.values()} == {"S3", "S1"}
    assert {task.set_name for task in full.tasks.values()} == {"S1", "S2", "S3", "S4"}
    assert {title.split("/")[1] for title in usual.tasks} == set(table2_outputs.VARIANTS)
    assert not any("full" in title for title in usual.tasks if title.startswith("S1"))
    assert max(t.horizon for title, t in usual.tasks.items() if "tofu full" in title) == 8192
    assert dict(usual.tasks["S3/tofu epochs/T=4096"].options) == {"epochs": 12}
    assert usual.tasks["S3/tofu full/T=1024"].seeds == 4
    for name, variant in table2_outputs.VARIANTS.items():  # every fit has two horizons at least
        assert sum(h >= variant.time_from for h in table2.horizons(name, False)) >= 2
    assert full.cost.core_seconds > 10 * usual.cost.core_seconds


# Remark 3


def test_what_m_buys(tmp_path):
    def one(count, microseconds, shift=0.0):
        regret = np.array([[1000.0, 1100.0, 900.0]] * 2)
        regret[1] += shift * np.array([1.0, 1.1, 0.9])
        return remark3_outputs.Measured(
            "S3",
            count,
            regret,
            np.zeros((2, 3), int),
            1e-6 * np.array([microseconds, 2 * microseconds]),
            10 * count + 100,
        )

    def report(*quick):
        return remark3_outputs.Report(
            [one(0, 3.0), one(1, quick[0], 50.0), one(64, quick[1])], (1.0, 0.03), 64, 3, "float64"
        )

    nothing = remark3_outputs.findings(report(2.9, 80.0))
    assert nothing[0] == (
        "S3, time: M = 1 is the quickest at 2.9 µs a pull and saves no CPU time over the pruned form (3 µs); M = T "
        "takes 80 µs. Its state is 1.1 times as large and grows with T; the pruned form's with log T."
    )
    assert nothing[1].endswith("leaves out 0 (0.1 expected by chance): none.")
    assert nothing[2].endswith("leaves out 0 (0.1 expected by chance): M = 1: 50 [37.6, 62.4].")
    assert "saves 50% of the pruned form's CPU time" in remark3_outputs.findings(report(1.5, 80.0))[0]
    files = {path.suffix: path for path in remark3_outputs.write(report(2.9, 80.0), tmp_path)}
    assert set(files) == {".png", ".pdf", ".md", ".tex", ".csv"}
    text = files[".md"].read_text(encoding="utf-8")
    assert "| S3 | pruned | 1,000 | – | 1,000 | – | 3 | 1.00 | 100 |" in text
    assert "| S3 | M = T | 1,000 | 0 [0, 0] | 1,000 | 0 [0, 0] | 80 | 26.67 | 740 |" in text
    assert files[".csv"].read_text(encoding="utf-8").splitlines()[1].startswith("S3,pruned,64,1,3,0,1000,")


def test_the_plans_of_remark3():
    usual = remark3.plan(seeds=None, full=False, dtype="float64")
    assert remark3.counts(2048) == (1, 4, 16, 64, 256, 1024, 2048)
    assert remark3.counts(4096)[-3:] == (256, 1024, 4096)
    assert len(usual.tasks) == 2 * 8
    assert {dict(t.options).get("epochs") for t in usual.tasks.values()} == {None, 1, 4, 16, 64, 256, 1024, 2048}
    assert remark3.plan(seeds=3, full=True, dtype="float32").tasks["S4/M=10000"].seeds == 3


# Whole processes, with the real simulator

RUN = """
import sys
from pathlib import Path
from linbet_jax import runtime
from linbet_jax.cli.progress import Reporter
runtime.prepare("cpu")
from linbet_jax.reproduce import precision
runs = tuple(precision.Run("S1", policy, 200) for policy in ("crt", "oful"))
out = precision.reproduce(
    precision.Plan(runs, 2), Path(sys.argv[1]), kind="cpu", devices="cpu", reporter=Reporter(quiet=False)
)
print(out.text)
"""


@pytest.mark.timeout(280)
def test_killed_and_resumed_is_the_same_as_uninterrupted(tmp_path):
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONIOENCODING": "utf-8",
    }

    def arguments(name):
        return [sys.executable, "-c", RUN, str(tmp_path / name)]

    def finished(name):
        done = subprocess.run(
            arguments(name), env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    def contents(name):
        folder = tmp_path / name
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in (".lock", "manifest.json")
        }

    whole = finished("whole")
    with subprocess.Popen(arguments("killed"), env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not list((tmp_path / "killed").glob("cells/[!.]*.npz")):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    kept = [name for name in contents("killed") if name.endswith(".npz")]
    assert len(kept) == 1
    resumed = finished("killed")
    assert resumed.stderr.count(": done already") == len(kept)
    assert resumed.stdout == whole.stdout
    assert contents("killed") == contents("whole")
    statuses = {
        json.loads((tmp_path / name / "manifest.json").read_text("utf-8"))["status"] for name in ("whole", "killed")
    }
    assert statuses == {"finished"}
