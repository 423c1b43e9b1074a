"""Policies: one file per paper, each registered by itself, and what they are built from."""

# In the order in which tables list the policies.
# isort: off
from linbet_jax.policies.menu import MenuParams, menu
from linbet_jax.policies.tofu import TofuParams, tofu
from linbet_jax.policies.medina_yang import CrtParams, MomParams, crt, mom
from linbet_jax.policies.oful import OfulParams, oful
from linbet_jax.policies.hvt_ucb import HvtParams, hvt_ucb
from linbet_jax.policies.crtm import CrtmParams, crtm
from linbet_jax.policies.crmm import CrmmParams, crmm
from linbet_jax.policies.heavy_oful import HeavyOfulParams, heavy_oful
from linbet_jax.policies.gopt_elim import GoptElimParams, gopt_elim
from linbet_jax.policies.sup import SupBmmParams, SupBtcParams, sup_bmm, sup_btc
from linbet_jax.policies.robust_ucb import RobustUcbParams, robust_ucb
from linbet_jax.policies.adar_ucb import AdarUcbParams, adar_ucb
from linbet_jax.policies.lints import LintsParams, lints
from linbet_jax.policies.explore_then_commit import EtcParams, explore_then_commit
from linbet_jax.policies.mean_of_medians import mean_of_medians
from linbet_jax.policies.sgd import SgdParams, default_optimizer, gradient, projection
from linbet_jax.policies.reference import GreedyParams, UniformParams, greedy, uniform

# isort: on
from linbet_jax.policies.bystander import BystanderParams, bystander
from linbet_jax.policies.designs import AnySets, Design, FixedSet, design_of
from linbet_jax.policies.policy import SeesScale
from linbet_jax.policies.registry import BanditFacts, Cost, Entry, Setup, entry, make_policy, names, options, register
from linbet_jax.policies.ridge import RidgeState, ridge_policy, scaled_radius

__all__ = [
    "AdarUcbParams",
    "AnySets",
    "BanditFacts",
    "BystanderParams",
    "Cost",
    "CrmmParams",
    "CrtParams",
    "CrtmParams",
    "Design",
    "Entry",
    "EtcParams",
    "FixedSet",
    "GoptElimParams",
    "GreedyParams",
    "HeavyOfulParams",
    "HvtParams",
    "LintsParams",
    "MenuParams",
    "MomParams",
    "OfulParams",
    "RidgeState",
    "RobustUcbParams",
    "SeesScale",
    "Setup",
    "SgdParams",
    "SupBmmParams",
    "SupBtcParams",
    "TofuParams",
    "UniformParams",
    "adar_ucb",
    "bystander",
    "crmm",
    "crt",
    "crtm",
    "default_optimizer",
    "design_of",
    "entry",
    "explore_then_commit",
    "gopt_elim",
    "gradient",
    "greedy",
    "heavy_oful",
    "hvt_ucb",
    "lints",
    "make_policy",
    "mean_of_medians",
    "menu",
    "mom",
    "names",
    "oful",
    "options",
    "projection",
    "register",
    "ridge_policy",
    "robust_ucb",
    "scaled_radius",
    "sup_bmm",
    "sup_btc",
    "tofu",
    "uniform",
]
