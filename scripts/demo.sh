#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a bare machine to tuned softmax: builds, tunes three awkward row lengths, and lets two fresh
# processes use what was remembered. On the first GPU, or on the host device where there is none.
# ROWSMITH_DEVICE chooses another; ROWSMITH_CUDA is passed to the build.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh tune quickstart

cache=build/demo-cache
rm -rf "$cache"
export ROWSMITH_CACHE_DIR=$PWD/$cache

echo
if [ -z "${ROWSMITH_DEVICE:-}" ]; then
  if reason=$(build/tune why -S 1 -H 1 -d f32 --device 0 2>&1 >/dev/null); then
    export ROWSMITH_DEVICE=0
  else
    export ROWSMITH_DEVICE=host
    echo "No GPU serves here: ${reason##*tune: }"
  fi
fi
if [ "$ROWSMITH_DEVICE" = host ]; then
  echo "== Tuning on the host device: right results, few rows, times of a CPU emulation =="
  rows=2,4
  budget=60s
else
  echo "== Tuning on GPU $ROWSMITH_DEVICE =="
  rows=4096
  budget=90s
fi
cols=257,1000,50257
status=0
build/tune softmax -S "$rows" -H "$cols" -d f16,f32 --effort quick --budget "$budget" || status=$?
[ "$status" -le 1 ] || exit "$status" # 1: the budget left some problems to the default config

for process in first second; do
  echo
  echo "== The $process fresh process calls softmax =="
  build/quickstart "${rows##*,}" ${cols//,/ }
done

echo
echo "What to do next:"
next() { printf '  %-80s %s\n' "$1" "$2"; }
next "build/tune list --cache $cache" "every winner with its time"
next "build/tune why -S ${rows##*,} -H 1000 -d f16 --device $ROWSMITH_DEVICE --cache $cache" "which config serves, and why"
next "build/tune softmax -S 16 -H 300 -d f32 --device $ROWSMITH_DEVICE" "your shapes, for your programs"
next "build/tune doctor" "devices, compilers, cache"
next "examples/quickstart.cpp" "the program that ran above"
next "scripts/test.sh" "build and run the tests"
