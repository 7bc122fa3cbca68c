"""Sections about what a model has learned and how it was trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._base.types import AnyArray
from ..._core.methods import AGBM
from ..._core.theory import admissible_momentum
from ..._data.tables import missing
from ..._estimators.classifier import AGBMClassifier
from ..._labels.base import Numbers
from ..._labels.matrices import LabelSets
from ..._losses import traits_of
from ...export._view import feature_names
from ..evaluation.metrics import Tried
from .figures import figures
from .findings import Estimator, Findings, Predictions, whose
from .markup import Html, Make, Section, element, joined, number, seconds, table
from .trees import example_trees

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

FEATURES_SHOWN = 15
STRIPS = 10
PANELS = 6
DEPENDENCE_ROWS = 250
GRID = 30  # more than 10 % of these rows: scikit-learn cannot draw more values of which one has 90 % of the rows
LOWEST_PART = 0.25  # share of the range of the losses that is shown of several models


def model_sections(findings: Findings, what_if: Section | None) -> list[Make]:
    """Functions that make the sections; the panel stands where features are explained."""
    model, about = findings.model, whose(findings)
    if model is None:
        return [partial(_convergence, findings)]
    return [
        partial(_importances, model, about),
        *_explanations(model, findings.test, about),
        lambda: what_if,
        partial(_convergence, findings),
        partial(_trees, model, about),
        partial(_theory, model, about),
    ]


# Features
def _importances(model: Estimator, about: str) -> Section | None:
    if not hasattr(model, "feature_importances_") or not model.split_counts_.any():
        return None
    n_used, n_features = int((model.split_counts_ > 0).sum()), len(model.split_counts_)
    text = (
        f"{about}{n_used:,} of {n_features:,} features are used in splits. The importance of a feature is its share of "
        "the total loss reduction by splits, with trees weighted as in the model."
    )

    def draw(ax: Axes) -> None:
        from ... import plot

        plot.importances(model, top=FEATURES_SHOWN, ax=ax)
        ax.grid(axis="y", visible=False)
        ax.set_title("")

    title = f"Importance of {'the' if n_features <= FEATURES_SHOWN else FEATURES_SHOWN} features"
    chart = figures(draw, title, size=_size_for(min(n_features, FEATURES_SHOWN)))
    return Section("importances", "Importances", joined([element("p", text), chart]))


def _size_for(n_rows: int) -> tuple[float, float]:
    return 4.8, 1.1 + 0.27 * max(n_rows, 3)


def _explanations(model: Estimator, test: Predictions | None, about: str) -> list[Make]:
    """Makers of contributions and partial dependence for a sample of the test rows."""
    if test is None or not model.model_.has_trees or not model.split_counts_.any():
        return []
    target, which = _explained(model, test)

    def rows(X: AnyArray) -> str:
        return f"a sample of {len(X):,} test rows" if len(X) < len(test.y) else "all test rows"

    X, few = test.sample, test.sample[:DEPENDENCE_ROWS]
    found: list[Make] = [partial(_contributions, model, X, target, f"{about}For {rows(X)}.{which}")]
    if isinstance(model.model_.labels, LabelSets):  # scikit-learn takes two labels for two classes
        return found
    return [*found, partial(_dependence, model, few, target, f"{about}Means over {rows(few)}.{which}")]


def _explained(model: Estimator, test: Predictions) -> tuple[object, str]:
    """The output that is explained if there are several, and a sentence on it."""
    labels = model.model_.labels
    if isinstance(labels, LabelSets):
        return 0, " The score is that of label 0."
    if isinstance(labels, Numbers) and labels.shape:
        return 0, " The output is the first one, 0."
    if not isinstance(model, AGBMClassifier):
        return _main_score(model)
    if len(model.classes_) == 2:
        return None, ""
    shares = test.y.sum(axis=0) if test.y.ndim == 2 else [np.count_nonzero(test.y == label) for label in model.classes_]
    most = model.classes_.tolist()[int(np.argmax(shares))]
    return most, f" The score is that of the most frequent class, {most}."


def _main_score(model: Estimator) -> tuple[int | None, str]:
    """The score that is explained if a label has several, and a sentence on it: the median, or that of the mean."""
    traits = traits_of(model.resolved_params_["loss"])
    if traits.listed_quantiles:
        return traits.middle, f" The score is that of the {traits.quantiles[traits.middle]:g} quantile."
    if traits.is_distribution and traits.several:
        place = traits.score_signs.index(1)
        return place, f" The score is parameter {place + 1} of the distribution, with which its mean increases."
    return None, ""


def _contributions(model: Estimator, X: AnyArray, target: object, rows: str) -> Section:
    def draw(ax: Axes) -> None:
        from ... import plot

        # Of a single row, the function draws another chart.
        plot.contributions(model, X if len(X) > 1 else np.tile(X, (2, 1)), target=target, top=STRIPS, ax=ax)
        ax.grid(axis="y", visible=False)
        ax.locator_params(axis="x", nbins=5)
        for strip in ax.collections:
            strip.set_rasterized(True)  # thousands of dots

    text = (
        "Each dot is a test row. Its position shows by how much the feature raises or lowers the score of the row "
        f"(Shapley value); its colour shows the value of the feature, grey for categories and missing values. {rows}"
    )
    n_strips = min(model.n_features_in_, STRIPS + 1)
    width, height = _size_for(n_strips)
    chart = figures(draw, "Contributions of the features", size=(width, height + 0.1 * n_strips), kind="paper")
    return Section("contributions", "Contributions", joined([element("p", text), chart]))


def _dependence(model: Estimator, X: AnyArray, target: object, rows: str) -> Section | None:
    order, several = np.argsort(-model.feature_importances_, kind="stable"), model.model_.reader.derivation.several
    shown = [f for f in order.tolist() if model.split_counts_[f] > 0 and f not in several and _has_values(X[:, f])]
    shown = shown[:PANELS]
    if not shown:
        return None
    X = X if len(X) > 2 else np.tile(X, (3, 1))  # scikit-learn takes two rows for two classes

    def draw(*axes: Axes) -> None:
        from ... import plot

        plot.partial_dependence(model, X, shown, target=target, ax=axes, max_categories=12, grid_resolution=GRID)
        for ax in axes:
            ax.set(xlabel="", ylabel="")  # the titles name the features

    names = feature_names(model)
    what = "prediction"
    if isinstance(model, AGBMClassifier):
        what = f"predicted probability of {model.classes_[1] if target is None else target}"
    text = (
        f"The mean {what} if a feature has the same value in all rows and all other features keep theirs. The panels "
        f"have the same vertical scale; marks at the bottom are deciles of the feature. {rows}"
    )
    charts = figures(draw, *(names[feature] for feature in shown), size=(3.15, 2.7), kind="panels")
    return Section("dependence", "Partial dependence", joined([element("p", text), charts]))


def _has_values(column: NDArray[Any]) -> bool:
    return bool((np.isfinite(column) if column.dtype.kind == "f" else ~missing(column)).any())


# Training
def _convergence(findings: Findings) -> Section | None:
    drawn = [one for one in findings.tried if has_curve(one)]
    if not drawn:
        return None
    several = len(drawn) > 1
    name = findings.loss

    def draw(*axes: Axes) -> None:
        from ...plot._convergence import Curve, draw_curves

        for ax, (x_name, x_label) in zip(axes, x_axes, strict=True):
            curves = {
                one.name: Curve(_x_values(one.curve, x_name), losses_of(one, name, several), one.best) for one in drawn
            }
            draw_curves(ax, curves)
            ax.set(xlabel=x_label)
            ax.set_ylabel(name if not several else f"validation {name}", parse_math=False)
            if several:
                _show_lowest_part(ax, list(curves.values()))
                legend = cast("Legend", ax.get_legend())
                legend.set(loc="upper left", bbox_to_anchor=(0.0, -0.2))  # beside the axes, it takes half of them

    x_axes = [("trees", "trees")]
    if several and all(np.isfinite(_numbers(one.curve.get("seconds", ()))).any() for one in drawn):
        x_axes.append(("seconds", "seconds"))
    titles = [f"{name[0].upper()}{name[1:]} against {label}" for _, label in x_axes]
    note = "The star marks the selected iteration, which the model uses for predictions. "
    if any(_n_members(model) > 1 for model in _models(findings)):
        note += (
            "The losses of a model with several members are means over its members; its predictions average the "
            "members, and their loss is lower. "
        )
    if several:
        note += "The charts show the lowest part of the losses."
    size = (4.8, 3.5 + 0.21 * (len(drawn) + 2) * several)
    body = [figures(draw, *titles, size=size), element("p", note, class_="note"), _losses_at_best(drawn, name)]
    return Section("convergence", "Convergence", joined(body))


def _models(findings: Findings) -> list[Estimator]:
    return [model for model in [findings.model, *(one.model for one in findings.tried)] if model is not None]


def _n_members(model: Estimator) -> int:
    return len(model.model_.ensembles)


def has_curve(tried: Tried) -> bool:
    """Return whether there is a loss to plot."""
    return any(np.isfinite(_numbers(tried.curve.get(name, ()))).any() for name in ("train_loss", "validation_loss"))


def losses_of(tried: Tried, name: str, one_each: bool = False) -> dict[str, Array]:
    """Return the known losses as they are shown; with `one_each` only the last, validation if there is one."""
    from ...plot._convergence import finite_losses

    losses = finite_losses({column: _numbers(values) for column, values in tried.curve.items()})
    if name == "RMSE":
        losses = {kind: np.sqrt(loss) for kind, loss in losses.items()}
    return dict(list(losses.items())[-1:]) if one_each else losses


def _x_values(curve: Mapping[str, Sequence[float]], name: str) -> Array:
    if name in curve:
        return _numbers(curve[name])
    n = max(map(len, curve.values()))
    return np.arange(1.0, n + 1.0)


def _show_lowest_part(ax: Axes, curves: Sequence[Any]) -> None:
    """Omit the beginning of the runs, since their ends would look the same on its scale."""
    losses = [loss for curve in curves for loss in curve.losses.values()]
    low, start = min(float(np.nanmin(loss)) for loss in losses), max(float(loss[0]) for loss in losses)
    if math.isfinite(start) and start > low:
        room = LOWEST_PART * (start - low)
        ax.set_ylim(low - 0.08 * room, low + room)


def _losses_at_best(drawn: Sequence[Tried], name: str) -> Html:
    rows = []
    for one in drawn:
        losses = losses_of(one, name)
        values = [float(losses[kind][one.best]) if kind in losses else math.nan for kind in ("training", "validation")]
        rows.append([one.name, f"{one.trees:,}", *map(number, values), seconds(one.seconds)])
    header = ["model", "trees", f"training {name}", f"validation {name}", "training time"]
    return table("Losses at the selected iterations", header, rows, "stack")


def _numbers(values: Sequence[float]) -> Array:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _trees(model: Estimator, about: str) -> Section | None:
    if not model.model_.has_trees:
        return None
    text = (
        f"{about}A row starts at the top and follows the answers to a leaf. The value of the leaf, which includes the "
        "tree's weight in the model, is added to the score of the row."
    )
    return Section("trees", "Example trees", joined([element("p", text), example_trees(model)]))


# Theory
_TRACKS = {
    "Cosine of each fit": {"cosine_residual": "residual r", "cosine_corrected": "corrected residual c"},
    "Momentum γ": {"momentum": "γ"},
    "Share of momentum θ": {"theta": "θ"},
}
"""Charts by title: columns of the history with the labels of their lines."""


def _theory(model: Estimator, about: str) -> Section | None:
    """Return the quantities of Theorem 4.1 for the paper's accelerated methods; None for all others."""
    if not isinstance(model.resolved_params_["method"], AGBM):
        return None
    history = model.history_
    if not np.isfinite(history["cosine_residual"]).any():
        return None
    restarts = np.flatnonzero(history["restart"])

    def draw(*axes: Axes) -> None:
        for ax, lines in zip(axes, _TRACKS.values(), strict=True):
            for (column, label), style in zip(lines.items(), (("#0072b2", "-"), ("#d55e00", "--")), strict=False):
                ax.plot(history["iteration"], history[column], color=style[0], linestyle=style[1], label=label)
            for restart in restarts:
                ax.axvline(history["iteration"][restart], color="0.5", linewidth=0.8)
            ax.set(xlabel="iterations")
            ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
            if len(lines) > 1:
                ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, handlelength=1.2, columnspacing=1.0)

    texts = [
        f"{about}The cosine is that of the angle between a residual and the values of the learners that are fitted to "
        f"it, on the training rows; 1 is a perfect fit. {_smallest_cosine(model)}",
        "A learner that enters the model f with weight η also enters the momentum function h, with weight γη / θ. In "
        "each iteration the model moves the share θ of the way to h before a learner b is added: "
        "f ← (1\u00a0-\u00a0θ)\u00a0f\u00a0+\u00a0θ\u00a0h\u00a0+\u00a0η\u00a0b.",
    ]
    if len(restarts):
        texts.append(f"{len(restarts)} restart{'s' * (len(restarts) > 1)}: at the vertical lines, h was reset to f.")
    summary = element("summary", "Quantities of the convergence theorem during training")
    charts = figures(draw, *_TRACKS, size=(3.15, 2.6), kind="panels")
    return Section("theory", "Theory", element("details", summary, *(element("p", text) for text in texts), charts))


def _smallest_cosine(model: Estimator) -> str:
    cosines = np.append(model.history_["cosine_residual"], model.history_["cosine_corrected"])
    smallest = float(np.nanmin(cosines))
    requirement = "a positive Θ."
    if smallest > 0.0:
        bound = number(admissible_momentum(smallest), 3)
        requirement = f"a momentum γ of at most Θ⁴ / (4 + Θ²), which is {bound} here."
    method = model.resolved_params_["method"]
    covered = method.correction == 1.0 and not model.resolved_params_["second_order"]
    reservation = "" if covered else " The theorem covers Algorithm 2 with gradient leaves only, not this model."
    return (
        f"Theorem 4.1 of the paper characterises weak learners by the smallest cosine, Θ. Here it is "
        f"{number(smallest, 3)}. The theorem requires {requirement}{reservation}"
    )
