"""The benchmark: the NumPy baseline plays what it must, results say what was measured. No time is tested."""

import dataclasses
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import baseline
import bench
import c_baseline
import floors
import gpu_compile
import jax
import kernels
import numpy as np
import pytest
import report
import scaling
import suite
import timing
import worker
from oracles import CrtOracle, MenuOracle, MomOracle, OfulOracle, TofuOracle, self_play
from oracles_arms import SupTold, replay_sup
from oracles_elim import Told, greedy_counts, replay, smallest_odd_copies
from oracles_later import CrmmOracle, CrtmOracle, HeavyOfulOracle, HvtOracle, LaterConstants
from problems import Problem
from traces import programs_at_most, quickly

from linbet_jax.cli import bench as command_of_the_package
from linbet_jax.cli import main
from linbet_jax.errors import InputError
from linbet_jax.simulation.cores import usable_cores
from linbet_jax.storage.results import write_json

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "benchmarks" / "numpy_baseline.py"


@pytest.fixture(scope="module")
def numpy_baseline():
    return baseline.load()


# The NumPy baseline ---------------------------------------------------------------------------------------------------

PLAYS = [
    # TOFU's, MENU's and OFUL's arms are the oracles', here and in test_replay.py.
    ("crt", "S3", 700),
    ("mom", "S2", 1_300),
    ("lints", "S3", 300),
    ("sgd", "S3", 300),
]


@pytest.mark.parametrize(("policy", "data_set", "horizon"), PLAYS, ids=lambda value: str(value))
def test_the_baseline_plays_linbet_jax_s_arms(numpy_baseline, policy, data_set, horizon):
    problem = Problem.of(policy, data_set, horizon)
    run = numpy_baseline.play(problem, seed=1)
    assert run.arms.shape == run.regret.shape == (horizon,)
    with quickly():
        assert baseline.first_difference(problem, run, seed=1) is None
    assert len(set(run.arms.tolist())) > 1  # a run that never leaves one arm would compare nothing


class MeanOfMediansOracle(CrmmOracle):
    """CrmmOracle, but that the first radius is OFUL's."""

    def reset(self):
        super().reset()
        self.radius = self.constants.radius_scale * self.constants.bias


ORACLES = {
    "tofu": TofuOracle, "crt": CrtOracle, "oful": OfulOracle, "menu": MenuOracle, "mom": MomOracle, "crtm": CrtmOracle,
    "crmm": CrmmOracle, "mean_of_medians": MeanOfMediansOracle, "heavy_oful": HeavyOfulOracle,
    "hvt_ucb": functools.partial(HvtOracle, no_cap=False),  # the baseline is told the ridge in use
}  # fmt: skip


def told_and_noise(heavy, horizon, radius_scale):
    """An instance, what policies are told of it, noise and what makes payoffs of it."""
    rng = np.random.default_rng([17, heavy])
    arms, theta = rng.uniform(size=(12, 4)), rng.uniform(size=4)
    told = {
        "horizon": horizon,
        "theta_norm": float(np.linalg.norm(theta)),
        "epsilon": 0.5 if heavy else 1.0,
        "delta": 0.2,
        "ridge": 1.5,
        "radius_scale": radius_scale,
        "raw_moment_bound": 4.0,
        "central_moment_bound": 3.0,
        "noise_scale": 1.7,
        "arm_norm": 2.0,
        "quantile": 1.7,
    }
    return arms, theta, told, 1 + rng.pareto(2.0, horizon) if heavy else rng.standard_t(3.0, horizon)


@pytest.mark.parametrize("policy", ORACLES)
@pytest.mark.parametrize("heavy", [False, True], ids=["t", "pareto"])
@pytest.mark.parametrize("radius_scale", [1.0, 0.03])
def test_the_baseline_plays_the_oracle_s_arms(numpy_baseline, policy, heavy, radius_scale):
    module = numpy_baseline.module
    horizon = {"menu": 700, "mom": 700, "crmm": 700, "mean_of_medians": 700, "heavy_oful": 100}.get(policy, 250)
    arms, theta, told, noise = told_and_noise(heavy, horizon, radius_scale)
    means = arms @ theta
    payoff = module.pareto(2.0) if heavy else module.additive()
    run = module.POLICIES[policy](arms, means, module.Constants(**told), noise, payoff)
    oracle = ORACLES[policy](arms, LaterConstants(**told))
    played, _, _ = self_play(oracle, lambda feature, pull: float(payoff(noise[pull], feature @ theta)))
    assert run.arms.tolist() == played.tolist()
    np.testing.assert_allclose(run.regret, np.cumsum(means.max() - means[played]), atol=1e-12)


@pytest.mark.parametrize("policy", ["gopt_elim", "sup_bmm", "sup_btc", "explore_then_commit"])
@pytest.mark.parametrize("heavy", [False, True], ids=["t", "pareto"])
@pytest.mark.parametrize("radius_scale", [1.0, 0.1])
def test_an_oracle_replays_the_baseline(numpy_baseline, policy, heavy, radius_scale):
    module, horizon = numpy_baseline.module, 400 if policy == "sup_btc" else 2_000
    arms, theta, told, noise = told_and_noise(heavy, horizon, radius_scale)
    means, medians = arms @ theta, policy == "sup_bmm"
    payoff = module.pareto(2.0) if heavy else module.additive(0.2)
    constants = module.Constants(**told, mean_bound=0.2)
    played = module.POLICIES[policy](arms, means, constants, noise, payoff).arms
    payoffs = payoff(noise, means[played])
    c = constants
    if policy == "gopt_elim":
        told = Told(
            horizon, c.theta_norm, c.raw_moment_bound, c.central_moment_bound, c.epsilon, c.delta, c.ridge, radius_scale
        )
        phases, _ = replay(arms, told, played, payoffs)
        assert len(phases) > 5
    elif policy == "explore_then_commit":
        copies = smallest_odd_copies(c.delta / 12)
        counts, gram = greedy_counts(arms, 158 // copies, c.ridge, np.ones(12, bool))  # 158^3 <= 2000^2 < 159^3
        order = np.repeat(np.arange(12), counts * copies)
        moments = arms[order[::copies]].T @ payoffs[: order.size].reshape(-1, copies)
        values = np.median(arms @ np.linalg.solve(gram, moments), axis=1)
        assert played.tolist() == [*order.tolist(), *[int(np.argmax(values))] * (horizon - order.size)]
    else:
        told = SupTold(
            horizon, c.central_moment_bound if medians else c.raw_moment_bound, c.epsilon, c.theta_norm, c.mean_bound,
            medians, radius_scale=radius_scale, delta=c.delta, ridge=c.ridge,
        )  # fmt: skip
        _, recorded, _ = replay_sup(arms, told, played, payoffs)
        assert any(recorded)


def test_sampled_rounds_check_the_arms_they_time(numpy_baseline):
    problem = Problem.of("tofu", "S3", 700)
    clock = numpy_baseline.sample_rounds(problem, (1, 300, 690))
    assert clock.wall > 0
    assert clock.cpu > 0
    played, _ = baseline.history(problem, 0)
    held = played.copy()
    try:
        played[300:] = (played[300:] + 1) % 20
        with pytest.raises(baseline.MismatchError, match=r"tofu/S3/T=700: .* at pull 301"):
            numpy_baseline.sample_rounds(problem, (1, 300))
    finally:
        played[:] = held


def test_the_sampled_rounds_of_a_whole_run_give_its_mean(numpy_baseline, monkeypatch):
    """The integral over t is exact for a cost that is linear in t."""

    class Linear:
        def __init__(self, arms, constants):
            self.pulls = 0

        def load(self, played, payoffs):
            self.pulls = len(played)

        def select(self):
            return int(history[self.pulls])

        def observe(self, arm, payoff):
            clock[0] += 1e-6 * self.pulls
            self.pulls += 1

    clock = [0.0]
    problem = Problem.of("tofu", "S3", 700)
    history, _ = baseline.history(problem, 0)
    monkeypatch.setattr(numpy_baseline.module, "Tofu", Linear)
    monkeypatch.setattr(baseline.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(baseline.time, "process_time", lambda: clock[0])
    monkeypatch.setattr(baseline, "_BLOCK_SECONDS", 1e-9)
    got = numpy_baseline.sample_rounds(problem, (1, 100, 350, 699))
    assert got.wall == pytest.approx(1e-6 * 350, rel=2e-3)
    assert got.cpu == pytest.approx(got.wall)


# The C baseline -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loops():
    if not any(map(shutil.which, c_baseline.COMPILERS)):
        pytest.skip("needs a C compiler")
    return c_baseline.load()


C_PLAYS = [
    ("tofu", "S3", 700, 1.0),
    ("tofu", "S3", 700, 0.03),
    ("oful", "S3", 700, 1.0),
    ("crt", "S3", 700, 0.03),
    ("menu", "S1", 20_000, 1.0),
]


@pytest.mark.parametrize(("policy", "data_set", "horizon", "scale"), C_PLAYS, ids=lambda value: str(value))
def test_c_plays_the_arms_that_numpy_plays(loops, numpy_baseline, policy, data_set, horizon, scale):
    """NumPy's are linbet_jax's and the oracles', above and in test_replay.py."""
    problem = Problem.of(policy, data_set, horizon)
    problem = dataclasses.replace(problem, params=problem.params._replace(radius_scale=scale))
    noise = baseline.draw(problem.bandit.noise, np.random.default_rng(5), horizon)
    told = numpy_baseline._constants(problem), noise, numpy_baseline._payoff(problem.bandit.noise)
    expected = numpy_baseline.module.POLICIES[policy](problem.bandit.arms, problem.bandit.means, *told)
    run = loops.play(problem, noise)
    assert run.arms.tolist() == expected.arms.tolist()
    assert run.regret[-1] == pytest.approx(expected.regret[-1], rel=1e-12)
    assert len(set(run.arms.tolist())) > 1


def test_c_plays_linbet_jax_s_arms_and_says_where_it_does_not(loops):
    problem = Problem.of("tofu", "S3", 700)
    loops.check(problem)
    played, _ = baseline.history(problem, 0)
    held = played.copy()
    try:
        played[400] = (played[400] + 1) % 20
        with pytest.raises(
            baseline.MismatchError, match=r"tofu/S3/T=700: the C baseline plays another arm at pull 401"
        ):
            loops.check(problem)
    finally:
        played[:] = held


@pytest.mark.parametrize(("data_set", "horizon"), [("S3", 700), ("S3", 10_000)])
def test_c_takes_as_many_shifts_as_linbet_jax(data_set, horizon):
    problem = Problem.of("tofu", data_set, horizon)
    params = jax.tree.map(lambda _: jax.ShapeDtypeStruct((), np.float64), problem.params)
    state = jax.eval_shape(problem.made.init, jax.ShapeDtypeStruct((20, 10), np.float64), params)
    assert c_baseline._sizes(problem).shifts == state.root.inverses.shape[-1]


def test_c_finds_the_smallest_of_all_medians(loops):
    """Also where points lie much further out than in a run."""
    rng = np.random.default_rng(3)
    center = c_baseline._compiled(loops.compiler, c_baseline.Sizes()).center_of
    for tail in (1.0, 1.5, 3.0, 100.0):
        points = np.zeros((10, 320))
        points[:, :317] = rng.standard_t(tail, (10, 317)) * rng.uniform(0.01, 1.0, (10, 1))
        distances = np.linalg.norm(points[:, :317, None] - points[:, None, :317], axis=0)
        np.fill_diagonal(distances, np.nan)
        assert center(c_baseline._pointer(points)) == np.argmin(np.nanmedian(distances, axis=1))


def test_without_a_compiler_there_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(c_baseline, "load", c_baseline.load.__wrapped__)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bench._loops() == (None, "C was not measured: there is no C compiler (cc, gcc, clang) on the path.")
    (tmp_path / "gcc").write_text("#!/bin/sh\necho 'an error: no such option' >&2\nexit 1\n", encoding="utf-8")
    (tmp_path / "gcc").chmod(0o755)
    loops, said = bench._loops()
    assert loops is None
    refused = f"C was not measured: {tmp_path}/gcc does not compile c_baseline.c here: "
    assert said == f"{refused}an error: no such option."
    (tmp_path / "gcc").write_text("#!/bin/sh\nprintf '\\377'\nexit 3\n", encoding="utf-8")  # no UTF-8, and no reason
    assert bench._loops() == (None, f"{refused}it ends with status 3.")
    (tmp_path / "gcc").write_text("no program", encoding="utf-8")
    assert bench._loops() == (None, f"C was not measured: {tmp_path}/gcc cannot be started: Exec format error.")
    (tmp_path / "gcc").write_text("#!/bin/sh\n", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    loops, said = bench._loops()
    assert loops is None
    assert said.startswith(f"{refused}[Errno 2] No such file or directory: ")


def test_the_script_says_what_differs(tmp_path):
    wrong = FILE.read_text(encoding="utf-8").replace(
        "return t**power * (martingale + drift)", "return 0.1 * (t + drift)"
    )
    path = tmp_path / "numpy_baseline.py"
    path.write_text(wrong, encoding="utf-8")
    found = baseline.load(path)
    problem = Problem.of("crt", "S3", 700)
    with pytest.raises(baseline.MismatchError, match=r"crt/S3/T=700: the NumPy baseline plays another arm at pull \d+"):
        found.check(problem)


# Timing, floors, workers ----------------------------------------------------------------------------------------------


def test_samples_are_taken_in_turn_and_within_the_budget():
    order = []

    def subject(name):
        return lambda: (order.append(name), timing.Clock(1.0, 2.0))[1]

    samples = timing.interleave({"a": subject("a"), "b": subject("b")}, repeats=3)
    assert order == ["a", "b"] * 3
    assert samples == {"a": [timing.Clock(1.0, 2.0)] * 3, "b": [timing.Clock(1.0, 2.0)] * 3}
    assert len(timing.interleave({"a": subject("a")}, repeats=9, budget=-1.0)["a"]) == 2


def test_a_measurement_quotes_its_median():
    measured = timing.Measurement("a", "s", (3.0, 1.0, 2.0))
    assert (measured.median, measured.low, measured.high) == (2.0, 1.0, 3.0)
    assert timing.ratio((4.0, 9.0), (2.0, 3.0)) == (2.0, 3.0)


@pytest.mark.parametrize("horizon", [300, 100_000])
def test_a_warmed_problem_compiles_no_more(horizon):
    problem = Problem.of("uniform", "S3", horizon)
    with programs_at_most(1):
        assert problem.warm() > 0
        assert problem.run(5).compile_seconds == 0
        with pytest.raises(AssertionError, match="traced > 1 times"):
            problem.run(5, dtype="float32")


def test_the_floor_counts_the_state():
    found = floors.floor(Problem.of("crt", "S3", 1_000))
    # Float64: V^-1 [10, 10], widths and values [20], moments [10] and what they lost, log det; int32: counts [20], t.
    assert found.state_bytes == 8 * (100 + 20 + 20 + 2 * 10 + 1) + 4 * 21
    assert found.seconds > 0


def test_a_worker_runs_on_the_cores_it_is_given():
    cores = usable_cores()[:1]
    with worker.Worker(cores) as process:
        answers = [process.run("uniform", "S3", 200, 16) for _ in range(2)]
        with pytest.raises(RuntimeError, match="nothing on S3"):
            process.run("nothing", "S3", 200, 16)
    assert answers[0]["compile"] > 0
    assert answers[1]["compile"] == 0
    assert all(answer["wall"] > 0 and answer["cpu"] > 0 and answer["peak_bytes"] > 2**20 for answer in answers)


def test_looped_kernels_compute_what_the_kernel_does():
    """The timing loop must not let the compiler drop or reuse a call."""
    calls = []

    def kernel(x):
        jax.debug.callback(lambda value: calls.append(float(value)), x[0])
        return x * 2

    total = kernels._looped(kernel)((jax.numpy.ones(3),))
    jax.effects_barrier()
    assert float(total) == 6.0
    assert calls == [1.0] * kernels._LOOPS


# Results --------------------------------------------------------------------------------------------------------------


def made(name, *values, unit="s", note=""):
    return timing.Measurement(name, unit, tuple(map(float, values)), note)


EXAMPLE = [
    made("kernel/median_center k=317 d=10/single", 500, 510, unit="us per problem"),
    made("kernel/median_center k=317 d=10/vmap", 300, 310, unit="us per problem"),
    made("policy/tofu/S3/T=10000/cpu", 3, 3.1, 3.2, unit="CPU us per seed-pull", note="64 seeds"),
    made("policy/tofu/S3/T=10000/wall", 2, 2.1, 2.2, unit="wall us per seed-pull", note="64 seeds"),
    made("policy/tofu/S3/T=10000/compile", 4),
    made("numpy/tofu/S3/T=10000/cpu", 90, 93, 96, unit="CPU us per pull", note="sampled"),
    made("numpy/tofu/S3/T=10000/wall", 90, 93, 96, unit="wall us per pull", note="sampled"),
    made("ratio/tofu/S3/T=10000", 30, 30, 30, unit="x"),
    made("c/tofu/S3/T=10000/cpu", 0.5, 0.6, unit="CPU us per pull"),
    made("noise/tofu/S3/T=10000/cpu", 0.02, unit="CPU us per pull"),
    made("c-ratio/tofu/S3/T=10000", 0.2, 0.2, unit="x"),
    made("floor/crt/S3/state", 2092, unit="bytes"),
    made("floor/crt/S3/pass", 0.05, 0.05, unit="us"),
    made("floor/crt/S3/ratio", 8, 8, unit="x"),
    made("memory/tofu/S3/T=10000", 700, unit="MiB", note="peak of the process, 16 seeds"),
    made("cores/tofu/S3", 1.8, 1.9, unit="x", note="wall time on 1 core over 2 cores"),
    made("exponent/T/tofu", 1.01, unit="slope"),
]


def test_the_results_file_holds_machine_versions_device_and_every_repeat(tmp_path):
    held = report.document(EXAMPLE, {"quick": True, "load": 0.1})
    write_json(tmp_path / "a.json", held)
    read = report.read(tmp_path / "a.json")
    assert read == json.loads(json.dumps(held))
    assert set(read) == {"format", "when", "machine", "versions", "settings", "measurements"}
    assert read["format"] == "linbet-bench-1"
    assert {"processor", "vectors", "cores", "memory_gib", "system", "device", "blas_threads", "load"} == set(
        read["machine"]
    )
    assert read["versions"]["jax"] == jax.__version__
    assert {"linbet_jax", "python", "jax", "jaxlib", "numpy", "scipy"} == set(read["versions"])
    for measured in read["measurements"]:
        assert set(measured) == {"name", "unit", "median", "low", "high", "values", "note"}
        assert measured["low"] <= measured["median"] <= measured["high"]


def test_the_tables_show_what_was_measured():
    text = report.markdown(report.document(EXAMPLE, {"load": 0.1, "c": "C: compiled."}))
    cells = "93* (90–96) | 0.55 (0.5–0.6) | 0.02 | 3.1 (3–3.2) | 30× (30–30) | 0.2× (0.2–0.2)"
    assert f"| TOFU, S3, T = 10000 | {cells} |" in text
    assert "\nC: compiled.\n" in text
    assert "\n* sampled.\n" in text
    assert (
        "| CRT, S3: CPU time of a seed-pull over one pass of its 2092 bytes of state in memory (0.05 µs) | 8×" in text
    )
    assert "| TOFU, S3: wall time on 1 core over 2 cores | 1.85× (1.8–1.9) |" in text
    assert "| TOFU, S3, T = 10000 | 476,190 | 3.1 (3–3.2) | 4.0 |" in text
    assert "| median_center k=317 d=10 | 505 (500–510) | 305 (300–310) | – |" in text
    assert "| T | TOFU | 1.01 |" in text


def test_without_c_s_runs_the_table_says_why():
    alone = [m for m in EXAMPLE if not m.name.startswith(("c/", "noise/", "c-ratio/"))]
    text = report.markdown(report.document(alone, {"c": "C was not measured: no compiler."}))
    assert "| 93* (90–96) | – | – | 3.1 (3–3.2) | 30× (30–30) | – |" in text
    assert "\nC was not measured: no compiler.\n" in text


def test_the_processor_s_vectors_are_named(monkeypatch):
    for flags, name in (("fpu sse2 avx avx2 avx512f", "AVX-512"), ("sse2 avx avx2", "AVX2"), ("fp asimd", "NEON")):
        monkeypatch.setattr(report, "_cpuinfo", lambda field, flags=flags: flags if field == "flags" else "")
        monkeypatch.setattr(report.platform, "machine", lambda: "x86_64")
        assert report._vectors() == name
    monkeypatch.setattr(report, "_cpuinfo", lambda field: "")
    assert report._vectors() == "vectors unknown"
    monkeypatch.setattr(report.platform, "machine", lambda: "arm64")
    assert report._vectors() == "NEON"


def test_without_numpy_s_runs_there_is_no_comparison():
    alone = [m for m in EXAMPLE if not m.name.startswith(("numpy/", "ratio/"))]
    text = report.markdown(report.document(alone, {}))
    assert "| TOFU, S3, T = 10000 | 476,190 | 3.1 (3–3.2) | 4.0 |" in text
    assert "NumPy / linbet_jax" not in text


def test_a_comparison_flags_what_is_beyond_the_spread():
    old = report.document([made("a", 1, 1.02, 1.04), made("b", 1, 1.02, 1.04), made("c", 1), made("gone", 1, 1)], {})
    new = report.document([made("a", 2, 2.02, 2.04), made("b", 1.03, 1.05, 1.1), made("c", 2), made("fresh", 1)], {})
    text = report.comparison(old, new)
    rows = {line.split("|")[1].strip(): line.split("|")[5:7] for line in text.splitlines() if line.startswith("| ")}
    assert [cell.strip() for cell in rows["a"]] == ["1.980", "beyond the spread"]
    assert [cell.strip() for cell in rows["b"]] == ["1.029", ""]
    assert [cell.strip() for cell in rows["c"]] == ["2.000", "one repeat"]
    assert "fresh" not in rows
    assert "3 compared, 1 beyond the measured spread" in text
    assert "1 only in the old run" in text
    assert "Not the same circumstances" not in text
    old["versions"]["jax"] = "0.1"
    assert "versions: jax '0.1' then, " in report.comparison(old, new)


@pytest.mark.parametrize(("axis", "clock"), [("T", "CPU"), ("cores", "wall")])
def test_scaling_is_drawn_with_its_exponents(axis, clock, tmp_path):
    found = list(scaling._results(axis, "tofu", (1, 10, 100), [(1.0,), (10.0, 10.0), (100.0,)]))
    slope = (pytest.approx(1.0, rel=1e-12),)
    assert found[0].unit == f"{clock} s per run"
    assert found[-1] == timing.Measurement(f"exponent/{axis}/tofu", "slope", slope, f"of {clock} time on log-log axes")
    (path,) = scaling.draw(found, tmp_path)
    assert path.name == f"scaling-{axis}.png"
    assert path.read_bytes().startswith(b"\x89PNG")


# The command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("LINBET_COMPILE_CACHE", "off")
    return lambda *arguments: bench.main([*map(str, arguments)])


def test_linbet_bench_is_the_script(capsys, monkeypatch, tmp_path):
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: linbet bench ")
    with pytest.raises(SystemExit):
        main(["bench", "--onyl"])
    assert capsys.readouterr().err == "linbet bench: error: unrecognized arguments: --onyl\n"
    monkeypatch.setattr(command_of_the_package, "FOLDER", tmp_path)
    assert main(["bench", "--quick"]) == 2
    assert capsys.readouterr().err == (
        "linbet: error: the benchmarks are not part of the installed package; "
        "in a checkout of the sources run: python benchmarks/bench.py\n"
    )


def test_a_law_that_the_baseline_does_not_know_is_an_error(numpy_baseline):
    with pytest.raises(InputError, match="no payoffs of the law"):
        numpy_baseline._payoff(baseline.noise.LogNormal(1.0))


@pytest.fixture
def small(monkeypatch):
    """One row of the table, two policies, no processes beside this one."""
    monkeypatch.setattr(suite, "QUICK_ROWS", (("crt", "S3", 700),))
    monkeypatch.setattr(suite, "_processes", lambda plan, say: iter(()))
    monkeypatch.setattr(suite.policies, "names", lambda: ("uniform", "crmm"))  # the second refuses S3


def test_a_run_prints_tables_writes_one_file_and_compares(command, small, capsys, tmp_path):
    arguments = ("--quick", "--only", "table", "--only", "policies", "--quiet")
    assert command(*arguments, "--out", "a") == 0
    out, err = capsys.readouterr()
    assert err == ""
    (results,) = (tmp_path / "a").glob("*.json")
    assert out.splitlines()[-2:] == [str(results.relative_to(tmp_path)), str(results.relative_to(tmp_path))[:-4] + "md"]
    names = {measured["name"] for measured in report.read(results)["measurements"]}
    assert {"policy/crt/S3/T=700/cpu", "numpy/crt/S3/T=700/cpu", "ratio/crt/S3/T=700", "floor/crt/S3/ratio"} <= names
    of_c = {"c/crt/S3/T=700/cpu", "noise/crt/S3/T=700/cpu", "c-ratio/crt/S3/T=700"}
    assert of_c <= names or "C was not measured: there is no C compiler" in out
    assert "policy/uniform/S3/T=2000/wall" in names
    assert not any("crmm" in name for name in names)
    assert "| CRT, S3, T = 700 |" in out

    held = results.read_bytes()
    assert command("--smoke", "--only", "policies", "--out", "b", "--compare", results, "--quiet") == 0
    out, _ = capsys.readouterr()
    assert "new/old" in out
    assert results.read_bytes() == held
    assert not (tmp_path / "b").exists()  # a smoke run writes nothing


def test_a_baseline_that_plays_other_arms_is_not_timed(command, small, capsys, tmp_path):
    wrong = FILE.read_text(encoding="utf-8").replace(
        "return t**power * (martingale + drift)", "return 0.1 * (t + drift)"
    )
    (tmp_path / "wrong.py").write_text(wrong, encoding="utf-8")
    assert command("--quick", "--only", "table", "--quiet", "--baseline", "wrong.py") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bench: error: crt/S3/T=700: the NumPy baseline plays another arm at pull ")


def test_help_imports_nothing_heavy(tmp_path):
    code = f"""
import runpy, sys
try:
    runpy.run_path({str(ROOT / "benchmarks" / "bench.py")!r}, run_name="__main__")
finally:
    print([name for name in ("jax", "numpy", "scipy", "matplotlib") if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "--seeds 0: must be at least 1"),
        (["--turns", "nan"], "--turns nan: must be at least 0"),
        (["--out", "nowhere/x.json"], "--out nowhere/x.json: must be a file in a folder that is there"),
    ],
)
def test_the_compile_report_refuses_before_it_compiles(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        gpu_compile.main(["--smoke", *arguments])
    assert message in capsys.readouterr().err


def test_the_compile_report_says_what_is_missing(monkeypatch, capsys):
    for name in ("PATH", "JAX_PLATFORMS", "XLA_FLAGS"):  # which it sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(gpu_compile.shutil, "which", lambda name: None)
    assert gpu_compile.main(["--policies", "uniform"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("gpu_compile.py: error: needs ptxas on the path: ")
    assert said.err.count("\n") == 1


def test_the_gpu_script_says_when_there_is_no_gpu(tmp_path):
    """From a bare checkout: JAX, NumPy and SciPy are all that such a machine needs to have."""
    absent, here = tmp_path / "absent", tmp_path / "here"
    absent.mkdir()
    here.mkdir()
    for package in ("chex", "jinja2", "matplotlib", "optax", "pyarrow", "pydantic", "rich"):
        (absent / f"{package}.py").write_text("raise ImportError(__name__)", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "gpu.py", "out"],
        capture_output=True,
        text=True,
        cwd=here,
        timeout=120,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": f"{absent}{os.pathsep}{ROOT}"},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("gpu.py: error: JAX finds no GPU here")
    assert not list(here.iterdir())
