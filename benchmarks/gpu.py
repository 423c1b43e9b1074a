"""Every policy on one GPU beside the CPU of the same machine; needs jax, NumPy and SciPy, no installed package.

    PYTHONPATH=. python benchmarks/gpu.py OUT

Runs MENU and MoM on S1, the others on S3, in float32 and float64, for 256 to 65536 replications and T = 10 000; prints
one table (seed-pulls a second, ratio to all cores of the CPU, share of the card's memory bandwidth, what
`gpu_compile.py` predicted, arms played alike on both) and writes OUT/gpu.json. All programs are compiled first, several
at a time, and timed apart; a timed run ends when its results have reached the host. It stops taking samples after the
time given by --seconds and says what it left out: the default leaves a card of 15 minutes time to end. Exit status 1:
arms differ in float64 (more replications than near-ties explain) or a replication is unhealthy; 2: there is no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one, under PYTHONSAFEPATH too

import gpu_compile
import jax
import numpy as np
import report
from problems import Problem

from linbet_jax.simulation.launches import forget_times
from linbet_jax.simulation.results import Result
from linbet_jax.simulation.runtime import set_up_cpu
from linbet_jax.storage.results import RunFolderError, read_json, write_json

POLICIES = {"menu": "S1", "mom": "S1", "tofu": "S3", "crt": "S3", "oful": "S3", "uniform": "S3", "greedy": "S3"}
SEEDS = (256, 4_096, 16_384, 1_024, 65_536)  # the most telling ones first, in case time runs out
HORIZON = 10_000
SHORT = 1_000  # pulls of a first run, of the same program: stretches of 100 and of 125 pulls divide both
PREDICTED = Path(__file__).resolve().parent / "results" / "gpu_predicted.json"
COMPILERS = 8  # programs compiled at a time
SHARE_ALIKE = 0.95  # of the replications must play the same arms throughout in float64

Row = dict[str, Any]


def play(
    problem: Problem, devices: list[Any], dtype: str, seeds: int, *, trace: bool, horizon: int | None = None
) -> Result:
    """One run whose results have reached the host."""
    with jax.default_device(devices[0]):
        return problem.run(seeds, dtype=dtype, trace=trace, num_records=10, devices=devices, horizon=horizon)


def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    """What it returns, or why it did not: a GPU that is too small for one row still serves the others."""
    try:
        return work(), ""
    except Exception as error:  # XLA's out-of-memory error has no public type
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"


def predicted(row: Row, card: gpu_compile.Card | None) -> Row:
    """What the compiler's counts say of a row: bytes a seed-pull, and seed-pulls a second between two bounds."""
    try:
        known = read_json(PREDICTED)["rows"]
    except RunFolderError:
        return {}
    for one in known:
        if (one["policy"], one["dtype"]) == (row["policy"], row["dtype"]) and card is not None:
            per_seed = one["bytes"] / one["seeds"]
            seeds = row.get("block_size", row["seeds"])  # block after block
            busy = seeds * max(per_seed / card.bandwidth, one["operations"] / one["seeds"] / card.rate(row["dtype"]))
            times = (busy + launch * one["kernels"] + gpu_compile.WAIT * one["waits"] for launch in gpu_compile.LAUNCH)
            slow, fast = sorted(seeds / seconds for seconds in times)
            return {"bytes_per_seed_pull": per_seed, "predicted_slowest": slow, "predicted_fastest": fast}
    return {}


def card_here(device: Any) -> gpu_compile.Card | None:
    """The target that the device is one of; None where no file describes it."""
    for name in gpu_compile.TARGETS:
        if name in device.device_kind.lower():
            return gpu_compile.described(name)
    return None


def compile_all(
    tasks: dict[str, Problem], dtype: str, options: argparse.Namespace, gpu: list[Any], cpu: list[Any]
) -> dict[tuple[str, str, int], tuple[float, str]]:
    """Every program compiled, several at a time, by a short run of it: seconds, or what is in the way."""
    base = options.seeds[0]
    runs = [(name, gpu, seeds, seeds == base) for name in tasks for seeds in options.seeds]
    runs += [(name, cpu, base, True) for name in tasks] if cpu and cpu[0] not in gpu else []

    def warm(run: tuple[str, list[Any], int, bool]) -> tuple[float, str]:
        name, devices, seeds, trace = run
        short = None if trace else min(SHORT, tasks[name].horizon)  # a trace is as long as its run
        result, error = attempt(lambda: play(tasks[name], devices, dtype, seeds, trace=trace, horizon=short))
        return (0.0, error) if result is None else (result.compile_seconds, "")

    begun = time.perf_counter()
    with ThreadPoolExecutor(COMPILERS) as pool:
        warmed = dict(zip([(r[0], r[1][0].platform, r[2]) for r in runs], pool.map(warm, runs), strict=True))
    forget_times()
    print(f"{dtype}: {len(runs)} programs compiled and run once in {time.perf_counter() - begun:.0f} s", flush=True)
    return warmed


def phase(dtype: str, options: argparse.Namespace, gpu: list[Any], cpu: list[Any], deadline: float) -> list[Row]:
    """All policies in one floating-point type; compiled first."""
    jax.config.update("jax_enable_x64", dtype == "float64")
    tasks = {name: Problem.of(name, POLICIES[name], options.horizon) for name in options.policies}
    base, card = options.seeds[0], gpu_compile.described("h100") if options.smoke else card_here(gpu[0])
    warmed = compile_all(tasks, dtype, options, gpu, cpu)
    rows: list[Row] = []
    for name, problem in tasks.items():
        beside, host_arms = None, None
        if cpu and time.perf_counter() < deadline:
            seconds, result, _ = sample(problem, cpu, dtype, base, trace=True)
            if result is not None:
                beside, host_arms = base * problem.horizon / seconds, result.trace.arms
        for seeds in options.seeds:
            row: Row = {"policy": name, "data_set": problem.bandit.name, "dtype": dtype, "seeds": seeds}
            row |= {"horizon": problem.horizon, "cpu_pulls_per_second": beside}
            rows.append(row)
            if time.perf_counter() > deadline:
                row |= {"left_out": "out of time"} | predicted(row, card)
                continue
            seconds, result, error = sample(problem, gpu, dtype, seeds, trace=seeds == base)
            if result is None:
                row |= {"left_out": error} | predicted(row, card)
                continue
            rate = seeds * problem.horizon / seconds
            row |= {"seconds": seconds, "pulls_per_second": rate, "block_size": result.block_size}
            row |= predicted(row, card)
            row["ratio_to_cpu"] = None if beside is None else rate / beside
            if card is not None and "bytes_per_seed_pull" in row:
                row["share_of_bandwidth"] = rate * row["bytes_per_seed_pull"] / card.bandwidth
            row["compile_seconds"] = warmed[(name, gpu[0].platform, seeds)][0]
            row["unhealthy"] = int(np.count_nonzero(result.health))
            if seeds == base and host_arms is not None:
                same = result.trace.arms == host_arms
                row["pulls_alike"] = float(np.mean(same))
                row["seeds_alike"] = float(np.mean(np.all(same, axis=1)))
    return rows


def sample(problem: Problem, devices: list[Any], dtype: str, seeds: int, *, trace: bool) -> tuple[float, Any, str]:
    """The faster of two runs, in seconds, with its result; the reason where there is none."""
    seconds, fastest = float("inf"), None
    for _ in range(2):
        begun = time.perf_counter()
        result, error = attempt(lambda: play(problem, devices, dtype, seeds, trace=trace))
        if result is None:
            return seconds, None, error
        took = time.perf_counter() - begun - result.compile_seconds
        if took < seconds:
            seconds, fastest = took, result
    return seconds, fastest, ""


def table(rows: list[Row]) -> str:
    """One Markdown table."""
    header = (
        "run",
        "type",
        "seeds",
        "seed-pulls/s",
        "predicted",
        "over CPU",
        "of bandwidth",
        "arms alike",
        "compile, s",
    )
    lines = []
    for row in rows:
        foreseen = "–"
        if "predicted_slowest" in row:
            foreseen = f"{row['predicted_slowest']:.2g} to {row['predicted_fastest']:.2g}"
        if "left_out" in row:
            cells = [f"– ({row['left_out'].replace('|', '/')[:60]})", foreseen, "", "", "", ""]
        else:
            alike = "–"
            if "pulls_alike" in row:
                alike = f"{100 * row['seeds_alike']:.1f} % of seeds, {100 * row['pulls_alike']:.2f} % of pulls"
            over = "–" if row["ratio_to_cpu"] is None else f"{row['ratio_to_cpu']:.1f}×"
            share = f"{100 * row['share_of_bandwidth']:.0f} %" if "share_of_bandwidth" in row else "–"
            cells = [f"{row['pulls_per_second']:.3g}", foreseen, over, share, alike, f"{row['compile_seconds']:.1f}"]
        lines.append([f"{row['policy']}, {row['data_set']}", row["dtype"], str(row["seeds"]), *cells])
    return report.table(header, lines)


def devices_of(platform_name: str) -> list[Any]:
    """Local devices of a platform; none when JAX has none."""
    try:
        return jax.local_devices(backend=platform_name)
    except RuntimeError:
        return []


def main(argv: list[str] | None = None) -> int:
    """Measures, prints the table and writes the JSON."""
    parser = argparse.ArgumentParser(description="Every policy on one GPU beside the CPU of the same machine.")
    parser.add_argument("out", nargs="?", metavar="OUT", help="folder for gpu.json (default: not written)")
    parser.add_argument("--seconds", type=float, default=600.0, help="stop taking samples after this long (600)")
    parser.add_argument("--smoke", action="store_true", help="a few tiny runs, on the CPU where there is no GPU")
    options = parser.parse_args(argv)
    if not options.seconds > 0:
        parser.error(f"--seconds {options.seconds:g}: must be above 0")
    begun = time.perf_counter()
    options.policies = ["crt"] if options.smoke else list(POLICIES)
    options.seeds = (4, 8) if options.smoke else SEEDS
    options.horizon = 100 if options.smoke else HORIZON

    with contextlib.suppress(RuntimeError):  # JAX was already at work: its devices are what there is
        set_up_cpu()
    gpu, cpu = devices_of("gpu")[:1], devices_of("cpu")
    if not gpu:
        if not options.smoke:
            print(f"gpu.py: error: JAX finds no GPU here, only {jax.default_backend()}", file=sys.stderr)
            return 2
        gpu = cpu[:1]
    try:
        if options.out:  # before a card is measured for minutes
            Path(options.out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"{options.out}: {error.strerror}")
    place = {
        "gpu": gpu[0].device_kind,
        "cpu": f"{len(cpu)} cores" if cpu else None,
        "machine": report.machine(),
        "versions": (versions := report.versions()),
    }
    print(f"{place['gpu']} beside {place['cpu']}; jax {versions['jax']}, Python {versions['python']}", flush=True)

    before = jax.config.values["jax_enable_x64"]
    rows: list[Row] = []
    try:
        for dtype in ("float64", "float32"):
            rows += phase(dtype, options, gpu, cpu, begun + options.seconds)
    finally:
        jax.config.update("jax_enable_x64", before)
    print("\n" + table(rows) + "\n")
    seconds = time.perf_counter() - begun
    left_out = [row for row in rows if "left_out" in row]
    differing = [r for r in rows if r["dtype"] == "float64" and r.get("seeds_alike", 1.0) < SHARE_ALIKE]
    unhealthy = [row for row in rows if row.get("unhealthy")]
    print(f"{seconds:.0f} s in all; {len(rows)} rows, {len(left_out)} left out")
    for row in differing:
        print(f"{row['policy']}: only {100 * row['seeds_alike']:.1f} % of the seeds play the CPU's arms in float64")
    for row in unhealthy:
        print(f"{row['policy']} in {row['dtype']}: {row['unhealthy']} of {row['seeds']} replications are unhealthy")
    if options.out:
        folder = Path(options.out)
        write_json(folder / "gpu.json", {"format": "linbet-gpu-3", "place": place, "seconds": seconds, "rows": rows})
        print(folder / "gpu.json")
    return 1 if differing or unhealthy else 0


if __name__ == "__main__":
    raise SystemExit(main())
