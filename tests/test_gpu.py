"""What a GPU would be given, read without one: the programs as traced and as lowered for CUDA, and the forms of kernels
that a CPU does not use, run on it."""

import functools
import re
import types

import gpu_compile
import gpu_counts
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from traces import quickly

import linbet_jax as lb
from linbet_jax.kernels import medians
from linbet_jax.kernels.balls import Ball
from linbet_jax.noise import words
from linbet_jax.simulation import casting, launches, simulator
from linbet_jax.simulation.checks import block_of
from linbet_jax.simulation.launches import compiler_options
from linbet_jax.simulation.simulator import traced

HORIZON = 1_000
# Loops whose turns depend on data, beside the one over stretches: MENU's search, minimisers, designs, histories.
DATA_LOOPS = {"menu": 1, "heavy_oful": 3, "gopt_elim": 6, "explore_then_commit": 6, "sup_btc": 2, "btc_ucb": 2}


@functools.cache
def bandit():
    return lb.LinearBandit(np.eye(3), np.array([0.3, 0.2, 0.1]), lb.noise.StudentT(df=3.0), epsilon=0.5)


@functools.cache
def program(name, dtype, **options):
    policy, params = lb.make_policy(name, bandit(), horizon=HORIZON, **options)
    return traced(
        policy, params, bandit(), horizon=HORIZON, num_seeds=2, dtype=dtype, block_size=2,
        devices=jax.devices()[:1], for_card=True,
    )  # fmt: skip


def equations(jaxpr):
    """All equations that CUDA would run: of a choice by platform that of CUDA alone."""
    chosen = {}
    for equation in jaxpr.eqns:
        yield equation
        if equation.primitive.name == "platform_index":
            platforms = equation.params["platforms"]
            chosen[equation.outvars[0]] = next(i for i, names in enumerate(platforms) if not names or "cuda" in names)
        inner = list(jaxprs_in_params(equation.params))
        if equation.primitive.name == "cond" and equation.invars[0] in chosen:
            inner = [equation.params["branches"][chosen[equation.invars[0]]].jaxpr]
        for each in inner:
            yield from equations(each)


def of_kind(name, dtype, kind):
    return [each for each in equations(program(name, dtype)[0].jaxpr.jaxpr) if each.primitive.name == kind]


@pytest.mark.parametrize("name", lb.policies.names())
def test_a_gpu_runs_a_program_by_itself(name):
    found = list(equations(program(name, "float32")[0].jaxpr.jaxpr))
    kinds = [each.primitive.name for each in found]
    assert kinds.count("while") == 1 + DATA_LOOPS.get(name, 0)
    for kind in set(kinds):
        assert "callback" not in kind
        assert kind not in ("eigh", "cholesky", "lu", "triangular_solve", "ffi_call", "custom_call")
    assert not [each for each in found if any(out.aval.dtype == np.float64 for out in each.outvars)]


def by_platform(jaxpr):
    """The conditionals that choose by platform, which XLA resolves."""
    return sum(each.primitive.name == "platform_index" for each in equations(jaxpr))


@pytest.mark.parametrize("name", ["menu", "mom"])
def test_epochs_of_many_pulls_ask_the_host_nothing(name):
    found = program(name, "float64")[0].jaxpr.jaxpr
    assert len(of_kind(name, "float64", "while")) == 1 + DATA_LOOPS.get(name, 0)  # in medians of float64 too
    plan = program(name, "float64")[1].plan
    refreshes = int(plan.refresh_stride > 1)  # not at every stretch
    assert len(of_kind(name, "float64", "cond")) == refreshes + by_platform(found)  # and none for pulls beyond T
    groups = plan.policy.pulls_per_epoch
    products = [each.outvars[0].aval.shape for each in of_kind(name, "float64", "dot_general")]
    lengths = {each.params["length"] for each in of_kind(name, "float64", "scan")}
    assert lengths == {1, plan.epochs_per_stretch, 3}  # blocks, epochs, factors of V; no passes over estimates or bits
    assert not [shape for shape in products if shape[-2:] == (groups, groups)]  # no distances of all pairs in memory


def test_a_stretch_of_pulls_is_few_kernels():
    scans = {each.params["length"]: each.params["unroll"] for each in of_kind("crt", "float32", "scan")}
    assert scans == {1: 1, 125: 5, 3: 1}  # blocks, pulls, and the refresh's sweeps; noise and its words need none
    assert {each.params["length"] for each in of_kind("lints", "float32", "scan")} == {1, 125, 3}
    assert len(of_kind("crt", "float32", "cond")) == 1 + by_platform(program("crt", "float32")[0].jaxpr.jaxpr)


@pytest.mark.parametrize(("name", "dtype"), [("menu", "float64"), ("crt", "float32")])
def test_what_is_lowered_for_cuda_is_what_was_read(name, dtype):
    text = program(name, dtype)[0].lower(lowering_platforms=("cuda",)).as_text()
    loops = of_kind(name, dtype, "while") + of_kind(name, dtype, "scan")
    assert text.count("stablehlo.while") == len(loops)
    assert ("stablehlo.sort" in text) == (name == "menu")
    assert "custom_call" not in text
    assert (dtype == "float64") == bool(re.search(r"tensor<[\dx]+xf64>", text))


# Forms of kernels that a CPU does not use


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_middle_values_by_sort(dtype):
    rng = np.random.default_rng(3)
    lists = rng.standard_t(1.5, size=(40, 21)).astype(dtype)
    lists[::3] = np.round(lists[::3])  # ties, and zeros of both signs
    lists[1::7, 4], lists[2::5, :12], lists[3::9, 7] = np.nan, np.inf, -np.inf
    for count in (20, 21):
        by_sort, by_bits = (
            jax.jit(jax.vmap(functools.partial(form, count=count)))(lists)
            for form in (medians._middle_by_sort, medians._middle_by_bits)
        )
        np.testing.assert_array_equal(by_sort, by_bits)
        assert not np.signbit(np.asarray(by_sort)[np.asarray(by_sort) == 0]).any()


def test_the_search_in_rounds_finds_the_same_center_in_few_rounds(monkeypatch):
    rng = np.random.default_rng(4)
    problems = rng.standard_t(1.5, size=(64, 61, 4)) + rng.standard_normal(4)
    problems[3, 20:52] = problems[3, 19]  # a majority of equals: a radius of 0
    problems[4, :40] = np.nan  # the first are no numbers
    problems[5, 7] = np.inf
    problems[6] = np.repeat(problems[6, :1], 61, axis=0)
    gram = np.eye(4) + rng.uniform(size=(4, 4)) @ np.diag([1.0, 2, 3, 4]) / 9
    gram = gram @ gram.T
    turns = []
    original = jax.lax.while_loop

    def counted(condition, body, start):
        end, turned = original(lambda c: condition(c[0]), lambda c: (body(c[0]), c[1] + 1), (start, 0))
        jax.debug.callback(lambda number: turns.append(int(number)), turned)
        return end

    expected = jax.jit(jax.vmap(medians._center_one_by_one, in_axes=(0, None)))(problems, gram)
    monkeypatch.setattr(jax.lax, "while_loop", counted)
    found = jax.jit(jax.vmap(medians._center_in_rounds, in_axes=(0, None)))(problems, gram)
    jax.effects_barrier()
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-14)
    assert found[0][3] == 19
    assert len(turns) == 64
    assert sorted(turns)[-2] <= 4  # but for one: of infinite distances none is rejected
    assert np.median(turns) <= 2


@pytest.mark.parametrize("form", [medians._center_one_by_one, medians._center_in_rounds])
def test_the_center_of_numbers_of_which_most_are_equal(form):
    # In one dimension a compiler makes coordinates anew where they are subtracted, and rounds them once less.
    numbers = np.random.default_rng(3).normal(size=(16, 2))
    groups = np.arange(18) % 2 | (np.arange(18) > 15)  # 8 and 10 of 18, the first of the few
    index, radius = jax.jit(jax.vmap(form, in_axes=(0, None)))(numbers[:, groups, None], np.array([[1.7]]))
    np.testing.assert_array_equal(index, 1)
    np.testing.assert_array_equal(radius, 0.0)


def test_a_program_for_a_gpu_has_the_stretches_of_one():
    launch = program("menu", "float64")[1]
    assert launch.plan.on_card
    assert launch.plan.epochs_per_stretch == 1  # of more pulls than a stretch is long; on a CPU two


def test_words_and_normals_written_out(monkeypatch):
    def drawn(key):
        return words.stream_words(key, 1)(jnp.arange(9)), words.normals(key, 5, "float64")

    rolled = jax.jit(drawn)(jax.random.key(8))
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arguments, default, **others: default(*arguments))
    for found, expected in zip(jax.jit(lambda key: drawn(key))(jax.random.key(8)), rolled, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture
def as_on_card(monkeypatch):
    """Whatever is traced takes the forms of a GPU; for shapes that no other test traces."""
    plan = simulator._plan
    monkeypatch.setattr(simulator, "_plan", lambda *arguments: plan(*arguments[:5], on_card=True))
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arguments, default, **others: default(*arguments))


def _played(name, dim, horizon):
    arms = np.eye(dim)
    made = lb.LinearBandit(arms, arms[0] * 0.5, lb.noise.StudentT(df=3.0), epsilon=0.5)
    policy, params = lb.make_policy(name, made, horizon=horizon, radius_scale=0.1)
    with quickly():
        return lb.simulate(
            policy, params, made, horizon=horizon, num_seeds=3, block_size=3, key=jax.random.key(6), dtype="float64",
            trace=True, devices=jax.devices()[:1],
        )  # fmt: skip


RUNS = [("menu", 4, 740), ("crt", 4, 130)]


@pytest.fixture(scope="module")
def on_cpu():
    return {run: _played(*run) for run in RUNS}


@pytest.mark.parametrize("run", RUNS)
def test_both_forms_play_the_same(run, on_cpu, as_on_card):
    jax.clear_caches()  # inner functions keep what they traced
    there = _played(*run)
    jax.clear_caches()
    np.testing.assert_array_equal(there.trace.arms, on_cpu[run].trace.arms)
    np.testing.assert_array_equal(there.trace.payoffs, on_cpu[run].trace.payoffs)
    np.testing.assert_array_equal(there.health, 0)
    np.testing.assert_allclose(there.regret, on_cpu[run].regret, rtol=1e-12)
    np.testing.assert_allclose(there.final_estimate, on_cpu[run].final_estimate, rtol=1e-9, atol=1e-12)


# Blocks and options


@pytest.mark.parametrize(
    ("rows", "seed_bytes", "block"),
    [
        (3, 1_000, 128),  # whole steps
        (4_096, 1_000, 4_096),
        (70_000, 1_000, 35_072),  # two equal blocks, not one of 65 536 and a rest
        (10**6, 1, 62_592),  # 16 blocks of at most 65 536
        (5_000, 2**15, 2_560),  # of 4096 at most: 120 seeds padded, not 3192
        (300, 10**9, 128),
        (300, 0, 384),  # a policy without a state
    ],
)
def test_blocks_on_a_gpu_hold_so_many_bytes_of_state(rows, seed_bytes, block):
    assert block_of(None, False, rows, lambda: seed_bytes) == block


def test_bytes_of_a_replication():
    made = bandit()
    menu, params = lb.make_policy("menu", made, horizon=HORIZON)
    kept = 3 * menu.pulls_per_epoch + 3 + (9 + 3 + 1)  # moments, centre; inverse, widths, determinant
    assert casting.seed_bytes(menu, params, made, 0, "float64") == 8 * kept + 4 * (3 + 1)
    assert casting.seed_bytes(menu, params, made, 100, "float64") == 8 * kept + 4 * (3 + 1) + 1_200


def test_a_gpu_is_asked_for_the_same_bits_every_time():
    cards = program("crt", "float32")[1]._replace(devices=(types.SimpleNamespace(platform="gpu"),))
    assert compiler_options(cards) == {"xla_gpu_autotune_level": 0, "xla_gpu_deterministic_ops": True}


def test_small_sets_on_a_cpu_do_without_a_library(monkeypatch):
    launch, ynn, emitters = program("crt", "float32")[1], launches._LIBRARY, launches._EMITTERS
    sized = {shape: launch._replace(arms=jax.ShapeDtypeStruct(shape, np.float32)) for shape in ((64, 64), (64, 65))}
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_extra_options=anything")  # as set_up_cpu leaves it
    small, large = compiler_options(sized[64, 64]), compiler_options(sized[64, 65])
    assert (small[ynn], small[emitters]) == ("", False)
    # In float32, too: else loops that are one kernel sum over other registers than those that are not, with AVX-512.
    assert small["xla_cpu_prefer_vector_width"] == large["xla_cpu_prefer_vector_width"] == 512
    assert {ynn, emitters}.isdisjoint(large)
    assert compiler_options(launch._replace(arms=Ball(jnp.ones(()), 2.0, 3))) == small
    monkeypatch.setenv("XLA_FLAGS", "")  # the older way is for loops that become one kernel
    assert compiler_options(sized[64, 64]) == {name: value for name, value in small.items() if name != emitters}
    text = launches._compile(jax.jit(jnp.matmul).lower(np.ones((9, 9)), np.ones((9, 9))), {ynn: ""}).as_text()
    assert "ynn_fusion" not in text
    assert " dot(" in text


def test_an_option_that_xla_does_not_know_is_left_out_and_named(caplog):
    lowered = jax.jit(lambda x: x + 1).lower(1.0)
    program = launches._compile(lowered, {"xla_of_another_year": 1, "xla_cpu_prefer_vector_width": 512})
    assert program(1.0) == 2.0
    assert [record.args for record in caplog.records] == [("xla_of_another_year",)]
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_cpu_prefer_vector_width"):  # any other fault is told
        launches._compile(lowered, {"xla_cpu_prefer_vector_width": "wide"})


# What a compiled program costs


def test_the_report_compiles_every_policy_that_plays_the_papers_sets():
    own = {name for name in lb.policies.names() if lb.policies.entry(name).make.__module__.startswith("linbet_jax.")}
    assert set(gpu_compile.POLICIES) == own - {"robust_ucb", "adar_ucb"}


HLO = """HloModule m
%added (p0: f64[8,4], p1: s32[], p2: f64[8]) -> f64[8] {
  %p0 = f64[8,4]{1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %p2 = f64[8]{0} parameter(2)
  %part = f64[8,1]{1,0} dynamic-slice(%p0, %p1), dynamic_slice_sizes={8,1}
  %flat = f64[8]{0} bitcast(%part)
  ROOT %sum = f64[8]{0} add(%flat, %p2)
}
%turn (t: (f64[8,4], s32[], f64[8])) -> (f64[8,4], s32[], f64[8]) {
  %t = (f64[8,4]{1,0}, s32[], f64[8]{0}) parameter(0)
  %a = f64[8,4]{1,0} get-tuple-element(%t), index=0
  %i = s32[] get-tuple-element(%t), index=1
  %x = f64[8]{0} get-tuple-element(%t), index=2
  %fused = f64[8]{0} fusion(%a, %i, %x), kind=kLoop, calls=%added
  ROOT %next = (f64[8,4]{1,0}, s32[], f64[8]{0}) tuple(%a, %i, %fused)
}
%more (t: (f64[8,4], s32[], f64[8])) -> pred[] {
  %t = (f64[8,4]{1,0}, s32[], f64[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=1
  ROOT %less = pred[] compare(%i, %i), direction=LT
}
%stretch (t: (f64[8,4], s32[], f64[8])) -> (f64[8,4], s32[], f64[8]) {
  %t = (f64[8,4]{1,0}, s32[], f64[8]{0}) parameter(0)
  %known = (f64[8,4]{1,0}, s32[], f64[8]{0}) while(%t), condition=%more, body=%turn, FIVE
  %open = (f64[8,4]{1,0}, s32[], f64[8]{0}) while(%known), condition=%more, body=%turn
  ROOT %one = (f64[8,4]{1,0}, s32[], f64[8]{0}) conditional(%i, %open, %open), branch_computations={%turn, %turn}
}
ENTRY %main (t: (f64[8,4], s32[], f64[8])) -> (f64[8,4], s32[], f64[8]) {
  %t = (f64[8,4]{1,0}, s32[], f64[8]{0}) parameter(0)
  ROOT %loop = (f64[8,4]{1,0}, s32[], f64[8]{0}) while(%t), condition=%more, body=%stretch
}
"""


def test_kernels_bytes_and_waits_are_counted_loop_by_loop():
    text = HLO.replace("FIVE", 'backend_config={"known_trip_count":{"n":"5"}}')
    module = gpu_counts.Module(text, lambda moved, operations: moved)
    loops = [(loop.turns, loop.body, loop.depth) for loop in module.loops()]
    assert loops == [(None, "stretch", 0), (5, "turn", 1), (None, "turn", 1)]
    once = module.cost("turn")
    moved = 8 * 8 + 4 + 8 * 8 + 8 * 8  # of the first operand one column alone
    assert once == gpu_counts.Cost(1, moved, 8 + 8, moved, 0)
    # Five known turns, two that data decide, half of the times a branch; three tests of one kernel, and their waits.
    whole = module.cost("stretch", turns=2, share=0.5)
    assert (whole.kernels, whole.waits) == (5 + 2 + 3 + 1, 3 + 1)
    assert whole.moved == 8 * moved + 3 * (4 + 4 + 1)
    assert module.types() == {"f64", "s32", "pred"}
    assert module.custom_calls() == set()
