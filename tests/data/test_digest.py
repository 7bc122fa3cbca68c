"""Digests of rows: their definition, and that neither the form of the rows nor their division into parts matters."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

from agbm._base.weights import Weights
from agbm._data.digest import MOST_BLOCKS, RowDigest, Shape, digest_of_table, taken, vectors_of
from agbm._data.rows import VALIDATION, Rows, RowSet

ALL = 2**64 - 1


def mixed(x):
    """The finaliser of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & ALL
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & ALL
    x = (x ^ x >> 27) * 0x94D049BB133111EB & ALL
    return x ^ x >> 31


def expected(matrix, size):
    """The sums of blocks and columns, cell by cell."""
    n_rows, n_columns = matrix.shape
    blocks, columns = [0] * -(-n_rows // size), [0] * n_columns
    for i in range(n_rows):
        for j in range(n_columns):
            if matrix[i, j] != 0.0:
                bits = 0x7FF8 << 48 if np.isnan(matrix[i, j]) else int(matrix[i, j].view(np.uint64))
                hashed = mixed(((bits ^ mixed(2 * i)) + mixed(2 * j + 1)) & ALL)
                blocks[i // size] = (blocks[i // size] + hashed) & ALL
                columns[j] = (columns[j] + hashed) & ALL
    return blocks, columns


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(2500, 3)).astype(np.float64)
    X[::7, 1] = np.nan
    y = rng.normal(size=(1, 2500))
    given = Rows(X[:2400], y[:, :2400], Weights.of(rng.integers(1, 4, 2400)), rng.normal(size=(1, 2400)))
    return given.followed_by(RowSet(VALIDATION, 100, rng.random(100)), X[2400:], y[:, 2400:], rng.normal(size=(1, 100)))


def digest(rows, X=None, n_threads=1):
    given = rows if X is None else Rows(X, rows.y, rows.weights, rows.start, rows.followers)
    return digest_of_table(given, 2400, 2500, 1, n_threads)


def test_definition(rows):
    found = digest(rows)
    repeats = np.append(rows.weights.repeats, np.zeros(100))
    of_validation = np.append(np.zeros(2400), rows.followers[0].weight)
    columns = [rows.y[0], repeats, np.zeros(2500), of_validation, rows.start[0], *rows.X.T]
    blocks, sums = expected(np.column_stack(columns), 4)
    assert found.shape.shift == 2
    assert len(blocks) <= MOST_BLOCKS
    assert found.blocks.tolist() == blocks
    assert found.columns.tolist() == sums


def test_form_and_threads(rows):
    whole, X = digest(rows), rows.X
    remains = [digest(rows, n_threads=3), digest(rows, np.asfortranarray(X)), digest(rows, X.astype(np.float32))]
    remains += [digest(rows, kind(np.nan_to_num(X))) for kind in (csr_array, csc_array)]
    assert [found.hex for found in remains[:3]] == [whole.hex] * 3
    assert {found.hex for found in remains[3:]} == {digest(rows, np.nan_to_num(X)).hex}
    doubled = csr_array((np.ones(4), np.array([0, 0, 1, 1]), np.append([0, 4], np.full(2499, 4))), shape=(2500, 3))
    assert digest(rows, doubled).hex == digest(rows, doubled.toarray()).hex
    negative = np.where(X == 0.0, -0.0, X)
    assert digest(rows, negative).hex == whole.hex


@pytest.mark.parametrize("size", [1, 3, 999])
def test_parts(rows, size):
    """In any order, as blocks of X or of X_val."""
    shape = Shape(2400, 100, 1, 1, 3)
    total = RowDigest.of(shape)
    ends = sorted({*range(0, 2400, size), *range(2400, 2500, size), 2500})
    for begin, end in reversed(list(itertools.pairwise(ends))):
        part = RowDigest.of(shape)
        part.add(begin, rows.X[begin:end], taken(vectors_of(rows, shape), np.arange(begin, end)), 1)
        total.merge(part.blocks, part.columns)
    assert total.hex == digest(rows).hex


def test_rows_that_are_held_out(rows):
    """Blocks are in the order of the matrix, where training rows come first."""
    order = np.random.default_rng(1).permutation(2500)
    given = Rows(rows.X, rows.y, None, rows.start)
    ordered, places = given.take(order), np.argsort(order).astype(np.uint32)
    shape = Shape(2500, 0, 1, 1, 3)
    found = RowDigest.of(shape)
    for begin in (0, 700):
        end = 700 if begin == 0 else 2500
        found.add(begin, rows.X[begin:end], taken(vectors_of(ordered, shape), places[begin:end]), 1)
    assert found.hex == digest_of_table(given, 2500, 2500, 1, 1).hex


def test_many_columns():
    X = np.arange(5 * 2000, dtype=np.float64).reshape(5, 2000)
    rows = Rows(X, np.ones((1, 5)), None, None)
    found = digest_of_table(rows, 5, 5, 1, 1)
    assert len(found.columns) == 1024
    assert digest_of_table(Rows(csr_array(X), rows.y, None, None), 5, 5, 1, 1).hex == found.hex
    X[2, 1999] += 1.0
    other = digest_of_table(rows, 5, 5, 1, 1)
    assert np.flatnonzero(other.columns != found.columns).tolist() == [1023]
    assert np.flatnonzero(other.blocks != found.blocks).tolist() == [2]
