"""XGBoost, LightGBM and CatBoost: fitted models, live, in files of their own or in pickles."""

from __future__ import annotations

from sardonyx.sources._recognise import Subject

REQUIRES = "boosting"
SAFER = (
    "in its library's own format, model.save_model(name), as .json for XGBoost, .txt for LightGBM, .cbm for CatBoost"
)
LIBRARIES = ("xgboost", "lightgbm", "catboost")
ROUTES = {
    "xgboost": ("trees", "onnxmltools", "trees-double"),
    "lightgbm": ("trees", "onnxmltools", "trees-double"),
    "catboost": ("trees", "catboost", "trees-double"),
}


def accepts(subject: Subject) -> str | None:
    """The library by its name, behind 'pickle-' for a pickle."""
    live = next((name for name in LIBRARIES if name in subject.modules), None)
    if live is not None:
        return live
    if subject.pickled and subject.pickled[0] in LIBRARIES:
        return f"pickle-{subject.pickled[0]}"
    return _of_file(subject.head)


def routes(form: str) -> tuple[str, ...]:
    library = form.removeprefix("pickle-")
    if library in ROUTES:
        return ROUTES[library]
    return ("trees", "onnxmltools", "trees-double", "catboost")  # a factory may build a model of any library


def _of_file(head: bytes) -> str | None:
    if head.lstrip()[:1] == b"{" and b"learner" in head[:64]:
        return "xgboost"
    if head.startswith(b"tree\n") and b"num_class=" in head:
        return "lightgbm"
    return "catboost" if head.startswith(b"CBM1") else None
