#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds and runs every test. The last lines count them by label, then in all.
# ROWSMITH_CUDA is passed to the build; arguments go to ctest (-L unit, -R Cli).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
log=build/ctest.log
status=0
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" "$@" 2>&1 |
  tee "$log" || status=$?

# "  12/345 Test  #12: Name ......   Passed    0.01 sec" and "unit    =  1.20 sec*proc (300 tests)".
echo
awk '
  /^ *[0-9]+\/[0-9]+ Test +#/ {
    if (/\*\*\*Skipped|Not Run \(Disabled\)/) ++skipped
    else if (/ Passed +[0-9.]+ sec/) ++passed
    else ++failed
  }
  /^[a-z_]+ +=.*sec\*proc \([0-9]+ tests?\)/ {
    count = $0
    sub(/.*\(/, "", count)
    sub(/\)/, "", count)
    print "label " $1 ": " count
  }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
' "$log"
exit "$status"
