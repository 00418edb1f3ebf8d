# SPDX-License-Identifier: Apache-2.0
"""What needs the GPU: rotating buffers, graphs of many calls, their check and their time.

Every graph is a chain of calls over the same sequence of buffer sets, which together exceed
ROTATION_BYTES, so that no call finds its row in L2. Where that would take more than MOST_CALLS
sets, or the graph is shorter than one turn, each replay follows a read of as many other bytes.
"""

import contextlib
import math

from shapes import DTYPE_BYTES

ROTATION_BYTES = 300_000_000
MOST_CALLS = 5000
REPLAY_US = 2000  # of one replay, so that its start does not count
SCREEN_US = 400   # of a screen's at the speed of a copy
SLOW_TIMES = 8    # the copy's time: such a call's graph may be cut short
_ALIGN = 512      # of what cudaMalloc gives
_COPY_BYTES_PER_US = 4.3e6
_NODE_US = 1.0

# |y - p| <= absolute + relative * p for the exact quotient p: rounding to the output's dtype and a
# few units in the last place of f32 (f64) before it.
TOLERANCES = {"f64": (1e-300, 1e-12), "f32": (1e-30, 2e-5), "f16": (1.3e-7, 2e-3),
              "bf16": (1e-30, 1e-2), "f8e4m3": (2.0**-9, 0.13), "f8e5m2": (2.0**-16, 0.26)}


class Plan:
    """For a call that moves so many bytes: .sets, .flushed (too few of them to do without), and how
    long a graph is, as (calls, whether L2 is flushed before it)."""

    def __init__(self, bytes_moved):
        wanted = max(2, math.ceil(ROTATION_BYTES / bytes_moved))
        self.sets = min(wanted, MOST_CALLS)
        self.flushed = self.sets < wanted
        self._copy_us = max(_NODE_US, bytes_moved / _COPY_BYTES_PER_US)

    def screen(self):
        """To choose among variants: short, and behind a flush where it takes not every set."""
        calls = min(MOST_CALLS, max(4, round(SCREEN_US / self._copy_us)))
        return calls, self.flushed or calls < self.sets

    def final(self, us):
        """Of a variant that takes `us` a call: whole turns over the sets. Where one turn would be
        long and the call is many times slower than a copy, a part of a turn behind a flush."""
        if us * self.sets > 2 * REPLAY_US and us > SLOW_TIMES * self._copy_us:
            return min(self.sets, max(8, round(REPLAY_US / us))), True
        turns = max(1, round(REPLAY_US / (us * self.sets)))
        return self.sets * min(turns, max(1, MOST_CALLS // self.sets)), self.flushed


class Problem:
    """The buffer sets of one shape, x random normal."""

    def __init__(self, torch, shape, device="cuda"):
        self.shape = shape
        self.plan = Plan(shape.bytes_moved)
        self.sets = self.plan.sets
        self.dtype = torch_dtype(torch, shape.dtype)
        self._size = shape.rows * shape.row_bytes
        self._stride = -(-self._size // _ALIGN) * _ALIGN
        self._x, self._y = (torch.empty(self.sets * self._stride, dtype=torch.uint8, device=device)
                            for _ in range(2))
        self._fill(torch)
        self.x, self.y = self._views(self._x), self._views(self._y)

    def poison(self):
        self._y.fill_(0xFF)  # a NaN in every dtype

    def _views(self, arena):
        shape = (self.shape.rows, self.shape.cols)
        return [arena[i * self._stride:i * self._stride + self._size].view(self.dtype).view(shape)
                for i in range(self.sets)]

    def _fill(self, torch):
        torch.manual_seed(20261130)
        typed = self._x.view(self.dtype)
        if DTYPE_BYTES[self.shape.dtype] > 1:
            typed.normal_()
            return
        for at in range(0, typed.numel(), 1 << 26):
            piece = typed[at:at + (1 << 26)]
            piece.copy_(torch.randn(piece.numel(), device=typed.device).to(self.dtype))


class Graph:
    """Calls of one variant, captured; where `flushed`, each replay follows a flush of L2."""

    def __init__(self, bench, problem, variant, calls, flushed):
        self._bench, self._problem, self._variant = bench, problem, variant
        self._calls, self._flushed = calls, flushed
        self._events = []
        torch = bench.torch
        stream = bench.stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            variant.launch(problem.x[0], problem.y[0])  # compiles and loads
        stream.synchronize()
        # Not `with torch.cuda.graph`, which collects garbage: a tenth of a second each time.
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            self._graph.capture_begin(capture_error_mode="relaxed")
            try:
                for i in range(calls):
                    variant.launch(problem.x[i % problem.sets], problem.y[i % problem.sets])
            except Exception:
                with contextlib.suppress(RuntimeError):  # the capture may have ended by the error
                    self._graph.capture_end()
                raise
            self._graph.capture_end()

    def wrong(self):
        """What is wrong with the first and last set written in one replay; None if nothing."""
        self._problem.poison()
        self._graph.replay()
        self._bench.torch.cuda.synchronize()
        for at in (0, min(self._calls, self._problem.sets) - 1):
            complaint = difference(self._bench.torch, self._problem, at, self._variant)
            if complaint:
                return f"set {at}: {complaint}"
        return None

    def enqueue(self):
        if self._flushed:
            self._bench.flush()
        start, end = (self._bench.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._graph.replay()
        end.record()
        self._events.append((start, end))

    def take(self):
        self._bench.torch.cuda.synchronize()
        times = [s.elapsed_time(e) * 1000 / self._calls for s, e in self._events]
        self._events = []
        return times


class Bench:
    def __init__(self, torch):
        self.torch = torch
        self.stream = torch.cuda.Stream()
        self._other = torch.zeros(ROTATION_BYTES // 4, dtype=torch.float32, device="cuda")

    def flush(self):
        self._other.amax()

    @contextlib.contextmanager
    def problem(self, shape):
        try:
            yield Problem(self.torch, shape)
        finally:
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()

    def capture(self, problem, variant, calls, flushed):
        return Graph(self, problem, variant, calls, flushed)

    def lost(self):
        """Whether the context is gone: then nothing more can be measured in this process."""
        try:
            self.torch.cuda.synchronize()
            return False
        except RuntimeError:
            return True


def torch_dtype(torch, name):
    return {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
            "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn,
            "f8e5m2": torch.float8_e5m2}[name]


def difference(torch, problem, at, variant):
    """The first complaint about set `at` against f64, or None."""
    x, y = problem.x[at], problem.y[at]
    if variant.expects == "copy":
        equal = torch.equal(x.view(torch.uint8), y.view(torch.uint8))
        return None if equal else "the copy differs"
    absolute, relative = TOLERANCES[problem.shape.dtype]
    step = max(1, (1 << 25) // problem.shape.cols)
    for row in range(0, problem.shape.rows, step):
        exact = torch.softmax(x[row:row + step].double(), -1).mul_(variant.scale)
        off = (y[row:row + step].double() - exact).abs_()
        # Not "off > bound": a NaN must count.
        bad = ~(off <= exact.mul(relative).add_(absolute))
        count = int(bad.sum())
        if count:
            first = [int(i) for i in bad.nonzero()[0]]
            return (f"{count} elements off, the first at row {row + first[0]}, column {first[1]}: "
                    f"{float(y[row + first[0], first[1]]):.6g}, exact "
                    f"{float(exact[first[0], first[1]]):.6g}")
    return None


def facts(torch):
    """Of the machine, for the log and the report."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {"device": properties.name, "sms": properties.multi_processor_count,
            "torch": torch.__version__, "cuda": torch.version.cuda, "driver": _driver()}


def _driver():
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            words = file.readline().split()
    except OSError:
        return "unknown"
    return next((w for w in words if w[:1].isdigit() and "." in w), "unknown")
