"""Sweep folders made up for tests: as `linbet sweep` leaves them, with numbers from a formula."""

import hashlib
import json

import numpy as np

from linbet_jax.sweep.store import Rows, Store

EXPONENTS = {"tofu": 0.7, "menu": 0.66, "mom": 0.8, "crt": 0.85, "oful": 0.5}
BANDITS = {
    "S1": {"K": 20, "d": 10, "law": "StudentT(3)", "epsilon": 1.0, "instance_hash": "aa11"},
    "S3": {"K": 20, "d": 10, "law": "Pareto(2)", "epsilon": 0.5, "instance_hash": "bb22"},
}


def cell(set_name="S3", policy="tofu", horizon=1000, *, seeds=6, records=20, **parameters):
    """A manifest's entry."""
    entry = {
        "set": set_name,
        "policy": policy,
        "source": {"set": set_name, "policy": policy},
        "label": {"tofu": "TOFU", "menu": "MENU", "mom": "MoM", "crt": "CRT", "oful": "OFUL"}.get(policy, policy),
        "horizon": horizon,
        "dtype": "float64",
        "options": {"level": "proof"} if policy == "tofu" else {},
        "parameters": {"delta": 0.1, "radius_scale": 1.0, **parameters},
        "bandit": BANDITS.get(set_name, {**BANDITS["S3"], "instance_hash": set_name}),
        "seeds": seeds,
        "records": records,
        "set_options": {},
        "facts": None,
    }
    identity = hashlib.sha256(json.dumps({**entry, "seeds": 0}, sort_keys=True).encode()).hexdigest()[:32]
    return {"id": identity, **entry}


def numbers(entry, seeds=None):
    """Pulls [R], regret [S, R], payoff [S, R] and health [S] of a cell: what is shared by policies is the seed's."""
    seeds = entry["seeds"] if seeds is None else seeds
    horizon, records = entry["horizon"], min(entry["records"], entry["horizon"])
    pulls = np.array([-(-j * horizon // records) for j in range(1, records + 1)])
    shared = 1 + 0.2 * np.random.default_rng(len(entry["set"])).normal(size=(seeds, 1))
    own = 1 + 0.05 * np.random.default_rng(int(entry["id"][:8], 16)).normal(size=(seeds, 1))
    scale = entry["parameters"]["radius_scale"]
    regret = np.abs(shared * own) * (0.5 + scale) * pulls ** EXPONENTS.get(entry["policy"], 0.9)
    return pulls, regret, 0.8 * pulls - regret, np.zeros(seeds, np.int64)


def write_cell(folder, entry, *, seeds=None, health=None, regret=None):
    """The file of one finished cell."""
    pulls, made, payoff, words = numbers(entry, seeds)
    regret = made if regret is None else regret
    words = words if health is None else np.asarray(health, np.int64)
    facts = {"facts": {"k": 3}, "notes": [], "block_size": 16, "device": "cpu", "prng": "threefry", "reruns": 0}
    store = Store(folder)
    store.folder.mkdir(parents=True, exist_ok=True)
    store.write_cell(entry, regret.shape[0], [Rows(0, pulls, regret, payoff, words)], facts)
    return store.cell_path(entry["id"])


def make_sweep(folder, cells, *, swept=(), missing=(), failed=(), started=(), unhealthy=(), status="finished", **more):
    """A sweep folder; the other arguments hold places in `cells`."""
    folder.mkdir(parents=True, exist_ok=True)
    events = []
    for place, entry in enumerate(cells):
        if place in missing:
            continue
        events.append({"time": "2026-01-01T00:00:00+00:00", "event": "started", "cell": entry["id"]})
        if place in started:
            continue
        if place in failed:
            events.append({"event": "failed", "cell": entry["id"], "error": "ValueError: theta_norm=<b>-1</b> & more"})
            continue
        health = np.zeros(entry["seeds"], np.int64)
        health[: 1 if place in unhealthy else 0] = 17
        write_cell(folder, entry, health=health)
        events.append(
            {
                "event": "done",
                "cell": entry["id"],
                "seed_pulls": entry["seeds"] * entry["horizon"],
                "run_seconds": 0.5,
                "compile_seconds": 1.25,
                "worker": "in-process",
            }
        )
    lines = [json.dumps({"time": "2026-01-01T00:00:00+00:00", **event}) for event in events]
    (folder / "journal.jsonl").write_text("\n".join([*lines, '{"event": "do']), encoding="utf-8")
    manifest = {
        "config": {"kind": "sweep", "identity": "0123"},
        "status": status,
        "environment": {"devices": "cpu, 2 cores", "python": "3.11"},
        "numerics": {"dtype": "float64", "linbet_jax": "0.1", "jax": "0.10.2"},
        "git": None,
        "sweep_file": 'seeds = 6\n[policies.tofu]\nlevel = "proof" # <script>alert(1)</script>\n',
        "overrides": [],
        "swept": list(swept),
        "cells": list(cells),
        **more,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
