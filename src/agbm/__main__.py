"""Entry point of `python -m agbm`, which runs the command `agbm`."""

import sys

from ._apps.cli import main

sys.exit(main())
