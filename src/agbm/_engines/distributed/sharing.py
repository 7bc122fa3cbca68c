"""Which process of a cluster gets which partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def share_out(rows: Sequence[int], threads: Mapping[str, int], at: Sequence[str | None]) -> dict[str, tuple[int, ...]]:
    """Assign partitions to workers, with about the same number of rows per thread.

    `at` has the current worker of each partition. Partitions stay there unless the worker has too many rows.
    """
    fair = {worker: sum(rows) * n / sum(threads.values()) for worker, n in threads.items()}
    load = dict.fromkeys(threads, 0.0)
    shares: dict[str, list[int]] = {worker: [] for worker in threads}

    def give(worker: str, partition: int) -> None:
        shares[worker].append(partition)
        load[worker] += rows[partition]

    unassigned = []
    for partition, worker in enumerate(at):
        if worker in shares and load[worker] + rows[partition] / 2 <= fair[worker]:
            give(worker, partition)
        else:
            unassigned.append(partition)
    for partition in sorted(unassigned, key=lambda p: -rows[p]):
        give(min(threads, key=lambda w: (load[w] + rows[partition]) / threads[w]), partition)
    return {worker: tuple(sorted(partitions)) for worker, partitions in shares.items() if partitions}
