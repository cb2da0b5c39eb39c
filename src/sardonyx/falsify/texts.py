"""Texts and categories that tell two tokenizers, vocabularies or encoders apart, made from the words that the original knows."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.falsify.rows import batch_of, beside, is_table
from sardonyx.signature import Array, Arrays, Signature, TensorSpec

Strings = list[str]
Random = np.random.Generator

# Every word of a vocabulary is in one of this many texts; up to as many words, each is a text by itself.
EVERY = 1000
# Texts of each other kind: every pattern below meets several words.
ROWS = 64
LONG = 10_000  # words of a very long text, letters of a very long word
# Where the original names no words, so that kinds that need words still say something.
WORDS = ("alpha", "beta", "gamma", "delta")

# Characters between two words. A tokenizer that splits where the original does not finds two known words instead of an unknown
# one, and the other way round.
JOINERS = (
    "'", "\u2019", "-", "\u2010", "_", ".", ",", "/", "@", "&", "+", "#", "*", ":", ";", "!", "?", "(", ")", '"', "\\", "|",
    # letters outside ASCII, composed, decomposed and of other scripts
    "\u00e9", "e\u0301", "\u0301", "\u00df", "\u00f1", "\u0153", "\u00aa", "\u0131", "\u0130", "\u03a3", "\u043b", "\u05d0",
    "\u0e01", "\u4e2d", "\u3042", "\uac00",
    # numbers, some of which only Unicode knows as such
    "1", "\u00b2", "\u00bd", "\u0663", "\u216b",
    # emoji: one, one with a modifier, one with a variation selector
    "\U0001f600", "\U0001f44d\U0001f3fd", "\u2764\ufe0f",
    # spaces and characters of no width
    " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b", "\u200d", "\u00ad", "\ufeff",
)  # fmt: skip

# Kinds of texts that known words are put into.
PATTERNS: dict[str, tuple[str, ...]] = {
    "apostrophes and hyphens": (
        "{0}'s {1}", "{0}n't {1}", "l'{0} {1}", "{0}'{1}", "d\u2019{0} {1}", "co-{0} {1}", "{0}-{1}-{2}", "'{0}' {1}",
        "{0}' {1}", "{0} o'{1}", "rock'n'{0} {1}",
    ),
    "punctuation": (
        "{0}, {1}; {2}.", "({0}) [{1}] {{{2}}}", "\u201c{0}\u201d {1}\u2026 {2}!", "{0}... {1}?! {2}", "#{0} @{1} ${2}",
        "{0}/{1}\\{2}", "\u00bf{0}? \u00a1{1}! {2}", "{0}:{1}={2}", "\u2014{0}\u2014{1}\u2013{2}", "*{0}* _{1}_ ~{2}~",
    ),
    "digits": (
        "{0} 7 {1}", "{0}1 {1}2", "1{0} {1}", "2nd {0} 3.14 {1}", "1,000 {0} {1}", "{0} 2024-01-31 {1}", "007 42 {0}",
        "{0}\u00b2 {1}",
    ),
    "words of one letter": (
        "a {0} {1}", "{0} a {1}", "{0} a b {1}", "{0} {1} x", "{0} \u00e9 {1}", "{0} _ {1}", "{0} 1 {1}", "a b c",
    ),
    "tabs, line ends and other spaces": (
        "  {0} {1}  ", "{0}\t{1}", "{0}\n{1}\n", "{0}\u00a0{1}", "{0}\u3000{1}", "{0}\r\n{1}", "\t{0}  {1}", "{0}\u2028{1}",
        "{0}\x0b{1}\x0c{2}",
    ),
    "markup and addresses": (
        "<p>{0} <b>{1}</b></p>", "&lt;{0}&gt; &amp; {1}", '<a href="http://{0}.com/{1}?q={2}">{0}</a>', "{0}<br/>{1}",
        "<!-- {0} --> {1}", "https://www.{0}.org/{1} {2}", "{0}@{1}.com {2}",
    ),
    "emoji and other scripts": (
        "\U0001f600 {0} \U0001f600", "{0}\U0001f680{1}", "\u4e2d\u6587 {0}", "{0}\u3002{1}", "\u65e5\u672c\u8a9e\u306e{0}",
        "\ud55c\uad6d\uc5b4 {0} {1}", "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 {0}", "\u0627\u0644\u0639 {0} {1}",
        "\u0939\u093f\u0928\u094d\u0926\u0940 {0}", "{0} \U0001f468\u200d\U0001f469 {1}",
    ),
    # letters whose other case has another length, is another letter or depends on what follows
    "letters with unusual cases": (
        "\u0130{0} {1}", "{0}\u0130 {1}", "\u1e9e{0} {1}", "\u212a{0} {1}", "{0}\ufb01 {1}", "{0}\u03a3 {1}", "\u01c5{0} {1}",
        "\uff21{0} {1}", "{0}\u0149 {1}",
    ),
}  # fmt: skip
EMPTY = ("", " ", "   ", "\t\n", "\u00a0", ".", "!?", "-", "\U0001f600", "a", "_", "1")
ACCENTS = str.maketrans("aceinousyz", "\u00e0\u00e7\u00e9\u00ef\u00f1\u00f6\u00fc\u0161\u00fd\u017e")
Change = Callable[[str], str]


def around(
    signature: Signature, example: Arrays, description: Mapping[str, Any], random: np.random.Generator
) -> dict[str, Arrays]:
    """Named batches of strings for the inputs that hold strings; the other inputs keep rows of the example.

    The description may have, for every input, `words` (a vocabulary), `texts` (whole strings) and `categories` (the known
    values of each column). Each kind of string is one batch, because an original that refuses one row refuses the batch.
    """
    batch = batch_of(signature)
    strings = [spec for spec in signature.inputs if spec.dtype == "string" and is_table(spec, batch)]
    found: dict[str, Arrays] = {}
    for spec in strings:
        for name, column in _kinds(spec, description, random).items():
            arrays = beside(signature, example, {spec.name: _shaped(example[spec.name], column)}, random)
            found[f"{spec.name}: {name}" if len(signature.inputs) > 1 else name] = arrays
    known = {spec.name: columns for spec in strings if (columns := _categories(spec, description))}
    if known:
        rows = min(EVERY, max(len(values) for columns in known.values() for values in columns))
        changed = {
            name: _every_category(columns, rows, random).reshape(rows, *example[name].shape[1:])
            for name, columns in known.items()
        }
        found["every category"] = beside(signature, example, changed, random)
    return found


def texts(words: Sequence[str], whole: Sequence[str], random: np.random.Generator) -> dict[str, Strings]:
    """Named lists of texts made from the words of a vocabulary, and the `whole` texts as they are."""
    known = list(words) or list(WORDS)
    found = {"every word": _every_word(known, random)} if words else {}
    if whole:
        found["known texts"] = list(whole[:EVERY])
    found |= {
        "two and three words": [" ".join(_some(known, 2 + row % 2, random)) for row in range(ROWS)],
        "sentences of known words": [" ".join(_some(known, 12, random)) for _ in range(ROWS)],
        "repeated words": [" ".join(_some(known, 1, random) * (2 + row % 7)) for row in range(ROWS)],
        "other case": _other_case(known, random),
        "accents": _accented(known, random),
        "words joined by a character": _joined(known, random),
        "unknown words": _unknown(known, random),
        "empty texts": list(EMPTY),
        "very long texts": [" ".join(_some(known, LONG, random)), (known[0] * LONG)[:LONG], "x" * LONG],
    }
    return found | {name: _filled(patterns, known, random) for name, patterns in PATTERNS.items()}


def categories(known: Sequence[str], random: np.random.Generator) -> dict[str, Strings]:
    """Named lists of values for a column of categories that are not the known ones: near misses and unknown values."""
    some = _some(list(known) or list(WORDS), ROWS, random)
    return {
        "categories in other case": [text for value in some for text in (value.upper(), value.lower(), value.title())],
        "categories with spaces": [text for value in some for text in (f" {value}", f"{value} ", f"{value}\t")],
        "categories cut or extended": [text for value in some for text in (value[:-1], f"{value}x", value * 2)],
        "categories with accents": [unicodedata.normalize("NFD", _accent(value)) for value in some],
        "unknown categories": ["unknown", "?", "nan", "None", "0", "-1", "\u00e9", "\U0001f600"],
        "empty category": [""],
    }


def _kinds(spec: TensorSpec, description: Mapping[str, Any], random: Random) -> dict[str, Strings]:
    words = (description.get("words") or {}).get(spec.name) or []
    whole = (description.get("texts") or {}).get(spec.name) or []
    columns = _categories(spec, description)
    if words or not columns:
        return texts(words, whole, random)
    return categories([str(value) for values in columns for value in values], random)


def _categories(spec: TensorSpec, description: Mapping[str, Any]) -> list[Sequence[Any]]:
    """The known values of every column of an input of strings; none where it holds texts."""
    columns = list((description.get("categories") or {}).get(spec.name) or [])
    return columns if any(columns) else []


def _every_category(columns: Sequence[Sequence[Any]], rows: int, random: Random) -> Array:
    """A table in which every column goes through all of its values, in an order of its own."""
    cells = [_cycled([str(value) for value in values] or [""], rows, random) for values in columns]
    return np.array(cells, dtype=object).T


def _cycled(values: Sequence[str], rows: int, random: Random) -> Strings:
    order = random.permutation(len(values))
    return [values[order[row % len(values)]] for row in range(rows)]


def _shaped(example: Array, strings: Sequence[str]) -> Array:
    """The strings as rows of the input; a row of several columns holds neighbours."""
    width = int(np.prod(example.shape[1:], dtype=int))
    flat = np.array(list(strings), dtype=object)
    rows = np.stack([np.roll(flat, -column) for column in range(width)], 1)
    return rows.reshape(len(flat), *example.shape[1:])


def _every_word(words: Sequence[str], random: Random) -> Strings:
    """Texts that hold every word once: single words where they are few, else as many to a text as it takes."""
    order = [words[index] for index in random.permutation(len(words))]
    each = -(-len(order) // EVERY)
    return [" ".join(order[start : start + each]) for start in range(0, len(order), each)]


def _some(words: Sequence[str], count: int, random: Random) -> Strings:
    return [words[index] for index in random.integers(0, len(words), count)] if words else []


def _filled(patterns: Sequence[str], words: Sequence[str], random: Random) -> Strings:
    times = max(1, ROWS // len(patterns))
    return [pattern.format(*_some(words, 3, random)) for pattern in patterns for _ in range(times)]


def _joined(words: Sequence[str], random: Random) -> Strings:
    """Two words with a character between them, and one with it on both sides."""
    between = [joiner.join(_some(words, 2, random)) for joiner in JOINERS for _ in range(3)]
    return between + [f"{joiner}{_some(words, 1, random)[0]}{joiner}" for joiner in JOINERS]


def _other_case(words: Sequence[str], random: Random) -> Strings:
    changes: tuple[Change, ...] = (str.upper, str.title, str.swapcase, _alternating, str.lower, str.casefold)
    foreign = [word for word in words if not word.isascii()]
    some = [*_some(words, ROWS // 8, random), *_some(foreign, ROWS // 2, random)]
    return [change(text) for change in changes for text in (*dict.fromkeys(some), " ".join(_some(words, 5, random)))]


def _alternating(text: str) -> str:
    return "".join(letter.upper() if index % 2 else letter.lower() for index, letter in enumerate(text))


def _accented(words: Sequence[str], random: Random) -> Strings:
    """Words with accents, composed and decomposed: the vocabulary's own and without them, and others that got one."""
    foreign = [word for word in words if not word.isascii()]
    own = _some(foreign, ROWS // 2, random)
    changed = [_accent(word) for word in _some(words, ROWS // 2, random)]
    forms = [unicodedata.normalize(form, word) for form in ("NFC", "NFD", "NFKC") for word in (*own, *changed)]
    beside_others = [f"{word} {_some(words, 1, random)[0]}" for word in changed]
    return [*forms, *map(_without_accents, own), *beside_others]


def _accent(word: str) -> str:
    """The word with an accent on the first letter that can have one; with an accented letter behind it where none can."""
    for index, letter in enumerate(word):
        if (accented := letter.translate(ACCENTS)) != letter:
            return word[:index] + accented + word[index + 1 :]
    return f"{word}\u00e9"


def _without_accents(word: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))


def _unknown(words: Sequence[str], random: Random) -> Strings:
    """Known words cut, doubled and reversed: by themselves and between known ones."""
    changes: tuple[Change, ...] = (lambda w: w[:-1], lambda w: w[1:], lambda w: w + w, lambda w: w[::-1])
    strange = [change(word) for change in changes for word in _some(words, ROWS // 8, random)]
    return strange + ["{1} {0} {2}".format(word, *_some(words, 2, random)) for word in strange]
