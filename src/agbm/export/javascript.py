"""Export to JavaScript: one ES module without dependencies, with the same results as the model, bit for bit."""

from __future__ import annotations

import math
from base64 import b64encode
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data.crosses import Cross
from .._estimators.base import BaseAGBM
from ._formulas import FUNCTIONS, JAVASCRIPT, Finish, finish_of, number, written
from ._program import FEATURE_SHIFT, INNER, Program, about, as_number, listed_values, program, quoted
from ._view import View, view

_POWER_OF_TWO = """
const bits = new DataView(new ArrayBuffer(8));
function power_of_two(n) {
  bits.setUint32(0, (n + 1023) << 20);
  bits.setUint32(4, 0);
  return bits.getFloat64(0);
}
"""
_EXPONENT = """
function exponent_of(x) {
  bits.setFloat64(0, x);
  return (bits.getUint32(0) >>> 20) - 1023;
}
"""
_PREDICT = {
    "class": """\
/** The probabilities of the classes: an array. */
export function predictProba(row) {
  return finish(scores(row));
}

/** The most probable class. */
export function predict(row) {
  const found = scores(row);
  return classes[found.length === 1 ? Number(found[0] > 0) : found.indexOf(Math.max(...found))];
}
""",
    "labels": """\
/** The probabilities of the labels: an array. */
export function predictProba(row) {
  return finish(scores(row));
}

/** For each label, 1 if it is more probable than not, otherwise 0. */
export function predict(row) {
  return Array.from(scores(row), (score) => Number(score > 0));
}
""",
    "one": """\
/** The prediction: a number. */
export function predict(row) {
  return finish(scores(row))[0];
}
""",
    "several": """\
/** The predictions: an array. */
export function predict(row) {
  return finish(scores(row));
}
""",
}


def to_js(model: BaseAGBM, *, contributions: bool = False) -> str:
    """A fitted model as an ES module without dependencies; results have the same bits as those of the model.

    Its functions are `predict(row)`, for classifiers `predictProba(row)`, and `encode(values)`, which makes a row from
    numbers and categories; missing values are null, undefined or NaN. `scores(row)` returns raw scores, and
    `finish(scores)` converts these, plus offsets, into predictions. With contributions=True, `contributions(row)`
    returns what `predict_contributions` does, up to rounding; the file is then about half as large again. These are
    contributions of features: a date has one for each of its parts. Classes that are neither text, numbers nor booleans
    are their text.
    """
    fitted = view(model)
    trees, finish = program(fitted), finish_of(fitted)
    parts = {
        "about": "\n".join(about(fitted, trees)),
        "feature_names": _array(map(quoted, fitted.feature_names)),
        "categories": "\n".join(_list(f, *of) for f, of in sorted(listed_values(fitted).items())),
        "crosses": _array(map(_cross, fitted.crosses)),
        "classes": "null" if fitted.classes is None else _array(map(_class, fitted.classes.tolist())),
        "n_scores": fitted.n_outputs,
        "n_predictions": finish.n_predictions,
        "n_values": trees.n_values,
        "start": ", ".join(map(number, fitted.start.tolist())),
        "number": _encoded(trees.number, "<f8"),
        "what": _encoded(trees.what, "<u4"),
        "next": _encoded(trees.next, "<u4"),
        "sets": _encoded(trees.sets, "<u4"),
        "roots": _encoded(trees.roots, "<u4"),
        "outputs": _encoded(trees.outputs, "<u4"),
        "values": "null" if trees.n_values == 1 else f'numbersIn("{_encoded(trees.values, "<f8")}")',
        "functions": _functions(finish, fitted.n_outputs),
        "finish": _finish_body(finish, fitted.n_outputs),
        "result": "Predictions" if fitted.classes is None and not fitted.several_labels else "Probabilities",
        "predict": _PREDICT[_kind(fitted, finish)],
    }
    return Template(_part("model.js")).substitute(parts) + (_contributions(trees) if contributions else "")


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _kind(fitted: View, finish: Finish) -> str:
    if fitted.several_labels:
        return "labels"
    if fitted.classes is not None:
        return "class"
    return "one" if fitted.one_column or finish.n_predictions < fitted.n_outputs else "several"


def _encoded(array: NDArray[Any], kind: str) -> str:
    return b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode()


def _array(values: Any) -> str:
    return f"[{', '.join(values)}]"


def _cross(cross: Cross) -> str:
    left, sign, right, a, b, _ = cross
    return f'[{left}, "{sign}", {right}, {number(a)}, {number(b)}]'


def _class(label: Any) -> str:
    found = _value(label)
    return quoted(str(label)) if found == "null" else found


def _value(value: Any) -> str:
    """A category or class; null for one that JavaScript cannot express, so that the others keep their places."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    found = as_number(value)
    if found is None:
        return "null"
    return number(found).replace("INFINITY", "Infinity")


def _list(feature: int, values: list[Any], other: float) -> str:
    return f"  [{feature}, {_array(map(_value, values))}, {'NaN' if math.isnan(other) else number(other)}],"


def _functions(finish: Finish, n: int) -> str:
    needed = [FUNCTIONS[name] for name in finish.needs]
    if needed:
        needed = [_POWER_OF_TWO, *([_EXPONENT] if "log" in finish.needs else []), *needed]
    constants = [
        f"\nconst {name} = {_array(map(number, np.asarray(values).tolist()))};\n"
        for name, values in (finish.numbers or {}).items()
    ]
    return "".join([*constants, *(written(text, JAVASCRIPT, "", n) for text in needed)])


def _finish_body(finish: Finish, n: int) -> str:
    shares = f"  const shares = new Float64Array({finish.n_shares});\n" if finish.n_shares else ""
    return shares + written(finish.body, JAVASCRIPT, "", n)


def _contributions(trees: Program) -> str:
    t, weight = np.polynomial.legendre.leggauss((_most_features(trees) + 1) // 2 or 1)
    return Template(_part("contributions.js")).substitute(
        count=_encoded(trees.count, "<f8"),
        points=", ".join(map(repr, (0.5 * (t + 1.0)).tolist())),
        weights=", ".join(map(repr, (0.5 * weight).tolist())),
    )


def _most_features(trees: Program) -> int:
    """The largest number of different features on a path."""
    most = 0
    above: list[frozenset[int]] = [frozenset()] * len(trees.what)
    for node, (what, after) in enumerate(zip(trees.what.tolist(), trees.next.tolist(), strict=True)):
        if what & INNER:  # parents precede their children
            above[after] = above[after + 1] = above[node] | {what >> FEATURE_SHIFT}
            most = max(most, len(above[after]))
    return most
