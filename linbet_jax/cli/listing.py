"""`linbet list`."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from typing import Any

from linbet_jax.statistics.tables import aligned_table

COMMON = {
    "horizon": "T, pulls; it enters levels and radii, and decides MENU's and MoM's epochs",
    "delta": "failure probability, in (0, 1); 0.1 by default",
    "ridge": "lambda of V = lambda I + sum x x^T, positive; 1 by default",
    "radius_scale": "multiplies every confidence radius, at least 0; 1, the paper's, by default",
}
OPTIONS = {
    "epsilon": "in (0, 1]: moments are of order 1 + epsilon; the bandit's by default",
    "raw_moment_bound": "b, bound of E|payoff|^(1 + epsilon); the bandit's by default",
    "central_moment_bound": "c, bound of E|payoff - mean|^(1 + epsilon); the bandit's by default",
    "theta_norm": "S, bound of ||theta*||; the bandit's by default",
    "arm_norm": "D, bound of ||x||; the bandit's by default",
    "mean_bound": "L, bound of |<x, theta*>|; the bandit's by default",
    "noise_scale": "R, the sub-Gaussian scale; the noise's standard deviation by default, 1 where that is infinite",
    "radius": "'valid', which the proofs give, or 'paper', as printed",
    "scaled": "whether the level is multiplied by b^(1/(1 + epsilon)); with radius='valid' alone",
    "level": "the truncation level b_t: 'proof' (of Theorem 3) or 'box' (Algorithm 2 as printed)",
    "two_sided": "whether a payoff is dropped where |u y| > b_t, as the proof needs, or where u y > b_t alone",
    "method": "'pruned', exact in linear time, or 'full', the pass over the whole history",
    "root": "the root of V^-1: 'symmetric' (the paper) or 'cholesky'",
    "epochs": "M: the history is truncated anew M times only (Remark 3); at every pull by default",
    "no_cap": "whether the smallest ridge at which no arm's weight is capped stands in for `ridge`, where there is one",
    "clip_scale": "s, multiplies how far one payoff moves the estimate; the radius stays valid",
    "heteroscedastic": "whether the policy is shown the scale of each payoff, which the noise must reveal",
    "assume_symmetric": "whether to play where the noise is not known to be symmetric",
    "quantile": "R, P(|noise| > R) <= 1/4; by default (4 c)^(1/(1 + epsilon)), or the law's own without a mean",
    "estimator": "'catoni', 'btc' (truncation) or 'bmm' (medians of copies)",
    "leftover": "what is played after the last phase: 'greedy', the best estimate, or 'uniform', over the arms left",
    "constants": "'derived' (for this form) or 'paper2020' (of Xue, Wang, Wang, Zhang, valid for sqrt(ridge) S <= 1)",
    "base": "the policy that learns from means of medians",
    "blocks": "k', how many medians one mean is taken of",
    "loss": "'squared' or 'huber', whose residuals count no more than `threshold`",
    "explore": "'epsilon', now and then an arm drawn uniformly, or 'width', a bonus for the arm's width",
    "exploration": "the probability of a uniform arm, or what multiplies the widths",
    "learning_rate": "the step at pull t has the rate learning_rate / sqrt(t); 1/D^2 by default",
    "clip": "largest norm of a gradient; D (D S + c^(1/(1 + epsilon))) by default",
    "threshold": "Huber's, in payoffs; c^(1/(1 + epsilon)) by default",
    "capacity": "slots for doubtful payoffs; a replication that needs more is repeated with more",
}
LEGEND = """
  Central moment: c, a bound of E|payoff - mean|^(1+ε); raw moment: b, one of E|payoff|^(1+ε). Regret bound: in d and T,
  logarithms apart. Any sets: lists of arms, fixed or changing, and balls. Proved for: arms chosen from what was seen,
  or only arms chosen in advance. Time and memory of one replication: K arms, d dimensions, k or r pulls an epoch, C
  doubtful payoffs kept, t pulls so far.
  After a paper: its idea, with constants derived here. The others have their papers', as the proofs need them.

Options of make_policy beside horizon, delta, ridge and radius_scale (None: the bandit's own, or worked out;
linbet list --json says what each means):"""


def run(options: argparse.Namespace) -> int:
    """Prints what can be named: policies with what is proved of them and their options, noise laws, data sets."""
    found = listed()
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False, default=str))
        return 0
    table = ("source", "assumes", "sets", "regret", "valid", "time", "memory")
    header = ("policy", "source", "assumes", "sets", "regret bound", "proved for", "time a pull", "memory")
    rows = [[f"  {name}", *(about[field] or "–" for field in table)] for name, about in found["policies"].items()]
    print("Policies:")
    print(aligned_table(["  " + header[0], *header[1:]], rows, left=len(header)))
    print(LEGEND)
    for name, policy in found["policies"].items():
        known = ", ".join(f"{option}={about['default']!r}" for option, about in policy["options"].items())
        print(f"  {name} {known or 'none'}")
    print("\nNoise laws (linbet_jax.noise):")
    for name, law in found["laws"].items():
        fields = (f"{f}={about['default']!r}" if "default" in about else f for f, about in law["fields"].items())
        print(f"  {name}({', '.join(fields)})\n      {law['summary']}")
    print("\nData sets (linbet_jax.dataset):")
    for name, set_ in found["sets"].items():
        print(
            f"  {name}  K={set_['K']}, d={set_['d']}, {set_['noise']}, epsilon={set_['epsilon']:g}, "
            f"best mean {set_['best_mean']:g}, T={set_['horizon']} (the paper ran {' and '.join(set_['policies'])})"
        )
    print("\nInstances that separate (linbet_jax.dataset, sets of a sweep):")
    for name, dials in found["instances"].items():
        print(f"  {name}  " + ", ".join(f"{dial}={value:g}" for dial, value in dials.items()))
    return 0


def listed() -> dict[str, Any]:
    """Everything that can be named, with what each option says."""
    from linbet_jax import noise, policies
    from linbet_jax.bandits.datasets import DATASETS, SEPARATING, DatasetSpec

    def policy(name: str) -> dict[str, Any]:
        entry = policies.entry(name)
        options = policies.options(name).items()
        about = {option: {"default": default, "says": OPTIONS.get(option, "")} for option, default in options}
        said = {field: getattr(entry, field) for field in ("regret", "valid", "sets", "time", "memory")}
        return {"label": entry.label, "source": entry.source, "assumes": entry.assumption, **said, "options": about}

    def instance(spec: DatasetSpec) -> dict[str, Any]:
        said = {field: getattr(spec, field) for field in ("epsilon", "best_mean", "horizon")}
        sizes = {"K": spec.num_arms, "d": spec.dim, "noise": spec.noise.name}
        return {**sizes, **said, "policies": list(spec.policies)}

    laws = {name: getattr(noise, name) for name in noise.__all__}
    return {
        "policies": {name: policy(name) for name in policies.names()},
        "options of every policy": COMMON,
        "laws": {name: _law(law) for name, law in laws.items() if isinstance(law, type) and hasattr(law, "limits")},
        "instances": {name: dials._asdict() for name, dials in SEPARATING.items()},
        "sets": {name: instance(spec) for name, spec in DATASETS.items()},
    }


def _law(law: Any) -> dict[str, Any]:
    """A law's first line, and its fields with their defaults and what its docstrings say of them."""
    text = inspect.getdoc(law) or ""
    says = _described(text) | _described(inspect.getdoc(law.__init__) or "")
    fields: dict[str, dict[str, Any]] = {}
    for field, parameter in inspect.signature(law).parameters.items():
        default = {} if parameter.default is parameter.empty else {"default": parameter.default}
        fields[field] = {**default, "says": says.get(field, "")}
    return {"summary": text.splitlines()[0], "fields": fields}


def _described(text: str) -> dict[str, str]:
    """The entries `name: text` of a docstring's sections."""
    entries = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", text, re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in entries}
