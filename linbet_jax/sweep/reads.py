"""The files that functions of one's own read, as Python tells of them, and their hashes: they decide numbers too."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax

_watching: dict[int, set[str]] = {}  # what is opened now is added to each of these
held: dict[Path, dict[str, str]] = {}  # hashes of what modules of this process have read, by sweep folder and name


@contextlib.contextmanager
def watched(module: str, folder: Path) -> Iterator[None]:
    """Notes the files that are read in the block, below the sweep's folder or that of the module with this name.

    Modules are not among them: their sources count by themselves. Files that Python does not open itself, but a library
    in C, go unseen.
    """
    _listen()
    seen: set[str] = set()
    _watching[id(seen)] = seen
    try:
        yield
    finally:
        del _watching[id(seen)]
        file = getattr(sys.modules.get(module), "__file__", None)
        home = Path(file).parents[module.count(".")] if file else folder
        places = [folder, *([home] if is_own(home) else [])]
        below = (path for path in map(Path, seen) if any(path.is_relative_to(place) for place in places))
        keep(folder, (path for path in below if path.suffix not in (".py", ".pyc") and path.is_file() and is_own(path)))


def keep(folder: Path, paths: Iterable[Path]) -> None:
    """Notes files as read, with the hashes that they have now."""
    for path in paths:
        with path.open("rb") as file:
            hashed = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        held.setdefault(folder, {})[name(path, folder)] = hashed


def name(path: Path, folder: Path) -> str:
    """What a file is called here: the way to it from the folder, so that both can be moved together."""
    return Path(os.path.relpath(path, folder)).as_posix()


def is_own(path: Path) -> bool:
    """Whether a path is a user's own, and not of what is installed, nor of a compile cache."""
    settings: Any = jax.config
    others = (sysconfig.get_path("stdlib"), settings.jax_compilation_cache_dir)
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return not installed and not any(other and path.is_relative_to(other) for other in others)


@functools.cache
def _listen() -> None:
    """Starts to listen, once for a process: Python's audit hooks cannot be removed."""
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watching:
        path, _, flags = arguments
        if isinstance(path, (str, bytes, os.PathLike)) and not flags & (os.O_WRONLY | os.O_TRUNC | os.O_APPEND):
            for seen in list(_watching.values()):
                seen.add(os.path.abspath(os.fsdecode(path)))
