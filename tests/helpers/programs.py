"""Models exported to C and JavaScript, compiled and run; models of every kind and rows that are hard for them."""

import base64
import ctypes
import json
import shutil
import subprocess
from functools import cache, partial

import numpy as np
import pandas as pd

from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival
from agbm.export import to_c, to_js
from agbm.losses import HistogramDistribution, Quantile, StudentTDistribution

FLAGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-shared", "-fPIC"]
COMPILERS = ["gcc", "clang"]
FEW = {"max_iter": 6, "min_samples_leaf": 3, "n_members": 2}


def compiler(name):
    """The path of a compiler, of any version; None if there is none."""
    return next(filter(None, map(shutil.which, [name, *(f"{name}-{version}" for version in range(22, 10, -1))])), None)


# Models
def _numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.exp(np.nan_to_num(X[:, 0], nan=1.0) + np.isnan(X[:, 1]) + 0.1 * rng.normal(size=200))


def _regressor(loss, change=lambda y: y, **parameters):
    X, y = _numbers()
    return AGBMRegressor(loss=loss, **FEW, **parameters).fit(X, change(y))


def _survival(loss):
    X, y = _numbers()
    return AGBMSurvival(loss=loss, **FEW).fit(X, (y, np.arange(200) % 3 > 0))


def _ranker():
    X, y = _numbers()
    return AGBMRanker(**FEW).fit(X, np.digitize(y, [0.7, 1.5]), qid=np.arange(200) // 10)


def _classifier(loss, labels):
    X, y = _numbers()
    return AGBMClassifier(loss=loss, **FEW).fit(X, labels(y))


_DISTRIBUTIONS = ["normal", "lognormal", "gamma"]
MORE = {
    **{f"distribution:{name}": partial(_regressor, f"distribution:{name}") for name in _DISTRIBUTIONS},
    "student": partial(_regressor, StudentTDistribution()),
    "counts": partial(_regressor, "distribution:negative_binomial", np.floor),
    "zero-inflated counts": partial(_regressor, "distribution:zero_inflated_poisson", np.floor),
    "zero-inflated amounts": partial(_regressor, "distribution:zero_inflated_gamma", lambda y: np.where(y < 1, 0, y)),
    "histogram": partial(_regressor, HistogramDistribution(7)),
    "quantiles": partial(_regressor, Quantile([0.1, 0.4, 0.5, 0.9])),
    "cox": partial(_survival, "cox"),
    "aft": partial(_survival, "aft:normal"),
    "hazards": partial(_survival, "piecewise_exponential"),
    "ranker": _ranker,
    "several labels": partial(_classifier, "auto", lambda y: np.column_stack([y > 1, y > 2]).astype(int)),
    "soft classes": partial(_classifier, "cross_entropy", lambda y: np.column_stack([1 / (1 + y), y / (1 + y)])),
    "crosses": partial(_regressor, "squared_error", views=[(0, "-", 1), (1, "*", 0), (1, "+", 2)]),
    "booleans": partial(_classifier, "auto", lambda y: y > 1.0),
}


@cache
def more(name):
    return MORE[name]()


def extreme_rows(fitted, n=300, seed=0):
    """Random rows of numbers: missing, infinite, huge, subnormal, and at thresholds and next to them."""
    rng = np.random.default_rng(seed)
    nodes = fitted.model_.folded.nodes
    at = nodes["threshold"][nodes["feature"] >= 0]
    at = at[np.isfinite(at)]
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -1e308, 1e308]
    values = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), np.resize(special, len(at) + 8)])
    return rng.choice(values, (n, fitted.n_features_in_))


def with_dates():
    """Dates with parts, ordered categories, and categories that are text or numbers."""
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame(
        {
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D"),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), categories=["S", "M", "L"], ordered=True),
            "place": rng.choice(["Zürich", "São Paulo", "東京", "", "a'\"\\b"], n),
            "number": pd.Categorical(rng.choice([3.5, -1.0, 1e300, 7.0], n)),
            "flag": pd.Categorical(rng.random(n) < 0.5),
        }
    )
    X.loc[::9, "place"] = None
    y = X["when"].dt.day_of_week + 2.0 * (X["size"] == "S") + 3.0 * (X["place"] == "東京") + (X["number"] == 7.0)
    return X, y + 2.0 * X["flag"].astype(float) + 0.1 * rng.normal(size=n)


CATEGORIES = [1, 2, 31, 32, 33, 64, 300, 700]
"""Numbers of categories around the lengths of words, and more than a byte can count."""


@cache
def categorical(n_categories):
    """A model with one categorical feature, and rows of which some have unknown or missing categories."""
    rng = np.random.default_rng(n_categories)
    X, new = rng.normal(size=(1500, 2)), rng.normal(size=(300, 2))
    X[:, 0] = rng.integers(0, n_categories, len(X))
    new[:, 0] = rng.integers(0, 2 * n_categories, len(new))
    X[::9, 0] = new[::7, 0] = np.nan
    y = np.sin(7.0 * np.nan_to_num(X[:, 0], nan=0.5)) + X[:, 1] + rng.normal(size=len(X)) > 0
    return AGBMClassifier(max_iter=5, min_samples_leaf=2, n_members=1, categorical_features=[0]).fit(X, y), new


# Names that run code, or end the surrounding text, if they are not escaped.
HOSTILE = [
    "*/ int main(void) { return 1; } /*",
    '"; system("false"); //',
    "\\",
    "line\nbreak \\\n",
    "??/\n#error trigraph ??/",
    "\u2028throw 1;\u2029",
    "</script><script>throw 1</script>",
    "<!-- ]]> -->",
    "${process.exit(1)} `",
    "__proto__",
    "constructor",
    "\u202e\U0001f600",
    "%s%n",
]


@cache
def hostile_model():
    """Names, categories and classes that are code."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({HOSTILE[0]: np.resize(HOSTILE, 260).astype(object), HOSTILE[6]: rng.normal(size=260)})
    return AGBMClassifier(max_iter=10, n_members=1).fit(X, np.resize(HOSTILE[:5], 260))


def expected(fitted, X):
    """What agbm predicts: scores (row, score), what `finish` returns (row, prediction), and predictions."""
    raw = fitted.model_.raw_predict(X, 1).T
    finished = fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X)
    return raw, finished.reshape(len(raw), -1), fitted.predict(X)


def assert_same_bits(actual, wanted):
    wanted = np.ascontiguousarray(wanted, dtype=np.float64)
    assert actual.shape == wanted.shape
    differ = actual.view(np.int64) != wanted.view(np.int64)
    assert not differ.any(), f"{differ.sum()} differ, such as {actual[differ][0]!r} and {wanted[differ][0]!r}"


# C
def compiled(models, folder, command):
    """Exported models by name, compiled as one library."""
    source, library = folder / "models.c", folder / "models.so"
    source.write_text("\n".join(to_c(fitted, name=name) for name, fitted in models.items()), encoding="ascii")
    subprocess.run([compiler(command[0]), *command[1:], *FLAGS, "-o", library, source], check=True)
    functions = ctypes.CDLL(str(library))
    return {name: CModel(functions, name, fitted) for name, fitted in models.items()}


class CModel:
    """The functions of an exported model."""

    def __init__(self, functions, name, fitted):
        self.functions, self.name, self.fitted = functions, name, fitted

    def call(self, function, rows, out):
        """Write the results of a function for rows to the rows of an array."""
        of = getattr(self.functions, f"{self.name}_{function}")
        for row, result in zip(np.ascontiguousarray(rows, dtype=np.float64), out, strict=True):
            of(ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(result.ctypes.data))
        return out

    def predict(self, rows, like):
        """As `predict` of the model, whose result has the shape of `like`."""
        if not hasattr(self.fitted, "classes_"):
            return self.call("predict", rows, np.empty((len(rows), like[0].size))).reshape(like.shape)
        if like.ndim == 2:
            return self.call("predict", rows, np.empty(like.shape, dtype=np.int32))
        of = getattr(self.functions, f"{self.name}_predict")
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        return self.fitted.classes_[[of(ctypes.c_void_p(row.ctypes.data)) for row in rows]]

    def code(self, feature, value):
        """The code of a category: text, a number, or None."""
        number = isinstance(value, float)
        function = getattr(self.functions, f"{self.name}_code_of_{'number' if number else 'text'}")
        function.restype = ctypes.c_double
        if number:
            return function(feature, ctypes.c_double(value))
        return function(feature, None if value is None else ctypes.c_char_p(value.encode()))


# JavaScript
DRIVER = """
async (_, cases) => {
  const text = (of) => {
    let all = "";
    for (const byte of new Uint8Array(Float64Array.from(of).buffer)) all += String.fromCharCode(byte);
    return btoa(all);
  };
  const results = [];
  for (const [module, rows, width] of cases) {
    const model = await import(module);
    const numbers = new Float64Array(Uint8Array.from(atob(rows), (c) => c.charCodeAt(0)).buffer);
    const found = { scores: [], finished: [], contributions: [], predicted: [] };
    for (let i = 0; i < numbers.length; i += width) {
      const row = numbers.subarray(i, i + width), scores = model.scores(row), predicted = model.predict(row);
      found.scores.push(...scores);
      found.finished.push(...model.finish(scores));
      found.predicted.push(...(typeof predicted === "object" ? predicted : [predicted]));
      if (model.contributions) model.contributions(row).forEach((of) => found.contributions.push(...of));
    }
    results.push([text(found.scores), text(found.finished), text(found.contributions), found.predicted]);
  }
  return results;
}
"""


def address(source):
    """The address of a module whose text is `source`."""
    return f"data:text/javascript;base64,{base64.b64encode(source.encode('ascii')).decode()}"


def run_node(driver, source, given, folder):
    """The result of a function of a module's address and an argument, in node."""
    (folder / "driver.mjs").write_text(
        "let text = '';\nfor await (const part of process.stdin) text += part;\n"
        f"console.log(JSON.stringify(await ({driver})(...JSON.parse(text))));\n"
    )
    text = json.dumps([address(source), given])
    done = subprocess.run(["node", folder / "driver.mjs"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def run_page(driver, source, given, page):
    """The same in a browser."""
    return page.evaluate(f"([module, given]) => ({driver})(module, given)", [address(source), given])


def run_js(run, cases, **options):
    """For models and rows: scores, finished predictions, contributions, and predictions.

    `run` is one of the functions above.
    """
    given = []
    for fitted, rows in cases:
        numbers = np.ascontiguousarray(rows, dtype=np.float64)
        text = base64.b64encode(numbers.tobytes()).decode()
        given.append([address(to_js(fitted, **options)), text, numbers.shape[1]])
    results = run(DRIVER, "", given)
    arrays = [[np.frombuffer(base64.b64decode(text)) for text in texts] for *texts, _ in results]
    shapes = [(len(rows), -1) for _, rows in cases]
    return [
        (*(array.reshape(shape) for array in of), predicted)
        for of, shape, (*_, predicted) in zip(arrays, shapes, results, strict=True)
    ]
