# SPDX-License-Identifier: Apache-2.0
"""cuDNN's softmax of its legacy API, accurate algorithm, one instance a row; by ctypes."""

import ctypes

from provider import Absent, Provider, Skip, Variant, open_library

_ACCURATE, _INSTANCE, _NCHW = 1, 0, 0
_DTYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}


class Cudnn(Provider):
    name = "cudnn"

    def open(self, torch):
        self._torch = torch
        self._lib = open_library(("libcudnn.so.9", "libcudnn.so.8"), ("cudnn",))
        self._lib.cudnnGetErrorString.restype = ctypes.c_char_p
        self._handle = ctypes.c_void_p()
        code = self._lib.cudnnCreate(ctypes.byref(self._handle))
        if code != 0:
            raise Absent(f"cudnnCreate: {self._error(code)}")
        self._lib.cudnnGetVersion.restype = ctypes.c_size_t
        self._version = self._lib.cudnnGetVersion()
        self._described = []

    def variants(self, problem):
        shape = problem.shape
        if shape.dtype not in _DTYPES:
            raise Skip(f"not asked for {shape.dtype}")
        desc = ctypes.c_void_p()
        self._check(self._lib.cudnnCreateTensorDescriptor(ctypes.byref(desc)))
        self._described.append(desc)
        code = self._lib.cudnnSetTensor4dDescriptor(
            desc, _NCHW, _DTYPES[shape.dtype], shape.rows, shape.cols, 1, 1)
        if code != 0:
            raise Skip(f"describing the tensor: {self._error(code)}")
        kind = ctypes.c_double if shape.dtype == "f64" else ctypes.c_float
        one, zero = kind(1), kind(0)

        def launch(x, y):
            stream = self._torch.cuda.current_stream().cuda_stream
            self._check(self._lib.cudnnSetStream(self._handle, ctypes.c_void_p(stream)))
            self._check(self._lib.cudnnSoftmaxForward(
                self._handle, _ACCURATE, _INSTANCE, ctypes.byref(one), desc,
                ctypes.c_void_p(x.data_ptr()), ctypes.byref(zero), desc,
                ctypes.c_void_p(y.data_ptr())))

        return [Variant(f"cuDNN {self._version}", launch)]

    def close(self):
        for desc in self._described:
            self._lib.cudnnDestroyTensorDescriptor(desc)
        self._lib.cudnnDestroy(self._handle)

    def _error(self, code):
        return self._lib.cudnnGetErrorString(code).decode()

    def _check(self, code):
        if code != 0:
            raise RuntimeError(f"cuDNN: {self._error(code)}")
