"""The report's HTML page: everything inside it, nothing fetched, every text from a file escaped.

`page.html` is the template, with all markup and prose; here are the numbers and tables that it shows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import jinja2

from linbet_jax._version import __version__
from linbet_jax.figures.sheets import Picture, inline_svg
from linbet_jax.report import gather, tables
from linbet_jax.report.pictures import better
from linbet_jax.statistics.tables import between, duration, grouped, number
from linbet_jax.sweep.table import LoadedCell

OPEN_ROWS = 40  # a table with more rows is folded up, set by set
LISTED = 200  # unhealthy seeds written out


class Row(NamedTuple):
    """A table's row: the first text is its heading, with a swatch of that colour before it."""

    texts: Sequence[str]
    color: str = ""
    best: bool = False


def page(report: gather.SweepReport, pictures: Sequence[Picture], *, files: Sequence[str] = ()) -> str:
    """The whole page, its pictures in their order, with links to files beside it (names relative to the page)."""
    sweep, manifest = report.sweep, dict(report.sweep.manifest)
    kinds = grouped(pictures, lambda picture: picture.kind)
    counter = itertools.count(1)
    compared = [(setting, setting.comparison) for setting in report.settings if setting.comparison is not None]
    summaries = [_summary(report, setting) for setting in report.settings]
    of_policy = grouped(sweep.cells, lambda cell: cell.policy)
    sweep_file, numerics = manifest.pop("sweep_file", None), manifest.get("numerics") or {}
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return (
        environment.from_string(_resource("page.html"))
        .render(
            report=report,
            pictures=kinds,
            svg=lambda picture: inline_svg(picture, f"f{next(counter)}"),
            style=_resource("page.css"),
            script=_resource("page.js"),
            version=__version__,
            level=f"{gather.LEVEL:.0%}",
            name=str(manifest.get("name") or sweep.path.name),
            manifest={
                "status": manifest.get("status"),
                "sweep_file": str(sweep_file or ""),
                "overrides": [str(line) for line in manifest.get("overrides") or ()],
                "versions": [f"{name} {numerics[name]}" for name in ("linbet_jax", "jax") if numerics.get(name)],
                "devices": (manifest.get("environment") or {}).get("devices") or "",
            },
            manifest_text=json.dumps(manifest, indent=1, ensure_ascii=False),
            count=_count,
            pulls=sum(cell.stored * cell.horizon for cell in sweep.cells),
            duration=duration,
            winners=_winners(compared),
            legend=[(report.colors[cells[0].family], cells[0].label) for cells in of_policy.values()],
            swept=[
                (name, gather.parameter_name(name), len(panels) - len(kinds[f"parameter-{name}"]))
                for name, panels in grouped(report.parameters, lambda panel: panel.parameter).items()
            ],
            exponents=_exponents(report),
            caveats=list(dict.fromkeys(g.fit.caveat for g in report.growths if g.fit is not None and g.fit.caveat)),
            comparisons=[
                (setting.name, _differences(report, comparison), _ranks(report, comparison))
                for setting, comparison in compared
            ],
            times=_times(report),
            absent=_absent(report),
            troubled=_troubled(report),
            summaries=summaries,
            statistics=tables.statistics(report),
            open_rows=OPEN_ROWS,
            texts=(("markdown", "Markdown", tables.markdown(report)), ("latex", "LaTeX", tables.latex(report))),
            settings=[
                (key.capitalize(), [Row([str(name), str(value)]) for name, value in held.items()])
                for key in ("environment", "numerics")
                if isinstance(held := manifest.get(key), dict)
            ],
            files=files,
        )
        .lstrip()
    )


def _resource(name: str) -> str:
    return resources.files("linbet_jax.report").joinpath(name).read_text(encoding="utf-8")


def _count(value: float) -> str:
    for unit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= unit:
            return f"{value / unit:.3g} {sign}"
    return f"{value:,.0f}"


def _winners(compared: Sequence[tuple[gather.Setting, gather.PairedComparison]]) -> list[Row]:
    body = []
    for setting, comparison in compared:
        first, final = comparison.first, comparison.best.final
        names = [variant.label for variant in first]
        shown = [" and ".join(names)]
        shown += [number(final.mean, 4), between(final, 4), number(final.median, 4)]
        others = [(variant, pair.difference) for variant, pair in comparison.pairs if variant.label not in names]
        if others:
            second, difference = min(others, key=lambda other: float(other[1].mean))
            shown += [second.label, number(difference.mean, 4), between(difference, 4)]
        elif comparison.pairs:
            shown += ["none: equal in every seed", "–", "–"]
        if comparison.pairs:
            body.append(Row([setting.title, setting.detail, *shown]))
    return body


def _exponents(report: gather.SweepReport) -> list[Row]:
    body = []
    for growth in report.growths:
        fit, shown = growth.fit, ["–", "–", "–"]
        if fit is not None:
            shown = [f"{fit.n} of {fit.seeds}", f"{float(fit.value):.3f}{'*' if fit.caveat else ''}"]
            shown.append(between(fit, places=3))
        bound = "–" if growth.theory is None else f"{growth.theory:.3f}"
        texts = [growth.label, growth.title, f"{growth.band.at.size}", *shown, bound]
        body.append(Row(texts, growth.color))
    return body


def _differences(report: gather.SweepReport, comparison: gather.PairedComparison) -> list[Row]:
    """Every pair of policies: a row's regret minus that of each in turn."""
    labels = list(dict.fromkeys(first for first, _ in comparison.matrix))
    winners = [variant.label for variant in comparison.first]
    color = _colors(report, comparison)

    def text(first: str, second: str) -> str:
        pair = comparison.matrix.get((first, second))
        if pair is None:
            return ""
        difference = pair.difference
        band = f" ({between(difference, 4)})" if difference.has_band else ""
        return f"{number(difference.mean, 4)}{band}, median {number(difference.median, 4)}, {better(pair.wins)}"

    return [
        Row([first, *(text(first, second) for second in labels)], color[first], first in winners) for first in labels
    ]


def _colors(report: gather.SweepReport, comparison: gather.PairedComparison) -> dict[str, str]:
    return {first: report.colors[pair.first.family] for (first, _), pair in comparison.matrix.items()}


def _ranks(report: gather.SweepReport, comparison: gather.PairedComparison) -> list[Row]:
    ranks, color = [], _colors(report, comparison)
    for rank in comparison.ranks:
        final = rank.summary
        if final.n:
            shown = [f"{float(final.mean):.2f}", between(final, places=2)]
            shown += [f"{100 * share:.0f}%" for share in (rank.first, rank.tied)]
            ranks.append(Row([rank.name, *shown, f"{final.n} of {final.seeds}"], color[rank.name]))
    return ranks


def _times(report: gather.SweepReport) -> list[Row]:
    body = []
    for cells in grouped(report.sweep.cells, lambda cell: cell.policy).values():
        timed = [cell for cell in cells if cell.journey.run_seconds > 0 and cell.journey.seed_pulls > 0]
        if timed:
            run, compiling, pulls = (
                sum(getattr(cell.journey, name) for cell in timed)
                for name in ("run_seconds", "compile_seconds", "seed_pulls")
            )
            texts = [timed[0].label, f"{len(timed):,}", _count(pulls), duration(run), duration(compiling)]
            body.append(Row([*texts, number(gather.pulls_per_second(timed), 4)], report.colors[timed[0].family]))
    return body


def _named(setting: gather.Setting, cell: LoadedCell) -> str:
    return f"{setting.labels[cell.id]} on {setting.name}"


def _absent(report: gather.SweepReport) -> list[Row]:
    return [
        Row([_named(setting, cell), cell.state, f"{cell.stored} of {cell.seeds}", cell.error or "–", cell.id])
        for setting in report.settings
        for cell in setting.cells
        if not cell.whole
    ]


def _troubled(report: gather.SweepReport) -> list[Row]:
    body, left = [], LISTED
    for setting in report.settings:
        for variant in setting.variants:
            if variant.troubles:
                listed = [f"seed {seed} at pull {pull:,}" for seed, pull in variant.troubles[:left]]
                left -= len(listed)
                rest = len(variant.troubles) - len(listed)
                where = " and ".join(filter(None, [", ".join(listed), f"{rest} more" if rest else ""]))
                count = f"{len(variant.troubles)} of {variant.final.seeds}"
                body.append(Row([_named(setting, variant.cell), count, where]))
    return body


def _summary(report: gather.SweepReport, setting: gather.Setting) -> tuple[str, str, list[str], list[Row]]:
    """A setting's title, what stands small beside it, and its table."""
    best = () if setting.comparison is None else setting.comparison.first
    head, rows = tables.headings(report), tables.rows(report, setting)
    named = setting.detail.split(", ")  # what the title says of all rows needs no column
    shown = [n for n, name in enumerate(head) if not all(f"{name} = {texts[n]}" in named for *_, texts in rows)]
    body = [
        Row(
            [texts[n] for n in shown],
            report.colors[cell.family],
            variant is not None and any(variant is one for one in best),
        )
        for cell, variant, texts in rows
    ]
    cells = f"{len(body)} cell{'s' if len(body) > 1 else ''}"
    return setting.name, "; ".join(filter(None, [cells, setting.facts])), [head[n] for n in shown], body
