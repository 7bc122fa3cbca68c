"""Run the steps of a page, given as JSON, with this interpreter and in this folder; for installed_docs.py.

It is a separate file without imports from the tests, since it runs in an environment that has only the packages that a
page installs.
"""

import json
import shlex
import subprocess
import sys


def follow(document, steps, full_python):
    """Run Python blocks in one namespace, and commands. Setups run with `full_python`, which has all test packages."""
    names = {"__name__": "__main__"}
    for kind, what in steps:
        if kind == "python":
            exec(compile(what, document, "exec"), names)
        elif kind == "setup":
            subprocess.run([full_python, "-c", what], check=True)
        elif agbm(what) != 0:
            sys.exit(f"agbm {shlex.join(what)} failed")


def agbm(arguments):
    """Run the command in this process, since most of its time would be spent on imports."""
    from agbm._apps.cli import main

    return main(arguments)


if __name__ == "__main__":
    follow(*json.load(sys.stdin))
