"""Tables that are never in memory as a whole: blocks of rows, read again in every pass over them.

Values with one number per row (labels, weights, the place in the binned matrix) are gathered for all rows, and used as
in a fit on one table. A first pass over the features takes a sample for the thresholds, and the weights of the
categories; a second pass bins them.
"""

from .block import VECTORS, Block, Labels, dense, exact, is_rounded, labels_of
from .gathering import Gathered, check_columns, gather, joined
from .labelled import Labelled, LocalLabelled, RowsHere, started_from
from .passes import BlockReader, BlockTable, Looked, bins_of_all, look_at_columns, places_of
from .places import UNUSED, Places
from .recognition import Seen
from .sources import Blocks, LocalBlocks, OneTable, WithValidation, naming

__all__ = [
    "UNUSED",
    "VECTORS",
    "Block",
    "BlockReader",
    "BlockTable",
    "Blocks",
    "Gathered",
    "Labelled",
    "Labels",
    "LocalBlocks",
    "LocalLabelled",
    "Looked",
    "OneTable",
    "Places",
    "RowsHere",
    "Seen",
    "WithValidation",
    "bins_of_all",
    "check_columns",
    "dense",
    "exact",
    "gather",
    "is_rounded",
    "joined",
    "labels_of",
    "look_at_columns",
    "naming",
    "places_of",
    "started_from",
]
