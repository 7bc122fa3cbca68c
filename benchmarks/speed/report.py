"""Generates docs/benchmarks.md from speed.json: tables, a plot and a summary. No figure is entered by hand.

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

from benchmarks.shared.measure import Result

TITLES = {
    "tree": "One tree",
    "acceleration": "One accelerated iteration",
    "binning": "Binning",
    "small": "Complete fits on small tables, time per tree",
    "paper": "Complete fits on the paper's data sets, 100 trees, time per tree",
    "wide": "As many features as rows, time per tree",
    "sparse": "Sparse matrices, time per tree",
    "predict": "Prediction, many rows",
    "memory": "Peak memory of a fit, in addition to its input",
    "growth": "Scaling with rows and threads",
}

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


def markdown_table(results: Sequence[Result]) -> str:
    """The results of a setting as a Markdown table."""
    lines = [HEADER, ["---", "---:", "---", "---:", "---", "---:", "---:", "---"], *map(cells, results)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def by_peer(results: Sequence[Result]) -> str:
    """For each peer, how often agbm is better, and the mean ratio."""
    lines = [
        "| compared with | comparisons | agbm is better in | geometric mean of the ratios |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in MARKS:
        ratios = [result.ratio for result in results if result.against == name]
        if ratios:
            better = sum(ratio < 1 for ratio in ratios)
            lines.append(f"| {name} | {len(ratios)} | {better} | {geometric_mean(ratios):.2f} |")
    return "\n".join(lines)


def verdict(results: Sequence[Result]) -> str:
    """How many ratios meet their targets, and which do not."""
    with_target = [result for result in results if result.target is not None]
    missed = [result for result in with_target if not met(result)]
    better = [result for result in results if result.against in MARKS and result.ratio > 1 and result.target is None]
    text = [f"{len(with_target) - len(missed)} of {len(with_target)} ratios with a target meet it."]
    for title, losers in (
        ("Targets missed", missed),
        ("Cases without a target in which another library is better", better),
    ):
        if losers:
            text += ["", f"{title}:", ""]
        for (case, setting), group in groupby(losers, key=lambda result: (result.case, label(result))):
            text.append(f"* {case}, {setting}: {', '.join(map(ratio_of, group))}")
    return "\n".join(text)


def ratio_of(result: Result) -> str:
    """A ratio within a sentence."""
    target = "" if result.target is None else f" (target {result.target:.2f})"
    return f"{result.ratio:.2f} times {result.against}{target}"


def remarks(results: Sequence[Result]) -> str:
    """How peers differ from the others; each remark once."""
    said = {(result.against, result.remark) for result in results if result.remark}
    return "\n".join(f"* {name}: {remark}." for name, remark in sorted(said))


def together(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One report of several on different cases, whose machine and versions are the same."""
    for name in ("machine", "versions"):
        if any(report[name] != reports[0][name] for report in reports):
            raise SystemExit(f"the reports differ in {name}: measure all cases on one machine with the same libraries")
    order = list(TITLES)
    results = sorted((each for report in reports for each in report["results"]), key=lambda of: order.index(of["case"]))
    return reports[0] | {
        "date": max(report["date"] for report in reports),
        "command": ", ".join(f"`{report['command']}`" for report in reports)
        + ", at the same time on different cores, which share memory and the last cache" * (len(reports) > 1),
        "results": results,
    }


def page(report: dict[str, Any], plot: str) -> str:
    """The text of docs/benchmarks.md."""
    results = [Result(**result) for result in report["results"]]
    machine = ", ".join(f"{name} {fact}" for name, fact in report["machine"].items())
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    parts = [
        "# Benchmarks",
        "This page is generated by `benchmarks/report.py` from the results of the command below; no figure is entered "
        "by hand.",
        f"* Date: {report['date']}\n* Command: {report['command']} (`make bench` runs all cases and generates "
        "this page)\n"
        f"* Machine: {machine}\n* Versions: {versions}",
        "All libraries run in one process on the same data with 255 bins, learning rate 0.1, at least 20 rows per "
        'leaf, and the same depth and number of threads. "agbm" is plain boosting with Newton leaves and no l2 '
        '(`method="gbm", second_order=True`) unless stated otherwise. The libraries take turns, each once per round. A '
        "ratio is the median over the rounds of agbm's time divided by the other library's time in the same round. "
        "**Below 1 means agbm is faster** (or needs less memory).",
        f"![Ratios of agbm to each library]({plot})",
        "## Summary",
        by_peer(results),
        verdict(results),
    ]
    for case, of_case in groupby(results, key=lambda result: result.case):
        group = list(of_case)
        parts.append(f"## {TITLES[case]}")
        for (setting, note), of_setting in groupby(group, key=lambda result: (result.setting, result.note)):
            parts += [f"{setting[0].upper()}{setting[1:]}:", markdown_table(list(of_setting)), note]
        parts.append(remarks(group))
    return "\n\n".join(filter(None, parts)) + "\n"


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


def kernels(measured: Sequence[dict[str, Any]]) -> str:
    """The section on kernels, compared with the limits of the machine, from kernels.json."""
    parts = [
        "## Kernels",
        "500,000 x 28 float32 values, 255 bins, best of 15 (`make bench-kernels`). The limits are measured in the same "
        "run: a memory copy, and additions of 64-bit integers at random positions of a table in the L1 cache. In "
        "Newton mode a cell holds two integers, which one instruction adds.",
    ]
    for run in measured:
        lines = [
            f"Threads: {run['threads']}. Copy {run['copy_bytes_per_second'] / 1e9:.1f} GB/s; "
            f"{1e9 * run['threads'] / run['adds_per_second_14']:.2f} ns per addition and core.\n",
            "| kernel | ms | GB/s | share of copy | 10^9 additions/s | share of limit |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        for kernel in run["kernels"]:
            rate, adds = kernel["bytes"] / kernel["seconds"], kernel["adds"] / kernel["seconds"]
            shares = f"{adds / 1e9:.2f} | {adds / run['adds_per_second_14']:.0%}" if adds else " | "
            lines.append(
                f"| {kernel['kernel']} | {1e3 * kernel['seconds']:.2f} | {rate / 1e9:.1f} | "
                f"{rate / run['copy_bytes_per_second']:.0%} | {shares} |"
            )
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the page and its plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    report = together([json.loads(path.read_text()) for path in args.results])
    draw(report, args.out / "benchmarks.png")
    text = page(report, "benchmarks.png")
    of_kernels = args.results[0].with_name("kernels.json")
    if of_kernels.exists():
        text += "\n" + kernels(json.loads(of_kernels.read_text()))
    (args.out / "benchmarks.md").write_text(text)
    print(f"wrote {args.out / 'benchmarks.md'} and {args.out / 'benchmarks.png'}")


if __name__ == "__main__":
    main()
