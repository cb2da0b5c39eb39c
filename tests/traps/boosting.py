"""XGBoost, LightGBM and CatBoost: categories, missing values and types."""

from __future__ import annotations

from typing import Any

import numpy as np

from traps._trap import Array, Arrays, Traps

TRAPS = Traps("boosting", live=True, inputs=())
add = TRAPS.add
CATEGORIES, MISSING, PRECISION = "categories", "missing values", "precision"
NAN = float("nan")


def data(seed: int = 0, rows: int = 200) -> tuple[Array, Array]:
    """A column of categories 0 to 6, two of numbers, and a target that needs all three."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 7, rows)
    numbers = random.standard_normal((rows, 2))
    target = np.array([3, -1, 4, 1, -5, 9, 2])[codes] + numbers[:, 0] * 2 + (numbers[:, 1] > 0)
    return np.column_stack([codes, numbers]).astype(np.float32), target


def coded(*codes: float) -> dict[str, Any]:
    """The fields of a model of categories: every known code, and these."""

    def cases(_: np.random.Generator) -> list[Arrays]:
        known = data(1, 60)[0]
        others = np.array([[code, 0.3, -0.2] for code in codes], np.float32)
        return [{"X": known}, *([{"X": others}] if codes else [])]

    return {"example": lambda: {"X": data()[0][:4]}, "cases": cases}


def holed(x: Array, hole: float = NAN) -> Array:
    x = x.copy()
    x[::3, 1], x[::4, 0] = hole, hole
    return x


def missing(*rows: list[float], hole: float = NAN) -> dict[str, Any]:
    """The fields of a model of data with holes: other data with holes, and these rows."""

    def cases(_: np.random.Generator) -> list[Arrays]:
        return [{"X": holed(data(1, 60)[0], hole)}, {"X": np.array(rows, np.float32)}]

    return {"example": lambda: {"X": data()[0][:4]}, "cases": cases}


def xgboost(x: Array, y: Array, **options: Any) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1, **options).fit(x, y)


def lightgbm(x: Array, y: Array, categories: Any = "auto", **options: Any) -> Any:
    from lightgbm import LGBMRegressor

    settings = {"n_estimators": 8, "num_leaves": 7, "min_child_samples": 5, "n_jobs": 1, "verbose": -1, **options}
    return LGBMRegressor(**settings).fit(x, y, categorical_feature=categories)


def catboost(x: Any, y: Array, categories: Any = None, **options: Any) -> Any:
    from catboost import CatBoostRegressor

    settings = {
        "iterations": 8,
        "depth": 3,
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
        **options,
    }
    return CatBoostRegressor(**settings).fit(x, y, cat_features=categories)


@add(CATEGORIES, **coded(*range(7)))
def xgboost_categories() -> Any:
    """Splits by sets of categories."""
    x, y = data()
    return xgboost(
        x, y, enable_categorical=True, feature_types=["c", "q", "q"], max_cat_to_onehot=1, tree_method="hist"
    )


@add(CATEGORIES, **coded(7, 50, -1, NAN))
def lightgbm_unseen_categories() -> Any:
    """Codes that were never seen, negative ones and holes go to the right."""
    x, y = data()
    return lightgbm(x, y, [0], min_data_per_group=5, cat_smooth=1)


@add(CATEGORIES, **coded(0.5, 2.9, 6.999))
def lightgbm_fractional_categories() -> Any:
    """A code with a fraction counts as its whole part."""
    x, y = data()
    return lightgbm(x, y, [0], min_data_per_group=5, cat_smooth=1)


@add(CATEGORIES, **coded(0, 1, 2, 3, 4, 5, 6), expect="refuse")
def catboost_categories() -> Any:
    """CatBoost's categories are replaced by statistics that its ONNX form does not have."""
    x, y = data()
    rows = [[int(row[0]), float(row[1]), float(row[2])] for row in x]
    return catboost(rows, y, [0], one_hot_max_size=10)


TRAPS[-1] = TRAPS[-1].but(
    call=lambda model, arrays: [model.predict([[int(r[0]), float(r[1]), float(r[2])] for r in arrays["X"]])]
)


@add(MISSING, **missing([NAN, NAN, NAN], [1, NAN, 0], [NAN, 5, -5]))
def xgboost_holes() -> Any:
    """Every split has a side for holes."""
    x, y = data()
    return xgboost(holed(x), y)


@add(MISSING, **missing([-999, -999, -999], [1, -999, 0], hole=-999))
def xgboost_marked_holes() -> Any:
    """Holes are marked by a number, which is no number to the trees."""
    x, y = data()
    return xgboost(holed(x, -999), y, missing=-999.0)


@add(MISSING, **missing([0, 0, 0], [1, NAN, 0], [1e-36, -1e-36, 0]))
def lightgbm_zeros_are_holes() -> Any:
    """Zeros are taken for holes."""
    x, y = data()
    return lightgbm(holed(x, 0), y, zero_as_missing=True)


@add(MISSING, **missing([NAN, NAN, NAN], [1, NAN, 0]))
def lightgbm_without_holes() -> Any:
    """Fitted without holes, it takes a hole for zero."""
    x, y = data()
    return lightgbm(x, y, use_missing=False)


@add(MISSING, **missing([NAN, NAN, NAN], [1, NAN, 0]))
def catboost_holes_are_largest() -> Any:
    """Holes are larger than every number."""
    x, y = data()
    return catboost(holed(x), y, nan_mode="Max")


@add(MISSING, honest=True, **missing([1, 2, 3], [-1, 5, 0], hole=1.0))
def xgboost_without_holes() -> Any:
    """Plain numbers."""
    return xgboost(*data())


@add(
    PRECISION,
    example=lambda: {"X": data()[0][:4]},
    cases=lambda _: [{"X": data(2, 100)[0]}],
)
def xgboost_scaled_target() -> Any:
    """A logistic link on top of the trees, and a base score."""
    x, y = data()
    return xgboost(x, (y > 2).astype(float), objective="reg:logistic", base_score=0.3)


@add(
    PRECISION,
    example=lambda: {"X": data()[0][:4] + np.float32(4e6)},
    cases=lambda _: [{"X": data(2, 100)[0].astype(np.float64) * 0.01 + 4e6}],
    inputs=("X=float64[batch,3]",),
)
def lightgbm_of_large_doubles() -> Any:
    """LightGBM compares in float64; four million and a hundredth is four million in float32."""
    x, y = data()
    return lightgbm(x.astype(np.float64) * 0.01 + 4e6, y)


@add(
    "integer arithmetic",
    honest=True,
    inputs=("X=float32[batch,3]",),
    example=lambda: {"X": np.array([[1, 2, 3], [4, 5, 6]], np.float32)},
    cases=lambda _: [{"X": np.array([[-1, -2, -3], [0, 0, 0], [6, 100, 2]], np.float32)}],
)
def lightgbm_of_counts() -> Any:
    """Whole numbers, with thresholds half-way between them."""
    x = np.random.default_rng(0).integers(-5, 6, (200, 3)).astype(np.float32)
    return lightgbm(x, x[:, 0] * 2 + (x[:, 1] > 2))


@add(
    "empty and single-element inputs",
    honest=True,
    example=lambda: {"X": data()[0][:2]},
    cases=lambda _: [{"X": data()[0][:1]}, {"X": data()[0][:9]}],
)
def catboost_one_row() -> Any:
    """One row at a time."""
    return catboost(*data())
