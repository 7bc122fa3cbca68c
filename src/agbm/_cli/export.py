"""`agbm export`: a model for other programs."""

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
    """With a column an input where there are categories, which the graph looks up itself."""
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
    """The command and its arguments."""
    parser = add_command(
        commands,
        "agbm export MODEL --to FORMAT --out FILE [options]",
        help="write a model for other programs",
        description="Write a model for other programs: ONNX, Treelite (its binary checkpoint), LightGBM (its text "
        "file), or one of its trees as text or as a drawing for Graphviz.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", help="a file that agbm train or model.save wrote")
    parser.add_argument("--to", required=True, choices=list(FORMATS), help="the format")
    parser.add_argument("--out", required=True, metavar="FILE", type=Path, help="the file to write")
    parser.add_argument("--tree", type=int, default=0, help="which tree, for text and dot (%(default)s)")
    parser.add_argument("--json", action="store_true", help="say what was done as a JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Load, convert, write."""
    check_files(reads={"MODEL": arguments.model}, writes={"--out": arguments.out})
    converted = FORMATS[arguments.to](load(arguments.model), arguments.tree)
    content = converted.encode() if isinstance(converted, str) else converted
    with writing(arguments.out), replacing(arguments.out) as fresh:
        fresh.write_bytes(content)
    if arguments.json:
        show_json({"out": str(arguments.out), "bytes": len(content)})
    else:
        print(written(arguments.out))
