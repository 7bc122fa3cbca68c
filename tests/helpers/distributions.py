"""The losses that are distributions."""

from agbm._losses import LOSSES

DISTRIBUTIONS = {
    name.removeprefix("distribution:"): kind
    for kind in LOSSES.values()
    for name in kind.names
    if name.startswith("distribution:")
}
"""By the name after "distribution:"."""
