#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# On a machine with a GPU, from a folder that gpu_stage.sh made ($STAGE, default .gpu): runs the
# tests, the sanitizer on a sample, the tuner on the table of shapes, the benches and the
# quickstart. Results go to ${OUT:-$STAGE/out}: JSON, logs (one archive where they are many) and
# summary.txt. Exit status 1 if anything failed.
#   scripts/gpu_check.sh [tests] [sanitizer] [tune] [bench] [quickstart]     default: all
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
failures=0

# Nothing of the caller's settings or cache decides what is checked.
unset ROWSMITH_DEVICE ROWSMITH_ON_MISS ROWSMITH_PIN ROWSMITH_SITE_CACHE ROWSMITH_READONLY
ROWSMITH_CACHE_DIR=$(mktemp -d)
export ROWSMITH_CACHE_DIR
trap 'rm -rf "$ROWSMITH_CACHE_DIR"' EXIT

say() { echo "$*" | tee -a "$summary"; }

# check NAME SECONDS COMMAND..: runs it into logs/NAME.log (its standard output into $stdout, where
# that is set); a failure is shown and counted.
check() {
  local name=$1 seconds=$2 status=0 start=$SECONDS
  shift 2
  : >"$logs/$name.log"
  timeout "$seconds" "$@" >>"${stdout:-$logs/$name.log}" 2>>"$logs/$name.log" || status=$?
  if [ "$status" -eq 0 ]; then
    say "ok      $name ($((SECONDS - start)) s) $(counts "$logs/$name.log")"
    return 0
  fi
  failures=$((failures + 1))
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

run_tests() {
  local program name
  for program in "$stage"/bin/*_test; do
    name=$(basename "$program")
    # The host device has its own run in scripts/test.sh.
    check "$name" 500 "$program" --gtest_filter='-Host/*:Host*:ApiHost*:CliHost*' \
      --gtest_output="xml:$logs/$name.xml" --gtest_brief=1
    if grep -qE 'no device:|no NVRTC library' "$logs/$name.log"; then
      failures=$((failures + 1))
      say "FAILED  $name: skipped tests for want of a GPU"
    fi
  done
}

# A few cases that run each family at odd widths, misaligned and with ragged row counts.
run_sanitizer() {
  local sanitizer tool
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [ ! -x "$sanitizer" ]; then
    say "absent  compute-sanitizer"
    return
  fi
  for tool in memcheck racecheck; do
    check "sanitizer_$tool" 300 "$sanitizer" --tool "$tool" --error-exitcode 9 \
      "$stage/bin/kernel_cases_test" --gtest_filter='Cuda/*A11_*:Cuda/*A18_*:Cuda/*A29_*:Cuda/*A24_*' \
      --gtest_brief=1
  done
  # The families for long rows; split_row also keeps parts where results will be.
  for tool in memcheck racecheck initcheck; do
    check "sanitizer_long_$tool" 300 "$sanitizer" --tool "$tool" --error-exitcode 9 \
      "$stage/bin/kernel_conformance_test" --gtest_filter='Cuda/LongRow*f16' --gtest_brief=1
  done
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
    tests | sanitizer | tune | bench | quickstart) "run_$step" ;;
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
say "$failures failed; results in $out"
[ "$failures" -eq 0 ]
