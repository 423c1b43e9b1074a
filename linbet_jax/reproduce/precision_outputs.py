"""What `reproduce precision` writes, made from its cells alone."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from linbet_jax.plotting import COLORS, Chart, Series, chart_figure, policy_label, save_figure
from linbet_jax.regret import Summary, paired_difference, summarize
from linbet_jax.reproduce.intervals import Share, share
from linbet_jax.results import write_text
from linbet_jax.tables import aligned_table, csv_text, interval, latex_table, markdown_table, number

__all__ = ["Comparison", "advice", "comparisons", "text", "write"]

_LEVEL = 0.05
_ROUNDING = 1e-6  # relative, of a float32 sum


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One policy with one radius scale in both types.

    Attributes:
        set_name: data set.
        policy: registry name.
        horizon: T, pulls.
        radius_scale: multiplies every radius.
        first: [S] first pull at which the arms differ, 0 for none.
        equal: [S] share of pulls with equal arms.
        wide: [S] final regret in float64.
        narrow: [S] final regret in float32.
        health: [2, S] health words, float64 first.
    """

    set_name: str
    policy: str
    horizon: int
    radius_scale: float
    first: NDArray[np.int64]
    equal: NDArray[np.float64]
    wide: NDArray[np.float64]
    narrow: NDArray[np.float64]
    health: NDArray[np.int64]

    @functools.cached_property
    def regret(self) -> Summary:
        """Final regret in float64."""
        return summarize(self.wide, self.health[0])

    @functools.cached_property
    def difference(self) -> Summary:
        """Final regret in float32 minus that in float64, seed by seed."""
        return paired_difference(self.narrow, self.wide, self.health[1], self.health[0])

    @property
    def unhealthy(self) -> int:
        """Replications of either type that met something non-finite."""
        return int(np.count_nonzero(self.health))

    @property
    def agreeing(self) -> Share:
        """Seeds whose arms agree over the whole run."""
        return share(int(np.count_nonzero(self.first == 0)), self.first.size)

    def quantile(self, probability: float) -> float:
        """Quantile of the first divergence over the seeds that diverge; NaN when none does."""
        parted = self.first[self.first > 0]
        return float(np.quantile(parted, probability)) if parted.size else float("nan")

    @property
    def chance(self) -> float:
        """Two-sided probability, by Student's t, of a mean difference as large as this if there were none.

        A mean difference within float32's rounding of a sum is none: 1. NaN for fewer than two seeds.
        """
        if not self.difference.has_band:
            return float("nan")
        mean, error = abs(float(self.difference.mean)), float(self.difference.standard_error)
        if mean <= _ROUNDING * abs(float(self.regret.mean)):
            return 1.0
        return float(2 * stdtr(self.difference.n - 1, -mean / error)) if error > 0 else 0.0


def comparisons(
    set_name: str, policy: str, horizon: int, scales: Sequence[float], arrays: Mapping[str, NDArray[Any]]
) -> list[Comparison]:
    """One comparison per scale, from a cell's arrays."""
    return [
        Comparison(
            set_name,
            policy,
            horizon,
            scale,
            first=arrays["first"][index],
            equal=arrays["equal"][index],
            wide=arrays["regret"][0, index],
            narrow=arrays["regret"][1, index],
            health=arrays["health"][:, index],
        )
        for index, scale in enumerate(scales)
    ]


def advice(found: Sequence[Comparison]) -> list[str]:
    """What the numbers say about when float32 is safe, in sentences."""
    compared = [c for c in found if c.difference.has_band]
    by_chance = [c for c in compared if c.chance < _LEVEL]
    # Bonferroni: over all comparisons together, a policy without any difference is named with probability 5% at most.
    moved = [c for c in by_chance if c.chance < _LEVEL / len(compared)]
    named = "; ".join(f"{_name(c)}: {number(c.difference.mean)} {interval(c.difference)} of {_mean(c)}" for c in moved)
    verdict = (
        f"{len(moved)} also after correction for the number of comparisons ({named}): use float64 there"
        if moved
        else "none after correction for the number of comparisons: float32 is safe for these statistics over seeds"
    )
    sentences = [
        f"Mean final regret: of {len(compared)} paired differences float32 - float64, {len(by_chance)} have a 95% "
        f"interval without 0 ({_LEVEL * len(compared):.1g} expected by chance), {verdict}.",
    ]
    for policy in dict.fromkeys(c.policy for c in found):
        shares = []
        for horizon in dict.fromkeys(c.horizon for c in found):
            own = [c for c in found if (c.policy, c.horizon) == (policy, horizon)]
            if own:
                count, total = (sum(getattr(c.agreeing, field) for c in own) for field in ("count", "total"))
                shares.append(f"{count} of {total} at T = {horizon:,}")
        parted = np.concatenate([c.first[c.first > 0] for c in found if c.policy == policy])
        when = f"; where they part, half do by pull {np.median(parted):,.0f}" if parted.size else ""
        sentences.append(
            f"{policy_label(policy)}, replications that play the same arms throughout: {', '.join(shares)}{when}."
        )
    sick = sum(c.unhealthy for c in found)
    sentences.append(f"Replications that met a non-finite number in either type: {sick}.")
    return sentences


def text(found: Sequence[Comparison]) -> str:
    """For a terminal."""
    return "\n".join(
        [
            f"float32 against float64, {_seeds(found)} seeds, the same noise; Δ is float32 - float64",
            aligned_table(_HEADER, [_cells(c) for c in found], left=3),
            "",
            *advice(found),
        ]
    )


def write(found: Sequence[Comparison], folder: Path) -> tuple[Path, ...]:
    """Pictures, Markdown, LaTeX and CSV."""
    files = []
    for horizon in dict.fromkeys(c.horizon for c in found):
        figure = _figure([c for c in found if c.horizon == horizon], horizon)
        for suffix in (".png", ".pdf"):
            files.append(folder / f"agreement_{horizon}{suffix}")
            save_figure(figure, files[-1])
    lines = ["# float32 against float64", ""]
    lines += [
        f"The same {_seeds(found)} seeds in both types. Agree: seeds whose arms agree over the whole run, with the",
        "exact binomial 95% interval. First divergence: over the seeds that diverge. Equal pulls: pulls with the same",
        "arm, mean over seeds. Δ regret: float32 minus float64 at the horizon, seed by seed, with its 95% interval",
        "(Student t).",
        "",
        *markdown_table(_HEADER, [_cells(c) for c in found]),
        "## When float32 is safe",
        "",
        *(f"- {sentence}" for sentence in advice(found)),
        "",
    ]
    write_text(folder / "precision.md", "\n".join(lines))
    caption = f"float32 against float64 over {_seeds(found)} seeds; brackets: 95% intervals."
    rows = [_cells(c) for c in found]
    write_text(folder / "precision.tex", latex_table(_HEADER, rows, caption=caption, label="table:precision"))
    write_text(folder / "precision.csv", _csv(found))
    return (*files, *(folder / f"precision.{suffix}" for suffix in ("md", "tex", "csv")))


_HEADER = (
    "set",
    "T",
    "policy",
    "scale",
    "agree",
    "first divergence: min",
    "median",
    "equal pulls",
    "regret",
    "Δ regret",
)


def _cells(c: Comparison) -> list[str]:
    agreeing = c.agreeing
    return [
        c.set_name,
        f"{c.horizon:,}",
        policy_label(c.policy),
        f"×{c.radius_scale:g}",
        f"{agreeing.count}/{agreeing.total} [{agreeing.low:.2f}, {agreeing.high:.2f}]",
        _pull(c.quantile(0)),
        _pull(c.quantile(0.5)),
        f"{100 * float(np.mean(c.equal)):.1f}%",
        number(c.regret.mean),
        f"{number(c.difference.mean)} {interval(c.difference)}" if c.difference.has_band else number(c.difference.mean),
    ]


def _csv(found: Sequence[Comparison]) -> str:
    """One line per replication, so that any other statistic can be made of it."""
    header = ["set", "horizon", "policy", "radius_scale", "seed", "first_divergence", "equal_pulls"]
    rows: list[list[object]] = []
    for c in found:
        for seed in range(c.first.size):
            values = (c.equal[seed], c.wide[seed], c.narrow[seed])
            words = (int(word) for word in c.health[:, seed])
            fixed = [c.set_name, c.horizon, c.policy, c.radius_scale, seed, int(c.first[seed])]
            rows.append([*fixed, *(float(value) for value in values), *words])
    return csv_text([*header, "regret_float64", "regret_float32", "health_float64", "health_float32"], rows)


def _figure(found: Sequence[Comparison], horizon: int) -> Any:
    """The share of seeds that still agree, against the pull."""
    scales = sorted({c.radius_scale for c in found}, reverse=True)
    rows = []
    for scale in scales:
        charts = []
        for set_name in dict.fromkeys(c.set_name for c in found):
            own = [c for c in found if (c.set_name, c.radius_scale) == (set_name, scale)]
            series = [
                Series(policy_label(c.policy), COLORS[c.policy], *_survival(c.first, horizon), marker="") for c in own
            ]
            title = f"{set_name}, radius_scale ×{scale:g}"
            charts.append(Chart(title, "pulls", "seeds still in agreement", series, (True, False), (-0.03, 1.05)))
        rows.append(charts)
    return chart_figure(
        rows,
        title=f"float32 against float64 at T = {horizon:,}: seeds whose arms have all been the same so far",
        note=f"{_seeds(found)} seeds; both runs of a seed meet the same noise, up to rounding.",
    )


def _survival(first: NDArray[np.int64], horizon: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A step function from 1: pulls and shares."""
    times = np.sort(np.where(first > 0, first, np.iinfo(np.int64).max))
    at = np.unique(np.concatenate([[1], np.repeat(times[times <= horizon], 1), [horizon]])).astype(np.float64)
    after = np.array([(times > t).mean() for t in at])
    before = np.array([(times >= t).mean() for t in at])
    return np.repeat(at, 2), np.stack([before, after], axis=1).reshape(-1)


def _seeds(found: Sequence[Comparison]) -> int:
    return found[0].first.size


def _pull(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:,.0f}"


def _name(c: Comparison) -> str:
    return f"{c.set_name} {policy_label(c.policy)} ×{c.radius_scale:g} T={c.horizon}"


def _mean(c: Comparison) -> str:
    return number(c.regret.mean)
