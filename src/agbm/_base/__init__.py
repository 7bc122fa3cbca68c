"""What everything else rests on: the compiled module, exact sums, sums over processes, weights, threads, whole files.

Nothing here knows about boosting. It imports nothing of the package.
"""
