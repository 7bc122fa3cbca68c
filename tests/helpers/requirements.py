"""The packages that extras of agbm name.

python tests/helpers/requirements.py test       prints them, so that they can be installed while agbm is compiled
"""

import shlex
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def everything(words):
    """What arguments of `pip install` name, with the contents of agbm's extras: equal ones share an environment."""
    found = set()
    for word in words:
        name, _, extras = word.removesuffix("]").partition("[")
        if name in (".", "agbm"):
            needs = [PROJECT["optional-dependencies"][extra] for extra in extras.split(",") if extra]
            found |= everything([*PROJECT["dependencies"], *(need for some in needs for need in some)])
        else:
            found.add(word)
    return frozenset(found)


if __name__ == "__main__":
    print(shlex.join(sorted(everything([f"agbm[{','.join(sys.argv[1:])}]"]))))
