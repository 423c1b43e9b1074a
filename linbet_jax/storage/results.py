"""Run folders: what a command writes, so that it can be killed at any moment and carried on.

A run folder holds `manifest.json` (which run this is, and how it went), `cells` (finished pieces of work, see
`sweep.store`) and the outputs made from the cells. Every file appears whole or not at all. A folder belongs to one
configuration, and to one process at a time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from linbet_jax.errors import InputError

MANIFEST, CELLS, LOCK = "manifest.json", "cells", ".lock"


class RunFolderError(InputError):
    """The folder cannot be used for this run; nothing in it was changed."""


def digest(value: object) -> str:
    """SHA-256 of a JSON-like value, independent of the order of mapping keys; floats to the last bit."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path` that takes its place only when the block ends without error.

    The temporary file keeps the suffix of `path`, is flushed to disk before the rename (where the file system can do
    that), and is removed when the block raises: a reader sees the old file or the new one, never a part.
    """
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(6)}.tmp{path.suffix}")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush(path.parent, os.O_RDONLY)


_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR)


def _flush(path: Path, flags: int) -> None:
    """Flushes a file or folder to disk; shared folders and some other file systems cannot, and lose nothing by it."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Writes readable JSON whole or not at all; NaN and infinities become null (JSON has neither)."""
    write_text(path, json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """What a JSON file holds; RunFolderError where it is not there, or holds no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error


def sweep_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a sweep's folder; RunFolderError where there is no such folder, or no sweep in it."""
    if not folder.is_dir():
        raise RunFolderError(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
    if not (folder / MANIFEST).exists():
        raise RunFolderError(f"{folder} holds no sweep: it has no {MANIFEST}")
    manifest = read_json(folder / MANIFEST)
    config = manifest.get("config") if isinstance(manifest, dict) else None
    if not isinstance(config, dict) or config.get("kind") != "sweep":
        raise RunFolderError(f"{folder} holds no sweep: its {MANIFEST} is another one's")
    return {str(name): section for name, section in manifest.items()}


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; the kernel frees it when its holder dies, however it dies."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if not _flock(descriptor):
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            by = f" (process {holder})" if holder else ""
            raise RunFolderError(f"another run{by} is writing to {folder}; wait for it or choose another folder")
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            os.truncate(descriptor, 0)  # the file stays: a waiting process could lock a name that is gone
    finally:
        os.close(descriptor)


def _flock(descriptor: int, tries: int = 5) -> bool:
    """Locks at once or not at all. A process that looks whether the lock is held takes it for less than these tries."""
    for attempt in range(tries):
        if attempt:
            time.sleep(0.01)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def in_use(path: Path) -> bool:
    """Whether a process holds the lock of a run folder."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.read(descriptor, 32).strip():  # who ends in order leaves it empty
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class RunFolder:
    """One configuration's folder, locked for as long as it is open. Use as a context manager.

    The folder is made when it does not exist. `config`, JSON-like, is everything the run is asked to do; it is written
    to the manifest at once, and a later run in the same folder must have an equal one, and then carries on.
    `compare` names what an earlier manifest, as a whole, differs in from what is asked now; by default the fields of
    `config` that are not equal. The folder is refused when there is anything.

    Entering raises RunFolderError where the path is no folder or not writable, another process is using it, it holds
    files but no manifest, or its manifest is of another configuration (the message names the differing fields).
    Nothing is changed then.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: Mapping[str, Any],
        *,
        compare: Callable[[Mapping[str, Any]], list[str]] | None = None,
    ) -> None:
        """Remembers the place and the configuration; nothing is touched before entering."""
        self.path = Path(path)
        self._compare = compare
        self.config: dict[str, Any] = json.loads(json.dumps(_plain(config)))
        self.manifest: dict[str, Any] = {}
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> RunFolder:
        """Locks the folder and checks that it is this configuration's."""
        try:
            if self.path.exists():
                self._read_manifest()  # before the lock file is made: a refused folder stays as it was
            self.path.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as stack:
                stack.enter_context(_locked(self.path))
                self._claim()
                self._lock = stack.pop_all()
        except OSError as error:
            raise RunFolderError(f"cannot use the folder {self.path}: {error.strerror or error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    def check(self) -> None:
        """Raises RunFolderError where entering would refuse the folder for what it holds; changes nothing."""
        try:
            self._read_manifest()
        except OSError as error:
            raise RunFolderError(f"cannot use the folder {self.path}: {error.strerror or error}") from error

    def update_manifest(self, **sections: Any) -> None:
        """Replaces whole sections of the manifest on disk; `config` stays what it is."""
        self.manifest = {**self.manifest, **sections, "config": self.config}
        write_json(self.path / MANIFEST, self.manifest)

    def _read_manifest(self) -> dict[str, Any]:
        """The manifest of an earlier run of this configuration; empty when the folder is new."""
        path = self.path / MANIFEST
        if not path.exists():
            # A run killed before its first manifest leaves the lock and temporary files, nothing else.
            foreign = sorted(p.name for p in self.path.iterdir() if p.name != LOCK and ".tmp" not in p.name)
            if foreign:
                raise RunFolderError(
                    f"{self.path} is not empty and holds no {MANIFEST} (it has {', '.join(foreign[:3])}"
                    f"{' ...' if len(foreign) > 3 else ''}): choose another folder"
                )
            return {}
        manifest = read_json(path)
        held = manifest.get("config") if isinstance(manifest, dict) else None
        if not isinstance(held, dict):
            raise RunFolderError(f"{path} is not the manifest of a run: choose another folder")
        fields = differences(held, self.config) if self._compare is None else self._compare(manifest)
        if fields:
            raise RunFolderError(
                f"{self.path} holds another run, which differs in {'; '.join(fields)}: choose another folder or "
                "remove this one"
            )
        return {str(name): section for name, section in manifest.items()}

    def _claim(self) -> None:
        """Under the lock: reads the manifest again, or writes the first one."""
        self.manifest = self._read_manifest()
        for folder in (self.path, self.path / CELLS):
            for left in folder.glob(".*-*.tmp*"):  # of runs killed while writing
                left.unlink(missing_ok=True)
        if not self.manifest:
            self.update_manifest()
        (self.path / CELLS).mkdir(exist_ok=True)


def differences(held: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Names the fields in which two configurations differ, as `field (held there, asked here)`."""
    fields: list[str] = []
    for field in sorted({*held, *asked}):
        there, here, name = held.get(field), asked.get(field), f"{prefix}{field}"
        if isinstance(there, dict) and isinstance(here, dict):
            fields += differences(there, here, f"{name}.")
        elif there != here:
            fields.append(f"{name} ({_short(there)} there, {_short(here)} here)")
    return fields


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _plain(value: Any) -> Any:
    """The value in JSON's own types: NumPy numbers and arrays unwrapped, non-finite floats as null."""
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
