"""The rows of blocks without their features, in one process or in several, and passes over blocks that need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from ..._base.sums import Array
from ..._base.types import AnyArray
from ..._base.weights import Weights
from ..._core.objective import LocalObjective
from ..._core.ring import Ring, RingPart
from ..rows import Rows, RowsOnRing
from .block import Block, n_rows_of
from .places import Places
from .sources import Blocks, WithValidation


@dataclass(frozen=True, eq=False)
class RowsHere:
    """The rows of some blocks, all in this process, without their features."""

    n_rows: list[int]
    """Number of rows per block."""
    rows: Rows
    """The rows that are used, training rows first; X contains their indices instead of their features."""
    n_train: int
    sample_weight: AnyArray | None = None
    """The checked weight of every row, used or not, except for those of X_val; None if all are 1."""
    whole_weight: Array | None = None
    """The same in steps; see whole_weights."""
    first: int = 0
    """The number of the first one of these rows among all that are used; those of X_val follow the others."""
    ring: Ring | None = None
    """The rows that members hold out; None if they hold out none."""
    on_ring: RowsOnRing | None = None
    """All rows, in the order that members share."""
    part: RingPart | None = None
    """The member whose rows `rows` are; None for all rows."""
    objective: LocalObjective | None = None
    residuals: Sequence[Array] = ()
    """What each training row contributes to sums over the rows of its category: its weight, and residuals."""

    @property
    def places(self) -> Places:
        """Where the rows are in the binned matrix of these blocks."""
        return Places(self.n_rows, self.rows.X, self.n_train)

    @property
    def train_weights(self) -> Weights | None:
        """The weights of the training rows."""
        return None if self.rows.weights is None else self.rows.weights[: self.n_train]

    def followed_by(self, other: RowsHere) -> RowsHere:
        """These rows followed by those of X_val."""
        first = sum(self.n_rows)
        (validation,), rows = other.rows.followers, other.rows
        following = self.rows.followed_by(validation, first + rows.X, rows.y, rows.start)
        return replace(self, n_rows=[*self.n_rows, *other.n_rows], rows=following)

    def sample_weights(self) -> list[AnyArray | None]:
        """The weights of the rows of each block; None if all are 1."""
        whole = self.sample_weight
        return [None] * len(self.n_rows) if whole is None else list(self.places.cut(whole))

    def whole_weights(self) -> list[AnyArray]:
        """The weights of the rows of each block in steps; those of X_val, which come last, are zero."""
        n_all = sum(self.n_rows)
        n_given = n_all - sum(rows.n for rows in self.rows.followers)
        whole = np.zeros(n_all, dtype=bool if self.whole_weight is None else np.float64)
        whole[:n_given] = True if self.whole_weight is None else self.whole_weight
        return self.places.cut(whole)


class Labelled(Protocol):
    """Blocks whose labels are known: all in this process, or each part of them in another one."""

    @property
    def blocks(self) -> Blocks:
        """The blocks."""

    @property
    def n_rows(self) -> list[int]:
        """Number of rows per block."""

    @property
    def numbers(self) -> Sequence[int]:
        """The number of the first block of each process."""

    def step(self, function: Callable[..., Any], *arguments: object, each: Sequence[Any] | None = None) -> Any:
        """The rows after a step, and a list of the results of each process.

        The step is function(rows of a process, its own entry of `each` if there is one, *arguments), which returns
        new rows and a result. See collectives.py for numbers that depend on the rows of all processes.
        """

    def over(
        self, function: Callable[..., Any], arguments_of: Callable[..., Sequence[tuple[Any, ...]]], *common: object,
        each: Sequence[Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """A pass over blocks: the results of function(block, *its arguments, *common).

        `arguments_of` returns the arguments of all blocks of a process from its rows and its own entry of `each`.
        """

    def with_start(self, start_scores: Callable[[Any], Array | None]) -> Self:
        """The same, with scores of an init model added to the offsets."""

    def followed_by(self, validation: Any) -> Self:
        """The same, followed by the blocks of X_val."""


class LocalLabelled:
    """Blocks whose labels are all in this process; see Labelled."""

    def __init__(self, blocks: Blocks, here: Any, n_rows: list[int]) -> None:
        self.blocks: Blocks = blocks
        self.here = here
        self.n_rows = n_rows
        self.numbers: Sequence[int] = (0,)

    def step(self, function: Callable[..., Any], *arguments: object, each: Sequence[Any] | None = None) -> Any:
        here, found = function(self.here, *([] if each is None else each), *arguments)
        return LocalLabelled(self.blocks, here, self.n_rows), [found]

    def over(
        self, function: Callable[..., Any], arguments_of: Callable[..., Sequence[tuple[Any, ...]]], *common: object,
        each: Sequence[Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        own = arguments_of(self.here, *([] if each is None else each))
        return self.blocks.map(function, [(*of_block, *common) for of_block in own])

    def with_start(self, start_scores: Callable[[Any], Array | None]) -> LocalLabelled:
        scores = self.blocks.map(_start_of, [(start_scores,)] * len(self.n_rows))
        here = started_from(self.here, np.concatenate([one for one in scores if one is not None], axis=-1))
        return LocalLabelled(self.blocks, here, self.n_rows)

    def followed_by(self, validation: LocalLabelled) -> LocalLabelled:
        both = WithValidation(self.blocks, validation.blocks, len(self.n_rows))
        here = self.here.followed_by(validation.here)
        return LocalLabelled(both, here, self.n_rows + validation.n_rows)


def _start_of(block: Block, start_scores: Callable[[Any], Array | None]) -> Array | None:
    return start_scores(block.X) if n_rows_of(block.X) else None


def started_from(here: RowsHere, scores: Array) -> RowsHere:
    """Rows with the scores of an init model, which has scored all rows of their blocks."""
    rows = here.rows
    of_rows = scores[:, rows.X]
    return replace(here, rows=replace(rows, start=of_rows if rows.start is None else of_rows + rows.start))
