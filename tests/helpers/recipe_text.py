"""The instructions of the recipe of the service."""

import json
import re
import signal
from pathlib import Path

FILE = Path(__file__).parents[2] / "examples/container/Containerfile"


def instructions():
    """Pairs (instruction, text) in their order, without comments."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n *", "", "\n".join(lines))
    return [tuple(line.split(" ", 1)) for line in joined.splitlines()]


def words_of(recipe, instruction):
    """The command of an instruction, which is a list in JSON."""
    return json.loads(re.search(r"\[.*\]$", dict(recipe)[instruction])[0])


def signals_of_a_container():
    """Called in a new process: shells let jobs in the background ignore SIGINT, containers do not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
