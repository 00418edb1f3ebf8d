# SPDX-License-Identifier: Apache-2.0
"""Triton as its tutorials write it: one program a row, the row padded to a power of two."""

import json
import os
import subprocess
import sys

from provider import Absent, Provider, Skip, Variant

_HERE = os.path.dirname(os.path.abspath(__file__))
_MOST_WORKERS = 16  # each takes a gigabyte or two

WARPS = (4, 8, 16, 32)
_MAX_BLOCK = 131072
# More registers than a thread has: such a program spills, and takes minutes to compile.
_MAX_PER_THREAD = 256


def block_of(cols):
    return 1 << (cols - 1).bit_length()


def warps_for(block):
    """The warp counts worth compiling: each thread has an element, and not too many. Empty where
    the row is too long."""
    if block > _MAX_BLOCK:
        return []
    return [w for w in WARPS if (w == WARPS[0] or block >= 32 * w) and
            block <= 32 * w * _MAX_PER_THREAD]


def programs(shapes):
    """[[dtype, H, warps]] that the shapes need, each once and in their order."""
    return [list(program) for program in dict.fromkeys(
        (s.dtype, s.cols, w) for s in shapes if not s.dtype.startswith("f8")
        for w in warps_for(block_of(s.cols)))]


class Triton(Provider):
    name = "triton"

    def open(self, torch):
        try:
            import triton.language as tl
            from triton_kernel import softmax_row
        except ImportError as error:
            raise Absent(f"no Triton: {error}") from None
        self._kernel, self._f32, self._f64 = softmax_row, tl.float32, tl.float64

    def foresee(self, shapes):
        """Compiles into Triton's own cache, in processes of their own. Each has a context on the
        GPU, so all have ended before anything is timed. What they failed at is compiled then."""
        needed = programs(shapes)
        count = min(_MOST_WORKERS, os.cpu_count() or 1, len(needed))
        workers = [subprocess.Popen(
            [sys.executable, os.path.join(_HERE, "triton_ahead.py"), json.dumps(needed[at::count])],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for at in range(count)]
        try:
            for worker in workers:
                worker.wait()
        finally:
            for worker in workers:
                worker.kill()  # does nothing to one that has ended
                worker.wait()

    def variants(self, problem):
        shape = problem.shape
        if shape.dtype.startswith("f8"):
            raise Skip("not written for fp8")
        block = block_of(shape.cols)
        warps = warps_for(block)
        if not warps:
            raise Skip(f"a row is one block, of {_MAX_BLOCK} at most")
        return [self._variant(shape, block, count) for count in warps]

    def _variant(self, shape, block, warps):
        wide = self._f64 if shape.dtype == "f64" else self._f32

        def launch(x, y):
            self._kernel[(shape.rows,)](x, y, shape.cols, wide=wide, block=block, num_warps=warps)

        return Variant(f"{warps} warps", launch)
