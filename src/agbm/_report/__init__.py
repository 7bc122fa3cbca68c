"""One HTML page of a trained model, or of a comparison: a file that needs no network and can be handed on."""

from .findings import Column, Findings, changed_parameters, describe_columns, tried_from_model
from .page import to_html, write

__all__ = ["Column", "Findings", "changed_parameters", "describe_columns", "to_html", "tried_from_model", "write"]
