"""Functions of one's own, named `module:function` in a sweep file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from linbet_jax import policies
from linbet_jax.errors import InputError, named
from linbet_jax.storage import sources
from linbet_jax.storage.sources import Source
from linbet_jax.sweep import reads

_FILES = "FILES"  # a module's list of the files that it reads
_DIGEST = "__linbet_source__"  # where a module keeps the hash of the sources that it was imported from
_UNSEEN_MODULES = ("duckdb", "h5py", "netCDF4", "polars", "pyarrow", "safetensors", "sqlite3")
_UNSEEN_CALLS = (
    "read_feather", "read_hdf", "read_orc", "read_parquet", "open_dataset",  # of pandas and xarray
    "exec", "__import__", "import_module", "run_path", "spec_from_file_location",  # sources that no import names
)  # fmt: skip


def load(reference: str, folder: Path | str, where: str) -> tuple[Callable[..., Any], str]:
    """The function that a reference names, and the hash of the sources that decide what it does.

    These are its module's and, module by module, those that it imports from the same folder. What is installed
    elsewhere is not among them, and comments, docstrings and layout do not count.

    In the `folder` this module is looked for first, and what it imports last. `where` is the field that holds the
    reference, for messages; likewise below. InputError where there is no such module or function, importing it fails,
    or nobody can tell which files it reads.
    """
    folder = Path(folder)
    name, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*name.split("."), *attribute.split("."))):
        raise InputError(f"{where} = {reference!r}: must be 'module:function', 'mypolicies:make' for example")
    with reads.watched(name, folder):
        module = _module(name, folder, where)
    _declare(module, folder, where)
    function: Any = module
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise InputError(f"{where} = {reference!r}: the module {name} has no function {attribute}")
    return function, _digest(module, folder)


def registered(policy: str) -> dict[str, str]:
    """The module of a policy that another package registered, which a worker imports, and the hash of its sources.

    Nothing for the package's own policies, and for a name that is not registered.
    """
    name = policies.entry(policy).make.__module__ if policy in policies.names() else __name__
    if name.partition(".")[0] == __name__.partition(".")[0]:
        return {}
    module = sys.modules[name]
    return {"module": name, "digest": _digest(module, Path(inspect.getsourcefile(module) or "").parent)}


def call(plain: Mapping[str, Any], where: str, /, *arguments: Any, **options: Any) -> Any:
    """What a function of one's own returns; InputError where its module, or a file that it reads, is another one here.

    The plain data are `source`, the reference to it; `folder`; `digest`, what `load` gave; `files`, what `files` gave.
    """
    source, folder, expected = plain["source"], Path(plain["folder"]), plain.get("files", {})
    name, other = source.partition(":")[0], ""
    for _ in range(2):
        if other:  # the module keeps what it read when it was imported or called before
            _start_anew(name, folder, where)
        function, digest = load(source, folder, where)
        if digest != plain["digest"]:
            raise InputError(f"{where} = {source!r}: the module is another one here than where the sweep was started")
        with reads.watched(name, folder):
            made = function(*arguments, **options)
        there = reads.held.get(folder, {})
        other = next((file for file in expected if there.get(file) != expected[file]), "")
        if not other:
            return made
    raise InputError(f"{where} = {source!r}: the file {other} is another one here than where the sweep was started")


def files(plain: Mapping[str, Any], where: str, /, *arguments: Any, **options: Any) -> dict[str, str]:
    """Hashes of the files that a function of one's own reads, by their names from the folder; `call` it before.

    These are the files below the folder, or beside the module, that Python opens while the module is imported and the
    function runs, and those that the module names in a list called FILES. The arguments are those of `call`.
    """
    folder = Path(plain["folder"])
    if folder not in reads.held:
        return {}
    # The modules may keep what was read before, by another function even: they are imported again for this call.
    modules, before = dict(sys.modules), reads.held[folder]
    try:
        _start_anew(plain["source"].partition(":")[0], folder, where)
        call({**plain, "files": {}}, where, *arguments, **options)
        return dict(sorted(reads.held[folder].items()))
    finally:
        sys.modules.update(modules)
        reads.held[folder] = before


def _start_anew(name: str, folder: Path, where: str) -> None:
    """Forgets a module, those that it imports from the folder, and what they have read."""
    _forget(_module(name, folder, where), folder)
    reads.held[folder] = {}


def _declare(module: ModuleType, folder: Path, where: str) -> None:
    """Notes the files that a module, and those that it imports from the folder, name in lists called FILES."""
    contents = {str(path): source for path, source in _sources(module, folder).items()}
    noted = reads.held.get(folder, {})
    declared = False
    for other in list(sys.modules.values()):
        file, names = getattr(other, "__file__", None), getattr(other, "__dict__", {}).get(_FILES)
        if file not in contents or names is None:
            continue
        declared = True
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise InputError(f"{where}: {_FILES} = {names!r} in {file}: must be a list of names of files")
        for path in (Path(file).parent / name for name in names):
            if not path.is_file():
                raise InputError(f"{where}: {_FILES} in {file}: there is no file {path}")
            if reads.name(path, folder) not in noted:  # or the module may keep what was there before
                reads.keep(folder, [path])
    if declared:
        return
    for file, (statements, imports) in contents.items():
        names = {part for _, name in imports for part in (name.partition(".")[0], name.rpartition(".")[2])}
        called = {w for w in _UNSEEN_CALLS if any(f"{use}='{w}'".encode() in statements for use in ("attr", "id"))}
        unseen = sorted(names & {*_UNSEEN_MODULES, *_UNSEEN_CALLS} | called)
        if unseen and reads.is_own(Path(file)):
            raise InputError(
                f"{where}: {file} uses {unseen[0]}, which may read files unseen: name those that decide numbers in "
                f"the module, {_FILES} = ['data.parquet'] for example, or {_FILES} = [] where there are none"
            )


def _module(name: str, folder: Path, where: str) -> ModuleType:
    """The module that lies beside the sweep file; another one of this name where none does."""
    if name == "__main__":
        raise InputError(f"{where}: __main__ is another module in each process; the function must be in its own file")
    _FINDER.enter(folder)
    beside = any(sources.files(folder, name))
    full = f"{_BESIDE}.{name}" if beside and _elsewhere(name, folder) else name
    loaded = sys.modules.get(full)
    if loaded is not None and beside and loaded.__dict__.get(_DIGEST) not in (None, _digest(loaded, folder)):
        _forget(loaded, folder)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(full)
    except (Exception, SystemExit) as error:  # whatever a user's module raises while it is imported
        raise InputError(f"{where}: cannot import {name} (looked in {folder} first): {named(error)}") from error
    if full != name:
        module.__name__ = name  # by which its sources are known
    if _DIGEST not in module.__dict__:
        _check_imports(module, folder, where)
        module.__dict__[_DIGEST] = _digest(module, folder)
    return module


class _Finder:
    """Finds modules beside the sweep file; the last of `sys.meta_path`, so that nothing else has their name.

    With the folder in front of `sys.path`, a `csv.py` of one's own would be what JAX and Dask import as well.
    """

    def __init__(self) -> None:
        self.folder, self.names = "", {_BESIDE}  # the sweep file's, and what was found there

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
    beside = {(folder / top).resolve(), (folder / f"{top}.py").resolve()}
    return None if beside & {Path(place).resolve() for place in places if place} else next(filter(None, places), None)


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


def _forget(loaded: ModuleType, folder: Path) -> None:
    """Lets a module, and those that it imports from the folder, be imported anew."""
    files = {str(path) for path in _sources(loaded, folder)}
    for name, module in list(sys.modules.items()):
        if module is loaded or getattr(module, "__file__", None) in files:
            del sys.modules[name]


def _digest(module: ModuleType, folder: Path) -> str:
    """Hash of a module's name and sources."""
    total = hashlib.sha256(module.__name__.encode())
    for path, source in sorted(_sources(module, folder).items()):
        name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
        total.update(f"\0{name}\0".encode() + source.statements)
    return total.hexdigest()[:16]


def _sources(module: ModuleType, folder: Path) -> dict[Path, Source]:
    """A module's source, and those that it imports from the folder; this package's own are in the code's hash."""
    file = getattr(module, "__file__", None)
    file = file and (inspect.getsourcefile(module) or file)
    files = [*([Path(file)] if file else []), *sources.files(folder, module.__name__)]
    return sources.reached(files, folder, lambda name: "linbet_jax" not in name.split("."))
