"""The package as installed: version, imports without side effects (case P8), layers, scripts, the README's code."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import linbet_jax

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(linbet_jax.__file__).resolve().parent


def fresh(code, cwd, **environment):
    """Runs code in a fresh interpreter and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_version_is_written_once():
    assert importlib.metadata.version("linbet_jax") == linbet_jax.__version__
    assert (
        "version = "
        not in (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project.optional-dependencies]")[0]
    )


def test_the_installed_package_is_what_is_tested():
    # In the environment that scripts/test.sh makes, the copy in it counts, not the checkout beside the tests.
    if Path(sys.prefix).resolve().parent == ROOT:
        assert Path(sys.prefix).resolve() in PACKAGE.parents
    assert Path(fresh("import linbet_jax; print(linbet_jax.__file__)", ROOT).strip()).resolve().parent == PACKAGE


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()


IMPORT_EVERYTHING = """
import json, sys
import jax
before = dict(jax.config.values)
import linbet_jax
plain = sorted({name.split(".")[0] for name in sys.modules} & {"matplotlib", "scipy", "rich"})
for name in linbet_jax.__all__:
    if name != "plotting":
        getattr(linbet_jax, name)
changed = [name for name, value in jax.config.values.items() if before[name] != value]
from jax._src import xla_bridge
print(json.dumps([plain, changed, sorted(xla_bridge._backends), "matplotlib" in sys.modules]))
"""


@pytest.mark.timeout(120)
def test_importing_changes_no_setting_and_starts_no_device(tmp_path):  # P8
    plain, changed, backends, plots = json.loads(fresh(IMPORT_EVERYTHING, tmp_path))
    assert plain == []
    assert changed == []
    assert backends == []
    assert not plots


def test_importing_the_package_alone_imports_no_jax(tmp_path):
    code = "import sys, linbet_jax; print([m for m in ('jax', 'numpy', 'scipy', 'matplotlib') if m in sys.modules])"
    assert fresh(code, tmp_path) == "[]\n"


def test_the_kernels_need_nothing_but_jax(tmp_path):
    code = """
import sys, linbet_jax.kernels
ours = sorted(m for m in sys.modules if m.startswith("linbet_jax") and not m.startswith("linbet_jax.kernels"))
print(ours, "matplotlib" in sys.modules)
"""
    assert fresh(code, tmp_path) == "['linbet_jax', 'linbet_jax._version'] False\n"


def test_names_of_the_package_resolve_and_others_do_not(tmp_path):
    assert set(linbet_jax.__all__) <= set(dir(linbet_jax))
    with pytest.raises(AttributeError, match="no attribute 'menu_bandit'"):
        linbet_jax.menu_bandit  # noqa: B018


# What each part may import. Kernels know nothing of policies, policies nothing of bandits, nothing imports upward.
LAYERS = {
    "_version": set(),
    "cores": set(),
    "costs": set(),
    "errors": set(),
    "labels": set(),
    "kernels": set(),
    "theory": set(),
    "policy": set(),
    "noise": set(),
    "policies": {"kernels", "theory", "policy"},
    "bandit": {"noise"},
    "datasets": {"theory", "noise", "bandit"},
    "replication": {"kernels", "policy", "noise"},
    "checks": {"policy", "bandit"},
    "lanes": {"cores", "checks"},
    "simulator": {"kernels", "noise", "policy", "bandit", "checks", "lanes", "replication"},
    "intervals": set(),
    "regret": {"simulator", "intervals"},
    "results": {"errors"},
    "provenance": {"_version", "bandit"},
    "tables": {"regret"},
    "runtime": {"cores", "errors", "checks", "lanes"},
    "tuning": {"policy", "policies", "bandit", "checks", "datasets", "simulator", "regret"},
    "plotting": {"labels", "regret", "results", "tuning"},
    "reproduce": {
        "errors", "theory", "policy", "noise", "policies", "bandit", "datasets", "simulator", "intervals", "regret",
        "results", "provenance", "costs", "tables", "plotting", "tuning",
    },
    "sweep": {
        "errors", "labels", "checks", "lanes", "policy", "policies", "noise", "bandit", "datasets", "simulator",
        "regret", "results", "provenance", "costs", "tables", "runtime",
    },
    "report": {"_version", "errors", "labels", "theory", "regret", "results", "tables", "plotting", "sweep"},
    "bench": {
        "_version", "cores", "errors", "labels", "kernels", "policy", "policies", "noise", "bandit", "datasets",
        "replication", "simulator", "regret", "results", "plotting", "runtime",
    },
    "cli": {
        "_version", "errors", "theory", "noise", "policies", "datasets", "reproduce", "results", "bench", "sweep",
        "report", "tables", "runtime",
    },
    "__main__": {"cli"},
}  # fmt: skip


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "linbet_jax" and len(parts) > 1:
                yield parts[1]


def test_imports_point_downward():
    seen = set()
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part != "__init__":
            seen.add(part)
            assert set(imported_parts(path)) <= LAYERS[part] | {part}, path
    assert seen <= set(LAYERS)


def test_matplotlib_is_imported_for_plotting_alone():
    for path in PACKAGE.rglob("*.py"):
        if re.search(r"^\s*(import|from) matplotlib", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert path.relative_to(PACKAGE).as_posix() in (
                "plotting.py",
                "report/files.py",
                "report/figures.py",
                "reproduce/outputs.py",
            )


def test_the_changelog_is_headed_as_it_should():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changelog\n")
    assert "## [Unreleased]" in text or f"## [{linbet_jax.__version__}]" in text


def test_the_scripts_are_sound_shell():
    for script in ("scripts/test.sh", "scripts/figure2.sh", "scripts/venv.sh", "scripts/browser.sh", ".ci/run"):
        subprocess.run(["bash", "-n", str(ROOT / script)], check=True, timeout=20)
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").rstrip().endswith("\nbash scripts/test.sh")


def shell(code, path, **environment):
    """Runs bash with nothing on its path but what the folder holds."""
    for tool in ("cat", "dirname"):
        (path / tool).symlink_to(shutil.which(tool))
    return subprocess.run(
        [shutil.which("bash"), "-c", code, "bash", str(ROOT / "scripts")],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": str(path), "HOME": "/nonexistent", **environment},
        check=False,
    )


def test_the_scripts_find_python_under_other_names(tmp_path):
    too_old = tmp_path / "python3"
    too_old.write_text("#!/bin/sh\nexit 1\n")
    too_old.chmod(0o755)
    (tmp_path / "python3.12").symlink_to(sys.executable)
    found = shell('. "$1/venv.sh"; find_python', tmp_path)
    assert (found.returncode, found.stdout) == (0, f"{tmp_path / 'python3.12'}\n")


def test_the_scripts_find_python_in_pyenv_s_folders(tmp_path):
    versions = tmp_path / "pyenv root" / "versions"
    (versions / "3.99" / "bin").mkdir(parents=True)
    (versions / "3.99" / "bin" / "python").symlink_to(sys.executable)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / "bin").mkdir()
    found = shell(f'. "$1/venv.sh"; find_python {version}', tmp_path / "bin", PYENV_ROOT=str(tmp_path / "pyenv root"))
    assert (found.returncode, found.stdout) == (0, f"{versions / '3.99' / 'bin' / 'python'}\n")


def test_the_scripts_say_when_there_is_no_python(tmp_path):
    none = shell('. "$1/venv.sh"; VENV=$HOME/none; make_venv', tmp_path)
    assert none.returncode == 1
    assert none.stderr.startswith("error: no Python 3.11 or newer found: looked for python3, python, python3.11 ...")


def readme_blocks():
    return re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.mark.timeout(280)
def test_the_readme_s_code_runs(tmp_path):
    blocks = readme_blocks()
    assert blocks
    # In order and in one process, as a reader would paste them into a session; the folder `demo` is made by a command.
    demo = ROOT / "scripts" / "sweeps" / "demo.toml"
    overrides = ["seeds=3", "horizon=60", "dtype='float32'"]
    made = f"import linbet_jax as lb\nlb.sweep.run(lb.sweep.read({str(demo)!r}, {overrides}), 'demo')"
    fresh("\n".join([made, *blocks]), tmp_path, MPLBACKEND="Agg")
