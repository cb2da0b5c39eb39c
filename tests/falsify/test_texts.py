"""Texts made from a vocabulary: what they contain, and the faults of tokenizers that they show."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable

import numpy as np
import pytest

from sardonyx.falsify.texts import EVERY, LONG, around, categories, texts
from sardonyx.signature import Signature

WORDS = ["winter", "été", "coffee", "naïve", "new york", "le"]
TOKEN = re.compile(r"(?u)\b\w\w+\b")


def drawn(words=WORDS, whole=()):
    return texts(words, whole, np.random.default_rng(0))


def test_every_word_is_a_text_where_they_are_few():
    assert sorted(drawn()["every word"]) == sorted(WORDS)


def test_a_large_vocabulary_is_spread_over_a_bounded_number_of_texts():
    words = [f"word{number}" for number in range(25_000)]
    found = drawn(words)["every word"]
    assert len(found) <= EVERY
    assert {word for text in found for word in text.split()} == set(words)


def test_the_kinds_hold_what_their_names_say():
    found = drawn(whole=["as it is"])
    assert found["known texts"] == ["as it is"]
    assert {"", " "} <= set(found["empty texts"])
    assert max(len(text.split()) for text in found["very long texts"]) >= LONG
    assert any("'" in text for text in found["apostrophes and hyphens"])
    assert any(text.isupper() for text in found["other case"])
    assert any("\u00a0" in text for text in found["tabs, line ends and other spaces"])
    assert any(unicodedata.normalize("NFC", text) != text for text in found["accents"])
    assert "été" in found["accents"]
    assert "ete" in found["accents"]


def test_the_same_seed_gives_the_same_texts():
    assert drawn() == drawn()


def test_without_words_there_are_still_texts():
    found = drawn([])
    assert "every word" not in found
    assert all(found.values())


# Tokenizers that differ from scikit-learn's in one thing.
FAULTY: dict[str, Callable[[str], list[str]]] = {
    "ASCII only": lambda text: re.findall(r"[a-zA-Z0-9_]{2,}", text.lower()),
    "keeps words of one letter": lambda text: re.findall(r"\w+", text.lower()),
    "keeps case": TOKEN.findall,
    "splits at spaces": lambda text: [word for word in text.lower().split() if len(word) > 1],
    "splits at underscores": lambda text: re.findall(r"[^\W_]{2,}", text.lower()),
    "keeps apostrophes": lambda text: re.findall(r"[\w']{2,}", text.lower()),
    "keeps hyphens": lambda text: re.findall(r"[\w-]{2,}", text.lower()),
    "drops digits": lambda text: re.findall(r"[^\W\d]{2,}", text.lower()),
    "composes accents": lambda text: TOKEN.findall(unicodedata.normalize("NFC", text).lower()),
    "strips accents": lambda text: TOKEN.findall(
        "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c)).lower()
    ),
    "ends at a line": lambda text: TOKEN.findall(text.lower().partition("\n")[0]),
    "ends after 512 words": lambda text: TOKEN.findall(text.lower())[:512],
    "counts each word once": lambda text: list(dict.fromkeys(TOKEN.findall(text.lower()))),
    "drops markup": lambda text: TOKEN.findall(re.sub(r"<[^>]*>", " ", text).lower()),
    "lowers letter by letter": lambda text: TOKEN.findall("".join(c.lower()[0] for c in text)),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_tokenizer_with_one_fault_counts_other_words(fault: str):
    words = ["winter", "coffee", "été", "naïve", "snow", "le"]

    def counts(tokens):
        """Known words, and pairs of them that are neighbours."""
        pairs = [(one, two) for one, two in itertools.pairwise(tokens) if one in words and two in words]
        return [tokens.count(word) for word in words], sorted(pairs)

    found = [text for kind in drawn(words).values() for text in kind]
    assert any(counts(TOKEN.findall(text.lower())) != counts(FAULTY[fault](text)) for text in found)


SIGNATURE = Signature.parse(["note=string[batch,1]", "colour=string[batch,1]", "size=float32[batch,1]"])
EXAMPLE = {
    "note": np.array([["one"], ["two"]], dtype=object),
    "colour": np.array([["red"], ["blue"]], dtype=object),
    "size": np.array([[1.0], [2.0]], np.float32),
}
DESCRIPTION = {"words": {"note": WORDS}, "categories": {"colour": [["red", "blue", "green"]]}}


def batches(signature=SIGNATURE, example=EXAMPLE, description=DESCRIPTION):
    return around(signature, example, description, np.random.default_rng(0))


def test_batches_have_equally_many_rows_in_every_input():
    for arrays in batches().values():
        assert list(arrays) == ["note", "colour", "size"]
        assert len({len(array) for array in arrays.values()}) == 1
        assert all(array.shape[1:] == (1,) for array in arrays.values())


def test_one_input_is_changed_at_a_time_and_the_others_keep_rows_of_the_example():
    arrays = batches()["note: accents"]
    assert set(arrays["colour"].ravel()) == {"red", "blue"}
    assert set(arrays["size"].ravel()) == {1.0, 2.0}


def test_every_category_is_visited():
    assert set(batches()["every category"]["colour"].ravel()) == {"red", "blue", "green"}


def test_unknown_categories_are_batches_of_their_own():
    known = {"red", "blue", "green"}
    strange = {name: arrays for name, arrays in batches().items() if name.startswith("colour: ")}
    assert "colour: categories with spaces" in strange
    assert not known & set(strange["colour: unknown categories"]["colour"].ravel())


def test_columns_of_one_input_have_categories_of_their_own():
    signature = Signature.parse(["X=string[batch,2]"])
    example = {"X": np.array([["a", "x"]], dtype=object)}
    found = batches(signature, example, {"categories": {"X": [["a", "b"], ["x", "y", "z"]]}})
    table = found["every category"]["X"]
    assert set(table[:, 0]) == {"a", "b"}
    assert set(table[:, 1]) == {"x", "y", "z"}


def test_a_fixed_batch_keeps_its_size():
    fixed = Signature.parse(["note=string[2,1]", "colour=string[2,1]", "size=float32[2,1]"])
    assert all(len(array) == 2 for arrays in batches(fixed).values() for array in arrays.values())


def test_inputs_of_numbers_alone_get_no_texts():
    assert (
        around(
            Signature.parse(["x=float32[batch,2]"]), {"x": np.zeros((2, 2), np.float32)}, {}, np.random.default_rng(0)
        )
        == {}
    )


def test_near_misses_of_a_category_differ_from_it():
    found = categories(["red"], np.random.default_rng(0))
    assert {"RED", "Red"} <= set(found["categories in other case"])
    assert {" red", "red "} <= set(found["categories with spaces"])
    assert found["empty category"] == [""]
