"""Draws the figures of docs/examples.md by running its code: python tests/helpers/draw_gallery.py (make figures)."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl

from documents import ROOT, blocks

PAGE = "docs/examples.md"


def main() -> None:
    """Run all Python blocks in one namespace, as the tests do, and keep the figures next to the page."""
    mpl.use("Agg")
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        names: dict[str, object] = {"__name__": "__main__"}
        for language, text, line in blocks(PAGE):
            if language == "python":
                exec(compile("\n" * line + text, PAGE, "exec"), names)
        for figure in sorted(Path().glob("*.png")):
            target = ROOT / "docs" / figure.name
            target.write_bytes(figure.read_bytes())
            print(f"wrote {target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
