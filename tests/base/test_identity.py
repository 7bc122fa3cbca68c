"""What objects are told apart by, in one process and in several."""

import functools
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from agbm import AGBMRegressor, Checkpoint
from agbm._base import identity
from agbm._base.identity import UnidentifiedError, fingerprint
from agbm.losses import HalfSquaredError, Quantile
from agbm.methods import Fading

FACTOR = 1.0


class Loss:
    """The squared error of residuals that a function has changed."""

    smoothness = 1.0
    constant_hessian = True

    def __init__(self, change):
        self.change = change

    def check(self, y):
        pass

    def value(self, y, f):
        return self.change(y - f) ** 2 / 2

    def negative_gradient(self, y, f):
        return self.change(y - f)

    def hessian(self, y, f, weight):
        return np.ones(len(y))

    def best_constant(self, y, weight):
        return float(y.mean())

    def link(self, prediction):
        return prediction

    def inverse_link(self, f):
        return f


def power(exponent):
    return lambda r: np.abs(r) ** exponent


def default(r, scale=1.0):
    return scale * r


def default_2(r, scale=2.0):
    return scale * r


def keyword(r, *, scale=1.0):
    return scale * r


def keyword_2(r, *, scale=2.0):
    return scale * r


def mutable(r, seen=[1]):  # noqa: B006
    return seen[0] * r


def nested(r):
    def inner(x):
        return x * 2

    return inner(r)


def nested_2(r):
    def inner(x):
        return x * 3

    return inner(r)


def uses_global(r):
    return FACTOR * r


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, r):
        return self.scale * r

    def plus(self, r):
        return self.scale + r


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


@dataclass
class Data:
    scale: float
    names: list = field(default_factory=list)


class Kind(Enum):
    A = 1
    B = 2


Point = namedtuple("Point", "x y")


def made(number, base=object):
    """A class whose namespace has a number."""

    class Made(base):
        def value(self):
            return number

        @property
        def half(self):
            return number / 2

    return Made


def attributed(scale):
    def function(r):
        return r

    function.scale = scale
    return function


def wrapped(number):
    """Has the name of the NumPy function, but is another one."""

    @functools.wraps(np.where)
    def where(*args):
        return number

    return where


class Mean(RegressorMixin, BaseEstimator):
    def __init__(self, of=np.mean):
        self.of = of

    def fit(self, X, y):
        self.mean_ = self.of(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def forest(seed):
    X = np.random.default_rng(0).random((50, 2))
    return RandomForestRegressor(3, random_state=seed).fit(X, X[:, 0])


def itself(number):
    part = {"number": number, "list": []}
    part["list"].append(part)
    return part


PAIRS = {
    "lambdas": (lambda r: r + 1, lambda r: r + 2),
    "operators": (lambda r: r * 2, lambda r: r / 2),
    "attributes": (lambda r: np.sin(r), lambda r: np.cos(r)),
    "closures": (power(1), power(2)),
    "defaults": (default, default_2),
    "keywords": (keyword, keyword_2),
    "inner functions": (nested, nested_2),
    "attributes of functions": (attributed(1), attributed(2)),
    "wraps": (wrapped(1), wrapped(2)),
    "one that looks like NumPy's": (np.where, wrapped(1)),
    "partial": (functools.partial(default, scale=1.0), functools.partial(default, scale=2.0)),
    "partial of lambdas": (functools.partial(lambda r: r), functools.partial(lambda r: -r)),
    "lru_cache": (functools.cache(lambda r: r), functools.cache(lambda r: -r)),
    "vectorize": (np.vectorize(lambda r: r), np.vectorize(lambda r: -r)),
    "bound methods": (Scaled(1).plus, Scaled(2).plus),
    "methods": (Scaled(1).plus, Scaled(1).__call__),
    "methods of built-ins": ("a".join, "b".join),
    "callable objects": (Scaled(1), Scaled(2)),
    "slots": (Slotted(1), Slotted(2)),
    "dataclasses": (Data(1.0), Data(1.0, ["a"])),
    "enums": (Kind.A, Kind.B),
    "tuples with names": (Point(1, 2), Point(2, 1)),
    "classes": (made(1), made(2)),
    "bases": (made(1, Scaled), made(1, Slotted)),
    "instances": (made(1)(), made(2)()),
    "losses": (Loss(lambda r: r), Loss(lambda r: 2 * r)),
    "library's losses": (Quantile(0.1), Quantile(0.9)),
    "ufuncs": (np.sin, np.cos),
    "ufuncs of scipy": (expit, logit),
    "built-ins": (len, sum),
    "numbers": (1, 2),
    "numbers and text": (1, "1"),
    "arrays": (np.zeros(3), np.array([0.0, 0.0, 1e-300])),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "types": (np.zeros(2, np.int64), np.zeros(2)),
    "arrays of objects": (np.array(["a", None], object), np.array(["a", "b"], object)),
    "fields": (np.zeros(2, "i4,f8"), np.ones(2, "i4,f8")),
    "views": (np.arange(9)[::2], np.arange(9)[::3]),
    "dictionaries": ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
    "sets": ({"a", "b"}, {"a", "c"}),
    "ordered": (OrderedDict(a=1), OrderedDict(a=2)),
    "in themselves": (itself(1), itself(2)),
    "tables": (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [2, 1]})),
    "estimators": (Ridge(1.0), Ridge(2.0)),
    "functions in estimators": (Mean(np.mean), Mean(np.median)),
    "pipelines": (
        make_pipeline(FunctionTransformer(lambda X: X), Ridge()),
        make_pipeline(FunctionTransformer(lambda X: -X), Ridge()),
    ),
    "fitted": (LinearRegression().fit([[0], [1]], [0, 1]), LinearRegression().fit([[0], [1]], [0, 2])),
    "forests": (forest(0), forest(1)),
    "expressions": (re.compile("a"), re.compile("a", re.IGNORECASE)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_different_objects_have_different_fingerprints(pair):
    one, other = map(fingerprint, pair)
    assert one != other
    assert [one, other] == list(map(fingerprint, pair)), "and the same when asked again"


ALIKE = {
    "lambdas": lambda: lambda r: r + 1,
    "closures": lambda: power(2),
    "classes": lambda: made(1),
    "instances": lambda: made(1)(),
    "losses": lambda: Loss(power(2)),
    "arrays": lambda: np.arange(5.0),
    "NaN": lambda: [float("nan"), np.array([np.nan])],
    "dataclasses": lambda: Data(1.0, ["a"]),
    "estimators": lambda: Mean(lambda y: y[0]),
    "forests": lambda: forest(0),
    "in themselves": lambda: itself(1),
}


@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE)
def test_equal_objects_have_equal_fingerprints(make):
    assert fingerprint(make()) == fingerprint(make())


def test_equivalent_values_have_equal_fingerprints():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(np.float64(0.1)) == fingerprint(0.1)
    assert fingerprint(np.asfortranarray(np.eye(3) + 1)) == fingerprint(np.eye(3) + 1)
    shared = [1, 2]
    assert fingerprint([shared, shared]) == fingerprint([[1, 2], [1, 2]])


def test_mutated_objects_change_their_fingerprint(monkeypatch):
    before = fingerprint(uses_global)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert fingerprint(uses_global) != before
    before = fingerprint(mutable)
    monkeypatch.setattr(mutable, "__defaults__", ([2],))
    assert fingerprint(mutable) != before
    before = fingerprint(Loss(abs))
    monkeypatch.setattr(Loss, "value", lambda self, y, f: y - f)
    assert fingerprint(Loss(abs)) != before


UNTOLD = {
    "lock": threading.Lock,
    "generator": lambda: (i for i in range(3)),
    "frompyfunc": lambda: np.frompyfunc(lambda r: r, 1, 1),
}


@pytest.mark.parametrize("make", UNTOLD.values(), ids=UNTOLD)
def test_objects_without_a_fingerprint_raise(make):
    with pytest.raises(UnidentifiedError, match=r"cannot be (read|seen)"):
        fingerprint(Loss(make()))


def test_library_classes_are_identified_by_name(monkeypatch):
    """Also if the package is used from a source tree: its code may change while a run can still be resumed."""
    monkeypatch.setattr(sys.modules[HalfSquaredError.__module__], "__file__", "/somewhere/agbm/module.py")
    assert identity._installed_name(HalfSquaredError) == f"{HalfSquaredError.__module__}.HalfSquaredError"


@pytest.mark.slow
def test_deep_nesting_raises():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UnidentifiedError, match="nested too deeply"):
        fingerprint(deep)


HELPERS = """
    SCALE = {scale}
    def change(r):
        return SCALE * r
"""

SCRIPT = """
    import functools, sys
    import numpy as np
    import pandas as pd
    import helpers
    from helpers import change
    from dataclasses import dataclass
    from agbm._base.identity import fingerprint

    WORDS = {"one", "two", "three", "four"}
    class Mine:
        kinds = frozenset(["a", "b", "c", "d"])
        def __init__(self):
            self.names, self.table = {"x", "y", "z"}, pd.DataFrame({"a": ["p", "q"], "b": [0.5, None]})
        def value(self, r):
            if r in {"red", "green", "blue"}:
                return super().__repr__()
            return helpers.change(r) + len(WORDS)
    @dataclass
    class Data:
        scale: float = 2.0
    @functools.lru_cache
    def cached(r):
        return change(r)
    print(*map(fingerprint, [Mine(), Data(), cached, lambda r: [np.sin(x) for x in r], Mine().value]))
"""


def run(folder, scale=1.0, above="", seed="0"):
    (folder / "helpers.py").write_text(above + textwrap.dedent(HELPERS).format(scale=scale))
    (folder / "script.py").write_text(above + textwrap.dedent(SCRIPT))
    command = [sys.executable, "script.py"]
    found = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    return found.stdout.split()


@pytest.mark.slow
def test_fingerprints_agree_across_processes(tmp_path):
    """For any hash seed, folder and line numbers, from source or from bytecode."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    first = run(here)
    assert len(set(first)) == 5
    assert run(here, seed="1") == first
    assert run(there, above="# a comment\n\n", seed="2") == first
    changed = run(there, scale=2.5, seed="0")
    assert [a == b for a, b in zip(first, changed, strict=True)] == [False, True, False, True, False]


class TestResuming:
    """Runs cannot be resumed with other objects."""

    def test_checkpoint_of_another_loss(self, regression, tmp_path):
        X, y = regression

        def model(change, max_iter):
            return AGBMRegressor(
                loss=Loss(change), max_iter=max_iter, callbacks=[Checkpoint(tmp_path / "run", every=2)]
            )

        model(lambda r: r, 4).fit(X, y)
        with pytest.raises(ValueError, match="other data or other parameters"):
            model(lambda r: 0.5 * r, 6).fit(X, y)
        whole = AGBMRegressor(loss=Loss(lambda r: r), max_iter=6).fit(X, y)
        assert np.array_equal(model(lambda r: r, 6).fit(X, y).predict(X), whole.predict(X))

    def test_checkpoint_of_a_loss_that_has_an_open_file(self, regression, tmp_path):
        X, y = regression
        with open(tmp_path / "log", "w") as file:
            model = AGBMRegressor(loss=Loss(file.write), callbacks=[Checkpoint(tmp_path / "run")])
            with pytest.raises(TypeError, match=r"run', every=10\): loss=.*cannot be distinguished from other objects"):
                model.fit(X, y)

    @pytest.mark.slow
    def test_init_that_is_fitted_again(self, regression, tmp_path):
        """It has other times in its history, and gives the same values."""
        X, y = regression
        for max_iter in (4, 6):
            start = AGBMRegressor(max_iter=5).fit(X, y)
            AGBMRegressor(init=start, max_iter=max_iter, callbacks=[Checkpoint(tmp_path / "run", every=2)]).fit(X, y)

    @pytest.mark.parametrize("warm", [True, False])
    def test_warm_start_with_a_loss_that_has_changed(self, regression, warm):
        X, y = regression
        loss = Loss(lambda r: r)
        model = AGBMRegressor(loss=loss, max_iter=3, warm_start=warm).fit(X, y)
        model.set_params(max_iter=5, warm_start=True).fit(X, y)
        loss.change = lambda r: 2 * r
        with pytest.raises(ValueError, match=r"loss=.* \(modified since\)"):
            model.fit(X, y)

    def test_warm_start_with_another_init_or_learner(self, regression):
        X, y = regression
        start = LinearRegression().fit(X, y)
        model = AGBMRegressor(init=start, method=Fading(learner=Ridge()), max_iter=3, warm_start=True).fit(X, y)
        model.method.learner.alpha = 7.0
        with pytest.raises(ValueError, match=r"method=.*learner=Ridge\(alpha=7.0\).* \(was .*learner=Ridge\(\).*\)"):
            model.fit(X, y)
        model.method.learner.alpha = 1.0
        start.coef_[0] += 1.0
        with pytest.raises(ValueError, match=r"init=LinearRegression\(\) \(modified since\)"):
            model.fit(X, y)

    def test_warm_start_with_a_list_that_has_changed(self, regression):
        X, y = regression
        groups = [[0, 1], [2, 3]]
        model = AGBMRegressor(interaction_cst=groups, max_iter=3, warm_start=True).fit(X, y)
        groups[0].append(2)
        with pytest.raises(ValueError, match="interaction_cst"):
            model.fit(X, y)

    def test_warm_start_with_an_object_without_fingerprint(self, regression):
        X, y = regression
        loss = Loss(lambda r: r)
        loss.lock = threading.Lock()
        model = AGBMRegressor(loss=loss, max_iter=3, warm_start=True).fit(X, y)
        with pytest.raises(TypeError, match=r"warm_start=True: loss=.* cannot be distinguished"):
            model.fit(X, y)
        del loss.lock
        with pytest.raises(ValueError, match="loss="):
            model.fit(X, y)

    def test_saved_models_resume(self, regression, tmp_path):
        from agbm import load

        X, y = regression
        AGBMRegressor(loss=Quantile(0.3), max_iter=3, warm_start=True).fit(X, y).save(tmp_path / "model")
        model = load(tmp_path / "model").set_params(max_iter=5).fit(X, y)
        assert np.array_equal(model.predict(X), AGBMRegressor(loss=Quantile(0.3), max_iter=5).fit(X, y).predict(X))
        with pytest.raises(ValueError, match="loss="):
            model.set_params(loss=Quantile(0.4)).fit(X, y)

    def test_subclass_of_a_loss_of_the_library(self, regression, tmp_path):
        X, y = regression

        def model(factor):
            class Mine(HalfSquaredError):
                def negative_gradient(self, y, f):
                    return factor * (y - f)

            return AGBMRegressor(loss=Mine(), max_iter=2, callbacks=[Checkpoint(tmp_path / "run", every=1)])

        model(1.0).fit(X, y)
        model(1.0).fit(X, y)
        with pytest.raises(ValueError, match="other data or other parameters"):
            model(0.5).fit(X, y)
