# SPDX-License-Identifier: Apache-2.0
"""Our own kernels: the floor (plain copies) and the fixed-width softmax that rowsmith replaces."""

import ctypes
import os

from nvrtc import Kernels, Nvrtc, arch_of
from provider import Provider, Skip, Variant

_HERE = os.path.dirname(os.path.abspath(__file__))

# (threads, packs of 16 bytes a thread, streaming stores): those of kernel_templates/copy.cpp.
COPIES = (
    (256, 1, True), (256, 2, True), (256, 4, True), (512, 4, True), (1024, 1, True),
    (128, 4, True), (256, 1, False), (256, 4, False), (512, 2, False), (64, 4, False),
)


def _powers(first, last):
    return [2**k for k in range(first.bit_length() - 1, last.bit_length())]


# kernel: (dtype, elements a thread, the H it accepts)
FIXED = {
    "naive_f32": ("f32", 1, _powers(32, 1024)),
    "naive_f32x4": ("f32", 4, _powers(32, 4096)),
    "safe_f32": ("f32", 1, _powers(32, 1024)),
    "safe_f32x4": ("f32", 4, _powers(32, 4096)),
    "online_f32": ("f32", 1, _powers(32, 1024)),
    "online_f32x4": ("f32", 4, _powers(128, 4096)),
    "safe_f16": ("f16", 1, _powers(32, 1024)),
    "safe_f16x2": ("f16", 2, _powers(32, 2048)),
    "safe_f16x8": ("f16", 8, _powers(32, 8192)),
}


def _text(name):
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        return file.read()


def copy_entry(copy, early):
    threads, packs, streaming = copy
    return f"copy_t{threads}_p{packs}_{'cs' if streaming else 'default'}{'_early' * early}"


def copy_text():
    """The program with two entries for each of COPIES: plain and early."""
    entries = [f"COPY({copy_entry(copy, early)}, {copy[0]}, {copy[1]}, {str(copy[2]).lower()}, "
               f"{str(early).lower()})" for copy in COPIES for early in (False, True)]
    return _text("copy.cu") + "\n".join(entries) + "\n"


class Floor(Provider):
    name = "floor"

    def open(self, torch):
        self._torch = torch
        self._kernels = Kernels(Nvrtc().compile(copy_text(), "copy.cu", arch_of(torch)))
        early_too = torch.cuda.get_device_capability() >= (9, 0)
        self._forms = (False, True) if early_too else (False,)

    def variants(self, problem):
        size = problem.shape.bytes_moved // 2

        def memcpy(x, y):
            self._kernels.copy(self._stream(), x.data_ptr(), y.data_ptr(), size)

        return [Variant("memcpy", memcpy, expects="copy")] + [
            self._variant(size, copy, early) for early in self._forms for copy in COPIES]

    def _stream(self):
        return self._torch.cuda.current_stream().cuda_stream

    def _variant(self, size, copy, early):
        threads, packs, _ = copy
        blocks = max(1, -(-(size // 16) // (threads * packs)))
        run = self._kernels.launcher(copy_entry(copy, early), blocks, threads,
                                     ctypes.c_longlong(size), early=early)

        def launch(x, y):
            run(self._stream(), x.data_ptr(), y.data_ptr())

        return Variant(copy_entry(copy, early), launch, expects="copy")


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
        run = self._loaded[cols].launcher(name, rows, cols // FIXED[name][1])

        def launch(x, y):
            run(self._torch.cuda.current_stream().cuda_stream, x.data_ptr(), y.data_ptr())

        return Variant(name, launch)
