"""Models in C, compiled by gcc and clang: bitwise equal predictions."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from agbm import AGBMClassifier, AGBMRegressor
from agbm._losses.elementary import exp
from agbm.export import encode, to_c
from export_models import MAKE_ALL, hard_rows, model, with_unknown_numbers
from programs import (
    CATEGORIES,
    COMPILERS,
    HOSTILE,
    MORE,
    assert_same_bits,
    categorical,
    compiled,
    compiler,
    expected,
    extreme_rows,
    hostile_model,
    more,
    with_dates,
)

NAMES = [*MAKE_ALL, *MORE]


def fitted_and_rows(name):
    if name in MAKE_ALL:
        return model(name), hard_rows(model(name))
    return more(name), extreme_rows(more(name))


@pytest.fixture(scope="module", params=COMPILERS)
def library(request, tmp_path_factory):
    """All models, in one library."""
    if compiler(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    models = {f"model_{place}": fitted_and_rows(name)[0] for place, name in enumerate(NAMES)}
    models["with_dates"] = AGBMRegressor(max_iter=20).fit(*with_dates())
    models["hostile"] = hostile_model()
    models |= {f"categories_{n}": categorical(n)[0] for n in CATEGORIES}
    # With the options that make each compiler fuse most multiplications and additions, unless the file prevents it.
    options = ["-O2", "-march=native", "-ffp-contract=fast"] if request.param == "gcc" else ["-O2", "-ffp-contract=on"]
    return compiled(models, tmp_path_factory.mktemp(request.param), [request.param, *options])


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_bitwise_equal(name, library):
    fitted, X = fitted_and_rows(name)
    found, rows = library[f"model_{NAMES.index(name)}"], encode(fitted, X)
    raw, finished, predicted = expected(fitted, X)
    assert_same_bits(found.call("scores", rows, np.empty(raw.shape)), raw)
    assert_same_bits(found.call("finish", raw, np.empty(finished.shape)), finished)
    assert (found.predict(rows, predicted) == predicted).all()
    if hasattr(fitted, "classes_"):
        assert_same_bits(found.call("predict_proba", rows, np.empty(finished.shape)), finished)


@pytest.mark.parametrize("n_categories", CATEGORIES)
def test_any_number_of_categories(n_categories, library):
    fitted, X = categorical(n_categories)
    found, rows = library[f"categories_{n_categories}"], encode(fitted, X)
    wanted = fitted.predict_proba(X)
    assert_same_bits(found.call("predict_proba", rows, np.empty(wanted.shape)), wanted)
    np.testing.assert_array_equal([found.code(0, x) for x in X[:, 0].tolist()], rows[:, 0])


def test_extreme_scores(library):
    """Offsets may be of any size."""
    place = NAMES.index("poisson")
    scores = np.concatenate([np.linspace(-800, 800, 10_001), [np.inf, -np.inf, 700.0, np.nextafter(700.0, 701.0)]])
    found = library[f"model_{place}"].call("finish", scores[:, np.newaxis], np.empty((len(scores), 1)))
    assert_same_bits(found[:, 0], exp(scores))


def test_log_hazards(library):
    fitted = more("hazards")
    scores = np.random.default_rng(0).normal(0.0, 30.0, (2000, fitted.model_.n_outputs))
    found = library[f"model_{NAMES.index('hazards')}"].call("finish", scores, np.empty((2000, 1)))
    assert_same_bits(found[:, 0], fitted.model_.loss.inverse_link(np.ascontiguousarray(scores.T)))


def test_unknown_categories_are_missing(library):
    fitted = model("squared")
    X = hard_rows(fitted)
    rows = with_unknown_numbers(encode(fitted, X))
    assert_same_bits(library[f"model_{NAMES.index('squared')}"].predict(rows, fitted.predict(X)), fitted.predict(X))


def test_codes_of_categories(library):
    found = library["with_dates"]
    X, _ = with_dates()
    rows = encode(found.fitted, X)
    assert rows.shape[1] > X.shape[1]  # the date has parts
    for feature, name in ((1, "size"), (2, "place"), (3, "number"), (4, "flag")):
        values = X[name].astype(object)
        given = [None if value is None or value is np.nan else value for value in values]
        given = [float(value) if isinstance(value, (bool, np.bool_)) else value for value in given]
        np.testing.assert_array_equal([found.code(feature, value) for value in given], rows[:, feature])
    assert found.code(2, "never seen") == 5.0
    assert found.code(3, 0.25) == found.code(3, "7.0") == 4.0
    assert np.isnan(found.code(1, "XL"))
    assert np.isnan([found.code(0, "S"), found.code(99, 1.0), found.code(3, np.nan), found.code(3, None)]).all()
    assert_same_bits(found.predict(rows, np.empty(len(X))), found.fitted.predict(X))


def test_texts_are_escaped(library):
    """Names that look like code, comments or trigraphs are escaped, and work as categories."""
    found = library["hostile"]
    fitted = found.fitted
    known = fitted.model_.categories[0]
    assert sorted(known) == sorted(HOSTILE)
    assert [found.code(0, text) for text in known] == list(range(len(known)))
    X = pd.DataFrame({HOSTILE[0]: HOSTILE, HOSTILE[6]: 0.5})
    rows = np.array([[found.code(0, text), 0.5] for text in HOSTILE])
    assert (found.predict(rows, fitted.predict(X)) == fitted.predict(X)).all()


def test_names():
    with pytest.raises(ValueError, match=r"name='2 models' must be a C identifier"):
        to_c(model("squared"), name="2 models")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_other_compiler_flags(tmp_path):
    """As C++ and as C99 without extensions; declarations only; never with options that change results."""
    (tmp_path / "model.c").write_text(to_c(model("three classes"), name="ours"))
    (tmp_path / "main.c").write_text(
        "#define OURS_DECLARATIONS\n#include \"model.c\"\n#include <stdio.h>\nint main(void) {\n"
        "  const double row[OURS_N_FEATURES] = {0};\n  double p[OURS_N_PREDICTIONS];\n  ours_predict_proba(row, p);\n"
        '  printf("%.17g %d", p[1], ours_predict(row));\n  return 0;\n}\n'
    )  # fmt: skip
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic"]

    def run(*command):
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run("gcc", "-std=c99", "-O1", "-fsanitize=undefined", *strict, "main.c", "model.c", "-o", "main")
    assert done.returncode == 0, done.stderr
    printed = run(tmp_path / "main")
    fitted = model("three classes").model_
    raw = fitted.folded.predict(np.zeros((1, 4)), 1)[0] + fitted.start[:, np.newaxis]
    probabilities = fitted.loss.inverse_link(raw)
    assert (printed.stdout, printed.stderr) == (f"{probabilities[1, 0]:.17g} {probabilities.argmax()}", "")
    assert run("g++", "-c", "-x", "c++", *strict, "model.c").returncode in (0, 127)
    refused = run("gcc", "-c", "-ffast-math", "model.c")
    assert "without -ffast-math" in refused.stderr


def test_contraction_raises(tmp_path):
    """Otherwise the comparison of bits above would not cover it."""
    if compiler("gcc") is None:
        pytest.skip("gcc is not installed")
    text = re.sub(r"#pragma GCC .*", "", to_c(model("poisson")))
    (tmp_path / "model.c").write_text(text)
    command = ["gcc", "-O2", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "model.c", "-o", "model.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    of, scores = ctypes.CDLL(str(tmp_path / "model.so")).agbm_finish, np.linspace(-5.0, 5.0, 1001)
    out = np.empty(len(scores))
    for k in range(len(scores)):
        of(ctypes.c_void_p(scores[k:].ctypes.data), ctypes.c_void_p(out[k:].ctypes.data))
    if (out == exp(scores)).all():
        pytest.skip("this machine has no fused multiply-add")
    np.testing.assert_allclose(out, exp(scores), rtol=1e-14)


def test_a_classifier_without_categories_has_no_sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    text = to_c(AGBMClassifier(max_iter=2).fit(X, X[:, 0] > 0))
    assert "agbm_sets" not in text
    assert "code_of" not in text
