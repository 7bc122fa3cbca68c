"""Fitting: from settings and rows to a plan, from a plan to a prepared run, and from a run to a model.

The rules for "auto", early stopping, scores and progress are here; the loop itself is in `_core`. It imports `_storage`
(for checkpoints) and everything below it.
"""
