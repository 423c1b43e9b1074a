"""Schedules, confidence radii, truncation levels and regret bounds, as functions of named arguments.

Radii and levels accept host numbers (Python or NumPy floats, evaluated in float64) and traced JAX arrays alike, so that
the policies and a pocket calculator share one formula; so do regret bounds that do not say otherwise. Schedules and
smallest horizons, which decide shapes, take host numbers alone. Letters follow the paper: p = 1 + epsilon and
a = (1 - epsilon) / (2 (1 + epsilon)). The arguments mean the same everywhere, and are not checked here:

    horizon: T, pulls.                            delta: failure probability, in (0, 1).
    epoch, pull: n or t, counted from 1.          epsilon: in (0, 1].
    dim: d.                                       ridge: lambda > 0.
    raw_moment_bound: b >= E|y|^p, in payoff^p.   theta_norm: S >= ||theta*||.
    central_moment_bound: c >= E|eta|^p.          arm_norm: D >= ||x||.
    log_det_ratio: ln(det V / det(lambda I)).     mean_bound: L >= |<x, theta*>|, in payoffs.

Radii are in the norm of V and in the unit of a payoff; levels bound |u y|, in the unit of a payoff too; regret bounds
are cumulative, in payoffs over T pulls.

References:
    Shao, Yu, King, Lyu. Almost optimal algorithms for linear stochastic bandits with heavy-tailed payoffs.
        NeurIPS 2018.
    Medina, Yang. No-regret algorithms for heavy-tailed linear bandits. ICML 2016.
    Abbasi-Yadkori, Pal, Szepesvari. Improved algorithms for linear stochastic bandits. NeurIPS 2011.
    Agrawal, Goyal. Thompson sampling for contextual bandits with linear payoffs. ICML 2013.
    Xue, Wang, Wan, Yi, Zhang. Efficient algorithms for generalized linear bandits with heavy-tailed rewards.
        NeurIPS 2023.
    Wang, Zhang, Zhao, Zhou. Heavy-tailed linear bandits: Huber regression with one-pass update. ICML 2025.
    Tajdini, Scarlett, Jamieson. Improved regret bounds for linear bandits with heavy-tailed rewards. NeurIPS 2025.
    Huang, Zhong, Wang, Yang. Tackling heavy-tailed rewards in reinforcement learning with function approximation:
        minimax optimal and instance-dependent regret bounds. NeurIPS 2023.
    Bubeck, Cesa-Bianchi, Lugosi. Bandits with heavy tail. IEEE Transactions on Information Theory 2013.
    Xue, Wang, Wang, Zhang. Nearly optimal regret for stochastic linear bandits with heavy-tailed payoffs. IJCAI 2020.
    Zhong, Huang, Yang, Wang. Breaking the moments condition barrier: no-regret algorithm for bandits with super
        heavy-tailed payoffs. NeurIPS 2021.
    Genalti, Marsigli, Gatti, Metelli. (epsilon, u)-adaptive regret minimization in heavy-tailed bandits. COLT 2024.
"""

from __future__ import annotations

from linbet_jax.theory.common import (
    OWN_NORM,
    arguments,
    at,
    growth_exponent,
    initial_radius,
    log_det_bound,
    optimism_regret_bound,
)
from linbet_jax.theory.designs import (
    EliminationPhase,
    SupSchedule,
    elimination_failure,
    elimination_phases,
    etc_schedule,
    explore_then_commit_regret_bound,
    gopt_elim_regret_bound,
    greedy_leverage_bound,
    median_copies,
    sup_bmm_schedule,
    sup_btc_factor,
    sup_log,
    sup_stages,
)
from linbet_jax.theory.lower_bound import lower_bound_gap, lower_bound_regret, lower_bound_smallest_horizon
from linbet_jax.theory.means import (
    adar_ucb_log,
    adar_ucb_mass,
    adar_ucb_width,
    robust_ucb_level,
    robust_ucb_log,
    robust_ucb_regret_bound,
    robust_ucb_width,
)
from linbet_jax.theory.rates import BOUNDED, regret_exponent
from linbet_jax.theory.regression import (
    CrmmSchedule,
    bernstein_factor,
    crmm_quantile,
    crmm_radius,
    crmm_regret_bound,
    crmm_schedule,
    crtm_level,
    crtm_radius,
    crtm_regret_bound,
    heavy_oful_factor,
    heavy_oful_move,
    heavy_oful_radius,
    heavy_oful_regret_bound,
    hvt_cap,
    hvt_factor,
    hvt_move,
    hvt_radius,
    hvt_ucb_regret_bound,
    hvt_uncapped_ridge,
    mean_of_medians_schedule,
    union_log,
)
from linbet_jax.theory.until_2018 import (
    MomSchedule,
    crt_level,
    crt_radius,
    crt_regret_bound,
    lints_scale,
    menu_epochs,
    menu_groups,
    menu_radius,
    menu_regret_bound,
    menu_smallest_horizon,
    mom_radius,
    mom_regret_bound,
    mom_schedule,
    mom_smallest_horizon,
    oful_radius,
    oful_regret_bound,
    tofu_level,
    tofu_radius,
    tofu_regret_bound,
    tofu_retruncation_rounds,
)

__all__ = [
    "BOUNDED",
    "OWN_NORM",
    "CrmmSchedule",
    "EliminationPhase",
    "MomSchedule",
    "SupSchedule",
    "adar_ucb_log",
    "adar_ucb_mass",
    "adar_ucb_width",
    "arguments",
    "at",
    "bernstein_factor",
    "crmm_quantile",
    "crmm_radius",
    "crmm_regret_bound",
    "crmm_schedule",
    "crt_level",
    "crt_radius",
    "crt_regret_bound",
    "crtm_level",
    "crtm_radius",
    "crtm_regret_bound",
    "elimination_failure",
    "elimination_phases",
    "etc_schedule",
    "explore_then_commit_regret_bound",
    "gopt_elim_regret_bound",
    "greedy_leverage_bound",
    "growth_exponent",
    "heavy_oful_factor",
    "heavy_oful_move",
    "heavy_oful_radius",
    "heavy_oful_regret_bound",
    "hvt_cap",
    "hvt_factor",
    "hvt_move",
    "hvt_radius",
    "hvt_ucb_regret_bound",
    "hvt_uncapped_ridge",
    "initial_radius",
    "lints_scale",
    "log_det_bound",
    "lower_bound_gap",
    "lower_bound_regret",
    "lower_bound_smallest_horizon",
    "mean_of_medians_schedule",
    "median_copies",
    "menu_epochs",
    "menu_groups",
    "menu_radius",
    "menu_regret_bound",
    "menu_smallest_horizon",
    "mom_radius",
    "mom_regret_bound",
    "mom_schedule",
    "mom_smallest_horizon",
    "oful_radius",
    "oful_regret_bound",
    "optimism_regret_bound",
    "regret_exponent",
    "robust_ucb_level",
    "robust_ucb_log",
    "robust_ucb_regret_bound",
    "robust_ucb_width",
    "sup_bmm_schedule",
    "sup_btc_factor",
    "sup_log",
    "sup_stages",
    "tofu_level",
    "tofu_radius",
    "tofu_regret_bound",
    "tofu_retruncation_rounds",
    "union_log",
]
