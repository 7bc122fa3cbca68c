"""The quantities of Theorem 4.1 and 4.2, and the cosines of trees."""

import math

import numpy as np
import pytest
from scipy.special import expit

from agbm._apps.paper.data_sets import DataSet
from agbm._apps.paper.experiments import angles, proof, restarts
from agbm._apps.paper.experiments.restarts import Ridge, Setting
from agbm._core.theory import admissible_momentum
from agbm.losses import LogLoss


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
        assert (track.n_above_bound, track.n_above_sum) == (0, 0)
        total = np.array(track.columns["error_terms"])
        assert (total <= 0).all()
        assert (np.array(track.columns["potential"]) <= (track.start_potential + total) * (1 + 1e-9)).all()

    def test_other_momenta_are_labelled(self, known):
        tracks = list(proof.tracks(known, 10))
        assert [track.admissible for track in tracks] == [True, False, False, False]
        assert tracks[1].gamma == 10 * tracks[0].gamma
        assert np.isfinite(tracks[1].columns["error_terms"]).all()
        for track in tracks:
            cosines = np.nanmin([track.columns["cosine_residual"], track.columns["cosine_corrected"]], axis=0)
            assert track.smallest_cosine == cosines.min()
            assert {len(column) for column in track.columns.values()} == {10}
            stored = proof.to_stored(track)
            again = proof.from_stored(stored)
            assert proof.to_stored(again) == stored
            np.testing.assert_allclose(again.columns["gap"], track.columns["gap"], rtol=1e-5)


class TestRestarts:
    @pytest.fixture(scope="class")
    @staticmethod
    def weak(classes):
        setting = Setting("diabetes", 10.0, 3)
        return setting, restarts.problem(setting, classes)

    def test_the_loss_with_a_ridge(self):
        ridge, rng = Ridge(LogLoss(), 0.1), np.random.default_rng(0)
        y, f, e = (rng.random((1, 5)) > 0.5).astype(float), rng.normal(size=(1, 5)), 1e-6
        values = np.logaddexp(0.0, f[0]) - y[0] * f[0] + 0.05 * f[0] ** 2
        np.testing.assert_allclose(ridge.value(y, f), values)
        slope = (ridge.value(y, f + e) - ridge.value(y, f - e)) / (2 * e)
        np.testing.assert_allclose(-ridge.negative_gradient(y, f)[0], slope, atol=1e-8)
        curvature = (ridge.negative_gradient(y, f - e) - ridge.negative_gradient(y, f + e)) / (2 * e)
        np.testing.assert_allclose(ridge.hessian(y, f, None), curvature, atol=1e-8)
        assert ridge.smoothness == 0.35

    @pytest.mark.parametrize("condition", [1.0, 10.0, 1000.0])
    def test_condition_number(self, condition, classes, numbers):
        setting = Setting("diabetes", condition, 3)
        known = restarts.problem(setting, classes if condition > 1.0 else numbers)
        assert known.smoothness / restarts.strong_convexity(condition) == pytest.approx(condition)
        assert abs(known.problem.residual(known.optimum)).max() < 1e-9

    def test_best_score(self):
        ridge = Ridge(LogLoss(), 0.01)
        means = np.array([0.0, 0.2, 1.0])
        f = ridge.best_score(means)
        np.testing.assert_allclose(expit(f) - means + 0.01 * f, 0.0, atol=1e-12)

    def test_exact_trees_solve_least_squares_at_once(self, numbers):
        setting = Setting("housing", 1.0, None)
        run = restarts.measured(setting, restarts.problem(setting, numbers), "gbm", 0.0)
        assert run.needed == [1, 1, 1]
        assert run.smallest_cosine == pytest.approx(1.0)

    def test_the_theorem_with_exact_trees(self, classes):
        setting = Setting("diabetes", 10.0, None)
        run = restarts.admitted_run(setting, restarts.problem(setting, classes))
        assert run.admitted
        assert run.gamma == pytest.approx(admissible_momentum(1.0), rel=0.02)
        assert len(run.ratios) > 0
        assert max(run.ratios) <= 0.5
        mu = restarts.strong_convexity(10.0)
        assert run.period == math.ceil(math.sqrt(2.0 * (0.25 + mu) / (run.gamma * mu)))

    def test_a_period_is_a_number_of_iterations(self, weak):
        run = restarts.measured(*weak, "period", 0.1, 7)
        iterations = sum(1 for _ in restarts._steps(weak[1], "period", 0.1, 7))
        assert iterations == restarts.MOST_ITERATIONS
        assert len(run.ratios) == run.n_restarts
        # The first step of a period fits c and r by one tree, and the last one needs no second tree: 7 are 12 trees.
        assert run.trees[-1] <= 12 * (run.n_restarts + 1)

    def test_trees_that_are_needed(self, weak):
        run = restarts.measured(*weak, "option 2", 1.0)
        for tolerance, needed in zip(restarts.TOLERANCES, run.needed, strict=True):
            if needed is None:
                assert min(run.gaps) > tolerance
            else:
                before = [gap for n, gap in zip(run.trees, run.gaps, strict=True) if n < needed]
                assert min(before) > tolerance
        assert run.gaps[0] == 1.0

    def test_divergence(self, weak):
        run = restarts.measured(*weak, "agbm", 1.0)
        assert run.diverged
        assert run.needed[-1] is None

    def test_stored_and_read(self, weak):
        for method, gamma in (("gbm", 0.0), ("option 1", 0.1)):
            run = restarts.measured(*weak, method, gamma)
            assert restarts.from_stored(restarts.to_stored(run)) == run


class TestAngles:
    def test_deeper_trees_fit_better(self, classes):
        found = [angles.measured(angles.Sample("a1a", 100), depth, classes, 0) for depth in (1, 4)]
        assert found[0].noise < found[1].noise
        assert found[0].median_gbm < found[1].median_gbm
        for one in found:
            assert 0.0 < one.smallest_gbm <= one.median_gbm <= 1.0
            assert one.n_rows == 100
            assert angles.from_stored(angles.to_stored(one)) == one

    def test_noise_and_the_number_of_rows(self):
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
        few, many = (
            angles.measured(angles.Sample("housing", n), 2, DataSet("housing", X, y, False), 0) for n in (40, 400)
        )
        assert many.noise < 0.6 * few.noise
