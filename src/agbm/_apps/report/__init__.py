"""HTML reports about a trained model or a comparison: a single file that needs no network access."""

from .figures import check_matplotlib
from .findings import (
    Column,
    Findings,
    Predictions,
    changed_parameters,
    describe_columns,
    loss_name,
    predictions_of,
    tried_from_model,
)
from .page import to_html, write

__all__ = [
    "Column",
    "Findings",
    "Predictions",
    "changed_parameters",
    "check_matplotlib",
    "describe_columns",
    "loss_name",
    "predictions_of",
    "to_html",
    "tried_from_model",
    "write",
]
