"""HTML reports about a trained model or a comparison: a single file that needs no network access."""

from .build import findings_about, two_of, with_origin, with_test_rows
from .figures import check_matplotlib
from .findings import (
    Column,
    Findings,
    Predictions,
    changed_parameters,
    describe_columns,
    loss_name,
    numbers_of,
    predictions_of,
    tried_from_model,
)
from .measured import has_intervals
from .page import USUAL_STEPS, Update, silent, to_html, write

__all__ = [
    "USUAL_STEPS",
    "Column",
    "Findings",
    "Predictions",
    "Update",
    "changed_parameters",
    "check_matplotlib",
    "describe_columns",
    "findings_about",
    "has_intervals",
    "loss_name",
    "numbers_of",
    "predictions_of",
    "silent",
    "to_html",
    "tried_from_model",
    "two_of",
    "with_origin",
    "with_test_rows",
    "write",
]
