"""Matrices, rules and samples of all kinds, and trees that the native kernel grows of them."""

from dataclasses import asdict

import numpy as np
from hypothesis import strategies as st

from agbm._base import _native
from agbm._tree.forest import NODE
from tree_twin import Rules, Sample


def random_matrix(rng, n_rows, n_features, kinds="mixed"):
    """Columns of many kinds: continuous, few values, constant, with missing values or infinite ones, all missing."""
    columns = []
    for _ in range(n_features):
        kind = kinds
        if kinds == "mixed":
            kind = rng.choice(["continuous", "few", "constant", "missing and few", "missing", "infinite"])
        column = rng.normal(size=n_rows)
        if kind == "few":
            column = rng.integers(0, 4, size=n_rows).astype(float)
        elif kind == "constant":
            column = np.full(n_rows, 2.5)
        elif kind == "missing and few":
            column = np.where(rng.random(n_rows) < 0.4, np.nan, rng.integers(0, 6, size=n_rows))
        elif kind == "missing":
            column = np.full(n_rows, np.nan)
        elif kind == "infinite":
            column = np.where(rng.random(n_rows) < 0.5, column, rng.choice([np.inf, -np.inf, np.nan, 0.0], n_rows))
        columns.append(column)
    return np.column_stack(columns)


LEAF_RULES = ("min_hessian_leaf", "l1_regularization", "l2_regularization")


def grow(matrix, residuals, hessians, rules, n_threads=1, repeats=None, sample=None, quantiles=None, n_outputs=0):
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
        n_outputs=n_outputs,
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
        l1_regularization=draw(st.sampled_from([0.0, 0.0, 0.7, 3.0])),
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
