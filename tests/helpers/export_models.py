"""Small fitted models of every kind that can be exported, and rows that are hard for them."""

import atexit
from functools import cache, partial

import numpy as np
import pandas as pd

from agbm import AGBMClassifier, AGBMRegressor
from agbm.export._view import view
from agbm.losses import Huber, LogLoss, Quantile, Tweedie
from variants import made

ROWS = 300

ONE = {"n_members": 1, "early_stopping": False}
"""Parameters of a model of one member, which is trained on all rows."""


@cache
def table():
    """Numbers and text with missing values, and a column with more categories than a word has bits."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=ROWS),
            "b c": np.round(rng.normal(size=ROWS), 1),
            "town": rng.choice(list("abcdefghij"), ROWS),
            "code": pd.Categorical(rng.permutation(np.arange(ROWS) % 75)),
        }
    )
    for name, share in (("a", 0.1), ("b c", 0.1), ("town", 0.1), ("code", 0.05)):
        frame.loc[rng.random(ROWS) < share, name] = None
    return frame


@cache
def amounts():
    """Positive labels that depend on all columns, and on which values are missing."""
    X = table()
    noise = np.random.default_rng(1).normal(size=ROWS)
    score = X["a"].fillna(1.0) + X["b c"].isna() + 0.5 * X["b c"].fillna(0.0)
    score += 1.5 * X["town"].isin(list("adj")) + 0.5 * (X["code"].astype(float).fillna(0.0) % 3)
    return np.exp(0.5 * score.to_numpy() + 0.1 * noise)


def _regressor(loss="squared_error", outputs=1, **parameters):
    y = amounts() if outputs == 1 else np.column_stack([amounts() ** (k + 1) for k in range(outputs)])
    return AGBMRegressor(loss=loss, max_iter=8, min_samples_leaf=3, **parameters).fit(table(), y)


def _classifier(bounds, labels, **parameters):
    y = np.array(labels)[np.digitize(amounts(), np.quantile(amounts(), bounds))]
    return AGBMClassifier(max_iter=8, min_samples_leaf=3, **parameters).fit(table(), y)


_LOSSES = {
    "squared": "squared_error", "absolute": "absolute_error", "poisson": "poisson", "gamma": "gamma",
    "quantile": Quantile(0.8), "huber": Huber(0.5), "tweedie": Tweedie(1.3),
}  # fmt: skip
_ABC = {"bounds": [0.3, 0.7], "labels": ["low", "mid", "top"]}

MAKE = {
    **{name: partial(_regressor, loss) for name, loss in _LOSSES.items()},
    "two outputs": partial(_regressor, outputs=2),
    "two outputs, vector leaves": partial(_regressor, outputs=2, multi_strategy="multi_output_tree"),
    "agbm": partial(_regressor, method="agbm"),
    "agbm, two trees": partial(_regressor, method=made("agbm", shared_structure=False)),
    "shares": lambda: AGBMRegressor(loss=LogLoss(), max_iter=8).fit(table(), amounts() / amounts().max()),
    "one column": lambda: AGBMRegressor(max_iter=8).fit(table(), amounts()[:, np.newaxis]),
    "zero": partial(_regressor, init="zero", max_leaf_nodes=5),
    "log_loss": partial(_classifier, [0.4], ["no", "yes"]),
    "exponential": partial(_classifier, [0.4], [3, 7], loss="exponential"),
    "three classes": partial(_classifier, **_ABC, multi_strategy="one_output_per_tree"),
    "three classes, vector leaves": partial(_classifier, **_ABC, multi_strategy="multi_output_tree"),
    "three classes, agbm": partial(_classifier, **_ABC, method="agbm"),
    "single leaves": partial(_regressor, min_split_gain=1e9),
    "three single leaves": partial(_classifier, **_ABC, min_split_gain=1e9),
    "no trees": lambda: AGBMRegressor(early_stopping=True).fit(
        table(), amounts(), X_val=table()[:20], y_val=np.full(20, amounts().mean())
    ),
}
LOG_LINK_WITH_TWO_OUTPUTS = {
    "two poisson outputs": partial(_regressor, "poisson", outputs=2),
    "two gamma outputs, vector leaves": partial(_regressor, "gamma", outputs=2, multi_strategy="multi_output_tree"),
}
MAKE_ALL = {**MAKE, **LOG_LINK_WITH_TWO_OUTPUTS}


_MADE = {}
atexit.register(_MADE.clear)  # nanobind reports objects that outlive the interpreter as leaks


def model(name, **parameters):
    key = name, *parameters.items()
    if key not in _MADE:
        _MADE[key] = MAKE_ALL[name](**parameters)
    return _MADE[key]


def numbers():
    """Only numbers, with missing values, and labels of three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.digitize(np.nan_to_num(X[:, 0], nan=1.0) + np.isnan(X[:, 1]), [-0.3, 0.8])


def hard_rows(fitted, dtype=np.float64):
    """A table with training rows, unknown categories, missing values, and numbers at thresholds and next to them."""
    X = table()
    trees = view(fitted).trees
    unknown = X.assign(town="never seen", code=pd.Categorical([None] * ROWS))
    parts = [X, unknown, X.assign(**{"a": np.nan, "b c": np.nan})]
    for feature, name in ((0, "a"), (1, "b c")):
        at = np.unique(np.concatenate([tree.threshold[tree.feature == feature] for tree in trees]))
        at = at[np.isfinite(at)]
        with np.errstate(over="ignore"):
            near = at.astype(dtype)
        values = np.concatenate([near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(-np.inf))])
        parts.append(X.iloc[np.arange(len(values)) % ROWS].assign(**{name: values}))
    known = X["code"].cat.categories
    frame = pd.concat([part.assign(code=pd.Categorical(part["code"], known)) for part in parts], ignore_index=True)
    return frame.astype({"a": dtype, "b c": dtype})


def with_unknown_numbers(codes):
    """Encoded rows, with codes that are not categories in place of missing categories."""
    changed = codes.copy()
    for column in (2, 3):
        missing = np.flatnonzero(np.isnan(codes[:, column]))
        changed[missing, column] = np.resize([75.0, 1000.0, -1.0, 1e6], len(missing))
    assert (~np.isnan(changed[:, 2:])).all()
    return changed


def scores(fitted, X):
    """Raw scores (row, output)."""
    return fitted.model_.raw_predict(X, 1).T


def predictions(fitted, X):
    """Predictions in the form of the export formats; for two classes, only the second one, (row, 1)."""
    if not hasattr(fitted, "classes_"):
        return fitted.predict(X).reshape(len(X), -1)
    probabilities = fitted.predict_proba(X)
    return probabilities[:, 1:] if probabilities.shape[1] == 2 else probabilities


def rows_of_categories(rng, n_categories, share_missing):
    """Rows whose first feature is a category, and the same rows with unknown categories in the first half."""
    X = rng.normal(size=(120, 2))
    X[:, 0] = rng.integers(0, n_categories, len(X))
    X[rng.random(X.shape) < share_missing] = np.nan
    new = X.copy()
    new[:60, 0] = rng.integers(0, 2 * n_categories, 60)
    return X, new
