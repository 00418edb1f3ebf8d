#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that rowsmith builds with, and nothing else; does nothing when they
# are there. Further packages may be named as arguments (.ci/run asks for the formatter).
set -euo pipefail

packages=(
  g++ cmake ninja-build
  libsqlitecpp-dev libsqlite3-dev sqlite3 libspdlog-dev libcli11-dev nlohmann-json3-dev
  libxxhash-dev libboost-context-dev libgtest-dev libgmock-dev libbenchmark-dev
  "$@"
)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: not a Debian system; install what these packages hold: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: every package is installed"
  exit 0
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing: ${missing[*]}" >&2
    echo "setup: not root and no sudo here; run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${root[@]}" apt-get update -q
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}"
