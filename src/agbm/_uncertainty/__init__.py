"""Conformal prediction: nonconformity, order statistics, intervals and sets of classes.

The mathematics only: calibrations of fitted models are in `_model`. It imports `_base` and `_losses`.
"""
