"""The simulator: seeds, blocks and devices, records, health, fresh instances, changing sets, and what it refuses."""

import _thread
import dataclasses
import functools
import gc
import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from traces import compiled_fully, compiled_quickly, programs_at_most

import linbet_jax as lb
from linbet_jax.errors import UnhealthyWarning
from linbet_jax.policies.policy import Buffers, Policy
from linbet_jax.simulation import lanes, launches, simulator
from linbet_jax.simulation.cores import usable_cores

KEY = jax.random.key(0)

# Most programs run once, and briefly; tests of many pulls, and of the bits of programs as users have them, say so.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)
optimised = pytest.fixture(compiled_fully)


def bandit_of(num_arms=6, dim=3, noise=None, seed=0, **known):
    rng = np.random.default_rng(seed)
    arms, theta = rng.uniform(size=(num_arms, dim)), rng.uniform(size=dim)
    return lb.LinearBandit(arms, theta, noise or lb.noise.StudentT(3.0), **known)


def run(name, bandit, horizon=300, key=KEY, dtype="float64", options=(), **known):
    known.setdefault("num_seeds", None if "seeds" in known else 4)
    policy, params = lb.make_policy(name, bandit, horizon=horizon, radius_scale=0.1, **dict(options))
    return lb.simulate(policy, params, bandit, horizon=horizon, key=key, dtype=dtype, **known)


def assert_same(first, second, rows=slice(None)):
    np.testing.assert_array_equal(first.trace.arms[rows], second.trace.arms)
    np.testing.assert_array_equal(first.trace.payoffs[rows], second.trace.payoffs)
    np.testing.assert_array_equal(first.regret[rows], second.regret)
    np.testing.assert_array_equal(first.payoff[rows], second.payoff)


# Seeds, blocks, launches, devices


@pytest.mark.parametrize("name", ["tofu", "uniform", "mom"])
def test_a_seed_means_the_same_however_many_run(optimised, name):  # R1
    bandit = bandit_of()
    ten = run(name, bandit, num_seeds=10, trace=True)
    hundred = run(name, bandit, num_seeds=100, trace=True)
    alone = run(name, bandit, seeds=[7], trace=True)
    shuffled = run(name, bandit, seeds=np.arange(40)[::-1], trace=True)
    assert_same(hundred, ten, slice(10))
    assert_same(hundred, alone, slice(7, 8))
    assert_same(shuffled, alone, slice(32, 33))
    assert_same(run(name, bandit, num_seeds=40, chunk_size=32, trace=True), ten, slice(10))
    np.testing.assert_array_equal(shuffled.seeds, np.arange(40)[::-1])


CORES = """
    import hashlib, json, sys, jax
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
    import linbet_jax as lb
    out = {}
    for name, data, dtype in (("tofu", "S4", "float32"),):
        bandit = lb.dataset(data)
        policy, params = lb.make_policy(name, bandit, horizon=500, radius_scale=0.3)
        for devices in (None, jax.devices()[-2:]):
            r = lb.simulate(policy, params, bandit, horizon=500, num_seeds=20, key=jax.random.key(0), trace=True,
                            dtype=dtype, devices=devices, block_size=8)
            numbers = r.trace.arms, r.trace.payoffs, r.regret, r.final_estimate
            found = hashlib.sha256(b"".join(values.tobytes() for values in numbers)).hexdigest()
            out.setdefault(f"{name} {dtype}", []).append([found, r.device])
    print(json.dumps(out))
"""


@pytest.mark.timeout(280)
def test_any_number_of_cores_gives_the_same_bits(tmp_path):  # R2
    script = tmp_path / "cores.py"
    script.write_text(textwrap.dedent(CORES))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}

    processes = {
        count: subprocess.Popen([sys.executable, str(script), count], stdout=subprocess.PIPE, cwd=tmp_path, env=kept)
        for count in ("1", "4")
    }
    outputs = {count: process.communicate()[0] for count, process in processes.items()}
    assert [process.returncode for process in processes.values()] == [0, 0]
    told = {count: json.loads(output.splitlines()[-1]) for count, output in outputs.items()}
    for name in told["1"]:
        assert len({bits for found in told.values() for bits, _ in found[name]}) == 1, name
        assert [device for _, device in told["1"][name]] == ["cpu x1"] * 2
        assert [device for _, device in told["4"][name]] == ["cpu x4", "cpu x2"]


def test_launches_on_several_cores_keep_what_holds_for_one_thread_only(monkeypatch):
    """JAX keeps the setting of a `with` block for one thread; lanes are others."""
    monkeypatch.setattr(lanes, "usable_cores", lambda: [0, 1, 2])
    bandit = bandit_of()
    three = run("oful", bandit, num_seeds=40, trace=True, block_size=8)
    assert three.device == "cpu x3"
    with jax.disable_jit():
        slow = run("uniform", bandit, num_seeds=4, horizon=2, trace=True, block_size=2)
    fast = run("uniform", bandit, num_seeds=4, horizon=2, trace=True)
    np.testing.assert_array_equal(slow.trace.arms, fast.trace.arms)
    jax.config.update("jax_enable_x64", False)
    try:
        with jax.enable_x64(True):
            inside = run("oful", bandit, num_seeds=40, trace=True, block_size=8, dtype="float64")
    finally:
        jax.config.update("jax_enable_x64", True)
    assert inside.trace.payoffs.dtype == np.float64
    assert_same(three, inside)


def test_simulations_at_the_same_time_share_the_cores(monkeypatch):
    monkeypatch.setattr(lanes, "usable_cores", lambda: [0, 1])
    bandit = bandit_of()
    alone = {name: run(name, bandit, num_seeds=70, trace=True) for name in ("oful", "uniform")}
    with ThreadPoolExecutor(4) as pool:
        jobs = [(name, pool.submit(run, name, bandit, num_seeds=70, trace=True)) for name in ("oful", "uniform") * 4]
    for name, job in jobs:
        assert_same(alone[name], job.result())


AFTER_THE_MAIN_THREAD = """
    import atexit, os, threading, time, jax, numpy as np
    import linbet_jax as lb
    from linbet_jax.simulation import lanes
    lanes.usable_cores = lambda: [0, 1]
    bandit = lb.LinearBandit(np.eye(3), np.array([0.9, 0.5, 0.1]), lb.noise.StudentT(3.0))
    policy, params = lb.make_policy("uniform", bandit, horizon=50)

    def simulate(where):
        result = lb.simulate(policy, params, bandit, horizon=50, num_seeds=100, key=jax.random.key(0))
        print(where, result.device, int(result.health.sum()), flush=True)

    def later():
        time.sleep(0.3)
        simulate("thread")

    if {first}:
        simulate("main")
    atexit.register(lambda: simulate("atexit"))
    threading.Thread(target=later).start()
"""


@pytest.mark.parametrize("first", [True, False])
def test_simulations_after_the_main_thread_has_ended(first):
    code = textwrap.dedent(AFTER_THE_MAIN_THREAD).replace("{first}", str(first))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["main cpu x2 0"] * first + ["thread cpu x2 0", "atexit cpu x2 0"]


def test_running_is_timed_wherever_it_happens(monkeypatch):
    """A clock that advances inside programs alone."""
    now, real = [0.0], launches._program

    def program(launch, arguments):
        compiled, seconds = real(launch, arguments)

        def slow(*given):
            now[0] += 5.0
            return compiled(*given)

        return slow, seconds

    monkeypatch.setattr(launches, "_program", program)
    monkeypatch.setattr(launches, "time", SimpleNamespace(perf_counter=lambda: now[0], sleep=time.sleep))
    timed = run("uniform", bandit_of(), num_seeds=40, devices=jax.devices()[:1], block_size=16)
    assert (timed.run_seconds, timed.compile_seconds) == (15.0, 0.0)


def test_an_error_in_a_launch_is_raised_and_the_lane_goes_on():
    def broken():
        raise KeyError("there")

    with pytest.raises(KeyError, match="there"):
        lanes.submit(0, broken).result()
    assert lanes.submit(0, lambda: 3).result() == 3


def test_a_launch_that_is_given_up_keeps_nobody_waiting():
    begun, end = threading.Event(), threading.Event()
    running = lanes.submit(0, lambda: begun.set() or end.wait())
    waiting = lanes.submit(0, lambda: 1)
    begun.wait()
    lanes.abandon([running, waiting])
    assert lanes.submit(0, lambda: 2).result() == 2  # beside the one that cannot be ended
    assert waiting.cancelled()
    assert not running.done()
    end.set()
    assert running.result() is True
    lanes.abandon([running])
    assert lanes.submit(0, lambda: 3).result() == 3


def test_a_thread_that_python_did_not_start_makes_its_launches_itself():
    """One of XLA's own, in a callback of a launch."""
    answer = queue.SimpleQueue()
    own = lambda: (threading.get_ident(), lanes.submit(0, threading.get_ident).result())  # noqa: E731
    _thread.start_new_thread(lambda: answer.put(own()), ())
    caller, maker = answer.get()
    assert caller == maker


def test_a_callback_of_a_launch_may_simulate(monkeypatch):
    """It would wait for its own lane for ever."""
    monkeypatch.setattr(lanes, "usable_cores", lambda: [0, 1])
    bandit = bandit_of()

    def inside(state):
        return np.int32(run("uniform", bandit, num_seeds=20).regret.shape[0] - 20)

    policy = lb.Policy(
        name="simulates",
        init=lambda arms, params: jnp.zeros(()),
        select=lambda key, state, arms, params: jax.pure_callback(
            inside, jax.ShapeDtypeStruct((), jnp.int32), state, vmap_method="sequential"
        ),
        update=lambda state, arms, index, payoffs, params: state,
    )
    result = lb.simulate(policy, (), bandit, horizon=2, num_seeds=4, key=KEY, block_size=1, trace=True)
    assert not result.trace.arms.any()


INTERRUPTED = """
    import signal, threading, jax
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import linbet_jax as lb
    from linbet_jax.simulation import launches, simulator
    bandit = lb.dataset("S3")
    policy, params = lb.make_policy("oful", bandit, horizon=50_000_000)
    known = {"num_seeds": 1, "num_records": 1, "key": jax.random.key(0), "block_size": 1}
    lb.simulate(policy, params, bandit, horizon=1_280, **known)  # the same program
    finish, begun, running = launches._Program.__call__, threading.Event(), []

    def watched(*given):
        running.append(begun.set())
        outputs = finish(*given)
        running.pop()
        return outputs

    launches._Program.__call__ = watched

    def interrupt():
        begun.wait()
        signal.raise_signal(signal.SIGINT)

    for horizon in {horizons}:
        begun.clear()
        threading.Thread(target=interrupt).start()
        try:
            lb.simulate(policy, params, bandit, horizon=horizon, **known)
        except KeyboardInterrupt:
            print("running", bool(running), flush=True)
        if horizon < 10**7:
            print(lb.simulate(policy, params, bandit, horizon=1_280, **known).health, flush=True)
"""


def test_an_interrupt_is_heard_while_a_launch_runs_and_the_next_simulation_works():
    # The last launch would run for many minutes: the process does not wait for it, and ends without a crash.
    code = textwrap.dedent(INTERRUPTED).replace("{horizons}", "(8_000_000, 50_000_000)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["running True", "[0]", "running True"]


def test_simulations_of_one_block_take_turns_on_the_lanes(monkeypatch):
    monkeypatch.setattr(lanes, "usable_cores", lambda: [0, 1])
    used = []
    monkeypatch.setattr(launches, "submit", lambda lane, launch: used.append(lane) or lanes.submit(lane, launch))
    for _ in range(4):
        run("uniform", bandit_of(), num_seeds=3)
    assert used in ([0, 1, 0, 1], [1, 0, 1, 0])


def test_every_core_is_used_without_asking():
    assert run("uniform", bandit_of(), num_seeds=3).device == f"cpu x{len(usable_cores())}"


def test_keys_of_many_replications_are_distinct():  # R3
    keys = jax.vmap(lambda s: jax.random.key_data(jax.random.fold_in(KEY, s)))(jnp.arange(100_000, dtype=jnp.uint32))
    assert np.unique(np.asarray(keys), axis=0).shape[0] == 100_000


def test_other_policies_change_nothing():  # R4
    bandit = lb.dataset("S3")
    alone = run("oful", bandit, horizon=400, trace=True)
    launches._PROGRAMS.clear()
    run("mom", bandit, horizon=400, trace=True)
    assert_same(run("oful", bandit, horizon=400, trace=True), alone)


@pytest.mark.parametrize("name", ["S1", "S3"])  # of both laws
def test_key_reuse_checking_is_silent(name):  # R5
    bandit = lb.dataset(name)
    with jax.debug_key_reuse(True):
        for policy in ("tofu", "uniform"):
            run(policy, bandit, horizon=100, num_seeds=2)


def test_the_generator_is_named():  # R6
    bandit = bandit_of()
    default = run("uniform", bandit, trace=True)
    assert default.prng == "threefry2x32, partitionable=True"
    other = run("uniform", bandit, key=jax.random.key(0, impl="rbg"), trace=True)
    assert other.prng == "threefry2x32 from a key of rbg, partitionable=True"
    assert np.any(other.trace.arms != default.trace.arms)
    before = jax.config.jax_threefry_partitionable
    try:
        jax.config.update("jax_threefry_partitionable", not before)
        flipped = run("uniform", bandit, trace=True)
    finally:
        jax.config.update("jax_threefry_partitionable", before)
    assert flipped.prng == f"threefry2x32, partitionable={not before}"
    # named, and not mixed in: the compiled program of the other setting is not used again
    assert np.any(flipped.trace.arms != default.trace.arms)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_a_seed_means_the_same_under_a_key_of_any_generator(impl):
    key = jax.random.key(3, impl=impl)
    many, alone = (run("uniform", bandit_of(), key=key, seeds=seeds, trace=True) for seeds in (np.arange(8), [3]))
    assert_same(many, alone, slice(3, 4))
    other = run("uniform", bandit_of(), key=jax.random.key(4, impl=impl), seeds=[3], trace=True)
    assert np.any(other.trace.arms != alone.trace.arms)


@pytest.mark.parametrize("setting", [jax.threefry_partitionable(False), jax.default_prng_impl("rbg")])
def test_a_seed_means_the_same_under_any_setting_of_the_generator(setting):
    def sampler(key, t):  # makes a key of the default generator, one for each replication and pull
        return jax.random.uniform(jax.random.key(jax.random.bits(jax.random.fold_in(key, t))), (3, 2))

    with setting:
        bandit = lb.LinearBandit.changing_sets(sampler, np.ones(2), lb.noise.StudentT(3.0), arm_norm=2.0)
        known = {"horizon": 20, "key": jax.random.key(0), "trace": True}
        many, alone = (run("uniform", bandit, seeds=seeds, **known) for seeds in (np.arange(8), [3]))
        assert_same(many, alone, slice(3, 4))


def test_policies_of_one_key_meet_the_same_noise():
    bandit = bandit_of(1, 2)
    payoffs = [run(name, bandit, trace=True).trace.payoffs for name in ("tofu", "oful", "uniform", "mom")]
    for other in payoffs[1:]:
        np.testing.assert_array_equal(payoffs[0], other)
    law, mean = bandit.noise, float(bandit.means[0])
    noise_key = jax.random.fold_in(jax.random.fold_in(KEY, 2), 0)
    by_hand = law.payoff(law.stream(noise_key, jnp.float64)(jnp.array([1, 2, 300])), mean)
    np.testing.assert_allclose(payoffs[0][2, [0, 1, 299]], by_hand, rtol=1e-12)


def test_uniform_play_is_uniform():
    arms = run("uniform", bandit_of(5, 2), horizon=2000, num_seeds=20, trace=True).trace.arms
    counts = np.bincount(arms.ravel(), minlength=5)
    assert np.all(np.abs(counts - 8000) < 5 * np.sqrt(40_000 * 0.2 * 0.8))
    assert np.any(arms[0] != arms[1])


def test_float32_plays_the_same_noise(optimised):
    bandit = bandit_of()
    wide, narrow = (run("uniform", bandit, trace=True, dtype=dtype) for dtype in ("float64", "float32"))
    np.testing.assert_array_equal(wide.trace.arms, narrow.trace.arms)
    np.testing.assert_allclose(wide.trace.payoffs, narrow.trace.payoffs, rtol=3e-5, atol=1e-5)


# Records


@pytest.mark.parametrize(
    ("name", "horizon"),
    [("uniform", horizon) for horizon in (1, 129)]
    + [("oful", horizon) for horizon in (300, 1000)]  # with updates that are guarded, and not
    + [("mom", horizon) for horizon in (24, 257)],  # 24 is the least that MoM can play
)
def test_records_are_exact(name, horizon):
    bandit = bandit_of()
    result = run(name, bandit, horizon=horizon, trace=True, num_records=horizon)
    np.testing.assert_array_equal(result.rounds, np.arange(1, horizon + 1))
    gaps = bandit.means.max() - bandit.means
    np.testing.assert_allclose(result.regret, np.cumsum(gaps[result.trace.arms], axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.payoff, np.cumsum(result.trace.payoffs, axis=1), rtol=1e-10, atol=1e-10)


def test_which_rounds_are_recorded():
    bandit = bandit_of()
    np.testing.assert_array_equal(run("uniform", bandit, num_records=3).rounds, [100, 200, 300])
    np.testing.assert_array_equal(run("uniform", bandit, record_at=[1, 17]).rounds, [1, 17, 300])
    np.testing.assert_array_equal(run("uniform", bandit, record_at=[300]).rounds, [300])
    assert run("uniform", bandit).rounds.size == 200
    every, few = run("uniform", bandit, num_records=300), run("uniform", bandit, record_at=[1, 17])
    np.testing.assert_allclose(few.regret, every.regret[:, [0, 16, 299]], rtol=1e-13)


def test_regret_is_pseudo_regret():  # S1
    bandit = bandit_of(8, 3, lb.noise.StudentT(3.0, 10.0))
    result = run("oful", bandit, horizon=200, num_seeds=20, num_records=200, trace=True)
    assert np.all(np.diff(result.regret, axis=1) >= 0)
    gaps = bandit.means.max() - bandit.means
    np.testing.assert_allclose(result.regret[:, -1], gaps[result.trace.arms].sum(axis=1), rtol=1e-12)


def test_float32_sums_do_not_stall(optimised):
    bandit = lb.LinearBandit(np.array([[1.0], [0.9]]), np.array([1.0]), lb.noise.Gaussian(0.1))
    result = run("uniform", bandit, horizon=300_000, num_seeds=2, block_size=2, dtype="float32")
    exact = run("uniform", bandit, horizon=300_000, num_seeds=2, block_size=2)
    np.testing.assert_allclose(result.regret[:, -1], exact.regret[:, -1], rtol=2e-7)
    np.testing.assert_allclose(result.payoff[:, -1], exact.payoff[:, -1], rtol=2e-6)


@pytest.mark.parametrize("name", ["tofu", "menu"])
def test_memory_does_not_grow_with_the_horizon(name):
    # One program serves both; that its key is that of what is compiled, test_sweep_run.py says.
    bandit = bandit_of()
    policy, params = lb.make_policy(name, bandit, horizon=128_000)
    keys = {
        simulator.program_key(policy, params, bandit, horizon=horizon, num_records=10, dtype="float64")
        for horizon in (16_000, 128_000)  # whole stretches
    }
    assert len(keys) == 1


# Drift


@pytest.mark.timeout(280)
@pytest.mark.parametrize(("name", "horizon"), [("oful", 1_000_313), ("tofu", 99_711)])
def test_rank_one_updates_do_not_drift_in_a_million_pulls(optimised, name, horizon):
    assert -(-horizon // 128) % 4 == 3  # stretches of 128 pulls, the last three of them after the last refresh
    bandit = lb.dataset("S3")
    policy, params = lb.make_policy(name, bandit, horizon=horizon)

    def drift(state, arms, params):
        fresh = policy.refresh(state, arms, params)
        pairs = list(zip(state.design[1:3], fresh.design[1:3], strict=True))  # the inverse and the squared widths
        if name == "tofu":
            settled = state.root.inverses - state.root.image[:, None, :] * state.root.scaled[None]
            pairs += [(state.root.root, fresh.root.root), (settled, fresh.root.inverses)]
        far = [jnp.max(jnp.abs(kept - exact)) / jnp.max(jnp.abs(exact)) for kept, exact in pairs]
        return lb.Region(jnp.zeros(arms.shape[1]).at[: len(far)].set(jnp.stack(far)))

    watched = policy._replace(region=drift)
    result = lb.simulate(
        watched, params, bandit, horizon=horizon, num_seeds=1, key=KEY, dtype="float64", block_size=1, num_records=2
    )
    assert np.max(result.final_estimate) < 1e-11
    assert np.min(result.final_estimate[0, :2]) > 0  # there is a drift to see


# Blocks


@pytest.mark.parametrize(
    ("dim", "block", "seeds"),
    [(10, 16, 16), (20, 16, 8), (20, 64, 8), (40, 16, 8), (40, 24, 12), (20, 8, 8), (20, 4, 4), (20, 63, 63)],
)
def test_states_that_fill_a_cache_are_worked_on_in_halves(dim, block, seeds):
    bandit = bandit_of(4, dim)
    policy, params = lb.make_policy("tofu", bandit, horizon=100)
    batch = simulator._checked(
        policy, [params], bandit, horizon=100, num_seeds=2, key=KEY, dtype="float64", block_size=block
    )
    assert simulator._launch(batch, policy, False).side_by_side([], [leaf.values for leaf in batch.leaves]) == seeds


# Updates in turn


def test_updates_in_turn_play_what_single_ones_play(monkeypatch):
    horizon = 1021  # a prime: whole stretches, and a remainder that ends on a deferred update
    bandit = bandit_of(8, 4, lb.noise.Pareto(2.0), epsilon=0.5)
    policy, params = lb.make_policy("tofu", bandit, horizon=horizon, radius_scale=0.05)
    tofu_module = sys.modules["linbet_jax.policies.tofu"]  # the package has the function under this name
    root = tofu_module._symmetric_root
    monkeypatch.setattr(tofu_module, "_symmetric_root", lambda condition: root(condition)._replace(in_turn=()))
    monkeypatch.setattr(tofu_module, "tofu", tofu_module.tofu.__wrapped__)  # not what was made before
    single, _ = lb.make_policy("tofu", bandit, horizon=horizon, radius_scale=0.05)
    assert (len(policy.updates), len(single.updates)) == (2, 1)
    turned, alone = (
        lb.simulate(p, params, bandit, horizon=horizon, num_seeds=3, key=KEY, trace=True, dtype="float64")
        for p in (policy, single)
    )
    assert_same(turned, alone)
    np.testing.assert_allclose(turned.final_estimate, alone.final_estimate, rtol=1e-9, atol=1e-12)


def test_updates_are_used_in_turn_from_the_first_one_on():
    policy = lb.Policy(
        name="turns",
        init=lambda arms, params: jnp.zeros(2, jnp.int32),
        select=lambda key, state, arms, params: state[0] % 2,
        update=tuple(
            (lambda state, arms, index, payoffs, params, place=place: state.at[0].set(place + 1).at[1].add(1))
            for place in (0, 1)
        ),
        region=lambda state, arms, params: lb.Region(state.astype(jnp.float64)),
    )
    bandit = bandit_of(2, 2)
    for horizon in (1, 7, 400, 509):
        result = lb.simulate(
            policy, {}, bandit, horizon=horizon, num_seeds=2, key=KEY, trace=True, dtype="float64", num_records=3
        )
        np.testing.assert_array_equal(result.trace.arms, np.tile(np.arange(horizon) % 2, (2, 1)))
        np.testing.assert_array_equal(result.final_estimate[:, 1], horizon)
    with pytest.raises(ValueError, match=r"update=\(\): must be a function, or a tuple of at least one"):
        lb.simulate(policy._replace(update=()), {}, bandit, horizon=4, num_seeds=1, key=KEY, dtype="float64")


# Worlds that change


@pytest.mark.parametrize("name", ["oful", "menu", "tofu"])
def test_a_policy_for_a_fixed_set_is_refused_where_sets_change(name):
    arms = jnp.eye(3)
    changing = lb.LinearBandit.changing_sets(lambda key, t: arms, np.ones(3), lb.noise.StudentT(3.0), arm_norm=1.0)
    policy, params = lb.make_policy(name, bandit_of(3, 3), horizon=400)
    with pytest.raises(ValueError, match=f"policy {name}: init .*was made for a fixed decision set; make it for the"):
        lb.simulate(policy, params, changing, horizon=400, num_seeds=1, key=KEY)


def test_alternating_sets_and_the_best_of_each_round():  # S2
    sets = jnp.array([[[1.0, 0.0], [0.0, 0.5]], [[0.2, 0.0], [0.0, 1.0]]])
    bandit = lb.LinearBandit.changing_sets(
        lambda key, t: sets[t % 2], np.array([1.0, 1.0]), lb.noise.StudentT(3.0), arm_norm=1.0
    )
    best = lb.Policy(
        name="best",
        init=lambda arms, params: jnp.zeros(()),
        select=lambda key, state, arms, params: jnp.argmax(jnp.sum(arms, axis=1)),
        update=lambda state, arms, index, payoffs, params: state,
    )
    result = lb.simulate(best, (), bandit, horizon=200, num_seeds=3, key=KEY, dtype="float64", trace=True)
    assert np.all(result.regret == 0)
    np.testing.assert_array_equal(result.trace.arms[0, :4], [1, 0, 1, 0])  # pull 1 meets set 1
    worst = best._replace(select=lambda key, state, arms, params: jnp.argmin(jnp.sum(arms, axis=1)))
    result = lb.simulate(worst, (), bandit, horizon=200, num_seeds=3, key=KEY, dtype="float64")
    np.testing.assert_allclose(result.regret[:, -1], 100 * 0.5 + 100 * 0.8, rtol=1e-12)


def test_changing_sets_are_frozen_within_an_epoch():
    def sampler(key, t):
        return jax.random.uniform(jax.random.fold_in(key, t), (5, 3))

    bandit = lb.LinearBandit.changing_sets(sampler, np.ones(3) / 2, lb.noise.StudentT(3.0), arm_norm=np.sqrt(3))
    known = {"horizon": 400, "num_seeds": 2, "key": KEY, "dtype": "float64", "trace": True, "num_records": 400}
    policy, params = lb.make_policy("menu", bandit, horizon=400)
    result = lb.simulate(policy, params, bandit, **known)
    tofu = run("tofu", bandit, horizon=400, trace=True)
    steps = np.diff(np.concatenate([np.zeros((2, 1)), result.regret], axis=1), axis=1)
    assert policy.pulls_per_epoch < 400
    epoch = steps[:, : policy.pulls_per_epoch]
    np.testing.assert_allclose(epoch, epoch[:, :1] * np.ones_like(epoch), atol=1e-10)
    arms_key = jax.random.fold_in(jax.random.fold_in(KEY, 1), 2)
    means = np.asarray(sampler(arms_key, 1)) @ bandit.theta_star
    np.testing.assert_allclose(steps[1, 0], means.max() - means[result.trace.arms[1, 0]], rtol=1e-12)
    assert not tofu.health.any()


def test_a_fresh_instance_per_replication_is_told_its_own_norm():
    bandit = lb.dataset("S3", resample=True)
    policy, params = lb.make_policy("oful", bandit, horizon=300, radius_scale=0.05)
    result = lb.simulate(policy, params, bandit, horizon=300, num_seeds=3, key=KEY, dtype="float64", trace=True)
    assert not result.health.any()
    assert result.bandit == "S3, fresh instances"
    again = jax.random.wrap_key_data(result.key)
    assert jax.random.key_data(again).tolist() == jax.random.key_data(KEY).tolist()
    arms, theta = bandit.generator(jax.random.fold_in(jax.random.fold_in(KEY, 2), 3))
    own = lb.LinearBandit(np.asarray(arms), np.asarray(theta), bandit.noise, epsilon=0.5)
    assert own.best_mean == pytest.approx(3.10, rel=1e-6)
    policy, params = lb.make_policy("oful", own, horizon=300, radius_scale=0.05)
    alone = lb.simulate(policy, params, own, horizon=300, seeds=[2], key=KEY, dtype="float64", trace=True)
    np.testing.assert_array_equal(result.trace.arms[2:], alone.trace.arms)
    np.testing.assert_allclose(result.regret[2:], alone.regret, rtol=1e-6)


# Several settings at once


def test_a_grid_is_its_settings():
    bandit = bandit_of()
    policy, params = lb.make_policy("oful", bandit, horizon=300)
    scales = (1, 0.1, 0.01)  # the whole number is a float like the others
    known = {"horizon": 300, "num_seeds": 20, "key": KEY, "dtype": "float64"}
    grid = lb.simulate_grid(policy, [params._replace(radius_scale=s) for s in scales], bandit, **known)
    for scale, together in zip(scales, grid, strict=True):
        alone = lb.simulate(policy, params._replace(radius_scale=float(scale)), bandit, **known)
        np.testing.assert_allclose(together.regret, alone.regret, rtol=1e-12, atol=1e-12)
        assert together.params.radius_scale == scale
    assert repr(grid).split("\n")[1].startswith(f" Result(OFUL ×0.1, bandit {bandit.name}, seeds 20, pulls 300, ")
    twice = lb.simulate_grid(policy, [params, params], bandit, **known)
    np.testing.assert_array_equal(twice[0].regret, twice[1].regret)


def test_one_trace_per_policy_shape_and_dtype():
    with programs_at_most(1):
        for epsilon, delta, ridge, scale, horizon in [
            (1.0, 0.1, 1.0, 1.0, 1_000),
            (0.5, 0.2, 2.0, 0.1, 1_000),
            (0.7, 0.3, 1.5, 0.0, 2_000),  # of one power of ten, as the rational root sees it
        ]:
            bandit = bandit_of(epsilon=epsilon, seed=int(10 * epsilon))
            policy, params = lb.make_policy(
                "tofu", bandit, horizon=horizon, delta=delta, ridge=ridge, radius_scale=scale
            )
            lb.simulate(policy, params, bandit, horizon=horizon, num_seeds=2, key=KEY, dtype="float64")
            lb.simulate(policy, params, bandit, horizon=horizon, num_seeds=33, key=KEY, dtype="float64")
        with pytest.raises(AssertionError, match="traced > 1 times"):
            lb.simulate(policy, params, bandit, horizon=horizon, num_seeds=2, key=KEY, dtype="float32")


# What is compiled


class Traced(Exception):
    """Ends a simulation before it is compiled."""


def jaxpr_of(name, bandit, horizon, **options):
    policy, params = lb.make_policy(name, bandit, horizon=horizon, **options)
    original = launches.lower

    def stop(launch, arguments):
        raise Traced(original(launch, arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launches, "_PROGRAMS", {})
        patch.setattr(launches, "lower", stop)
        with pytest.raises(Traced) as stopped:
            lb.simulate(policy, params, bandit, horizon=horizon, num_seeds=1, key=KEY, dtype="float64")
    return stopped.value.args[0]


def test_menu_estimates_once_an_epoch():  # P16
    bandit = bandit_of()
    text = str(jaxpr_of("menu", bandit, 1000).jaxpr)
    groups = lb.make_policy("menu", bandit, horizon=1000)[0].pulls_per_epoch
    lines = [line for line in text.splitlines() if "dot_general" in line]
    products = [line for line in lines if f"{bandit.dim},{groups}]" in line]
    assert len(products) == 3  # an epoch's estimates, and their coordinates on CPU and elsewhere
    assert not any(f"1000,{bandit.dim},{groups}" in line for line in products)  # and not batched over pulls
    assert not any(f"{groups},{groups}]" in line for line in lines)  # nor are all distances kept


@pytest.mark.parametrize(
    ("name", "options", "allowed"),
    [
        ("menu", {}, False),
        ("tofu", {}, False),
        ("tofu", {"root": "cholesky"}, False),
        ("tofu", {"epochs": 3}, False),
        ("tofu", {"method": "full"}, True),  # the reference factors V anew by a symmetric eigendecomposition
        ("mom", {}, False),
        ("crt", {}, False),
        ("oful", {}, False),
        ("uniform", {}, False),
        ("greedy", {}, False),
    ],
)
def test_no_lapack_in_a_step_and_no_sort(name, options, allowed):
    horizon = 600 if name == "tofu" else 340  # TOFU's first 512 pulls have a state of their own
    text = jaxpr_of(name, bandit_of(), horizon, **options).lower().as_text()
    assert ("lapack_" in text) == allowed
    assert "stablehlo.sort" not in text  # with one a program cannot be kept in the compile cache


# Health


def test_health_names_the_first_bad_pull():
    bandit = bandit_of()

    def policy_that(breaks):
        return lb.Policy(
            name="breaks",
            init=lambda arms, params: jnp.zeros((), params["one"].dtype),
            select=lambda key, state, arms, params: jnp.zeros((), jnp.int32),
            update=breaks,
        )

    state_breaks = policy_that(lambda s, x, i, y, p: jnp.where(s >= 41, jnp.nan, s + 1))
    with pytest.warns(UnhealthyWarning, match="breaks: 2 of 2 replications met .*, first seed 0 at pull 42: ") as said:
        result = lb.simulate(state_breaks, {"one": 1.0}, bandit, horizon=300, num_seeds=2, key=KEY, dtype="float64")
    np.testing.assert_array_equal(result.health, [42, 42])
    assert result.notes == (str(said[0].message),)
    assert [warning.filename for warning in said] == [__file__]
    outside = policy_that(lambda s, x, i, y, p: s)._replace(
        select=lambda key, state, arms, params: jnp.asarray(arms.shape[0])
    )
    with pytest.warns(UnhealthyWarning, match="an arm index out of range"):
        result = lb.simulate(outside, {"one": 1.0}, bandit, horizon=300, num_seeds=2, key=KEY, dtype="float64")
    np.testing.assert_array_equal(result.health, [1, 1])
    fine = policy_that(lambda s, x, i, y, p: s + 1)
    result = lb.simulate(fine, {"one": 1.0}, bandit, horizon=300, num_seeds=2, key=KEY, dtype="float64")
    assert not result.health.any()
    assert result.notes == ()


def test_a_grid_warns_once_of_all_its_settings_and_notes_each():
    policy = lb.Policy(
        name="late",
        init=lambda arms, params: jnp.zeros((), params["last"].dtype),
        select=lambda key, state, arms, params: jnp.zeros((), jnp.int32),
        update=lambda state, arms, index, payoffs, params: jnp.where(state >= params["last"], jnp.nan, state + 1),
    )
    grid = [{"last": last} for last in (20.0, 1e9, 7.0)]
    known = {"horizon": 30, "seeds": [5, 3], "key": KEY, "dtype": "float64", "separate": True}
    with pytest.warns(UnhealthyWarning) as said:
        results = lb.simulate_grid(policy, grid, bandit_of(), **known)
    assert len(said) == 1
    assert "late: 4 of 6 replications met" in str(said[0].message)
    assert "first seed 5 at pull 8:" in str(said[0].message)
    first, second, third = (result.notes for result in results)
    assert "late: 2 of 2 replications met" in first[0]
    assert "at pull 21" in first[0]
    assert second == ()
    assert "at pull 8" in third[0]
    lb.simulate_grid(policy, grid, bandit_of(), warn=False, **known)


def test_health_sees_a_payoff_that_overflows():
    huge = lb.noise.CenteredPareto(1.01, 1e38)  # a payoff of 3.4e38 and more is infinite in float32
    bandit = lb.LinearBandit(np.eye(2), np.ones(2), huge, epsilon=0.005)
    policy, params = lb.make_policy("uniform", bandit, horizon=100)
    with pytest.warns(UnhealthyWarning, match="uniform: 4 of 4 replications"):
        result = lb.simulate(policy, params, bandit, horizon=100, num_seeds=4, key=KEY, dtype="float32", trace=True)
    infinite = ~np.isfinite(result.trace.payoffs)
    assert infinite.any(axis=1).all()
    np.testing.assert_array_equal(result.health, infinite.argmax(axis=1) + 1)


def test_health_sees_a_radius_that_overflows():
    arms, theta = np.eye(3), np.array([1.0, 2.0, 30.0]) * 1e12
    bandit = lb.LinearBandit(arms, theta, lb.noise.StudentT(3.0, 1e12))
    policy, params = lb.make_policy("crt", bandit, horizon=100, radius="paper")  # squares b: beyond float32
    with pytest.warns(UnhealthyWarning, match="crt: 2 of 2 replications"):
        result = lb.simulate(policy, params, bandit, horizon=100, num_seeds=2, key=KEY, dtype="float32")
    assert np.all(result.health > 0)
    assert not run("crt", bandit, horizon=100, options={"radius": "paper"}).health.any()


def test_numbers_beyond_float32_are_refused():
    bandit = lb.LinearBandit(np.eye(3), np.array([1.0, 2.0, 30.0]) * 1e20, lb.noise.StudentT(3.0, 1e20))
    with pytest.raises(ValueError, match="params: .* is out of the range of float32"):
        run("tofu", bandit, dtype="float32")
    policy, params = lb.make_policy("oful", bandit_of(), horizon=300)
    tiny = params._replace(delta=1e-50)
    with pytest.raises(ValueError, match="params: .*1e-50.* is out of the range of float32"):
        lb.simulate(policy, tiny, bandit_of(), horizon=300, num_seeds=1, key=KEY, dtype="float32")


def worlds_with_arms_of_norm_10():
    arms = np.random.default_rng(3).normal(size=(6, 3))
    arms *= 10 / np.linalg.norm(arms, axis=1).max()
    theta, law = np.ones(3) / 10, lb.noise.StudentT(3.0)
    traced = jnp.asarray(arms)
    return {
        "fixed": lb.LinearBandit(arms, theta, law, arm_norm=1e9),  # what is known counts, not a bound on it
        "changing": lb.LinearBandit.changing_sets(lambda key, t: traced, theta, law, arm_norm=10.0),
        "fresh": lb.LinearBandit.resampled(lambda key: (traced, theta), law, mean_bound=10.0),
        "fresh, bounded": lb.LinearBandit.resampled(lambda key: (traced, theta), law, mean_bound=10.0, arm_norm=10.0),
    }


@pytest.mark.parametrize(("dtype", "least"), [("float32", 100 / 2**16), ("float64", 100 / 2**45)])
@pytest.mark.parametrize("world", worlds_with_arms_of_norm_10())
def test_a_ridge_that_rounding_would_swallow_is_refused(world, dtype, least, monkeypatch):
    bandit = worlds_with_arms_of_norm_10()[world]
    policy, params = lb.make_policy("greedy", bandit, horizon=9)
    known = {"horizon": 9, "num_seeds": 1, "key": KEY, "dtype": dtype}
    with pytest.raises(ValueError, match=rf"^ridge=.*: must be at least .* in {dtype} for arms as long as 10, or"):
        lb.simulate(policy, params._replace(ridge=0.999 * least), bandit, **known)
    monkeypatch.setattr(launches, "_program", lambda launch, arguments: pytest.fail("as it should"))
    with pytest.raises(pytest.fail.Exception, match="as it should"):
        lb.simulate(policy, params._replace(ridge=1.001 * least), bandit, **known)


def test_a_ridge_of_ones_own_is_ones_own(monkeypatch):
    bandit = worlds_with_arms_of_norm_10()["fixed"]
    policy, params = lb.make_policy("greedy", bandit, horizon=9)
    monkeypatch.setattr(launches, "_program", lambda launch, arguments: pytest.fail("as it should"))
    with pytest.raises(pytest.fail.Exception, match="as it should"):
        lb.simulate(
            policy._replace(about=type(policy.about)()),
            params._replace(ridge=1e-9),
            bandit,
            horizon=9,
            num_seeds=1,
            key=KEY,
            dtype="float32",
        )


@pytest.mark.parametrize("dim", [5, 20])
def test_the_least_ridge_keeps_the_widths_of_float32(dim):
    """Of a fixed set, played widest arm first until the first refresh, beside twice the loss."""
    arms = np.random.default_rng(dim).normal(size=(60, dim))
    ridge = float(np.max(np.sum(arms**2, axis=1))) / 2**16
    fixed = lb.policies.FixedSet(dim)

    def worst(ridge):
        def step(_, carry):
            narrow, wide = carry
            widest = jnp.argmax(wide.squared_widths)
            return tuple(fixed.add(design, a, widest)[0] for design, a in ((narrow, small), (wide, large)))

        small, large = jnp.asarray(arms, jnp.float32), jnp.asarray(arms)
        start = tuple(fixed.init(a, jnp.asarray(ridge, a.dtype)) for a in (small, large))
        narrow, wide = jax.lax.fori_loop(0, simulator.STRETCH, step, start)
        return float(jnp.max(jnp.abs(jnp.sqrt(jnp.maximum(narrow.squared_widths, 0) / wide.squared_widths) - 1)))

    assert worst(100 * ridge) < 0.01
    assert worst(ridge) < 0.25
    assert worst(ridge / 30) > 0.25


def test_health_sees_a_sum_that_overflows():
    bandit = lb.LinearBandit(np.eye(3), np.array([1.0, 2.0, 3.0]) * 1e37, lb.noise.StudentT(3.0, 1e36))
    policy, params = lb.make_policy("uniform", bandit, horizon=300)
    with pytest.warns(UnhealthyWarning, match="uniform: 2 of 2 replications"):
        result = lb.simulate(policy, params, bandit, horizon=300, num_seeds=2, key=KEY, dtype="float32")
    assert np.all(~np.isfinite(result.payoff[:, -1]))
    assert np.all((result.health > 0) & (result.health <= 300))


@pytest.mark.parametrize("name", ["oful", "tofu"])
def test_float32_recovers_from_the_first_updates_with_a_small_ridge(name):
    bandit = lb.dataset("S3")
    known = {"horizon": 1000, "num_seeds": 8, "key": KEY, "block_size": 8}
    policy, params = lb.make_policy(name, bandit, horizon=1000, ridge=1e-3, radius_scale=0.1)
    narrow, wide = (lb.simulate(policy, params, bandit, dtype=dtype, **known) for dtype in ("float32", "float64"))
    assert narrow.regret[:, -1].mean() == pytest.approx(wide.regret[:, -1].mean(), rel=0.1)


def test_health_sees_a_mean_that_the_law_does_not_have():
    wrong = lb.LinearBandit.changing_sets(
        lambda key, t: jnp.where(t < 5, 1.0, -1.0) * jnp.eye(2), np.ones(2), lb.noise.Pareto(2.5), arm_norm=1.0
    )
    policy, params = lb.make_policy("uniform", wrong, horizon=64)
    with pytest.warns(UnhealthyWarning, match="a mean that the law does not have, first seed 0 at pull 5: "):
        result = lb.simulate(policy, params, wrong, horizon=64, num_seeds=2, key=KEY, dtype="float64")
    np.testing.assert_array_equal(result.health, [5, 5])


# A user's own policy


def test_a_users_own_triple_runs_unchanged():
    def init(arms, params):
        return {"sums": jnp.zeros(6), "counts": jnp.zeros(6)}

    def select(key, state, arms, params):
        explore = jax.random.uniform(key) < params["explore"]
        means = state["sums"] / jnp.maximum(state["counts"], 1)
        return jnp.where(explore, jax.random.randint(jax.random.fold_in(key, 1), (), 0, 6), jnp.argmax(means))

    def update(state, arms, index, payoffs, params):
        return {"sums": state["sums"] + payoffs.sum(), "counts": state["counts"] + 1}

    policy = lb.Policy(name="mine", init=init, select=select, update=update)
    result = lb.simulate(policy, {"explore": 0.1}, bandit_of(), horizon=500, num_seeds=3, key=KEY, dtype="float64")
    assert result.name == "mine"
    assert result.final_estimate is None
    assert result.trace is None
    by_four = policy._replace(pulls_per_epoch=4)
    result = lb.simulate(
        by_four, {"explore": 1.0}, bandit_of(), horizon=502, num_seeds=3, key=KEY, dtype="float64", trace=True
    )
    epochs = result.trace.arms[:, :500].reshape(3, 125, 4)
    assert np.all(epochs == epochs[:, :, :1])
    assert np.unique(result.trace.arms).size == 6


def test_a_law_of_ones_own_that_is_no_pytree():
    class Uniform:
        """Uniform noise on [-1, 1]."""

        name, max_order, mean_range = "uniform", float("inf"), (-float("inf"), float("inf"))

        def standard(self, key, dtype=None):
            return jax.random.uniform(key, (), dtype, -1, 1)

        def payoff(self, standard, mean):
            return mean + standard

        def central_moment(self, order, mean=0.0):
            return np.full(np.shape(mean), 1 / (order + 1))

        def raw_moment(self, order, mean=0.0):
            return np.full(np.shape(mean), 10.0)

        def moment_bounds(self, order, low, high):
            return 10.0, 1 / (order + 1)

        def std(self, mean=0.0):
            return np.full(np.shape(mean), 3**-0.5)

        def check_means(self, means):
            pass

    result = run("tofu", bandit_of(noise=Uniform()), num_seeds=2, trace=True)
    assert not result.health.any()
    means = bandit_of().means[result.trace.arms]
    assert np.all(np.abs(result.trace.payoffs - means) <= 1)


@pytest.mark.parametrize("name", ["crt"])  # TOFU steps without jit in test_policies.py
def test_without_jit_the_same_arms_are_played(name):  # P18
    bandit = bandit_of()
    with jax.debug_nans(True):
        compiled = run(name, bandit, horizon=2, num_seeds=2, trace=True, block_size=2)
        with jax.disable_jit():
            plain = run(name, bandit, horizon=2, num_seeds=2, trace=True, block_size=2)
    np.testing.assert_array_equal(plain.trace.arms, compiled.trace.arms)
    np.testing.assert_allclose(plain.trace.payoffs, compiled.trace.payoffs, rtol=1e-12)


# Wrong input


def test_a_mesh_of_the_callers_changes_nothing():
    plain = run("uniform", bandit_of(), trace=True)
    mesh = jax.make_mesh((len(jax.devices()),), ("own",))
    launches._PROGRAMS.clear()
    with jax.set_mesh(mesh):
        assert_same(run("uniform", bandit_of(), trace=True), plain)
        assert jax.sharding.get_mesh() == mesh


@pytest.mark.parametrize(
    "inside",
    [
        lambda f: jax.jit(lambda: f(0.1, KEY))(),
        lambda f: jax.jit(lambda delta: f(delta, KEY))(0.1),
        lambda f: jax.vmap(lambda delta: f(delta, KEY))(jnp.array([0.1, 0.2])),
        lambda f: jax.vmap(lambda key: f(0.1, key))(jax.random.split(KEY, 2)),
        lambda f: jax.grad(lambda delta: f(delta, KEY))(0.1),
    ],
    ids=["jit", "traced by jit", "traced by vmap", "key", "grad"],
)
def test_inside_of_a_transformation_nothing_is_simulated(inside):
    bandit = bandit_of()
    policy, params = lb.make_policy("oful", bandit, horizon=9)
    with pytest.raises(ValueError, match="^simulate runs on the host: call it outside jit, vmap, grad and the like"):
        inside(
            lambda delta, key: lb.simulate(
                policy, params._replace(delta=delta), bandit, horizon=9, num_seeds=1, key=key
            ).regret.sum()
        )
    with pytest.raises(ValueError, match="^tune runs on the host: call it outside"):
        inside(lambda delta, key: lb.tune(["oful"], bandit, (delta,), horizon=9, key=key))
    assert jax.jit(lambda: len(lb.dataset("S1").name))() == 2  # what is known on the host is made there


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"horizon": 0}, "horizon=0: must be a whole number, at least 1"),
        ({"horizon": 2.5}, "horizon=2.5: must be"),
        ({"horizon": 301}, "horizon=301: oful's parameters were made for"),
        ({"num_seeds": 0}, "num_seeds=0: must be"),
        ({"num_seeds": 2, "seeds": [1]}, "exactly one of the two"),
        ({"num_seeds": None}, "exactly one of the two"),
        ({"num_seeds": None, "seeds": []}, "must be a non-empty"),
        ({"num_seeds": None, "seeds": [1, 1]}, "must be distinct"),
        ({"num_seeds": None, "seeds": [-1]}, r"must lie in 0..2\^32 - 1"),
        ({"num_seeds": None, "seeds": [0.5]}, "array of integers"),
        ({"num_records": 0}, "num_records=0"),
        ({"record_at": [0, 5]}, "must increase within 1..300"),
        ({"record_at": [5, 5]}, "must increase"),
        ({"record_at": [301]}, "must increase"),
        ({"key": 0}, "must be one typed key"),
        ({"key": jax.random.PRNGKey(0)}, "must be one typed key"),
        ({"dtype": "float16"}, "allowed are float32 and float64"),
        ({"dtype": int}, "allowed are float32 and float64"),
        ({"block_size": 0}, "block_size=0"),
        ({"block_size": 65}, "block_size=65: must be at most 64 on CPU"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"devices": []}, "devices=.*: must name at least one device"),
        ({"devices": ["cpu"]}, "devices=.*: must name at least one device"),
        ({"devices": jax.devices()[:1] * 2}, "devices=.*: must name at least one device, each once"),
        ({"progress": 3}, "progress=3: must be 'auto', True, False or a function of two counts"),
        ({"num_seeds": None, "seeds": [[1], [2, 3]]}, "seeds=.*: must be a non-empty one-dimensional"),
        ({"num_seeds": 10**12}, r"num_seeds=1000000000000: must be at most 2\^32"),
    ],
)
def test_wrong_input_is_refused_before_anything_compiles(known, message):
    bandit = bandit_of()
    policy, params = lb.make_policy("oful", bandit, horizon=300)
    programs = len(launches._PROGRAMS)
    with pytest.raises(ValueError, match=message):
        lb.simulate(policy, params, bandit, **{"horizon": 300, "num_seeds": 2, "key": KEY, "dtype": "float64", **known})
    assert len(launches._PROGRAMS) == programs


def test_objects_in_the_wrong_place_are_named():
    bandit = bandit_of()
    policy, params = lb.make_policy("oful", bandit, horizon=300)
    known = {"horizon": 300, "num_seeds": 1, "key": KEY}
    with pytest.raises(ValueError, match="policy='oful': must be a linbet_jax.Policy"):
        lb.simulate("oful", params, bandit, **known)
    with pytest.raises(ValueError, match="bandit='S3': must be a linbet_jax.LinearBandit"):
        lb.simulate(policy, params, "S3", **known)
    with pytest.raises(ValueError, match="bandit=OfulParams: must be"):
        lb.simulate(policy, bandit, params, **known)
    with pytest.raises(ValueError, match="params=dict: must be the NamedTuple"):
        lb.simulate(policy, {"ridge": 1.0}, bandit, **known)


def test_a_policy_for_another_dimension_is_refused():
    policy, params = lb.make_policy("oful", bandit_of(5, 3), horizon=300)
    with pytest.raises(ValueError, match=r"policy oful.*arms of dimension 4"):
        lb.simulate(policy, params, bandit_of(5, 4), horizon=300, num_seeds=2, key=KEY, dtype="float64")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            {"select": lambda key, state, arms, params: jnp.zeros(2, jnp.int32)},
            r"select must return one integer, not int32\[2\]",
        ),
        ({"select": lambda key, state, arms, params: arms[0, 0]}, r"select must return one integer, not float64\[\]"),
        (
            {"update": lambda state, arms, i, y, params: state + arms[i]},
            r"update changes the state from float64\[\] to float64\[3\]",
        ),
        ({"update": lambda state, arms, i, y, params: (state, state)}, "update must return a state of the structure"),
        (
            {"update": lambda state, arms, i, y, params: state + arms[i] @ jnp.ones(7)},
            "update does not fit 6 arms of dimension 3",
        ),
        (
            {"update": lambda state, arms, i, y, params: params.missing},
            "update does not fit.*has no attribute.*parameter",
        ),
        (
            {"select": lambda key, state, arms, params: 1 if state > 0 else 0},
            "select cannot be compiled: use jnp.where",
        ),
        (
            {"update": lambda state, arms, i, y, params: state + np.array(y)[0]},
            "update cannot be compiled: use jax.numpy",
        ),
        ({"update": lambda state, arms, i, y, params: state + int(i)}, "update cannot be compiled: leave arrays"),
        ({"update": lambda state, arms, i, y, params: state.astype(jnp.float32)}, r"update changes the state from"),
        ({"region": lambda state, arms, params: state["theta"]}, "policy broken: region does not fit"),
        (
            {"region": lambda s, arms, params: lb.Region(jnp.zeros((2, 2)))},
            r"region's center must have the shape \[3\]",
        ),
        ({"finite": lambda state: jnp.ones(2, bool)}, "finite must return one truth value, not bool"),
        ({"refresh": lambda state, arms, params: jnp.zeros(2)}, "refresh changes the state"),
        ({"pulls_per_epoch": 0}, "pulls_per_epoch=0: must be a whole number"),
    ],
)
def test_a_users_policy_that_breaks_the_protocol_is_told_how(broken, message):
    policy = lb.Policy(
        name="broken",
        init=lambda arms, params: jnp.zeros((), jnp.float64),
        select=lambda key, state, arms, params: jnp.zeros((), jnp.int32),
        update=lambda state, arms, index, payoffs, params: state,
    )._replace(**broken)
    with pytest.raises(ValueError, match=message):
        lb.simulate(policy, (), bandit_of(), horizon=10, num_seeds=1, key=KEY, dtype="float64")


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("tofu", "radius_scale", -1.0),
        ("tofu", "radius_scale", float("nan")),
        ("tofu", "delta", 2.0),
        ("tofu", "raw_moment_bound", -1.0),
        ("crt", "ridge", -1.0),
        ("oful", "theta_norm", -5.0),
        ("oful", "noise_scale", -1.0),
        ("menu", "epsilon", 1.5),
        ("mom", "central_moment_bound", -2.0),
    ],
)
def test_parameters_replaced_by_hand_are_checked_too(name, field, value):
    bandit = bandit_of()
    policy, params = lb.make_policy(name, bandit, horizon=400)
    with pytest.raises(ValueError, match=rf"{field}=.*must be"):
        lb.simulate(policy, params._replace(**{field: value}), bandit, horizon=400, num_seeds=1, key=KEY)


def test_what_a_shape_was_made_for_cannot_be_replaced():
    bandit = bandit_of()
    policy, params = lb.make_policy("mom", bandit, horizon=2000)
    with pytest.raises(ValueError, match=r"delta=1e-06.*make_policy again"):
        lb.simulate(policy, params._replace(delta=1e-6), bandit, horizon=2000, num_seeds=1, key=KEY)
    for options in ({"method": "full"}, {"epochs": 3}):
        policy, params = lb.make_policy("tofu", bandit, horizon=50, **options)
        with pytest.raises(ValueError, match=r"horizon=400: this tofu keeps at most 50 pulls"):
            lb.simulate(policy, params._replace(horizon=400.0), bandit, horizon=400, num_seeds=1, key=KEY)


def test_pulls_are_counted_in_32_bits():
    slow = lb.Policy(
        name="slow",
        init=lambda arms, params: jnp.zeros(()),
        select=lambda key, state, arms, params: jnp.zeros((), jnp.int32),
        update=lambda state, arms, index, payoffs, params: state,
        pulls_per_epoch=100_000,
    )
    with pytest.raises(ValueError, match=r"horizon=2147483348: must be below 2147283648"):
        lb.simulate(slow, (), bandit_of(), horizon=2**31 - 300, num_seeds=1, key=KEY)
    with pytest.raises(ValueError, match="does not fit into 32 bits"):
        lb.simulate(slow, {"n": np.uint32(4e9)}, bandit_of(), horizon=100_000, num_seeds=1, key=KEY)


def test_settings_of_different_structure_are_refused():
    bandit = bandit_of()
    policy, params = lb.make_policy("oful", bandit, horizon=300)
    known = {"horizon": 300, "num_seeds": 2, "key": KEY, "dtype": "float64"}
    with pytest.raises(ValueError, match="must hold at least one setting"):
        lb.simulate_grid(policy, [], bandit, **known)
    with pytest.raises(ValueError, match="must share one structure"):
        lb.simulate_grid(policy, [params, lb.policies.GreedyParams(1.0, 300.0)], bandit, **known)
    unchecked = policy._replace(about=type(policy.about)())
    with pytest.raises(ValueError, match="one shape"):
        lb.simulate_grid(unchecked, [params, params._replace(ridge=np.ones(2))], bandit, **known)


def test_separate_settings_have_the_same_bits_alone_and_in_any_company(optimised):
    bandit = bandit_of()
    policy, params = lb.make_policy("oful", bandit, horizon=300)
    grid = [params._replace(radius_scale=scale, ridge=ridge) for scale, ridge in ((1.0, 1.0), (0.1, 2.0), (0.3, 1.0))]
    known = {"horizon": 300, "num_seeds": 10, "key": KEY, "dtype": "float64", "separate": True}
    together = lb.simulate_grid(policy, grid, bandit, **known)
    keys = {
        simulator.program_key(policy, setting, bandit, horizon=300, num_records=200, dtype="float64")
        for setting in (*grid, params._replace(delta=0.3))
    }
    assert len(keys) == 1
    for setting, result in zip(grid, together, strict=True):
        [alone] = lb.simulate_grid(policy, [setting], bandit, **known)
        assert alone.compile_seconds == 0.0  # one program serves one setting and three
        np.testing.assert_array_equal(alone.regret, result.regret)
        np.testing.assert_array_equal(alone.payoff, result.payoff)
    longer = simulator.program_key(policy, params, bandit, horizon=299, num_records=200, dtype="float64")
    assert longer in keys  # from one stretch on, one program serves every horizon
    for change in ({"horizon": 99}, {"num_records": 100}, {"dtype": "float32"}):
        other = {"horizon": 300, "num_records": 200, "dtype": "float64", **change}
        assert simulator.program_key(policy, params, bandit, **other) not in keys


def test_progress_is_told_and_changes_no_number():  # W4, the library's half
    seen = []
    bandit = bandit_of()
    told = run("oful", bandit, num_seeds=40, progress=lambda done, total: seen.append((done, total)))
    quiet = run("oful", bandit, num_seeds=40)
    np.testing.assert_array_equal(told.regret, quiet.regret)
    assert seen == [(16, 40), (32, 40), (40, 40)]
    text = str(jaxpr_of("oful", bandit, 300).jaxpr)
    assert "callback" not in text


@functools.cache
def _counter(capacity):
    """A policy that counts its pulls, in a buffer that holds so many."""
    return Policy(
        name="counter",
        init=lambda arms, params: jnp.zeros((), jnp.int32),
        select=lambda key, state, arms, params: jnp.zeros((), jnp.int32),
        update=lambda state, arms, index, payoffs, params: state + 1,
        buffers=Buffers(overflowed=lambda state: state > capacity, enlarge=lambda: _counter(4 * capacity)),
    )


def test_progress_waits_for_replications_that_are_repeated():
    seen = []
    result = lb.simulate(
        _counter(20),
        {"ridge": 1.0},
        lb.dataset("S2"),
        horizon=60,
        num_seeds=4,
        key=KEY,
        dtype="float64",
        block_size=4,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert result.reruns == 4
    assert seen[0] == (0, 4)
    assert seen[-1] == (4, 4)


def test_programs_that_close_over_tables_are_bounded_and_let_go_of_them(monkeypatch):
    monkeypatch.setattr(launches, "_PROGRAMS", {})
    monkeypatch.setattr(launches, "_MAX_BYTES", 500)
    tables = []

    def play(rows):
        table = jnp.arange(50.0 + rows)
        tables.append(weakref.ref(table))
        policy = lb.Policy(
            name="tabled",
            init=lambda arms, params: jnp.zeros((), jnp.int32),
            select=lambda key, state, arms, params: (table[state] * 0).astype(jnp.int32),
            update=lambda state, arms, index, payoffs, params: state + 1,
        )
        lb.simulate(policy, {}, bandit_of(), horizon=5, num_seeds=1, key=KEY, dtype="float64", block_size=1)

    for rows in range(3):
        play(rows)
    assert len(launches._PROGRAMS) == 1
    jax.clear_caches()
    gc.collect()
    assert [table() is None for table in tables] == [True, True, False]


def test_what_python_shows_is_one_line():
    bandit = bandit_of()
    result = run("menu", bandit, horizon=400, num_seeds=2, trace=True, coverage=True)
    error = np.std(result.regret[:, -1], ddof=1) / np.sqrt(2)
    mean = result.regret[:, -1].mean()
    assert repr(result).startswith(
        f"Result(menu, bandit {bandit.name}, seeds 2, pulls 400, final regret {mean:.4g} (s.e. {error:.2g}), "
    )
    assert "\n" not in repr(result)
    assert len(repr(result)) < 150
    assert "<tr><th>policy</th><td>menu</td></tr>" in result._repr_html_()
    assert repr(result.trace) == "Trace(2 seeds, 400 pulls)"
    assert repr(result.coverage).startswith("Coverage(2 of 2 seeds covered, worst ratio 0.")
    ill = dataclasses.replace(result, health=np.array([0, 7]))
    assert repr(ill).endswith(", unhealthy 1 seed, left out)")
    policy, _ = lb.make_policy("menu", bandit, horizon=400)
    assert repr(policy) == f"Policy('menu', pulls_per_epoch={policy.pulls_per_epoch}, k={policy.pulls_per_epoch}, N=1)"


def test_a_list_of_results_is_a_list_that_shows_itself_line_by_line():
    known = {
        "name": "menu",
        "bandit": "S3",
        "params": {"radius_scale": 0.1},
        "rounds": np.array([400]),
        "seeds": np.arange(2),
    }
    known |= {"regret": np.ones((2, 1)), "payoff": np.ones((2, 1)), "health": np.zeros(2, int), "dtype": "float64"}
    one = lb.Result(**{field.name: known.get(field.name) for field in dataclasses.fields(lb.Result)})
    runs = lb.ResultList([one, dataclasses.replace(one, params={"radius_scale": 1.0})])
    assert isinstance(runs, list)
    assert (type(runs[0]), type(runs[-1:]), type([*runs])) == (lb.Result, lb.ResultList, list)
    assert runs == list(runs)
    assert jax.tree.map(lambda result: result.name, runs) == ["menu", "menu"]
    end = "bandit S3, seeds 2, pulls 400, final regret 1 (s.e. 0), final payoff 1 (s.e. 0), dtype float64)"
    assert repr(runs) == f"[Result(MENU ×0.1, {end},\n Result(MENU, {end}]"
    assert "MENU, a 1, bandit S3," in repr(
        lb.ResultList(dataclasses.replace(one, params={"a": value}) for value in (1, 2))
    )
    shown = lb.ResultList([runs[0], dataclasses.replace(runs[1], name="<b>", health=np.array([0, 7]))])
    table = shown._repr_html_()
    assert table.startswith(
        "<table><thead><tr><th>policy</th><th>bandit</th><th>seeds</th><th>pulls</th><th>final regret</th>"
    )
    assert table.count("<tr>") == 3
    assert "<tr><th>MENU ×0.1</th><td>S3</td><td>2</td><td>400</td>" in table
    assert "<td></td></tr><tr><th>&lt;b&gt;</th>" in table
    assert table.endswith("<td>1 seed, left out</td></tr></table>")
    for other in (lb.ResultList(), lb.ResultList(["text"])):
        assert repr(other) == repr(list(other))
        assert other._repr_html_() is None


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            {"radius": lambda updates, log_det, params: jnp.ones(3)},
            r"radius must return one number, not an array \[3\]",
        ),
        ({"observe": lambda payoffs, number, params: payoffs}, r"observe must return one number, not an array \[1\]"),
        (
            {"adapt": lambda y, value, width, params: (y[None], None)},
            r"adapt must return one number, not an array \[1\]",
        ),
    ],
)
def test_a_function_given_to_the_builder_is_named_when_it_returns_an_array(functions, message):
    bandit = lb.dataset("S3")
    radius = {"radius": lambda updates, log_det, params: jnp.ones(())}
    policy = lb.policies.ridge_policy("mine", lb.policies.design_of(bandit), **(radius | functions))
    _, params = lb.make_policy("oful", bandit, horizon=20)
    with pytest.raises(ValueError, match=f"policy mine: {message}"):
        lb.simulate(policy, params, bandit, horizon=20, num_seeds=1, key=jax.random.key(0))


@pytest.mark.parametrize("name", ["oful", "crt", "tofu"])
def test_a_policy_of_another_decision_set_is_refused_in_a_sentence(name):
    policy, params = lb.make_policy(name, lb.dataset("S3"), horizon=20)
    with pytest.raises(ValueError, match=r"it was made for another decision set \(shapes \[20\] and \[10\] meet\)"):
        lb.simulate(policy, params, lb.dataset("S4"), horizon=20, num_seeds=1, key=jax.random.key(0))
