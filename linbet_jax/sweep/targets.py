"""Where a sweep may be run beside this process: `local[:N]`, an address, or a Slurm queue; checked first."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from linbet_jax.errors import InputError
from linbet_jax.simulation import runtime

ALLOWED = "local, local:N, tcp://HOST:PORT, tls://HOST:PORT or slurm"


@dataclasses.dataclass(frozen=True)
class Local:
    """Worker processes on this machine."""

    workers: int | None = None  # from 1 to the cores that this process may use; None: one per core, or one per GPU

    def __post_init__(self) -> None:
        cores = len(runtime.usable_cores())
        if self.workers is not None and not 1 <= self.workers <= cores:
            raise InputError(
                f"--cluster local:{self.workers}: must be from 1 to {cores}, the cores that this process may use"
            )


@dataclasses.dataclass(frozen=True)
class Address:
    """A Dask scheduler that runs already."""

    url: str  # tcp://HOST:PORT, or tls://HOST:PORT with the certificates of Dask's own configuration

    def __post_init__(self) -> None:
        match = re.fullmatch(r"(tcp|tls)://(\[[^\]\s]+\]|[^:/\s]+):(\d{1,5})", self.url)
        if match is None or not 1 <= int(match[3]) <= 65535:
            raise InputError(f"--cluster {self.url}: must be tcp://HOST:PORT or tls://HOST:PORT, PORT from 1 to 65535")


@dataclasses.dataclass(frozen=True)
class Slurm:
    """Jobs of a Slurm queue, each one worker.

    Attributes:
        queue: the partition.
        jobs: how many.
        cores: of each job.
        memory: of each job, e.g. "4GB".
        walltime: of each job, in Slurm's forms, e.g. "01:00:00" or "2-12:00:00".
        account: who pays, or None.
    """

    queue: str
    jobs: int = 1
    cores: int = 1
    memory: str = "4GB"
    walltime: str = "01:00:00"
    account: str | None = None

    def __post_init__(self) -> None:
        for name in ("queue", "account"):
            value = getattr(self, name)
            if value is not None and re.fullmatch(r"[\w.,:@+-]+", value) is None:
                raise InputError(f"--{name} {value!r}: must be a name of letters, digits and . , : @ + - _")
        for name in ("jobs", "cores"):
            value = getattr(self, name)
            if value < 1:
                raise InputError(f"--{name} {value}: must be at least 1")
        if re.fullmatch(r"[1-9]\d*(\.\d+)?[KMGT]i?B", self.memory) is None:
            raise InputError(f"--memory {self.memory!r}: must be a number with KB, MB, GB or TB, '4GB' for example")
        if re.fullmatch(r"(\d+-)?\d+(:\d{2}){0,2}", self.walltime) is None:
            raise InputError(
                f"--walltime {self.walltime!r}: must be MINUTES, HH:MM:SS or DAYS-HH:MM:SS, '01:00:00' for example"
            )


Target = Local | Address | Slurm


def parse(text: str, **slurm: Any) -> Target:
    """What `--cluster` names, one of the forms `ALLOWED`; the fields of `Slurm` go with `slurm` alone.

    InputError where it is none of these, or a field is wrong, missing, or another target's.
    """
    kind, colon, rest = text.partition(":")
    if text == "slurm":
        if "queue" not in slurm:
            raise InputError("--cluster slurm: needs --queue NAME, the partition whose jobs are the workers")
        return Slurm(**slurm)
    for name in slurm:
        raise InputError(f"--{name}: goes with --cluster slurm")
    if kind == "local" and (not colon or re.fullmatch(r"-?\d{1,9}", rest)):
        return Local(int(rest) if colon else None)
    if "://" in text:
        return Address(text)
    raise InputError(f"--cluster {text}: must be {ALLOWED}")
