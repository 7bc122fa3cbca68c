"""Files: models, checkpoints, and the container that they share.

Nothing that is read from a file can run code. It imports `_model` and everything below it.
"""
