#!/usr/bin/env bash
# Prints the path of a Chromium that the report's test can drive; installs Debian's package when there is none and it may.
# Status 1, with the reason on stderr, when there is no browser in the end. LINBET_BROWSER names one to use.
set -euo pipefail

find_browser() {
  local name
  for name in "${LINBET_BROWSER:-}" chromium chromium-browser google-chrome-stable google-chrome chrome; do
    [ -n "$name" ] && command -v "$name" 2>/dev/null && return
  done
  return 1
}

find_browser && exit
if [ "${EUID:-1}" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "error: no Chromium found, and installing one takes root and apt-get" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y --no-install-recommends chromium; }
# Package lists that are there may do; old ones name files that are gone.
{ install || { apt-get update && install; }; } >"$log" 2>&1 </dev/null || {
  tail -n 5 "$log" >&2
  echo "error: apt-get could not install chromium" >&2
  exit 1
}
find_browser
