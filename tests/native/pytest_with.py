"""pytest with the package in a folder instead of the installed one: `python pytest_with.py folder arguments ...`."""

import sys
from pathlib import Path

import pytest

folder = Path(sys.argv[1]).resolve()
# An editable install has a finder of its own, which would come first.
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
sys.path.insert(0, str(folder))

import agbm  # noqa: E402

assert Path(agbm.__file__).is_relative_to(folder), agbm.__file__
sys.exit(pytest.main(sys.argv[2:]))
