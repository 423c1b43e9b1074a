"""The unit of work of a sweep: some seeds of one cell, or of several that share a program, as plain data in and out.

A part is described by a dictionary of plain values, so that any process can build its bandit and policies again and
run it. Every parameter is batched (`separate=True`), so that a cell's numbers do not depend on what ran beside it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from linbet_jax import noise
from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.bandits.datasets import dataset, lower_bound, make_instance, separating
from linbet_jax.bandits.drift import drifting, jumping, rotating
from linbet_jax.errors import InputError, named
from linbet_jax.noise._base import without_mean
from linbet_jax.policies import make_policy
from linbet_jax.policies.policy import Policy
from linbet_jax.simulation.results import Result
from linbet_jax.simulation.simulator import simulate_grid
from linbet_jax.sweep import plugins
from linbet_jax.sweep.model import ARMS, LOWER_BOUND, SEPARATING, UNIFORM

_DEFAULT_BEST_MEAN = 1.0
_KEPT = 2048  # bandits and policies that a process keeps built


class Built(NamedTuple):
    """What a cell's plain data stands for."""

    policy: Policy
    params: Any
    bandit: LinearBandit


def build(cell: Mapping[str, Any]) -> Built:
    """The bandit, policy and parameters of a cell's plain data; equal data give the same objects.

    The data are `set` (see `worlds.spec`), `policy` {source, options, where it is found, what it reads} and `horizon`.
    """
    player, horizon = cell["policy"], cell["horizon"]
    bandit = build_bandit(cell["set"], horizon)
    policy, params = _policy(_Plain(json.dumps(player, sort_keys=True, default=str), player), bandit, horizon)
    return Built(policy, params, bandit)


def build_bandit(world: Mapping[str, Any], horizon: int) -> LinearBandit:
    """The bandit of a set's plain data (see `worlds.spec`); equal data give the same object."""
    matters = world["source"] == LOWER_BOUND or "drift" in world["values"]
    return _bandit(_Plain(world["content"], world), horizon if matters else 0)


@dataclasses.dataclass(frozen=True)
class _Plain:
    """Plain data as a key of a cache: equal where the text that stands for them is."""

    text: str
    value: Mapping[str, Any] = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=_KEPT)
def _bandit(plain: _Plain, horizon: int) -> LinearBandit:
    source, values = plain.value["source"], dict(plain.value["values"])
    if "drift" in values:
        return _drifting(plain, horizon)
    if ":" in source:
        bandit = plugins.call(plain.value, "set", **values.get("options", {}))
        if not isinstance(bandit, LinearBandit):
            raise InputError(f"set = {source!r}: must return a linbet_jax.LinearBandit, got {type(bandit).__name__}")
        return bandit
    payoffs: Any = law(values.pop("noise")) if "noise" in values else None
    seed, resample = values.pop("instance_seed", None), values.pop("resample", False)
    label = plain.value["label"]
    if source == LOWER_BOUND:
        return lower_bound(values["d"], values["epsilon"], horizon, instance_seed=seed or 0, resample=resample)
    if source in SEPARATING:
        return separating(source, noise=payoffs, **values)
    if source == ARMS:
        return LinearBandit(values.pop("arms"), values.pop("theta_star"), payoffs, name=label, **values)
    if source == UNIFORM:
        if resample and seed is not None:
            raise ValueError(f"instance_seed={seed}: goes without resample=true")
        base = make_instance(
            values.pop("K"),
            values.pop("d"),
            payoffs,
            best_mean=values.pop("best_mean", _DEFAULT_BEST_MEAN),
            seed=seed or 0,
            epsilon=values.get("epsilon"),
            resample=resample,
        )
    else:
        base = dataset(source, instance_seed=seed, resample=resample)
        payoffs = payoffs or base.noise
        values["epsilon"] = values.get("epsilon", None if without_mean(payoffs) else base.epsilon)
    if base.generator is not None:
        facts: dict[str, Any] = {"best_mean": base.best_mean, "arm_norm": base.arm_norm, **values}
        return LinearBandit.resampled(base.generator, payoffs, name=label, **facts)
    assert base.arms is not None
    assert base.theta_star is not None
    return LinearBandit(base.arms, base.theta_star, payoffs, name=label, **values)


def _drifting(plain: _Plain, horizon: int) -> LinearBandit:
    """A set whose theta_star moves: the set that stays, along the path; bounds that the file gives are kept."""
    values = dict(plain.value["values"])
    path = values.pop("drift")
    still = _bandit(_Plain(f"{plain.text} that stays", {**plain.value, "values": values}), horizon)
    assert still.theta_star is not None
    if path["path"] == "rotating":
        moved = rotating(still.theta_star, path["angle"])
    else:
        moved = jumping(still.theta_star, path["every"])
    given = ("raw_moment_bound", "central_moment_bound", "mean_bound")
    bounds = {field: values[field] for field in given if field in values}
    return drifting(still, moved, horizon=horizon, name=still.name, **bounds)


def law(values: Mapping[str, Any]) -> Any:
    """The payoff law of a table that `worlds.spec` has checked."""
    arguments = dict(values)
    name = arguments.pop("law")
    if name == "Mixture":
        arguments["laws"] = [law(part) for part in arguments["laws"]]
    if "noise" in arguments:
        arguments["noise"] = law(arguments["noise"])
    return getattr(noise, name)(**arguments)


@functools.lru_cache(maxsize=_KEPT)
def _policy(plain: _Plain, bandit: LinearBandit, horizon: int) -> tuple[Policy, Any]:
    source, options = plain.value["source"], plain.value["options"]
    if ":" not in source:
        if "module" in plain.value:  # of another package, which registers the policy when it is imported
            importlib.import_module(plain.value["module"])
        return make_policy(source, bandit, horizon=horizon, **options)
    made = plugins.call(plain.value, "policy", bandit, horizon=horizon, **options)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], Policy)):
        raise InputError(f"policy = {source!r}: must return (linbet_jax.Policy, params), got {type(made).__name__}")
    return made


def run_part(
    part: Mapping[str, Any],
    *,
    progress: Callable[[int, int], None] | None = None,
    devices: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Runs one part, which tells progress over all of its cells, on these devices or on all local ones.

    A part has `cells` (plain data of cells that share bandit, horizon and program), `start` and `stop` (seeds),
    `record_at` [R], `key`, `dtype` and `block_size`.

    Returns `cells`: for every cell by its id, either `rounds` [R], `regret` and `payoff` [n, R] float64, `health` [n],
    `facts`, `notes`, `block_size`, `device`, `prng` and `reruns`, or an `error`; and `compile_seconds` and
    `run_seconds` of the part. What a simulation raises is an `error` of its cell alone.
    """
    cells, begun = part["cells"], time.perf_counter()
    try:
        results = _simulate(part, cells, progress, devices)
        plain = {cell["id"]: _plain_result(result) for cell, result in zip(cells, results, strict=True)}
        seconds = {"compile_seconds": results[0].compile_seconds, "run_seconds": results[0].run_seconds}
    except Exception as error:  # a policy of one's own may raise anything, and only its cell fails
        if len(cells) > 1:
            alone = [run_part({**part, "cells": [cell]}, devices=devices) for cell in cells]
            plain = {name: result for outcome in alone for name, result in outcome["cells"].items()}
            seconds = {name: sum(outcome[name] for outcome in alone) for name in ("compile_seconds", "run_seconds")}
        else:
            plain = {cells[0]["id"]: {"error": named(error)}}
            seconds = {"compile_seconds": 0.0, "run_seconds": time.perf_counter() - begun}
    return {"cells": plain, **seconds}


def _simulate(
    part: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], progress: Any, devices: Sequence[Any] | None
) -> list[Result]:
    built = [build(cell) for cell in cells]
    results = simulate_grid(
        built[0].policy,
        [cell.params for cell in built],
        built[0].bandit,
        horizon=cells[0]["horizon"],
        seeds=np.arange(part["start"], part["stop"], dtype=np.int64),
        key=jax.random.key(part["key"]),
        record_at=np.asarray(part["record_at"], np.int64),
        dtype=part["dtype"],
        block_size=part["block_size"],
        progress=progress,
        devices=devices,
        separate=True,
        warn=False,
    )
    # What was unhealthy is counted over all parts of a cell, from the health words.
    return [dataclasses.replace(result, notes=built[0].policy.about.notes) for result in results]


def _plain_result(result: Result) -> dict[str, Any]:
    return {
        "rounds": result.rounds,
        "regret": np.asarray(result.regret, np.float64),
        "payoff": np.asarray(result.payoff, np.float64),
        "health": result.health,
        "facts": {str(name): float(value) for name, value in result.facts.items()},
        "notes": [str(note) for note in result.notes],
        "block_size": result.block_size,
        "device": result.device.rpartition(" x")[0],  # how many devices there were decides no number
        "prng": result.prng,
        "reruns": result.reruns,
    }
