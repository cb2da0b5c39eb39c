"""Vectorizers: words are found in the export as Python's regular expressions find them, or the pattern is left to skl2onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.heavy

pytest.importorskip("sklearn")
probing = pytest.importorskip("estimator_probing")

DOCUMENTS = [
    "l'été est beau, don't", "voilà le café déjà", "naïve résumé: it's good", "winter is cold", "the cold coffee", "plain text",
    "хороший день 日本", "word_1 word-2 x1 12 3", "İstanbul good café",
]  # fmt: skip
EXAMPLE = {"X": np.array(DOCUMENTS[:4], dtype=object)[:, None]}
SIDES = [1, 1, 1, 0, 0, 0, 1, 0, 1]

EXACT: dict[str, dict[str, Any]] = {
    "plain": {},
    "pairs": {"ngram_range": (1, 2)},
    "pairs and triples": {"ngram_range": (2, 3)},
    "case kept": {"lowercase": False},
    "words of one letter": {"token_pattern": r"(?u)\b\w+\b", "sublinear_tf": True},
    "long words": {"token_pattern": r"\w{4,}"},
    "what is not blank": {"token_pattern": r"\S+"},
    "small letters": {"token_pattern": r"[a-z]+"},
    "letters as written": {"token_pattern": r"[a-zA-Z]{3,}", "lowercase": False},
    "with hyphens": {"token_pattern": r"[\w-]+"},
    "not commas": {"token_pattern": r"[^\s,]+"},
    "stop words": {"stop_words": "english", "ngram_range": (1, 2)},
    "own stop words": {"stop_words": ["le", "is"], "binary": True, "norm": "l1"},
    "plain counts": {"use_idf": False, "norm": None, "max_features": 5},
    "own vocabulary": {"vocabulary": ["good", "café", "cold coffee"], "ngram_range": (1, 2)},
}


def asked(folder: Path, **options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(**options), LogisticRegression()).fit(DOCUMENTS, SIDES)
    return probing.ask(model, EXAMPLE, folder, routes=("skl2onnx",))


@pytest.mark.parametrize("name", EXACT)
def test_words_are_found_as_scikit_learn_finds_them(name: str, tmp_path: Path) -> None:
    found = asked(tmp_path, **EXACT[name])
    assert found.refusals == {}
    assert found.differences(found.exports["skl2onnx"]) == {}


def test_the_class_of_a_document_with_accents_stays(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    import sardonyx

    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(DOCUMENTS, SIDES)
    report = sardonyx.convert(model, tmp_path / "m.onnx")
    assert report.ok
    given = report.artifacts["model"]
    from sardonyx.run.session import Session

    labels = Session(given)({"X": np.array(DOCUMENTS, dtype=object)[:, None]})["label"]
    assert labels.tolist() == model.predict(DOCUMENTS).tolist()


# What the export gets wrong, and a text that shows it: the falsifier finds it.
WRONG = {
    "a letter, then others": {"token_pattern": r"\w[\w']+"},
    "letters": {"analyzer": "char", "ngram_range": (1, 2)},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_pattern_that_is_left_to_skl2onnx_is_found_out(name: str, tmp_path: Path) -> None:
    found = asked(tmp_path, **WRONG[name])
    assert found.differences(found.exports["skl2onnx"])


def test_a_capital_sigma_at_the_end_of_a_word_is_found_out(tmp_path: Path) -> None:
    """Python lowers it to another letter than elsewhere, which no operator does."""
    from sklearn.feature_extraction.text import CountVectorizer

    model = CountVectorizer().fit(["οδός καλός", "λόγος"])
    found = probing.ask(model, {"X": np.array([["λόγος"]], dtype=object)}, tmp_path, routes=("skl2onnx",))
    assert "other case" in found.differences(found.exports["skl2onnx"])


@pytest.mark.parametrize(
    ("options", "words"),
    [({"strip_accents": "unicode"}, "strip_accents"), ({"tokenizer": str.split, "token_pattern": None}, "tokenizer")],
)
def test_what_no_operator_does_is_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    assert words in asked(tmp_path, **options).refusals["skl2onnx"]


def test_a_union_of_vectorizers_takes_texts(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.pipeline import make_union

    model = make_union(TfidfVectorizer(), CountVectorizer(ngram_range=(2, 2))).fit(DOCUMENTS)
    found = probing.ask(model, EXAMPLE, tmp_path, routes=("skl2onnx",))
    assert found.differences(found.exports["skl2onnx"]) == {}
