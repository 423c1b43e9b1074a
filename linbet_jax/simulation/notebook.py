"""What a notebook shows of results: a small table in HTML, every text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), *, caption: str = "") -> str:
    """A table whose rows begin with a heading, below a row of headings and a caption where there are such."""
    lines = [f"<caption>{html.escape(caption)}</caption>"] if caption else []
    if head:
        lines.append(f"<thead><tr>{''.join(f'<th>{html.escape(name)}</th>' for name in head)}</tr></thead>")
    for first, *others in rows:
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in others)
        lines.append(f"<tr><th>{html.escape(first)}</th>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"
