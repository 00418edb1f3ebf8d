#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# On a machine with a GPU, from a folder that gpu_stage.sh made ($STAGE, default .gpu): runs the
# tests, the sanitizer on a sample, the tuner on the table of shapes, the benches and the
# quickstart. Results go to ${OUT:-$STAGE/out}: JSON, logs (one archive where they are many) and
# summary.txt. Exit status 1 if anything failed.
#   scripts/gpu_check.sh [tests] [sanitizer] [tune] [bench] [quickstart]     default: these
#   scripts/gpu_check.sh space          every config of the space but policies, on all cores
set -uo pipefail
cd "$(dirname "$0")/.." || exit

stage=$(realpath "${STAGE:-.gpu}")
out=${OUT:-$stage/out}
mkdir -p "$out"
out=$(realpath "$out")
logs=$out/logs
summary=$out/summary.txt
rm -rf "$logs"
mkdir -p "$logs"
: >"$summary"
steps=${*:-tests sanitizer tune bench quickstart}

# Nothing of the caller's settings or cache decides what is checked.
unset ROWSMITH_DEVICE ROWSMITH_ON_MISS ROWSMITH_PIN ROWSMITH_SITE_CACHE ROWSMITH_READONLY
ROWSMITH_CACHE_DIR=$(mktemp -d)
export ROWSMITH_CACHE_DIR
trap 'rm -rf "$ROWSMITH_CACHE_DIR"' EXIT

say() { echo "$*" | tee -a "$summary"; }

# check NAME SECONDS COMMAND..: runs it into logs/NAME.log (its standard output into $stdout, where
# that is set); a failure is shown, and counted at the end.
check() {
  local name=$1 seconds=$2 status=0 start=$SECONDS
  shift 2
  : >"$logs/$name.log"
  timeout "$seconds" "$@" >>"${stdout:-$logs/$name.log}" 2>>"$logs/$name.log" || status=$?
  if [ "$status" -eq 0 ]; then
    say "ok      $name ($((SECONDS - start)) s) $(counts "$logs/$name.log")"
    return 0
  fi
  say "FAILED  $name: status $status after $((SECONDS - start)) s $(counts "$logs/$name.log")"
  grep -E '^\[  FAILED  \]|Failure$|ERROR SUMMARY|^=+ (Error|Invalid)' "$logs/$name.log" | head -20
  tail -n 25 "$logs/$name.log"
  return 1
}

# GoogleTest's last lines, "57 passed, 2 skipped".
counts() {
  awk '/^\[  PASSED  \]/ { print $4 " passed" }
       /^\[  SKIPPED \] [0-9]+ tests?/ { print $4 " skipped" }' "$1" | paste -sd, -
}

# gpu_test NAME PROGRAM ARGUMENT..: what needs a GPU (the host device has scripts/test.sh).
gpu_test() {
  local name=$1 program=$stage/bin/$2
  shift 2
  check "$name" 560 "$program" --gtest_filter='-Host/*:Host*:ApiHost*:CliHost*' \
    --gtest_output="xml:$logs/$name.xml" --gtest_brief=1 "$@"
  if grep -qE 'no device:|no NVRTC library' "$logs/$name.log"; then
    say "FAILED  $name: skipped tests for want of a GPU"
  fi
}

# The tests that compile most run in parts, side by side: NVRTC takes one program a process.
run_tests() {
  local program name part parts=7
  for name in kernel_conformance_test kernel_cases_test; do
    for ((part = 0; part < parts; ++part)); do
      GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part gpu_test "${name}_$part" "$name" &
    done
  done
  for program in "$stage"/bin/*_test; do
    name=$(basename "$program")
    case "$name" in
      kernel_conformance_test | kernel_cases_test | kernel_space_test) ;;
      *) gpu_test "$name" "$name" ;;
    esac
  done
  wait
}

run_space() {
  local dtype cols
  for cols in 20011 4099 1000 257 17; do
    for dtype in f16 bf16 f8e4m3 f32 f64; do
      while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
      ROWSMITH_TEST_FULL=1 gpu_test "space_${dtype}_$cols" kernel_space_test \
        --gtest_filter="Cuda/*/${dtype}_$cols" &
    done
  done
  wait
}

# sanitize TOOL NAME PROGRAM FILTER, behind. Refused calls of the driver are part of the tests.
sanitize() {
  check "$1_$2" 560 "$sanitizer" --tool "$1" --report-api-errors no --error-exitcode 9 "$stage/bin/$3" \
    --gtest_filter="$4" --gtest_brief=1 &
}

# A few cases that run each family at odd widths, misaligned and with ragged row counts.
run_sanitizer() {
  local sanitizer tool
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [ ! -x "$sanitizer" ]; then
    say "absent  compute-sanitizer"
    return
  fi
  # The families for long rows: split_row also keeps parts where results will be, and the blocks of
  # grid_row meet (its own tests: streams, replays, launches that do not fit together).
  for tool in memcheck racecheck initcheck; do
    sanitize "$tool" cases kernel_cases_test 'Cuda/*A11_*:Cuda/*A18_*:Cuda/*A29_*:Cuda/*A24_*'
    sanitize "$tool" long kernel_conformance_test 'Cuda/LongRow*f16'
    sanitize "$tool" grid grid_row_cuda_test '*'
  done
  wait
}

run_tune() {
  check doctor 60 "$stage/bin/tune" doctor
  local shapes=(-S 4096 -H "256,257,1000,1024,4096,8192" -d "f32,f16,bf16")
  rm -f "$out"/table*.json
  stdout=$out/table.json check tune 400 \
    "$stage/bin/tune" softmax --device 0 "${shapes[@]}" --budget "${TUNE_BUDGET:-240s}" --json
  stdout=$out/table_again.json check tune_again 60 \
    "$stage/bin/tune" softmax --device 0 "${shapes[@]}" --json
  [ -s "$out/table.json" ] && [ -s "$out/table_again.json" ] || return
  command -v python3 >/dev/null && python3 - "$out/table.json" "$out/table_again.json" <<'PY' |
import json, sys
table = json.load(open(sys.argv[1]))
print(f"{'dtype':6} {'S x H':>12} {'floor':>9} {'winner':>9} {'default':>9} us  tried  config")
for p in table["problems"]:
    us = [f"{(p.get(k) or 0) / 1000:9.2f}" for k in ("floor_ns", "median_ns", "default_ns")]
    shape = f"{p['S']} x {p['H']}"
    print(f"{p['dtype']:6} {shape:>12} {' '.join(us)}     {p.get('candidates', 0):5}  "
          f"{p.get('config', '')} [{p['status']}, {p.get('verdict', '')}]")
again = [p["status"] for p in json.load(open(sys.argv[2]))["problems"]]
print(f"elapsed {table['elapsed_s']} s; a second run: {again.count('kept')} of {len(again)} kept")
PY
    tee -a "$summary"
}

run_bench() {
  local program name
  for program in "$stage"/bin/*_bench; do
    name=$(basename "$program")
    check "$name" 120 "$program" --benchmark_out="$out/$name.json" --benchmark_out_format=json
  done
}

run_quickstart() {
  local turn
  for turn in first second; do
    check "quickstart_$turn" 120 "$stage/bin/quickstart" 4096 257 1000 50257 &&
      cat "$logs/quickstart_$turn.log"
  done
}

command -v nvidia-smi >/dev/null &&
  say "$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader)"
for step in $steps; do
  case "$step" in
    tests | space | sanitizer | tune | bench | quickstart) "run_$step" ;;
    *)
      say "gpu_check: no step '$step'"
      exit 2
      ;;
  esac
done

# Many small files travel badly.
if [ "$(find "$out" -type f | wc -l)" -gt 8 ]; then
  tar -C "$out" -czf "$out/logs.tar.gz" logs && rm -rf "$logs"
fi
failures=$(grep -c '^FAILED' "$summary")
say "$failures failed; results in $out"
[ "$failures" -eq 0 ]
