"""What a simulation gives: curves of regret and payoff, with what must travel with them."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex, overload

import jax
import numpy as np
import numpy.typing as npt

from linbet_jax.errors import UnhealthyWarning
from linbet_jax.policies.policy import Policy
from linbet_jax.policies.registry import policy_label
from linbet_jax.simulation.notebook import html_table


@dataclasses.dataclass(frozen=True, repr=False)
class Trace:
    """Every choice and payoff: arms [S, T] int32, on a ball the arms themselves [S, T, d], and payoffs [S, T]."""

    arms: npt.NDArray[Any]
    payoffs: npt.NDArray[np.floating[Any]]

    def __repr__(self) -> str:
        return "Trace({} seeds, {} pulls)".format(*self.arms.shape)


@dataclasses.dataclass(frozen=True, repr=False)
class Coverage:
    """Whether the policy's confidence region held theta*, after each of its updates, for each seed.

    Attributes:
        first_miss: [S] int64; 0 when ||theta_t - theta*||_V <= beta_t at every update, else the first pull at whose
            update it was not. The region before the first payoff, which is the ball of radius S, does not count.
        worst_ratio: [S], the largest ||theta_t - theta*||_V / beta_t over the updates, beta_t with its radius_scale.
    """

    first_miss: npt.NDArray[np.int64]
    worst_ratio: npt.NDArray[np.floating[Any]]

    @property
    def covered(self) -> npt.NDArray[np.bool_]:
        """[S] whether the region held theta* at every update."""
        return self.first_miss == 0

    def __repr__(self) -> str:
        held, worst = int(self.covered.sum()), float(np.max(self.worst_ratio))
        return f"Coverage({held} of {self.first_miss.size} seeds covered, worst ratio {worst:.3g})"


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """What S replications of one policy with one setting gave.

    Attributes:
        name: of the policy.
        rounds: [R] int64, pulls after which a row is recorded; the last one is the horizon.
        regret: [S, R] cumulative pseudo-regret, sum over pulls of the best mean minus the played arm's mean.
        payoff: [S, R] cumulative realised payoff.
        health: [S] int64; 0, or the first pull at which something non-finite (or an arm index out of range) was met.
        seeds: [S] int64.
        final_estimate: [S, d], the centre of the last confidence region; None when the policy has none.
        trace: arms and payoffs of every pull, when asked for.
        params: the hyperparameters, as given.
        facts: numbers worth printing: k and N for MENU; m, r, q and block for MoM.
        notes: sentences that must travel with the numbers.
        block_size: seeds per block; bit-equality is promised for one block size, kind of device and JAX version.
        dtype: ``"float32"`` or ``"float64"``.
        device: kind and number of the devices (on CPU: cores) that ran it.
        prng: the generator with its setting, and the key's own where that is another.
        reruns: replications that were repeated with a larger buffer.
        compile_seconds: spent compiling in this call (0 when everything was compiled before).
        run_seconds: spent running, compilation apart.
        coverage: of theta* by the policy's confidence region, when asked for.
        bandit: name of the bandit that was played, by which results are told apart: `name=` of a bandit of your own.
        key: uint32 words of the threefry key that all was drawn from, which `jax.random.wrap_key_data` makes of them: a
            seed means the same under equal keys alone.
    """

    name: str
    rounds: npt.NDArray[np.int64]
    regret: npt.NDArray[np.floating[Any]]
    payoff: npt.NDArray[np.floating[Any]]
    health: npt.NDArray[np.int64]
    seeds: npt.NDArray[np.int64]
    final_estimate: npt.NDArray[np.floating[Any]] | None
    trace: Trace | None
    params: Any
    facts: dict[str, float]
    notes: tuple[str, ...]
    block_size: int
    dtype: str
    device: str
    prng: str
    reruns: int
    compile_seconds: float
    run_seconds: float
    coverage: Coverage | None = None
    bandit: str = ""
    key: npt.NDArray[np.uint32] | None = None

    def __repr__(self) -> str:
        return _one_line(_shown(self, self.name))

    def _repr_html_(self) -> str:
        """The same as a table, in a notebook."""
        return html_table(_shown(self, self.name).items())


class ResultList(list[Result]):
    """A list of results that shows itself with a line for each, and in a notebook as one table.

    It is a list in everything else. A result is named by its policy and by the parameters in which those of one policy
    differ. `ResultList([*runs, mine])` shows results of several calls.
    """

    def __repr__(self) -> str:
        if not all(isinstance(result, Result) for result in self):
            return super().__repr__()
        return (
            f"[{f',{chr(10)} '.join(_one_line(_shown(*one)) for one in zip(self, result_labels(self), strict=True))}]"
        )

    def _repr_html_(self) -> str | None:
        """A table with a row for each result, in a notebook."""
        if not self or not all(isinstance(result, Result) for result in self):
            return None
        rows = [_shown(*one) for one in zip(self, result_labels(self), strict=True)]
        head = list(dict.fromkeys(name for row in rows for name in row))
        return html_table([[row.get(name, "") for name in head] for row in rows], head)

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> Result: ...
    @overload
    def __getitem__(self, place: slice, /) -> ResultList: ...
    def __getitem__(self, place: SupportsIndex | slice, /) -> Result | ResultList:
        """One result, or those of a slice, which show themselves likewise."""
        return ResultList(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)


# JAX knows lists by their exact type: `jax.tree.map` over the results goes on as over any list, and gives one.
_a_list: Any = list
jax.tree_util.register_pytree_node(ResultList, lambda results: (results, None), lambda _, parts: _a_list(parts))


def bandit_of(result: Any) -> str:
    """The name of its bandit; none for a result of before this was kept, and for what stands in for one."""
    return getattr(result, "bandit", "")


def result_labels(results: Sequence[Result]) -> list[str]:
    """Each result's policy and scale, with the parameters in which those of one policy, scale and bandit differ."""
    known = [_numbers(result.params) for result in results]
    plain = [
        (policy_label(r.name, params.get("radius_scale", 1.0)), bandit_of(r))
        for r, params in zip(results, known, strict=True)
    ]
    named = []
    for (label, bandit), params in zip(plain, known, strict=True):
        alike = [other for name, other in zip(plain, known, strict=True) if name == (label, bandit)]
        differing = [name for name in params if any(other.get(name, params[name]) != params[name] for other in alike)]
        named.append(", ".join([label, *(f"{name} {params[name]:g}" for name in differing)]))
    return named


def _numbers(params: Any) -> dict[str, float]:
    """The parameters that are one number each."""
    fields = params._asdict() if hasattr(params, "_asdict") else params if isinstance(params, Mapping) else {}
    return {name: float(value) for name, value in fields.items() if isinstance(value, (int, float, np.number))}


def _shown(result: Result, name: str) -> dict[str, str]:
    """The texts that a result shows, by their headings."""
    healthy = result.health == 0
    shown = {
        "policy": name,
        "bandit": result.bandit,
        "seeds": str(result.seeds.size),
        "pulls": str(result.rounds[-1]),
        "final regret": _with_error(result.regret[healthy, -1]),
        "final payoff": _with_error(result.payoff[healthy, -1]),
        "dtype": result.dtype,
    }
    ill = int(np.count_nonzero(~healthy))
    return shown | ({"unhealthy": f"{ill} seed{'s' * (ill > 1)}, left out"} if ill else {})


def _one_line(shown: dict[str, str]) -> str:
    policy, *others = shown.items()
    return f"Result({', '.join([policy[1], *(f'{name} {text}' for name, text in others)])})"


def _with_error(values: npt.NDArray[Any]) -> str:
    """The mean with its standard error, where there is one."""
    if values.size == 0:
        return "of no healthy seed"
    values = values.astype(np.float64)  # squares of single numbers overflow early
    error = f" (s.e. {np.std(values, ddof=1) / np.sqrt(values.size):.2g})" if values.size > 1 else ""
    return f"{np.mean(values):.4g}{error}"


def unhealthy(policy: Policy, health: npt.NDArray[Any], seeds: npt.NDArray[Any]) -> tuple[str, ...]:
    """A sentence on the unhealthy ones among these replications, if there are any."""
    (ill,) = np.nonzero(health)
    if ill.size == 0:
        return ()
    first = ill[np.argmin(health[ill])]
    return (
        f"{policy.name}: {ill.size} of {health.size} replications met something non-finite, an arm index out of range "
        f"or a mean that the law does not have, first seed {seeds[first]} at pull {health[first]}: their numbers are "
        "worth nothing from there on",
    )


def warn_of(sentence: str) -> None:
    """Issues an `UnhealthyWarning` at the line outside this package that led here."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("linbet_jax"):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, UnhealthyWarning, stacklevel=level)
