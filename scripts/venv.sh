# Sourced by the scripts beside it: `use_venv EXTRA [X.Y]` makes or reuses a virtual environment of this checkout.
#
# EXTRA is `runtime` or an extra of pyproject.toml; X.Y asks for that Python and uses .venv-X.Y instead of .venv.
# Afterwards VENV is the environment, VENV_PYTHON its interpreter, and the package of this checkout is installed
# in it as a copy. A second call does nothing when nothing changed; a change of the sources alone needs no network.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
export PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1

BACKEND="hatchling>=1.27"

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# python_serves COMMAND [X.Y]: it runs, is 3.11 or newer (or exactly X.Y), and knows venv.
python_serves() {
  "$1" - "${2:-}" >/dev/null 2>&1 <<'PYTHON'
import sys, venv
wanted = sys.argv[1]
found = "%d.%d" % sys.version_info[:2]
sys.exit(not (found == wanted if wanted else sys.version_info[:2] >= (3, 11)))
PYTHON
}

# find_python [X.Y]: prints an interpreter. A plain python3 comes first, then versioned names, then pyenv's folders.
find_python() {
  local wanted=${1:-} name candidate
  local names=(python3 python python3.11 python3.12 python3.13 python3.14 python3.15)
  [ -n "$wanted" ] && names=("python$wanted" python3 python)
  for name in "${names[@]}"; do
    candidate=$(command -v "$name" 2>/dev/null) || continue
    if python_serves "$candidate" "$wanted"; then printf '%s\n' "$candidate"; return; fi
  done
  # pyenv's commands answer only for activated versions; its folders hold all of them.
  for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
    if [ -x "$candidate" ] && python_serves "$candidate" "$wanted"; then printf '%s\n' "$candidate"; return; fi
  done
  return 1
}

# venv_state: prints two hashes, of what decides the dependencies and of what decides the installed package.
venv_state() {
  "$VENV_PYTHON" - "$ROOT" <<'PYTHON'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
def total(paths):
    value = hashlib.sha256(sys.version.encode())
    for path in sorted(paths):
        value.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return value.hexdigest()[:32]
package = [p for p in (root / "linbet_jax").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
top = [root / name for name in ("README.md", "LICENSE", "pyproject.toml")]
print(total([root / "pyproject.toml"]), total(package + [p for p in top if p.exists()]))
PYTHON
}

# pip_install ARGUMENT...: silent unless it fails.
pip_install() {
  local output
  output=$("$VENV_PYTHON" -m pip install --quiet "$@" 2>&1) || { say "$output"; return 1; }
}

# make_venv [X.Y]: an empty environment with pip; the marker `building` says that it is this script's and unfinished.
make_venv() {
  local python
  python=$(find_python "${1:-}") || {
    [ -n "${1:-}" ] && die "no Python $1 found: looked for python$1, python3, python and below ${PYENV_ROOT:-$HOME/.pyenv}/versions"
    die "no Python 3.11 or newer found: looked for python3, python, python3.11 ... and below ${PYENV_ROOT:-$HOME/.pyenv}/versions"
  }
  rm -rf "$VENV"
  mkdir "$VENV"
  : >"$VENV/building"
  if ! "$python" -m venv "$VENV" >/dev/null 2>&1; then
    # Some systems ship Python and pip without ensurepip: let the outer pip fill the environment.
    "$python" -m venv --without-pip "$VENV" || die "$python cannot make a virtual environment"
    "$python" -m pip --python "$VENV_PYTHON" install --quiet pip || die "$python has no pip that can fill $VENV"
  fi
}

# fill_venv EXTRA: dependencies and the package; the stamp `installed` is written last. Status 2: it does not import.
fill_venv() {
  local target=. state
  [ "$1" = runtime ] || target=".[$1]"
  : >"$VENV/building"
  rm -f "$VENV/installed"
  # The build backend lives in the environment, so that a change of the sources can be installed without a network.
  if ! (cd "$ROOT" && pip_install "$BACKEND" && pip_install --no-build-isolation --force-reinstall --no-deps . &&
    pip_install --no-build-isolation "$target"); then
    rm -f "$VENV/building"  # pip gave up by itself (no network, say): what was there is still whole
    return 1
  fi
  venv_works || return 2
  state=$(venv_state) && printf '%s %s\n' "$state" "$1" >"$VENV/installed" && rm -f "$VENV/building"
}

# venv_works: every dependency named by the installed package is there, and the copy is what gets imported.
venv_works() {
  "$VENV_PYTHON" - <<'PYTHON'
import pathlib, sys
import linbet_jax, jax, numpy, scipy, rich, matplotlib
home = pathlib.Path(linbet_jax.__file__).resolve()
sys.exit(pathlib.Path(sys.prefix).resolve() not in home.parents)
PYTHON
}

use_venv() {
  local extra=$1 version=${2:-} state stamp
  VENV="$ROOT/.venv${version:+-$version}"
  VENV_PYTHON="$VENV/bin/python"
  if command -v flock >/dev/null 2>&1; then
    # Two scripts at once: the second waits. The lock ends with this process, however it ends.
    exec 9>"$VENV.lock"
    flock -n 9 || { say "waiting for another script that is setting up ${VENV##*/}"; flock 9; }
  fi
  stamp=$(cat "$VENV/installed" 2>/dev/null) || stamp=
  if [ -n "$stamp" ] && python_serves "$VENV_PYTHON" "$version" && state=$(venv_state); then
    local dependencies=${stamp%% *} installed=${stamp##* }
    if [ "$dependencies" = "${state%% *}" ] && { [ "$extra" = runtime ] || [ "$extra" = "$installed" ]; }; then
      if [ "$stamp" != "$state $installed" ]; then
        rm -f "$VENV/installed"
        (cd "$ROOT" && pip_install --no-index --no-build-isolation --force-reinstall --no-deps .) && venv_works ||
          die "the package does not install; see above"
        printf '%s %s\n' "$state" "$installed" >"$VENV/installed"
      fi
      exec 9>&-
      return
    fi
  fi
  say "setting up ${VENV##*/} (the first time this downloads JAX: a minute or two)"
  # An environment that another tool made is filled, not replaced; one that a killed run left half-made is made anew.
  local fresh= status=0
  if [ -e "$VENV/building" ] || ! python_serves "$VENV_PYTHON" "$version" || ! "$VENV_PYTHON" -m pip --version >/dev/null 2>&1
  then
    make_venv "$version"
    fresh=yes
  fi
  fill_venv "$extra" || status=$?
  if [ "$status" = 2 ] && [ -z "$fresh" ]; then
    say "what is installed in ${VENV##*/} does not work; making it anew"
    make_venv "$version"
    status=0
    fill_venv "$extra" || status=$?
  fi
  [ "$status" = 0 ] || die "setting up ${VENV##*/} failed; see above, then run this again"
  exec 9>&-
}
