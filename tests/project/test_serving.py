"""The reference service of examples/, under load and with bad requests."""

import json
import subprocess
import sys
import warnings
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMRegressor

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from serve import RequestError, Service  # noqa: E402

pytestmark = pytest.mark.slow


def test_load_test():
    run = subprocess.run(
        [sys.executable, EXAMPLES / "load_test.py", "--requests", "200", "--clients", "6"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "WRONG" not in run.stdout
    assert "predictions              160" in run.stdout
    assert "latency in ms" in run.stdout


def test_invalid_model_files(tmp_path):
    (tmp_path / "m.agbm").write_bytes(b"no model")
    for path, message in ((tmp_path / "m.agbm", "cannot be loaded"), (tmp_path / "none", "No such file")):
        run = subprocess.run([sys.executable, EXAMPLES / "serve.py", path], capture_output=True, text=True)
        assert run.returncode == 1
        assert message in run.stderr
        assert "Traceback" not in run.stderr


@pytest.fixture
def service(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "t": rng.choice(["x", "y"], 200)})
    model = AGBMRegressor(max_iter=5).fit(X, X["a"] + (X["t"] == "x"))
    model.save(tmp_path / "m.agbm")
    return Service(agbm.load(tmp_path / "m.agbm")), model


def test_categories(service):
    service, model = service
    rows = [[0.5, "x"], [None, "y"], [1, None], [-1.5, "never seen"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = service.predict(json.dumps({"rows": rows}).encode())["predictions"]
    expected = model.predict(pd.DataFrame(rows, columns=["a", "t"]).astype({"a": float}))
    assert found == expected.tolist()
    assert service.health() == {"model": "AGBMRegressor", "features": ["a", "t"]}


@pytest.mark.parametrize(("body", "message"), [
    (b"", "not JSON"), (b"[1]", "'rows' must be a list"), (b'{"rows": 3}', "'rows' must be"),
    (b'{"rows": [[1]]}', "row 0 must be a list of 2 values"), (b'{"rows": [[true, "x"]]}', "'a' must be a number"),
    (b'{"rows": [[1, "x"], [{}, "x"]]}', "row 1: 'a' must be a number"), (b'{"rows": [[1, []]]}', "'t' must be"),
    (b'{"rows": [[NaN, "x"]]}', "'a' must be a number"),
])  # fmt: skip
def test_bad_requests(service, body, message):
    with pytest.raises(RequestError, match=message) as caught:
        service[0].predict(body)
    assert caught.value.status == HTTPStatus.BAD_REQUEST
