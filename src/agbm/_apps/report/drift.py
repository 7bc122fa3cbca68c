"""Drift: how the columns of rows differ from those of the training rows, by the profile that a model keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from ..._base.sums import Array
from ..._data.profile import ColumnProfile, Profile, profile_like
from ..._estimators.classifier import AGBMClassifier
from ..evaluation.metrics import Metric, metrics_of_classes
from .figures import BAR, figures
from .markup import Html, Section, element, joined, number, percent, table
from .wording import Wording, whole_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGE, MODERATE = 0.25, 0.1
"""The usual limits for the population stability index (PSI)."""
CONFIDENCE = 0.95
MOST_ROWS = 10_000
"""Rows of each kind that a classifier tells apart."""
N_FOLDS = 3
MOST_NEW = 3
"""New categories that are named."""


@dataclass(frozen=True)
class ColumnDrift:
    """How the values of a column differ from those of the training rows."""

    column: str
    kind: str
    importance: float
    psi: float
    """The population stability index: the sum over bins of (new share - old share) log(new share / old share)."""
    chance: float
    """The PSI that 95 % of samples of these sizes from the same distribution do not exceed."""
    differs: bool
    """Whether the PSI is above that of chance, if all columns are considered together."""
    missing: tuple[float, float]
    """Share of missing values in the training rows, and in these rows."""
    notes: tuple[str, ...]
    """New categories, and values in the tails of the training rows."""
    bins: tuple[str, ...] = field(repr=False)
    """The names of the bins or categories, and of missing values."""
    shares: tuple[Array, Array] = field(repr=False, compare=False)
    """Shares of the training rows in these, and of these rows."""

    @property
    def size(self) -> str:
        """The PSI in a word."""
        if not self.differs:
            return "none"
        return "large" if self.psi >= LARGE else "moderate" if self.psi >= MODERATE else "small"


@dataclass(frozen=True)
class Apart:
    """How well a classifier tells rows from training rows."""

    area: Metric
    """The area under its ROC curve on rows that it was not trained on."""
    columns: Mapping[str, float]
    """The share of each of the most important columns in its splits' gain."""


@dataclass(frozen=True)
class Drift:
    """The drift of all columns that the model uses, largest first."""

    n_rows: int
    columns: Sequence[ColumnDrift]
    apart: Apart | None = None
    """None if there are no training rows."""


def find_drift(
    numbers: NDArray[Any], new: Mapping[int, Mapping[str, int]], profile: Profile, importances: Array, wording: Wording,
    training: NDArray[Any] | None = None,
) -> Drift:  # fmt: skip
    """The drift of rows from a profile; `new` has the texts of new categories by column, with their numbers of rows."""
    used = [f for f in range(len(profile)) if importances[f] > 0.0]
    columns = [
        _of_column(f, numbers[:, f], new.get(f, {}), profile[f], float(importances[f]), wording, len(used))
        for f in used
    ]
    apart = None if training is None else tell_apart(training, numbers, wording)
    return Drift(len(numbers), sorted(columns, key=lambda one: (not one.differs, -one.psi)), apart)


def _of_column(
    f: int, values: NDArray[Any], new: Mapping[str, int], old: ColumnProfile, importance: float, wording: Wording,
    n_columns: int,
) -> ColumnDrift:  # fmt: skip
    now = profile_like(old, values, wording.is_category(f))
    before, after = np.append(old.counts, old.n_missing), np.append(now.counts, now.n_missing)
    psi, chance, differs = _stability(before, after, n_columns)
    names = (*_names(f, old, values, wording), "missing")
    shown = (before + after) > 0
    shares = (before / before.sum())[shown], (after / after.sum())[shown]
    notes = _new_categories(new, len(values)) + _tails(f, old, now, values, wording)
    return ColumnDrift(
        wording.names[f], wording.kind(f), importance, psi, chance, differs,
        (float(before[-1] / before.sum()), float(after[-1] / after.sum())), tuple(notes),
        tuple(name for name, one in zip(names, shown.tolist(), strict=True) if one), shares,
    )  # fmt: skip


def _stability(before: NDArray[Any], after: NDArray[Any], n_columns: int) -> tuple[float, float, bool]:
    """The PSI, that of chance, and whether it is beyond chance for one of several columns.

    Without drift, the PSI divided by 1 / n + 1 / m has about a chi-squared distribution.
    """
    counts = [np.maximum(of[(before + after) > 0], 0.5) for of in (before, after)]
    old, new = (of / of.sum() for of in counts)
    psi = float(((new - old) * np.log(new / old)).sum())
    scale, freedom = 1.0 / before.sum() + 1.0 / after.sum(), max(1, len(old) - 1)
    limit = float(chi2.ppf(CONFIDENCE, freedom)) * scale
    return psi, limit, bool(chi2.sf(psi / scale, freedom) < (1.0 - CONFIDENCE) / n_columns)


def _names(f: int, profile: ColumnProfile, values: NDArray[Any], wording: Wording) -> list[str]:
    if wording.is_category(f):
        return [*(wording.category(f, code) for code in range(len(profile.counts) - 1)), "others"]
    return wording.bins(f, profile.edges, values)


def _new_categories(new: Mapping[str, int], n_rows: int) -> list[str]:
    if not new:
        return []
    names = sorted(new, key=lambda name: (-new[name], name))
    more = len(names) - MOST_NEW
    listed = ", ".join(names[:MOST_NEW]) + (f" and {more:,} more" if more > 0 else "")
    return [f"{100 * sum(new.values()) / n_rows:.3g} % new: {listed}"]


def _tails(f: int, old: ColumnProfile, now: ColumnProfile, values: NDArray[Any], wording: Wording) -> list[str]:
    """Tails with many more values than those of the training rows."""
    if wording.is_category(f) or f in wording.reader.derivation.ordered or len(old.edges) < 2:
        return []
    shares = [of.counts / max(1, of.counts.sum()) for of in (old, now)]
    notes = []
    for end, sign in ((-1, ">"), (0, "≤")):
        before, after = float(shares[0][end]), float(shares[1][end])
        if before < 0.05 and after > 2.0 * before + 0.01:
            edge = wording.value(f, float(whole_below(values, old.edges)[end]))
            notes.append(f"{100 * after:.3g} % {sign} {edge} (training: {100 * before:.2g} %)")
    return notes


def tell_apart(training: NDArray[Any], rows: NDArray[Any], wording: Wording) -> Apart:
    """A classifier between training rows and other rows, both as numbers."""
    from sklearn.model_selection import StratifiedKFold

    X = np.concatenate([_sample(training), _sample(rows)]).astype(np.float64)
    y = np.arange(len(X)) >= min(len(training), MOST_ROWS)
    categorical = [f for f in range(X.shape[1]) if wording.is_category(f)]
    predicted, importances = np.empty((len(X), 2)), np.zeros(X.shape[1])
    for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, y):
        model = AGBMClassifier(max_iter=50, n_members=1, early_stopping=False, categorical_features=categorical)
        model.fit(X[train], y[train])
        predicted[test] = model.predict_proba(X[test])
        importances += model.feature_importances_ / N_FOLDS
    area = metrics_of_classes(y, predicted, np.array([False, True]))[-1]
    best = np.argsort(-importances, kind="stable")[:5]
    return Apart(area, {wording.names[f]: float(importances[f]) for f in best.tolist() if importances[f] > 0.0})


def _sample(rows: NDArray[Any]) -> NDArray[Any]:
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False)]


# The section
MOST_DRIFTED = 6
MOST_BINS = 14
MOST_NAMED = 5
MOST_COLUMNS_OPEN = 12


def drift(found: Drift) -> Section:
    """The section about drift."""
    drifted = [column for column in found.columns if column.differs]
    text = (
        f"{found.n_rows:,} test rows are compared with the training rows, column by column. The population stability "
        "index (PSI) adds up how much the shares of bins or categories differ: from 0.1 on a difference is usually "
        "called moderate, from 0.25 on large. Columns count as drifted if their PSI is above what is due to chance."
    )
    n = len(found.columns)
    result = (
        f"{len(drifted):,} of {n:,} columns that the model uses have drifted"
        if drifted
        else f"None of the {n:,} columns that the model uses has drifted"
    )
    large = [column.column for column in drifted if column.size == "large"]
    if large:
        more = f" and {len(large) - MOST_NAMED:,} more" if len(large) > MOST_NAMED else ""
        result += f", {len(large):,} of them with a large PSI: {', '.join(large[:MOST_NAMED])}{more}"
    body: list[Html] = [element("p", text), element("p", element("strong", f"{result}."))]
    if found.apart is not None:
        body.append(element("p", _apart(found.apart)))
    others = found.columns[len(drifted) :]
    if drifted or n <= MOST_COLUMNS_OPEN:
        body.append(_table(drifted or others))
    if others and (drifted or n > MOST_COLUMNS_OPEN):
        summary = element("summary", f"PSI of {len(others):,} {'other ' if drifted else ''}columns")
        body.append(element("details", summary, _table(others)))
    if drifted:
        colours = "Shares of the rows by value. Grey bars are training rows, blue bars are test rows."
        body += [element("p", colours), _shares(drifted[:MOST_DRIFTED])]
    return Section("drift", "Drift", joined(body))


def _apart(apart: Apart) -> str:
    area = apart.area
    text = (
        "A classifier that tells the test rows from the training rows has an area under the ROC curve of "
        f"{number(area.value, 3)} on rows that it was not trained on (95 % interval {number(area.low, 3)} to "
        f"{number(area.high, 3)}); 0.5 would be chance."
    )
    if area.low > 0.5 and apart.columns:
        shares = ", ".join(f"{name} ({percent(share)})" for name, share in apart.columns.items())
        text += f" It uses these columns most: {shares}."
    return text


def _table(columns: Sequence[ColumnDrift]) -> Html:
    rows = [
        [
            column.column, column.kind, percent(column.importance), f"{column.psi:.3f}", f"{column.chance:.3f}",
            column.size, _missing(column), "; ".join(column.notes) or "–",
        ]
        for column in columns
    ]  # fmt: skip
    header = ["column", "kind", "importance", "PSI", "PSI by chance", "drift", "missing", "new or extreme values"]
    return table("Drift of the columns that the model uses, largest first", header, rows, "stack drift")


def _missing(column: ColumnDrift) -> str:
    before, after = column.missing
    return percent(after) if before == after else f"{percent(before)} → {percent(after)}"


def _shares(columns: Sequence[ColumnDrift]) -> Html:
    """Charts of the shares of bins and categories in training and test rows."""
    most = max(min(MOST_BINS, len(column.bins)) for column in columns)

    def draw(*axes: Axes) -> None:
        from ...plot._style import BLUE, shortened

        for ax, column in zip(axes, columns, strict=True):
            old, new = (100.0 * of for of in column.shares)
            kept = np.sort(np.argsort(-np.maximum(old, new), kind="stable")[:MOST_BINS])
            places = np.arange(len(kept))
            ax.barh(places - 0.2, old[kept], height=0.4, color=BAR, label="training rows")
            ax.barh(places + 0.2, new[kept], height=0.4, color=BLUE, label="test rows")
            ax.set_yticks(places, [shortened(column.bins[k], 24) for k in kept.tolist()], parse_math=False)
            ax.set_ylim(most - 0.4, -0.6)  # of the same height in all charts
            ax.set_xlabel("% of the rows")
            ax.locator_params(axis="x", nbins=4)
            ax.grid(axis="y", visible=False)

    return figures(draw, *(column.column for column in columns), size=(3.15, 1.0 + 0.22 * max(most, 4)), kind="panels")
