"""The number of threads."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

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

    As in HistGradientBoosting, container limits, OMP_NUM_THREADS and threadpoolctl are respected, and so are CPU quotas
    of control groups that are not containers. The number is limited, because a model file from an unknown source may
    contain any n_jobs. Results do not depend on it.
    """
    if n_jobs == 1:
        return 1  # without asking OpenMP, which is slow compared with predicting one row
    if n_jobs is not None and n_jobs > MOST_THREADS:
        return int(min(n_jobs, max(2 * resolve(None), MOST_THREADS)))
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    available = min(int(_openmp_effective_n_threads(None)), _quota_of_this_process())
    return max(1, available if n_jobs is None else available + n_jobs + 1)


@cache
def _quota_of_this_process() -> int:
    return cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def cpu_quota(groups: Path, root: Path) -> int:
    """The cores that control groups allow, rounded up; a large number without a limit.

    `groups` lists the groups of a process, whose folders are below `root`. Joblib only reads the limit of the root
    itself, which is that of a container.
    """
    limits = [math.inf]
    for line in _lines(groups):
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mounted in (root / controllers, root / "cpu", root / "unified"):
            folder = mounted / path.strip("/")
            limits += [_limit_of(of) for of in (folder, *folder.parents) if of.is_relative_to(mounted)]
    return math.ceil(min(*limits, 2**16))


def _limit_of(folder: Path) -> float:
    """The limit of one group: in cpu.max since version 2 of control groups, in two files before."""
    found = " ".join(_lines(folder / "cpu.max")) or " ".join(
        line for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us") for line in _lines(folder / name)
    )
    quota, _, period = found.partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) > 0 else math.inf


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):  # there are no control groups, or they are hidden
        return []
