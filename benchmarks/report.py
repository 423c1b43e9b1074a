"""A run's results: the JSON file, the Markdown table, and the comparison of two runs."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from timing import Measurement

from linbet_jax._version import __version__
from linbet_jax.errors import InputError
from linbet_jax.policies.registry import policy_label
from linbet_jax.storage.results import RunFolderError, read_json

__all__ = ["FORMAT", "comparison", "document", "markdown", "read"]

FORMAT = "linbet-bench-1"


def document(measurements: Sequence[Measurement], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the results file holds."""
    return {
        "format": FORMAT,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "settings": dict(settings),
        "measurements": [measured.to_json() for measured in measurements],
    }


def machine() -> dict[str, Any]:
    """Processor and its widest vectors, cores, memory, devices of JAX and the load when asked."""
    devices = jax.local_devices()
    return {
        "processor": _processor(),
        "vectors": _vectors(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": platform.platform(),
        "device": f"{devices[0].device_kind} x{len(devices)}",
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "default"),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    """Of Python and of everything that decides speed."""
    packages = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy", "scipy")}
    return {"linbet_jax": __version__, "python": platform.python_version(), **packages}


def _processor() -> str:
    found = _cpuinfo("model name")
    return found or platform.processor() or platform.machine()


def _cpuinfo(field: str) -> str:
    """What the system says of the first processor, where it says anything."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")


VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse2": "SSE2", "sve": "SVE", "asimd": "NEON"}


def _vectors() -> str:
    """The widest vectors that the processor computes with."""
    flags = f"{_cpuinfo('flags')} {_cpuinfo('Features')}".split()
    if platform.machine().lower() in ("arm64", "aarch64"):
        flags.append("asimd")  # every one has them
    return next((name for flag, name in VECTORS.items() if flag in flags), "vectors unknown")


def read(path: Path) -> dict[str, Any]:
    """A results file of an earlier run.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    try:
        held = read_json(path)
    except RunFolderError as error:
        raise InputError(f"--compare {error}") from error
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        found = held.get("format") if isinstance(held, dict) else type(held).__name__
        raise InputError(f"--compare {path}: not a results file of linbet bench (format {FORMAT!r}, found {found!r})")
    return held


# Tables -----------------------------------------------------------------------------------------------------------


def markdown(held: Mapping[str, Any]) -> str:
    """All tables of a run."""
    found = {m["name"]: m for m in held["measurements"]}
    parts = [_heading(held)]
    compared = functools.partial(_comparison_table, compiler=held["settings"].get("c", ""))
    for make in (compared, _other_table, _policy_table, _kernel_table, _exponent_table):
        text = make(found)
        if text:
            parts.append(text)
    return "\n\n".join(parts)


def _heading(held: Mapping[str, Any]) -> str:
    machine, versions = held["machine"], held["versions"]
    return (
        f"{machine['processor']}, {machine.get('vectors', '?')}, {machine['cores']} cores, {machine['device']}, "
        "float64; "
        f"Python {versions['python']}, jax {versions['jax']}, NumPy {versions['numpy']}; "
        f"load at the start {held['settings'].get('load', '?')}. "
        "Medians, with the smallest and largest repeat in brackets. Runs take one core where "
        "nothing else is said, and draw their noise; compiling is apart."
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(measured: Mapping[str, Any], suffix: str = "") -> str:
    text = f"{_number(measured['median'])}{suffix}"
    if len(measured["values"]) > 1:
        text += f" ({_number(measured['low'])}–{_number(measured['high'])})"
    return text


def _title(policy: str, *rest: str) -> str:
    return ", ".join([policy_label(policy), *(part.replace("=", " = ") for part in rest)])


def _problems(found: Mapping[str, Any], kind: str) -> list[str]:
    """Names of the problems measured, without their kind and last part."""
    return [name.split("/", 1)[1].rsplit("/", 1)[0] for name in found if name.startswith(f"{kind}/")]


def _comparison_table(found: Mapping[str, Any], compiler: str) -> str:
    """CPU time per pull beside NumPy's and C's, and a sentence on the compiler or why there is none."""
    rows: list[list[str]] = []
    notes: list[str] = []
    for problem in dict.fromkeys(_problems(found, "numpy")):
        numpy = found[f"numpy/{problem}/cpu"]
        mark = ""
        if numpy["note"]:
            if numpy["note"] not in notes:
                notes.append(numpy["note"])
            mark = "*" * (1 + notes.index(numpy["note"]))
        rows.append(
            [
                _title(*problem.split("/")),
                _spread(numpy, mark),
                _cell(found, f"c/{problem}/cpu"),
                _cell(found, f"noise/{problem}/cpu"),
                _spread(found[f"policy/{problem}/cpu"]),
                _spread(found[f"ratio/{problem}"], "×"),
                _cell(found, f"c-ratio/{problem}", "×"),
            ]
        )
    if not rows:
        return ""
    header = ("run, CPU µs a pull", "NumPy", "C", "of it noise", "linbet_jax", "NumPy / linbet_jax", "C / linbet_jax")
    lines = [table(header, rows)]
    lines += [f"{'*' * (i + 1)} {note}." for i, note in enumerate(notes)]
    lines += [compiler] if compiler else []
    return "\n\n".join(lines)


def _cell(found: Mapping[str, Any], name: str, suffix: str = "") -> str:
    """A measurement, or a dash where there is none."""
    return _spread(found[name], suffix) if name in found else "–"


def _other_table(found: Mapping[str, Any]) -> str:
    rows = []
    for name, measured in found.items():
        kind, *rest = name.split("/")
        if kind == "floor" and rest[-1] == "ratio":
            state, passed = found[f"floor/{rest[0]}/{rest[1]}/state"], found[f"floor/{rest[0]}/{rest[1]}/pass"]
            what = (
                f"{_title(*rest[:2])}: CPU time of a seed-pull over one pass of its {_number(state['median'])} bytes "
                f"of state in memory ({_number(passed['median'])} µs)"
            )
            rows.append([what, _spread(measured, "×")])
        elif kind in ("horizon", "cores"):
            rows.append([f"{_title(*rest[:2])}: {measured['note']}", _spread(measured, "×")])
        elif kind == "memory":
            ratio = measured["unit"] == "x"
            value = f"{measured['median']:.3f}×" if ratio else f"{measured['median']:.0f} MiB"
            what = "peak memory" if not measured["note"] else measured["note"]
            rows.append([f"{_title(*rest)}: {what}", value])
    return table(("what", "measured"), rows) if rows else ""


def _policy_table(found: Mapping[str, Any]) -> str:
    rows = []
    for problem in dict.fromkeys(_problems(found, "policy")):
        wall = found[f"policy/{problem}/wall"]
        rows.append(
            [
                _title(*problem.split("/")),
                f"{1e6 / wall['median']:,.0f}",
                _spread(found[f"policy/{problem}/cpu"]),
                f"{found[f'policy/{problem}/compile']['median']:.1f}",
            ]
        )
    return table(("run, one core", "seed-pulls a second", "CPU µs a seed-pull", "compiling, s"), rows) if rows else ""


def _kernel_table(found: Mapping[str, Any]) -> str:
    rows = []
    for kernel in dict.fromkeys(_problems(found, "kernel")):
        rows.append([kernel, *(_cell(found, f"kernel/{kernel}/{subject}") for subject in ("single", "vmap", "numpy"))])
    return table(("kernel, µs a problem", "single", "vmapped over 16", "NumPy"), rows) if rows else ""


def _exponent_table(found: Mapping[str, Any]) -> str:
    rows = []
    for name, measured in found.items():
        kind, *rest = name.split("/")
        if kind == "exponent":
            rows.append([rest[0], _title(rest[1]), f"{measured['median']:.2f}"])
    return table(("time of a run grows with", "run", "fitted exponent"), rows) if rows else ""


# Comparison -------------------------------------------------------------------------------------------------------


def comparison(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """New over old for everything both measured, as Markdown.

    A change is flagged when the two runs' repeats do not overlap and the medians are further apart than the typical
    spread of either run; numbers with a single repeat are never flagged.
    """
    before = {m["name"]: m for m in old["measurements"]}
    rows, flagged = [], 0
    noise = max(_typical_spread(old), _typical_spread(new))
    for measured in new["measurements"]:
        past = before.get(measured["name"])
        if past is None or past["unit"] != measured["unit"] or not past["median"]:
            continue
        quotient = measured["median"] / past["median"]
        apart = measured["low"] > past["high"] or measured["high"] < past["low"]
        several = len(measured["values"]) > 1 and len(past["values"]) > 1
        flag = apart and several and not 1 / (1 + noise) < quotient < 1 + noise
        flagged += flag
        cells = [measured["name"], measured["unit"], _spread(past), _spread(measured), f"{quotient:.3f}"]
        rows.append([*cells, ("beyond the spread" if flag else "") if several else "one repeat"])
    gone = len(set(before) - {m["name"] for m in new["measurements"]})
    lines = [table(("measured", "unit", "old", "new", "new/old", ""), rows)] if rows else []
    lines.append(
        f"{len(rows)} compared, {flagged} beyond the measured spread (typically {100 * noise:.0f} %), {gone} only in "
        f"the old run ({old.get('when', 'no date')})."
    )
    different = [
        f"{part}: {field} {old[part].get(field)!r} then, {new[part].get(field)!r} now"
        for part in ("machine", "versions")
        for field in new[part]
        if field not in ("load", "vectors") and old.get(part, {}).get(field) != new[part].get(field)
    ]
    if different:
        lines.append("Not the same circumstances: " + "; ".join(different) + ".")
    return "\n\n".join(lines)


def _typical_spread(held: Mapping[str, Any]) -> float:
    """Median over the measurements of (largest - smallest) / median of their repeats."""
    spreads = [
        (m["high"] - m["low"]) / m["median"] for m in held["measurements"] if len(m["values"]) > 1 and m["median"] > 0
    ]
    return statistics.median(spreads) if spreads else 0.0
