#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the edges of docs/architecture.md in the tree given as argument: who may include whom, one
# file each for cuda.h, nvrtc.h and SQLite, and device text that keeps to itself.
set -euo pipefail
cd "${1:?usage: check_layering.sh <source tree>}"

failures=0
complain() {
  echo "layering: $*" >&2
  failures=$((failures + 1))
}

# may_include FOLDER PREFIX..: quoted includes of the folder's files name nothing but these.
may_include() {
  local folder=$1 pattern line
  shift
  [ -d "$folder" ] || return 0
  pattern=$(IFS='|'; echo "$*")
  while IFS= read -r line; do
    complain "$folder may not include this: $line"
  done < <(grep -rnE --include='*.h' --include='*.cpp' --include='*.c' '^ *# *include "' "$folder" |
    grep -vE "# *include \"($pattern)" || true)
}
may_include include '@nothing@'
may_include kernel_templates kernel_templates/ '[a-z0-9_]+_text\.h"'
may_include cache cache/
may_include runtime runtime/ cache/ kernel_templates/ '[a-z0-9_]+_text\.h"'
may_include tuner tuner/ runtime/ cache/ kernel_templates/
may_include examples '[a-z0-9_]+\.h"'

# including PATTERN FOLDER..: the files that include what the pattern names.
including() {
  local pattern=$1
  shift
  grep -rlE --include='*.h' --include='*.cpp' --include='*.c' --include='*.cuh' \
    "^ *# *include [<\"]($pattern)" "$@" 2>/dev/null | sort || true
}
# at_most_one WHAT PATTERN: counts a unit's header and source as one.
at_most_one() {
  local units
  units=$(including "$2" include kernel_templates cache runtime tuner bench python |
    sed -E 's/\.(h|cpp)$//' | sort -u)
  [ "$(echo "$units" | grep -c .)" -le 1 ] || complain "$1 is included by" $units
}
at_most_one cuda.h 'cuda\.h[>"]'
at_most_one nvrtc.h 'nvrtc\.h[>"]'
at_most_one SQLite 'SQLiteCpp/|sqlite3\.h'
for file in $(including '(cuda|nvrtc|cuda_[a-z0-9_]+|SQLiteCpp/.*|sqlite3)\.h[>"]' include kernel_templates); do
  complain "$file includes CUDA or SQLite"
done
for file in $(including '(cuda|nvrtc|cuda_[a-z0-9_]+)\.h[>"]' cache); do
  complain "$file includes CUDA"
done
# The public tuner is the tuner too.
for folder in kernel_templates cache runtime; do
  for file in $(grep -rl '^ *# *include <rowsmith/tuner.h>' "$folder" || true); do
    complain "$file includes the tuner"
  done
done

# Device text: only device text of its own folder, and no thread index outside simt*.cuh.
while IFS= read -r file; do
  while IFS= read -r name; do
    [ -f "$(dirname "$file")/$name" ] || complain "$file includes \"$name\", which is not beside it"
  done < <(sed -nE 's/^ *# *include "([^"]*)".*/\1/p' "$file")
  if grep -E '^ *# *include' "$file" | grep -vE '# *include "[a-z0-9_]+\.cuh"' >&2; then
    complain "$file includes more than .cuh files of its folder"
  fi
  case $(basename "$file") in simt*.cuh) continue ;; esac
  # Comments may speak of what the code may not use.
  if sed 's,//.*,,' "$file" | grep -nE '\b(threadIdx|blockIdx|blockDim|gridDim|warpSize)\b|__(syncthreads|syncwarp|shfl|ballot|activemask|match)|%(tid|ctaid|ntid|laneid|warpid)\b|\b(bar|barrier)\.(sync|cta|cluster)|shfl\.sync' >&2; then
    complain "$file touches thread indices, barriers or shuffles; only simt*.cuh may"
  fi
done < <(find kernel_templates runtime -name '*.cuh' 2>/dev/null | sort)

if [ "$failures" -gt 0 ]; then
  echo "layering: $failures broken edges" >&2
  exit 1
fi
echo "layering: every edge holds"
