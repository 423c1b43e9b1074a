"""Figures: what must be drawn, what must not (cases S4, S6, S7), and no trace left in matplotlib's global state."""

import io
import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from linbet_jax.figures import canvas, plotting
from linbet_jax.figures.plotting import Curve, Panel, panel_figure
from linbet_jax.policies.oful import OfulParams
from linbet_jax.statistics.regret import summarize
from linbet_jax.statistics.tuning import TuningCurve

ROUNDS = np.arange(100, 2001, 100)


def curve(policy="tofu", scale=1.0, values=None, bold=False, rounds=ROUNDS, health=None):
    if values is None:
        values = np.sqrt(rounds) * np.linspace(0.8, 1.2, 5)[:, None]
    return Curve(policy, scale, rounds, summarize(values, health), bold)


def axes_of(*curves, spread="interval", log=True, **panel):
    figure = panel_figure([("", [Panel("S1", curves, **panel)])], quantity="regret", spread=spread, log=log)
    return figure.axes[0]


def band_points(ax):
    return [c.get_paths()[0].vertices for c in ax.collections if c.get_paths()]


def labels(ax):
    return [text.get_text() for text in ax.texts]


def test_a_band_that_crosses_zero_is_clipped_on_log_axes():  # S6
    values = np.array([[1.0], [-0.8], [0.4]]) * np.sqrt(ROUNDS)
    drawn = curve(values=values)
    assert np.any(drawn.summary.low < 0)
    ax = axes_of(drawn)
    bottom = ax.get_ylim()[0]
    assert bottom > 0
    [points] = band_points(ax)
    assert np.isfinite(points).all()
    assert points[:, 1].min() >= bottom
    # One polygon above the mean's records, closed along the axis' end: nothing strays to other places.
    assert points[:, 0].min() == ROUNDS[0]
    assert points[:, 0].max() == ROUNDS[-1]


def test_a_zero_regret_at_the_first_record_is_left_out_on_log_axes():  # S6
    values = np.maximum(ROUNDS - 150.0, 0) * np.ones((4, 1))
    assert values[0, 0] == 0
    ax = axes_of(curve(values=values + np.linspace(0, 1, 4)[:, None] * (ROUNDS > 100)))
    [line] = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), ROUNDS[1:])
    assert np.all(np.asarray(line.get_ydata()) > 0)
    [points] = band_points(ax)
    assert points[:, 0].min() == ROUNDS[1]


def test_a_regret_that_stays_zero_is_named_on_log_axes_and_drawn_on_linear_ones():
    nothing = curve("menu", 0.01, np.zeros((3, ROUNDS.size)))
    ax = axes_of(nothing, curve())
    assert "MENU ×0.01 (0)" in labels(ax)
    assert len(ax.lines) == 1
    ax = axes_of(nothing, curve(), log=False)
    assert "MENU ×0.01" in labels(ax)
    assert len(ax.lines) == 2
    low, high = ax.get_ylim()
    assert low < 0 < high


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("spread", ["sd", "interval"])
def test_one_seed_is_drawn_without_a_band(spread, log):  # S4
    ax = axes_of(curve(values=np.sqrt(ROUNDS)[None]), spread=spread, log=log)
    assert len(ax.lines) == 1
    assert not ax.collections
    assert not ax.containers


def test_error_bars_are_one_standard_deviation():
    drawn = curve()
    ax = axes_of(drawn, spread="sd", log=False)
    [bars] = [c for c in ax.collections if hasattr(c, "get_segments")]
    for (x, low), (_, high) in bars.get_segments():
        at = np.flatnonzero(x == ROUNDS)[0]
        assert low == pytest.approx(drawn.summary.mean[at] - drawn.summary.sd[at])
        assert high == pytest.approx(drawn.summary.mean[at] + drawn.summary.sd[at])


def test_the_interval_band_is_the_summary_s():
    drawn = curve()
    [points] = band_points(axes_of(drawn, log=False))
    np.testing.assert_allclose(sorted(set(points[:, 1])), np.unique([drawn.summary.low, drawn.summary.high]))


def test_every_scale_but_the_paper_s_is_named_and_the_pair_is_bold():
    ax = axes_of(curve("menu", 0.03, bold=True), curve("oful", 1.0), log=False)
    assert labels(ax) == ["OFUL", "MENU ×0.03"]
    assert [text.get_fontweight() for text in ax.texts] == ["normal", "bold"]
    thin, thick = ax.lines
    assert thick.get_linewidth() > thin.get_linewidth()
    assert thick.get_zorder() > thin.get_zorder()
    assert thick.get_color() == plotting.COLORS["menu"]
    assert len(set(plotting.COLORS.values())) == len(plotting.COLORS)


def test_a_policy_of_the_user_s_own_is_drawn_too():
    assert "mine ×0.5" in labels(axes_of(curve("mine", 0.5), log=False))


def test_a_curve_without_a_healthy_seed_is_named():
    ax = axes_of(curve(values=np.full((2, ROUNDS.size), np.nan), health=[3, 4]), curve("crt"))
    assert "TOFU (no healthy seed)" in labels(ax)
    assert len(ax.lines) == 1


def test_the_reference_line_has_the_slope_it_should():
    ax = axes_of(curve(), log=False, reference=4.0, reference_label="best arm")
    line = ax.lines[-1]
    np.testing.assert_allclose(line.get_ydata(), 4.0 * np.asarray(line.get_xdata()))
    assert labels(ax)[-1] == "best arm"


@pytest.mark.parametrize("log", [True, False])
def test_labels_do_not_overlap(log):
    names = ["menu", "mom", "tofu", "crt", "oful", "uniform", "greedy"]
    figure = panel_figure(
        [("a", [Panel("S1", [curve(name, 0.01) for name in names], 1.0, "best arm")] * 2)] * 2,
        quantity="regret",
        spread="sd",
        log=log,
    )
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    for ax in figure.axes:
        boxes = sorted((Text.get_window_extent(text, renderer) for text in ax.texts), key=lambda box: box.y0)
        assert len(boxes) == 8
        for below, above in itertools.pairwise(boxes):
            assert above.y0 > below.y0 + 0.8 * below.height
        assert all(box.x1 <= figure.bbox.x1 for box in boxes)


@pytest.mark.parametrize("dpi", [100, 220])
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_long_titles_and_notes_are_wrapped_and_cover_nothing(columns, dpi):
    title, note = "a long title " * 12 + "\nQUICK LOOK at T=2000, not the paper's T", "small print " * 60
    panels = [Panel("S1: Student t(3), K=20, d=10", [curve("menu", 0.003, bold=True)])] * columns
    figure = panel_figure([("a", panels), ("b", panels)], quantity="regret", spread="sd", title=title, note=note)
    figure.set_dpi(dpi)
    figure.canvas.draw()
    above, below = figure.texts
    assert above.get_text().splitlines()[-1] == "QUICK LOOK at T=2000, not the paper's T"
    assert [" ".join(text.get_text().split()) for text in (above, below)] == [
        " ".join(t.split()) for t in (title, note)
    ]
    axes = [ax.get_tightbbox() for ax in figure.axes]
    for box in (*axes, *(text.get_window_extent() for text in figure.texts)):
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert 0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert above.get_window_extent().y0 >= max(box.y1 for box in axes)
    assert below.get_window_extent().y1 <= min(box.y0 for box in axes)


def test_a_word_wider_than_the_figure_stands_alone():
    figure = panel_figure([("", [Panel("S1", [curve()])])], quantity="q", spread="sd", title=f"a {'w' * 200} b")
    assert figure.texts[0].get_text().splitlines() == ["a", "w" * 200, "b"]


@pytest.mark.parametrize("spread", ["sd", "interval"])
def test_what_cannot_be_negative_is_not_drawn_below_0(spread):
    drawn = curve(values=np.array([[4.0], [0.1], [0.1]]) * np.sqrt(ROUNDS))
    assert np.all(drawn.summary.low < 0)
    for nonnegative in (True, False):
        panels = [("", [Panel("S1", [drawn])])]
        ax = panel_figure(panels, quantity="regret", spread=spread, nonnegative=nonnegative).axes[0]
        lowest = ax.dataLim.y0
        assert lowest == 0 if nonnegative else lowest < 0


@pytest.mark.parametrize(
    ("ticks", "shown"),
    [
        ([0, 250, 500, 750, 1000, 1250], ["0", "250", "500", "750", "1,000", "1,250"]),
        ([0, 500, 1000], ["0", "500", "1,000"]),
        ([0, 1000, 2000], ["0", "1k", "2k"]),
        ([0, 2500, 5000, 7500, 10_000], ["0", "2.5k", "5k", "7.5k", "10k"]),
        ([0, 500_000, 1_000_000], ["0", "500k", "1,000k"]),
        ([-1e6, 0, 1e6, 2e6], ["-1M", "0", "1M", "2M"]),
        ([0, 0.2, 0.4], ["0", "0.2", "0.4"]),
        ([0], ["0"]),
    ],
)
def test_an_axis_has_one_unit(ticks, shown):
    assert canvas.OneUnit().format_ticks(ticks) == shown


@pytest.mark.parametrize("log", [True, False])
def test_curves_in_one_place_take_turns(log):
    ramp = 1.0 * ROUNDS * np.ones((3, 1))
    names = {"menu": 1.0, "mom": 1.0, "tofu": 0.5, "oful": 1.0001}
    ax = axes_of(*(curve(name, values=slope * ramp) for name, slope in names.items()), log=log)
    menu, mom, tofu, oful = ax.lines
    assert [line.get_linestyle() for line in (menu, mom, tofu, oful)] == ["-", "--", "-", "--"]
    # Nothing is covered twice: every third of the pattern shows another curve.
    covered = []
    for line in (mom, oful):
        offset, (on, off) = line._unscaled_dash_pattern
        assert on * 3 == pytest.approx(on + off)
        covered.append(-offset % (on + off) / on)
    assert covered == pytest.approx([0, 1])


def test_every_policy_has_a_sign_of_its_own():
    signs = [plotting.policy_sign(name) for name in plotting.COLORS]
    assert len(set(signs)) == len(signs)
    assert "D" not in signs  # a mean, a chosen scale
    assert plotting.policy_sign("mine") == plotting.policy_sign("mine")
    ramp = 1.0 * ROUNDS[None]
    ax = axes_of(curve("crt", values=ramp), curve("oful", values=2 * ramp))
    assert [line.get_marker() for line in ax.lines] == [plotting.policy_sign(name) for name in ("crt", "oful")]
    (alone,) = axes_of(curve("crt", values=ramp)).lines
    assert alone.get_marker() == "None"


def test_names_of_many_curves_stay_beside_their_axes_and_apart():
    many = [curve("crt", values=(1.0 + number) * ROUNDS[None]) for number in range(30)]
    few, tall = (
        plotting.panel_figure([("", [plotting.Panel("", curves)])], quantity="q", spread="interval")
        for curves in (many[:10], many)
    )
    assert tall.get_size_inches()[1] > few.get_size_inches()[1] + 1
    tall.draw_without_rendering()
    (ax,) = tall.axes
    frame = ax.get_window_extent()
    names = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert len(names) == 30
    assert all(above.y0 >= below.y0 + 9 for below, above in itertools.pairwise(names))
    assert names[-1].y0 <= frame.y1
    assert names[0].y1 >= frame.y0


def test_a_long_label_of_a_policy_stays_on_the_figure():
    values = 1.0 * ROUNDS[None]
    figure = plotting.panel_figure(
        [("", [plotting.Panel("", [curve("gopt_elim", scale=0.001, values=values)])])], quantity="regret", spread="sd"
    )
    figure.canvas.draw()
    (label,) = [text for text in figure.axes[0].texts if text.get_text().startswith("G-opt")]
    assert label.get_window_extent().x1 <= figure.bbox.x1


def test_a_curve_that_only_begins_on_another_one_is_solid():
    ax = axes_of(curve("menu", values=1.0 * ROUNDS[None]), curve("mom", values=1.0 * np.minimum(ROUNDS, 1500)[None]))
    assert [line.get_linestyle() for line in ax.lines] == ["-", "-"]


def test_axes_hold_what_is_typical_and_of_the_rest_what_leaves_it_room():
    limits = canvas.robust_limits
    assert limits([[1.0, 5.0]], [[2.0]]) == (0, 5)
    assert limits([[1.0, 1e9, np.nan]], [[1.0, 2.0]]) == (0, 2)
    assert limits([[-3.0, 30.0, 19.0]], [[1.0, 2.0]]) == (-3, 19)
    assert limits([[-1e9, 0.5]], [[-1.0, 1.0]]) == (-1, 1)
    assert limits([[0.0, 1e9]], [[0.0]]) == (0, 1e9)  # nothing else is there to be seen
    assert limits([[3.0, 4.0]], [[np.nan]]) == (0, 4)
    assert limits([[]], [[]]) == (0, 1)
    assert limits([[1e-9, 0.0, 5.0, 1e3, 1e9]], [[2.0, 8.0]], log=True) == (2, 1e3)
    assert limits([[-1.0]], [[0.0]], log=True) == (0, 1)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("spread", ["sd", "interval"])
def test_a_seed_far_out_leaves_the_axis_and_the_name_says_so(log, spread):
    plain = np.sqrt(ROUNDS) * np.linspace(0.8, 1.2, 99)[:, None]
    ruled = curve(values=np.concatenate([plain, [1e9 * ROUNDS / 2000]]))
    ax = axes_of(ruled, curve("menu", values=2 * plain), log=log, spread=spread)
    assert 1.6 * plain.max() <= ax.get_ylim()[1] < 4 * plain.max()
    assert labels(ax) == ["TOFU ↑", "MENU"]
    [median] = [line for line in ax.lines if line.get_gid() == "median"]
    np.testing.assert_array_equal(median.get_ydata(), ruled.summary.median)
    assert all(points[:, 1].max() <= 3 * plain.max() for points in band_points(ax))
    alone = axes_of(ruled, log=log, spread=spread)
    assert alone.get_ylim()[0] < plain.min() < 0.8 * plain.max() < alone.get_ylim()[1] < 2 * plain.max()
    regret = panel_figure([("", [Panel("S1", [ruled])])], quantity="regret", spread=spread, nonnegative=True).axes[0]
    assert (labels(regret), regret.get_ylim()[0]) == (["TOFU ↑"], pytest.approx(0, abs=0.05 * plain.max()))
    both = np.array([[-1e9], [1e9]]) * ROUNDS / 2000  # an interval alone may be what is outside
    assert labels(axes_of(curve(values=np.concatenate([plain, both])), log=False, spread=spread)) == ["TOFU ↕"]
    # Payoffs fall as far as they rise.
    down = curve(values=np.concatenate([plain, [-1e9 * ROUNDS / 2000]]))
    ax = axes_of(down, curve("menu", values=2 * plain), log=log, spread=spread)
    assert labels(ax) == ["TOFU (<0) ↑" if log else "TOFU ↓", "MENU"]
    assert -0.1 * plain.max() <= ax.get_ylim()[0] <= plain.min()


def test_a_scale_that_one_seed_rules_leaves_the_axis_of_tuning():
    regrets = np.stack([np.linspace(1, 2, 20), np.linspace(3, 4, 20)])
    for outlier in (4.0, 1e9):
        regrets[1, 7] = outlier
        tuned = TuningCurve("tofu", "S3", 10, (0.1, 1.0), "mean", regrets, np.zeros((2, 20), int), 0.1)
        [ax] = plotting.tuning_figure([tuned]).axes
        assert 3.5 < ax.get_ylim()[1] < 5
        assert ("(some lie above the axis)" in ax.get_ylabel()) == (outlier > 4)


def test_spreading_moves_no_more_than_it_must():
    assert canvas.spread_apart([], 0.1, low=0, high=1) == []
    assert canvas.spread_apart([0.1, 0.5, 0.9], 0.1, low=0, high=1) == pytest.approx([0.1, 0.5, 0.9])
    assert canvas.spread_apart([0.5, 0.5], 0.1, low=0, high=1) == pytest.approx([0.45, 0.55])
    assert canvas.spread_apart([1.0, 0.99, 0.2], 0.1, low=0, high=1) == pytest.approx([1.0, 0.9, 0.2])
    assert canvas.spread_apart([0.0, 0.0], 0.1, low=0, high=1) == pytest.approx([0.0, 0.1])


def test_the_fitted_slope_is_drawn_beside_the_theory_s():  # S7
    horizons = np.array([1e3, 3e3, 1e4, 3e4, 1e5])
    figure = plotting.growth_figure({"tofu": (horizons, 7 * horizons ** (2 / 3))}, theory={"tofu": 0.75}, title="S3")
    [ax] = figure.axes
    slopes = {}
    for line in ax.lines:
        x, y = np.log(line.get_xdata()), np.log(line.get_ydata())
        slopes[line.get_gid()] = (y[-1] - y[0]) / (x[-1] - x[0])
    assert slopes["fit"] == pytest.approx(2 / 3, abs=1e-6)
    assert slopes["theory"] == pytest.approx(0.75, abs=1e-6)
    assert labels(ax) == ["TOFU\nfitted 0.667, theory 0.750"]
    two = plotting.growth_figure({"tofu": (horizons[:2], horizons[:2] ** 0.5)})
    assert labels(two.axes[0]) == ["TOFU\nthrough 2 points 0.500"]


def test_wrong_input():
    with pytest.raises(ValueError, match="spread must be 'sd' or 'interval'"):
        panel_figure([("", [Panel("S1", [curve()])])], quantity="regret", spread="sem")
    with pytest.raises(ValueError, match="equally many panels"):
        panel_figure([("", [Panel("S1", [])]), ("", [])], quantity="regret", spread="sd")


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_the_same_figure_is_the_same_bytes(tmp_path, suffix):
    for name in ("a", "b"):
        figure = panel_figure([("", [Panel("S1", [curve()])])], quantity="regret", spread="sd", title="t", note="n")
        plotting.save_figure(figure, tmp_path / f"{name}{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("a", "b"))
    assert first == second
    assert first[:4] in (b"\x89PNG", b"%PDF", b"<?xm")


def test_matplotlib_s_own_settings_stay_as_they_were(tmp_path):
    before = dict(matplotlib.rcParams)
    plotting.save_figure(axes_of(curve()).get_figure(), tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before


def importers():
    """Every module of the package that imports matplotlib as soon as it is imported itself."""
    package = Path(plotting.__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        if re.search(r"^(import|from) matplotlib", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield ".".join(("linbet_jax", *path.relative_to(package).with_suffix("").parts))


def test_no_backend_is_needed_and_pyplot_is_never_imported():
    """A notebook's backend need not be there; one that is there stays chosen."""
    modules = list(importers())
    assert {"linbet_jax.figures.plotting", "linbet_jax.figures.pictures", "linbet_jax.figures.sheets"} <= {*modules}
    code = """
import importlib, os, sys
for backend, module in [("svg", "linbet_jax.figures.plotting"), *(("not there", m) for m in sys.argv[1:])]:
    if os.fork():
        assert os.wait()[1] == 0, module
        continue
    os.environ["MPLBACKEND"] = backend
    importlib.import_module(module)
    import matplotlib
    assert (dict.__getitem__(matplotlib.rcParams, "backend") == backend) == (backend == "svg")
    assert os.environ["MPLBACKEND"] == backend
    assert "matplotlib.pyplot" not in sys.modules
    os._exit(0)
"""
    command = [sys.executable, "-c", code, *modules]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


OWN_SETTINGS = {
    "text.usetex": True, "font.size": 21, "font.family": "serif", "axes.facecolor": "red", "savefig.facecolor": "green",
    "savefig.bbox": "tight", "lines.linewidth": 9, "figure.dpi": 30, "xtick.labelsize": 30, "svg.fonttype": "none",
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_user_s_settings_change_nothing(tmp_path, suffix):
    def draw(name):
        rows = [("", [Panel("S1", [curve(), curve("menu")])])]
        figure = panel_figure(rows, quantity="regret", spread="sd", title="t", note="n")
        plotting.save_figure(figure, tmp_path / f"{name}{suffix}")
        return figure

    kept = draw("plain")
    with matplotlib.rc_context(OWN_SETTINGS):
        shown = draw("own")._repr_png_()  # as a notebook asks for it
        stream = io.BytesIO()
        kept.canvas.print_figure(stream, format="png")  # as its inline backend does; TeX would not be found
    assert (tmp_path / f"own{suffix}").read_bytes() == (tmp_path / f"plain{suffix}").read_bytes()
    assert shown == kept._repr_png_()
    assert stream.getvalue()[:4] == shown[:4] == b"\x89PNG"


def test_a_path_is_a_str_or_a_path_and_its_suffix_says_the_format(tmp_path, monkeypatch):
    figure = axes_of(curve()).get_figure()
    monkeypatch.chdir(tmp_path)
    plotting.save_figure(figure, "a.PNG")
    plotting.save_figure(figure, tmp_path / "b.png")
    assert (tmp_path / "a.PNG").read_bytes() == (tmp_path / "b.png").read_bytes()
    for path, message in (
        ("a.jpeg", "path='a.jpeg': must end in .pdf, .png or .svg"),
        ("a", "path='a': must end in .pdf, .png or .svg"),
        (b"a.png", "path=b'a.png': must be a str or a pathlib.Path"),
        (None, "path=None: must be a str or a pathlib.Path"),
        ("nowhere/a.png", "path='nowhere/a.png': there is no folder nowhere"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            plotting.save_figure(figure, path)
    with pytest.raises(ValueError, match="^figure='a': must be a matplotlib Figure$"):
        plotting.save_figure("a", "a.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.PNG", "b.png"]


def contrast(first, second):
    def luminance(color):
        channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_colours_are_fixed_and_those_of_own_policies_are_told_apart():
    own = [f"mine:policy{i}" for i in range(6)]
    colors = plotting.policy_colors([*own, "tofu", "menu"])
    assert (colors["tofu"], colors["menu"]) == (plotting.COLORS["tofu"], plotting.COLORS["menu"])
    assert sorted(colors[name] for name in own) == sorted(plotting.OWN_COLORS)
    alone, beside = plotting.policy_colors(own[:1]), plotting.policy_colors(["uniform", own[0]])
    assert alone[own[0]] == beside[own[0]]  # the name decides, not what stands beside it
    assert plotting.policy_colors(own) == plotting.policy_colors(own[::-1])
    assert set(plotting.policy_colors([f"p{i}" for i in range(20)]).values()) <= set(plotting.OWN_COLORS)


def test_colours_of_own_policies_show_on_both_pages():
    for color in plotting.OWN_COLORS:
        assert color not in plotting.COLORS.values()
        assert contrast(color, "#FFFFFF") >= 3
        assert contrast(color, "#171B21") >= 3


# From results to a figure in one call


def played(name, delta=0.1, scale=1.0, horizon=200, bandit="S1"):
    """What a simulation of three seeds might give, without one."""
    rounds = np.arange(50, horizon + 1, 50)
    regret = np.outer([1.0, 2.0, 9.0], rounds) * scale
    params = OfulParams(ridge=1.0, delta=delta, theta_norm=1.0, noise_scale=1.0, radius_scale=scale, horizon=200.0)
    shown = {"rounds": rounds, "regret": regret, "payoff": -regret, "health": np.zeros(3)}
    return SimpleNamespace(name=name, bandit=bandit, params=params, **shown)


def test_curves_of_results_are_labelled_by_policy_scale_and_what_differs():
    ax = plotting.curves([played("oful"), played("crt"), played("oful", scale=0.1)]).axes[0]
    assert labels(ax) == ["OFUL", "CRT", "OFUL ×0.1"]
    ax = plotting.curves([played("oful"), played("oful", delta=0.01)], title="Deltas").axes[0]
    assert labels(ax) == ["OFUL, delta 0.1", "OFUL, delta 0.01"]
    colors = [text.get_color() for text in ax.texts]
    assert colors[0] == plotting.COLORS["oful"]
    assert len({*colors}) == 2
    ax = plotting.curves([played("oful"), played("oful"), *(played("tofu", scale=s) for s in (0.1, 0.03, 0.3))]).axes[0]
    assert labels(ax) == ["OFUL", "OFUL (2)", "TOFU ×0.1", "TOFU ×0.03", "TOFU ×0.3"]
    assert len({text.get_color() for text in ax.texts}) == 5
    pair = played("oful")
    pair.params = SimpleNamespace(_asdict=lambda: {"inner": (1, 2), "table": np.ones(3)})
    assert labels(plotting.curves([pair, played("oful")]).axes[0]) == ["OFUL", "OFUL (2)"]
    [line, *_] = ax.lines
    np.testing.assert_array_equal(line.get_xdata()[-4:], [50, 100, 150, 200])
    np.testing.assert_allclose(line.get_ydata()[-4:], 4.0 * np.array([50, 100, 150, 200]))


def test_a_mapping_names_curves_or_panels():
    one = plotting.curves({"mine": played("oful"), "yours": played("crt")}, quantity="payoff")
    assert labels(one.axes[0]) == ["mine", "yours"]
    assert one.axes[0].get_ylabel() == "cumulative payoff"
    two = plotting.curves({"S1": [played("oful")], "S2": played("crt")}, log=True)
    assert [ax.get_title(loc="left") for ax in two.axes] == ["S1", "S2"]
    assert [ax.get_xscale() for ax in two.axes] == ["log", "log"]


@pytest.mark.parametrize("draw", [plotting.curves, plotting.final])
def test_results_of_several_bandits_have_a_panel_each(draw):
    """Their regrets are no rivals, and what differs with the bandit is no label of a curve."""
    one = [played("oful", bandit="S1"), played("oful", delta=0.01, bandit="S3"), played("crt", bandit="S1")]
    axes = draw(one).axes
    assert [(ax.get_title(loc="left"), labels(ax)) for ax in axes] == [("S1", ["OFUL", "CRT"]), ("S3", ["OFUL"])]
    (ax,) = draw({"all": one}).axes
    assert labels(ax) == ["OFUL, S1", "OFUL, S3", "CRT, S1"]


def test_the_final_records_with_interval_and_median():
    figure = plotting.final([played("oful"), played("crt", horizon=100)])
    ax = figure.axes[0]
    assert labels(ax) == ["OFUL", "CRT"]
    assert ax.get_xlabel() == "final regret"
    assert {(float(line.get_xdata()[0]), line.get_marker()) for line in ax.lines} >= {(800.0, "o"), (400.0, "x")}
    assert plotting.final(played("oful")).axes[0].get_xlabel() == "regret after 200 pulls"


@pytest.mark.parametrize("draw", [plotting.curves, plotting.final])
def test_what_cannot_be_drawn_is_named(draw):
    for nothing in ([], {}, {"S1": []}):
        with pytest.raises(ValueError, match="there is nothing to draw"):
            draw(nothing)
    for wrong in (3, [played("oful"), "crt"], {"S1": [4]}):
        with pytest.raises(ValueError, match="is no result: give what simulate, simulate_grid or load returned"):
            draw(wrong)
    with pytest.raises(ValueError, match="quantity='reward': must be 'regret' or 'payoff'"):
        draw(played("oful"), quantity="reward")


@pytest.mark.parametrize("draw", [plotting.curves, plotting.final])
def test_unhealthy_seeds_are_told_beside_the_label(draw):
    ill, none = played("oful"), played("crt")
    ill.health, none.health = np.array([0, 4, 0]), np.ones(3)
    told = sorted(label.removesuffix(" ↑") for label in labels(draw([ill, none]).axes[0]))
    assert told == ["CRT (no healthy seed)", "OFUL (2 of 3 seeds)"]


@pytest.mark.parametrize("draw", [plotting.curves, plotting.final])
def test_no_label_is_cut_off(draw):
    ill = played("oful", delta=1e-9)
    ill.health = np.ones(3)
    figure = draw([played("oful", delta=0.123456), ill])
    renderer = FigureCanvasAgg(figure).get_renderer()
    for text in figure.axes[0].texts:
        assert text.get_window_extent(renderer).x1 <= figure.bbox.x1


def test_regrets_near_the_end_of_floats_are_drawn(tmp_path):
    rounds, healthy = np.array([1, 10, 100]), np.zeros(2, int)
    far, near = (
        SimpleNamespace(
            name=name, bandit="S1", params=None, rounds=rounds, regret=values, payoff=values, health=healthy
        )
        for name, values in (("a", np.array([[1.0, 2.0, 3e300], [1.0, 2.0, 1e300]])), ("b", np.ones((2, 3)) * rounds))
    )
    for results, log in itertools.product(([far], [far, near]), (True, False)):
        plotting.save_figure(plotting.curves(results, log=log), tmp_path / "far.png")
    plotting.save_figure(plotting.final([far, near]), tmp_path / "final.png")


def test_dollars_in_names_are_dollars(tmp_path):
    values = np.ones((2, 3)) * ROUNDS[:3]
    result = SimpleNamespace(
        name="a", bandit="S1", params=None, rounds=ROUNDS[:3], regret=values, payoff=values, health=np.zeros(2, int)
    )
    for draw in (plotting.curves, plotting.final):
        figure = draw({"from $1 to $2": result, "b": result}, title="$a and $b")
        texts = [text for text in figure.findobj(Text) if "$" in text.get_text() and "math" not in text.get_text()]
        assert {text.get_text() for text in texts} >= {"from $1 to $2", "$a and $b"}
        assert not any(text.get_parse_math() for text in texts)
