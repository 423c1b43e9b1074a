"""What decides a run's numbers: which sources count, and what in them."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linbet_jax.storage import provenance, sources

SWEEP = "linbet_jax.sweep.work"
SOURCE = '''"""A module."""
from __future__ import annotations
from typing import TYPE_CHECKING
import math
from . import near
if TYPE_CHECKING:
    from far import away
else:
    import other

SCALE = 2.0  # of everything


class Point:
    """A point."""

    x: float = 1.0


def f(a, b):
    """Sums."""
    if a < 0:
        raise ValueError(f"a={a}: must be positive", a)
    return a + SCALE * b
'''


def said(text):
    return sources.read(text.encode()).statements


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A module", "Something else"),
        ('    """Sums."""\n', ""),
        ('    """A point."""\n', '    """A point.\n\n    Of three lines.\n    """\n'),
        ("  # of everything", "  # of nothing\n# at all"),
        ("(a, b):", "(\n    a,\n    b,\n):"),
        ("a + SCALE * b", "(a + (SCALE * b))"),
        ("SCALE = 2.0", "SCALE = 2.00"),
        ("must be positive", "must not be negative"),
        ("from far import away", "from far import away, home"),
    ],
)
def test_layout_comments_docstrings_and_words_of_errors_are_not_said(old, new):
    assert old in SOURCE
    assert said(SOURCE.replace(old, new)) == said(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SCALE = 2.0", "SCALE = 2.0000000000000004"),
        ("SCALE = 2.0", "SCALE = 2"),
        ("a + SCALE * b", "(a + SCALE) * b"),
        ("a < 0", "a <= 0"),
        ("ValueError", "TypeError"),
        ('{a}: must be positive", a)', '", -a)'),
        ("x: float = 1.0", "y: float = 1.0"),
        ("import math", "import cmath"),
        ("import other", "import another"),
    ],
)
def test_what_can_change_a_number_is_said(old, new):
    assert old in SOURCE
    assert said(SOURCE.replace(old, new)) != said(SOURCE)


def test_imports_are_told_unless_they_are_for_types_alone():
    assert sources.read(SOURCE.encode()).imports == (
        (0, "__future__.annotations"),
        (0, "typing.TYPE_CHECKING"),
        (0, "math"),
        (1, ".near"),
        (0, "other"),
    )


@pytest.mark.parametrize("content", [b"\x00\x7fELF", b"def f(:", b"x = 1" + b" + 1" * 20_000])
def test_what_is_no_python_or_too_deep_counts_as_it_is(content):
    assert sources.read(content) == (content, ())


def test_the_same_source_says_the_same_under_every_python():
    assert said("def f(x: int = 1):\n    return [x, None, f'{x!r}']\n").decode() == (
        "(Module body=[(FunctionDef name='f' args=(arguments args=[(arg arg='x' annotation=(Name id='int'))] "
        "defaults=[(Constant value=1)]) body=[(Return value=(List elts=[(Name id='x')(Constant)(JoinedStr "
        "values=[(FormattedValue value=(Name id='x') conversion=114)])]))])])"
    )


def test_every_file_that_runs_where_cells_are_computed_counts_and_no_other_does():
    code = f"import sys, {SWEEP}; print(*(name for name in sys.modules if name.startswith('linbet_jax')))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    files = provenance.sources_of(SWEEP)
    assert {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files} == {
        *ran.stdout.split()
    }
    for part in (
        "figures",
        "report",
        "cli",
        "storage/results",
        "storage/provenance",
        "statistics/tables",
        "sweep/store",
        "sweep/table",
    ):
        assert not [name for name in files if name.startswith((f"linbet_jax/{part}.", f"linbet_jax/{part}/"))]
    assert "linbet_jax/statistics/tuning.py" in provenance.sources_of("linbet_jax.statistics.tuning")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The package's sources in another place, where they can be changed."""
    home = tmp_path / "linbet_jax"
    shutil.copytree(Path(provenance.__file__).parent.parent, home, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "__file__", str(home / "storage" / "provenance.py"))
    provenance.code_digest.cache_clear()
    yield home
    provenance.code_digest.cache_clear()


def digest_now():
    provenance.code_digest.cache_clear()
    return provenance.code_digest(SWEEP)


def test_the_code_s_digest_changes_with_numbers_alone(copied):
    before = digest_now()
    for path in copied.rglob("*.py"):  # every comment goes, every line is laid out anew
        path.write_text("# A line.\n" + ast.unparse(ast.parse(path.read_text(encoding="utf-8"))), encoding="utf-8")
    (copied / "figures" / "plotting.py").write_text("COLORS = ()\n", encoding="utf-8")
    (copied / "sweep" / "store.py").write_text("GROUP_ROWS = 7\n", encoding="utf-8")
    assert digest_now() == before
    seen = {before}
    for name in (
        "theory.py",
        "simulation/simulator.py",
        "policies/tofu.py",
        "kernels/gram.py",
        "noise/laws.py",
        "sweep/work.py",
    ):
        path = copied / name
        path.write_text(path.read_text(encoding="utf-8") + "\nMORE = 1\n", encoding="utf-8")
        seen.add(digest_now())
    (copied / "kernels" / "gram.py").unlink()
    seen.add(digest_now())
    assert len(seen) == 8
