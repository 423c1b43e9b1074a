#!/usr/bin/env bash
# The paper's Figure 2 from a fresh checkout: sets up .venv when needed, then runs `linbet reproduce figure2`.
# Arguments are passed on, e.g. --seeds 100 --out results/figure2 (see --help).
set -euo pipefail
# shellcheck source=scripts/venv.sh
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"
use_venv runtime
exec "$VENV_PYTHON" -m linbet_jax reproduce figure2 "$@"
