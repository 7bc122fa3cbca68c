"""Fits whose rows are in shards of this process, which are lost or moved now and then."""

import itertools
import pickle
from dataclasses import dataclass, field

import numpy as np

from agbm import AGBMClassifier, AGBMRegressor
from agbm._base.sums import weight_step
from agbm._core.objective import LocalObjective
from agbm._data.blocks import Block, LocalBlocks
from agbm._data.rows import Given
from agbm._engines.distributed.growth import ClusterFitter
from agbm._engines.distributed.log import Log
from agbm._engines.distributed.messages import add_up
from agbm._engines.distributed.objective import ClusterObjective, Facts
from agbm._engines.distributed.shard import Shard
from agbm._fit.sources import LocalSource

N_SHARDS = 5


class Undisturbed:
    """What happens to the shards before a message arrives: nothing."""

    def __call__(self, shards, build):
        pass


@dataclass
class Disturbed:
    """Shards are lost, or moved to another process, at random."""

    seed: int
    often: float = 0.1
    times: int = field(default=0, init=False)

    def __post_init__(self):
        self._rng = np.random.default_rng(self.seed)

    def __call__(self, shards, build):
        for i in range(len(shards)):
            if self._rng.random() < self.often:
                self.times += 1
                shards[i] = build(i) if self._rng.random() < 0.5 else pickle.loads(pickle.dumps(shards[i]))


class InProcess:
    """Shards of this process; see Shards. Some messages come twice."""

    def __init__(self, build, n, disturbance):
        self._build = build
        self._disturbance = disturbance
        self.shards = [build(i) for i in range(n)]
        self.messages = 0
        self.sizes = []

    def exchange(self, message, catch_up):
        self._disturbance(self.shards, self._build)
        reply = self._send(message)
        for _ in range(100):
            if not reply.behind:
                return reply
            self._disturbance(self.shards, self._build)  # a shard may be lost again before it has caught up
            reply = self._send(catch_up())
        raise AssertionError("shards do not catch up")

    def _send(self, message):
        self.messages += 1
        replies = [shard.receive(message) for shard in self.shards]
        if self.messages % 3 == 0:
            assert_same_replies(replies, [shard.receive(message) for shard in self.shards])
        self.sizes.append(max(len(shard._arrays) for shard in self.shards))
        return add_up(replies)


def assert_same_replies(replies, again):
    for a, b in zip(replies, again, strict=True):
        assert a.behind == b.behind
        assert (a.largest is None and b.largest is None) or np.array_equal(a.largest, b.largest)
        assert all(np.array_equal(x, y) for x, y in zip(a.sums, b.sums, strict=True))


def cuts_of(rng, n, n_shards):
    """Uneven shards of n rows, and where there are several, at least one without any."""
    inner = np.sort(rng.integers(0, n + 1, n_shards - 1))
    if n_shards > 1:
        inner[rng.integers(n_shards - 1)] = rng.choice([0, n])
    return np.concatenate([[0], np.sort(inner), [n]])


def cut(problem, bins, codes, seed, n_shards):
    """A function that makes the shard with a number."""
    rng = np.random.default_rng(seed)
    n_train, n_rows = problem.n_train, problem.n_rows
    train, behind = cuts_of(rng, n_train, n_shards), n_train + cuts_of(rng, n_rows - n_train, n_shards)
    # Training rows of a shard may be of several places among all.
    middle = [int(rng.integers(a, b + 1)) for a, b in itertools.pairwise(train)]

    def build(i):
        rows = np.r_[train[i] : train[i + 1], behind[i] : behind[i + 1]]
        held_out = slice(behind[i] - n_train, behind[i + 1] - n_train)
        small = LocalObjective(
            problem.loss,
            np.ascontiguousarray(problem.y[..., rows]),
            int(train[i + 1] - train[i]),
            np.ascontiguousarray(problem.start[:, rows]),
            None if problem.train_weights is None else problem.train_weights[train[i] : train[i + 1]],
            problem.second_order,
            validation_weight=None if problem.validation_weight is None else problem.validation_weight[held_out],
        )
        places = itertools.pairwise((train[i], middle[i], train[i + 1]))
        numbers = [(first, np.arange(end - first, dtype=np.uint32)) for first, end in places]
        parts = [np.ascontiguousarray(part) for part in np.array_split(codes[:, rows], 2, axis=1)]
        return Shard(small, bins, parts, numbers, 1)

    return build


class ShardRows:
    """Rows in shards of this process; see RowSource."""

    in_this_process = False
    shows_rows = True

    def __init__(self, seed, n_shards, disturbance):
        self._seed, self._n_shards, self._disturbance = seed, n_shards, disturbance

    def blocks_of(self, given):
        return LocalBlocks(lambda: iter([Block(given.X, given.y, given.weight, given.offset)])), Given(None, None)

    def labelled(self, *given):
        return LocalSource().labelled(*given)

    def bind(self, rows, learner):
        bins, n_outputs, local = rows.reader.bins, rows.labels.n_outputs, rows.objective
        codes = rows.table.encode(rows.reader, "", rows.digest, 1, ()).columns()
        self.shards = InProcess(cut(local, bins, codes, self._seed, self._n_shards), self._n_shards, self._disturbance)
        self.log = Log(self.shards, n_outputs)
        newton = local.second_order and not local.loss.constant_hessian
        sums = local.train_weight_sum, local.validation_weight_sum
        step = None if local.train_weight is None else weight_step(local.train_weight)
        facts = Facts(local.n_train, n_outputs, *sums, newton, local.quantiles, step)
        return ClusterObjective(self.log, facts), ClusterFitter(learner, bins, self.log, local.n_train)


class _OnShards:
    """An estimator whose rows are in shards."""

    def on(self, seed, n_shards=N_SHARDS, disturbance=None):
        self.rows = ShardRows(seed, n_shards, Undisturbed() if disturbance is None else disturbance)
        return self

    def _fit(self, given, validation, watch, source=None):
        return super()._fit(given, validation, watch, self.rows)

    @property
    def shards(self):
        return self.rows.shards

    @property
    def log(self):
        return self.rows.log


class ShardedRegressor(_OnShards, AGBMRegressor):
    pass


class ShardedClassifier(_OnShards, AGBMClassifier):
    pass


SHARDED = {AGBMRegressor: ShardedRegressor, AGBMClassifier: ShardedClassifier}


def sharded(model, *where):
    return SHARDED[type(model)](**model.get_params(deep=False)).on(*where)


def assert_same(model, expected):
    """Trees, weights of trees and history, bit for bit."""
    assert len(model.model_.models) == len(expected.model_.models)
    for a, b in zip(model.model_.models, expected.model_.models, strict=True):
        for name in ("nodes", "category_words", "category_start", "value"):
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    for name, column in expected.history_.items():
        if name != "seconds":
            np.testing.assert_array_equal(model.history_[name], column, err_msg=name)
    for a, b in zip(model.model_.ensembles[0].coefficients(), expected.model_.ensembles[0].coefficients(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (model.n_iter_, model.best_iteration_) == (expected.n_iter_, expected.best_iteration_)
    assert model.model_.start.tobytes() == expected.model_.start.tobytes()


def rows_of(seed=0, n=400, n_features=4):
    """Numbers with missing values, and one column with few values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, -1] = rng.integers(0, 5, n)
    signal = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=n)
    return X, signal


def labels_of(kind, signal):
    if kind == "numbers":
        return signal
    if kind == "two outputs":
        return np.column_stack([signal, np.cos(signal)])
    return np.digitize(signal, [0.5] if kind == "two classes" else [0.0, 1.5])


SMALL = {
    "max_iter": 6, "max_depth": 3, "min_samples_leaf": 3, "n_members": 1, "n_jobs": 1, "early_stopping": False,
}  # fmt: skip
LABELS = ["numbers", "two outputs", "two classes", "three classes"]


def model_of(kind, **parameters):
    return (AGBMClassifier if "classes" in kind else AGBMRegressor)(**SMALL | parameters)


def compare(model, X, y, *rest, seed=0, often=0.1):
    """Fit here, on shards, and on shards that are lost now and then; returns the last of the three models."""
    expected = model.fit(X, y, *rest)
    assert expected.n_iter_ > 0
    assert_same(sharded(model, seed).fit(X, y, *rest), expected)
    disturbance = Disturbed(seed, often)
    disturbed = sharded(model, seed, N_SHARDS, disturbance).fit(X, y, *rest)
    assert disturbance.times > 0
    assert_same(disturbed, expected)
    return disturbed
