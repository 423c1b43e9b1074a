"""Functions of one's own, named `module:function` in a sweep file."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from linbet_jax.errors import InputError

__all__ = ["load"]


def load(reference: str, folder: Path | str, where: str) -> tuple[Callable[..., Any], str]:
    """The function that a reference names, and the hash of its module's source.

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
    return found, _digest(module)


def _module(name: str, folder: Path, where: str) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    held = sys.modules.get(name)
    if held is not None and _stale(held, name, folder):
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except Exception as error:  # whatever a user's module raises while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{where}: cannot import {name} (looked in {folder} first): {reason}") from error
    module.__dict__.setdefault("__linbet_source__", _digest(module))
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
    return bool(getattr(held, "__linbet_source__", _digest(held)) != _digest(held))


def _digest(module: ModuleType) -> str:
    """Hash of a module's source; of its file where it has none."""
    source = inspect.getsourcefile(module) or getattr(module, "__file__", None)
    content = Path(source).read_bytes() if source else module.__name__.encode()
    return hashlib.sha256(content).hexdigest()[:16]
