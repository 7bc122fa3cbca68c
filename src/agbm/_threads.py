"""How many threads to use."""

from __future__ import annotations

from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

MAX_THREADS = 1024  # a larger n_jobs is surely not meant


def resolve(n_jobs: int | None) -> int:
    """Threads for n_jobs: None or -1 for all cores that the process may use, -2 for all but one, and so on.

    Follows what HistGradientBoosting does: container limits, OMP_NUM_THREADS and threadpoolctl are honoured.
    """
    if n_jobs == 1:
        return 1  # without the time to ask, which counts where a single row is predicted
    return min(int(_openmp_effective_n_threads(n_jobs)), MAX_THREADS)
