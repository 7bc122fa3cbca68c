"""The command `agbm report`."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps import cli
from agbm._apps.report.markup import number


class TestCommand:
    @pytest.fixture
    def sold(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"kind": rng.choice(["a", "b"], 300), "size": rng.normal(size=300)})
        table["sold"] = np.where(table["size"] + (table["kind"] == "a") > rng.normal(size=300), "yes", "no")
        AGBMClassifier(max_iter=5).fit(table[["kind", "size"]], table["sold"]).save("sold.agbm")
        table.loc[5, "sold"] = None
        table.to_csv("later.csv", index=False)
        return table

    def run(self, *words):
        return cli.main(["report", "sold.agbm", *words, "--out", "page.html"])

    def test_the_page(self, sold, capsys):
        assert self.run("later.csv", "--target", "sold", "--json") == 0
        metrics = json.loads(capsys.readouterr().out)["metrics"]
        page = Path("page.html").read_text()
        assert "A model: classification with agbm" in page
        assert "later.csv: 299 rows" in page
        assert number(metrics[0]["value"]) in page
        assert all(f'id="{name}"' in page for name in ("ranking", "confusion", "costs", "calibration", "contributions"))

    def test_costs(self, sold, capsys):
        assert self.run("later.csv", "--target", "sold", "--costs", "1", "4") == 0
        assert "1 : 4" in Path("page.html").read_text()
        for words, message in [
            (
                ["later.csv", "--target", "sold", "--costs", "1", "0"],
                "--costs 1 0: both costs must be positive numbers.",
            ),
            (["--costs", "1", "4"], "--costs 1 4: there are no data to evaluate on; give DATA, or omit this option."),
        ]:
            assert self.run(*words) == 1
            assert message in capsys.readouterr().err
        AGBMRegressor(max_iter=2).fit(sold[["size"]], np.arange(300.0)).save("sold.agbm")
        assert self.run("later.csv", "--target", "size", "--costs", "1", "4") == 1
        assert "the model must be a classifier with two classes; omit this option." in capsys.readouterr().err

    def test_without_matplotlib(self, sold, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
        for name in [name for name in sys.modules if name.startswith("agbm.plot")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("agbm.plot", raising=False)
        assert self.run("later.csv", "--target", "sold") == 1
        assert "agbm.plot needs matplotlib: pip install 'agbm[plot]'." in capsys.readouterr().err
        assert not Path("page.html").exists()
