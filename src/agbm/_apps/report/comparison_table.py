"""Test metrics of models: a summary sentence, and a table with confidence intervals drawn to scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..evaluation.metrics import Metric, Tried
from .markup import Html, element, joined, number, pairs, seconds, table

_NOTE = (
    "Ranges are 95 % confidence intervals. They cover only the sampling of the test rows, not other splits or seeds. "
    "↓ lower is better, ↑ higher is better."
)


def in_a_sentence(tried: Sequence[Tried], baseline: Tried | None = None) -> str:
    """Summarise the best result, the baseline, and whether the best result is clearly the best."""
    ranked = [one for one in _ranked(tried) if _first_metric(tried, one) is not None]
    if not ranked:
        failed = [one for one in tried if one.failure]
        return f"No model was trained: {failed[0].failure}" if failed else "There are no test metrics."
    best, metric = ranked[0], _first_metric(tried, ranked[0])
    assert metric is not None
    interval = f"95 % interval {number(metric.low, 3)} to {number(metric.high, 3)}"
    figures = f"{number(metric.value)} ({interval}){_cost(best)}."
    compared = _metric(baseline, metric.name) if baseline is not None else None
    if baseline is not None and compared is not None:
        figures += f" The {baseline.name} has {number(compared.value)}."
    if len(ranked) == 1:
        return f"On the test rows, {best.name} has {metric.name} {figures}"
    which = "lowest" if metric.lower_is_better else "highest"
    text = f"Of {len(ranked)} models, {best.name} has the {which} {metric.name} on the test rows: {figures}"
    n_unclear = sum(_overlap(metric, _metric(other, metric.name)) for other in ranked[1:])
    others = (
        "interval of another model overlaps" if n_unclear == 1 else f"intervals of {n_unclear} other models overlap"
    )
    return f"{text} The {others} with this one, so the order may be due to chance." if n_unclear else text


def _cost(tried: Tried) -> str:
    trees = f", with {tried.trees:,} trees" if tried.trees else ""
    return trees if math.isnan(tried.seconds) else f"{trees}, trained in {seconds(tried.seconds)}"


def metrics(tried: Sequence[Tried], baseline: Tried | None = None) -> Html:
    """Return the table of all metrics, best model first, and the reasons why models could not be trained.

    The baseline is in the last row of the table.
    """
    ranked, failed = _ranked(tried), [one for one in tried if one.failure]
    columns = {name: [_metric(one, name) for one in ranked] for name in _metric_names(tried)}
    body = []
    if ranked:
        body.append(_table(ranked, columns, baseline))
    if columns:
        body.append(element("p", _NOTE, _overlap_note(columns), class_="note"))
    if failed:
        body.append(element("h3", "Not trained"))
        body.append(pairs([(one.name, one.failure) for one in failed], "failures"))
    return joined(body)


def _table(ranked: Sequence[Tried], columns: Mapping[str, Sequence[Metric | None]], baseline: Tried | None) -> Html:
    arrows = [f"{name} {'↓' if _lower_is_better(column) else '↑'}" for name, column in columns.items()]
    rows = [
        [
            one.name,
            *(_metric_cell(column, place) for column in columns.values()),
            f"{one.trees:,}",
            seconds(one.seconds),
        ]
        for place, one in enumerate(ranked)
    ]
    if baseline is not None:
        compared = [_metric(baseline, name) for name in columns]
        values = [
            "–" if metric is None else element("span", number(metric.value), class_="value") for metric in compared
        ]
        rows.append([baseline.name, *values, "–", "–"])
    caption = "Metrics on the test rows" + (", best first" if len(ranked) > 1 else "")
    return table(caption, ["model", *arrows, "trees", "training time"], rows, "metrics stack")


def _metric_cell(column: Sequence[Metric | None], place: int) -> Html:
    metric = column[place]
    if metric is None:
        return Html("–")
    is_best = place in _best(column)
    words = [element("span", number(metric.value), class_="value")]
    if is_best and len(column) > 1:
        words.append(element("span", "best", class_="badge"))
    words.append(element("span", f"{number(metric.low, 3)} to {number(metric.high, 3)}", class_="range"))
    ends = [end for one in column if one is not None for end in (one.low, one.high) if math.isfinite(end)]
    if len(column) < 2 or not ends or not math.isfinite(metric.low + metric.high):  # alone, it shows nothing
        return joined(words)
    low, width = min(ends), (max(ends) - min(ends)) or 1.0

    def place_of(value: float) -> float:
        return 3.0 + 94.0 * (value - low) / width

    start, end = place_of(metric.low), place_of(metric.high)
    drawing = element(
        "span",
        element("span", class_="line", style=f"left:{start:.2f}%;width:{end - start:.2f}%"),
        element("span", class_="dot", style=f"left:{place_of(metric.value):.2f}%"),
        class_="interval best" if is_best else "interval",
        aria_hidden="true",
    )
    return joined([*words, drawing])


def _overlap_note(columns: Mapping[str, Sequence[Metric | None]]) -> str:
    """Name the metrics for which the interval of the best model overlaps with others."""
    unclear = [name for name, column in columns.items() if _best_overlaps(column)]
    if not unclear:
        return ""
    names = ", ".join(unclear)
    return f" The interval of the best model overlaps with others for {names}, so the order may be due to chance."


def _best_overlaps(column: Sequence[Metric | None]) -> bool:
    return any(
        _overlap(column[best], other) for best in _best(column)[:1] for k, other in enumerate(column) if k != best
    )


def _metric_names(tried: Sequence[Tried]) -> list[str]:
    return list(dict.fromkeys(metric.name for one in tried if not one.failure for metric in one.metrics))


def _metric(tried: Tried, name: str) -> Metric | None:
    return next((metric for metric in tried.metrics if metric.name == name), None)


def _first_metric(tried: Sequence[Tried], one: Tried) -> Metric | None:
    """Return the metric that models are ranked by."""
    names = _metric_names(tried)
    return _metric(one, names[0]) if names else None


def _ranked(tried: Sequence[Tried]) -> list[Tried]:
    """Return the trained models, best first; those without the metric come last."""

    def key(one: Tried) -> float:
        metric = _first_metric(tried, one)
        return math.inf if metric is None or math.isnan(metric.value) else _badness(metric)

    return sorted((one for one in tried if not one.failure), key=key)


def _badness(metric: Metric) -> float:
    return metric.value if metric.lower_is_better else -metric.value


def _best(column: Sequence[Metric | None]) -> list[int]:
    """Return the indices of the best value, several in case of ties."""
    known = {place: _badness(metric) for place, metric in enumerate(column) if metric and not math.isnan(metric.value)}
    return [place for place, badness in known.items() if badness == min(known.values())]


def _lower_is_better(column: Sequence[Metric | None]) -> bool:
    return next(metric.lower_is_better for metric in column if metric is not None)


def _overlap(first: Metric | None, second: Metric | None) -> bool:
    return first is not None and second is not None and first.low <= second.high and second.low <= first.high
