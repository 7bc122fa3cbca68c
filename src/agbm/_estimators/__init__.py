"""The scikit-learn estimators, their parameters, and cross-validation.

Estimators hold no algorithm: they check arguments, call `_fit` or `_lifecycle` and keep the result. It imports
`_engines`, `_migration` and everything below them.
"""
