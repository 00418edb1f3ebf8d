# SPDX-License-Identifier: Apache-2.0
"""The kernel of provider_triton.py; in a file of its own, because Triton reads its source."""

import triton
import triton.language as tl


@triton.jit
def softmax_row(x, y, cols, wide: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < cols
    v = tl.load(x + row * cols + at, mask=inside, other=-float("inf")).to(wide)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + row * cols + at, (e / tl.sum(e, axis=0)).to(y.dtype.element_ty), mask=inside)
