"""Every picture that the package draws, from small simulations, in one folder: to look at after a change.

    python scripts/gallery.py gallery           # about half a minute
    python scripts/gallery.py gallery --tiny    # the same pictures of next to nothing

The environment is the one of the package: `source .venv/bin/activate`, for example.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import linbet_jax as lb
from linbet_jax import plotting
from linbet_jax.errors import InputError

POLICIES = ("menu", "mom", "tofu", "crt", "oful", "hvt_ucb", "crtm", "crmm", "gopt_elim", "greedy", "uniform")
SCALES = (1.0, 0.3, 0.1, 0.03, 0.01)


def results(names, data, *, horizon, seeds, scale=0.1):
    """One result for each policy on a data set."""
    import jax

    bandit = lb.dataset(data)
    played = []
    for name in names:
        own = {"assume_symmetric": True} if name == "crmm" else {}
        policy, params = lb.make_policy(name, bandit, horizon=horizon, radius_scale=scale, **own)
        settings = {"horizon": horizon, "num_seeds": seeds, "key": jax.random.key(0), "num_records": 50}
        played.append(lb.simulate(policy, params, bandit, **settings))
    return played


def panel_of(title, played, bold):
    """A panel in the manner of the paper's Figure 2."""
    curves = [
        plotting.Curve(r.name, r.params._asdict().get("radius_scale", 1.0), r.rounds,
                       lb.regret.summarize(r.regret, r.health), bold=r.name in bold)
        for r in played
    ]  # fmt: skip
    return plotting.Panel(title, curves)


def plots(horizon, seeds, two, names):
    """(file name, figure) of every function of `lb.plotting`."""
    import jax

    pair = results(two, "S3", horizon=horizon, seeds=seeds)
    many = results(names, "S3", horizon=horizon, seeds=seeds) if names else pair
    yield "curves-two", plotting.curves(pair, title="Two curves")
    yield "curves-many", plotting.curves(many, title="Every policy on S3, radii times 0.1")
    yield "curves-log", plotting.curves(many, log=True, title="The same on log axes")
    yield "curves-payoff", plotting.curves({"S3": many[:2], "again": pair}, quantity="payoff", spread="sd")
    yield "final", plotting.final(many, title="The last record")
    rows = [("radii x0.1", [panel_of("S3", pair, {"crt"}), panel_of("S3, all", many, {"tofu", "menu"})])]
    yield "panels", plotting.panel_figure(rows, quantity="cumulative regret", spread="sd", note="A small note.")
    tunable = [name for name in two if name != "uniform"]
    tuned = lb.tune(tunable, ["S3"], SCALES, horizon=horizon, key=jax.random.key(0), num_seeds=max(2, seeds // 2))
    yield "tuning", plotting.tuning_figure(tuned, title="Tuning")
    horizons = np.array([horizon // 4, horizon // 2, horizon])
    growth = {
        r.name: (horizons, np.interp(horizons, r.rounds, r.regret.mean(axis=0)) + 1e-9) for r in (pair[0], many[-1])
    }
    yield "growth", plotting.growth_figure(growth, theory={"crt": 0.75}, title="Growth")
    finals = np.array([np.sort(r.regret[:, -1]) for r in (pair[0], many[-1])])
    series = [
        plotting.Series(lb.plotting.policy_label(r.name), plotting.policy_colors([r.name])[r.name],
                        np.arange(1, seeds + 1), values, 0.9 * values, 1.1 * values, band=True)
        for r, values in zip((pair[0], many[-1]), finals, strict=True)
    ]  # fmt: skip
    random = np.random.default_rng(0)
    rows = np.eye(3)[random.integers(3, size=300)]
    fit = lb.from_log(rows, rows @ [1.0, 0.5, 0.2] + random.standard_t(3, size=300), epsilon=0.5, resamples=50)
    yield "tail", plotting.tail_figure(fit, title="The tail of a log")
    ratio = random.normal(size=(4, 6))
    names = {"rows": ["t(1.2)", "t(3)", "Gaussian", "lock"], "columns": ["OFUL", "TOFU", "CRT"] * 2}
    yield "map", plotting.ratio_map(ratio, 50 + ratio, 60 + ratio, **names, halves=("literal", "tuned"), title="A map")
    yield "chart", plotting.chart_figure([[plotting.Chart("Final regrets in order", "rank", "regret", series)]])


def report(folder, horizon, seeds):
    """The pictures of a report, and the report itself."""
    from linbet_jax.report.build import write_report
    from linbet_jax.sweep import driver, read

    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "gallery.toml"
        file.write_text(
            f'dtype = "float32"\nseeds = {seeds}\n'
            f"horizon = [{horizon // 2}, {horizon}]\n[sets.S3]\n[sets.S4]\n"
            "[policies.crt]\nradius_scale = [1.0, 0.1, 0.01]\n[policies.oful]\nradius_scale = [1.0, 0.1, 0.01]\n"
            "delta = [0.1, 0.01]\n[policies.uniform]\n",
            encoding="utf-8",
        )
        driver.run(read(file), Path(scratch) / "run")
        return write_report(Path(scratch) / "run", folder, formats=("html", "png")).files


def draw(folder, *, tiny=False, say=print):
    """Draws everything into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    horizon, seeds = (16, 2) if tiny else (2_000, 16)
    for name, figure in plots(
        horizon, seeds, ("oful", "uniform") if tiny else ("crt", "oful"), () if tiny else POLICIES
    ):
        plotting.save_figure(figure, folder / f"{name}.png")
        say(folder / f"{name}.png")
    if not tiny:
        for path in report(folder / "report", horizon, seeds):
            say(path)


def main(arguments=None):
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="where the pictures go; made when it is not there")
    parser.add_argument("--tiny", action="store_true", help="two seeds of 16 pulls, without the report: does it draw?")
    options = parser.parse_args(arguments)
    lb.set_up_cpu(compile_cache=True)
    try:
        draw(options.folder, tiny=options.tiny)
    except (OSError, InputError) as error:
        sys.exit(f"gallery: {error}")


if __name__ == "__main__":
    main()
