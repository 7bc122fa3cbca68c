"""The data frame of all trees has everything that predictions depend on."""

import sys

import numpy as np
import pandas as pd
import pytest

from agbm import AGBMClassifier, AGBMRegressor
from agbm.export import trees_to_dataframe

KINDS = {
    "members": lambda X, y: AGBMRegressor(max_iter=6, n_members=3).fit(X, y),
    "momentum trees": lambda X, y: AGBMRegressor(max_iter=6, method="agbm").fit(X, y),
    "classes": lambda X, y: AGBMClassifier(max_iter=4, multi_strategy="one_output_per_tree").fit(
        X, np.digitize(y, [0, 2])
    ),
    "several values": lambda X, y: AGBMClassifier(max_iter=4, multi_strategy="multi_output_tree").fit(
        X, np.digitize(y, [0, 2])
    ),
    "no trees": lambda X, y: AGBMRegressor(max_iter=4).fit(X, np.zeros(len(X))),
    "crosses": lambda X, y: AGBMRegressor(max_iter=6, views=[("a", "*", "b")]).fit(X, y),
}


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"a": random.normal(size=300), "b": random.normal(size=300)})
    X["town"] = random.choice([*"abcdefg", None], 300)
    X["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 700, 300), "D")
    X.loc[::6, "a"] = np.nan
    return X, X["a"].fillna(1.0) * X["b"] + 2.0 * X["town"].isin(list("ad")) + X["day"].dt.month / 6


def followed(nodes, numbers, categories, names):
    """The leaf that a row reaches; `numbers` are what trees see, by feature."""
    node = nodes.loc[0]
    while node["left"] >= 0:
        value = numbers[names.index(node["feature"])]
        if np.isnan(value):
            left = node["missing"] == "left"
        elif node["decision"] == "in":
            known = categories[names.index(node["feature"])]
            left = known[int(value)] in node["categories"] if value < len(known) else node["unknown"] == "left"
        else:
            left = value <= node["threshold"]
        node = nodes.loc[node["left"] if left else node["right"]]
    return node


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_follow_the_frame_get_the_scores_of_the_model(data, kind):
    X, y = data
    model = KINDS[kind](X, y)
    frame, fitted = trees_to_dataframe(model), model.model_
    rows = X[:12].assign(town=[*X["town"][:10], "new", None])
    numbers, names = fitted.reader.numbers(rows), fitted.reader.feature_names
    scores = np.tile(fitted.start, (len(rows), 1))
    values = [name for name in frame if name.startswith("value")]
    for _, tree in frame.groupby("tree"):
        nodes = tree.set_index("node")
        for row in range(len(rows)):
            leaf = followed(nodes, numbers[row], fitted.categories, names)
            for k, name in enumerate(values):
                scores[row, leaf["output"] + k] += leaf[name]
    np.testing.assert_allclose(scores, fitted.raw_predict(rows, 1).T, atol=1e-9)
    if kind != "no trees":
        assert frame["tree"].nunique() == model.n_trees_
        assert set(frame["iteration"]) == set(range(1, model.best_iteration_ + 1))
        assert set(frame["feature"].dropna()) <= set(names)
        assert frame["count"].max() <= 300
    inner = frame[frame["left"] >= 0].merge(
        frame, left_on=["tree", "left"], right_on=["tree", "node"], suffixes=("", "_of")
    )
    assert (inner["parent_of"] == inner["node"]).all()
    assert (inner["depth_of"] == inner["depth"] + 1).all()


def test_members_and_iterations(data):
    model = KINDS["members"](*data)
    frame = trees_to_dataframe(model)
    assert frame.groupby("member")["tree"].nunique().tolist() == [model.best_iteration_] * 3
    momentum = trees_to_dataframe(KINDS["momentum trees"](*data)).groupby("iteration")["tree"].nunique()
    assert momentum.max() == 2


def test_without_pandas(data, monkeypatch):
    model = KINDS["no trees"](*data)
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not there
    with pytest.raises(ImportError, match="pip install pandas"):
        trees_to_dataframe(model)
