"""Numbers in words and cells, and the names of what they are about."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import gmean

from ..printed import Figure

SPACE = "\N{NO-BREAK SPACE}"


def number(value: float | None, digits: int = 3) -> str:
    """A number with some significant digits, with a power of ten if it is very large or small; a dash for None."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if value != 0.0 and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.{min(digits, 3) - 1}e}".split("e")
        text = f"{mantissa} · 10{_raised(int(exponent))}".removeprefix("1 · ")
    else:
        text = f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def with_error(figure: Figure) -> str:
    """A mean and its standard error."""
    digits = 4 if abs(figure.mean) < 2 else 2
    return f"{figure.mean:.{digits}f}{SPACE}±{SPACE}{figure.error:.{digits}f}"


def signed(value: float, digits: int = 3) -> str:
    """A difference with its sign."""
    return f"{'−' if value < 0 else '+'}{abs(value):.{digits}f}"


def of(part: int, whole: int) -> str:
    """A count, as in "3 of 18"."""
    return f"{part}{SPACE}of{SPACE}{whole}"


def ratio(value: float) -> str:
    """A ratio with three decimals."""
    return f"{value:.3f}"


def mean_ratio(values: Iterable[float]) -> float:
    """The geometric mean."""
    return float(gmean(list(values)))


def span(values: Sequence[float], digits: int = 2) -> str:
    """The smallest and the largest value."""
    low, high = number(float(np.min(values)), digits), number(float(np.max(values)), digits)
    return low if low == high else f"{low} to {high}"
