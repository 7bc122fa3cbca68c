"""A prepared run: the plan that follows from labels and parameters, and the members with their rows and learners."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from .._core.ensemble import Ensemble
from .._core.learners import Fitter, Learner
from .._core.methods import Method
from .._core.objective import Objective
from .._data.digest import RowDigest
from .._data.profile import Profile
from .._data.reader import TableReader
from .._data.rows import RowSet
from .._labels.base import Labels
from .._losses import Loss
from .._model.settings import Settings
from .._tree import TreeLearner

HELD_OUT_BY = "held_out_by"
"""The entry of resolved_params_ with what is held out together, if that is not each row apart."""


class Plan(NamedTuple):
    """The part of the settings of a run that follows from labels and parameters alone."""

    method: Method
    loss: Loss
    max_iter: int
    learning_rate: float
    stops_early: bool
    held_out: bool
    """Whether validation rows are held out of the given rows."""
    is_trial: bool
    """Whether the run only finds the number of iterations of another one, without held-out rows."""
    n_members: int
    members_at_once: int
    """How many members are trained at the same time, on threads of their own."""
    n_threads: int
    """Number of threads of each."""
    earlier: Sequence[Ensemble]
    """The run to resume: one ensemble per member, or none."""
    seed: int
    n_seen: Sequence[int]
    """The number of features, from the first on, that each member sees."""

    def seed_of(self, member: int) -> int:
        """The seed of a member; the first has that of the run."""
        return self.seed if member == 0 else _draw_seed(self.seed, member)

    def earlier_of(self, member: int) -> Ensemble | None:
        """The run of a member to resume."""
        return self.earlier[member] if self.earlier else None


class Member(NamedTuple):
    """A member of the model: its rows and its learner, ready for training."""

    start: Any
    """The start function: constants, or a model."""
    objective: Objective[Any]
    learner: Learner
    fitter: Fitter[Any]
    seed: int
    earlier: Ensemble | None
    """The run to resume."""


class Run(NamedTuple):
    """A prepared run: everything needed for training."""

    plan: Plan
    reader: TableReader
    labels: Labels
    members: Sequence[Member]
    watched: Sequence[RowSet]
    """The last rows of each member, which are only evaluated."""
    data: RowDigest | None = None
    """The digest of all rows but these; None for a trial or a cross-validation, or if it must not be known."""
    held_out_by: str = "rows"
    """By what rows are held out: "rows", "groups" or "time"."""
    profile: Profile | None = None
    """That of the same rows, except for those of X_val; None in the same cases."""

    @property
    def start(self) -> Any:
        """The start function of the model: the mean of those of the members, or the model that they all start from."""
        starts = [member.start for member in self.members]
        return np.mean(starts, axis=0) if len(starts) > 1 and isinstance(starts[0], np.ndarray) else starts[0]

    def resolved(self, settings: Settings) -> dict[str, Any]:
        """The values of `resolved_params_`: resolved "auto" values and related settings."""
        plan = self.plan
        found = {
            "method": plan.method,
            "loss": plan.loss,
            "second_order": plan.method.second_order,
            "max_iter": plan.max_iter,
            "learning_rate": plan.learning_rate,
            "early_stopping": plan.stops_early,
            "n_members": plan.n_members,
            "device": settings.device,
        }
        if plan.held_out and self.held_out_by != "rows":
            found[HELD_OUT_BY] = self.held_out_by
        learner = self.members[0].learner
        if isinstance(learner, TreeLearner):
            names = ("max_depth", "max_leaf_nodes", "min_samples_leaf", "l2_regularization", "colsample_bynode")
            found |= {name: getattr(learner, name) for name in names}
            found["multi_strategy"] = "multi_output_tree" if learner.vector_leaves else "one_output_per_tree"
            found["views"] = self.reader.feature_names[self.reader.n_features - len(self.reader.crosses) :] or None
        return found


def _draw_seed(*entropy: int) -> int:
    return int(np.random.SeedSequence(entropy).generate_state(1)[0]) % np.iinfo(np.int32).max


def make_members(plan: Plan, make: Callable[[int], Member], parts: Sequence[Hashable]) -> list[Member]:
    """All members; those that have the same part of the rows differ only in their seeds."""
    members: list[Member] = []
    for number, part in enumerate(parts):
        first = members[parts.index(part)] if part in parts[:number] else None
        with_learner = None if first is None else getattr(first.fitter, "with_learner", None)
        if first is None or with_learner is None:
            members.append(make(number))
            continue
        seed = plan.seed_of(number)
        learner = replace(cast(TreeLearner, first.learner), seed=seed, n_seen=plan.n_seen[number])
        fitter = with_learner(learner)
        objective = copy(first.objective)  # shares the rows; iterations of an objective wait for each other
        members.append(Member(first.start, objective, learner, fitter, seed, plan.earlier_of(number)))
    return members
