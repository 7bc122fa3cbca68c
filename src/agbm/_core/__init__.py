"""The algorithms of the paper: the boosting loop, methods, momentum, objectives, ensembles and weak learners.

boosting.py reads like the paper. There is no I/O, no table and no tree here. It imports `_base`, `_losses` and
`_uncertainty`.
"""
