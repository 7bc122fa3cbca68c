"""Checks that the packages that the README and the pages in docs/ install are enough to run their code.

    python tests/helpers/installed_docs.py dist/agbm-....whl        (make test-install builds the wheel and runs this)

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
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from documents import DOCUMENTS, blocks, commands
from requirements import everything

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


def environment(place, words, wheel):
    """Create a virtual environment with these arguments of `pip install`; returns its interpreter."""
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    requirements = [f"{wheel}{word[1:]}" if word.startswith(".") else word for word in words]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile"]
    subprocess.run([*pip, *requirements], check=True, stderr=subprocess.DEVNULL)
    return python


def check(document, pythons, folder):
    """Run a page in a new folder. Prints an error and returns False if it needs more than it installs."""
    folder.mkdir(parents=True)
    for words, steps in parts(document):
        python = pythons[everything(words)]
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
    wanted = {everything(words): words for document in DOCUMENTS for words, _ in parts(document)}
    # Threads that wait for processes: pip and most steps of pages use one core.
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        place = Path(folder)
        places = [place / f"environment-{i}" for i in range(len(wanted))]
        made = pool.map(environment, places, wanted.values(), repeat(Path(wheel).resolve()))
        pythons = dict(zip(wanted, made, strict=True))
        good = pool.map(lambda document: check(document, pythons, place / "pages" / document), DOCUMENTS)
        return 0 if all(list(good)) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
