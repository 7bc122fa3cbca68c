"""HTML reports about a trained model or a comparison: a single file that needs no network access."""

from .findings import Column, Findings, changed_parameters, describe_columns, tried_from_model
from .page import to_html, write

__all__ = ["Column", "Findings", "changed_parameters", "describe_columns", "to_html", "tried_from_model", "write"]
