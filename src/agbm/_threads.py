"""How many threads to use."""

from __future__ import annotations

from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

MOST_THREADS = 64
"""At least so many may be asked for, however few cores there are."""


def resolve(n_jobs: int | None) -> int:
    """Threads for n_jobs: None or -1 for all cores that the process may use, -2 for all but one, and so on.

    Follows what HistGradientBoosting does: container limits, OMP_NUM_THREADS and threadpoolctl are honoured. More than
    two per core are of no use, and a model file of somebody else may ask for any number. Results do not depend on it.
    """
    if n_jobs == 1:
        return 1  # without the time to ask, which counts where a single row is predicted
    if n_jobs is not None and n_jobs > MOST_THREADS:
        return int(min(n_jobs, max(2 * resolve(None), MOST_THREADS)))
    return int(_openmp_effective_n_threads(n_jobs))
