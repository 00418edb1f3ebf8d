#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds here what runs on a GPU machine where nothing can be installed: a Release build of the
# programs and the shared library in .gpu/bin and .gpu/lib, with the shared objects that the target
# may lack. The driver, NVRTC, libc and the C++ runtime are the target's. Then: scripts/gpu_check.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

build='build-gpu'
stage=.gpu
most_mib=56

# shellcheck disable=SC2016  # $ORIGIN is the loader's
# An RPATH, not a RUNPATH: it also serves the libraries that our libraries need.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
  -DROWSMITH_CUDA=ON -DCMAKE_BUILD_RPATH='$ORIGIN/../lib' \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
  -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags
cmake --build "$build"

rm -rf "${stage:?}/bin" "${stage:?}/lib"
mkdir -p "$stage/bin" "$stage/lib"
mapfile -t programs < <(find "$build" -type f -executable -not -path '*/CMakeFiles/*' -not -path '*/install-work/*' \
  \( -name '*_test' -o -name '*_bench' -o -name tune -o -name quickstart \))
cp "${programs[@]}" "$stage/bin"
# The stand-ins for driver and NVML are looked for beside their tests.
find "$build/tests" -name 'libfake_*.so' -exec cp {} "$stage/bin" \;
find "$build" -name 'librowsmith.so*' -exec cp -L {} "$stage/lib" \;

# name => path of what the loader finds, less what the target has in its own, newer version.
ldd "$stage"/bin/* "$stage"/lib/* 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' |
  sort -u |
  while read -r name path; do
    case "$name" in
      libcuda.* | libnvrtc* | libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | \
        libstdc++.so.* | libgcc_s.so.* | librowsmith.so*) ;;
      *) cp -L "$path" "$stage/lib/$name" ;;
    esac
  done
strip --strip-unneeded "$stage"/bin/* "$stage"/lib/*

mib=$(du -sm "$stage/bin" "$stage/lib" | awk '{ sum += $1 } END { print sum }')
echo "staged $(find "$stage/bin" -type f | wc -l) programs and" \
  "$(find "$stage/lib" -type f | wc -l) libraries, $mib MiB, in $stage/"
if [ "$mib" -gt "$most_mib" ]; then
  echo "gpu_stage: more than $most_mib MiB" >&2
  exit 1
fi
