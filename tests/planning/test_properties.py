"""Tests laws that hold for every job: names, numbers, and that the same file always gives the same plan."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from k8sel import api
from k8sel.facts.accelerators import ROWS, without_devices
from k8sel.facts.backends import BACKENDS, uses_oneccl
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.launchers import LAUNCHERS, MPIS
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile import yamlio
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.defaults import default
from k8sel.jobfile.schema import NULLABLE, schema
from k8sel.jobfile.spec import JobFile, decode
from k8sel.planning import env, planner

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
DOORS = st.sampled_from(["kubernetes", "docker", "run"])
BINDINGS = (None, "none", "socket", "numa", "core")
CCL = {"workers": st.integers(1, 4), "transport": st.just("ofi"), "provider": st.just("tcp")}


@st.composite
def jobs(draw: st.DrawFn) -> JobFile:
    """Valid job files, of all rows, launchers and sizes."""
    launcher = draw(st.sampled_from(sorted(LAUNCHERS)))
    spec: dict[str, Any] = {
        "image": "img",
        "command": draw(st.lists(st.text(min_size=1), min_size=1, max_size=4)),
        "launcher": launcher,
        "nodes": draw(st.integers(1, 12)),
        "accelerator": draw(accelerators()),
        "entrypoint": {"mode": draw(st.sampled_from(["configMap", "image", "none"]))},
    }
    if launcher == "mpirun":
        implementation, binding = draw(st.sampled_from(sorted(MPIS))), draw(st.sampled_from(BINDINGS))
        spec["mpi"] = {"implementation": implementation, "binding": binding}
        spec["cpu"] = {"threadsPerProcess": draw(st.integers(1, 64))}
    spec["backend"] = draw(backends(launcher, spec["accelerator"]))
    if uses_oneccl(spec["backend"]):
        spec["ccl"] = draw(st.fixed_dictionaries({}, optional=CCL))
    if launcher != "python":
        most = len(spec["accelerator"].get("devices", range(spec["accelerator"].get("count", 4))))
        spec["processesPerNode"] = draw(st.integers(1, most or 4))
    name = draw(st.from_regex(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?", fullmatch=True))
    return decode(
        {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": name}, "spec": spec}
    )


def backends(launcher: str, accelerator: dict[str, Any]) -> st.SearchStrategy[str | None]:
    """Those that connect a launcher's processes on these devices, or none that the file names."""
    used = accelerator.get("devices") or accelerator.get("count")
    kind = accelerator["type"] if used else without_devices().name
    fitting = [name for name, row in BACKENDS.items() if launcher in (row.launchers or LAUNCHERS)]
    return st.sampled_from([None, *(name for name in fitting if BACKENDS[name].connects(kind))])


@st.composite
def accelerators(draw: st.DrawFn) -> dict[str, Any]:
    """Rows with a number of devices, with chosen ones, or with none."""
    row = draw(st.sampled_from([row for row in ROWS.values() if row.in_container]))
    if not row.is_device:
        return {"type": row.name}
    devices = draw(st.lists(st.integers(0, 15), unique=True, min_size=0, max_size=8))
    chosen: dict[str, Any] = draw(st.sampled_from([{"count": len(devices)}, {"devices": devices}]))
    return {"type": row.name, "allocation": draw(st.sampled_from(["devicePlugin", "host"])), **chosen}


@given(jobs(), DOORS)
def test_a_second_default_changes_nothing(job: JobFile, platform: str) -> None:
    once = default(job, PLATFORMS[platform], sockets=2, numa_nodes=4)

    assert default(once, PLATFORMS[platform], sockets=2, numa_nodes=4) == once


@given(jobs(), DOORS)
def test_a_complete_job_has_a_value_wherever_its_type_says_so(job: JobFile, platform: str) -> None:
    complete = default(job, PLATFORMS[platform], sockets=2, numa_nodes=4)

    assert msgspec.convert(msgspec.to_builtins(complete), CompleteJob) == complete


@given(jobs())
def test_a_null_is_a_field_that_is_left_out(job: JobFile) -> None:
    assert default(decode(_with_nulls(msgspec.to_builtins(job), schema(mark_nullable=True)))) == default(job)


def _with_nulls(data: dict[str, Any], whole: dict[str, Any], part: str = "JobFile") -> dict[str, Any]:
    """``data`` with null in each field that it leaves out and that may be null."""
    fields = whole["$defs"][part]["properties"]
    nulls = {key: None for key, field in fields.items() if field.get(NULLABLE)}
    inner = {key: field["$ref"].rpartition("/")[2] for key, field in fields.items() if "$ref" in field}
    return nulls | data | {key: _with_nulls(data.get(key, {}), whole, name) for key, name in inner.items()}


@given(jobs(), DOORS)
def test_ranks_are_all_there_once(job: JobFile, platform: str) -> None:
    plan = planner.plan(default(job, PLATFORMS[platform]), sha256="0" * 64, platform=PLATFORMS[platform])
    ranks = [rank.rank for node in plan.nodes for rank in node.ranks]

    assert ranks == list(range(plan.world_size))
    assert plan.world_size == len(plan.nodes) * plan.processes_per_node


@given(jobs())
def test_rendering_is_repeatable_and_leaves_the_plan_alone(job: JobFile) -> None:
    plan = planner.plan(default(job), sha256="0" * 64)
    again = planner.plan(default(job), sha256="0" * 64)
    first = yamlio.dump(api.render(plan))

    assert plan == again
    assert yamlio.dump(api.render(again)) == first == yamlio.dump(api.render(plan))


@given(jobs())
def test_pods_have_names_that_a_cluster_takes(job: JobFile) -> None:
    plan = planner.plan(default(job), sha256="0" * 64)
    pods = JOB_KINDS[plan.target].pods(plan.name, len(plan.nodes))

    assert all(DNS_1035.fullmatch(name) for name in pods)
    assert len(JOB_KINDS[plan.target].longest(plan.name, len(plan.nodes))) == max(map(len, pods))
    assert {node.name for node in plan.nodes} <= set(pods)


@given(jobs())
def test_every_device_of_a_rank_is_one_that_its_node_holds(job: JobFile) -> None:
    plan = planner.plan(default(job), sha256="0" * 64)

    for node in plan.nodes:
        for rank in node.ranks:
            assert set(rank.devices) <= set(range(plan.devices.count))
            assert rank.device is None or rank.device in rank.devices


@given(st.lists(st.text(st.characters(exclude_characters="\0"))))
def test_literal_text_arrives_as_it_was_written(texts: list[str]) -> None:
    values = {f"V{number}": text for number, text in enumerate(texts)}

    assert env.resolve(env.constants(values)) == values
