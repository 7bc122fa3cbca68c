"""Settings that must be made before scipy is imported."""

import os

# Without it scikit-learn skips its check of array API inputs.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
