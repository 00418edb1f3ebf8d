# SPDX-License-Identifier: Apache-2.0
"""Measuring and running, with providers and a bench that need no GPU."""

import contextlib
import io
import types
import unittest
import unittest.mock

import compare
import gpu
import measure
import shapes
from provider import Provider, Skip, Variant
from shapes import Shape


class FakeGraph:
    def __init__(self, variant):
        self._us, self._wrong, self._queued = variant.facts["fake_us"], variant.facts.get("bad"), 0
        self.checked = False

    def wrong(self):
        self.checked = True
        return self._wrong

    def enqueue(self):
        self._queued += 1

    def take(self):
        queued, self._queued = self._queued, 0
        return [self._us] * queued


class FakeBench:
    @contextlib.contextmanager
    def problem(self, shape):
        yield types.SimpleNamespace(shape=shape, x=[], y=[], sets=2, plan=gpu.Plan(2**28))

    def capture(self, problem, variant, calls, flushed):
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

    def test_what_counts_is_checked_in_the_graph_that_was_timed(self):
        graphs = []

        class Watching(FakeBench):
            def capture(self, problem, variant, calls, flushed):
                graphs.append(FakeGraph(variant))
                return graphs[-1]

        measure.measure(Shape("f32", 4, 8), [Fake("a", {"fake_us": 2.0}, {"fake_us": 9.0})],
                        Watching(), 5, {})
        self.assertEqual([graph.checked for graph in graphs], [False, False, True])

    def test_the_right_ones_near_the_fastest_right_one_reach_the_rounds(self):
        fakes = [{"fake_us": 1.0, "bad": "row 3"}, {"fake_us": 2.0}, {"fake_us": 2.03},
                 {"fake_us": 2.05}]
        with unittest.mock.patch.object(measure, "_rounds", wraps=measure._rounds) as rounds:
            self.measured(Fake("a", *fakes))
        self.assertEqual(len(rounds.call_args[0][0]), 2)

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

        def tune(group, budget_s):
            calls.append((group[0].cols, len(group), len(self.points)))
            return []

        self.assertTrue(self.run_quietly(tuner=types.SimpleNamespace(tune=tune)))
        self.assertEqual(calls, [(1, 16, 0), (17, 4, 16)])
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
            plan = gpu.Plan(size)
            self.assertGreaterEqual(plan.sets * size, gpu.ROTATION_BYTES)
            calls, flushed = plan.final(max(1.5, size / 4e6))
            self.assertEqual(calls % plan.sets, 0)
            self.assertLessEqual(calls, gpu.MOST_CALLS)
            self.assertFalse(flushed)

    def test_tiny_shapes_are_flushed_instead(self):
        plan = gpu.Plan(32)
        self.assertEqual((plan.sets, plan.final(1.0)), (gpu.MOST_CALLS, (gpu.MOST_CALLS, True)))

    def test_a_slow_call_takes_fewer_turns_and_a_very_slow_one_a_part_of_one(self):
        plan = gpu.Plan(2 * 131072 * 4)  # 287 sets
        self.assertEqual(plan.final(2.0), (3 * plan.sets, False))
        self.assertEqual(plan.final(7.5), (plan.sets, False))
        self.assertEqual(plan.final(146.0), (14, True))

    def test_a_screen_is_short_and_flushed_unless_it_takes_every_set(self):
        self.assertEqual(gpu.Plan(2 * 8 * 1024 * 4).screen(), (gpu.SCREEN_US, True))
        self.assertEqual(gpu.Plan(2 * 8192 * 8192 * 4).screen(), (4, False))


if __name__ == "__main__":
    unittest.main()
