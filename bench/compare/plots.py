# SPDX-License-Identifier: Apache-2.0
"""floor/time against H, a panel a dtype, as PNG and SVG."""

import bars
from results import shape_of
from shapes import SWEEP_BYTES

_STYLES = {
    "winner": ("tab:blue", "o"), "default": ("tab:cyan", "."), "torch": ("tab:red", "x"),
    "compile": ("tab:orange", "+"), "triton": ("tab:purple", "^"), "cudnn": ("tab:green", "s"),
    "quack": ("tab:brown", "D"), "fixed": ("tab:gray", "v"),
}
_LINE_FROM = 30  # points: fewer are drawn as marks alone


def series(points, dtype):
    """{(provider, "large" | "small"): [(H, floor/time)]}, by H: large is what fills the sweep's
    size, where the bars are."""
    found = {}
    for point in points:
        shape = shape_of(point)
        if shape.dtype != dtype:
            continue
        size = "large" if shape.bytes_moved >= 2 * SWEEP_BYTES else "small"
        for name in _STYLES:
            ratio = bars.ratio(point, name)
            if ratio:
                found.setdefault((name, size), []).append((shape.cols, ratio))
    return {key: sorted(values) for key, values in found.items()}


def _panel(axes, points, dtype):
    for (name, size), values in sorted(series(points, dtype).items()):
        colour, mark = _STYLES[name]
        line = {"large": "-", "small": ":"}[size] if len(values) >= _LINE_FROM else "none"
        axes.plot(*zip(*values), color=colour, marker=mark, markersize=3, linewidth=0.8,
                  linestyle=line, alpha=1 if size == "large" else 0.5,
                  label=f"{name}, {'>=' if size == 'large' else '<'} 64 MB")
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.1)
    axes.axhline(1.0, color="black", linewidth=0.5)
    axes.set_title(dtype)
    axes.set_xlabel("H")
    axes.set_ylabel("floor / time")
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=6, loc="lower left", ncol=2)


def draw(folder, points):
    """Writes floor_over_time.png and .svg, where anything has a floor and a time. ImportError where
    there is no matplotlib."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "rowsmith"  # the same points give the same file
    from matplotlib import pyplot

    dtypes = [d for d in sorted({p["dtype"] for p in points}) if series(points, d)]
    if not dtypes:
        return
    figure, panels = pyplot.subplots(len(dtypes), 1, figsize=(10, 4.2 * len(dtypes)),
                                     squeeze=False)
    for axes, dtype in zip(panels[:, 0], dtypes):
        _panel(axes, points, dtype)
    figure.tight_layout()
    figure.savefig(f"{folder}/floor_over_time.png", dpi=130)
    figure.savefig(f"{folder}/floor_over_time.svg", metadata={"Date": None})
    pyplot.close(figure)
