"""The paper's table: protocol, cells, comparison with print, and units that can be resumed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.metrics import log_loss
from sklearn.model_selection import ParameterSampler, cross_val_score

from agbm._apps.paper.experiments import protocol, table, units
from agbm._apps.paper.experiments.protocol import METHODS, Conventions
from agbm._apps.paper.experiments.table import Run, Table
from agbm._apps.paper.printed import PRINTED, SETS, TREES
from paper_results import QUICK, outcomes_of
from variants import made


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
        assert asked == [20, 20, 30, 30, 20]  # the default has nothing to tune

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
            return table.unit(Run("sonar", 0, "agbm"), of, conventions).file

        names = [name(), name(classes._replace(checksum="other")), name(conventions=replace(QUICK, seed=1))]
        for constant, value in (("FOLDS", 4), ("EARLY_STOPPING_ROUNDS", 6), ("GRIDS", {"momentum": uniform(0.1, 0.5)})):
            with monkeypatch.context() as changed:
                changed.setattr(protocol, constant, value)
                names.append(name())
        with monkeypatch.context() as changed:
            changed.setattr(units, "_code", lambda: "other")
            names.append(name())
        assert len(set(names)) == len(names) == 7
        assert name() == names[0]

    def test_resumes_after_a_stop(self, classes, tmp_path, monkeypatch):
        made, seen = outcomes_of(lambda u, t: (0.1, 0.2)), []

        def fake(of, number, method, conventions):
            if len(seen) == 7:
                raise KeyboardInterrupt
            seen.append((number, method.title))
            return made[Run("sonar", 0, "gbm")]

        monkeypatch.setattr(protocol, "run", fake)
        arguments = ([classes], list(METHODS), QUICK, tmp_path, 1)
        with pytest.raises(KeyboardInterrupt):
            table.run(*arguments, lambda done, total: None)
        next(tmp_path.glob("*.json")).write_text("[{")  # as after a full disk
        before, done = list(seen), []
        seen[:] = [None]
        monkeypatch.setattr(protocol, "run", lambda *a: seen.append(a) or made[Run("sonar", 0, "gbm")])
        found = table.run(*arguments, lambda n, total: done.append((n, total)))
        assert len(before) == 7
        assert len(seen) - 1 == 30 - 6
        assert (done[0], done[-1]) == ((6, 30), (30, 30))
        assert list(found.outcomes) == [Run("sonar", k, m) for k in range(5) for m in METHODS]
        table.run([classes], ["gbm"], replace(QUICK, levels=4), tmp_path, 1, lambda *_: None)
        assert len(seen) - 1 == 24 + 5  # other conventions have other units
