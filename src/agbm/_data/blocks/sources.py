"""Where blocks come from: a source that is read in every pass, or a table in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ..._base.types import Table, Values
from .block import Block, Labels, labels_of, n_rows_of
from .recognition import Seen, changed_error


class Blocks(Protocol):
    """Blocks in the order of their rows; every pass reads the same blocks."""

    @property
    def noun(self) -> str:
        """The word for a block in error messages."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """The results of function(block, *arguments[i]) for all blocks. Error messages name the block."""


@contextmanager
def naming(*where: str | int) -> Iterator[None]:
    """Prefix errors about the user's data with where they come from."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{' '.join(map(str, where))}: {error}") from error


class LocalBlocks:
    """Blocks that this process reads one at a time."""

    noun = "block"

    def __init__(
        self,
        read: Callable[[], Iterator[Block]],
        read_labels: Callable[[], Iterator[Labels]] | None = None,
        folder: str = "",
    ) -> None:
        """`read_labels` reads labels without features, if the source can do that; `folder` is for bins in files."""
        self._read = read
        self._read_labels = read_labels
        self._n_rows: list[int] | None = None
        self._seen: list[Seen] = []
        self.folder = folder

    def labels(self) -> list[Labels]:
        """The result of `labels_of` for each block."""
        found = self.map(labels_of) if self._read_labels is None else list(self._read_labels())
        self._n_rows = [labels.n_rows for labels in found]
        return found

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        results: list[Any] = []
        for i, block in enumerate(self._read()):
            with naming(self.noun, i):
                self._check_known(i, block)
                results.append(function(block, *(() if arguments is None else arguments[i])))
                if i == len(self._seen):
                    self._seen.append(Seen.of(block))
            del block
        if self._n_rows is not None and len(results) < len(self._n_rows):
            raise changed_error(f"X has {len(results)} {self.noun}s, {len(self._n_rows)} in the previous pass")
        return results

    def _check_known(self, i: int, block: Block) -> None:
        """Check a block against what earlier passes have seen of it."""
        if self._n_rows is not None and i >= len(self._n_rows):
            raise changed_error(f"X has more {self.noun}s than in the previous pass ({len(self._n_rows)})")
        if i < len(self._seen):
            self._seen[i].check(block)
        elif self._n_rows is not None and n_rows_of(block.X) != self._n_rows[i]:
            raise changed_error(f"X has {n_rows_of(block.X)} rows, {self._n_rows[i]} in the previous pass")


class OneTable:
    """A table in memory as a single block, which error messages do not name."""

    noun = "table"

    def __init__(self, X: Table, y: Values | None) -> None:
        self._block = Block(X, y)

    def labels(self) -> list[Labels]:
        """The result of `labels_of` for each block."""
        return [labels_of(self._block)]

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        return [function(self._block, *(() if arguments is None else arguments[0]))]


@dataclass
class WithValidation:
    """The blocks of the training rows, followed by those of the validation rows."""

    training: Blocks
    validation: Blocks
    n_training: int
    """Number of blocks with training rows."""

    @property
    def noun(self) -> str:
        return self.training.noun

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        n = self.n_training
        results = self.training.map(function, None if arguments is None else arguments[:n])
        with naming("X_val"):
            return [*results, *self.validation.map(function, None if arguments is None else arguments[n:])]
