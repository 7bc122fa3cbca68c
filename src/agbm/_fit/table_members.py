"""The members of a run on a table in memory."""

from __future__ import annotations

from dataclasses import replace

from .._core.ring import RingPart
from .._data.reader import TableReader
from .._data.rows import Rows
from .._labels.base import Labels
from .planning import Request, learner_of, objective_of, ring_of
from .run import Member, Plan, make_members
from .sources import LocalSource


def members_of_table(
    request: Request, reader: TableReader, labels: Labels, rows: Rows, plan: Plan, source: LocalSource | None = None
) -> list[Member]:
    """The members, which hold out rows as the plan says; X of the rows is a matrix of numbers."""
    n_given = rows.n_given
    ring = ring_of(request, plan, labels, rows)
    parts = [RingPart(n_given)] * plan.n_members if ring is None else ring.parts
    on_ring = None if ring is None else replace(rows, X=None).on_ring(ring)
    table = (source or LocalSource()).table(rows.X, n_given, rows.weights, ring)

    def member(number: int) -> Member:
        part = parts[number]
        of_member = rows if on_ring is None else on_ring.of(part)
        f0, objective = objective_of(request, plan, labels, of_member, part)
        learner = learner_of(request, plan, reader, labels, objective, number)
        bound, fitter = table.bind(learner, part, objective)
        return Member(f0, bound, learner, fitter, plan.seed_of(number), plan.earlier_of(number))

    return make_members(plan, member, parts)
