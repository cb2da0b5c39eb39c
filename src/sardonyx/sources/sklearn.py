"""scikit-learn: fitted estimators and pipelines, live or in a joblib file or pickle."""

from __future__ import annotations

from sardonyx.sources._recognise import Subject

REQUIRES = "sklearn"
SAFER = "convert it where it was fitted, sardonyx.convert(estimator, 'model.onnx'), or write a factory that fits it"
ROUTES = ("skl2onnx", "skl2onnx-double")


def accepts(subject: Subject) -> str | None:
    if "sklearn" in subject.modules:
        return "estimator"
    named = subject.path is not None and subject.path.suffix == ".joblib"  # may hold a class of the user's own
    return "pickle-estimator" if "sklearn" in subject.pickled or (subject.pickled and named) else None


def routes(form: str) -> tuple[str, ...]:  # noqa: ARG001  every form takes both
    return ROUTES
