"""Figures in one call from results, and the parts for figures of one's own, in a style that no user setting changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from linbet_jax.figures.canvas import LABEL_SIZE, axes_grid, save_figure, styled
from linbet_jax.figures.charts import Chart, Series, chart_figure, growth_figure, ratio_map, tail_figure, tuning_figure
from linbet_jax.figures.colors import COLORS, OWN_COLORS, policy_colors, policy_sign
from linbet_jax.figures.panels import ILL, Curve, Panel, panel_figure
from linbet_jax.policies.registry import policy_label
from linbet_jax.simulation.results import bandit_of, result_labels
from linbet_jax.statistics.regret import Summary, summarize

__all__ = [
    "COLORS",
    "OWN_COLORS",
    "Chart",
    "Curve",
    "Panel",
    "Series",
    "chart_figure",
    "curves",
    "final",
    "growth_figure",
    "panel_figure",
    "policy_colors",
    "policy_label",
    "policy_sign",
    "ratio_map",
    "save_figure",
    "tail_figure",
    "tuning_figure",
]


def curves(
    results: Any, *, quantity: str = "regret", spread: str = "interval", log: bool = False, title: str = ""
) -> Figure:
    """Mean curves of one or several simulations, with the 95% interval of each mean: one call, one figure.

    Args:
        results: what `simulate` returned; or a list of those, what `simulate_grid` returned for example, with a panel
            for each bandit where they are of several; or a sweep, what `linbet_jax.load` returned, with a panel for
            each of its sets and horizons. Or a mapping: of labels to results, for labels of your own, or of titles to
            lists of results, for a panel each. Without a label of yours a curve has its policy's, with the parameters
            in which those of one policy differ.
        quantity: "regret" or "payoff", cumulative.
        spread: as in :func:`panel_figure`.
        log: logarithmic axes.
        title: above everything.

    Returns:
        The figure. A notebook shows it; :func:`save_figure` writes it.

    Raises:
        ValueError: anything else, or nothing to draw.
    """

    def curve(label: str, color: str, sign: str, result: Any) -> Curve:
        summary = summarize(getattr(result, quantity), result.health)
        name = _with_the_healthy(label, summary)
        return Curve(label, 1.0, result.rounds, summary, name=name, tint=color, sign=sign)

    panels = [Panel(name, [curve(*one) for one in shown]) for name, shown in _shown(results, quantity)]
    label, positive = f"cumulative {quantity}", quantity == "regret"
    return panel_figure([("", panels)], quantity=label, spread=spread, log=log, nonnegative=positive, title=title)


def final(results: Any, *, quantity: str = "regret", title: str = "") -> Figure:
    """The last record of one or several simulations: the mean with its 95% interval, and the median as a cross.

    Arguments, and the errors of wrong ones, are those of :func:`curves`.
    """
    panels = _shown(results, quantity)
    with styled():
        labels = [[one.label + ILL * bool(np.any(one.result.health)) for one in shown] for _, shown in panels]
        figure, axes = axes_grid([labels], "panels", title, "")
        for ax, (name, shown) in zip(axes[0], panels, strict=True):
            for place, (label, color, _, result) in enumerate(shown):
                summary = summarize(np.asarray(getattr(result, quantity))[:, -1], result.health)
                ends = np.array([[summary.mean - summary.low], [summary.high - summary.mean]])
                bars = ends if np.isfinite(ends).all() else None
                ax.errorbar(summary.mean, place, xerr=bars, fmt="o", color=color, capsize=2.5, markersize=4)
                ax.plot(summary.median, place, "x", color=color, markersize=5)
                beside = ax.get_yaxis_transform()
                told = _with_the_healthy(label, summary) + ILL * (summary.n == 0)
                style: Any = {"color": color, "fontsize": LABEL_SIZE, "parse_math": False}
                ax.text(1.03, place, told, va="center", transform=beside, **style)
            ax.set_yticks(range(len(shown)), [])
            ax.set_ylim(len(shown) - 0.5, -0.5)
            ax.set_title(name, loc="left", pad=5, parse_math=False)
            pulls = {int(one.result.rounds[-1]) for one in shown}
            ax.set_xlabel(f"{quantity} after {pulls.pop()} pulls" if len(pulls) == 1 else f"final {quantity}")
    return figure


def _with_the_healthy(label: str, summary: Summary) -> str:
    """The label, with the number of the healthy seeds where others were left out."""
    return f"{label} ({summary.n} of {summary.seeds} seeds)" if summary.unhealthy and summary.n else label


class _Shown(NamedTuple):
    """One simulation of a figure."""

    label: str
    color: str
    sign: str
    result: Any


def _shown(results: Any, quantity: str) -> list[tuple[str, list[_Shown]]]:
    """The panels of a figure: a title each, and what is drawn in it."""
    if quantity not in ("regret", "payoff"):
        raise ValueError(f"quantity={quantity!r}: must be 'regret' or 'payoff'")
    if callable(getattr(results, "panels", None)):  # a sweep
        panels = results.panels()
    elif not isinstance(results, Mapping):
        panels = _by_bandit(_by_policy(results))
    elif all(map(_is_result, results.values())):
        panels = {"": [(str(label), str(label), result) for label, result in results.items()]}
    else:
        panels = {str(title): _with_bandits(_by_policy(listed)) for title, listed in results.items()}
    if not any(panels.values()):
        raise ValueError("results: there is nothing to draw")
    return [(title, _told_apart(drawn)) for title, drawn in panels.items()]


def _told_apart(drawn: Sequence[tuple[str, str, Any]]) -> list[_Shown]:
    """(label, policy, result) with a label and a colour for each alone; the first of a policy has the policy's."""
    labels: list[str] = []
    owners: list[str] = []  # of the colours
    for label, policy, _ in drawn:
        alike = sum(other == label or other.startswith(f"{label} (") for other in labels)
        labels.append(f"{label} ({alike + 1})" if alike else label)
        owners.append(policy if policy not in owners else labels[-1])
    colors = policy_colors(owners)
    return [
        _Shown(label, colors[owner], policy_sign(owner), result)
        for label, owner, (_, _, result) in zip(labels, owners, drawn, strict=True)
    ]


def _is_result(value: Any) -> bool:
    return all(hasattr(value, field) for field in ("name", "params", "rounds", "regret", "payoff", "health"))


def _by_bandit(drawn: Sequence[tuple[str, str, Any]]) -> dict[str, list[tuple[str, str, Any]]]:
    """A panel for each bandit, with its name where there are several."""
    panels: dict[str, list[tuple[str, str, Any]]] = {}
    for one in drawn:
        panels.setdefault(bandit_of(one[2]), []).append(one)
    return panels if len(panels) > 1 else {"": [*drawn]}


def _with_bandits(drawn: list[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """The same with the bandit in each label, where they are of several."""
    if len({bandit_of(result) for _, _, result in drawn}) <= 1:
        return drawn
    return [(f"{label}, {bandit_of(result)}", policy, result) for label, policy, result in drawn]


def _by_policy(results: Any) -> list[tuple[str, str, Any]]:
    """Results with their policies' names and scales, and with the parameters in which those of one name differ."""
    listed = list(results) if isinstance(results, (list, tuple)) else [results]
    for result in listed:
        if not _is_result(result):
            raise ValueError(
                f"results: {type(result).__name__} is no result: give what simulate, simulate_grid or load returned, a"
                " list of results, or a mapping of labels or titles to them"
            )
    return [(label, result.name, result) for label, result in zip(result_labels(listed), listed, strict=True)]
