"""Where rows are: the protocol of row sources, and rows on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np

from .._base.sums import Array
from .._base.types import Table
from .._base.weights import Weights
from .._core.learners import Fitter, Learner
from .._core.objective import LocalObjective, Objective, start_residual
from .._core.ring import Ring, RingPart
from .._data.batches import blocks_of
from .._data.blocks import (
    BlockReader,
    Blocks,
    BlockTable,
    Gathered,
    Labelled,
    LocalBlocks,
    LocalLabelled,
    WithValidation,
    gather,
)
from .._data.digest import RowDigest, Shape
from .._data.rows import Given
from .._labels.base import Labels
from .._tree import BinnedTable, CodedRows, TreeFitter, TreeLearner
from .label_steps import Begun
from .run import Plan


class RowSource(Protocol):
    """Where the rows are: on this machine, or on the machines of a cluster."""

    in_this_process: bool
    """Whether kernels run in this process, on its threads."""
    shows_rows: bool
    """Whether single rows may leave their process: in digests, which may tell them, and to choose crosses."""

    def blocks_of(self, given: Given) -> tuple[Blocks, Given] | None:
        """The blocks of X, and the vectors of all rows unless the blocks contain them; None for a table."""

    def labelled(self, blocks: Blocks, given: Given, name_of_y: str = "y") -> tuple[Gathered, Labelled]:
        """The blocks with the vectors of their rows; the first result may have none of their rows."""

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[Objective[Any], Fitter[Any]]:
        """The objective and the fitter for binned blocks; adds all rows to their digest, if they have one."""


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Blocks of rows with their objective, with the object that reads bin codes from them."""

    table: BlockTable
    reader: BlockReader
    labels: Labels
    plan: Plan
    begun: Begun
    digest: RowDigest | None
    """Empty at first; None if another member has it, or if there is none."""
    shared: SharedBlocks
    """What members on this machine share."""

    @property
    def shape(self) -> Shape | None:
        """The shape of the digest, if there is one."""
        return None if self.digest is None else self.digest.shape

    @property
    def objective(self) -> LocalObjective:
        """The objective of rows that are all in this process."""
        return cast(LocalObjective, cast(LocalLabelled, self.table.labelled).here.objective)

    @property
    def part(self) -> RingPart:
        """Which rows these are, if all are in this process."""
        return cast(LocalLabelled, self.table.labelled).here.part or RingPart(self.objective.n_train)


@dataclass(eq=False)
class SharedBlocks:
    """Blocks of rows on this machine, which are binned once for all members."""

    table: BlockTable
    """All rows, in the order that members share."""
    reader: BlockReader
    crowded: Sequence[int]
    """Features with more categories than bins, which every member bins itself."""
    digest: RowDigest | None
    """To which all rows are added when they are binned."""
    _coded: CodedRows | None = None

    def coded(self, own: BlockReader, n_threads: int) -> CodedRows:
        """The rows with the bins of a member."""
        labelled = cast(LocalLabelled, self.table.labelled)
        blocks = labelled.blocks.training if isinstance(labelled.blocks, WithValidation) else labelled.blocks
        folder = cast(LocalBlocks, blocks).folder
        if self._coded is None:
            matrix = self.table.encode(self.reader, folder, self.digest, n_threads, self.crowded)
            ring = labelled.here.ring
            self._coded = CodedRows(self.reader.bins, matrix, None if ring is None else ring.order)
        if not self.crowded:
            return self._coded
        grouped = {f: own.bins.grouped[f] for f in self.crowded}
        bins, matrix = self.reader.bins.with_own_categories(self._coded.matrix, grouped, folder)
        self.table.encode_categories(replace(self.reader, bins=bins), matrix, self.crowded, n_threads)
        return CodedRows(bins, matrix, self._coded.order)


class LocalTable:
    """A table on this machine, for all members of a model."""

    def __init__(self, X: Any, n_given: int, weights: Weights | None, ring: Ring | None) -> None:
        """X has n_given rows with these weights, and then others."""
        self._X = X
        self._n_given = n_given
        self._weights = weights
        self._order = None if ring is None else ring.order
        self._binned: BinnedTable | None = None

    def bind(self, learner: Learner, part: RingPart, local: LocalObjective) -> tuple[Objective[Any], Fitter[Any]]:
        """The objective and the fitter of a member."""
        residual = start_residual(local)
        if not isinstance(learner, TreeLearner):
            return local, learner.bind(self._in_order(part), part.n_train, local.train_weights, residual)
        if self._binned is None:
            self._binned = BinnedTable(learner, self._X, self._n_given, self._weights, self._order)
        return local, self._binned.bind(learner, part, local.train_weights, residual)

    def _in_order(self, part: RingPart) -> Any:
        """X in the order of a member."""
        if self._order is None:
            return self._X
        return self._X[part.turned(np.append(self._order, np.arange(self._n_given, self._X.shape[0])))]


class LocalSource:
    """Rows on this machine; see RowSource."""

    in_this_process = True
    shows_rows = True

    def blocks_of(self, given: Given) -> tuple[Blocks, Given] | None:
        return blocks_of(given)

    def labelled(self, blocks: Blocks, given: Given, name_of_y: str = "y") -> tuple[Gathered, Labelled]:
        gathered = gather(cast(LocalBlocks, blocks), given, name_of_y)
        return gathered, LocalLabelled(blocks, gathered, gathered.n_rows)

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[Objective[Array], Fitter[Array]]:
        local, coded = rows.objective, rows.shared.coded(rows.reader, learner.n_threads)
        return local, TreeFitter(learner, coded, rows.part, local.train_weights)

    def table(self, X: Table, n_given: int, weights: Weights | None, ring: Ring | None) -> LocalTable:
        """A table, of which n_given rows have these weights, and others follow."""
        return LocalTable(X, n_given, weights, ring)
