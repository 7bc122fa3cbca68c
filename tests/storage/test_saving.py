"""Whatever fit accepts: save refuses it with a clear error and writes nothing, or load gives an equal model."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import agbm
from agbm import AGBMClassifier, AGBMRegressor, losses
from agbm._losses import BuiltInLoss
from agbm.methods import AGBM, GBM, VAGBM, Fading, Method

pytestmark = pytest.mark.slow

N_ROWS = 40
FEW = {"max_iter": 2, "min_samples_leaf": 1, "n_jobs": 1}

any_text = st.text(st.characters(exclude_categories=()), max_size=8)  # with halves of surrogate pairs and NUL
pairs_of_halves = st.just("\ud83d\ude00")
dates = st.dates() | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
sizes_of_integers = st.integers() | st.integers(-(2**200), 2**200) | st.sampled_from([2**63 - 1, 2**63, -(2**63)])
numpy_scalars = st.sampled_from([
    np.int8(3), np.uint64(2**64 - 1), np.float16(0.1), np.float32(0.1), np.float64(0.1), np.longdouble(1) / 3, np.True_,
    np.str_("x\0y"), np.bytes_(b"x"), np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.complex64(1j),
])  # fmt: skip
plain_values = [any_text | pairs_of_halves, sizes_of_integers, st.floats(allow_nan=False), st.booleans()]
other_values = [
    st.binary(max_size=4), st.tuples(st.integers(), any_text), st.decimals(allow_nan=False), dates, st.fractions(),
    st.none(), st.just(float("nan")), numpy_scalars, st.frozensets(st.integers(), max_size=2),
]  # fmt: skip
categories = st.one_of(
    *(st.lists(kind, min_size=1, max_size=6) for kind in [*plain_values, *other_values]),
    st.lists(st.one_of(*plain_values), min_size=1, max_size=6),
    st.lists(st.one_of(*plain_values, *other_values), min_size=1, max_size=6),
)

dtypes_of_numbers = st.sampled_from(["i1", "u1", "i2", "<i4", ">i4", "i8", "u8", "f2", "f4", "f8", "?", "O"])
classes = st.one_of(
    st.builds(lambda dtype: np.array([0, 1, 5]).astype(dtype), dtypes_of_numbers),
    st.builds(lambda values: np.array(values, dtype=object), st.lists(any_text, min_size=2, max_size=4)),
    st.builds(lambda values: np.array(values, dtype=str), st.lists(any_text, min_size=2, max_size=4)),
    st.builds(lambda values: np.array(values, dtype="u8"), st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=4)),
    st.builds(lambda values: np.array(values, dtype=object), st.lists(sizes_of_integers, min_size=2, max_size=3)),
    st.sampled_from([
        np.array([b"a", b"b"]), np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"), np.array([1, 2], "m8[s]"),
        np.array([Decimal(1), Decimal(2)]), np.array([datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]),
        np.array([1, 2], np.longdouble), pd.Categorical(["x", "y"]), pd.Series(["x", "y"], dtype="string"),
    ]),
)  # fmt: skip

feature_names = st.lists(any_text | pairs_of_halves, min_size=3, max_size=3, unique=True)
of_one_number = [int, float, np.float32, np.float64, Fraction]
parameters = st.fixed_dictionaries({}, optional={
    "categorical_features": st.sampled_from([
        [0], (0,), range(1), np.array([0]), np.array([0], np.uint8), pd.Index([0]), pd.Series([0]),
        [True, False, False], np.array([True, False, False]), [], np.array([], dtype=int), None, ["a"], np.array(["a"]),
        pd.Index(["a"]), np.array(["a"], dtype=object),
    ]),
    "monotonic_cst": st.sampled_from([[0, 1, -1], (0, 1, -1), np.array([0, 1, -1]), pd.Series([0, 1, -1]), {"b": 1}]),
    "interaction_cst": st.sampled_from([
        [[0, 1], [2]], ((0, 1),), [{0, 1}, frozenset([2])], [range(2)], [np.array([0, 2])], [{0: "x"}.keys()],
        [pd.Index([1, 2])], "pairwise", [(np.int64(0), 1)],
    ]),
    "learning_rate": st.sampled_from([kind(1) for kind in of_one_number]),
    "max_iter": st.sampled_from([1, np.int8(2), np.uint64(2)]),
    "max_depth": st.sampled_from([None, 2, np.int64(3), 10**30]),
    "n_iter_no_change": st.sampled_from([3, np.int32(3), 2**63, 2**64, 10**5000]),
    "early_stopping": st.sampled_from([False, np.False_]),
    "method": st.sampled_from([
        "agbmr", Fading(fade=np.float32(0.5)), AGBM(shared_structure=np.True_, restart=np.int64(1)), VAGBM(momentum=1),
        AGBM(momentum=Fading(entry=2)), GBM(line_search=np.False_),
    ]),
    "random_state": st.sampled_from([None, 3, np.int64(3), np.uint32(2**32 - 1), np.random.RandomState(0)]),
    "verbose": st.sampled_from([0, False, np.False_]),
    "callbacks": st.sampled_from([None, [lambda record: None]]),
})  # fmt: skip
regression_losses = st.sampled_from([
    "squared_error", losses.Quantile(np.float32(0.3)), losses.Quantile(Fraction(1, 3)), losses.Huber(np.float16(2)),
    losses.Huber(3), losses.Tweedie(np.float64(1.2)),
])  # fmt: skip


def table(names=("a", "b", "c")):
    rng = np.random.default_rng(0)
    return pd.DataFrame(np.round(rng.random((N_ROWS, 3)), 1), columns=pd.Index(names, dtype=object))


def tiled(values):
    """An object array of some values, again and again."""
    column = np.empty(N_ROWS, dtype=object)
    for row in range(N_ROWS):
        column[row] = values[row % len(values)]
    return column


def with_types(values):
    return [(type(value), value) for value in values]


def plain(value):
    """A parameter as it is loaded: lists for everything that is a row of values."""
    if isinstance(value, (set, frozenset, type({}.keys()))):
        return sorted(map(plain, value))
    if isinstance(value, (list, tuple, range)):
        return list(map(plain, value))
    if isinstance(value, dict):
        return {plain(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Method):
        return type(value), plain(value.get_params(deep=False))
    return repr(value) if isinstance(value, BuiltInLoss) else value


def check(model, X, folder):
    """Save a fitted model: either is fine, an error and no file, or a file and an equal model. Which, is returned."""
    path = folder / "saved.agbm"
    path.unlink(missing_ok=True)
    files = sorted(folder.iterdir())
    try:
        model.save(path)
    except ValueError as error:
        assert "a model file" in str(error), error  # noqa: PT017
        assert sorted(folder.iterdir()) == files
        return "refused"
    loaded = agbm.load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.model_.categories.keys() == model.model_.categories.keys()
    for feature, known in model.model_.categories.items():
        unboxed = [value.item() if isinstance(value, np.generic) else value for value in known]
        assert with_types(loaded.model_.categories[feature]) == with_types(unboxed)
    assert hasattr(loaded, "feature_names_in_") == hasattr(model, "feature_names_in_")
    assert list(getattr(loaded, "feature_names_in_", ())) == list(getattr(model, "feature_names_in_", ()))
    if isinstance(model, AGBMClassifier):
        assert with_types(loaded.classes_.tolist()) == with_types(model.classes_.tolist())
        assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
    expected = model.get_params(deep=False) | {"callbacks": None}
    if isinstance(expected["random_state"], np.random.RandomState):
        expected["random_state"] = None
    for name, value in expected.items():
        assert plain(getattr(loaded, name)) == plain(value), name
    return "saved"


def fitted(model, X, y):
    """The model, or None where fit refuses the data."""
    try:
        return model.fit(X, y)
    except (ValueError, TypeError, OverflowError):
        event("fit refuses")
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@settings(max_examples=2 * settings.default.max_examples)
@given(values=categories)
def test_categories(values, folder):
    X = tiled(values)[:, np.newaxis]
    model = fitted(AGBMRegressor(categorical_features=[0], **FEW), X, np.arange(N_ROWS) % len(values))
    if model is not None:
        event(check(model, X, folder))


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
@pytest.mark.parametrize("as_table", [np.asarray, pd.DataFrame])
def test_categories_that_are_dates(unit, as_table, folder):
    days = np.array(["2020-01-01", "2020-02-01", "2021-01-01", "NaT"], dtype=f"datetime64[{unit}]")
    X = as_table(days[np.arange(N_ROWS) % 4][:, np.newaxis])
    check(AGBMRegressor(categorical_features=[0], **FEW).fit(X, np.arange(N_ROWS) % 4), X, folder)


@settings(max_examples=settings.default.max_examples)
@given(values=classes, weighted=st.booleans())
def test_classes(values, weighted, folder):
    X, y = table(), values[np.arange(N_ROWS) % len(values)]
    weights = {label: np.float32(1.5) for label in values} if weighted else None
    model = fitted(AGBMClassifier(class_weight=weights, **FEW), X, y)
    if model is not None:
        event(check(model, X, folder))


@settings(max_examples=settings.default.max_examples)
@given(names=feature_names, chosen=st.booleans())
def test_feature_names(names, chosen, folder):
    X = table(names)
    model = AGBMRegressor(categorical_features=names[:1] if chosen else None, **FEW)
    event(check(model.fit(X, X[names[2]]), X, folder))


@settings(max_examples=settings.default.max_examples)
@given(given=parameters, loss=regression_losses)
def test_parameters(given, loss, folder):
    X = table()
    model = fitted(AGBMRegressor(**{**FEW, "loss": loss, **given}), X, 1.0 + X["a"] + X["b"])
    if model is not None:
        event(check(model, X, folder))
