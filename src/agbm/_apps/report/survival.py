"""The section about survival functions, compared with the times of test rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..evaluation.survival_metrics import at, kaplan_meier
from .figures import figures
from .findings import Predictions
from .markup import Section, element, joined, number, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_GROUPS = 4
N_CALIBRATION = 10
"""Groups of rows by risk: for curves, and for the calibration at a time."""


def survival(test: Predictions, times: Sequence[float]) -> Section | None:
    """Return the section; None if the model has no survival functions, or if the rows have no events."""
    y = np.asarray(test.y, dtype=np.float64)
    time, event, risk, curves = y[:, 0], y[:, 1] > 0, test.predicted[:, 0], test.predicted[:, 1:]
    known = np.array(times)
    shown = known <= time[event].max() if event.any() else np.zeros(len(known), dtype=bool)
    if not shown.any():
        return None
    known, curves = known[shown], curves[:, shown]
    groups = _by_risk(risk, N_GROUPS)
    middle = int(np.searchsorted(known, np.median(time[event])).clip(0, len(known) - 1))

    def draw(left: Axes, right: Axes) -> None:
        from ...plot._style import BLUE, GREEN, GREY, ORANGE, PINK

        for rows, colour in zip(groups, (BLUE, GREEN, ORANGE, PINK), strict=False):
            steps = kaplan_meier(time[rows], event[rows])
            left.step(np.append(0.0, known), np.append(1.0, at(steps, known)), where="post", color=colour)
            left.plot(np.append(0.0, known), np.append(1.0, curves[rows].mean(axis=0)), color=colour, linestyle="--")
        left.set(xlabel="time", ylabel="share without an event", ylim=(-0.02, 1.02))
        predicted, observed = _calibration(time, event, curves[:, middle], known[middle])
        right.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linestyle=":")
        right.plot(predicted, observed, color=BLUE, marker="o", markersize=4)
        right.set(xlabel="predicted survival", ylabel="observed survival", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))

    names = ("lowest", *["next"] * (len(groups) - 2), "highest") if len(groups) > 1 else ("all",)
    rows = [
        [
            f"{name} risk", f"{len(members):,}", f"{int(event[members].sum()):,}",
            number(float(at(kaplan_meier(time[members], event[members]), known[middle : middle + 1])[0]), 3),
            number(float(curves[members, middle].mean()), 3),
        ]
        for name, members in zip(names, groups, strict=True)
    ]  # fmt: skip
    text = (
        f"Test rows are divided into {len(groups)} groups by the predicted risk. Steps are observed (Kaplan-Meier), "
        "dashed lines are the mean of the predicted survival functions. For the calibration, rows are divided into "
        f"{N_CALIBRATION} groups by their predicted survival at time {number(float(known[middle]))}, the median time "
        "of events; points should be close to the dotted diagonal."
    )
    charts = figures(draw, "Survival by predicted risk", f"Calibration at time {number(float(known[middle]))}")
    header = ["group", "rows", "events", "observed survival", "predicted survival"]
    caption = f"Groups by risk, at time {number(float(known[middle]))}"
    return Section("survival", "Survival", joined([element("p", text), charts, table(caption, header, rows, "stack")]))


def _by_risk(risk: Array, n_groups: int) -> list[NDArray[np.intp]]:
    """Return the rows of groups of about the same size, by ascending number; equal numbers may be divided."""
    return [part for part in np.array_split(np.argsort(risk, kind="stable"), n_groups) if len(part)]


def _calibration(time: Array, event: NDArray[np.bool_], predicted: Array, when: float) -> tuple[Array, Array]:
    groups, when_ = _by_risk(predicted, N_CALIBRATION), np.array([when])
    observed = [float(at(kaplan_meier(time[rows], event[rows]), when_)[0]) for rows in groups]
    return np.array([float(predicted[rows].mean()) for rows in groups]), np.array(observed)
