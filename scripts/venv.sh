# Sourced by the scripts beside it: `use_venv EXTRA [X.Y]` makes or reuses a virtual environment of this checkout.
#
# EXTRA is `runtime` or an extra of pyproject.toml; X.Y asks for that Python and uses .venv-X.Y instead of .venv.
# Afterwards VENV_PYTHON is the environment's interpreter, and the package in it is this checkout (an editable
# install). A second call does nothing until pyproject.toml changes, or the checkout is moved.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# python_serves COMMAND [X.Y]: it runs, is 3.11 or newer (or exactly X.Y), and knows venv.
python_serves() {
  "$1" -c 'import sys, venv; sys.exit(not (sys.argv[1:] == ["%d.%d" % sys.version_info[:2]]
    or sys.argv[1:] == [""] and sys.version_info >= (3, 11)))' "${2:-}" >/dev/null 2>&1
}

# find_python [X.Y]: prints an interpreter. pyenv's commands answer for activated versions only; its folders hold all.
find_python() {
  local candidate pyenv=${PYENV_ROOT:-${HOME:-}/.pyenv}/versions
  for candidate in "python${1:-3}" python python3.{11..15} "$pyenv"/*/bin/python; do
    if python_serves "$candidate" "${1:-}"; then command -v "$candidate"; return; fi
  done
  die "no Python ${1:-3.11 or newer} found: looked for python3, python, python3.11 ... and below $pyenv"
}

# make_venv [X.Y]: an environment with pip and nothing else.
make_venv() {
  local python
  python=$(find_python "${1:-}") || exit 1
  rm -rf "$VENV" && mkdir "$VENV" && echo building >"$VENV/state" || exit 1
  "$python" -m venv "$VENV" >/dev/null 2>&1 && return
  # Some systems ship Python and pip without ensurepip: let the outer pip fill the environment.
  "$python" -m venv --without-pip "$VENV" || die "$python cannot make a virtual environment"
  "$python" -m pip --python "$VENV_PYTHON" install --quiet pip || die "$python has no pip that can fill $VENV"
}

use_venv() {
  local extra=$1 version=${2:-} target=. wanted state
  VENV="$ROOT/.venv${version:+-$version}"
  VENV_PYTHON="$VENV/bin/python"
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$VENV.lock"  # two scripts at once: the second waits; the lock ends with its process, however that ends
    flock -n 9 || { say "waiting for another script that is setting up ${VENV##*/}"; flock 9; }
  fi
  wanted="$(cksum <"$ROOT/pyproject.toml") $ROOT"
  state=$(cat "$VENV/state" 2>/dev/null) || state=
  if [ "$state" = "$wanted $extra" ] || { [ "$extra" = runtime ] && [ "${state% *}" = "$wanted" ]; } &&
    python_serves "$VENV_PYTHON" "$version"; then
    exec 9>&-
    return
  fi
  say "setting up ${VENV##*/} (the first time this downloads JAX: a minute or two)"
  # A run that was killed leaves `building` behind: what is there may be half of anything.
  if [ "$state" = building ] || ! python_serves "$VENV_PYTHON" "$version" || ! "$VENV_PYTHON" -m pip -V >/dev/null 2>&1
  then make_venv "$version"; fi
  echo building >"$VENV/state"
  [ "$extra" = runtime ] || target=".[$extra]"
  # The build backend is in the environment, so that a changed pyproject.toml needs no network unless its packages do.
  if (cd "$ROOT" && "$VENV_PYTHON" -m pip install -qq "hatchling>=1.27" editables &&
    "$VENV_PYTHON" -m pip install -qq --no-build-isolation --editable "$target") >&2; then
    echo "$wanted $extra" >"$VENV/state"
  else
    rm "$VENV/state"  # pip gave up by itself (no network, say): what was there is still whole
    die "setting up ${VENV##*/} failed; see above, then run this again"
  fi
  exec 9>&-
}
