"""`linbet status`."""

from __future__ import annotations

import argparse
import dataclasses
import json

from linbet_jax.statistics.tables import duration

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Prints how far a sweep is; 1 when a cell failed or a replication is unhealthy."""
    from linbet_jax.sweep.overview import Status, status

    found: Status = status(options.folder)
    if options.json:
        print(json.dumps(dataclasses.asdict(found), indent=2, ensure_ascii=False))
        return 0 if found.healthy else 1
    print(f"{found.folder}{f' ({found.name})' if found.name else ''}: {'running' if found.running else 'not running'}")
    left = "" if found.seconds_left is None or not found.to_do else f", {duration(found.seconds_left)} left"
    print(f"{found.done} of {found.cells} cells done, {len(found.failed)} failed, {found.to_do} to do{left}")
    for title in found.in_progress:
        print(f"  running    {title}")
    for title, error in found.failed.items():
        print(f"  failed     {title}: {' '.join(error.split())}")
    for title, count in found.unhealthy.items():
        print(f"  unhealthy  {title}: {count} seed{'s' if count != 1 else ''}")
    return 0 if found.healthy else 1
