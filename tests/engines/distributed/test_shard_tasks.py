"""How partitions are assigned to workers."""

import numpy as np

from agbm._engines.distributed.shard_tasks import share_out


def test_share_out_is_fair_and_complete():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = rng.integers(0, 100, rng.integers(1, 40)).tolist()
        threads = {f"w{i}": int(rng.integers(1, 4)) for i in range(rng.integers(1, 6))}
        at = [str(rng.choice([*threads, "gone"])) for _ in rows]
        shares = share_out(rows, threads, at)
        assert sorted(partition for share in shares.values() for partition in share) == list(range(len(rows)))
        fair = sum(rows) / sum(threads.values())
        for worker, share in shares.items():
            assert sum(rows[p] for p in share) <= fair * threads[worker] + max(rows)


def test_share_out_leaves_partitions_where_they_are():
    rows, at = [10] * 6, ["v", "v", "w", "w", "v", "w"]
    assert share_out(rows, {"v": 1, "w": 1}, at) == {"v": (0, 1, 4), "w": (2, 3, 5)}
    moved = share_out(rows, {"v": 1, "w": 1, "x": 1}, at)
    assert {worker: len(share) for worker, share in moved.items()} == {"v": 2, "w": 2, "x": 2}
    assert set(moved["v"]) < {0, 1, 4}
