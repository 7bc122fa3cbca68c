"""More rows over all shards than 32 bits can number: what depends on row numbers, without the rows."""

from types import SimpleNamespace

import numpy as np
import pytest

from agbm._engines.distributed.shard import MOST_ROWS, Shard
from agbm._tree.sampling import RowSample

FAR = [2**32 - 3, 2**32, 10**10, 2**40 + 7, 2**62]
SAMPLE = RowSample(0xFEDC_BA98_7654_3210, 0.3)
WORD = 2**64 - 1


def draw_of(key, number):
    """Python's integers have no limit."""
    x = (key + number + 0x9E3779B97F4A7C15) & WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return ((x ^ x >> 31) >> 11) / 2**53


@pytest.mark.parametrize("first", [0, *FAR])
def test_samples_depend_on_all_bits_of_row_numbers(first):
    draws = [draw_of(SAMPLE.key, first + i) for i in range(100)]
    np.testing.assert_array_equal(SAMPLE.draws(first, 100), draws)
    sampled = SAMPLE.rows(first, 100)
    assert sampled.dtype == np.uint32
    assert sampled.tolist() == [i for i, draw in enumerate(draws) if draw < SAMPLE.threshold]


def test_samples_of_rows_with_equal_low_bits_differ():
    """Rows that are 2^32 apart, whose low bits are equal."""
    assert SAMPLE.rows(5, 1000).tolist() != SAMPLE.rows(5 + 2**32, 1000).tolist()


def test_shard_samples_by_global_row_numbers():
    shard = object.__new__(Shard)
    turned = np.roll(np.arange(60, dtype=np.uint32), 7)  # the numbers of rows may have another order than these
    shard._numbers = [(10**10, np.arange(40, dtype=np.uint32)), (7, np.arange(0, dtype=np.uint32)), (2**33, turned)]
    expected = [*SAMPLE.rows(10**10, 40), *sorted(40 + turned[SAMPLE.rows(2**33, 60)].astype(int))]
    assert shard._sampled(SAMPLE).tolist() == expected


def test_too_many_rows_of_a_shard_are_refused():
    with pytest.raises(ValueError, match=r"A worker got 4,294,967,296 rows, but can have at most 4,294,967,295"):
        Shard(SimpleNamespace(n_rows=MOST_ROWS + 1), None, [], [], 1)
