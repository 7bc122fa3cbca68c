"""What everything else rests on: exact sums, sums over processes, weights, threads, digests of objects, whole files.

Nothing here knows about boosting. It imports nothing of the package but the compiled module.
"""
