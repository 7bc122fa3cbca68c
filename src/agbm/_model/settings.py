"""The parameters that affect a fitted model."""

from __future__ import annotations

from typing import Any

from .._core.methods import method_of

# Parameters that do not affect the model after a given number of iterations.
_WITHOUT_EFFECT = {
    "max_iter", "n_iter_no_change", "tol", "scoring", "callbacks", "warm_start", "verbose", "random_state", "n_jobs",
    "device",
}  # fmt: skip


def shaping_parameters(settings: Any) -> dict[str, Any]:
    """The parameters of an estimator that affect the model after a given number of iterations; method is an object."""
    parameters = settings.get_params(deep=False)
    shaping = {name: value for name, value in parameters.items() if name not in _WITHOUT_EFFECT}
    return {**shaping, "method": method_of(settings.method)}
