"""Trees grown on a device have the bits of those grown by the CPU."""

import numpy as np
import pytest

from agbm._base import _native
from agbm._base.weights import Weights
from agbm._core.learners import DivergedError, Newton
from agbm._core.ring import RingPart
from agbm._engines.device.bins import GROUP_COLUMNS, BinnedRows
from agbm._engines.device.fitter import DeviceFitter, DeviceWeights
from agbm._tree import TreeLearner
from agbm._tree.bins import Bins
from agbm._tree.learner import CodedRows, TreeFitter
from devices import a_device
from emulated_device import WAIT, EmulatedDevice, address_of

N_TRAIN, N_ROWS, N_FEATURES = 330, 370, 5


def make_table(rng, categories, missing, n_features):
    X = rng.normal(size=(N_ROWS, n_features)).round(2)
    n_categories = np.zeros(n_features, dtype=np.intp)
    if categories:
        for feature, n in ((0, 12), (n_features - 1, 40)):
            n_categories[feature], X[:, feature] = n, rng.integers(0, n, N_ROWS)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, n_categories


def device_rows(device, bins, matrix):
    columns = matrix.columns()
    codes = np.zeros((-(-len(columns) // GROUP_COLUMNS), columns.shape[1], GROUP_COLUMNS), dtype=np.uint8)
    for feature, column in enumerate(columns):
        codes[feature // GROUP_COLUMNS, :, feature % GROUP_COLUMNS] = column
    return BinnedRows.of(device, bins, device.to_device(codes), columns.shape[1])


def fitters(X, n_categories, r, weights, device=None, **settings):
    """The fitter of the CPU, and that of a device."""
    learner, n_train = TreeLearner(n_categories=n_categories, **settings), r.shape[1]
    bins = Bins.from_data(X[:n_train], learner.max_bins, weights, n_categories, r, learner.min_category_rows)
    matrix = bins.encode(X, 1)
    device = device or a_device(2)
    rows = device_rows(device, bins, matrix)
    on_device = DeviceFitter(learner, rows, RingPart(n_train), DeviceWeights.of(device, weights))
    return TreeFitter(learner, CodedRows(bins, matrix), RingPart(n_train), weights), on_device, device


def check_same(device, expected, found):
    for name in ("nodes", "value", "category_words", "category_start", "roots", "first_column"):
        assert getattr(expected.model, name).tobytes() == getattr(found.model, name).tobytes(), name
    assert expected.values.tobytes() == device.to_host(found.values).tobytes()
    assert expected.explained.tobytes() == device.to_host(found.explained).tobytes()


CASES = {
    "gradient steps": {"max_depth": 3},
    "newton steps, missing values": {"newton": True, "missing": True, "max_depth": 4},
    "best first": {"newton": True, "missing": True, "max_depth": None, "max_leaf_nodes": 9, "min_samples_leaf": 5},
    "categories": {"categories": True, "missing": True, "max_depth": 4},
    "smallest hessians, l2": {
        "categories": True, "newton": True, "max_depth": 4, "min_hessian_leaf": 10.0, "l2_regularization": 3.0,
    },
    "l1": {"categories": True, "newton": True, "max_depth": 4, "l1_regularization": 2.0},
    "l1, monotone": {"monotone": [[1, 0, -1, 0, 0]], "max_depth": 4, "l1_regularization": 2.0},
    "two values per leaf": {
        "functions": 2, "shared_structure": True, "newton": True, "categories": True, "max_depth": 4,
    },
    "a second tree": {"functions": 2, "newton": True, "max_depth": 3},
    "vector leaves": {
        "outputs": 3, "newton": True, "vector_leaves": True, "categories": True, "missing": True, "max_depth": 4,
    },
    "many outputs": {"outputs": 30, "newton": True, "vector_leaves": True, "max_depth": 2, "categories": True},
    "a sketch of the outputs": {
        "outputs": 9, "newton": True, "vector_leaves": True, "sketched_outputs": 4, "categories": True, "max_depth": 4,
    },
    "a sketch, gradient steps": {"outputs": 9, "vector_leaves": True, "sketched_outputs": 2, "max_depth": 4},
    "a tree per output": {"outputs": 3, "newton": True, "missing": True, "max_depth": 3},
    "two values, vector leaves": {"outputs": 3, "functions": 2, "shared_structure": True, "vector_leaves": True},
    "counts": {"weights": "counts", "newton": True, "max_depth": 4},
    "relative weights": {"weights": "relative", "newton": True, "max_depth": 4},
    "relative weights, gradient steps": {"weights": "relative", "max_depth": 4},
    "monotone": {"monotone": [[1, 0, -1, 0, 0]], "newton": True, "missing": True, "max_depth": 5},
    "monotone, gradient steps": {"monotone": [[1, 0, -1, 0, 0]], "max_depth": 5},
    "monotone by output": {"outputs": 2, "monotone": [[1, 0, -1, 0, 0], [0, 1, 0, 0, 0]], "max_depth": 3},
    "samples and interactions": {
        "interactions": [[0, 1], [2, 3, 4]], "subsample": 0.5, "colsample_bytree": 0.7, "colsample_bynode": 0.6,
        "max_depth": 4,
    },
    "several groups of columns": {"n_features": 19, "newton": True, "max_depth": 3},
    "few bins": {"max_bins": 3, "max_depth": 3, "min_samples_leaf": 1},
    "more nodes than a batch has": {"n_features": 1, "max_depth": 12, "min_samples_leaf": 1},
    "quantiles": {"newton": True, "quantile": 0.7, "max_depth": 3},
    "quantiles with weights": {"newton": True, "quantile": 0.1, "weights": "relative", "max_depth": 3},
    "quantiles with counts": {"newton": True, "quantile": 0.5, "weights": "counts", "max_depth": 3},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_trees_have_the_bits_of_the_cpu(case):
    settings = {"outputs": 1, "functions": 1, "n_features": N_FEATURES, "newton": False, "weights": None, **case}
    outputs, functions, n_features = (settings.pop(name) for name in ("outputs", "functions", "n_features"))
    newton, quantile, kind = settings.pop("newton"), settings.pop("quantile", None), settings.pop("weights")
    rng = np.random.default_rng(0)
    X, n_categories = make_table(rng, settings.pop("categories", False), settings.pop("missing", False), n_features)
    signal = np.nan_to_num(X[:N_TRAIN, rng.integers(0, n_features, outputs)]).T
    residuals = [2.0 * signal + rng.normal(size=signal.shape) for _ in range(functions)]
    hessian = rng.random(signal.shape) + 0.1
    distance = rng.normal(size=signal.shape) if quantile else None
    shares = () if quantile is None else (quantile,) * outputs
    weight = {None: None, "counts": rng.integers(1, 4, N_TRAIN), "relative": rng.random(N_TRAIN) + 0.1}[kind]
    weights = Weights.of(weight)
    cpu, on_device, device = fitters(X, n_categories, residuals[0], weights, **settings)

    def newton_of(place):
        return Newton(place(hessian), None if distance is None else place(distance), shares) if newton else None

    for _ in range(2):  # buffers are kept from tree to tree
        if functions == 1:
            expected = [cpu.fit(residuals[0], newton_of(lambda x: x))]
            found = [on_device.fit(device.to_device(residuals[0]), newton_of(device.to_device))]
        else:
            expected = cpu.fit_pair(*residuals, newton_of(lambda x: x), second=True)
            found = on_device.fit_pair(*map(device.to_device, residuals), newton_of(device.to_device), second=True)
        for one, other in zip(expected, found, strict=True):
            check_same(device, one, other)
    assert len(expected[0].model.nodes) > 1
    known = cpu.values(expected[0].model)
    for one, other in zip(known, on_device.values(found[0].model), strict=True):
        assert one.tobytes() == device.to_host(other).tobytes()


class OfMany:
    """Sums over rows that are part of two million: so many that cells have a channel for the count."""

    n_repeated = 2**21

    def __init__(self, matrix, residuals, hessians):
        self._shard = _native.ShardRows(matrix, (0, 0, 0), 1)
        _, self.max = self._shard.set_residuals(residuals=residuals, hessians=hessians, repeats=None)
        self._shard.start(n_repeated=self.n_repeated, max=self.max, rows=None)

    def histograms(self, splits, nodes):
        self._shard.split(splits)
        return self._shard.histograms(nodes)

    def noise(self):
        return self._shard.noise()

    def summed_by(self, sums, n_residuals):
        self._shard.summed_by(sums, n_residuals)

    def leaf_sums(self, splits, leaves):
        self._shard.split(splits)
        return self._shard.leaf_sums(leaves)


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("n_residuals", [1, 2])
def test_part_of_two_million_rows(n_residuals, newton):
    rng = np.random.default_rng(0)
    X, n_categories = make_table(rng, False, True, 19)
    signal = np.nan_to_num(X[:N_TRAIN, :1]).T
    residuals = [signal + rng.normal(size=signal.shape) for _ in range(n_residuals)]
    hessian = rng.random(signal.shape) + 0.1
    cpu, on_device, device = fitters(X, n_categories, residuals[0], None, max_depth=3, shared_structure=True)
    on_device._weights = on_device._weights._replace(n_repeated=OfMany.n_repeated)
    on_host, there = (Newton(hessian), Newton(device.to_device(hessian))) if newton else (None, None)
    found, _ = on_device._grow([device.to_device(r) for r in residuals], there, range(1), on_device._draw())
    matrix = cpu._bins.encode(X[:N_TRAIN], 1)
    sums = OfMany(matrix, [r[0] for r in residuals], hessian if newton else None)
    with cpu._learner.growers(_native.RemoteGrower, cpu._bins, cpu._bins.matrix(0)).of(range(1)) as grower:
        parts = grower.grow(
            sums=sums, n_repeated=sums.n_repeated, max=sums.max, n_residuals=n_residuals,
            **cpu._growth(on_host, range(1), cpu._draw()),
        )  # fmt: skip
    expected = cpu._forest(*parts, 1, n_residuals)
    assert len(expected.nodes) > 3
    for name in ("nodes", "value"):
        assert getattr(expected, name).tobytes() == getattr(found, name).tobytes(), name


def test_residuals_that_are_not_finite_are_refused():
    rng = np.random.default_rng(0)
    X, n_categories = make_table(rng, False, False, N_FEATURES)
    r = rng.normal(size=(1, N_TRAIN))
    _, fitter, device = fitters(X, n_categories, r, None)
    for bad in (np.nan, np.inf, -np.inf):
        r[0, 7] = bad
        with pytest.raises(DivergedError):
            fitter.fit(device.to_device(r), None)
    r[0, 7], hessian = 1.0, np.ones((1, N_TRAIN))
    for bad in (np.nan, -1.0):
        hessian[0, 3] = bad
        with pytest.raises(ValueError, match="hessian"):
            fitter.fit(device.to_device(r), Newton(device.to_device(hessian)))


def test_rows_are_shared_by_learners():
    rng = np.random.default_rng(0)
    X, n_categories = make_table(rng, False, False, N_FEATURES)
    r = X[:N_TRAIN, :1].T + rng.normal(size=(1, N_TRAIN))
    cpu, fitter, device = fitters(X, n_categories, r, None, max_depth=3)
    other = TreeLearner(n_categories=n_categories, max_depth=2, seed=1, colsample_bynode=0.5)
    check_same(device, cpu.with_learner(other).fit(r, None), fitter.with_learner(other).fit(device.to_device(r), None))


@pytest.mark.slow
def test_more_splits_than_one_launch_takes():
    """Splits whose children are leaves are sent together at the end: here those of more than 256 nodes."""
    X = np.argwhere(np.ones((17, 32))).astype(float)
    r = (X @ [1.0, 1.1])[np.newaxis]
    cpu, fitter, device = fitters(X, np.zeros(2, dtype=np.intp), r, None, max_depth=10, min_samples_leaf=1)
    expected = cpu.fit(r, None)
    nodes = expected.model.nodes
    is_leaf = nodes["left"] < 0
    assert np.count_nonzero(~is_leaf & is_leaf[nodes["left"]] & is_leaf[nodes["left"] + 1]) > 256
    check_same(device, expected, fitter.fit(device.to_device(r), None))


def test_driver_errors_are_raised():
    class BrokenDevice(EmulatedDevice):
        def calls(self, kernels):
            self.broken = WAIT(lambda _: 700)
            return super().calls(kernels)._replace(wait=address_of(self.broken))

    rng = np.random.default_rng(0)
    X, n_categories = make_table(rng, False, False, N_FEATURES)
    r = rng.normal(size=(1, N_TRAIN))
    _, fitter, device = fitters(X, n_categories, r, None, BrokenDevice())
    with pytest.raises(RuntimeError, match="a kernel before it, failed with error 700 of the CUDA driver"):
        fitter.fit(device.to_device(r), None)
