"""`python -m agbm` is the command `agbm`."""

import sys

from ._cli import main

sys.exit(main())
