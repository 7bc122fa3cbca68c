"""Messages that are forwarded down the tree of shards, and replies that are added up. All in one process."""

import asyncio

import pytest

from agbm._engines.distributed.dask_shards import DaskShard, branches
from agbm._engines.distributed.messages import Message, Reply

N_SHARDS = 30
MESSAGE = Message(1, [])


class Counting(DaskShard):
    """A shard whose reply is 1. It keeps what it was told about the tree with each message."""

    def __init__(self):
        self.told = []

    async def relay(self, message, tree, below=None):
        self.told.append(below)
        return await super().relay(message, tree, below)

    def receive(self, message):
        return Reply((1,))


@pytest.fixture
def shards():
    return [Counting() for _ in range(N_SHARDS)]


def sent(tree, number, known):
    """The combined reply of the shards of a tree."""

    async def send():
        return [await shard.relay(MESSAGE, number, None if known else below) for shard, below in tree]

    return asyncio.run(send())


def total(replies):
    return sum(reply.sums[0] for reply in replies)


def test_tree_is_sent_once(shards):
    tree = branches(shards)
    assert total(sent(tree, 1, known=False)) == N_SHARDS
    assert total(sent(tree, 1, known=True)) == N_SHARDS
    assert all(first is not None and second is None for first, second in (shard.told for shard in shards))


def test_shard_without_the_tree_is_behind(shards):
    assert all(reply.behind for reply in sent(branches(shards), 1, known=True))


def test_new_tree_replaces_the_old_one(shards):
    sent(branches(shards), 1, known=False)
    fewer = branches(shards[::-1][:20])
    assert all(reply.behind for reply in sent(fewer, 2, known=True))
    assert total(sent(fewer, 2, known=False)) == 20
    assert total(sent(fewer, 2, known=True)) == 20


def test_late_message_of_an_old_tree_changes_nothing(shards):
    old, new = branches(shards), branches(shards[::-1])
    sent(new, 2, known=False)
    assert all(reply.behind for reply in sent(old, 1, known=False))
    assert total(sent(new, 2, known=True)) == N_SHARDS
