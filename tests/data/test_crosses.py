"""Crosses of columns, as features after those of the table."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from agbm._data.crosses import SIGNS, Cross, CrossedTable, candidates, with_crosses
from agbm._tree.bins import Bins

OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@given(
    a=st.floats(),
    b=st.floats(),
    sign=st.sampled_from(sorted(SIGNS)),
    exponents=st.tuples(st.integers(-30, 30), st.integers(-30, 30)),
)
def test_values_are_those_of_one_operation(a, b, sign, exponents):
    scales = [2.0**e for e in exponents]
    expected = OPERATORS[sign](a * scales[0], b * scales[1])
    for rows in ([[a, b]], [[a, b], [0.0, 0.0]]):  # a single row has a way of its own
        row = with_crosses(np.array(rows), [Cross(0, sign, 1, *scales)])[0]
        np.testing.assert_array_equal(row, [a, b, expected])


@pytest.mark.parametrize("kind", [np.float32, csr_array])
def test_other_matrices(kind):
    X = np.array([[1.5, 0.0, 2.0], [0.0, -3.0, 0.25]])
    given = X.astype(np.float32) if kind is np.float32 else kind(X)
    assert with_crosses(given, ()) is given
    found = with_crosses(given, [Cross(0, "-", 2)])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.column_stack([X, X[:, 0] - X[:, 2]]))
    one = with_crosses(given[:1], [Cross(0, "-", 2)])
    assert one.dtype == np.float64
    np.testing.assert_array_equal(one, found[:1])


class TestTable:
    """Crosses that are computed whenever rows are read are those of a matrix with all of them."""

    CROSSES = Cross(0, "-", 2, 2.0, 0.5), Cross(1, "*", 2)

    @pytest.fixture(params=[np.float32, np.float64])
    def X(self, request):
        X = np.random.default_rng(0).normal(size=(500, 3)).astype(request.param)
        X[::7, 2] = np.nan
        return X

    @pytest.mark.parametrize(
        "key",
        [slice(3, 90), np.array([7, 0, 499]), (slice(None), 2), (slice(None), 4), (np.array([5, 2]), slice(1, 5))],
        ids=str,
    )
    def test_parts(self, X, key):
        table, dense = CrossedTable(X, self.CROSSES), with_crosses(X, self.CROSSES)
        assert (table.shape, len(table)) == (dense.shape, len(dense))
        np.testing.assert_array_equal(np.asarray(table[key]), dense[key])

    def test_more_rows(self, X):
        dense = with_crosses(X, self.CROSSES)
        table = CrossedTable(X[:300], self.CROSSES).followed_by(dense[300:])
        np.testing.assert_array_equal(np.asarray(table), dense)

    def test_bins(self, X, monkeypatch):
        monkeypatch.setattr("agbm._tree.bins.ROWS_AT_ONCE", 64)
        table, dense = CrossedTable(X, self.CROSSES), with_crosses(X, self.CROSSES)
        places = np.random.default_rng(1).permutation(500).astype(np.uint32)
        for rows in (None, np.arange(0, 500, 3)):
            of_table, of_dense = (Bins.from_sample(of, rows, 20, None, {}, 1) for of in (table, dense))
            np.testing.assert_array_equal(of_table.flat_thresholds, of_dense.flat_thresholds)
        for chosen in (None, places):
            codes = [of_dense.encode(of, 2, None, chosen).codes() for of in (table, dense)]
            np.testing.assert_array_equal(*codes)


def test_candidates_are_of_similar_scales():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), 1000.0 * rng.normal(size=500), np.full(500, 3.0)])
    X[::7, 1] = np.nan
    X[3, 0] = np.inf
    found = candidates(X, [0, 1, 2])
    assert [(c.left, c.sign, c.right) for c in found] == [(a, s, b) for a, b in ((0, 1), (0, 2), (1, 2)) for s in SIGNS]
    for cross in found:
        if cross.sign == "*":
            assert cross[3:5] == (1.0, 1.0)
        else:
            assert cross[3:5] == tuple({0: 1.0, 1: 2.0**-10, 2: 1.0}[f] for f in (cross.left, cross.right))
            assert all(math.frexp(scale)[0] == 0.5 for scale in cross[3:])


def test_names():
    assert Cross(1, "*", 0).name(["a", "b"]) == "b * a"
    assert Cross(0, "-", 1, 1.0, 0.25).name(["a", "b"]) == "a - 0.25 b"
