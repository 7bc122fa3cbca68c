"""Writes the first table of the README, and draws its first figure, from docs/quality.md and docs/quality.csv.

    python -m benchmarks.quality.figure        (make figures)

The table, with a sentence about where agbm loses, is inserted into README.md. The figure is written
to docs/comparison-light.svg and docs/comparison-dark.svg, for light and for dark pages. Every dot is a data set: the
test loss of agbm divided by that of another contestant. The files are written without matplotlib: they are small, their
text is text, and the same page always gives the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import wrap

from agbm.plot._style import BLACK, BLUE, ORANGE, RED, SKY
from benchmarks.quality.contestants import EARLY_STOPPING, NO_CROSSES, OURS, OUT_OF_THE_BOX, PLAIN_OURS, TUNED_PLAIN
from benchmarks.quality.report import EXTREME, RATIO
from benchmarks.shared.document import fill_in, table

ROOT = Path(__file__).parents[2]
LIBRARIES = ("LightGBM", "five LightGBMs", "XGBoost", "five XGBoosts", "CatBoost", "ChimeraBoost")
"""Those of them that the page has are drawn."""
ONLY_ON_THE_PAGE = (NO_CROSSES, PLAIN_OURS, TUNED_PLAIN)
"""Contestants that are about parts of the default, not in the first table."""
WORDS = {EARLY_STOPPING: "With early stopping", OUT_OF_THE_BOX: "With `fit(X, y)` alone"}
"""The protocols in the README."""

WIDTH, STRIP = 600, 88
LEFT, RIGHT, TOP, BOTTOM = 12, 588, 60, 24
LOWEST, HIGHEST = 0.48, 1.5
TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4)
RADIUS, SPREAD = 4.3, 26.0
"""Of a dot, and how far dots may be from the middle of their strip."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Theme:
    """Colours of a page."""

    text: str
    muted: str
    grid: str
    better: str
    worse: str


THEMES = {
    "light": Theme(text=BLACK, muted="#57606a", grid="#d8dee4", better=BLUE, worse=RED),
    "dark": Theme(text="#f0f3f6", muted="#a3adb8", grid="#3a424b", better=SKY, worse=ORANGE),
}


@dataclass(frozen=True)
class Strip:
    """A library: the ratio of every data set, and what the page counts."""

    library: str
    ratios: Mapping[str, float]
    record: tuple[int, int, int]
    """Wins, ties and losses of agbm."""

    @property
    def mean(self) -> float:
        """The geometric mean without the extreme set."""
        logs = [math.log(ratio) for name, ratio in self.ratios.items() if name != EXTREME]
        return math.exp(sum(logs) / len(logs))


def below(page: str, *headings: str) -> str:
    """What follows the last of some headings, each of which is looked for below the one before."""
    for heading in headings:
        _, found, page = page.partition(f"\n{heading}\n")
        if not found:
            raise ValueError(f"docs/quality.md has no heading {heading!r}.")
    return page


def rows_below(page: str, *headings: str) -> list[dict[str, str]]:
    """The first table below the last of some headings."""
    lines = [line for line in below(page, *headings).partition("\n#")[0].splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, cells, strict=True)) for cells in body]


def _heading(protocol: str) -> str:
    return f"## Protocol: {protocol}"


def first_table(page: str) -> list[str]:
    """The contestants with early stopping, best first; a cell is empty if something was not measured."""
    plain = {row["contestant"]: row["test loss"] for row in rows_below(page, _heading(OUT_OF_THE_BOX))}
    found = [row for row in rows_below(page, _heading(EARLY_STOPPING)) if row["contestant"] not in ONLY_ON_THE_PAGE]
    heads = ["LightGBM = 1, lower is better", "models", "test loss", "of `fit(X, y)`", "fit time", "prediction time"]
    rows = []
    for row in sorted(found, key=lambda row: float(row["test loss"])):
        name = row["contestant"]
        ratios = (row["test loss"], plain.get(name, ""), row["fit time"], row["prediction time"])
        rows.append([f"**{name}**" if name == OURS else name, row["models"], *map(_two_digits, ratios)])
    return table(heads, rows)


def _two_digits(ratio: str) -> str:
    return f"{float(ratio):.2f}" if ratio else ""


def where_it_loses(page: str) -> list[str]:
    """What the page says about the data sets on which agbm is far behind, under both protocols."""
    found = []
    for protocol, words in WORDS.items():
        sentence = re.search(r"^agbm is more than .+$", below(page, _heading(protocol)), re.MULTILINE)
        if sentence is None:
            raise ValueError(f"docs/quality.md does not say where agbm is behind under {protocol!r}.")
        found.append(f"{words}, {sentence[0]}")
    return wrap(" ".join(found), 120, break_on_hyphens=False)


def ratios_of_sets(by_set: str, protocol: str) -> dict[str, dict[str, float]]:
    """Ratios of test losses by contestant and set, from docs/quality.csv."""
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(by_set.splitlines()):
        if row["protocol"] == protocol and row[RATIO]:
            found.setdefault(row["contestant"], {})[row["set"]] = float(row[RATIO])
    return found


def strips(page: str, by_set: str) -> list[Strip]:
    """One strip per library."""
    ratios = ratios_of_sets(by_set, EARLY_STOPPING)
    compared = rows_below(page, _heading(EARLY_STOPPING), "### agbm compared with each contestant")
    records = {row["agbm against"]: row["wins / ties / losses"] for row in compared}
    found = []
    for library in (library for library in LIBRARIES if library in records):
        wins, ties, worse = map(int, records[library].split("/"))
        found.append(Strip(library, ratios[library], (wins, ties, worse)))
    return found


def place(ratio: float) -> float:
    """The position of a ratio on the logarithmic axis."""
    share = math.log(ratio / LOWEST) / math.log(HIGHEST / LOWEST)
    return LEFT + share * (RIGHT - LEFT)


def swarm(positions: list[float]) -> list[float]:
    """Heights of dots: the one closest to the middle that is free, or else the one with the most room."""
    heights = sorted((step * 1.5 for step in range(-int(SPREAD / 1.5), int(SPREAD / 1.5) + 1)), key=abs)
    placed: list[tuple[float, float]] = []
    for x in positions:
        room = {y: min((math.hypot(x - u, y - v) for u, v in placed), default=math.inf) for y in heights}
        free = (y for y in heights if room[y] >= 2 * RADIUS)
        placed.append((x, next(free, max(heights, key=lambda y: room[y]))))
    return [y for _, y in placed]


def text(x: float, y: float, words: str, fill: str, size: int = 16, **more: str) -> str:
    """An element of text."""
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}"{attributes}>{escape(words)}</text>'


def frame(theme: Theme, n_sets: int, n_strips: int) -> Iterator[str]:
    """Title and axis."""
    yield text(LEFT, 24, f"Test loss of agbm / test loss of each library, {n_sets} data sets", theme.text, 17,
               font_weight="600")  # fmt: skip
    one, bottom = place(1.0), TOP + n_strips * STRIP
    yield text(one - 10, 49, "◀ agbm is better", theme.better, 15, text_anchor="end")
    yield text(one + 10, 49, "agbm is worse ▶", theme.worse, 15)
    for tick in TICKS:
        yield text(round(place(tick), 1), bottom + 14, f"{tick:g}", theme.muted, 15, text_anchor="middle")


def grid(middle: float, theme: Theme) -> Iterator[str]:
    """The vertical lines of a strip."""
    for tick in TICKS:
        colour, width = (theme.muted, 2) if tick == 1.0 else (theme.grid, 1)
        yield (
            f'<path d="M{place(tick):.1f} {middle - SPREAD - 4}v{2 * SPREAD + 8}" stroke="{colour}"'
            f' stroke-width="{width}"/>'
        )


def drawn(strip: Strip, top: float, theme: Theme) -> Iterator[str]:
    """Name, dots and mean of a library."""
    wins, ties, worse = strip.record
    words = [f"{n} {one if n == 1 else several}" for n, one, several in (
        (wins, "win", "wins"), (ties, "tie", "ties"), (worse, "loss", "losses"),
    )]  # fmt: skip
    facts = f"mean {strip.mean:.2f}: {', '.join(words)}"
    yield (
        f'<text x="{LEFT}" y="{top + 16}" fill="{theme.text}" font-size="17" font-weight="600">{strip.library}'
        f'<tspan dx="10" fill="{theme.muted}" font-size="15" font-weight="400">{facts}</tspan></text>'
    )
    middle = top + 53
    yield from grid(middle, theme)
    inside = sorted((ratio, name) for name, ratio in strip.ratios.items() if ratio >= LOWEST)
    positions = [place(ratio) for ratio, _ in inside]
    for (ratio, name), x, y in zip(inside, positions, swarm(positions), strict=True):
        colour = theme.better if ratio < 1.0 else theme.worse
        yield (
            f'<circle cx="{x:.1f}" cy="{middle + y:.1f}" r="{RADIUS}" fill="{colour}" fill-opacity="0.8">'
            f"<title>{escape(name)}: {ratio:.3f}</title></circle>"
        )
        if ratio > 1.2:
            yield text(round(x, 1), middle - 12, name, theme.muted, 14, text_anchor="middle")
    if lower := sorted((ratio, name) for name, ratio in strip.ratios.items() if ratio < LOWEST):
        named = ", ".join(f"{name} {ratio:.2f}" for ratio, name in lower)
        yield f'<path d="M{LEFT} {middle + SPREAD - 5}l10 -6v12z" fill="{theme.better}"/>'
        yield text(LEFT + 15, middle + SPREAD, named, theme.muted, 14)
    x = place(strip.mean)
    yield f'<path d="M{x:.1f} {middle - 20}V{middle + 20}" stroke="{theme.text}" stroke-width="3.5"/>'


def svg(page: str, by_set: str, theme: Theme) -> str:
    """The figure."""
    shown = strips(page, by_set)
    elements = list(frame(theme, len(shown[0].ratios), len(shown)))
    height = TOP + len(shown) * STRIP + BOTTOM
    for number, strip in enumerate(shown):
        elements += drawn(strip, TOP + number * STRIP, theme)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' font-family="{FONT}" role="img">\n' + "\n".join(elements) + "\n</svg>\n"
    )


def main(root: Path = ROOT) -> None:
    """Write the table into both pages, and both files of the figure."""
    page, by_set = ((root / "docs" / name).read_text() for name in ("quality.md", "quality.csv"))
    for document in ("README.md",):
        fill_in(root / document, {"suite": first_table(page), "where it loses": where_it_loses(page)})
        print(f"filled {root / document} in")
    for name, theme in THEMES.items():
        path = root / "docs" / f"comparison-{name}.svg"
        path.write_text(svg(page, by_set, theme))
        print(f"wrote {path}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
