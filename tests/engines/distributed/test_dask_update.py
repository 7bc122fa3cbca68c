"""Updates on a real Dask cluster: the model has the bytes of one that is updated in this process."""

import pickle

import numpy as np
import pytest

from agbm import AGBMClassifier, AGBMRegressor
from agbm.dask import DaskAGBMClassifier, DaskAGBMRegressor
from dask_cluster import cuts_of, frame, in_parts, labels

pytestmark = pytest.mark.slow

PARAMETERS = {"max_iter": 4, "max_leaf_nodes": 5, "n_members": 2, "random_state": 0}


def bytes_of(model, folder):
    """The model file, but for how long it took."""
    model.history_["seconds"] = np.zeros_like(model.history_["seconds"])
    model.save(folder / "model.agbm")
    return (folder / "model.agbm").read_bytes()


def both(kind):
    """A model of this process, the same one for Dask, and new rows."""
    local, remote = (AGBMRegressor, DaskAGBMRegressor) if kind == "numbers" else (AGBMClassifier, DaskAGBMClassifier)
    old, new = frame(600, seed=0), frame(500, seed=5)
    model = local(**PARAMETERS).fit(old, labels(kind, old))
    on_dask = remote(**PARAMETERS)
    on_dask.__dict__ = pickle.loads(pickle.dumps(model.__dict__))
    return model, on_dask, new, labels(kind, new, seed=6)


@pytest.mark.parametrize(
    ("client", "kind", "mode"),
    [("threads", "numbers", "trees"), ("threads", "three classes", "trees"), ("processes", "three classes", "all")],
    indirect=["client"],
)
def test_same_bits(client, kind, mode, tmp_path):
    model, on_dask, X, y = both(kind)
    cuts = cuts_of(len(X), 5)
    on_dask.update(in_parts(X, cuts), in_parts(y, cuts), mode=mode, client=client)
    assert bytes_of(on_dask, tmp_path) == bytes_of(model.update(X, y, mode=mode), tmp_path)


@pytest.mark.parametrize("mode", ["leaves", "weights"])
def test_modes_that_need_one_machine_are_refused(client, mode):
    _, on_dask, X, y = both("numbers")
    cuts, before = cuts_of(len(X), 3), on_dask.model_
    with pytest.raises(ValueError, match=f"mode='{mode}' does not work on a Dask cluster; use mode='trees'"):
        on_dask.update(in_parts(X, cuts), in_parts(y, cuts), mode=mode, client=client)
    assert on_dask.model_ is before
