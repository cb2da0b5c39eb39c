"""Fitted scikit-learn estimators by name: every family, on the real data that scikit-learn bundles.

`ZOO[name]` is (a function that builds the estimator, the kind of data). `fitted(name)` and `example(name)` do the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn import (
    calibration,
    cluster,
    compose,
    cross_decomposition,
    datasets,
    decomposition,
    discriminant_analysis,
    dummy,
    ensemble,
    feature_extraction,
    feature_selection,
    gaussian_process,
    impute,
    isotonic,
    kernel_approximation,
    linear_model,
    mixture,
    model_selection,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    random_projection,
    svm,
    tree,
)

Arrays = dict[str, np.ndarray[Any, Any]]
text = feature_extraction.text
ROWS = 40  # of the data, taken as the example


@cache
def data(kind: str) -> tuple[Any, Any]:
    """The table and target of one kind of data; float32 where the export takes float32."""
    return DATA[kind]()


def _numeric(load: Callable[..., Any], change: Callable[[Any, Any], Any] = lambda x, y: (x, y)) -> Callable[[], Any]:
    def make() -> Any:
        x, y = load(return_X_y=True)
        return change(x.astype(np.float32), y)

    return make


def _with_holes(x: Any, y: Any) -> Any:
    holes = np.random.default_rng(0).random(x.shape) < 0.1
    return np.where(holes, np.float32(np.nan), x), y


def _frame() -> Any:
    """Wine as a data frame with two columns of words and holes in the numbers."""
    import pandas

    x, y = datasets.load_wine(return_X_y=True)
    random = np.random.default_rng(0)
    frame = pandas.DataFrame(x[:, :3].astype(np.float32), columns=["alcohol", "malic_acid", "ash"])
    frame["colour"] = np.array(["pale", "red", "deep red"])[np.digitize(x[:, 9], (3.5, 6.0))]
    frame["cellar"] = np.array(["north", "south"])[(y + random.integers(0, 2, len(y))) % 2]
    frame.loc[random.random(len(frame)) < 0.1, "malic_acid"] = np.nan
    return frame, y


def _words() -> Any:
    colours = np.array(["pale", "red", "deep red"], dtype=object)
    x, y = datasets.load_wine(return_X_y=True)
    cells = [colours[np.digitize(x[:, i], np.quantile(x[:, i], (0.33, 0.66)))] for i in (9, 0, 6)]
    return np.stack(cells, 1), y


def _sentences() -> Any:
    """The lines of the data sets' own descriptions, labelled by the set."""
    lines, labels = [], []
    for label, load in enumerate((datasets.load_iris, datasets.load_wine, datasets.load_diabetes)):
        kept = [line.strip() for line in load().DESCR.splitlines() if len(line.split()) > 4]
        lines += kept
        labels += [label] * len(kept)
    return np.array(lines, dtype=object), np.array(labels)


iris, wine, cancer = datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer
diabetes, digits = datasets.load_diabetes, datasets.load_digits
DATA: dict[str, Callable[[], Any]] = {
    "iris": _numeric(iris),
    "wine": _numeric(wine),
    "cancer": _numeric(cancer),
    "diabetes": _numeric(diabetes),
    "few iris": _numeric(iris, lambda x, y: (x[::3], y[::3])),
    "few cancer": _numeric(cancer, lambda x, y: (x[::10], y[::10])),
    "digits": _numeric(digits, lambda x, y: (x[:300], y[:300])),
    "named": _numeric(iris, lambda x, y: (x, np.array(["setosa", "versicolor", "virginica"])[y])),
    "counts": _numeric(diabetes, lambda x, y: (x, np.floor(y / 20))),
    "holes": _numeric(wine, _with_holes),
    "iris only": _numeric(iris, lambda x, _: (x, None)),
    "cancer only": _numeric(cancer, lambda x, _: (x, None)),
    "holes only": _numeric(iris, lambda x, _: (_with_holes(x, None)[0], None)),
    "two targets": _numeric(diabetes, lambda x, y: (x, np.stack([y, x[:, 2] * 100], 1))),
    "two classes": _numeric(iris, lambda x, y: (x, np.stack([y, x[:, 0] > 5.8], 1).astype(int))),
    "two flags": _numeric(iris, lambda x, y: (x, np.stack([y > 0, x[:, 0] > 5.8], 1).astype(int))),
    "one column": _numeric(diabetes, lambda x, y: (x[:, 2], y)),
    "frame": _frame,
    "words": _words,
    "words, two classes": lambda: (_words()[0], _words()[1] > 0),
    "words only": lambda: (_words()[0], None),
    "sentences": _sentences,
    "names": lambda: (np.array(["setosa", "versicolor", "virginica"] * 20, dtype=object), None),
}


def _columns(last: Any) -> Any:
    numbers = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    words = preprocessing.OneHotEncoder(handle_unknown="ignore")
    parts = [("numbers", numbers, ["alcohol", "malic_acid", "ash"]), ("words", words, ["colour", "cellar"])]
    return pipeline.Pipeline([("columns", compose.ColumnTransformer(parts)), ("model", last)])


def _scaled(last: Any) -> Any:
    return pipeline.make_pipeline(preprocessing.StandardScaler(), last)


def _voters() -> list[tuple[str, Any]]:
    return [("tree", tree.DecisionTreeClassifier(max_depth=3, random_state=0)), ("bayes", naive_bayes.GaussianNB())]


def _regressors() -> list[tuple[str, Any]]:
    return [("tree", tree.DecisionTreeRegressor(max_depth=3, random_state=0)), ("ridge", linear_model.Ridge())]


seeded: dict[str, Any] = {"random_state": 0}
ten: dict[str, Any] = {"max_iter": 10, **seeded}
fifty: dict[str, Any] = {"max_iter": 50, **seeded}
few: dict[str, Any] = {"n_estimators": 10, **seeded}
logistic = linear_model.LogisticRegression
kernels = gaussian_process.kernels

ZOO: dict[str, tuple[Callable[[], Any], str]] = {
    # trees and their ensembles
    "DecisionTreeClassifier": (lambda: tree.DecisionTreeClassifier(**seeded), "wine"),
    "DecisionTreeRegressor": (lambda: tree.DecisionTreeRegressor(max_depth=6, **seeded), "diabetes"),
    "DecisionTree with holes": (lambda: tree.DecisionTreeClassifier(**seeded), "holes"),
    "ExtraTreeClassifier": (lambda: tree.ExtraTreeClassifier(**seeded), "wine"),
    "RandomForestClassifier": (lambda: ensemble.RandomForestClassifier(**few), "wine"),
    "RandomForestRegressor": (lambda: ensemble.RandomForestRegressor(**few), "diabetes"),
    "RandomForest with holes": (lambda: ensemble.RandomForestClassifier(**few), "holes"),
    "RandomForest of two targets": (lambda: ensemble.RandomForestClassifier(**few), "two classes"),
    "ExtraTreesClassifier": (lambda: ensemble.ExtraTreesClassifier(**few), "cancer"),
    "ExtraTreesRegressor": (lambda: ensemble.ExtraTreesRegressor(**few), "diabetes"),
    "GradientBoostingClassifier": (lambda: ensemble.GradientBoostingClassifier(**few), "wine"),
    "GradientBoosting binary": (lambda: ensemble.GradientBoostingClassifier(**few), "cancer"),
    "GradientBoostingRegressor": (lambda: ensemble.GradientBoostingRegressor(**few), "diabetes"),
    "GradientBoosting huber": (lambda: ensemble.GradientBoostingRegressor(loss="huber", **few), "diabetes"),
    "HistGradientBoostingClassifier": (lambda: ensemble.HistGradientBoostingClassifier(**ten), "wine"),
    "HistGradientBoosting binary": (lambda: ensemble.HistGradientBoostingClassifier(**ten), "cancer"),
    "HistGradientBoosting with holes": (lambda: ensemble.HistGradientBoostingClassifier(**ten), "holes"),
    "HistGradientBoostingRegressor": (lambda: ensemble.HistGradientBoostingRegressor(**ten), "diabetes"),
    "HistGradientBoosting poisson": (lambda: ensemble.HistGradientBoostingRegressor(loss="poisson", **ten), "counts"),
    "AdaBoostClassifier": (lambda: ensemble.AdaBoostClassifier(**few), "wine"),
    "AdaBoostRegressor": (lambda: ensemble.AdaBoostRegressor(**few), "diabetes"),
    "BaggingClassifier": (lambda: ensemble.BaggingClassifier(**few), "wine"),
    "BaggingRegressor": (lambda: ensemble.BaggingRegressor(**few), "diabetes"),
    "IsolationForest": (lambda: ensemble.IsolationForest(**few), "iris only"),
    "RandomTreesEmbedding": (lambda: ensemble.RandomTreesEmbedding(**few), "iris only"),
    # linear models
    "LogisticRegression": (lambda: _scaled(logistic()), "wine"),
    "LogisticRegression of strings": (lambda: logistic(max_iter=1000), "named"),
    "LogisticRegressionCV": (lambda: _logistic_cv(), "cancer"),
    "LinearRegression": (linear_model.LinearRegression, "diabetes"),
    "LinearRegression of two targets": (linear_model.LinearRegression, "two targets"),
    "Ridge": (linear_model.Ridge, "diabetes"),
    "RidgeCV": (linear_model.RidgeCV, "diabetes"),
    "RidgeClassifier": (lambda: _scaled(linear_model.RidgeClassifier()), "wine"),
    "RidgeClassifier binary": (lambda: _scaled(linear_model.RidgeClassifier()), "cancer"),
    "Lasso": (lambda: linear_model.Lasso(alpha=0.1), "diabetes"),
    "LassoLars": (lambda: linear_model.LassoLars(alpha=0.1), "diabetes"),
    "ElasticNet": (lambda: linear_model.ElasticNet(alpha=0.1), "diabetes"),
    "Lars": (linear_model.Lars, "diabetes"),
    "BayesianRidge": (linear_model.BayesianRidge, "diabetes"),
    "ARDRegression": (linear_model.ARDRegression, "diabetes"),
    "HuberRegressor": (lambda: _scaled(linear_model.HuberRegressor()), "diabetes"),
    "TheilSenRegressor": (lambda: linear_model.TheilSenRegressor(max_subpopulation=100, **seeded), "diabetes"),
    "RANSACRegressor": (lambda: linear_model.RANSACRegressor(**seeded), "diabetes"),
    "QuantileRegressor": (lambda: linear_model.QuantileRegressor(alpha=0.01), "diabetes"),
    "OrthogonalMatchingPursuit": (linear_model.OrthogonalMatchingPursuit, "diabetes"),
    "PoissonRegressor": (lambda: linear_model.PoissonRegressor(), "counts"),
    "GammaRegressor": (lambda: linear_model.GammaRegressor(), "diabetes"),
    "TweedieRegressor": (lambda: linear_model.TweedieRegressor(power=1.5), "counts"),
    "SGDClassifier": (lambda: _scaled(linear_model.SGDClassifier(loss="log_loss", **seeded)), "wine"),
    "SGDRegressor": (lambda: _scaled(linear_model.SGDRegressor(**seeded)), "diabetes"),
    "SGDOneClassSVM": (lambda: linear_model.SGDOneClassSVM(**seeded), "iris only"),
    "Perceptron": (lambda: _scaled(linear_model.Perceptron(**seeded)), "wine"),
    # support vectors
    "SVC": (svm.SVC, "wine"),
    "SVC binary": (svm.SVC, "cancer"),
    "SVC linear": (lambda: _scaled(svm.SVC(kernel="linear")), "wine"),
    "SVC polynomial": (lambda: _scaled(svm.SVC(kernel="poly")), "wine"),
    "SVC sigmoid": (lambda: _scaled(svm.SVC(kernel="sigmoid")), "wine"),
    "NuSVC": (svm.NuSVC, "iris"),
    "LinearSVC": (lambda: _scaled(svm.LinearSVC()), "wine"),
    "LinearSVC binary": (lambda: _scaled(svm.LinearSVC()), "cancer"),
    "SVR": (lambda: svm.SVR(C=10), "diabetes"),
    "NuSVR": (svm.NuSVR, "diabetes"),
    "LinearSVR": (lambda: _scaled(svm.LinearSVR(max_iter=10000)), "diabetes"),
    "OneClassSVM": (svm.OneClassSVM, "iris only"),
    # naive Bayes and discriminants
    "GaussianNB": (naive_bayes.GaussianNB, "wine"),
    "MultinomialNB": (naive_bayes.MultinomialNB, "digits"),
    "ComplementNB": (naive_bayes.ComplementNB, "digits"),
    "BernoulliNB": (lambda: naive_bayes.BernoulliNB(binarize=8.0), "digits"),
    "CategoricalNB": (lambda: naive_bayes.CategoricalNB(min_categories=17), "digits"),
    "LinearDiscriminantAnalysis": (discriminant_analysis.LinearDiscriminantAnalysis, "wine"),
    "QuadraticDiscriminantAnalysis": (discriminant_analysis.QuadraticDiscriminantAnalysis, "iris"),
    # neighbours
    "KNeighborsClassifier": (neighbors.KNeighborsClassifier, "iris"),
    "KNeighbors by distance": (lambda: neighbors.KNeighborsClassifier(weights="distance"), "iris"),
    "KNeighbors manhattan": (lambda: neighbors.KNeighborsClassifier(metric="manhattan"), "iris"),
    "KNeighborsRegressor": (neighbors.KNeighborsRegressor, "diabetes"),
    "RadiusNeighborsClassifier": (lambda: neighbors.RadiusNeighborsClassifier(radius=2.0), "iris"),
    "NearestCentroid": (neighbors.NearestCentroid, "iris"),
    "LocalOutlierFactor": (lambda: neighbors.LocalOutlierFactor(novelty=True), "iris only"),
    # neural networks and Gaussian processes
    "MLPClassifier": (lambda: _scaled(neural_network.MLPClassifier((16,), **fifty)), "wine"),
    "MLPClassifier binary tanh": (lambda: _scaled(neural_network.MLPClassifier((8,), activation="tanh", **fifty)), "cancer"),
    "MLPRegressor": (lambda: _scaled(neural_network.MLPRegressor(hidden_layer_sizes=(16,), **fifty)), "diabetes"),
    "MLPRegressor of two targets": (lambda: neural_network.MLPRegressor(hidden_layer_sizes=(8,), **fifty), "two targets"),
    "GaussianProcessClassifier": (lambda: gaussian_process.GaussianProcessClassifier(optimizer=None), "few iris"),
    "GaussianProcessClassifier binary": (lambda: gaussian_process.GaussianProcessClassifier(optimizer=None), "few cancer"),
    "GaussianProcessRegressor": (lambda: _process(), "diabetes"),
    # preprocessing
    "StandardScaler": (preprocessing.StandardScaler, "wine"),
    "MinMaxScaler": (lambda: preprocessing.MinMaxScaler(clip=True), "wine"),
    "MaxAbsScaler": (preprocessing.MaxAbsScaler, "wine"),
    "RobustScaler": (preprocessing.RobustScaler, "wine"),
    "Normalizer": (lambda: preprocessing.Normalizer("l1"), "wine"),
    "Binarizer": (lambda: preprocessing.Binarizer(threshold=2.0), "iris only"),
    "PowerTransformer": (preprocessing.PowerTransformer, "iris only"),
    "QuantileTransformer": (lambda: preprocessing.QuantileTransformer(n_quantiles=5), "iris only"),
    "KBinsDiscretizer": (lambda: preprocessing.KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), "iris only"),
    "PolynomialFeatures": (preprocessing.PolynomialFeatures, "iris only"),
    "SplineTransformer": (preprocessing.SplineTransformer, "iris only"),
    "FunctionTransformer": (preprocessing.FunctionTransformer, "iris only"),
    "OneHotEncoder of words": (lambda: preprocessing.OneHotEncoder(handle_unknown="ignore"), "words only"),
    "OrdinalEncoder of words": (preprocessing.OrdinalEncoder, "words only"),
    "TargetEncoder of words": (lambda: preprocessing.TargetEncoder(random_state=0), "words, two classes"),
    "TargetEncoder of three classes": (lambda: preprocessing.TargetEncoder(random_state=0), "words"),
    "LabelEncoder": (preprocessing.LabelEncoder, "names"),
    "LabelBinarizer": (preprocessing.LabelBinarizer, "names"),
    # missing values
    "SimpleImputer": (impute.SimpleImputer, "holes only"),
    "SimpleImputer with indicator": (lambda: impute.SimpleImputer(strategy="median", add_indicator=True), "holes only"),
    "KNNImputer": (impute.KNNImputer, "holes only"),
    "IterativeImputer": (lambda: _iterative(), "holes only"),
    "MissingIndicator": (impute.MissingIndicator, "holes only"),
    # decomposition and selection
    "PCA": (lambda: decomposition.PCA(3), "wine"),
    "PCA whitened": (lambda: decomposition.PCA(3, whiten=True), "wine"),
    "IncrementalPCA": (lambda: decomposition.IncrementalPCA(3), "wine"),
    "KernelPCA": (lambda: decomposition.KernelPCA(3, kernel="rbf"), "iris only"),
    "TruncatedSVD": (lambda: decomposition.TruncatedSVD(3, **seeded), "wine"),
    "FastICA": (lambda: decomposition.FastICA(3, whiten="unit-variance", max_iter=1000, **seeded), "iris only"),
    "NMF": (lambda: decomposition.NMF(3, init="nndsvda", max_iter=1000, **seeded), "iris only"),
    "FactorAnalysis": (lambda: decomposition.FactorAnalysis(2, **seeded), "iris only"),
    "PLSRegression": (cross_decomposition.PLSRegression, "diabetes"),
    "GaussianRandomProjection": (lambda: random_projection.GaussianRandomProjection(2, **seeded), "iris only"),
    "SelectKBest": (lambda: feature_selection.SelectKBest(k=3), "wine"),
    "SelectFromModel": (lambda: feature_selection.SelectFromModel(tree.DecisionTreeClassifier(**seeded)), "wine"),
    "RFE": (lambda: feature_selection.RFE(tree.DecisionTreeClassifier(**seeded), n_features_to_select=3), "wine"),
    "VarianceThreshold": (lambda: feature_selection.VarianceThreshold(0.5), "iris only"),
    "Nystroem": (lambda: kernel_approximation.Nystroem(n_components=10, **seeded), "iris only"),
    # clusters and mixtures
    "KMeans": (lambda: cluster.KMeans(3, n_init=2, **seeded), "iris only"),
    "MiniBatchKMeans": (lambda: cluster.MiniBatchKMeans(3, n_init=2, **seeded), "iris only"),
    "Birch": (lambda: cluster.Birch(n_clusters=3), "iris only"),
    "GaussianMixture": (lambda: mixture.GaussianMixture(3, **seeded), "iris only"),
    "GaussianMixture tied": (lambda: mixture.GaussianMixture(3, covariance_type="tied", **seeded), "iris only"),
    "BayesianGaussianMixture": (lambda: mixture.BayesianGaussianMixture(n_components=2, max_iter=500, **seeded), "iris only"),
    # estimators of estimators
    "CalibratedClassifierCV": (lambda: _calibrated("sigmoid"), "wine"),
    "CalibratedClassifierCV isotonic": (lambda: _calibrated("isotonic"), "cancer"),
    "OneVsRestClassifier": (lambda: multiclass.OneVsRestClassifier(logistic(max_iter=1000)), "iris"),
    "OneVsOneClassifier": (lambda: multiclass.OneVsOneClassifier(logistic(max_iter=1000)), "iris"),
    "OutputCodeClassifier": (lambda: multiclass.OutputCodeClassifier(logistic(max_iter=1000), **seeded), "iris"),
    "MultiOutputClassifier": (lambda: multioutput.MultiOutputClassifier(logistic(max_iter=1000)), "two classes"),
    "MultiOutputRegressor": (lambda: multioutput.MultiOutputRegressor(linear_model.Ridge()), "two targets"),
    "ClassifierChain": (lambda: multioutput.ClassifierChain(tree.DecisionTreeClassifier(max_depth=3, **seeded)), "two flags"),
    "RegressorChain": (lambda: multioutput.RegressorChain(linear_model.Ridge()), "two targets"),
    "VotingClassifier hard": (lambda: ensemble.VotingClassifier(_voters()), "iris"),
    "VotingClassifier soft": (lambda: ensemble.VotingClassifier(_voters(), voting="soft"), "iris"),
    "VotingRegressor": (lambda: ensemble.VotingRegressor(_regressors()), "diabetes"),
    "StackingClassifier": (lambda: ensemble.StackingClassifier(_voters(), logistic(max_iter=1000), cv=2), "iris"),
    "StackingRegressor": (lambda: ensemble.StackingRegressor(_regressors(), linear_model.Ridge(), cv=2), "diabetes"),
    "TransformedTargetRegressor": (lambda: _logarithmic(), "diabetes"),
    "GridSearchCV": (lambda: _searched(), "iris"),
    "DummyClassifier": (dummy.DummyClassifier, "iris"),
    "DummyRegressor": (dummy.DummyRegressor, "diabetes"),
    "IsotonicRegression": (isotonic.IsotonicRegression, "one column"),
    # pipelines, tables and text
    "Pipeline": (lambda: _long_pipeline(), "holes"),
    "FeatureUnion": (lambda: pipeline.make_union(decomposition.PCA(2), preprocessing.StandardScaler()), "iris only"),
    "ColumnTransformer of a frame": (lambda: _columns(logistic()), "frame"),
    "ColumnTransformer and forest": (lambda: _columns(ensemble.RandomForestClassifier(**few)), "frame"),
    "ColumnTransformer of a matrix": (lambda: _matrix_columns(), "wine"),
    "OrdinalEncoder and histogram boosting": (lambda: _categories(), "words"),
    "CountVectorizer": (lambda: text.CountVectorizer(), "sentences"),
    "CountVectorizer of pairs": (lambda: text.CountVectorizer(ngram_range=(1, 2), max_features=200), "sentences"),
    "TfidfVectorizer": (lambda: text.TfidfVectorizer(), "sentences"),
    "Tfidf pipeline": (lambda: pipeline.make_pipeline(text.TfidfVectorizer(max_features=100), logistic()), "sentences"),
    "HashingVectorizer": (lambda: pipeline.make_pipeline(text.HashingVectorizer(n_features=64), logistic()), "sentences"),
}  # fmt: skip


def _logistic_cv() -> Any:
    return _scaled(
        linear_model.LogisticRegressionCV(
            Cs=2, cv=2, l1_ratios=(0.0,), scoring="accuracy", use_legacy_attributes=False, max_iter=500
        )
    )


def _process() -> Any:
    kernel = kernels.RBF(2.0) + kernels.WhiteKernel(0.1)
    return gaussian_process.GaussianProcessRegressor(kernel, optimizer=None)


def _calibrated(method: str) -> Any:
    return calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method=method, cv=2)


def _logarithmic() -> Any:
    return compose.TransformedTargetRegressor(linear_model.Ridge(), func=np.log, inverse_func=np.exp)


def _searched() -> Any:
    return model_selection.GridSearchCV(tree.DecisionTreeClassifier(**seeded), {"max_depth": [2, 3]}, cv=2)


def _long_pipeline() -> Any:
    steps = impute.SimpleImputer(), preprocessing.StandardScaler(), decomposition.PCA(3), logistic()
    return pipeline.make_pipeline(*steps)


def _iterative() -> Any:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401

    return impute.IterativeImputer(max_iter=50, tol=0.01, **seeded)


def _matrix_columns() -> Any:
    parts = [("scaled", preprocessing.StandardScaler(), [0, 2, 4]), ("kept", "passthrough", slice(5, 9))]
    return pipeline.make_pipeline(compose.ColumnTransformer(parts), logistic(max_iter=1000))


def _categories() -> Any:
    encode = preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    return pipeline.make_pipeline(
        encode, ensemble.HistGradientBoostingClassifier(max_iter=5, categorical_features=[0, 1, 2], **seeded)
    )


@cache
def fitted(name: str) -> Any:
    """The estimator, fitted on all of its data."""
    build, kind = ZOO[name]
    x, y = data(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some stop before they converge, which takes nothing from the comparison
        return build().fit(x) if y is None else build().fit(x, y)


def example(name: str) -> Arrays:
    """Rows of the data as named inputs: one per column for a frame, `X` for the rest."""
    table = data(ZOO[name][1])[0]
    rows = table[:: max(1, len(table) // ROWS)][:ROWS]
    if hasattr(table, "columns"):
        return {column: _cells(rows[column].to_numpy())[:, None] for column in table.columns}
    array = _cells(rows)
    return {"X": array[:, None] if ZOO[name][1] in ("sentences", "one column") else array}


def _cells(array: Any) -> np.ndarray[Any, Any]:
    return array if array.dtype.kind == "f" else array.astype(str)
