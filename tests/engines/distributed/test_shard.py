"""Shards and their log: the arrays that they keep, and messages that are late, repeated or fail."""

import pickle

import numpy as np
import pytest

from agbm._core.objective import LocalObjective
from agbm._engines.distributed.messages import START, Message, Order, Reply, add_up
from agbm._engines.distributed.shard import Shard
from agbm._tree.bins import Bins
from agbm.losses import HalfSquaredError
from shards import Disturbed, Undisturbed, model_of, rows_of, sharded
from variants import made, methods

# Arrays that shards and the log keep.


@pytest.mark.slow
@methods
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_shards_keep_a_bounded_number_of_arrays(method, dropout):
    """No more late in a run than early in it, also in shards that have caught up."""
    X, signal = rows_of(n=100)
    parameters = {"method": made(method, shared_structure=False, dropout=dropout), "random_state": 0}
    for disturbance in (Undisturbed(), Disturbed(0, 0.01)):
        model = sharded(model_of("numbers", max_iter=60, **parameters), 0, 2, disturbance).fit(X, signal)
        sizes = model.shards.sizes
        assert max(sizes[len(sizes) // 2 :]) <= max(sizes[: len(sizes) // 2]) + (8 if dropout else 2)
        assert max(sizes) <= 24 + (16 if dropout else 0)


@pytest.mark.slow
def test_shard_that_catches_up_keeps_few_arrays():
    """A shard that executes all orders of a long run at once has as few arrays at a time as one that was there."""
    X, signal = rows_of(n=100)
    model = sharded(model_of("numbers", method=made("agbm", shared_structure=False), max_iter=60), 0, 1)
    everything = []

    def keep(record):
        everything[:] = model.log._all_that_matters(Order("measure", (START,)))

    model.set_params(callbacks=[keep]).fit(X, signal)
    assert len(everything) > 300
    shard, most = model.shards._build(0), 0
    for order in everything:
        shard._round = 0
        shard.receive(Message(1, [order], from_scratch=False))
        most = max(most, len(shard._arrays))
    assert most <= max(model.shards.sizes) + 2


# Messages to a single shard.


def small_shard(n=6, n_train=5):
    X = np.arange(2.0 * n).reshape(n, 2)
    bins = Bins.from_data(X[:n_train], 255)
    problem = LocalObjective(HalfSquaredError(), np.arange(float(n))[np.newaxis], n_train, np.zeros((1, n)))
    return Shard(problem, bins, [bins.encode(X, 1).columns()], [(0, np.arange(n_train, dtype=np.uint32))], 1)


def ask(round_, *orders, from_scratch=False):
    return Message(round_, [*orders, Order("measure", (START,))], from_scratch)


def test_shard_that_missed_a_round_reports_it_and_does_nothing():
    shard = small_shard()
    assert not shard.receive(ask(1)).behind
    reply = shard.receive(ask(3, Order("mix", (START, START), (7,), (1.0, 1.0))))
    assert reply.behind
    assert 7 not in shard._arrays
    assert not shard.receive(ask(3, from_scratch=True)).behind
    assert not shard.receive(ask(4)).behind


def test_repeated_message_is_executed_once():
    shard = small_shard()
    message = ask(1, Order("mix", (START, START), (7,), (1.0, 1.0)), Order("forget", (7,)))
    assert shard.receive(message) is shard.receive(message)


def test_message_from_scratch_clears_the_arrays():
    shard = small_shard()
    shard.receive(ask(1, Order("mix", (START, START), (7,), (1.0, 1.0))))
    shard.receive(ask(2, from_scratch=True))
    assert set(shard._arrays) == {START}


def test_unpickled_shard_has_its_rows_and_no_arrays():
    shard = small_shard()
    reply = shard.receive(ask(1))
    copied = pickle.loads(pickle.dumps(shard))
    assert copied.receive(ask(2)).behind
    assert copied.receive(ask(1)).sums == reply.sums
    np.testing.assert_array_equal(copied._matrix.columns(), shard._matrix.columns())


def test_sum_of_replies_is_behind_if_one_is():
    here, behind = Reply((1,)), Reply(behind=True)
    assert add_up([here, behind]).behind
    assert add_up([behind, here]).behind
    assert add_up([here, here]).sums == (2,)


def test_failed_order_is_not_recorded_as_executed():
    """The same message again fails again; it is not answered with the reply before."""
    shard = small_shard()
    shard.receive(ask(1))
    for _ in range(2):
        with pytest.raises(KeyError):
            shard.receive(ask(2, Order("residual", (99,), (7,))))
    assert not shard.receive(ask(2)).behind


def test_old_message_changes_nothing():
    reply = Message(1, [], from_scratch=True)
    shard = small_shard()
    shard.receive(Message(1, [], from_scratch=True))
    shard.receive(Message(2, [Order("zero_residual", (), (1,))]))
    assert shard.receive(reply).behind
    assert set(shard._arrays) == {START, 1}
