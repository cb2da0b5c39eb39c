"""Opens scikit-learn estimators and pipelines, asks them, and exports them by skl2onnx; see _harness.py."""

import warnings

import sklearn

from ._estimators import Refused, adopt, describe, predict, prepare
from ._skl2onnx import export

__all__ = ["DISTRIBUTIONS", "adopt", "describe", "export", "load", "predict", "prepare"]

DISTRIBUTIONS = ("scikit-learn", "skl2onnx", "onnx", "onnxmltools", "xgboost", "xgboost-cpu", "lightgbm")


def load(source):
    """The estimator in a joblib file or pickle. Whoever calls has asked whether the file is trusted."""
    import joblib

    with warnings.catch_warnings():
        # A pickle of another release may load and answer wrongly, and the export would be faithful to that.
        warnings.simplefilter("error", getattr(sklearn.exceptions, "InconsistentVersionWarning", SyntaxWarning))
        try:
            return adopt(joblib.load(source["path"]), source)
        except Warning as warning:
            made = getattr(warning, "original_sklearn_version", "another release")
            raise Refused(
                f"the pickle was made by scikit-learn {made}, and this is {sklearn.__version__}",
                "name an interpreter that has the release it was made with: --python PATH",
            ) from warning
