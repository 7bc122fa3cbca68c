"""Models in JavaScript, run by node or a browser: they predict the same bits, and explain their predictions."""

import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import sync_playwright

import browser as browsers
from agbm import AGBMRegressor
from agbm._core.losses.elementary import exp
from agbm.export import encode, to_js
from export_models import MAKE_ALL, hard_rows, model, with_unknown_numbers
from programs import (
    HOSTILE,
    MORE,
    assert_same_bits,
    expected,
    extreme_rows,
    hostile_model,
    more,
    run_js,
    run_node,
    run_page,
    with_dates,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a function of a module: in node, or in a browser if there is no node."""
    if shutil.which("node"):
        yield partial(run_node, folder=tmp_path_factory.mktemp("node"))
        return
    with sync_playwright() as playwright:
        found = browsers.launch(playwright)
        if found is None:
            pytest.skip(f"no node, and {browsers.HOW_TO_GET_ONE}")
        yield partial(run_page, page=found.new_page())
        found.close()


@pytest.mark.parametrize("name", [*MAKE_ALL, *MORE])
def test_the_same_bits(name, run):
    fitted = model(name) if name in MAKE_ALL else more(name)
    X = hard_rows(fitted)[::2] if name in MAKE_ALL else extreme_rows(fitted)
    found, (raw, finished, predicted) = run_js(run, fitted, encode(fitted, X)), expected(fitted, X)
    assert_same_bits(found["scores"], raw)
    assert_same_bits(found["finished"], finished)
    assert found["predicted"] == predicted.ravel().tolist()


def test_in_a_browser():
    with sync_playwright() as playwright:
        found = browsers.launch(playwright)
        if found is None:
            pytest.skip(browsers.HOW_TO_GET_ONE)
        fitted = model("three classes")
        X = hard_rows(fitted)[::5]
        actual = run_js(partial(run_page, page=found.new_page()), fitted, encode(fitted, X))
        assert_same_bits(actual["finished"], fitted.predict_proba(X))
        found.close()


def test_extreme_scores(run):
    """Offsets may be of any size."""
    scores = [*np.linspace(-800, 800, 2001).tolist(), 700.0, float(np.nextafter(700.0, 701.0))]
    driver = "async (module, scores) => { const m = await import(module); return scores.map((s) => m.finish([s])[0]); }"
    assert_same_bits(np.array(run(driver, to_js(model("poisson")), scores), dtype=np.float64), exp(np.array(scores)))


def test_numbers_that_are_no_categories_are_missing(run):
    fitted = model("squared")
    X = hard_rows(fitted)
    found = run_js(run, fitted, with_unknown_numbers(encode(fitted, X)))
    assert_same_bits(found["finished"][:, 0], fitted.predict(X))


EXPLAINED = [
    "squared", "two outputs, vector leaves", "agbm, two trees", "log_loss", "three classes, vector leaves",
    "three single leaves", "no trees",
]  # fmt: skip


@pytest.mark.parametrize("name", EXPLAINED)
def test_contributions(name, run):
    fitted = model(name)
    X = hard_rows(fitted)[::20]
    wanted = fitted.predict_contributions(X)
    found = run_js(run, fitted, encode(fitted, X), contributions=True)
    np.testing.assert_allclose(found["contributions"].reshape(wanted.shape), wanted, rtol=0, atol=1e-9)
    assert_same_bits(found["scores"], expected(fitted, X)[0])


def test_contributions_of_deep_trees(run):
    """Many features on a path, and features that are there several times."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 15))
    y = np.prod(1.0 + 0.3 * np.sign(X), axis=1) + np.sin(3.0 * X[:, 0])
    fitted = AGBMRegressor(max_iter=3, max_leaf_nodes=None, min_samples_leaf=1, n_members=1).fit(X, y)
    found = run_js(run, fitted, X[:20], contributions=True)
    np.testing.assert_allclose(found["contributions"], fitted.predict_contributions(X[:20]), rtol=0, atol=1e-9)


ENCODE = "async (module, rows) => { const m = await import(module); return rows.map((row) => [...m.encode(row)]); }"
ERROR = """async (module, row) => {
  const m = await import(module);
  try { m.encode(row); } catch (error) { return error.message; }
}"""


def test_codes_of_categories(run):
    X, y = with_dates()
    fitted = AGBMRegressor(max_iter=20).fit(X, y)
    rows, names = encode(fitted, X), fitted.model_.reader.derivation.feature_names(X.columns)
    source = to_js(fitted)
    values = X.astype(object).where(X.notna(), None).to_numpy().tolist()
    given = [[row[0], *of[1:], *row[5:]] for row, of in zip(rows.tolist(), values, strict=True)]
    np.testing.assert_array_equal(np.array(run(ENCODE, source, given), dtype=float), rows)
    by_name = [dict(zip(names, row, strict=True)) for row in given]
    np.testing.assert_array_equal(np.array(run(ENCODE, source, by_name), dtype=float), rows)
    (unknown,) = run(ENCODE, source, [{"place": "never seen", "number": 0.25, "size": "XL", "flag": True}])
    assert unknown[:5] == [None, None, 5, 4, fitted.model_.categories[4].index(True)]  # NaN is null in JSON
    assert run(ERROR, source, {"town": 1}) == "the model has no feature named town"
    assert run(ERROR, source, [1, 2]) == f"a row must have {len(names)} values; got 2"
    assert run(ERROR, source, {"when": "2020-01-01"}).startswith("feature when must be a number, null or undefined")


def test_any_text_is_only_text(run):
    """Names that are code, comments or ends of scripts are none of these, and are found as categories."""
    fitted = hostile_model()
    source = to_js(fitted, contributions=True)
    assert source.isascii()
    assert "</script" not in source
    assert "<!--" not in source
    driver = """async (module, rows) => {
      const m = await import(module);
      return [m.featureNames, rows.map((row) => m.predict(m.encode(row)))];
    }"""
    names, predicted = run(driver, source, [{HOSTILE[0]: text, HOSTILE[6]: 0.5} for text in HOSTILE])
    assert names == [HOSTILE[0], HOSTILE[6]]
    assert predicted == fitted.predict(pd.DataFrame({HOSTILE[0]: HOSTILE, HOSTILE[6]: 0.5})).tolist()
