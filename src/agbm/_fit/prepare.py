"""Preparation: from a request and rows to a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .._data.rows import Given
from .checks import check_scores
from .planning import Request
from .prepare_blocks import prepared_blocks, validation_blocks
from .prepare_table import prepared_table
from .run import Run
from .sources import LocalSource, RowSource


def prepare(
    request: Request, source: RowSource | None, given: Given, validation: Given | None, watched: Mapping[str, Given]
) -> Run:
    """A run on rows of any supported type; `source` is where they are, None for this machine."""
    source = LocalSource() if source is None else source
    request = replace(request, in_this_process=source.in_this_process)
    blocks = source.blocks_of(given)
    if blocks is None:
        return prepared_table(request, source, given, validation, watched)
    check_scores(request.settings.scoring, watched, source.in_this_process)
    following = None if validation is None else validation_blocks(request, source, validation)
    return prepared_blocks(request, source, blocks, following)
