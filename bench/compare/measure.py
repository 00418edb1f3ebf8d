# SPDX-License-Identifier: Apache-2.0
"""One shape, every provider: screen each provider's variants by short graphs, check the fastest in
the graphs that are timed, then rounds over all providers'.

`bench` does what needs a GPU (gpu.py). bench.problem(shape) is a context manager whose value has
.shape, .x, .y, .sets and .plan (gpu.Plan); bench.capture(problem, variant, calls, flushed) answers
a graph with .wrong() (what is wrong with its results, or None), .enqueue() (one replay, timed) and
.take() (microseconds a call of each replay enqueued since). bench.lost() says whether the context
is gone.
"""

import statistics

from provider import Skip


class DeviceLost(Exception):
    """A provider's kernel has ended the CUDA context; nothing more runs in this process."""


SCREEN_REPLAYS = 3
FINAL_WITHIN = 1.02  # of the provider's fastest
FINAL_MOST = 3


def quartiles(samples):
    """(25 %, median, 75 %), interpolated."""
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, statistics.median(samples), high


def _screened(bench, problem, variants, complaints):
    """[(median us, variant)], fastest first; what fails is added to `complaints`."""
    found = []
    for variant in variants:
        try:
            graph = bench.capture(problem, variant, *problem.plan.screen())
            for _ in range(SCREEN_REPLAYS):
                graph.enqueue()
            found.append((statistics.median(graph.take()), variant))
        except Exception as error:
            if bench.lost():
                raise
            complaints.append(f"{variant.label}: {_text(error)}")
    return sorted(found, key=lambda entry: entry[0])


def _finalists(bench, problem, screened, complaints):
    """[(variant, graph, calls, flushed)] of the fastest that are right, each graph checked; those
    within FINAL_WITHIN of the first, so that a wrong one keeps no right one out."""
    found, limit = [], None
    for us, variant in screened:
        if len(found) == FINAL_MOST or (found and us > limit):
            break
        try:
            calls, flushed = problem.plan.final(us)
            graph = bench.capture(problem, variant, calls, flushed)
            wrong = graph.wrong()
        except Exception as error:
            if bench.lost():
                raise
            complaints.append(f"{variant.label}: {_text(error)}")
            continue
        if wrong:
            complaints.append(f"{variant.label}: wrong: {wrong}")
            continue
        limit = limit or us * FINAL_WITHIN
        found.append((variant, graph, calls, flushed))
    return found


def _text(error):
    lines = str(error).strip().splitlines()
    return f"failed: {type(error).__name__}: {lines[0][:200] if lines else ''}"


def _rounds(graphs, count):
    """Each round replays every graph once, from another start, so that drift hits all alike."""
    for turn in range(count):
        start = turn % len(graphs)
        for graph in graphs[start:] + graphs[:start]:
            graph.enqueue()
    return [graph.take() for graph in graphs]


def _cell(variant, calls, flushed, samples, complaints):
    low, median, high = quartiles(samples)
    cell = {"us": median, "iqr_us": high - low, "rounds": len(samples), "variant": variant.label,
            "calls": calls, "flushed": flushed}
    cell.update(variant.facts)
    if complaints:
        cell["complaints"] = complaints
    return cell


def measure(shape, providers, bench, rounds, absent):
    """The point of results.py. `absent` is {provider name: why} of those that could not open."""
    cells = {name: {"skip": f"absent: {why}"} for name, why in absent.items()}
    with bench.problem(shape) as problem:
        entries = []
        for provider in providers:
            complaints = []
            try:
                screened = _screened(bench, problem, provider.variants(problem), complaints)
                finalists = _finalists(bench, problem, screened, complaints)
            except Skip as reason:
                cells[provider.name] = {"skip": str(reason)}
                continue
            except Exception as error:
                if bench.lost():
                    raise DeviceLost(f"{provider.name} at {shape.key}: {_text(error)}") from error
                cells[provider.name] = {"skip": _text(error)}
                continue
            entries += [(provider.name, complaints, *finalist) for finalist in finalists]
            if not finalists:
                wrong = any(": wrong: " in text for text in complaints)
                cells[provider.name] = {"wrong" if wrong else "skip": "; ".join(complaints)}
        taken = _rounds([entry[3] for entry in entries], rounds) if entries else []
        for (name, complaints, variant, _, calls, flushed), samples in zip(entries, taken):
            cell = _cell(variant, calls, flushed, samples, complaints)
            if name not in cells or cell["us"] < cells[name]["us"]:
                cells[name] = cell
        return {"dtype": shape.dtype, "S": shape.rows, "H": shape.cols, "providers": cells,
                "sets": problem.sets}
