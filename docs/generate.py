"""Writes the reference pages that come from the code: `python docs/generate.py`. A test compares them.

docs/job-file.md      every field of the job file, from its schema
docs/cli.md           every command's help, in the hand-written page
docs/job.schema.json  the schema itself, for editors
docs/architecture.md  the picture of the rooms, from the import contract in pyproject.toml
docs/entrypoint.md    the entrypoint's help, likewise
docs/docker.md        how each type's devices enter a container, and the fields that containers ignore
docs/audit.md         every trap that `k8sel audit` knows, in the hand-written page
docs/facts.md         the facts of the tables, with their sources
docs/selection.md     what each process sees, from selection.json, which tests compare with the real results
docs/cpu.md           what its jobs start, and the tables of backends and bindings (generate_cpu.py)
docs/guide.md         the job file and the processes of each command line in the hand-written page (generate_guide.py)
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from k8sel.audit import TRAPS, Trap
from k8sel.cli.main import COMMANDS
from k8sel.entrypoint.__main__ import HELP
from k8sel.facts.accelerators import ROWS, Row
from k8sel.facts.fields import FIELDS
from k8sel.facts.sources import Fact, facts
from k8sel.jobfile.schema import schema

HERE = Path(__file__).parent
JOB_FILE_HEAD = """# The job file

This table lists every field. `k8sel schema` prints the same as a JSON Schema. `k8sel init` writes a commented file to
start from. Unknown and duplicate keys are errors. Absent fields get a default; `k8sel plan` shows the result.

| field | type | meaning |
|---|---|---|
"""
TRAPS_HEAD = """| trap | what is looked at | what follows | the way out | source |
|---|---|---|---|---|
"""
FACTS = {  # table -> its heading, and what one row is
    "accelerators": ("Accelerators", "type"),
    "backends": ("Backends of torch.distributed", "backend"),
    "launchers": ("Launchers", "launcher"),
    "programs": ("Programs that start a node's processes", "program"),
    "mpi": ("MPIs", "MPI"),
    "kinds": ("Kinds of job, and their operators", "kind"),
    "conflicts": ("Fields that do not fit each other", "field"),
}
LONGEST_VALUE = 100  # characters of a fact's value in facts.md
DOCKER_HEAD = """| type | way | with `--cdi` |
|---|---|---|
"""
SELECTIONS = {  # of selection.json
    "count": "`count: 2`",
    "subset": "`devices: [0, 2]`",
    "order": "`devices: [2, 0]`",
    "none": "`devices: []`",
}
BEGIN, END = "<!-- generated from here -->\n", "<!-- to here -->\n"
OVERVIEW = "<!-- overview from here -->\n"
IGNORED = "<!-- ignored fields from here -->\n"
PICTURE = 43  # columns between the walls of the picture of the rooms
DOORS = ("kubernetes", "host", "docker", "run")


def pages() -> dict[str, str]:
    """Returns file name -> content."""
    return {
        "job-file.md": JOB_FILE_HEAD + "".join(f"| {line} |\n" for line in _rows(schema())),
        "job.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        "cli.md": _filled("cli.md", "\n".join(_help(command) for command in COMMANDS)),
        "architecture.md": _filled("architecture.md", f"```\n{_picture(_layers())}```\n"),
        "audit.md": _filled("audit.md", TRAPS_HEAD + "".join(f"| {_trap(trap)} |\n" for trap in TRAPS)),
        "facts.md": _filled("facts.md", "\n".join(_facts(table, rows) for table, rows in facts().items())),
        "entrypoint.md": _filled("entrypoint.md", f"```\n{HELP}```\n"),
        "cpu.md": _cpu((HERE / "cpu.md").read_text(encoding="utf-8")),
        "docker.md": _docker(),
        "guide.md": _guide((HERE / "guide.md").read_text(encoding="utf-8")),
        "selection.md": _between(_filled("selection.md", _selection()), OVERVIEW, _overview(_data("selection.json"))),
    }


def _trap(trap: Trap) -> str:
    return " | ".join([f"`{trap.id}`", *map(_escape, (trap.looks_at, trap.consequence, trap.fix, trap.source))])


def _facts(table: str, rows: list[Fact]) -> str:
    """Returns the facts of one table."""
    title, name = FACTS.get(table, (table.capitalize(), "row"))
    head = f"## {title}\n\n| {name} | fact | value | source | read |\n{'|---' * 5}|\n"
    return head + "".join(f"| {line} |\n" for fact in rows for line in _fact(fact))


def _fact(fact: Fact) -> Iterator[str]:
    """Yields a line for each source; only the first names the fact."""
    written = fact.value if isinstance(fact.value, str) else json.dumps(fact.value)
    value = textwrap.shorten(written, LONGEST_VALUE, placeholder=" ...")
    for number, source in enumerate(fact.sources):
        named = ["", "", ""] if number else [f"`{_escape(text)}`" for text in (fact.row, fact.field, value)]
        yield " | ".join([*named, _escape(source.text), str(source.day or "not known")])


def _ignored() -> list[str]:
    """Returns the fields of the job file that `k8sel docker` ignores."""
    return sorted({row.job for rows in FIELDS.values() for row in rows.values() if row.docker == "ignored"})


def _docker() -> str:
    ways = _filled("docker.md", DOCKER_HEAD + "".join(map(_ways_in, filter(_has_devices, ROWS.values()))))
    return _between(ways, IGNORED, "".join(f"- `{field}`\n" for field in _ignored()))


def _has_devices(row: Row) -> bool:
    return row.is_device and row.in_container


def _ways_in(row: Row) -> str:
    """Returns a row of the table: how chosen devices of one type enter a Docker container."""
    if not row.in_docker:
        return f"| {row.name} | not known, so refused | |\n"
    way = "CDI alone, so always" if row.cdi_alone else " and ".join([*_own_ways(row), *_capabilities(row)])
    return f"| {row.name} | {way} | {_cdi(row.docker_cdi)} |\n"


def _own_ways(row: Row) -> Iterator[str]:
    if row.docker_driver:
        yield "device request, as `--gpus '\"device=0,2\"'`"
    if row.docker_runtime:
        yield f"runtime `{row.docker_runtime}` with {row.exposure_env}"
    if row.docker_nodes:
        nodes = ", ".join(f"`{node.format(n='<N>')}`" for node in row.docker_nodes)
        yield f"the devices' nodes ({nodes}), with the groups that own them"


def _capabilities(row: Row) -> Iterator[str]:
    for name in row.docker_cap_add:
        yield f"the capability {name}"


def _cdi(kind: str | None) -> str:
    if kind is None:
        return "not known"
    return f"`{kind.format(n=0)}`" if "=" in kind else f"`{kind}=...`, found by its node"


def _layers() -> list[list[str]]:
    """Returns the rooms of the import contract, a list for each layer, from the highest layer down."""
    contracts = HERE.parent.joinpath("pyproject.toml").read_text(encoding="utf-8")
    (found,) = re.findall(r"^layers = (\[.*?\])", contracts, re.DOTALL | re.MULTILINE)  # tomllib is Python 3.11's
    return [layer.split(" | ") for layer in ast.literal_eval(found)]


def _picture(layers: list[list[str]]) -> str:
    """Draws a box for each room and a row for each layer."""
    widths = [_widths(len(rooms)) for rooms in layers]
    edges = [set(), *(_edges(each) for each in widths), set()]
    drawn = [_rule(above, below) for above, below in itertools.pairwise(edges)]
    rows = [
        "│".join(name.center(width) for name, width in zip(*each, strict=True))
        for each in zip(layers, widths, strict=True)
    ]
    return "\n".join([*(f"{rule}\n│{row}│" for rule, row in zip(drawn, rows, strict=False)), drawn[-1]]) + "\n"


def _widths(rooms: int) -> list[int]:
    """Returns the widths of a row's boxes, without their walls."""
    each, rest = divmod(PICTURE - (rooms - 1), rooms)
    return [each + (index < rest) for index in range(rooms)]


def _edges(widths: list[int]) -> set[int]:
    """Returns the columns of a row's walls."""
    return {-1, *(sum(widths[:index]) + index - 1 for index in range(1, len(widths) + 1))}


def _rule(above: set[int], below: set[int]) -> str:
    """Returns the line between two rows, with the walls that meet it."""
    signs = {(True, True): "┼", (True, False): "┴", (False, True): "┬", (False, False): "─"}
    inner = "".join(signs[column in above, column in below] for column in range(PICTURE))
    left, right = "┌┐" if not above else "└┘" if not below else "├┤"
    return f"{left}{inner}{right}"


def _filled(name: str, text: str) -> str:
    """Returns a hand-written page with ``text`` as its generated part."""
    return _between(_page(name), BEGIN, text)


def _page(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _cpu(page: str) -> str:
    """Returns the page of jobs on CPUs, which generate_cpu.py fills in."""
    filled: str = runpy.run_path(str(HERE / "generate_cpu.py"))["filled"](page)
    return filled


def _between(page: str, begin: str, text: str) -> str:
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{text}{END}{rest.partition(END)[2]}"


def _rows(document: dict[str, Any]) -> Iterator[str]:
    yield from _fields(document, document, "")


def _fields(document: dict[str, Any], part: dict[str, Any], prefix: str) -> Iterator[str]:
    part = _resolve(document, part)
    for name, field in part.get("properties", {}).items():
        resolved = _resolve(document, field)
        required = " (required)" if name in part.get("required", []) else ""
        text = _described(field, resolved)
        yield f"`{prefix}{name}`{required} | {_type(resolved)} | {_escape(text)}"
        yield from _fields(document, resolved, f"{prefix}{name}.")
        if resolved.get("type") == "array":
            yield from _fields(document, resolved.get("items", {}), f"{prefix}{name}[].")


def _described(field: dict[str, Any], resolved: dict[str, Any]) -> str:
    """Returns the field's description, with its default if it has one."""
    text = field.get("description") or resolved.get("description", "")
    return f"{text} Default: `{resolved['default']}`." if "default" in resolved else text


def _resolve(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        found = document["$defs"][part["$ref"].rsplit("/", 1)[-1]]
        part = {**found, **{key: value for key, value in part.items() if key != "$ref"}}
    return part


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if "anyOf" in field:
        return " \\| ".join(sorted({_type(one) for one in field["anyOf"]}))
    kind = field.get("type", "any")
    return " \\| ".join(kind) if isinstance(kind, list) else str(kind)


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _help(command: str) -> str:
    env = {**os.environ, "COLUMNS": "110", "TERM": "dumb"}
    shown = subprocess.run(
        [sys.executable, "-m", "k8sel", command, "--help"], capture_output=True, text=True, check=True, env=env
    ).stdout
    lines = "\n".join(line.rstrip() for line in shown.strip().splitlines()).replace("python -m k8sel", "k8sel")
    return f"## k8sel {command}\n\n```\n{lines}\n```\n"


def _selection() -> str:
    """Returns a table for each row of the accelerator table, and the runs on real hardware."""
    cells, runs = _data("selection.json"), {run["cell"]: run for run in _data("hardware.json")}
    tables = "".join(_cells_of(row, cells, runs) for row in dict.fromkeys(name.split()[0] for name in cells))
    (hidden,) = {line for name, cell in cells.items() if name.endswith(" none") for line in cell.get("written", ())}
    return f"*hidden* is `{hidden}`.\n{tables}\n## On real hardware\n\n{_runs(runs.values())}"


def _overview(cells: dict[str, Any]) -> str:
    """Returns a table of the selections that each type accepts on each platform. Equal platforms share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in dict.fromkeys(name.split()[0] for name in cells):
        for door in DOORS:
            words = " | ".join(_word(cells, f"{row} {door}", selection) for selection in SELECTIONS)
            alike.setdefault((row, words), []).append("`allocation: host`" if door == "host" else door)
    head = f"| type | platform | {' | '.join(SELECTIONS.values())} |\n|{'---|' * 6}\n"
    lines = [f"| {row} | {_doors(doors)} | {words} |\n" for (row, words), doors in alike.items()]
    return head + "".join(lines)


def _doors(doors: list[str]) -> str:
    return "every platform" if len(doors) == len(DOORS) else ", ".join(doors)


def _word(cells: dict[str, Any], where: str, selection: str) -> str:
    """Returns yes, no, or the only isolation that accepts the selection there."""
    taken = [each for each in ("node", "process") if "shown" in cells[f"{where} {each} {selection}"]]
    return {0: "no", 1: "".join(taken), 2: "yes"}[len(taken)]


def _data(name: str) -> Any:  # noqa: ANN401
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def _cells_of(row: str, cells: dict[str, Any], runs: dict[str, Any]) -> str:
    """Returns one type's table.

    A note above it lists the variables that every mask contains. Platforms with equal cells share a line.
    """
    own = {name: cell for name, cell in cells.items() if name.split()[0] == row}
    always = _always([line for name, cell in own.items() if name[-5:] != " none" for line in cell.get("written", ())])
    note = _escape(ROWS[row].note) + (f" Always with `{' '.join(always)}`." if always else "")
    alike: dict[str, list[str]] = {}
    for line in dict.fromkeys(" ".join(name.split()[:3]) for name in own):
        names = [f"{line} {selection}" for selection in SELECTIONS]
        checked = ["real hardware" if name in runs else "recorded layout" for name in names]
        texts = [_cell(name, own[name], how, always) for name, how in zip(names, checked, strict=True)]
        alike.setdefault(" | ".join(texts), []).append(_door(*line.split()[1:]))
    columns = f"| platform, isolation | {' | '.join(SELECTIONS.values())} |\n|{'---|' * 5}\n"
    lines = "".join(f"| {'; '.join(where)} | {texts} |\n" for texts, where in alike.items())
    return f"\n## {row}: {ROWS[row].title}\n\n{note}\n\n{columns}{lines}"


def _always(masks: list[str]) -> list[str]:
    """Returns the variables that are the same in every one of ``masks``."""
    return sorted(set.intersection(*(set(line.split()) for line in masks))) if masks else []


def _door(door: str, isolation: str) -> str:
    return f"{'kubernetes with `allocation: host`' if door == 'host' else door}, {isolation}"


def _cell(name: str, cell: dict[str, Any], checked: str, always: list[str]) -> str:
    if "refused" in cell:
        return f"refused: {_escape(cell['refused'])}"
    if "stopped" in cell:
        return f"stopped: {_escape(cell['stopped'])}"
    if name.endswith(" none"):
        return f"{checked}: *hidden*{', all but its own, which no value surely hides' if any(cell['shown']) else ''}"
    own = [" ".join(word for word in line.split() if word not in always) for line in cell["written"]]
    texts = [f"`{line}`" if line else "no variable" for line in own]
    alike = f"{texts[0]} in each of {len(texts)} processes" if len({*texts}) == 1 < len(texts) else ""
    return f"{checked}: {alike or ', '.join(texts)}"


def _runs(runs: Collection[dict[str, Any]]) -> str:
    if not runs:
        return "None so far.\n"
    head = "| cell | devices | machine | driver | k8sel | date |\n|---|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(str(value) for value in run.values())} |\n" for run in runs)


def _guide(page: str) -> str:
    """Returns the page of command lines, which generate_guide.py fills in."""
    filled: str = runpy.run_path(str(HERE / "generate_guide.py"))["filled"](page)
    return filled


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")
