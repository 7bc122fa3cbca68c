"""The reference service of examples/, under load and with bad requests."""

import asyncio
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

import serve_fastapi  # noqa: E402
from serve import RequestError, Service  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("service", ["serve.py", "serve_fastapi.py"])
def test_load_test(service):
    run = subprocess.run(
        [sys.executable, EXAMPLES / "load_test.py", service, "--requests", "200", "--clients", "6"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "WRONG" not in run.stdout
    assert "predictions              160" in run.stdout
    assert "latency in ms" in run.stdout


@pytest.mark.parametrize("service", ["serve.py", "serve_fastapi.py"])
def test_invalid_model_files(service, tmp_path):
    (tmp_path / "m.agbm").write_bytes(b"no model")
    for path, message in ((tmp_path / "m.agbm", "cannot be loaded"), (tmp_path / "none", "No such file")):
        run = subprocess.run([sys.executable, EXAMPLES / service, path], capture_output=True, text=True)
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


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "an area": rng.normal(size=200), "t": rng.choice(["x", "y"], 200), "flag": rng.choice([True, False], 200),
        "day": pd.date_range("2026-01-01", periods=200),
        "size": pd.Categorical(rng.choice(["S", "M", "L"], 200), ["S", "M", "L"], ordered=True),
    })  # fmt: skip
    return AGBMRegressor(max_iter=5).fit(X, X["an area"] + (X["t"] == "x") + X["flag"])


@pytest.fixture(scope="module")
def app(model):
    return serve_fastapi.service(model)


class TestFastAPI:
    """The application of serve_fastapi.py, without a server."""

    ROW = {"flag": True, "day": "2026-01-05", "t": "x", "an area": None, "size": "M"}  # noqa: RUF012

    def asked(self, app, path, value, method="POST", more=()):
        """The status and the content of a response."""
        body, sent = json.dumps(value).encode(), []
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
            "headers": headers, "query_string": b"", "scheme": "http", "root_path": "", "server": ("s", 1),
        }  # fmt: skip

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        asyncio.run(app(scope, receive, send))
        return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))

    def test_columns_in_any_order(self, app, model):
        X = pd.DataFrame([self.ROW])[list(model.feature_names_in_)].astype({"an area": float})
        (expected,) = model.predict(X)
        assert self.asked(app, "/predict", self.ROW) == (200, {"prediction": expected})
        turned = dict(reversed(self.ROW.items()))
        assert self.asked(app, "/batch", {"rows": [self.ROW, turned]}) == (200, {"predictions": [expected] * 2})

    @pytest.mark.parametrize(("name", "value", "word"), [
        ("t", 5, "string"), ("an area", "1", "number"), ("an area", np.nan, "finite"), ("an area", 10**400, "number"),
        ("day", 3, "string"), ("day", "soon", "isoformat"), ("flag", "no", "number"), ("size", "XL", "'L'"),
        ("aera", 1, "not permitted"),
    ])  # fmt: skip
    def test_errors_name_the_column(self, app, name, value, word):
        status, answer = self.asked(app, "/batch", {"rows": [self.ROW, self.ROW | {name: value}]})
        assert status == 422
        (error,) = answer["errors"]
        assert name in error
        assert word in error

    def test_unknown_names_are_ignored_by_choice(self, app, model):
        ignoring = serve_fastapi.service(model, unknown="ignore")
        assert self.asked(ignoring, "/predict", self.ROW | {"aera": 1}) == self.asked(app, "/predict", self.ROW)
        without = {name: value for name, value in self.ROW.items() if name != "t"}
        assert self.asked(ignoring, "/predict", without) == (422, {"errors": ["t: Field required"]})

    def test_limits(self, app):
        assert self.asked(app, "/batch", {"rows": []})[0] == 422
        assert self.asked(app, "/batch", {}, more=[(b"content-length", b"99999999999")])[0] == 413
        assert self.asked(app, "/batch", {}, more=[(b"transfer-encoding", b"chunked")])[0] == 411

    def test_health(self, app, model):
        features = ["an area", "t", "flag", "day", "size"]
        expected = {"model": "AGBMRegressor", "fingerprint": model.fingerprint_, "features": features}
        assert self.asked(app, "/health", None, "GET") == (200, expected)

    def test_classes(self):
        X = pd.DataFrame({"a": np.arange(60.0)})
        model = agbm.AGBMClassifier(max_iter=5).fit(X, np.where(X["a"] < 30, "no", "yes"))
        no, yes = model.predict_proba(X[:1])[0]
        found = self.asked(serve_fastapi.service(model), "/predict", {"a": 0})
        assert found == (200, {"prediction": {"no": no, "yes": yes}})

    def test_columns_without_names(self):
        with pytest.raises(ValueError, match="have no names: fit it to a data frame"):
            serve_fastapi.service(AGBMRegressor(max_iter=2).fit([[float(i)] for i in range(50)], range(50)))
