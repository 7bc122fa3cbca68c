"""The paper's experiments, on small data sets of scikit-learn."""

import json
import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes
from sklearn.metrics import log_loss
from sklearn.model_selection import ParameterSampler, cross_val_score

from agbm._apps import cli
from agbm._apps.paper import curves, page, proof, protocol, results, sections, table
from agbm._apps.paper import data_sets as data
from agbm._apps.paper.data_sets import DataSet
from agbm._apps.paper.printed import PRINTED, SETS, TREES
from agbm._apps.paper.protocol import METHODS, Conventions, Outcome
from agbm._apps.paper.table import Table, Unit
from documents import ROOT
from variants import made

QUICK = Conventions(draws=1)
AGBM = curves.agbm_lines([0.1])[0]


@pytest.fixture(scope="module")
def classes():
    X, y = load_breast_cancer(return_X_y=True)
    return DataSet("sonar", X[:200, :10], np.where(y[:200] == 1, 1, -1), True)  # a name that the table knows


@pytest.fixture(scope="module")
def numbers():
    X, y = load_diabetes(return_X_y=True)
    return DataSet("housing", X[:150], y[:150] / 10.0, False)


class TestPrinted:
    def test_all_cells(self):
        assert set(PRINTED) == {(name, trees, method) for name in SETS for trees in TREES for method in ("gbm", "agbm")}
        assert PRINTED["a1a", 50, "agbm"].test == (0.3686, 0.0306)
        assert PRINTED["housing", 100, "gbm"].train == (0.8779, 0.1072)

    def test_claims_of_the_paper(self):
        """AGBM is better for 30 and 50 trees except on housing; at 100 it starts to overfit."""
        better = {(d, t) for d in SETS for t in TREES if PRINTED[d, t, "agbm"].test < PRINTED[d, t, "gbm"].test}
        assert {(d, t) for d in SETS for t in TREES} - better == {
            ("housing", 30), ("housing", 50), ("housing", 100), ("diabetes", 100)
        }  # fmt: skip
        assert all(PRINTED[d, t, "agbm"].train < PRINTED[d, t, "gbm"].train for d in SETS for t in TREES)


class TestProtocol:
    def test_five_splits_of_80_and_20(self, classes):
        splits = [protocol.split(classes, k, 0) for k in range(5)]
        for train, test in splits:
            assert (len(train), len(test)) == (160, 40)
            assert sorted([*train, *test]) == list(range(200))
        assert len({tuple(test) for _, test in splits}) == 5
        assert not np.array_equal(protocol.split(classes, 0, 1)[1], splits[0][1])

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["gbm", "agbm", "vagbm"])
    def test_one_search_serves_all_numbers_of_trees(self, classes, name):
        """The result is the same as that of a separate search for each number of trees."""
        train, _ = protocol.split(classes, 0, 0)
        found = protocol.search(classes, train, METHODS[name], QUICK)
        tuned = METHODS[name].tuned
        candidates = list(
            ParameterSampler({parameter: protocol.GRIDS[parameter] for parameter in tuned}, len(tuned), random_state=0)
        )
        for trees in TREES:
            scores = []
            for candidate in candidates:
                model = protocol.estimator(classes, METHODS[name], trees, QUICK, early_stopping=False)
                model.set_params(
                    **{{"momentum": "method__momentum"}.get(key, key): candidate[key] for key in candidate}
                )
                scores.append(
                    cross_val_score(model, classes.X[train], classes.y[train], scoring="neg_log_loss", cv=5).mean()
                )
            assert candidates[int(np.argmax(scores))] == found[trees]

    @pytest.mark.slow
    def test_draws_follow_the_number_of_parameters(self, classes, monkeypatch):
        asked = []

        def drawing(grids, n_iter, **options):
            asked.append(n_iter)
            return ParameterSampler(grids, 1, **options)

        monkeypatch.setattr(protocol, "ParameterSampler", drawing)
        for name in METHODS:
            protocol.search(classes, np.arange(60), METHODS[name], Conventions())
        assert asked == [20, 30, 30, 20, 30]  # the default has nothing to tune

    def test_an_outcome_is_what_the_model_does(self, classes, numbers):
        for of, name in ((classes, "agbm"), (numbers, "gbm"), (classes, "default")):
            train, test = protocol.split(of, 1, 0)
            chosen = {"l2_regularization": 0.5, "min_split_gain": 0.01} if name != "default" else {}
            found = protocol.final(of, train, test, METHODS[name], 30, chosen, QUICK)
            model = protocol.estimator(
                of, METHODS[name], 30, QUICK, early_stopping=True, n_iter_no_change=5, **chosen
            ).fit(of.X[train], of.y[train])
            if of.classifies:
                losses = [log_loss(of.y[rows], model.predict_proba(of.X[rows])[:, 1]) for rows in (train, test)]
            else:
                losses = [0.5 * np.mean((of.y[rows] - model.predict(of.X[rows])) ** 2) for rows in (train, test)]
            np.testing.assert_allclose([found.train_loss, found.test_loss], losses, rtol=1e-10)
            assert found.iterations == model.best_iteration_ <= (15 if name == "agbm" else 30)
            assert found.parameters == chosen

    def test_conventions(self, numbers):
        train, test = protocol.split(numbers, 0, 0)
        chosen = {"l2_regularization": 0.01, "min_split_gain": 1e-5, "momentum": 1.0}
        method = METHODS["agbm"]

        def final(**changes):
            return protocol.final(numbers, train, test, method, 100, chosen, replace(QUICK, **changes))

        everything, best, last = (
            final(validation="none"),
            final(validation="test"),
            final(validation="test", keep="last"),
        )
        assert final(validation="none", keep="last") == everything
        assert everything.iterations == 50
        assert best.iterations < last.iterations == min(50, best.iterations + 5)
        assert best.test_loss <= min(last.test_loss, everything.test_loss)
        assert final(levels=4).train_loss != final().train_loss
        assert Conventions.released() == Conventions(levels=4, validation="test", keep="last")
        with pytest.raises(ValueError, match=r"keep='last' needs validation='test'"):
            Conventions(keep="last")
        for name in ("levels", "draws"):
            with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
                Conventions(**{name: 0})

    def test_diverging_search_continues(self, numbers):
        method = replace(METHODS["vagbm"], parameters={"method": made("vagbm", momentum=1.0), "learning_rate": 30.0})
        found = protocol.run(numbers, 0, method, QUICK)
        assert all(outcome.diverged and np.isfinite(outcome.test_loss) for outcome in found)


def outcomes_of(loss):
    """Artificial outcomes, from loss(unit, trees) -> training loss, test loss."""

    def of(unit):
        return [Outcome(trees, *loss(unit, trees), iterations=trees // 2, diverged=False) for trees in TREES]

    return {unit: of(unit) for unit in (Unit("sonar", k, m) for k in range(5) for m in METHODS)}


class TestTable:
    def test_cells(self):
        made_up = Table(
            Conventions(), outcomes_of(lambda u, t: (0.1, 0.5 + 0.01 * u.split - 0.1 * (u.method == "agbm")))
        )
        cells = {(cell.method, cell.trees): cell for cell in made_up.cells()}
        cell = cells["agbm", 30]
        np.testing.assert_allclose(cell.losses.test, (0.42, 0.01 * np.std(range(5), ddof=1) / np.sqrt(5)))
        np.testing.assert_allclose(cell.difference, (-0.1, 0.0), atol=1e-15)  # paired by split
        assert (cell.wins, cells["vagbm", 30].wins, cell.iterations, cell.diverged) == (5, 0, 15.0, 0)

    def test_against_print(self):
        def as_printed(factor):
            def loss(unit, trees):
                printed = PRINTED["sonar", trees, "gbm" if unit.method == "gbm" else "agbm"]
                return [figure.mean * factor(unit) for figure in printed]

            return Table(Conventions(), outcomes_of(loss))

        exact, twice = as_printed(lambda unit: 1.0), as_printed(lambda unit: 2.0)
        assert (table.within_printed_errors(exact, "agbm"), table.off_print(exact, "agbm")) == (3, pytest.approx(1.0))
        assert (table.within_printed_errors(twice, "gbm"), table.off_print(twice, "gbm")) == (0, pytest.approx(2.0))
        # If the losses of AGBM and GBM are both doubled, their ratio is as in print; if only one is doubled, it is not.
        mixed = as_printed(lambda unit: 2.0 if unit.method in ("gbm", "agbm") else 1.0)
        assert table.nearer(mixed, "agbm", "agbm-minus") == (3, 3)
        assert table.nearer(mixed, "agbm-minus", "agbm") == (0, 0)

    def test_errors_beside_the_printed_ones(self):
        step = 0.02 / (np.std(range(5), ddof=1) / np.sqrt(5))
        made_up = Table(Conventions(), outcomes_of(lambda u, t: (0.1, 0.5 + step * u.split)))
        printed = [PRINTED["sonar", trees, "gbm"].test.error for trees in TREES]
        assert table.printed_errors(made_up) == pytest.approx(np.exp(np.mean(np.log(np.array(printed) / 0.02))))

    def test_other_results_have_other_files(self, classes, monkeypatch):
        def name(of=classes, conventions=QUICK):
            return table._file_name(of, Unit("sonar", 0, "agbm"), conventions)

        names = [name(), name(classes._replace(checksum="other")), name(conventions=replace(QUICK, seed=1))]
        for constant, value in (("FOLDS", 4), ("EARLY_STOPPING_ROUNDS", 6), ("GRIDS", {"momentum": uniform(0.1, 0.5)})):
            with monkeypatch.context() as changed:
                changed.setattr(protocol, constant, value)
                names.append(name())
        with monkeypatch.context() as changed:
            changed.setattr(table, "_code", lambda: "other")
            names.append(name())
        assert len(set(names)) == len(names) == 7
        assert name() == names[0]

    def test_resumes_after_a_stop(self, classes, tmp_path, monkeypatch):
        made, seen = outcomes_of(lambda u, t: (0.1, 0.2)), []

        def fake(of, number, method, conventions):
            if len(seen) == 7:
                raise KeyboardInterrupt
            seen.append((number, method.title))
            return made[Unit("sonar", 0, "gbm")]

        monkeypatch.setattr(protocol, "run", fake)
        arguments = ([classes], list(METHODS), QUICK, tmp_path, 1)
        with pytest.raises(KeyboardInterrupt):
            table.run(*arguments, lambda done, total: None)
        next(tmp_path.glob("*.json")).write_text("[{")  # as after a full disk
        before, done = list(seen), []
        seen[:] = [None]
        monkeypatch.setattr(protocol, "run", lambda *a: seen.append(a) or made[Unit("sonar", 0, "gbm")])
        found = table.run(*arguments, lambda n, total: done.append((n, total)))
        assert len(before) == 7
        assert len(seen) - 1 == 30 - 6
        assert (done[0], done[-1]) == ((6, 30), (30, 30))
        assert list(found.outcomes) == [Unit("sonar", k, m) for k in range(5) for m in METHODS]
        table.run([classes], ["gbm"], replace(QUICK, levels=4), tmp_path, 1, lambda *_: None)
        assert len(seen) - 1 == 24 + 5  # other conventions have other units


class TestCurves:
    PLAN = curves.Plan("vanilla", "Test", "housing", 2, (30.0, 0.1), (curves.VAGBM_LINE, AGBM, curves.GBM_LINE), 20)

    def test_run(self, numbers):
        found = curves.run([self.PLAN], {"housing": numbers}, 0, 1, lambda *_: None)
        by_name = {(curve.title, curve.step): curve for curve in found}
        wild, calm = by_name["VAGBM", 30.0], by_name["GBM", 0.1]
        assert wild.diverged == 5
        assert calm.diverged == 0
        assert calm.trees == list(range(21))
        assert by_name[AGBM.title, 0.1].trees[-1] <= 20
        assert np.all(np.diff(calm.train) < 0)
        assert calm.lowest_test == min(calm.test)
        start = np.mean([0.5 * np.mean(numbers.y[protocol.split(numbers, k, 0)[1]] ** 2) for k in range(5)])
        assert calm.test[0] == pytest.approx(start)

    def test_the_papers_figures_are_planned(self):
        assert [plan.steps for plan in curves.PLANS if plan.data == "a1a"] == [(1.0, 0.1, 0.01)] * 2
        assert {plan.levels for plan in curves.PLANS if plan.data == "a1a"} == {1, 3}
        for plan in curves.PLANS:
            methods = [line.parameters["method"] for line in plan.lines]
            signs = [method.correction for method in methods if hasattr(method, "correction")]
            assert sorted(signs) == [-1.0] * 3 + [1.0] * 3


@pytest.fixture(scope="module", params=["classes", "numbers"])
def known(request):
    return proof.known_problem(request.getfixturevalue(request.param))


class TestProof:
    @pytest.mark.slow
    def test_the_optimum(self, known):
        assert known.spans
        assert abs(known.problem.residual(known.optimum)).max() < 1e-12
        assert known.lowest == pytest.approx(known.problem.train_loss(known.optimum) * known.problem.n_train)

    def test_equal_rows_have_one_value(self):
        X = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        found = proof.known_problem(DataSet("x", X, np.array([1.0, 3.0, 5.0, 7.0]), False))
        np.testing.assert_array_equal(found.optimum, [[2.0, 2.0, 5.0, 7.0]])
        assert found.lowest == 1.0

    def test_limits_of_stumps(self):
        corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.uint8)
        assert not proof.spans_rows(corners, 4)
        assert proof.spans_rows(corners[:3], 3)

    def test_theorem_holds_under_its_conditions(self, known):
        track = proof.admissible_track(known, 40)
        assert track.admissible
        assert track.n_above_bound == 0
        total = np.array(track.columns["error_terms"])
        assert (total <= 0).all()
        assert (np.array(track.columns["potential"]) <= (track.start_potential + total) * (1 + 1e-9)).all()
        np.testing.assert_allclose(track.columns["bound_of_proof"], 4 * np.array(track.columns["bound"]))

    def test_other_momenta_are_labelled(self, known):
        tracks = list(proof.tracks(known, 10))
        assert [track.admissible for track in tracks] == [True, False, False, False]
        assert tracks[1].gamma == 10 * tracks[0].gamma
        assert np.isfinite(tracks[1].columns["error_terms"]).all()
        for track in tracks:
            cosines = np.nanmin([track.columns["cosine_residual"], track.columns["cosine_corrected"]], axis=0)
            assert track.smallest_cosine == cosines.min()
            assert {len(column) for column in track.columns.values()} == {10}


PAGE = ROOT / "docs" / "paper.md"


@pytest.mark.skipif(not os.environ.get(data.VARIABLE), reason=f"{data.VARIABLE} is not set")
@pytest.mark.skipif(not PAGE.is_file(), reason="there is no folder docs")
class TestDigitsOfThePage:
    """Cells of the page that take seconds: it is stale if a run has other digits."""

    @staticmethod
    def row(heading, title):
        """The cells of the first row of this title after a heading of the page."""
        _, found, text = PAGE.read_text().partition(f"\n{heading}\n")
        assert found, heading
        line = re.search(rf"^\| {re.escape(title)} \|(.+)\|$", text, re.MULTILINE)
        return [cell.strip() for cell in line[1].split("|")]

    def test_a_row_of_the_table(self):
        housing = data.load("housing")
        outcomes = [protocol.run(housing, k, METHODS["default"], Conventions()) for k in range(protocol.N_SPLITS)]
        losses = np.mean([[outcome.test_loss for outcome in of_split] for of_split in outcomes], axis=0)
        rows = "| housing | 30 trees | 50 | 100 |"
        assert [f"{loss:.4f}" for loss in losses] == self.row(rows, "default of this library, not tuned")

    @pytest.mark.parametrize("line", [curves.GBM_LINE, *curves.agbm_lines([1.0])[:1]], ids=lambda line: line.title)
    def test_a_cell_of_the_curves(self, line):
        plan, _, _ = curves.PLANS
        found = curves.curve(plan, data.load("a1a"), plan.steps[0], line, 0)
        shown = f"{found.lowest_test:.3f} ({found.trees_at_lowest}); {found.train[-1]:.3g}"
        assert shown == self.row("## Training loss, test loss, overfitting", line.title)[0]


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.n = [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.n[tag] = self.n.get(tag, 0) + 1
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class TestPage:
    @pytest.mark.slow
    def test_parts_come_together(self, classes, numbers, tmp_path):
        from agbm._apps.paper import figures

        made = results.made_by("agbm paper all", 0)
        results.save_table(Table(Conventions(), outcomes_of(lambda u, t: (0.1, 0.2 + 0.01 * u.split))), made, tmp_path)
        results.write_page(tmp_path)
        plan = TestCurves.PLAN
        found = curves.run([plan], {"housing": numbers}, 0, 1, lambda *_: None)
        every = [
            replace(curves.curve(plan, numbers, 0.1, line, 0), step=step)
            for line in curves.PLANS[2].lines
            for step in curves.PLANS[2].steps
        ]
        figures.draw_curves(plan, found, tmp_path)
        results.save_curves(every, made, tmp_path)
        known = proof.known_problem(classes)
        tracks = list(proof.tracks(known, 5))
        figures.draw_tracks(tracks, tmp_path)
        results.save_tracks(tracks, {"sonar": True}, made, tmp_path)
        json.loads((tmp_path / "theory.json").read_text(), parse_constant=pytest.fail)  # NaN is not valid JSON
        markdown, html = results.write_page(tmp_path)
        tags = Tags(html.read_text())
        assert tags.open == []
        assert tags.n["img"] == 2
        assert tags.n["table"] == 3 + 3 + 1 + 1 + 1
        assert all(address.startswith("data:image/svg+xml;base64,") for address in tags.addresses)
        assert "http" not in re.sub(r"base64,[\w+/=]+", "", html.read_text())
        text = markdown.read_text()
        assert "agbm paper all" in text
        text = text.replace("\N{NO-BREAK SPACE}", " ")
        assert "0.4627 ± 0.0548 (0.1864)" in text  # printed: sonar, 30 trees
        assert "0.2200 ± 0.0071 (0.1)" in text
        assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".csv", ".md", ".html", ".png", ".svg"}
        again = results.write_page(tmp_path)
        assert again[1].read_text() == html.read_text()

    def test_texts_are_escaped(self, tmp_path):
        odd = page.Section("<b>", ["a & b"], [page.Grid("<c>", ["", "<d>"], [["x", "*<e>"]])])
        tags = Tags(page.to_html([odd], "<title>", tmp_path))
        assert not {"b", "c", "d", "e"} & set(tags.n)
        assert "**<e>**" in page.to_markdown([odd], "x")

    def test_a_table_of_one_set_and_two_methods(self):
        both = {
            unit: found
            for unit, found in outcomes_of(lambda u, t: (0.1, 0.2 + 0.01 * u.split)).items()
            if unit.method in ("gbm", "agbm")
        }
        section = sections.of_table(Table(Conventions(validation="test"), both))
        assert [len(grid.rows) for grid in section.grids] == [3, 1, 1, 1, 3, 1]
        assert "optimistic" in section.paragraphs[0]
        without = sections.of_table(Table(Conventions(validation="none"), both))
        assert len(without.grids) == 5
        assert "does not stop early. Values" in without.paragraphs[0]


class TestCommand:
    def test_errors_are_one_line(self, tmp_path, capsys):
        assert cli.main(["paper", "table", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
        error = capsys.readouterr().err
        assert error.startswith("agbm: diabetes is not in ")
        assert error.count("\n") == 1
        with pytest.raises(data.DataSetError):
            cli.main(["--debug", "paper", "theory", "--data", str(tmp_path)])
        for wrong in (["paper"], ["paper", "tables"], ["paper", "table", "--sets", "iris"], []):
            with pytest.raises(SystemExit) as end:
                cli.main(wrong)
            assert end.value.code == 2

    def test_without_matplotlib(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.delitem(sys.modules, "agbm._apps.paper.figures", raising=False)
        monkeypatch.delattr("agbm._apps.paper.figures", raising=False)
        for part in ("figures", "theory", "all"):
            assert cli.main(["paper", part, "--data", str(tmp_path)]) == 1
            assert "figures need matplotlib" in (error := capsys.readouterr().err)
            assert "pip install 'agbm[paper]'" in error

    def test_help(self, capsys):
        for words in (["--help"], ["paper", "--help"], ["paper", "table", "--help"]):
            with pytest.raises(SystemExit) as end:
                cli.main(words)
            assert end.value.code == 0
        assert "released scripts" in capsys.readouterr().out

    def test_single_options_go_before_released(self):
        import argparse

        parser = argparse.ArgumentParser()
        from agbm._apps.paper import command

        command.add_to(parser.add_subparsers())
        asked = parser.parse_args(["paper", "table", "--released", "--keep", "best", "--seed", "3"])
        assert command.conventions_of(asked) == Conventions(levels=4, validation="test", keep="best", seed=3)

    @pytest.mark.slow
    def test_results_do_not_depend_on_the_number_of_jobs(self, classes, tmp_path, capsys, monkeypatch):
        dump_svmlight_file(classes.X, classes.y, str(tmp_path / "sonar"), zero_based=False)
        known = data._Source("sonar", 200, 10, data.checksum(classes.X, classes.y, True))
        monkeypatch.setitem(data._SOURCES, "sonar", known)
        numbers = []
        for jobs in ("1", "2"):
            out = tmp_path / jobs
            words = ["paper", "table", "--sets", "sonar", "--methods", "gbm", "agbm", "--draws", "1", "--jobs", jobs]
            assert cli.main([*words, "--data", str(tmp_path), "--out", str(out)]) == 0
            numbers.append([json.loads((out / "table.json").read_text())["outcomes"], (out / "table.csv").read_bytes()])
        assert numbers[0] == numbers[1]
        assert "index.html" in capsys.readouterr().out
