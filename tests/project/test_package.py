"""The cost of imports, the stub of the native module, and the examples of docstrings."""

import ast
import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agbm
from agbm._base import _native


@pytest.mark.slow
def test_import_is_light():
    """Beyond what `import sklearn` loads anyway: no optional package, no heavy part of scikit-learn."""
    code = "import sklearn, sys; before = set(sys.modules); import agbm; print(*sorted(set(sys.modules) - before))"
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    foreign = {name.split(".")[0] for name in new} - {"agbm", "nanobind", *sys.stdlib_module_names}
    assert foreign <= {"sklearn"}
    assert "agbm.dask" not in new
    assert "sklearn.model_selection" not in new
    assert "sklearn.ensemble" not in new


def test_examples_of_the_docstrings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # one of them saves a model
    found = [
        example
        for name in agbm.__all__
        for example in doctest.DocTestFinder().find(getattr(agbm, name), name)
        if example.examples
    ]
    assert {"AGBMClassifier", "AGBMRanker", "AGBMRegressor", "AGBMSurvival", "load"} <= {test.name for test in found}
    assert sum(doctest.DocTestRunner().run(test).failed for test in found) == 0


def test_stub_matches_the_native_module():
    tree = ast.parse((Path(agbm.__file__).parent / "_base" / "_native.pyi").read_text())
    stubs = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            stubs[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            stubs[node.target.id] = node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for member in node.body:
                stubs[f"{node.name}.{member.name}"] = member
    public = set()
    for name, value in vars(_native).items():
        if name.startswith("_"):
            continue
        members = [k for k in vars(value) if not k.startswith("_")] if isinstance(value, type) else []
        public |= {f"{name}.{member}" for member in members} if isinstance(value, type) else {name}
    assert public == {name for name in stubs if not name.endswith("__init__")}
    names = [
        "thresholds",
        "sparse_thresholds",
        "histogram",
        "loss_value",
        "loss_sum",
        "loss_mean",
        "loss_derivatives",
        "loss_negative_gradient",
        "loss_hessian",
        "mix",
        "multiply",
        "exact_sum",
        "inner_products",
        "model_file_table",
    ]
    functions = {name: getattr(_native, name) for name in names}
    functions |= {"BinnedMatrix.fill": _native.BinnedMatrix.fill, "Grower.grow": _native.Grower.grow}
    functions |= {"BinnedMatrix.from_sparse": _native.BinnedMatrix.from_sparse}
    for name, function in functions.items():
        signature = function.__nb_signature__[0][0]
        arguments = stubs[name].args
        expected = [a.arg for a in arguments.args + arguments.kwonlyargs if a.arg != "self"]
        assert re.findall(r"(?:\(|, )(\w+): ", re.sub(r"\[[^:]*?\]", "", signature))[: len(expected)] == expected, name


def test_public_modules_are_imported_lazily():
    code = "import agbm; print(agbm.losses.Quantile(0.9), agbm.plot.__name__, 'methods' in dir(agbm)); agbm.nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["Quantile(quantile=0.9)", "agbm.plot", "True"]
    assert "module 'agbm' has no attribute 'nothing'" in done.stderr
