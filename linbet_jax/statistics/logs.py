"""A bandit from a log: theta_star by a robust fit, the law from its residuals, and the moments that they support.

A log is rows of features and the payoff that was seen. The distinct rows are the arms, unless arms are given.
theta_star is fitted by adaptive Huber regression: its threshold grows with the number of rows, so that the fit
estimates means, of lopsided payoffs too, and still gives no single payoff more than a bounded pull.

References:
    Sun, Zhou, Fan. Adaptive Huber regression. Journal of the American Statistical Association, 2020.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.noise import Empirical, EmpiricalPerArm
from linbet_jax.simulation.checks import is_number
from linbet_jax.statistics.intervals import Estimate, bootstrap_interval, check_level
from linbet_jax.statistics.tails import ESTIMATORS, SMALLEST, TailCurve, TailIndex, hill

FloatArray = NDArray[np.float64]
LARGEST = 1e100  # number that squares and higher moments of sums can do with
DIGITS = 12  # of theta_star: further ones depend on how many threads a matrix product has
MOST_ARMS = 1000  # distinct rows that are arms by themselves
FEW = 5  # equal payoffs at the end of a tail that are no cap
RESAMPLES = 500
_ROUNDS = 200  # of a fit, which gains a digit or more in each
_NORMAL, _HUBER = 1.4826, 1.345  # of the first fit: a normal law's sd over its median deviation, Huber's own threshold


@dataclasses.dataclass(frozen=True, repr=False)
class LogFit:
    """What a log says, and the bandit that it makes.

    Attributes:
        bandit: arms, theta_star and the residuals' law; its b and c are those of the residuals, exactly.
        columns: `[d]` names of the features.
        counts: `[K]` rows of the log for each arm; 0 for one that was given and never played.
        residuals: `[n]` payoffs less their fitted means, in the order of the log.
        threshold: of the last Huber fit, in units of payoff.
        tails: the tail index of |residual| by "hill", "moment" and "pickands", against k.
        above: Hill's index of the upper tail of the residuals at the usual k, None where there are too few.
        below: the same of the lower tail.
        epsilon: that of the bandit.
        supported_epsilon: the largest that the data support: 1 + epsilon is at most the lower end of the interval of
            Hill's index, and epsilon at most 1; 0 where no moment above the first is supported.
        raw_moment: b with a bootstrap interval: the largest E|payoff|^(1+epsilon) over the arms.
        central_moment: c with a bootstrap interval: E|payoff - mean|^(1+epsilon), per arm the largest.
        notes: sentences that must travel with the numbers.
    """

    bandit: LinearBandit
    columns: tuple[str, ...]
    counts: NDArray[np.int64]
    residuals: FloatArray
    threshold: float
    tails: dict[str, TailCurve]
    above: TailIndex | None
    below: TailIndex | None
    epsilon: float
    supported_epsilon: float
    raw_moment: Estimate
    central_moment: Estimate
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        index = self.tails["hill"].usual
        return (
            f"LogFit({self.residuals.size} rows, {self.bandit.num_arms} arms in {self.bandit.dim} dimensions; tail "
            f"index {index.alpha:.3g}, {index.low:.3g} to {index.high:.3g}; epsilon {self.epsilon:g})"
        )

    @property
    def gap(self) -> float:
        """The best arm's mean less the second best's; NaN for one arm."""
        means = np.sort(np.asarray(self.bandit.means))
        return float(means[-1] - means[-2]) if means.size > 1 else math.nan


def from_log(
    features: ArrayLike | str | os.PathLike[str],
    payoffs: ArrayLike | str | None = None,
    *,
    epsilon: float | None = None,
    arms: ArrayLike | None = None,
    per_arm: bool = False,
    columns: Sequence[str] | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    name: str = "log",
) -> LogFit:
    """Fits a bandit to a log.

    Args:
        features: `[n, d]` finite numbers of full column rank; or a .csv or .parquet file, as `read_log` reads it.
        payoffs: `[n]` finite numbers; of a file the name of their column, by default its last.
        epsilon: in (0, 1]; by default the largest that the data support.
        arms: `[K, d]` the decision set; by default the log's distinct rows, 1000 at most.
        per_arm: whether each arm keeps the residuals of its own rows, instead of one law for all. It needs rows of
            every arm, and arms of different means.
        columns: `[d]` names of the features; those of a file stand in it.
        level: coverage of the intervals, in (0, 1).
        resamples: of the bootstrap.
        seed: of the bootstrap.
        name: of the bandit.

    Returns:
        The fit. It warns where epsilon is above the supported one. The bootstrap intervals of b and c are right where
        moments of twice the order exist; elsewhere a note says that they are too short.

    Raises:
        ValueError: naming the field, the value and what is allowed.
    """
    if isinstance(features, (str, os.PathLike)):
        if payoffs is not None and not isinstance(payoffs, str):
            raise ValueError(f"payoffs must be the name of a column of {features}, got {type(payoffs).__name__}")
        if columns is not None:
            raise ValueError(f"columns must be None for a file, which has its own names, got {columns!r}")
        features, payoffs, columns, left_out = _read(features, payoffs)
    else:
        left_out = 0
    check_level(level)
    if not isinstance(per_arm, bool):
        raise ValueError(f"per_arm={per_arm!r}: must be True or False")
    rows, seen = _checked(features, payoffs)
    names = _names(columns, rows.shape[1])
    given: Any = epsilon
    if given is not None and not (isinstance(given, (int, float, np.number)) and 0 < given <= 1):
        raise ValueError(f"epsilon must satisfy 0 < epsilon <= 1, got {given!r}")
    if epsilon is None:
        first, _ = _fit(rows, seen, 1.0)
        epsilon = _some(_supported(hill(np.abs(seen - rows @ first), level=level).usual))
    theta, threshold = _fit(rows, seen, epsilon)
    residuals = seen - np.einsum("nd,d->n", rows, theta)  # whose order of additions is always the same
    sizes = np.abs(residuals)
    tails = {method: estimate(sizes, level=level) for method, estimate in ESTIMATORS.items()}
    supported = _supported(tails["hill"].usual)
    epsilon = _some(min(epsilon, supported)) if given is None else epsilon
    chosen, counts, place = _arms(rows, arms)
    law: Any = Empirical(residuals)
    if per_arm:
        if arms is not None or counts.min() < 1:
            raise ValueError("per_arm: needs rows of the log for every arm, which arms that are given may not have")
        law = EmpiricalPerArm(chosen @ theta, [residuals[place == arm] for arm in range(len(chosen))])
    bandit = LinearBandit(chosen, theta, law, epsilon=epsilon, name=name)
    settings: dict[str, Any] = {"level": level, "resamples": resamples, "seed": seed}
    return LogFit(
        bandit=bandit,
        columns=names,
        counts=counts,
        residuals=residuals,
        threshold=threshold,
        tails=tails,
        above=_side(residuals, level),
        below=_side(-residuals, level),
        epsilon=epsilon,
        supported_epsilon=supported,
        raw_moment=_moment(bandit, "raw_moment", **settings),
        central_moment=_moment(bandit, "central_moment", **settings),
        notes=(
            *([f"{left_out:,} rows with an empty entry were left out"] if left_out else []),
            *_notes(epsilon, supported, tails["hill"].usual, len(chosen)),
            *_capped(seen, sizes, tails["hill"].usual.k),
        ),
    )


def read_log(path: str | os.PathLike[str], payoff: str | None = None) -> tuple[FloatArray, FloatArray, list[str]]:
    """Features, payoffs and names of the features from a .csv (with a first line of names) or .parquet file.

    A column of numbers is a feature. A column of text is one indicator for each of its values; of further such columns
    the first value is left out, as it would be the sum of the others. Rows with an empty entry are left out; in a .csv
    NA, NaN, NULL and the like are empty too. The column of payoffs is by default the last. Returns `[n, d]`, `[n]` and
    `[d]` names.

    Raises:
        ValueError: no such file, another kind of file, no such column, a column of something else.
    """
    rows, seen, names, _ = _read(path, payoff)
    return rows, seen, names


def _read(path: str | os.PathLike[str], payoff: str | None) -> tuple[FloatArray, FloatArray, list[str], int]:
    """What `read_log` returns, and how many rows it left out."""
    place = Path(path)
    if place.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"features: {place} must end in .csv or .parquet")
    if not place.is_file():
        raise ValueError(f"features: there is no file {place}")
    import pyarrow as pa

    whole = _table(place)
    table = whole.drop_null()
    names = table.column_names
    target = names[-1] if payoff is None else payoff
    if target not in names:
        raise ValueError(f"payoffs: {place} has no column {target!r}; it has {', '.join(names)}")
    made: list[tuple[str, FloatArray]] = []
    indicators = False
    for column in names:
        kind = table.schema.field(column).type
        values = table.column(column).to_numpy()
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            made.append((column, np.asarray(values, np.float64)))
        elif (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and column != target:
            levels = sorted(set(values.tolist()))[int(indicators) :]
            made += [(f"{column}={level}", np.asarray(values == level, np.float64)) for level in levels]
            indicators = True
        else:
            field, allowed = ("payoffs", "numbers") if column == target else ("features", "numbers or text")
            raise ValueError(f"{field}: the column {column!r} of {place} must hold {allowed}, it holds {kind}")
    payoffs = next(values for column, values in made if column == target)
    rest = [(column, values) for column, values in made if column != target]
    rows = np.column_stack([values for _, values in rest])
    return rows, payoffs, [column for column, _ in rest], whole.num_rows - table.num_rows


def _table(place: Path) -> Any:
    """A file with a name for each column."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if place.suffix.lower() == ".csv":
            table = csv.read_csv(place, convert_options=csv.ConvertOptions(strings_can_be_null=True))
        else:
            table = parquet.read_table(place)
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"features: {place} cannot be read: {error}") from error
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"features: {place} must have one column of each name, got {name!r} twice")
        if not name or name in index:
            raise ValueError(
                f"features: {place} must not hold pandas' index, column {name!r}; write it with index=False"
            )
    if len(names) < 2:
        separator = next((mark for mark in ";\t|" if any(mark in name for name in names)), None)
        hint = "" if separator is None else f"; its entries must be separated by commas, not {separator!r}"
        raise ValueError(f"features: {place} must hold a column of payoffs and others, it holds {len(names)}{hint}")
    if all(map(is_number, names)):
        raise ValueError(f"features: the first line of {place} must name its columns, it reads {','.join(names)!r}")
    return table


def _checked(features: Any, payoffs: Any) -> tuple[FloatArray, FloatArray]:
    if np.iscomplexobj(features) or np.iscomplexobj(payoffs):
        raise ValueError("features and payoffs must be real numbers, got complex ones")
    try:
        rows, seen = np.asarray(features, np.float64), np.asarray(payoffs, np.float64)
    except (TypeError, ValueError):
        raise ValueError("features and payoffs must be numbers") from None
    if rows.ndim != 2 or rows.shape[1] < 1 or seen.shape != rows.shape[:1]:
        raise ValueError(f"features must be [n, d] and payoffs [n], got shapes {rows.shape} and {seen.shape}")
    if len(rows) < max(SMALLEST, 2 * rows.shape[1]):
        allowed = f"at least {max(SMALLEST, 2 * rows.shape[1])} rows, 20 and twice the dimension"
        raise ValueError(f"features must hold {allowed}, got {len(rows)}")
    for field, array in (("features", rows), ("payoffs", seen)):
        if not np.isfinite(array).all():
            raise ValueError(f"{field} must be finite, got {float(array[~np.isfinite(array)][0])!r}")
        if (largest := float(np.max(np.abs(array)))) > LARGEST:
            raise ValueError(f"{field} must be at most {LARGEST:g} in size, got {largest:g}: take a larger unit")
    size_of = np.linalg.norm(rows, axis=0)
    rank = int(np.linalg.matrix_rank(rows / np.where(size_of > 0, size_of, 1.0)))
    if rank < rows.shape[1]:
        raise ValueError(
            f"features must have full rank {rows.shape[1]}, got {rank}: leave out columns that others give"
        )
    return rows, seen


def _names(columns: Sequence[str] | None, dim: int) -> tuple[str, ...]:
    """Names of the features."""
    if columns is None:
        return tuple(f"x{i}" for i in range(dim))
    if isinstance(columns, str) or len(columns) != dim:
        got = repr(columns) if isinstance(columns, str) else f"{len(columns)}"
        raise ValueError(f"columns must be {dim} names, got {got}")
    return tuple(columns)


def _fit(rows: FloatArray, seen: FloatArray, epsilon: float) -> tuple[FloatArray, float]:
    """theta_star by adaptive Huber regression, and its threshold.

    The threshold is s (n / (d + ln n))^(1/(1+epsilon)), s^(1+epsilon) the mean of |residual|^(1+epsilon) about an
    ordinary Huber fit (Sun, Zhou and Fan 2020, Theorem 1).
    """
    size_of = np.linalg.norm(rows, axis=0)
    scaled = rows / size_of

    def huber(start: FloatArray, threshold: float) -> FloatArray:
        """Least squares again and again, each residual weighed by threshold / max(threshold, |residual|)."""
        theta = start
        for _ in range(_ROUNDS):
            residuals = seen - rows @ theta
            weights = threshold / np.maximum(np.abs(residuals), threshold)
            move = np.linalg.solve((scaled.T * weights) @ scaled, scaled.T @ (weights * residuals))
            theta = theta + move / size_of
            if np.max(np.abs(move)) <= 1e-9 * threshold:
                break
        return theta

    size, dim = rows.shape
    theta = np.asarray(np.linalg.lstsq(rows, seen)[0], np.float64)
    residuals = seen - rows @ theta
    spread = _NORMAL * float(np.median(np.abs(residuals - np.median(residuals))))
    if spread == 0.0:  # half of the payoffs are fitted exactly
        spread = float(np.mean(np.abs(residuals)))
    if spread <= 1e-12 * float(np.max(np.abs(seen))):
        raise ValueError("payoffs must not be a linear function of the features: there is no noise to fit")
    theta = huber(theta, _HUBER * spread)
    order = 1.0 + epsilon
    scale = float(np.mean(np.abs(seen - rows @ theta) ** order)) ** (1.0 / order)
    threshold = scale * (size / (dim + math.log(size))) ** (1.0 / order)
    theta = huber(theta, threshold)
    return np.array([float(f"{value:.{DIGITS}g}") for value in theta]), threshold


def _arms(rows: FloatArray, given: ArrayLike | None) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Arms `[K, d]`, rows of the log for each `[K]`, and each row's arm `[n]` (-1 for none)."""
    distinct, place, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    if given is None:
        if len(distinct) > MOST_ARMS:
            allowed = f"to be given (to from_log in Python) where the log has more than {MOST_ARMS} distinct rows"
            raise ValueError(f"arms must be [K, d], {allowed}, got None for {len(distinct)}")
        return distinct, counts.astype(np.int64), place.astype(np.int64)
    try:
        arms = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"arms must be [K, d] numbers: {error}") from None
    if arms.ndim != 2 or arms.shape[1] != rows.shape[1]:
        raise ValueError(f"arms must be [K, d] with d = {rows.shape[1]}, got shape {arms.shape}")
    same = (arms[:, None, :] == distinct[None]).all(axis=2)  # [K, distinct rows]
    owner = np.where(same.any(axis=0), same.argmax(axis=0), -1)
    return arms, (same @ counts).astype(np.int64), owner[place].astype(np.int64)


def _supported(index: TailIndex) -> float:
    """The largest epsilon, to three digits from below."""
    return max(0.0, min(1.0, math.floor(1000 * (index.low - 1.0)) / 1000))


def _some(epsilon: float) -> float:
    """An epsilon that is none of the data's is no choice."""
    if epsilon == 0:
        raise ValueError("epsilon: the data support none (the tail index may be 1 or less); give one to go on")
    return epsilon


def _side(values: FloatArray, level: float) -> TailIndex | None:
    try:
        return hill(values, level=level).usual
    except ValueError:
        return None


def _moment(bandit: LinearBandit, which: str, **settings: Any) -> Estimate:
    """A moment bound with its bootstrap interval, at the arm where the moment is largest."""
    law: Any = bandit.noise
    means = np.asarray(bandit.means)
    mean = float(means[int(np.argmax(getattr(law, which)(1.0 + bandit.epsilon, means)))])
    centre = mean if which == "raw_moment" else 0.0
    powers = np.abs(centre + law.residuals_at(mean)) ** (1.0 + bandit.epsilon)
    return bootstrap_interval(powers, method="percentile", **settings)


def _notes(epsilon: float, supported: float, index: TailIndex, arms: int) -> list[str]:
    notes = []
    if epsilon > supported:
        notes.append(
            f"epsilon = {epsilon:g} is above {supported:g}, the largest that the data support: moments of order "
            f"{1 + epsilon:g} may be infinite at a tail index of {index.alpha:.3g}, {index.low:.3g} to {index.high:.3g}"
        )
        warnings.warn(notes[0], UserWarning, stacklevel=3)
    if 2 * (1 + epsilon) > index.low:
        notes.append(
            f"the intervals of b and c may be too short: moments of order {2 * (1 + epsilon):g}, which their bootstrap "
            "needs, may be infinite"
        )
    if arms < 2:
        notes.append("there is one arm alone: nothing to choose")
    return notes


def _capped(seen: FloatArray, sizes: FloatArray, k: int) -> list[str]:
    """A note where many of the k payoffs with the largest residuals are the largest payoff, or the smallest."""
    tail = seen[np.argsort(sizes)[-k:]]
    ends = (("largest", float(np.max(seen))), ("smallest", float(np.min(seen))))
    return [
        f"payoffs look capped: {count} of the {k} that make the tail are the {which}, {value:g}; the tail index says "
        "nothing of what lies beyond"
        for which, value in ends
        if (count := int(np.count_nonzero(tail == value))) > FEW
    ]
