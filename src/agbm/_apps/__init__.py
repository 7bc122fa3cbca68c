"""Programs around the library: the command line, reports, comparisons and tuning, and the paper's experiments.

They use what users of the package can use as well. Nothing imports them but the command `agbm`.
"""
