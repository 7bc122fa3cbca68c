"""`python -m agbm` is the command `agbm`."""

import sys

from .cli import main

sys.exit(main())
