# SPDX-License-Identifier: Apache-2.0
"""The C API by ctypes. The call's struct and the dtype numbers are read from rowsmith_c.h, so that
a field added there needs no change here."""

import ctypes
import glob
import os
import re

_TYPES = {"int64_t": ctypes.c_int64, "rowsmith_dtype": ctypes.c_int, "double": ctypes.c_double,
          "float": ctypes.c_float, "rowsmith_stream": ctypes.c_void_p, "int": ctypes.c_int}


class RowsmithError(Exception):
    """A status other than ok; the message is the library's."""


def struct_fields(header):
    """[(name, ctypes type)] of rowsmith_call in the header's text."""
    body = re.search(r"typedef struct rowsmith_call \{(.*?)\} rowsmith_call;", header, re.S)
    if not body:
        raise ValueError("rowsmith_c.h has no struct rowsmith_call")
    fields = []
    for declaration in re.sub(r"/\*.*?\*/", "", body[1], flags=re.S).split(";"):
        declaration = " ".join(declaration.split())
        if not declaration:
            continue
        pointer = re.fullmatch(r"(?:const )?void ?\* ?(\w+)", declaration)
        if pointer:
            fields.append((pointer[1], ctypes.c_void_p))
            continue
        kind, _, names = declaration.partition(" ")
        if kind not in _TYPES:
            raise ValueError(f"rowsmith_c.h: rowsmith_call has a '{declaration}' unknown here")
        fields += [(name.strip(), _TYPES[kind]) for name in names.split(",")]
    return fields


def dtype_numbers(header):
    """{"f32": 1, ..} from the header's enumerators."""
    body = re.search(r"typedef int rowsmith_dtype;\s*enum \{(.*?)\};", header, re.S)
    if not body:
        raise ValueError("rowsmith_c.h has no enumeration of dtypes")
    found = re.findall(r"ROWSMITH_(\w+) = (\d+)", body[1])
    return {name.lower(): int(number) for name, number in found}


class Library:
    def __init__(self, stage, header_path):
        with open(header_path, encoding="utf-8") as file:
            header = file.read()
        self.dtypes = dtype_numbers(header)
        fields = struct_fields(header)
        self.has_scale = "out_scale" in dict(fields)
        self.Call = type("Call", (ctypes.Structure,), {"_fields_": fields})
        files = sorted(glob.glob(os.path.join(stage, "lib", "librowsmith.so*")))
        if not files:
            raise FileNotFoundError(f"no librowsmith.so in {stage}/lib: run scripts/gpu_stage.sh")
        self._lib = ctypes.CDLL(os.path.abspath(files[0]))
        for name in ("rowsmith_last_error", "rowsmith_version"):
            getattr(self._lib, name).restype = ctypes.c_char_p

    def version(self):
        return self._lib.rowsmith_version().decode()

    def call(self, rows, cols, dtype, out_scale=None):
        """A call on contiguous rows, its pointers and stream to be filled in."""
        call = self.Call(rows=rows, cols=cols)
        setattr(call, "in", self.dtypes[dtype])
        call.out = self.dtypes[dtype]
        if self.has_scale:
            call.out_scale = 1.0 if out_scale is None else out_scale
        return call

    def check(self, status):
        if status != 0:
            raise RowsmithError(self._lib.rowsmith_last_error().decode(errors="replace"))


class Runtime:
    """One rowsmith_runtime, opened with `environment` in place of the process's own ROWSMITH_*."""

    def __init__(self, library, device, environment):
        self._library, self._lib = library, library._lib
        self._handle = ctypes.c_void_p()
        saved = {k: v for k, v in os.environ.items() if k.startswith("ROWSMITH_")}
        kept = {k: v for k, v in saved.items() if k in ("ROWSMITH_NVRTC", "ROWSMITH_LOG")}
        self._replace(saved, {**kept, **environment})
        try:
            library.check(self._lib.rowsmith_open(device.encode(), ctypes.byref(self._handle)))
        finally:
            self._replace({**kept, **environment}, saved)

    @staticmethod
    def _replace(old, new):
        for name in old:
            os.environ.pop(name, None)
        os.environ.update(new)

    def prepare(self, call):
        self._library.check(self._lib.rowsmith_prepare(self._handle, ctypes.byref(call)))

    def run(self, call):
        self._library.check(self._lib.rowsmith_run(self._handle, ctypes.byref(call)))

    def explain(self, call):
        """(source, config): the rung that serves the call, and with what."""
        text = ctypes.create_string_buffer(4096)
        self._library.check(
            self._lib.rowsmith_explain(self._handle, ctypes.byref(call), text, len(text)))
        source, _, config = text.value.decode().split("\n")[0].partition("\t")
        return source, config

    def close(self):
        self._lib.rowsmith_close(self._handle)
        self._handle = ctypes.c_void_p()
