"""The function `agbm.report`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._base.types import Table, Values
from ..._data.blocks import dense
from ..._data.rows import Given
from ..._data.tables import as_table
from ..._data.units import GivenUnit, keys_of
from ..._engines.device import chosen_device, rows_of_device
from ..._estimators.classifier import AGBMClassifier
from ..._estimators.ranker import AGBMRanker
from ..._estimators.survival import AGBMSurvival
from ..._fit.progress import counting
from ..._labels.base import Classes
from ..._labels.lifetimes import as_matrix
from ..._labels.matrices import SoftClasses
from ..._labels.queries import Asked, with_queries
from ...export._view import check_fitted
from ..evaluation.metrics import Metric
from .build import findings_about
from .drift import ColumnDrift
from .figures import check_matplotlib
from .findings import Estimator, Findings, describe_columns, numbers_of, predictions_of
from .measured import has_intervals
from .page import USUAL_STEPS, Update, silent, to_html, write
from .segments import Segment


class Report:
    """A page about a model; its figures as data are in the attributes."""

    def __init__(self, findings: Findings, update: Update = silent) -> None:
        self._html = to_html(findings, update)
        self.metrics: Sequence[Metric] = findings.tried[0].metrics
        """The metrics of the test rows, with 95 % intervals."""
        self.segments: Sequence[Segment] = () if findings.segments is None else findings.segments.found
        """The segments with the highest losses."""
        self.drift: Sequence[ColumnDrift] = () if findings.drift is None else findings.drift.columns
        """How the columns differ from those of the training rows, largest difference first."""

    @property
    def html(self) -> str:
        """The page."""
        return self._html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file; an existing file is replaced atomically."""
        write(self._html, path)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style does not affect a notebook."""
        style = "width: 100%; height: 48rem; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self._html)}"></iframe>'

    def __repr__(self) -> str:
        return f"<agbm.Report of {len(self._html.encode('utf-8', 'replace')):,} bytes; save(path) writes it to a file>"


def report(
    model: Estimator,
    X: Table | None = None,
    y: Any = None,
    *,
    offset: Values | None = None,
    group: Values | None = None,
    qid: Values | None = None,
    groups: Values | str | None = None,
    X_train: Table | None = None,
    positive: object = None,
    costs: tuple[float, float] = (1.0, 1.0),
    show_rows: bool = True,
    title: str | None = None,
    verbose: int = 1,
) -> Report:
    """Make an HTML report about a fitted model, that of the command `agbm report`.

    X and y are test rows, with labels as in fit; without them, sections about predictions are left out. offset is that
    of X, and group or qid are the queries of a ranker. X_train are training rows, of which a sample is enough: the
    report then also says how well a classifier tells them from the test rows. groups, a vector or a column of X, are
    those by which the coverage of a regressor's intervals is shown. positive is the positive one of two classes, by
    default the one with fewer test rows. costs are those of a false positive and of a false negative.
    show_rows=False leaves out the what-if panel, which contains test rows. verbose=0 shows no progress.

    The result is displayed by notebooks, and save(path) writes it to a file. It has `metrics`, `segments` and `drift`
    as data. Needs matplotlib: pip install 'agbm[plot]'. See docs/guides/report.md.
    """
    check_fitted(model)
    check_matplotlib()
    if (X is None) != (y is None):
        raise ValueError("X and y: pass the labels of the test rows with their features, or neither.")
    if X is None:
        _refuse_without_rows(offset=offset, group=group, qid=qid, groups=groups, X_train=X_train, positive=positive)
    with counting("report") if verbose else nullcontext(silent) as update:
        update(0, USUAL_STEPS, "predictions")
        given = _given(model, Given(X, y, None, offset), Asked(group, qid, None))
        test, training = None, None
        if given.X is not None:
            test = predictions_of(model, [given.X], given.y, given.offset, _groups(model, X, groups, len(given.y)))
            training = None if X_train is None else numbers_of(model, X_train)
        findings = findings_about(
            model, columns=[] if X is None else describe_columns(as_table(given.X)), test=test, positive=positive,
            costs=_checked_costs(model, costs), training=training, shows_rows=show_rows, title=title,
        )  # fmt: skip
        return Report(findings, update)


def _refuse_without_rows(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} has no effect without test rows; pass X and y, or omit it.")


def _given(model: Estimator, given: Given, asked: Asked) -> Given:
    """The test rows, with labels in the form that tasks need."""
    if given.X is None:
        return given
    if not isinstance(model, AGBMRanker) and (asked.group is not None or asked.qid is not None):
        raise ValueError("group and qid are for rankers; omit them.")
    device = chosen_device(model.device, given.X)
    given = given if device == "cpu" else rows_of_device(device).received(given)
    given = given._replace(X=as_table(given.X), offset=None if given.offset is None else np.asarray(given.offset))
    n_rows = given.X.shape[0]
    if isinstance(model, AGBMRanker):
        y = np.asarray(with_queries(given, asked).y, dtype=np.float64)[:, :2]
    elif isinstance(model, AGBMSurvival):
        y = _lifetimes(np.asarray(as_matrix(given.y), dtype=np.float64))
    else:
        y = _labels(model, given.y, n_rows)
    if len(y) != n_rows or not n_rows:
        raise ValueError(f"X has {n_rows} rows and y has {len(y)} labels; pass one label for each of at least one row.")
    return given._replace(y=y)


def _groups(model: Estimator, X: Any, groups: Any, n_rows: int) -> NDArray[Any] | None:
    """The group of each row."""
    if groups is None:
        return None
    if not has_intervals(model):
        raise ValueError("groups: the model has no intervals, whose coverage would be shown by group; omit it.")
    values = GivenUnit.of(X, groups, None).values
    keys_of("groups", values, n_rows)  # raises errors
    return np.asarray(values).reshape(n_rows)


def _lifetimes(y: Array) -> Array:
    """Times and events, from the columns that `fit` reads labels as."""
    if y.shape[1] == 2:
        return y
    time, end, has_end = y.T
    interval = (has_end > 0) & (time != end)
    if interval.any():
        raise ValueError(
            f"y: {interval.sum():,} times are left- or interval-censored, which a report cannot evaluate; pass rows "
            "whose times are known or right-censored."
        )
    return np.column_stack([time, has_end])


def _labels(model: Estimator, y: Any, n_rows: int) -> NDArray[Any]:
    """Labels of a classifier or regressor, checked as those of X_val are."""
    labels = model.model_.labels
    if isinstance(model, AGBMClassifier) and isinstance(labels, Classes) and not isinstance(labels, SoftClasses):
        found = np.asarray(labels.exact(dense(y)))
        if found.ndim != 1:
            raise ValueError(f"y has shape {found.shape}; the model needs one class per row.")
        return found
    try:
        return np.asarray(labels.decode(labels.encode_validation(y, n_rows)))
    except ValueError as error:
        raise ValueError(str(error).replace("y_val", "y")) from error


def _checked_costs(model: Estimator, costs: tuple[float, float]) -> tuple[float, float]:
    false_positive, false_negative = (float(cost) for cost in costs)
    if not (0.0 < false_positive < np.inf and 0.0 < false_negative < np.inf):
        raise ValueError(f"costs={costs!r} must be two positive numbers.")
    return false_positive, false_negative
