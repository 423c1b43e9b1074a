"""A linear bandit: decision sets, the unknown theta_star, and the payoff law, with the numbers that policies are told.

Payoffs are y_t = <x_t, theta_star> + eta_t with E|y_t|^p <= b (raw) and E|eta_t|^p <= c (central), p = 1 + epsilon
(paper, Definition 1). Everything here is host-side NumPy float64; the moments come from the law, never from samples.
Where a function draws the arms, a sample of its draws is held against what is declared of all of them.

References:
    Shao, Yu, King, Lyu. Almost optimal algorithms for linear stochastic bandits with heavy-tailed payoffs.
        NeurIPS 2018.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax.bandits import _checks
from linbet_jax.noise import PayoffLaw, reveals_scales
from linbet_jax.noise._base import without_mean
from linbet_jax.theory import OWN_NORM

__all__ = ["Generator", "LinearBandit", "Sampler"]

Sampler = Callable[[jax.Array, jax.Array], jax.Array]  # (key, pull t = 1..T) -> arms [K, d], traceable
Generator = Callable[[jax.Array], tuple[jax.Array, jax.Array]]  # key -> (arms [K, d], theta_star [d]), traceable

_DRAWN_ROUNDING = 1e-5  # the same for a value in float32, as while a simulation runs
_DRAWS = 16  # of a sampler or generator that are checked, fewer where they would have more entries in all than
_ENTRIES = 2**24
_PULLS = 4  # of one key that are checked


@dataclasses.dataclass(frozen=True, init=False, eq=False, kw_only=True)
class LinearBandit:
    """A linear bandit problem: fixed arms, changing decision sets, a fresh instance in every replication, or a ball.

    Build fixed arms with the constructor, the others with `changing_sets`, `from_contexts`, `resampled` and `ball`.
    Instances are immutable, compare and hash by value (functions by identity).

    Attributes:
        arms: [K, d] read-only float64, or None (changing sets, fresh instances, a ball).
        theta_star: [d] read-only float64, or None (fresh instances, or one that moves). No policy ever sees it.
        noise: the law of a payoff given its mean.
        epsilon: the paper's epsilon in (0, 1]; moments are of order 1 + epsilon. 0 where the law has no mean: `means`
            are then the payoffs' centres, and both moment bounds are math.inf.
        raw_moment_bound: b >= E|y|^(1+epsilon), over all arms.
        central_moment_bound: c >= E|y - mean|^(1+epsilon), over all arms.
        theta_norm: S >= ||theta_star||_2; `theory.OWN_NORM` means each replication's own (fresh instances).
        arm_norm: D >= ||x||_2; math.inf where nothing was said (fresh instances).
        mean_bound: L >= |<x, theta_star>|.
        noise_std: the largest standard deviation of a payoff over all arms, math.inf where infinite or not known.
        name: a label for tables and files.
        means: [K] read-only float64 expected payoffs of the arms, or None.
        num_arms: K; 0 for a ball, whose arms are no list.
        dim: d.
        best_mean: the best arm's mean; None with changing sets or a theta_star that moves, and with fresh instances
            unless given.
        sampler: with changing sets, (key, t) -> arms [K, d]; the same key at every pull of a replication.
        generator: with fresh instances, key -> (arms [K, d], theta_star [d]).
        path: with a theta_star that moves (`linbet_jax.drifting`), (key, t) -> theta_star [d]; the same key at every
            pull of a replication.
        norm_ball: with a ball ||x||_q <= R, the pair (R, q).
    """

    arms: npt.NDArray[np.float64] | None = dataclasses.field(default=None, repr=False)
    theta_star: npt.NDArray[np.float64] | None = dataclasses.field(default=None, repr=False)
    noise: PayoffLaw
    epsilon: float
    raw_moment_bound: float
    central_moment_bound: float
    theta_norm: float
    arm_norm: float
    mean_bound: float
    noise_std: float
    name: str
    means: npt.NDArray[np.float64] | None = dataclasses.field(default=None, repr=False)
    num_arms: int
    dim: int
    best_mean: float | None = None
    sampler: Sampler | None = dataclasses.field(default=None, repr=False)
    generator: Generator | None = dataclasses.field(default=None, repr=False)
    path: Sampler | None = dataclasses.field(default=None, repr=False)
    norm_ball: tuple[float, float] | None = None

    def __init__(
        self,
        arms: npt.ArrayLike,
        theta_star: npt.ArrayLike,
        noise: PayoffLaw,
        *,
        epsilon: float | None = None,
        raw_moment_bound: float | None = None,
        central_moment_bound: float | None = None,
        theta_norm: float | None = None,
        arm_norm: float | None = None,
        mean_bound: float | None = None,
        name: str = "custom",
    ) -> None:
        """Builds a bandit with a fixed decision set; whatever is not given is computed from the instance.

        Args:
            arms: [K, d] the feature vectors, finite, K >= 1, d >= 1.
            theta_star: [d] the unknown parameter, finite.
            noise: the payoff law; every arm's mean must be in its `mean_range`. One of your own needs the members of
                `linbet_jax.noise.PayoffLaw`; a moment only where its bound is not given here.
            epsilon: in (0, 1] with 1 + epsilon below the law's `max_order`; 1.0 by default, and to be given where the
                law has no variance. A law without a mean has none, and no moment bounds.
            raw_moment_bound: b, by default the largest E|y|^(1+epsilon) among the arms.
            central_moment_bound: c, by default the largest E|y - mean|^(1+epsilon) among the arms.
            theta_norm: S, by default ||theta_star||_2.
            arm_norm: D, by default the largest ||x||_2.
            mean_bound: L, by default the largest |mean|.
            name: a label for tables and files.

        Raises:
            ValueError: naming the field, its value and the allowed range; also for a bound below what it bounds.
        """
        matrix = _checks.array("arms", arms, 2)
        theta = _checks.theta(theta_star, matrix.shape[1])
        law = _checks.law(noise, raw_moment_bound, central_moment_bound, fixed=True)
        with np.errstate(over="ignore", invalid="ignore"):
            means = matrix @ theta
        _checks.check_means(law, means)
        means.setflags(write=False)
        epsilon = _checks.epsilon(epsilon, law)
        order = 1.0 + epsilon
        self._fill(
            arms=matrix,
            theta_star=theta,
            noise=law,
            epsilon=epsilon,
            raw_moment_bound=_checks.bound(
                "raw_moment_bound", raw_moment_bound, _checks.largest(law, "raw_moment", order, means)
            ),
            central_moment_bound=_checks.bound(
                "central_moment_bound", central_moment_bound, _checks.largest(law, "central_moment", order, means)
            ),
            theta_norm=_checks.bound("theta_norm", theta_norm, np.linalg.norm(theta)),
            arm_norm=_checks.bound("arm_norm", arm_norm, np.max(np.linalg.norm(matrix, axis=1))),
            mean_bound=_checks.bound("mean_bound", mean_bound, np.max(np.abs(means))),
            noise_std=_checks.largest(law, "std", means) if _checks.has(law, "std") else math.inf,
            name=_checks.name(name),
            means=means,
            num_arms=matrix.shape[0],
            dim=matrix.shape[1],
            best_mean=float(np.max(means)),
        )

    @classmethod
    def changing_sets(
        cls,
        sampler: Sampler,
        theta_star: npt.ArrayLike,
        noise: PayoffLaw,
        *,
        arm_norm: float,
        epsilon: float | None = None,
        raw_moment_bound: float | None = None,
        central_moment_bound: float | None = None,
        theta_norm: float | None = None,
        mean_bound: float | None = None,
        name: str = "changing sets",
    ) -> Self:
        """Builds a bandit whose decision set is drawn anew at every pull.

        `sampler(key, t) -> arms [K, d]` is pure and traceable. The key is the replication's, the same at every pull:
        fold t (a traced int32, 1..T) into it, or use t alone for a fixed schedule of sets. `arm_norm`, D, is at least
        ||x||_2 for every arm that it can return, and the law allows every arm's mean. `mean_bound`, L, is by default
        arm_norm * ||theta_star||_2; give the exact one where it is smaller. b and c are by default the largest moments
        over all allowed means in [-L, L]. The other arguments are as for fixed arms (`LinearBandit`).

        Raises:
            ValueError: naming the field, its value and the allowed range, or what is wrong with the sampler's result;
                also when a bound does not hold in a sample of up to 16 sets, of the pulls 1 to 4.
        """
        theta = _checks.theta(theta_star, None)
        law = _checks.law(noise, raw_moment_bound, central_moment_bound, fixed=False)
        epsilon = _checks.epsilon(epsilon, law)
        order = 1.0 + epsilon
        result = _checks.traced("sampler", sampler, jax.eval_shape(lambda: jnp.zeros((), jnp.int32)))
        shape: tuple[int, ...] = getattr(result, "shape", ())
        if not _checks.real(result, (*shape[:1], theta.size)) or shape[0] < 1:
            allowed = f"arms of shape [K, d], real numbers with K >= 1 and d = {theta.size}"
            raise ValueError(f"sampler must return {allowed}, got {result!r}")
        diameter = _checks.nonnegative("arm_norm", arm_norm)
        norm = float(np.linalg.norm(theta))
        largest = diameter * norm if mean_bound is None else _checks.nonnegative("mean_bound", mean_bound)
        raw, central, std = _checks.moments(law, order, -largest, largest)
        bandit = cls._make(
            theta_star=theta,
            noise=law,
            epsilon=epsilon,
            raw_moment_bound=_checks.bound("raw_moment_bound", raw_moment_bound, raw, declared=True),
            central_moment_bound=_checks.bound("central_moment_bound", central_moment_bound, central, declared=True),
            theta_norm=_checks.bound("theta_norm", theta_norm, norm),
            arm_norm=diameter,
            mean_bound=largest,
            noise_std=std,
            name=_checks.name(name),
            num_arms=shape[0],
            dim=shape[1],
            sampler=sampler,
        )

        def draw(number: int) -> tuple[Any, Any]:
            key = jax.random.fold_in(jax.random.key(0), number // _PULLS)
            return _checks.evaluated(sampler, key, jnp.int32(1 + number % _PULLS)), theta

        if not isinstance(sampler, _Contexts):  # logged sets were checked whole
            bandit._check_draws("sampler", draw)
        return bandit

    @classmethod
    def from_contexts(
        cls,
        contexts: npt.ArrayLike,
        theta_star: npt.ArrayLike,
        noise: PayoffLaw,
        *,
        epsilon: float | None = None,
        raw_moment_bound: float | None = None,
        central_moment_bound: float | None = None,
        theta_norm: float | None = None,
        arm_norm: float | None = None,
        name: str = "contexts",
    ) -> Self:
        """Builds a bandit that plays logged decision sets in their order: set t at pull t, and again from the first.

        MENU and MoM pull one arm for a whole epoch and meet the set of its first pull all that time, not the log's sets
        between: their regret is against those sets and does not compare with a policy's that meets every set.

        `contexts` [n, K, d] are the sets, finite; they are a constant of the compiled program. b and c are by default
        the largest moments over all means from the least to the largest. The other arguments are as for fixed arms
        (`LinearBandit`).

        Raises:
            ValueError: naming the field, its value and the allowed range.
        """
        sets = _checks.array("contexts", contexts, 3)
        theta = _checks.theta(theta_star, sets.shape[2])
        law = _checks.law(noise, raw_moment_bound, central_moment_bound, fixed=False)
        with np.errstate(over="ignore", invalid="ignore"):
            means = sets @ theta
        _checks.check_means(law, means.ravel())
        ends = np.array([np.min(means), np.max(means)])  # means that are met, so that a bound must hold there
        order = 1.0 + _checks.epsilon(epsilon, law)
        raw, central, std = _checks.moment_bounds(law, order, ends, raw_moment_bound, central_moment_bound)
        bandit = cls.changing_sets(
            _Contexts((sets + 0.0).tobytes(), sets.shape),  # no negative zeros, which are equal and hash otherwise
            theta,
            noise,
            arm_norm=_checks.bound("arm_norm", arm_norm, np.max(np.linalg.norm(sets, axis=2))),
            epsilon=epsilon,
            raw_moment_bound=raw if raw < math.inf else None,
            central_moment_bound=central if central < math.inf else None,
            theta_norm=theta_norm,
            mean_bound=float(np.max(np.abs(means))),
            name=name,
        )
        bandit._fill(noise_std=std)
        return bandit

    @classmethod
    def resampled(
        cls,
        generator: Generator,
        noise: PayoffLaw,
        *,
        epsilon: float | None = None,
        best_mean: float | None = None,
        mean_bound: float | None = None,
        raw_moment_bound: float | None = None,
        central_moment_bound: float | None = None,
        theta_norm: float | None = None,
        arm_norm: float | None = None,
        name: str = "resampled",
    ) -> Self:
        """Builds a bandit that is a fresh fixed-arm instance in every replication.

        `generator(key) -> (arms [K, d], theta_star [d])` is pure and traceable; the key is the replication's, and the
        law allows every arm's mean. The numbers of a `jax.tree_util.Partial(function, *numbers)`, which is called with
        them before the key, are traced: bandits that differ in them alone share a compilation.

        `best_mean` is the best arm's, if all instances share it. `mean_bound`, L, is by default |best_mean|; one of the
        two is needed unless both moment bounds are given (L is then math.inf). b and c are by default the largest
        moments over all allowed means from -L to best_mean, or to L. `theta_norm`, S for all instances, is by default
        `theory.OWN_NORM`: each replication is told its own. `arm_norm`, D, is by default math.inf (it enters the
        theorems' bounds, and policies that must be told D). The other arguments are as for fixed arms (`LinearBandit`).

        Raises:
            ValueError: naming the field, its value and the allowed range, or what is wrong with the generator's result;
                also when a bound that is given does not hold in a sample of up to 16 instances.
        """
        law = _checks.law(noise, raw_moment_bound, central_moment_bound, fixed=False)
        epsilon = _checks.epsilon(epsilon, law)
        order = 1.0 + epsilon
        result = _checks.traced("generator", generator)
        pair = result if isinstance(result, (tuple, list)) and len(result) == 2 else ((), ())
        arms: tuple[int, ...] = getattr(pair[0], "shape", ())
        if not (_checks.real(pair[0], arms) and _checks.real(pair[1], arms[1:])) or len(arms) != 2 or 0 in arms:
            allowed = "(arms [K, d], theta_star [d]), real numbers with K >= 1 and d >= 1"
            raise ValueError(f"generator must return {allowed}, got {result!r}")
        if best_mean is not None:
            best_mean = _checks.finite("best_mean", best_mean)
            _checks.check_means(law, best_mean)
        if mean_bound is not None:
            mean_bound = _checks.nonnegative("mean_bound", mean_bound)
            if best_mean is not None and mean_bound < best_mean * (1.0 - _checks.ROUNDING):
                raise ValueError(f"mean_bound must be at least best_mean = {best_mean!r}, got {mean_bound!r}")
        largest = abs(best_mean) if mean_bound is None and best_mean is not None else mean_bound
        if largest is not None:
            raw, central, std = _checks.moments(law, order, -largest, largest if best_mean is None else best_mean)
        elif without_mean(law):
            raw, central, std, largest = math.inf, math.inf, math.inf, math.inf
        elif raw_moment_bound is not None and central_moment_bound is not None:
            raw, central, std, largest = 0.0, 0.0, math.inf, math.inf
        else:
            raise ValueError(
                "best_mean or mean_bound must be given unless raw_moment_bound and central_moment_bound both are"
            )
        bandit = cls._make(
            noise=law,
            epsilon=epsilon,
            raw_moment_bound=_checks.bound("raw_moment_bound", raw_moment_bound, raw, declared=True),
            central_moment_bound=_checks.bound("central_moment_bound", central_moment_bound, central, declared=True),
            theta_norm=OWN_NORM if theta_norm is None else _checks.nonnegative("theta_norm", theta_norm),
            arm_norm=math.inf if arm_norm is None else _checks.nonnegative("arm_norm", arm_norm),
            mean_bound=largest,
            noise_std=std,
            name=_checks.name(name),
            num_arms=arms[0],
            dim=arms[1],
            best_mean=best_mean,
            generator=generator,
        )
        function, numbers = generator, ()
        if isinstance(generator, jax.tree_util.Partial) and not generator.keywords:
            function, numbers = generator.func, generator.args
        bandit._check_draws(
            "generator",
            lambda number: _checks.evaluated(function, *numbers, jax.random.fold_in(jax.random.key(0), number)),
        )
        return bandit

    @classmethod
    def ball(
        cls,
        radius: float,
        theta_star: npt.ArrayLike,
        noise: PayoffLaw,
        *,
        q: float = 2.0,
        epsilon: float | None = None,
        raw_moment_bound: float | None = None,
        central_moment_bound: float | None = None,
        theta_norm: float | None = None,
        name: str = "ball",
    ) -> Self:
        """Builds a bandit whose arms are all x with ||x||_q <= radius.

        The best arm's mean is h = radius ||theta_star||_q*, 1/q + 1/q* = 1, and the means fill [-h, h]. Policies choose
        the arm itself: an optimistic one exactly for q = 2, over a region that is wider by sqrt(d) for other q
        (`linbet_jax.kernels.balls`).

        `radius`, R, is positive and `q` the norm's order, 1 < q < inf. Balls with corners are lists of arms:
        `datasets.cross_polytope` (q = 1) and `datasets.box` (q = inf). The law allows every mean in [-h, h], over which
        b and c are by default the largest moments. The other arguments are as for fixed arms (`LinearBandit`).

        Raises:
            ValueError: naming the field, its value and the allowed range; also for a bound below what it bounds.
        """
        size = _checks.positive("radius", radius)
        theta = _checks.theta(theta_star, None)
        power = _checks.norm_order(q)
        law = _checks.law(noise, raw_moment_bound, central_moment_bound, fixed=False)
        largest = float(np.max(np.abs(theta))) or 1.0
        with np.errstate(over="ignore", under="ignore"):
            best = float(size * largest * np.linalg.norm(theta / largest, power / (power - 1.0)))
        ends = np.array([-best, best])
        _checks.check_means(law, ends)
        epsilon = _checks.epsilon(epsilon, law)
        raw, central, std = _checks.moment_bounds(law, 1.0 + epsilon, ends, raw_moment_bound, central_moment_bound)
        return cls._make(
            theta_star=theta,
            noise=law,
            epsilon=epsilon,
            raw_moment_bound=raw,
            central_moment_bound=central,
            theta_norm=_checks.bound("theta_norm", theta_norm, np.linalg.norm(theta)),
            arm_norm=size * theta.size ** max(0.0, 0.5 - 1.0 / power),
            mean_bound=best,
            noise_std=std,
            name=_checks.name(name),
            num_arms=0,
            dim=theta.size,
            best_mean=best,
            norm_ball=(size, power),
        )

    @property
    def changing(self) -> bool:
        """Whether the decision set changes from pull to pull."""
        return self.sampler is not None

    @property
    def symmetric_noise(self) -> bool | None:
        """Whether payoffs lie symmetrically about their means; None where the law does not say."""
        symmetric = getattr(self.noise, "symmetric", None)
        return bool(symmetric) if isinstance(symmetric, (bool, np.bool_)) else None

    @property
    def noise_quantile(self) -> float:
        """R with P(|payoff - mean| > R) <= 1/4 at every mean, from the law; math.inf where it does not say."""
        size: Any = self.noise.exceeded(0.25) if _checks.has(self.noise, "exceeded") else math.inf  # type: ignore[attr-defined]
        number = float(size) if isinstance(size, (int, float, np.number)) else math.nan
        if not number >= 0.0:
            allowed = "exceeded(0.25) must return a number of at least 0"
            raise ValueError(f"noise: {self.noise.name}.{allowed}, got {size!r}")
        return number

    @property
    def unit_moment_bound(self) -> float | None:
        """E|(payoff - mean)/scale|^(1+epsilon) of a law that reveals scales; math.inf where it does not say, else None.

        It bounds the central moment of a payoff of scale s, divided by s^(1+epsilon).
        """
        if not reveals_scales(self.noise):
            return None
        if not _checks.has(self.noise, "unit_moment"):
            return math.inf
        return _checks.largest(self.noise, "unit_moment", 1.0 + self.epsilon)

    @property
    def resampling(self) -> bool:
        """Whether every replication plays a fresh instance."""
        return self.generator is not None

    @classmethod
    def _make(cls, **fields: Any) -> Self:
        bandit = object.__new__(cls)
        bandit._fill(**fields)
        return bandit

    def _fill(self, **fields: Any) -> None:
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def _check_draws(self, field: str, draw: Callable[[int], tuple[Any, Any]]) -> None:
        """Holds a sample of draws, number -> (arms [K, d], theta_star [d]), against what the bandit declares."""
        count = max(1, min(_DRAWS, _ENTRIES // (self.num_arms * self.dim)))
        drawn_things = "sets" if self.changing else "instances" if self.path is None else "pulls"
        where = f"in a sample of {count} {drawn_things}"
        arm_norm, theta_norm, least, most = 0.0, 0.0, math.inf, -math.inf
        best = []
        for number in range(count):
            with _checks.named(field):
                arms, theta = (np.asarray(drawn, np.float64) for drawn in draw(number))
            if not (np.isfinite(arms).all() and np.isfinite(theta).all()):
                raise ValueError(f"{field} must return finite numbers, got others {where}")
            means = arms @ theta
            arm_norm = max(arm_norm, float(np.max(np.linalg.norm(arms, axis=1))))
            theta_norm = max(theta_norm, float(np.linalg.norm(theta)))
            best.append(float(np.max(means)))
            least, most = min(least, float(np.min(means))), max(most, best[-1])
        slack = _DRAWN_ROUNDING * arm_norm * theta_norm
        low, high = self.noise.mean_range
        for mean in (least, most):
            if not low - slack <= mean <= high + slack:
                allowed = f"{low:g} <= mean <= {high:g}, as {self.noise.name} needs it"
                raise ValueError(f"{field} must keep means within {allowed}, got {mean!r} {where}")
        if self.best_mean is not None:
            for other in best:
                if abs(other - self.best_mean) > slack:
                    raise ValueError(
                        f"best_mean must be the same in all instances, {other!r} {where}, got {self.best_mean!r}"
                    )
        ends = np.clip([least, most], low, high)
        drawn = {"arm_norm": arm_norm, "theta_norm": theta_norm, "mean_bound": max(-least, most)}
        for moment in ("raw_moment", "central_moment"):
            drawn[f"{moment}_bound"] = _checks.largest(self.noise, moment, 1.0 + self.epsilon, ends)
        for name, value in drawn.items():
            declared = getattr(self, name)
            if value > declared + (slack if name == "mean_bound" else _DRAWN_ROUNDING * value):
                raise ValueError(f"{name} must be at least {value!r}, the largest {where}, got {declared!r}")

    def _key(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return tuple((value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value for value in values)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, LinearBandit) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a pickled instance, its arrays read-only again."""
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)  # pickling forgets it
        self._fill(**state)


@dataclasses.dataclass(frozen=True)
class _Contexts:
    """Logged sets as a sampler; two of equal numbers are equal, so that one program serves both."""

    content: bytes = dataclasses.field(repr=False)  # of the sets [n, K, d], float64
    shape: tuple[int, ...]

    def __call__(self, key: jax.Array, pull: jax.Array) -> jax.Array:
        return jnp.asarray(np.frombuffer(self.content).reshape(self.shape))[(pull - 1) % self.shape[0]]
