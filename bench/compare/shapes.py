# SPDX-License-Identifier: Apache-2.0
"""What is measured: the table, the other shapes of the bars, the sweep over H, lists by hand."""

from typing import NamedTuple

DTYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1}
SWEEP_DTYPES = ("f32", "f16", "bf16")
SWEEP_BYTES = 64_000_000  # of one side, at least
SWEEP_FEW_ROWS = 16

_MOST = 2**31 - 1


class Shape(NamedTuple):
    dtype: str
    rows: int
    cols: int

    @property
    def key(self):
        return f"{self.dtype} {self.rows}x{self.cols}"

    @property
    def row_bytes(self):
        return self.cols * DTYPE_BYTES[self.dtype]

    @property
    def bytes_moved(self):
        """In and out, each element once."""
        return 2 * self.rows * self.row_bytes


_TABLE_16BIT_AND_32BIT = (
    (4096, 256), (4096, 1024), (4096, 4096), (4096, 8192), (8192, 8192), (4096, 1000),
    (4096, 257), (2048, 32000), (512, 50257), (256, 128256), (16, 262144), (1, 131072),
    (65536, 64), (1048576, 16), (8, 1024), (64, 151936),
)
_TABLE_BF16 = ((4096, 1024), (4096, 8192), (2048, 32000), (256, 128256))


def table_shapes():
    """The shapes for which reference_h200.json has figures of every peer."""
    both = [Shape(d, s, h) for d in ("f32", "f16") for s, h in _TABLE_16BIT_AND_32BIT]
    return both + [Shape("bf16", s, h) for s, h in _TABLE_BF16]


def extra_shapes():
    """Named by a bar and not in the table."""
    return [
        Shape("f16", 4, 102400), Shape("f32", 4, 1048576), Shape("f16", 1048576, 7),
        Shape("f8e4m3", 4096, 8192), Shape("f64", 4096, 4096),
    ]


def sweep_columns():
    powers = [2**k + d for k in range(1, 19) for d in (-1, 0, 1)]
    named = [702, 704, 2176, 8320, 50257, 50304, 151936, 1000003]
    return sorted({*range(1, 65), *range(65, 1101, 7), *powers, *named})


def sweep_rows(dtype, cols):
    """The least power of two that makes one side SWEEP_BYTES: powers, so that few S cover all H."""
    rows = 1
    while rows * cols * DTYPE_BYTES[dtype] < SWEEP_BYTES:
        rows *= 2
    return rows


def sweep_shapes(dtypes=SWEEP_DTYPES):
    """By dtype: the large ones, which have a bar, before those of few rows."""
    shapes = {}
    for dtype in dtypes:
        shapes |= {Shape(dtype, sweep_rows(dtype, h), h): None for h in sweep_columns()}
        shapes |= {Shape(dtype, SWEEP_FEW_ROWS, h): None for h in sweep_columns()}
    return list(shapes)


def parse_numbers(text, what):
    """'256,1000-1010' as numbers; ValueError names the piece that is wrong."""
    numbers = []
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"{what}: '{piece}' is not a number or a range such as 8-12")
        low, high = int(first), int(last if dash else first)
        if not 1 <= low <= high <= _MOST:
            raise ValueError(f"{what}: '{piece}' is not within 1 to {_MOST}, or runs backwards")
        numbers += range(low, high + 1)
    return list(dict.fromkeys(numbers))


def parse_dtypes(text):
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in DTYPE_BYTES:
            raise ValueError(f"-d: '{name}' is not one of {', '.join(DTYPE_BYTES)}")
    return names


def listed_shapes(rows, cols, dtypes):
    """Every combination of the three lists."""
    return [Shape(d, s, h) for d in parse_dtypes(dtypes) for s in parse_numbers(rows, "-S")
            for h in parse_numbers(cols, "-H")]


def groups(shapes, most):
    """The shapes in their order, in lists of `most` at most: one call of the tuner each."""
    shapes = list(shapes)
    return [shapes[at:at + most] for at in range(0, len(shapes), most)]
