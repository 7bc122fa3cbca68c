"""Temperature scaling on a Dask cluster: the same bits as in this process."""

from itertools import pairwise

import numpy as np
import pytest
from dask.delayed import delayed

from agbm import AGBMClassifier
from agbm.dask import DaskAGBMClassifier
from agbm.methods import Fading

pytestmark = pytest.mark.slow

SMALL = {
    "max_iter": 8,
    "max_depth": 3,
    "n_members": 2,
    "learning_rate": 0.3,
    "method": Fading(temperature_scaling=True),
}


def parts(array, cuts):
    return [delayed(np.asarray)(array[i:j]) for i, j in pairwise(cuts)]


@pytest.mark.parametrize(("client", "given"), [("threads", False), ("processes", True)], indirect=["client"])
def test_same_bits(client, given):
    """With rows that members hold out, weights and offsets; and with given validation rows."""
    rng = np.random.default_rng(0)
    X, offset, weight = rng.normal(size=(900, 3)), rng.normal(size=(900, 3)), np.arange(900) % 3
    y = (0.5 * X + offset + rng.gumbel(size=X.shape)).argmax(axis=1)
    rows = {"X_val": X[:200], "y_val": y[:200], "offset_val": offset[:200]} if given else {}
    local = AGBMClassifier(**SMALL).fit(X, y, weight, offset=offset, **rows)
    assert abs(local.resolved_params_["temperature"] - 1.0) > 0.01
    rows = {name: [delayed(np.asarray)(array)] for name, array in rows.items()}
    arrays = [parts(array, [0, 300, 300, 900]) for array in (X, y, weight, offset)]
    model = DaskAGBMClassifier(**SMALL).fit(*arrays[:3], offset=arrays[3], **rows, client=client)
    assert model.resolved_params_["temperature"] == local.resolved_params_["temperature"]
    assert np.array_equal(model.predict_proba(X), local.predict_proba(X))


def test_missing_validation_rows_are_refused(client):
    X, y = np.arange(200.0)[:, np.newaxis], np.arange(200) % 2
    model = DaskAGBMClassifier(**SMALL, early_stopping=False)
    with pytest.raises(ValueError, match="temperature_scaling=True needs validation rows"):
        model.fit(parts(X, [0, 100, 200]), parts(y, [0, 100, 200]), client=client)
