"""From scores to predictions, in a notation that becomes C or JavaScript: the same operations as in the kernels.

Predictions have the same bits as those of agbm only if every operation is the same, in the same order. The functions of
the kernels are therefore repeated here; tests compare their results with those of the kernels, bit for bit. In the
notation, `$real` declares a number, `$sum` one that changes, `$index` the index of a loop, `$function` a function of
`$arg`s, and `$p` precedes names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from .._base.sums import Array
from .._losses import prediction_of
from ._view import View

C = {
    "real": "const double", "sum": "double", "index": "int", "function": "static double", "arg": "double ",
    "numbers": "static const double",
}  # fmt: skip
JAVASCRIPT = {"real": "const", "sum": "let", "index": "let", "function": "function", "arg": "", "numbers": "const"}

# As in src/agbm/_kernels/formulas/elementary.hpp, where the reasons are. exp_scale(shifted) is 2^n.
_EXP = """
/* exp(x), with x clipped to [-700, 700]. */
$function ${p}exp(${arg}x) {
  $real clipped = x > 700.0 ? 700.0 : x < -700.0 ? -700.0 : x;
  $real shifted = clipped * 1.4426950408889634 + 6755399441055744.0;
  $real n = shifted - 6755399441055744.0;
  $real r = (clipped - n * $ln2_high) - n * $ln2_low;
  $real r2 = r * r;
  $real r4 = r2 * r2;
  $real q0 =
    0.5000000000000011 + r * 0.1666666666666641 + r2 * (0.041666666666529725 + r * 0.008333333333494976);
  $real q4 =
    0.0013888888943759965 + r * 0.00019841269505773776 + r2 * (2.480149294963387e-05 + r * 2.7557586803895326e-06);
  $real q8 = 2.76303062502936e-07 + r * 2.5000018833187374e-08;
  $real mantissa = 1.0 + (r + r2 * (q0 + r4 * (q4 + r4 * q8)));
  return mantissa * ${p}power_of_two(n);
}
"""
_SIGMOID = """
$function ${p}sigmoid(${arg}x) {
  return 1.0 / (1.0 + ${p}exp(-x));
}
"""
# For positive numbers that are neither subnormal nor infinite.
_LOG = """
/* log(x) for x > 0. */
$function ${p}log(${arg}x) {
  $real exponent = ${p}exponent_of(x);
  $real first = x * ${p}power_of_two(-exponent);
  $real n = first >= 1.4142135623730951 ? exponent + 1.0 : exponent;
  $real m = first >= 1.4142135623730951 ? 0.5 * first : first;
  $real s = (m - 1.0) / (m + 1.0);
  $real z = s * s;
  $real z2 = z * z;
  $real low = 0.6666666666666735 + z * 0.3999999999941109 + z2 * (0.28571428743262955 + z * 0.22222198475963328);
  $real high = 0.18183569740789435 + z * 0.15313903225620146 + z2 * 0.14797507887340616;
  $real log_m = 2.0 * s + s * z * (low + z2 * z2 * high);
  return n * $ln2_high + (log_m + n * $ln2_low);
}
"""
FUNCTIONS = {"exp": _EXP, "sigmoid": _SIGMOID, "log": _LOG}
_CONSTANTS = {"ln2_high": repr(float.fromhex("0x1.62e42fefa3800p-1")), "ln2_low": "5.497923018708371e-14"}

_SOFTMAX = """\
  $sum largest = scores[0];
  for ($index k = 1; k < $n; ++k) largest = scores[k] > largest ? scores[k] : largest;
  $sum total = 0.0;
  for ($index k = 0; k < $n; ++k) total += $shares[k] = ${p}exp(scores[k] - largest);
  for ($index k = 0; k < $n; ++k) $shares[k] /= total;
"""
_SORTED = """\
  for ($index k = 0; k < $n; ++k) {
    $index place = k;
    for (; place > 0 && out[place - 1] > scores[k]; --place) out[place] = out[place - 1];
    out[place] = scores[k];
  }
"""
_RISK = """\
  $sum largest = scores[1];
  for ($index k = 2; k < $n; ++k) largest = scores[k] > largest ? scores[k] : largest;
  $sum total = 0.0;
  for ($index k = 1; k < $n; ++k) total += ${p}exp(scores[k] - largest) * ${p}weights[k - 1];
  out[0] = scores[0] + (largest + ${p}log(total));
"""
_MEAN_OF_BINS = """\
  out[0] = 0.0;
  for ($index k = 0; k < $n; ++k) out[0] += shares[k] * ${p}means[k];
"""


@dataclass(frozen=True, eq=False)
class Finish:
    """How scores become predictions."""

    body: str
    """Statements that read `scores` and write `out`, in the notation of this module."""
    n_predictions: int
    needs: tuple[str, ...] = ()
    """The names of the FUNCTIONS that the statements call, in the order of their definitions."""
    numbers: Mapping[str, Array | list[float]] | None = None
    """Arrays of constants that the statements read, by name."""
    n_shares: int = 0
    """The length of the array `shares` for intermediate results; 0 if there is none."""


def finish_of(fitted: View) -> Finish:
    """What `predict` does with the scores, or `predict_proba` of a classifier."""
    loss: Any = fitted.loss
    n, link, prediction = fitted.n_outputs, fitted.link, prediction_of(loss)
    if prediction == "softmax":
        return Finish(Template(_SOFTMAX).safe_substitute(shares="out"), n, ("exp",))
    if fitted.classes is not None:
        second = f"  out[1] = ${{p}}sigmoid({_times(link.slope)}scores[0]);\n  out[0] = 1.0 - out[1];\n"
        return Finish(second, 2, ("exp", "sigmoid"))
    if link.name == "sigmoid":
        return Finish(_each(f"${{p}}sigmoid({_times(link.slope)}scores[k])"), n, ("exp", "sigmoid"))
    if prediction == "sorted":
        return Finish(_SORTED, n)
    if prediction == "mean_of_bins":
        body = Template(_SOFTMAX).safe_substitute(shares="shares") + _MEAN_OF_BINS
        return Finish(body, 1, ("exp",), {"means": loss.bin_means()}, n)
    if prediction == "log_of_hazards":
        return Finish(_RISK, 1, ("exp", "log"), {"weights": loss.risk_weights()})
    if prediction in _OF_ALL_SCORES:
        return Finish(f"  out[0] = {_OF_ALL_SCORES[prediction]};\n", 1, _needed(_OF_ALL_SCORES[prediction]))
    each = "${p}exp(scores[k])" if prediction == "exp" else "scores[k]"
    return Finish(_each(each), n, _needed(each))


_OF_ALL_SCORES = {
    "first": "scores[0]",
    "minus_first": "-scores[0]",
    "exp_of_first": "${p}exp(scores[0])",
    "log_normal_mean": "${p}exp(scores[0] + 0.5 * ${p}exp(2.0 * scores[1]))",
    "mean_unless_zero": "${p}sigmoid(-scores[0]) * ${p}exp(scores[1])",
}
"""Predictions that are one formula of the scores of a row."""


def _needed(formula: str) -> tuple[str, ...]:
    """The functions that a formula needs; the sigmoid needs the exponential."""
    return tuple(name for name in ("exp", "sigmoid") if f"${{p}}{name}(" in formula)


def _each(of_score: str) -> str:
    return f"  for ($index k = 0; k < $n; ++k) out[k] = {of_score};\n"


def _times(slope: float) -> str:
    return "" if slope == 1.0 else f"{slope!r} * "


def written(text: str, language: Mapping[str, str], prefix: str, n_scores: int) -> str:
    """Text in the notation of this module, in a language."""
    return Template(text).substitute(language, p=prefix, n=n_scores, **_CONSTANTS)


def number(value: float) -> str:
    """A number that both languages read with the same bits; infinities are INFINITY."""
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))
