"""JAX set up for all cores: devices, and loops that are one kernel, in a process of its own each."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from compiling import FLAGS

from linbet_jax import set_up_cpu
from linbet_jax.simulation.cores import usable_cores


def run(script, **environment):
    """What a fresh Python prints last, as JSON; it begins without settings of JAX or XLA."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


NUMBERS = """
    import hashlib, json, sys
    import jax
    jax.config.update("jax_enable_x64", True)
    import linbet_jax as lb
    from linbet_jax.simulation import launches, simulator
    {setting}
    found = {{}}
    for name, data, dtype in {runs}:
        bandit = lb.dataset(data)
        policy, params = lb.make_policy(name, bandit, horizon=1000)
        launches._PROGRAMS.clear()
        result = lb.simulate(
            policy, params, bandit, horizon=1000, num_seeds=5, key=jax.random.key(0), dtype=dtype, block_size=4
        )
        (program,) = launches._PROGRAMS.values()
        calls = [line for line in program.compiled.as_text().splitlines() if "xla_cpu_small_call" in line]
        found[name + " " + dtype] = [
            hashlib.sha256(result.regret.tobytes() + result.payoff.tobytes()).hexdigest(),
            [line.split('op_name="')[1].split('"')[0] for line in calls],
        ]
    print(json.dumps([len(jax.devices()), found]))
"""


RUNS = [("oful", "S3", "float64"), ("menu", "S1", "float32"), ("crt", "S4", "float32")]


@pytest.mark.timeout(600)
def test_all_cores_change_the_speed_and_not_the_numbers():
    devices, plain = run(NUMBERS.format(setting='jax.config.update("jax_num_cpu_devices", 2)', runs=RUNS))
    assert devices == 2
    both, prepared = run(NUMBERS.format(setting="lb.set_up_cpu(2)", runs=RUNS))
    assert both == 2
    assert {name: numbers for name, (numbers, _) in plain.items()} == {
        name: numbers for name, (numbers, _) in prepared.items()
    }
    # The suite's own way to compile, on the smaller of the two.
    setting = 'jax.config.update("jax_num_cpu_devices", 2)'
    _, tested = run(NUMBERS.format(setting=setting, runs=RUNS[:1]), XLA_FLAGS=FLAGS)
    assert {name: numbers for name, (numbers, _) in tested.items()} == {"oful float64": plain["oful float64"][0]}
    for name, (_, calls) in prepared.items():  # what XLA does of its own accord differs between versions
        # The loop over the pulls of a stretch, or in MENU's case the search for the centre inside it.
        inner = "median_center" if name.startswith("menu") else "/while/body/while"
        assert any(inner in call if name.startswith("menu") else call.endswith(inner) for call in calls), (name, calls)


DEVICES = """
    import json, os
    import jax
    import linbet_jax as lb
    {before}
    try:
        lb.set_up_cpu({cores})
        count = len(jax.devices())
    except Exception as error:
        count = f"{{type(error).__name__}}: {{error}}"
    print(json.dumps([count, os.environ.get("XLA_FLAGS")]))
"""


def test_one_device_for_every_core():
    count, flags = run(DEVICES.format(before="", cores=""))
    assert count == len(usable_cores())
    assert flags == "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1099511627776"


def test_what_the_environment_says_stays():
    mine = "--xla_force_host_platform_device_count=3 --xla_backend_extra_options=xla_cpu_disable_loop_unrolling"
    assert run(DEVICES.format(before="", cores=1), XLA_FLAGS=mine) == [3, mine]
    mine = "--xla_force_host_platform_device_count=3"
    count, flags = run(DEVICES.format(before="", cores=""), XLA_FLAGS=mine)
    assert count == 3
    assert flags.startswith(mine + " --xla_backend_extra_options=")


def test_too_late_is_said():
    answer, flags = run(DEVICES.format(before="jax.numpy.zeros(1)", cores=""))
    assert answer.startswith("RuntimeError: set_up_cpu() must come before JAX's first computation in this process")
    assert flags is None


@pytest.mark.parametrize("cores", [0, -1, 1.5, True, "2"])
def test_cores_are_a_whole_number(cores):
    with pytest.raises(ValueError, match=r"cores=.*must be a whole number, at least 1"):
        set_up_cpu(cores)
