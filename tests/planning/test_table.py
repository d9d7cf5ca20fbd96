"""The accelerator table is closed, each of its facts says where it is from, and no code repeats them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sel.facts import accelerators, launchers
from k8sel.facts.accelerators import ROWS, TABLE, Row
from k8sel.facts.backends import BACKENDS, VARIABLES, Backend
from k8sel.facts.fields import Field
from k8sel.facts.launchers import LAUNCHERS, Launcher, Mpi
from k8sel.facts.platforms import Platform
from k8sel.jobfile.rules import conflicts
from k8sel.jobfile.spec import Ccl

PACKAGE = Path(accelerators.__file__).parents[1]
TITLES = ("title", "inContainer", "discovery", "note", "source")  # ours, not facts about the vendor's parts

MODULES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if "discovery" not in path.relative_to(PACKAGE).parts
)


def raw() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_bytes())
    return table


def vendor_words() -> set[str]:
    """Resource names, labels and variables of the table."""
    words = {word for row in ROWS.values() for word in (row.resource_name, row.product_label) if word}
    words |= {row.memory_label for row in ROWS.values() if row.memory_label}
    return words | {variable for row in ROWS.values() for variable in row.owned_env}


@pytest.mark.parametrize("name", raw())
def test_each_fact_of_a_row_has_a_source(name: str) -> None:
    row = raw()[name]
    facts = {field for field, value in row.items() if field not in TITLES and value not in (None, {}, [])}

    assert facts - {"maskOrdered"} <= set(row["source"])
    assert set(row["source"]) <= set(row)


def test_a_row_is_closed() -> None:
    table = raw()
    table["cuda"]["colour"] = "green"

    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        accelerators.read(json.dumps(table).encode())


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="no accelerator 'gpu': there are cuda, xpu"):
        accelerators.by_name("gpu")


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.is_device])
def test_what_k8sel_writes_is_not_the_users_to_set(row: Row) -> None:
    written = {
        row.mask_env,
        *row.exposure_hide,
        *row.mask_hide,
        *(name for env in row.order_env.values() for name in env),
    }

    assert {name for name in (*written, row.exposure_env) if name} <= set(row.owned_env)
    assert "pci" in row.order_env


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.resource_name])
def test_a_rows_pattern_takes_its_own_resource(row: Row) -> None:
    assert re.fullmatch(str(row.resource_pattern), str(row.resource_name))


@pytest.mark.parametrize(
    ("name", "resource", "known"),
    [
        ("cuda", "nvidia.com/mig-1g.35gb", True),  # GB300
        ("cuda", "nvidia.com/mig-7g.269gb", True),  # B300
        ("npu", "huawei.com/Ascend910", True),
        ("npu", "huawei.com/Ascend310P", True),
        ("npu", "huawei.com/npu", True),  # Ascend 950
        ("npu", "huawei.com/npu-core", False),  # counts AI cores
        ("neuron", "aws.amazon.com/neuroncore", False),
        ("mlu", "cambricon.com/mlu370.mim-2m.8gb", True),
        ("mlu", "cambricon.com/mlu370.share", True),
        ("mlu", "cambricon.com/mlu270-x5k", True),
        ("mlu", "cambricon.com/mlu370.smlu.vcore", False),  # counts percents of a device
    ],
)
def test_a_pattern_takes_the_names_that_count_devices(name: str, resource: str, known: bool) -> None:
    assert bool(re.fullmatch(str(ROWS[name].resource_pattern), resource)) is known


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.resources_ended])
def test_a_resource_that_ended_is_still_recognized(row: Row) -> None:
    assert all(re.fullmatch(str(row.resource_pattern), name) for name in row.resources_ended)
    assert row.resource_name not in row.resources_ended


@pytest.mark.parametrize("module", MODULES)
def test_no_vendor_is_named_in_code(module: str) -> None:
    code = _without_prose((PACKAGE / module).read_text())

    assert not [word for word in vendor_words() if word in code]


def _without_prose(text: str) -> str:
    """``text`` without its docstrings, comments, and the examples in the job file's descriptions."""
    text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    return re.sub(r"(#.*|examples=.*|description=.*)", "", text)


@pytest.mark.parametrize("row", ROWS.values(), ids=str)
def test_a_row_has_a_backend_that_connects_its_processes(row: Row) -> None:
    assert [name for name, backend in BACKENDS.items() if backend.connects(row.name)]


@pytest.mark.parametrize("row", [Row, Backend, Mpi, Launcher, Field, Platform])
def test_each_column_of_a_table_is_read(row: type[msgspec.Struct]) -> None:
    read = _read_in_code() | _read_in_chart() | _read_in_conflicts()
    columns = dict(zip(row.__struct_fields__, row.__struct_encode_fields__, strict=True))
    columns.pop("source", None)  # for people

    assert [column for column, key in columns.items() if not {column, key} & read] == []


def _read_in_code() -> set[str]:
    """Attributes that the package reads, and keys that it looks up."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                found.add(str(node.slice.value))
    return found


def _read_in_chart() -> set[str]:
    templates = (PACKAGE.parent / "charts" / "k8sel" / "templates").glob("*.tpl")
    return {word for path in templates for word in re.findall(r"\.(\w+)", path.read_text())}


def _read_in_conflicts() -> set[str]:
    """Columns that a row of conflicts.json compares with, or writes into its message."""
    return set(re.findall(r"\b(?:launcher|mpi|type|backend)\.(\w+)", conflicts.TABLE.read_text()))


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_names_what_there_is(name: str) -> None:
    backend = BACKENDS[name]

    assert set(backend.accelerators) <= set(ROWS)
    assert set(backend.launchers) <= set(launchers.LAUNCHERS)
    assert backend.instead in (*BACKENDS, None)
    assert backend.source


def test_every_field_of_ccl_is_a_variable() -> None:
    assert tuple(VARIABLES) == Ccl.__struct_encode_fields__


@pytest.mark.parametrize("name", LAUNCHERS)
def test_oneccl_knows_how_every_launcher_starts_its_processes(name: str) -> None:
    rows = [mpi.ccl for mpi in launchers.MPIS.values()] if name == "mpirun" else [LAUNCHERS[name].ccl]

    assert all({"CCL_ATL_TRANSPORT", "CCL_PROCESS_LAUNCHER"} <= set(row) for row in rows)


def test_each_mpi_has_words_for_every_binding() -> None:
    asked = {"", "none", "socket", "numa", "core"}

    assert {name: set(mpi.binding) for name, mpi in launchers.MPIS.items()} == dict.fromkeys(launchers.MPIS, asked)


def test_each_mpi_says_the_four_numbers_of_a_rank() -> None:
    for mpi in launchers.MPIS.values():
        assert set(mpi.rank) == {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
