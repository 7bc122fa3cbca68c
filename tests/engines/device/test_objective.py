"""An objective on a device gives the bits of the one on the host, for every loss."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from agbm import losses
from agbm._base.weights import Weights
from agbm._core import boosting
from agbm._core.learners import Newton, RegressorLearner
from agbm._core.objective import LocalObjective, of_each_output
from agbm._core.schedules import FadingSchedule, PaperSchedule
from agbm._engines.device.objective import DeviceObjective
from agbm._losses import traits_of
from agbm._uncertainty.conformal import Residual
from devices import a_device, is_on_device

N_TRAIN, N_VALIDATION, N_WATCHED = 300, 70, 31
N = N_TRAIN + N_VALIDATION + N_WATCHED


class Custom:
    """A user-defined loss."""

    smoothness = 2.0
    constant_hessian = False

    def __repr__(self):
        return f"{type(self).__name__}()"

    def value(self, y, f):
        return (y - f) ** 2

    def negative_gradient(self, y, f):
        return 2.0 * (y - f)

    def hessian(self, y, f, weight):
        return np.full_like(f, 2.0)


def any_labels(rng, n_outputs):
    return rng.normal(size=(n_outputs, N))


def counts(rng, n_outputs):
    return rng.poisson(1.0, size=(n_outputs, N)).astype(float)


def positive(rng, n_outputs):
    return np.exp(rng.normal(size=(n_outputs, N)))


def shares(rng, n_outputs):
    return rng.random(size=(n_outputs, N))


def one_of(labels):
    return lambda rng, _: labels(rng, 1)[0]


def codes(rng, n_outputs):
    return rng.integers(0, n_outputs, size=N).astype(float)


def shares_of_classes(rng, n_outputs):
    y = rng.random(size=(n_outputs, N))
    return y / y.sum(axis=0)


def queries(rng, _):
    return np.stack([rng.integers(0, 4, size=N), np.arange(N) // 10]).astype(float)


def times(rng, _):
    lower = np.exp(rng.normal(size=N))
    return np.stack([lower, np.where(rng.random(N) < 0.5, lower, np.inf)])


# The loss, its labels, the number of outputs, and whether kernels of the device evaluate it.
CASES = [
    (losses.HalfSquaredError(), any_labels, 2, True),
    (losses.AbsoluteError(), any_labels, 2, True),
    (losses.Quantile(0.3), any_labels, 2, True),
    (losses.Quantile([0.1, 0.5, 0.8]), one_of(any_labels), 3, False),
    (losses.Huber(0.7), any_labels, 1, True),
    (losses.Expectile(0.8), any_labels, 1, True),
    (losses.LogCosh(0.7), any_labels, 1, True),
    (losses.Poisson(), counts, 2, True),
    (losses.Gamma(), positive, 1, True),
    (losses.Tweedie(1.4), counts, 1, True),
    (losses.LogLoss(), shares, 2, True),
    (losses.CrossEntropy(), shares, 1, True),
    (losses.Exponential(), shares, 1, True),
    (losses.Multinomial(4), codes, 4, True),
    (losses.MultinomialCrossEntropy(3), shares_of_classes, 3, True),
    (losses.LambdaRank(), queries, 1, False),
    (losses.PairwiseLogistic(), queries, 1, False),
    (losses.ListwiseCrossEntropy(), queries, 1, False),
    (losses.Cox(), times, 1, False),
    (losses.AcceleratedFailureTime("normal"), times, 2, False),
    (losses.PiecewiseExponential([0.0, 0.5]), times, 3, False),
    (losses.NormalDistribution(), one_of(any_labels), 2, True),
    (losses.LogNormalDistribution(), one_of(positive), 2, True),
    (losses.StudentTDistribution(), one_of(any_labels), 2, True),
    (losses.GammaDistribution(), one_of(positive), 2, True),
    (losses.NegativeBinomialDistribution(), one_of(counts), 2, True),
    (losses.ZeroInflatedPoissonDistribution(), one_of(counts), 2, True),
    (losses.ZeroInflatedGammaDistribution(), one_of(counts), 3, True),
    (losses.HistogramDistribution([-1.0, 0.0, 1.0, 2.0]), one_of(any_labels), 3, False),
    (of_each_output(Custom()), any_labels, 2, False),
]
NAMES = [repr(loss) for loss, *_ in CASES]
WEIGHTS = ["none", "counts", "relative", "both"]


def weights_of(rng, kind, per_query):
    """Weights of the training rows, and of the validation rows; rows of a query have the same."""
    if kind == "none":
        return None, None
    repeats, relative = rng.integers(1, 5, size=N), rng.integers(1, 2**20, size=N) / 2.0**16
    if per_query:
        repeats, relative = repeats[np.arange(N) // 10 * 10], relative[np.arange(N) // 10 * 10]
    weights = Weights(repeats if kind != "relative" else None, relative if kind != "counts" else None)
    return weights[:N_TRAIN], weights.total[N_TRAIN : N_TRAIN + N_VALIDATION]


def objectives(loss, labels, n_outputs, weights, second_order=True, validation=True):
    """The same objective on the host and on a device."""
    rng, device = np.random.default_rng(0), a_device()
    train, of_validation = weights_of(rng, weights, labels is queries)
    rows = slice(N if validation else N_TRAIN)
    start = np.broadcast_to(rng.normal(size=(n_outputs, 1)) * 0.3, (n_outputs, N))[:, rows]
    local = LocalObjective(
        loss,
        labels(rng, n_outputs)[..., rows],
        N_TRAIN,
        start,
        train,
        second_order,
        validation_weight=of_validation if validation else None,
        n_watched=N_WATCHED if validation else 0,
    )
    return local, DeviceObjective(local, device), device


def assert_same(device, found, expected):
    assert is_on_device(found)
    assert np.array_equal(device.to_host(found), expected)


def test_every_built_in_loss_is_tested():
    tested = {type(loss).__name__ for loss, *_ in CASES}
    assert set(losses.__all__) - tested == {"Loss"}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("loss", "labels", "n_outputs", "has_kernels"), CASES, ids=NAMES)
def test_same_bits(loss, labels, n_outputs, has_kernels, weights):
    local, objective, device = objectives(loss, labels, n_outputs, weights)
    rng = np.random.default_rng(1)
    f, b, c = local.start + rng.normal(size=(3, n_outputs, N))
    on_device = [device.to_device(x) for x in (f, b, c)]
    assert_same(device, objective.start, local.start)
    r = local.residual(f)
    residual = objective.residual(on_device[0])
    assert_same(device, residual, r)
    assert any("_rows" in kernel for kernel in device.launched) == has_kernels
    newton, expected = objective.newton(on_device[0]), local.newton(f)
    assert (newton is None) == (expected is None)
    if newton is not None:
        assert_same(device, newton.hessian, expected.hessian)
        assert newton.shares == expected.shares
        assert (newton.distance is None) == (expected.distance is None)
        if newton.distance is not None:
            assert_same(device, newton.distance, expected.distance)
    fits = [local.fit_of(None, 0, x, expected) for x in (b, c)]
    of_device = [objective.fit_of(None, 0, x, newton) for x in on_device[1:]]
    for found, fit in zip(of_device, fits, strict=True):
        assert_same(device, found.explained, fit.explained)
    pairs, of_local = [(residual, fit) for fit in of_device], [(r, fit) for fit in fits]
    assert objective.measure(on_device[0], *pairs) == local.measure(f, *of_local)
    assert objective.train_loss(on_device[0]) == local.train_loss(f)
    assert objective.validation_loss(on_device[0]) == local.validation_loss(f)
    assert objective.cosine(*pairs[1]) == local.cosine(*of_local[1])
    assert objective.inner(residual, on_device[1]) == local.inner(r, b)
    assert objective.slope(on_device[0], on_device[1]) == local.slope(f, b)
    assert_same(device, objective.mix(0.3, on_device[0], -0.7, on_device[1]), local.mix(0.3, f, -0.7, b))
    assert_same(device, objective.zero_residual(), local.zero_residual())
    assert objective.counts_rows == local.counts_rows


@pytest.mark.parametrize("loss", [losses.LogLoss(), of_each_output(Custom())], ids=repr)
def test_without_validation_rows_and_without_newton_steps(loss):
    local, objective, _ = objectives(loss, shares, 1, "none", second_order=False, validation=False)
    assert not objective.has_validation
    assert objective.newton(objective.start) is None
    losses_of_start, cosines = objective.measure(objective.start)
    assert losses_of_start[0] == local.train_loss(local.start)
    assert np.isnan(losses_of_start[1])
    assert cosines == []
    assert np.isnan(objective.validation_loss(objective.start))


def test_held_out_scores():
    local, objective, device = objectives(losses.HalfSquaredError(), any_labels, 1, "relative")
    f = np.random.default_rng(2).normal(size=(1, N))
    found = objective.held_out_scores(objective.to_keep(device.to_device(f)), Residual(losses.HalfSquaredError()))
    expected = local.held_out_scores(local.to_keep(f), Residual(losses.HalfSquaredError()))
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("loss", "labels", "n_outputs", "has_kernels"), CASES, ids=NAMES)
def test_levels_of_spreads(loss, labels, n_outputs, has_kernels, weights):
    spread = traits_of(loss).spread
    if spread is None:
        assert not isinstance(loss, losses.NormalDistribution | losses.AcceleratedFailureTime)
        return
    local, objective, device = objectives(loss, labels, n_outputs, weights)
    f = local.start + np.random.default_rng(3).normal(size=(n_outputs, N))
    assert_same(device, objective.unit(spread), local.unit(spread))
    assert objective.level_step(device.to_device(f), spread) == local.level_step(f, spread)


def test_unsuitable_losses_are_refused():
    class Wrong(Custom):
        def negative_gradient(self, y, f):
            return np.zeros(3)

    _, objective, _ = objectives(of_each_output(Wrong()), any_labels, 1, "none")
    with pytest.raises(ValueError, match="negative_gradient must give one number"):
        objective.residual(objective.start)


class DeviceFitter:
    """A learner on the host for an objective on a device."""

    def __init__(self, fitter, objective, device):
        self.fitter, self.objective, self.device = fitter, objective, device

    def fit(self, r, newton):
        return self._on_device(self.fitter.fit(self.device.to_host(r), self._on_host(newton)), newton)

    def fit_pair(self, r, c, newton, *, second):
        residuals = map(self.device.to_host, (r, c))
        first, momentum = self.fitter.fit_pair(*residuals, self._on_host(newton), second=second)
        return self._on_device(first, newton), None if momentum is None else self._on_device(momentum, newton)

    def _on_host(self, newton):
        return None if newton is None else Newton(self.device.to_host(newton.hessian))

    def _on_device(self, fit, newton):
        return self.objective.fit_of(fit.model, fit.function, self.device.to_device(fit.values), newton)


ALGORITHMS = {
    "gbm": lambda *of: boosting.gbm(*of, eta=None, max_iter=4),
    "fading": lambda *of: boosting.fading(*of, schedule=FadingSchedule(0.1, 0.3, 0.2, 0.1, 0.5), max_iter=6),
    "agbm": lambda *of: boosting.agbm(*of, schedule=PaperSchedule(0.3, "theory"), correction=1.0, length=lambda _: 6),
}


@pytest.mark.parametrize("loss", [losses.LogLoss(), of_each_output(Custom())], ids=repr)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_run_on_device_functions(name, loss):
    local, objective, device = objectives(loss, shares, 2, "both")
    X = np.random.default_rng(3).normal(size=(N, 3))

    def steps(of, wrap):
        learner = RegressorLearner(DecisionTreeRegressor(max_depth=2), seed=0, n_outputs=2)
        return ALGORITHMS[name](of, wrap(learner.bind(X, N_TRAIN, local.train_weights, local.residual(local.start))))

    of_device = steps(objective, lambda fitter: DeviceFitter(fitter, objective, device))
    for found, expected in zip(of_device, steps(local, lambda fitter: fitter), strict=True):
        assert_same(device, found.f, expected.f)
        assert found.train_loss == expected.train_loss
        assert found.validation_loss == expected.validation_loss
        assert found.cosine_residual == expected.cosine_residual
        assert found.eta == expected.eta
