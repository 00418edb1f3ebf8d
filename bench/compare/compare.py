#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures rowsmith and every peer on one GPU, in one process. README.md has the commands."""

import argparse
import json
import os
import sys
import time

import bars
import plots
import report
import results
import shapes
from measure import DeviceLost, measure
from provider import Absent
from provider_rowsmith import winners_of

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))
_SWEEP_PROVIDERS = ("floor", "winner", "default")
_ALL_PROVIDERS = report.COLUMNS
# Kept of a run's minutes for the report.
_LAST_S = 10
# Shapes tuned together: few, so that what has been tuned is also measured when time runs out.
_GROUP = 16


def parse(arguments):
    parser = argparse.ArgumentParser(prog="compare.py", description=__doc__)
    what = parser.add_argument_group("shapes")
    what.add_argument("--table", action="store_true", help="the table of reference_h200.json")
    what.add_argument("--extra", action="store_true", help="the other shapes that a bar names")
    what.add_argument("--sweep", action="store_true", help="rowsmith and the floor over H")
    what.add_argument("-S", metavar="LIST", help="rows: 1,16,4096 or 8-12")
    what.add_argument("-H", metavar="LIST", help="columns: 256,1000-1010")
    what.add_argument("-d", metavar="LIST", help="dtypes of -S and -H; of the sweep: f32,f16,bf16")
    how = parser.add_argument_group("how")
    how.add_argument("--providers", metavar="LIST", help=", ".join(_ALL_PROVIDERS))
    how.add_argument("--order", choices=("bars", "asked"), default="bars",
                     help="bars: shapes with a bar of their own, f16, the rest (bars)")
    how.add_argument("--shard", metavar="I/N", help="every N-th of the shapes: a GPU each")
    how.add_argument("--rounds", type=int, default=15, help="replays a graph (15)")
    how.add_argument("--minutes", type=float, help="stop cleanly before so many have passed")
    how.add_argument("--tune", action="store_true", help="tune each shape that has no winner yet")
    how.add_argument("--effort", default="standard", choices=("quick", "standard", "thorough"),
                     help="of --tune")
    files = parser.add_argument_group("files")
    files.add_argument("--stage", default=os.path.join(_ROOT, ".gpu"), metavar="DIR",
                       help="what scripts/gpu_stage.sh made (.gpu)")
    files.add_argument("--cache-dir", metavar="DIR", help="of the winners (STAGE/compare_cache)")
    files.add_argument("--other", metavar="FILE", help="a winners.json whose configs are timed as "
                       "provider other, at its shapes unless others are named")
    files.add_argument("--winners", metavar="FILE", help="winners.json of an earlier run to join")
    files.add_argument("--out", default=os.environ.get("OUT") or os.path.join(_ROOT, ".gpu", "out"),
                       metavar="DIR", help="results ($OUT, else .gpu/out)")
    files.add_argument("--resume", metavar="FILE", nargs="+", default=[],
                       help="points.jsonl of earlier runs: what is there is not measured again")
    also = parser.add_argument_group("without a GPU")
    also.add_argument("--list", action="store_true", help="print the shapes and stop")
    also.add_argument("--report", action="store_true", help="report what --resume holds and stop")
    options = parser.parse_args(arguments)
    if options.report and not options.resume:
        parser.error("--report needs --resume FILE ..")
    if options.rounds < 1:
        parser.error(f"--rounds: {options.rounds} is less than 1")
    if options.minutes is not None and options.minutes <= 0:
        parser.error(f"--minutes: {options.minutes} is not above 0")
    named = [("--winners", options.winners), ("--other", options.other),
             *(("--resume", path) for path in options.resume)]
    for option, path in named:
        if path is not None and not os.path.isfile(path):
            parser.error(f"{option}: no file {path}")
    try:
        options.earlier = [(path, *results.load(path)) for path in options.resume]
    except ValueError as error:
        parser.error(f"--resume: {error}")
    try:
        options.plan = [] if options.report else plan_of(options)
    except KeyError as error:
        parser.error(f"--other: {options.other} is no export of winners: no {error}")
    except ValueError as error:
        parser.error(str(error))
    if not options.plan and not options.report:
        parser.error("no shapes: --table, --extra, --sweep, --other, or -S with -H and -d")
    return options


def plan_of(options):
    """[(shape, providers)], each shape once: what asks for more providers comes first."""
    if (options.S is None) != (options.H is None):
        raise ValueError("-S and -H go together")
    wide = shapes.table_shapes() if options.table else []
    wide += shapes.extra_shapes() if options.extra else []
    if options.S is not None:
        if options.d is None:
            raise ValueError("-S and -H need -d")
        wide += shapes.listed_shapes(options.S, options.H, options.d)
    sweep = []
    if options.other and not wide and not options.sweep:
        wide = [shape for shape, _ in winners_of(options.other)]
    if options.sweep:
        sweep = shapes.sweep_shapes(shapes.parse_dtypes(options.d) if options.d
                                    else shapes.SWEEP_DTYPES)
    asked = tuple(name for name in _ALL_PROVIDERS if name != "other" or options.other)
    if options.providers:
        asked = tuple(dict.fromkeys(options.providers.split(",")))
        for name in asked:
            if name not in _ALL_PROVIDERS:
                raise ValueError(f"--providers: '{name}' is not one of {', '.join(_ALL_PROVIDERS)}")
    narrow = tuple(name for name in asked if name in _SWEEP_PROVIDERS)
    if options.order == "bars":
        wide = first_things_first(wide)
    plan = dict.fromkeys(wide, asked)
    for shape in sweep:
        plan.setdefault(shape, narrow)
    first, step = parse_shard(options.shard)
    return list(plan.items())[first::step]


def parse_shard(text):
    """(first, step) of a shard like "2/3"."""
    if text is None:
        return 0, 1
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise ValueError(f"--shard: '{text}' is not I/N with 1 <= I <= N")
    return int(index) - 1, int(count)


def first_things_first(wide):
    """The shapes with a bar of their own, then f16, then the rest: a short run decides most."""
    named = {shape: at for at, shape in enumerate(bars.named_shapes())}
    return sorted(wide, key=lambda s: (named.get(s, len(named)), s.dtype != "f16"))


def make_providers(names, options):
    """Imported here alone, so that nothing else needs what they need."""
    from provider_cuda import Fixed, Floor
    from provider_cudnn import Cudnn
    from provider_quack import Quack
    from provider_rowsmith import Default, Other, Winner
    from provider_torch import Compile, Torch
    from provider_triton import Triton

    header = os.path.join(_ROOT, "include", "rowsmith", "rowsmith_c.h")
    made = {"floor": Floor, "fixed": Fixed, "cudnn": Cudnn, "quack": Quack, "torch": Torch,
            "compile": Compile, "triton": Triton,
            "winner": lambda: Winner(options.stage, header, options.cache_dir),
            "other": lambda: Other(options.stage, header, options.other),
            "default": lambda: Default(options.stage, header)}
    return {name: made[name]() for name in names}


def open_providers(providers, torch):
    """(usable by name, {name: why not})."""
    usable, absent = {}, {}
    for name, provider in providers.items():
        try:
            provider.open(torch)
            usable[name] = provider
        except Exception as reason:  # a library of another version can fail in any way
            known = isinstance(reason, Absent)
            absent[name] = str(reason) if known else f"{type(reason).__name__}: {reason}"
            print(f"compare: {name} is absent: {absent[name]}", file=sys.stderr)
    return usable, absent


class Clock:
    def __init__(self, minutes):
        self._end = None if minutes is None else time.monotonic() + 60 * minutes - _LAST_S

    def left_s(self):
        return 3600.0 if self._end is None else self._end - time.monotonic()


def run(plan, providers, absent, bench, log, options, tuner=None, clock=None):
    """Measures the plan by groups, tuning each before it is measured. Whether all of it was."""
    clock = clock or Clock(options.minutes)
    asked = dict(plan)
    slowest_s = 0.0
    for group in shapes.groups(asked, _GROUP):
        if clock.left_s() < 1.5 * slowest_s:
            print(f"compare: out of time before {group[0].key}", file=sys.stderr)
            return False
        if tuner is not None and any("winner" in asked[shape] for shape in group):
            for complaint in tuner.tune(group, clock.left_s()):
                print(f"compare: tune: {complaint}", file=sys.stderr)
            if "winner" in providers:
                providers["winner"].reopen()
        for shape in group:
            if clock.left_s() < 1.5 * slowest_s:
                print(f"compare: out of time before {shape.key}", file=sys.stderr)
                return False
            start = time.monotonic()
            usable = [providers[name] for name in asked[shape] if name in providers]
            gone = {name: absent[name] for name in asked[shape] if name in absent}
            point = measure(shape, usable, bench, options.rounds, gone)
            log.append(point)
            slowest_s = max(slowest_s, time.monotonic() - start)
            print(line_of(point), flush=True)
    return True


def line_of(point):
    cells = (f"{name} {cell['us']:.2f}" if "us" in cell else f"{name} -"
             for name, cell in point["providers"].items())
    return f"{results.shape_of(point).key}: {'  '.join(cells)}"


def measure_plan(options, log, points):
    """Whether everything asked is measured now."""
    left = [(s, names) for s, names in options.plan if results.pending([s], points, names)]
    print(f"compare: {len(left)} of {len(options.plan)} shapes to measure", file=sys.stderr)
    if not left:
        return True
    clock = Clock(options.minutes)
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"compare: needs torch: {error}") from None
    if not torch.cuda.is_available():
        raise SystemExit("compare: torch sees no GPU")
    import gpu
    from tuning import Tuner, TuneError

    options.cache_dir = os.path.abspath(
        options.cache_dir or os.path.join(options.stage, "compare_cache"))
    os.makedirs(options.cache_dir, mode=0o700, exist_ok=True)
    bench = gpu.Bench(torch)
    try:
        tuner = Tuner(options.stage, options.cache_dir, str(torch.cuda.current_device()),
                      options.effort) if options.tune or options.winners else None
        if options.winners:
            tuner.import_winners(options.winners)
        names = [n for n in _ALL_PROVIDERS if any(n in asked for _, asked in left)]
        providers, absent = open_providers(make_providers(names, options), torch)
        log.append({"run": {**gpu.facts(torch), "command": " ".join(sys.argv[1:])}})
        try:
            for name, provider in providers.items():
                provider.foresee([shape for shape, asked in left if name in asked])
            return run(left, providers, absent, bench, log, options,
                       tuner if options.tune else None, clock)
        finally:
            for provider in providers.values():
                provider.close()
            if options.tune:
                tuner.export_winners(os.path.join(options.out, "winners.json"))
    except TuneError as error:
        raise SystemExit(f"compare: {error}") from None


def write_report(options, points_path):
    runs, points = results.load(points_path)
    if not points:
        print("compare: nothing measured yet")
        return
    with open(os.path.join(_HERE, "reference_h200.json"), encoding="utf-8") as file:
        reference = json.load(file)["us"]
    print(report.write_all(options.out, runs, points, reference))
    try:
        plots.draw(options.out, points)
    except ImportError as error:
        print(f"compare: no plot: {error}", file=sys.stderr)


def main(arguments):
    options = parse(arguments)
    if options.list:
        for shape, names in options.plan:
            print(f"{shape.key}  {','.join(names)}")
        print(f"{len(options.plan)} shapes", file=sys.stderr)
        return 0
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, "points.jsonl")
    log = results.Log(path)
    _, points = results.load(path)
    for earlier, runs, more in options.earlier:
        if os.path.exists(path) and os.path.samefile(earlier, path):
            continue
        for record in [*({"run": r} for r in runs), *more]:
            log.append(record)
        points += more
    try:
        done = options.report or measure_plan(options, log, points)
    except DeviceLost as error:
        print(f"compare: {error}: rerun with --providers less that one", file=sys.stderr)
        done = False
    write_report(options, path)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
