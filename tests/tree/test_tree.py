"""The native kernels against their NumPy twin."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array

from agbm._base import _native
from agbm._base.weights import Weights
from agbm._core.learners import Newton
from agbm._core.ring import RingPart
from agbm._losses import enough
from agbm._tree.bins import MAX_SAMPLE, Bins, GroupedCategories, LeafRows, feature_thresholds
from agbm._tree.forest import NODE, fold
from agbm._tree.learner import CodedRows, TreeFitter, TreeLearner
from toys import category_counts, native_forest, sums_of_trees
from tree_twin import Grower, Rules, Sample, quantise


def random_matrix(rng, n_rows, n_features, kinds="mixed"):
    """Columns of many kinds: continuous, few values, constant, with missing values or infinite ones, all missing."""
    columns = []
    for _ in range(n_features):
        kind = kinds
        if kinds == "mixed":
            kind = rng.choice(["continuous", "few", "constant", "holes", "missing", "infinite"])
        column = rng.normal(size=n_rows)
        if kind == "few":
            column = rng.integers(0, 4, size=n_rows).astype(float)
        elif kind == "constant":
            column = np.full(n_rows, 2.5)
        elif kind == "holes":
            column = np.where(rng.random(n_rows) < 0.4, np.nan, rng.integers(0, 6, size=n_rows))
        elif kind == "missing":
            column = np.full(n_rows, np.nan)
        elif kind == "infinite":
            column = np.where(rng.random(n_rows) < 0.5, column, rng.choice([np.inf, -np.inf, np.nan, 0.0], n_rows))
        columns.append(column)
    return np.column_stack(columns)


def thresholds_of(values, max_bins):
    return Bins.from_data(values[:, np.newaxis], max_bins).thresholds[0]


LEAF_RULES = ("min_hessian_leaf", "l2_regularization")


def grow(matrix, residuals, hessians, rules, n_threads=1, repeats=None, sample=None, quantiles=None):
    arguments = asdict(rules)
    leaves = {name: arguments.pop(name) for name in LEAF_RULES}
    sample = Sample() if sample is None else sample
    thresholds = np.zeros(sum(matrix.n_bins) - matrix.n_features)
    records, left_codes, value, row_values = _native.Grower(matrix, thresholds, **arguments, n_threads=n_threads).grow(
        residuals=residuals,
        hessians=hessians,
        repeats=repeats,
        **quantiles or {},
        rows=None if sample.rows is None else sample.rows.astype(np.uint32),
        features=sample.features,
        node_share=sample.node_share,
        seed=sample.seed,
        **leaves,
    )
    nodes = records.view(NODE)
    return {
        **{name: nodes[name] for name in NODE.names},
        "left_codes": left_codes,
        "value": value,
        "row_values": row_values,
    }


@st.composite
def growths(draw):
    """A matrix with ordered and categorical features, residuals, hessians and rules of all kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 50))
    n_features = draw(st.one_of(st.integers(1, 4), st.sampled_from([16, 17, 33])))
    X = random_matrix(rng, n_rows, n_features)
    n_train = draw(st.integers(1, n_rows))
    categorical = rng.random(n_features) < draw(st.sampled_from([0.0, 0.0, 0.5, 1.0]))
    for f in np.flatnonzero(categorical):
        X[:, f] = rng.integers(0, draw(st.sampled_from([1, 3, 12])), size=n_rows)
        X[rng.random(n_rows) < draw(st.sampled_from([0.0, 0.2])), f] = np.nan
    group_size, n_groups = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 4)]))
    # Distinct sizes, small integers (many ties), or zeros.
    n_residuals = group_size * n_groups
    residuals = draw(
        st.sampled_from(
            [
                rng.normal(size=(n_residuals, n_train)) * 10.0 ** rng.integers(-8, 8),
                rng.integers(-2, 3, size=(n_residuals, n_train)).astype(float),
                np.zeros((n_residuals, n_train)),
            ]
        )
    )
    size = (n_groups, n_train)
    hessians = draw(st.sampled_from([None, rng.uniform(0.01, 1.0, size), rng.integers(0, 3, size=size).astype(float)]))
    rules = Rules(
        max_depth=draw(st.integers(1, 5)),
        max_leaf_nodes=draw(st.sampled_from([0, 0, 2, 5, 9])),
        min_samples_leaf=draw(st.integers(1, 6)),
        l2_regularization=draw(l2_of_hessians(1 if hessians is None else n_groups)),
        min_split_gain=draw(st.sampled_from([0.0, 0.0, 1e-3, 1.0])),
        min_hessian_leaf=draw(st.sampled_from([0.0, 0.5])) if hessians is not None else 0.0,
    )
    if draw(st.booleans()):
        rules.monotone = np.where(categorical, 0, rng.integers(-1, 2, size=n_features)).tolist()
    if draw(st.booleans()):
        rules.interactions = [sorted(set(rng.integers(0, n_features, size=3).tolist())) for _ in range(3)]
    max_bins = draw(st.sampled_from([2, 3, 8, 255]))
    return X, n_train, residuals, hessians, rules, max_bins, categorical, draw(st.integers(1, 3))


def l2_of_hessians(n_hessians):
    """One number for all hessians, or one for each."""
    number = st.sampled_from([0.0, 0.0, 1.0, 10.0])
    return st.lists(number, min_size=1, max_size=1) | st.lists(number, min_size=n_hessians, max_size=n_hessians)


@st.composite
def samples(draw, n_train, n_features):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sample = Sample(node_share=draw(st.sampled_from([1.0, 0.5, 0.1])), seed=int(rng.integers(2**63)))
    if draw(st.booleans()):
        sample.rows = np.sort(rng.choice(n_train, rng.integers(1, n_train + 1), replace=False))
    if draw(st.booleans()):
        sample.features = (rng.random(n_features) < 0.6).astype(np.uint8)
    return sample


@pytest.mark.slow
@settings(max_examples=400)
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


def walk(grown, codes):
    """Values of a tree on binned rows, (row, value)."""
    values = []
    for row in codes:
        node = 0
        while grown["left"][node] >= 0:
            code = int(row[grown["feature"][node]])
            to_left = int(grown["left_codes"][node][code // 64]) >> (code % 64) & 1
            node = grown["left"][node] + 1 - to_left
        values.append(grown["value"][node])
    return np.array(values)


@pytest.mark.slow
@settings(max_examples=200)
@given(growths(), st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_leaves_that_are_quantiles(case, seed, weighted):
    """Of the distances of their rows, shrunk by l2 as Newton steps are; of the first function of each output."""
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
            assert found["value"][leaf, k] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@settings(max_examples=200)
@given(growths(), st.integers(0, 2**32 - 1))
def test_quantiles_below_monotone_splits_keep_their_order(case, seed):
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
@settings(max_examples=200)
@given(growths(), st.integers(0, 2**32 - 1))
def test_repeats_equal_repeated_rows(case, seed):
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
@settings(max_examples=200)
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


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 80),
    st.sampled_from([2, 3, 10, 255]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from("CF"),
)
def test_codes_count_the_thresholds_below(seed, n_rows, max_bins, dtype, order):
    rng = np.random.default_rng(seed)
    X = np.asarray(random_matrix(rng, n_rows, 19), dtype=dtype, order=order)
    X.setflags(write=False)
    bins = Bins.from_data(X, max_bins)
    matrix = bins.encode(X, 2)
    codes = matrix.codes()
    for f, thresholds in enumerate(bins.thresholds):
        assert np.all(np.diff(thresholds) > 0)
        assert matrix.n_bins[f] == len(thresholds) + 1 <= max_bins
        expected = np.searchsorted(thresholds, X[:, f].astype(np.float64))
        assert np.array_equal(codes[:, f], np.where(np.isnan(X[:, f]), matrix.n_bins[f], expected))


def hard_column(rng, n_rows):
    """Values that are hard on sorting, on counting or on the way to a bin."""
    few = rng.choice([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1.5], n_rows)
    infinite = rng.choice([np.inf, -np.inf, np.finfo(np.float64).max, 0.0, np.nan], n_rows)
    return [
        rng.normal(size=n_rows) * 10.0 ** rng.integers(-30, 30),
        rng.lognormal(sigma=rng.integers(1, 9), size=n_rows),
        rng.standard_cauchy(n_rows),
        np.where(rng.random(n_rows) < 0.5, 0.0, rng.normal(size=n_rows)),
        np.where(rng.random(n_rows) < 0.2, np.nan, np.round(rng.normal(size=n_rows), rng.integers(0, 4))),
        rng.integers(0, 3000, n_rows) // rng.integers(1, 40) * 1.0,
        rng.geometric(0.02, n_rows) * 1.0,
        1.6e9 + rng.integers(0, 86_400, n_rows),
        1.0 + rng.normal(size=n_rows) * 1e-13,
        np.sort(rng.normal(size=n_rows)),
        np.full(n_rows, rng.choice([np.nan, 3.0])),
        few,
        infinite,
        np.where(rng.random(n_rows) < 0.1, infinite, rng.normal(size=n_rows)),
        np.where(rng.random(n_rows) < 0.1, infinite, rng.lognormal(sigma=20.0, size=n_rows)),
    ][rng.integers(15)]


def in_range(X, dtype):
    """Numbers beyond the largest of a type as that one; infinity stays."""
    return np.where(np.isinf(X), X, np.clip(X, np.finfo(dtype).min, np.finfo(dtype).max))


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 30, 300, 1100, 5000]),
    st.sampled_from([2, 3, 10, 64, 255]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from("CF"),
)
def test_thresholds_and_codes_of_the_kernel_equal_the_twin(seed, n_rows, max_bins, dtype, order):
    """The twin of the kernel is the rule for weighted rows, with equal weights."""
    rng = np.random.default_rng(seed)
    n_features = rng.choice([1, 5, 40, 70])
    X = np.column_stack([hard_column(rng, n_rows) for _ in range(n_features)])
    X = in_range(X, dtype).astype(dtype, order=order)
    bins = Bins.from_data(X, max_bins, n_threads=2)
    extreme = np.repeat(np.array([[np.inf], [-np.inf]], dtype), n_features, axis=1)
    others = np.concatenate([X[::-1], rng.normal(size=X.shape).astype(dtype), extreme])
    matrix = bins.encode(others, 2)
    codes = matrix.codes()
    for f, thresholds in enumerate(bins.thresholds):
        assert np.array_equal(thresholds, feature_thresholds(X[:, f], max_bins, np.ones(n_rows)))
        expected = np.searchsorted(thresholds, others[:, f].astype(np.float64))
        assert np.array_equal(codes[:, f], np.where(np.isnan(others[:, f]), matrix.n_bins[f], expected))


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 30, 2000]),
    st.sampled_from([2, 10, 255]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([csr_array, csc_array, coo_array]),
)
def test_bins_of_sparse_rows_are_those_of_dense_ones(seed, n_rows, max_bins, dtype, kind):
    rng = np.random.default_rng(seed)
    X = np.column_stack([hard_column(rng, n_rows) for _ in range(20)])
    X = in_range(X, dtype).astype(dtype)
    X[rng.random(X.shape) < rng.random()] = 0
    bins, dense = Bins.from_data(kind(X), max_bins, n_threads=2), Bins.from_data(X, max_bins)
    assert all(map(np.array_equal, bins.thresholds, dense.thresholds))
    assert np.array_equal(bins.encode(kind(X), 2).codes(), dense.encode(X, 2).codes())
    weights = Weights.of(rng.uniform(size=n_rows))
    bins, dense = Bins.from_data(kind(X), max_bins, weights), Bins.from_data(X, max_bins, weights)
    assert all(map(np.array_equal, bins.thresholds, dense.thresholds))


def test_several_values_at_one_place_of_a_sparse_matrix_are_their_sum():
    values, rows, columns = [1.0, 2.0, 5.0, 4.0, -3.0], [0, 0, 1, 2, 2], [0, 0, 1, 1, 1]
    X = coo_array((values, (rows, columns)), shape=(4, 2)).tocsr()
    X.data, X.indices, X.indptr = np.array(values), np.array(columns, dtype=np.int32), np.array([0, 2, 3, 5, 5])
    X.has_canonical_format = False
    bins, dense = Bins.from_data(X, 255), Bins.from_data(X.toarray(), 255)
    assert X.nnz == 5, "what was given stays as it was"
    assert all(map(np.array_equal, bins.thresholds, dense.thresholds))
    assert np.array_equal(bins.encode(X, 1).codes(), dense.encode(X.toarray(), 1).codes())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_thresholds_of_many_rows_come_from_a_sample(dtype, weighted):
    rng = np.random.default_rng(0)
    n_rows = MAX_SAMPLE + 1000
    X = rng.normal(size=(n_rows, 3)).astype(dtype)
    weight = rng.uniform(size=n_rows) if weighted else np.ones(n_rows)
    sample = np.sort(np.random.default_rng(0).choice(n_rows, MAX_SAMPLE, replace=False))
    for rows in (X, csr_array(X)):
        bins = Bins.from_data(rows, 255, Weights.of(weight) if weighted else None, n_threads=2)
        for f, thresholds in enumerate(bins.thresholds):
            assert np.array_equal(
                thresholds, feature_thresholds(X[sample, f], 255, Weights.of(weight).in_steps[sample])
            )


@settings(max_examples=200)
@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=40))
@example([-1.7976931348623157e308, 1.7976931348623157e308])
@example([-np.inf, np.inf])
@example([-np.inf, -1.7976931348623157e308, 1.7976931348623157e308, np.inf])
@example([0.0, 5e-324])
def test_every_distinct_value_has_its_own_bin_where_there_are_few(values):
    thresholds = thresholds_of(np.array(values), 255)
    codes = np.searchsorted(thresholds, values)
    for a, code_a in zip(values, codes, strict=True):
        for b, code_b in zip(values, codes, strict=True):
            assert (a < b) == (code_a < code_b)


def test_quantile_bins_hold_equal_shares():
    values = np.random.default_rng(0).lognormal(size=100_000)
    counts = np.bincount(np.searchsorted(thresholds_of(values, 100), values))
    assert len(counts) == 100
    assert counts.min() > 990
    assert counts.max() < 1010


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 200)), min_size=1, max_size=60),
    st.integers(2, 20),
)
def test_bins_do_not_depend_on_the_sign(pairs, max_bins):
    values = np.repeat([float(v) for v, _ in pairs], [n for _, n in pairs])
    thresholds = thresholds_of(values, max_bins)
    mirrored = -thresholds_of(-values, max_bins)[::-1]
    parts = np.bincount(np.searchsorted(thresholds, values))
    mirrored_parts = np.bincount(np.searchsorted(mirrored, values))
    assert len(thresholds) < max_bins
    assert len(thresholds) > 0 or len(set(values)) == 1
    # Ties between two cuts that are equally near may fall to either side.
    assert abs(len(parts) - len(mirrored_parts)) <= 1 + len(parts) // 4


def test_values_frequent_among_the_rest_do_not_waste_bins():
    rng = np.random.default_rng(0)
    rounded = np.concatenate([np.zeros(97_000), np.round(rng.lognormal(sigma=1.0, size=3000), 2)])
    assert len(np.unique(rounded)) > 300
    assert len(thresholds_of(rounded, 255)) > 230
    twice = np.concatenate([np.zeros(97_000), np.ones(1200), rng.uniform(size=1800)])
    assert len(thresholds_of(twice, 64)) == 63


def test_thresholds_of_many_rows_come_from_all_of_them():
    values = np.concatenate([np.zeros(250_000), np.linspace(1, 2, 250_000)])
    thresholds = thresholds_of(values, 64)
    assert (thresholds > 1).sum() > 55


@pytest.mark.parametrize("n", range(20, 60))
def test_rounding_is_no_gain(n):
    """All residuals are equal, and sums of their thirds are not exact."""
    X = np.arange(float(n))[:, np.newaxis]
    matrix = Bins.from_data(X, 255).encode(X, 1)
    for value in (1 / 3, 0.1, 1e-7, 12345.678):
        assert len(grow(matrix, np.full((1, n), value), None, Rules())["feature"]) == 1


@pytest.mark.parametrize("where", ["below", "above", "around"])
def test_a_frequent_value_leaves_the_bins_to_the_others(where):
    others = np.random.default_rng(0).uniform(size=3000) + {"below": -1.0, "above": 0.0, "around": -0.5}[where]
    values = np.concatenate([np.zeros(97_000), others])
    codes = np.searchsorted(thresholds_of(values, 64), values)
    counts = np.bincount(codes, minlength=64)
    assert len(np.unique(codes)) == 64
    assert counts.max() == 97_000, "the frequent value is alone in its bin"
    assert np.sort(counts)[-2] < 2 * 3000 / 63


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


def test_a_grower_forgets_the_tree_before():
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


def test_deep_trees_work_in_several_batches():
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
    """Whatever the numbers of the nodes; returns how many leaves there are."""
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


def test_a_shared_structure_scores_both_targets():
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


@given(seed=st.integers(0, 2**32 - 1), n_features=st.integers(1, 60), share=st.floats(0.0, 0.4), missing=st.booleans())
@settings(max_examples=40)
def test_sparse_features_that_share_columns_give_the_trees_of_dense_ones(seed, n_features, share, missing):
    """One-hot columns, columns with several values on both sides of zero, stored zeros, and rows that are watched."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((300, n_features)) < share, rng.integers(-2, 3, size=(300, n_features)), 0).astype(float)
    hot = rng.integers(0, 2 * n_features, size=300)
    X[np.arange(300)[hot < n_features], hot[hot < n_features]] = 1.0
    if missing:
        X[rng.random(X.shape) < share / 4] = np.nan
    rows = csr_array(X)
    rows.data[rng.random(len(rows.data)) < 0.05] = 0.0  # zeros may be stored
    dense = rows.toarray()
    r = np.where(np.isnan(dense), 1.0, dense) @ rng.normal(size=n_features) + rng.normal(size=300)
    learner = TreeLearner(max_depth=5, min_samples_leaf=3, colsample_bynode=0.7, n_threads=2)
    grown = [learner.bind(x, 200, None, np.zeros((1, 200))).fit(r[np.newaxis, :200], None) for x in (rows, dense)]
    assert np.array_equal(grown[0].model.nodes, grown[1].model.nodes)
    assert np.array_equal(grown[0].model.value, grown[1].model.value)
    assert np.array_equal(grown[0].values, grown[1].values)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_features_that_cannot_split_are_left_out_of_the_same_trees(data):
    """Against the twin, which sees all features; rows, features and weights of all kinds, dense and sparse."""
    X, n_train, residuals, hessians, rules, max_bins, categorical, n_threads = data.draw(growths())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    usual = data.draw(st.sampled_from([0.0, 2.5, np.nan]))
    X = np.where(rng.random(X.shape) < data.draw(st.sampled_from([0.0, 0.3, 0.8, 0.95])), usual, X)
    sample = data.draw(st.one_of(st.none(), samples(n_train, X.shape[1])))
    repeats = rng.integers(1, 4, size=n_train) if data.draw(st.booleans()) else None
    bins = Bins.from_data(X[:n_train], max_bins, n_categories=category_counts(X, categorical), residual=residuals)
    whole = bins.encode(X, n_threads)
    expected = grow(whole, residuals, hessians, rules, n_threads, repeats, sample)
    leaf = LeafRows(rules.min_samples_leaf, n_train, repeats)
    for rows in [X] if categorical.any() else [X, csr_array(X)]:
        matrix = bins.encode(rows, n_threads, leaf)
        found = grow(matrix, residuals, hessians, rules, n_threads, repeats, sample)
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name
    if repeats is None:
        n_categories = [bins.grouped[f].n_told_apart if c else 0 for f, c in enumerate(categorical)]
        nodes = Grower(whole.codes(), whole.n_bins, residuals, hessians, rules, n_categories, sample).grow()
        assert np.array_equal(expected["count"], [len(node.rows) for node in nodes])
        assert np.array_equal(expected["feature"], [node.split.feature if node.children else -1 for node in nodes])


@pytest.mark.parametrize("kind", [csr_array, np.asarray])
def test_which_features_can_split(kind):
    """Nine rows for training, of which both sides need three, and one more row."""
    columns = {
        "two values": [0, 0, 0, 0, 0, 0, 0, 1, 2, 0],
        "three values": [0, 0, 0, 0, 0, 0, 3, 1, 2, 0],
        "three, one of which is not for training": [0, 0, 0, 0, 0, 0, 0, 1, 2, 3],
        "two on each side": [0, 0, 0, 0, 0, -1, -2, 1, 2, 0],
        "two, and one on the other side": [0, 0, 0, 0, 0, 0, -2, 1, 2, 0],
        "three on one side": [0, 0, 0, 0, -1, -2, -3, 1, 2, 0],
        "two missing": [0, 0, 0, 0, 0, 0, 0, np.nan, np.nan, 0],
        "three missing": [0, 0, 0, 0, 0, 0, np.nan, np.nan, np.nan, 0],
        "two and one missing": [0, 0, 0, 0, 0, 0, np.nan, 1, 2, 0],
        "one on each side and one missing": [0, 0, 0, 0, 0, 0, np.nan, 1, -1, 0],
        "two zeros": [5, 5, 5, 5, 5, 5, 5, 0, 0, 5],
        "three zeros": [5, 5, 5, 5, 5, 5, 0, 0, 0, 5],
        "constant": [7] * 10,
        "nothing": [0] * 10,
    }
    can = {"three values", "three on one side", "three missing", "two and one missing", "three zeros"}
    for name, column in columns.items():
        X = kind(np.array(column, dtype=float)[:, np.newaxis])
        bins = Bins.from_data(X, 255)
        assert bins.encode(X, 1, LeafRows(3, 9, None)).n_columns == (name in can), name
        assert bins.encode(X, 1).n_columns == 1, name
    X = kind(np.array(columns["two values"], dtype=float)[:, np.newaxis])
    repeats = np.array([1, 1, 1, 1, 1, 1, 1, 2, 1])
    assert Bins.from_data(X, 255).encode(X, 1, LeafRows(3, 9, repeats)).n_columns == 1, "repeated rows count"


def test_rows_far_down_tell_whether_a_dense_feature_can_split():
    X = np.zeros((70_000, 40))
    X[-5:, ::2] = 1.0
    bins = Bins.from_data(X, 255)
    whole, matrix = bins.encode(X, 2), bins.encode(X, 2, LeafRows(5, len(X), None))
    assert (whole.n_columns, matrix.n_columns) == (40, 20)
    assert bins.encode(X, 2, LeafRows(5, len(X) - 1, None)).n_columns == 0
    residuals, rules = X[:, :1].T + np.arange(70_000.0) % 7, Rules(max_depth=2, min_samples_leaf=5)
    for name, array in grow(whole, residuals, None, rules).items():
        assert np.array_equal(grow(matrix, residuals, None, rules)[name], array), name


@pytest.mark.parametrize("kind", [csr_array, csr_array.toarray])
def test_a_tree_without_features_that_can_split_is_a_leaf(kind):
    X = kind(csr_array((np.ones(5), (np.arange(5), np.arange(5))), shape=(30, 40)))
    target = np.arange(30.0)[np.newaxis]
    fit = TreeLearner(max_depth=3, min_samples_leaf=2).bind(X, 30, None, target).fit(target, None)
    assert len(fit.model.nodes) == 1
    assert np.array_equal(fit.values, np.full((1, 30), 14.5))
    assert np.array_equal(fit.model.predict(X, 1)[0], fit.values)


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 3])
def test_columns_that_are_lists_give_the_trees_of_dense_ones(n_threads):
    """So many rows that nodes are cut in pieces; rare and frequent values, of which there are few and many."""
    rng = np.random.default_rng(12)
    n_rows, n_train = 40_000, 35_000
    share = np.geomspace(0.001, 0.6, 60)
    X = np.where(rng.random((n_rows, 60)) < share, np.round(rng.normal(size=(n_rows, 60)), 1), 0.0)
    target = (np.sign(X) @ rng.normal(size=60) + 0.1 * rng.normal(size=n_rows))[np.newaxis, :n_train]
    learner = TreeLearner(max_depth=9, min_samples_leaf=5, subsample=0.9, n_threads=n_threads)
    found = [learner.bind(rows, n_train, None, target).fit(target, None) for rows in (csr_array(X), X)]
    assert len(found[0].model.nodes) > 100
    assert np.array_equal(found[0].model.nodes, found[1].model.nodes)
    assert np.array_equal(found[0].values, found[1].values)
    bins = Bins.from_data(X, 255)
    assert np.array_equal(bins.encode(csr_array(X[:500]), n_threads).codes(), bins.encode(X[:500], 1).codes())


def test_numbers_of_nodes_do_not_depend_on_the_layout_of_columns():
    """So many cells that growth works in small batches, which number the nodes; and these decide what a node sees."""
    rng = np.random.default_rng(13)
    X = (rng.random((200, 1024)) < 0.02).astype(float)
    X[:, ::16] = rng.normal(size=(200, 64))
    target = rng.normal(size=(24, 200))
    learner = TreeLearner(max_depth=7, vector_leaves=True, min_samples_leaf=2, colsample_bynode=0.2, n_threads=2)
    found = [learner.bind(rows, 200, None, target).fit(target, None) for rows in (csr_array(X), X)]
    assert len(found[0].model.nodes) > 50
    assert np.array_equal(found[0].model.nodes, found[1].model.nodes)


def test_exclusive_features_share_columns():
    hot = np.eye(40)[np.random.default_rng(0).integers(0, 40, size=500)]
    bins = Bins.from_data(csr_array(hot), 255)
    shared = bins.encode(csr_array(hot), 1)
    assert shared.n_columns == 1
    assert np.array_equal(shared.codes(), hot)
    assert bins.encode(hot, 1).n_columns == 40
    dense = bins.encode(hot, 1, LeafRows(2, 500, None))
    assert dense.n_columns == 1
    assert np.array_equal(dense.codes(), hot)


def usual_values(rng, n_rows):
    """Columns of a dense table that mostly have one value, which is not zero, and some others."""
    X = np.tile(np.r_[np.zeros(12), np.full(6, 3.0), np.zeros(4)], (n_rows, 1))
    X[np.arange(n_rows), rng.integers(0, 12, size=n_rows)] = 1.0  # indicators
    unusual = rng.choice(np.r_[np.nan, 0:7], size=n_rows)  # below and above the usual value, and missing
    which = rng.integers(12, 30, size=n_rows)
    for column in range(12, 18):
        X[which == column, column] = unusual[which == column]
    X[:, 18:20] = rng.normal(size=(n_rows, 2))
    X[:, 20] = rng.random(n_rows) < 0.2  # meets all others
    return X  # the last column is constant


@pytest.mark.parametrize(("n_rows", "n_threads"), [(600, 1), (40_000, 3)])
def test_dense_features_that_share_columns_give_the_same_trees(n_rows, n_threads):
    rng = np.random.default_rng(21)
    X = usual_values(rng, n_rows)
    bins = Bins.from_data(X, 255)
    own, shared = bins.encode(X, n_threads), bins.encode(X, n_threads, LeafRows(4, n_rows, None))
    assert (own.n_columns, shared.n_columns) == (22, 5)  # indicators, unusual values, two of many values, the last
    kept = np.arange(21)
    assert [shared.n_bins[f] for f in kept] == [own.n_bins[f] for f in kept]
    residual = np.nan_to_num(X) @ rng.normal(size=22) + np.isnan(X).any(axis=1) + rng.normal(size=n_rows)
    residuals, rules = residual[np.newaxis], Rules(max_depth=7, min_samples_leaf=4)
    for hessian in (None, rng.uniform(0.5, 1.5, size=(1, n_rows))):
        expected, found = (grow(matrix, residuals, hessian, rules) for matrix in (own, shared))
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("usual", [np.nan, 0.0, 1.0, 3.0])
def test_shared_columns_of_every_usual_bin_give_the_same_trees(usual):
    """The usual bin may be that of missing values, which otherwise has the last code of a feature."""
    rng = np.random.default_rng(23)
    X = np.full((400, 3), usual)
    which = rng.integers(0, 4, size=400)
    for column in range(3):
        X[which == column, column] = rng.choice([np.nan, 0.0, 1.0, 2.0, 3.0], size=(which == column).sum())
    bins = Bins.from_data(X, 255)
    own, shared = bins.encode(X, 1), bins.encode(X, 1, LeafRows(1, 400, None))
    assert (own.n_columns, shared.n_columns) == (3, 1)
    residuals, rules = rng.normal(size=(1, 400)), Rules(max_depth=6, min_samples_leaf=1)
    expected, found = (grow(matrix, residuals, None, rules) for matrix in (own, shared))
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.06, 0.1]), st.sampled_from([np.nan, 0.0, 1.0]))
def test_dense_tables_of_rare_values_give_the_same_trees(seed, share, usual):
    """Rows list the cells of shared columns that mostly have their usual bins, if there are many such columns."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(100, 300))
    rare = rng.random((300, n_features)) < share
    X = np.where(rare, rng.choice([np.nan, 0.0, 1.0, 2.0], size=rare.shape), usual)
    X[:, :3] = rng.normal(size=(300, 3))
    categorical = np.arange(n_features) == 3
    X[:, 3] = rng.integers(0, 5, size=300)
    bins = Bins.from_data(X, 255, n_categories=category_counts(X, categorical), residual=np.zeros((1, 300)))
    own, shared = bins.encode(X, 2), bins.encode(X, 2, LeafRows(2, 300, None))
    assert shared.n_columns < n_features
    residuals, rules = rng.normal(size=(1, 300)), Rules(max_depth=6, min_samples_leaf=2)
    for hessian in (None, rng.uniform(0.5, 1.5, size=(1, 300))):
        expected, found = (grow(matrix, residuals, hessian, rules, 2) for matrix in (own, shared))
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_many_rows_of_rare_values_give_the_same_trees(form, n_threads):
    """The root has so many rows that it keeps a histogram, to which the lists of all rows are added in one loop."""
    rng = np.random.default_rng(7)
    X = np.where(rng.random((20_000, 30)) < 0.08, rng.integers(1, 4, size=(20_000, 30)), 0).astype(float)
    X[X[:, 0] > 0, 1] = 0.0  # so that these two share a column
    X[:5000] = X[-1] = 0.0  # rows without other values, also at the end
    own, shared = (Bins.from_data(form(X), 255).encode(rows, n_threads, leaf) for rows, leaf in (
        (X, None), (form(X), LeafRows(5, len(X), None)),
    ))  # fmt: skip
    assert shared.n_columns < own.n_columns
    r = (X @ rng.normal(size=30) + rng.normal(size=len(X)))[np.newaxis]
    residuals, hessians = np.concatenate([r, r**2, r**3, -r]), rng.uniform(0.5, 1.5, size=(1, len(X)))
    for n_residuals, hessian in ((1, None), (1, hessians), (2, hessians), (4, hessians)):
        rules = Rules(max_depth=4, min_samples_leaf=5)
        expected, found = (grow(matrix, residuals[:n_residuals], hessian, rules, n_threads) for matrix in (own, shared))
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name


def test_categories_keep_their_columns_next_to_shared_ones():
    rng = np.random.default_rng(22)
    X = usual_values(rng, 3000)
    X[:, 5] = rng.choice(8, size=3000, p=[0.86] + [0.02] * 7)
    n_categories = np.where(np.arange(22) == 5, 8, 0)
    target = (np.nan_to_num(X) @ rng.normal(size=22) + 3 * (X[:, 5] % 3))[np.newaxis]
    rules = {"max_depth": 6, "min_samples_leaf": 4, "n_categories": n_categories}
    fit = TreeLearner(**rules).bind(X, 3000, None, target).fit(target, None)
    bins = Bins.from_data(X, 255).with_categories({5: GroupedCategories.from_data(X[:, 5], 8, 255, None, target, 4)})
    coded = CodedRows(bins, bins.encode(X, 1))
    own = TreeFitter(TreeLearner(**rules), coded, RingPart(3000), None).fit(target, None)
    assert (fit.model.nodes["feature"] == 5).any()
    assert np.array_equal(fit.model.nodes, own.model.nodes)
    assert np.array_equal(fit.values, own.values)


@given(
    seed=st.integers(0, 1000), begin=st.integers(0, 20), n_ring=st.integers(1, 60), n_after=st.integers(0, 9),
    n_threads=st.integers(1, 3), weighted=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_rows_on_a_ring_are_rows_in_another_order(seed, begin, n_ring, n_after, n_threads, weighted):
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


class TestGroupedCategories:
    def test_few_have_a_bin_each(self):
        grouped = GroupedCategories.from_data(np.array([0.0, 3.0, np.nan, 1.0, 3.0]), 5, 4, None, np.ones((1, 5)))
        assert grouped.bins.tolist() == [0, 1, -1, 2, -1, -1]
        assert (grouped.n_bins, grouped.n_told_apart) == (3, 3)
        assert np.array_equal(
            grouped.bins_of(np.array([3.0, 2.0, 9.0, np.nan])), [2, np.nan, np.nan, np.nan], equal_nan=True
        )

    def test_none_at_all(self):
        grouped = GroupedCategories.from_data(np.full(3, np.nan), 1, 4, None, np.ones((1, 3)))
        assert (grouped.n_bins, grouped.n_told_apart) == (1, 1)
        assert grouped.bins.tolist() == [-1, -1]

    @settings(max_examples=100)
    @given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 3), st.booleans())
    def test_many_share_with_those_that_are_alike(self, seed, max_bins, n_outputs, weighted):
        rng = np.random.default_rng(seed)
        n_categories = int(rng.integers(max_bins + 1, 200))
        column = np.append(np.arange(n_categories), rng.integers(0, n_categories, size=3000) ** 2 // n_categories)
        residual = rng.normal(size=(n_outputs, len(column))) * np.array([[1.0], [5.0], [2.0]])[:n_outputs]
        weight = rng.integers(1, 4, size=len(column)) if weighted else None
        unseen = n_categories + 3  # some that no training row has, and after them what is unknown
        grouped = GroupedCategories.from_data(column.astype(float), unseen, max_bins, Weights.of(weight), residual)
        rows = np.bincount(column, weights=weight)
        bins = grouped.bins[:n_categories]
        assert bins.min() == 0
        assert grouped.n_bins <= max_bins
        assert np.array_equal(np.unique(bins), np.arange(grouped.n_bins)), "no bin is empty"
        few = rows < 10
        assert grouped.n_told_apart == np.count_nonzero(~few) + few.any()
        if few.any():
            assert np.array_equal(bins == 0, few)
        assert grouped.bins[n_categories:].tolist() == [0 if few.any() else -1] * 4, (
            "as those with few rows, or missing"
        )
        means = [np.bincount(column, weights=r if weight is None else r * weight) / (rows + 10) for r in residual]
        mean = max(means, key=lambda m: (m**2 * rows).sum())[~few]
        order = np.argsort(mean, kind="stable")
        assert np.all(np.diff(bins[~few][order]) >= 0), "bins follow the means"
        repeated = column if weight is None else np.repeat(column, weight)
        again = GroupedCategories.from_data(
            repeated.astype(float),
            unseen,
            max_bins,
            None,
            residual if weight is None else np.repeat(residual, weight, axis=1),
        )
        assert np.array_equal(again.bins, grouped.bins), "a whole weight is a repeated row"


def test_categories_that_are_all_alike_are_not_split():
    """Sorted by chance, a thousand categories would look like a strong feature."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 1000, size=20_000), rng.normal(size=20_000)]).astype(float)
    target = 0.1 * np.sign(X[:, 1])[np.newaxis] + rng.normal(size=(1, 20_000))
    learner = TreeLearner(max_depth=4, n_categories=np.array([20_000, 0]))
    split_on = learner.bind(X, 20_000, None, target).fit(target, None).model.nodes["feature"]
    assert split_on[0] == 1
    assert np.count_nonzero(split_on == 0) <= 1
    ids = np.column_stack([np.arange(20_000), X[:, 1]]).astype(float)  # a name for every row
    labels = np.sign(target)
    assert 0 not in learner.bind(ids, 20_000, None, labels).fit(labels, None).model.nodes["feature"]


def test_missing_values_only_in_prediction_follow_the_larger_child():
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


bad_calls = [
    ({"residuals": np.zeros((1, 9))}, "residuals"),
    ({"residuals": np.zeros((0, 5))}, "residuals"),
    ({"residuals": [np.zeros(5), np.zeros(4)]}, "residuals"),
    ({"hessians": np.ones((1, 4))}, "hessians"),
    ({"hessians": np.ones((2, 5))}, "hessians"),
    ({"hessians": np.array([[1.0, 1.0, 1.0, 1.0, -1.0]])}, "hessians"),
    ({"rows": np.array([1, 1], dtype=np.uint32)}, "rows"),
    ({"rows": np.array([5], dtype=np.uint32)}, "rows"),
    ({"rows": np.zeros(0, dtype=np.uint32)}, "rows"),
    ({"features": np.ones(3, dtype=np.uint8)}, "features"),
    ({"node_share": 0.0}, "node_share"),
    ({"monotone": [1]}, "monotone"),
    ({"monotone": [2, 0]}, "monotone"),
    ({"interactions": [[2]]}, "interactions"),
    ({"repeats": np.ones(4, dtype=np.int64)}, "repeats"),
    ({"repeats": np.zeros(5, dtype=np.int64)}, "repeats"),
    ({"repeats": np.full(5, 2**40)}, "repeats"),
    ({"max_depth": 0}, "max_depth"),
    ({"max_leaf_nodes": 1}, "max_leaf_nodes"),
    ({"min_samples_leaf": 0}, "min_samples_leaf"),
    ({"l2_regularization": [-1.0]}, "l2_regularization"),
    ({"l2_regularization": [1.0, 1.0]}, "l2_regularization"),
    ({"l2_regularization": []}, "l2_regularization"),
]


@pytest.mark.parametrize(("change", "name"), bad_calls)
def test_kernels_refuse_arrays_that_do_not_fit(change, name):
    X = np.arange(10.0).reshape(5, 2)
    arguments = {"residuals": np.zeros((1, 5)), "hessians": None, "repeats": None, "rows": None, "features": None}
    arguments = {**arguments, "node_share": 1.0, "seed": 0, **asdict(Rules()), **change}
    names = ("residuals", "hessians", "repeats", "rows", "features", "node_share", "seed", *LEAF_RULES)
    inputs = {key: arguments.pop(key) for key in names}
    bins = Bins.from_data(X, 10)
    with pytest.raises(ValueError, match=name):
        _native.Grower(bins.encode(X, 1), bins.flat_thresholds, **arguments, n_threads=1).grow(**inputs)


def test_a_feature_without_order_cannot_be_monotone():
    X = np.zeros((5, 1))
    matrix = Bins.from_data(X, 10, n_categories=np.array([1])).encode(X, 1)
    with pytest.raises(ValueError, match="monotone"):
        grow(matrix, np.zeros((1, 5)), None, Rules(monotone=[1]))


def test_matrices_refuse_what_does_not_fit():
    X = np.arange(10.0).reshape(5, 2)
    matrix = _native.BinnedMatrix(5, [3, 2], [0, 0])
    with pytest.raises(TypeError):
        matrix.fill(0, X.astype(int), np.zeros(3), 1)
    for first, block, thresholds, name in (
        (0, X, np.zeros(2), "thresholds"),
        (0, X, np.zeros(4), "thresholds"),
        (1, X, np.zeros(3), "features"),
        (-1, X, np.zeros(3), "features"),
        (0, X[:4], np.zeros(3), "rows"),
    ):
        with pytest.raises(ValueError, match=name):
            matrix.fill(first, block, thresholds, 1)
    for n_bins, n_categories, name in (
        ([], [], "n_bins"),
        ([256], [0], "n_bins"),
        ([0], [0], "n_bins"),
        ([3], [-1], "n_categories"),
    ):
        with pytest.raises(ValueError, match=name):
            _native.BinnedMatrix(5, n_bins, n_categories)
    with pytest.raises(ValueError, match="n_categories"):
        _native.BinnedMatrix(5, [3], [])
    for rows, start, name in (
        ([0], [0, 1, 2], "rows"),
        ([0, 5], [0, 1, 2], "rows"),
        ([1, 1], [0, 2, 2], "rows"),
        ([3, 1], [0, 2, 2], "rows"),
        ([0, 1], [], "start"),
        ([0, 1], [0, 2], "start"),
        ([0, 1], [0, 1, 3], "start"),
        ([0, 1], [0, 3, 2], "start"),
        ([0, 1], [1, 1, 2], "start"),
    ):
        with pytest.raises(ValueError, match=name):
            sparse_matrix(np.ones(2), rows, start)
    nothing = np.ones(0), [], [0, 0, 0]
    with pytest.raises(ValueError, match="thresholds"):
        sparse_matrix(*nothing, thresholds=np.zeros(2))
    for leaf, name in (
        ({"min_samples_leaf": 1, "n_train": 6}, "n_train"),
        ({"min_samples_leaf": -1, "n_train": 5}, "min_samples_leaf"),
        ({"min_samples_leaf": 1, "n_train": 5, "repeats": np.ones(4, dtype=np.int64)}, "repeats"),
    ):
        with pytest.raises(ValueError, match=name):
            sparse_matrix(*nothing, **leaf)


def sparse_matrix(values, rows, start, thresholds=None, **leaf):
    """Five rows of two features with two and three bins."""
    rows, start = np.array(rows, dtype=np.uint32), np.array(start, dtype=np.int64)
    thresholds = np.zeros(3) if thresholds is None else thresholds
    return _native.BinnedMatrix.from_sparse(values, rows, start, 5, [2, 3], thresholds, 1, **leaf)


def test_matrices_without_all_features_refuse_what_they_cannot_know():
    leaf = {"min_samples_leaf": 2, "n_train": 4}
    matrix = sparse_matrix(np.ones(3), [0, 1, 4], [0, 3, 3], thresholds=np.array([0.5, -1.0, 0.5]), **leaf)
    assert (matrix.n_features, matrix.n_columns) == (2, 1)
    with pytest.raises(ValueError, match="their own columns"):
        matrix.leave_out(1, **leaf)
    with pytest.raises(ValueError, match="n_train"):
        _native.BinnedMatrix(5, [3], [0]).leave_out(1, 1, 6)
    with pytest.raises(ValueError, match="no column"):
        matrix.codes()
    with pytest.raises(ValueError, match="their own columns"):
        matrix.columns()
    with pytest.raises(ValueError, match="min_samples_leaf"):
        grow(matrix, np.zeros((1, 4)), None, Rules(min_samples_leaf=1))
    with pytest.raises(ValueError, match="residuals"):
        grow(matrix, np.zeros((1, 5)), None, Rules(min_samples_leaf=2))
    record = np.zeros(3, NODE)
    record["feature"], record["left"] = [1, -1, -1], [1, -1, -1]
    first = np.zeros(1, dtype=np.int32)
    codes = np.zeros((3, 4), dtype=np.uint64)
    with pytest.raises(ValueError, match="no such feature"):
        matrix.values(first, first, record.view(np.uint8), codes, np.zeros((3, 1)), 1, 1)


def test_thresholds_refuse_what_does_not_fit():
    X = np.arange(10.0).reshape(5, 2)
    for rows, max_bins, name in (([5], 10, "rows"), ([-1], 10, "rows"), ([0], 1, "max_bins"), ([0], 256, "max_bins")):
        with pytest.raises(ValueError, match=name):
            _native.thresholds(X, np.array(rows), max_bins, 1)
    for start, max_bins, name in (
        ([0, 6], 10, "rows"),
        ([0, 5], 10, "start"),
        ([], 10, "start"),
        ([0, 6], 1, "max_bins"),
    ):
        with pytest.raises(ValueError, match=name):
            _native.sparse_thresholds(np.ones(6), np.array(start, dtype=np.int64), 5, max_bins, 1)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"left": np.array([0, -1, -1], dtype=np.int32)}, "left"),
        ({"left": np.array([2, -1, -1], dtype=np.int32)}, "left"),
        ({"feature": np.array([4, -1, -1], dtype=np.int32)}, "feature"),
        ({"roots": np.array([3], dtype=np.int32)}, "roots"),
        ({"value": np.zeros((2, 1))}, "value"),
        ({"value": np.zeros((3, 2))}, "value: more than the forest has columns"),
        ({"value": np.zeros((3, 0))}, "n_values"),
        ({"value": np.full((3, 1), np.inf)}, "value: some are not finite"),
        ({"threshold": np.array([np.nan, 0.0, 0.0])}, "threshold"),
        ({"missing_left": np.array([2, 0, 0], dtype=np.uint8)}, "missing_left"),
        ({"feature": np.full(3, -1, dtype=np.int32), "left": np.full(3, -1, dtype=np.int32)}, "belongs to no tree"),
        (
            {"roots": np.array([0, 1], dtype=np.int32), "first_column": np.zeros(2, dtype=np.int32)},
            "in another tree",
        ),
        (
            {
                "feature": np.array([0, 0, -1, -1], dtype=np.int32),
                "left": np.array([1, 2, -1, -1], dtype=np.int32),
                "threshold": np.zeros(4),
                "missing_left": np.zeros(4, dtype=np.uint8),
                "categories": np.full(4, -1, dtype=np.int32),
                "value": np.zeros((4, 1)),
            },
            "reached twice",
        ),
        ({"first_column": np.array([1], dtype=np.int32)}, "first_column"),
        ({"first_column": np.zeros(2, dtype=np.int32)}, "first_column"),
        ({"categories": np.array([1, -1, -1], dtype=np.int32)}, "categories"),
        ({"category_start": np.zeros(0, dtype=np.int64)}, "category_start"),
        ({"category_start": np.array([0, 2])}, "category_start"),
        ({"category_start": np.array([1, 1])}, "category_start"),
    ],
)
def test_forests_are_checked_before_they_walk(change, name):
    arrays = {
        "n_columns": 1,
        "roots": np.zeros(1, dtype=np.int32),
        "first_column": np.zeros(1, dtype=np.int32),
        "feature": np.array([0, -1, -1], dtype=np.int32),
        "threshold": np.zeros(3),
        "left": np.array([1, -1, -1], dtype=np.int32),
        "missing_left": np.zeros(3, dtype=np.uint8),
        "categories": np.full(3, -1, dtype=np.int32),
        "category_words": np.zeros(1, dtype=np.uint64),
        "category_start": np.array([0, 1]),
        "value": np.zeros((3, 1)),
    }
    forest = native_forest(2, **arrays)
    with pytest.raises(ValueError, match="features"):
        sums_of_trees(forest, np.zeros((4, 3)), 1)
    with pytest.raises(ValueError, match=name):
        native_forest(2, **{**arrays, **change})
