"""`linbet status`."""

from __future__ import annotations

import argparse
import dataclasses
import json

from linbet_jax.statistics.tables import duration


def run(options: argparse.Namespace) -> int:
    """Prints how far a sweep is; 1 when a cell failed or is damaged, or a replication is unhealthy."""
    from linbet_jax.sweep.overview import Status, status

    sweep: Status = status(options.folder)
    if options.json:
        print(json.dumps(dataclasses.asdict(sweep), indent=2, ensure_ascii=False))
        return 0 if sweep.healthy else 1
    print(f"{sweep.folder}{f' ({sweep.name})' if sweep.name else ''}: {'running' if sweep.running else 'not running'}")
    left = "" if sweep.seconds_left is None or not sweep.to_do else f", {duration(sweep.seconds_left)} left"
    print(f"{sweep.done} of {sweep.cells} cells done, {len(sweep.failed)} failed, {sweep.to_do} to do{left}")
    for title in sweep.in_progress:
        print(f"  running    {title}")
    for title, error in sweep.failed.items():
        print(f"  failed     {title}: {' '.join(error.split())}")
    for title, error in sweep.damaged.items():
        print(f"  damaged    {title}: {' '.join(error.split())}")
    for title, count in sweep.unhealthy.items():
        print(f"  unhealthy  {title}: {count} seed{'s' if count != 1 else ''}")
    if sweep.carry_on and not sweep.running and (sweep.to_do or sweep.failed):
        print(f"carry on with: {sweep.carry_on}")
    return 0 if sweep.healthy else 1
