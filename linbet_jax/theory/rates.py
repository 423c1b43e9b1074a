"""The exponents of T in regret bounds."""

from __future__ import annotations

from linbet_jax.theory.common import Number

_OF_2018 = ("menu", "tofu", "mom", "crt", "oful")
_LATER = (
    *("hvt_ucb", "crtm", "crmm", "heavy_oful", "gopt_elim", "sup_bmm", "sup_btc", "robust_ucb"),
    *("adar_ucb", "lints", "explore_then_commit", "mean_of_medians"),
)
BOUNDED = _OF_2018 + _LATER  # with a regret bound


def regret_exponent(policy: str, epsilon: Number) -> Number:
    """The exponent of T in a policy's regret bound, logarithms apart (the paper's comparison of the four algorithms).

    1/(1+eps) for MENU, TOFU, hvt_ucb, crtm, heavy_oful, G-optimal elimination, robust_ucb, adar_ucb, sup_bmm, sup_btc
    and the lower bound; (1+2 eps)/(1+3 eps) for MoM; 1/2 + 1/(2(1+eps)) for CRT; 1/2 for OFUL and LinTS, whose noise
    must be sub-Gaussian, and for crmm and mean_of_medians (of OFUL), whose noise must be symmetric;
    1 - 2 eps/(3(1+eps)) for explore-then-commit, which knows neither eps nor c.

    Raises:
        ValueError: a policy that has no bound.
    """
    fastest = ("menu", "tofu", "hvt_ucb", "crtm", "heavy_oful", "gopt_elim", "robust_ucb", "adar_ucb", "sup_bmm")
    if policy in (*fastest, "sup_btc", "lower-bound"):
        return 1 / (1 + epsilon)
    if policy == "mom":
        return (1 + 2 * epsilon) / (1 + 3 * epsilon)
    if policy == "crt":
        return 1 / 2 + 1 / (2 * (1 + epsilon))
    if policy in ("oful", "lints", "crmm", "mean_of_medians"):
        return 1 / 2 + 0 * epsilon
    if policy == "explore_then_commit":
        return 1 - 2 * epsilon / (3 * (1 + epsilon))
    known = ", ".join(map(repr, BOUNDED))
    raise ValueError(f"policy={policy!r}: bounds are known of {known} and 'lower-bound'")
