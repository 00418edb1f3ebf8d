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


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h: the value is a union of 64 bytes, of which an int is used."""
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int),
                ("rest", ctypes.c_char * 60)]


class _Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""
    _fields_ = [*((f"{what}_{axis}", ctypes.c_uint)
                  for what in ("grid", "block") for axis in "xyz"),
                ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint)]


_PROGRAMMATIC_STREAM_SERIALIZATION = 6  # a CUlaunchAttributeID


class Launcher:
    """One kernel with its geometry: what a call does not change is made once. `early`: the launch
    may start while the stream's earlier work ends, for which the kernel must wait by itself."""

    def __init__(self, kernels, name, blocks, threads, early, more):
        self._check, self._name = kernels.check, name
        self._launch, self._function = kernels.driver.cuLaunchKernelEx, kernels.function(name)
        self._attribute = _Attribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION, value=1)
        self._config = _Config(blocks, 1, 1, threads, 1, 1, 0, None,
                               ctypes.pointer(self._attribute) if early else None, int(early))
        self._pointers = ctypes.c_void_p(), ctypes.c_void_p()
        self._more = more
        arguments = (*self._pointers, *more)
        self._arguments = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._config_at = ctypes.byref(self._config)

    def __call__(self, stream, x, y):
        self._config.stream = stream
        self._pointers[0].value, self._pointers[1].value = x, y
        self._check(self._launch(self._config_at, self._function, self._arguments, None),
                    self._name)


class Kernels:
    """The kernels of one cubin, loaded into the current context."""

    def __init__(self, cubin):
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Absent(f"no driver: {error}") from None
        self._functions = {}
        self._module = ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(self._module), cubin), "load")

    def launcher(self, name, blocks, threads, *more, early=False):
        """A callable (stream, x, y) of addresses; `more` are the kernel's other arguments, ctypes
        values as it declares them."""
        return Launcher(self, name, blocks, threads, early, more)

    def copy(self, stream, x, y, size):
        self.check(self.driver.cuMemcpyDtoDAsync_v2(
            ctypes.c_uint64(y), ctypes.c_uint64(x), ctypes.c_size_t(size), ctypes.c_void_p(stream)),
            "memcpy")

    def function(self, name):
        if name not in self._functions:
            function = ctypes.c_void_p()
            self.check(self.driver.cuModuleGetFunction(
                ctypes.byref(function), self._module, name.encode()), name)
            self._functions[name] = function
        return self._functions[name]

    def check(self, code, what):
        if code != 0:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{what}: CUDA error {code}: {(text.value or b'?').decode()}")


def arch_of(torch):
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"
