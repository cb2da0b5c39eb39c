"""Messages of frameworks in one line: what is wrong must survive the shortening."""

from __future__ import annotations

from typing import Any

from sardonyx.sources._original import _told


def told(message: str, kind: str = "ValueError", **more: Any) -> str:
    return _told({"type": kind, "message": message, "where": "", **more}).reason


def test_a_short_message_is_kept_with_its_type() -> None:
    assert told("no such\n  column") == "ValueError: no such column"
    assert told("the file is damaged", "Refused") == "the file is damaged"


def test_a_hint_follows_the_reason() -> None:
    assert (
        told("no rule for Betainc", "Refused", hint="write it otherwise") == "no rule for Betainc; write it otherwise"
    )


def test_of_a_long_message_the_first_and_the_last_line_are_kept() -> None:
    dump = "config={" + "'name': 'dense', " * 200 + "}"
    message = told(
        f"Sequential could not be deserialized.\n\n{dump}\n\nException encountered: Could not locate class 'Gate'"
    )
    assert message.startswith("ValueError: Sequential could not be deserialized. … ")
    assert message.endswith("Could not locate class 'Gate'")
    assert len(message) < 450


def test_of_a_long_line_the_beginning_and_the_end_are_kept() -> None:
    message = told("bad layer " + "x" * 10_000 + " expected 3 columns")
    assert message.startswith("ValueError: bad layer xxx")
    assert message.endswith("expected 3 columns")
    assert len(message) < 2100


def test_what_keras_puts_around_an_error_is_left_out() -> None:
    text = (
        "Exception encountered when calling Net.call().\n\n\x1b[1mthe table is empty\x1b[0m\n\n"
        "Arguments received by Net.call():\n  • x=tf.Tensor(shape=(2, 4), dtype=float32)"
    )
    assert told(text, "RuntimeError") == "RuntimeError: the table is empty"


def test_the_source_line_of_a_library_is_left_out() -> None:
    text = (
        "catboost/libs/model/model_export/model_exporter.cpp:96: ONNX-ML format export does yet not support categories"
    )
    assert told(text, "CatBoostError") == "CatBoostError: ONNX-ML format export does yet not support categories"
