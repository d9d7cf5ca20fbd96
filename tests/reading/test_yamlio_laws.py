"""Laws of reading and writing YAML, for any data and any bytes."""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from k8sel.errors import Problem, SpecError
from k8sel.jobfile.yamlio import Document, dump, dump_json, parse
from k8sel.jobfile.yamlio.read import _CONTROL

# fmt: off
TRICKY = st.sampled_from([
    "1e-3", "08", "0o17", "0x10", "y", "n", "on", "No", "null", "~", "a:b", "-a", "#c", "a#b", "1:30", "<<", "=",
    ".5", "2001-01-01", ".inf", "+1", "1_000", "*a", "&a", "!a", "|", ">", "%", "@", "`", "'", '"', "\\", "?", "",
    " ", "a: b", "- a", "# c", "a #b", "---", "...", "\\n", "a\nb", "\ta", "trailing ", "\x7f", "\x85", "\xa0",
    "\u2028", "\ufeff", "\uffff", "\U0001f600",
])
# fmt: on
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | TRICKY
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False)
)
DATA: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=15
)
OBJECTS = st.lists(st.dictionaries(TEXT, DATA, max_size=4), min_size=1, max_size=3)


@given(OBJECTS)
def test_what_is_written_is_read_back(objects: list[dict[str, Any]]) -> None:
    assert [document.data for document in parse(dump(objects).encode(), "x.yaml")] == objects


@given(OBJECTS)
def test_pyyaml_reads_the_same(objects: list[dict[str, Any]]) -> None:
    assert list(yaml.safe_load_all(dump(objects))) == objects


@given(OBJECTS)
def test_json_is_one_object(objects: list[dict[str, Any]]) -> None:
    read = json.loads(dump_json(objects))
    assert ([read] if len(objects) == 1 else read["items"]) == objects


@given(OBJECTS)
def test_every_value_has_a_place(objects: list[dict[str, Any]]) -> None:
    text = dump(objects)
    lines = text.count("\n")
    for document in parse(text.encode(), "x.yaml"):
        for key in document.data:
            assert 1 <= document.locate((key,), key=True).line <= document.locate((key,)).line <= lines


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_documents_or_a_spec_error(text: bytes) -> None:
    assert all(found.locate(()) if isinstance(found, Document) else found.location for found in outcome(text))


def outcome(text: bytes) -> tuple[Document, ...] | tuple[Problem, ...]:
    """The documents or the problems of ``text``."""
    try:
        return parse(text, "x.yaml")
    except SpecError as error:
        return error.problems


@given(
    st.lists(
        st.sampled_from([*"-:?[]{},#&*!|>'\"%@` \n\tab1~", "<<", "---", "\n  ", "\r\n", "&a ", "*a "]), max_size=40
    )
)
def test_yaml_like_text_is_documents_or_a_spec_error(parts: list[str]) -> None:
    assert outcome("".join(parts).encode())


def test_long_keys_are_read_back() -> None:
    data = {"k" * 3000: {"x": ["y", {"z" * 2000: 1}]}, "e": {}, "l": [[], {}, [[1], 2]]}
    assert parse(dump([data]).encode(), "x")[0].data == data
    assert yaml.safe_load(dump([data])) == data


def test_pyyamls_own_loaders_still_work_for_other_packages() -> None:
    with pytest.raises(yaml.reader.ReaderError):
        yaml.safe_load("a: \x07")
    assert yaml.safe_load("{at: 2001-02-03, n: 0x1F}") == {"at": datetime.date(2001, 2, 3), "n": 31}


def test_the_characters_that_are_refused_are_pyyamls() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    theirs = yaml.reader.Reader.NON_PRINTABLE.search
    assert [each for each in characters if _CONTROL.search(each)] == [each for each in characters if theirs(each)]
