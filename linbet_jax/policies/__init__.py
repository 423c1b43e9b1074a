"""Policies: one file per paper, and the registry that makes one from a name, a bandit and options."""

from linbet_jax.policies.bystander import BystanderParams, bystander
from linbet_jax.policies.designs import AnySets, Design, FixedSet, design_of
from linbet_jax.policies.medina_yang import CrtParams, MomParams, crt, mom
from linbet_jax.policies.menu import MenuParams, menu
from linbet_jax.policies.oful import OfulParams, oful
from linbet_jax.policies.reference import GreedyParams, UniformParams, greedy, uniform
from linbet_jax.policies.registry import BanditFacts, make_policy, names, options
from linbet_jax.policies.ridge import ridge_policy, scaled_radius
from linbet_jax.policies.tofu import TofuParams, tofu

__all__ = [
    "AnySets",
    "BanditFacts",
    "BystanderParams",
    "CrtParams",
    "Design",
    "FixedSet",
    "GreedyParams",
    "MenuParams",
    "MomParams",
    "OfulParams",
    "TofuParams",
    "UniformParams",
    "bystander",
    "crt",
    "design_of",
    "greedy",
    "make_policy",
    "menu",
    "mom",
    "names",
    "oful",
    "options",
    "ridge_policy",
    "scaled_radius",
    "tofu",
    "uniform",
]
