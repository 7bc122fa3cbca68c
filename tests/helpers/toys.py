"""Small learners and losses with known properties."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from agbm._base import _native
from agbm._core.learners import Fit, WeightedSum
from agbm._core.objective import LocalObjective, of_each_output
from agbm._data.hold_out import hold_out
from agbm._storage import container as model_file
from agbm._tree.forest import NODE
from agbm.losses import HalfSquaredError


class VectorModel:
    """A function that is known only on the rows of the problem."""

    n_functions = n_learners = 1

    def __init__(self, values):
        self.values = values

    def predict(self, X, n_threads):
        return self.values[np.newaxis]


@dataclass
class VectorFitter:
    """Fits a residual of one output with a function of vectors, which also gets the hessians if there are any."""

    fit_vector: object

    def bind(self, X, n_train, weight, residual):
        return self

    def combine(self, models, weights):
        return WeightedSum(models, weights, 1)

    def fit(self, r, newton):
        hessian = None if newton is None else newton.hessian
        values = self.fit_vector(*(vector[0] for vector in (r, hessian) if vector is not None))[np.newaxis]
        return Fit(VectorModel(values), 0, values, values if hessian is None else values * hessian)

    def fit_pair(self, r, c, newton, *, second):
        return self.fit(r, newton), self.fit(c, newton) if second else None

    def values(self, model):
        return model.predict(None, 1)


def strongest(share):
    """A learner that keeps this share of the entries of a residual, the largest ones: cosines are >= sqrt(share)."""

    def fit(r):
        kept = int(np.ceil(share * len(r)))
        b = np.zeros_like(r)
        chosen = np.argsort(-np.abs(r), kind="stable")[:kept]
        b[chosen] = r[chosen]
        return b

    return fit


def projection(columns):
    """A learner that does least squares on fixed columns; with hessians, a Newton step."""

    def fit(r, hessian=1.0):
        root = np.sqrt(hessian) * np.ones(len(r))
        return columns @ np.linalg.lstsq(root[:, np.newaxis] * columns, r / root, rcond=None)[0]

    return fit


def best_stump(X):
    """A learner that finds the best stump by trying all splits; with hessians, a Newton step."""
    orders = [np.argsort(X[:, j], kind="stable") for j in range(X.shape[1])]

    def fit(r, hessian=1.0):
        best = (-np.inf, None, None)
        hessian = hessian * np.ones(len(r))
        for order in orders:
            left, n_left = np.cumsum(r[order])[:-1], np.cumsum(hessian[order])[:-1]
            scores = left**2 / n_left + (r.sum() - left) ** 2 / (hessian.sum() - n_left)
            cut = int(np.argmax(scores))
            if scores[cut] > best[0]:
                best = (scores[cut], order[: cut + 1], order[cut + 1 :])
        b = np.empty_like(r)
        for side in best[1:]:
            b[side] = r[side].sum() / hessian[side].sum()
        return b

    return fit


class StretchedSquaredError(HalfSquaredError):
    """k_i (y - f)^2 / 2 with row curvatures k: smooth with max k, strongly convex with min k."""

    constant_hessian = False

    def __init__(self, curvature):
        self.curvature = curvature
        self.smoothness = float(curvature.max())

    def value(self, y, f):
        return self.curvature * super().value(y, f)

    def negative_gradient(self, y, f):
        return self.curvature * (y - f)

    def hessian(self, y, f, weight=None):
        return self.curvature.copy()


def problem_of(loss, y, start=None):
    """A problem with one output, from the vectors y and start."""
    start = np.zeros(len(y)) if start is None else start
    return LocalObjective(of_each_output(loss), y[np.newaxis], len(y), start[np.newaxis])


def total_loss(problem, f):
    """The paper's L: a sum, not a mean."""
    return float(problem.loss.value(problem.y, f).sum())


def native_forest(n_features, n_columns, *, feature, threshold, left, missing_left, categories, count=0, **arrays):
    """A native forest, from one array per field of a node."""
    nodes = np.zeros(len(feature), dtype=NODE)
    nodes["feature"], nodes["threshold"], nodes["left"] = feature, threshold, left
    nodes["missing_left"], nodes["categories"], nodes["count"] = missing_left, categories, count
    return _native.Forest(n_features, n_columns, nodes=nodes.view(np.uint8), **arrays)


def sums_of_trees(forest, X, n_columns, n_threads=1):
    """The predictions (row, column) of a native forest."""
    out = np.full((len(X), n_columns), np.nan)
    forest.predict(X, out, n_threads)
    return out


def rewrite(path, change):
    """Rewrite a model file or checkpoint after `change` has modified its description and arrays."""
    stored = model_file.parse(np.fromfile(path, np.uint8))
    description = dict(stored.description)
    arrays = {name: stored._arrays[name].copy() for name in stored.names()}
    change(description, arrays)
    model_file.write(path, description.pop("kind", "nothing"), description, arrays)


def damage(data, array):
    """An array with one number changed, without its last entry, or of another type, drawn by hypothesis."""
    copy = array.copy()
    flat = copy if copy.dtype.names is None else copy[data.draw(st.sampled_from(copy.dtype.names))]
    if flat.dtype.kind in "iu":
        limits = np.iinfo(flat.dtype)
        value = data.draw(st.sampled_from([-2, -1, 0, 1, 2, 3, 7, 1000, 2**20, limits.min, limits.max]))
        value = min(max(value, limits.min), limits.max)
    else:
        value = data.draw(st.sampled_from([0.0, -1.0, 1e308, np.nan, np.inf]))
    flat[data.draw(st.integers(0, len(flat) - 1))] = value
    return data.draw(st.sampled_from([copy, copy, copy, array[:-1], np.zeros(array.shape)]))


def category_counts(X, categorical):
    """The number of categories of each categorical column; 0 for other columns."""
    columns = np.asarray(X, dtype=float).T
    return np.array(
        [np.nanmax(np.append(columns[f], 0.0)) + 1 if categorical[f] else 0 for f in range(len(columns))], int
    )


def three_parts(n_rows, classes):
    """Training, validation and test rows, in the proportions 3 : 1 : 1."""
    rest, test = hold_out(n_rows, 0.2, classes, seed=0)
    train, validation = hold_out(len(rest), 0.25, None if classes is None else classes[rest], seed=0)
    return rest[train], rest[validation], test


def stop_at(iteration):
    """A callback that interrupts training, which leaves the same files as a killed process."""

    def stop(record):
        if record.iteration == iteration:
            raise KeyboardInterrupt

    return stop
