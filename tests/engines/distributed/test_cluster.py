"""Rows in shards: the same models as of rows in one place, whatever happens to the shards. All in one process."""

import itertools
import pickle
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm import AGBMClassifier, AGBMRegressor
from agbm._base import _native
from agbm._base.sums import of_ordered_bits, ordered_bits, weight_step
from agbm._base.weights import MOST_REPEATS_IN_ALL
from agbm._core.objective import LocalObjective
from agbm._data.blocks import Block, LocalBlocks
from agbm._engines.distributed.growth import ClusterFitter
from agbm._engines.distributed.log import Log
from agbm._engines.distributed.messages import START, Message, Order, Reply, add_up
from agbm._engines.distributed.objective import ClusterObjective, Facts
from agbm._engines.distributed.shard import Shard
from agbm._fit.sources import LocalSource
from agbm._tree.bins import Bins
from agbm.losses import HalfSquaredError, Quantile
from toys import category_counts
from variants import STRATEGIES, made, methods, newton, shared, strategies

N_SHARDS = 5


class Untroubled:
    """What happens to the shards before a message comes: nothing."""

    def __call__(self, shards, build):
        pass


@dataclass
class Troubled:
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

    def __init__(self, build, n, trouble):
        self._build = build
        self._trouble = trouble
        self.shards = [build(i) for i in range(n)]
        self.messages = 0
        self.sizes = []

    def exchange(self, message, catch_up):
        self._trouble(self.shards, self._build)
        reply = self._send(message)
        for _ in range(100):
            if not reply.behind:
                return reply
            self._trouble(self.shards, self._build)  # a shard may be lost again before it has caught up
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
    gives_digests = True

    def __init__(self, seed, n_shards, trouble):
        self._seed, self._n_shards, self._trouble = seed, n_shards, trouble

    def blocks_of(self, X, y, sample_weight, offset):
        return LocalBlocks(lambda: iter([Block(X, y, sample_weight, offset)])), None, None, None

    def labelled(self, *given):
        return LocalSource().labelled(*given)

    def bind(self, rows, learner):
        bins, n_outputs, local = rows.reader.bins, rows.labels.n_outputs, rows.objective
        codes = rows.table.encode(rows.reader, "", rows.digest, 1, ()).columns()
        self.shards = InProcess(cut(local, bins, codes, self._seed, self._n_shards), self._n_shards, self._trouble)
        self.log = Log(self.shards, n_outputs)
        newton = local.second_order and not local.loss.constant_hessian
        sums = local.train_weight_sum, local.validation_weight_sum
        step = None if local.train_weight is None else weight_step(local.train_weight)
        facts = Facts(local.n_train, n_outputs, *sums, newton, local.quantiles, step)
        return ClusterObjective(self.log, facts), ClusterFitter(learner, bins, self.log, local.n_train)


class _OnShards:
    """An estimator whose rows are in shards."""

    def on(self, seed, n_shards=N_SHARDS, trouble=None):
        self.rows = ShardRows(seed, n_shards, Untroubled() if trouble is None else trouble)
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
    """Numbers with holes, and one column with few values."""
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
    """Fit here, on shards, and on shards that are lost now and then; returns the last."""
    expected = model.fit(X, y, *rest)
    assert expected.n_iter_ > 0
    assert_same(sharded(model, seed).fit(X, y, *rest), expected)
    trouble = Troubled(seed, often)
    troubled = sharded(model, seed, N_SHARDS, trouble).fit(X, y, *rest)
    assert trouble.times > 0
    assert_same(troubled, expected)
    return troubled


@pytest.mark.slow
@methods
@shared
@newton
@pytest.mark.parametrize("kind", LABELS)
def test_methods(method, shared_structure, second_order, kind):
    X, signal = rows_of()
    model = model_of(kind, method=made(method, shared_structure=shared_structure, second_order=second_order))
    compare(model, X, labels_of(kind, signal))


@pytest.mark.slow
@strategies
@methods
@pytest.mark.parametrize("kind", ["two outputs", "three classes"])
def test_several_outputs(strategy, method, kind):
    X, signal = rows_of()
    compare(model_of(kind, method=method, multi_strategy=strategy, subsample=0.7), X, labels_of(kind, signal))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["loss_rise", "gradient", "validation_rise"])
def test_restarts(rule):
    X, signal = rows_of()
    model = model_of("numbers", method=made("agbmr", restart=rule, momentum=0.9), learning_rate=0.9, max_iter=25)
    troubled = compare(model, X, signal, None, X[:50] + 0.1, signal[:50], often=0.02)
    assert troubled.history_["restart"].any()


def test_restarts_of_fixed_length():
    X, signal = rows_of()
    model = model_of("numbers", method=made("agbm", restart=0.5, momentum=0.5), max_iter=25)
    assert compare(model, X, signal, often=0.02).history_["restart"].any()


@pytest.mark.slow
@newton
@pytest.mark.parametrize("kind", LABELS)
def test_line_search(second_order, kind):
    X, signal = rows_of()
    y = labels_of(kind, signal)
    compare(model_of(kind, method=made("gbm", line_search=True, second_order=second_order)), X, y, often=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("momentum", ["theory", "fading"])
@pytest.mark.parametrize("method", ["vagbm", "agbm", "agbmr"])
def test_schedules(method, momentum):
    X, signal = rows_of()
    compare(model_of("numbers", method=made(method, momentum=momentum)), X, signal)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("whole", [True, False])
def test_weights(kind, whole):
    X, signal = rows_of()
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, len(X)) if whole else rng.random(len(X))
    compare(model_of(kind), X, labels_of(kind, signal), weight, X[:40] + 0.1, labels_of(kind, signal[:40]))


def test_weights_that_look_whole_in_some_shards():
    X, signal = rows_of()
    weight = np.ones(len(X))
    weight[-10:] = [0.5, 1.5] * 5
    compare(model_of("numbers"), X, signal, weight)


def test_counts_times_class_weights():
    X, signal = rows_of()
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    model = model_of("three classes", class_weight={0: 0.7, 1: 1.9, 2: 3.1})
    compare(model, X, labels_of("three classes", signal), counts)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_losses(loss):
    X, signal = rows_of()
    compare(model_of("numbers", loss=loss), X, np.exp(signal / 4))


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["none", "counts", "floats"])
@pytest.mark.parametrize("parameters", [
    {"loss": "absolute_error"}, {"loss": Quantile(0.07)}, {"loss": Quantile(0.9), "subsample": 0.6},
    {"loss": Quantile(0.3), "method": "agbm"}, {"loss": Quantile(0.3), "monotonic_cst": [1, -1, 0, 0]},
], ids=str)  # fmt: skip
def test_leaves_that_are_quantiles(parameters, weights):
    X, signal = rows_of()
    rng = np.random.default_rng(1)
    weight = {"none": None, "counts": rng.integers(0, 4, len(X)), "floats": rng.random(len(X))}[weights]
    compare(model_of("numbers", **parameters), X, np.round(signal, 1), weight)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.7, 0.999, 1.0])
def test_quantiles_of_labels_that_are_mostly_equal(share):
    X, signal = rows_of()
    y = np.where(signal > np.quantile(signal, share), signal, 0.0)
    for weight in (None, np.random.default_rng(1).random(len(X))):
        compare(model_of("numbers", loss=Quantile(0.8)), X, y, weight)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_quantiles_of_several_outputs(strategy):
    X, signal = rows_of()
    y = np.column_stack([signal, -2.0 * signal**2])
    compare(model_of("numbers", loss=Quantile(0.2), multi_strategy=strategy), X, y)


def test_bits_in_the_order_of_numbers():
    x = np.sort(
        np.concatenate([np.random.default_rng(0).normal(size=50), [0.0, np.inf, -np.inf, 1e-320, -1e-320, 3e300]])
    )
    bits = np.where(x.view(np.uint64) >> np.uint64(63), ~x.view(np.uint64), x.view(np.uint64) | np.uint64(1 << 63))
    assert np.all(np.diff(bits.astype(object)) >= 0)
    np.testing.assert_array_equal(of_ordered_bits(bits), x)
    np.testing.assert_array_equal(ordered_bits(x), bits)


VARIANTS = {
    "held-out rows": {"early_stopping": True, "n_iter_no_change": 3, "max_iter": 40, "learning_rate": 0.8},
    "subsample": {"subsample": 0.5},
    "few rows of a subsample": {"subsample": 0.004, "min_samples_leaf": 1},
    "columns of a tree": {"colsample_bytree": 0.5},
    "columns of a node": {"colsample_bynode": 0.5},
    "monotone": {"monotonic_cst": [1, -1, 0, 0]},
    "interactions": {"interaction_cst": [[0, 1], [2, 3]]},
    "best first": {"max_leaf_nodes": 6, "max_depth": None},
    "dropout": {"method": made("fading", dropout=0.4)},
    "dropout with momentum": {"method": made("agbm", shared_structure=False, dropout=0.4)},
    "few bins": {"max_bins": 3},
    "stumps": {"max_depth": 1},
    "no split": {"min_samples_leaf": 300},
    "zero": {"init": "zero"},
}


@pytest.mark.slow
@pytest.mark.parametrize("parameters", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_variants(kind, parameters):
    X, signal = rows_of()
    if "monotonic_cst" in parameters and kind == "three classes":
        kind = "two classes"  # for more, there are no such constraints
    compare(model_of(kind, random_state=3, **parameters), X, labels_of(kind, signal))


@pytest.mark.slow
@pytest.mark.parametrize("max_bins", [255, 8])
def test_categories(max_bins):
    """Also more of them than bins."""
    X, signal = rows_of()
    rng = np.random.default_rng(2)
    table = pd.DataFrame(X, columns=list("abcd"))
    table["e"] = rng.choice(["u", "v", "w", None], len(X))
    table["f"] = pd.Categorical(rng.integers(0, 30, len(X)))
    y = signal + (table["e"] == "u") + table["f"].astype(int) % 3
    troubled = compare(model_of("numbers", max_bins=max_bins), table, y, None, table[:50], y[:50])
    assert troubled.split_counts_[-1] > 0


def test_an_init_model():
    from sklearn.linear_model import LinearRegression

    X, signal = rows_of()
    X = np.nan_to_num(X)
    init = LinearRegression().fit(X[:100], signal[:100])
    expected = model_of("numbers", init=init).fit(X, signal)
    model = sharded(expected, 0, N_SHARDS, Troubled(0)).fit(X, signal)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert expected.n_trees_ > 0


def test_divergence_is_noticed():
    X, signal = rows_of()
    model = model_of("numbers", method="gbm", learning_rate=1.0, max_iter=30)
    y = np.where(np.arange(len(X)) < 3, 1e150, signal)
    expected = fit_that_diverges(model, X, y)
    assert_same(fit_that_diverges(sharded(model, 0, N_SHARDS, Troubled(0)), X, y), expected)


def fit_that_diverges(model, X, y):
    model.set_params(loss=Runaway())
    with pytest.warns(UserWarning, match="diverged"):
        return model.fit(X, y)


class Runaway:
    """A squared error whose residuals run away until one is not finite."""

    smoothness = 1.0
    constant_hessian = True

    def value(self, y, f):
        return np.minimum(np.abs(y - f), 1e3)

    def negative_gradient(self, y, f):
        return np.where(np.abs(f) > 1e140, np.inf, 1e3 * (y - f))

    def hessian(self, y, f, weight=None):
        return np.ones_like(f)

    def best_constant(self, y, weight=None):
        return 0.0

    def link(self, prediction):
        return prediction

    inverse_link = link

    def check(self, y):
        pass


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data())
def test_random_cuts_and_troubles(data):
    draw = data.draw
    X, signal = rows_of(draw(st.integers(0, 2**31)), n=draw(st.sampled_from([2, 20, 150])))
    kind = draw(st.sampled_from(["numbers", "two outputs"]))
    model = model_of(
        kind,
        method=made(
            draw(st.sampled_from(["fading", "gbm", "vagbm", "agbm", "agbmr"])),
            shared_structure=draw(st.booleans()),
            dropout=draw(st.sampled_from([0.0, 0.3])),
        ),
        subsample=draw(st.sampled_from([1.0, 0.5])),
        max_leaf_nodes=draw(st.sampled_from([None, 4])),
        max_iter=draw(st.integers(1, 8)),
        min_samples_leaf=1,
        random_state=0,
    )
    y = labels_of(kind, signal)
    trouble = Troubled(draw(st.integers(0, 2**31)), draw(st.sampled_from([0.0, 0.02, 0.2, 0.6])))
    seed, n_shards = draw(st.integers(0, 2**31)), draw(st.integers(1, 7))
    assert_same(sharded(model, seed, n_shards, trouble).fit(X, y), model.fit(X, y))


# What shards and the log keep.


@pytest.mark.slow
@methods
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_shards_do_not_hoard(method, dropout):
    """As many arrays late in a run as early in it, also in shards that have caught up."""
    X, signal = rows_of(n=100)
    parameters = {"method": made(method, shared_structure=False, dropout=dropout), "random_state": 0}
    for trouble in (Untroubled(), Troubled(0, 0.01)):
        model = sharded(model_of("numbers", max_iter=60, **parameters), 0, 2, trouble).fit(X, signal)
        sizes = model.shards.sizes
        assert max(sizes[len(sizes) // 2 :]) <= max(sizes[: len(sizes) // 2]) + (8 if dropout else 2)
        assert max(sizes) <= 24 + (16 if dropout else 0)


@pytest.mark.slow
def test_catching_up_does_not_hoard():
    """A shard that follows all orders of a long run has as few arrays at a time as one that has seen them come."""
    X, signal = rows_of(n=100)
    model = sharded(model_of("numbers", method=made("agbm", shared_structure=False), max_iter=60), 0, 1)
    everything = []

    def keep(record):
        everything[:] = model.log._all_that_matters(Order("measure", (START,)))

    model.set_params(callbacks=[keep]).fit(X, signal)
    assert len(everything) > 300
    shard, most = model.shards._build(0), 0
    for order in everything:
        shard._round = 0
        shard.receive(Message(1, [order], from_scratch=False))
        most = max(most, len(shard._arrays))
    assert most <= max(model.shards.sizes) + 2


# Shards by themselves.


def small_shard(n=6, n_train=5):
    X = np.arange(2.0 * n).reshape(n, 2)
    bins = Bins.from_data(X[:n_train], 255)
    problem = LocalObjective(HalfSquaredError(), np.arange(float(n))[np.newaxis], n_train, np.zeros((1, n)))
    return Shard(problem, bins, [bins.encode(X, 1).columns()], [(0, np.arange(n_train, dtype=np.uint32))], 1)


def ask(round_, *orders, from_scratch=False):
    return Message(round_, [*orders, Order("measure", (START,))], from_scratch)


def test_a_shard_that_missed_a_round_says_so_and_does_nothing():
    shard = small_shard()
    assert not shard.receive(ask(1)).behind
    reply = shard.receive(ask(3, Order("mix", (START, START), (7,), (1.0, 1.0))))
    assert reply.behind
    assert 7 not in shard._arrays
    assert not shard.receive(ask(3, from_scratch=True)).behind
    assert not shard.receive(ask(4)).behind


def test_a_message_that_comes_twice_is_followed_once():
    shard = small_shard()
    message = ask(1, Order("mix", (START, START), (7,), (1.0, 1.0)), Order("forget", (7,)))
    assert shard.receive(message) is shard.receive(message)


def test_a_new_shard_forgets_what_it_had():
    shard = small_shard()
    shard.receive(ask(1, Order("mix", (START, START), (7,), (1.0, 1.0))))
    shard.receive(ask(2, from_scratch=True))
    assert set(shard._arrays) == {START}


def test_a_copy_knows_its_rows_and_no_orders():
    shard = small_shard()
    reply = shard.receive(ask(1))
    copied = pickle.loads(pickle.dumps(shard))
    assert copied.receive(ask(2)).behind
    assert copied.receive(ask(1)).sums == reply.sums
    np.testing.assert_array_equal(copied._matrix.columns(), shard._matrix.columns())


def test_a_reply_is_behind_if_one_is():
    here, behind = Reply((1,)), Reply(behind=True)
    assert add_up([here, behind]).behind
    assert add_up([behind, here]).behind
    assert add_up([here, here]).sums == (2,)


def test_an_error_of_an_order_does_not_count_as_followed():
    """The same message again fails again; it is not answered with the reply before."""
    shard = small_shard()
    shard.receive(ask(1))
    for _ in range(2):
        with pytest.raises(KeyError):
            shard.receive(ask(2, Order("residual", (99,), (7,))))
    assert not shard.receive(ask(2)).behind


# The kernels.

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
    n_residuals = draw(st.integers(1, 3))
    residuals = list(rng.normal(size=(n_residuals, n)) * 10.0 ** rng.integers(-6, 6))
    n_hessians = draw(st.sampled_from([0, 1, n_residuals]))
    hessians = rng.uniform(0.01, 1.0, (n_hessians, n)) if n_hessians else None
    repeats = rng.integers(1, 4, n) if draw(st.booleans()) else None
    rows = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False)) if draw(st.booleans()) else None
    cuts = cuts_of(rng, n, draw(st.integers(1, 6)))
    return X, categorical, residuals, hessians, repeats, rows, cuts, draw(st.sampled_from([0, 5]))


@pytest.mark.slow
@settings(max_examples=150)
@given(growths())
def test_trees_grown_from_sums_equal_those_grown_on_rows(growth):
    X, categorical, residuals, hessians, repeats, rows, cuts, max_leaf_nodes = growth
    bins = Bins.from_data(X, 255, None, category_counts(X, categorical), np.array(residuals))
    matrix = bins.encode(X, 1)
    rules = RULES | {"max_leaf_nodes": max_leaf_nodes, "n_threads": 1}
    how = {"features": None, "node_share": 1.0, "seed": 0, "min_hessian_leaf": 0.0, "l2_regularization": [0.0]}
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
def test_wrong_calls_of_shard_rows(method, arguments, message):
    shard, *_ = shard_rows()
    with pytest.raises(ValueError, match=message):
        getattr(shard, method)(**arguments)


def test_residuals_end_the_tree_before():
    """Its rows have pointers to arrays that may be gone."""
    bins = Bins.from_data(np.arange(4.0)[:, np.newaxis], 255)
    shard = _native.ShardRows(bins.matrix(4), (0, 0, 0), 1)
    with pytest.raises(ValueError, match="must be those of the last tree"):
        shard.values(np.empty(0, np.uint8), np.empty((0, 4), np.uint64), np.empty((0, 1)))
    shard.set_residuals(residuals=[np.ones(4)], hessians=None, repeats=None)
    shard.start(n_repeated=4, max=[1.0], rows=None)
    shard.set_residuals(residuals=[np.ones(4)], hessians=None, repeats=None)
    with pytest.raises(ValueError, match="no such node"):
        shard.leaf_sums(np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="no tree"):
        shard.noise()


def test_an_old_message_changes_nothing():
    reply = Message(1, [], from_scratch=True)
    shard = small_shard()
    shard.receive(Message(1, [], from_scratch=True))
    shard.receive(Message(2, [Order("zero_residual", (), (1,))]))
    assert shard.receive(reply).behind
    assert set(shard._arrays) == {START, 1}


def test_calls_before_there_are_residuals():
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
def test_wrong_residuals(wrong):
    shard, *_ = shard_rows()
    with pytest.raises(ValueError, match=r"residuals|hessians|repeats"):
        shard.set_residuals(**{"residuals": [np.zeros(6)], "hessians": None, "repeats": None} | wrong)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_residuals_that_are_not_finite(bad):
    shard, *_ = shard_rows()
    with pytest.raises(OverflowError):
        shard.set_residuals(residuals=[np.full(6, bad)], hessians=None, repeats=None)


def test_values_of_another_tree():
    shard, bins, _ = shard_rows()
    *parts, _ = grown(bins)
    with pytest.raises(ValueError, match="must be those of the last tree"):
        shard.values(*parts)


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
def test_wrong_sums(answer, error, message):
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
def test_wrong_calls_of_remote_grower(wrong, message):
    _, bins, _ = shard_rows()
    grower = _native.RemoteGrower(bins.matrix(0), bins.flat_thresholds, **RULES, n_threads=1)
    right = {"n_repeated": 6, "max": [5.0], "n_residuals": 1, "features": None, "node_share": 1.0, "seed": 0}
    with pytest.raises(ValueError, match=message):
        grower.grow(sums=WrongSums(fails), **right | {"min_hessian_leaf": 0.0, "l2_regularization": [0.0]} | wrong)


@pytest.mark.parametrize("kind", LABELS)
def test_members(kind):
    X, signal = rows_of(seed=3)
    early = {"n_members": 3, "validation_fraction": 0.3, "early_stopping": True, "colsample_bynode": 0.6}
    compare(model_of(kind, **early), X, labels_of(kind, signal))


@pytest.mark.parametrize("kind", LABELS)
def test_the_default(kind):
    X, signal = rows_of(seed=3)
    model = (AGBMClassifier if "classes" in kind else AGBMRegressor)(max_iter=2, n_jobs=1)
    compare(model, X, labels_of(kind, signal))
    assert (model.resolved_params_["n_members"], model.resolved_params_["early_stopping"]) == (5, True)


# More rows than there are; see also test_many_rows.py.


def claiming(monkeypatch, n_rows):
    """Let the shards say that they have so many rows together; their sums must leave room for all of these."""
    send = InProcess._send

    def claim(self, message):
        reply, what = send(self, message), message.orders[-1].what
        if what in ("histograms", "leaf_sums", "noise"):
            assert int(np.abs(reply.sums[0]).max()) * (n_rows // len(rows_of()[0])) < 2**62
        return reply._replace(sums=(n_rows,)) if what == "set_residuals" else reply

    monkeypatch.setattr(InProcess, "_send", claim)


@pytest.mark.parametrize("kind", ["numbers", "two classes"])
@pytest.mark.parametrize("n_rows", [10**10, MOST_REPEATS_IN_ALL])
def test_sums_leave_bits_for_rows(monkeypatch, kind, n_rows):
    """Integers of rows are coarser, so that sums over all rows fit into 64 bits: 23 bits at least remain."""
    X, signal = rows_of()
    expected = model_of(kind).fit(X, labels_of(kind, signal))
    claiming(monkeypatch, n_rows)
    model = sharded(expected, 0).fit(X, labels_of(kind, signal))
    for a, b in zip(model.model_.models, expected.model_.models, strict=True):
        np.testing.assert_array_equal(a.nodes["feature"], b.nodes["feature"])
        np.testing.assert_array_equal(a.nodes["count"], b.nodes["count"])
        np.testing.assert_allclose(a.value, b.value, rtol=1e-4, atol=1e-5)


def test_too_many_rows_of_all_shards(monkeypatch):
    X, signal = rows_of()
    claiming(monkeypatch, MOST_REPEATS_IN_ALL + 1)
    with pytest.raises(ValueError, match=r"The workers have 274,877,906,945 training rows.*at most 274,877,906,944"):
        sharded(model_of("numbers"), 0).fit(X, labels_of("numbers", signal))
