"""`linbet bounds`: what the theorems say for given constants, each number with its equation. Needs no JAX."""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from linbet_jax import theory
from linbet_jax.errors import InputError

CONSTANTS = "optimism with the last beta, as in the proofs of Theorems 2 and 3 (their paper gives the rate)"
DERIVED = "derived here, with prob. 1 - delta"
HEADING = (
    "T = {horizon:,} pulls, d = {dim}, epsilon = {epsilon:g}, delta = {delta:g}, lambda = {ridge:g}\n"
    "b = {raw_moment_bound:g} (raw moment), c = {central_moment_bound:g} (central moment), of order "
    "1 + epsilon = {order:g}; S = {theta_norm:g} >= ||theta*||, D = {arm_norm:g} >= ||x||, "
    "L = {mean_bound:g} >= |<x, theta*>|, K = {num_arms:,} arms\n"
    "p = 1 + eps, a = (1 - eps)/(2(1 + eps)), g = d ln(1 + T D^2/(lambda d)), l = ln(2/delta), for Heavy-OFUL "
    "ln(3/delta)"
)
# Policies with a bound in `linbet list`, of which only the order is known.
WITHOUT_CONSTANTS = ("sup_bmm", "sup_btc", "adar_ucb", "lints", "mean_of_medians")
_Value = TypeVar("_Value")
Row = tuple[str, str, str]  # what it is, its value, and where that comes from


def run(options: argparse.Namespace) -> int:
    """Prints the constants that were taken and, policy by policy, counts, levels, radii and regret bounds.

    Raises:
        InputError: a pull after the horizon, or a policy asked for by name that cannot have this horizon.
    """
    late = [pull for pull in options.at or () if pull > options.horizon]
    if late:
        raise InputError(f"--at: {late[0]} is after the horizon; allowed are pulls from 1 to {options.horizon}")
    usual = (1, options.horizon // 100 or 1, options.horizon // 10 or 1)
    options.at = sorted({*(options.at or usual), options.horizon})
    options.num_arms = options.num_arms or options.dim
    if options.mean_bound is None:  # S D always bounds the means
        options.mean_bound = options.theta_norm * options.arm_norm
    sections = []
    for policy in options.policy or _SECTIONS:
        title, section = _SECTIONS[policy]
        try:
            sections.append((title, section(options)))
        except ValueError as error:
            if options.policy:
                raise InputError(str(error)) from error
            sections.append((title, [("nothing", "–", str(error))]))
    print(HEADING.format(**vars(options), order=1 + options.epsilon))
    widths = [max(len(row[i]) for _, rows in sections for row in rows) for i in range(2)]
    for title, rows in sections:
        print(f"\n{title}")
        said = ""
        for what, value, source in rows:
            print(f"  {what:<{widths[0]}}  {value:>{widths[1]}}  {'' if source == said else source}".rstrip())
            said = source
    if not options.policy:
        print(f"\nKnown without constants, by their rates alone (linbet list): {', '.join(WITHOUT_CONSTANTS)}")
    return 0


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _row(what: str, value: float | Callable[[], float], source: str) -> Row:
    """A row with a number, or with what a formula gives, which may be beyond float64."""
    with contextlib.suppress(OverflowError):
        number = value() if callable(value) else value
        if number < math.inf:
            return what, _number(number), source
    return what, "> 1e308", source


def _formula(
    formula: Callable[..., _Value], options: argparse.Namespace, updates: int = 0, **more: Any
) -> Callable[[], _Value]:
    """A formula at the constants that it takes by name, after so many updates, when det V is as large as it can be."""
    constants = {**vars(options), "epoch": updates, "pull": updates}
    constants["log_det_ratio"] = theory.log_det_bound(updates, **theory.arguments(theory.log_det_bound, constants))
    return functools.partial(formula, **theory.arguments(formula, {**constants, **more}))


def _each(
    what: str,
    updates: Sequence[int],
    source: str,
    formula: Callable[..., float],
    options: argparse.Namespace,
    **more: Any,
) -> list[Row]:
    """A row for each number of updates: epochs, or pulls."""
    return [_row(f"{what} = {count:,}", _formula(formula, options, count, **more), source) for count in updates]


def _ends(policy: str, options: argparse.Namespace, bound: str, rate: str) -> list[Row]:
    """The upper bound of a policy's regret and its exponent; a bound that no policy can exceed says nothing yet."""
    regret = _formula(getattr(theory, f"{policy}_regret_bound"), options)
    what, value, source = _row("regret at most", regret, bound)
    trivial = 2 * options.mean_bound * options.horizon
    if value.startswith(">") or regret() >= trivial:
        source = f"{bound}; not yet below 2 L T = {_number(trivial)}"
    return [(what, value, source), _rate(policy, options, rate)]


def _rate(policy: str, options: argparse.Namespace, formula: str) -> Row:
    return _row("rate: T to the power", lambda: theory.regret_exponent(policy, options.epsilon), formula)


def _menu(options: argparse.Namespace) -> list[Row]:
    horizon, delta = options.horizon, options.delta
    smallest = theory.menu_smallest_horizon(delta)
    if horizon < smallest:
        raise ValueError(f"T={horizon}: MENU at delta={delta:g} needs T >= {smallest} (256 + 24 ln(e/delta))")
    groups, epochs = theory.menu_groups(horizon, delta), theory.menu_epochs(horizon, delta)
    finished = _finished_epochs(options.at, groups, epochs)
    source = "Algorithm 1, line 10: 3 [(9dc)^(1/p) n^a + sqrt(lambda) S]"
    return [
        _row("k, pulls of one arm an epoch", groups, "Algorithm 1, line 2: ceil(24 ln(e T/delta))"),
        _row("N, epochs", epochs, "Algorithm 1, line 2: floor(T/k)"),
        *_each("beta_n, n", finished, source, theory.menu_radius, options),
        *_ends("menu", options, "Theorem 2, with prob. 1 - delta", "Theorem 2: 1/(1+eps)"),
    ]


def _tofu(options: argparse.Namespace) -> list[Row]:
    proof = "proof of Theorem 3: (b/ln(2dT/delta))^(1/p) t^a"
    box = "Algorithm 2, line 4: (b/ln(2T/delta))^(1/eps) t^a"
    radius = "Algorithm 2, line 13: 4 sqrt(d) b^(1/p) ln(2dT/delta)^(eps/p) t^a + sqrt(lambda) S"
    return [
        *_each("b_t, t", options.at, proof, theory.tofu_level, options),
        *_each("b_t as in the box, t", options.at, box, theory.tofu_level, options, level="box"),
        *_each("beta_t, t", options.at, radius, theory.tofu_radius, options),
        *_ends("tofu", options, "Theorem 3, with prob. 1 - delta", "Theorem 3: 1/(1+eps)"),
    ]


def _mom(options: argparse.Namespace) -> list[Row]:
    schedule = theory.mom_schedule(options.horizon, delta=options.delta, epsilon=options.epsilon)
    why = (
        "floor(T^(2 eps/(1+3 eps)))" if not schedule.shortened else "fewer than T^(2 eps/(1+3 eps)): blocks hold a pull"
    )
    finished = _finished_epochs(options.at, schedule.pulls, schedule.epochs)
    counts = {name: getattr(schedule, name) for name in ("epochs", "pulls", "block_pulls")}
    valid = "Medina and Yang: (12c)^(1/p) floor(r/q)^(-eps/p) sqrt(i) + sqrt(lambda) S"
    printed = "Medina and Yang: as printed"
    return [
        _row("m, epochs", schedule.epochs, f"Medina and Yang: {why}"),
        _row("r, pulls of one arm an epoch", schedule.pulls, "floor(T/m)"),
        _row("q, blocks an epoch", schedule.blocks, "ceil(8 ln(2m/delta))"),
        _row("pulls a block", schedule.block_pulls, "floor(r/q)"),
        *_each("beta_i valid, i", finished, valid, theory.mom_radius, options, radius="valid", **counts),
        *_each("beta_i paper at most, i", finished, printed, theory.mom_radius, options, radius="paper", **counts),
        *_ends("mom", options, f"beta valid; {CONSTANTS}", "Medina and Yang: (1+2 eps)/(1+3 eps)"),
    ]


def _crt(options: argparse.Namespace) -> list[Row]:
    valid = "alpha_t sqrt(ln(det V/det lambda I) + 2 ln(t(t+1)/delta)) + b sqrt(p) t^(1/(2p)) + sqrt(lambda) S"
    printed = "Medina and Yang, Theorem 1"
    return [
        *_each("alpha_t, t", options.at, "Medina and Yang: t^(1/(2p))", theory.crt_level, options),
        *_each("beta_t valid at most, t", options.at, valid, theory.crt_radius, options, radius="valid"),
        *_each("beta_t paper at most, t", options.at, printed, theory.crt_radius, options, radius="paper"),
        *_ends("crt", options, f"beta valid; {CONSTANTS}", "Medina and Yang: 1/2 + 1/(2(1+eps))"),
    ]


def _oful(options: argparse.Namespace) -> list[Row]:
    radius = "Abbasi-Yadkori et al., Theorem 2: R sqrt(ln(det V/det lambda I) + 2 ln(1/delta)) + sqrt(lambda) S"
    bound = f"R = {options.noise_scale:g}-sub-Gaussian noise alone; their Theorem 3"
    return [
        *_each("beta_t at most, t", options.at, radius, theory.oful_radius, options),
        *_ends("oful", options, bound, "Abbasi-Yadkori et al.: 1/2"),
    ]


def _huber(policy: str, options: argparse.Namespace, move: float, beta: Callable[..., float]) -> list[Row]:
    """t0, beta and the ends of a policy of Huber regression."""
    source = f"derived here: sqrt(lambda) S + C t0 l, C of theory.{'hvt' if policy == 'hvt_ucb' else policy}_factor"
    return [
        _row("t0, one payoff's farthest move", move, "derived here: c^(1/p) sqrt(g) T^a l^(-1/p)"),
        _row("beta", _formula(beta, options, move=move), source),
        *_ends(policy, options, f"{DERIVED}: 2 beta sqrt((1 + cap) T g), and 2 L a capped pull", "1/(1+eps)"),
    ]


def _positive(policy: str, options: argparse.Namespace) -> None:
    if options.central_moment_bound == 0:
        raise ValueError(f"c=0: {policy} needs a positive c, else it clips every payoff to its estimate")


def _hvt_ucb(options: argparse.Namespace) -> list[Row]:
    _positive("hvt_ucb", options)
    ridge = _formula(theory.hvt_uncapped_ridge, options)()
    why = "the smallest at which no pull is capped" if ridge else "as given: none makes all weights 1"
    told = argparse.Namespace(**{**vars(options), "ridge": ridge or options.ridge})
    rows = _huber("hvt_ucb", told, _formula(theory.hvt_move, told)(), theory.hvt_radius)
    return [_row("lambda in use", told.ridge, why), *rows]


def _heavy_oful(options: argparse.Namespace) -> list[Row]:
    _positive("heavy_oful", options)
    return _huber("heavy_oful", options, _formula(theory.heavy_oful_move, options)(), theory.heavy_oful_radius)


def _crtm(options: argparse.Namespace) -> list[Row]:
    beta = "derived here: sqrt(lambda) S + (C + 1/sqrt(g)) G l, C of theory.crtm_radius"
    return [
        _row(
            "G, the level of |y| ||x||", _formula(theory.crtm_level, options), "derived here: (b/l)^(1/p) T^a sqrt(g)"
        ),
        _row("beta", _formula(theory.crtm_radius, options), beta),
        *_ends("crtm", options, f"{DERIVED}: optimism", "1/(1+eps)"),
    ]


def _crmm(options: argparse.Namespace) -> list[Row]:
    schedule = theory.crmm_schedule(options.horizon, delta=options.delta)
    finished = _finished_epochs(options.at, schedule.pulls, schedule.epochs)
    quantile = _formula(theory.crmm_quantile, options)()
    radius = "derived here: OFUL's with R at delta/2"
    return [
        _row("r, pulls of one arm an epoch", schedule.pulls, "the smallest odd one; exact binomial tail"),
        _row("N, epochs", schedule.epochs, "floor(T/r)"),
        _row("R", quantile, "(4 c)^(1/(1+eps))"),
        *_each("beta_n at most, n", finished, radius, theory.crmm_radius, options, quantile=quantile),
        *_ends("crmm", options, f"symmetric noise alone; {DERIVED}: optimism", "1/2"),
    ]


def _gopt_elim(options: argparse.Namespace) -> list[Row]:
    phases = _formula(theory.elimination_phases, options)()
    return [
        _row("phases", len(phases), "all that fit into T"),
        _row("rows of the last one", phases[-1].rows, "2 d 2^(phases - 1)"),
        *_ends("gopt_elim", options, f"{DERIVED}: 2 L n_1 + 8 sum n_l e_l, e_l the largest width", "1/(1+eps)"),
    ]


def _explore_then_commit(options: argparse.Namespace) -> list[Row]:
    bound = f"{DERIVED}: 2 L n + 2 T e, e the largest width"
    phase = theory.etc_schedule(options.horizon, dim=options.dim, num_arms=options.num_arms, delta=options.delta)
    return [
        _row("k, pulls of a row", phase.copies, "the smallest odd one for delta/K; exact binomial tail"),
        _row("rows", phase.rows, "floor(T^(2/3)/k)"),
        *_ends("explore_then_commit", options, bound, "1 - 2 eps/(3(1+eps))"),
    ]


def _robust_ucb(options: argparse.Namespace) -> list[Row]:
    if options.num_arms > options.dim:
        raise ValueError(f"K={options.num_arms}: robust_ucb plays orthonormal arms, of which there are at most d")
    width = "Bubeck et al., Lemma 1: 4 b^(1/p) (ln(2KT/delta)/n)^(eps/p)"
    widths = [
        _row(f"width after n = {n:,}", _formula(theory.robust_ucb_width, options, pulls=n), width) for n in options.at
    ]
    bound = f"{DERIVED}: 2 K L + 8 p b^(1/p) (K ln(2KT/delta))^(eps/p) T^(1/p)"
    return [*widths, *_ends("robust_ucb", options, bound, "1/(1+eps)")]


def _lower(options: argparse.Namespace) -> list[Row]:
    dim, horizon, epsilon = options.dim - options.dim % 2, options.horizon, options.epsilon
    if dim < 2:
        raise ValueError("d=1: the lower bound's construction needs d >= 2")
    try:
        smallest = theory.lower_bound_smallest_horizon(dim=dim, epsilon=epsilon)
    except OverflowError:
        raise ValueError(f"T={horizon}: the lower bound at epsilon={epsilon:g} needs T > 1e308") from None
    if horizon < smallest:
        raise ValueError(f"T={horizon}: the lower bound needs T >= {_number(float(smallest))} = (d/12)^((1+eps)/eps)")
    of = "" if dim == options.dim else f"; d odd: of the first {dim} coordinates"
    return [
        _row("Delta, the gap", lambda: theory.lower_bound_gap(horizon, epsilon=epsilon), "T^(-eps/(1+eps))/12"),
        _row("smallest T", smallest, "Delta <= 1/d: (d/12)^((1+eps)/eps)"),
        _row(
            "mean regret at least",
            lambda: theory.lower_bound_regret(horizon, dim=dim, epsilon=epsilon),
            f"Theorem 1: (d/192) T^(1/(1+eps)), over the construction's theta*, whatever the policy{of}",
        ),
        _rate("lower-bound", options, "Theorem 1: 1/(1+eps)"),
    ]


def _finished_epochs(pulls: Sequence[int], length: int, epochs: int) -> list[int]:
    """The epochs that are finished at these pulls, each once, from 1 on."""
    return sorted({min(epochs, max(1, math.floor(pull / length))) for pull in pulls})


_SECTIONS: dict[str, tuple[str, Callable[[argparse.Namespace], list[Row]]]] = {
    "menu": ("MENU", _menu),
    "tofu": ("TOFU", _tofu),
    "mom": ("MoM", _mom),
    "crt": ("CRT", _crt),
    "oful": ("OFUL", _oful),
    "hvt_ucb": ("Hvt-UCB", _hvt_ucb),
    "crtm": ("CRTM", _crtm),
    "crmm": ("CRMM", _crmm),
    "heavy_oful": ("Heavy-OFUL", _heavy_oful),
    "gopt_elim": ("G-optimal elimination (Catoni's estimate)", _gopt_elim),
    "robust_ucb": ("Robust UCB", _robust_ucb),
    "explore_then_commit": ("Explore, then commit", _explore_then_commit),
    "lower-bound": ("Every policy (lower bound)", _lower),
}
