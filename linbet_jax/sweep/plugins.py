"""Functions of one's own, named `module:function` in a sweep file."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
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
        folder: where this module is looked for first, and what it imports last.
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
    """The module that lies beside the sweep file; another one of this name where none does."""
    if name == "__main__":
        raise InputError(f"{where}: __main__ is another module in each process; the function must be in its own file")
    _FINDER.enter(folder)
    beside = any(_files(folder, name))
    full = f"{_BESIDE}.{name}" if beside and _elsewhere(name, folder) else name
    held = sys.modules.get(full)
    if held is not None and beside and held.__dict__.get("__linbet_source__") not in (None, _digest(held, folder)):
        _forget(held, folder)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(full)
    except (Exception, SystemExit) as error:  # whatever a user's module raises while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{where}: cannot import {name} (looked in {folder} first): {reason}") from error
    if full != name:
        module.__name__ = name  # by which its sources are known
    if "__linbet_source__" not in module.__dict__:
        _check_imports(module, folder, where)
        module.__dict__["__linbet_source__"] = _digest(module, folder)
    return module


class _Finder:
    """Finds modules beside the sweep file; the last of `sys.meta_path`, so that nothing else has their name.

    With the folder in front of `sys.path`, a `csv.py` of one's own would be what JAX and Dask import as well.

    Attributes:
        folder: the sweep file's.
        names: what was found there.
    """

    def __init__(self) -> None:
        self.folder, self.names = "", {_BESIDE}

    def enter(self, folder: Path) -> None:
        """Looks in this folder from now on, and forgets what another sweep's folder gave."""
        if self.folder != str(folder):
            for name in [name for name in sys.modules if name.partition(".")[0] in self.names]:
                del sys.modules[name]
            self.folder, self.names = str(folder), {_BESIDE}
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What Python's own search finds in the folder."""
        if path is not None:  # a part of a package, which the package knows where to find
            return None
        spec = PathFinder.find_spec(name, [self.folder])
        if name == _BESIDE:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [self.folder]
        if spec is not None:
            self.names.add(name)
        return spec


_BESIDE = "linbet_jax_beside"  # a package of the modules whose names are also those of other modules
_FINDER = _Finder()


def _elsewhere(name: str, folder: Path) -> str | None:
    """Where a plain import of this name leads, when that is not to the folder."""
    top = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # a module that was made, not imported
        return "in no file"
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    own = {(folder / top).resolve(), (folder / f"{top}.py").resolve()}
    return None if own & {Path(place).resolve() for place in places if place} else next(filter(None, places), None)


def _check_imports(module: ModuleType, folder: Path, where: str) -> None:
    """Refuses a module that gets another one in place of the folder's; names of Python's own are never the folder's."""
    for path in _sources(module, folder):
        top = path.relative_to(folder).parts[0].removesuffix(".py") if path.is_relative_to(folder) else "sys"
        if top in sys.stdlib_module_names or top == module.__name__.partition(".")[0]:
            continue
        if other := _elsewhere(top, folder):
            raise InputError(
                f"{where}: {module.__name__} imports {top}, which is {other} and not the one in {folder}: rename that"
            )


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
    source = getattr(module, "__file__", None)
    source = source and (inspect.getsourcefile(module) or source)
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
