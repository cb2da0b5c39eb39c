"""scikit-learn estimators and pipelines: texts, categories, holes and numbers that float32 does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from traps._oracle import call_with_frame, call_with_texts
from traps._trap import Array, Arrays, Traps

TRAPS = Traps("sklearn", live=True, inputs=())
add = TRAPS.add
NAN = float("nan")


def cells(*values: Any, dtype: Any = object) -> Array:
    """A column [n, 1]."""
    return np.array(values, dtype=dtype)[:, None]


# Texts.

TEXT = "text"
DOCUMENTS = [
    "the café serves a crème brûlée", "the café is closed", "good coffee and good cake", "a naïve façade",
    "don't stop me now", "don't do it", "it's a good day", "stop it now", "the day is good", "bad coffee, bad cake",
    "très bien", "pas très bon", "word_1 and word_2", "the 2nd of 3 days", "UPPER and lower Case",
]  # fmt: skip
SIDES = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0])
PLAIN = [
    "good coffee and cake",
    "bad coffee",
    "good day",
    "bad day and bad cake",
    "coffee day",
    "cake and coffee and day",
]


def texts(*values: str) -> dict[str, Any]:
    """The fields of a model of texts whose cases are the documents it was fitted on, and these."""

    def cases(_: np.random.Generator) -> list[Arrays]:
        return [{"X": cells(*DOCUMENTS)}, {"X": cells(*(values or DOCUMENTS[:1]))}]

    return {"example": lambda: {"X": cells(*PLAIN[:3])}, "cases": cases, "call": call_with_texts}


def classified(vectorizer: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(vectorizer, LogisticRegression(C=10)).fit(DOCUMENTS, SIDES)


@add(TEXT, **texts("le café est fermé", "crème", "CAFÉ", "cafe"))
def accents() -> Any:
    """Letters with accents are letters to scikit-learn's token pattern."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return classified(TfidfVectorizer())


@add(TEXT, **texts("don't", "it's don't stop", "stop'it", "'quoted' words"))
def bigrams_with_apostrophe() -> Any:
    """An apostrophe separates, and pairs of words are joined across it."""
    from sklearn.feature_extraction.text import CountVectorizer

    return classified(CountVectorizer(ngram_range=(1, 2)))


@add(TEXT, **texts("a b c", "I a day", "x", "2 3"))
def single_letters() -> Any:
    """Words of one letter are dropped, also from pairs."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return classified(TfidfVectorizer(ngram_range=(1, 2)))


@add(TEXT, **texts("CAFÉ UPPER", "ÉÀÇ TRÈS", "STRASSE Straße", "İstanbul"))
def upper_case_accents() -> Any:
    """Lower case of letters beyond ASCII."""
    from sklearn.feature_extraction.text import CountVectorizer

    return classified(CountVectorizer(binary=True))


@add(TEXT, **texts("ab", "x", "good  cake", "é", "a\nb"))
def letters_within_words() -> Any:
    """Groups of letters, with the borders of words as blanks."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return classified(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)))


@add(TEXT, **texts("ab", "good\tcake", "x y", "é", "good   cake"))
def letters() -> Any:
    """Groups of letters across words, where runs of blanks become one."""
    from sklearn.feature_extraction.text import CountVectorizer

    return classified(CountVectorizer(analyzer="char", ngram_range=(1, 2)))


@add(TEXT, **texts("cafe creme", "café crème", "ñandú"))
def accents_stripped() -> Any:
    """Accents are taken off before words are looked up."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return classified(TfidfVectorizer(strip_accents="unicode"))


@add(TEXT, **texts("", "   ", "?!...", "\n"))
def empty_texts() -> Any:
    """Texts without any word."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return classified(TfidfVectorizer(sublinear_tf=True))


@add(TEXT, **texts("good-day", "word_1word_2", "bad,cake", "good.day"))
def own_pattern() -> Any:
    """A token pattern of the user's own: what is not blank."""
    from sklearn.feature_extraction.text import CountVectorizer

    return classified(CountVectorizer(token_pattern=r"\S+"))


@add(TEXT, **texts("the good", "and the", "is a day"))
def stop_words() -> Any:
    """Stop words are left out before pairs are made."""
    from sklearn.feature_extraction.text import CountVectorizer

    return classified(CountVectorizer(stop_words=["the", "is", "and"], ngram_range=(1, 2)))


@add(TEXT, **texts("хороший день", "日本 coffee", "😀 good 😀", "good\u00a0day"))
def other_scripts() -> Any:
    """Words of other scripts, and blanks that are not ASCII."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    known = [*DOCUMENTS, "хороший день", "плохой день", "good 日本"]
    return make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(known, [*SIDES, 0, 1, 1])


def plain_cases(_: np.random.Generator) -> list[Arrays]:
    return [{"X": cells(*PLAIN)}, {"X": cells("cake cake cake", "good bad", "nothing known")}]


@add(TEXT, honest=True, example=lambda: {"X": cells(*PLAIN[:3])}, cases=plain_cases, call=call_with_texts)
def plain_words() -> Any:
    """Lower-case ASCII words that are separated by blanks."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    vectorizer = CountVectorizer(lowercase=False, token_pattern="[a-z]+")
    return make_pipeline(vectorizer, MultinomialNB()).fit(PLAIN, [0, 1, 0, 1, 0, 1])


@add(TEXT, honest=True, example=lambda: {"X": cells(*PLAIN[:3])}, cases=plain_cases, call=call_with_texts)
def plain_frequencies() -> Any:
    """Frequencies of ASCII words, without a classifier."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(lowercase=False, token_pattern="[a-z]+").fit(PLAIN)


# Categories.

CATEGORIES = "categories"
COLOURS = ["red", "green", "blue", "deep red", "green", "red", "blue", "red"]
PLACES = ["north", "south", "south", "north", "east", "east", "north", "south"]
PRICES = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
TWO = np.stack([COLOURS, PLACES], 1).astype(object)


def words(*rows: tuple[str, str]) -> dict[str, Any]:
    """The fields of a model of two columns of words: those it was fitted on, and these rows."""

    def cases(_: np.random.Generator) -> list[Arrays]:
        return [{"X": TWO}, *([{"X": np.array(rows, dtype=object)}] if rows else [])]

    return {"example": lambda: {"X": TWO[:3]}, "cases": cases}


def priced(encoder: Any) -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    return make_pipeline(encoder, Ridge(alpha=0.1)).fit(TWO, PRICES)


@add(CATEGORIES, **words(("purple", "north"), ("Red", "south"), ("red ", "east"), ("", "north")))
def unknown_ignored() -> Any:
    """Unknown words, other case and trailing blanks count as nothing."""
    from sklearn.preprocessing import OneHotEncoder

    return priced(OneHotEncoder(handle_unknown="ignore"))


@add(CATEGORIES, **words(("purple", "north"), ("red", "nowhere")))
def unknown_is_minus_one() -> Any:
    """Unknown words get a number of their own."""
    from sklearn.preprocessing import OrdinalEncoder

    return priced(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1))


@add(CATEGORIES, **words(("deep red", "north"), ("blue", "east"), ("purple", "south")))
def infrequent_together() -> Any:
    """Rare categories share one column, unknown ones as well."""
    from sklearn.preprocessing import OneHotEncoder

    return priced(OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist"))


@add(CATEGORIES, **words(("blue", "east")))
def first_dropped() -> Any:
    """The first category of each column has no column."""
    from sklearn.preprocessing import OneHotEncoder

    return priced(OneHotEncoder(drop="first"))


@add(CATEGORIES, **words(("deep red", "east"), ("purple", "south")))
def mean_of_category() -> Any:
    """A category becomes the mean of its target."""
    from sklearn.preprocessing import TargetEncoder

    return TargetEncoder(target_type="continuous", smooth=1.0, cv=2, random_state=0).fit(TWO, PRICES)


@add(
    CATEGORIES,
    example=lambda: {"X": np.array([[1, 10], [2, 20]], np.int64)},
    inputs=("X=int64[batch,2]",),
    cases=lambda _: [{"X": np.array([[1, 10], [-1, 30], [7, 20], [2, -10], [99, 10]], np.int64)}],
)
def numbered_categories() -> Any:
    """Categories that are integers, negative ones among them, and unknown ones."""
    from sklearn.preprocessing import OneHotEncoder

    known = np.array([[1, 10], [2, 20], [-1, 30], [7, -10]], np.int64)
    return OneHotEncoder(handle_unknown="ignore").fit(known)


@add(
    CATEGORIES,
    example=lambda: {"X": np.array([[0.1], [0.5]])},
    inputs=("X=float64[batch,1]",),
    cases=lambda _: [{"X": np.array([[0.1], [0.2], [0.3], [0.5], [0.30000000000000004]])}],
)
def fractions_as_categories() -> Any:
    """0.1 is not 0.1 after a detour through float32."""
    from sklearn.preprocessing import OneHotEncoder

    return OneHotEncoder(handle_unknown="ignore").fit(np.array([[0.1], [0.2], [0.3], [0.5]]))


def frame() -> Any:
    import pandas

    return pandas.DataFrame({"colour": COLOURS, "size": np.arange(8.0), "place": PLACES, "unused": np.ones(8)})


def columns(colours: list[str], sizes: list[float], places: list[str]) -> Arrays:
    return {
        "colour": cells(*colours), "size": cells(*sizes, dtype=np.float32), "place": cells(*places),
        "unused": cells(*[1.0] * len(sizes), dtype=np.float32),
    }  # fmt: skip


@add(
    CATEGORIES,
    call=call_with_frame,
    example=lambda: columns(["red", "green"], [1.0, 2.0], ["north", "south"]),
    cases=lambda _: [
        columns(["red", "blue", "deep red"], [0.5, -3.0, 100.0], ["east", "north", "south"]),
        columns(["purple", "RED"], [1.0, 2.0], ["nowhere", "north"]),
    ],
)
def frame_of_words_and_numbers() -> Any:
    """A data frame with columns of both kinds, in another order than the transformer's, and one that is dropped."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    parts = [("n", StandardScaler(), ["size"]), ("w", OneHotEncoder(handle_unknown="ignore"), ["place", "colour"])]
    return make_pipeline(ColumnTransformer(parts), Ridge()).fit(frame(), PRICES)


@add(CATEGORIES, honest=True, **words())
def plain_one_hot() -> Any:
    """Known words only."""
    from sklearn.preprocessing import OneHotEncoder

    return priced(OneHotEncoder(sparse_output=False))


@add(CATEGORIES, honest=True, **words())
def plain_ordinal() -> Any:
    """Known words as numbers, and a tree."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder
    from sklearn.tree import DecisionTreeClassifier

    return make_pipeline(OrdinalEncoder(), DecisionTreeClassifier(random_state=0)).fit(TWO, [0, 1, 1, 0, 1, 0, 1, 0])


# Missing values.

MISSING = "missing values"
HOLED = np.array([[1, NAN, 3], [4, 5, NAN], [7, 8, 9], [NAN, 2, 1], [3, 3, 3], [2, 7, 5]], np.float32)
HALVES = np.array([0, 1, 1, 0, 0, 1])


def holes(*rows: list[float]) -> dict[str, Any]:
    """The fields of a model of three numbers, some of which are missing: what it was fitted on, and these rows."""

    def cases(_: np.random.Generator) -> list[Arrays]:
        return [{"X": HOLED}, {"X": np.array(rows or [[NAN, NAN, NAN]], np.float32)}]

    return {"example": lambda: {"X": HOLED[2:3].repeat(2, 0)}, "cases": cases}


@add(MISSING, **holes([NAN, NAN, NAN], [1, NAN, 100]))
def mean_for_holes() -> Any:
    """Holes get the mean, and columns that say where they were."""
    from sklearn.impute import SimpleImputer

    return SimpleImputer(add_indicator=True).fit(HOLED)


@add(MISSING, **holes([NAN, 1, 2], [5, NAN, NAN], [NAN, NAN, NAN]))
def neighbours_for_holes() -> Any:
    """Holes get the mean of the nearest rows."""
    from sklearn.impute import KNNImputer

    return KNNImputer(n_neighbors=2).fit(HOLED)


@add(MISSING, **holes([NAN, NAN, NAN], [NAN, 4, 4], [1e30, NAN, -1e30]))
def trees_with_holes() -> Any:
    """Every split has a side for holes."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    x = np.random.default_rng(0).standard_normal((120, 3)).astype(np.float32)
    x[::5, 0] = NAN
    return HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5).fit(
        x, (np.nan_to_num(x[:, 0], nan=2) > 0).astype(int)
    )


@add(
    MISSING,
    example=lambda: {"X": np.array([[1.0, 2.0], [-999.0, 4.0]], np.float32)},
    cases=lambda _: [{"X": np.array([[-999, 5], [-999, -999], [3, 1]], np.float32)}],
)
def marked_holes() -> Any:
    """Holes are marked by a number."""
    from sklearn.impute import SimpleImputer

    return SimpleImputer(missing_values=-999, strategy="median").fit(
        np.array([[1, 2], [-999, 4], [5, -999], [9, 9]], np.float32)
    )


@add(MISSING, honest=True, **holes([NAN, NAN, 1], [4, 4, 4]))
def filled_and_classified() -> Any:
    """Filled, scaled and classified."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(HOLED, HALVES)


# Precision.

PRECISION = "precision"


def table(rows: int, columns: int, scale: float = 1.0, offset: float = 0.0, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, columns)) * scale + offset


def wide(*tables: Array) -> dict[str, Any]:
    """The fields of a model that was fitted on float64 and is asked with float64."""
    return {
        "inputs": (f"X=float64[batch,{tables[0].shape[1]}]",),
        "example": lambda: {"X": tables[0][:3]},
        "cases": lambda _: [{"X": one} for one in tables],
    }


@add(PRECISION, **wide(table(50, 4, 1e3, 1e7), table(50, 4, 1e4, -1e7)))
def ridge_on_large_values() -> Any:
    """Large values with a small spread: float32 leaves nothing of the spread."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = table(80, 4, 1e3, 1e7, seed=1)
    return make_pipeline(StandardScaler(), Ridge()).fit(x, (x - 1e7) @ [1, 2, 3, 4])


def framed(*tables: Array) -> dict[str, Any]:
    """As `wide`, but nothing is said about types: the example alone is float64, as a data frame's columns are."""
    return {**wide(*tables), "inputs": ()}


@add(PRECISION, **framed(table(50, 4, 1e3, 1e6), table(50, 4, 1e4, -1e6)))
def ridge_on_a_float64_frame() -> Any:
    """The same, where only the example shows that the values are float64."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = table(80, 4, 1e-2, 1e6, seed=1)
    return make_pipeline(StandardScaler(), Ridge()).fit(x, (x - 1e6) @ [1, 2, 3, 4])


@add(PRECISION, **framed(table(400, 3), table(400, 3, seed=5)))
def forest_on_a_float64_frame() -> Any:
    """A forest behind a scaler, fitted on float64 and asked with the rows that it was fitted on."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.concatenate([table(400, 3), table(400, 3, seed=5)])
    return make_pipeline(StandardScaler(), RandomForestClassifier(8, random_state=0)).fit(
        x, (x @ [5, -3, 9] > 0).astype(int)
    )


@add(PRECISION, **wide(table(400, 3), table(400, 3, seed=5)))
def forest_of_doubles() -> Any:
    """Thresholds lie between values of float64, close to where float32 rounds to the other side."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.concatenate([table(400, 3), table(400, 3, seed=5)])
    return make_pipeline(StandardScaler(), RandomForestRegressor(8, random_state=0)).fit(x, x @ [5, -3, 100])


@add(
    PRECISION,
    inputs=("X=float64[batch,1]",),
    example=lambda: {"X": np.array([[1.0], [2.0]])},
    cases=lambda _: [{"X": np.array([[16777216.0], [16777217.0], [16777218.0], [16777219.0]])}],
)
def tree_of_large_identifiers() -> Any:
    """Identifiers above 2^24 have no float32 of their own. The tree itself reads float32."""
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=0).fit([[16777216.0], [16777218.0], [16777220.0], [1.0]], [0, 1, 0, 1])


@add(PRECISION, **wide(np.linspace(1.7e9, 1.7e9 + 86400, 30)[:, None]))
def bins_of_time_stamps() -> Any:
    """Seconds since 1970 in hourly bins."""
    from sklearn.preprocessing import KBinsDiscretizer

    x = np.linspace(1.7e9, 1.7e9 + 86400, 200)[:, None]
    return KBinsDiscretizer(24, encode="ordinal", strategy="uniform", quantile_method="averaged_inverted_cdf").fit(x)


@add(PRECISION, **wide(table(20, 3, 1.0, 1e5)))
def components_far_from_zero() -> Any:
    """Principal components of data with a large mean."""
    from sklearn.decomposition import PCA

    return PCA(2).fit(table(60, 3, 1.0, 1e5, seed=2))


@add(PRECISION, **wide(table(20, 2, 300.0)))
def cubes() -> Any:
    """Products of three large values beside small ones."""
    from sklearn.preprocessing import PolynomialFeatures

    return PolynomialFeatures(3).fit(table(10, 2))


@add(PRECISION, **wide(table(20, 3, 1.0, 1e4)))
def neighbours_far_from_zero() -> Any:
    """Distances by way of squares lose the digits that tell neighbours apart."""
    from sklearn.neighbors import KNeighborsClassifier

    x = table(40, 3, 1.0, 1e4, seed=3)
    return KNeighborsClassifier(3).fit(x, (x[:, 0] > 1e4).astype(int))


@add(
    PRECISION,
    honest=True,
    example=lambda: {"X": table(3, 4).astype(np.float32)},
    cases=lambda _: [{"X": table(50, 4).astype(np.float32)}],
)
def plain_logistic() -> Any:
    """Scaled values of about one."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = table(60, 4).astype(np.float32)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(x, (x[:, 0] + x[:, 1] > 0).astype(int))


@add(
    PRECISION,
    honest=True,
    example=lambda: {"X": np.ones((4, 3), np.float32)},
    cases=lambda _: [{"X": np.ones((6, 3), np.float32)}, {"X": table(20, 3).astype(np.float32)}],
)
def equal_rows() -> Any:
    """Rows that are equal have equal scores, up to rounding."""
    from sklearn.svm import SVC

    x = table(60, 3).astype(np.float32)
    return SVC(kernel="rbf").fit(x, (x @ [1, 1, 1] > 0).astype(int))


# Chance.


@add(
    "random",
    expect="random",
    example=lambda: {"X": np.ones((6, 2), np.float32)},
    cases=lambda _: [{"X": np.ones((20, 2), np.float32)}],
)
def drawn_labels() -> Any:
    """A dummy that draws its answers."""
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(strategy="stratified").fit(np.zeros((6, 2)), [0, 1, 2, 0, 1, 2])


# Types of labels and numbers.

PROMOTION = "dtype promotion"


@add(
    PROMOTION,
    example=lambda: {"X": table(4, 2).astype(np.float32)},
    cases=lambda _: [{"X": table(30, 2).astype(np.float32)}],
)
def labels_of_words() -> Any:
    """Labels are words of different lengths."""
    from sklearn.linear_model import LogisticRegression

    x = table(60, 2)
    return LogisticRegression().fit(x, np.array(["no", "perhaps"])[(x[:, 0] > 0).astype(int)])


@add(
    PROMOTION,
    example=lambda: {"X": np.array([[1, 2], [3, 4]], np.int64)},
    inputs=("X=int64[batch,2]",),
    cases=lambda _: [{"X": np.array([[-5, 2], [10**6, 4], [0, 0]], np.int64)}],
)
def integers_into_scaler() -> Any:
    """Integers are scaled as floats."""
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit(np.array([[1, 2], [3, 5], [8, 8]], np.int64))


# Tables.

TABLES = "tables and vocabularies"
NAMES = np.array([f"name {number}" for number in range(300)], dtype=object)


@add(
    TABLES,
    honest=True,
    example=lambda: {"X": NAMES[:4, None]},
    cases=lambda _: [{"X": NAMES[:, None]}],
)
def three_hundred_names() -> Any:
    """A vocabulary of three hundred, one by one."""
    from sklearn.preprocessing import OrdinalEncoder

    return OrdinalEncoder().fit(NAMES[:, None])


@add(
    TABLES,
    example=lambda: {"X": np.array([[0.0], [0.5]], np.float32)},
    cases=lambda _: [{"X": np.array([[-9], [0], [0.25], [0.5], [0.75], [1], [9]], np.float32)}],
)
def edges_of_bins() -> Any:
    """Values on the edge of a bin, and beyond the last."""
    from sklearn.preprocessing import KBinsDiscretizer

    return KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform", quantile_method="averaged_inverted_cdf").fit(
        np.linspace(0, 1, 41)[:, None]
    )


# No row, and one.


@add(
    "empty and single-element inputs",
    honest=True,
    example=lambda: {"X": table(2, 3).astype(np.float32)},
    cases=lambda _: [{"X": table(1, 3).astype(np.float32)}, {"X": table(7, 3).astype(np.float32)}],
)
def one_row_to_a_forest() -> Any:
    """One row at a time."""
    from sklearn.ensemble import RandomForestClassifier

    x = table(60, 3)
    return RandomForestClassifier(5, random_state=0).fit(x.astype(np.float32), (x[:, 0] > 0).astype(int))


# Large values that only a part of the estimator shows, or none.


def seconds(rows: int, seed: int = 0) -> Array:
    """Seconds since 1970 of two hours, and a small number."""
    random = np.random.default_rng(seed)
    return np.stack([1.7e9 + random.uniform(0, 7200, rows), random.standard_normal(rows)], 1)


@add(PRECISION, cases=lambda _: [{"X": seconds(60, 1)}], rtol=1e-2, atol=1e-2)
def union_over_seconds() -> Any:
    """Float32 steps by 128 seconds here, which only the parts of a union show."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    x = seconds(400)
    return make_pipeline(make_union(StandardScaler(), MinMaxScaler()), Ridge()).fit(
        x, np.sin((x[:, 0] - 1.7e9) / 1000) + x[:, 1]
    )


@add(PRECISION, cases=lambda _: [{"X": seconds(60, 1)}], rtol=1e-2, atol=1e-2)
def regression_on_seconds() -> Any:
    """The large intercept alone shows how large the features are."""
    from sklearn.linear_model import LinearRegression

    x = seconds(400)
    return LinearRegression().fit(x, (x[:, 0] - 1.7e9) / 60 + 5 * x[:, 1])


@add(PRECISION, expect="refuse", cases=lambda _: [{"X": table(400, 4, seed=1).astype(np.float32)}])
def saturated_probabilities() -> Any:
    """Its probabilities are often the same for two classes, and the label is that of the larger score."""
    from sklearn.linear_model import SGDClassifier

    x = table(600, 4).astype(np.float32)
    y = np.argmax(x[:, :3] @ np.array([[2, 0, 1], [0, 2, 1], [1, 1, 0]]) + x[:, 3:], 1)
    return SGDClassifier(loss="modified_huber", random_state=0).fit(x, y)
