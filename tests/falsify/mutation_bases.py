"""Small models that export rightly, into whose exports `mutations.py` seeds faults."""

# ruff: noqa: E501  a table reads best with one row a line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
TOKENS = 60


@dataclass(frozen=True)
class Base:
    """A model, its inputs as `convert` takes them, an example and the route that exports it rightly."""

    name: str
    factory: Callable[[], Any]
    inputs: tuple[str, ...]
    example: Callable[[], Arrays]
    route: str = "trace"

    @property
    def written_in_torch(self) -> bool:
        return isinstance(self.factory, type) and issubclass(self.factory, nn.Module)


def positive(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Values between 0.3 and 1.9, so that an example by itself meets none of the conditions."""
    return np.random.default_rng(seed).uniform(0.3, 1.9, shape).astype(dtype)


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5, -1)
        return (x + scores @ self.value(x)).mean(1)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(TOKENS, 6), nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(ids)).mean(1))


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 5), nn.Linear(4, 5)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.tanh(self.left(a)) * torch.sigmoid(self.right(b))


class Counters(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 3 + 1, x.sum(1) - x[:, 0]


class Steered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        return self.linear(x) * (k + 1)


class Flagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor, flag: Tensor) -> Tensor:
        return torch.where(flag, torch.relu(self.linear(x)), self.linear(x))


class Averages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = (torch.arange(x.size(1))[None, :] < lengths[:, None]).float()
        return self.linear((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1))


class Profile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(40, 3), nn.Linear(6, 2)

    def forward(self, id: Tensor, x: Tensor) -> Tensor:
        return self.linear(torch.cat([self.table(id), torch.tanh(x)], 1))


class Narrow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + 1


class Doubles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(functional.silu(x))


class Pixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)

    def forward(self, image: Tensor) -> Tensor:
        return self.linear(image.float().flatten(1) / 255)


class HoleFiller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.where(torch.isnan(x), torch.zeros_like(x), x).clamp(-1e4, 1e4))


def forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    x = np.random.default_rng(0).uniform(-2, 2, (300, 4)).astype(np.float32)
    target = (x[:, 0] * x[:, 1] > 0) + (x[:, 2] > 1)
    return RandomForestClassifier(6, max_depth=5, random_state=0).fit(x, target.astype(int))


def logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.random.default_rng(1).uniform(-2, 4, (200, 4)).astype(np.float32)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(x, (x.sum(1) > 3).astype(int))


WORDS = ("coffee", "cake", "tea", "milk", "sugar", "good", "bad", "fresh", "stale", "warm")
DOCUMENTS = [" ".join(WORDS[(i + j * j) % 10] for j in range(1 + i % 4)) for i in range(40)]


def texts() -> Any:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    vectorizer = CountVectorizer(lowercase=False, token_pattern="[a-z]+")
    sides = np.arange(40) % 3
    return make_pipeline(vectorizer, MultinomialNB()).fit(DOCUMENTS, sides)


COLOURS = ("red", "green", "blue", "white", "black", "pink", "brown", "gold")
PLACES = ("north", "south", "east", "west")


def frame() -> Any:
    import pandas
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    table = pandas.DataFrame({
        "colour": [COLOURS[i % 8] for i in range(40)], "place": [PLACES[i * 3 % 4] for i in range(40)],
        "size": np.linspace(-2, 5, 40),
    })  # fmt: skip
    parts = [("w", OneHotEncoder(handle_unknown="ignore"), ["colour", "place"]), ("n", StandardScaler(), ["size"])]
    return make_pipeline(ColumnTransformer(parts), Ridge()).fit(table, np.arange(40.0) % 7)


def holed_trees() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    x = np.random.default_rng(2).uniform(-2, 2, (200, 3)).astype(np.float32)
    x[::7, 1] = np.nan
    return HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=5).fit(x, np.nan_to_num(x).sum(1) * 3)


def boosted_trees() -> Any:
    from xgboost import XGBRegressor

    x = np.random.default_rng(3).uniform(-2, 2, (200, 3)).astype(np.float32)
    return XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1).fit(x, x[:, 0] * 4 - (x[:, 1] > 0) * 3)


def keras_layers() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    layers = [
        keras.Input((5,), name="x"),
        keras.layers.Dense(8, activation="tanh"),
        keras.layers.Dense(3, activation="softmax"),
    ]
    return keras.Sequential(layers)


def keras_words() -> Any:
    import keras

    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((4,), dtype="int32", name="x"),
        keras.layers.Embedding(30, 4),
        keras.layers.Flatten(),
        keras.layers.Dense(2),
    ]
    return keras.Sequential(layers)


def jax_layers() -> Any:
    import jax
    import jax.numpy as jnp

    random = np.random.default_rng(5)
    first, second = (jnp.asarray(random.standard_normal(shape), jnp.float32) for shape in ((4, 8), (8, 3)))

    def forward(x: Any) -> Any:
        return jax.nn.sigmoid(jnp.tanh(x @ first) @ second)

    return forward


def cells(*values: str) -> Array:
    return np.array(values, dtype=object)[:, None]


BASES = (
    Base("perceptron", Perceptron, ("x=float32[n,6]",), lambda: {"x": positive(3, 6)}),
    Base("convolutions", Convolutions, ("image=float32[n,1,8,8]",), lambda: {"image": positive(2, 1, 8, 8)}),
    Base("attention", Attention, ("x=float32[n,length,8]",), lambda: {"x": positive(2, 4, 8)}),
    Base("words", Words, ("ids=int64[n,length]",), lambda: {"ids": np.array([[1, 2, 3, 4], [6, 8, 2, 1]])}),
    Base("two towers", TwoTowers, ("a=float32[n,4]", "b=float32[n,4]"), lambda: {"a": positive(3, 4), "b": positive(3, 4, seed=1)}),
    Base("counters", Counters, ("x=int64[n,5]",), lambda: {"x": np.array([[1, 2, 3, 4, 6], [7, 8, 9, 2, 4]])}),
    Base("steered", Steered, ("x=float32[n,4]", "k=int64[]"), lambda: {"x": positive(3, 4), "k": np.array(2)}),
    Base("flagged", Flagged, ("x=float32[n,4]", "flag=bool[]"), lambda: {"x": positive(3, 4), "flag": np.array(False)}),
    Base("averages", Averages, ("x=float32[n,length,3]", "lengths=int64[n]"), lambda: {"x": positive(2, 4, 3), "lengths": np.array([4, 2])}),
    Base("profile", Profile, ("id=int64[n]", "x=float32[n,3]"), lambda: {"id": np.array([3, 11, 7]), "x": positive(3, 3)}),
    Base("narrow", Narrow, ("x=int32[n,4]",), lambda: {"x": np.array([[1, 2, 3, 4], [6, 2, 7, 8]], np.int32)}),
    Base("doubles", Doubles, ("x=float64[n,3]",), lambda: {"x": positive(3, 3, dtype=np.float64)}),
    Base("pixels", Pixels, ("image=uint8[n,4,4]",), lambda: {"image": np.arange(32, dtype=np.uint8).reshape(2, 4, 4) * 6 + 4}),
    Base("hole filler", HoleFiller, ("x=float32[n,5]",), lambda: {"x": positive(3, 5)}),
    Base("forest", forest, ("X=float32[batch,4]",), lambda: {"X": positive(4, 4)}, "skl2onnx"),
    Base("logistic", logistic, ("X=float32[batch,4]",), lambda: {"X": positive(4, 4)}, "skl2onnx"),
    Base("texts", texts, ("X=string[batch,1]",), lambda: {"X": cells("coffee cake", "good tea", "warm milk")}, "skl2onnx"),
    Base("frame", frame, (), lambda: {"colour": cells("red", "blue"), "place": cells("north", "east"), "size": positive(2, 1)}, "skl2onnx"),
    Base("holed trees", holed_trees, ("X=float32[batch,3]",), lambda: {"X": positive(4, 3)}, "skl2onnx"),
    Base("boosted trees", boosted_trees, ("X=float32[batch,3]",), lambda: {"X": positive(4, 3)}, "trees"),
    Base("Keras layers", keras_layers, (), lambda: {"x": positive(3, 5)}, "keras"),
    Base("Keras words", keras_words, (), lambda: {"x": np.array([[1, 2, 3, 4], [7, 8, 6, 2]], np.int32)}, "keras"),
    Base("JAX layers", jax_layers, ("x=float32[n,4]",), lambda: {"x": positive(3, 4)}, "jax2onnx"),
)  # fmt: skip
