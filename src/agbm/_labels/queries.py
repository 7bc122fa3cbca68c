"""The queries of documents, as passed by the user, as columns of the labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from .._base.types import AnyArray, Values
from .._base.weights import refuse_dates, refuse_text
from .._data.rows import Given, some_of
from .._data.tables import missing


class Asked(NamedTuple):
    """The arguments of fit that say which query a row belongs to."""

    group: Values | None
    qid: Values | None
    position: Values | None


def with_queries(given: Given, asked: Asked, suffix: str = "") -> Given:
    """Rows whose labels are matrices: relevance, number of the query and, if there are any, positions.

    Queries have the numbers of their values of qid in ascending order, which do not depend on the order of the rows.
    """
    group, qid, position = asked
    y_name = f"y{suffix}"
    if given.X is None and all(one is None for one in (given.y, *asked)):
        return given
    if group is not None and qid is not None:
        raise ValueError(f"group{suffix} and qid{suffix} are both given; pass one of them.")
    for name, one in (("y", given.y), ("group", group), ("qid", qid), ("position", position)):
        if isinstance(one, str):
            raise TypeError(
                f"{name}{suffix}={one!r}: names of columns do not work with a ranker; pass arrays, or agbm.Batches of "
                "(X, y) where y has the columns relevance and query."
            )
    if group is None and qid is None:
        _check_no_queries(given.y, position, suffix)
        return given
    if given.y is None:
        raise ValueError(
            f"A ranker requires y to be passed, but the target {y_name} is None; pass relevances of all rows."
        )
    relevance = _numbers(given.y, y_name)
    query = _by_group(group, len(relevance), suffix) if qid is None else _by_value(qid, len(relevance), suffix)
    columns = [relevance, query.astype(np.float64)]
    if position is not None:
        columns.append(_positions(position, len(relevance), suffix))
    weight = given.weight
    if weight is not None and group is not None:
        weight = _of_rows(weight, query, len(relevance))
    return given._replace(y=np.column_stack(columns), weight=weight)


def _check_no_queries(y: Any, position: Values | None, suffix: str) -> None:
    if position is not None:
        raise ValueError(f"position{suffix} needs group{suffix} or qid{suffix}, too.")
    if y is not None and np.ndim(y) != 2:
        raise ValueError(
            f"Neither group{suffix} nor qid{suffix} is given; pass qid{suffix}, the query of each row, or "
            f"group{suffix}, the numbers of rows of queries that follow each other."
        )


def _numbers(values: Values, name: str) -> NDArray[np.float64]:
    refuse_dates(values, name)
    refuse_text(values, name)
    try:
        column: AnyArray = column_or_1d(np.asarray(values))
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} of a ranker must be a vector of numbers: {error}") from error


def _by_group(group: Any, n_rows: int, suffix: str) -> NDArray[np.intp]:
    name = f"group{suffix}"
    sizes = _numbers(group, name)
    wrong = [size for size in sizes.tolist() if not size >= 1 or size != int(size)] if np.isfinite(sizes).all() else [0]
    if wrong:
        raise ValueError(f"{name} must contain numbers of rows, which are positive integers; got {some_of(wrong)}.")
    if sizes.sum() != n_rows:
        raise ValueError(
            f"{name}: the numbers of rows add up to {sizes.sum():.0f}, but y{suffix} has {n_rows} rows; they must be "
            f"the same. If you have a query per row, pass it as qid{suffix}."
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.intp))


def _by_value(qid: Values | None, n_rows: int, suffix: str) -> NDArray[np.intp]:
    name, values = f"qid{suffix}", np.asarray(qid)
    if values.ndim != 1 or len(values) != n_rows:
        raise ValueError(
            f"{name} has shape {values.shape}, but y{suffix} has {n_rows} rows; pass one query per row. For numbers of "
            f"rows of queries, use group{suffix}."
        )
    if missing(values).any():
        raise ValueError(f"{name} has missing values; every row needs a query.")
    try:
        return np.unique(values, return_inverse=True)[1]
    except TypeError as error:
        raise TypeError(f"{name} has values of several types, which cannot be sorted; use one type.") from error


def _positions(position: Any, n_rows: int, suffix: str) -> NDArray[np.float64]:
    name, values = f"position{suffix}", _numbers(position, f"position{suffix}")
    if len(values) != n_rows:
        raise ValueError(f"{name} has {len(values)} rows, y{suffix} has {n_rows}; pass one position per row.")
    if not np.isfinite(values).all() or (values < 0.0).any():
        raise ValueError(f"{name} must contain finite numbers of at least 0, such as ranks from 1 on.")
    return values


def _of_rows(weight: Values | None, query: NDArray[np.intp], n_rows: int) -> Any:
    """Weights of rows, from those of queries if there are as many as queries."""
    values = np.asarray(weight)
    n_queries = int(query[-1]) + 1 if n_rows else 0
    return values[query] if values.shape == (n_queries,) else weight
