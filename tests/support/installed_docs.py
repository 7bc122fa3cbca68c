"""Checks that the packages that the README and the pages in docs/ install are enough to run their code.

    python tests/support/installed_docs.py dist/agbm-....whl        (make test-install builds the wheel and runs this)

The Python blocks and `agbm` commands of every page with a line `pip install ...` run in their order in an empty folder,
in an environment that has only what the page has installed so far. Blocks before the first such line run in the
environment of that line. Pages without one assume that the packages they import are installed, and are not run here.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from documents import DOCUMENTS, blocks, commands

# No Python environment variables, such as PYTHONDONTWRITEBYTECODE, and no windows.
SETTINGS = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {"MPLBACKEND": "Agg"}


def parts(document):
    """The parts of a page, each with its environment: the words of all `pip install` lines so far, and the steps."""
    found = [(None, [])]
    for language, text, line in blocks(document):
        if language in ("python", "setup"):
            found[-1][1].append((language, "\n" * line + text))
        for words in commands(text) if language == "sh" else ():
            if words[:2] == ["pip", "install"]:
                before, steps = found[-1]
                after = (*(before or ()), *(word for word in words[2:] if word not in (before or ())))
                if before is None:
                    found[-1] = after, steps
                else:
                    found.append((after, []))
            elif words[0] == "agbm" and words[1] != "paper":  # takes minutes
                found[-1][1].append(("agbm", words[1:]))
    return [(words, steps) for words, steps in found if words is not None and steps]


class Environments:
    """Virtual environments in a folder, one for each set of requirements."""

    def __init__(self, folder, wheel):
        self._folder, self._wheel = folder, wheel
        self._pythons = {}

    def python(self, words):
        """The interpreter of an environment with these arguments of `pip install`; created if necessary."""
        wanted = frozenset(words)
        if wanted not in self._pythons:
            place = self._folder / f"environment-{len(self._pythons)}"
            venv.create(place, symlinks=True)
            self._pythons[wanted] = place / "bin" / "python"
            requirements = [f"{self._wheel}{word[1:]}" if word.startswith(".") else word for word in words]
            pip = [sys.executable, "-m", "pip", "--python", self._pythons[wanted], "install", "-q", "--no-compile"]
            subprocess.run([*pip, *requirements], check=True, stderr=subprocess.DEVNULL)
        return self._pythons[wanted]


def check(document, environments, folder):
    """Run a page. Prints an error and returns False if it needs more than it installs."""
    for words, steps in parts(document):
        python = environments.python(words)
        given = json.dumps([document, steps, sys.executable])
        done = subprocess.run(
            [python, "-I", Path(__file__).parent / "follow_page.py"], input=given, cwd=folder, env=SETTINGS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            print(f"{done.stdout}\n{document} does not run after pip install {' '.join(words)}")
            return False
        print(f"{document}: {len(steps)} steps run after pip install {' '.join(words)}", flush=True)
    return True


def main(wheel):
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        environments = Environments(Path(folder), Path(wheel).resolve())
        for document in DOCUMENTS:
            page = Path(folder) / "pages" / document
            page.mkdir(parents=True)
            if not check(document, environments, page):
                failed.append(document)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
