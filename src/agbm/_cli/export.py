"""`agbm export`: convert a model for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from .. import export
from .._estimators import load
from .._storage.whole_file import replacing
from ._data import Model
from ._output import add_command, show_json
from ._paths import check_files, writing, written


def _onnx(model: Model, tree: int) -> bytes:
    """Export with one input per column if there are categories, which the graph then encodes itself."""
    return bytes(export.to_onnx(model, columns=bool(model.model_.categories)).SerializeToString())


def _treelite(model: Model, tree: int) -> bytes:
    return bytes(export.to_treelite(model).serialize_bytes())


def _lightgbm(model: Model, tree: int) -> str:
    return export.to_lightgbm(model)


FORMATS: dict[str, Callable[[Model, int], bytes | str]] = {
    "onnx": _onnx,
    "treelite": _treelite,
    "lightgbm": _lightgbm,
    "text": export.export_text,
    "dot": export.to_graphviz,
}

EXAMPLES = """
  agbm export adult.agbm --to onnx --out adult.onnx
  agbm export adult.agbm --to text --tree 3 --out tree.txt"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "agbm export MODEL --to FORMAT --out FILE [options]",
        help="export a model for other programs",
        description="Export a model for other programs: as ONNX, as a binary checkpoint of Treelite, as a text file of "
        "LightGBM, or one of its trees as text or as a Graphviz graph.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", help="model file written by agbm train or model.save")
    parser.add_argument("--to", required=True, choices=list(FORMATS), help="output format")
    parser.add_argument("--out", required=True, metavar="FILE", type=Path, help="output file")
    parser.add_argument(
        "--tree", type=int, default=0, help="index of the tree, for text and dot (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")
    parser.set_defaults(run=run)


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
