"""Fitted models in the formats of others, and as text and pictures. docs/exports.md says what each can express."""

from ._view import encode
from .lightgbm import to_lightgbm
from .onnx import to_onnx
from .text import export_text, plot_tree, to_graphviz
from .treelite import to_treelite

__all__ = ["encode", "export_text", "plot_tree", "to_graphviz", "to_lightgbm", "to_onnx", "to_treelite"]
