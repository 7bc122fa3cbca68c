"""`agbm export`: convert a model for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from .... import export
from ...._base.atomic_file import replacing
from ...._estimators.loading import load
from ..output import show_json
from ..paths import check_files, writing, written
from ..reading.data import Model


def _onnx(model: Model, tree: int) -> bytes:
    """Export with one input per column if there are categories, which the graph then encodes itself."""
    return bytes(export.to_onnx(model, columns=bool(model.model_.categories)).SerializeToString())


def _treelite(model: Model, tree: int) -> bytes:
    return bytes(export.to_treelite(model).serialize_bytes())


def _lightgbm(model: Model, tree: int) -> str:
    return export.to_lightgbm(model)


def _c(model: Model, tree: int) -> str:
    return export.to_c(model)


def _js(model: Model, tree: int) -> str:
    return export.to_js(model)


FORMATS: dict[str, Callable[[Model, int], bytes | str]] = {
    "onnx": _onnx,
    "treelite": _treelite,
    "lightgbm": _lightgbm,
    "c": _c,
    "js": _js,
    "text": export.export_text,
    "dot": export.to_graphviz,
}


def run(arguments: argparse.Namespace) -> None:
    """Load the model, convert it and write the result."""
    check_files(reads={"MODEL": arguments.model}, writes={"--out": arguments.out})
    converted = FORMATS[arguments.to](load(arguments.model), arguments.tree)
    content = converted.encode() if isinstance(converted, str) else converted
    with writing(arguments.out), replacing(arguments.out) as fresh:
        fresh.write_bytes(content)
    if arguments.json:
        show_json({"out": str(arguments.out), "bytes": len(content)})
    else:
        print(written(arguments.out))
