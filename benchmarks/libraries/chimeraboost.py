"""ChimeraBoost."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from .base import PATIENCE, Effort, Library, Model, Rows, given, timed, with_text


class ChimeraBoost(Library):
    """ChimeraBoost, which compiles its kernels while it runs."""

    name = "ChimeraBoost"
    module = "chimeraboost"
    package = "chimeraboost"
    classes: ClassVar[dict[str, str]] = {
        "classes": "ChimeraBoostClassifier", "values": "ChimeraBoostRegressor", "counts": "ChimeraBoostRegressor",
    }  # fmt: skip

    def train(self, kind: str, rows: Rows, held_out: Rows | None, effort: Effort, **parameters: Any) -> Model:
        """A short fit before the timed one compiles kernels that the warm-up does not use.

        Validation rows have weight 1. One tree per iteration, also for several classes.
        """
        _compile()
        settings: dict[str, Any] = {"thread_count": effort.threads, "random_state": effort.seed}
        settings |= given(n_estimators=effort.iterations, loss="Poisson" if kind == "counts" else None)
        keywords: dict[str, Any] = {"sample_weight": rows.weight, "cat_features": rows.categorical}
        if held_out is not None:
            settings["early_stopping_rounds"] = PATIENCE
            keywords["eval_set"] = (with_text(held_out.X), held_out.y)
        X = with_text(rows.X)
        self.estimator(kind, **(settings | parameters | {"n_estimators": 2})).fit(X, rows.y, **keywords)
        model = self.estimator(kind, **(settings | parameters))
        seconds = timed(model.fit, X, rows.y, **keywords)
        trees = len(model.model_.trees_)
        predict = model.predict_proba if kind == "classes" else model.predict
        return Model(model, predict, seconds, trees, trees, with_text)


@cache
def _compile() -> None:
    import_module("chimeraboost").warmup()
