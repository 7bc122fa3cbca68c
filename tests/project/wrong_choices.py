"""Choices that type checkers must reject: `make lint` fails if mypy finds no error in a line that says it has one."""

from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival

AGBMRegressor(loss="squared_eror")  # type: ignore[arg-type]
AGBMClassifier(loss="log_los")  # type: ignore[arg-type]
AGBMRanker(loss="ndgc")  # type: ignore[arg-type]
AGBMSurvival(loss="coxx")  # type: ignore[arg-type]
AGBMRegressor(method="fadin")  # type: ignore[arg-type]
AGBMRegressor(multi_strategy="one_tree")  # type: ignore[arg-type]
AGBMRegressor(categorical_features="from_dtypes")  # type: ignore[arg-type]
AGBMRegressor(interaction_cst="pairwis")  # type: ignore[arg-type]
AGBMRegressor(early_stopping="aut")  # type: ignore[arg-type]
AGBMRegressor(init="zeros")  # type: ignore[arg-type]
AGBMRegressor(device="gpu")  # type: ignore[arg-type]
AGBMClassifier(class_weight="balance")  # type: ignore[arg-type]
AGBMRanker(class_weight="balanced")  # type: ignore[call-arg]

AGBMRegressor(loss="quantile:0.9", init="zero", monotonic_cst={"a": 1}, categorical_features=["a"])
AGBMClassifier(monotonic_cst={"a": {"rich": 1}}, class_weight={"rich": 2.0}, scoring="roc_auc")
