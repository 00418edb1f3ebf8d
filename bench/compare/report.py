# SPDX-License-Identifier: Apache-2.0
"""Points as a table (text and Markdown), CSV and JSON, with the bars."""

import csv
import io
import json

import bars
from results import shape_of

COLUMNS = ("floor", "winner", "other", "default", *bars.PEERS)


def _columns(points):
    return [name for name in COLUMNS if any(name in p["providers"] for p in points)]


def _cell_text(cell):
    if cell is None:
        return ""
    if "us" in cell:
        return f"{cell['us']:.2f}"
    return "wrong" if "wrong" in cell else "-"


def _served_by(point):
    cell = point["providers"].get("winner", {})
    if "us" not in cell:
        return ""
    source = cell.get("source", "")
    return cell["variant"] if source == "exact" else f"({source}) {cell['variant']}"


def table_rows(points):
    """The table's lines as lists of text, the first its head."""
    columns = _columns(points)
    rows = [["dtype", "S x H", *columns, "floor/winner", "spread", "winner's config"]]
    for point in sorted(points, key=lambda p: (-len(p["providers"]), shape_of(p))):
        shape = shape_of(point)
        ratio = bars.ratio(point)
        winner = point["providers"].get("winner", {})
        spread = f"{100 * winner['iqr_us'] / winner['us']:.1f} %" if "us" in winner else ""
        rows.append([shape.dtype, f"{shape.rows} x {shape.cols}",
                     *(_cell_text(point["providers"].get(name)) for name in columns),
                     f"{ratio:.3f}" if ratio else "", spread, _served_by(point)])
    return rows


def text_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if i in (0, len(row) - 1) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def markdown_table(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def reasons(points):
    """[text]: why a provider has no time, one line a provider and reason."""
    found = {}
    for point in points:
        for name, cell in point["providers"].items():
            why = cell.get("skip") or cell.get("wrong")
            if why:
                kind = "wrong: " if "wrong" in cell else ""
                found.setdefault((name, kind + why), []).append(shape_of(point).key)
    return [f"{name}: {why} ({len(keys)} shapes, as {keys[0]})"
            for (name, why), keys in sorted(found.items())]


def beside_other(points):
    """[text]: how the winners of two caches compare, over the shapes that both have."""
    both = [(bars.time_of(p, "winner") / bars.time_of(p, "other") - 1, shape_of(p).key)
            for p in points if bars.time_of(p, "winner") and bars.time_of(p, "other")]
    if not both:
        return []
    return [f"winner beside other: {len(both)} shapes, {sum(d > 0.02 for d, _ in both)} slower by "
            f"more than 2 %, {sum(d < -0.02 for d, _ in both)} faster; {100 * min(both)[0]:+.1f} % "
            f"({min(both)[1]}) to {100 * max(both)[0]:+.1f} % ({max(both)[1]})"]


NOTES = {
    "floor": "the fastest plain copy, launched as rowsmith launches where the device can (early)",
    "fixed": "the best of what is replaced; its naive_* subtract no maximum, which is right for "
             "the normal inputs here and not for larger ones",
}


def notes(points):
    """[text]: what a column is, where its name does not say, and the variants that were best."""
    lines = []
    for name in _columns(points):
        if name in NOTES:
            cells = [p["providers"].get(name, {}) for p in points]
            best = sorted({c["variant"] for c in cells if "us" in c})
            lines.append(f"{name}: {NOTES[name]}; best: {', '.join(best)}")
    return lines


def means(points):
    """[text]: each provider's geometric mean of floor/time, over the shapes that it served."""
    lines = []
    for name in _columns(points):
        found = [bars.ratio(p, name) for p in points if bars.ratio(p, name)]
        if found and name != "floor":
            lines.append(f"{name} {bars.geometric_mean(found):.3f} ({len(found)} shapes)")
    return lines


def _sections(runs, points, reference_us):
    machine = [", ".join(f"{k} {v}" for k, v in run.items() if k != "command") for run in runs]
    other = beside_other(points)
    return [
        ("Run", [*dict.fromkeys(machine), bars.validity(points, reference_us),
                 *bars.invalid(points, reference_us)]),
        ("Bars", [f"{bar.verdict:12} {bar.name}: {bar.figure}" for bar in bars.all_bars(points)]),
        ("Geometric mean of floor/time", means(points)),
        *([("Two caches", other)] if other else []),
        ("Columns", notes(points)),
        ("Without a time", reasons(points)),
    ]


def text_report(runs, points, reference_us):
    parts = ["Microseconds a call, medians; spread = the winner's interquartile range.\n",
             text_table(table_rows(points))]
    for title, lines in _sections(runs, points, reference_us):
        parts.append(f"\n{title}\n" + "".join(f"  {line}\n" for line in lines or ["-"]))
    return "".join(parts)


def markdown_report(runs, points, reference_us):
    parts = ["# Softmax over rows, every provider in one process\n\nMicroseconds a call, medians of"
             " graph replays, cold L2.\n\n", markdown_table(table_rows(points))]
    for title, lines in _sections(runs, points, reference_us):
        parts.append(f"\n## {title}\n\n" + "".join(f"- {line}\n" for line in lines or ["-"]))
    return "".join(parts)


def csv_report(points):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["dtype", "S", "H", "provider", "us", "iqr_us", "floor_over_time", "variant",
                     "source", "reason"])
    for point in points:
        for name, cell in point["providers"].items():
            ratio = bars.ratio(point, name)
            writer.writerow([
                point["dtype"], point["S"], point["H"], name,
                f"{cell['us']:.4f}" if "us" in cell else "",
                f"{cell['iqr_us']:.4f}" if "us" in cell else "",
                f"{ratio:.4f}" if ratio else "", cell.get("variant", ""), cell.get("source", ""),
                cell.get("skip") or cell.get("wrong") or ""])
    return out.getvalue()


def json_report(runs, points, reference_us):
    return json.dumps(
        {"runs": runs, "points": points, "invalid": bars.invalid(points, reference_us),
         "bars": [bar._asdict() for bar in bars.all_bars(points)]}, indent=1, sort_keys=True) + "\n"


def write_all(folder, runs, points, reference_us):
    """Writes report.txt, report.md, report.json and points.csv; the text report."""
    text = text_report(runs, points, reference_us)
    for name, content in (("report.txt", text),
                          ("report.md", markdown_report(runs, points, reference_us)),
                          ("report.json", json_report(runs, points, reference_us)),
                          ("points.csv", csv_report(points))):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(content)
    return text
