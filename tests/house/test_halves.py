"""`make test` exercises everything once, and `make test-rest` runs all the other tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from halves import split
from sardonyx import registry
from sardonyx.cli import commands

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "src" / "sardonyx" / "web"

# A test with real parts for each thing that users have, by the kind of thing.
SOURCES = {
    "boosting": "tests/sources/test_boosting.py::test_a_file_is_recognised_opened_and_exported_in_its_own_process",
    "jax": "tests/sources/test_jax.py::test_a_factory_is_built_and_exported_in_its_own_process",
    "onnx": "tests/sources/test_onnx_source.py::test_a_file_answers_and_is_exported_by_both_routes",
    "sklearn": "tests/sources/test_sklearn.py::test_a_trusted_pickle_answers_and_exports_in_its_own_process",
    "tensorflow": "tests/sources/test_tensorflow_files.py::test_a_file_converts_and_agrees",
    "torch": "tests/convert/test_tournament.py::test_a_counterexample_is_one_row_on_which_the_loser_is_really_wrong",
}
TARGETS = {
    "docker": "tests/package/test_package_docker.py::test_what_the_image_installs_serves_the_model_and_is_found_healthy",
    "kserve": "tests/package/test_package_kserve.py::test_the_python_client_takes_the_manifests_as_they_are",
    "ray": "tests/package/test_package_ray.py::test_rays_own_command_serves_the_folder",
    "triton": "tests/package/test_package_triton.py::test_a_real_model_is_packaged_and_read_by_tritons_schema",
}
PAGES = {
    "report": "tests/bundle/test_page_browser.py::test_the_report_opens_in_silence_at_every_width",
    "try": "tests/serve/test_serve_page.py::test_a_picture_is_uploaded_and_read_as_the_model_wants_it",
    "view": "tests/view/test_view_browser.py::test_a_real_model_opens_in_silence_without_the_network",
}
VERBS = {
    verb: f"tests/cli/test_verbs.py::test_good_input_gives_one_json_object_and_exit_0[{verb}]" for verb in commands()
}
README = {"README": "tests/house/test_readme.py::test_the_commands_of_a_page_run_and_write_what_they_promise[README]"}
EXERCISED = {**SOURCES, **TARGETS, **PAGES, **VERBS, **README}


def first_half(marks: Mapping[str, Iterable[str]]) -> set[str]:
    return {test for test, names in marks.items() if "rest" not in names}


def unexercised(tests: Mapping[str, str], first: Iterable[str]) -> list[str]:
    """The things whose test is not in the first half. A test of several cases is there when one of its cases is."""
    names = {name for test in first for name in (test, test.partition("[")[0])}
    return [thing for thing, test in tests.items() if test not in names]


def files(tests: Iterable[str]) -> set[str]:
    return {test.partition("::")[0] for test in tests}


@pytest.mark.heavy
def test_make_test_exercises_everything_that_users_have_with_a_test_of_every_file(
    every_test: dict[str, list[str]],
) -> None:
    """And what it leaves out is heavy: `make check` runs nothing that `make test` does not."""
    marks = every_test
    assert unexercised(EXERCISED, first_half(marks)) == []
    assert files(marks) - files(first_half(marks)) == set()
    assert [test for test, names in marks.items() if "rest" in names and "heavy" not in names] == []


@pytest.mark.parametrize(
    ("tests", "registered"),
    [
        (SOURCES, registry.names("sardonyx.sources")),
        (TARGETS, registry.names("sardonyx.package")),
        (PAGES, [path.stem for path in WEB.glob("*.html")]),
    ],
    ids=["sources", "targets", "pages"],
)
def test_the_table_names_a_test_for_each(tests: dict[str, str], registered: list[str]) -> None:
    assert sorted(tests) == sorted(registered)


def test_the_two_commands_together_run_every_test() -> None:
    text = (ROOT / "Makefile").read_text()
    options = dict(re.findall(r'^(test|test-rest):.*\n(?:\t@.*\n)?\t\$\(PYTEST\) -m "?(.*?)"?$', text, re.MULTILINE))
    assert options == {"test": "not rest", "test-rest": "rest"}


def test_a_thing_whose_test_moved_to_the_second_half_would_be_seen() -> None:
    marks = {"a.py::one[x]": ["heavy"], "a.py::one[y]": ["heavy", "rest"], "a.py::two": ["rest"]}
    tests = {"some case": "a.py::one", "that case": "a.py::one[y]", "all": "a.py::two", "gone": "a.py::three"}
    assert unexercised(tests, first_half(marks)) == ["that case", "all", "gone"]


def test_cases_are_split_by_name() -> None:
    assert [case.id for case in split(["a", "b", "c"], "b") if not case.marks] == ["b"]
    assert [case.id for case in split([(1, 2), (3, 4)], "low", ids=["low", "high"]) if not case.marks] == ["low"]
    assert {mark.name for case in split(["a"]) for mark in case.marks} == {"heavy", "rest"}
    with pytest.raises(AssertionError, match="no such case: \\['d'\\]"):
        split(["a", "b"], "d")
