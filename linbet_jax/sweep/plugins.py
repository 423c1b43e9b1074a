"""Functions of one's own, named `module:function` in a sweep file."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from linbet_jax.errors import InputError

__all__ = ["load"]


def load(reference: str, folder: Path | str, where: str) -> tuple[Callable[..., Any], str]:
    """The function that a reference names, and the hash of the sources that decide what it does.

    These are its module's and, module by module, those that it imports from the same folder. What is installed
    elsewhere is not among them.

    Args:
        reference: `package.module:function`; the function may be an attribute of an attribute.
        folder: where modules are looked for first.
        where: the field that holds the reference, for messages.

    Raises:
        InputError: there is no such module or function, or importing it fails.
    """
    name, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*name.split("."), *attribute.split("."))):
        raise InputError(f"{where} = {reference!r}: must be 'module:function', 'mypolicies:make' for example")
    module = _module(name, Path(folder), where)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputError(f"{where} = {reference!r}: the module {name} has no function {attribute}")
    return found, _digest(module, Path(folder))


def _module(name: str, folder: Path, where: str) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    held = sys.modules.get(name)
    if held is not None and _stale(held, name, folder):
        _forget(held, folder)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever a user's module raises while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{where}: cannot import {name} (looked in {folder} first): {reason}") from error
    module.__dict__.setdefault("__linbet_source__", _digest(module, folder))
    return module


def _stale(held: ModuleType, name: str, folder: Path) -> bool:
    """Whether a module of this name was imported from elsewhere, or from a source that has changed since."""
    own = folder.joinpath(*name.split("."))
    source = next((p for p in (own.with_suffix(".py"), own / "__init__.py") if p.exists()), None)
    if source is None:
        return False
    loaded = getattr(held, "__file__", None)
    if loaded is None or Path(loaded).resolve() != source.resolve():
        return True
    present = _digest(held, folder)
    return bool(getattr(held, "__linbet_source__", present) != present)


def _forget(held: ModuleType, folder: Path) -> None:
    """Lets a module, and those that it imports from the folder, be imported anew."""
    own = {str(path) for path in _sources(held, folder)}
    for name, module in list(sys.modules.items()):
        if module is held or getattr(module, "__file__", None) in own:
            del sys.modules[name]


def _digest(module: ModuleType, folder: Path) -> str:
    """Hash of a module's name and sources."""
    total = hashlib.sha256(module.__name__.encode())
    for path, content in sorted(_sources(module, folder).items()):
        name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
        total.update(f"\0{name}\0".encode() + content)
    return total.hexdigest()[:16]


def _sources(module: ModuleType, folder: Path) -> dict[Path, bytes]:
    """Contents of a module's file, and of those that it imports from the folder, however many imports away."""
    source = None if module.__name__ in sys.builtin_module_names else inspect.getsourcefile(module)
    source = source or getattr(module, "__file__", None)
    found: dict[Path, bytes] = {}
    waiting = [*([Path(source)] if source else []), *_files(folder, module.__name__)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = path.read_bytes()
            waiting += _imported(path, found[path], folder) if path.is_relative_to(folder) else []
    return found


def _imported(path: Path, content: bytes, folder: Path) -> Iterator[Path]:
    """Files of the folder that a source in it imports; none of what is no Python source."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    bases = (folder, *path.parents)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield from _files(bases[min(node.level, len(bases) - 1)], f"{node.module or ''}.{alias.name}")


def _files(base: Path, name: str) -> Iterator[Path]:
    """Files below a folder that importing this name runs; this package's own are in the code's hash already."""
    place = base
    for part in name.strip(".").split("."):
        if part == "linbet_jax":
            return
        place = place / part
        yield from (file for file in (place.with_name(f"{part}.py"), place / "__init__.py") if file.is_file())
