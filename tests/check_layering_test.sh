#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Breaks each edge once in a small tree and expects check_layering.sh to say so.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_layering.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

fresh() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{include/rowsmith,kernel_templates,cache,runtime,tuner,examples}
  echo '#include "simt.cuh"' >"$tree/kernel_templates/row.cuh"
  echo 'int lane = threadIdx.x;' >"$tree/kernel_templates/simt.cuh"
  echo '#include <cuda.h>' >"$tree/runtime/cuda_api.h"
  echo '#include "runtime/cuda_api.h"' >"$tree/runtime/cuda_api.cpp"
}
# breaks TEXT FILE MESSAGE: with TEXT added to FILE the check fails and says MESSAGE.
breaks() {
  fresh
  echo "$1" >>"$tree/$2"
  if output=$("$check" "$tree" 2>&1) || ! grep -qF "$3" <<<"$output"; then
    echo "not noticed: '$1' in $2 ($output)" >&2
    failures=$((failures + 1))
  fi
}

fresh
"$check" "$tree"
breaks '#include "tuner/search.h"' runtime/a.cpp 'runtime may not include'
breaks '#include <rowsmith/tuner.h>' runtime/a.cpp 'includes the tuner'
breaks '#include "runtime/log.h"' cache/a.cpp 'cache may not include'
breaks '#include "cache/key.h"' kernel_templates/a.cpp 'kernel_templates may not include'
breaks '#include "runtime/log.h"' include/rowsmith/a.h 'include may not include'
breaks '#include "runtime/log.h"' examples/a.cpp 'examples may not include'
breaks '#include <cuda.h>' runtime/b.cpp 'cuda.h is included by'
breaks '#include <cuda.h>' cache/a.cpp 'cache/a.cpp includes CUDA'
breaks '#include <sqlite3.h>' include/rowsmith/a.h 'includes CUDA or SQLite'
breaks '#include "params.h"' kernel_templates/row.cuh 'row.cuh includes'
breaks '#include <cuda_fp16.h>' kernel_templates/row.cuh 'row.cuh includes more than'
breaks 'int t = threadIdx.x;' kernel_templates/row.cuh 'touches thread indices'
breaks '__syncthreads();' kernel_templates/row.cuh 'touches thread indices'
exit "$failures"
