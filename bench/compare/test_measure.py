# SPDX-License-Identifier: Apache-2.0
"""Measuring and running, with providers and a bench that need no GPU."""

import contextlib
import io
import types
import unittest

import compare
import gpu
import measure
import shapes
from provider import Provider, Skip, Variant
from shapes import Shape


class FakeGraph:
    def __init__(self, variant):
        self._us, self._wrong, self._queued = variant.facts["fake_us"], variant.facts.get("bad"), 0

    def wrong(self):
        return self._wrong

    def enqueue(self):
        self._queued += 1

    def take(self):
        queued, self._queued = self._queued, 0
        return [self._us] * queued


class FakeBench:
    @contextlib.contextmanager
    def problem(self, shape):
        yield types.SimpleNamespace(shape=shape, x=[], y=[], sets=2, calls=4, flushed=False)

    def capture(self, problem, variant):
        if "error" in variant.facts:
            raise RuntimeError(variant.facts["error"])
        return FakeGraph(variant)

    def lost(self):
        return False


class Fake(Provider):
    def __init__(self, name, *all_facts):
        self.name, self._facts, self.reopened = name, all_facts, 0

    def variants(self, problem):
        if not self._facts:
            raise Skip("not this shape")
        return [Variant(f"v{i}", None, facts=f) for i, f in enumerate(self._facts)]

    def reopen(self):
        self.reopened += 1


class MeasureTest(unittest.TestCase):
    def measured(self, *providers, absent=None):
        return measure.measure(Shape("f32", 4, 8), providers, FakeBench(), 5,
                               absent or {})["providers"]

    def test_the_fastest_variant_of_a_provider_counts(self):
        cell = self.measured(Fake("torch", {"fake_us": 3.0}, {"fake_us": 2.0}))["torch"]
        self.assertEqual((cell["us"], cell["variant"], cell["rounds"]), (2.0, "v1", 5))

    def test_a_wrong_provider_is_marked_and_not_timed(self):
        cell = self.measured(Fake("torch", {"fake_us": 1.0, "bad": "row 3"}))["torch"]
        self.assertEqual(cell, {"wrong": "v0: wrong: row 3"})

    def test_a_wrong_variant_does_not_win_for_a_right_one(self):
        cell = self.measured(Fake("a", {"fake_us": 1.0, "bad": "row 3"}, {"fake_us": 2.0}))["a"]
        self.assertEqual(cell["us"], 2.0)
        self.assertEqual(cell["complaints"], ["v0: wrong: row 3"])

    def test_skips_failures_and_absence_say_why(self):
        cells = self.measured(Fake("a"), Fake("b", {"error": "no image\nmore"}),
                              Fake("c", {"fake_us": 1.0}), absent={"d": "no wheel"})
        self.assertEqual(cells["a"], {"skip": "not this shape"})
        self.assertEqual(cells["b"], {"skip": "v0: failed: RuntimeError: no image"})
        self.assertEqual(cells["c"]["us"], 1.0)
        self.assertEqual(cells["d"], {"skip": "absent: no wheel"})

    def test_a_lost_device_names_the_provider(self):
        bench = FakeBench()
        bench.lost = lambda: True
        with self.assertRaisesRegex(measure.DeviceLost, "b at f32 4x8: .*illegal"):
            measure.measure(Shape("f32", 4, 8), [Fake("b", {"error": "illegal"})], bench, 5, {})

    def test_quartiles_interpolate(self):
        self.assertEqual(measure.quartiles([4.0, 1.0, 2.0, 3.0, 5.0]), (2.0, 3.0, 4.0))
        self.assertEqual(measure.quartiles([7.0]), (7.0, 7.0, 7.0))


class RunTest(unittest.TestCase):
    def setUp(self):
        self.points = []
        self.log = types.SimpleNamespace(append=self.points.append)
        self.options = types.SimpleNamespace(rounds=3, minutes=None)
        self.providers = {"winner": Fake("winner", {"fake_us": 2.0})}
        shape_list = shapes.listed_shapes("4", "1-20", "f32")
        self.plan = [(shape, ("winner", "quack")) for shape in shape_list]

    def run_quietly(self, **more):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return compare.run(self.plan, self.providers, {"quack": "no wheel"}, FakeBench(),
                               self.log, self.options, **more)

    def test_each_group_is_tuned_before_it_is_measured(self):
        calls = []

        def tune(dtype, rows, cols, budget_s):
            calls.append((dtype, rows, len(cols), len(self.points)))
            return []

        self.assertTrue(self.run_quietly(tuner=types.SimpleNamespace(tune=tune)))
        self.assertEqual(calls, [("f32", 4, 16, 0), ("f32", 4, 4, 16)])
        self.assertEqual(self.providers["winner"].reopened, 2)
        self.assertEqual(len(self.points), 20)

    def test_it_stops_when_the_time_is_over(self):
        left = iter([100.0] * 5 + [-1.0] * 9)
        clock = types.SimpleNamespace(left_s=lambda: next(left))
        self.assertFalse(self.run_quietly(clock=clock))
        self.assertEqual(len(self.points), 4)


class GpuPlanTest(unittest.TestCase):
    def test_the_sets_exceed_the_rotation_and_every_set_is_used_alike(self):
        for size in (2 * 4096 * 256 * 4, 2 * 8192 * 8192 * 4, 2 * 8 * 1024 * 4):
            sets, calls, flushed = gpu.plan(size)
            self.assertGreaterEqual(sets * size, gpu.ROTATION_BYTES)
            self.assertEqual(calls % sets, 0)
            self.assertLessEqual(calls, gpu.MOST_CALLS)
            self.assertFalse(flushed)

    def test_tiny_shapes_are_flushed_instead(self):
        self.assertEqual(gpu.plan(32), (gpu.MOST_CALLS, gpu.MOST_CALLS, True))


if __name__ == "__main__":
    unittest.main()
