"""What everything else rests on: the compiled module, exact sums, weights, threads, atomic files.

Results over the rows of several processes are in `collectives`. Nothing here knows about boosting. It imports nothing
of the package.
"""
