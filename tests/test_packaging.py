"""The package as installed: version, imports without side effects (case P8), layers, scripts."""

import ast
import fcntl
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import linbet_jax

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(linbet_jax.__file__).resolve().parent
PARTS = ("linbet_jax", "benchmarks")  # that have README files of their own


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


def test_the_installed_package_is_what_is_tested(tmp_path):
    # In the environment that scripts/test.sh makes, that is this checkout.
    if Path(sys.prefix).resolve().parent == ROOT:
        assert PACKAGE == ROOT / "linbet_jax"
    assert Path(fresh("import linbet_jax; print(linbet_jax.__file__)", tmp_path).strip()).resolve().parent == PACKAGE


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What is published: the wheel, unpacked, and the names in the source archive."""
    folder = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", folder]
    subprocess.run(build, cwd=ROOT, check=True, timeout=120, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (archive,) = folder.glob("*.tar.gz")
    zipfile.ZipFile(wheel).extractall(folder / "wheel")
    with tarfile.open(archive) as opened:
        return folder / "wheel", {name.split("/", 1)[1] for name in opened.getnames()}


def test_the_wheel_is_the_package_and_nothing_else(built):
    wheel, _ = built
    assert {path.name for path in wheel.iterdir()} == {"linbet_jax", f"linbet_jax-{linbet_jax.__version__}.dist-info"}
    ours, theirs = (
        {p.relative_to(home): p.read_bytes() for p in home.rglob("*") if p.is_file() and p.suffix != ".pyc"}
        for home in (PACKAGE, wheel / "linbet_jax")
    )
    assert theirs == ours
    metadata = importlib.metadata.Distribution.at(next(wheel.glob("*.dist-info")))
    assert [(point.name, point.value) for point in metadata.entry_points] == [("linbet", "linbet_jax.cli:main")]
    assert metadata.metadata["License-File"] == "LICENSE"
    users = {requirement_name(each) for each in metadata.requires or () if "extra ==" not in each}
    assert not users & {"chex", "pytest", "hatchling"}


def test_the_wheel_works_without_the_checkout(built, tmp_path):
    wheel, _ = built
    code = "import linbet_jax.cli as cli; print(cli.__file__, cli.main(['list']), cli.main(['bench']))"
    done = fresh(code, tmp_path, PYTHONPATH=str(wheel))
    assert done.splitlines()[-1] == f"{wheel / 'linbet_jax' / 'cli' / '__init__.py'} 0 2"


def test_the_source_archive_holds_what_a_developer_needs(built):
    _, names = built
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "benchmarks/bench.py", "scripts/test.sh"} <= names
    assert "benchmarks/c_baseline.c" in names
    readmes = {path.relative_to(ROOT).as_posix() for part in PARTS for path in (ROOT / part).rglob("README.md")}
    assert len(readmes) > 5
    assert readmes <= names
    assert {f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py")} <= names
    assert not [name for name in names if "/.venv" in name or "__pycache__" in name]


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


def test_the_package_depends_on_what_it_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = {requirement_name(each) for each in project["dependencies"]}
    optional = {requirement_name(each) for extra in ("pandas", "slurm", "xarray") for each in extras[extra]}
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            imported |= {name.split(".")[0] for name in names}
    imported -= set(sys.stdlib_module_names) | {"linbet_jax"}
    assert imported <= needed | optional
    assert needed - imported == {"jaxlib"}  # jax's other half


def requirement_name(requirement):
    return re.match(r"[\w-]+", requirement)[0].replace("-", "_")


def test_names_of_the_package_resolve_and_others_do_not(tmp_path):
    assert set(linbet_jax.__all__) <= set(dir(linbet_jax))
    with pytest.raises(AttributeError, match="no attribute 'menu_bandit'"):
        linbet_jax.menu_bandit  # noqa: B018


# What each part may import. Kernels know nothing of policies, policies nothing of bandits, nothing imports upward.
LAYERS = {
    "_version": set(),
    "errors": set(),
    "theory": set(),
    "kernels": set(),
    "noise": set(),
    "policies": {"kernels", "noise", "theory"},
    "bandits": {"noise", "theory"},
    "simulation": {"errors", "theory", "kernels", "noise", "policies", "bandits"},
    "statistics": {"noise", "policies", "bandits", "simulation"},
    "storage": {"_version", "errors", "bandits"},
    "figures": {"policies", "simulation", "statistics", "storage"},
    "sweep": {"errors", "noise", "policies", "bandits", "simulation", "statistics", "storage"},
    "report": {"_version", "errors", "theory", "policies", "statistics", "storage", "figures", "sweep"},
    "experiments": {
        "errors", "theory", "noise", "policies", "bandits", "simulation", "statistics", "storage", "figures", "sweep",
    },
    "cli": {
        "_version", "errors", "theory", "noise", "policies", "bandits", "simulation", "statistics", "storage", "sweep",
        "report", "experiments",
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
            top, *parts = name.split(".")
            if top == "linbet_jax":
                yield parts[0] if parts else "the package itself, above all"


def test_imports_point_downward():
    seen = set()
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part != "__init__":
            seen.add(part)
            assert set(imported_parts(path)) <= LAYERS[part] | {part}, path
    assert seen <= set(LAYERS)


@pytest.mark.parametrize("code", ["import linbet_jax", "import linbet_jax as lb", "from linbet_jax import simulate"])
def test_an_import_of_the_package_itself_is_upward_wherever_it_stands(tmp_path, code):
    path = tmp_path / "module.py"
    path.write_text(f"def f():\n    if True:\n        {code}\n", encoding="utf-8")
    assert not set(imported_parts(path)) <= set(LAYERS)


def test_the_slow_tests_that_are_listed_exist():
    tests = ROOT / "tests"
    known = {
        f"{path.stem}::{node.name}"
        for path in tests.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    listed = (tests / "slow.txt").read_text(encoding="utf-8").split()
    assert listed == sorted({*listed} & known)


def test_matplotlib_is_imported_for_plotting_alone():
    for path in PACKAGE.rglob("*.py"):
        if re.search(r"^\s*(import|from) matplotlib", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert path.relative_to(PACKAGE).as_posix() in (
                "figures/__init__.py",
                "figures/canvas.py",
                "figures/charts.py",
                "figures/panels.py",
                "figures/pictures.py",
                "figures/plotting.py",
                "figures/sheets.py",
                "experiments/driver.py",
                "experiments/figure2.py",
                "experiments/precision.py",
                "experiments/remark3.py",
                "experiments/table2.py",
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


PYTHON = """#!/bin/sh
# Stands for every Python: notes what it is asked for, and makes environments of itself.
echo "$*" >>"$LOG"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip install "*--editable*) [ -z "$OFFLINE" ] ;;
esac
"""


USE_VENV = '. scripts/venv.sh; use_venv {}; echo "$VENV_PYTHON"'


@pytest.fixture
def checkout(tmp_path):
    """A checkout of little but scripts: a function that starts bash in it, with the Python above."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks" / "bench.py", tmp_path / "benchmarks")
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "bin" / "python3").chmod(0o755)

    def start(code, offline=""):
        (tmp_path / "log").write_text("", encoding="utf-8")
        path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "LOG": str(tmp_path / "log"), "OFFLINE": offline, "CI": ""}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(["bash", "-euo", "pipefail", "-c", code], cwd=tmp_path, env=environment, **streams)

    return start


@pytest.fixture
def use_venv(checkout, tmp_path):
    """Runs `use_venv EXTRA`: its status, and what it asked of Python."""

    def run(extra="test", **options):
        process = checkout(USE_VENV.format(extra), **options)
        out, err = process.communicate(timeout=60)
        assert out == ("" if process.returncode else f"{tmp_path / '.venv' / 'bin' / 'python'}\n"), err
        asked = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
        return process.returncode, [line for line in asked if line.startswith("-m")]

    return run


FILL = ["-m pip install -qq hatchling>=1.27 editables", "-m pip install -qq --no-build-isolation --editable "]


def test_an_environment_is_made_once(use_venv, tmp_path):
    made = f"-m venv {tmp_path / '.venv'}"
    assert use_venv() == (0, [made, FILL[0], FILL[1] + ".[test]"])
    assert use_venv() == (0, [])
    assert use_venv("runtime") == (0, [])  # what the tests need includes what a user needs
    assert use_venv("slurm") == (0, ["-m pip -V", FILL[0], FILL[1] + ".[slurm]"])
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert use_venv("runtime") == (0, ["-m pip -V", FILL[0], FILL[1] + "."])
    shutil.rmtree(tmp_path / ".venv" / "bin")
    assert use_venv("runtime") == (0, [made, FILL[0], FILL[1] + "."])


def test_an_environment_that_a_killed_run_left_is_made_anew(use_venv, tmp_path):
    assert use_venv()[0] == 0
    (tmp_path / ".venv" / "state").write_text("building\n", encoding="utf-8")
    (tmp_path / ".venv" / "half").touch()
    status, asked = use_venv()
    assert status == 0
    assert asked[0] == f"-m venv {tmp_path / '.venv'}"
    assert not (tmp_path / ".venv" / "half").exists()


def test_an_environment_stays_where_there_is_no_network(use_venv, tmp_path):
    assert use_venv()[0] == 0
    (tmp_path / ".venv" / "kept").touch()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert use_venv(offline="yes")[0] == 1
    assert use_venv() == (0, ["-m pip -V", FILL[0], FILL[1] + ".[test]"])
    assert (tmp_path / ".venv" / "kept").exists()


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock")
def test_two_scripts_at_once_wait_for_each_other(checkout, tmp_path):
    with open(tmp_path / ".venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = checkout(USE_VENV.format("test"))
        assert second.stderr.readline() == "waiting for another script that is setting up .venv\n"
        assert not (tmp_path / ".venv").exists()
    assert second.communicate(timeout=60)[0] == f"{tmp_path / '.venv' / 'bin' / 'python'}\n"


def test_quick_checks_leave_out_the_slow_tests_and_the_benchmarks(checkout, tmp_path):
    def checks(arguments):
        process = checkout(f"bash scripts/test.sh {arguments}")
        assert process.communicate(timeout=60)[0] == ""
        assert process.returncode == 0
        asked = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
        return [line for line in asked if re.match(r"-m (ruff|mypy|pytest)|benchmarks", line)]

    static = ["-m ruff check --quiet .", "-m ruff format --check --quiet .", "-m mypy --no-error-summary"]
    tests = "-m pytest -n 2 --dist loadfile --no-loadscope-reorder --quiet"
    assert checks("--quick -k tofu") == [*static, f"{tests} -m not slow -k tofu"]
    whole, smoke = checks(""), "benchmarks/bench.py --smoke"  # which runs beside the others
    assert [line for line in whole if line != smoke] == [*static, tests]
    assert whole.count(smoke) == 1
