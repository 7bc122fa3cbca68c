"""The paper's printed table of losses after tuning (`tab:testing`)."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A mean over five splits and its standard error."""

    mean: float
    error: float


class Losses(NamedTuple):
    """Training and test loss of one method on one data set."""

    train: Figure
    test: Figure


TREES = (30, 50, 100)

_ROWS = """
30  diabetes  0.3760 0.0254  0.5018 0.0335  0.5055 0.0084  0.5364 0.0287
30  german    0.4076 0.0153  0.5308 0.0182  0.5319 0.0044  0.5713 0.0144
30  housing   2.0187 0.2726  7.3432 3.0826  2.3173 0.1177  4.9773 2.0395
30  w1a       0.1840 0.0013  0.1949 0.0093  0.2886 0.0029  0.2903 0.0065
30  a1a       0.3611 0.0090  0.4128 0.0188  0.4647 0.0052  0.4761 0.0128
30  sonar     0.1864 0.0108  0.4627 0.0548  0.3789 0.0185  0.5403 0.0367
50  diabetes  0.3487 0.0516  0.4869 0.0390  0.4620 0.0060  0.5050 0.0348
50  german    0.3695 0.0167  0.5114 0.0287  0.4911 0.0057  0.5482 0.0169
50  housing   1.1388 0.2424  5.6229 1.9212  1.4675 0.1303  4.7233 2.9004
50  w1a       0.0743 0.0015  0.1014 0.0161  0.2087 0.0037  0.2121 0.0091
50  a1a       0.2812 0.0147  0.3686 0.0306  0.4144 0.0063  0.4326 0.0175
50  sonar     0.0562 0.0053  0.3768 0.0077  0.2842 0.0165  0.4981 0.0257
100 diabetes  0.3119 0.0430  0.4937 0.0459  0.4130 0.0175  0.4797 0.0409
100 german    0.3569 0.0304  0.5175 0.0248  0.4364 0.0089  0.5280 0.0203
100 housing   0.6868 0.2020  5.0862 2.0913  0.8779 0.1072  4.4168 2.7163
100 w1a       0.0409 0.0034  0.0647 0.0128  0.1333 0.0039  0.1396 0.0121
100 a1a       0.2797 0.0132  0.3675 0.0363  0.3575 0.0057  0.3914 0.0232
100 sonar     0.0225 0.0179  0.3540 0.0787  0.1902 0.0637  0.4664 0.0660
"""


def _read() -> dict[tuple[str, int, str], Losses]:
    """Parse the rows; the keys are data set, number of trees and method ("agbm" or "gbm")."""
    table = {}
    for row in _ROWS.strip().splitlines():
        trees, name, *numbers = row.split()
        figures = [Figure(float(numbers[i]), float(numbers[i + 1])) for i in range(0, 8, 2)]
        table[name, int(trees), "agbm"] = Losses(*figures[:2])
        table[name, int(trees), "gbm"] = Losses(*figures[2:])
    return table


PRINTED = _read()
SETS = ("diabetes", "german", "housing", "w1a", "a1a", "sonar")
"""The data sets in the order of the table."""

PRINTED_SHAPES = {
    "a1a": (1605, 123), "w1a": (2477, 300), "diabetes": (768, 8), "german": (1000, 24), "housing": (506, 13),
    "sonar": (208, 60),
}  # fmt: skip
"""Numbers of rows and features (`tab:stats`)."""
