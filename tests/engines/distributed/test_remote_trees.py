"""Trees that are grown from the sums of shards: the kernels ShardRows and RemoteGrower."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm._base import _native
from agbm._tree.bins import Bins
from shards import cuts_of, rows_of
from toys import category_counts

RULES = {
    "max_depth": 4, "max_leaf_nodes": 0, "min_samples_leaf": 2, "min_split_gain": 0.0,
    "monotone": [], "interactions": [],
}  # fmt: skip


class RemoteTree:
    """A tree grown by RemoteGrower on ShardRows of pieces of a matrix."""

    def __init__(self, bins, codes, cuts, residuals, hessians, repeats, rows):
        self.pieces = []
        self.n_repeated, self.max = 0, np.zeros(0)
        for a, b in itertools.pairwise(cuts):
            matrix = bins.matrix(b - a)
            matrix.put(np.ascontiguousarray(codes[:, a:b]), 0)
            shard = _native.ShardRows(matrix, (0, 0, 0), 1)
            n, largest = shard.set_residuals(
                residuals=[g[a:b] for g in residuals],
                hessians=None if hessians is None else np.ascontiguousarray(hessians[:, a:b]),
                repeats=None if repeats is None else repeats[a:b],
            )
            self.n_repeated += n
            self.max = np.maximum(self.max, largest) if len(self.max) else np.array(largest)
            here = None if rows is None else (rows[(rows >= a) & (rows < b)] - a).astype(np.uint32)
            self.pieces.append((shard, matrix, here))
        for shard, _, here in self.pieces:
            shard.start(n_repeated=self.n_repeated, max=self.max.tolist(), rows=here)

    def histograms(self, splits, nodes):
        for shard, *_ in self.pieces:
            shard.split(splits)
        return sum(shard.histograms(nodes) for shard, *_ in self.pieces)

    def noise(self):
        return sum(shard.noise() for shard, *_ in self.pieces)

    def summed_by(self, sums, n_residuals):
        for shard, *_ in self.pieces:
            shard.summed_by(sums, n_residuals)

    def leaf_sums(self, splits, leaves):
        for shard, *_ in self.pieces:
            shard.split(splits)
        return sum(shard.leaf_sums(leaves) for shard, *_ in self.pieces)


@st.composite
def growths(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([1, 7, 60, 300]))
    X, _ = rows_of(draw(st.integers(0, 2**31)), n, draw(st.sampled_from([2, 4, 18])))
    categorical = np.zeros(X.shape[1], dtype=bool)
    categorical[-1] = draw(st.booleans())
    n_residuals = draw(st.integers(1, 4))
    residuals = list(rng.normal(size=(n_residuals, n)) * 10.0 ** rng.integers(-6, 6))
    n_hessians = draw(st.sampled_from([0, 1, n_residuals]))
    hessians = rng.uniform(0.01, 1.0, (n_hessians, n)) if n_hessians else None
    repeats = rng.integers(1, 4, n) if draw(st.booleans()) else None
    rows = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False)) if draw(st.booleans()) else None
    cuts = cuts_of(rng, n, draw(st.integers(1, 6)))
    n_outputs = draw(st.integers(0, 2))
    l1 = draw(st.sampled_from([0.0, float(np.abs(residuals).mean())]))
    return X, categorical, residuals, hessians, repeats, rows, cuts, draw(st.sampled_from([0, 5])), n_outputs, l1


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(growths())
def test_trees_grown_from_sums_equal_those_grown_on_rows(growth):
    X, categorical, residuals, hessians, repeats, rows, cuts, max_leaf_nodes, n_outputs, l1 = growth
    bins = Bins.from_data(X, 255, None, category_counts(X, categorical), np.array(residuals))
    matrix = bins.encode(X, 1)
    rules = RULES | {"max_leaf_nodes": max_leaf_nodes, "n_threads": 1}
    how = {"features": None, "node_share": 1.0, "seed": 0, "min_hessian_leaf": 0.0, "l2_regularization": [0.0]}
    how |= {"n_outputs": n_outputs, "l1_regularization": l1}
    chosen = None if rows is None else rows.astype(np.uint32)
    *parts, values = _native.Grower(matrix, bins.flat_thresholds, **rules).grow(
        residuals=residuals, hessians=hessians, repeats=repeats, rows=chosen, **how
    )
    sums = RemoteTree(bins, matrix.columns(), cuts, residuals, hessians, repeats, rows)
    remote = _native.RemoteGrower(bins.matrix(0), bins.flat_thresholds, **rules).grow(
        sums=sums, n_repeated=sums.n_repeated, max=sums.max.tolist(), n_residuals=len(residuals), **how
    )
    for a, b in zip(parts, remote, strict=True):
        assert a.tobytes() == b.tobytes()
    together = np.concatenate([shard.values(*remote) for shard, *_ in sums.pieces], axis=1)
    assert together.tobytes() == values.tobytes()


def shard_rows(n=6):
    """Rows of two features on which a tree is growing."""
    X = np.arange(2.0 * n).reshape(n, 2)
    bins = Bins.from_data(X, 255)
    matrix = bins.encode(X, 1)
    shard = _native.ShardRows(matrix, (0, 0, 0), 1)
    n_repeated, largest = shard.set_residuals(residuals=[np.arange(float(n))], hessians=None, repeats=None)
    shard.start(n_repeated=n_repeated, max=largest, rows=None)
    shard.summed_by(np.zeros(0, np.int32), 0)
    return shard, bins, matrix


def splits_of(*rows):
    return np.array(rows, dtype=np.int64).reshape(len(rows), -1)


WRONG_CALLS = {
    "start: fewer rows than here": ("start", {"n_repeated": 5, "max": [5.0], "rows": None}, "n_repeated"),
    "start: negative rows": ("start", {"n_repeated": -1, "max": [5.0], "rows": None}, "n_repeated"),
    "start: max too small": ("start", {"n_repeated": 6, "max": [4.0], "rows": None}, "max: must not be less"),
    "start: max not a number": ("start", {"n_repeated": 6, "max": [np.nan], "rows": None}, "max: must not be less"),
    "start: too many max": ("start", {"n_repeated": 6, "max": [5.0, 1.0], "rows": None}, "max: must have one"),
    "start: no max": ("start", {"n_repeated": 6, "max": [], "rows": None}, "max: must have one"),
    "start: row beyond": ("start", {"n_repeated": 6, "max": [5.0], "rows": np.array([6], np.uint32)}, "rows"),
    "start: rows not ascending": (
        "start",
        {"n_repeated": 6, "max": [5.0], "rows": np.array([1, 1], np.uint32)},
        "rows",
    ),
    "summed_by: too many residuals": ("summed_by", {"sums": np.zeros(1, np.int32), "n_residuals": 2}, "n_residuals"),
    "summed_by: no residual": ("summed_by", {"sums": np.zeros(1, np.int32), "n_residuals": 0}, "n_residuals"),
    "summed_by: beyond": ("summed_by", {"sums": np.ones(1, np.int32), "n_residuals": 1}, "no such residual"),
    "summed_by: negative": ("summed_by", {"sums": -np.ones(1, np.int32), "n_residuals": 1}, "no such residual"),
    "split: too few words": ("split", {"splits": splits_of([0, 1, 0])}, "splits: must be"),
    "split: node": ("split", {"splits": splits_of([1, 2, 0, 1, 0, 0, 0])}, "no such node"),
    "split: negative node": ("split", {"splits": splits_of([-1, 2, 0, 1, 0, 0, 0])}, "no such node"),
    "split: child is the node": ("split", {"splits": splits_of([0, 0, 0, 1, 0, 0, 0])}, "no such child"),
    "split: negative child": ("split", {"splits": splits_of([0, -3, 0, 1, 0, 0, 0])}, "no such child"),
    "split: child too large": ("split", {"splits": splits_of([0, 2**31 - 1, 0, 1, 0, 0, 0])}, "no such child"),
    "split: far child": ("split", {"splits": splits_of([0, 2**31 - 2, 0, 1, 0, 0, 0])}, "no such child"),
    "split: feature": ("split", {"splits": splits_of([0, 1, 2, 1, 0, 0, 0])}, "no such feature"),
    "split: negative feature": ("split", {"splits": splits_of([0, 1, -1, 1, 0, 0, 0])}, "no such feature"),
    "histograms: node": ("histograms", {"nodes": np.array([1], np.int32)}, "no such node"),
    "histograms: negative node": ("histograms", {"nodes": np.array([-1], np.int32)}, "no such node"),
    "leaf_sums: node": ("leaf_sums", {"leaves": np.array([0, 7], np.int32)}, "no such node"),
    "leaf_sums: negative node": ("leaf_sums", {"leaves": np.array([-1], np.int32)}, "no such node"),
}


@pytest.mark.parametrize(("method", "arguments", "message"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_invalid_calls_of_shard_rows(method, arguments, message):
    shard, *_ = shard_rows()
    with pytest.raises(ValueError, match=message):
        getattr(shard, method)(**arguments)


def test_new_residuals_end_the_previous_tree():
    """Its rows have pointers to arrays that may have been freed."""
    bins = Bins.from_data(np.arange(4.0)[:, np.newaxis], 255)
    shard = _native.ShardRows(bins.matrix(4), (0, 0, 0), 1)
    with pytest.raises(ValueError, match="nodes: none"):
        shard.values(np.empty(0, np.uint8), np.empty((0, 4), np.uint64), np.empty((0, 1)))
    shard.set_residuals(residuals=[np.ones(4)], hessians=None, repeats=None)
    shard.start(n_repeated=4, max=[1.0], rows=None)
    shard.set_residuals(residuals=[np.ones(4)], hessians=None, repeats=None)
    with pytest.raises(ValueError, match="no such node"):
        shard.leaf_sums(np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="no tree"):
        shard.noise()


def test_calls_without_residuals_are_refused():
    bins = Bins.from_data(np.arange(4.0)[:, np.newaxis], 255)
    shard = _native.ShardRows(bins.matrix(4), (0, 0, 0), 1)
    with pytest.raises(ValueError, match="no residuals"):
        shard.start(n_repeated=4, max=[1.0], rows=None)
    for method, argument in (("histograms", np.zeros(1, np.int32)), ("leaf_sums", np.zeros(1, np.int32))):
        with pytest.raises(ValueError, match="no such node"):
            getattr(shard, method)(argument)
    with pytest.raises(ValueError, match="no such node"):
        shard.split(splits_of([0, 1, 0, 1, 0, 0, 0]))


WRONG_TARGETS = {
    "none": {"residuals": []},
    "too many rows": {"residuals": [np.zeros(7)]},
    "two lengths": {"residuals": [np.zeros(6), np.zeros(5)]},
    "hessians of fewer rows": {"hessians": np.ones((1, 5))},
    "negative hessian": {"hessians": -np.ones((1, 6))},
    "too many hessians": {"residuals": [np.zeros(6)] * 3, "hessians": np.ones((2, 6))},
    "repeats of fewer rows": {"repeats": np.ones(5, np.int64)},
    "negative repeats": {"repeats": -np.ones(6, np.int64)},
}


@pytest.mark.parametrize("wrong", WRONG_TARGETS.values(), ids=WRONG_TARGETS.keys())
def test_invalid_residuals_are_refused(wrong):
    shard, *_ = shard_rows()
    with pytest.raises(ValueError, match=r"residuals|hessians|repeats"):
        shard.set_residuals(**{"residuals": [np.zeros(6)], "hessians": None, "repeats": None} | wrong)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_residuals_that_are_not_finite_are_refused(bad):
    shard, *_ = shard_rows()
    with pytest.raises(OverflowError):
        shard.set_residuals(residuals=[np.full(6, bad)], hessians=None, repeats=None)


def test_values_of_a_tree_that_was_grown_elsewhere():
    shard, bins, _ = shard_rows()
    *parts, values = grown(bins)
    np.testing.assert_array_equal(shard.values(*parts), values)


def grown(bins, n=6):
    X = np.arange(2.0 * n).reshape(n, 2)
    grower = _native.Grower(bins.encode(X, 1), bins.flat_thresholds, **RULES, n_threads=1)
    return grower.grow(
        residuals=[np.arange(float(n))], hessians=None, repeats=None, rows=None, features=None, node_share=1.0, seed=0,
        min_hessian_leaf=0.0, l2_regularization=[0.0],
    )  # fmt: skip


class WrongSums:
    """Answers of a wrong size or type, or none."""

    def __init__(self, answer):
        self.answer = answer

    def histograms(self, splits, nodes):
        return self.answer()

    def summed_by(self, sums, n_residuals):
        pass

    noise = leaf_sums = histograms


def fails():
    raise RuntimeError("a worker is lost")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda: np.zeros(3, np.int64), ValueError, "wrong size"),
        (lambda: np.zeros(0, np.int64), ValueError, "wrong size"),
        (lambda: None, RuntimeError, "bad_cast"),
        (lambda: "many", RuntimeError, "bad_cast"),
        (fails, RuntimeError, "a worker is lost"),
    ],
    ids=["size", "empty", "none", "type", "error"],
)
def test_errors_of_sums_are_raised(answer, error, message):
    """The grower passes errors on, and can be used again."""
    _, bins, matrix = shard_rows()
    grower = _native.RemoteGrower(bins.matrix(0), bins.flat_thresholds, **RULES, n_threads=1)
    how = {
        "n_residuals": 1,
        "features": None,
        "node_share": 1.0,
        "seed": 0,
        "min_hessian_leaf": 0.0,
        "l2_regularization": [0.0],
    }
    with pytest.raises(error, match=message):
        grower.grow(sums=WrongSums(answer), n_repeated=6, max=[5.0], **how)
    sums = RemoteTree(bins, matrix.columns(), [0, 2, 6], [np.arange(6.0)], None, None, None)
    *parts, _ = grown(bins)
    for a, b in zip(parts, grower.grow(sums=sums, n_repeated=6, max=[5.0], **how), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_repeated": 0}, "n_repeated"),
        ({"n_repeated": -1}, "n_repeated"),
        ({"n_residuals": 2}, "max"),
        ({"n_residuals": 0}, "max"),
        ({"max": []}, "max"),
        ({"min_hessian_leaf": -1.0}, "min_hessian_leaf"),
        ({"features": np.ones(3, np.uint8)}, "features"),
        ({"node_share": -1.0}, "node_share"),
    ],
)
def test_invalid_calls_of_remote_grower(wrong, message):
    _, bins, _ = shard_rows()
    grower = _native.RemoteGrower(bins.matrix(0), bins.flat_thresholds, **RULES, n_threads=1)
    right = {"n_repeated": 6, "max": [5.0], "n_residuals": 1, "features": None, "node_share": 1.0, "seed": 0}
    with pytest.raises(ValueError, match=message):
        grower.grow(sums=WrongSums(fails), **right | {"min_hessian_leaf": 0.0, "l2_regularization": [0.0]} | wrong)
