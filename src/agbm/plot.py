"""Pictures of fitted models, for screens and for print in grey. Needs matplotlib (extra: plot).

Every function draws on the axes it is given, or on new ones, and gives them back; no setting of matplotlib is changed.
Names of features and models are shown as they are: a dollar in them begins no formula.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core.losses import Array
from ._data.rows import some_of
from ._data.tables import missing
from ._estimators import AGBMClassifier
from .export import plot_tree as tree
from .export._view import check_fitted, feature_names

try:
    import matplotlib.pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullFormatter
except ImportError as error:
    raise ImportError("agbm.plot needs matplotlib: pip install 'agbm[plot]'.") from error

__all__ = ["calibration", "contributions", "convergence", "importances", "partial_dependence", "tree"]

# Okabe and Ito's colours, which people with any colour vision can tell apart; without yellow, which paper swallows.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PINK = "#0072B2", "#D55E00", "#CC79A7"
_COLOURS = BLUE, ORANGE, GREEN, BLACK, PINK, SKY, RED
_MARKERS = "osD^vPXd"  # one more than colours: the pairs repeat after 56 lines
_DASHES = "-", "--", "-.", (0, (1, 1))
_GREY = "0.5"

_AGAINST = {"trees": ("trees", "trees"), "iterations": ("iteration", "iterations"), "seconds": ("seconds", "seconds")}
_LONGEST_NAME = 36


def convergence(models: Any, against: str = "trees", *, log: bool = False, ax: Any = None) -> Any:
    """Training loss (dashed) and validation loss (solid) of each iteration, with a star at the best one.

    models is a fitted model, a dict of them by name, or a list. against is "trees", "iterations" or "seconds". A model
    that was fitted without validation rows has a training loss only; fit it with X_val and y_val, or with
    early_stopping=True, to see both.
    """
    if against not in _AGAINST:
        raise ValueError(f"against={against!r} must be one of {list(_AGAINST)}.")
    column, label = _AGAINST[against]
    named = _named(models)
    losses = [_finite_losses(name, model, log) for name, model in named.items()]
    ax = _axes(ax, max(4.0, 0.25 * (len(named) + 4)))  # the legend has a line for each
    handles = []
    for number, (name, model) in enumerate(named.items()):
        for kind, loss in losses[number].items():
            width, dashes = (1.0, "--") if kind == "training" else (1.8, "-")
            every = (0.02 * (number % 4), 0.1)  # shares of the axes, so that markers of different lines do not meet
            (line,) = ax.plot(
                model.history_[column], loss, linestyle=dashes, linewidth=width, markevery=every, markersize=4.5,
                label=name, **_style(number),
            )  # fmt: skip
        best = int(np.nanargmin(loss))  # the loss that comes last: of validation rows, where there are some
        x, colour = model.history_[column][best], line.get_color()
        ax.plot(x, loss[best], "*", color=colour, markersize=13, markeredgecolor="white", label="_best", zorder=3)
        handles.append(line)
    _explain_lines(ax, named, handles)
    ax.set(xlabel=label, ylabel="loss")
    if log:
        _make_log(ax)
    return ax


def _finite_losses(name: str, model: Any, log: bool) -> dict[str, Array]:
    """Losses with NaN for what cannot be drawn; those of validation rows last, if there are any."""
    losses = {"training": model.history_["train_loss"], "validation": model.history_["validation_loss"]}
    losses = {kind: np.where(np.isfinite(loss), loss, np.nan) for kind, loss in losses.items()}
    losses = {kind: loss for kind, loss in losses.items() if not np.isnan(loss).all()}
    for kind, loss in losses.items():
        if log and np.nanmin(loss) <= 0.0:
            raise ValueError(
                f"log=True: the {kind} loss of {name!r} goes down to {np.nanmin(loss):.4g}; use log=False."
            )
    return losses


def _explain_lines(ax: Any, named: Mapping[str, Any], handles: Sequence[Any]) -> None:
    """A legend: the models, where there are several, and what solid, dashed and a star mean."""
    several = len(named) > 1
    colour = _GREY if several else handles[0].get_color()
    meanings = {"training": Line2D([], [], color=colour, linestyle="--", linewidth=1.0)}
    if any(handle.get_linestyle() == "-" for handle in handles):
        meanings = {"validation": Line2D([], [], color=colour, linewidth=1.8), **meanings}
    meanings["best iteration"] = Line2D([], [], color=colour, linestyle="none", marker="*", markersize=11)
    names = list(named) if several else []
    _legend(ax, [*handles[: len(names)], *meanings.values()], [*names, *meanings])


def _make_log(ax: Any) -> None:
    low, high = ax.dataLim.intervaly
    ax.set_yscale("log")
    if high < 100.0 * low:  # powers of ten alone would be one or two
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())


def importances(model: Any, kind: str = "gain", *, top: int = 20, ax: Any = None) -> Any:
    """The most important features as bars, by their share of the gain or by their number of splits.

    kind is "gain" (feature_importances_) or "splits" (split_counts_). What they mean is in docs/explain.md.
    """
    attributes = {"gain": "feature_importances_", "splits": "split_counts_"}
    if kind not in attributes:
        raise ValueError(f"kind={kind!r} must be one of {list(attributes)}.")
    check_fitted(model)
    model.model_.check_has_trees("importances")
    _check_top(top)
    values = getattr(model, attributes[kind])
    if not values.any():
        raise ValueError(
            "model has no splits, so that no feature has an importance; fit it to more rows, or with smaller "
            "min_samples_leaf or min_split_gain."
        )
    shown = np.argsort(-values, kind="stable")[:top]
    ax = _axes_for_rows(ax, [_shortened(feature_names(model)[feature]) for feature in shown])
    bars = ax.barh(range(len(shown)), values[shown], color=BLUE, height=0.7)
    ax.bar_label(bars, fmt="{:.3g}", padding=3, fontsize="small")
    ax.margins(x=0.12)
    ax.set_xlabel("share of the gain of all splits" if kind == "gain" else "splits")
    if len(shown) < len(values):
        ax.set_title(f"{len(shown)} of {len(values)} features", fontsize="medium")
    return ax


def contributions(model: Any, X: Any, *, target: Any = None, top: int = 12, ax: Any = None) -> Any:
    """What features add to raw scores (predict_contributions), the most important ones first, the others in one sum.

    For a single row, bars lead from the base value, which is expected where nothing is known, to the score. For several
    rows there is a strip of dots for each feature, a dot a row, coloured by the value of the feature (grey: missing, a
    category, a sum of features); those with the largest mean absolute contribution come first. target is a class, or
    the number of an output, where the model has several.
    """
    check_fitted(model)
    _check_top(top)
    shape = getattr(X, "shape", None) or np.shape(X)
    if len(shape) != 2 or shape[0] == 0:
        raise ValueError(f"X must be some rows of features, got shape {shape}; give a single row as X[:1], not X[0].")
    output = _output_of(model, target)
    added = model.predict_contributions(X)
    added = added if added.ndim == 2 else added[:, output]
    values, base = added[:, :-1], added[:, -1]
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")
    shown, rest = order[:top].tolist(), order[top:]
    parts = [values[:, feature] for feature in shown]
    columns = _columns(model, X, shown)
    names = [_shortened(feature_names(model)[feature]) for feature in shown]
    if len(values) == 1:
        names = [f"{name} = {_word(column[0])}" for name, column in zip(names, columns, strict=True)]
    if len(rest):
        parts.append(values[:, rest].sum(axis=1))
        names.append(f"{len(rest)} others")
    ax = _axes_for_rows(ax, names)
    if len(values) == 1:
        _waterfall(ax, float(base[0]), np.array(parts)[:, 0])
    else:
        _strips(ax, parts, columns)
    score = f"raw score{_of_output(model, output)}"
    ax.set_xlabel(score if len(values) == 1 else f"contribution to the {score}", parse_math=False)
    return ax


def _waterfall(ax: Any, base: float, parts: Array) -> None:
    """Bars one below the other, each from where the last one ended."""
    ends = base + np.cumsum(parts)
    rows = np.arange(len(parts))
    colours = [BLUE if part >= 0 else ORANGE for part in parts]
    ax.barh(rows, parts, left=ends - parts, color=colours, height=0.7, zorder=2)
    ax.vlines(ends[:-1], rows[:-1], rows[1:], color=_GREY, linewidth=0.8, zorder=1)
    text: dict[str, Any] = {"fontsize": "small", "annotation_clip": False}
    text["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
    for row, part, end in zip(rows, parts, ends, strict=True):
        right = part >= 0
        ax.annotate(
            f"{part:+.3g}", (end, row), (4 if right else -4, 0), textcoords="offset points", va="center",
            ha="left" if right else "right", **text,
        )  # fmt: skip
    bottom, score = len(parts) - 0.5, float(ends[-1])
    for x, words, y, side, dashes in (
        (base, "base value", -0.5, "bottom", ":"),
        (score, "score", bottom, "top", "-"),
    ):
        ax.axvline(x, color="0.3", linestyle=dashes, linewidth=1.0, zorder=0)
        ax.annotate(f"{words} {x:.4g}", (x, y), ha="center", va=side, **text)
    low, high = min(base, ends.min()), max(base, ends.max())
    room = 0.25 * (high - low) or 1.0  # for the numbers
    ax.set(xlim=(low - room, high + room), ylim=(bottom + 0.7, -1.2))


def _strips(ax: Any, parts: Sequence[Array], columns: Sequence[NDArray[Any]]) -> None:
    """Dots of all rows at their contributions, above and below each other where they are many."""
    map_of_values = plt.get_cmap("cividis")
    ax.axvline(0.0, color="0.3", linewidth=1.0, zorder=1)
    for row, part in enumerate(parts):
        ranks = _ranks(columns[row]) if row < len(columns) else None  # a sum of features has no value
        colours: Any = _GREY
        if ranks is not None:
            colours = np.where(np.isnan(ranks)[:, np.newaxis], (0.5, 0.5, 0.5, 1.0), map_of_values(ranks))
        ax.scatter(part, row + _spread(part), c=colours, s=9, linewidths=0, zorder=2, rasterized=len(part) > 1000)
    bar = ax.figure.colorbar(ScalarMappable(cmap=map_of_values), ax=ax, aspect=40, pad=0.02, ticks=[0.0, 1.0])
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("feature value", labelpad=-8)
    bar.outline.set_visible(False)


def _ranks(column: NDArray[Any]) -> Array | None:
    """Places of values among the different ones, from 0 to 1, NaN of those that are missing; None of categories."""
    if column.dtype == object:
        return None
    different, place = np.unique(column, return_inverse=True)
    highest = max(int(np.count_nonzero(~np.isnan(different))) - 1, 1)
    return np.where(np.isnan(column), np.nan, place / highest)


def _spread(values: Array, half: float = 0.36) -> Array:
    """How far from the middle of its strip each dot is, so that those of one place lie beside each other."""
    low, width = values.min(), max(float(np.ptp(values)), 1e-300)
    places = ((values - low) / width * 99.0).astype(np.intp)
    order = np.argsort(places, kind="stable")
    firsts = np.searchsorted(places[order], np.arange(100))
    number = np.empty(len(values), dtype=np.intp)
    number[order] = np.arange(len(values)) - firsts[places[order]]  # its turn among those of its place
    most = max(int(number.max()), 1)
    side = np.where(number % 2 == 0, 1.0, -1.0)
    return np.asarray(side * ((number + 1) // 2) * (2.0 * half / max(most, 12)))


def partial_dependence(
    model: Any,
    X: Any,
    features: Iterable[Any],
    *,
    kind: str = "average",
    target: Any = None,
    max_categories: int = 20,
    n_cols: int = 3,
    ax: Any = None,
    **options: Any,
) -> Any:
    """How predictions depend on features, on average over the rows of X; gives the figure.

    features are names or positions, or pairs of them, each for a panel; ax may be as many axes. kind="both" adds lines
    of single rows, target is a class or an output where the model has several. X is an array or a pandas data frame;
    of many rows a sample will do.

    scikit-learn's PartialDependenceDisplay computes and draws, options are those of its from_estimator. What it does
    not take is seen to here: missing values, infinite ones and whole numbers in the features of a panel, whose own
    values do not matter there, and categories, which become dots, the most frequent max_categories of them.
    """
    from sklearn.inspection import PartialDependenceDisplay  # here, not above: it takes long to import

    check_fitted(model)
    output = _output_of(model, target)
    if isinstance(features, (str, int)):
        raise ValueError(f"features={features!r} must be a list, such as [{features!r}].")
    entries = [entry if isinstance(entry, (tuple, list)) else (entry,) for entry in features]
    panels = [tuple(_position(model, feature) for feature in entry) for entry in entries]
    axes = _panels(len(panels), n_cols, ax)
    lines: dict[str, Any] = {"line_kw": {"color": BLUE, "linewidth": 1.8}}
    if kind != "average":
        lines = {
            "ice_lines_kw": {"color": SKY, "linewidth": 0.5, "alpha": 0.4},
            "pd_line_kw": {"color": BLACK, "linestyle": "--", "linewidth": 1.8},
        }
    for axis, panel in zip(axes, panels, strict=True):
        known = {feature: model.model_.categories[feature] for feature in panel if feature in model.model_.categories}
        table = _with_all_values(model, X, panel)
        if len(panel) == 1 and known:
            asked = {name: value for name, value in options.items() if name in ("response_method", "sample_weight")}
            _category_dots(axis, model, table, panel[0], known[panel[0]][:max_categories], output, asked)
            continue
        settings = {
            "kind": kind, "target": target, "categorical_features": list(known) or None,
            "grid_resolution": max(100, *map(len, known.values())) if known else 100,
            "custom_values": {feature: values[:max_categories] for feature, values in known.items()},
            "feature_names": feature_names(model),
        }  # fmt: skip
        with warnings.catch_warnings():  # of a feature without effect, whose line is flat
            warnings.filterwarnings("ignore", "Attempting to set identical low and high ylims")
            PartialDependenceDisplay.from_estimator(
                model, table, [panel], ax=[axis], **{**settings, **lines, **options}
            )
        if not known:
            axis.locator_params(nbins=5)
    _finish_panels(model, axes, panels, output)
    return axes[0].figure


def _panels(n: int, n_cols: int, ax: Any) -> list[Any]:
    if n == 0:
        raise ValueError("features=[] must name at least one feature.")
    if ax is not None:
        axes = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) != n:
            raise ValueError(f"ax has {len(axes)} axes, features has {n}; give one for each, or ax=None.")
        return axes
    columns = min(n_cols, n)
    rows = -(-n // columns)
    size = 3.4 * columns + 0.4, 3.0 * rows + 0.2
    _, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for unused in grid.flat[n:]:
        unused.remove()
    return list(grid.flat[:n])


def _with_all_values(model: Any, X: Any, panel: Sequence[int]) -> Any:
    """A copy of X in which the features of a panel have a finite number, or a category, in every row."""
    if not isinstance(X, np.ndarray) and not hasattr(X, "iloc"):
        raise TypeError(f"X is a {type(X).__name__}; give an array or a pandas data frame, such as X.to_pandas().")
    table: Any = X.copy() if hasattr(X, "iloc") else np.array(X, dtype=object if X.dtype == object else np.float64)
    for feature, column in zip(panel, _columns(model, X, panel), strict=True):
        absent = ~np.isfinite(column) if column.dtype.kind == "f" else missing(column)
        if absent.all():
            raise ValueError(f"X has no value of feature {feature_names(model)[feature]!r}; give rows that have some.")
        column[absent] = np.resize(column[~absent], np.count_nonzero(absent))
        if hasattr(table, "iloc"):
            table[table.columns[feature]] = column
        else:
            table[:, feature] = column
    return table


def _category_dots(
    axis: Any,
    model: Any,
    table: Any,
    feature: int,
    categories: Sequence[Any],
    output: int,
    asked: Mapping[str, Any],
) -> None:
    """Means of predictions as dots: the bars of scikit-learn's display lie where categories are as numbers."""
    from sklearn.inspection import partial_dependence

    found = partial_dependence(
        model, table, [feature], categorical_features=[feature], custom_values={feature: categories}, **asked
    )
    places = range(len(categories))
    axis.plot(places, found["average"][output], "o", color=BLUE, markersize=6)
    axis.set_xticks(places, [_word(category) for category in categories], parse_math=False)
    axis.tick_params(axis="x", rotation=90 if len(categories) > 4 else 0)
    axis.margins(x=0.5 / len(categories))
    axis.set_xlabel(feature_names(model)[feature])


def _finish_panels(model: Any, axes: Sequence[Any], panels: Sequence[Sequence[int]], output: int) -> None:
    """Names as they are, and one scale for all panels of a single feature."""
    single = [axis for axis, panel in zip(axes, panels, strict=True) if len(panel) == 1]
    limits = np.array([axis.dataLim.intervaly for axis in single])
    for axis, panel in zip(axes, panels, strict=True):
        axis.set_xlabel(_shortened(axis.get_xlabel()), parse_math=False)
        axis.set_ylabel(_shortened(axis.get_ylabel()), parse_math=False)
        for text in (*axis.get_xticklabels(), *axis.get_yticklabels()):
            text.set_parse_math(False)
        if len(panel) == 2:
            continue
        low, high = limits[:, 0].min(), limits[:, 1].max()
        room = 0.06 * (high - low) or 1.0
        axis.set_ylim(low - room, high + room)
        axis.grid(axis="y", alpha=0.25)
        axis.set_ylabel("")
    if single:
        single[0].set_ylabel(f"mean prediction{_of_output(model, output)}", parse_math=False)


def calibration(models: Any, X: Any, y: Any, *, bins: int = 10, ax: Any = None) -> Any:
    """Reliability diagram of classifiers of two classes: how often what was given a probability came true.

    models is a fitted classifier, a dict of them by name, or a list; X and y are rows that were not trained on. Below
    are the numbers of rows in each of the bins, which have equal widths.
    """
    from sklearn.calibration import calibration_curve  # here, not above: it takes long to import

    named = _named(models)
    if not isinstance(bins, (int, np.integer)) or bins < 2:
        raise ValueError(f"bins={bins!r} must be a whole number of at least 2.")
    for name, model in named.items():
        _check_two_classes(name, model, y)
    ax = _axes(ax, 5.4)
    counts = _axes_below(ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", color=_GREY)
    edges, handles = np.linspace(0.0, 1.0, bins + 1), []
    for number, model in enumerate(named.values()):
        probabilities = model.predict_proba(X)[:, 1]
        share, mean = calibration_curve(y, probabilities, n_bins=bins, pos_label=model.classes_[1])
        style = {**_style(number), "linestyle": _DASHES[number % len(_DASHES)]}
        handles += ax.plot(mean, share, markersize=6, **style)
        in_bins = np.bincount(np.searchsorted(edges[1:-1], probabilities), minlength=bins)  # as the curve's bins are
        counts.stairs(in_bins, edges, color=style["color"], linestyle=style["linestyle"], linewidth=1.5)
    if len(named) > 1:
        _legend(ax, handles, list(named))
    label = next(iter(named.values())).classes_[1]
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_ylabel(f"share of class {label}", parse_math=False)
    ax.tick_params(labelbottom=False)
    counts.set(ylabel="rows", ylim=(0, None))
    counts.set_xlabel(f"predicted probability of class {label}", parse_math=False)
    counts.spines[["top", "right"]].set_visible(False)
    counts.grid(alpha=0.25)
    return ax


def _check_two_classes(name: str, model: Any, y: Any) -> None:
    if not isinstance(model, AGBMClassifier):
        raise TypeError(f"models: {name!r} is a regressor; calibration is of the probabilities of classifiers.")
    classes = model.classes_.tolist()
    if len(classes) != 2:
        raise ValueError(
            f"models: {name!r} has {len(classes)} classes, calibration is for two; fit a model for each class, such as "
            f"y == {classes[0]!r}."
        )
    unknown = [label for label in np.unique(y).tolist() if label not in classes]
    if unknown:
        raise ValueError(f"y has labels {some_of(unknown)}, which {name!r} has not; it has {classes}.")


# What all pictures share.
def _named(models: Any) -> dict[str, Any]:
    """Models by name; those of a list are called by their method, with their place where that is not enough."""
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif isinstance(models, (list, tuple)):
        methods = [getattr(model, "method", "") for model in models]
        same = len(set(methods)) < len(methods)
        named = {
            f"{method} {k}" if same else method: m for k, (method, m) in enumerate(zip(methods, models, strict=True))
        }
    else:
        named = {getattr(models, "method", ""): models}
    if not named:
        raise ValueError(f"models={models!r} must have at least one model.")
    for model in named.values():
        check_fitted(model)
    return named


def _axes(ax: Any, height: float = 4.0, width: float = 6.4, grid: str = "both") -> Any:
    """The axes that were given, or new ones of a size in inches."""
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis=grid, alpha=0.25)
        ax.set_axisbelow(True)
    return ax


def _axes_for_rows(ax: Any, names: Sequence[str]) -> Any:
    """Axes with a row for each name, and room for the longest."""
    height, width = max(2.4, 1.2 + 0.27 * len(names)), max(6.4, 4.6 + 0.08 * max(map(len, names)))
    ax = _axes(ax, height, width, grid="x")
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    return ax


def _axes_below(ax: Any) -> Any:
    """Axes that take a quarter of the place of others, and their x-axis."""
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError(f"ax={ax!r} has no place in a grid, so that nothing fits below; make it with plt.subplots.")
    above, below = place.subgridspec(2, 1, height_ratios=(3, 1), hspace=0.08)
    ax.set_subplotspec(above)
    return ax.figure.add_subplot(below, sharex=ax)


def _style(number: int) -> dict[str, Any]:
    """Colour and marker of a line: each pair once for as long as possible."""
    return {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}


def _legend(ax: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """A legend of any names; matplotlib would leave those out that begin with an underscore."""
    place: dict[str, Any] = {}
    if len(names) > 3 and ax.figure.get_layout_engine() is not None:  # which makes room for it
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
    legend = ax.legend(handles, [str(number) for number in range(len(names))], **place)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=_shortened(name), parse_math=False)


def _shortened(name: str, length: int = _LONGEST_NAME) -> str:
    """A name on one line, long ones without their middle: it is the ends that tell names apart."""
    name = " ".join(name.split())
    half = length // 2
    return name if len(name) <= length else f"{name[:half]}…{name[-half + 1 :]}"


def _word(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) else _shortened(str(value), 20)


def _columns(model: Any, X: Any, features: Sequence[int]) -> list[NDArray[Any]]:
    """Some features of X as the model sees them: numbers with NaN, or categories with None."""
    table = model.model_.reader.numbers(X)
    table = table[:, list(features)]
    numbers = np.array(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
    columns: list[NDArray[Any]] = []
    for feature, column in zip(features, numbers.T, strict=True):
        known = model.model_.categories.get(feature)
        if known is not None:
            names = np.empty(
                len(column), dtype=object
            )  # one by one: of categories that are tuples, an array has more axes
            names[:] = [None if np.isnan(code) else known[int(code)] for code in column]
            column = names
        columns.append(column)
    return columns


def _position(model: Any, feature: Any) -> int:
    names = feature_names(model)
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"features: there is no {feature!r}; the model has {_some(names)}.")
        return names.index(feature)
    if not isinstance(feature, (int, np.integer)) or not 0 <= feature < len(names):
        raise ValueError(f"features: {feature!r} must be a name, or a position from 0 to {len(names) - 1}.")
    return int(feature)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def _output_of(model: Any, target: Any) -> int:
    """The number of the output that `target` names; 0 where there is one alone."""
    n_outputs = model.model_.n_outputs
    if n_outputs == 1:
        if target is not None:
            raise ValueError(f"target={target!r}: the model has one output; use target=None.")
        return 0
    names = model.classes_.tolist() if isinstance(model, AGBMClassifier) else list(range(n_outputs))
    if target not in names:
        kind = "classes" if isinstance(model, AGBMClassifier) else "outputs"
        raise ValueError(f"target={target!r} must be one of the {kind} of the model: {_some(list(map(str, names)))}.")
    return names.index(target)


def _of_output(model: Any, output: int) -> str:
    """What to write behind "score", such as " of class b"; nothing where there is one output."""
    if isinstance(model, AGBMClassifier):
        return f" of class {model.classes_[1 if model.model_.n_outputs == 1 else output]}"
    return f" of output {output}" if model.model_.n_outputs > 1 else ""


def _check_top(top: Any) -> None:
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise ValueError(f"top={top!r} must be a whole number of at least 1.")
