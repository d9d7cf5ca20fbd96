"""Reading a job file: bytes, places, what is imported, and that nothing but a SpecError comes out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from k8sel import api
from k8sel.errors import Problem, SpecError
from k8sel.facts import accelerators, launchers
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile import spec
from k8sel.jobfile.defaults import default
from k8sel.jobfile.explain_words import PATTERNS, SYNONYMS
from k8sel.jobfile.load import Job, load, locate
from k8sel.jobfile.schema import schema
from k8sel.jobfile.validate import errors, namespace_policy, validate
from k8sel.jobfile.yamlio import dump, parse
from k8sel.jobfile.yamlio import read as yamlio_read
from reading.tables import CASES, changed

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
GOOD = [path.read_bytes() for path in EXAMPLES]
BAD = [case.file for case in CASES.values()]
JOB = GOOD[0]

BYTES = {
    "invalid UTF-8": (
        b"a: 1\nb: \xc3\x28\n",
        "job.yaml:2:4: syntax: byte 0xc3 is not UTF-8. Hint: save the file as UTF-8 text",
    ),
    "Latin-1": (b"# caf\xe9\n", "job.yaml:1:6: syntax: byte 0xe9 is not UTF-8. Hint: save the file as UTF-8 text"),
    "UTF-16": (
        "a: 1".encode("utf-16"),
        "job.yaml:1:1: syntax: this is UTF-16, UTF-32 or a binary file. Hint: save it as UTF-8 text",
    ),
    "UTF-16 without a mark": (
        "a: 1".encode("utf-16-le"),
        "job.yaml:1:1: syntax: this is UTF-16, UTF-32 or a binary file. Hint: save it as UTF-8 text",
    ),
    "a program": (
        b"\x7fELF\x02\x01\x01\x00",
        "job.yaml:1:1: syntax: the control character U+007F is not allowed. "
        "Hint: remove it, or write it as an escape in quotes",
    ),
    "gzip": (
        b"\x1f\x8b\x08\x00",
        "job.yaml:1:1: syntax: this is UTF-16, UTF-32 or a binary file. Hint: save it as UTF-8 text",
    ),
    "deep lists": (b"- " * 400_000, "job.yaml:1:131: syntax: nested more than 64 levels deep."),
    "deep brackets": (b"[" * 400_000, "job.yaml:1:66: syntax: nested more than 64 levels deep."),
    "deep keys": (b"? " * 400_000, "job.yaml:1:131: syntax: nested more than 64 levels deep."),
    "many values": (
        changed(f"spec:\n  affinity: {{x: [{', '.join(['1'] * 10_101)}]}}\n").encode(),
        "job.yaml:11:29937: syntax: more than 10000 values: each alias counts in full.",
    ),
    "too large": (
        b"#" * (1 << 20) + b"\n",
        "job.yaml:1:1: syntax: the file has more than 1048576 bytes. Hint: make it smaller",
    ),
}


@pytest.mark.parametrize(("text", "message"), BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_text(text: bytes, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        load(text, "job.yaml")
    assert str(raised.value) == message


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    windows = b"\xef\xbb\xbf" + JOB.replace(b"\n", b"\r\n")
    (job,), (same,) = load(windows, "a.yaml"), load(JOB, "b.yaml")
    assert (job.file, job.document.data) == (same.file, same.document.data)
    assert job.document.locate(("spec", "image")).line == same.document.locate(("spec", "image")).line


def test_places_count_from_one_and_an_absent_field_is_at_its_nearest_ancestor() -> None:
    (document,) = parse(b"a:\n  b: [x, {c: 1}]\n", "f")
    places = {
        path: str(document.locate(path))
        for path in [("a", "b", 1, "c"), ("a", "b", 1, "d"), ("a", "z"), ("q",), ("a", "b", 9), ("a", "b", 0, "e")]
    }
    assert places == {
        ("a", "b", 1, "c"): "f:2:14",
        ("a", "b", 1, "d"): "f:2:10",
        ("a", "z"): "f:1:1",
        ("q",): "f:1:1",
        ("a", "b", 9): "f:2:3",
        ("a", "b", 0, "e"): "f:2:7",
    }
    assert str(document.locate(("a", "b", 1, "c"), key=True)) == "f:2:11"
    assert (document.text(("a", "b", 0)), document.text(("a", "b")), document.text(("z",))) == ("x", None, None)


def test_several_jobs_of_one_file_are_all_read() -> None:
    jobs = load(b"---\n".join(GOOD), "all.yaml")
    assert [job.file for job in jobs] == [load(text, "one.yaml")[0].file for text in GOOD]


def test_a_valid_job_needs_neither_jsonschema_nor_difflib() -> None:
    code = (
        "import sys\nfrom k8sel.jobfile.load import load, locate\nfrom k8sel.jobfile.defaults import default\n"
        "from k8sel.jobfile.validate import validate\n"
        "for job in load(sys.stdin.buffer.read(), 'x'): locate(job.document, validate(default(job.file)))\n"
        "print(sorted({'jsonschema', 'difflib', 'k8sel.jobfile.explain', 'kubernetes', 'docker'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"---\n".join(GOOD), capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"[]\n", b"")


def test_the_parser_in_python_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    by_c = [load(text, "x") for text in GOOD]
    monkeypatch.setattr(yamlio_read, "_Loader", yaml.SafeLoader)
    assert [[job.file for job in load(text, "x")] for text in GOOD] == [[job.file for job in jobs] for jobs in by_c]
    for text in BAD:
        outcome(text)


def test_every_pattern_of_the_models_has_its_words() -> None:
    fields = [field for part in schema()["$defs"].values() for field in part["properties"].values()]
    assert {field["pattern"] for field in fields if "pattern" in field} == set(PATTERNS)


def test_the_models_types_are_no_texts_that_would_have_to_be_compiled() -> None:
    given = spec._Model.__subclasses__()
    complete = [each for model in given for each in model.__subclasses__()]
    models = [*given, *complete, accelerators.Row, launchers.Mpi]
    fields = [field for model in models for field in model.__annotations__.items()]
    assert {"command", "mpi_given", "mask_env", "export"} <= dict(fields).keys()
    assert [name for name, kind in fields if isinstance(kind, str)] == []


def test_a_synonym_that_is_a_field_itself_says_so() -> None:
    fields = {key for part in schema()["$defs"].values() for key in part["properties"]}
    assert [name for name in fields & set(SYNONYMS) if not SYNONYMS[name].endswith(f".{name}")] == []


def outcome(text: bytes) -> None:
    """``text`` gives jobs, which every rule can judge, or problems, each in its place; a good job can be rendered."""
    jobs, refused = _loaded(text)
    assert jobs or refused
    assert None not in [problem.location for problem in refused]
    assert not [problem for problem in refused if CONTROL.search(problem.message + problem.hint)]
    for job in jobs:
        for platform in ("kubernetes", "docker", "run"):
            defaulted = default(job.file, PLATFORMS[platform])
            problems = locate(
                job.document, validate(defaulted, PLATFORMS[platform]) + namespace_policy(defaulted, "restricted")
            )
            assert None not in [problem.location for problem in problems]
            assert not [problem for problem in problems if CONTROL.search(problem.message + problem.hint)]
        if not errors(validate(default(job.file))):
            objects = api.render(api.plan(job))
            assert [document.data for document in parse(dump(objects).encode(), "x")] == objects


def _loaded(text: bytes) -> tuple[tuple[Job, ...], tuple[Problem, ...]]:
    try:
        return load(text, "job.yaml"), ()
    except SpecError as error:
        return (), error.problems


@settings(max_examples=200)
@given(st.sampled_from(GOOD + BAD), st.data())
def test_a_changed_file_gives_jobs_or_problems(text: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    piece = data.draw(
        st.binary(max_size=8) | st.sampled_from(PIECES) | st.sampled_from(text.splitlines(keepends=True) or [b""])
    )
    outcome(text[:start] + piece + text[end:])


CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")  # what a terminal obeys
PIECES = [
    b"\n",
    b"  ",
    b": ",
    b"- ",
    b"[",
    b"}",
    b"'",
    b'"',
    b"&a ",
    b"*a",
    b"!!x ",
    b"0x10",
    b"null",
    b"1e999",
    b"\t",
    b"|\n",
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.sampled_from(
        ["\x1b[2J", "a\nb", "cuda", "xpu", "cpu", "/data", "1Gi", "a", "$(RANK)", "name", "add", "None", "", "ALL"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "value", "capabilities", "add", "drop", "type", "mountPath"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


@settings(max_examples=250)
@given(st.sampled_from(GOOD), st.lists(VALUES, min_size=1, max_size=3), st.data())
def test_any_value_in_any_place_gives_jobs_or_problems(text: bytes, values: list[Any], data: st.DataObject) -> None:
    whole = parse(text, "x")[0].data
    for value in values:
        part = data.draw(st.sampled_from(_parts(whole)))
        known = sorted({key for each in schema()["$defs"].values() for key in each["properties"]})
        part[data.draw(st.sampled_from(sorted(part) + known))] = value
    outcome(dump([whole]).encode())


def _parts(data: object) -> list[dict[str, Any]]:
    """Every mapping in ``data``."""
    children = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    own = [data] if isinstance(data, dict) and data else []
    return own + [part for child in children for part in _parts(child)]
