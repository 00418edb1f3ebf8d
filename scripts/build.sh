#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, configures and builds into build/: all of it, or the targets named as arguments.
# ROWSMITH_CUDA=AUTO|ON|OFF in the environment is passed on.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DROWSMITH_CUDA="${ROWSMITH_CUDA:-AUTO}"
if [ $# -gt 0 ]; then
  cmake --build build --target "$@"
else
  cmake --build build
fi
