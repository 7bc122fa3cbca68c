"""The comparison with other proposals: algorithms against their formulas, measurements, roles and sections."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from agbm._apps.paper.experiments import rival_methods, rivals, tables
from agbm._apps.paper.experiments.rival_comparison import Comparison, holm, signed_rank_p, trees_to, versus
from agbm._apps.paper.experiments.rival_methods import (
    GPBOOST,
    LIPSCHITZ_OF_LOG_LOSS,
    RIVALS,
    FistaSchedule,
    GradientRegularised,
    State,
    Trial,
    boulevard,
    dart,
    hybrid,
)  # fmt: skip
from agbm._apps.paper.experiments.rival_roles import (
    CHECKPOINTS,
    RATES,
    TIMES,
    Curve,
    Run,
    Trace,
    from_json,
    summarise,
    to_json,
)  # fmt: skip
from agbm._apps.paper.experiments.rivals import LEARNERS
from agbm._apps.paper.experiments.tables import Split, Table
from agbm._apps.paper.page import document, rival_sections
from agbm._core import boosting
from agbm._core.dropout import Dropout
from agbm._core.ensemble import Ensemble
from agbm._core.methods import METHODS
from agbm._tree import TreeLearner

SMALL = TreeLearner(max_depth=2, min_samples_leaf=5, l2_regularization=1.0)
STUMP = TreeLearner(max_depth=1, min_samples_leaf=5, l2_regularization=1.0)


def table(kind, n=240, name="made"):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 4))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + random.normal(size=n)
    return Table(name, kind, X, (signal > 0).astype(float) if kind == "binary" else signal)


def trial(kind, learner=SMALL, iterations=20):
    rows = tables.split(table(kind), 0)
    objective, fitter = rivals.problem(table(kind), rows, learner)
    return Trial(objective, fitter, iterations, seed=0)


def grouped(y):
    """A trial with one feature that is 0 or 1, and all rows as training rows."""
    X = np.repeat([0.0, 1.0], len(y) // 2)[:, np.newaxis]
    kind = "binary" if set(y) <= {0.0, 1.0} else "regression"
    rows = Split(X, np.asarray(y), len(y), 0)
    return Table("groups", kind, X, np.asarray(y)), rows


class TestAlgorithms:
    def test_agb_is_its_published_loop(self):
        """F <- G + nu b, G <- F + (l_t - 1) / l_{t+1} (F - previous F), with l_1 = 1."""
        rate, given = 0.3, trial("binary")
        fitter, F = given.fitter(1.0), given.objective.start
        G, length = F, 1.0
        for state in RIVALS["agb"].states(given, rate):
            b = fitter.fit(*given.objective.derivatives(G)).values
            previous, F = F, G + rate * b
            following = (1 + math.sqrt(1 + 4 * length**2)) / 2
            G, length = F + (length - 1) / following * (F - previous), following
            np.testing.assert_allclose(state.f, F, rtol=1e-10, atol=1e-12)
        assert state.trees == given.iterations

    def test_fista_weights(self):
        schedule = FistaSchedule(0.5)
        assert schedule.theta(0) == 1.0
        assert schedule.theta(1) == pytest.approx(2 / (1 + math.sqrt(5)))
        assert schedule.alpha(3) * schedule.theta(3) == pytest.approx(schedule.eta(3)) == 0.5
        assert schedule.gamma(3) == 1.0

    def test_boulevard_is_its_definition(self):
        given, rate = trial("regression"), 0.7
        objective, fitter, trees = given.objective, given.fitter(rival_methods.SUBSAMPLE), []
        y = objective.y[:, : objective.n_train]
        for b, state in enumerate(boulevard(0.0, given, rate), start=1):
            u = rate / (b - 1) * sum(trees) if trees else np.zeros(objective.start.shape)
            residual = y - (objective.start + u)[:, : objective.n_train]
            trees.append(fitter.fit(residual, None).values)
            expected = objective.start + (1 + rate) / rate * (rate / b * sum(trees))  # equal weights lambda / b
            np.testing.assert_allclose(state.f, expected, rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("dropout", [0.0, 0.6])
    def test_boulevard_converges_to_the_signal(self, dropout):
        source, rows = grouped([*[0.0, 2.0] * 20, *[4.0, 6.0] * 20])  # group means 1 and 5
        objective, fitter = rivals.problem(source, rows, replace(STUMP, l2_regularization=0.0))
        *_, last = boulevard(dropout, Trial(objective, fitter, 3000, 0), 0.8)
        assert last.f[0, [0, -1]] == pytest.approx([1.0, 5.0], abs=0.1)

    def test_boulevard_that_drops_nothing(self):
        """A tiny probability takes the path with dropout."""
        given = trial("regression")
        pairs = zip(boulevard(0.0, given, 0.5), boulevard(1e-300, given, 0.5), strict=True)
        for plain, dropped in pairs:
            np.testing.assert_allclose(dropped.f, plain.f, rtol=1e-12)

    def test_regularised_newton_on_a_stump(self):
        source, rows = grouped([*[0.0] * 8, *[1.0] * 2, *[0.0] * 3, *[1.0] * 7])
        objective, fitter = rivals.problem(source, rows, STUMP)
        start = objective.start[0, 0]
        p = 1 / (1 + math.exp(-start))
        residual = rows.y - p
        hessian = p * (1 - p) + math.sqrt(LIPSCHITZ_OF_LOG_LOSS * math.sqrt(np.mean(residual**2)))
        leaves = [residual[part].sum() / (10 * hessian + 1) for part in (slice(10), slice(10, 20))]
        state = next(RIVALS["newton"].states(Trial(objective, fitter, 1, 0), 0.5))
        assert state.f[0, [0, -1]] == pytest.approx([start + 0.5 * leaf for leaf in leaves], rel=1e-6)

    def test_lipschitz_constant(self):
        p = 1 / (1 + np.exp(-np.linspace(-6, 6, 100_001)))
        assert np.abs(p * (1 - p) * (1 - 2 * p)).max() == pytest.approx(LIPSCHITZ_OF_LOG_LOSS, rel=1e-6)

    def test_nothing_to_regularise(self):
        given = trial("regression").objective
        objective = GradientRegularised(given.loss, given.y, given.n_train, given.start, second_order=True)
        with pytest.raises(ValueError, match="constant"):
            objective.derivatives(given.start)

    def test_hybrid_continues_from_the_best_model(self):
        given, rate = trial("binary", iterations=60), 0.5
        accelerated = list(RIVALS["vagbm"].states(given, rate))
        found = list(hybrid(given, rate))
        losses = [given.objective.validation_loss(given.objective.start), *(s.validation_loss for s in accelerated)]
        best = next(
            k for k in range(len(losses))
            if losses[k] == min(losses[: k + 1]) and min(losses[k + 1 : k + 6]) >= losses[k]
        )  # fmt: skip
        switch = best + rival_methods.PATIENCE
        assert [s.validation_loss for s in found[:switch]] == [s.validation_loss for s in accelerated[:switch]]
        start = accelerated[best - 1]
        assert found[switch].train_loss != accelerated[switch].train_loss
        training = [start.train_loss, *(s.train_loss for s in found[switch:])]
        assert all(after <= before for before, after in pairwise(training))
        assert [s.trees for s in found] == list(range(1, given.iterations + 1))

    def test_dart_without_dropped_trees(self, monkeypatch):
        monkeypatch.setattr(rival_methods, "DROPOUT", 0.0)
        given = trial("binary")
        for mine, plain in zip(dart(given, 0.2), RIVALS["plain"].states(given, 0.2), strict=True):
            np.testing.assert_allclose(mine.f, plain.f, rtol=1e-12)

    def test_dart_is_its_definition(self):
        """Of k dropped trees, the share k / (k + rate) remains, and the new one gets the weight rate / (k + rate)."""
        given, rate = trial("regression", iterations=40), 0.3
        objective, fitter, trees, weights = given.objective, given.fitter(1.0), [], []

        def model(kept):
            return objective.start + sum((w * t for w, t, keep in zip(weights, trees, kept, strict=True) if keep), 0.0)

        for m, state in enumerate(dart(given, rate)):
            dropped = np.random.default_rng([given.seed, m]).random(m) < rival_methods.DROPOUT
            k = int(dropped.sum())
            trees.append(fitter.fit(*objective.derivatives(model(~dropped))).values)
            weights = [w * k / (k + rate) if drop else w for w, drop in zip(weights, dropped, strict=True)]
            weights.append(rate / (k + rate) if k else rate)
            np.testing.assert_allclose(state.f, model([True] * (m + 1)), rtol=1e-9, atol=1e-12)
        assert k > 0

    @pytest.mark.parametrize("name", ["gbm", "fading"])
    def test_dropout_is_that_of_the_library(self, name):
        """Remembered values and weights have the bits of evaluated ones."""
        given = trial("binary", iterations=30)
        objective, fitter, ensemble = given.objective, given.fitter(1.0), Ensemble()
        drop = Dropout(rival_methods.DROPOUT, given.seed, objective, ensemble, fitter)
        steps = METHODS[name].steps(objective, fitter, learning_rate=0.3, max_iter=30, drop=drop)
        found = rival_methods.with_dropout(METHODS[name], given, 0.3)
        dropped = 0
        for step, state in zip(steps, found, strict=True):
            ensemble.append(step)
            dropped += len(step.dropped)
            np.testing.assert_array_equal(step.f, state.f)
        assert dropped > 0

    @pytest.mark.parametrize("name", ["agbm", "agbm-released"])
    def test_two_trees_per_iteration(self, name):
        found = list(RIVALS[name].states(trial("binary"), 0.1))
        assert [state.trees for state in found[:3]] == [1, 3, 5]

    def test_methods_differ(self):
        given = trial("regression")
        last = {}
        for name, rival in RIVALS.items():
            if "regression" in rival.kinds and name != "agbmr":  # which is AGBM if the training loss never rises
                *_, state = rival.states(given, 0.25)
                last[name] = state.train_loss
        assert len(set(last.values())) == len(last)
        assert all(loss < given.objective.train_loss(given.objective.start) for loss in last.values())

    def test_plain_is_the_library(self):
        given = trial("binary")
        steps = boosting.gbm(given.objective, given.fitter(1.0), eta=0.2, max_iter=20)
        for step, state in zip(steps, RIVALS["plain"].states(given, 0.2), strict=True):
            np.testing.assert_array_equal(step.f, state.f)


def states(losses, trees=1):
    return iter([State(loss, loss, loss, trees * (k + 1)) for k, loss in enumerate(losses)])


class TestMeasured:
    START = State(10.0, 10.0, 10.0, 0)

    def test_checkpoints(self):
        losses = [0.1 * abs(k - 12) + 1.0 for k in range(1, 401)]  # the best iteration is 12
        curve = rivals.measured(self.START, states(losses), float, scale=2.0)
        assert curve.train[:5] == [20.0, 3.4, 2.4, 2.6, 3.6]
        assert curve.best_test[:5] == [20.0, 3.4, 2.4, 2.0, 2.0]
        assert curve.best_trees[-1] == 12
        assert len(curve.train) == len(curve.seconds) == len(CHECKPOINTS)
        assert not curve.diverged

    def test_at_most_as_many_trees(self):
        curve = rivals.measured(self.START, states([1.0 / k for k in range(1, 300)], trees=2), float)
        assert curve.test[1] == 0.5  # two iterations have four trees
        assert curve.test[-1] == 0.005

    @pytest.mark.parametrize("bad", [1e9, math.inf, math.nan])
    def test_divergence(self, bad):
        curve = rivals.measured(self.START, states([1.0] * 12 + [bad]), float)
        assert curve.diverged
        assert len(curve.train) == 3

    def test_digits(self):
        curve = rivals.measured(self.START._replace(f=1 / 3), states([]), float)
        assert curve.test[0] == 0.3333333

    @pytest.mark.parametrize("method", ["fading", "newton", "dropout"])
    def test_same_bits(self, method):
        first, second = (
            rivals.compute(table("binary", 120), 1, "depth 3", LEARNERS["depth 3"], method) for _ in range(2)
        )
        for one, other in zip(first, second, strict=True):
            for curve in (one["curve"], other["curve"]):
                del curve["seconds"], curve["best_seconds"]
            assert json.dumps(one) == json.dumps(other)

    def test_numbers_are_relative_to_the_variance(self):
        source = table("regression", 120)
        in_cents = replace(source, y=64.0 * source.y)
        first, second = (rivals.compute(t, 0, "depth 3", LEARNERS["depth 3"], "plain") for t in (source, in_cents))
        assert first[0]["curve"]["train"][0] == pytest.approx(1.0)
        assert first[2]["curve"]["test"] == second[2]["curve"]["test"]

    def test_units(self, monkeypatch, tmp_path):
        monkeypatch.setattr(rivals, "has_gpboost", lambda: False)
        monkeypatch.setattr(rivals, "RIVALS", {name: RIVALS[name] for name in ("plain", "boulevard")})
        sources = [table("binary", 100, "a"), table("regression", 100, "b")]
        found = rivals.units(sources, {"depth 3": SMALL}, splits=2)
        assert [unit.name for unit in found] == [
            "a-0-depth-3-plain", "b-0-depth-3-plain", "b-0-depth-3-boulevard",
            "a-1-depth-3-plain", "b-1-depth-3-plain", "b-1-depth-3-boulevard",
        ]  # fmt: skip
        monkeypatch.setattr(rivals, "RATES", (0.12,))
        runs = rivals.run(sources, tmp_path, 1, lambda done, total: None, {"depth 3": SMALL}, splits=1)
        assert {(run.table, run.method, run.rate) for run in runs} == {
            ("a", "plain", 0.12), ("b", "plain", 0.12), ("b", "boulevard", 0.12),
            ("a", "plain", None), ("b", "plain", None), ("b", "boulevard", None),
        }  # fmt: skip
        assert len(list(tmp_path.glob("*.json"))) == 3

    def test_gpboost_is_optional(self, monkeypatch):
        monkeypatch.setattr(rivals, "has_gpboost", lambda: True)
        monkeypatch.setattr(rivals, "version", lambda name: "1")
        names = [unit.name for unit in rivals.units([table("binary", 100)], LEARNERS, splits=1)]
        assert [name for name in names if "gpboost" in name] == [f"made-0-31-leaves-{method}" for method in GPBOOST]


class TestTables:
    def test_split(self):
        source = table("regression", 1000)
        rows = tables.split(source, 3)
        assert (rows.n_train, rows.n_validation, rows.n_test) == (600, 200, 200)
        assert sorted(rows.y) == sorted(source.y)
        assert np.array_equal(rows.X, tables.split(source, 3).X)
        assert not np.array_equal(rows.X, tables.split(source, 4).X)

    def test_at_most(self, monkeypatch):
        monkeypatch.setattr(tables, "MOST_ROWS", (50, 20, 30))
        rows = tables.split(table("binary", 1000), 0)
        assert (rows.n_train, rows.n_validation, rows.n_test) == (50, 20, 30)

    def test_halves(self):
        kinds = {"d": "binary", "a": "binary", "c": "regression", "b": "regression", "e": "binary"}
        assert tables.halves(kinds) == (["a", "e", "b"], ["d", "c"])

    def test_folder(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        suite = tmp_path / "suite"
        suite.mkdir()
        index = [
            {"file": "shop.csv.xz", "task": "binary", "target": "target", "categorical": ["code"], "drop": ["day"]},
            {"file": "fremtpl2_sev.csv.xz", "task": "regression", "target": "target", "categorical": [], "drop": []},
            {"file": "other.csv.xz", "task": "count", "target": "target", "categorical": [], "drop": []},
        ]
        (suite / "index.json").write_text(json.dumps(index))
        shop = {
            "code": [7, 5, 7],
            "name": ["None", "b", None],
            "x": [1.5, None, 2],
            "day": [1, 2, 3],
            "target": list("ynn"),
        }
        pandas.DataFrame(shop).to_csv(suite / "shop.csv.xz", index=False)
        pandas.DataFrame({"x": [1, 2], "target": [1, 100]}).to_csv(suite / "fremtpl2_sev.csv.xz", index=False)
        first, second = tables.of_suite(tmp_path)
        np.testing.assert_array_equal(first.X, [[1, 0, 1.5], [0, 1, np.nan], [1, np.nan, 2]])
        assert (first.name, first.kind, first.y.tolist()) == ("shop", "binary", [1, 0, 0])
        assert second.y == pytest.approx([0.0, math.log(100)])
        assert first.checksum != replace(first, y=1 - first.y).checksum

    def test_no_index(self, tmp_path):
        assert tables.of_suite(tmp_path) == []

    def test_pandas_is_optional(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pandas", None)
        with pytest.raises(ImportError, match=r"agbm\[paper\]"):
            tables._pandas()


def curve(level, seconds=1.0, best=100, diverged=False):
    """Losses that fall until `best` trees, to the level."""
    losses = [level * (2.0 - min(n, best) / best) for n in CHECKPOINTS]
    trees = [min(n, best) for n in CHECKPOINTS]
    times = [seconds * n / 100 for n in CHECKPOINTS]
    return Curve(
        losses, losses, losses, losses, losses, trees, times, [min(t, seconds * best / 100) for t in times], diverged
    )


def made_up(levels, n_tables=12, learner="31 leaves"):
    """Traces of methods whose losses are multiples of those of plain boosting, with noise."""
    random = np.random.default_rng(0)
    traces = []
    for number in range(n_tables):
        kind = "binary" if number % 2 else "regression"
        for method, level in levels.items():
            if method in RIVALS and kind not in RIVALS[method].kinds:
                continue
            for k, rate in enumerate(RATES):
                value = level * (1 + 0.02 * abs(k - 2)) * (1 + 0.002 * random.random())
                traces.append(Trace(f"t{number:02}", kind, learner, 0, method, rate, curve(value, best=200 // (k + 1))))
    return traces


LEVELS = dict.fromkeys(RIVALS, 1.05) | {"plain": 1.0, "fading": 0.9, "gpboost": 1.0, "gpboost-nesterov": 1.1}


@pytest.fixture(scope="module")
def runs():
    return summarise(made_up(LEVELS))


class TestRoles:
    def test_best_of_all_rates(self):
        traces = [
            Trace("a", "binary", "depth 3", split, "plain", rate, curve(level))
            for split, levels in enumerate([(1.0, 2.0), (5.0, 3.0)])
            for rate, level in zip((0.12, 1.0), levels, strict=True)
        ]
        by_rate = {run.rate: run for run in summarise(traces)}
        assert (by_rate[0.12].test, by_rate[1.0].test, by_rate[None].test) == (3.0, 2.5, 2.0)
        assert by_rate[None].at_trees[0] == 4.0
        assert len(by_rate[None].at_times) == len(TIMES)
        assert by_rate[None].at_times[TIMES.index(0.5)] == 3.0  # halfway to 100 trees, which take one unit of time
        assert by_rate[0.12].at_times == []

    def test_runs_that_diverge_keep_their_best_model(self):
        short = curve(1.0)
        for name in (
            "train",
            "validation",
            "test",
            "best_validation",
            "best_test",
            "best_trees",
            "seconds",
            "best_seconds",
        ):
            del getattr(short, name)[3:]
        short.diverged = True
        traces = [Trace("a", "binary", "depth 3", 0, "plain", 0.12, short)]
        single, best = summarise(traces)
        assert single.at_trees[-1] == single.at_trees[2] == single.test == 1.9
        assert single.diverged == best.diverged == 1

    def test_json(self, runs):
        text = json.dumps(to_json(runs))
        assert from_json(json.loads(text)) == runs


class TestComparison:
    def test_versus(self):
        def run(name, test, trees):
            return Run(name, "binary", "depth 3", "plain", 0.1, test, trees, 1.0, 0, [], [])

        mine = {"a": run("a", 1.0, 10), "b": run("b", 4.0, 10), "c": run("c", 1.0, 10)}
        theirs = {"a": run("a", 2.0, 20), "b": run("b", 2.0, 20)}
        found = versus(mine, theirs)
        assert found[:4] == (2, pytest.approx(1.0), 1, 1)
        assert math.isnan(found.p)  # too few tables
        assert found.trees == pytest.approx(0.5)
        assert versus({}, theirs).tables == 0

    def test_signed_rank(self):
        assert signed_rank_p([0.9, 0.8, 0.95, 0.7, 0.99]) == pytest.approx(2 / 2**5)

    def test_holm(self):
        found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": math.nan})
        assert found["a"] == pytest.approx(0.03)
        assert found["c"] == found["b"] == pytest.approx(0.06)
        assert math.isnan(found["d"])

    def test_trees_to(self):
        losses = [1.0 - 0.1 * k for k in range(len(CHECKPOINTS))]
        run = Run("a", "binary", "depth 3", "plain", 0.1, 0.0, 1, 1.0, 0, losses, [])
        assert trees_to(run, 1.5) == 0
        assert trees_to(run, 0.85) == pytest.approx(7.5)  # halfway between 5 and 10 trees
        assert trees_to(run, -5.0) == math.inf

    def test_roles(self, runs):
        comparison = Comparison("31 leaves", runs)
        assert comparison.chosen_rate("fading") == 0.12
        assert comparison.judged("fading").test == pytest.approx(0.9, abs=0.01)
        assert comparison.judged("fading").tables == 6
        assert comparison.best("fading").better == 12
        assert comparison.best("newton").tables == 6
        assert comparison.best("gpboost-nesterov").test == pytest.approx(1.1, abs=0.01)
        assert comparison.reach("fading", 0.12, 0.03).reached == 6
        assert comparison.reach("vagbm", 1.0, 0.12).trees == math.inf
        assert comparison.after_trees("fading", 400).test == pytest.approx(0.9, abs=0.01)
        assert comparison.after_time("fading", 2.0).test == pytest.approx(0.9, abs=0.01)


@pytest.fixture(scope="module")
def markdown(runs):
    return document.to_markdown(rival_sections.of_rivals(runs), "Page")


class TestSections:
    def test_verdict(self, markdown):
        assert "Fading (0.9" in markdown
        assert "No method is significantly better than Fading" in markdown
        assert "12 tables" in markdown

    def test_where_momentum_pays(self):
        """All of it is computed: with better artificial results, the sentences say so."""
        for level, words in ((0.9, "the loss is below plain boosting's for some"), (1.1, "the loss is higher for all")):
            levels = LEVELS | dict.fromkeys(rival_sections.MOMENTUM, level)
            comparisons = [Comparison("31 leaves", summarise(made_up(levels)))]
            text = rival_sections.in_short(comparisons)
            assert words in text
            assert ("trees, below plain boosting: no method with both" in text) == (level > 1.0)

    def test_all_methods(self, markdown):
        for rival in RIVALS.values():
            assert rival.title.replace("_", "\\_") in markdown
        assert "use\\_nesterov\\_acc" in markdown
        assert "nan" not in markdown

    def test_without_gpboost(self):
        runs = summarise(made_up({name: level for name, level in LEVELS.items() if name in RIVALS}))
        (section,) = rival_sections.of_rivals(runs)
        assert any("not installed" in text for part in section.subsections for text in part.paragraphs)

    def test_winner_that_is_not_the_default(self):
        runs = summarise(made_up({**LEVELS, "hybrid": 0.8}, n_tables=24))
        (section,) = rival_sections.of_rivals(runs)
        assert "Significantly better than Fading in one of these roles: VAGBM, then plain." in " ".join(
            section.paragraphs
        )

    def test_figures(self, runs, tmp_path):
        pytest.importorskip("matplotlib")
        from agbm._apps.paper.page import rival_figures

        paths = rival_figures.draw(runs, tmp_path)
        assert len(paths) == 6
        assert all("<svg" in path.read_text(encoding="utf-8") for path in paths)
        (section,) = rival_sections.of_rivals(runs)
        for figure in section.figures:
            assert (tmp_path / f"{figure.stem}-dark.svg").is_file()
