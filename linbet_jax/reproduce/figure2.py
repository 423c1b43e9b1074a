"""Figure 2 of the paper, done properly: every policy on every data set, literal and tuned radii.

The work is cut into cells (see `cells`), each kept in the run folder as soon as it is finished; pictures, curves,
tables and manifest are made from the stored cells.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from linbet_jax import provenance
from linbet_jax.bandit import LinearBandit
from linbet_jax.datasets import DATASETS
from linbet_jax.reproduce import outputs
from linbet_jax.reproduce.cells import GRID, Cell, Settings, cell_key, compute, configuration, plan
from linbet_jax.reproduce.study import Outcome, Reporter
from linbet_jax.results import RunFolder
from linbet_jax.tuning import TuningCurve

__all__ = ["Settings", "reproduce"]

WORKERS = 2  # one cell compiles while another runs: a tenth faster on two cores, the same numbers


class Done(NamedTuple):
    """A finished cell: its arrays, and how long it took where that is known."""

    arrays: Mapping[str, NDArray[Any]]
    seconds: Mapping[str, float] | None


def reproduce(settings: Settings, out: Path, *, kind: str, devices: str, reporter: Reporter) -> Outcome:
    """Runs what is not done yet, then writes pictures, curves, tables and the manifest.

    Args:
        settings: what to run.
        out: the run folder.
        kind: the device's own name; it decides the last bits of the numbers.
        devices: the devices in words, for the manifest.
        reporter: where progress goes.

    Raises:
        InputError: unknown sets, a horizon too short for a policy, a folder that holds something else. Nothing has been
            computed or written then.
    """
    begun = time.perf_counter()
    cells = plan(settings)
    config = configuration(settings, cells, kind)
    with RunFolder(out, config) as folder:
        folder.update_manifest(status="running", environment=provenance.environment(devices))
        finished = _finish(cells, settings, config, folder, reporter)
        report = _report(cells, settings, finished)
        reporter.say("drawing")
        files = outputs.write(report, folder.path)
        bandits = {cell.set_name: cell.bandit for cell in cells}
        folder.update_manifest(
            status="finished",
            unhealthy=report.unhealthy(),
            quick_look=report.quick_look,
            instances={name: _instance(bandit) for name, bandit in bandits.items()},
            cells={cell.title: _cell_record(cell, config, finished[cell.title]) for cell in cells},
            outputs=[path.name for path in files],
            seconds_of_last_run=round(time.perf_counter() - begun, 3),
        )
        return Outcome(outputs.terminal_table(report), (*files, folder.file("manifest.json")), report.unhealthy())


def _finish(
    cells: Sequence[Cell], settings: Settings, config: Mapping[str, Any], folder: RunFolder, reporter: Reporter
) -> dict[str, Done]:
    """Every cell by its title; what is not in the folder yet is computed and put there."""
    timings: dict[str, Any] = dict(folder.manifest.get("timings", {}))
    finished: dict[str, Done] = {}
    for cell in cells:
        arrays = folder.load(cell_key(cell, config))
        if arrays is not None:
            finished[cell.title] = Done(arrays, timings.get(cell.title))
    for name in folder.damaged:
        reporter.say(f"damaged: {name} is computed again")
    if finished:
        reporter.say(f"{len(finished)} of {len(cells)} cells are done already")
    # The longest first, so that no thread is left alone with one at the end.
    missing = sorted((cell for cell in cells if cell.title not in finished), key=lambda cell: -cell.cost)
    replications = len(GRID) * settings.tuning_seeds + 2 * settings.seeds
    with reporter.work(sum(cell.horizon * replications for cell in missing), "starting"):
        for cell, done in _in_threads(missing, lambda cell: _counted(cell, settings, replications, reporter)):
            folder.save(cell_key(cell, config), done.arrays)
            timings[cell.title] = done.seconds
            folder.update_manifest(timings=timings)
            finished[cell.title] = done
            reporter.say(_line(cell, done, len(finished), len(cells)))
    return finished


def _counted(cell: Cell, settings: Settings, replications: int, reporter: Reporter) -> Done:
    """One cell; what it did not report by itself is reported at its end, so that the bar ends at 100 %."""
    reported = 0

    def progress(pulls: int) -> None:
        nonlocal reported
        reported += pulls
        reporter.advance(pulls)

    reporter.describe(f"{cell.set_name} {outputs.policy_label(cell.policy_name)}")
    done = Done(*compute(cell, settings, progress))
    reporter.advance(replications * cell.horizon - reported)
    return done


def _in_threads(cells: Sequence[Cell], task: Callable[[Cell], Done]) -> Iterator[tuple[Cell, Done]]:
    """Results as they come; an error or Ctrl-C drops what has not begun and waits for nothing."""
    pool = ThreadPoolExecutor(max_workers=WORKERS)
    try:
        futures: dict[Future[Done], Cell] = {pool.submit(task, cell): cell for cell in cells}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _report(cells: Sequence[Cell], settings: Settings, finished: Mapping[str, Done]) -> outputs.Report:
    """What the outputs are made from."""
    bandits = {cell.set_name: cell.bandit for cell in cells}
    return outputs.Report(
        runs=[run for cell in cells for run in _runs(cell, finished[cell.title])],
        tuning={cell.title: _tuning(cell, finished[cell.title]) for cell in cells},
        pairs={name: DATASETS[name].policies for name in bandits},
        titles={name: f"{name}: {b.noise.name}, K={b.num_arms}, d={b.dim}" for name, b in bandits.items()},
        best_means={cell.set_name: cell.best_mean for cell in cells},
        horizons={cell.set_name: cell.horizon for cell in cells},
        notes=_notes(cells, finished),
        quick_look=settings.horizon is not None,
        seeds=settings.seeds,
        tuning_seeds=settings.tuning_seeds,
        delta=cells[0].delta,
        ridge=cells[0].ridge,
    )


def _runs(cell: Cell, done: Done) -> list[outputs.Run]:
    """The literal and the tuned run of a cell; they are one and the same where tuning chose the literal scale."""
    scales = done.arrays["scales"]
    return [
        outputs.Run(
            set_name=cell.set_name,
            policy=cell.policy_name,
            radii=radii,
            radius_scale=float(scales[index]),
            rounds=done.arrays["rounds"],
            regret=done.arrays["regret"][index],
            payoff=done.arrays["payoff"][index],
            health=done.arrays["health"][index],
        )
        for radii, index in (("literal", 0), ("tuned", len(scales) - 1))
    ]


def _tuning(cell: Cell, done: Done) -> TuningCurve:
    return TuningCurve(
        policy=cell.policy_name,
        bandit=cell.set_name,
        horizon=cell.horizon,
        grid=GRID,
        criterion="mean",
        regret=done.arrays["tuning_regret"],
        health=done.arrays["tuning_health"],
        chosen=float(done.arrays["scales"][-1]),
    )


def _facts(done: Done) -> dict[str, Any]:
    """What a cell says beside its arrays: k, N, m, r, notes, block size, reruns."""
    facts: dict[str, Any] = json.loads(str(done.arrays["facts"]))
    return facts


def _notes(cells: Sequence[Cell], finished: Mapping[str, Done]) -> list[str]:
    """What the cells have to say beside numbers, each sentence once, with the cells it is about."""
    about: dict[str, list[str]] = {}
    for cell in cells:
        facts = _facts(finished[cell.title])
        for note in facts["notes"]:
            about.setdefault(note, []).append(cell.title)
        again = sum(facts["reruns"].values())
        if again:
            note = "Replications repeated with a larger buffer (none was dropped)"
            about.setdefault(note, []).append(f"{cell.title}: {again}")
    return [f"{note} ({', '.join(where)})." for note, where in about.items()]


def _instance(bandit: LinearBandit) -> dict[str, Any]:
    """One data set's section of the manifest."""
    return {
        "hash": provenance.instance_digest(bandit),
        "K": bandit.num_arms,
        "d": bandit.dim,
        "law": bandit.noise.name,
        "best_mean": bandit.best_mean,
        **provenance.constants(bandit),
    }


def _cell_record(cell: Cell, config: Mapping[str, Any], done: Done) -> dict[str, Any]:
    """One cell's section of the manifest."""
    return {
        "key": cell_key(cell, config),
        "horizon": cell.horizon,
        "chosen_radius_scale": float(done.arrays["scales"][-1]),
        "params": {name: value for name, value in cell.params._asdict().items() if name != "radius_scale"},
        **_facts(done),
        "seconds": done.seconds,
    }


def _line(cell: Cell, done: Done, count: int, total: int) -> str:
    """What is said when a cell is finished."""
    literal, tuned = _runs(cell, done)
    return (
        f"[{count:2d}/{total}] {cell.set_name} {outputs.policy_label(cell.policy_name):5s} "
        f"regret {outputs.summary_text(literal.final('regret'))} literal, "
        f"{outputs.summary_text(tuned.final('regret'))} at ×{tuned.radius_scale:g} "
        f"({sum((done.seconds or {}).values()):.1f} s)"
    )
