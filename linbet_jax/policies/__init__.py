"""Policies: one file per paper, and the registry that makes one from a name, a bandit and options."""

from linbet_jax.policies.bystander import BystanderParams, bystander
from linbet_jax.policies.medina_yang import CrtParams, MomParams, crt, mom
from linbet_jax.policies.menu import MenuParams, menu
from linbet_jax.policies.oful import OfulParams, oful
from linbet_jax.policies.reference import GreedyParams, UniformParams, greedy, uniform
from linbet_jax.policies.registry import BanditFacts, make_policy, names, options
from linbet_jax.policies.tofu import TofuParams, tofu

__all__ = [
    "BanditFacts",
    "BystanderParams",
    "CrtParams",
    "GreedyParams",
    "MenuParams",
    "MomParams",
    "OfulParams",
    "TofuParams",
    "UniformParams",
    "bystander",
    "crt",
    "greedy",
    "make_policy",
    "menu",
    "mom",
    "names",
    "oful",
    "options",
    "tofu",
    "uniform",
]
