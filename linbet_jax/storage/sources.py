"""What a Python source says, and what it imports: what can change a number, without what cannot."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_UNSAID = ("ctx", "kind", "type_comment")  # of a node: they follow from the rest, or say nothing


class Source(NamedTuple):
    """A Python source.

    The statements are equal for sources that differ in layout, comments, docstrings, the words of a `raise` or what is
    under `if TYPE_CHECKING`, and equal under Python 3.11 and later; what is no Python source stays as it is.
    """

    statements: bytes
    imports: tuple[tuple[int, str], ...]  # (number of leading dots, name) of each module or member that it imports


@functools.lru_cache(maxsize=64)
def read(content: bytes) -> Source:
    """A source from the bytes of its file."""
    words: list[str] = []
    imports: list[tuple[int, str]] = []
    try:
        _read(ast.parse(content), words, imports)
    except (SyntaxError, ValueError, RecursionError):
        return Source(content, ())
    return Source("".join(words).encode("utf-8", "backslashreplace"), tuple(imports))


def files(base: Path, name: str) -> Iterator[Path]:
    """Files below a folder that importing a module or member of this name runs."""
    place = base
    for part in name.strip(".").split("."):
        place = place / part
        yield from (file for file in (place.with_name(f"{part}.py"), place / "__init__.py") if file.is_file())


def reached(paths: Iterable[Path], folder: Path, counts: Callable[[str], bool]) -> dict[Path, Source]:
    """Sources, and those that they import from a folder, however many imports away, by names that count."""
    held: dict[Path, Source] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path in held:
            continue
        held[path] = read(path.read_bytes())
        if path.is_relative_to(folder):
            bases = (folder, *path.parents)  # by the number of leading dots
            for level, name in held[path].imports:
                if counts(name):
                    waiting += files(bases[min(level, len(bases) - 1)], name)
    return held


def _read(value: object, words: list[str], imports: list[tuple[int, str]]) -> None:
    """Adds a part of a syntax tree, without empty fields: Python's own dump of it differs between versions."""
    if isinstance(value, ast.AST):
        if isinstance(value, ast.Import):
            imports += [(0, alias.name) for alias in value.names]
        elif isinstance(value, ast.ImportFrom):
            imports += [(value.level, f"{value.module or ''}.{alias.name}") for alias in value.names]
        elif isinstance(value, ast.If) and "TYPE_CHECKING" in vars(value.test).values():  # as a name or an attribute
            value.body = []
        words.append(f"({type(value).__name__}")
        fields = value.__dict__
        for name in value._fields:
            field = fields.get(name)
            if field is not None and field != [] and name not in _UNSAID:
                words.append(f" {name}=")
                _read(_without_words(field) if isinstance(value, ast.Raise) else field, words, imports)
        words.append(")")
    elif isinstance(value, list):
        words.append("[")
        for each in value:
            constant = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)  # a docstring does nothing
            if not constant and not isinstance(each, ast.Pass):
                _read(each, words, imports)
        words.append("]")
    else:
        words.append(repr(value))


def _without_words(raised: object) -> object:
    """What is raised, without texts among its arguments."""
    if not isinstance(raised, ast.Call):
        return raised
    arguments = [each for each in raised.args if not isinstance(each, (ast.Constant, ast.JoinedStr))]
    return [raised.func, *arguments, *raised.keywords]
