"""`agbm inspect`: show the contents of a model file."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...._estimators.classifier import AGBMClassifier
from ...._estimators.loading import load
from ...._fit.progress import readable
from ...._losses import traits_of
from ....export._view import feature_names
from ...report import changed_parameters
from ..describe import unread_in_words
from ..model import important, metrics_in_words, noted_metrics, shares_in_words, training_in_words
from ..output import MOST_LISTED, listed, show, show_json, size
from ..reading.data import Model


def run(arguments: argparse.Namespace) -> None:
    """Load the model and print its contents."""
    model = load(arguments.model)
    if arguments.json:
        show_json(_facts(model))
        return
    print(f"{arguments.model} ({size(Path(arguments.model).stat().st_size)})")
    show(_in_words(model))


def _facts(model: Model) -> dict[str, Any]:
    known, origin = model.model_.categories, model.model_.origin
    return {
        "estimator": type(model).__name__,
        "classes": model.classes_.tolist() if isinstance(model, AGBMClassifier) else None,
        "loss": type(model.model_.loss).__name__,
        "method": model.method,
        "parameters": model.get_params(deep=False),
        "changed_parameters": changed_parameters(model),
        "resolved_parameters": model.resolved_params_,
        "trees": model.n_trees_,
        "iterations": model.n_iter_,
        "best_iteration": model.best_iteration_,
        "train_loss": float(model.history_["train_loss"][model.best_iteration_]),
        "validation_loss": float(model.history_["validation_loss"][model.best_iteration_]),
        "n_features": model.n_features_in_,
        "features": feature_names(model) if hasattr(model, "feature_names_in_") else None,
        "categories": dict(zip(feature_names(model, known), map(len, known.values()), strict=True)),
        "missing_text": _missing_text(model),
        "importances": important(model),
        "version": None if origin is None else origin.version,
        "training_rows": None if origin is None else origin.data.shape.n_given,
        "data": None if origin is None else origin.data.hex,
        "fingerprint": model.fingerprint_,
        "notes": model.notes_ | ({"metrics": noted_metrics(model)} if "metrics" in model.notes_ else {}),
    }


def _missing_text(model: Model) -> dict[str, list[str]]:
    """Return the columns of dates or numbers stored as text, with their other values, which count as missing."""
    derivation = model.model_.reader.derivation
    unread = {f: column.unread for f, column in derivation.dates.items()} | dict(derivation.numbers)
    names = feature_names(model, list(unread))
    return {name: list(texts) for name, texts in zip(names, unread.values(), strict=True) if texts}


def _in_words(model: Model) -> dict[str, str]:
    facts = _facts(model)
    n_features, categories = facts["n_features"], facts["categories"]
    first = feature_names(model, range(min(n_features, MOST_LISTED)))
    words = {"estimator": f"{facts['estimator']}, loss {facts['loss']}"}
    if facts["classes"] is not None:
        words["classes"] = listed(list(map(str, facts["classes"])))
    words["features"] = f"{n_features:,}: {listed(first, n=n_features)}"
    if categories:
        words["categories"] = listed([f"{name} ({n:,})" for name, n in categories.items()])
    if facts["missing_text"]:
        words["missing text"] = unread_in_words(facts["missing_text"])
    resolved = dict(facts["resolved_parameters"])
    if crosses := resolved.pop("views", None):
        words["crosses"] = listed(crosses)
    words["model"] = training_in_words(model)
    words |= _losses_in_words(model, facts)
    changed = listed([f"{name}={value!r}" for name, value in facts["changed_parameters"].items()])
    words["parameters"] = changed or "the defaults"
    words["resolved"] = ", ".join(f"{name}={value!r}" for name, value in resolved.items())
    words["importance"] = shares_in_words(facts["importances"])
    if facts["version"] is not None:
        words["origin"] = f"agbm {facts['version']}, {facts['training_rows']:,} rows with digest {facts['data'][:16]}…"
    words["fingerprint"] = facts["fingerprint"]
    for name, text in model.notes_.items():
        words[f"note: {name}"] = text
    metrics = noted_metrics(model)
    if metrics:
        words["note: metrics"] = metrics_in_words(metrics)
    return words


def _losses_in_words(model: Model, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the losses, or the root mean squared errors, which have the unit of the labels."""
    roots = traits_of(model.model_.loss).shows_roots
    losses = {"training": facts["train_loss"], "validation": facts["validation_loss"]}
    shown = [
        f"{rows} {readable(math.sqrt(2.0 * loss) if roots else loss, 5)}"
        for rows, loss in losses.items()
        if not math.isnan(loss)
    ]
    return {"RMSE" if roots else "loss": ", ".join(shown)}
