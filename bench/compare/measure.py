# SPDX-License-Identifier: Apache-2.0
"""One shape, every provider: check, screen each provider's variants, then rounds over all.

`bench` does what needs a GPU (gpu.py). bench.problem(shape) is a context manager whose value has
.shape, .x, .y, .sets, .calls and .flushed; bench.capture(problem, variant) answers a graph with
.wrong() (what is wrong with its results, or None), .enqueue() (one replay, timed) and .take()
(microseconds a call of each replay enqueued since). bench.lost() says whether the context is gone.
"""

import statistics

from provider import Skip


class DeviceLost(Exception):
    """A provider's kernel has ended the CUDA context; nothing more runs in this process."""


SCREEN_REPLAYS = 3
FINAL_WITHIN = 1.03  # of the provider's fastest
FINAL_MOST = 3


def quartiles(samples):
    """(25 %, median, 75 %), interpolated."""
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, statistics.median(samples), high


def _screened(bench, problem, variants):
    """(graphs [(median, variant, graph)] fastest first, complaints [text])."""
    graphs, complaints = [], []
    for variant in variants:
        try:
            graph = bench.capture(problem, variant)
            wrong = graph.wrong()
            if wrong is None:
                for _ in range(SCREEN_REPLAYS):
                    graph.enqueue()
                graphs.append((statistics.median(graph.take()), variant, graph))
            else:
                complaints.append(f"{variant.label}: wrong: {wrong}")
        except Exception as error:
            if bench.lost():
                raise
            complaints.append(f"{variant.label}: {_text(error)}")
    graphs.sort(key=lambda entry: entry[0])
    return graphs, complaints


def _text(error):
    lines = str(error).strip().splitlines()
    return f"failed: {type(error).__name__}: {lines[0][:200] if lines else ''}"


def _finalists(graphs):
    if not graphs:
        return []
    limit = graphs[0][0] * FINAL_WITHIN
    return [(v, g) for us, v, g in graphs[:FINAL_MOST] if us <= limit]


def _rounds(graphs, count):
    """Each round replays every graph once, from another start, so that drift hits all alike."""
    for turn in range(count):
        start = turn % len(graphs)
        for graph in graphs[start:] + graphs[:start]:
            graph.enqueue()
    return [graph.take() for graph in graphs]


def _cell(variant, samples, complaints):
    low, median, high = quartiles(samples)
    cell = {"us": median, "iqr_us": high - low, "rounds": len(samples), "variant": variant.label}
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
            try:
                graphs, complaints = _screened(bench, problem, provider.variants(problem))
            except Skip as reason:
                cells[provider.name] = {"skip": str(reason)}
                continue
            except Exception as error:
                if bench.lost():
                    raise DeviceLost(f"{provider.name} at {shape.key}: {_text(error)}") from error
                cells[provider.name] = {"skip": _text(error)}
                continue
            finalists = _finalists(graphs)
            entries += [(provider.name, v, g, complaints) for v, g in finalists]
            if not finalists:
                wrong = any(": wrong: " in text for text in complaints)
                cells[provider.name] = {"wrong" if wrong else "skip": "; ".join(complaints)}
        taken = _rounds([entry[2] for entry in entries], rounds) if entries else []
        for (name, variant, _, complaints), samples in zip(entries, taken):
            cell = _cell(variant, samples, complaints)
            if name not in cells or cell["us"] < cells[name]["us"]:
                cells[name] = cell
        return {"dtype": shape.dtype, "S": shape.rows, "H": shape.cols, "providers": cells,
                "sets": problem.sets, "calls": problem.calls, "flushed": problem.flushed}
