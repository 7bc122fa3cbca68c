"""`agbm completion`: print a completion script for a shell."""

from __future__ import annotations

import argparse

from .. import make_parser


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    try:
        import shtab
    except ImportError as error:
        raise ImportError(f"completion needs shtab ({error}): pip install 'agbm[cli]'") from error
    print(shtab.complete(make_parser(), arguments.shell))
