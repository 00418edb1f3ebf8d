# SPDX-License-Identifier: Apache-2.0
"""QuACK's softmax forward (CuTe DSL), which takes rows of whole 16-byte packs."""

import os

from provider import Absent, Provider, Skip, Variant
from shapes import DTYPE_BYTES

_SERVED = ("f32", "f16", "bf16")


class Quack(Provider):
    name = "quack"

    def open(self, torch):
        # Its store of compiled kernels needs nothing of ours; a fresh process compiles.
        os.environ.setdefault("QUACK_CACHE_ENABLED", "0")
        try:
            import quack
            from quack.softmax import _softmax_fwd
        except Exception as error:  # its import starts a compiler: more than ImportError can come
            raise Absent(f"no QuACK: {type(error).__name__}: {error}") from None
        self._forward, self._version = _softmax_fwd, quack.__version__

    def variants(self, problem):
        dtype, _, cols = problem.shape
        if dtype not in _SERVED:
            raise Skip(f"takes {', '.join(_SERVED)}")
        pack = 16 // DTYPE_BYTES[dtype]
        if cols % pack != 0:
            raise Skip(f"H is not a multiple of {pack}")
        return [Variant(f"quack {self._version}", self._forward)]
