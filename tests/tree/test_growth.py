"""Trees that the native kernel grows, against the NumPy twin."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from agbm._base import _native
from agbm._base.weights import Weights
from agbm._core.learners import Newton
from agbm._core.ring import RingPart
from agbm._losses import enough
from agbm._tree.bins import Bins, GroupedCategories
from agbm._tree.forest import fold
from agbm._tree.learner import CodedRows, TreeFitter, TreeLearner
from growth import LEAF_RULES, grow, growths, random_matrix, samples, walk
from profiles import examples
from toys import category_counts
from tree_twin import Grower, Rules, Sample, drawn_outputs, mixed, quantise


@pytest.mark.slow
@examples(100)
@given(st.data())
def test_growth_equals_the_twin(data):
    X, n_train, residuals, hessians, rules, max_bins, categorical, n_threads = data.draw(growths())
    sample = data.draw(st.one_of(st.none(), samples(n_train, X.shape[1])))
    bins = Bins.from_data(X[:n_train], max_bins, n_categories=category_counts(X, categorical), residual=residuals)
    matrix = bins.encode(X, n_threads)
    grown = grow(matrix, residuals, hessians, rules, n_threads, sample=sample)
    codes = matrix.codes()
    n_categories = [bins.grouped[f].n_told_apart if c else 0 for f, c in enumerate(categorical)]
    twin = Grower(codes, matrix.n_bins, residuals, hessians, rules, n_categories, sample)
    nodes = twin.grow()

    assert len(grown["feature"]) == len(nodes)
    scale = np.abs(residuals).max(initial=1e-300)
    for i, node in enumerate(nodes):
        if node.children:
            split = node.split
            assert (grown["feature"][i], bool(grown["missing_left"][i])) == (split.feature, split.missing_left)
            to_left = np.unpackbits(grown["left_codes"][i].view(np.uint8), bitorder="little")
            known = set(range(matrix.n_bins[split.feature] + 1))
            assert set(np.flatnonzero(to_left).tolist()) & known == split.left_codes & known
            assert categorical[split.feature] or grown["bin"][i] == split.bin
            assert grown["gain"][i] == split.gain
            assert [grown["left"][i], grown["left"][i] + 1] == node.children
        else:
            assert grown["feature"][i] == grown["left"][i] == -1
            expected = twin.leaf_value(node)
            tolerance = 1e-11 * np.maximum(np.abs(expected), scale)
            assert np.all(np.abs(grown["value"][i] - expected) <= tolerance)
            assert np.array_equal(grown["row_values"][:, node.rows].T, np.tile(grown["value"][i], (len(node.rows), 1)))
        assert grown["count"][i] == len(node.rows)
    assert np.array_equal(grown["row_values"], walk(grown, codes).T), "rows that the tree did not see follow it too"


@pytest.mark.slow
@examples(60)
@given(growths(), st.integers(1, 3), st.integers(0, 2**63 - 1))
def test_sketch_of_the_outputs(case, n_outputs, seed):
    """The structure is that of a tree for the drawn outputs; its leaves have values for all."""
    X, n_train, residuals, hessians, rules, max_bins, categorical, n_threads = case
    rules = replace(rules, monotone=[])
    matrix = Bins.from_data(
        X[:n_train], max_bins, n_categories=category_counts(X, categorical), residual=residuals
    ).encode(X, n_threads)
    n_hessians = 0 if hessians is None else len(hessians)
    n_groups = n_hessians if n_hessians > 1 else len(residuals)
    found = grow(matrix, residuals, hessians, rules, n_threads, sample=Sample(seed=seed), n_outputs=n_outputs)
    drawn = range(n_groups) if n_outputs >= n_groups else drawn_outputs(residuals, n_groups, n_outputs, seed)
    size = len(residuals) // n_groups
    of_drawn = [g * size + k for g in drawn for k in range(size)]
    l2 = rules.l2_regularization
    some = replace(rules, l2_regularization=[l2[g] for g in drawn] if len(l2) > 1 else l2)
    expected = grow(matrix, residuals[of_drawn], hessians[list(drawn)] if n_hessians > 1 else hessians, some, n_threads)
    for name in ("feature", "bin", "missing_left", "left", "gain", "count", "left_codes"):
        assert np.array_equal(expected[name], found[name]), name
    np.testing.assert_array_equal(found["value"][:, of_drawn], expected["value"])
    leaf_of_row = walk({**found, "value": np.arange(len(found["left"]))[:, np.newaxis]}, matrix.codes())[:n_train, 0]
    floors = np.broadcast_to(l2, max(n_hessians, 1))
    for leaf in np.unique(leaf_of_row):
        rows = leaf_of_row == leaf
        for k, r in enumerate(residuals):
            group = k * len(floors) // len(residuals)
            h = rows.sum() if hessians is None else max(hessians[group, rows].sum(), rules.min_hessian_leaf)
            below = h + floors[group]
            sum_ = r[rows].sum()
            value = sum_ * kept(sum_, rules) / below if below > 0.0 else 0.0
            assert found["value"][leaf, k] == pytest.approx(value, rel=1e-6, abs=1e-9 * np.abs(residuals).max())


def kept(sum_, rules):
    """The part of a sum of residuals that l1 leaves."""
    l1 = rules.l1_regularization
    return max(1.0 - l1 / abs(sum_), 0.0) if l1 > 0.0 and sum_ != 0.0 else 1.0


def test_outputs_with_large_residuals_are_drawn_more_often():
    residuals = np.array([[1.0], [0.0], [3.0], [0.1], [0.0]]) * np.array([[1.0, -1.0, 1.0]])
    drawn = np.bincount([g for seed in range(2000) for g in drawn_outputs(residuals, 5, 2, mixed(seed))], minlength=5)
    assert drawn[2] > 1700
    assert drawn[0] > 2 * drawn[3]
    assert drawn.min() > 100


@pytest.mark.slow
@examples(60)
@given(growths(), st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_quantile_leaves(case, seed, weighted):
    """Of the distances of their rows, shrunk by l1 and l2 as Newton steps are; of the first function of each output."""
    X, n_train, residuals, hessians, rules, max_bins, categorical, n_threads = case
    rng = np.random.default_rng(seed)
    n_outputs = int(rng.choice([n for n in range(1, len(residuals) + 1) if len(residuals) % n == 0]))
    distances = np.round(rng.normal(size=(n_outputs, n_train)), 1) + 0.0
    shares = rng.choice([0.01, 0.07, 0.5, 0.9], n_outputs).tolist()
    repeats = rng.integers(1, 4, n_train) if weighted == 1 else None
    steps = rng.integers(1, 2**40, n_train) if weighted == 2 else None
    matrix = Bins.from_data(
        X[:n_train], max_bins, n_categories=category_counts(X, categorical), residual=residuals
    ).encode(X, n_threads)
    quantiles = {"distances": list(distances), "shares": shares, "steps": steps}
    plain = grow(matrix, residuals, hessians, rules, n_threads, repeats)
    found = grow(matrix, residuals, hessians, rules, n_threads, repeats, quantiles=quantiles)
    for name in ("feature", "bin", "missing_left", "left", "gain", "count"):
        assert np.array_equal(plain[name], found[name]), name

    leaf_of_row = walk({**found, "value": np.arange(len(found["left"]))[:, np.newaxis]}, matrix.codes())[:n_train, 0]
    weight = np.ones(n_train, np.int64) if weighted == 0 else repeats if weighted == 1 else steps
    counted = np.ones(n_train) if repeats is None else repeats
    group = len(residuals) // n_outputs
    for leaf in np.unique(leaf_of_row):
        rows = np.flatnonzero(leaf_of_row == leaf)
        for k in range(len(residuals)):
            if k % group and not rules.monotone:
                assert found["value"][leaf, k] == plain["value"][leaf, k]
            if k % group or rules.monotone:
                continue
            order = rows[np.argsort(distances[k // group, rows], kind="stable")]
            place = np.searchsorted(np.cumsum(weight[order]), enough(shares[k // group], float(weight[order].sum())))
            h = np.ones(n_train) if hessians is None else hessians[k * len(hessians) // len(residuals)]
            total = (h * counted)[rows].sum()
            n_hessians = 1 if hessians is None else len(hessians)
            l2 = np.broadcast_to(rules.l2_regularization, n_hessians)[k * n_hessians // len(residuals)]
            floor = max(total, rules.min_hessian_leaf) + l2
            expected = distances[k // group, order[place]] * (total / floor if floor > 0.0 else 0.0)
            sum_ = (residuals[k] * counted)[rows].sum()
            near = 1e-6 if rules.l1_regularization > 0.0 else 1e-9  # sums are rounded, and so is what l1 leaves
            assert found["value"][leaf, k] == pytest.approx(expected * kept(sum_, rules), rel=near, abs=1e-3 * near)


@pytest.mark.slow
@examples(60)
@given(growths(), st.integers(0, 2**32 - 1))
def test_quantile_leaves_are_monotone(case, seed):
    X, n_train, residuals, hessians, rules, max_bins, categorical, n_threads = case
    rng = np.random.default_rng(seed)
    rules = replace(rules, monotone=np.where(categorical, 0, rng.integers(-1, 2, size=X.shape[1])).tolist())
    matrix = Bins.from_data(
        X[:n_train], max_bins, n_categories=category_counts(X, categorical), residual=residuals
    ).encode(X, n_threads)
    quantiles = {"distances": list(rng.normal(size=(len(residuals), n_train))), "shares": [0.3] * len(residuals)}
    tree = grow(matrix, residuals, hessians, rules, n_threads, quantiles=quantiles)

    def leaves_below(node):
        left = tree["left"][node]
        return [node] if left < 0 else leaves_below(left) + leaves_below(left + 1)

    for node, left in enumerate(tree["left"]):
        feature = tree["feature"][node]
        if left < 0 or rules.monotone[feature] == 0 or tree["bin"][node] == matrix.n_bins[feature] - 1:
            continue
        sides = [tree["value"][leaves_below(child)] for child in (left, left + 1)]
        low, high = sides if rules.monotone[feature] > 0 else sides[::-1]
        assert np.all(low.max(axis=0) <= high.min(axis=0))


@pytest.mark.slow
@examples(60)
@given(growths(), st.integers(0, 2**32 - 1))
def test_integer_weights_equal_repeated_rows(case, seed):
    X, n_train, residuals, hessians, rules, max_bins, categorical, n_threads = case
    X = X[:n_train]
    repeats = np.random.default_rng(seed).integers(1, 5, size=n_train)
    bins = Bins.from_data(X, max_bins, Weights(repeats, None), category_counts(X, categorical), residuals)
    many = np.repeat(X, repeats, axis=0), max_bins
    again = Bins.from_data(
        *many, n_categories=category_counts(X, categorical), residual=np.repeat(residuals, repeats, axis=1)
    )
    assert all(map(np.array_equal, bins.thresholds, again.thresholds))
    weighted = grow(bins.encode(X, n_threads), residuals, hessians, rules, n_threads, repeats)
    repeated = grow(
        again.encode(np.repeat(X, repeats, axis=0), n_threads),
        np.repeat(residuals, repeats, axis=1),
        None if hessians is None else np.repeat(hessians, repeats, axis=1),
        rules,
        n_threads,
    )
    for name in ("feature", "bin", "missing_left", "left", "gain", "count", "value"):
        assert np.array_equal(weighted[name], repeated[name]), name


@pytest.mark.slow
@examples(60)
@given(growths())
def test_histogram_equals_the_twin(case):
    X, n_train, residuals, hessians, _, max_bins, _, n_threads = case
    matrix = Bins.from_data(X[:n_train], max_bins).encode(X, n_threads)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(n_train, rng.integers(0, n_train + 1), replace=False)).astype(np.uint32)
    for chosen in (None, rows):
        cells, unit, count_bits = _native.histogram(matrix, residuals, hessians, chosen, n_threads)
        channels = [*residuals] if hessians is None else [*residuals, *hessians]
        in_node = np.arange(n_train) if chosen is None else chosen
        codes = matrix.codes()[in_node]
        offset = 0
        for f, n_bins in enumerate(matrix.n_bins):
            for code in range(n_bins + 1):
                members = in_node[codes[:, f] == code]
                for k, x in enumerate(channels):
                    last = k == len(channels) - 1
                    q, expected_unit = quantise(x, last)
                    assert unit[k] == expected_unit
                    value = int(cells[offset + code, k])
                    if last:
                        assert value & ((1 << count_bits) - 1) == len(members)
                        value >>= count_bits
                    assert value == int(q[members].sum())
            offset += n_bins + 1
        assert offset == len(cells)


@pytest.mark.parametrize("n", range(20, 60))
def test_equal_residuals_are_not_split(n):
    """All residuals are equal, and sums of their thirds are not exact."""
    X = np.arange(float(n))[:, np.newaxis]
    matrix = Bins.from_data(X, 255).encode(X, 1)
    for value in (1 / 3, 0.1, 1e-7, 12345.678):
        assert len(grow(matrix, np.full((1, n), value), None, Rules())["feature"]) == 1


@pytest.mark.parametrize("exponents", [(0, 600), (0, -600), (480, 0), (-400, 0), (200, -500), (-200, 500)])
def test_splits_do_not_depend_on_the_unit_of_residuals_and_hessians(exponents):
    """Products of sums decide which cuts are scored, and may overflow or vanish."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    bins = Bins.from_data(X, 255)
    residual, hessian = X[:, 0] * X[:, 1] + rng.normal(size=700), rng.uniform(0.5, 1.0, size=700)
    rules = Rules(max_depth=5, min_samples_leaf=5)
    grown = [
        grow(bins.encode(X, 1), [residual * 2.0**of_residual], hessian[np.newaxis] * 2.0**of_hessian, rules)
        for of_residual, of_hessian in ((0, 0), exponents)
    ]
    for name in ("feature", "bin", "left"):
        np.testing.assert_array_equal(grown[0][name], grown[1][name])


@pytest.mark.slow
def test_identical_bits_for_every_number_of_threads():
    """Enough rows for several pieces in every parallel loop, and weights over many orders of magnitude."""
    rng = np.random.default_rng(1)
    n = 70_000
    X = random_matrix(rng, n, 21)
    residuals = rng.normal(size=(2, n)) * np.exp(3 * rng.normal(size=n))
    for hessians in (None, rng.uniform(size=(1, n))):
        for rules in (Rules(max_depth=7, min_samples_leaf=3), Rules(max_leaf_nodes=40, min_samples_leaf=3)):
            results = []
            for n_threads in (1, 2, 3, 4, 7, 4, 2, 7, 3):
                matrix = Bins.from_data(X, 255).encode(X, n_threads)
                results.append(grow(matrix, residuals, hessians, rules, n_threads))
            assert len(results[0]["feature"]) > 30
            for other in results[1:]:
                for name, array in results[0].items():
                    assert np.array_equal(array, other[name]), name


def test_grower_is_reusable():
    """Buffers are kept from tree to tree, whatever the number of residuals of each."""
    rng = np.random.default_rng(6)
    X = random_matrix(rng, 2000, 5)
    bins = Bins.from_data(X, 255)
    matrix = bins.encode(X, 2)
    rules = asdict(Rules(max_depth=5, min_samples_leaf=2))
    inputs = {"repeats": None, "node_share": 1.0, "seed": 0, **{name: rules.pop(name) for name in LEAF_RULES}}
    kept = _native.Grower(matrix, bins.flat_thresholds, **rules, n_threads=2)
    for n_residuals, n_hessians, sampled in ((2, 1, False), (1, 0, True), (3, 3, False), (1, 1, False), (4, 2, True)):
        inputs |= {
            "residuals": rng.normal(size=(n_residuals, 2000)),
            "hessians": rng.uniform(size=(n_hessians, 2000)) if n_hessians else None,
            "rows": np.arange(0, 2000, 3, dtype=np.uint32) if sampled else None,
            "features": np.array([1, 0, 1, 1, 1], dtype=np.uint8) if sampled else None,
        }
        fresh = _native.Grower(matrix, bins.flat_thresholds, **rules, n_threads=2).grow(**inputs)
        for ours, theirs in zip(kept.grow(**inputs), fresh, strict=True):
            assert np.array_equal(ours, theirs)


def test_growth_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(2)
    X = random_matrix(rng, 3000, 6)
    residuals = rng.normal(size=(1, 3000))
    order = rng.permutation(3000)
    bins = Bins.from_data(X, 64)
    one = grow(bins.encode(X, 2), residuals, None, Rules(max_depth=6))
    other = grow(bins.encode(X[order], 2), residuals[:, order].copy(), None, Rules(max_depth=6))
    for name in ("feature", "bin", "left", "value", "gain"):
        assert np.array_equal(one[name], other[name]), name


def test_deep_trees_need_several_batches():
    """More nodes in a level than one batch holds: every row ends in a leaf of its own."""
    rng = np.random.default_rng(3)
    X = rng.permutation(4000).astype(float)[:, np.newaxis] * np.array([1.0, 0.1, 7.0])
    residuals = rng.normal(size=(1, 4000))
    matrix = Bins.from_data(X, 255).encode(X, 2)
    grown = grow(matrix, residuals, None, Rules(), 2)
    assert (grown["feature"] == -1).sum() == 255
    for code in range(255):
        members = matrix.codes()[:, 0] == code
        np.testing.assert_allclose(grown["row_values"][0, members], residuals[0, members].mean(), atol=1e-11)


def test_large_nodes_equal_the_twin():
    """Several pieces of rows in every loop."""
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.integers(0, 5, size=50_000), rng.normal(size=50_000) > 0]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    assert_equal_values(X, rng.normal(size=(2, 50_000)) + np.nan_to_num(X[:, 0]), Rules(max_depth=3))


@pytest.mark.slow
def test_many_nodes_equal_the_twin():
    """Levels with more nodes than a batch holds."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(1200, 3))
    assert assert_equal_values(X, rng.normal(size=(1, 1200)), Rules(), max_bins=12) > 600


@pytest.mark.slow
def test_a_million_rows_keep_their_precision():
    """So many that the count needs a channel of its own; one residual is a million times larger than the others."""
    rng = np.random.default_rng(10)
    n = 2**20 + 5
    X = rng.integers(0, 3, size=n).astype(float)[:, np.newaxis]
    y = X[:, 0] - 1.0
    y[7] = 1e6
    for residuals in (y[np.newaxis], np.stack([y, -y])):
        assert_equal_values(X, residuals, Rules(max_depth=2, min_samples_leaf=20))
        assert_equal_values(
            X, residuals, Rules(max_depth=2, min_samples_leaf=20), hessians=rng.uniform(0.5, 1.0, (1, n))
        )


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("hessians", [False, True])
def test_histograms_of_a_million_rows(hessians, n_threads):
    """Blocks of rows, whose counts are in the last value, and several groups of columns."""
    rng = np.random.default_rng(11)
    n = 2**20 + 5
    codes = rng.integers(0, 3, size=(n, 4)).astype(np.float32)
    X = codes[:, rng.integers(0, 4, size=20)]
    residual, hessian = rng.normal(size=n), rng.uniform(0.0, 1.0, (1, n)) if hessians else None
    residual[5] = -1e5
    matrix = Bins.from_data(X, 255).encode(X, 2)
    channels = [residual] if hessian is None else [residual, hessian[0]]
    quantised = [quantise(x, k == len(channels) - 1)[0] for k, x in enumerate(channels)]
    for rows in (None, np.flatnonzero(rng.random(n) < 0.7).astype(np.uint32)):
        cells, _, _ = _native.histogram(matrix, residual[np.newaxis], hessian, rows, n_threads)
        chosen = slice(None) if rows is None else rows
        for f in (0, 7, 19):
            places = X[chosen, f].astype(np.intp)
            found = cells[4 * f : 4 * f + 3]
            for k, q in enumerate(quantised):
                whole = [int(q[chosen][places == code].sum()) for code in range(3)]
                assert found[:, k].tolist() == whole
            assert found[:, -1].tolist() == np.bincount(places, minlength=3).tolist()


def assert_equal_values(X, residuals, rules, hessians=None, max_bins=255):
    """For any numbering of the nodes; returns the number of leaves."""
    matrix = Bins.from_data(X, max_bins).encode(X, 2)
    grown = grow(matrix, residuals, hessians, rules, 2)
    twin = Grower(matrix.codes(), matrix.n_bins, residuals, hessians, rules)
    leaves = [node for node in twin.grow() if not node.children]
    assert (grown["feature"] == -1).sum() == len(leaves) > 1
    for leaf in leaves:
        expected = np.tile(twin.leaf_value(leaf), (len(leaf.rows), 1)).T
        tolerance = 1e-11 * np.abs(residuals).max()
        np.testing.assert_allclose(grown["row_values"][:, leaf.rows], expected, rtol=1e-11, atol=tolerance)
    return len(leaves)


def test_shared_structure_uses_both_targets():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 2))
    r, c = np.sign(X[:, :1].T), 10 * np.sign(X[:, 1:].T)
    fitter = TreeLearner(max_depth=1, shared_structure=True).bind(X, 500, None, np.zeros((1, 500)))
    first, second = fitter.fit_pair(r, c, None, second=False)
    assert first.model is second.model
    assert first.model.nodes["feature"][0] == 1, "the larger target decides"
    separate, none = TreeLearner(max_depth=1).bind(X, 500, None, np.zeros((1, 500))).fit_pair(r, c, None, second=False)
    assert separate.model.nodes["feature"][0] == 0
    assert none is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["C", "F", "sparse"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_prediction_equals_the_values_of_training(dtype, form, n_outputs, vector_leaves):
    rng = np.random.default_rng(5)
    X = np.asarray(random_matrix(rng, 700, 9), dtype=dtype)
    categorical = np.zeros(9, dtype=bool)
    if form == "sparse":
        X = csr_array(np.where(rng.random(X.shape) < 0.7, 0, X))
    else:
        X[:, 3] = rng.integers(0, 300, size=700)  # more categories than bins
        X[:, 4] = rng.integers(0, 5, size=700)
        categorical[[3, 4]] = True
        X = np.asarray(X, order=form)
    learner = TreeLearner(
        max_depth=5,
        min_samples_leaf=2,
        shared_structure=True,
        vector_leaves=vector_leaves,
        n_categories=None if form == "sparse" else category_counts(X, categorical),
    )
    targets = rng.normal(size=(3, 2, n_outputs, 500))
    fitter = learner.bind(X, 500, None, targets[0, 0])
    hessian = rng.uniform(0.5, 1.0, size=(n_outputs, 500))
    pairs = [fitter.fit_pair(r, c, Newton(hessian), second=True) for r, c in targets]
    for pair in pairs:
        for fit in pair:
            assert fit.values.shape == (n_outputs, 700)
            assert np.array_equal(fit.model.predict(X, 2)[fit.function], fit.values)
            assert np.array_equal(fit.explained, fit.values[:, :500] * hessian)
    weights = [rng.normal(size=2) for _ in pairs]
    expected = sum(w[0] * a.values + w[1] * b.values for w, (a, b) in zip(weights, pairs, strict=True))
    folded = fold([a.model for a, _ in pairs], weights)
    assert folded.n_learners == 3 * (1 if vector_leaves else n_outputs)
    np.testing.assert_allclose(folded.predict(X, 2)[0], expected, rtol=1e-12, atol=1e-12)
    if form != "sparse":
        assert (folded.nodes["categories"] >= 0).any(), "some splits are on categories"


@given(
    seed=st.integers(0, 1000), begin=st.integers(0, 20), n_ring=st.integers(1, 60), n_after=st.integers(0, 9),
    n_threads=st.integers(1, 3), weighted=st.booleans(),
)  # fmt: skip
def test_ring_of_rows_equals_reordered_rows(seed, begin, n_ring, n_after, n_threads, weighted):
    rng = np.random.default_rng(seed)
    end, n_rows = begin + n_ring, begin + n_ring + n_after
    X = rng.normal(size=(n_rows, 4)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 5, n_rows)
    first, n_train = int(rng.integers(begin, end)), int(rng.integers(max(begin, 1), end + 1))
    part = RingPart(n_train, begin, end, first)
    order = part.turned(np.arange(n_rows))
    residual, weights = rng.normal(size=(1, n_train)), Weights.of(rng.random(n_train) + 0.1 if weighted else None)
    learner = TreeLearner(
        max_leaf_nodes=9, min_samples_leaf=2, n_threads=n_threads, n_categories=np.array([0, 0, 0, 5])
    )
    bins = Bins.from_data(X, 16).with_categories(
        {3: GroupedCategories.from_data(X[:, 3], 5, 16, None, np.ones((1, n_rows)))}
    )
    on_ring, alone = (
        TreeFitter(learner, CodedRows(bins, bins.encode(rows, 1), numbers), of_rows, weights).fit(residual, None)
        for rows, of_rows, numbers in ((X, part, np.arange(end)), (X[order], RingPart(n_train), None))
    )
    assert on_ring.model.nodes.tobytes() == alone.model.nodes.tobytes()
    np.testing.assert_array_equal(on_ring.values, alone.values)


def test_unseen_missing_values_follow_the_larger_child():
    X = np.array([[0.0], [1.0], [1.0], [1.0]])
    fit = (
        TreeLearner(max_depth=1, min_samples_leaf=1)
        .bind(X, 4, None, np.zeros((1, 4)))
        .fit(np.array([[-3.0, 1.0, 1.0, 1.0]]), None)
    )
    assert fit.model.predict(np.array([[np.nan]]), 1)[0, 0, 0] == 1.0


def test_missing_values_can_be_split_from_all_values():
    X = np.array([[0.0], [5.0], [np.nan], [np.nan]])
    fit = (
        TreeLearner(max_depth=1, min_samples_leaf=1)
        .bind(X, 4, None, np.zeros((1, 4)))
        .fit(np.array([[1.0, 1.0, -2.0, -2.0]]), None)
    )
    assert np.array_equal(fit.model.predict(np.array([[1e300], [-1e300], [np.nan]]), 1)[0, 0], [1.0, 1.0, -2.0])
