"""Partial dependence of predictions on features."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier, is_regressor

from .._base.types import AnyArray, Table, Values
from .._data.dates import days, from_days
from .._data.tables import Columns, missing
from .._estimators.base import BaseAGBM
from ..export._view import check_fitted, feature_names
from ._arguments import check_one_class, feature_columns, feature_position, output_index, output_suffix
from ._recursion import category_dots, check_options, draw_panel
from ._style import BLACK, BLUE, SKY, plain_numbers, shortened


def partial_dependence(
    model: BaseAGBM,
    X: Table,
    features: Iterable[Any],
    *,
    kind: str = "average",
    method: str = "brute",
    target: object = None,
    max_categories: int = 20,
    n_cols: int = 3,
    ax: Axes | Sequence[Axes] | AnyArray | None = None,
    **options: Any,
) -> Any:
    """Plot how predictions depend on features, on average over the rows of X.

    features is a list of names or positions, or pairs of them, with one panel for each; ax may be a list of as many
    axes. Returns the axes of the panel, or an array of axes if there are several, like plt.subplots. kind="both" adds
    the lines of individual rows (ICE). target is a class, or the index of an output, if the model has several. X is an
    array or a pandas data frame; a sample of the rows is enough.

    method="recursion" is much faster: it averages raw scores over the training rows, from the numbers of rows in the
    nodes of the trees. X then only determines the range of the features. It differs from method="brute", which averages
    predictions (probabilities for classifiers) over the rows of X, where features depend on each other.

    scikit-learn's PartialDependenceDisplay does the computations and the drawing; options are passed on to its
    from_estimator. It rejects missing values, infinite values and integers in the features of a panel, so these are
    replaced first, which does not affect the result. Categories are drawn as dots, for the max_categories most frequent
    ones. All parts of a date that the model uses change with it.
    """
    check_fitted(model)
    check_one_class(model, "model")  # scikit-learn takes two labels for two classes
    output = output_index(model, target)
    if method not in ("brute", "recursion"):
        raise ValueError(f"method={method!r} must be 'brute' or 'recursion'.")
    recursion = method == "recursion"
    if recursion:
        check_options(kind, options)
    if isinstance(features, (str, int)):
        raise ValueError(f"features={features!r} must be a list, such as [{features!r}].")
    entries = [entry if isinstance(entry, (tuple, list)) else (entry,) for entry in features]
    panels = [tuple(feature_position(model, feature) for feature in entry) for entry in entries]
    _check_panels(model, panels, recursion)
    axes = _panels(len(panels), n_cols, ax)
    lines: dict[str, Any] = {"line_kw": {"color": BLUE, "linewidth": 1.8}}
    if kind != "average":
        lines = {
            "ice_lines_kw": {"color": SKY, "linewidth": 0.5, "alpha": 0.4},
            "pd_line_kw": {"color": BLACK, "linestyle": "--", "linewidth": 1.8},
        }
    for axis, panel in zip(axes, panels, strict=True):
        listed = model.model_.listed_values
        known = {feature: listed[feature][:max_categories] for feature in panel if feature in listed}
        with warnings.catch_warnings():  # for features without effect, whose line is flat
            warnings.filterwarnings("ignore", "Attempting to set identical low and high ylims")
            if recursion:
                draw_panel(axis, model, X, panel, known, output, {**lines, **options})
            else:
                settings = {"kind": kind, "target": target, **lines, **options}
                _draw_panel(axis, model, X, panel, known, output, settings)
        if not known and panel[0] not in model.model_.reader.derivation.dates:
            axis.locator_params(nbins=4)
            plain_numbers(axis.xaxis)
    _finish_panels(axes, panels, f"mean {'score' if recursion else 'prediction'}{output_suffix(model, output)}")
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


def _check_panels(model: BaseAGBM, panels: Sequence[Sequence[int]], recursion: bool) -> None:
    """Raise ValueError for lists, and for dates where they cannot be varied."""
    for panel in panels:
        lists = [feature_names(model)[f] for f in panel if f in model.model_.reader.derivation.lists]
        if lists:
            raise ValueError(
                f"features: {lists} are lists, which partial dependence cannot vary; choose others, or see their "
                "contributions with plot.contributions."
            )
        dates = [feature_names(model)[f] for f in panel if f in model.model_.reader.derivation.dates]
        if dates and recursion:
            raise ValueError(
                f"features: method='recursion' cannot vary dates, whose parts change together ({dates}); use "
                "method='brute'."
            )
        if dates and len(panel) > 1:
            raise ValueError(f"features: dates have panels of their own; pass {dates} without another feature.")


def _panels(n: int, n_cols: int, ax: Axes | Sequence[Axes] | AnyArray | None) -> list[Any]:
    if n == 0:
        raise ValueError("features=[] must name at least one feature.")
    if ax is not None:
        axes = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) != n:
            raise ValueError(f"ax has {len(axes)} axes, features has {n} entries; pass one for each, or ax=None.")
        return axes
    columns = min(n_cols, n)
    rows = -(-n // columns)
    size = 3.4 * columns + 0.4, 3.0 * rows + 0.2
    _, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for unused in grid.flat[n:]:
        unused.remove()
    return list(grid.flat[:n])


def _with_all_values(model: BaseAGBM, X: Any, panel: Sequence[int]) -> Any:
    """A copy of X in which the features of a panel have a finite number or a category in every row."""
    if not isinstance(X, np.ndarray) and not hasattr(X, "iloc"):
        raise TypeError(f"X must be an array or a pandas data frame, such as X.to_pandas(); got {type(X).__name__}.")
    table: Any = X.copy() if hasattr(X, "iloc") else np.array(X, dtype=object if X.dtype == object else np.float64)
    for feature, column in zip(panel, feature_columns(model, X, panel), strict=True):
        absent = ~np.isfinite(column) if column.dtype.kind == "f" else missing(column)
        if absent.all():
            raise ValueError(
                f"All values of feature {feature_names(model)[feature]!r} in X are missing; pass rows that have some."
            )
        column[absent] = np.resize(column[~absent], np.count_nonzero(absent))
        if feature in model.model_.reader.derivation.dates:
            column = from_days(column)
        if hasattr(table, "iloc"):
            table[table.columns[feature]] = column
        else:
            table[:, feature] = column
    return table


def _draw_panel(
    axis: Axes, model: BaseAGBM, X: Table, panel: Sequence[int], known: Mapping[int, Sequence[Any]], output: int,
    settings: Mapping[str, Any],
) -> None:  # fmt: skip
    """Draw the mean predictions of the rows of X; `known` has the categories to show."""
    from sklearn.inspection import PartialDependenceDisplay, partial_dependence

    table = _with_all_values(model, X, panel)
    estimator = model if is_classifier(model) or is_regressor(model) else _AsRegressor(model)
    if len(panel) == 1 and known:
        asked = {name: value for name, value in settings.items() if name in ("response_method", "sample_weight")}
        found = partial_dependence(
            estimator, table, [panel[0]], categorical_features=[panel[0]], custom_values=dict(known), **asked
        )
        average = found["average"]  # one row for a distribution, whose parameters are outputs
        category_dots(axis, model, panel[0], known[panel[0]], average[output if len(average) > 1 else 0])
        return
    if panel[0] in model.model_.reader.derivation.dates:
        typed = Columns(X).dates(panel[0])
        is_duration = typed is not None and typed.dtype.kind == "m"
        axis.set_xlabel(feature_names(model)[panel[0]] + (", days" if is_duration else ""))
        _draw_dates(axis, estimator, table, panel[0], is_duration, output, settings)
        return
    of_model = {
        "categorical_features": list(known) or None,
        "grid_resolution": max(100, *(len(model.model_.categories[f]) for f in known)) if known else 100,
        "custom_values": dict(known),
        "feature_names": feature_names(model),
    }
    PartialDependenceDisplay.from_estimator(estimator, table, [tuple(panel)], ax=[axis], **{**of_model, **settings})


def _draw_dates(
    axis: Axes, estimator: Any, table: Any, feature: int, is_duration: bool, output: int, settings: Mapping[str, Any]
) -> None:
    """Draw the mean predictions of the rows of a table by date; those of days apart are for one time of day."""
    from sklearn.inspection import partial_dependence

    given = days(np.asarray(table.iloc[:, feature] if hasattr(table, "iloc") else table[:, feature], "datetime64[us]"))
    low, high = np.quantile(given, settings.get("percentiles", (0.05, 0.95)))
    grid = np.linspace(low, high, settings.get("grid_resolution", 100))
    times = given % 1.0
    if high - low >= len(grid) or not times.any():
        grid = np.unique(np.floor(grid)) + np.median(times)
    dates = from_days(grid)
    x: Any = grid if is_duration else dates
    asked = {name: value for name, value in settings.items() if name in ("response_method", "sample_weight", "kind")}
    found = partial_dependence(
        estimator, table, [feature], categorical_features=[feature], custom_values={feature: dates}, **asked
    )
    if "individual" in found:
        rows = found["individual"][output if len(found["individual"]) > 1 else 0]
        axis.plot(x, rows[:: max(1, len(rows) // 1000)].T, **settings["ice_lines_kw"])
    if "average" in found:
        average = found["average"][output if len(found["average"]) > 1 else 0]
        axis.plot(x, average, **settings["pd_line_kw" if "individual" in found else "line_kw"])
    if not is_duration:
        locator = AutoDateLocator(maxticks=6)
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))


class _AsRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted ranker or survival model as a regressor: scikit-learn accepts no others."""

    def __init__(self, model: BaseAGBM) -> None:
        self.model = model

    def fit(self, X: Table, y: Values) -> _AsRegressor:
        """The model is fitted already."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Table) -> Any:
        """Scores, or risks."""
        return self.model.predict(X)


def _finish_panels(axes: Sequence[Any], panels: Sequence[Sequence[int]], label: str) -> None:
    """Show names without mathtext, and use one scale for all panels of a single feature."""
    single = [axis for axis, panel in zip(axes, panels, strict=True) if len(panel) == 1]
    limits = np.array([axis.dataLim.intervaly for axis in single])
    for axis, panel in zip(axes, panels, strict=True):
        axis.set_xlabel(shortened(axis.get_xlabel()), parse_math=False)
        axis.set_ylabel(shortened(axis.get_ylabel()), parse_math=False)
        for text in (*axis.get_xticklabels(), *axis.get_yticklabels()):
            text.set_parse_math(False)
        if len(panel) == 2:
            continue
        low, high = limits[:, 0].min(), limits[:, 1].max()
        room = 0.06 * (high - low) or 1.0
        axis.set_ylim(low - room, high + room)
        axis.locator_params(axis="y", nbins=5)
        plain_numbers(axis.yaxis)
        axis.grid(axis="y", alpha=0.25)
        axis.set_ylabel("")
    if single:
        single[0].set_ylabel(label, parse_math=False)
