"""Boosting algorithms with their settings, for the parameter `method` of the estimators."""

from __future__ import annotations

import inspect
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar, Literal

from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from . import boosting
from .boosting import Dropping, Step, keep_all
from .learners import Fitter, Regressor, V
from .objective import Objective
from .schedules import FadingSchedule, PaperSchedule, Schedule


class RemembersNames(BaseEstimator):  # type: ignore[misc]
    """An object with parameters, whose names are read from its signature once.

    scikit-learn reads them again whenever parameters are asked for, ten times per fit.
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        kind: Any = cls
        return list(_parameter_names(kind, kind.__init__))


@lru_cache(64)
def _parameter_names(kind: object, init: object) -> list[str]:
    of_class: Any = super(RemembersNames, kind)
    names: list[str] = of_class._get_param_names()
    return names


class Method(RemembersNames, ABC):
    """A boosting algorithm with its settings. get_params and set_params work as in scikit-learn."""

    n_members: ClassVar[int] = 1
    learning_rate_of_members: ClassVar[float] = 0.1
    colsample_bynode: ClassVar[float] = 1.0
    shares_classes: ClassVar[bool] = False
    crosses: ClassVar[bool] = False
    """What "auto" means for the estimators' n_members, learning_rate with several members, colsample_bynode,
    multi_strategy with classes, and views."""
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "second_order": ["boolean"],
        "dropout": [Interval(numbers.Real, 0, 1, closed="left")],
        "learner": [HasMethods(["fit", "predict"]), None],
        "temperature_scaling": ["boolean"],
    }

    def __init__(
        self, second_order: bool, dropout: float, learner: Regressor | None, temperature_scaling: bool
    ) -> None:
        self.second_order = second_order
        self.dropout = dropout
        self.learner = learner
        self.temperature_scaling = temperature_scaling

    @abstractmethod
    def steps(
        self, objective: Objective[V], fitter: Fitter[V], *, learning_rate: float, max_iter: int,
        drop: Dropping[V] = keep_all,
    ) -> Iterator[Step[V]]:  # fmt: skip
        """Run the algorithm and yield one step per iteration. `drop` omits earlier learners in an iteration."""

    def check(self, *, resumes: bool) -> None:
        """Raise TypeError or ValueError for invalid settings, or settings that cannot be combined with resuming."""
        self._validate_params()
        if isinstance(self.learner, type) or not (self.learner is None or is_regressor(self.learner)):
            raise TypeError(f"learner={self.learner!r} must be None or an instance of a scikit-learn regressor.")

    @property
    def algorithm(self) -> str:
        """The name of the algorithm with these settings."""
        return type(self).__name__

    @property
    def two_values_per_leaf(self) -> bool:
        """Whether both residuals of an iteration are fitted by one tree."""
        return False

    def __repr__(self) -> str:
        """All settings of the algorithm, including those with default values, and others that are not the default."""
        shown = self.get_params(deep=False)
        defaults = inspect.signature(type(self)).parameters
        for name in Method._parameter_constraints:
            if shown[name] == defaults[name].default:
                del shown[name]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Fading(Method):
    """The default: trees enter the model with a large weight, which decays to a small one. Not in the paper.

    In iteration m, with f the model, h the model with all weights decayed and rate = learning_rate:

    - r is the residual at g = f + look_ahead * (f - h), and b the tree fitted to r,
    - f <- (1 - fade) f + fade h + eta_m b,
    - h <- h + alpha_m b, where alpha_m = rate * (1 + growth * m), at most entry * rate.

    eta_m is such that b has the weight min(entry * rate, 1) at the next g. In f, the excess of a tree's weight over
    alpha_m is multiplied by 1 - fade in every iteration. See docs/acceleration.md for the derivation.

    Parameters
    ----------
    entry : float, default=6.0
        Weight of a new tree at the look-ahead point g, in units of learning_rate; the product is at most 1 unless
        learning_rate itself is larger than 1.
    fade : float in [0, 1], default=0.4
        Fraction of the excess weight of a tree that is lost per iteration.
    growth : float, default=0.01
        Growth of the final weight of new trees per iteration, as a fraction of learning_rate. Runs that stop after a
        few trees keep small weights; long runs take larger steps.
    look_ahead : float in [0, 1000], default=2.0
        Residuals are taken at f + look_ahead * (f - h); 0 takes them at f. Larger values make the model change more
        smoothly between iterations.
    second_order : bool, default=True
        If True, use Newton leaves (sums of residuals divided by sums of hessians) instead of the gradient leaves of the
        paper (means of residuals).
    dropout : float in [0, 1), default=0.0
        In each iteration, the learners of each earlier iteration are left out with this probability (DART). If k
        iterations are left out, their learners keep k / (k + 1) of their weight, and the new learners get 1 / (k + 1)
        of theirs.
    learner : scikit-learn regressor, default=None
        The weak learner to use instead of trees, one per output. The estimator's parameters of trees are then ignored,
        except for constraints, subsample and categorical features, which raise an error. If fit of the learner does not
        accept sample_weight, second_order=False is required unless the hessian of the loss is constant.
    temperature_scaling : bool, default=False
        If True, all trees are multiplied by the factor that minimises the loss of the validation rows, which corrects
        probabilities that are too certain or too uncertain. resolved_params_ has its inverse, the temperature.

    Examples
    --------
    >>> from agbm import AGBMRegressor
    >>> from agbm.methods import Fading
    >>> model = AGBMRegressor(method=Fading(fade=0.3))
    """

    n_members = 5
    learning_rate_of_members = 0.15
    colsample_bynode = 0.5
    shares_classes = True
    crosses = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Method._parameter_constraints,
        "entry": [Interval(numbers.Real, 1, None, closed="left")],
        "fade": [Interval(numbers.Real, 0, 1, closed="both")],
        "growth": [Interval(numbers.Real, 0, None, closed="left")],
        "look_ahead": [Interval(numbers.Real, 0, 1000, closed="both")],
    }

    def __init__(
        self,
        *,
        entry: float = 6.0,
        fade: float = 0.4,
        growth: float = 0.01,
        look_ahead: float = 2.0,
        second_order: bool = True,
        dropout: float = 0.0,
        learner: Regressor | None = None,
        temperature_scaling: bool = False,
    ) -> None:
        super().__init__(second_order, dropout, learner, temperature_scaling)
        self.entry = entry
        self.fade = fade
        self.growth = growth
        self.look_ahead = look_ahead

    def steps(
        self, objective: Objective[V], fitter: Fitter[V], *, learning_rate: float, max_iter: int,
        drop: Dropping[V] = keep_all,
    ) -> Iterator[Step[V]]:  # fmt: skip
        """Run the algorithm and yield one step per iteration."""
        schedule = self.schedule(learning_rate, self.look_ahead)
        return boosting.fading(objective, fitter, schedule=schedule, max_iter=max_iter, drop=drop)

    def schedule(self, rate: float, look_ahead: float) -> FadingSchedule:
        """The weights of all iterations."""
        return FadingSchedule(rate, min(self.entry * rate, 1.0), self.fade, self.growth, look_ahead)


class GBM(Method):
    """Gradient boosting machine, Algorithm 1 of the paper: f <- f + eta b, with b fitted to the residual at f.

    Parameters
    ----------
    line_search : bool, default=False
        If True, eta is the step with the smallest training loss along each tree, as in step (3) of the published
        algorithm, and learning_rate is ignored. If False, eta is learning_rate, as in the experiments of the paper.
    second_order, dropout, learner, temperature_scaling
        As for Fading; second_order is False by default, as in the paper.

    Examples
    --------
    Plain boosting with Newton leaves, as in LightGBM and XGBoost:

    >>> from agbm import AGBMRegressor
    >>> from agbm.methods import GBM
    >>> model = AGBMRegressor(method=GBM(second_order=True))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Method._parameter_constraints,
        "line_search": ["boolean"],
    }

    def __init__(
        self,
        *,
        line_search: bool = False,
        second_order: bool = False,
        dropout: float = 0.0,
        learner: Regressor | None = None,
        temperature_scaling: bool = False,
    ) -> None:
        super().__init__(second_order, dropout, learner, temperature_scaling)
        self.line_search = line_search

    def steps(
        self, objective: Objective[V], fitter: Fitter[V], *, learning_rate: float, max_iter: int,
        drop: Dropping[V] = keep_all,
    ) -> Iterator[Step[V]]:  # fmt: skip
        """Run the algorithm and yield one step per iteration."""
        eta = None if self.line_search else learning_rate
        return boosting.gbm(objective, fitter, eta=eta, max_iter=max_iter, drop=drop)

    def check(self, *, resumes: bool) -> None:
        """Raise ValueError for invalid settings; dropout would change the model after the line search."""
        super().check(resumes=resumes)
        if self.line_search and self.dropout > 0.0:
            raise ValueError(
                f"method={self!r}: dropout would change the model after the line search; use dropout=0 or "
                "line_search=False."
            )


_MOMENTUM = [Interval(numbers.Real, 0, 1, closed="right"), StrOptions({"theory"}), Fading]


class VAGBM(Method):
    """Vanilla accelerated gradient boosting machine, from the appendix of the paper: no error correction.

    With theta_m = 2 / (m + 2):

    - r is the residual at g = (1 - theta_m) f + theta_m h, and b the tree fitted to r,
    - f <- g + eta b,
    - h <- h + (momentum * eta / theta_m) b.

    Parameters
    ----------
    momentum : float in (0, 1], "theory" or Fading, default=1.0
        The momentum parameter gamma; 1 is the published form. "theory": in each iteration the largest gamma that
        Theorem 4.1 admits for the cosine angles observed so far, which is small. A Fading object: its weights instead
        of the paper's.
    second_order, dropout, learner, temperature_scaling
        As for Fading; second_order is False by default, as in the paper.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**Method._parameter_constraints, "momentum": _MOMENTUM}

    def __init__(
        self,
        *,
        momentum: float | Literal["theory"] | Fading = 1.0,
        second_order: bool = False,
        dropout: float = 0.0,
        learner: Regressor | None = None,
        temperature_scaling: bool = False,
    ) -> None:
        super().__init__(second_order, dropout, learner, temperature_scaling)
        self.momentum = momentum

    def steps(
        self, objective: Objective[V], fitter: Fitter[V], *, learning_rate: float, max_iter: int,
        drop: Dropping[V] = keep_all,
    ) -> Iterator[Step[V]]:  # fmt: skip
        """Run the algorithm and yield one step per iteration."""
        schedule = _schedule(self.momentum, learning_rate)
        return boosting.vagbm(objective, fitter, schedule=schedule, max_iter=max_iter, drop=drop)

    def check(self, *, resumes: bool) -> None:
        """Raise ValueError for invalid settings, or settings that cannot be combined with resuming."""
        super().check(resumes=resumes)
        _check_momentum(self.momentum)


_RULES: dict[str, boosting.Rule[Any]] = {
    "loss_rise": boosting.loss_rises,
    "gradient": boosting.gradient_turns,
    "validation_rise": boosting.validation_loss_rises,
}


class AGBM(Method):
    """Accelerated gradient boosting machine, Algorithm 2 of the paper; with `restart`, AGBMR.

    With theta_m = 2 / (m + 2):

    - r is the residual at g = (1 - theta_m) f + theta_m h, and b_1 the tree fitted to r,
    - f <- g + eta b_1,
    - c <- r + correction * (m + 1) / (m + 2) * (c - b_2), and b_2 is the tree fitted to c,
    - h <- h + (momentum * eta / theta_m) b_2.

    The defaults are Algorithm 2 as printed: two trees per iteration and the full error correction.

    Parameters
    ----------
    momentum : float in (0, 1], "theory" or Fading, default=0.1
        The momentum parameter gamma; smaller values overfit later. "theory": in each iteration the largest gamma that
        Theorem 4.1 admits for the cosine angles observed so far, which is small. A Fading object: its weights instead
        of the paper's.
    correction : float in [-1, 1], default=1.0
        Fraction of the fitting error of c that is carried over to the next iteration. 1 is Algorithm 2, 0 fits the
        momentum to the plain residual, -1 is what the authors' released scripts compute.
    shared_structure : bool, default=False
        Grow one tree with two values per leaf for both residuals of an iteration, instead of the two trees of the
        paper. It has no effect if the learner is not a tree.
    restart : {"loss_rise", "gradient", "validation_rise"}, float or None, default=None
        When to restart the momentum. "loss_rise": when the training loss rises (AGBMR with option 2). "gradient": when
        a step goes against the negative gradient it started from. "validation_rise": when the validation loss rises.
        A positive number: the strong-convexity constant mu of the loss, 1 for the squared error, which gives a fixed
        number of iterations between restarts (AGBMR with option 1). None: never.
    second_order, dropout, learner, temperature_scaling
        As for Fading; second_order is False by default, as in the paper.

    Examples
    --------
    >>> from agbm import AGBMClassifier
    >>> from agbm.methods import AGBM
    >>> model = AGBMClassifier(method=AGBM(momentum=0.05, shared_structure=True))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Method._parameter_constraints,
        "momentum": _MOMENTUM,
        "correction": [Interval(numbers.Real, -1, 1, closed="both")],
        "shared_structure": ["boolean"],
        "restart": [StrOptions(set(_RULES)), Interval(numbers.Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        *,
        momentum: float | Literal["theory"] | Fading = 0.1,
        correction: float = 1.0,
        shared_structure: bool = False,
        restart: Literal["loss_rise", "gradient", "validation_rise"] | float | None = None,
        second_order: bool = False,
        dropout: float = 0.0,
        learner: Regressor | None = None,
        temperature_scaling: bool = False,
    ) -> None:
        super().__init__(second_order, dropout, learner, temperature_scaling)
        self.momentum = momentum
        self.correction = correction
        self.shared_structure = shared_structure
        self.restart = restart

    def steps(
        self, objective: Objective[V], fitter: Fitter[V], *, learning_rate: float, max_iter: int,
        drop: Dropping[V] = keep_all,
    ) -> Iterator[Step[V]]:  # fmt: skip
        """Run the algorithm and yield one step per iteration."""
        shared: dict[str, Any] = {
            "schedule": _schedule(self.momentum, learning_rate), "correction": self.correction, "drop": drop,
        }  # fmt: skip
        if self.restart is None:
            return boosting.agbm(objective, fitter, length=lambda gamma: max_iter, **shared)
        if self.restart == "validation_rise" and not objective.has_validation:
            raise ValueError(
                "restart='validation_rise' needs validation rows: give X_val and y_val, or use early_stopping=True."
            )
        rule = _RULES[self.restart] if isinstance(self.restart, str) else float(self.restart)
        return boosting.agbmr(objective, fitter, restart=rule, max_iter=max_iter, **shared)

    def check(self, *, resumes: bool) -> None:
        """Raise ValueError for restarts that cannot be combined with other settings, or with resuming."""
        super().check(resumes=resumes)
        if isinstance(self.restart, bool):
            names = ", ".join(map(repr, _RULES))
            raise ValueError(f"restart={self.restart!r} must be one of {names}, a number or None.")
        _check_momentum(self.momentum)
        fixed = self.restart is not None and not isinstance(self.restart, str)
        if fixed and isinstance(self.momentum, Fading):
            raise ValueError(
                f"restart={self.restart!r} needs the paper's schedule, got momentum={self.momentum!r}; set momentum to "
                "a number or 'theory', or use another restart."
            )
        if self.restart == "validation_rise" and resumes:
            raise ValueError(
                "restart='validation_rise' depends on validation rows that are not stored, so training cannot be "
                "resumed; use warm_start=False and no Checkpoint, or another restart."
            )

    @property
    def algorithm(self) -> str:
        """AGBMR with restarts."""
        return "AGBM" if self.restart is None else "AGBMR"

    @property
    def two_values_per_leaf(self) -> bool:
        """Whether both residuals of an iteration are fitted by one tree."""
        return self.shared_structure


def _check_momentum(momentum: float | Literal["theory"] | Fading) -> None:
    """Raise ValueError for invalid settings of a Fading object, and for those that do not concern its weights."""
    if isinstance(momentum, Fading):
        momentum._validate_params()
        for name in ("look_ahead", *Method._parameter_constraints):
            value = getattr(momentum, name)
            as_taken = name == "look_ahead" and value == 0.0  # see _schedule
            if value != getattr(METHODS["fading"], name) and not as_taken:
                raise ValueError(
                    f"momentum=Fading({name}={value!r}) has no effect, since momentum takes only its weights; leave "
                    f"{name} at its default."
                )


def _schedule(momentum: float | Literal["theory"] | Fading, rate: float) -> Schedule:
    if isinstance(momentum, Fading):
        return momentum.schedule(rate, look_ahead=0.0)  # the paper's loops look ahead in their own way
    return PaperSchedule(rate, momentum)


KINDS: tuple[type[Method], ...] = (Fading, GBM, VAGBM, AGBM)
"""The classes of the algorithms."""

METHODS: dict[str, Method] = {
    "fading": Fading(),
    "gbm": GBM(),
    "vagbm": VAGBM(),
    "agbm": AGBM(),
    "agbmr": AGBM(restart="loss_rise"),
}
"""The algorithms that can be given by name."""


TITLES = {
    "fading": "agbm", "gbm": "gradient boosting", "vagbm": "VAGBM (paper)", "agbm": "AGBM (paper)",
    "agbmr": "AGBMR (paper)",
}  # fmt: skip


def method_of(method: str | Method) -> Method:
    """Return a copy of a method, given by name or as an object."""
    made: Method = clone(METHODS[method] if isinstance(method, str) else method)
    return made


def title_of(method: str | Method) -> str:
    """What people see, for whom "agbm" is the default."""
    name = method if isinstance(method, str) else method.algorithm
    return TITLES.get(name.lower(), name)


def owners_of(parameter: str) -> list[type[Method]]:
    """The methods that have a parameter."""
    return [kind for kind in KINDS if parameter in kind._parameter_constraints]
