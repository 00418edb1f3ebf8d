# SPDX-License-Identifier: Apache-2.0
"""A process of provider_triton.py: compiles the programs of its argument, [[dtype, H, warps]], into
Triton's cache and launches none."""

import json
import sys

import torch
import triton.language as tl

from gpu import torch_dtype
from provider_triton import block_of
from triton_kernel import softmax_row


def main(text):
    for dtype, cols, warps in json.loads(text):
        kind = torch_dtype(torch, dtype)
        softmax_row.warmup(kind, kind, cols, wide=tl.float64 if dtype == "f64" else tl.float32,
                           block=block_of(cols), num_warps=warps, grid=(1,))


if __name__ == "__main__":
    main(sys.argv[1])
