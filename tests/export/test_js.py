"""Models in JavaScript, run by node or a browser: bitwise equal predictions, and contributions."""

import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import sync_playwright

import browser as browsers
from agbm import AGBMRegressor
from agbm._losses.elementary import exp
from agbm.export import encode, to_js
from export_models import MAKE_ALL, hard_rows, model, with_unknown_numbers
from programs import (
    CATEGORIES,
    HOSTILE,
    MORE,
    assert_same_bits,
    categorical,
    expected,
    extreme_rows,
    hostile_model,
    more,
    run_js,
    run_node,
    run_page,
    with_dates,
)

NAMES = [*MAKE_ALL, *MORE, *CATEGORIES]


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


def case(name):
    """A model, and rows that are hard for it."""
    if name in MAKE_ALL:
        return model(name), hard_rows(model(name))[::2]
    return categorical(name) if name in CATEGORIES else (more(name), extreme_rows(more(name)))


def encoded(cases):
    return [(fitted, encode(fitted, X)) for fitted, X in cases]


def assert_equal(found, fitted, X):
    raw, finished, predicted = expected(fitted, X)
    assert_same_bits(found[0], raw)
    assert_same_bits(found[1], finished)
    assert found[3] == predicted.ravel().tolist()


@pytest.fixture(scope="module")
def results(run):
    """The results of all models, by name, from one process."""
    return dict(zip(NAMES, run_js(run, encoded(map(case, NAMES))), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_bitwise_equal(name, results):
    assert_equal(results[name], *case(name))


def test_in_a_browser():
    with sync_playwright() as playwright:
        found = browsers.launch(playwright)
        if found is None:
            pytest.skip(browsers.HOW_TO_GET_ONE)
        cases = [case(name) for name in ("three classes", "hazards", 300)]
        for of, one in zip(run_js(partial(run_page, page=found.new_page()), encoded(cases)), cases, strict=True):
            assert_equal(of, *one)
        found.close()


def test_extreme_scores(run):
    """Offsets may be of any size."""
    scores = [*np.linspace(-800, 800, 2001).tolist(), 700.0, float(np.nextafter(700.0, 701.0))]
    driver = "async (module, scores) => { const m = await import(module); return scores.map((s) => m.finish([s])[0]); }"
    assert_same_bits(np.array(run(driver, to_js(model("poisson")), scores), dtype=np.float64), exp(np.array(scores)))


def test_unknown_categories_are_missing(run):
    fitted = model("squared")
    X = hard_rows(fitted)
    (found,) = run_js(run, [(fitted, with_unknown_numbers(encode(fitted, X)))])
    assert_same_bits(found[1][:, 0], fitted.predict(X))


EXPLAINED = [
    "squared", "two outputs, vector leaves", "agbm, two trees", "log_loss", "three classes, vector leaves",
    "three single leaves", "no trees",
]  # fmt: skip


def deep():
    """Trees with many features on a path, and features that are there several times."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 15))
    y = np.prod(1.0 + 0.3 * np.sign(X), axis=1) + np.sin(3.0 * X[:, 0])
    return AGBMRegressor(max_iter=3, max_leaf_nodes=None, min_samples_leaf=1, n_members=1).fit(X, y), X[:20]


def test_contributions(run):
    cases = [*((model(name), hard_rows(model(name))[::20]) for name in EXPLAINED), deep()]
    for found, (fitted, X) in zip(run_js(run, encoded(cases), contributions=True), cases, strict=True):
        wanted = fitted.predict_contributions(X)
        np.testing.assert_allclose(found[2].reshape(wanted.shape), wanted, rtol=0, atol=1e-9)
        assert_equal(found, fitted, X)


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


def test_texts_are_escaped(run):
    """Names that look like code, comments or ends of scripts are escaped, and work as categories."""
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
