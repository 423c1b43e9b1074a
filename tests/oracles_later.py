"""Plain NumPy float64 references of hvt_ucb, crtm and crmm, written from their pseudocode, to replay recorded runs.

As in `oracles`: nothing is shared with the library and nothing is clever. Letters: `p = 1 + epsilon`,
`a = (2 - p)/(2p)`, `l = ln(2/delta)`, `D` the longest arm, `k = d ln(1 + T D^2/(d lambda))`.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike
from oracles import Array, Constants, Oracle
from scipy import stats


@dataclasses.dataclass(frozen=True)
class LaterConstants(Constants):
    """What these policies are told beside the rest: D, and R for crmm."""

    arm_norm: float = math.nan
    quantile: float = math.nan

    @property
    def log(self) -> float:
        """`l = ln(2/delta)`."""
        return math.log(2.0 / self.delta)


def potential(dim: int, constants: LaterConstants, ridge: float) -> float:
    """`k = d ln(1 + T D^2/(d lambda))`."""
    return dim * math.log(1.0 + constants.horizon * constants.arm_norm**2 / (dim * ridge))


class HvtOracle(Oracle):
    """One-pass Huber regression: theta and V^-1 move by rank one, payoffs are clipped against the estimate.

    Args:
        arms: the decision set or sets.
        constants: what the policy is told.
        no_cap: take the smallest ridge at which no arm is wider than the cap, where there is one.
        clip_scale: s, multiplies t0.
    """

    def __init__(self, arms: ArrayLike, constants: LaterConstants, *, no_cap: bool = True, clip_scale: float = 1.0):
        self.told = c = constants
        self.scale = s = clip_scale
        p, dim = c.power, np.asarray(arms).shape[-1]
        kappa = (p - 1.0) ** (p - 1.0) / p**p
        rho = s**-p
        A = 4.0 / 3.0 + math.sqrt(16.0 / 9.0 + 8.0 * 1.5 ** (2.0 - p) * rho) + 2.0 * kappa * 2.0 ** (p - 1.0) * rho
        C = A
        for _ in range(50):
            w2 = 1.0 / (2.0 * C * c.log)
            g = w2  # v/(1 - v) with v = w2/(1 + w2)
            B = A * math.sqrt(1.0 + w2)
            C = B / 2.0 + math.sqrt(B**2 / 4.0 + (1.0 + g) * ((math.e - 1.0) * rho + 1.0) / c.log)
        self.C = C
        self.ridge = c.ridge
        nu = c.central_moment_bound ** (1.0 / p)
        fits = 2.0 * c.arm_norm * c.theta_norm * c.log ** (1.0 / p) < s * nu * c.horizon ** (1.0 / p)
        if no_cap and fits:
            ridge = 2.0 * c.arm_norm**2 * C * c.log
            for _ in range(1000):
                self.constants_of(dim, ridge)
                last, ridge = ridge, 2.0 * c.arm_norm**2 * self.literal / self.t0
                if abs(ridge - last) <= 1e-12 * ridge:
                    self.ridge = ridge
                    break
        self.constants_of(dim, self.ridge)
        super().__init__(arms, constants)

    def constants_of(self, dim: int, ridge: float) -> None:
        """t0, beta and the cap at a ridge."""
        c = self.told
        nu = c.central_moment_bound ** (1.0 / c.power)
        unit = self.scale * nu * math.sqrt(potential(dim, c, ridge))
        self.t0 = unit * c.horizon**c.growth * c.log ** (-1.0 / c.power)
        self.literal = math.sqrt(ridge) * c.theta_norm + self.C * self.t0 * c.log
        self.cap = self.t0 / (2.0 * self.literal)

    def reset(self) -> None:
        super().reset()
        self.gram = self.ridge * np.eye(self.dim)
        self.inverse = np.eye(self.dim) / self.ridge
        self.radius = self.constants.radius_scale * self.literal

    def weight(self, feature: Array) -> float:
        self.q = float(feature @ self.inverse @ feature)
        self.om = min(1.0, self.cap / self.q) if self.q else 1.0
        return self.om

    def update(self, payoffs: Array) -> None:
        feature, om = self.features[-1], self.om
        if self.q == 0.0:
            return
        w2 = om * self.q
        h = self.t0 * math.sqrt((1.0 + w2) / w2) / math.sqrt(om)
        g = self.inverse @ feature
        innovation = float(np.clip(payoffs[0] - feature @ self.estimate, -h, h))
        self.inverse = self.inverse - om * np.outer(g, g) / (1.0 + w2)
        self.estimate = self.estimate + om * innovation / (1.0 + w2) * g

    def beta(self, count: int) -> float:
        return self.literal


class ScaledHvtOracle(HvtOracle):
    """Its heteroscedastic mode, in the papers' units: V and lambda in 1/payoffs^2, sigma in payoffs.

    `nu_t = scale_t c^(1/p)`, `sigma^2 = max(nu_t^2, sigma_min^2, 2 beta ||x||^2/t0)`,
    `V = lambda I + sum x x^T/sigma^2`, `k = d ln(1 + T D^2/(d lambda sigma_min^2))`, `t0 = sqrt(k) T^a l^(-1/p)`.

    Args:
        arms: the decision set or sets.
        constants: what the policy is told; c is that of the noise over its scale, `ridge` is lambda.
        scales: of every pull, [T].
        sigma_min: the smallest sigma.
    """

    def __init__(self, arms: ArrayLike, constants: LaterConstants, *, scales: ArrayLike, sigma_min: float):
        self.scales, self.sigma_min = np.asarray(scales, np.float64), sigma_min
        super().__init__(arms, constants, no_cap=False)

    def constants_of(self, dim: int, ridge: float) -> None:
        c = self.told
        growth = dim * math.log(1.0 + c.horizon * c.arm_norm**2 / (dim * ridge * self.sigma_min**2))
        self.t0 = math.sqrt(growth) * c.horizon**c.growth * c.log ** (-1.0 / c.power)
        self.literal = math.sqrt(ridge) * c.theta_norm + self.C * self.t0 * c.log

    def weight(self, feature: Array) -> float:
        self.q = float(feature @ self.inverse @ feature)
        nu = float(self.scales[self.count - 1]) * self.told.central_moment_bound ** (1.0 / self.told.power)
        self.variance = max(nu**2, self.sigma_min**2, 2.0 * self.literal * self.q / self.t0)
        return 1.0 / self.variance

    def update(self, payoffs: Array) -> None:
        feature = self.features[-1]
        w2 = self.q / self.variance
        h = math.sqrt(self.variance) * self.t0 * math.sqrt((1.0 + w2) / w2)
        g = self.inverse @ feature
        innovation = float(np.clip(payoffs[0] - feature @ self.estimate, -h, h))
        self.inverse = self.inverse - np.outer(g, g) / (self.variance * (1.0 + w2))
        self.estimate = self.estimate + innovation / (self.variance * (1.0 + w2)) * g


class CrtmOracle(Oracle):
    """One-pass truncation: a payoff is kept where `|y| ||x||` in the norm of V^-1, x in V, is at most G."""

    def reset(self) -> None:
        super().reset()
        self.moments = np.zeros(self.dim)
        self.radius = self.constants.radius_scale * self.beta(0)

    @property
    def level(self) -> float:
        """`G = (b/l)^(1/p) T^a sqrt(k)`."""
        c = self.constants
        assert isinstance(c, LaterConstants)
        unit = (c.raw_moment_bound / c.log) ** (1.0 / c.power)
        return unit * c.horizon**c.growth * math.sqrt(potential(self.dim, c, c.ridge))

    def update(self, payoffs: Array) -> None:
        feature = self.features[-1]
        inverse = np.linalg.inv(self.gram)
        if abs(payoffs[0]) * math.sqrt(feature @ inverse @ feature) <= self.level:
            self.moments = self.moments + feature * float(payoffs[0])
        self.estimate = inverse @ self.moments

    def beta(self, count: int) -> float:
        c = self.constants
        assert isinstance(c, LaterConstants)
        A = 4.0 / 3.0 + math.sqrt(16.0 / 9.0 + 8.0)
        C = A / 2.0 + math.sqrt(A**2 / 4.0 + (math.e + 3.0) / c.log)
        return c.bias + (C + 1.0 / math.sqrt(potential(self.dim, c, c.ridge))) * self.level * c.log


def crmm_pulls(horizon: int, delta: float) -> int:
    """The smallest odd r with `2 P(Bin(r, 1/8) >= (r + 1)/2) <= delta/(2N)`, `N = floor(T/r)`."""
    for r in range(1, horizon + 1, 2):
        if 2.0 * stats.binom.sf((r - 1) // 2, r, 0.125) <= delta / (2.0 * (horizon // r)):
            return r
    raise ValueError(f"crmm needs a longer horizon than {horizon}")


class CrmmOracle(Oracle):
    """Medians of r pulls in OFUL's estimate, with the scale R at delta/2."""

    def __init__(self, arms: ArrayLike, constants: LaterConstants):
        self.pulls = crmm_pulls(constants.horizon, constants.delta)
        super().__init__(arms, constants)

    def reset(self) -> None:
        super().reset()
        self.moments = np.zeros(self.dim)
        self.radius = self.constants.radius_scale * self.beta(0)

    def segments(self) -> list[int]:
        epochs, leftover = divmod(self.constants.horizon, self.pulls)
        return [self.pulls] * epochs + ([leftover] if leftover else [])

    def learns(self, segment: int) -> bool:
        return segment < self.constants.horizon // self.pulls

    def update(self, payoffs: Array) -> None:
        self.moments = self.moments + self.features[-1] * float(np.median(payoffs))
        self.estimate = np.linalg.inv(self.gram) @ self.moments

    def beta(self, count: int) -> float:
        c = self.constants
        assert isinstance(c, LaterConstants)
        return c.quantile * math.sqrt(2.0 * (self.half_log_det_ratio() + c.log)) + c.bias


class HeavyOfulOracle(Oracle):
    """Huber regression over the whole history, solved anew at every pull by reweighted ridge regression.

    With the scales of all pulls, [T], no weight is above 1/scale^2, and c is that of the noise over its scale.
    """

    def __init__(self, arms: ArrayLike, constants: LaterConstants, scales: ArrayLike | None = None):
        self.scales = None if scales is None else np.asarray(scales, np.float64)
        p, log = constants.power, math.log(3.0 / constants.delta)
        kappa = (p - 1.0) ** (p - 1.0) / p**p
        A = 4.0 / 3.0 + math.sqrt(16.0 / 9.0 + 8.0) + 2.0 * kappa
        C = A / 2.0 + math.sqrt(A**2 / 4.0 + math.e / log) + ((math.e - 1.0) * 2.0**p + 1.0) / 2.0
        nu = constants.central_moment_bound ** (1.0 / p)
        growth = math.sqrt(potential(np.asarray(arms).shape[-1], constants, constants.ridge))
        self.t0 = nu * growth * constants.horizon**constants.growth * log ** (-1.0 / p)
        self.literal = constants.bias + C * self.t0 * log
        self.cap = self.t0 / (2.0 * self.literal)
        super().__init__(arms, constants)

    def reset(self) -> None:
        super().reset()
        self.radius = self.constants.radius_scale * self.literal
        self.rows: list[tuple[Array, float, float, float]] = []  # x, y, weight, h
        self.clipped = 0

    def weight(self, feature: Array) -> float:
        self.q = float(feature @ np.linalg.inv(self.gram) @ feature)
        scale = max(1.0, float(self.scales[self.count - 1])) if self.scales is not None else 1.0
        self.om = min(1.0 / scale**2, self.cap / self.q)
        return self.om

    def update(self, payoffs: Array) -> None:
        om, q = self.om, self.q
        h = self.t0 * math.sqrt((1.0 + om * q) / (om * q)) / math.sqrt(om)
        self.rows.append((self.features[-1], float(payoffs[0]), om, h))
        x, y, weights, levels = (np.array(column) for column in zip(*self.rows, strict=True))
        for _ in range(20_000):
            residuals = y - x @ self.estimate
            score = x.T @ (weights * np.clip(residuals, -levels, levels))
            gradient = self.constants.ridge * self.estimate - score
            if np.max(np.abs(gradient)) < 1e-10:
                break
            each = weights * np.minimum(1.0, levels / np.maximum(np.abs(residuals), 1e-300))
            gram = (x * each[:, None]).T @ x + self.constants.ridge * np.eye(self.dim)
            self.estimate = np.linalg.solve(gram, x.T @ (each * y))
        else:
            raise AssertionError("no minimiser was found")
        self.clipped = int(np.sum(np.abs(residuals) > levels))

    def beta(self, count: int) -> float:
        return self.literal
