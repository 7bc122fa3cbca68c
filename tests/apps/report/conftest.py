"""Findings that the tests of reports share."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps.evaluation.metrics import Metric, Tried
from agbm._apps.report import (
    Column,
    Findings,
)
from agbm.methods import AGBM, GBM
from report_pages import HOSTILE, early, findings_of, long_run


@pytest.fixture(scope="session")
def cancer():
    """One model of the paper, with restarts."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = AGBMClassifier(
        **early(
            method=AGBM(momentum=0.5, shared_structure=True, restart="loss_rise", second_order=True),
            learning_rate=0.3,
            max_depth=3,
        )
    )
    names = np.array(["malignant", "benign"])[y]
    return findings_of("breast cancer", X, names, {"agbmr": model}, costs=(1.0, 3.0))


@pytest.fixture(scope="session")
def diabetes():
    """Three contenders and one that failed."""
    X, y = load_diabetes(return_X_y=True)
    models = {
        "default": AGBMRegressor(**early(n_members=1)),
        "plain": AGBMRegressor(**early(method=GBM(second_order=True))),
        "agbmr": AGBMRegressor(
            **early(method=AGBM(momentum=0.5, correction=0.5, restart="loss_rise", second_order=True))
        ),
    }
    found = findings_of("diabetes", X, y, models)
    failed = Tried("catboost", failure="catboost cannot be imported: pip install catboost.")
    return replace(found, tried=[*found.tried, failed])


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    separate = {"n_members": 1, "multi_strategy": "one_output_per_tree"}
    return findings_of("iris", X, names, {"agbm": AGBMClassifier(max_iter=20, early_stopping=False, **separate)})


@pytest.fixture(scope="session")
def frame():
    """The default: several members, with validation rows. Categories, missing values, many columns with long names."""
    rng = np.random.default_rng(0)
    names = [f"sensor_{k:03d}_in_the_third_hall_of_the_eastern_works" for k in range(198)]
    X = pd.DataFrame(rng.normal(size=(600, 198)), columns=names)
    X.insert(0, "side", rng.choice(np.array(["north", "south", "east", None], dtype=object), 600))
    X.insert(0, "level", np.where(rng.random(600) < 0.25, np.nan, rng.normal(size=600)))
    y = 2.0 * X["level"].fillna(1.0) + 3.0 * (X["side"] == "south") + X[names[0]] + rng.normal(size=600)
    return findings_of("sensors", X, 1e5 * y, {"agbm": AGBMRegressor(max_iter=30)})


@pytest.fixture(scope="session")
def hostile():
    """Names that run code if they are not escaped."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=HOSTILE[:4])
    X[HOSTILE[4]] = rng.choice(HOSTILE[:2], 200)
    y = np.where(X[HOSTILE[0]] + (X[HOSTILE[4]] == HOSTILE[0]) > 0, HOSTILE[0], HOSTILE[1])
    found = findings_of(HOSTILE[0], X, y, {name: AGBMClassifier(max_iter=5) for name in HOSTILE[:2]})
    metric = Metric(HOSTILE[1], 0.5, 0.4, 0.6, lower_is_better=True)
    first = replace(found.tried[0], metrics=[metric], parameters={HOSTILE[0]: HOSTILE[1]})
    return replace(
        found,
        command=HOSTILE[4],
        facts={HOSTILE[0]: HOSTILE[1]},
        data={HOSTILE[0]: HOSTILE[1]},
        columns=[*found.columns, Column(HOSTILE[0], HOSTILE[1])],
        tried=[first, *found.tried[1:], Tried(HOSTILE[1], failure=HOSTILE[0])],
    )


@pytest.fixture(scope="session")
def ten():
    return Findings("ten", "agbm compare", tried=[long_run(f"contender {k}", seed=k) for k in range(10)])
