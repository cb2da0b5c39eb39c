"""The ONNX graph of a CountVectorizer or TfidfVectorizer: words as Python's regular expressions find them, then counts."""

import functools
import re
import sys

import numpy
from onnx import TensorProto, helper

from ._tree_graph import Builder

# Python's \w is a letter, digit or underscore of any script, in onnxruntime's syntax [\p{L}\p{N}_]: its own \w is ASCII.
# The one letter whose lower case is two characters, of which the second, a mark, is no letter.
DOTTED, DOT = "\u0130", "\u0307"
# Patterns that take runs of one class of characters: \b\w\w+\b, (?u)\w{3,}, [a-z]+, \S+.
CLASS = r"\\[wds]|\\[WDS]|\[\^?\]?(?:\\.|[^\]\\])*\]"
RUN = re.compile(
    rf"(?:\(\?u\))?(?P<edge>\\b)?(?P<fixed>(?:{CLASS})*?)(?P<last>{CLASS})(?:\+|\{{(?P<least>\d+),\}})(?P<end>\\b)?"
)
RANGES = 400  # at most in an expression: a class of more is left to skl2onnx
LOCALE = "C.UTF-8"  # it changes case in every script, and every system with glibc 2.35 has it


def takes(vectorizer):
    """Whether its words can be found exactly: runs of one class of characters, without functions of the user's own."""
    return (
        vectorizer.analyzer == "word"
        and vectorizer.preprocessor is None
        and vectorizer.tokenizer is None
        and vectorizer.strip_accents is None
        and expression(vectorizer.token_pattern, vectorizer.lowercase) is not None
        and all(_is_words(entry, vectorizer) for entry in vectorizer.vocabulary_)
    )


def _run(pattern):
    """(class of characters, the least number of them) of a pattern that takes whole runs, else None."""
    match = RUN.fullmatch(pattern or "")
    if match is None:
        return None
    fixed = re.findall(CLASS, match["fixed"])
    edges = match["edge"] or match["end"]
    # Between letters and other characters a run of letters ends by itself; a run of another class may not.
    if any(one != match["last"] for one in fixed) or (edges and match["last"] != r"\w"):
        return None
    return match["last"], len(fixed) + int(match["least"] or 1)


def _is_words(entry, vectorizer):
    """Whether an entry of the vocabulary is as many words as the vectorizer joins: one of the user's own may not be."""
    low, high = vectorizer.ngram_range
    return isinstance(entry, str) and low <= entry.count(" ") + 1 <= high and "" not in entry.split(" ")


def expression(pattern, lowercase):
    """The pattern for onnxruntime, or None. Words are found before their case changes, where the dotted I may end one."""
    found = _run(pattern)
    if found is None:
        return None
    kind, least = found
    others = _besides_words(kind)
    if others is None:
        plain, ends = _as_ranges(kind, lowercase)
    elif lowercase:
        plain, ends = rf"(?:[^\P{{L}}{DOTTED}]|[\p{{N}}_{others}])", True
    else:
        plain, ends = rf"[\p{{L}}\p{{N}}_{others}]", False
    if plain is None or not ends:
        return None if plain is None else f"{plain}{{{least},}}"
    return f"{plain}{{{max(least - 1, 0)},}}{DOTTED}|{plain}{{{least},}}"


def _besides_words(kind):
    """What a class has besides \\w, of punctuation alone; None for a class without \\w, or with more."""
    if kind == r"\w":
        return ""
    match = re.fullmatch(r"\[((?:\\w|\\?[-'.@#&/+*:!_])+)\]", kind)
    if match is None or r"\w" not in match[1]:
        return None
    return "".join(f"\\{mark}" for mark in re.findall(r"[-'.@#&/+*:!]", match[1].replace(r"\w", "")))


@functools.lru_cache(maxsize=None)
def _as_ranges(kind, lowercase):
    """The class as ranges, of characters that are in it once their case has changed; whether a dotted I ends a run of it."""
    every = "".join(chr(code) if not 0xD800 <= code <= 0xDFFF else " " for code in range(sys.maxunicode + 1))
    inside = numpy.zeros(len(every), bool)
    for run in re.finditer(f"(?:{kind})+", every):
        inside[run.start() : run.end()] = True
    ends = False
    if lowercase:
        ends = bool(inside[ord("i")] and not inside[ord(DOT)])
        whole = inside[ord("i")] and inside[ord(DOT)]
        before = inside.copy()
        for character in filter(lambda one: one != one.lower(), every):
            low = character.lower()
            inside[ord(character)] = before[ord(low)] if len(low) == 1 else whole
    inside[0xD800:0xE000] = inside[0xD7FF]  # no characters, so that they need no range of their own
    ranges, others = _ranges(inside), _ranges(~inside)
    shorter, opening = (ranges, "[") if len(ranges) <= len(others) else (others, "[^")
    if not 0 < len(shorter) <= RANGES:
        return None, False
    return opening + "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in shorter) + "]", ends


def _ranges(flags):
    """(first, last) of every run of true flags."""
    steps = numpy.flatnonzero(numpy.diff(numpy.concatenate([[False], flags, [False]])))
    return [(int(start), int(end) - 1) for start, end in zip(steps[::2], steps[1::2])]


def graph_of_texts(vectorizer, *, weighted):
    """A graph from texts `X` to a table `Y` of counts, or with `weighted` of weights as a TfidfVectorizer has them."""
    build = Builder(TensorProto.FLOAT)
    texts = build.add("Reshape", "X", build.constant([-1], numpy.int64))
    stopped = vectorizer.get_stop_words() if vectorizer.ngram_range[1] > 1 else None
    # Stop words go before words are joined, which makes rows of different length: then each text is counted by itself.
    counts = _counts_one_by_one(build, texts, vectorizer, stopped) if stopped else _counts(build, texts, vectorizer)
    table = build.add("Sign", counts) if vectorizer.binary else counts
    if weighted:
        table = _weighted(build, table, vectorizer)
    build.rename(table, "Y")
    return helper.make_graph(
        build.nodes,
        "texts",
        [helper.make_tensor_value_info("X", TensorProto.STRING, None)],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
        build.constants,
    )


def _counts(build, texts, vectorizer):
    """The counts [texts, entries] of the vocabulary."""
    pad = _pad(vectorizer)
    words = _split(build, texts, vectorizer, pad)
    # One column more, so that there is something to change the case of where no text has a word.
    rows = build.add("Slice", build.add("Shape", words), *(build.constant([n], numpy.int64) for n in (0, 1)))
    shape = build.add("Concat", rows, build.constant([1], numpy.int64), axis=0)
    column = build.add("Expand", build.constant([[pad]], object), shape)
    words = build.add("Concat", words, column, axis=1)
    if vectorizer.lowercase:
        flat = build.add("Reshape", words, build.constant([-1], numpy.int64))
        words = build.add("Reshape", _lower(build, flat), build.add("Shape", words))
    return _counted(build, words, vectorizer)


def _counts_one_by_one(build, texts, vectorizer, stopped):
    inner = Builder(build.kind)
    pad = _pad(vectorizer)
    words = _split(inner, "text", vectorizer, pad)
    words = inner.add("Reshape", words, inner.constant([-1], numpy.int64))
    words = inner.add("Concat", words, inner.constant([pad], object), axis=0)
    if vectorizer.lowercase:
        words = _lower(inner, words)
    words = inner.add(
        "StringNormalizer", words, case_change_action="NONE", is_case_sensitive=1, stopwords=sorted(stopped)
    )
    inner.rename(_counted(inner, words, vectorizer), "counts")
    body = helper.make_graph(
        inner.nodes,
        "one text",
        [helper.make_tensor_value_info("text", TensorProto.STRING, [1])],
        [helper.make_tensor_value_info("counts", TensorProto.FLOAT, None)],
        inner.constants,
    )
    rows = build.add("Reshape", texts, build.constant([-1, 1], numpy.int64))
    return build.add("Scan", rows, body=body, num_scan_inputs=1)


def _split(build, texts, vectorizer, pad):
    """The words [texts, most words], where shorter texts are filled with the pad."""
    found = expression(vectorizer.token_pattern, vectorizer.lowercase)
    return build.add("Tokenizer", texts, domain="com.microsoft", mark=0, mincharnum=1, pad_value=pad, tokenexp=found)


def _lower(build, words):
    return build.add("StringNormalizer", words, case_change_action="LOWER", is_case_sensitive=1, locale=LOCALE)


def _pad(vectorizer):
    """A string that is no word."""
    pad = "#"
    while pad in vectorizer.vocabulary_:
        pad += "#"
    return pad


def _counted(build, words, vectorizer):
    """The operator TfIdfVectorizer as a counter; its pool is sorted by length, and its ids are the columns."""
    low, high = vectorizer.ngram_range
    entries = sorted(vectorizer.vocabulary_.items(), key=lambda item: (item[0].count(" "), item[1]))
    lengths = [word.count(" ") + 1 for word, _ in entries]
    starts = [sum(length for length in lengths if length < size) for size in range(1, high + 1)]
    return build.add(
        "TfIdfVectorizer", words, mode="TF", min_gram_length=low, max_gram_length=high, max_skip_count=0,
        pool_strings=[part for word, _ in entries for part in word.split(" ")],
        ngram_counts=starts, ngram_indexes=[column for _, column in entries], weights=[1.0] * len(entries),
    )  # fmt: skip


def _weighted(build, table, vectorizer):
    """Counts as a TfidfVectorizer weighs them: damped, times rarity, and to length one."""
    if vectorizer.sublinear_tf:
        zero = build.constant(0.0)
        damped = build.add("Add", build.add("Log", table), build.constant(1.0))
        table = build.add("Where", build.add("Greater", table, zero), damped, zero)
    if vectorizer.use_idf:
        table = build.add("Mul", table, build.constant(vectorizer.idf_[None]))
    if vectorizer.norm is None:
        return table
    axis = build.constant([1], numpy.int64)
    if vectorizer.norm == "l1":
        length = build.add("ReduceSum", build.add("Abs", table), axis, keepdims=1)
    else:
        length = build.add("Sqrt", build.add("ReduceSum", build.add("Mul", table, table), axis, keepdims=1))
    empty = build.add("Equal", length, build.constant(0.0))
    return build.add("Div", table, build.add("Where", empty, build.constant(1.0), length))
