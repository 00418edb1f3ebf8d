# SPDX-License-Identifier: Apache-2.0
"""rowsmith twice: `winner` reads a tuned cache, `default` has an empty one and measures nothing."""

import json
import os
import re
import shutil
import tempfile

from provider import Absent, Provider, Skip, Variant
from rowsmith_c import Library, RowsmithError, Runtime
from shapes import Shape


def out_scale_of(shape):
    """fp8 outputs are scaled: unscaled, a row of many columns rounds to 0. The largest of a row of
    normal values is then below e4m3's 448 for the lengths measured here."""
    return shape.cols / 2 if shape.dtype.startswith("f8") else 1.0


_CONTIGUOUS = re.compile(r"src=\d+,dst=\d+,co=\d+")


def winners_of(path):
    """[(shape, config)] of an export's winners for fresh, contiguous buffers of one dtype."""
    with open(path, encoding="utf-8") as file:
        winners = json.load(file)["winners"]
    return [(Shape(w["in"], w["rows"], w["cols"]), w["config"]) for w in winners
            if w["in"] == w["out"] and _CONTIGUOUS.fullmatch(w["layout"])]


class _Rowsmith(Provider):
    def __init__(self, stage, header):
        self._stage, self._header = stage, header
        self._runtime = None

    def _environment(self):
        raise NotImplementedError

    def open(self, torch):
        self._torch = torch
        try:
            self._library = Library(self._stage, self._header)
            self._runtime = Runtime(self._library, str(torch.cuda.current_device()),
                                    self._environment())
        except (OSError, RowsmithError) as error:
            raise Absent(str(error)) from None

    def variants(self, problem):
        shape = problem.shape
        scale = out_scale_of(shape) if self._library.has_scale else 1.0
        call = self._library.call(shape.rows, shape.cols, shape.dtype, scale)
        call.src, call.dst = problem.x[0].data_ptr(), problem.y[0].data_ptr()
        try:
            self._runtime.prepare(call)
            source, config = self._runtime.explain(call)
        except RowsmithError as error:
            raise Skip(str(error)) from None

        def launch(x, y):
            call.src, call.dst = x.data_ptr(), y.data_ptr()
            call.stream = self._torch.cuda.current_stream().cuda_stream
            self._runtime.run(call)

        return [Variant(config, launch, scale=scale, facts={"source": source})]

    def close(self):
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None


class Winner(_Rowsmith):
    name = "winner"

    def __init__(self, stage, header, cache_dir):
        super().__init__(stage, header)
        self._cache_dir = cache_dir

    def _environment(self):
        # A cache that is not there yet is made, not read: rowsmith would warn of one to be read.
        there = os.path.exists(os.path.join(self._cache_dir, "winners.db"))
        return {"ROWSMITH_CACHE_DIR": self._cache_dir, "ROWSMITH_ON_MISS": "default",
                "ROWSMITH_READONLY": "1" if there else "0"}

    def reopen(self):
        """After the tuner has written to the cache."""
        if self._runtime is not None:
            self.close()
            self.open(self._torch)


class Other(_Rowsmith):
    """The winners of an export, each pinned, so that a cache of another build serves as well."""

    name = "other"

    def __init__(self, stage, header, path):
        super().__init__(stage, header)
        self._configs = {shape: config for shape, config in winners_of(path)} if path else {}
        self._config = ""

    def _environment(self):
        pinned = {"ROWSMITH_PIN": self._config} if self._config else {}
        return {"ROWSMITH_ON_MISS": "default", "ROWSMITH_READONLY": "1", **pinned}

    def variants(self, problem):
        if problem.shape not in self._configs:
            raise Skip("not in --other" if self._configs else "no --other")
        self._config = self._configs[problem.shape]
        self.close()
        self.open(self._torch)
        return super().variants(problem)


class Default(_Rowsmith):
    name = "default"

    def open(self, torch):
        self._empty = tempfile.mkdtemp(prefix="rowsmith-default-")
        super().open(torch)

    def _environment(self):
        return {"ROWSMITH_CACHE_DIR": self._empty, "ROWSMITH_ON_MISS": "default"}

    def close(self):
        super().close()
        shutil.rmtree(self._empty, ignore_errors=True)
