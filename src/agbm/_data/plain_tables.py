"""Tables read without scikit-learn's checks, which take longer than predictions for a few rows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._base.types import AnyArray

_NARROW, _WIDE = np.dtype(np.float32), np.dtype(np.float64)
# Column types that become float64 in a data frame without float32, whatever their mixture.
_BECOME_WIDE = frozenset(map(np.dtype, ("f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")))
# In polars they always do.
_POLARS_NUMBERS = frozenset({
    "Boolean", "Float32", "Float64", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64",
})  # fmt: skip


def plain_numbers(X: Any, n_columns: int, names: AnyArray | None) -> AnyArray | None:
    """X as the matrix that scikit-learn's checks return; None if they may do more than return it.

    This is for the usual tables: arrays of floats for a model without names of columns, and data frames that have
    exactly the columns of the model, all of them numbers. The checks raise the errors and warnings for all others.
    """
    if type(X) is np.ndarray:
        usual = names is None and X.ndim == 2 and X.shape[1] == n_columns and len(X) > 0
        return X if usual and X.dtype in (_WIDE, _NARROW) else None
    if names is None or not has_columns(X, names):
        return None
    return _polars_numbers(X) if _is_frame_of("polars", X) else _pandas_numbers(X)


def has_columns(X: Any, names: AnyArray) -> bool:
    """Whether X is a data frame of pandas or polars with rows, and with exactly these columns in this order."""
    if not (_is_frame_of("pandas", X) or _is_frame_of("polars", X)) or len(X) == 0:
        return False
    given = list(X.columns)
    return given == names.tolist() and set(map(type, given)) == {str}


def _is_frame_of(library: str, X: object) -> bool:
    return type(X) is getattr(sys.modules.get(library), "DataFrame", None)


def _pandas_numbers(X: Any) -> AnyArray | None:
    types = set(X.dtypes.tolist())
    if types == {_NARROW}:
        return np.asarray(X.to_numpy(dtype=_NARROW))
    return np.asarray(X.to_numpy(dtype=_WIDE)) if types <= _BECOME_WIDE else None


def _polars_numbers(X: Any) -> AnyArray | None:
    numeric = _POLARS_NUMBERS.issuperset(type(kind).__name__ for kind in X.dtypes)
    return np.asarray(X.to_numpy(), dtype=_WIDE) if numeric else None
