"""Differences between two fitted models: which part differs first, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ._core.ensemble import Ensemble, Update
from ._storage.container import shortened
from ._storage.digests import fingerprint
from ._storage.model import Saved, arrays_of, description_of
from ._tree import Forest

MISSING = "none"


class Difference(NamedTuple):
    """A part of two models that differs."""

    part: str
    """What it belongs to: "version", "seed", "parameters", "columns", "labels", "start", "iteration", "result" or
    "history"."""
    where: str
    """The name of a parameter or of a section, or the iteration, member, tree and node."""
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.part}: {self.where}: {self.first}, {self.second}"


# Entries of descriptions, and beginnings of the names of sections, by what they belong to.
_ENTRIES = {
    "columns": ("n_features", "derivation"),
    "labels": ("class_type", "n_labels", "has_positions", "censored", "label_shape"),
    "start": ("loss", "start", "n_members", "held_out"),
}
_SECTIONS = {
    "columns": ("feature_names.", "categories.", "ordered."),
    "labels": ("classes.", "event_times"),
    "result": ("folded_value", "calibration.", "baseline"),
    "history": ("history.",),
}


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
    def fingerprint(self) -> str:
        """The fingerprint of the model."""
        return fingerprint(self.description, self.arrays)


def of_training(a: Content, b: Content) -> list[Difference]:
    """Differences in what a model is trained with, apart from rows: seed and parameters."""
    found = _of_values("seed", {"seed": a.description["seed"]}, {"seed": b.description["seed"]})
    parameters = [{**of.description["fitted_parameters"], **_found_at_fit(of.description)} for of in (a, b)]
    return found + _of_values("parameters", *parameters)


def _found_at_fit(description: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that affect only when a run ends."""
    return {name: description["resolved"].get(name) for name in ("max_iter",)}


def of_models(a: Content, b: Content) -> list[Difference]:
    """Differences of the models themselves, in the order of training: of iterations, the first one only."""
    found: list[Difference] = []
    for part, names in _ENTRIES.items():
        found += _of_values(part, *({name: of.description.get(name) for name in names} for of in (a, b)))
        found += _of_sections(part, a, b)
    found += list(_of_iterations(a.saved.model.ensembles, b.saved.model.ensembles))[:1]
    found += _of_values("result", *({"calibration": of.description.get("calibration")} for of in (a, b)))
    return found + _of_sections("result", a, b) + _of_sections("history", a, b)


def _of_values(part: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return [Difference(part, name, _shown(a.get(name)), _shown(b.get(name))) for name in names]


def _shown(value: Any) -> str:
    return MISSING if value is None else shortened(value)


def _of_sections(part: str, a: Content, b: Content) -> list[Difference]:
    names = [name for name in {**a.arrays, **b.arrays} if name.startswith(_SECTIONS.get(part, ()))]
    found = []
    for name in names:
        one, other = a.arrays.get(name), b.arrays.get(name)
        if one is None or other is None:
            found.append(Difference(part, name, *(MISSING if of is None else f"{len(of)} entries" for of in (one, other))))
            continue
        place = _first_difference(one, other)
        if place is not None:
            shown = [repr(of[place].item()) if place < len(of) else MISSING for of in (one, other)]
            found.append(Difference(part, f"{name}, entry {place}", *shown))
    return found


def _first_difference(a: NDArray[Any], b: NDArray[Any]) -> int | None:
    """The first position at which two vectors have different bits; NaN equals NaN."""
    n = min(len(a), len(b))
    differ = a[:n] != b[:n]
    if a.dtype.kind == "f":
        differ &= ~(np.isnan(a[:n]) & np.isnan(b[:n]))
    places = np.flatnonzero(differ)
    if len(places):
        return int(places[0])
    return None if len(a) == len(b) else n


def _of_iterations(a: Sequence[Ensemble], b: Sequence[Ensemble]) -> Iterator[Difference]:
    """Differences of the iterations of members, in their order."""
    for m in range(min(len(a[0]), len(b[0]))):
        for member, (one, other) in enumerate(zip(a, b, strict=False)):
            where = f"{m + 1}" if len(a) == 1 else f"{m + 1}, member {member}"
            yield from _of_trees(where, one, other, m)
            yield from _of_coefficients(where, one.updates[m], other.updates[m])
    if len(a[0]) != len(b[0]):
        yield Difference("iteration", f"{min(len(a[0]), len(b[0])) + 1}", *(f"{len(of[0])} iterations" for of in (a, b)))


def _of_trees(where: str, a: Ensemble, b: Ensemble, m: int) -> Iterator[Difference]:
    functions = [of.functions_of([m]) for of in (a, b)]
    forests = [list({id(of.function(f)[0]): of.function(f)[0] for f in found}.values()) for of, found in zip((a, b), functions, strict=True)]
    if len(forests[0]) != len(forests[1]):
        yield Difference("iteration", where, *(f"{len(found)} models" for found in forests))
        return
    for number, pair in enumerate(zip(*forests, strict=True)):
        one, other = (cast(Forest, forest) for forest in pair)
        which = where if number == 0 else f"{where}, momentum"
        yield from _of_forests(which, one, other)


def _of_forests(where: str, a: Forest, b: Forest) -> Iterator[Difference]:
    if len(a.roots) != len(b.roots) or a.value.shape[1:] != b.value.shape[1:]:
        yield Difference("iteration", where, *(f"{len(of.roots)} trees" for of in (a, b)))
        return
    ends = [np.append(of.roots[1:], len(of.nodes)) for of in (a, b)]
    for tree in range(len(a.roots)):
        parts = [slice(of.roots[tree], end[tree]) for of, end in zip((a, b), ends, strict=True)]
        yield from _of_nodes(f"{where}, tree {tree}", *((of, part) for of, part in zip((a, b), parts, strict=True)))


def _of_nodes(where: str, a: tuple[Forest, slice], b: tuple[Forest, slice]) -> Iterator[Difference]:
    """Differences of the nodes of a tree, from the root on."""
    (one, of_one), (other, of_other) = a, b
    columns = [(name, one.nodes[name][of_one], other.nodes[name][of_other]) for name in _names_of_nodes()]
    columns += [
        ("value" if one.value.shape[1] == 1 else f"value {k}", one.value[of_one, k], other.value[of_other, k])
        for k in range(one.value.shape[1])
    ]
    columns.append(("categories that go left", _sets(one, of_one), _sets(other, of_other)))
    found = [(place, name, x, y) for name, x, y in columns if (place := _first_difference(x, y)) is not None]
    for place, name, x, y in sorted(found, key=lambda difference: difference[0]):
        shown = [_shown(of[place]) if place < len(of) else f"{len(of)} nodes" for of in (x, y)]
        yield Difference("iteration", f"{where}, node {place}, {name}", *shown)


def _names_of_nodes() -> list[str]:
    return ["feature", "threshold", "missing_left", "bin", "count", "gain", "left"]


def _sets(forest: Forest, nodes: slice) -> NDArray[Any]:
    """The set of categories of each node, as a number; None where there is none."""
    found = np.empty(nodes.stop - nodes.start, dtype=object)
    for i, number in enumerate(forest.nodes["categories"][nodes].tolist()):
        if number >= 0:
            words = forest.category_words[slice(*forest.category_start[number:][:2])]
            found[i] = int.from_bytes(words.tobytes(), "little")
    return found


def _of_coefficients(where: str, a: Update, b: Update) -> Iterator[Difference]:
    """Differences of the coefficients; the numbers of functions follow from the trees."""
    for name in ("theta", "eta", "alpha", "restart", "dropped"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            yield Difference("iteration", f"{where}, {name}", _shown(one), _shown(other))
