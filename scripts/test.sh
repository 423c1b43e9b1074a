#!/usr/bin/env bash
# All checks of the project: lint, format, types, tests, benchmarks' smoke runs. Sets up .venv when needed.
# Usage: scripts/test.sh [--quick] [--python X.Y] [pytest arguments]
# --quick leaves out the slow tests and the benchmarks: two minutes on two free cores.
set -euo pipefail
# shellcheck source=scripts/venv.sh
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

quick='' version='' marked=()
while :; do
  case "${1:-}" in
    --quick) quick=yes marked=(-m "not slow"); shift ;;
    --python) version=${2:-}; [ -n "$version" ] || die "--python needs a version, e.g. --python 3.13"; shift 2 ;;
    --python=*) version=${1#--python=}; shift ;;
    *) break ;;
  esac
done
use_venv test "$version"
cd "$ROOT"

checks=0
flunk() { say "error: $*"; checks=1; }
smoke() {
  local bad=0 benchmark
  for benchmark in benchmarks/*.py; do
    # Only scripts that offer it: helpers beside them have no smoke run.
    if grep -q -e '--smoke' "$benchmark"; then
      "$VENV_PYTHON" "$benchmark" --smoke >/dev/null || { say "error: $benchmark --smoke failed"; bad=1; }
    fi
  done
  return "$bad"
}
smoked=''
if [ -z "$quick" ]; then smoke & smoked=$!; fi  # beside the checks, which use one core, and the first tests
"$VENV_PYTHON" -m ruff check --quiet . || flunk "ruff check found the above"
"$VENV_PYTHON" -m ruff format --check --quiet . || flunk "not formatted; run: ${VENV##*/}/bin/ruff format ."
"$VENV_PYTHON" -m mypy --no-error-summary || flunk "mypy found the above"
# The report's test drives a browser. In CI one is installed where there is none; elsewhere the test does without.
if [ -n "${CI:-}" ]; then bash scripts/browser.sh >/dev/null || flunk "no browser for the report's test"; fi
[ "$checks" = 0 ] || say "error: a check before the tests failed (above); this run fails whatever the tests say"

status=0
"$VENV_PYTHON" -m pytest -n 2 --dist loadfile --no-loadscope-reorder --quiet "${marked[@]}" "$@" || status=$?
if [ -n "$smoked" ]; then wait "$smoked" || { say "error: a benchmark's smoke run failed (above the tests)"; checks=1; }; fi
[ "$status" = 0 ] && status=$checks
exit "$status"
