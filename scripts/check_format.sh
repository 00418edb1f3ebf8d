#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails, naming the lines, where a source is not as .clang-format has it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh clang-format-14 >/dev/null
find bench cache examples include kernel_templates runtime tests tuner -type f \
  \( -name '*.h' -o -name '*.c' -o -name '*.cpp' -o -name '*.cuh' \) -print0 |
  xargs -0 clang-format-14 --dry-run -Werror
echo "format: every source is formatted"
