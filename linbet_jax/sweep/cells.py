"""The cells of a sweep, built and checked before anything runs, each with the hash of all that decides its numbers."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from linbet_jax import policies
from linbet_jax.bandits.datasets import HORIZONS
from linbet_jax.errors import InputError
from linbet_jax.policies.registry import policy_label
from linbet_jax.simulation.checks import CPU_BLOCK, MAX_CPU_BLOCK, check_params, check_rounds, x64_enabled
from linbet_jax.simulation.simulator import program_key
from linbet_jax.storage import provenance
from linbet_jax.storage.results import digest
from linbet_jax.sweep import plugins, work, worlds
from linbet_jax.sweep.grid import CELL_KEYS
from linbet_jax.sweep.model import TABLES, CellChoice, Choice, Sweep, in_words
from linbet_jax.sweep.schema import nearest, shown, unknown_key
from linbet_jax.sweep.table import COLUMNS

GPU_BLOCK = 1024  # seeds per block on a GPU: one size for any number of seeds, so that seeds can be added later
_COMMON = {"delta": 0.1, "ridge": 1.0, "radius_scale": 1.0}  # what make_policy itself takes, and its defaults
_RESERVED = (*COLUMNS, "dtype")  # what no option may be called
_FORMAT = 1  # of the files; part of every identity
_NAMES_HERE = {"num_arms": "K", "dim": "d", "seed": "instance_seed", "path": "drift"}  # what Python calls differently


class PlannedCell(NamedTuple):
    """One policy on one set."""

    id: str  # hash of everything that decides the numbers, 32 hexadecimal digits
    title: str  # its name in messages
    spec: dict[str, Any]  # plain data from which a worker builds it; see `work.run_part`
    entry: dict[str, Any]  # what the manifest says of it; no other cell and no number of seeds changes it
    rounds: tuple[int, ...]  # pulls that are recorded
    program: int  # number of the compiled program, shared by cells of equal static shape
    batch: int  # number of the group whose cells can run as one batch
    swept: dict[str, Any]  # values of the parameters that the sweep varies

    @property
    def horizon(self) -> int:
        """T."""
        return self.rounds[-1]

    @property
    def names(self) -> tuple[str, str, str]:
        """Names of its set and its policy in the sweep file, and its label in figures."""
        return self.entry["set"], self.entry["policy"], self.entry["label"]


def block_size(sweep: Sweep, platform: str) -> int:
    """Seeds per block: the file's, where a CPU can take so many (else InputError), or the device's default."""
    if platform == "cpu" and sweep.block_size is not None and sweep.block_size > MAX_CPU_BLOCK:
        raise InputError(f"{sweep.file}: block_size = {sweep.block_size}: must be at most {MAX_CPU_BLOCK} on CPU")
    return sweep.block_size or (CPU_BLOCK if platform == "cpu" else GPU_BLOCK)


def numerics_of(sweep: Sweep, kind: str) -> dict[str, Any]:
    """What decides a sweep's numbers beside the sweep itself, on a device with this name."""
    return provenance.numerics(sweep.dtype, kind, (work.__name__,))


def plan(sweep: Sweep, numerics: Mapping[str, Any], platform: str) -> list[PlannedCell]:
    """Builds every cell of a sweep.

    `numerics` come from `numerics_of` and are part of every cell's identity; the platform decides the block size.
    InputError says what a bandit, a policy or a file refuses, with the sweep file, the field and the cell, or that one
    cell has two names.
    """
    if sweep.dtype == "float64" and not x64_enabled():
        raise InputError(
            "dtype = 'float64': needs jax.config.update('jax_enable_x64', True) first (the command line does so itself)"
        )
    settings = {"key": sweep.key, "block_size": block_size(sweep, platform), "numerics": dict(numerics)}
    programs: dict[Hashable, int] = {}
    batches: dict[Hashable, int] = {}
    sets: dict[str, dict[str, Any]] = {}
    cells: dict[str, PlannedCell] = {}
    choices: dict[str, CellChoice] = {}
    for choice, swept in zip(sweep.cells, _swept(sweep.cells), strict=True):
        varied = ", ".join(f"{name}={_short(value)}" for name, value in swept.items())
        title = "/".join(choice.labels) + (f" ({varied})" if varied else "")
        try:
            key = digest([choice.set.label, choice.set.where, choice.set.source, choice.set.values])
            if key not in sets:
                sets[key] = _world(choice.set, sweep)
            spec, built = _built(choice, sets[key], sweep)
            try:
                rounds = check_rounds(spec["horizon"], sweep.records, sweep.record_at)
            except ValueError as error:
                raise InputError(f"record_at: {error}") from error
            with _placing(choice.set):  # a law of one's own may hold what has no hash
                entry = _entry(choice, spec, built, sweep)
        except InputError as error:
            raise InputError(f"{sweep.file}: cell {title}: {error}") from error
        identity = _identity(spec, built, entry, {**settings, "record_at": rounds.tolist()})
        if identity in cells:
            raise InputError(f"{sweep.file}: {_same(choices[identity], choice, (cells[identity].title, title))}")
        program = program_key(*built, horizon=spec["horizon"], num_records=rounds.size, dtype=sweep.dtype)
        batch = (built.policy, entry["bandit"]["instance_hash"], spec["horizon"], program)
        choices[identity] = choice
        cells[identity] = PlannedCell(
            id=identity,
            title=title,
            spec={"id": identity, **spec},
            entry={"id": identity, **entry},
            rounds=tuple(rounds.tolist()),
            program=programs.setdefault(program, len(programs)),
            batch=batches.setdefault(batch, len(batches)),
            swept=swept,
        )
    return list(cells.values())


def _same(first: CellChoice, second: CellChoice, titles: Sequence[str]) -> str:
    """A sentence on two choices of the file that are one cell."""
    wheres = [choice.policy.where for choice in (first, second)]
    sides = [where if where.startswith("cells[") else title for where, title in zip(wheres, titles, strict=True)]
    before, after = first.values, second.values
    whether = [
        f"{name} is {' or '.join(shown(side[name]) if name in side else 'not given' for side in (before, after))}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    why = f", whether {' and '.join(whether[:2])}" if whether else ""
    return f"{sides[0]} and {sides[1]} are one and the same cell{why}; leave one of them out"


def _swept(choices: Sequence[CellChoice]) -> Iterator[dict[str, Any]]:
    """For every choice, its values of the parameters that take more than one value on its set with its policy."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for choice in choices:
        groups.setdefault(choice.labels, []).append(choice.values)
    swept = {}
    for labels, group in groups.items():
        varied = []
        for name in dict.fromkeys(itertools.chain(*group)):
            values = [cell[name] for cell in group if name in cell]
            varied += [name] if any(value != values[0] for value in values) else []
        for table, kind in TABLES.items():
            # Several laws or mixtures differ as a whole; settings of one law differ in their parameters.
            several = f"{table}.{kind}" in varied or not any(n.startswith(f"{table}.") for n in varied)
            varied = [n for n in varied if not (n.startswith(f"{table}.") if several else n == table)]
        swept[labels] = varied
    for choice in choices:
        yield {name: value for name, value in choice.values.items() if name in swept[choice.labels]}


def _short(value: Any) -> str:
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(value) if isinstance(value, float) and float(short) != value else short


# Building ------------------------------------------------------------------------------------------------------------


def _world(choice: Choice, sweep: Sweep) -> dict[str, Any]:
    """A set's plain data."""
    world = worlds.spec(choice, sweep.folder)
    if not choice.custom:
        return world
    with _placing(choice):
        work.build_bandit(world, 0)
        files = plugins.files(world, "set", **choice.values.get("options", {}))
    return {**world, "files": files, "content": digest([world["content"], files])} if files else world


def _built(choice: CellChoice, world: dict[str, Any], sweep: Sweep) -> tuple[dict[str, Any], work.Built]:
    """A cell's plain data, and what they stand for."""
    policy = choice.policy
    horizon = HORIZONS[choice.set.source] if choice.horizon is None else choice.horizon
    player: dict[str, Any] = {"source": policy.source, "options": dict(policy.values)}
    spec = {"set": world, "policy": player, "horizon": horizon}
    if policy.custom:
        _, source = plugins.load(policy.source, sweep.folder, f"{policy.where}.policy")
        player |= {"folder": str(sweep.folder), "digest": source}
    else:
        player |= plugins.registered(policy.source)
    _check_options(policy)
    # The bandit alone first, so that it is clear which of the two a message is about.
    with _placing(choice.set):
        bandit = work.build_bandit(world, horizon)
    with _placing(policy):
        built = work.build(spec)
        files = plugins.files(player, "policy", bandit, horizon=horizon, **policy.values) if policy.custom else {}
        if files:
            player["files"] = files
            built = work.build(spec)
        check_params(*built, horizon, sweep.dtype)
    return spec, built


@contextlib.contextmanager
def _placing(choice: Choice) -> Iterator[None]:
    """What checks refuse in the block becomes a message behind the path of the field that it is about."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a function of one's own may raise anything
        text = str(error) or type(error).__name__
        field = text.replace("=", " ").split(" ", 1)[0]
        field = _NAMES_HERE.get(field, field)
        if not isinstance(error, ValueError):
            text = f"{type(error).__name__}: {text}"
        where = f"{choice.where}.{field}" if field in choice.values else choice.where
        raise InputError(f"{where}: {text}") from error


def _check_options(policy: Choice) -> None:
    if policy.custom:
        for name in policy.values:
            if name in _RESERVED:
                reason = f"an option cannot be called like a column of the results ({', '.join(_RESERVED)})"
                raise InputError(f"{policy.where}.{name}: {reason}")
        return
    if policy.source not in policies.names():
        known = [*policies.names(), "module:function"]
        raise InputError(f"{policy.where}.policy = {policy.source!r}: no such policy{nearest(policy.source, known)}")
    beside = CELL_KEYS if policy.where.startswith("cells[") else ("policy", "sets")
    known = list(dict.fromkeys([*beside, *_COMMON, *policies.options(policy.source)]))
    for name, value in policy.values.items():
        if name not in known:
            raise InputError(unknown_key(f"{policy.where}.{name}", name, known))
        if isinstance(value, (dict, list)):
            raise InputError(f"{policy.where}.{name} = {shown(value)}: must be a single value, or a list of such")


def _entry(choice: CellChoice, spec: Mapping[str, Any], built: work.Built, sweep: Sweep) -> dict[str, Any]:
    """The manifest's entry: names, options, parameters and the bandit's constants."""
    bandit, label = built.bandit, choice.policy.label
    options, parameters = _described(choice.policy, built.params)
    set_values = choice.set.values.get("options", {}) if choice.set.custom else choice.set.values
    return {
        "set": choice.set.label,
        "policy": label,
        "label": policy_label(label) if choice.policy.source == label else label,
        "source": {
            "set": choice.set.source,
            "policy": choice.policy.source,
            **{f"{side}_module": spec[side]["digest"] for side in ("set", "policy") if "digest" in spec[side]},
            **{f"{side}_files": spec[side]["files"] for side in ("set", "policy") if "files" in spec[side]},
        },
        "horizon": spec["horizon"],
        "dtype": sweep.dtype,
        "options": options,
        "parameters": parameters,
        "set_options": {n: in_words(v) for n, v in set_values.items() if n not in ("arms", "theta_star")},
        "bandit": {
            "K": bandit.num_arms,
            "d": bandit.dim,
            "law": str(bandit.noise.name),
            **({} if bandit.path is None else {"drift": worlds.drift_in_words(set_values.get("drift"))}),
            **{name: value if math.isfinite(value) else None for name, value in provenance.constants(bandit).items()},
            "instance_hash": worlds.instance_hash(spec["set"], bandit),
        },
    }


def _described(policy: Choice, params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy's options that shape it, and its numbers: (options, parameters)."""
    fields = params._asdict() if hasattr(params, "_asdict") else params if isinstance(params, Mapping) else {}
    parameters = {}
    for name, value in fields.items():
        array = np.asarray(None if isinstance(value, (Mapping, str)) else value)
        if name != "horizon" and array.dtype.kind in "fiub" and array.size <= 16:  # what a table can show
            parameters[str(name)] = array.tolist() if np.all(np.isfinite(array)) else None  # as JSON can write it
    if policy.custom:
        return dict(policy.values), parameters
    options = {**policies.options(policy.source), **policy.values}
    common = {name: options.pop(name, default) for name, default in _COMMON.items()}
    return {n: v for n, v in options.items() if n not in parameters and v is not None}, {**common, **parameters}


def _identity(spec: Mapping[str, Any], built: work.Built, entry: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Hash of all that decides a cell's numbers; its names, and what runs beside it, do not."""
    leaves = [(str(np.asarray(leaf).dtype), np.asarray(leaf).tolist()) for leaf in jax.tree.leaves(built.params)]
    return digest(
        {
            "format": _FORMAT,
            "instance": entry["bandit"]["instance_hash"],
            "policy": {name: spec["policy"].get(name) for name in ("source", "digest", "files")},
            "options": entry["options"],
            "common": {name: entry["parameters"].get(name) for name in _COMMON},
            "params": leaves,
            "horizon": spec["horizon"],
            **settings,
        }
    )[:32]


def entries(cells: Sequence[PlannedCell], seeds: int) -> list[dict[str, Any]]:
    """The manifest's list of cells."""
    return [
        {**c.entry, "title": c.title, "seeds": seeds, "records": len(c.rounds), "swept": c.swept, "facts": None}
        for c in cells
    ]
