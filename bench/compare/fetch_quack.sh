#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# QuACK for a GPU machine where nothing can be installed: downloads its wheels (Linux x86-64,
# Python 3.12, CUDA 13) with pip and packs what softmax needs into .whl/quack.tar.xz. The wheels are
# 98 MiB, 237 MiB unpacked; packed hard they are about 53. Needs pip, tar and xz; takes minutes.
# There:  python3 -m tarfile -e .whl/quack.tar.xz /tmp/quack
#         export PYTHONPATH=/tmp/quack:/tmp/quack/nvidia_cutlass_dsl/dsl_packages
set -euo pipefail
cd "$(dirname "$0")/../.."

most_mib=56
dsl=4.8.1
# Less what the GPU machine's PyTorch brings: cuda-bindings, einops, numpy, protobuf, torch,
# typing-extensions. torch-c-dlpack-ext serves PyTorch before 2.10 alone.
packages=(quack-kernels==0.6.5 apache-tvm-ffi==0.1.15.post2 "nvidia-cutlass-dsl==$dsl"
  "nvidia-cutlass-dsl-libs-base==$dsl" "nvidia-cutlass-dsl-libs-core==$dsl"
  "nvidia-cutlass-dsl-libs-cu13==$dsl")
# A profiler, headers, and stand-ins for cross-compiling.
unneeded=(nvidia_cutlass_dsl/dsl_packages/iket nvidia_cutlass_dsl/cu13/include
  nvidia_cutlass_dsl/cu13/lib/stubs nvidia_cutlass_dsl/cu13/lib/libcuda_dialect_runtime_static.a
  tvm_ffi/include tvm_ffi/3rdparty tvm_ffi/src)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 \
  --platform manylinux_2_24_x86_64 --platform manylinux2014_x86_64 -d "$work" "${packages[@]}"
du -ch "$work"/*.whl

for wheel in "$work"/*.whl; do
  python3 -m zipfile -e "$wheel" "$work/site"
done
for path in "${unneeded[@]}"; do
  if [ ! -e "$work/site/$path" ]; then
    echo "fetch_quack: the wheels have no $path any more" >&2
    exit 1
  fi
  rm -r "${work:?}/site/$path"
done

mkdir -p .whl
tar -C "$work/site" --sort=name --owner=0 --group=0 --numeric-owner -cf - . |
  xz -T1 --x86 --lzma2=preset=9,dict=256MiB >"$work/quack.tar.xz"
mv "$work/quack.tar.xz" .whl/quack.tar.xz
mib=$(du -m .whl/quack.tar.xz | cut -f1)
echo "packed .whl/quack.tar.xz, $mib MiB"
if [ "$mib" -gt "$most_mib" ]; then
  echo "fetch_quack: more than $most_mib MiB" >&2
  exit 1
fi
