"""Digests of fitted models: SHA-256 of what a model file contains; docs/model-file.md defines them.

They depend neither on notes nor on the library that writes the file, and not on bytes that have no meaning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from .._base.types import AnyArray
from .._core.ensemble import Ensemble, Update
from .._tree.forest import NODE, Forest
from .container import ModelFileError, Stored

_USED_BYTES = NODE.fields["missing_left"][1] + 1  # type: ignore[index]  # those of a node; the others are padding

# Entries of the description that say how a model came about, and not what it predicts.
_OF_TRAINING = {
    "library", "estimator", "parameters", "fitted_parameters", "resolved", "seed", "held_out", "notes", "scores",
    "updates", "origin",
}  # fmt: skip


def fingerprint(description: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> str:
    """The fingerprint of the model in a file: a digest of everything that its predictions depend on."""
    entries = {name: entry for name, entry in description.items() if name not in _OF_TRAINING}
    return digest_of(
        entries,
        {name: array for name, array in arrays.items() if not name.startswith(("history.", "origin.", "profile."))},
    )


# The links of a chain that come before and after those of iterations, with their entries and sections.
_FIRST_LINKS: dict[str, tuple[set[str], tuple[str, ...]]] = {
    "origin": ({"origin"}, ("origin.", "profile.")),
    "parameters": ({"estimator", "fitted_parameters", "resolved", "seed", "held_out"}, ()),
    "start": (
        {
            "loss", "start", "n_features", "n_members", "derivation", "crosses", "class_type", "n_labels",
            "has_positions", "censored", "label_shape",
        },
        ("feature_names.", "categories.", "ordered.", "classes.", "event_times"),
    ),
}  # fmt: skip
_LAST_LINK = "result", ({"calibration", "updates", "scores"}, ("folded_value", "calibration.", "baseline", "history."))
CHAIN = "chain"
_LINK_BYTES = 32


def names_of_links(n_iterations: int) -> list[str]:
    """The names of the links of a chain, in their order."""
    return [*_FIRST_LINKS, *(f"iteration {m + 1}" for m in range(n_iterations)), _LAST_LINK[0]]


def chain(description: Mapping[str, Any], arrays: Mapping[str, AnyArray], ensembles: Sequence[Ensemble]) -> list[str]:
    """The chain of a model: digests of what it was trained with and of each iteration, each after the one before it."""
    links = [""]
    for names, sections in _FIRST_LINKS.values():
        links.append(_link(description, arrays, names, sections, links[-1]))
    for m in range(len(ensembles[0])):
        links.append(_link_of_iteration(ensembles, m, links[-1]))
    links.append(_link(description, arrays, *_LAST_LINK[1], links[-1]))
    return links[1:]


def chain_section(links: Sequence[str]) -> dict[str, AnyArray]:
    """The section with a chain."""
    return {CHAIN: np.frombuffer(bytes.fromhex("".join(links)), np.uint8)}


def restored_chain(stored: Stored, n_iterations: int) -> tuple[str, ...]:
    """The chain in a file, whose size is checked and nothing else; empty in files without one."""
    if CHAIN not in stored.names():
        return ()
    content = stored.array(CHAIN, np.uint8).tobytes()
    if len(content) != _LINK_BYTES * len(names_of_links(n_iterations)):
        raise ModelFileError(f"sizes: section '{CHAIN}' must have {_LINK_BYTES} bytes per link")
    return tuple(content[i : i + _LINK_BYTES].hex() for i in range(0, len(content), _LINK_BYTES))


def _link(
    description: Mapping[str, Any], arrays: Mapping[str, AnyArray], names: set[str], sections: tuple[str, ...],
    before: str,
) -> str:  # fmt: skip
    entries = {name: entry for name, entry in description.items() if name in names}
    return digest_of(entries, {name: array for name, array in arrays.items() if name.startswith(sections)}, before)


def _link_of_iteration(ensembles: Sequence[Ensemble], m: int, before: str) -> str:
    arrays: dict[str, AnyArray] = {}
    for member, ensemble in enumerate(ensembles):
        for function in ensemble.functions_of([m]):
            forest = cast(Forest, ensemble.function(function)[0])
            for name in ("roots", "nodes", "category_start", "category_words", "value"):
                arrays[f"{member}.{function - ensemble.updates[m].primary}.{name}"] = getattr(forest, name)
    return digest_of({"updates": [_coefficients(ensemble.updates[m]) for ensemble in ensembles]}, arrays, before)


def _coefficients(update: Update) -> list[Any]:
    numbers = [float(number) for number in (update.theta, update.eta, update.alpha)]  # NumPy has other kinds
    return [*numbers, bool(update.restart), [int(m) for m in update.dropped]]


def digest_of(entries: Mapping[str, Any], arrays: Mapping[str, AnyArray], before: str = "") -> str:
    """A digest of entries of a description and of sections, both in the order of their names, after another digest."""
    text = json.dumps([before, entries], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        content = _content(arrays[name])
        digest.update(f"{name} {len(content)};".encode())
        digest.update(content)
    return digest.hexdigest()


def _content(array: AnyArray) -> bytes:
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype == NODE:
        return flat.view(np.uint8).reshape(-1, NODE.itemsize)[:, :_USED_BYTES].tobytes()
    return flat.tobytes()
