# SPDX-License-Identifier: Apache-2.0
"""One JSON line a measured point, appended as it is measured, so that a rerun goes on where a run
stopped.

A point: {"dtype", "S", "H", "providers": {name: cell}, "sets"}. A cell is either {"us", "iqr_us",
"rounds", "variant", "calls", "flushed", ..} or {"skip": why} or {"wrong": why}. The first line of
each run is {"run": facts about machine and command}.
"""

import json
import os

from shapes import Shape


def shape_of(point):
    return Shape(point["dtype"], point["S"], point["H"])


def time_of(point, provider):
    """Microseconds a call, or None where the provider was skipped, wrong or not asked."""
    return point["providers"].get(provider, {}).get("us")


def load(path):
    """(runs, points): a line cut short by a kill is dropped, and of points measured twice the last
    stays. ValueError names a line that is neither."""
    runs, points = [], {}
    if not os.path.exists(path):
        return runs, []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):  # no line end after it: the writer was stopped
                continue
            raise ValueError(f"{path}:{number}: not JSON: {error}") from None
        if "run" in record:
            runs.append(record["run"])
        elif {"dtype", "S", "H", "providers"} <= record.keys():
            points[shape_of(record)] = record
        else:
            raise ValueError(f"{path}:{number}: neither a run nor a point")
    return runs, list(points.values())


class Log:
    """Appends to the file; a last line without its end is cut off first."""

    def __init__(self, path):
        self._path = path
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if os.path.exists(path):
            with open(path, "rb+") as file:
                text = file.read()
                file.truncate(text.rfind(b"\n") + 1)

    def append(self, record):
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())


def pending(shapes, points, providers):
    """The shapes without a point in which every asked provider has a cell."""
    done = {shape_of(p) for p in points if set(providers) <= p["providers"].keys()}
    return [shape for shape in dict.fromkeys(shapes) if shape not in done]
