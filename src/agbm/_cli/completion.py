"""`agbm completion`: print a completion script for a shell."""

from __future__ import annotations

import argparse

from ._output import add_command

EXAMPLES = """
  agbm completion bash > ~/.local/share/bash-completion/completions/agbm
  agbm completion zsh > ~/.zfunc/_agbm"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "agbm completion SHELL",
        help="print a completion script for a shell",
        description="Print a script that lets a shell complete the commands and options of agbm.",
        examples=EXAMPLES,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    try:
        import shtab
    except ImportError as error:
        raise ImportError(f"completion needs shtab ({error}): pip install 'agbm[cli]'") from error
    print(shtab.complete(arguments.parser, arguments.shell))
