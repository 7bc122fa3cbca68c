"""The contestants of ranking.py.

For quality, all libraries grow at most `--iterations` trees and stop early by NDCG@10 on the validation queries, with
the same patience. The learning rate of the peers is 0.1; everything else is their default. `agbm, own members` gets
training and validation queries together, of which each member holds out its own part; the other contestants of agbm get
the validation queries as such.

For speed, all libraries grow a fixed number of trees with LEAVES leaves (XGBoost and CatBoost leaf by leaf as well),
without validation queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ranking_tables import Problem, Queries
from records import OURS
from trials import PATIENCE, Contestant, Fitted, Run, settings_of, timed

CUT = 10
RATE = 0.1
LEAVES = 31


def fit_ours(problem: Problem, run: Run, own_members: bool = False, fixed: bool = False, **parameters: Any) -> Fitted:
    """Fit agbm; `own_members`: without the validation queries as such, `fixed`: exactly the given number of trees."""
    from agbm import AGBMRanker

    model = AGBMRanker(
        max_iter=run.iterations, n_iter_no_change=PATIENCE, random_state=run.seed, n_jobs=run.threads
    ).set_params(**parameters)
    rows, held_out, keywords = problem.train, problem.validation, {}
    if fixed:
        model.set_params(n_members=1, early_stopping=False, max_leaf_nodes=LEAVES)
    elif own_members:
        rows = problem.both
        model.set_params(early_stopping=True)
    else:
        keywords = {"X_val": held_out.X, "y_val": held_out.y, "qid_val": held_out.qid}
    seconds = timed(model.fit, rows.X, rows.y, qid=rows.qid, **keywords)
    return Fitted(model.predict(problem.test.X), seconds, model.n_trees_)


def fit_lightgbm(problem: Problem, run: Run, objective: str = "lambdarank", fixed: bool = False) -> Fitted:
    """Fit LightGBM."""
    import lightgbm

    train, held_out, keywords = problem.train, problem.validation, {}
    model = lightgbm.LGBMRanker(
        objective=objective, n_estimators=run.iterations, learning_rate=RATE, num_leaves=LEAVES, n_jobs=run.threads,
        random_state=run.seed, verbose=-1,
    )  # fmt: skip
    if not fixed:
        stopping = lightgbm.early_stopping(PATIENCE, verbose=False)
        keywords = {"eval_set": [(held_out.X, held_out.y)], "eval_group": [held_out.sizes], "eval_at": [CUT]}
        keywords["callbacks"] = [stopping]
    seconds = timed(model.fit, train.X, train.y, group=train.sizes, **keywords)
    return Fitted(model.predict(problem.test.X), seconds, model.n_estimators_)


def fit_xgboost(problem: Problem, run: Run, fixed: bool = False) -> Fitted:
    """Fit XGBoost."""
    import xgboost

    train, held_out, keywords = problem.train, problem.validation, {}
    more: dict[str, Any] = {"early_stopping_rounds": PATIENCE, "eval_metric": f"ndcg@{CUT}"}
    if fixed:
        more = {"grow_policy": "lossguide", "max_leaves": LEAVES, "max_depth": 0}
    else:
        keywords = {"eval_set": [(held_out.X, held_out.y)], "eval_qid": [held_out.qid]}
    model = xgboost.XGBRanker(
        objective="rank:ndcg", n_estimators=run.iterations, learning_rate=RATE, n_jobs=run.threads,
        random_state=run.seed, **more,
    )  # fmt: skip
    seconds = timed(model.fit, train.X, train.y, qid=train.qid, verbose=False, **keywords)
    return Fitted(model.predict(problem.test.X), seconds, model.get_booster().num_boosted_rounds())


def fit_catboost(problem: Problem, run: Run, fixed: bool = False) -> Fitted:
    """Fit CatBoost."""
    import catboost

    def pool(rows: Queries) -> Any:
        return catboost.Pool(rows.X, rows.y, group_id=rows.qid)

    more: dict[str, Any] = {"eval_metric": f"NDCG:top={CUT};type=Exp", "early_stopping_rounds": PATIENCE}
    if fixed:
        more = {"grow_policy": "Lossguide", "max_leaves": LEAVES, "max_depth": 16}
    model = catboost.CatBoostRanker(
        loss_function="YetiRank", iterations=run.iterations, learning_rate=RATE, thread_count=run.threads,
        random_seed=run.seed, allow_writing_files=False, logging_level="Silent", **more,
    )  # fmt: skip
    keywords = {} if fixed else {"eval_set": pool(problem.validation)}
    seconds = timed(model.fit, pool(problem.train), **keywords)
    return Fitted(model.predict(problem.test.X), seconds, model.tree_count_)


def ours(name: str, parameters: dict[str, Any], **how: Any) -> Contestant[Problem]:
    """A contestant of agbm."""
    from agbm import AGBMRanker

    return Contestant(name, partial(fit_ours, **how, **parameters), (OURS,), settings_of(AGBMRanker(), parameters))


def has_ours() -> bool:
    """Whether the installed agbm has a ranker."""
    import agbm

    return hasattr(agbm, "AGBMRanker")


def of_quality(more: list[tuple[str, dict[str, Any]]]) -> Iterator[Contestant[Problem]]:
    """The contestants for quality; `more` are names and parameters of further ones of agbm."""
    if has_ours():
        yield ours(OURS, {})
        yield ours(f"{OURS}, own members", {}, own_members=True)
        yield ours(f"{OURS}, one model", {"n_members": 1})
        yield from (ours(name, parameters) for name, parameters in more)
    yield Contestant("LightGBM", fit_lightgbm, ("lightgbm",))
    yield Contestant("LightGBM, XE-NDCG", partial(fit_lightgbm, objective="rank_xendcg"), ("lightgbm",))
    yield Contestant("XGBoost", fit_xgboost, ("xgboost-cpu",))
    yield Contestant("CatBoost", fit_catboost, ("catboost",))


def of_speed() -> Iterator[Contestant[Problem]]:
    """The contestants for speed."""
    if has_ours():
        yield ours(OURS, {}, fixed=True)
    yield Contestant("LightGBM", partial(fit_lightgbm, fixed=True), ("lightgbm",))
    yield Contestant("XGBoost", partial(fit_xgboost, fixed=True), ("xgboost-cpu",))
    yield Contestant("CatBoost", partial(fit_catboost, fixed=True), ("catboost",))
