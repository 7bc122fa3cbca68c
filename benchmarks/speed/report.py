"""Fills in docs/benchmarks.md from the results of compare.py: tables, a plot and a summary.

python -m benchmarks.speed.report out/bench/speed.json

Several files are put together; they contain cases that were measured at the same time on different cores of a machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import Result

TITLES = {
    "tree": "one tree",
    "acceleration": "one accelerated iteration",
    "binning": "binning",
    "small": "fit",
    "paper": "fit",
    "wide": "fit",
    "sparse": "fit",
    "predict": "prediction",
    "memory": "memory",
    "growth": "scaling",
}
APART = ("acceleration", "growth")
"""Cases that compare agbm with itself."""
OWN_TREES = {"Perpetual"}
"""Libraries that choose the size of trees: in the summary and the plot only."""

# The palette of Okabe and Ito, which is safe for colour-blind readers, and different shapes for print without colours.
MARKS = {
    "LightGBM": ("#0072b2", "o"),
    "LightGBM quantised": ("#56b4e9", "s"),
    "XGBoost": ("#d55e00", "^"),
    "HistGradientBoosting": ("#009e73", "v"),
    "CatBoost": ("#cc79a7", "D"),
    "Perpetual": ("#e69f00", "P"),
}
OTHER = ("#000000", "h")

# Ratios beyond these are drawn at the edge of the plot.
EDGES = (0.03, 30.0)


def met(result: Result) -> bool | None:
    """Whether the ratio is at most its target; None if it has no target."""
    return None if result.target is None else result.ratio <= result.target


def cells(result: Result) -> list[str]:
    """A row of a table."""
    return [
        result.subject,
        number(result.value),
        result.against,
        number(result.reference),
        result.unit,
        f"{result.ratio:.2f}",
        "" if result.target is None else f"{result.target:.2f}",
        {None: "", True: "yes", False: "no"}[met(result)],
    ]


HEADER = ["", "median", "compared with", "median", "unit", "ratio", "target", "met"]


def number(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def print_table(results: Sequence[Result]) -> None:
    """Print the results of a case."""
    lines = [HEADER, *map(cells, results)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def aligned(line: Sequence[str]) -> str:
        left = (0, 2)  # names; numbers are aligned right
        return "  ".join(
            f"{text:{width}}" if i in left else f"{text:>{width}}"
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )

    for (case, setting), group in groupby(results, key=lambda result: (result.case, result.setting)):
        print(f"\n{case}: {setting}\n  {aligned(HEADER)}")
        for result in group:
            print(f"  {aligned(cells(result))}")


def wide_table(results: Sequence[Result]) -> list[str]:
    """A row per setting: agbm's figure, and its ratio to each library; ratios that miss their target are bold."""
    peers = [name for name in MARKS if any(result.against == name for result in results)]
    rows = []
    for (case, setting), group in groupby(results, key=lambda result: (result.case, result.setting)):
        found = {result.against: result for result in group}
        first = next(iter(found.values()))
        ratios = [shown(found[name]) if name in found else "" for name in peers]
        rows.append([f"{TITLES[case]}: {setting}", f"{number(first.value)} {first.unit}", *ratios])
    return table(["", "agbm", *peers], rows)


def pairs_table(results: Sequence[Result]) -> list[str]:
    """A row per result."""
    rows = [
        [f"{result.setting}, {result.subject}", f"{number(result.value)} {result.unit}", result.against, shown(result)]
        for result in results
    ]
    return table(["", "median", "relative to", "ratio"], rows)


def shown(result: Result) -> str:
    """A ratio, bold if it misses its target."""
    return f"**{result.ratio:.2f}**" if met(result) is False else f"{result.ratio:.2f}"


def by_peer(results: Sequence[Result]) -> list[str]:
    """For each peer, how often agbm is better, and the mean ratio."""
    rows = []
    for name in MARKS:
        ratios = [result.ratio for result in results if result.against == name]
        if ratios:
            better = sum(ratio < 1 for ratio in ratios)
            rows.append([name, str(len(ratios)), str(better), f"{geometric_mean(ratios):.2f}"])
    return table(["compared with", "comparisons", "agbm is better in", "geometric mean of the ratios"], rows)


def verdict(results: Sequence[Result]) -> str:
    """How many ratios meet their targets, and where another library is better."""
    with_target = [result for result in results if result.target is not None]
    n_met = sum(bool(met(result)) for result in with_target)
    lost = sum(result.against in MARKS and result.ratio > 1 for result in results)
    return (
        f"{n_met} of {len(with_target)} ratios with a target meet it; the others are bold below. Another library is "
        f"better in {lost} comparisons."
    )


def remarks(results: Sequence[Result]) -> list[str]:
    """How peers differ from the others; each remark once."""
    said = {(result.against, result.remark) for result in results if result.remark}
    return [f"* {name}: {remark}." for name, remark in sorted(said)]


def together(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One report of several on different cases, whose machine and versions are the same."""
    for name in ("machine", "versions"):
        if any(report[name] != reports[0][name] for report in reports):
            raise SystemExit(f"the reports differ in {name}: measure all cases on one machine with the same libraries")
    order = list(TITLES)
    results = sorted((each for report in reports for each in report["results"]), key=lambda of: order.index(of["case"]))
    return reports[0] | {
        "date": max(report["date"] for report in reports),
        "command": _shared_command([report["command"] for report in reports]),
        "results": results,
    }


def _shared_command(commands: Sequence[str]) -> str:
    """The command of several reports, without the cases of each."""
    (words,) = {" ".join(word for word in command.split() if word not in TITLES) for command in commands}
    at_once = f", in {len(commands)} parts at the same time on different cores, which share memory and the last cache"
    return f"`{words}`" + at_once * (len(commands) > 1)


def lines_of(report: dict[str, Any]) -> dict[str, list[str]]:
    """The parts of docs/benchmarks.md."""
    results = [Result(**result) for result in report["results"]]
    machine = ", ".join(f"{name} {fact}" for name, fact in report["machine"].items())
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    facts = [
        f"* Date: {report['date']}",
        f"* Command: {report['command']} (`make bench` runs all cases)",
        f"* Machine: {machine}",
        f"* Versions: {versions}",
    ]
    of_case = {case: [result for result in results if result.case == case] for case in APART}
    others = [result for result in results if result.case not in APART and result.against in {*MARKS} - OWN_TREES]
    parts = {
        "speed": [*facts, "", *by_peer(results), "", verdict(results)],
        "cases": [*wide_table(others), "", *remarks(others)],
        "acceleration": pairs_table(of_case["acceleration"]),
        "growth": pairs_table(of_case["growth"]),
    }
    return {name: lines for name, lines in parts.items() if lines}


def floors(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Each kernel beside what the machine needs for its bytes and additions alone, by number of threads."""
    heads, rows = ["500,000×28 float32, 255 bins"], [[each["kernel"]] for each in measured[0]["kernels"]]
    for run in measured:
        n = run["threads"]
        heads += [f"{n} thread{'s' * (n > 1)}, ms", "of its floor"]
        for row, kernel in zip(rows, run["kernels"], strict=True):
            floor = max(kernel["bytes"] / run["copy_bytes_per_second"], kernel["adds"] / run["adds_per_second_14"])
            row += [f"{1e3 * kernel['seconds']:.2f}", f"{kernel['seconds'] / floor:.1f}"]
    return table(heads, rows)


def draw(report: dict[str, Any], path: Path) -> None:
    """Plot all ratios on a logarithmic scale, one line per setting; hollow marks miss their target."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullFormatter

    results = [Result(**result) for result in report["results"]]
    lines = list(dict.fromkeys((result.case, label(result)) for result in results))
    figure, axis = plt.subplots(figsize=(10, 1.8 + 0.25 * len(lines)), layout="constrained")
    for y, line in enumerate(lines):
        of_line = [result for result in results if (result.case, label(result)) == line]
        targets = {result.target for result in of_line if result.target is not None}
        for result in of_line:
            colour, shape = MARKS.get(result.against, OTHER)
            face = "white" if met(result) is False else colour
            ratio = min(max(result.ratio, EDGES[0]), EDGES[1])
            axis.plot(ratio, y, shape, color=colour, markerfacecolor=face, markersize=6.5, markeredgewidth=1.4)
            if result.target is not None:
                tick = colour if len(targets) > 1 else "0.3"  # grey if all peers have the same target
                axis.plot([result.target] * 2, [y - 0.38, y + 0.38], color=tick, linewidth=1.6, zorder=1)
    for y, (case, _) in enumerate(lines[1:], start=1):
        axis.axhline(y - 0.5, color="0.6" if case != lines[y - 1][0] else "0.92", linewidth=0.8, zorder=0)
    axis.axvline(1.0, color="0.35", linewidth=1.2, zorder=0)
    axis.set(
        xscale="log", ylim=(len(lines) - 0.5, -0.5), yticks=range(len(lines)),
        yticklabels=[f"{case}: {text}" for case, text in lines],
        xlabel="ratio of agbm to the other library, logarithmic: left of 1 agbm is better",
    )  # fmt: skip
    left, right = axis.get_xlim()
    ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if left <= tick <= right]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(axis="y", labelsize=8, length=0)
    axis.grid(axis="x", color="0.9", linewidth=0.8, zorder=0)
    shown = {result.against for result in results}
    handles = [
        Line2D([], [], color=colour, marker=shape, linestyle="", label=name)
        for name, (colour, shape) in MARKS.items()
        if name in shown
    ]
    handles += [
        Line2D([], [], color=OTHER[0], marker=OTHER[1], linestyle="", label="no other library: agbm, or a limit"),
        Line2D([], [], color="0.3", marker="o", markerfacecolor="white", linestyle="", label="hollow: target missed"),
        Line2D([], [], color="0.3", marker="|", markersize=10, markeredgewidth=1.6, linestyle="", label="target"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def label(result: Result) -> str:
    """The label of a line of the plot: the setting, and the subject if it is not plain boosting."""
    return result.setting if result.subject == "agbm" else f"{result.setting}, {result.subject}"


def main() -> None:
    """Fill in the page and draw its plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*", help="those of benchmarks.speed.compare")
    parser.add_argument("--kernels", type=Path, help="those of out/bench/kernels")
    parser.add_argument("--document", type=Path, default=Path("docs/benchmarks.md"))
    args = parser.parse_args()
    if args.kernels:
        fill_in(args.document, {"kernels": floors(json.loads(args.kernels.read_text()))})
        print(f"filled {args.document} in")
    if args.results:
        report = together([json.loads(path.read_text()) for path in args.results])
        fill_in(args.document, lines_of(report))
        draw(report, args.document.with_suffix(".png"))
        print(f"filled {args.document} in, and wrote {args.document.with_suffix('.png')}")


if __name__ == "__main__":
    main()
