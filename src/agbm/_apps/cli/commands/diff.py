"""`agbm diff`: compare two model files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...._estimators.base import loaded
from ...._lifecycle.differences import (
    Content,
    Difference,
    before_training,
    of_histories,
    of_iterations,
    of_results,
    of_training,
)
from ..output import show, show_json
from ..reading.data import Model  # noqa: F401  # registers the estimators that files may name


def run(arguments: argparse.Namespace) -> int:
    """Compare the models and print what differs; return 0 if they predict the same."""
    a, b = (Content.of(loaded(path)) for path in (arguments.model, arguments.other))
    same = a.fingerprint == b.fingerprint
    models = [] if same else _first(a, b)
    training = of_training(a, b)
    if arguments.json:
        show_json({
            "same": same,
            "fingerprints": [a.fingerprint, b.fingerprint],
            "differences": in_json(models),
            "training_differences": in_json(training),
        })  # fmt: skip
        return 0 if same else 1
    print(f"{arguments.model} and {arguments.other}")
    facts = {"models": "the same: they predict the same bits" if same else "they differ"}
    facts |= {"fingerprint": a.fingerprint} if same else {"fingerprints": f"{a.fingerprint} {b.fingerprint}"}
    show(facts | in_words(models, "first difference") | in_words(training, "trained with other"))
    return 0 if same else 1


def _first(a: Content, b: Content) -> list[Difference]:
    """The parts of two models that differ before training, or else the first iteration, or else results."""
    found = before_training(a, b) or of_iterations(a.model.ensembles, b.model.ensembles)
    n_iterations = max(a.model.n_iter, b.model.n_iter)
    return found or of_results(a, b) or of_histories(a.model.history, b.model.history, n_iterations)


def in_json(differences: Sequence[Difference]) -> list[dict[str, object]]:
    """Differences as values for JSON."""
    return [{"part": one.part, "where": one.where, "values": list(one.values)} for one in differences]


def in_words(differences: Sequence[Difference], label: str) -> dict[str, str]:
    """Differences as lines for `show`."""
    parts = list(dict.fromkeys(one.part for one in differences))
    texts = {part: "; ".join(_text(one) for one in differences if one.part == part) for part in parts}
    return {f"{label}: {part}": text for part, text in texts.items()}


def _text(difference: Difference) -> str:
    if difference.part == "data" and len(difference.values[0]) == 64:  # digests
        return difference.where
    return f"{difference.where}: {difference.values[0]} and {difference.values[1]}"
