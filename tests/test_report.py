"""`linbet report`: what it shows of a sweep (cases S3, S4, S6, S7 on paper), what it escapes, what it refuses."""

import csv
import html.parser
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sweep_folders import cell, make_sweep, numbers, write_cell
from sweeps import StandIn

import linbet_jax as lb
from linbet_jax.cli import main
from linbet_jax.errors import InputError
from linbet_jax.figures import pictures as drawing
from linbet_jax.figures import plotting, sheets
from linbet_jax.report import tables
from linbet_jax.report.build import write_report
from linbet_jax.report.gather import gather
from linbet_jax.report.page import page
from linbet_jax.report.pictures import pictures
from linbet_jax.statistics import regret
from linbet_jax.statistics.tables import number

POLICIES = ("tofu", "menu", "oful")


def gathered(folder):
    return gather(lb.load(folder, warn=False))


def pictures_of(report, panels=24):
    return pictures(report, panels=panels)


def drawn(picture):
    """The picture's axes, drawn once."""
    figure = Figure(figsize=(drawing.WIDTH / 72, picture.height / 72))
    FigureCanvasAgg(figure)
    ax = figure.add_axes(sheets._place(picture, 0, 0, drawing.WIDTH, picture.height))
    picture.draw(ax)
    figure.canvas.draw()
    return ax


def only(pictures, kind):
    [picture] = [picture for picture in pictures if picture.kind == kind]
    return picture


def parts(ax, gid):
    return [artist for artist in (*ax.lines, *ax.collections) if artist.get_gid() == gid]


def texts(ax):
    return [text.get_text() for text in ax.texts]


# What is gathered


def test_final_regret_is_summarised_over_seeds(tmp_path):  # S3
    entry = cell(seeds=2, records=1)
    write_cell(make_sweep(tmp_path, [entry]), entry, regret=np.array([[10.0], [20.0]]))
    [variant] = gathered(tmp_path).variants
    assert (variant.final.mean, variant.final.standard_error) == (15, pytest.approx(5))
    assert variant.final.sd == pytest.approx(7.0710678, abs=1e-7)
    [row] = csv.DictReader(io.StringIO(tables.csv_text(gathered(tmp_path))))
    assert (float(row["mean"]), float(row["standard_error"])) == (15, pytest.approx(5))


def test_settings_hold_what_can_be_compared_and_labels_are_unique(tmp_path):
    cells = [
        cell("S3", "tofu"), cell("S3", "tofu", radius_scale=0.03), cell("S3", "tofu", radius_scale=0.03, delta=0.01),
        cell("S1", "tofu"), cell("S3", "tofu", 500), cell("S3", "mine:make"),
        {**cell("S3", "crt"), "policy": "CRT twice", "label": "CRT twice", "source": {"set": "S3", "policy": "crt"}},
    ]  # fmt: skip
    report = gathered(make_sweep(tmp_path, cells, swept=["radius_scale", "delta"]))
    assert [(s.title, s.detail, len(s.variants)) for s in report.settings] == [
        ("S3", "T = 1,000", 5), ("S1", "T = 1,000", 1), ("S3", "T = 500", 1),
    ]  # fmt: skip
    labels = [variant.label for variant in report.settings[0].variants]
    assert labels == ["TOFU", "TOFU ×0.03, δ=0.1", "TOFU ×0.03, δ=0.01", "mine:make", "CRT twice"]
    assert report.settings[0].variants[-1].cell.family == "crt"
    assert report.settings[0].facts == "Pareto(2), K = 20, d = 10, ε = 0.5"


def test_settings_of_one_set_and_horizon_are_told_apart_by_what_is_swept(tmp_path):
    cells = [cell("S3"), cell("S3")]
    for entry, size in zip(cells, (5, 10), strict=True):
        entry["bandit"] = {**entry["bandit"], "K": size, "theta_norm": size / 7, "instance_hash": str(size)}
        entry["id"] = f"{size:032d}"
    report = gathered(make_sweep(tmp_path, cells, swept=["K"]))
    assert [setting.detail for setting in report.settings] == ["T = 1,000, K = 5", "T = 1,000, K = 10"]
    [panel] = report.parameters
    assert (panel.parameter, panel.lines[0].band.at.tolist()) == ("K", [5, 10])


def test_a_theta_star_that_moves_is_named_and_has_no_bound(tmp_path):
    ways = ["rotating, 0.001 rad a pull", "jumping every 500 pulls"]
    entries = [cell()]
    for place, way in enumerate(ways):
        entry = cell("still" if place else "S3")
        entries.append(
            {**entry, "id": f"{place}" * 32, "bandit": {**entry["bandit"], "drift": way, "instance_hash": way}}
        )
    report = gathered(make_sweep(tmp_path, entries))
    told = {setting.facts: (setting.detail, [v.theory for v in setting.variants]) for setting in report.settings}
    rest = "K = 20, d = 10, ε = 0.5"
    assert told[f"Pareto(2), {rest}"][1] == [pytest.approx(2 / 3)]
    assert told[f"Pareto(2), {ways[0]}, {rest}"] == (f"T = 1,000, drift = {ways[0]}", [None])
    assert told[f"Pareto(2), {ways[1]}, {rest}"] == ("T = 1,000", [None])


def test_labels_say_what_is_swept_and_not_what_follows_from_it(tmp_path):
    cells = []
    for epsilon, bound in ((0.3, 5.05), (0.5, 17.3)):
        for horizon in (500, 1_000):
            entry = cell("S3", "tofu", horizon, raw_moment_bound=bound, epsilon=epsilon)
            entry["bandit"] = {**entry["bandit"], "epsilon": epsilon, "raw_moment_bound": bound}
            entry["id"] = f"{horizon * 10 + int(epsilon * 10):032d}"
            cells.append(entry)
    report = gathered(make_sweep(tmp_path, cells, swept=["epsilon"]))
    assert [growth.label for growth in report.growths] == ["TOFU, ε=0.3", "TOFU, ε=0.5"]


def test_of_many_cells_each_policy_s_literal_and_best_are_shown(tmp_path):
    scales = (0.3, 1.0, 0.1, 0.03, 0.01)
    cells = [cell("S3", policy, radius_scale=scale, seeds=3) for policy in POLICIES for scale in scales]
    setting = gathered(make_sweep(tmp_path, cells, swept=["radius_scale"])).settings[0]
    assert len(setting.variants) == 15
    for policy in POLICIES:
        own = [variant for variant in setting.variants if variant.cell.policy == policy]
        best = min(own, key=lambda variant: float(variant.final.mean))
        kept = [variant for variant in setting.shown if variant.cell.policy == policy]
        assert [v.cell.parameters["radius_scale"] for v in kept] == [1.0, best.cell.parameters["radius_scale"]]
    picture = next(p for p in pictures_of(gathered(tmp_path)) if p.kind == "regret")
    assert picture.note == "9 more in the table; drawn: the first and best of each policy."


def test_differences_are_to_the_best_on_the_same_seeds(tmp_path):
    cells = [cell("S3", policy, seeds=9) for policy in POLICIES]
    report = gathered(make_sweep(tmp_path, cells, unhealthy=[0]))
    comparison = report.settings[0].comparison
    assert comparison.best.label == "OFUL"
    final = {entry["policy"]: numbers(entry)[1][:, -1] for entry in cells}
    bad = [17, *[0] * 8]
    for variant, pair in comparison.pairs:
        health = bad if variant.cell.policy == "tofu" else None
        wanted = regret.paired_difference(final[variant.cell.policy], final["oful"], health)
        assert (pair.difference.mean, pair.difference.low) == (wanted.mean, wanted.low)
        assert pair.difference.n == (8 if health else 9)
        assert (pair.wins.wins, pair.wins.n) == (0, 8 if health else 9)
    assert [rank.name for rank in comparison.ranks] == ["OFUL", "MENU", "TOFU"]
    assert [rank.summary.n for rank in comparison.ranks] == [8, 8, 8]
    ax = drawn(only(pictures_of(report), "paired"))
    assert {"better in 0% of 8 seeds", "better in 0% of 9 seeds"} <= set(texts(ax))
    assert ax.get_xlabel() == "regret minus that of OFUL"


def test_a_parameter_s_figure_holds_the_other_ones_fixed(tmp_path):
    scales, deltas = (1.0, 0.1, 0.01), (0.01, 0.1, 0.2, 0.3)
    cells = [cell("S3", p, radius_scale=s, delta=d, seeds=3) for p in POLICIES for s in scales for d in deltas]
    bare = cell("S3", "uniform", seeds=3)
    bare["parameters"] = {"radius_scale": 1.0}
    report = gathered(make_sweep(tmp_path, [*cells, bare], swept=["radius_scale", "delta"]))
    by_scale, by_delta = report.parameters
    assert by_scale.note == "Other parameters held at δ = 0.01; all combinations are in the table."
    line = by_scale.lines[0]
    assert (line.label, line.band.at.tolist()) == ("TOFU", [0.01, 0.1, 1.0])
    held = [numbers(cells[place])[1][:, -1].mean() for place in (8, 4, 0)]
    np.testing.assert_allclose(line.band.mean, held)
    # Nine lines fit: nothing is held, the scale is in the names, and the policy without delta stands apart.
    assert [line.label for line in by_delta.lines[:3]] == ["TOFU", "TOFU ×0.1", "TOFU ×0.01"]
    assert [(line.family, line.label) for line in by_delta.level] == [("uniform", "uniform")]
    ax = drawn(only(pictures_of(report), "parameter-delta"))
    assert "TOFU ×0.01" in texts(ax)


def test_a_parameter_s_figure_has_each_policy_s_best_scale_too(tmp_path):
    scales, deltas = (1.0, 0.3, 0.1, 0.03, 0.01), (0.01, 0.1, 0.2, 0.3)
    cells = [cell("S3", p, radius_scale=s, delta=d, seeds=3) for p in POLICIES for s in scales for d in deltas]
    report = gathered(make_sweep(tmp_path, cells, swept=["radius_scale", "delta"]))
    _, by_delta = report.parameters
    assert by_delta.note == (
        "Other parameters held at radius scale = 1; besides, each policy's best radius scale; all combinations are in"
        " the table."
    )
    wanted = []
    for start in range(0, len(cells), len(scales) * len(deltas)):
        least = {
            scale: min(numbers(cells[start + s * len(deltas) + d])[1][:, -1].mean() for d in range(len(deltas)))
            for s, scale in enumerate(scales)
        }
        wanted.append(min(least, key=least.get))
    labels = [line.label for line in by_delta.lines]
    assert len(labels) == len(set(labels)) == len(POLICIES) + sum(best != 1.0 for best in wanted)
    assert any(best != 1.0 for best in wanted)
    first = [label.split()[0] for label in labels[: len(POLICIES)]]
    assert labels[: len(POLICIES)] == first
    scaled = [f"{name} ×{best:g}" for name, best in zip(first, wanted, strict=True) if best != 1.0]
    assert labels[len(POLICIES) :] == scaled


def test_a_quantity_has_one_form_on_all_axes():
    ticks = [50.0, 1000.0, 20_000.0]
    assert drawing._Written().format_ticks([0, *ticks]) == ["0", *(drawing._compact(tick) for tick in ticks)]
    assert drawing._Written().format_ticks([0, 2500, 7500]) == ["0", "2,500", "7,500"]
    assert drawing._Written().format_ticks([0, 5e4, 1e5]) == ["0", "50k", "100k"]
    assert [drawing._compact(value) for value in (0.01, 99_999, 1e5, 2e6)] == ["0.01", "99,999", "100k", "2M"]


def test_speed_is_one_number_in_figure_and_table(tmp_path):
    report = gathered(make_sweep(tmp_path, [cell("S3", "tofu", t, seeds=3) for t in (500, 1000, 2000)]))
    cells = [variant.cell for variant in report.variants]
    pulls, seconds = (sum(getattr(c.journey, name) for c in cells) for name in ("seed_pulls", "run_seconds"))
    wanted = number(pulls / seconds, 4)
    picture = only(pictures_of(report), "speed")
    assert f"{wanted}/s, 3 cells" in texts(drawn(picture))
    assert picture.text.endswith(f"all cells together: TOFU {wanted}.")
    assert f">{wanted}</td>" in page(report, [picture])


def test_signs_tell_policies_apart_without_colour(tmp_path):
    report = gathered(make_sweep(tmp_path, [cell("S3", p, seeds=3) for p in ("crt", "oful")]))
    curves = [line for line in drawn(only(pictures_of(report), "regret")).lines if line.get_gid() == "curve"]
    assert [curve.get_marker() for curve in curves] == [plotting.policy_sign("crt"), plotting.policy_sign("oful")]
    alone = gathered(make_sweep(tmp_path / "alone", [cell("S3", "crt", seeds=3)]))
    curves = [line for line in drawn(only(pictures_of(alone), "regret")).lines if line.get_gid() == "curve"]
    assert [curve.get_marker() for curve in curves] == ["None"]


def test_values_that_are_no_numbers_stand_side_by_side(tmp_path):
    cells = [cell("S3", "tofu", method=name, seeds=3) for name in ("full", "pruned")]
    [panel] = gathered(make_sweep(tmp_path, cells, swept=["method"])).parameters
    assert (panel.ticks, panel.lines[0].band.at.tolist()) == (("full", "pruned"), [0, 1])
    ax = drawn(only(pictures_of(gathered(tmp_path)), "parameter-method"))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["full", "pruned"]


# What is drawn


def growing(folder, exponent, seeds=4):
    cells = [cell("S3", "tofu", horizon, seeds=seeds) for horizon in (1000, 3000, 10_000, 30_000, 100_000)]
    make_sweep(folder, cells, swept=["horizon"])
    for entry in cells:
        pulls = numbers(entry)[0]
        own = 7.0 + np.arange(seeds)[:, None]
        write_cell(folder, entry, regret=own * pulls**exponent)
    return gathered(folder)


def test_the_fitted_exponent_is_drawn_beside_the_bound_s(tmp_path):  # S7
    report = growing(tmp_path, 2 / 3)
    [growth] = report.growths
    assert growth.fit.value == pytest.approx(2 / 3, abs=1e-6)
    assert growth.theory == pytest.approx(2 / 3)
    growth = growing(tmp_path / "other", 0.9).growths[0]
    assert (growth.fit.value, growth.fit.low) == (pytest.approx(0.9, abs=1e-6), pytest.approx(0.9, abs=1e-6))
    ax = drawn(only(pictures_of(report), "growth"))
    for gid, slope in (("fit", 2 / 3), ("theory", 2 / 3)):
        [line] = parts(ax, gid)
        x, y = np.log(line.get_xdata()), np.log(line.get_ydata())
        assert (y[-1] - y[0]) / (x[-1] - x[0]) == pytest.approx(slope, abs=1e-6)


def test_one_seed_has_no_band(tmp_path):  # S4
    pictures = pictures_of(gathered(make_sweep(tmp_path, [cell(seeds=1), cell("S3", "oful", seeds=1)])))
    for kind in ("regret", "regret-loglog"):
        ax = drawn(only(pictures, kind))
        assert parts(ax, "band") == []
        assert len(parts(ax, "curve")) == 2
    assert "[" not in only(pictures, "paired").text
    assert "(none for a single seed)" in page(gathered(tmp_path), pictures)


def test_log_axes_leave_out_what_they_cannot_show(tmp_path):  # S6
    entry, zero = cell(seeds=3), cell("S3", "oful", seeds=3)
    folder = make_sweep(tmp_path, [entry, zero])
    pulls = numbers(entry)[0]
    curve = np.array([[10.0], [0.1], [0.1]]) * np.sqrt(pulls)
    curve[:, 0] = 0
    write_cell(folder, entry, regret=curve)
    write_cell(folder, zero, regret=np.zeros_like(curve))
    assert gathered(folder).variants[0].band.low.min() < 0
    ax = drawn(only(pictures_of(gathered(folder)), "regret-loglog"))
    floor = ax.get_ylim()[0]
    [line] = parts(ax, "curve")  # a curve that is 0 throughout is none: its name says so
    assert line.get_xdata()[0] == pulls[1]
    [band] = parts(ax, "band")
    vertices = band.get_paths()[0].vertices
    assert np.all(vertices[:, 1] >= floor * (1 - 1e-12))
    assert floor > 0
    assert np.all(vertices[:, 0] >= pulls[1])
    assert {"TOFU", "OFUL (0)"} <= set(texts(ax))
    linear = drawn(only(pictures_of(gathered(folder)), "regret"))
    assert min(band.get_paths()[0].vertices[:, 1].min() for band in parts(linear, "band")) == 0


def test_a_cell_without_a_healthy_seed_is_named_in_its_picture(tmp_path):
    entry = cell(seeds=2)
    folder = make_sweep(tmp_path, [entry, cell("S3", "oful", seeds=2)])
    write_cell(folder, entry, health=[3, 5])
    report = gathered(folder)
    for kind in ("regret", "regret-loglog"):
        assert "TOFU (no healthy seed)" in texts(drawn(only(pictures_of(report), kind)))
    assert "n = 0, 2 unhealthy" in texts(drawn(only(pictures_of(report), "final-regret")))
    assert report.settings[0].comparison is None
    assert report.variants[0].troubles == ((0, 3), (1, 5))


def test_every_policy_has_one_colour_and_every_scale_a_name(tmp_path):
    cells = [cell("S3", p, radius_scale=s, seeds=6) for p in ("tofu", "mine:own") for s in (1.0, 0.03)]
    report = gathered(make_sweep(tmp_path, cells, swept=["radius_scale"]))
    own = plotting.policy_colors(["mine:own"])["mine:own"]
    for picture in pictures_of(report):
        ax = drawn(picture)
        colors = {line.get_color() for line in ax.lines} - {drawing.MUTED}
        assert colors == {plotting.COLORS["tofu"], own}, picture.kind
        if picture.kind in ("regret", "final-regret"):
            assert {"TOFU", "TOFU ×0.03", "mine:own", "mine:own ×0.03"} <= set(texts(ax))


@pytest.mark.parametrize("kind", ["regret", "final-regret", "paired", "speed"])
def test_long_names_are_cut_in_the_middle_and_stay_inside(tmp_path, kind):
    names = [f"package.module.submodule:make_policy_with_a_long_name_{i}" for i in range(9)]
    cells = [cell("S3", name, seeds=5, radius_scale=0.003) for name in names]
    ax = drawn(only(pictures_of(gathered(make_sweep(tmp_path, cells))), kind))
    figure = ax.get_figure()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) >= 8
    assert all(box.x1 <= figure.bbox.x1 + 1 for box in boxes)
    assert all(not a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[n + 1 :])
    assert len(set(texts(ax))) >= 9


def test_text_is_cut_to_its_room():
    assert drawing.shortened("TOFU", 100) == "TOFU"
    cut = drawing.shortened("a_rather_long_name_1", 60)
    assert cut[0] == "a"
    assert cut.endswith("1")
    assert "…" in cut
    assert drawing._width(cut) <= 60 < drawing._width("a_rather_long_name_1")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (3.14159, "3.142"), (12345.6, "12,346"), (0.01234567, "0.01235"), (-250.04, "-250.0"),
        (1e8, "100,000,000"), (9999.9, "10,000"), (999.96, "1,000"), (1e20, "1e+20"),
        (1e-7, "1e-07"), (math.nan, "–"), (math.inf, "–"),
    ],
)  # fmt: skip
def test_numbers_for_people(value, shown):
    assert number(value, 4) == shown


def everywhere(entry, value):
    return np.full((entry["seeds"], numbers(entry)[0].size), float(value))


@pytest.mark.parametrize("values", [(0, 0, 0), (1e8 + 0.1,) * 3, (1e40, 1e-40, 1), (0, 1e-9, 1e12)], ids=str)
def test_constant_huge_and_vanishing_regrets_are_drawn(tmp_path, values):
    cells = [
        cell("S3", policy, seeds=3, radius_scale=scale)
        for policy, scale in zip(POLICIES, (0.0, 1.0, 1e-9), strict=True)
    ]
    folder = make_sweep(tmp_path, cells, swept=["radius_scale"])
    for entry, value in zip(cells, values, strict=True):
        write_cell(folder, entry, regret=everywhere(entry, value))
    report = gathered(folder)
    assert [float(variant.final.mean) for variant in report.variants] == list(values)
    assert [float(variant.final.sd) for variant in report.variants] == [0, 0, 0]
    for picture in pictures_of(report):
        ax = drawn(picture)
        assert np.isfinite([*ax.get_xlim(), *ax.get_ylim()]).all()
        assert ax.get_xlim()[0] < ax.get_xlim()[1]


def with_a_seed_far_out(folder):
    """Two horizons and scales of two policies, 100 seeds each: one seed of one cell has a regret of 1e9."""
    cells = [
        cell("S3", p, t, radius_scale=r, seeds=100) for p in ("tofu", "oful") for t in (500, 1000) for r in (1, 0.1)
    ]
    make_sweep(folder, cells, swept=["radius_scale", "horizon"])
    pulls, plain, *_ = numbers(cells[2])
    values = plain.copy()
    values[17] = 1e9 * pulls / pulls[-1]
    write_cell(folder, cells[2], regret=values)
    return gathered(folder), plain


def test_one_seed_far_out_flattens_nothing(tmp_path):
    report, plain = with_a_seed_far_out(tmp_path)
    pictures, usual = pictures_of(report), np.median(plain[:, -1])
    drawings = {kind: drawn(next(p for p in reversed(pictures) if p.kind == kind)) for kind in (
        "regret", "regret-loglog", "parameter-radius_scale", "growth", "final-regret", "paired")}  # fmt: skip
    mean = report.settings[1].variants[0].final.mean
    assert mean > 9e6
    for kind in ("regret", "regret-loglog", "parameter-radius_scale", "growth"):
        ax = drawings[kind]
        assert usual <= ax.get_ylim()[1] < 2 * plain[:, -1].max(), kind
        said = "outside the axis:", f"TOFU, mean to {number(mean, 4)}"
        assert [text for text in texts(ax) if text in said] == list(said), kind
        [median, *_] = [
            line for line in parts(ax, "median") if np.max(line.get_ydata()) > 0.99 * np.median(plain[:, -1])
        ]
        assert median.get_color() == plotting.COLORS["tofu"], kind
    for band in parts(drawings["regret"], "band"):  # that of the outlying mean would cover everything
        assert band.get_paths()[0].vertices[:, 1].max() < 2 * plain[:, -1].max()
    for kind in ("final-regret", "paired"):
        assert drawings[kind].get_xlim()[1] < 2 * plain[:, -1].max(), kind
    assert "n = 100, 1 outside, mean →" in texts(drawings["final-regret"])
    [said] = [text for text in texts(drawings["paired"]) if text.startswith("mean ")]
    assert said.endswith(" →")
    row = next(line for line in tables.markdown(report).splitlines() if "T = 1,000 | TOFU |" in line)
    middle = np.sort(np.append(np.delete(plain[:, -1], 17), 1e9))
    shown = [number(v, 4) for v in (mean, np.median(middle), middle[10:-10].mean())]
    assert [text for text in row.split(" | ") if text in shown] == shown
    told = next(p for p in pictures if p.kind == "paired").text
    assert "(median " in told
    assert ", trimmed mean " in told


def test_without_a_seed_far_out_nothing_is_outside(tmp_path):
    cells = [cell("S3", p, t, radius_scale=r, seeds=9) for p in POLICIES for t in (500, 1000) for r in (1, 0.1)]
    for picture in pictures_of(gathered(make_sweep(tmp_path, cells, swept=["radius_scale", "horizon"]))):
        ax = drawn(picture)
        assert not [text for text in texts(ax) if "outside" in text or "→" in text], picture.kind


def test_two_horizons_and_ties_are_said(tmp_path):
    cells = [cell("S3", p, t, seeds=3) for p in ("tofu", "menu") for t in (500, 1000)]
    folder = make_sweep(tmp_path, cells, swept=["horizon"])
    for entry in cells:
        write_cell(folder, entry, regret=np.arange(1.0, 4)[:, None] * np.sqrt(numbers(entry)[0]))
    text, _ = read_page(folder)
    shown = Reader(text).text
    assert "0.500*" in shown
    assert "* a line through two points: two horizons do not show a power of T." in shown
    assert shown.count("better in 0%, equal in 100% of 3 seeds") == 2  # in the pictures
    assert shown.count("better in 0%, equal in 100%") == 2 + 4  # and in the tables, both ways
    ranks = re.findall(r"<td class=number>([^<]*)</td>", text[text.index("alone first in") :])
    assert ranks[:4] == ["1.50", "1.50 to 1.50", "0%", "100%"]
    assert shown.count("TOFU and MENU") == shown.count("none: equal in every seed") == 2  # a tie has no winner
    assert not re.search(r"\[\d", shown)


def test_odd_sweeps_have_a_report(tmp_path):
    """One pull, letters that a font lacks, parameters of several kinds or of none, no healthy seed at all."""
    cells = [
        cell("政策", "tofu", 1, records=1, seeds=2), cell("政策", "политика:⁂", 1, records=1, seeds=2, x=[1, 2]),
        cell("S3", "tofu", seeds=3, x="a", epsilon=None), cell("S3", "tofu", seeds=3, x=True, radius_scale=2.5),
        cell("S3", "tofu", 500, seeds=3, x="a", epsilon=0.0),
    ]  # fmt: skip
    folder = make_sweep(tmp_path, cells, swept=["x", "epsilon", "nothing", "horizon"], name="政策")
    for entry in cells[2:]:
        write_cell(folder, entry, health=[1, 2, 3], regret=everywhere(entry, np.nan))
    outcome = write_report(folder, formats=("html", "pdf"))
    assert outcome.problems == ("9 unhealthy seeds in 3 cells, left out of every average",)
    shown = Reader(outcome.files[0].read_text(encoding="utf-8")).text
    assert "политика:⁂" in shown
    assert "3 of 3" in shown


# Tables


def test_the_tables_hold_every_cell(tmp_path):
    cells = [
        cell("S3", "tofu"), cell("S3", "tofu", radius_scale=0.03), cell("S3", "menu", radius_scale=0.1),
        cell("S1", "my_pol|icy $5 & 10%"),
    ]  # fmt: skip
    report = gathered(make_sweep(tmp_path, cells, swept=["radius_scale"], failed=[2], unhealthy=[1]))
    rows = tables.markdown(report).splitlines()
    statistics = "mean regret | interval | median | 0.9 quantile | 0.99 quantile | trimmed mean | sd"
    assert rows[0] == f"| set | policy | radius scale | seeds | {statistics} |"
    assert len(rows) == 2 + 4
    assert rows[3].startswith("| S3, T = 1,000 | TOFU ×0.03 | 0.03 | 5 of 6, 1 unhealthy | ")
    assert rows[4] == "| S3, T = 1,000 | MENU ×0.1 | 0.1 | failed | – | – | – | – | – | – | – |"
    assert "my_pol\\|icy" in rows[5]
    tex = tables.latex(report)
    assert r"my\_pol|icy \$5 \& 10\%" in tex
    assert r"TOFU $\times$0.03" in tex
    assert tex.count(r" \\" + "\n") == 1 + 4  # the head and the rows
    assert not re.search(r"& \[|\\\\ *\[", tex)  # a bracket after a row's end would be its argument
    held = list(csv.DictReader(io.StringIO(tables.csv_text(report))))
    assert [row["state"] for row in held] == ["done", "done", "failed", "done"]
    assert float(held[0]["mean"]) == regret.summarize(numbers(cells[0])[1][:, -1]).mean
    quantile = np.quantile(numbers(cells[0])[1][:, -1], 0.9)
    assert float(held[0]["0.9 quantile"]) == pytest.approx(quantile)
    assert (held[2]["mean"], held[2]["error"]) == ("", "ValueError: theta_norm=<b>-1</b> & more")
    assert held[1]["unhealthy"] == "1"


def test_how_many_seeds_lose_more_than_uniform_play_in_the_mean(tmp_path):
    cells = [
        cell("S3", "uniform"), cell("S3", "tofu"), cell("S3", "oful"), cell("S3", "crt"),
        cell("S1", "tofu"), cell("S1", "uniform"),
    ]  # fmt: skip
    folder = make_sweep(tmp_path, cells, failed=[3, 5], unhealthy=[2])
    mean = numbers(cells[0])[1][:, -1].mean()
    write_cell(folder, cells[1], regret=numbers(cells[1])[1] * 0 + mean * np.array([[1.5, 2.0, 0.9, 0.5, 1.0, 9.0]]).T)
    report = gathered(folder)
    rows = [row.strip("| ").split(" | ") for row in tables.markdown(report).splitlines()]
    assert rows[0][-1] == "above uniform"
    assert [row[-1] for row in rows[2:]] == ["–", "50.0%", "0.0%", "–", "–", "–"]
    held = list(csv.DictReader(io.StringIO(tables.csv_text(report))))
    assert [row["above uniform"] for row in held] == ["", "0.5", "0.0", "", "", ""]
    text, _ = read_page(folder)
    assert '<th scope="col" class=number>mean regret</th>' in text
    assert "<td class=number>50.0%</td></tr>" in text
    assert "above uniform: the share of seeds" in text


# The page


class Reader(html.parser.HTMLParser):
    """Elements, ids, and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.attributes, self.text, self.open = [], [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "link", "input", "use", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("use", "path"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text += data


def read_page(folder, **more):
    outcome = write_report(folder, formats=("html",), **more)
    return (folder / "report" / "index.html").read_text(encoding="utf-8"), outcome


def test_the_page_is_whole_and_fetches_nothing(tmp_path):
    cells = [cell(s, p, t, seeds=6) for s in ("S1", "S3") for p in POLICIES for t in (500, 1000)]
    text, outcome = read_page(make_sweep(tmp_path, cells, swept=["horizon"]))
    assert outcome.problems == ()
    found = Reader(text)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert [v for _, name, v in found.attributes if name == "content" and v.startswith("default-src 'none'; ")]
    for _, name, value in found.attributes:
        if name in ("src", "href", "xlink:href", "action"):
            assert value.startswith("#") or value == "data:," or re.fullmatch(r"[a-z]+\.(md|tex|csv)", value), value
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    links = {value for tag, name, value in found.attributes if (tag, name) == ("a", "href")}
    assert {f"#{key}" for key in found.ids if f'<section id="{key}"' in text} <= links
    # Every picture says in words what it shows.
    told = [value for tag, name, value in found.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(told) == found.tags.count("svg") == 4 * 4 + 2 + 1
    assert all(value.split() for value in told)
    assert "Complete: every cell is done, every seed healthy" in found.text
    assert "All 72 seeds of 12 cells are healthy" in found.text
    assert text == read_page(tmp_path)[0]  # the same folder, the same bytes


def test_page_and_files_have_one_typeface_that_needs_no_font_of_the_machine():
    style = Path(tables.__file__).with_name("page.css").read_text(encoding="utf-8")
    family = sheets.SHEET_STYLE["font.family"]
    assert sheets.PAGE_STYLE["font.family"] == family
    assert f'--letters: "{family}", Verdana, ' in style
    fonts = re.findall(r"font(?:-family)?: ([^;]*);", style)
    assert [font for font in fonts if "mono" not in font] == [
        "15px/1.5 var(--letters)", "inherit", "var(--letters) !important"
    ]  # fmt: skip
    for weight in ("normal", "bold"):
        wanted = font_manager.FontProperties(family=family, weight=weight)
        assert Path(font_manager.findfont(wanted, fallback_to_default=False)).is_relative_to(matplotlib.get_data_path())


def test_what_a_title_says_has_no_column(tmp_path):
    cells = [cell("S3", p, radius_scale=s) for p in ("tofu", "oful") for s in (1.0, 0.5)]
    for entry in cells[2:]:
        entry["bandit"] = {**entry["bandit"], "K": 5, "instance_hash": "cc33"}
    text, _ = read_page(make_sweep(tmp_path, cells, swept=["K", "radius_scale"]))
    assert "<summary>S3, T = 1,000, K = 5 " in text
    assert text.count('<th scope="col">radius scale</th>') == 2
    assert '<th scope="col">K</th>' not in text
    assert "| S3, T = 1,000, K = 5 | OFUL | 5 | 1 | " in text


def test_a_single_setting_has_both_axes_beside_each_other(tmp_path):
    text, _ = read_page(make_sweep(tmp_path, [cell(seeds=3), cell("S3", "oful", seeds=3)]))
    assert "T = 1,000, linear axes" in text
    assert "T = 1,000, log–log axes" in text
    assert "<fieldset" not in text


def test_texts_from_files_are_escaped(tmp_path):
    hostile = '<img src=x onerror="alert(1)">$x_1$&amp;\'"</svg></script>'
    entry, failing = cell(hostile, hostile, seeds=3), cell("S3", "menu")
    entry["parameters"][hostile] = hostile
    folder = make_sweep(
        tmp_path, [entry, failing, cell("S3", "oful", seeds=3)], failed=[1], unhealthy=[0], swept=[hostile],
        name=hostile, overrides=[hostile], environment={"devices": hostile},
    )  # fmt: skip
    text, _ = read_page(folder)
    found = Reader(text)
    assert found.open == []
    assert not {"img", "b"} & set(found.tags)
    assert found.tags.count("script") == 1
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    for shown in (hostile, "<script>alert(1)</script>", "ValueError: theta_norm=<b>-1</b> & more"):
        assert shown in found.text


def test_what_is_not_whole_is_said_and_shown(tmp_path):
    cells = [cell("S3", p, seeds=6) for p in ("tofu", "menu", "mom", "crt", "oful", "uniform")]
    folder = make_sweep(tmp_path, cells, failed=[1], missing=[2], started=[3], unhealthy=[0], status="interrupted")
    write_cell(folder, cells[5], seeds=2)
    path = folder / "cells" / f"{cells[4]['id']}.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:600] + bytes(200) + content[800:])  # the footer is whole: only reading shows it
    text, outcome = read_page(folder)
    assert outcome.problems == (
        "1 of 6 cells done; 1 partial, 1 failed, 1 damaged, 1 started, 1 missing",
        "1 unhealthy seed in 1 cell, left out of every average",
    )
    shown = Reader(text).text
    assert "Partial: not every cell is done (the run is noted as interrupted)" in shown
    assert "ValueError: theta_norm=<b>-1</b> & more" in shown
    assert f"{path} is damaged" in shown
    assert "seed 0 at pull 17" in shown
    for state in ("failed", "missing", "started", "partial", "damaged"):
        assert f'<span class="tag">{state}</span>' in text
    assert "2 (of 6 asked)" in shown


def test_a_sweep_without_a_finished_cell_has_a_page(tmp_path):
    text, outcome = read_page(make_sweep(tmp_path, [cell(), cell("S1", "oful")], missing=[0, 1]))
    assert outcome.problems == ("0 of 2 cells done; 2 missing",)
    assert "No cell holds replications yet." in text
    assert "<svg" not in text


def test_hundreds_of_cells_are_folded_and_few_are_drawn(tmp_path):
    cells = [
        cell(f"world {w}", p, radius_scale=s, seeds=3, records=5)
        for w in range(12)
        for p in POLICIES
        for s in (1.0, 0.3, 0.1, 0.03, 0.01)
    ]
    text, _ = read_page(make_sweep(tmp_path, cells, swept=["radius_scale"]), panels=3)
    assert text.count("<svg") == 3 * 5 + 1
    assert "Drawn: 3 of 12 settings; the others are in the table." in text
    assert "<details open" not in text
    assert Reader(text).text.count("world 11, T = 1,000") >= 2
    assert text.count('<th scope="row"><span class="swatch"') >= 180
    assert len(text) < 1_500_000


# The command


def test_the_command_writes_everything_and_says_what_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sheets, "ROWS", 1)
    cells = [cell(f"set{n}", p, seeds=3, records=5) for n in range(4) for p in ("tofu", "oful")]
    folder, out = make_sweep(tmp_path / "sweep", cells), tmp_path / "elsewhere"
    assert main(["report", str(folder), "--out", str(out), "--format", "html,png", "--panels", "4"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == str(out / "index.html")
    assert sorted(printed) == sorted(str(path) for path in out.rglob("*.*"))
    made = {path.name for path in (out / "figures").iterdir()}
    numbered = {f"{kind}-{n}.png" for kind in ("regret", "regret-loglog", "final-regret", "paired") for n in (1, 2)}
    assert made == {*numbered, "speed.png"}
    assert all((out / "figures" / name).read_bytes()[:4] == b"\x89PNG" for name in made)
    failing = make_sweep(tmp_path / "failing", cells[:2], failed=[1])
    assert main(["report", str(failing), "--format", "pdf", "--quiet"]) == 1
    assert capsys.readouterr() == ("", f"linbet: {failing}: 1 of 2 cells done; 1 failed\n")
    assert (failing / "report" / "figures" / "regret.pdf").read_bytes()[:4] == b"%PDF"
    assert not (failing / "report" / "index.html").exists()
    unhealthy = make_sweep(tmp_path / "ill", cells[:2], unhealthy=[1])
    assert main(["report", str(unhealthy), "--format", "html", "--quiet"]) == 1
    assert "1 unhealthy seed in 1 cell" in capsys.readouterr().err


def test_the_user_s_settings_of_matplotlib_change_no_byte(tmp_path):
    """In a terminal of a notebook: a backend that is not there, and a file of settings that asks for TeX."""
    folder = make_sweep(tmp_path / "sweep", [cell("S3", p, t, seeds=5) for p in ("tofu", "oful") for t in (500, 1000)])
    write_report(folder, tmp_path / "plain", formats=("html", "png"))
    settings = tmp_path / "matplotlibrc"
    settings.write_text("text.usetex: True\nfont.size: 30\nfont.weight: bold\nsavefig.bbox: tight\nbackend: tkagg\n")
    environment = {**os.environ, "MPLBACKEND": "not there", "MATPLOTLIBRC": str(settings)}
    command = [sys.executable, "-m", "linbet_jax", "report", str(folder), "--out", str(tmp_path / "own")]
    done = subprocess.run(
        [*command, "--format", "html,png"], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    names = sorted(path.relative_to(tmp_path / "plain") for path in (tmp_path / "plain").rglob("*.*"))
    assert {path.suffix for path in names} == {".html", ".png", ".csv", ".md", ".tex"}
    for name in names:
        assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name


def test_wrong_arguments_in_python(tmp_path):
    make_sweep(tmp_path, [cell(seeds=2, records=2)])
    for more, message in (
        ({"formats": ("svg",)}, "format 'svg'"),
        ({"formats": ()}, "format ''"),
        ({"panels": 0}, "panels=0"),
    ):
        with pytest.raises(InputError, match=message):
            write_report(tmp_path, **more)


def test_a_folder_that_the_driver_wrote(tmp_path):
    """The same contract on both sides: a sweep file, run by a stand-in for the simulator, loaded and reported."""
    file = tmp_path / "small.toml"
    file.write_text(
        'name = "by the driver"\nseeds = 5\nhorizon = [300, 600]\nrecords = 4\n[sets.S3]\n[policies.tofu]\n'
        'radius_scale = [1.0, 0.1]\n[policies."crt again"]\npolicy = "crt"\ndelta = [0.05, 0.2]\n[policies.oful]\n',
        encoding="utf-8",
    )
    lb.sweep.run(lb.sweep.read(file), tmp_path / "out", executor=StandIn(failing=("oful",), ill=2))
    with pytest.warns(UserWarning, match="8 of 10 cells done; 2 failed"):
        sweep = lb.load(tmp_path / "out")
    assert sweep.table.num_rows == 8 * 5 * 4
    assert {c.error for c in sweep.select(policy="oful").cells} == {"FloatingPointError: it broke"}
    assert [c.value("delta") for c in sweep.select(policy="crt again", horizon=300).cells] == [0.05, 0.2]
    assert sweep.select(family="crt").summary()["unhealthy"].to_pylist() == [1] * 4
    assert sweep.cells[0].journey.seed_pulls == 5 * 300
    text, outcome = read_page(tmp_path / "out")
    assert outcome.problems[0] == "8 of 10 cells done; 2 failed"
    shown = Reader(text).text
    for name in ("by the driver", "TOFU ×0.1", "crt again, δ=0.05", "FloatingPointError: it broke", "[sets.S3]"):
        assert name in shown
