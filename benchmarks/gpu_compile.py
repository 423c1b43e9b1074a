"""What every policy's program costs a GPU, by XLA's own compiler and without a GPU: a prediction, not a measurement.

    pip install -e '.[gpu-compile]'
    python benchmarks/gpu_compile.py --target h100

Compiles what `simulate` would run on that card, medians on S1, the others on S3, and prints for each program the
kernels and bytes of a pull, the loops whose number of turns depends on data, how often the host waits for the card,
memory, and an estimate of the time. Exit status 1: a float32 program computes in float64, a product is rounded to TF32,
or an addition is atomic; 2: the compiler is not there.

The estimate takes 1.5 microseconds (in a CUDA graph) to 4 (launched singly) for each kernel, to which its bytes at the
card's full bandwidth or its operations come, one a lane and cycle and half as many in float64, whichever take longer;
and 10 microseconds for each wait of the host. It takes every loop that depends on data to go --turns times.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the files beside this one, under PYTHONSAFEPATH too

SETS = dict.fromkeys(("menu", "mom", "crmm", "mean_of_medians"), "S1")  # of the others S3
# All but those of orthonormal arms alone, which play none of the paper's sets.
POLICIES = (
    "menu", "mom", "tofu", "crt", "oful", "greedy", "uniform", "hvt_ucb", "crtm", "crmm", "heavy_oful", "gopt_elim",
    "sup_bmm", "sup_btc", "bmm_ucb", "btc_ucb", "lints", "explore_then_commit", "mean_of_medians", "sgd",
)  # fmt: skip
DTYPES = ("float64", "float32")
TARGETS = ("h100", "h200", "a100")
HORIZON = 10_000
WHEEL = Path("nvidia/cuda_nvcc/bin")  # of the package nvidia-cuda-nvcc-cu12
LAUNCH = (1.5e-6, 4e-6)  # seconds a kernel: within a CUDA graph, and launched singly
WAIT = 1e-5  # seconds a wait of the host
Row = dict[str, Any]


class Card(NamedTuple):
    """What a target is, in what the estimate needs.

    Attributes:
        name: its own.
        bandwidth: bytes a second of its memory.
        lanes: float32 operations a second, an addition and a product that are fused counting once.
        text: XLA's description of it.
    """

    name: str
    bandwidth: float
    lanes: float
    text: str

    def rate(self, dtype: str) -> float:
        """Operations a second."""
        return self.lanes / (2 if dtype == "float64" else 1)


def described(target: str) -> Card:
    """The card that a file beside this one describes."""
    text = (HERE / "targets" / f"{target}.txtpb").read_text(encoding="utf-8")

    def number(field: str) -> float:
        found = re.search(rf"\b{field}: ([\d.]+)", text)
        assert found is not None
        return float(found.group(1))

    lanes = number("core_count") * number("fpus_per_core") * number("clock_rate_ghz") * 1e9
    return Card(target.upper(), number("memory_bandwidth"), lanes, text)


def device_of(card: Card) -> Any:
    """The device to compile for, which need not be here.

    Raises:
        RuntimeError: what is missing, in a sentence.
    """
    import jax
    from jax.experimental import topologies

    for folder in sys.path:  # where pip puts it
        if (Path(folder) / WHEEL / "ptxas").is_file():
            os.environ["PATH"] += os.pathsep + str(Path(folder) / WHEEL)
    if shutil.which("ptxas") is None:
        raise RuntimeError("needs ptxas on the path: the CUDA toolkit's, or pip install nvidia-cuda-nvcc-cu12")
    try:
        return topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=card.text).devices[0]
    except Exception as error:  # JAX's and XLA's own kinds, of no common type
        raise RuntimeError(
            f"needs JAX's plug-in for CUDA: pip install jax-cuda12-pjrt=={jax.__version__} ({first_line(error)})"
        ) from error


def first_line(error: Exception) -> str:
    """Of an error's own words."""
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__


def examine(name: str, dtype: str, options: argparse.Namespace, card: Card, device: Any, dumped: Path) -> Row:
    """Compiles one program and counts; for the CPU of this machine where there is no device."""
    from gpu_counts import Cost, Module
    from problems import Problem

    from linbet_jax.simulation.launches import compiler_options
    from linbet_jax.simulation.simulator import traced

    problem = Problem.of(name, SETS.get(name, "S3"), HORIZON)
    begun = time.perf_counter()
    program, launch = traced(
        problem.made,
        problem.params,
        problem.bandit,
        horizon=HORIZON,
        num_seeds=options.seeds,
        dtype=dtype,
        block_size=options.seeds,
        devices=None if device is None else [device],
        for_card=True,
    )
    settings = compiler_options(launch) if device is not None else None
    compiled = program.lower().compile(compiler_options=settings)
    seconds = time.perf_counter() - begun
    rate = card.rate(dtype)
    module = Module(compiled.as_text(), lambda moved, operations: max(moved / card.bandwidth, operations / rate))
    loops = list(module.loops())
    stretch = [loop for loop in loops if loop.turns is None and loop.depth == 0][-1]
    share = 1 / launch.plan.refresh_stride
    cost = module.cost(stretch.body, turns=options.turns, share=share).plus(module.cost(stretch.condition))
    cost = cost.plus(Cost(waits=1.0))  # for whether there is another stretch
    pulls = launch.plan.width
    low, high = (cost.busy + launching * cost.kernels + WAIT * cost.waits for launching in LAUNCH)
    memory = compiled.memory_analysis()
    text = "".join(file.read_text() for file in dumped.rglob("*.ptx"))
    if device is not None and not text:
        raise RuntimeError(f"needs XLA's dump of {name}'s kernels: without it TF32 and atomics go unseen")
    return {
        "policy": name,
        "data_set": problem.bandit.name,
        "dtype": dtype,
        "seeds": options.seeds,
        "pulls_per_epoch": launch.plan.policy.pulls_per_epoch,
        "kernels": cost.kernels / pulls,
        "waits": cost.waits / pulls,
        "data_loops": sum(loop.turns is None for loop in loops if loop.depth),
        "bytes": cost.moved / pulls,
        "operations": cost.operations / pulls,
        "temporary_bytes": memory.temp_size_in_bytes,
        "seconds": (low / pulls, high / pulls),
        "custom_calls": sorted(module.custom_calls()),
        "float64": dtype == "float32" and "f64" in module.types(),
        "tf32": "tf32" in text,
        "atomics": len(re.findall(r"\b(?:atom|red)\.", text)),
        "compile_seconds": seconds,
    }


def table(rows: list[Row]) -> str:
    """One Markdown table; of a policy that pulls an arm many times, an epoch is what is counted."""
    import report

    header = (
        "run",
        "type",
        "counted in",
        "kernels",
        "waits",
        "loops on data",
        "MB",
        "temporary MiB",
        "µs, estimated",
        "seed-pulls/s",
    )
    lines = []
    for row in rows:
        each = row["pulls_per_epoch"]
        low, high = (1e6 * each * seconds for seconds in row["seconds"])
        rates = [row["seeds"] / seconds for seconds in reversed(row["seconds"])]
        lines.append(
            [
                f"{row['policy']}, {row['data_set']}",
                row["dtype"],
                "a pull" if each == 1 else f"an epoch of {each}",
                f"{each * row['kernels']:.3g}" if each * row["kernels"] < 100 else f"{each * row['kernels']:.0f}",
                f"{each * row['waits']:.2g}",
                str(row["data_loops"]),
                f"{each * row['bytes'] / 1e6:.3g}" if each * row["bytes"] < 1e9 else f"{each * row['bytes'] / 1e6:.0f}",
                f"{row['temporary_bytes'] / 2**20:.0f}",
                f"{low:.3g} to {high:.3g}",
                f"{rates[0]:.2g} to {rates[1]:.2g}",
            ]
        )
    return report.table(header, lines)


def complaints(row: Row) -> list[str]:
    """What no program may hold."""
    found = [
        (row["float64"], "computes in float64"),
        (row["tf32"], "rounds products to TF32"),
        (row["atomics"], f"holds {row['atomics']} atomic operations"),
    ]
    return [f"{row['policy']} in {row['dtype']} {what}" for wrong, what in found if wrong]


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="gpu_compile.py",
        description="Compiles every policy's program for a GPU that need not be here, and says what it costs.",
    )
    parser.add_argument("--target", choices=TARGETS, default="h100", help="the card (h100)")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES, metavar="NAME", help="these alone")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, metavar="TYPE", help="these alone")
    parser.add_argument("--seeds", type=int, default=4_096, help="seeds side by side (4096)")
    parser.add_argument("--turns", type=float, default=1.0, help="turns of a loop that depends on data (1)")
    parser.add_argument("--out", metavar="FILE", help="the same as JSON")
    parser.add_argument("--smoke", action="store_true", help="one small program, by the compiler of the CPU")
    options = parser.parse_args(argv)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: must be at least 1")
    if not options.turns >= 0:
        parser.error(f"--turns {options.turns:g}: must be at least 0")
    if options.out and (Path(options.out).is_dir() or not Path(options.out).absolute().parent.is_dir()):
        parser.error(f"--out {options.out}: must be a file in a folder that is there")
    if options.smoke:
        options.policies, options.dtypes, options.seeds = ("crt",), ("float64",), 4
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Compiles, prints the table, writes the JSON if wanted."""
    options = parsed(argv)
    os.environ["JAX_PLATFORMS"] = "cpu"  # the plug-in looks for a card otherwise
    with tempfile.TemporaryDirectory() as folder:
        if not options.smoke:
            dump = f"--xla_dump_to={folder} --xla_dump_hlo_module_re=_run_blocks"
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {dump}".strip()
        import jax

        jax.config.update("jax_enable_x64", True)
        rows: list[Row] = []
        try:
            card = described(options.target)
            device = None if options.smoke else device_of(card)
            for dtype in options.dtypes:
                for name in options.policies:
                    rows.append(examine(name, dtype, options, card, device, Path(folder)))
                    print(f"{name} in {dtype}: {rows[-1]['compile_seconds']:.0f} s", file=sys.stderr, flush=True)
                    for file in filter(Path.is_file, Path(folder).rglob("*")):
                        file.unlink()
        except RuntimeError as error:
            print(f"gpu_compile.py: error: {error}", file=sys.stderr)
            return 2
    if options.smoke:
        print("by the CPU's compiler: these numbers only show that it works")
    print(f"{card.name}, {options.seeds} seeds, T = {HORIZON}; jax {jax.__version__}; predicted, not measured\n")
    print(table(rows) + "\n")
    for name, calls in {row["policy"]: row["custom_calls"] for row in rows if row["custom_calls"]}.items():
        print(f"{name} calls {', '.join(calls)}")
    wrong = [sentence for row in rows for sentence in complaints(row)]
    for sentence in wrong:
        print(sentence)
    if options.out:
        Path(options.out).write_text(json.dumps({"card": card.name, "turns": options.turns, "rows": rows}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
