"""The report's HTML page: everything inside it, nothing fetched, every text from a file escaped."""

from __future__ import annotations

import dataclasses
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from linbet_jax._version import __version__
from linbet_jax.report import tables
from linbet_jax.report.figures import Picture, better, number
from linbet_jax.report.files import inline_svg
from linbet_jax.report.gather import Comparison, Report, Setting, parameter_name
from linbet_jax.sweep.table import Cell
from linbet_jax.tables import duration

__all__ = ["page"]

OPEN_ROWS = 40  # a table with more rows is folded up, set by set
LISTED = 200  # unhealthy seeds written out
# Styles and the script are in the page; nothing may be fetched, whatever a file's text tries.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(report: Report, pictures: Sequence[Picture], colors: Mapping[str, str], *, files: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        report: what it is about.
        pictures: in the order in which they are shown.
        colors: policy to colour.
        files: names of the files beside the page, relative to it, for links.
    """
    drawn = _Drawn(pictures)
    sections = [
        ("overview", "Overview", _overview(report)),
        ("regret", "Regret against pulls", _regret(report, drawn, colors)),
        ("final", "Final regret", _final(report, drawn)),
        ("parameters", "Parameters", _parameters(report, drawn)),
        ("growth", "Growth in T", _growth(report, drawn, colors)),
        ("paired", "Paired differences", _paired(report, drawn, colors)),
        ("speed", "Speed", _speed(report, drawn, colors)),
        ("health", "Health", _health(report)),
        ("table", "Table", _table_section(report, colors)),
        ("source", "Sweep file", _source(report, files)),
    ]
    present = [section for section in sections if section[2]]
    links = "".join(f'<li><a href="#{key}">{_e(title)}</a></li>' for key, title, _ in present)
    body = "".join(
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{_e(title)}</h2>{content}</section>'
        for key, title, content in present
    )
    folder = report.sweep.path.resolve().name
    name = str(report.sweep.manifest.get("name") or folder)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_e(POLICY)}">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{_e(name)}: linbet sweep report</title><style>{_resource('page.css')}</style></head><body>"
        '<a class="skip" href="#overview">Skip to the content</a>'
        f'<header class="top"><div class="wide"><div><p class="kicker">Sweep report: {_e(folder)}</p>'
        f"<h1>{_e(name)}</h1></div>"
        '<button id="theme" type="button" hidden></button></div>'
        f'<div class="wide"><p class="lede">{_e(_lede(report))}</p></div></header>'
        f'<nav aria-label="Sections"><div class="wide"><ul>{links}</ul></div></nav>'
        f'<main class="wide">{body}</main>'
        f'<footer><div class="wide">Made by linbet_jax {_e(__version__)}. Intervals cover {report.level:.0%}; '
        "seeds are the unit of replication throughout.</div></footer>"
        f"<script>{_resource('page.js')}</script></body></html>\n"
    )


class _Drawn:
    """Pictures by their kind, turned into figures when they are placed."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self.kinds: dict[str, list[Picture]] = {}
        for picture in pictures:
            self.kinds.setdefault(picture.kind, []).append(picture)
        self._count = 0

    def svg(self, picture: Picture) -> str:
        self._count += 1
        return inline_svg(picture, f"f{self._count}")

    def grid(self, kind: str) -> str:
        """All pictures of one kind."""
        figures = [_figure(picture, self.svg(picture)) for picture in self.kinds.get(kind, ())]
        return _panels(figures) if figures else ""


def _e(text: object) -> str:
    return html.escape(str(text), quote=True)


def _resource(name: str) -> str:
    return resources.files("linbet_jax.report").joinpath(name).read_text(encoding="utf-8")


def _panels(figures: Sequence[str]) -> str:
    size = {1: " one", 2: " two"}.get(len(figures), "")
    return f'<div class="panels{size}">{"".join(figures)}</div>'


def _figure(picture: Picture, content: str) -> str:
    detail = f" <span>{_e(picture.detail)}</span>" if picture.detail else ""
    note = f"<p>{_e(picture.note)}</p>" if picture.note else ""
    return f"<figure><figcaption>{_e(picture.title)}{detail}</figcaption>{content}{note}</figure>"


def _about(text: str) -> str:
    return f'<p class="about">{_e(text)}</p>'


def _swatch(color: str) -> str:
    return f'<span class="swatch" style="background:{_e(color)}"></span>'


def _scroll(label: str, content: str, *, tall: bool = False) -> str:
    return (
        f'<div class="scroll{" tall" if tall else ""}" role="region" tabindex="0" aria-label="{_e(label)}">'
        f"{content}</div>"
    )


def _html_table(label: str, head: Sequence[str], body: Iterable[str], *, numbers: int, tall: bool = False) -> str:
    """A table in a box of its own that scrolls; the last `numbers` columns are aligned right."""
    first = len(head) - numbers
    cells = "".join(
        f'<th scope="col"{" class=number" if at >= first else ""}>{_e(name)}</th>' for at, name in enumerate(head)
    )
    return _scroll(label, f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(body)}</tbody></table>", tall=tall)


def _row(texts: Sequence[str], *, numbers: int, swatch: str = "", best: bool = False) -> str:
    """One row: its first text is the row's heading; texts are escaped, `swatch` stands before the first."""
    first = len(texts) - numbers
    cells = [f'<th scope="row">{swatch}{_e(texts[0])}</th>']
    cells += [
        f"<td{' class=number' if at >= first else ''}>{_e(text)}</td>" for at, text in enumerate(texts[1:], start=1)
    ]
    return f"<tr{' class=best' if best else ''}>{''.join(cells)}</tr>"


def _fold(summary: str, content: str, *, small: str = "", shown: bool = False) -> str:
    extra = f" <small>{_e(small)}</small>" if small else ""
    return (
        f"<details{' open' if shown else ''}><summary>{_e(summary)}{extra}</summary>"
        f'<div class="inside">{content}</div></details>'
    )


def _interval(low: Any, high: Any) -> str:
    return f"[{number(low)}, {number(high)}]" if math.isfinite(float(low)) else "–"


def _lede(report: Report) -> str:
    sweep, numerics = report.sweep, report.sweep.manifest.get("numerics") or {}
    sets = list(dict.fromkeys(cell.set for cell in sweep.cells))
    policies = list(dict.fromkeys(cell.policy for cell in sweep.cells))
    seeds = sorted({cell.seeds for cell in sweep.cells})
    parts = [
        f"{len(policies)} polic{'y' if len(policies) == 1 else 'ies'} on {', '.join(sets[:6])}"
        f"{f' and {len(sets) - 6} more sets' if len(sets) > 6 else ''}",
        f"{_span(seeds)} seed{'' if seeds == [1] else 's'} a cell",
    ]
    device = (sweep.manifest.get("environment") or {}).get("devices")
    parts += [str(device)] if device else []
    versions = [f"{name} {numerics[name]}" for name in ("linbet_jax", "jax") if numerics.get(name)]
    return "; ".join([*parts, *([", ".join(versions)] if versions else [])])


def _span(values: Sequence[int]) -> str:
    return "0" if not values else f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _count(value: float) -> str:
    for unit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= unit:
            return f"{value / unit:.3g} {sign}"
    return f"{value:,.0f}"


def _overview(report: Report) -> str:
    cells = report.sweep.cells
    done = sum(cell.whole for cell in cells)
    if report.problems:
        items = "".join(f"<li>{_e(problem)}</li>" for problem in report.problems)
        word = "Complete, but not healthy"
        if not report.sweep.complete:
            state = report.sweep.manifest.get("status")
            word = f"Partial: not every cell is done{f' (the run is noted as {_e(state)})' if state else ''}"
        status = f'<div class="status bad" role="status">{word}<ul>{items}</ul></div>'
    else:
        status = '<p class="status good" role="status">Complete: every cell is done, every seed healthy</p>'
    pulls = sum(cell.stored * cell.horizon for cell in cells)
    journeys = [cell.journey for cell in cells]
    tiles = [
        ("Cells done", f"{done:,}", f"of {len(cells):,}"),
        ("Failed, not readable", f"{sum(cell.state in ('failed', 'damaged', 'unreadable') for cell in cells):,}", ""),
        ("Not computed", f"{sum(cell.state in ('missing', 'started', 'partial') for cell in cells):,}", ""),
        ("Unhealthy seeds", f"{report.unhealthy:,}", f"of {sum(cell.stored for cell in cells):,}"),
        ("Pulls", _count(pulls), ""),
        ("Computing", duration(sum(j.run_seconds for j in journeys)), ""),
        ("Compiling", duration(sum(j.compile_seconds for j in journeys)), ""),
    ]
    listed = "".join(
        f"<div><dt>{_e(name)}</dt><dd>{_e(value)}{f' <small>{_e(small)}</small>' if small else ''}</dd></div>"
        for name, value, small in tiles
    )
    return f'{status}<dl class="tiles">{listed}</dl>{_winners(report)}'


def _winners(report: Report) -> str:
    compared = [(s, s.comparison) for s in report.settings if s.comparison is not None and s.comparison.pairs]
    if not compared:
        return ""
    body = []
    for setting, comparison in compared:
        best = comparison.best
        ordered = sorted(comparison.pairs, key=lambda pair: float(pair[1].difference.mean))
        second, pair = ordered[0]
        body.append(
            _row(
                [
                    setting.title,
                    setting.detail,
                    best.label,
                    number(best.final.mean),
                    _interval(best.final.low, best.final.high),
                    number(best.final.median),
                    second.label,
                    number(pair.difference.mean),
                    _interval(pair.difference.low, pair.difference.high),
                ],
                numbers=0,
            )
        )
    head = [
        "set",
        "setting",
        "smallest mean regret",
        "mean",
        "interval",
        "median",
        "next",
        "difference",
        "its interval",
    ]
    text = (
        "The policy of the smallest mean regret in each setting, and how much more the next one loses on the same "
        "seeds. It is chosen on the seeds shown, which flatters it."
    )
    table = _html_table("Best policy by setting", head, body, numbers=0, tall=len(body) > 14)
    return f"<h3>Best by setting</h3>{_about(text)}{table}"


def _left_out(report: Report, shown: int) -> str:
    drawable = sum(bool(setting.shown) for setting in report.settings)
    if shown >= drawable:
        return ""
    return _about(
        f"Drawn: {shown} of {drawable} settings; the others are in the table. `linbet report --panels N` draws more."
    )


def _legend(report: Report, colors: Mapping[str, str]) -> str:
    first = {cell.policy: cell for cell in reversed(report.sweep.cells)}
    order = dict.fromkeys(cell.policy for cell in report.sweep.cells)
    items = "".join(f"<li>{_swatch(colors[first[name].family])}{_e(first[name].label)}</li>" for name in order)
    return f'<ul class="legend" aria-label="Colours of the policies">{items}</ul>'


def _regret(report: Report, drawn: _Drawn, colors: Mapping[str, str]) -> str:
    linear, logarithmic = drawn.kinds.get("regret", []), drawn.kinds.get("regret-loglog", [])
    if not linear:
        return _about("No cell holds replications yet.")
    single = any(variant.final.n == 1 for variant in report.variants)
    text = (
        f"Mean cumulative pseudo-regret over healthy seeds, with the {report.level:.0%} Student-t interval of the mean"
        f"{' (none for a single seed)' if single else ''}. On log axes the dotted lines rise as the policy's bound "
        "does; a first record without regret is left out and bands end at the axis. A thin line is a median that parts "
        "from its mean. The axes hold every median and trimmed mean; what few seeds draw far above them is named."
    )
    if len(linear) == 1:  # one setting: both pictures fit beside each other
        both = ((linear[0], "linear axes"), (logarithmic[0], "log–log axes"))
        named = [dataclasses.replace(picture, detail=f"{picture.detail}, {axes}") for picture, axes in both]
        grid = _panels([_figure(picture, drawn.svg(picture)) for picture in named])
        return f"{_about(text)}{_legend(report, colors)}{grid}{_left_out(report, 1)}"
    figures = [
        _figure(
            plain,
            f'<div class="linear">{drawn.svg(plain)}</div><div class="log">{drawn.svg(log)}</div>',
        )
        for plain, log in zip(linear, logarithmic, strict=True)
    ]
    choice = (
        '<fieldset class="choice"><legend>Axes</legend>'
        '<input type="radio" name="axes" id="axes-linear" checked><label for="axes-linear">Linear</label>'
        '<input type="radio" name="axes" id="axes-log"><label for="axes-log">Log–log</label></fieldset>'
    )
    return f"{_about(text)}{_legend(report, colors)}{choice}{_panels(figures)}{_left_out(report, len(linear))}"


def _final(report: Report, drawn: _Drawn) -> str:
    grid = drawn.grid("final-regret")
    if not grid:
        return ""
    text = (
        "Points are seeds (the first 120). A box holds the middle half, its thick line is the median, its whiskers "
        "reach from the 5% to the 95% quantile; the filled diamond is the mean, the open one the trimmed mean, without "
        "a tenth of the seeds at each end. Fewer than five seeds have no box. The axis holds every box; how many seeds "
        "lie outside is said."
    )
    return f"{_about(text)}{grid}"


def _parameters(report: Report, drawn: _Drawn) -> str:
    names = list(dict.fromkeys(panel.parameter for panel in report.parameters))
    parts = []
    for name in names:
        grid = drawn.grid(f"parameter-{name}")
        parts.append(f"<h3>{_e(parameter_name(name))}</h3>{grid}")
        hidden = sum(panel.parameter == name for panel in report.parameters) - len(drawn.kinds[f"parameter-{name}"])
        if hidden:
            parts.append(_about(f"{hidden} more in the table."))
    if not parts:
        return ""
    text = (
        "Mean regret at the horizon with its interval against each swept parameter; a thin line is a median that parts "
        "from its mean. Dashed lines across are policies that do not have the parameter."
    )
    return _about(text) + "".join(parts)


def _growth(report: Report, drawn: _Drawn, colors: Mapping[str, str]) -> str:
    if not report.growths:
        return ""
    body = []
    for growth in report.growths:
        fit = growth.fit
        body.append(
            _row(
                [
                    growth.label,
                    growth.title,
                    f"{growth.band.at.size}",
                    "–" if fit is None else f"{fit.n} of {fit.seeds}",
                    "–" if fit is None else f"{float(fit.value):.3f}{'*' if fit.caveat else ''}",
                    "–"
                    if fit is None or not math.isfinite(float(fit.low))
                    else f"[{float(fit.low):.3f}, {float(fit.high):.3f}]",
                    "–" if growth.theory is None else f"{growth.theory:.3f}",
                ],
                numbers=5,
                swatch=_swatch(colors[growth.family]),
            )
        )
    head = ["policy", "set", "horizons", "seeds", "fitted exponent", "interval", "bound's exponent"]
    text = (
        "Final regret against the horizon. Lines are least-squares fits of log mean regret on log T; the interval of "
        "the exponent is a bootstrap over seeds. Dotted lines rise as the policy's bound does; ticks are medians."
    )
    table = _html_table("Fitted exponents", head, body, numbers=5, tall=len(body) > 14)
    caveats = dict.fromkeys(growth.fit.caveat for growth in report.growths if growth.fit and growth.fit.caveat)
    return f"{_about(text)}{drawn.grid('growth')}<h3>Exponents</h3>{''.join(_about(f'* {c}.') for c in caveats)}{table}"


def _paired(report: Report, drawn: _Drawn, colors: Mapping[str, str]) -> str:
    compared = [(s, s.comparison) for s in report.settings if s.comparison is not None]
    if not compared:
        return ""
    text = (
        "All policies met the same noise at the same pull, so regret is compared seed by seed: the difference to the "
        "policy of the smallest mean, with its interval; a tick is the median. Beside it stands in how many seeds the "
        "other one did better (a tie is no win), or a mean that lies outside the axis."
    )
    folds = "".join(
        _fold(f"{setting.title}, {setting.detail}", _matrix(comparison, colors), small="all pairs, ranks")
        for setting, comparison in compared[:60]
    )
    more = _about(f"{len(compared) - 60} more settings are not listed here.") if len(compared) > 60 else ""
    folds = (
        _fold("All pairs and ranks", folds + more, small=f"{len(compared)} settings") if len(compared) > 6 else folds
    )
    return f"{_about(text)}{drawn.grid('paired')}{folds}"


def _matrix(comparison: Comparison, colors: Mapping[str, str]) -> str:
    labels = list(dict.fromkeys(first for first, _ in comparison.matrix))
    of_label = {first: pair.first.family for (first, _), pair in comparison.matrix.items()}
    body = []
    for first in labels:
        texts = [first]
        for second in labels:
            pair = comparison.matrix.get((first, second))
            if pair is None:
                texts.append("")
                continue
            interval = _interval(pair.difference.low, pair.difference.high)
            parts = [f"{number(pair.difference.mean)}{f' {interval}' if interval != '–' else ''}"]
            parts += [f"median {number(pair.difference.median)}", better(pair.wins)]
            texts.append(", ".join(parts))
        body.append(
            _row(texts, numbers=0, swatch=_swatch(colors[of_label[first]]), best=first == comparison.best.label)
        )
    table = _html_table("Difference row minus column", ["row minus column", *labels], body, numbers=0)
    ranks = [
        _row(
            [
                rank.name,
                f"{float(rank.summary.mean):.2f}",
                "–"
                if not math.isfinite(float(rank.summary.low))
                else f"[{float(rank.summary.low):.2f}, {float(rank.summary.high):.2f}]",
                f"{100 * rank.first:.0f}%",
                f"{100 * rank.tied:.0f}%",
                f"{rank.summary.n} of {rank.summary.seeds}",
            ],
            numbers=5,
            swatch=_swatch(colors[of_label[rank.name]]),
        )
        for rank in comparison.ranks
        if rank.summary.n
    ]
    if not ranks:
        return table
    head = ["policy", "mean rank", "interval", "alone first in", "tied first in", "seeds"]
    return f"{table}<h3>Ranks over seeds</h3>{_html_table('Mean ranks', head, ranks, numbers=5)}"


def _speed(report: Report, drawn: _Drawn, colors: Mapping[str, str]) -> str:
    grid = drawn.grid("speed")
    if not grid:
        return ""
    body = []
    for policy in dict.fromkeys(cell.policy for cell in report.sweep.cells):
        timed = [cell for cell in report.sweep.cells if cell.policy == policy and cell.journey.run_seconds > 0]
        if not timed:
            continue
        run = sum(cell.journey.run_seconds for cell in timed)
        pulls = sum(cell.journey.seed_pulls for cell in timed)
        compiling = sum(cell.journey.compile_seconds for cell in timed)
        texts = [timed[0].label, f"{len(timed):,}", _count(pulls), duration(run), duration(compiling)]
        body.append(_row([*texts, number(pulls / run)], numbers=5, swatch=_swatch(colors[timed[0].family])))
    head = ["policy", "cells", "pulls", "computing", "compiling", "pulls per second"]
    text = (
        "From the journal of the run: a point is a cell. Compiling is apart; cells that ran side by side share the "
        "machine, so their times add up to more than the clock showed."
    )
    return f"{_about(text)}{grid}<h3>By policy</h3>{_html_table('Time by policy', head, body, numbers=5)}"


def _named(setting: Setting, cell: Cell) -> str:
    return f"{setting.labels[cell.id]} on {setting.title}, {setting.detail}"


def _health(report: Report) -> str:
    absent = [(setting, cell) for setting in report.settings for cell in setting.absent]
    parts = []
    if absent:
        body = [
            f'<tr><th scope="row">{_e(_named(setting, cell))}</th><td><span class="tag">{_e(cell.state)}</span></td>'
            f'<td class="number">{cell.stored} of {cell.seeds}</td><td class="long">{_e(cell.error or "–")}</td>'
            f"<td>{_e(cell.id)}</td></tr>"
            for setting, cell in absent
        ]
        head = ["cell", "state", "seeds", "error", "id"]
        table = _html_table("Cells that are not done", head, body, numbers=0, tall=len(body) > 14)
        parts.append(f"<h3>Cells that are not done</h3>{table}")
    troubled = [(setting, variant) for setting in report.settings for variant in setting.variants if variant.troubles]
    if troubled:
        body, left = [], LISTED
        for setting, variant in troubled:
            told = ", ".join(f"seed {seed} at pull {pull:,}" for seed, pull in variant.troubles[:left])
            rest = len(variant.troubles) - min(len(variant.troubles), max(left, 0))
            left -= len(variant.troubles) - rest
            told = f"{told}{' and ' if told and rest else ''}{f'{rest} more' if rest else ''}"
            body.append(
                f'<tr><th scope="row">{_e(_named(setting, variant.cell))}</th>'
                f'<td class="number">{len(variant.troubles)} of {variant.final.seeds}</td>'
                f'<td class="long">{_e(told)}</td></tr>'
            )
        text = (
            "These seeds met a non-finite number; every average, interval and rank leaves them out and says how many."
        )
        table = _html_table("Unhealthy seeds", ["cell", "unhealthy", "where"], body, numbers=0, tall=len(body) > 14)
        parts.append(f"<h3>Unhealthy seeds</h3>{_about(text)}{table}")
    if not parts:
        seeds = sum(variant.final.seeds for variant in report.variants)
        return _about(
            f"All {seeds:,} seeds of {len(report.variants):,} cells are healthy; no cell failed or is missing."
        )
    return "".join(parts)


def _table_section(report: Report, colors: Mapping[str, str]) -> str:
    head = tables.headings(report)
    numbers = len(tables.HEADINGS) - 2
    total = sum(len(tables.rows(report, setting)) for setting in report.settings)
    text = (
        f"Regret at the horizon over healthy seeds; interval: {report.level:.0%} Student-t of the mean; trimmed mean: "
        "without a tenth of the seeds at each end."
    )
    parts = [_about(text)]
    for setting in report.settings:
        body = []
        for cell, variant, texts in tables.rows(report, setting):
            best = setting.comparison is not None and variant is setting.comparison.best
            body.append(_row(texts, numbers=numbers, swatch=_swatch(colors[cell.family]), best=best))
        name = f"{setting.title}, {setting.detail}"
        table = _html_table(f"Regret on {name}", head, body, numbers=numbers, tall=len(body) > OPEN_ROWS)
        cells = f"{len(body)} cell{'s' if len(body) > 1 else ''}{'; ' + setting.facts if setting.facts else ''}"
        parts.append(_fold(name, table, small=cells, shown=total <= OPEN_ROWS))
    for key, name, text in (
        ("markdown", "Markdown", tables.markdown(report)),
        ("latex", "LaTeX", tables.latex(report)),
    ):
        bar = f'<span>{name}</span><button type="button" data-copy="{key}" hidden>Copy {name}</button>'
        content = f'<div class="copy">{bar}</div><pre id="{key}" tabindex="0">{_e(text)}</pre>'
        parts.append(_fold(f"The table in {name}", content))
    return "".join(parts)


def _source(report: Report, files: Sequence[str]) -> str:
    manifest = dict(report.sweep.manifest)
    text = str(manifest.pop("sweep_file", None) or "")
    overrides = [str(line) for line in manifest.get("overrides") or ()]
    parts = []
    if text:
        parts.append(f'<pre tabindex="0" aria-label="Sweep file">{_e(text)}</pre>')
    if overrides:
        listed = "".join(f"<li><code>{_e(line)}</code></li>" for line in overrides)
        parts.append(f"<h3>Overrides</h3><ul>{listed}</ul>")
    for key in ("environment", "numerics"):
        held = manifest.get(key)
        if isinstance(held, dict) and held:
            body = [_row([str(name), str(value)], numbers=0) for name, value in held.items()]
            parts.append(
                f"<h3>{key.capitalize()}</h3>{_html_table(key.capitalize(), ['name', 'value'], body, numbers=0)}"
            )
    told = json.dumps(manifest, indent=1, ensure_ascii=False)
    parts.append(_fold("Manifest", f'<pre tabindex="0" aria-label="Manifest">{_e(told)}</pre>'))
    if files:
        links = "".join(f'<li><a href="{_e(name)}">{_e(name)}</a></li>' for name in files)
        parts.append(_fold("Files beside this page", f"<ul>{links}</ul>"))
    return "".join(parts)
