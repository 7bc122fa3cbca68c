"""Settings of other libraries as estimators of this one.

Each library has a table: its parameters with a counterpart and how their values are converted, its objectives as
losses, its defaults, and what to use instead of parameters without a counterpart. `translation.from_params` reads them,
and so do the errors for names of other libraries (foreign.py).
"""

from .libraries import LIBRARIES
from .library import CLASSIFICATION, REGRESSION

__all__ = ["CLASSIFICATION", "LIBRARIES", "REGRESSION"]
