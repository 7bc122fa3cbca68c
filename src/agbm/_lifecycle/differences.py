"""Differences between two fitted models, and between the rows they were trained on: which part, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._core.ensemble import Ensemble, Update
from .._data.digest import MOST_COLUMNS, RowDigest
from .._model.fitted import FittedModel
from .._storage.container import shortened
from .._storage.digests import chain, fingerprint, names_of_links
from .._storage.labels import facts
from .._storage.model import Saved, arrays_of, description_of
from .._tree import Forest

MISSING = "none"
MOST_RANGES = 5
"""Ranges of rows, or columns, that a difference names."""


class Difference(NamedTuple):
    """A part of two models, or of the rows of their fits, that differs."""

    part: str
    """"chain", "version", "data", "seed", "parameters", "columns", "labels", "start", "iteration" or "result"."""
    where: str
    """The name of a parameter or section, rows and columns, or the iteration, member, tree, node and field."""
    values: tuple[str, str]
    iteration: int | None = None

    def __str__(self) -> str:
        return f"{self.part}: {self.where}: {self.values[0]} and {self.values[1]}"


class Content(NamedTuple):
    """A model, and what its file contains."""

    saved: Saved
    description: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, saved: Saved) -> Content:
        """The content of a model."""
        return cls(saved, description_of(saved), arrays_of(saved.model))

    @property
    def model(self) -> FittedModel:
        """The model."""
        return self.saved.model

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model."""
        return fingerprint(self.description, self.arrays)

    def chain_differences(self) -> list[Difference]:
        """The first link of the chain in the file that does not belong to the model."""
        found = chain(self.description, self.arrays, self.model.ensembles)
        names = names_of_links(len(self.model.ensembles[0]))
        links = zip(names, self.saved.chain, found, strict=False)
        differ = [
            Difference("chain", name, (stored, computed)) for name, stored, computed in links if stored != computed
        ]
        return differ[:1]


# What a model was trained with.


def of_training(a: Content, b: Content) -> list[Difference]:
    """Differences in version, rows, seed and parameters."""
    origins = a.model.origin, b.model.origin
    found: list[Difference] = []
    if origins[0] is None or origins[1] is None:
        if origins[0] is not origins[1]:
            values = [MISSING if of is None else of.data.hex for of in origins]
            found.append(Difference("data", "digest", (values[0], values[1])))
    else:
        found += of_values("version", {"agbm": origins[0].version}, {"agbm": origins[1].version})
        found += of_rows(origins[0].data, origins[1].data, a.model)
    found += of_values("seed", {"seed": a.description["seed"]}, {"seed": b.description["seed"]})
    return found + of_values("parameters", *(of.description["fitted_parameters"] for of in (a, b)))


def of_rows(a: RowDigest, b: RowDigest, model: FittedModel) -> list[Difference]:
    """Differences of rows: their number, or blocks of rows and columns; the model has the names of columns."""
    if a.shape != b.shape:
        return of_values("data", _readable(a), _readable(b))
    if a.hex == b.hex:
        return []
    blocks, columns = np.flatnonzero(a.blocks != b.blocks), np.flatnonzero(a.columns != b.columns)
    size, n_rows = 1 << a.shape.shift, a.shape.n_rows
    ends = np.flatnonzero(np.diff(blocks, append=-2) != 1)
    runs = [(blocks[before + 1], blocks[end]) for before, end in pairwise([-1, *ends.tolist()])]
    rows = [_range(int(low) * size, min((int(high) + 1) * size, n_rows) - 1) for low, high in runs]
    names = [_column(a, int(column), model) for column in columns]
    where = f"rows {_listed(rows)}; columns {_listed(list(dict.fromkeys(names)))}"
    return [Difference("data", where, (a.hex, b.hex))]


def _readable(digest: RowDigest) -> dict[str, Any]:
    shape = digest.shape
    return {"rows": shape.n_given, "rows of X_val": shape.n_validation, "numbers per label": shape.n_labels,
            "outputs": shape.n_outputs, "features": shape.n_features}  # fmt: skip


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_RANGES
    return ", ".join(texts[:MOST_RANGES]) + (f" and {more} more" if more > 0 else "") if texts else "none"


def _column(digest: RowDigest, column: int, model: FittedModel) -> str:
    """The name of a column of a digest."""
    shape = digest.shape
    if column < shape.first_weight:
        return "y"
    if column < shape.first_feature:
        return "sample_weight" if column < shape.first_start else "offset"
    if column == MOST_COLUMNS - 1 < shape.first_feature + shape.n_features - 1:
        return f"from {column - shape.first_feature} on"
    feature = column - shape.first_feature
    if feature < model.n_features:  # a file may say anything about its rows
        feature = int(model.reader.columns_of(np.array([feature]))[0, 0])
    named = model.reader.names is not None and feature < model.n_columns
    return repr(model.feature_names[feature]) if named else f"{feature} of X"


def of_values(part: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Differences of named values."""
    names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return [Difference(part, name, (_shown(a.get(name)), _shown(b.get(name)))) for name in names]


def _shown(value: Any) -> str:
    return MISSING if value is None else shortened(value)


# Models.


# Entries of descriptions by what they belong to.
_ENTRIES = {
    "columns": ("n_features", "derivation", "crosses"),
    "labels": ("class_type", "n_labels", "has_positions", "censored", "label_shape"),
    "start": ("loss", "start", "n_members", "held_out"),
}


def before_training(a: Content, b: Content) -> list[Difference]:
    """Differences of columns, labels and start functions."""
    found = []
    for part, names in _ENTRIES.items():
        found += of_values(part, *({name: of.description.get(name) for name in names} for of in (a, b)))
        if part == "columns":
            found += of_values(part, *(_columns_of(of.model) for of in (a, b)))
        if part == "labels":
            found += _of_sections(part, a, b, ("event_times",))
            found += of_values(part, *({"classes": facts(of.model.labels).get("classes_")} for of in (a, b)))
    return found


def _columns_of(model: FittedModel) -> dict[str, Any]:
    """The names of columns, and their categories."""
    names = None if model.reader.names is None else list(model.reader.names)
    return {"names": names} | {
        f"categories of column {f if names is None else repr(names[f])}": known
        for f, known in model.listed_values.items()
    }


def of_results(a: Content, b: Content) -> list[Difference]:
    """Differences of the results of the iterations: folded values, calibrations and baselines."""
    found = of_values("result", *({"calibration": of.description.get("calibration")} for of in (a, b)))
    return found + _of_sections("result", a, b, ("folded_value", "calibration.", "baseline"))


def _of_sections(part: str, a: Content, b: Content, names: tuple[str, ...]) -> list[Difference]:
    """Differences of sections whose names begin with one of the given prefixes."""
    found = []
    for name in (name for name in {**a.arrays, **b.arrays} if name.startswith(names)):
        one, other = a.arrays.get(name), b.arrays.get(name)
        if one is None or other is None:
            values = [MISSING if of is None else f"{len(of)} entries" for of in (one, other)]
            found.append(Difference(part, name, (values[0], values[1])))
        elif (place := first_difference(one, other)) is not None:
            found.append(Difference(part, f"{name}, entry {place}", _both(one, other, place)))
    return found


def of_histories(a: Mapping[str, NDArray[Any]], b: Mapping[str, NDArray[Any]], n_iterations: int) -> list[Difference]:
    """The first difference of what both histories record, up to an iteration."""
    found = []
    for name in (name for name in a if name in b and name != "seconds"):
        one, other = a[name][: n_iterations + 1], b[name][: n_iterations + 1]
        place = first_difference(one, other)
        if place is not None:
            found.append(Difference("iteration", f"{place}, {name}", _both(one, other, place), place))
    return sorted(found, key=_iteration)[:1]


def _iteration(difference: Difference) -> int:
    return -1 if difference.iteration is None else difference.iteration


def _both(a: NDArray[Any], b: NDArray[Any], place: int, beyond: str = MISSING) -> tuple[str, str]:
    values = [
        _shown(of[place].item() if of.dtype != object else of[place]) if place < len(of) else beyond for of in (a, b)
    ]
    return values[0], values[1]


def first_difference(a: NDArray[Any], b: NDArray[Any]) -> int | None:
    """The first position at which two vectors differ; NaN equals NaN."""
    n = min(len(a), len(b))
    differ = np.asarray(a[:n] != b[:n])
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        differ &= ~(np.isnan(a[:n]) & np.isnan(b[:n]))
    places = np.flatnonzero(differ)
    if len(places):
        return int(places[0])
    return None if len(a) == len(b) else n


def of_iterations(a: Sequence[Ensemble], b: Sequence[Ensemble]) -> list[Difference]:
    """The first difference of the iterations of two models."""
    return next(([found] for found in _of_iterations(a, b)), [])


def _of_iterations(a: Sequence[Ensemble], b: Sequence[Ensemble]) -> Iterator[Difference]:
    n = min(len(a[0]), len(b[0]))
    for m in range(n):
        for member, (one, other) in enumerate(zip(a, b, strict=False)):
            where = f"{m + 1}" if len(a) == 1 else f"{m + 1}, member {member}"
            for place, values in [*_of_trees(one, other, m), *_of_coefficients(one.updates[m], other.updates[m])]:
                yield Difference("iteration", f"{where}, {place}", values, m + 1)
    if len(a[0]) != len(b[0]):
        yield Difference("iteration", f"{n + 1}", (f"{len(a[0])} iterations", f"{len(b[0])} iterations"), n + 1)


Place = tuple[str, tuple[str, str]]


def _of_trees(a: Ensemble, b: Ensemble, m: int) -> Iterator[Place]:
    forests = [forests_of(of, m) for of in (a, b)]
    if len(forests[0]) != len(forests[1]):
        yield "number of models", (f"{len(forests[0])}", f"{len(forests[1])}")
    for number, (one, other) in enumerate(zip(*forests, strict=False)):
        for place, values in _of_forests(one, other):
            yield place if number == 0 else f"momentum, {place}", values


def forests_of(ensemble: Ensemble, m: int) -> list[Forest]:
    """The forests of an iteration, each once."""
    found = [ensemble.function(function)[0] for function in ensemble.functions_of([m])]
    return cast(list[Forest], list({id(forest): forest for forest in found}.values()))


def _of_forests(a: Forest, b: Forest) -> Iterator[Place]:
    if len(a.roots) != len(b.roots) or a.value.shape[1:] != b.value.shape[1:]:
        yield "number of trees", (f"{len(a.roots)}", f"{len(b.roots)}")
        return
    ends = [np.append(of.roots[1:], len(of.nodes)).tolist() for of in (a, b)]
    for tree, (one, other) in enumerate(zip(a.roots.tolist(), b.roots.tolist(), strict=True)):
        columns = zip(_columns(a, slice(one, ends[0][tree])), _columns(b, slice(other, ends[1][tree])), strict=True)
        found = [(first_difference(x, y), name, x, y) for (name, x), (_, y) in columns]
        for place, name, x, y in sorted((of for of in found if of[0] is not None), key=lambda of: cast(int, of[0])):
            node = cast(int, place)
            yield f"tree {tree}, node {node}, {name}", _both(x, y, node, "no such node")


def _columns(forest: Forest, nodes: slice) -> list[tuple[str, NDArray[Any]]]:
    """The fields of the nodes of a tree, by name."""
    fields = ["feature", "threshold", "missing_left", "bin", "count", "gain"]
    found = [(name, forest.nodes[name][nodes]) for name in fields]
    found.append(("categories that go left", _sets(forest, nodes)))
    left = forest.nodes["left"][nodes]
    found.append(("left", np.where(left < 0, left, left - nodes.start)))
    return found + [(f"value {k}" if k else "value", forest.value[nodes, k]) for k in range(forest.value.shape[1])]


def _sets(forest: Forest, nodes: slice) -> NDArray[Any]:
    """The set of categories of each node, as an integer with one bit each; None where there is none."""
    found = np.empty(nodes.stop - nodes.start, dtype=object)
    for i, number in enumerate(forest.nodes["categories"][nodes].tolist()):
        if number >= 0:
            words = forest.category_words[slice(*forest.category_start[number:][:2])]
            found[i] = int.from_bytes(words.tobytes(), "little")
    return found


def _of_coefficients(a: Update, b: Update) -> Iterator[Place]:
    for name in ("theta", "eta", "alpha", "restart", "dropped"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            yield name, (_shown(one), _shown(other))
