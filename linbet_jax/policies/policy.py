"""The policy protocol: a policy is a NamedTuple of pure functions over an array-only state.

One calling convention serves every policy and every decision set: ``(state, arms, index, payoffs, params)``, each
function taking what it needs of it, in this order. Hyperparameters (``params``: any pytree of numbers) are traced and
passed last, so a sweep over delta, lambda, moment bounds or radius scale compiles once. Numbers that decide a shape are
host integers inside the functions. A policy never sees theta*, the means or the noise law.

The package's policies have NamedTuples of numbers, traced, whose fields mean the same everywhere:

    ridge: lambda > 0.                              horizon: T, the pulls that the others were made for.
    delta: failure probability in (0, 1).           epsilon: in (0, 1].
    theta_norm: S >= ||theta*||.                    raw_moment_bound: b >= E|y|^{1 + epsilon}.
    arm_norm: D >= ||x||.                           central_moment_bound: c >= E|eta|^{1 + epsilon}.
    noise_scale: R, the sub-Gaussian scale.         mean_bound: L >= |<x, theta*>|.
    radius_scale: multiplies every radius or width and no level of truncation; 1 is literal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

State = Any
Params = Any
Update = Callable[[State, jax.Array, jax.Array, jax.Array, Params], State]


@dataclasses.dataclass(frozen=True)
class SeesScale:
    """Around an update: it is shown how large the noise of each payoff may be, for laws that reveal it.

    Attributes:
        function: ``(state, arms [K, d], index [] int32, payoffs [pulls_per_epoch], scales [pulls_per_epoch], params) ->
            state``: given its scale, E|noise|^p of a payoff is scale^p times one bound. Scales are at least 1.
    """

    function: Callable[..., Any]


class WrongResult(ValueError):
    """What a function of a user's returned to a builder of policies; the message names the function."""


def one_number(function: str, result: Any) -> jax.Array:
    """The result of a user's function, or a :class:`WrongResult` where it is no single number."""
    if jnp.shape(result) != ():
        raise WrongResult(f"{function} must return one number, not an array {list(jnp.shape(result))}")
    return jnp.asarray(result)


class Region(NamedTuple):
    """A policy's confidence region for theta*: all points within ``radius`` of ``center`` in a norm.

    Attributes:
        center: [d], the estimate of theta*.
        radius: [], or None where the policy claims nothing about theta*.
        norm: ``(vector [d]) -> []``, the region's norm; needed beside a radius.
    """

    center: jax.Array
    radius: jax.Array | None = None
    norm: Callable[[jax.Array], jax.Array] | None = None


def state_bytes(policy: Policy, arms: Any, params: Params) -> int:
    """Bytes of the state that one replication keeps, for arms and params or their shapes; nothing is computed."""
    state = jax.eval_shape(policy.init, arms, params)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


class Buffers(NamedTuple):
    """For a policy whose state has room for a limited number of things.

    Attributes:
        overflowed: ``(state) -> [] bool``: there was no room, and the replication must be repeated with ``enlarge``;
            None when nothing can overflow.
        enlarge: ``() -> Policy``, the same policy with more room; None when there is none.
        max_pulls: the longest horizon that the state can hold; None when any.
    """

    overflowed: Callable[[State], jax.Array] | None = None
    enlarge: Callable[[], Policy] | None = None
    max_pulls: int | None = None

    def around(self, wrap: Callable[[Policy], Policy], max_pulls: Callable[[int], int]) -> Buffers:
        """The buffers of a wrapper: ``wrap`` wraps a larger policy, ``max_pulls`` gives its longest horizon."""
        enlarge, most = self.enlarge, self.max_pulls
        return self._replace(
            enlarge=enlarge and (lambda: wrap(enlarge())), max_pulls=None if most is None else max_pulls(most)
        )


@dataclasses.dataclass(frozen=True)
class About:
    """What the host knows about a policy. All of these compare equal: they decide no compiled program.

    Attributes:
        check: ``(params) -> None``, called on the host with the parameters as given; raises ValueError when the
            functions cannot run with them (a number out of range, or one that a fixed shape was made for).
        facts: pairs of a name and a number worth printing (k, N, m, r ...).
        notes: sentences that a result must carry (departures taken because of the horizon, say).
    """

    check: Callable[[Params], None] | None = dataclasses.field(default=None, compare=False)
    facts: tuple[tuple[str, float], ...] = dataclasses.field(default=(), compare=False)
    notes: tuple[str, ...] = dataclasses.field(default=(), compare=False)


class Policy(NamedTuple):
    """A policy for ONE replication; the simulator batches it.

    Only ``name``, ``init``, ``select`` and ``update`` are needed. Policies around one ridge estimate are best built by
    :func:`linbet_jax.policies.ridge_policy`, which gives them the fast form for decision sets that never change.

    Attributes:
        name: shown in tables and figures.
        init: ``(arms [K, d], params) -> state``, a pytree of arrays. ``arms`` is None where decision sets change, and a
            :class:`linbet_jax.kernels.balls.Ball` where the arms are a ball.
        select: ``(key, state, arms [K, d], params) -> [] int32``, the arm to play; ``key`` is for randomised policies
            and is the same for every policy at the same pull. On a ball it returns the arm [d] itself, which the other
            functions are given for ``index``: ``arms[index]`` is the arm there too.
        update: ``(state, arms [K, d], index [] int32, payoffs [pulls_per_epoch], params) -> state``. Shapes and dtypes
            stay fixed. Or a tuple of such functions, which the simulator uses in turn, the first one first after
            ``init`` and ``refresh``: two of them may do in one pass what one does in two. After each of them the state
            must serve every function here.
            :class:`SeesScale` around one shows it the scales of the payoffs too; laws without them are refused.
        pulls_per_epoch: how often the chosen arm is pulled before ``update`` (1; k for MENU; r for MoM). Pulls left
            over after the last whole epoch play the arm that ``select`` chooses then, and update nothing.
        region: ``(state, arms, params) -> Region``, the confidence region. ``simulate`` reports its last centre, and
            with ``coverage=True`` asks at every update whether it held theta*; nothing that the policy does depends on
            the answer. None when the policy estimates nothing.
        refresh: ``(state, arms, params) -> state``, called every few hundred pulls to recompute what rank-one updates
            drift in; None when nothing does. Whoever steps a policy by hand should call it as often.
        finite: ``(state) -> [] bool``, a cheap test that the state is sound; None tests every array of the state.
        buffers: of a policy that can run out of room; None when it cannot.
        about: what the host side knows: a check of the parameters, facts and notes.
    """

    name: str
    init: Callable[[jax.Array | None, Params], State]
    select: Callable[[jax.Array, State, jax.Array, Params], jax.Array]
    update: Update | SeesScale | tuple[Update | SeesScale, ...]
    pulls_per_epoch: int = 1
    region: Callable[[State, jax.Array | None, Params], Region] | None = None
    refresh: Callable[[State, jax.Array | None, Params], State] | None = None
    finite: Callable[[State], jax.Array] | None = None
    buffers: Buffers | None = None
    about: About = About()

    def __repr__(self) -> str:
        """Its name and the facts worth printing; the functions have no names of their own."""
        facts = "".join(f", {name}={value:g}" for name, value in self.about.facts)
        return f"Policy({self.name!r}, pulls_per_epoch={self.pulls_per_epoch}{facts})"

    def with_notes(self, *, facts: tuple[tuple[str, float], ...] = (), notes: tuple[str, ...] = ()) -> Policy:
        """The same policy with these facts and notes; see :class:`About`."""
        return self._replace(about=dataclasses.replace(self.about, facts=facts, notes=notes))

    @property
    def updates(self) -> tuple[Update | SeesScale, ...]:
        """The functions that update the state, to be used in turn."""
        return self.update if isinstance(self.update, tuple) else (self.update,)

    @property
    def sees_scales(self) -> bool:
        """Whether one of them is shown the scales of the payoffs."""
        return any(isinstance(update, SeesScale) for update in self.updates)

    def inside(self, wrapper: str, params_of: Callable[[Params], Params]) -> Policy:
        """The same policy inside a wrapper with parameters of its own: its functions are given ``params_of(params)``.

        ValueError where an update is shown the scales of the payoffs, which a wrapper does not hand on.
        """

        def translated(function: Any) -> Any:
            return function and (lambda *arguments: function(*arguments[:-1], params_of(arguments[-1])))

        if self.sees_scales:
            raise ValueError(f"policy {self.name}: sees the scales of its payoffs, which {wrapper} does not hand on")
        return self._replace(
            init=translated(self.init),
            select=translated(self.select),
            update=tuple(map(translated, self.updates)),
            region=translated(self.region),
            refresh=translated(self.refresh),
        )


def updated(
    update: Update | SeesScale,
    state: State,
    arms: jax.Array,
    index: jax.Array,
    payoffs: jax.Array,
    scales: jax.Array | None,
    params: Params,
) -> State:
    """The state after an update, which is shown the scales of the payoffs if it asks for them."""
    if isinstance(update, SeesScale):
        assert scales is not None
        return update.function(state, arms, index, payoffs, scales, params)
    return update(state, arms, index, payoffs, params)
