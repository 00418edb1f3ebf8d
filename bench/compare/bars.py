# SPDX-License-Identifier: Apache-2.0
"""The speed bars that the measured points decide, each met, not met or not measured, and whether
the run itself is valid."""

import math
import statistics
from typing import NamedTuple

from results import shape_of, time_of
from shapes import SWEEP_BYTES, Shape, table_shapes

PEERS = ("torch", "compile", "triton", "cudnn", "quack", "fixed")
CLIFF = 1.10
NEIGHBOURS_WITHIN = 0.05
SLOWER_THAN_REFERENCE = 1.05
REFERENCE_FROM_US = 10.0

_MB = 1_000_000
_KIB = 1024
_GENERAL_DTYPES = ("f32", "f16", "bf16")
_US_BARS = (
    ("f16", 1, 131072, 2.5), ("f16", 16, 262144, 7.5), ("f16", 64, 151936, 13.0),
    ("f16", 4, 102400, 4.0), ("f32", 4, 1048576, 20.0),
)
_RATIO_BARS = (
    ("f16", 1048576, 7, 0.93), ("f8e4m3", 4096, 8192, 0.85), ("f64", 4096, 4096, 0.93),
    ("f16", 4096, 257, 0.85),
)


def named_shapes():
    """The shapes with a bar of their own."""
    return [Shape(*bar[:3]) for bar in (*_US_BARS, *_RATIO_BARS)]


class Bar(NamedTuple):
    name: str
    verdict: str  # "met", "not met", "not measured"
    figure: str


def ratio(point, provider="winner"):
    """floor / time, or None."""
    floor, time = time_of(point, "floor"), time_of(point, provider)
    return floor / time if floor and time else None


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def is_few_long_rows(shape):
    """Where the bars are times of named shapes: no share of the floor is asked."""
    return shape.rows <= 64 and shape.row_bytes > 64 * _KIB


def _bar(name, met, figure):
    return Bar(name, "met" if met else "not met", figure)


def _least_ratio_bar(name, points, accepts, least):
    found = sorted((ratio(p), shape_of(p)) for p in points
                   if ratio(p) is not None and accepts(shape_of(p)))
    if not found:
        return Bar(name, "not measured", "-")
    missed = [f"{r:.3f} {s.key}" for r, s in found if r < least]
    figure = f"{len(found) - len(missed)} of {len(found)} shapes; "
    figure += f"misses: {', '.join(missed[:8])}" if missed else (
        f"least {found[0][0]:.3f} {found[0][1].key}")
    if len(missed) > 8:
        figure += f" and {len(missed) - 8} more"
    return _bar(name, not missed, figure)


def _ratio_class_bars(points):
    def general(shape):
        return shape.dtype in _GENERAL_DTYPES and not is_few_long_rows(shape)

    def large(shape):
        return general(shape) and shape.bytes_moved >= 32 * _MB

    return [
        _least_ratio_bar("winner, >= 32 MB, row <= 64 KB: floor/time >= 0.95", points,
                         lambda s: large(s) and s.row_bytes <= 64 * _KIB, 0.95),
        _least_ratio_bar("winner, >= 32 MB, row 64 KB to 1 MB: floor/time >= 0.90", points,
                         lambda s: large(s) and 64 * _KIB < s.row_bytes <= 1024 * _KIB, 0.90),
        _least_ratio_bar(
            "winner, 8 to 32 MB: floor/time >= 0.90", points,
            lambda s: general(s) and 8 * _MB <= s.bytes_moved < 32 * _MB, 0.90),
    ]


def _named_bars(points):
    by_shape = {shape_of(p): p for p in points}
    bars = []
    for dtype, rows, cols, most in _US_BARS:
        name = f"winner, {dtype} {rows} x {cols}: <= {most:g} us"
        time = time_of(by_shape.get(Shape(dtype, rows, cols), {"providers": {}}), "winner")
        bars.append(Bar(name, "not measured", "-") if time is None else
                    _bar(name, time <= most, f"{time:.2f} us"))
    for dtype, rows, cols, least in _RATIO_BARS:
        name = f"winner, {dtype} {rows} x {cols}: floor/time >= {least:g}"
        found = ratio(by_shape.get(Shape(dtype, rows, cols), {"providers": {}}))
        bars.append(Bar(name, "not measured", "-") if found is None else
                    _bar(name, found >= least, f"{found:.3f}"))
    return bars


def faster_peers(point):
    """[(peer, its us)] of those faster than the winner by more than both spreads' half."""
    winner = point["providers"].get("winner", {})
    if "us" not in winner:
        return []
    found = []
    for peer in PEERS:
        cell = point["providers"].get(peer, {})
        if "us" in cell:
            noise = max(cell["iqr_us"], winner["iqr_us"]) / 2
            if cell["us"] + noise < winner["us"]:
                found.append((peer, cell["us"]))
    return found


def _table_bars(points):
    table = set(table_shapes())
    points = [p for p in points if shape_of(p) in table and time_of(p, "winner")]
    raced = [p for p in points if any(time_of(p, peer) for peer in PEERS)]
    lost = [f"{shape_of(p).key} ({time_of(p, 'winner'):.2f} us; " +
            ", ".join(f"{name} {us:.2f}" for name, us in faster_peers(p)) + ")"
            for p in raced if faster_peers(p)]
    name = f"no peer faster, at the {len(table)} shapes of the table"
    bars = [Bar(name, "not measured", "-") if not raced else
            _bar(name, not lost, f"{len(raced) - len(lost)} of {len(raced)}" +
                 (f"; lost: {'; '.join(lost)}" if lost else ""))]
    ratios = [ratio(p) for p in points if ratio(p) is not None]
    name = "geometric mean of floor/time over the table >= 0.90"
    bars.append(Bar(name, "not measured", "-") if not ratios else
                _bar(name, geometric_mean(ratios) >= 0.90,
                     f"{geometric_mean(ratios):.3f} over {len(ratios)} shapes"))
    return bars


def _default_bar(points):
    slower = [time_of(p, "default") / time_of(p, "winner") for p in points
              if time_of(p, "default") and time_of(p, "winner")]
    name = "default within 10 % of the winner, geometric mean"
    if not slower:
        return Bar(name, "not measured", "-")
    mean = geometric_mean(slower)
    return _bar(name, mean <= 1.10,
                f"{100 * (mean - 1):+.1f} % over {len(slower)} shapes, worst "
                f"{100 * (max(slower) - 1):+.0f} %")


def cliffs(points):
    """(judged, [(shape, times the median of its neighbours)] beyond CLIFF, worst first)."""
    judged, found = 0, []
    for dtype in sorted({p["dtype"] for p in points}):
        per_byte = {}
        for point in points:
            shape = shape_of(point)
            time = time_of(point, "winner")
            if shape.dtype == dtype and time and shape.bytes_moved >= 2 * SWEEP_BYTES:
                cost = time / shape.bytes_moved
                per_byte[shape.cols] = min((cost, shape), per_byte.get(shape.cols, (cost, shape)))
        for cols, (cost, shape) in per_byte.items():
            near = [c for h, (c, _) in per_byte.items()
                    if h != cols and abs(h - cols) <= NEIGHBOURS_WITHIN * cols]
            if near:
                judged += 1
                times = cost / statistics.median(near)
                if times > CLIFF:
                    found.append((shape, times))
    return judged, sorted(found, key=lambda entry: -entry[1])


def _cliff_bar(points):
    judged, found = cliffs(points)
    name = f"no cliff: H over its neighbours within +-5 %, at >= 64 MB, <= {CLIFF:g} per byte"
    if judged == 0:
        return Bar(name, "not measured", "-")
    figure = f"{judged - len(found)} of {judged} points"
    if found:
        figure += "; cliffs: " + ", ".join(f"{s.key} x{t:.2f}" for s, t in found[:10])
    return _bar(name, not found, figure)


def all_bars(points):
    return [*_ratio_class_bars(points), *_named_bars(points), *_table_bars(points),
            _default_bar(points), _cliff_bar(points)]


def _judged(points, reference_us):
    """Yields (point, provider, recorded us, us) of what the reference has and is long enough."""
    for point in points:
        recorded = reference_us.get(shape_of(point).key, {})
        for provider in ("floor", "fixed"):
            was, now = recorded.get(provider), time_of(point, provider)
            if was and now and was > REFERENCE_FROM_US:
                yield point, provider, was, now


def invalid(points, reference_us):
    """[text]: floors and fixed kernels over 5 % slower than the recorded ones; such a run says
    nothing, because the machine was not as fast as it is."""
    return [f"{shape_of(point).key}: {provider} {now:.2f} us, recorded {was:.2f} "
            f"({100 * (now / was - 1):+.1f} %)"
            for point, provider, was, now in _judged(points, reference_us)
            if now > was * SLOWER_THAN_REFERENCE]


def validity(points, reference_us):
    """The verdict on the run in a line."""
    judged = sum(1 for _ in _judged(points, reference_us))
    if invalid(points, reference_us):
        return "INVALID: slower than the recorded reference by more than 5 %"
    if not judged:
        return "validity unknown: no shape above 10 us that the reference has"
    return f"valid: none of {judged} floors and fixed kernels over 5 % slower than recorded"
