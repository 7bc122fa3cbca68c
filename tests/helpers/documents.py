"""The README and the pages in docs/ as programs: blocks of Python code, of commands, and of their output."""

import re
import shlex
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]

# A fenced block with its tag, or a setup in a comment. Blocks in lists are indented.
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<tag>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$|^<!-- setup\n(?P<setup>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)


def blocks(document):
    """Yield the language, text and line number of each block; the language of a setup is "setup"."""
    text = (ROOT / document).read_text()
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["setup"] is not None:
            yield "setup", found["setup"], line
        else:
            unindented = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
            yield found["tag"].strip(), unindented, line


def commands(text):
    """The words of each command of a block, without a redirection of its output. A backslash continues a line."""
    lines = (shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines())
    return [list(takewhile(lambda word: word != ">", words)) for words in lines if words]
