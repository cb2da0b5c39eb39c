"""Fitted XGBoost, LightGBM and CatBoost models by name: objectives, boosters, categories, missing values, early stopping.

`ZOO[name]` is (a function that fits a model to a table and target, the kind of data).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn import datasets

Arrays = dict[str, np.ndarray[Any, Any]]
Fit = Callable[[Any, Any], Any]
ROWS = 40  # of the data, taken as the example


@cache
def data(kind: str) -> tuple[Any, Any]:
    """The table and target of one kind of data."""
    return DATA[kind]()


def _load(load: Callable[..., Any], change: Callable[[Any, Any], Any] = lambda x, y: (x, y)) -> Callable[[], Any]:
    def make() -> Any:
        x, y = load(return_X_y=True)
        return change(x.astype(np.float32), y)

    return make


def _holes(x: Any, hole: float) -> Any:
    return np.where(np.random.default_rng(0).random(x.shape) < 0.2, np.float32(hole), x)


def _categories(x: Any) -> Any:
    """The first two columns as numbers of categories."""
    steps = [np.digitize(x[:, i], np.quantile(x[:, i], np.linspace(0, 1, 9)[1:-1])) for i in (0, 1)]
    mixed = [(step * 5 + 3) % 8 for step in steps]  # so that neighbours in number are not neighbours in value
    return np.column_stack([*mixed, x[:, 2:]]).astype(np.float32)


diabetes, cancer, wine = datasets.load_diabetes, datasets.load_breast_cancer, datasets.load_wine
DATA: dict[str, Callable[[], Any]] = {
    "diabetes": _load(diabetes),
    "cancer": _load(cancer),
    "wine": _load(wine),
    "named wine": _load(wine, lambda x, y: (x, np.array(["barolo", "grignolino", "barbera"])[y])),
    "shares": _load(diabetes, lambda x, y: (x, y / 400)),
    "counts": _load(diabetes, lambda x, y: (x, np.floor(y / 20))),
    "grades": _load(diabetes, lambda x, y: (x, np.digitize(y, (80, 120, 180, 250)))),
    "two targets": _load(diabetes, lambda x, y: (x, np.stack([y, x[:, 2] * 100], 1))),
    "holes": _load(cancer, lambda x, y: (_holes(x, np.nan), y)),
    "marked holes": _load(cancer, lambda x, y: (_holes(x, -999), y)),
    "zeros": _load(cancer, lambda x, y: (_holes(x, 0), y)),
    "categories": _load(wine, lambda x, y: (_categories(x), y)),
    "few categories": _load(wine, lambda x, y: (_categories(x)[:, :3], y)),
    "priced categories": _load(diabetes, lambda x, y: (_categories(x), y)),
}


def _xgb(kind: str, **options: Any) -> Fit:
    def fit(x: Any, y: Any) -> Any:
        import xgboost

        return getattr(xgboost, kind)(**{"n_estimators": 12, "max_depth": 3, "n_jobs": 1, **options}).fit(x, y)

    return fit


def _xgb_booster(rounds: int = 12, **options: Any) -> Fit:
    def fit(x: Any, y: Any) -> Any:
        import xgboost

        table = xgboost.DMatrix(x, label=y)
        if options.get("objective") == "survival:aft":
            table = xgboost.DMatrix(x, label_lower_bound=y + 1, label_upper_bound=y + 2)
        return xgboost.train({"max_depth": 3, "nthread": 1, **options}, table, rounds)

    return fit


def _xgb_ranker(objective: str) -> Fit:
    def fit(x: Any, y: Any) -> Any:
        import xgboost

        groups = np.arange(len(x)) // 20
        return xgboost.XGBRanker(objective=objective, n_estimators=12, max_depth=3, n_jobs=1).fit(x, y, qid=groups)

    return fit


def _xgb_early(x: Any, y: Any) -> Any:
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=60, max_depth=4, learning_rate=0.5, early_stopping_rounds=3, n_jobs=1)
    return model.fit(x[::2], y[::2], eval_set=[(x[1::2], y[1::2])], verbose=False)


def _xgb_categories(x: Any, y: Any) -> Any:
    import xgboost

    kinds = ["c", "c"] + ["q"] * (x.shape[1] - 2)
    return xgboost.XGBRegressor(
        n_estimators=12, max_depth=4, enable_categorical=True, feature_types=kinds, max_cat_to_onehot=1, n_jobs=1
    ).fit(x, y)


def _lgb(kind: str, **options: Any) -> Fit:
    def fit(x: Any, y: Any) -> Any:
        import lightgbm

        settings = {"n_estimators": 12, "num_leaves": 7, "n_jobs": 1, "verbose": -1, **options}
        return getattr(lightgbm, kind)(**settings).fit(x, y)

    return fit


def _lgb_booster(rounds: int = 12, categories: tuple[int, ...] = (), **options: Any) -> Fit:
    def fit(x: Any, y: Any) -> Any:
        import lightgbm

        table = lightgbm.Dataset(x, y, categorical_feature=list(categories) or "auto", params={"verbose": -1})
        settings = {"num_leaves": 7, "num_threads": 1, "verbose": -1, **options}
        return lightgbm.train(settings, table, rounds)

    return fit


def _lgb_categories(x: Any, y: Any) -> Any:
    import lightgbm

    model = lightgbm.LGBMClassifier(
        n_estimators=12, num_leaves=7, min_data_per_group=5, cat_smooth=1, n_jobs=1, verbose=-1
    )
    return model.fit(x, y, categorical_feature=[0, 1])


def _lgb_ranker(objective: str) -> Fit:
    def fit(x: Any, y: Any) -> Any:
        import lightgbm

        groups = [20] * (len(x) // 20) + ([len(x) % 20] if len(x) % 20 else [])
        model = lightgbm.LGBMRanker(objective=objective, n_estimators=12, num_leaves=7, n_jobs=1, verbose=-1)
        return model.fit(x, y, group=groups)

    return fit


def _lgb_early(x: Any, y: Any) -> Any:
    import lightgbm

    model = lightgbm.LGBMClassifier(n_estimators=60, num_leaves=15, learning_rate=0.5, n_jobs=1, verbose=-1)
    stop = lightgbm.early_stopping(3, verbose=False)
    return model.fit(x[::2], y[::2], eval_X=x[1::2], eval_y=y[1::2], callbacks=[stop])


def _cat(kind: str, **options: Any) -> Fit:
    def fit(x: Any, y: Any) -> Any:
        import catboost

        settings = {"iterations": 12, "depth": 3, "thread_count": 1, "verbose": False, "allow_writing_files": False}
        return getattr(catboost, kind)(**settings, **options).fit(x, y)

    return fit


def _cat_categories(x: Any, y: Any) -> Any:
    import catboost
    import pandas

    frame = pandas.DataFrame(x).astype({0: int, 1: int})
    model = catboost.CatBoostClassifier(iterations=5, depth=3, thread_count=1, verbose=False, allow_writing_files=False)
    return model.fit(frame, y, cat_features=[0, 1])


regressor, classifier = "XGBRegressor", "XGBClassifier"
ZOO: dict[str, tuple[Fit, str]] = {
    # XGBoost: objectives
    "xgboost reg:squarederror": (_xgb(regressor), "diabetes"),
    "xgboost reg:absoluteerror": (_xgb(regressor, objective="reg:absoluteerror"), "diabetes"),
    "xgboost reg:pseudohubererror": (_xgb(regressor, objective="reg:pseudohubererror"), "shares"),
    "xgboost reg:squaredlogerror": (_xgb(regressor, objective="reg:squaredlogerror"), "shares"),
    "xgboost reg:quantileerror": (_xgb(regressor, objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]), "diabetes"),
    "xgboost reg:logistic": (_xgb(regressor, objective="reg:logistic"), "shares"),
    "xgboost binary:logistic regressor": (_xgb(regressor, objective="binary:logistic"), "cancer"),
    "xgboost binary:logitraw regressor": (_xgb(regressor, objective="binary:logitraw"), "cancer"),
    "xgboost count:poisson": (_xgb(regressor, objective="count:poisson"), "counts"),
    "xgboost reg:gamma": (_xgb(regressor, objective="reg:gamma"), "diabetes"),
    "xgboost reg:tweedie": (_xgb(regressor, objective="reg:tweedie"), "counts"),
    "xgboost two targets": (_xgb(regressor), "two targets"),
    "xgboost multi_output_tree": (_xgb(regressor, multi_strategy="multi_output_tree", tree_method="hist"), "two targets"),
    "xgboost binary:logistic": (_xgb(classifier), "cancer"),
    "xgboost binary:hinge": (_xgb(classifier, objective="binary:hinge"), "cancer"),
    "xgboost multi:softprob": (_xgb(classifier), "wine"),
    "xgboost multi:softmax": (_xgb(classifier, objective="multi:softmax"), "wine"),
    "xgboost rank:ndcg": (_xgb_ranker("rank:ndcg"), "grades"),
    "xgboost rank:pairwise": (_xgb_ranker("rank:pairwise"), "grades"),
    "xgboost survival:cox": (_xgb_booster(objective="survival:cox"), "counts"),
    "xgboost survival:aft": (_xgb_booster(objective="survival:aft"), "counts"),
    # XGBoost: boosters and settings
    "xgboost dart": (_xgb(regressor, booster="dart", rate_drop=0.5), "diabetes"),
    "xgboost dart classifier": (_xgb(classifier, booster="dart", rate_drop=0.5), "wine"),
    "xgboost gblinear": (_xgb(regressor, booster="gblinear", max_depth=None, base_score=0.5), "diabetes"),
    "xgboost gblinear classifier": (_xgb(classifier, booster="gblinear", max_depth=None), "cancer"),
    "xgboost forest": (_xgb("XGBRFClassifier"), "wine"),
    "xgboost forest regressor": (_xgb("XGBRFRegressor"), "diabetes"),
    "xgboost base_score": (_xgb(classifier, base_score=0.2), "cancer"),
    "xgboost early stopping": (_xgb_early, "cancer"),
    "xgboost with holes": (_xgb(classifier), "holes"),
    "xgboost missing=-999": (_xgb(classifier, missing=-999.0), "marked holes"),
    "xgboost missing=0": (_xgb(classifier, missing=0.0), "zeros"),
    "xgboost categories": (_xgb_categories, "priced categories"),
    # XGBoost: native boosters
    "xgboost booster": (_xgb_booster(), "diabetes"),
    "xgboost booster binary:logistic": (_xgb_booster(objective="binary:logistic"), "cancer"),
    "xgboost booster binary:logitraw": (_xgb_booster(objective="binary:logitraw"), "cancer"),
    "xgboost booster multi:softprob": (_xgb_booster(objective="multi:softprob", num_class=3), "wine"),
    "xgboost booster multi:softmax": (_xgb_booster(objective="multi:softmax", num_class=3), "wine"),
    "xgboost booster count:poisson": (_xgb_booster(objective="count:poisson"), "counts"),
    "xgboost booster dart": (_xgb_booster(booster="dart", rate_drop=0.5), "diabetes"),
    # LightGBM: objectives
    "lightgbm regression": (_lgb("LGBMRegressor"), "diabetes"),
    "lightgbm regression_l1": (_lgb("LGBMRegressor", objective="regression_l1"), "diabetes"),
    "lightgbm huber": (_lgb("LGBMRegressor", objective="huber"), "diabetes"),
    "lightgbm fair": (_lgb("LGBMRegressor", objective="fair"), "diabetes"),
    "lightgbm quantile": (_lgb("LGBMRegressor", objective="quantile"), "diabetes"),
    "lightgbm mape": (_lgb("LGBMRegressor", objective="mape"), "diabetes"),
    "lightgbm poisson": (_lgb("LGBMRegressor", objective="poisson"), "counts"),
    "lightgbm gamma": (_lgb("LGBMRegressor", objective="gamma"), "diabetes"),
    "lightgbm tweedie": (_lgb("LGBMRegressor", objective="tweedie"), "counts"),
    "lightgbm square root": (_lgb("LGBMRegressor", reg_sqrt=True), "diabetes"),
    "lightgbm cross_entropy": (_lgb("LGBMRegressor", objective="cross_entropy"), "shares"),
    "lightgbm cross_entropy_lambda": (_lgb("LGBMRegressor", objective="cross_entropy_lambda"), "shares"),
    "lightgbm binary": (_lgb("LGBMClassifier"), "cancer"),
    "lightgbm binary sigmoid=2": (_lgb("LGBMClassifier", sigmoid=2.0), "cancer"),
    "lightgbm multiclass": (_lgb("LGBMClassifier"), "wine"),
    "lightgbm multiclassova": (_lgb("LGBMClassifier", objective="multiclassova"), "wine"),
    "lightgbm names": (_lgb("LGBMClassifier"), "named wine"),
    "lightgbm lambdarank": (_lgb_ranker("lambdarank"), "grades"),
    "lightgbm rank_xendcg": (_lgb_ranker("rank_xendcg"), "grades"),
    # LightGBM: boosters and settings
    "lightgbm dart": (_lgb("LGBMRegressor", boosting_type="dart", drop_rate=0.5), "diabetes"),
    "lightgbm forest": (_lgb("LGBMClassifier", boosting_type="rf", subsample=0.6, subsample_freq=1), "cancer"),
    "lightgbm forest regressor": (_lgb("LGBMRegressor", boosting_type="rf", subsample=0.6, subsample_freq=1), "diabetes"),
    "lightgbm linear_tree": (_lgb("LGBMRegressor", linear_tree=True), "diabetes"),
    "lightgbm early stopping": (_lgb_early, "cancer"),
    "lightgbm with holes": (_lgb("LGBMClassifier"), "holes"),
    "lightgbm use_missing=false": (_lgb("LGBMClassifier", use_missing=False), "holes"),
    "lightgbm zero_as_missing": (_lgb("LGBMClassifier", zero_as_missing=True), "zeros"),
    "lightgbm categories": (_lgb_categories, "categories"),
    # LightGBM: native boosters
    "lightgbm booster": (_lgb_booster(), "diabetes"),
    "lightgbm booster binary": (_lgb_booster(objective="binary"), "cancer"),
    "lightgbm booster multiclass": (_lgb_booster(objective="multiclass", num_class=3), "wine"),
    "lightgbm booster categories": (_lgb_booster(categories=(0, 1), min_data_per_group=5, cat_smooth=1), "priced categories"),
    # CatBoost
    "catboost RMSE": (_cat("CatBoostRegressor"), "diabetes"),
    "catboost Poisson": (_cat("CatBoostRegressor", loss_function="Poisson"), "counts"),
    "catboost Quantile": (_cat("CatBoostRegressor", loss_function="Quantile:alpha=0.7"), "diabetes"),
    "catboost Logloss": (_cat("CatBoostClassifier"), "cancer"),
    "catboost MultiClass": (_cat("CatBoostClassifier"), "wine"),
    "catboost MultiClassOneVsAll": (_cat("CatBoostClassifier", loss_function="MultiClassOneVsAll"), "wine"),
    "catboost names": (_cat("CatBoostClassifier"), "named wine"),
    "catboost with holes": (_cat("CatBoostClassifier"), "holes"),
    "catboost lossguide": (_cat("CatBoostRegressor", grow_policy="Lossguide"), "diabetes"),
    "catboost categories": (_cat_categories, "few categories"),
}  # fmt: skip


@cache
def fitted(name: str) -> Any:
    """The model, fitted to all of its data."""
    fit, kind = ZOO[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks of the libraries about their own settings
        return fit(*data(kind))


def example(name: str) -> Arrays:
    """Rows of the data."""
    table = data(ZOO[name][1])[0]
    return {"X": np.ascontiguousarray(table[:: max(1, len(table) // ROWS)][:ROWS])}
