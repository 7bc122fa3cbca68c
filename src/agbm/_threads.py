"""The number of threads."""

from __future__ import annotations

from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

MOST_THREADS = 64
"""n_jobs may be up to this number, or twice the number of cores if that is more."""


def divide(n_threads: int, n_members: int) -> tuple[int, int]:
    """How many members to train at the same time, and the number of threads of each.

    Members wait for each other only once per iteration; threads that work on the same tree, many times.
    """
    at_once = min(n_threads, n_members)
    return at_once, round(n_threads / at_once)


def resolve(n_jobs: int | None) -> int:
    """Number of threads for n_jobs: None or -1 for all cores available to the process, -2 for all but one, and so on.

    As in HistGradientBoosting, container limits, OMP_NUM_THREADS and threadpoolctl are respected. The number is
    limited, because a model file from an unknown source may contain any n_jobs. Results do not depend on it.
    """
    if n_jobs == 1:
        return 1  # without asking OpenMP, which is slow compared with predicting one row
    if n_jobs is not None and n_jobs > MOST_THREADS:
        return int(min(n_jobs, max(2 * resolve(None), MOST_THREADS)))
    return int(_openmp_effective_n_threads(n_jobs))
