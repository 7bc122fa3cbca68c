"""Exports of fitted models to other formats, and of single trees as text and figures. See docs/exports.md."""

from ._view import encode
from .c import to_c
from .frame import trees_to_dataframe
from .javascript import to_js
from .lightgbm import to_lightgbm
from .onnx import to_onnx
from .shap import to_shap
from .text import export_text, plot_tree, to_graphviz
from .treelite import to_treelite

__all__ = [
    "encode",
    "export_text",
    "plot_tree",
    "to_c",
    "to_graphviz",
    "to_js",
    "to_lightgbm",
    "to_onnx",
    "to_shap",
    "to_treelite",
    "trees_to_dataframe",
]
