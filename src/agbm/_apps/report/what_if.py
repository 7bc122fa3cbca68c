"""The panel in which readers change the features of a row and see the prediction and its contributions change."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._estimators.classifier import AGBMClassifier
from ..._losses import traits_of
from ...export import to_js
from ...export._view import View, feature_names, view
from .findings import Estimator, Findings, Predictions, whose
from .markup import Section, element, joined, literal, part

# What the page contains at most: the model as JavaScript in bytes, and rows with their features.
MOST_BYTES = 3_000_000
MOST_ROWS = 50
MOST_VALUES = 100_000
# Features that can be changed, and categories that can be chosen from.
MOST_FEATURES = 12
MOST_CATEGORIES = 200
# Bytes of JavaScript per node: three numbers in base64.
_BYTES_PER_NODE = 32
_SLIDER_STEPS = 200


@dataclass(frozen=True)
class Panel:
    """A section of the page, and the script that fills it; empty if the model is too large."""

    section: Section
    script: str = ""


def panel(findings: Findings) -> Panel | None:
    """Return the panel; None if there are no rows to show, or no trees that can be exported."""
    model, test = findings.model, findings.test
    if model is None or test is None or not findings.shows_rows or not model.model_.has_trees:
        return None
    try:
        fitted = view(model)
    except ValueError:  # the loss or the initial model has no known form
        return None
    about = whose(findings)
    n_nodes = sum(len(tree.feature) for tree in fitted.trees)
    module = to_js(model, contributions=True) if n_nodes * _BYTES_PER_NODE <= MOST_BYTES else ""
    if not module or len(module) > MOST_BYTES:
        size = max(len(module), n_nodes * _BYTES_PER_NODE)
        text = (
            f"{about}The page cannot predict by itself: as JavaScript, the model takes {size / 1e6:.1f} MB, and pages "
            f"contain at most {MOST_BYTES / 1e6:g} MB of it. agbm.export.to_js writes it to a file of its own."
        )
        return Panel(Section("what-if", "What if", element("p", text)))
    data = _data(model, fitted, test)
    return Panel(_section(about, data, fitted), f"{module}\n{part('what_if.js').replace('DATA', literal(data))}")


def _section(about: str, data: dict[str, Any], fitted: View) -> Section:
    text = (
        f"{about}Choose a test row and change its features: the page computes the prediction of the model, and how "
        "much each feature contributes to its score (Shapley value). Thin marks show the row as it is."
    )
    notes = [
        "The contributions, those of features that are not shown, and the base value add up to the score.",
        _scores(fitted),
        f"The page contains the features of {len(data['rows'])} test rows: consider this before you pass it on. "
        "agbm report --no-rows leaves this section out.",
    ]
    if any(feature["kind"] == "date" for feature in data["features"]):
        notes.append("Dates cannot be changed here.")
    place = element("div", id="what-if-panel", hidden="")
    without = element("noscript", element("p", "This section needs JavaScript.", class_="note"))
    body = [element("p", text), place, without, element("p", " ".join(filter(None, notes)), class_="note")]
    return Section("what-if", "What if", joined(body))


def _scores(fitted: View) -> str:
    """A sentence that explains scores."""
    if fitted.link.name == "exp":
        return "The score is the logarithm of the prediction."
    if fitted.link.name == "sigmoid":
        of = "" if fitted.several_labels or fitted.classes is None else f" of class {fitted.classes[1]}"
        return f"The score is {'half of ' if fitted.link.slope == 2.0 else ''}the log-odds{of}."
    if fitted.link.name == "softmax":
        return "Probabilities are the exponentials of the scores of the classes, divided by their sum."
    return ""


def _data(model: Estimator, fitted: View, test: Predictions) -> dict[str, Any]:
    """The data of the script, besides the model."""
    reader = model.model_.reader
    numbers = np.asarray(replace(reader, names=None).numbers(test.sample), dtype=np.float64)
    used = _used_inputs(fitted)
    n_rows = min(len(numbers), MOST_ROWS, max(1, MOST_VALUES // max(len(used), 1)))
    order = np.argsort(-model.feature_importances_, kind="stable")
    important = [f for f in order.tolist() if model.split_counts_[f] > 0 and f not in reader.derivation.lists]
    shown = important[:MOST_FEATURES]
    return {
        "rows": [[_or_null(x) for x in row] for row in numbers[:n_rows, used].tolist()],
        "used": used.tolist(),
        "parts": [column for column, _ in reader.derivation.parts],
        "features": [_feature(model, f, numbers[:, f]) for f in shown],
        "n_others": len(important) - len(shown),
        "outputs": _output_names(model, fitted),
        "scores": _score_names(model, fitted),
        "probabilities": isinstance(model, AGBMClassifier),
    }


def _used_inputs(fitted: View) -> NDArray[np.int64]:
    """The inputs that trees split on, themselves or in crosses."""
    features = np.unique(np.concatenate([tree.feature[tree.inner] for tree in fitted.trees])).tolist()
    n = len(fitted.feature_names)
    crosses = [fitted.crosses[feature - n] for feature in features if feature >= n]
    inputs = [f for f in features if f < n] + [f for cross in crosses for f in (cross.left, cross.right)]
    return np.unique(np.array(inputs, dtype=np.int64))


def _feature(model: Estimator, feature: int, column: Array) -> dict[str, Any]:
    """How a feature can be changed: by a slider over the values of the rows, or by a list of categories."""
    found = {"feature": feature, "name": feature_names(model, [feature])[0]}
    known = model.model_.listed_values.get(feature)
    if feature in model.model_.reader.derivation.dates:
        return found | {"kind": "date"}
    if known is not None:
        values = [[str(value), code] for code, value in enumerate(known[:MOST_CATEGORIES])]
        if feature in model.model_.categories:
            values.append(["(another category)", max(1, len(known))])
        return found | {"kind": "category", "values": values}
    present = column[np.isfinite(column)]
    low, high = (float(present.min()), float(present.max())) if len(present) else (0.0, 1.0)
    if low == high:
        low, high = low - 1.0, high + 1.0
    whole = bool((present == np.floor(present)).all()) and high - low >= 2.0 and high < 2.0**53
    return found | {"kind": "number", "low": low, "high": high, "step": 1.0 if whole else _step(high - low)}


def _step(width: float) -> float:
    """The step of a slider: 1, 2 or 5 times a power of ten, such that the width has about _SLIDER_STEPS steps."""
    least = width / _SLIDER_STEPS
    power = 10.0 ** math.floor(math.log10(least)) if least > 0.0 and math.isfinite(least) else 1.0
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least or factor == 10.0)


def _output_names(model: Estimator, fitted: View) -> list[str]:
    """The names of the results of `finish`."""
    if isinstance(model, AGBMClassifier):
        return [str(label) for label in model.classes_.tolist()]
    traits = traits_of(fitted.loss)
    if traits.listed_quantiles:
        return [f"{level:g} quantile" for level in traits.quantiles]
    n = 1 if traits.several else fitted.n_outputs
    return ["prediction"] if n == 1 else [f"output {k}" for k in range(n)]


def _score_names(model: Estimator, fitted: View) -> list[str]:
    if fitted.n_outputs == 1:
        return [""]
    if isinstance(model, AGBMClassifier):
        return [str(label) for label in model.classes_.tolist()]
    names = _output_names(model, fitted)
    return names if len(names) == fitted.n_outputs else [f"score {k + 1}" for k in range(fitted.n_outputs)]


def _or_null(x: float) -> float | str | None:
    """A number as JSON has it; infinities as text, missing values as null."""
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return None if math.isnan(x) else x
