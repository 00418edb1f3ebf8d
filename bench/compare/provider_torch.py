# SPDX-License-Identifier: Apache-2.0
"""PyTorch: its own kernel into a given output, and torch.compile writing into one."""

from provider import Absent, Provider, Skip, Variant


def _need_wide(shape):
    if shape.dtype.startswith("f8"):
        raise Skip("no softmax in fp8")


class Torch(Provider):
    name = "torch"

    def open(self, torch):
        self._softmax = torch.softmax

    def variants(self, problem):
        _need_wide(problem.shape)
        return [Variant("softmax(out=)", lambda x, y: self._softmax(x, -1, out=y))]


class Compile(Provider):
    name = "compile"

    def open(self, torch):
        try:
            import torch._dynamo as dynamo
        except ImportError as error:
            raise Absent(f"torch.compile: {error}") from None
        self._torch, self._dynamo = torch, dynamo

    def variants(self, problem):
        _need_wide(problem.shape)
        self._dynamo.reset()  # a shape's own program, never one made general by an earlier shape

        torch = self._torch

        @torch.compile(dynamic=False)
        def softmax_into(a, o):
            o.copy_(torch.softmax(a, -1))

        def launch(x, y):
            with torch.no_grad():
                softmax_into(x, y)

        return [Variant("compile", launch)]
