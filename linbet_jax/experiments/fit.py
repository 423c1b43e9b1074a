"""What `linbet fit` shows of a log: numbers, the picture of its tail, and a sweep that plays it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from linbet_jax.errors import InputError
from linbet_jax.figures.plotting import save_figure, tail_figure
from linbet_jax.statistics.logs import LogFit
from linbet_jax.statistics.tables import aligned_table, number, span
from linbet_jax.statistics.tails import TailIndex
from linbet_jax.storage.results import replacing

SWEEP = """\
# {name}.toml: the bandit that was fitted to a log. Run it with: linbet sweep {name}.toml
name = {title}
seeds = 32
horizon = 10_000

[sets.{name}]
arms = "{name}-arms.csv"
theta_star = "{name}-theta_star.csv"
noise = {{ law = "Empirical", residuals = "{name}-residuals.npy" }}
epsilon = {epsilon}

[policies.oful]
[policies.uniform]
[policies.hvt_ucb]
[policies.crt]
radius_scale = [1.0, 0.1, 0.01]
[policies.tofu]
radius_scale = [1.0, 0.1, 0.01]
"""
NOTE = (
    "Left: tail index of |residual| against the number of order statistics, with 95% intervals; moments of order "
    "1 + ε need an index above it. Right: share of residuals beyond a size, and the Pareto tail of Hill's index at the "
    "usual k."
)


def text(fit: LogFit) -> str:
    """The fit in words and numbers."""
    bandit, order = fit.bandit, 1 + fit.epsilon
    means = np.asarray(bandit.means)
    mean_features = np.asarray(fit.counts @ np.asarray(bandit.arms) / max(1, fit.counts.sum()))
    theta = [
        [column, number(value, 4), number(feature, 4)]
        for column, value, feature in zip(fit.columns, np.asarray(bandit.theta_star), mean_features, strict=True)
    ]
    tails = [[f"|residual|, {c.method}", *_index(c.usual)] for c in fit.tails.values()]
    tails += [[side, *_index(index)] for side, index in (("above, Hill", fit.above), ("below, Hill", fit.below))]
    moments = [
        [what, number(float(e.value), 4), f"{number(float(e.low), 4)} to {number(float(e.high), 4)}"]
        for what, e in ((f"b, E|payoff|^{order:g}", fit.raw_moment), (f"c, E|noise|^{order:g}", fit.central_moment))
    ]
    lines = [
        f"{fit.residuals.size:,} rows; {bandit.num_arms} arms in {bandit.dim} dimensions",
        f"means {number(means.min(), 4)} to {number(means.max(), 4)}; best less second best {number(fit.gap, 4)}; "
        f"standard deviation of the residuals {number(float(np.std(fit.residuals)), 4)}",
        "",
        aligned_table(["feature", "theta_star", "mean feature"], theta, left=1),
        "",
        aligned_table(["tail index", "alpha", "95% interval", "k"], tails, left=1),
        "",
        f"epsilon = {fit.epsilon:g}; the data support up to {fit.supported_epsilon:g}",
        aligned_table(["moment", "value", "95% bootstrap interval"], moments, left=1),
    ]
    return "\n".join([*lines, *(f"NOTE: {note}" for note in fit.notes)])


def write(fit: LogFit, out: Path, *, name: str, source: str) -> tuple[Path, ...]:
    """The picture, the bandit's files and the sweep file, of a fit with one law for all arms.

    `name` is that of the set in the sweep file, and of all files; `source` says in words what log it was.

    Raises:
        InputError: a file of one of these names says something else: another fit, an edited sweep file or the log; or
            the folder cannot be made.
    """
    title = json.dumps(f"fitted to {source}", ensure_ascii=False)  # a string of JSON is one of TOML
    residuals = io.BytesIO()
    np.save(residuals, fit.residuals)
    contents = {
        out / f"{name}-arms.csv": _rows(np.asarray(fit.bandit.arms)),
        out / f"{name}-theta_star.csv": _rows(np.asarray(fit.bandit.theta_star)[None]),
        out / f"{name}-residuals.npy": residuals.getvalue(),
        out / f"{name}.toml": SWEEP.format(name=name, title=title, epsilon=repr(float(fit.epsilon))).encode(),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = [path for path, content in contents.items() if path.exists() and path.read_bytes() != content]
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror}") from error
    if held:
        raise InputError(f"--out {out}: {held[0].name} is there and says something else; name another folder")
    for path, content in contents.items():
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    pictures = [out / f"{name}-tail{suffix}" for suffix in (".png", ".pdf")]
    for path in pictures:
        save_figure(tail_figure(fit, title=f"The tail of {source}", note=NOTE), path)
    return (*pictures, *contents)


def _rows(matrix: np.ndarray) -> bytes:
    """A CSV of numbers alone, each with a point: a first line of names could be numbers, and be taken for a row."""
    return "".join(",".join(repr(float(value)) for value in row) + "\n" for row in matrix).encode()


def _index(index: TailIndex | None) -> list[str]:
    return ["–"] * 3 if index is None else [*span(*index[:3], digits=2).split(" ", 1), f"{index.k}"]
