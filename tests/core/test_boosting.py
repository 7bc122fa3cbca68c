"""The algorithms compared with the paper's pseudo-code, lemma and theorems, and with other reference definitions."""

import weakref
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import paper_twin as twin
from agbm._base.weights import Weights
from agbm._core import boosting
from agbm._core.learners import DivergedError, RegressorLearner
from agbm._core.schedules import FadingSchedule, PaperSchedule
from agbm._core.theory import admissible_momentum, rate_bound
from agbm._tree import TreeLearner
from agbm.losses import HalfSquaredError, LogLoss
from toys import StretchedSquaredError, VectorFitter, best_stump, problem_of, projection, strongest, total_loss

N_ITERATIONS = 50


def make_data(seed, n=60, p=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    signal = X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3]
    return X, signal + 0.3 * rng.normal(size=n), (signal + rng.normal(size=n) > 0).astype(float)


def setting(loss_name, learner_name):
    """A problem, the library's learner and the twin's functions for the same problem."""
    X, y, labels = make_data(3)
    loss = HalfSquaredError() if loss_name == "squared" else LogLoss()
    y = y if loss_name == "squared" else labels
    rng = np.random.default_rng(0)
    problem = problem_of(loss, y, start=0.1 * rng.normal(size=len(y)))

    def gradient(f):
        return f - y if loss_name == "squared" else 1.0 / (1.0 + np.exp(-f)) - y

    if learner_name == "linear":
        # The library clones and fits a regressor; the twin solves the normal equations.
        columns = np.column_stack([np.ones(len(X)), X])
        fitter = RegressorLearner(LinearRegression(), seed=0).bind(X, len(X), None, y[np.newaxis])
        return problem, fitter, gradient, projection(columns)
    return problem, VectorFitter(best_stump(X)), gradient, best_stump(X)


def assert_same(steps, trace):
    assert len(steps) == len(trace) == N_ITERATIONS
    for step, expected in zip(steps, trace, strict=True):
        for name, vector in expected.items():
            if name == "h" and step.momentum is None:
                continue  # the last momentum learner is not grown
            np.testing.assert_allclose(getattr(step, name)[0], vector, rtol=0, atol=1e-10, err_msg=name)


settings = pytest.mark.parametrize(
    ("loss", "learner"), [("squared", "linear"), ("squared", "stump"), ("logistic", "linear"), ("logistic", "stump")]
)


@settings
def test_gbm_is_algorithm_1(loss, learner):
    problem, fitter, gradient, fit = setting(loss, learner)
    steps = list(boosting.gbm(problem, fitter, eta=0.3, max_iter=N_ITERATIONS))
    assert_same(steps, twin.gbm(problem.start[0], gradient, fit, 0.3, N_ITERATIONS))


@pytest.mark.parametrize(
    "steps",
    [
        lambda *of: boosting.gbm(*of, eta=0.1, max_iter=3),
        lambda *of: boosting.fading(*of, schedule=FadingSchedule(0.1, 0.2, 0.1, 0.01, look_ahead=0.5), max_iter=3),
        lambda *of: boosting.vagbm(*of, schedule=PaperSchedule(0.1, 0.2), max_iter=3),
        lambda *of: boosting.agbm(*of, schedule=PaperSchedule(0.1, 0.2), correction=1.0, length=lambda gamma: 3),
    ],
    ids=["gbm", "fading", "vagbm", "agbm"],
)
def test_paused_runs_keep_no_residuals(steps):
    """Of a model with many members, all but one are paused."""
    residuals = []

    class Fitter(VectorFitter):
        def fit(self, r, newton):
            residuals.append(weakref.ref(r))
            return super().fit(r, newton)

    X, y, _ = make_data(3)
    run = steps(problem_of(HalfSquaredError(), y), Fitter(best_stump(X)))
    for _ in range(3):
        step = next(run).without_vectors()
        assert residuals.pop()() is None
    assert step.f.shape == (1, len(y))


@pytest.mark.slow
@settings
@pytest.mark.parametrize("gamma", [1.0, 0.2])
def test_vagbm_is_the_appendix(loss, learner, gamma):
    problem, fitter, gradient, fit = setting(loss, learner)
    steps = list(boosting.vagbm(problem, fitter, schedule=PaperSchedule(0.1, gamma), max_iter=N_ITERATIONS))
    assert_same(steps, twin.vagbm(problem.start[0], gradient, fit, 0.1, gamma, N_ITERATIONS))


FADINGS = [
    {"rate": 0.05, "entry": 0.4, "fade": 0.3, "growth": 0.1},
    {"rate": 0.05, "entry": 0.1, "fade": 0.0, "growth": 0.2},  # no fading, and alpha reaches its largest value
    {"rate": 0.2, "entry": 0.1, "fade": 1.0, "growth": 0.0},  # the rate is larger than the entry
]
fadings = pytest.mark.parametrize("fading", FADINGS, ids=str)


@pytest.mark.slow
@settings
@fadings
@pytest.mark.parametrize(
    ("algorithm", "definition"), [(boosting.fading, twin.fading), (boosting.vagbm, twin.vagbm_fading)]
)
def test_fading_is_its_definition(loss, learner, fading, algorithm, definition):
    problem, fitter, gradient, fit = setting(loss, learner)
    steps = list(algorithm(problem, fitter, schedule=FadingSchedule(**fading), max_iter=N_ITERATIONS))
    assert_same(steps, definition(problem.start[0], gradient, fit, **fading, iterations=N_ITERATIONS))


@pytest.mark.slow
@settings
@fadings
@pytest.mark.parametrize("look_ahead", [0.5, 2.0])
def test_fading_with_look_ahead_is_its_definition(loss, learner, fading, look_ahead):
    """The learners are the same as without look-ahead, but the newest have less weight in the model."""
    problem, fitter, gradient, fit = setting(loss, learner)
    schedule = FadingSchedule(**fading, look_ahead=look_ahead)
    steps = list(boosting.fading(problem, fitter, schedule=schedule, max_iter=N_ITERATIONS))
    definition = twin.fading(problem.start[0], gradient, fit, **fading, look_ahead=look_ahead, iterations=N_ITERATIONS)
    assert_same(steps, definition)


@pytest.mark.slow
@settings
@fadings
@pytest.mark.parametrize("correction", [1.0, 0.5])
def test_agbm_with_fading_is_its_definition(loss, learner, fading, correction):
    problem, fitter, gradient, fit = setting(loss, learner)
    steps = list(
        boosting.agbm(
            problem, fitter, schedule=FadingSchedule(**fading), correction=correction, length=lambda gamma: N_ITERATIONS
        )
    )
    start = problem.start[0]
    assert_same(steps, twin.agbm_fading(start, gradient, fit, **fading, iterations=N_ITERATIONS, rho=correction))


def test_vagbm_with_theory_momentum():
    """gamma_m depends on all fits up to and including iteration m."""
    problem, fitter, _, _ = setting("squared", "stump")
    smallest = 1.0
    for step in boosting.vagbm(problem, fitter, schedule=PaperSchedule(0.1, "theory"), max_iter=N_ITERATIONS):
        smallest = min(smallest, step.cosine_residual)
        assert step.gamma == admissible_momentum(smallest)
        assert step.alpha == step.gamma * 0.1 / step.theta


@pytest.mark.slow
@settings
@pytest.mark.parametrize("correction", [1.0, 0.5, 0.0, -1.0])
def test_agbm_is_algorithm_2(loss, learner, correction):
    problem, fitter, gradient, fit = setting(loss, learner)
    steps = list(
        boosting.agbm(
            problem, fitter, schedule=PaperSchedule(0.1, 0.1), correction=correction, length=lambda gamma: N_ITERATIONS
        )
    )
    assert_same(steps, twin.agbm(problem.start[0], gradient, fit, 0.1, 0.1, N_ITERATIONS, correction))
    assert steps[-1].momentum is None
    assert all(step.momentum is not None for step in steps[:-1])


@settings
def test_agbm_with_theory_momentum(loss, learner):
    problem, fitter, gradient, fit = setting(loss, learner)
    steps = list(
        boosting.agbm(
            problem, fitter, schedule=PaperSchedule(0.1, "theory"), correction=1.0, length=lambda gamma: N_ITERATIONS
        )
    )
    expected = twin.agbm_theory(problem.start[0], gradient, fit, 0.1, N_ITERATIONS)
    assert_same(steps, expected)
    gammas = [step.gamma for step in steps]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(gammas))
    assert gammas[0] > 1e-3
    if learner == "linear":  # it cannot fit the noise, so the cosine falls until the theorem admits no momentum
        assert gammas[-1] == 0.0


@pytest.mark.slow
@settings
@pytest.mark.parametrize("option", ["fixed", "loss", "gradient"])
def test_agbmr_restart_rules(loss, learner, option):
    problem, fitter, gradient, fit = setting(loss, learner)
    mu = 0.5 if option == "fixed" else None
    eta, gamma = (0.5, 0.1) if option == "fixed" else (0.1 if loss == "squared" else 1.0, 1.0)
    rule = {"fixed": mu, "loss": boosting.loss_rises, "gradient": boosting.gradient_turns}[option]
    steps = list(
        boosting.agbmr(
            problem, fitter, schedule=PaperSchedule(eta, gamma), correction=1.0, max_iter=N_ITERATIONS, restart=rule
        )
    )

    def total(f):
        return problem.train_loss(f[np.newaxis])

    def turns(before, state):
        if option == "loss":
            return total(state["f"]) > total(before)
        return gradient(state["g"]) @ (state["f"] - before) > 0

    trace, begins = twin.agbmr(problem.start[0], gradient, fit, eta, gamma, N_ITERATIONS, turns, mu)
    assert len(begins) > 1, "this setting must restart"
    assert [m for m, step in enumerate(steps) if step.restart] == begins[1:]
    assert_same(steps, trace)


def test_a_gradient_of_few_rows_turns_with_their_weight():
    """The step raises row 0 and lowers row 1: against the gradient of both if row 1 has enough weight."""
    problem = problem_of(HalfSquaredError(), np.array([1.0, 1.0]))
    step = boosting.Step(np.array([[3.0, -2.0]]), 0.0, 0.0, None, 1.0, 1.0, r=problem.residual(problem.start))
    assert not boosting.gradient_turns(problem, problem.start, step)
    weighted = replace(problem, train_weights=Weights(None, np.array([1.0, 2.0])))
    assert boosting.gradient_turns(weighted, problem.start, step)


def test_the_validation_loss_rises_on_validation_rows_only():
    problem = replace(problem_of(HalfSquaredError(), np.array([1.0, 1.0, 2.0])), n_train=2)
    before = np.zeros((1, 3))
    for f, rises in (([9.0, 9.0, 1.0], False), ([1.0, 1.0, -1.0], True), ([1.0, 1.0, 4.0], False)):
        step = boosting.Step(np.array([f]), 0.0, 0.0, None, 1.0, 1.0)
        assert boosting.validation_loss_rises(problem, before, step) is rises


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_line_search_finds_the_smallest_loss(loss):
    problem, fitter, _, _ = setting(loss, "stump")
    before = problem.start
    for step in boosting.gbm(problem, fitter, eta=None, max_iter=10):
        around = [problem.train_loss(before + eta * step.primary.values) for eta in step.eta + np.linspace(-1, 1, 21)]
        assert min(around) >= step.train_loss - 1e-12
        before = step.f


def test_line_search_of_an_unbounded_loss_ends():
    problem = problem_of(LogLoss(), np.array([0.0, 1.0]))
    assert boosting.line_search(problem, problem.start, np.array([[-1.0, 1.0]]), largest=100.0) == 100.0


def test_line_search_never_increases_the_loss():
    problem = problem_of(HalfSquaredError(), np.array([1.0, 2.0]))
    assert boosting.line_search(problem, problem.start, np.array([[-1.0, -1.0]])) == 0.0


@pytest.mark.parametrize("correction", [-1.0, 0.0, 0.5, 1.0])
def test_strong_learner_gives_textbook_nesterov(correction):
    """x+ = y - eta grad(y), y+ = x+ + m / (m + 3) (x+ - x): the two-sequence form, which the paper does not use."""
    _, _, labels = make_data(5)
    problem = problem_of(LogLoss(), labels)
    eta = 1.0
    steps = boosting.agbm(
        problem, VectorFitter(lambda r: r.copy()), schedule=PaperSchedule(eta, 1.0), correction=correction,
        length=lambda gamma: 80,
    )  # fmt: skip
    x = y = problem.start[0]
    for m, step in enumerate(steps):
        x_before, x = x, y + eta * (labels - 1.0 / (1.0 + np.exp(-y)))
        y = x + m / (m + 3.0) * (x - x_before)
        np.testing.assert_allclose(step.f[0], x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("gamma", [0.05, 1.0, "theory"])
def test_lemma_of_the_auxiliary_sequence(gamma):
    """h-hat^{m+1} = h^{m+1} + alpha_m (c^m - b_{m,2}), where h-hat sums alpha_j r^j; also if gamma varies."""
    X, y, _ = make_data(7)
    problem = problem_of(HalfSquaredError(), y)
    h_hat = problem.start
    for step in boosting.agbm(
        problem, VectorFitter(best_stump(X)), schedule=PaperSchedule(0.2, gamma), correction=1.0,
        length=lambda gamma: 40,
    ):  # fmt: skip
        h_hat = h_hat + step.alpha * step.r
        if step.momentum is not None:
            expected = step.h + step.alpha * (step.c - step.momentum.explained)
            np.testing.assert_allclose(h_hat, expected, rtol=1e-9, atol=1e-9 * np.abs(h_hat).max())


def problems_with_known_optimum():
    rng = np.random.default_rng(11)
    y = rng.normal(size=40)
    yield "squared", HalfSquaredError(), y, y
    soft = rng.uniform(0.05, 0.95, size=40)
    yield "logistic", LogLoss(), soft, np.log(soft / (1 - soft))
    yield "stretched", StretchedSquaredError(np.geomspace(0.01, 1.0, 40)), y, y


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.5, 0.2])
@pytest.mark.parametrize("momentum", ["largest", "theory"])
def test_theorem_4_1_holds_at_every_iteration(share, momentum):
    theta = np.sqrt(share)  # the learner's minimal cosine angle, over all residuals
    for name, loss, y, optimum in problems_with_known_optimum():
        problem, eta = problem_of(loss, y), 1.0 / loss.smoothness
        best = total_loss(problem, optimum[np.newaxis])
        schedule = PaperSchedule(eta, "theory" if momentum == "theory" else admissible_momentum(theta))
        steps = boosting.agbm(
            problem, VectorFitter(strongest(share)), schedule=schedule, correction=1.0, length=lambda g: 300
        )
        for m, step in enumerate(steps, start=1):
            assert step.cosine_residual >= theta - 1e-12
            gap = total_loss(problem, step.f) - best
            assert gap <= rate_bound(float(optimum @ optimum), eta, step.gamma, m) + 1e-12, (name, m)


@pytest.mark.slow
def test_the_rate_is_accelerated():
    """On a badly conditioned problem AGBM keeps the bound of Theorem 4.1, and plain boosting does not."""
    y = np.random.default_rng(17).normal(size=40)
    problem = problem_of(StretchedSquaredError(np.geomspace(1e-6, 1.0, 40)), y)
    fitter = VectorFitter(lambda r: r.copy())
    gamma = admissible_momentum(1.0)

    def ratios(steps):
        bounds = (rate_bound(float(y @ y), 1.0, gamma, m) for m in count(1))
        return [total_loss(problem, step.f) / bound for step, bound in zip(steps, bounds, strict=False)]

    accelerated = boosting.agbm(
        problem, fitter, schedule=PaperSchedule(1.0, gamma), correction=1.0, length=lambda gamma: 3000
    )
    assert max(ratios(accelerated)) <= 1.0
    assert max(ratios(boosting.gbm(problem, fitter, eta=1.0, max_iter=3000))) > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_option_1_halves_the_gap_at_every_restart(share):
    rng = np.random.default_rng(13)
    y = rng.normal(size=50)
    mu = 0.02
    problem = problem_of(StretchedSquaredError(np.geomspace(mu, 1.0, 50)), y)
    gamma = admissible_momentum(np.sqrt(share))
    before = total_loss(problem, problem.start)
    gaps = [before]
    last = None
    for step in boosting.agbmr(
        problem, VectorFitter(strongest(share)), schedule=PaperSchedule(1.0, gamma), correction=1.0, max_iter=2000,
        restart=mu,
    ):  # fmt: skip
        if step.restart:
            gaps.append(total_loss(problem, last.f))
        last = step
    assert len(gaps) > 5
    for before, after in pairwise(gaps):
        assert after <= before / 2 + 1e-15


def test_non_finite_residuals_end_training():
    problem = problem_of(HalfSquaredError(), np.array([1.0, -1.0]), start=np.array([np.inf, 0.0]))
    for learner in (TreeLearner(), RegressorLearner(LinearRegression(), seed=0)):
        fitter = learner.bind(np.zeros((2, 1)), 2, None, np.zeros((1, 2)))
        with pytest.raises(DivergedError):
            next(boosting.gbm(problem, fitter, eta=1.0, max_iter=3))
