"""Plain NumPy float64 references of the policies, written from the pseudocode, to replay recorded runs.

Nothing here is shared with the library and nothing is clever: explicit inverses, an eigendecomposition for
the symmetric root, the whole history truncated again every round, `np.median` over the others. An oracle is
fed the arms and payoffs of a recorded run, says at every decision what the index of each arm was, and ends
with the estimate and radius the run must have ended with.

Letters as in Shao, Yu, King, Lyu (NeurIPS 2018): `d` dimension, `K` arms, `T` horizon, `p = 1 + epsilon`,
`a = (1 - epsilon) / (2 (1 + epsilon))`.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


# --- schedules ----------------------------------------------------------------------------------------------


def menu_schedule(horizon: int, delta: float) -> tuple[int, int]:
    """MENU's pulls per epoch `k = ceil(24 ln(eT/delta))` and epochs `N = floor(T/k)` (Algorithm 1, line 2).

    Raises:
        ValueError: below the smallest legal horizon, `T >= 256 + 24 ln(e/delta)` (Theorem 2).
    """
    smallest = math.ceil(256.0 + 24.0 * math.log(math.e / delta))
    if horizon < smallest:
        raise ValueError(f"MENU needs a horizon of at least {smallest}, got {horizon}")
    pulls = math.ceil(24.0 * math.log(math.e * horizon / delta))
    return pulls, horizon // pulls


def mom_schedule(horizon: int, delta: float, epsilon: float) -> tuple[int, int, int, int]:
    """MoM's epochs `m`, pulls per epoch `r`, blocks `q` and pulls per block `floor(r/q)`.

    Starts from `m = max(1, floor(T^(2 eps/(1 + 3 eps))))` and takes fewer, longer epochs until a block has a
    pull; `q = ceil(8 ln(2m/delta))` follows m.

    Raises:
        ValueError: if a single epoch is too short for one pull per block.
    """
    power = horizon ** (2.0 * epsilon / (1.0 + 3.0 * epsilon))
    nearest = round(power)
    # An exact integer power must not lose one epoch to rounding (32^0.4 = 4).
    epochs = nearest if abs(power - nearest) < 1e-9 * power else math.floor(power)
    for m in range(max(1, epochs), 0, -1):
        pulls = horizon // m
        blocks = math.ceil(8.0 * math.log(2.0 * m / delta))
        if pulls // blocks >= 1:
            return m, pulls, blocks, pulls // blocks
    raise ValueError(f"MoM needs a longer horizon than {horizon}")


def remark3_rounds(horizon: int, epochs: int) -> list[int]:
    """Rounds at which TOFU truncates its whole history again (Remark 3), geometric and strictly increasing.

    `t_j = min(max(ceil(T^(j/M)), t_{j-1} + 1), T - (M - j))`, j = 1..M, in exact integer arithmetic.
    """
    rounds = [0]
    for j in range(1, epochs + 1):
        low, high = 1, horizon  # the ceiling of T^(j/M) is the smallest integer n with n^M >= T^j
        while low < high:
            middle = (low + high) // 2
            if middle**epochs >= horizon**j:
                high = middle
            else:
                low = middle + 1
        rounds.append(min(max(low, rounds[-1] + 1), horizon - (epochs - j)))
    return rounds[1:]


# --- estimators ---------------------------------------------------------------------------------------------


def inverse_root(gram: Array, kind: str = "symmetric") -> Array:
    """A matrix `W [d, d]` with `W V W^T = I`: `V^(-1/2)`, or `G^(-1)` with `V = G G^T` ("cholesky")."""
    if kind == "symmetric":
        values, vectors = np.linalg.eigh(gram)
        return vectors @ np.diag(values**-0.5) @ vectors.T
    if kind == "cholesky":
        return np.linalg.inv(np.linalg.cholesky(gram))
    raise ValueError(f"unknown root {kind!r}")


def medians_to_others(estimates: Array, gram: Array) -> Array:
    """`r_j [k]`, the median over s != j of `||theta_j - theta_s||` in the gram norm (Algorithm 1, line 8)."""
    count = len(estimates)
    medians = np.empty(count)
    for j in range(count):
        differences = np.delete(estimates, j, axis=0) - estimates[j]
        distances = np.sqrt(np.einsum("si,ij,sj->s", differences, gram, differences))
        medians[j] = np.median(distances)
    return medians


def median_of_means(payoffs: ArrayLike, blocks: int) -> float:
    """The median of `blocks` means of `floor(r/blocks)` consecutive payoffs; the remainder is left out."""
    values = np.asarray(payoffs, dtype=np.float64)
    size = len(values) // blocks
    return float(np.median([np.mean(values[i * size : (i + 1) * size]) for i in range(blocks)]))


# --- oracles ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Constants:
    """What a policy is told; the horizon is in pulls, `radius_scale` multiplies every radius."""

    horizon: int
    theta_norm: float
    epsilon: float = 1.0
    delta: float = 0.1
    ridge: float = 1.0
    radius_scale: float = 1.0
    raw_moment_bound: float = math.nan
    central_moment_bound: float = math.nan
    noise_scale: float = math.nan

    @property
    def power(self) -> float:
        """The order of the moments, `p = 1 + epsilon`."""
        return 1.0 + self.epsilon

    @property
    def growth(self) -> float:
        """The exponent `a = (1 - epsilon)/(2(1 + epsilon))` of t or n in levels and radii."""
        return (1.0 - self.epsilon) / (2.0 * (1.0 + self.epsilon))

    @property
    def bias(self) -> float:
        """The ridge's part of every radius, `sqrt(lambda) S`; alone, it is the radius before any payoff."""
        return math.sqrt(self.ridge) * self.theta_norm


class Oracle(abc.ABC):
    """An optimistic policy over decision sets, as a slow and plain reference.

    Args:
        arms: the decision set `[K, d]`, or one set per pull `[T, K, d]` (round-by-round policies only).
        constants: what the policy is told.
    """

    def __init__(self, arms: ArrayLike, constants: Constants):
        self.arms = np.asarray(arms, dtype=np.float64)
        self.constants = constants
        self.dim = self.arms.shape[-1]
        self.reset()

    def reset(self) -> None:
        """Back to the state before the first pull: `V_0 = lambda I`, centre 0, radius `sqrt(lambda) S`."""
        self.features: list[Array] = []
        self.gram = self.constants.ridge * np.eye(self.dim)
        self.estimate = np.zeros(self.dim)
        self.radius = self.constants.radius_scale * self.constants.bias

    @property
    def count(self) -> int:
        """Features observed so far: rounds t, or epochs n."""
        return len(self.features)

    def segments(self) -> list[int]:
        """Pulls of each decision, in order; they sum to the horizon."""
        return [1] * self.constants.horizon

    def learns(self, segment: int) -> bool:
        """Whether the payoffs of this decision update the policy (leftover pulls do not)."""
        return True

    def decision_set(self, pull: int) -> Array:
        """The set `[K, d]` on offer at the 0-based pull."""
        return self.arms if self.arms.ndim == 2 else self.arms[pull]

    def indices(self, arms: Array) -> Array:
        """Optimistic indices `<x, centre> + beta ||x||_{V^-1}` of the rows of `arms`, `[K]`."""
        inverse = np.linalg.inv(self.gram)
        widths = np.sqrt(np.einsum("ki,ij,kj->k", arms, inverse, arms))
        return arms @ self.estimate + self.radius * widths

    def observe(self, feature: Array, payoffs: Array) -> None:
        """One decision's feature `[d]` and payoffs: `V <- V + x x^T`, then centre and radius."""
        self.features.append(feature)
        self.gram = self.gram + self.weight(feature) * np.outer(feature, feature)
        self.update(payoffs)
        self.radius = self.constants.radius_scale * self.beta(self.count)

    def weight(self, feature: Array) -> float:
        """What the feature about to be added counts in `gram`."""
        return 1.0

    @abc.abstractmethod
    def update(self, payoffs: Array) -> None:
        """Sets `estimate` from the payoffs of the decision just added to `features` and `gram`."""

    @abc.abstractmethod
    def beta(self, count: int) -> float:
        """The literal radius after `count >= 1` rounds or epochs, before `radius_scale`."""

    def half_log_det_ratio(self) -> float:
        """`ln(det(V)^(1/2) det(lambda I)^(-1/2))`."""
        return 0.5 * (float(np.linalg.slogdet(self.gram)[1]) - self.dim * math.log(self.constants.ridge))

    def replay(self, arms_played: ArrayLike, payoffs: ArrayLike) -> Iterator[tuple[Array, int]]:
        """Replays a recorded run; yields (indices [K], arm played) at each decision, before learning from it.

        Afterwards `estimate` and `radius` are those the run ended with.

        Raises:
            AssertionError: if the arm changes within one decision's pulls.
        """
        played = np.asarray(arms_played)
        received = np.asarray(payoffs, dtype=np.float64)
        self.reset()
        start = 0
        for segment, length in enumerate(self.segments()):
            stop = start + length
            arm = int(played[start])
            assert (played[start:stop] == arm).all(), f"pulls {start + 1}..{stop} are one decision, not one arm"
            offered = self.decision_set(start)
            yield self.indices(offered), arm
            if self.learns(segment):
                self.observe(offered[arm], received[start:stop])
            start = stop


class MenuOracle(Oracle):
    """MENU, Algorithm 1, central moment: keeps every payoff `y[n, j]`, fits k ridge estimates an epoch."""

    def __init__(self, arms: ArrayLike, constants: Constants):
        self.pulls, self.epochs = menu_schedule(constants.horizon, constants.delta)
        super().__init__(arms, constants)

    def reset(self) -> None:
        super().reset()
        self.payoffs: list[Array] = []

    def segments(self) -> list[int]:
        leftover = self.constants.horizon - self.pulls * self.epochs
        return [self.pulls] * self.epochs + ([leftover] if leftover else [])

    def learns(self, segment: int) -> bool:
        return segment < self.epochs

    def update(self, payoffs: Array) -> None:
        self.payoffs.append(payoffs)
        moments = np.stack(self.payoffs).T @ np.stack(self.features)  # [k, d]: row j is sum_i y[i, j] x_i
        estimates = moments @ np.linalg.inv(self.gram)
        self.medians = medians_to_others(estimates, self.gram)
        # Two estimates can be each other's median: an exact tie of r_j that rounding must not decide. The lowest wins.
        tied = self.medians <= np.min(self.medians) * (1.0 + 1e-12)
        self.estimate = estimates[np.argmax(tied)]

    def beta(self, count: int) -> float:
        c = self.constants
        scale = (9.0 * self.dim * c.central_moment_bound) ** (1.0 / c.power)
        return 3.0 * (scale * count**c.growth + c.bias)


class TofuOracle(Oracle):
    """TOFU: Algorithm 2 with the raw moment, the whole history truncated again at every round.

    Args:
        arms: the decision set or sets.
        constants: what the policy is told.
        level: "proof" (`(b/ln(2dT/delta))^(1/p) t^a`) or "box" (`(b/ln(2T/delta))^(1/epsilon) t^a`).
        two_sided: drop `|u y| > level`; one-sided, drop `u y > level`.
        root: "symmetric" or "cholesky".
        epochs: None, or Remark 3's number of whole truncations; in between each indicator stays as it was.
    """

    def __init__(
        self,
        arms: ArrayLike,
        constants: Constants,
        *,
        level: str = "proof",
        two_sided: bool = True,
        root: str = "symmetric",
        epochs: int | None = None,
    ):
        self.level_kind = level
        self.two_sided = two_sided
        self.root = root
        self.refresh_rounds = None if epochs is None else set(remark3_rounds(constants.horizon, epochs))
        super().__init__(arms, constants)

    def reset(self) -> None:
        super().reset()
        self.payoffs: list[float] = []
        self.kept = np.zeros((self.dim, 0), dtype=bool)

    def level(self, count: int) -> float:
        """The truncation level `b_t` of round t >= 1."""
        c = self.constants
        if self.level_kind == "proof":
            base = c.raw_moment_bound / math.log(2.0 * self.dim * c.horizon / c.delta)
            return base ** (1.0 / c.power) * count**c.growth
        if self.level_kind == "box":
            base = c.raw_moment_bound / math.log(2.0 * c.horizon / c.delta)
            return base ** (1.0 / c.epsilon) * count**c.growth
        raise ValueError(f"unknown level {self.level_kind!r}")

    def keeps(self, products: Array) -> NDArray[np.bool_]:
        """Which products `u y` pass the test of the current round."""
        tested = np.abs(products) if self.two_sided else products
        return tested <= self.level(self.count)

    def update(self, payoffs: Array) -> None:
        self.payoffs.append(float(payoffs[0]))
        whitener = inverse_root(self.gram, self.root)
        products = (whitener @ np.stack(self.features).T) * np.array(self.payoffs)  # [d, t]: u[i, tau] y[tau]
        if self.refresh_rounds is None or self.count in self.refresh_rounds:
            self.kept = self.keeps(products)
        else:
            self.kept = np.concatenate([self.kept, self.keeps(products[:, -1:])], axis=1)
        self.estimate = whitener.T @ np.sum(products * self.kept, axis=1)

    def beta(self, count: int) -> float:
        c = self.constants
        log = math.log(2.0 * self.dim * c.horizon / c.delta)
        scale = 4.0 * math.sqrt(self.dim) * c.raw_moment_bound ** (1.0 / c.power)
        return scale * log ** (c.epsilon / c.power) * count**c.growth + c.bias


class MomOracle(Oracle):
    """MoM of Medina and Yang (2016), central moment: one ridge estimate from medians of block means.

    Args:
        arms: the decision set.
        constants: what the policy is told.
        radius: "valid" or "paper".
    """

    def __init__(self, arms: ArrayLike, constants: Constants, *, radius: str = "valid"):
        schedule = mom_schedule(constants.horizon, constants.delta, constants.epsilon)
        self.epochs, self.pulls, self.blocks, self.block_size = schedule
        self.radius_kind = radius
        super().__init__(arms, constants)

    def reset(self) -> None:
        super().reset()
        self.payoffs: list[float] = []

    def segments(self) -> list[int]:
        leftover = self.constants.horizon - self.pulls * self.epochs
        return [self.pulls] * self.epochs + ([leftover] if leftover else [])

    def learns(self, segment: int) -> bool:
        return segment < self.epochs

    def update(self, payoffs: Array) -> None:
        self.payoffs.append(median_of_means(payoffs, self.blocks))
        self.estimate = np.linalg.inv(self.gram) @ (np.stack(self.features).T @ np.array(self.payoffs))

    def beta(self, count: int) -> float:
        c = self.constants
        scale = (12.0 * c.central_moment_bound) ** (1.0 / c.power)
        if self.radius_kind == "valid":
            return scale * self.block_size ** (-c.epsilon / c.power) * math.sqrt(count) + c.bias
        if self.radius_kind == "paper":
            shrink = (8.0 * math.log(2.0 * self.epochs / c.delta) / self.pulls) ** (c.epsilon / c.power)
            deviation = math.sqrt(2.0 * (math.log(self.epochs / c.delta) + self.half_log_det_ratio()))
            return scale * shrink * (deviation + math.sqrt(count)) + c.bias
        raise ValueError(f"unknown radius {self.radius_kind!r}")


class CrtOracle(Oracle):
    """CRT of Medina and Yang (2016), raw moment: each payoff is truncated once, at its own round.

    Args:
        arms: the decision set or sets.
        constants: what the policy is told.
        radius: "valid" or "paper".
        scaled: with the moment in the level, so that the payoffs' unit does not matter ("valid" only).
    """

    def __init__(self, arms: ArrayLike, constants: Constants, *, radius: str = "valid", scaled: bool = False):
        self.radius_kind = radius
        self.scaled = scaled
        super().__init__(arms, constants)

    def reset(self) -> None:
        super().reset()
        self.moments = np.zeros(self.dim)

    def level(self, count: int) -> float:
        """The truncation level `alpha_t` of round t >= 1."""
        c = self.constants
        unit = c.raw_moment_bound ** (1.0 / c.power) if self.scaled else 1.0
        return unit * count ** (1.0 / (2.0 * c.power))

    def update(self, payoffs: Array) -> None:
        payoff = float(payoffs[0])
        kept = payoff if abs(payoff) <= self.level(self.count) else 0.0
        self.moments = self.moments + kept * self.features[-1]
        self.estimate = np.linalg.inv(self.gram) @ self.moments

    def beta(self, count: int) -> float:
        c = self.constants
        t = float(count)
        if self.radius_kind == "paper":
            inner = self.half_log_det_ratio() + math.log(1.0 / c.delta)
            inner += c.raw_moment_bound**2 * math.log(c.horizon)
            return 2.0 * math.sqrt(2.0 * t ** (1.0 / c.power) * inner) + c.bias
        deviation = math.sqrt(2.0 * (self.half_log_det_ratio() + math.log(t * (t + 1.0) / c.delta)))
        if self.scaled:
            return self.level(count) * (deviation + math.sqrt(c.power)) + c.bias
        drift = c.raw_moment_bound * math.sqrt(c.power) * t ** (1.0 / (2.0 * c.power))
        return self.level(count) * deviation + drift + c.bias


class OfulOracle(Oracle):
    """OFUL of Abbasi-Yadkori, Pal and Szepesvari (2011): the ridge estimate of the raw payoffs."""

    def reset(self) -> None:
        super().reset()
        self.moments = np.zeros(self.dim)

    def update(self, payoffs: Array) -> None:
        self.moments = self.moments + float(payoffs[0]) * self.features[-1]
        self.estimate = np.linalg.inv(self.gram) @ self.moments

    def beta(self, count: int) -> float:
        c = self.constants
        return c.noise_scale * math.sqrt(2.0 * (self.half_log_det_ratio() + math.log(1.0 / c.delta))) + c.bias


# --- checks -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Replay:
    """What a replay found: decisions, how many were near-ties not played its way, and the final region."""

    decisions: int
    ties: int
    estimate: Array
    radius: float


def assert_replays(
    oracle: Oracle,
    arms_played: ArrayLike,
    payoffs: ArrayLike,
    final_estimate: ArrayLike | None = None,
    *,
    rtol: float = 1e-9,
    estimate_tol: float = 1e-8,
) -> Replay:
    """Asserts that a recorded run is one the oracle could have played.

    Args:
        oracle: the reference, over the same decision sets and constants.
        arms_played: `[T]` int, the arm of every pull.
        payoffs: `[T]`, the payoff of every pull.
        final_estimate: `[d]`, the estimate the run ended with, or None to leave it unchecked.
        rtol: how far below the largest index the played arm's may be, relative to the largest magnitude.
        estimate_tol: tolerance on the final estimate, relative to its largest magnitude or 1.

    Returns:
        What the replay found.

    Raises:
        AssertionError: naming the first decision, or the estimate, that disagrees.
    """
    played = np.asarray(arms_played)
    received = np.asarray(payoffs, dtype=np.float64)
    horizon = oracle.constants.horizon
    assert played.shape == received.shape == (horizon,), f"{played.shape}, {received.shape} for a horizon of {horizon}"
    assert np.issubdtype(played.dtype, np.integer), f"arms are {played.dtype}"
    assert np.isfinite(received).all(), "a payoff is not finite"
    lengths = oracle.segments()
    assert sum(lengths) == horizon
    pull = decisions = ties = 0
    for indices, arm in oracle.replay(played, received):
        assert 0 <= arm < len(indices), f"arm {arm} of {len(indices)} at pull {pull + 1}"
        best = int(np.argmax(indices))
        slack = rtol * float(np.max(np.abs(indices)))
        assert indices[arm] >= indices[best] - slack, (
            f"pull {pull + 1}: arm {arm} has index {indices[arm]:.17g}, arm {best} has {indices[best]:.17g}"
            f" (radius {oracle.radius:.6g}, decision {decisions + 1} of {len(lengths)})"
        )
        ties += arm != best
        pull += lengths[decisions]
        decisions += 1
    assert decisions == len(lengths)
    assert pull == horizon
    if final_estimate is not None:
        final = np.asarray(final_estimate, dtype=np.float64)
        assert final.shape == oracle.estimate.shape
        scale = max(1.0, float(np.max(np.abs(oracle.estimate))))
        error = float(np.max(np.abs(final - oracle.estimate)))
        assert error <= estimate_tol * scale, f"final estimate is off by {error:.3g}: {final} against {oracle.estimate}"
    return Replay(decisions, ties, oracle.estimate.copy(), oracle.radius)


def self_play(oracle: Oracle, payoff: Callable[[Array, int], float]) -> tuple[NDArray[np.int64], Array, Array]:
    """Lets the oracle play for itself, ties to the lowest arm.

    Args:
        oracle: the policy.
        payoff: `payoff(feature [d], pull)` of the 0-based pull.

    Returns:
        Arms played `[T]`, payoffs `[T]`, final estimate `[d]`.
    """
    oracle.reset()
    played: list[int] = []
    received: list[float] = []
    for segment, length in enumerate(oracle.segments()):
        offered = oracle.decision_set(len(played))
        arm = int(np.argmax(oracle.indices(offered)))
        new = [payoff(offered[arm], len(played) + i) for i in range(length)]
        played += [arm] * length
        received += new
        if oracle.learns(segment):
            oracle.observe(offered[arm], np.array(new))
    return np.array(played), np.array(received), oracle.estimate.copy()
