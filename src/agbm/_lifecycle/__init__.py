"""What happens to a model after fit: updates with new rows, verification, differences between two models.

It imports `_fit` and everything below it.
"""
