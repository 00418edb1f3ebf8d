# SPDX-License-Identifier: Apache-2.0
"""Our own kernels: the floor (plain copies) and the fixed-width softmax that rowsmith replaces."""

import ctypes
import os

from nvrtc import Kernels, Nvrtc, arch_of
from provider import Provider, Skip, Variant

_HERE = os.path.dirname(os.path.abspath(__file__))

# (threads, packs of 16 bytes a thread, streaming stores)
COPIES = (
    (256, 1, True), (256, 2, True), (256, 4, True), (512, 4, True), (1024, 1, True),
    (128, 4, True), (256, 1, False), (256, 4, False), (512, 2, False), (64, 4, False),
)
# kernel: (dtype, elements a thread, the H it accepts)
FIXED = {
    "safe_f32x4": ("f32", 4, [2**k for k in range(5, 13)]),
    "online_f32x4": ("f32", 4, [2**k for k in range(7, 13)]),
    "safe_f16x8": ("f16", 8, [2**k for k in range(5, 14)]),
}


def _text(name):
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        return file.read()


def copy_entry(threads, packs, streaming):
    return f"copy_t{threads}_p{packs}_{'cs' if streaming else 'wb'}"


def copy_text():
    """The program with an entry for each of COPIES."""
    entries = [f"COPY({copy_entry(*copy)}, {copy[0]}, {copy[1]}, {str(copy[2]).lower()})"
               for copy in COPIES]
    return _text("copy.cu") + "\n".join(entries) + "\n"


class Floor(Provider):
    name = "floor"

    def open(self, torch):
        self._torch = torch
        self._kernels = Kernels(Nvrtc().compile(copy_text(), "copy.cu", arch_of(torch)))

    def variants(self, problem):
        memcpy = Variant("memcpy", lambda x, y: y.copy_(x), expects="copy")
        return [memcpy] + [self._variant(problem.shape.bytes_moved // 2, copy) for copy in COPIES]

    def _variant(self, size, copy):
        entry, threads, packs = copy_entry(*copy), copy[0], copy[1]
        blocks = max(1, -(-(size // 16) // (threads * packs)))

        def launch(x, y):
            self._kernels.launch(
                entry, blocks, threads, self._torch.cuda.current_stream().cuda_stream,
                ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()),
                ctypes.c_longlong(size))

        return Variant(entry, launch, expects="copy")


class Fixed(Provider):
    name = "fixed"

    def open(self, torch):
        self._torch = torch
        self._nvrtc = Nvrtc()
        self._loaded = {}

    def variants(self, problem):
        dtype, rows, cols = problem.shape
        served = [name for name, (d, _, accepted) in FIXED.items()
                  if d == dtype and cols in accepted]
        if not served:
            raise Skip("not a case of its switch")
        if cols not in self._loaded:
            self._loaded[cols] = Kernels(self._nvrtc.compile(
                _text("fixed.cu"), "fixed.cu", arch_of(self._torch), [f"-DROW_LENGTH={cols}"]))
        return [self._variant(name, rows, cols) for name in served]

    def _variant(self, name, rows, cols):
        kernels, threads = self._loaded[cols], cols // FIXED[name][1]

        def launch(x, y):
            kernels.launch(name, rows, threads, self._torch.cuda.current_stream().cuda_stream,
                           ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()))

        return Variant(name, launch)
