# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ text to a kernel that launches on a stream: NVRTC and the driver by ctypes."""

import ctypes

from provider import Absent, open_library

_NVRTC_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


class CompileError(Exception):
    """NVRTC refused the text; the message is its log."""


class Nvrtc:
    def __init__(self):
        self._lib = open_library(_NVRTC_NAMES, ("cu13", "cuda_nvrtc"))

    def compile(self, text, name, arch, options=()):
        """The cubin of the text for an architecture such as "sm_90"."""
        program = ctypes.c_void_p()
        self._check(self._lib.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), name.encode(), 0, None, None))
        try:
            flags = [f"-arch={arch}", "-std=c++17", *options]
            flags = (ctypes.c_char_p * len(flags))(*(f.encode() for f in flags))
            if self._lib.nvrtcCompileProgram(program, len(flags), flags) != 0:
                log = self._read(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
                raise CompileError(f"{name}: {log.rstrip(bytes(1)).decode(errors='replace')}")
            return self._read(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
        finally:
            self._lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program, size_of, get):
        size = ctypes.c_size_t()
        self._check(getattr(self._lib, size_of)(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._lib, get)(program, text))
        return text.raw

    def _check(self, code):
        if code != 0:
            self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise CompileError(self._lib.nvrtcGetErrorString(code).decode())


class Kernels:
    """The kernels of one cubin, loaded into the current context."""

    def __init__(self, cubin):
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Absent(f"no driver: {error}") from None
        self._functions = {}
        self._module = ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), cubin), "load")

    def launch(self, name, blocks, threads, stream, *arguments):
        """Arguments are ctypes values, passed as the kernel declares them."""
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.addressof(argument) for argument in arguments))
        self._check(self._driver.cuLaunchKernel(
            self._function(name), ctypes.c_uint(blocks), 1, 1, ctypes.c_uint(threads), 1, 1, 0,
            ctypes.c_void_p(stream), pointers, None), name)

    def _function(self, name):
        if name not in self._functions:
            function = ctypes.c_void_p()
            self._check(self._driver.cuModuleGetFunction(
                ctypes.byref(function), self._module, name.encode()), name)
            self._functions[name] = function
        return self._functions[name]

    def _check(self, code, what):
        if code != 0:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{what}: CUDA error {code}: {(text.value or b'?').decode()}")


def arch_of(torch):
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"
