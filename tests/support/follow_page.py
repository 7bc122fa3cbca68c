"""Run steps of a page, given as JSON, with this interpreter and in this folder; for installed_docs.py.

It is a file of its own, without imports from the tests, since it runs where only what a page installs is there.
"""

import json
import shlex
import subprocess
import sys


def follow(document, steps, full_python):
    """Run Python blocks in one namespace, and commands. Setups may need packages that only the tests have."""
    names = {"__name__": "__main__"}
    for kind, what in steps:
        if kind == "python":
            exec(compile(what, document, "exec"), names)
        elif kind == "setup":
            subprocess.run([full_python, "-c", what], check=True)
        elif agbm(what) != 0:
            sys.exit(f"agbm {shlex.join(what)} failed")


def agbm(arguments):
    """The command in this process, since to import everything takes most of its time."""
    from agbm._cli import main

    return main(arguments)


if __name__ == "__main__":
    follow(*json.load(sys.stdin))
