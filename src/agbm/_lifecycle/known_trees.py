"""The leaves that rows reach in the trees of a fitted model, for rows in a table or in batches."""

from __future__ import annotations

import tempfile
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from .._core.learners import Fitter
from .._core.objective import Objective
from .._data.blocks import UNUSED, Block, BlockReader, BlockTable, LocalBlocks, LocalLabelled, places_of
from .._fit.sources import BlockRows, LocalSource
from .._model.fitted import FittedModel
from .._tree import Forest, TableFitter, TreeLearner
from .._tree.refit import Leaves


class KnownTrees(LocalSource):
    """Rows on this machine for an update of a model; batches are not binned, their leaves are found instead."""

    def __init__(self, model: FittedModel) -> None:
        self._model = model

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[Objective[Array], Fitter[Array]]:
        """The objective, and instead of a fitter an object that knows the leaves of the rows."""
        return rows.objective, cast(Any, BlockLeaves(self._model, rows.table, rows.reader, learner.n_threads))


class BlockLeaves:
    """The leaves of the rows of blocks in all trees of a model: one or more bytes per row and tree."""

    def __init__(self, model: FittedModel, table: BlockTable, reader: BlockReader, n_threads: int) -> None:
        labelled = cast(LocalLabelled, table.labelled)
        forest, n_rows = cast(Forest, model.folded), labelled.here.rows.n
        most_leaves = int(np.diff(np.append(forest.roots, len(forest.nodes))).max(initial=1)) // 2 + 1
        dtype = np.min_scalar_type(most_leaves - 1)
        self._found = _empty((len(forest.roots), n_rows), dtype, cast(LocalBlocks, labelled.blocks).folder)
        n_trees = [tree.n_learners for tree in model.models]
        self._first_tree = {
            id(tree): first for tree, first in zip(model.models, np.cumsum([0, *n_trees]), strict=False)
        }

        def fill(block: Block, places: NDArray[np.uint32]) -> None:
            used = places != UNUSED
            X = reader.numbers(block, used)
            if len(X) > 0:
                self._found[:, places[used]] = forest.leaves(X, n_threads).T

        labelled.over(fill, places_of)

    def leaves(self, forest: Forest) -> NDArray[np.int32]:
        """The index of the leaf of every row in each tree of a model: (tree, row)."""
        first = self._first_tree[id(forest)]
        return np.asarray(self._found[first : first + len(forest.roots)], dtype=np.int32)


def _empty(shape: tuple[int, int], dtype: np.dtype[Any], folder: str) -> NDArray[Any]:
    """An array in memory, or in a file that is deleted with it."""
    if not folder:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def leaves_of(fitter: Fitter[Any]) -> Leaves:
    """The function that returns the leaves of the rows that a fitter, or the result of KnownTrees.bind, is bound to."""
    assert isinstance(fitter, (TableFitter, BlockLeaves))
    return fitter.leaves
