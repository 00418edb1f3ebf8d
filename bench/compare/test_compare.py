# SPDX-License-Identifier: Apache-2.0
"""What needs neither a GPU nor torch: `python3 -m unittest discover bench/compare`."""

import contextlib
import ctypes
import io
import json
import os
import re
import tempfile
import unittest
from unittest import mock

import bars
import compare
import nvrtc
import plots
import provider_cuda
import provider_triton
import report
import results
import rowsmith_c
import shapes
from nvrtc import Nvrtc
from provider import Absent
from shapes import Shape

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))


def point(dtype, rows, cols, **times):
    """A point with these microseconds, an interquartile range of 1 % each."""
    cells = {name: {"us": us, "iqr_us": us / 100, "rounds": 15, "variant": name, "source": "exact"}
             for name, us in times.items()}
    return {"dtype": dtype, "S": rows, "H": cols, "providers": cells}


def bar(points, start):
    return next(b for b in bars.all_bars(points) if b.name.startswith(start))


class ShapesTest(unittest.TestCase):
    def test_the_table_is_what_the_reference_has(self):
        with open(os.path.join(_HERE, "reference_h200.json"), encoding="utf-8") as file:
            reference = json.load(file)["us"]
        self.assertEqual(set(reference), {shape.key for shape in shapes.table_shapes()})

    def test_the_sweep_has_every_h_that_was_asked(self):
        columns = shapes.sweep_columns()
        for cols in (1, 64, 65, 72, 1094, 1023, 1024, 1025, 262143, 262145, 702, 1000003):
            self.assertIn(cols, columns)
        self.assertNotIn(66, columns)

    def test_each_h_of_the_sweep_has_one_large_s_and_sixteen(self):
        swept = shapes.sweep_shapes(["f16"])
        for cols in shapes.sweep_columns():
            rows = [s.rows for s in swept if s.cols == cols]
            self.assertEqual(rows[-1], 16)
            large = rows[0]
            self.assertGreaterEqual(large * cols * 2, 64_000_000)
            self.assertLess(large // 2 * cols * 2, 64_000_000)

    def test_lists_take_ranges_and_name_what_is_wrong(self):
        self.assertEqual(shapes.parse_numbers("3,8-10,3", "-H"), [3, 8, 9, 10])
        for text in ("", "0", "9-8", "x", "1,,2", str(2**31)):
            with self.assertRaisesRegex(ValueError, "-H"):
                shapes.parse_numbers(text, "-H")
        with self.assertRaisesRegex(ValueError, "'f8'"):
            shapes.parse_dtypes("f32,f8")

    def test_groups_keep_the_order_and_are_bounded(self):
        listed = [shapes.Shape("f16", 4, h) for h in (1, 2, 3, 4)] + [shapes.Shape("f32", 8, 1)]
        self.assertEqual(shapes.groups(dict.fromkeys(listed), 3), [listed[:3], listed[3:]])
        self.assertEqual(shapes.groups([], 3), [])


class UsageTest(unittest.TestCase):
    def refused(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit) as end:
            compare.parse(["--table", *arguments])
        self.assertEqual(end.exception.code, 2)
        return err.getvalue()

    def test_wrong_usage_is_told_before_anything_runs(self):
        for arguments, word in ((("--effort", "max"), "max"), (("--rounds", "0"), "--rounds"),
                                (("--minutes", "-1"), "--minutes"),
                                (("--winners", "/nope"), "--winners: no file /nope"),
                                (("--other", "/nope"), "--other: no file /nope"),
                                (("--resume", "/nope"), "--resume: no file /nope"),
                                (("--report", "--resume", __file__), "not JSON")):
            self.assertIn(word, self.refused(*arguments))


class OtherTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "winners.json")

    def write(self, *winners):
        keys = ("in", "out", "rows", "cols", "layout", "config")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"winners": [dict(zip(keys, w)) for w in winners]}, file)

    def test_its_shapes_are_those_of_fresh_buffers(self):
        self.write(("f16", "f16", 4, 8, "src=16,dst=16,co=32", "a"),
                   ("f16", "f32", 4, 9, "src=16,dst=16,co=32", "b"),
                   ("f16", "f16", 4, 10, "src=16,dst=16,co=32,in-place", "c"))
        options = compare.parse(["--other", self.path, "--providers", "floor,winner,other"])
        self.assertEqual(options.plan, [(shapes.Shape("f16", 4, 8), ("floor", "winner", "other"))])

    def test_without_a_file_nobody_asks_for_it(self):
        options = compare.parse(["-S", "4", "-H", "8", "-d", "f16"])
        self.assertNotIn("other", options.plan[0][1])

    def test_a_file_that_holds_no_winners_is_named(self):
        for content in ("{}", "[", '{"winners": [{}]}'):
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(content)
            with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit):
                compare.parse(["--other", self.path])
            self.assertRegex(err.getvalue(), "--other|Expecting")
        with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit):
            compare.parse(["--other", self.path + ".no"])
        self.assertIn("winners.json.no", err.getvalue())

    def test_the_report_tells_by_how_much_two_caches_differ(self):
        points = [point("f16", 4, h, winner=1.0 + h, other=other)
                  for h, other in ((8, 9.0), (16, 16.0), (32, 40.0))]
        self.assertEqual(report.beside_other(points), [
            "winner beside other: 3 shapes, 1 slower by more than 2 %, 1 faster; "
            "-17.5 % (f16 4x32) to +6.2 % (f16 4x16)"])
        self.assertEqual(report.beside_other([point("f16", 4, 8, winner=1.0)]), [])


class ResultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "points.jsonl")

    def test_what_is_appended_is_read_and_the_later_of_two_stays(self):
        log = results.Log(self.path)
        log.append({"run": {"device": "d"}})
        log.append(point("f32", 4, 8, floor=1.0))
        log.append(point("f32", 4, 8, floor=2.0))
        runs, points = results.load(self.path)
        self.assertEqual(runs, [{"device": "d"}])
        self.assertEqual([results.time_of(p, "floor") for p in points], [2.0])

    def test_a_line_that_a_kill_cut_short_is_dropped_and_overwritten(self):
        results.Log(self.path).append(point("f32", 4, 8, floor=1.0))
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('{"dtype": "f32", "S"')
        self.assertEqual(len(results.load(self.path)[1]), 1)
        results.Log(self.path).append(point("f32", 4, 9, floor=1.0))
        self.assertEqual(len(results.load(self.path)[1]), 2)

    def test_damage_elsewhere_is_named(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("{\n{}\n")
        with self.assertRaisesRegex(ValueError, "points.jsonl:1"):
            results.load(self.path)

    def test_pending_is_what_lacks_an_asked_provider(self):
        done = [point("f32", 4, 8, floor=1.0, winner=2.0), point("f32", 4, 9, floor=1.0)]
        asked = [Shape("f32", 4, h) for h in (8, 9, 10)]
        self.assertEqual(results.pending(asked, done, ["floor", "winner"]), asked[1:])


class BarsTest(unittest.TestCase):
    def test_a_ratio_bar_names_the_shapes_that_miss_it(self):
        points = [point("f32", 8192, 8192, floor=96.0, winner=100.0),
                  point("f16", 4096, 8192, floor=90.0, winner=100.0)]
        found = bar(points, "winner, >= 32 MB, row <= 64 KB")
        self.assertEqual(found.verdict, "not met")
        self.assertIn("1 of 2", found.figure)
        self.assertIn("0.900 f16 4096x8192", found.figure)
        self.assertEqual(bar(points[:1], "winner, >= 32 MB, row <= 64 KB").verdict, "met")

    def test_few_long_rows_have_bars_of_their_own(self):
        points = [point("f16", 64, 151936, floor=11.0, winner=12.9)]
        self.assertEqual(bar(points, "winner, >= 32 MB, row 64 KB").verdict, "not measured")
        self.assertEqual(bar(points, "winner, f16 64 x 151936").verdict, "met")

    def test_a_bar_without_its_shape_is_not_measured(self):
        self.assertTrue(all(b.verdict == "not measured" for b in bars.all_bars([])))

    def test_a_peer_within_the_spread_is_not_faster(self):
        close = point("f32", 4096, 256, floor=3.0, winner=4.0, torch=3.99)
        self.assertEqual(bars.faster_peers(close), [])
        ahead = point("f32", 4096, 256, floor=3.0, winner=4.0, torch=3.9, quack=5.0)
        self.assertEqual(bars.faster_peers(ahead), [("torch", 3.9)])
        self.assertIn("torch 3.90", bar([close, ahead], "no peer faster").figure)

    def test_the_default_is_compared_in_the_geometric_mean(self):
        points = [point("f32", 4, 8, winner=1.0, default=1.0),
                  point("f32", 4, 9, winner=1.0, default=1.21)]
        self.assertEqual(bar(points, "default within").verdict, "met")  # 1.1 exactly
        points[1] = point("f32", 4, 9, winner=1.0, default=1.22)
        self.assertEqual(bar(points, "default within").verdict, "not met")

    def test_a_cliff_is_an_h_slower_per_byte_than_its_neighbours(self):
        swept = [point("f16", 65536, h, floor=1.0, winner=h / 1000) for h in range(600, 640, 5)]
        self.assertEqual(bar(swept, "no cliff").verdict, "met")
        swept[4]["providers"]["winner"]["us"] *= 1.2
        self.assertEqual([shape.cols for shape, _ in bars.cliffs(swept)[1]], [620])
        few_rows = [dict(p, S=16) for p in swept]
        self.assertEqual(bar(few_rows, "no cliff").verdict, "not measured")

    def test_a_run_slower_than_the_reference_is_invalid(self):
        reference = {"f32 4096x4096": {"floor": 33.44, "fixed": 41.94},
                     "f32 4096x256": {"floor": 3.44}}
        fine = [point("f32", 4096, 4096, floor=35.0, fixed=44.0),
                point("f32", 4096, 256, floor=9.0)]  # under 10 us: not judged
        self.assertEqual(bars.invalid(fine, reference), [])
        self.assertRegex(bars.validity(fine, reference), "^valid: none of 2 ")
        self.assertRegex(bars.validity(fine[1:], reference), "unknown")
        slow = [point("f32", 4096, 4096, floor=33.0, fixed=44.1)]
        self.assertRegex(bars.validity(slow, reference), "INVALID")
        self.assertRegex(bars.invalid(slow, reference)[0], r"4096x4096: fixed 44.10 us.*\+5\.2 %")


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.points = [point("f32", 4096, 256, floor=3.0, winner=4.0, torch=5.0),
                       point("f16", 16, 7, floor=1.0, winner=1.25)]
        self.points[0]["providers"]["quack"] = {"skip": "absent: no wheel"}
        self.points[1]["providers"]["winner"]["source"] = "default"

    def test_the_table_has_a_column_a_provider_and_says_what_serves(self):
        rows = report.table_rows(self.points)
        self.assertEqual(rows[0][:6], ["dtype", "S x H", "floor", "winner", "torch", "quack"])
        self.assertEqual(rows[1][:7], ["f32", "4096 x 256", "3.00", "4.00", "5.00", "-", "0.750"])
        self.assertEqual(rows[2][-1], "(default) winner")

    def test_every_form_holds_every_point(self):
        with tempfile.TemporaryDirectory() as folder:
            text = report.write_all(folder, [{"device": "d"}], self.points, {})
            self.assertIn("quack: absent: no wheel (1 shapes, as f32 4096x256)", text)
            with open(f"{folder}/report.json", encoding="utf-8") as file:
                self.assertEqual(len(json.load(file)["points"]), 2)
            with open(f"{folder}/points.csv", encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(len(lines), 1 + 4 + 2)
            self.assertIn("f32,4096,256,torch,5.0000,0.0500,0.6000,torch,exact,", lines)
            with open(f"{folder}/report.md", encoding="utf-8") as file:
                self.assertIn("| f32 | 4096 x 256 | 3.00 |", file.read())

    def test_a_series_of_the_plot_is_sorted_by_h_and_split_by_size(self):
        points = [point("f32", 65536, 512, floor=1.0, winner=2.0),
                  point("f32", 65536, 256, floor=1.0, winner=1.0),
                  point("f32", 16, 256, floor=1.0, winner=4.0)]
        self.assertEqual(plots.series(points, "f32"), {
            ("winner", "large"): [(256, 1.0), (512, 0.5)], ("winner", "small"): [(256, 0.25)]})

    def test_the_plot_is_drawn(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib")
        with tempfile.TemporaryDirectory() as folder:
            plots.draw(folder, self.points)
            self.assertEqual(sorted(os.listdir(folder)),
                             ["floor_over_time.png", "floor_over_time.svg"])


class CommandTest(unittest.TestCase):
    def test_list_prints_every_shape_with_its_providers(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(compare.main(["--table", "--extra", "--list"]), 0)
        lines = out.getvalue().splitlines()
        self.assertEqual(len(lines), 36 + 5)
        self.assertIn("f64 4096x4096  floor,winner,default,torch,compile,triton,cudnn,quack,fixed",
                      lines)

    def test_shapes_with_bars_come_first_then_f16(self):
        def order(*more):
            return [s for s, _ in compare.parse(["--table", "--extra", *more]).plan]

        named = bars.named_shapes()
        self.assertEqual(order()[:len(named)], named)
        self.assertEqual(order()[len(named)].dtype, "f16")
        self.assertEqual([s.dtype for s in order()[-20:]], ["f32"] * 16 + ["bf16"] * 4)
        self.assertEqual(order("--order", "asked")[:36], shapes.table_shapes())

    def test_shards_are_even_and_together_the_plan(self):
        whole = compare.parse(["--table", "--extra"]).plan
        shards = [compare.parse(["--table", "--extra", "--shard", f"{i}/3"]).plan
                  for i in (1, 2, 3)]
        self.assertLessEqual(max(map(len, shards)) - min(map(len, shards)), 1)
        self.assertEqual(sorted(sum(shards, [])), sorted(whole))

    def test_a_shape_of_table_and_sweep_keeps_the_peers(self):
        options = compare.parse(["--table", "--sweep", "-d", "f32"])
        plan = dict(options.plan)
        self.assertIn("torch", plan[Shape("f32", 16, 262144)])
        self.assertEqual(plan[Shape("f32", 16, 64)], ("floor", "winner", "default"))

    def test_wrong_use_is_refused_with_what_is_wrong(self):
        for arguments, text in (([], "no shapes"), (["-S", "4"], "-S and -H"),
                                (["--table", "--providers", "tvm"], "'tvm'"),
                                (["--table", "--shard", "3/2"], "'3/2'"),
                                (["--table", "--shard", "2"], "'2'"),
                                (["--report"], "--resume")):
            err = io.StringIO()
            with contextlib.redirect_stderr(err), self.assertRaises(SystemExit):
                compare.parse(arguments)
            self.assertIn(text, err.getvalue())

    def test_a_report_is_made_from_files_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            earlier = os.path.join(folder, "earlier.jsonl")
            results.Log(earlier).append(point("f32", 4, 8, floor=1.0, winner=2.0))
            out = os.path.join(folder, "out")
            with contextlib.redirect_stdout(io.StringIO()) as text, \
                    contextlib.redirect_stderr(io.StringIO()):
                compare.main(["--report", "--resume", earlier, "--out", out])
            self.assertIn("0.500", text.getvalue())
            self.assertTrue(os.path.exists(os.path.join(out, "report.md")))


class KernelTextTest(unittest.TestCase):
    def nvrtc(self):
        try:
            return Nvrtc()
        except Absent as reason:
            self.skipTest(str(reason))

    def test_the_copies_compile(self):
        cubin = self.nvrtc().compile(provider_cuda.copy_text(), "copy.cu", "sm_90")
        for copy in provider_cuda.COPIES:
            for early in (False, True):
                self.assertIn(provider_cuda.copy_entry(copy, early).encode() + bytes(1), cubin)

    def test_the_copies_are_those_of_the_tuners_floor(self):
        with open(os.path.join(_ROOT, "kernel_templates", "copy.cpp"), encoding="utf-8") as file:
            found = re.findall(r'\{(\d+), (\d+), "nc", "(cs|default)"\}', file.read())
        self.assertEqual({(int(t), int(p), store == "cs") for t, p, store in found},
                         set(provider_cuda.COPIES))

    def test_the_launch_structs_are_as_large_as_the_drivers(self):
        self.assertEqual(ctypes.sizeof(nvrtc._Attribute), 72)
        self.assertEqual(ctypes.sizeof(nvrtc._Config), 56)
        self.assertEqual(nvrtc._Config.attributes.offset, 40)

    def test_the_fixed_kernels_compile_for_every_h_they_accept(self):
        nvrtc = self.nvrtc()
        with open(os.path.join(_HERE, "fixed.cu"), encoding="utf-8") as file:
            text = file.read()
        for cols in (32, 1024, 2048, 8192):
            cubin = nvrtc.compile(text, "fixed.cu", "sm_90", [f"-DROW_LENGTH={cols}"])
            for name, (_, _, accepted) in provider_cuda.FIXED.items():
                self.assertEqual(cols in accepted or name == "safe_f16x8",
                                 name.encode() + bytes(1) in cubin, (name, cols))

    def test_triton_blocks_are_powers_of_two_that_fit(self):
        self.assertEqual([provider_triton.block_of(h) for h in (1, 2, 3, 1024, 1025)],
                         [1, 2, 4, 1024, 2048])
        self.assertEqual(provider_triton.warps_for(1024), [4, 8, 16, 32])
        self.assertEqual(provider_triton.warps_for(256), [4, 8])
        self.assertEqual(provider_triton.warps_for(16), [4])
        self.assertEqual(provider_triton.warps_for(131072), [16, 32])
        self.assertEqual(provider_triton.warps_for(262144), [])


    def test_triton_compilers_have_ended_before_anything_is_timed(self):
        with mock.patch("provider_triton.subprocess.Popen") as started:
            provider_triton.Triton().foresee([Shape("f16", 4096, 1024)])
        self.assertGreater(started.call_count, 0)
        self.assertGreaterEqual(started.return_value.wait.call_count, started.call_count)

    def test_triton_programs_are_listed_once_in_the_order_of_the_shapes(self):
        listed = [Shape("f16", 8, 16), Shape("f8e4m3", 8, 16), Shape("f32", 8, 256),
                  Shape("f16", 9, 16)]
        self.assertEqual(provider_triton.programs(listed),
                         [["f16", 16, 4], ["f32", 256, 4], ["f32", 256, 8]])


class HeaderTest(unittest.TestCase):
    def test_the_call_is_read_from_the_header(self):
        with open(os.path.join(_ROOT, "include", "rowsmith", "rowsmith_c.h"),
                  encoding="utf-8") as file:
            header = file.read()
        names = [name for name, _ in rowsmith_c.struct_fields(header)]
        self.assertEqual(names[:9], ["src", "dst", "rows", "cols", "src_stride", "dst_stride", "in",
                                     "out", "stream"])
        self.assertEqual(rowsmith_c.dtype_numbers(header),
                         {"f64": 0, "f32": 1, "f16": 2, "bf16": 3, "f8e4m3": 4, "f8e5m2": 5})

    def test_a_field_added_later_is_read_and_an_unknown_one_named(self):
        text = "typedef struct rowsmith_call { const void* src; %s } rowsmith_call;"
        names = [n for n, _ in rowsmith_c.struct_fields(text % "double out_scale; /* a; b */")]
        self.assertEqual(names, ["src", "out_scale"])
        with self.assertRaisesRegex(ValueError, "rowsmith_mask mask"):
            rowsmith_c.struct_fields(text % "rowsmith_mask mask;")


if __name__ == "__main__":
    unittest.main()
