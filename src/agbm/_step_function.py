"""Step functions of time, as survival and cumulative hazard functions are returned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._core.sums import Array


class StepFunction(NamedTuple):
    """A function of time with the interface of scikit-survival's StepFunction, which its metrics accept.

    Between two entries of x it has the value at the first of them, and after the last one the value there.
    """

    x: Array
    """Times in ascending order."""
    y: Array
    """The value at each of them."""
    before: float
    """The value before the first one: 1 for survival functions, 0 for cumulative hazards."""

    @property
    def domain(self) -> tuple[float, None]:
        """The smallest time, and None: there is no largest one."""
        return 0.0, None

    def __call__(self, x: Any) -> Any:
        """The values at times x; NumPy arrays and numbers are accepted."""
        place = np.searchsorted(self.x, x, side="right")
        values = np.append(self.before, self.y)[place]
        return values if np.ndim(x) else float(values)
