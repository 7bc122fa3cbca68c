"""The calibration of a fit, by the rows that its members have held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._model.calibration import MOST_KEPT, as_integers, measure_of
from .._uncertainty.conformal import Calibration, SortedScores
from .run import Run


def calibration_of_fit(run: Run, starts: Sequence[Any], kept: Sequence[Any]) -> Calibration | None:
    """The calibration by the rows that each member has held out; None if none is defined for the labels.

    `starts` are the start functions of the members, `kept` their functions on these rows.
    """
    try:
        measure = measure_of(run.labels, run.plan.loss)
    except ValueError:
        return None
    found = [member.objective.held_out_scores(of, measure) for member, of in zip(run.members, kept, strict=True)]
    of_members, test_weight = as_integers(
        [weights for _, weights in found], counts=run.members[0].objective.counts_rows
    )
    parts = [
        [SortedScores.of(of_label, weights).sample(MOST_KEPT, run.plan.seed_of(k)) for of_label in scores]
        for k, ((scores, _), weights) in enumerate(zip(found, of_members, strict=True))
    ]
    constant = all(isinstance(start, np.ndarray) for start in starts)
    return Calibration(parts, test_weight, of_members=True, starts=np.stack(starts) if constant else None)
