"""Writing a report: the page, the pictures as files, the tables."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from linbet_jax.errors import InputError
from linbet_jax.figures.sheets import save_pictures
from linbet_jax.report import tables
from linbet_jax.report.gather import gather
from linbet_jax.report.page import page
from linbet_jax.report.pictures import pictures
from linbet_jax.storage.results import write_text
from linbet_jax.sweep.table import load

FORMATS = ("html", "pdf", "png")
PANELS = 24  # pictures of one kind


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """What was written, and what is wrong with the sweep."""

    files: tuple[Path, ...]  # in the order worth opening
    problems: tuple[str, ...]  # why the sweep is not simply done and healthy, in words; empty when it is


def write_report(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    formats: Sequence[str] = FORMATS,
    panels: int = PANELS,
    say: Callable[[str], None] | None = None,
) -> WrittenReport:
    """Writes the report of a sweep folder, finished or not.

    Args:
        folder: of the sweep.
        out: where to; `folder/report` by default. Files of these names are replaced, others stay.
        formats: of "html" (the page), "pdf" and "png" (the pictures); the tables are always written.
        panels: pictures of one kind at most; the tables hold every cell.
        say: told what is being done.

    Raises:
        InputError: unknown formats, fewer than one panel, no sweep in the folder, or a place that cannot be written to.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise InputError(f"format {unknown[0] if unknown else ''!r}: known are {', '.join(FORMATS)}")
    if panels < 1:
        raise InputError(f"panels={panels}: must be at least 1")
    tell = say or (lambda line: None)
    sweep = load(folder, warn=False)
    place = Path(folder) / "report" if out is None else Path(out)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {place}: {error.strerror or error}") from error
    tell(f"reading {len(sweep.cells)} cells")
    report = gather(sweep)
    drawn = pictures(report, panels=panels)
    files = []
    for suffix, text in (("md", tables.markdown), ("tex", tables.latex), ("csv", tables.csv_text)):
        files.append(place / f"summary.{suffix}")
        write_text(files[-1], text(report))
    wanted = [name for name in ("pdf", "png") if name in formats]
    if wanted and drawn:
        tell(f"drawing {len(drawn)} pictures as {' and '.join(wanted)}")
        files += save_pictures(drawn, place / "figures", wanted)
    if "html" in formats:
        tell("writing the page")
        beside = [path.relative_to(place).as_posix() for path in files]
        write_text(place / "index.html", page(report, drawn, files=beside))
        files.insert(0, place / "index.html")
    return WrittenReport(tuple(files), report.problems)
