"""What a sweep file may say: strict models at the boundary, and one-line errors that name file, field and range.

A field that takes one value takes a list of them too, and a list multiplies the grid. Nothing here knows JAX.
"""

from __future__ import annotations

import codecs
import difflib
import functools
import io
import operator
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from linbet_jax.errors import InputError

_Model = TypeVar("_Model", bound=BaseModel)
_Value = TypeVar("_Value")
_Many: TypeAlias = _Value | Annotated[list[_Value], Field(min_length=1)]

# TOML writes 1e4 as a float: where a count is asked it is the whole number that it says.
_Int: TypeAlias = Annotated[int, BeforeValidator(lambda n: int(n) if type(n) is float and n.is_integer() else n)]
_Whole = Annotated[_Int, Field(ge=1, le=2 * 10**9)]
_Positive = Annotated[float, Field(gt=0)]
_NotNegative = Annotated[float, Field(ge=0)]
_Epsilon = Annotated[float, Field(gt=0, le=1)]
_Seed = Annotated[_Int, Field(ge=0, le=2**32 - 2)]

_LISTS = ", or a list of such"
_WHOLE = "a whole number, 1 to 2000000000" + _LISTS
_POSITIVE = "a number above 0" + _LISTS
_NOT_NEGATIVE = "a number, at least 0" + _LISTS


def _optional(description: str) -> Any:
    """A field that may be left out, and what it allows."""
    return Field(None, description=description)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class SetTable(_Strict):
    """One `[sets.NAME]`: a data set, or a set of one's own."""

    set: str | None = _optional("S1, S2, S3, S4, uniform, lower-bound, lock, long, trap or 'module:function'")
    horizon: _Many[_Whole] | None = _optional(_WHOLE)
    instance_seed: _Many[_Seed] | None = _optional("a whole number, 0 to 4294967294: which instance" + _LISTS)
    resample: _Many[bool] | None = _optional("true (a fresh instance in every replication) or false")
    noise: _Many[dict[str, Any]] | None = _optional('a law, {law = "Pareto", shape = 2} for example' + _LISTS)
    drift: _Many[dict[str, Any]] | None = _optional(
        'how theta_star moves, {path = "rotating", angle = 1e-4} for example' + _LISTS
    )
    epsilon: _Many[_Epsilon] | None = _optional("a number with 0 < epsilon <= 1" + _LISTS)
    K: _Many[_Whole] | None = _optional(_WHOLE)
    d: _Many[_Whole] | None = _optional(_WHOLE)
    best_mean: _Many[_Positive] | None = _optional(_POSITIVE)
    gap: _Many[_Positive] | None = _optional("a number with 0 < gap < 1" + _LISTS)
    angle: _Many[_Positive] | None = _optional("a number with 0 < angle < 180, degrees" + _LISTS)
    length: _Many[_Positive] | None = _optional(_POSITIVE)
    probability: _Many[_Positive] | None = _optional("a number with 0 < probability < 1" + _LISTS)
    arms: str | None = _optional("the name of a .csv, .npy or .parquet file with one arm a row")
    theta_star: str | Annotated[list[float], Field(min_length=1)] | None = _optional(
        "the name of a .csv, .npy or .parquet file, or a list of numbers"
    )
    raw_moment_bound: _Many[_NotNegative] | None = _optional(_NOT_NEGATIVE)
    central_moment_bound: _Many[_NotNegative] | None = _optional(_NOT_NEGATIVE)
    theta_norm: _Many[_NotNegative] | None = _optional(_NOT_NEGATIVE)
    arm_norm: _Many[_NotNegative] | None = _optional(_NOT_NEGATIVE)
    mean_bound: _Many[_NotNegative] | None = _optional(_NOT_NEGATIVE)
    options: dict[str, Any] | None = _optional("a table of arguments for one's own function")


class _Open(_Strict):
    model_config = ConfigDict(extra="allow")

    @property
    def more(self) -> dict[str, Any]:
        """Every further key as written."""
        return dict(self.__pydantic_extra__ or {})


class PolicyTable(_Open):
    """One `[policies.NAME]`; every further key is an option of the policy and is checked when the policy is made."""

    policy: str | None = _optional("the name of a policy (see `linbet list`) or 'module:function'")
    sets: Annotated[list[str], Field(min_length=1)] | None = _optional(
        "a list of names of [sets]: where this policy plays (default: everywhere)"
    )


class CellTable(_Open):
    """One `[[cells]]`: keys of a set and options of a policy side by side, single values."""

    set: str = Field(description="the name of one of [sets], or what [sets.NAME] takes as `set`")
    policy: str = Field(description="the name of one of [policies], or what [policies.NAME] takes as `policy`")
    horizon: _Whole | None = _optional("a whole number, 1 to 2000000000")


class Document(_Strict):
    """The whole file."""

    name: str = Field("", description="free text; it is part of no identity")
    seeds: Annotated[_Int, Field(ge=1, le=2**32)] = Field(64, description="a whole number of replications, at least 1")
    key: Annotated[_Int, Field(ge=0, lt=2**32)] = Field(0, description="a whole number, 0 to 4294967295")
    records: Annotated[_Int, Field(ge=1, le=10**6)] | None = _optional("a whole number of records, 1 to 1000000")
    record_at: Annotated[list[_Whole], Field(min_length=1)] | None = _optional("a list of increasing pulls, at least 1")
    dtype: Literal["float64", "float32"] = Field("float64", description="'float64' or 'float32'")
    device: Literal["auto", "cpu", "gpu"] = Field("auto", description="'auto', 'cpu' or 'gpu'")
    block_size: Annotated[_Int, Field(ge=1, le=65536)] | None = _optional(
        "a whole number of seeds, 1 to 65536 (64 at most on CPU)"
    )
    horizon: _Many[_Whole] | None = _optional(_WHOLE)
    sets: dict[str, SetTable] = Field(default_factory=dict, description="a table of sets")
    policies: dict[str, PolicyTable] = Field(default_factory=dict, description="a table of policies")
    zip: list[Annotated[list[str], Field(min_length=2)]] = Field(
        default_factory=list, description="a list of lists of paths, [['sets.*.epsilon', 'policies.tofu.level']]"
    )
    cells: list[CellTable] = Field(default_factory=list, description="[[cells]] tables")


# Reading ------------------------------------------------------------------------------------------------------------


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a sweep file, and what it says; InputError where it cannot be read or is no TOML."""
    try:
        text = io.StringIO(decoded(path.read_bytes()), newline=None).read()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also whole numbers of thousands of digits, and as many brackets
        raise InputError(f"{path}: is not TOML: {error}") from error


def decoded(content: bytes) -> str:
    """A file's text, with or without a byte-order mark; ValueError where it is not UTF-8."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        raise ValueError("it is UTF-16, or no text at all; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8; save the file as UTF-8") from error


def override(file: str, data: dict[str, Any], assignment: str) -> None:
    """Applies one `path.to.field=value` to the data in place; the value is TOML, or a bare string."""
    path, equals, text = assignment.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts):
        raise InputError(f"--set {assignment}: must be PATH=VALUE, policies.tofu.delta=0.05 for example")
    value = _value(text.strip())
    place: Any = data
    for index, part in enumerate(parts):
        key: Any = part
        if isinstance(place, list):
            if not part.isdecimal() or int(part) >= len(place):
                raise InputError(
                    f"--set {assignment}: {file} has {len(place)} {'.'.join(parts[:index])}, numbered from 0"
                )
            key = int(part)
        elif not isinstance(place, dict):
            raise InputError(f"--set {assignment}: {'.'.join(parts[:index])} is a value, not a table")
        elif part not in place:
            place[part] = {}
        holder, place = place, place[key]
    holder[key] = value


def _value(text: str) -> Any:
    """A TOML value; what is none is a bare string."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def checked(model: type[_Model], data: Mapping[str, Any], prefix: str = "") -> _Model:
    """A table, whose path with a dot is the prefix, as its model; InputError names the first wrong field."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        raise InputError(_explain(error, model, data, prefix)) from error


# Errors -------------------------------------------------------------------------------------------------------------


def _explain(error: ValidationError, model: type[BaseModel], data: Any, prefix: str) -> str:
    """One sentence for the first thing that is wrong: where, what it is, what is allowed."""
    # An unknown key first: the field it was meant for may be reported as missing beside it.
    first = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")[0]
    keys, allowed, owner = _place(model, first["loc"])
    path = prefix + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
    if first["type"] == "extra_forbidden":
        return unknown_key(path, str(first["loc"][-1]), owner.model_fields)
    if first["type"] == "missing":
        return f"{path}: is missing; must be {allowed}"
    return f"{path} = {shown(functools.reduce(operator.getitem, keys, data))}: must be {allowed}"


def unknown_key(path: str, key: str, known: Iterable[str]) -> str:
    """A sentence on a key that nobody knows, at its path."""
    return f"{path}: unknown key{nearest(key, known)}"


def _place(model: type[BaseModel], location: Sequence[int | str]) -> tuple[list[int | str], str, type[BaseModel]]:
    """Keys of the field that an error is about, what the field allows, and the model that has it."""
    if not location:
        return [], "a table", model
    key, *rest = location
    field = model.model_fields.get(str(key))
    if field is None:
        return [key], "a table", model
    inner = [kind for kind in get_args(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
    if inner and rest:  # one of several tables, and what is in it
        keys, allowed, owner = _place(inner[0], rest[1:])
        return [key, rest[0], *keys], allowed, owner
    return [key], field.description or "another value", model


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown name: the nearest known one, and all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    close = close or [candidate for candidate in names if candidate.lower() == name.lower()]
    guess = f"; did you mean {close[0]}?" if close else ""
    return f"{guess}; known are {', '.join(names)}" if names else "; there is none"


def shown(value: Any) -> str:
    """A value as a message shows it, cut when long."""
    text = repr(value).replace("True", "true").replace("False", "false")
    return text if len(text) <= 60 else text[:57] + "..."
