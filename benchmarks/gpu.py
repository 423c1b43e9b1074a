"""Every policy on one GPU beside the CPU of the same machine; needs jax, NumPy and SciPy, no installed package.

    PYTHONPATH=. python benchmarks/gpu.py OUT

Runs MENU and MoM on S1, the others on S3, in float32 and float64, for 256 to 16384 replications; prints one table
(seed-pulls a second, ratio to all cores of the CPU, memory, arms played alike on both) and writes OUT/gpu.json. All
programs are compiled first and timed apart; a timed run ends when its results have reached the host. It stops taking
samples after the time given by --seconds and says what it left out. Exit status 1: arms differ in float64 (more
replications than near-ties explain) or a replication is unhealthy; 2: there is no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one, under PYTHONSAFEPATH too

import jax
import numpy as np
import report
from problems import Problem

from linbet_jax.simulation.results import Result
from linbet_jax.simulation.runtime import set_up_cpu
from linbet_jax.storage.results import write_json

POLICIES = {"menu": "S1", "mom": "S1", "tofu": "S3", "crt": "S3", "oful": "S3", "uniform": "S3", "greedy": "S3"}
SEEDS = (256, 1_024, 4_096, 16_384)
LARGEST_BLOCK = 4_096  # replications side by side; more run block after block
HORIZON = {"S1": 2_000, "S3": 1_000}  # MENU needs several epochs of some 260 pulls
COMPILERS = 8  # programs compiled at a time
SHARE_ALIKE = 0.95  # of the replications must play the same arms throughout in float64

Row = dict[str, Any]


def play(problem: Problem, devices: list[Any], dtype: str, seeds: int, *, trace: bool) -> Result:
    """One run whose results have reached the host."""
    block = None if devices[0].platform == "cpu" else min(seeds, LARGEST_BLOCK)
    with jax.default_device(devices[0]):
        return problem.run(seeds, dtype=dtype, trace=trace, num_records=10, block_size=block, devices=devices)


def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    """What it returns, or why it did not: a GPU that is too small for one row still serves the others."""
    try:
        return work(), ""
    except Exception as error:  # XLA's out-of-memory error has no public type
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"


def memory(device: Any) -> float:
    """Peak bytes in use so far, on the device, or of the process where the device does not say."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "peak_bytes_in_use" in stats:
        return float(stats["peak_bytes_in_use"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def phase(dtype: str, options: argparse.Namespace, gpu: list[Any], cpu: list[Any], deadline: float) -> list[Row]:
    """All policies in one floating-point type; compiled first, several at a time."""
    jax.config.update("jax_enable_x64", dtype == "float64")
    tasks = {name: Problem.of(name, POLICIES[name], options.horizons[POLICIES[name]]) for name in options.policies}
    base = options.seeds[0]
    # The smallest run also returns its arms, on both devices; runs beyond the largest block reuse its program.
    runs = [(name, gpu, seeds, seeds == base) for name in tasks for seeds in options.seeds]
    runs = [run for run in runs if run[2] <= LARGEST_BLOCK]
    runs += [(name, cpu, base, True) for name in tasks] if cpu else []

    def warm(run: tuple[str, list[Any], int, bool]) -> tuple[float, str]:
        name, devices, seeds, trace = run
        result, error = attempt(lambda: play(tasks[name], devices, dtype, seeds, trace=trace))
        return (0.0, error) if result is None else (result.compile_seconds, "")

    begun = time.perf_counter()
    with ThreadPoolExecutor(COMPILERS) as pool:
        warmed = dict(zip([(r[0], r[1][0].platform, r[2]) for r in runs], pool.map(warm, runs), strict=True))
    print(f"{dtype}: {len(runs)} programs compiled and run once in {time.perf_counter() - begun:.0f} s", flush=True)

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
                row["left_out"] = "out of time"
                continue
            seconds, result, error = sample(problem, gpu, dtype, seeds, trace=seeds == base)
            if result is None:
                row["left_out"] = error
                continue
            row["seconds"] = seconds
            row["pulls_per_second"] = seeds * problem.horizon / seconds
            row["ratio_to_cpu"] = None if beside is None else row["pulls_per_second"] / beside
            row["peak_bytes_so_far"] = memory(gpu[0])
            row["compile_seconds"] = warmed.get((name, gpu[0].platform, min(seeds, LARGEST_BLOCK)), (None, ""))[0]
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
    header = ("run", "type", "seeds", "seed-pulls/s", "over CPU", "peak so far, MiB", "arms alike", "compile, s")
    lines = []
    for row in rows:
        if "left_out" in row:
            cells = [f"– ({row['left_out'].replace('|', '/')[:60]})", "", "", "", ""]
        else:
            alike = "–"
            if "pulls_alike" in row:
                alike = f"{100 * row['seeds_alike']:.1f} % of seeds, {100 * row['pulls_alike']:.2f} % of pulls"
            over = "–" if row["ratio_to_cpu"] is None else f"{row['ratio_to_cpu']:.1f}×"
            compiled = "–" if row["compile_seconds"] is None else f"{row['compile_seconds']:.1f}"
            cells = [f"{row['pulls_per_second']:.3g}", over, f"{row['peak_bytes_so_far'] / 2**20:.0f}", alike, compiled]
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
    parser.add_argument("--seconds", type=float, default=270.0, help="stop taking samples after this long (270)")
    parser.add_argument("--smoke", action="store_true", help="a few tiny runs, on the CPU where there is no GPU")
    options = parser.parse_args(argv)
    begun = time.perf_counter()
    options.policies = ["crt"] if options.smoke else list(POLICIES)
    options.seeds = (4, 8) if options.smoke else SEEDS
    options.horizons = {"S1": 400, "S3": 100} if options.smoke else HORIZON

    with contextlib.suppress(RuntimeError):  # JAX was already at work: its devices are what there is
        set_up_cpu()
    gpu, cpu = devices_of("gpu")[:1], devices_of("cpu")
    if not gpu:
        if not options.smoke:
            print(f"gpu.py: error: JAX finds no GPU here, only {jax.default_backend()}", file=sys.stderr)
            return 2
        gpu = cpu[:1]
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
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "gpu.json", {"format": "linbet-gpu-2", "place": place, "seconds": seconds, "rows": rows})
        print(folder / "gpu.json")
    return 1 if differing or unhealthy else 0


if __name__ == "__main__":
    raise SystemExit(main())
