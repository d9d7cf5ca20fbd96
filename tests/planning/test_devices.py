"""Tests the meaning of `count` and `devices` on each platform, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.facts.accelerators import ROWS, Row, hide_env
from planning.jobs import container, emit, plan, variables

CUDA = "cuda"


def masks(accelerator: dict[str, Any], door: str = "kubernetes", **spec: object) -> tuple[Any, ...]:
    devices = plan({"type": CUDA, **accelerator}, door, **spec).devices
    exposed = devices.exposure_env.get("NVIDIA_VISIBLE_DEVICES")
    return devices.resource_name is not None, devices.count, exposed, devices.positions


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": 3}, (True, 3, None, (0, 1, 2))),
        ({"devices": [2, 0]}, (True, 3, None, (2, 0))),
        ({"count": 4, "devices": [2, 0]}, (True, 4, None, (2, 0))),
        ({}, (True, 1, None, (0,))),
        ({"devices": []}, (False, 0, "void", ())),
        ({"count": 0}, (False, 0, "void", ())),
    ],
)
def test_a_device_plugin_is_asked_for_a_number(given: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert masks(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": 3}, (False, 3, "0,1,2", (0, 1, 2))),
        ({"devices": [2, 0]}, (False, 2, "0,2", (1, 0))),
        ({"devices": [7, 2, 5]}, (False, 3, "2,5,7", (2, 0, 1))),
        ({"count": 4, "devices": [2, 0]}, (False, 2, "0,2", (1, 0))),
        ({}, (False, 1, "0", (0,))),
        ({"devices": []}, (False, 0, "void", ())),
    ],
)
def test_by_the_hosts_numbers_a_set_is_exposed_and_positions_order_it(
    given: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert masks({**given, "allocation": "host"}) == expected
    assert masks(given, "docker") == expected


def test_by_modules_the_container_gets_them_and_the_entrypoint_orders_them() -> None:
    devices = plan({"type": "hpu", "devices": [6, 4], "allocation": "host"}).devices

    assert devices.exposure_env == {"HABANA_VISIBLE_MODULES": "4,6"}
    assert (devices.positions, devices.mask_env) == ((1, 0), {})
    assert plan({"type": "hpu", "devices": [6, 4]}, "docker").devices.exposure_env == {"HABANA_VISIBLE_DEVICES": "4,6"}


@pytest.mark.parametrize(
    ("given", "mask"), [({"count": 2}, "0,1"), ({"devices": [2, 0]}, "2,0"), ({}, "0"), ({"devices": []}, "")]
)
def test_on_this_machine_the_mask_has_the_machines_own_numbers(given: dict[str, Any], mask: str) -> None:
    job_plan = plan({"type": CUDA, **given}, "run")

    assert job_plan.devices.mask_env["CUDA_VISIBLE_DEVICES"] == mask
    assert job_plan.expectation.count is None


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.resource_name])
def test_no_exposure_variable_stands_beside_a_request(row: Row) -> None:
    job = emit({"type": row.name, "count": 2})
    worker = container(job["spec"]["pytorchReplicaSpecs"]["Master"])

    assert worker["resources"]["limits"] == worker["resources"]["requests"] == {row.resource_name: "2"}
    assert {each.exposure_env for each in ROWS.values()}.isdisjoint(variables(worker))


@pytest.mark.parametrize("accelerator", [{"type": "cpu"}, {"type": "cuda", "devices": []}])
def test_without_devices_every_vendor_is_hidden(accelerator: dict[str, Any]) -> None:
    worker = container(emit(accelerator)["spec"]["pytorchReplicaSpecs"]["Master"])

    assert "resources" not in worker
    assert variables(worker).items() >= hide_env().items()


@pytest.mark.parametrize("accelerator", [{"type": "cpu"}, {"type": "cuda", "devices": []}])
def test_a_job_without_devices_gets_none_from_the_runtimes_that_know_void(accelerator: dict[str, Any]) -> None:
    worker = container(emit(accelerator)["spec"]["pytorchReplicaSpecs"]["Master"])
    exposing = {each.exposure_env for each in ROWS.values()} - {None}

    assert {name: value for name, value in variables(worker).items() if name in exposing} == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "ASCEND_VISIBLE_DEVICES": "void",
    }


def test_an_mpi_launcher_sees_no_device_and_its_nodes_do() -> None:
    replicas = emit({"type": CUDA, "count": 2}, launcher="mpirun")["spec"]["mpiReplicaSpecs"]
    launcher, worker = container(replicas["Launcher"]), container(replicas["Worker"])

    assert variables(launcher).items() >= hide_env().items()
    assert set(launcher["resources"]["requests"]) == {"cpu", "memory"}
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert not set(hide_env()) & set(variables(worker))


def test_ranks_take_the_devices_in_order() -> None:
    nodes = plan({"type": CUDA, "devices": [2, 0]}, nodes=2).nodes

    assert [(rank.rank, rank.local_rank, rank.device) for node in nodes for rank in node.ranks] == [
        (0, 0, 2),
        (1, 1, 0),
        (2, 0, 2),
        (3, 1, 0),
    ]
    assert {rank.devices for node in nodes for rank in node.ranks} == {(2, 0)}


def test_isolated_processes_have_consecutive_shares() -> None:
    (node,) = plan({"type": CUDA, "devices": [3, 1, 0, 2], "isolation": "process"}, processesPerNode=2).nodes

    assert [(rank.devices, rank.device) for rank in node.ranks] == [((3, 1), 3), ((0, 2), 0)]


def test_one_python_process_sees_all_devices() -> None:
    (node,) = plan({"type": CUDA, "count": 3}, launcher="python").nodes

    assert [(rank.devices, rank.device) for rank in node.ranks] == [((0, 1, 2), 0)]


@pytest.mark.parametrize(("order", "variable"), [("pci", "PCI_BUS_ID"), ("fastest", "FASTEST_FIRST")])
def test_a_static_mask_says_how_it_counts(order: str, variable: str) -> None:
    job = emit({"type": CUDA, "devices": [1, 0], "order": order}, entrypoint={"mode": "none"})
    worker = container(job["spec"]["pytorchReplicaSpecs"]["Master"])

    assert variables(worker) == {"CUDA_DEVICE_ORDER": variable, "CUDA_VISIBLE_DEVICES": "1,0"}


def test_a_mask_that_is_a_set_is_written_ascending() -> None:
    assert plan({"type": "xpu", "devices": [3, 1]}).devices.mask_env["ZE_AFFINITY_MASK"] == "1,3"


def test_processes_share_a_device_where_each_gets_one_of_its_cores() -> None:
    """Trn1: two cores of each device. The container says how many a device really has."""
    (node,) = plan({"type": "neuron", "count": 16}, processesPerNode=32, launcher="torchrun").nodes

    assert [rank.device for rank in node.ranks] == [device for device in range(16) for _ in range(2)]
    assert {rank.devices for rank in node.ranks} == {tuple(range(16))}


def test_processes_that_may_use_every_core_of_their_own_devices() -> None:
    own = {"type": "neuron", "devices": [2, 0], "isolation": "process"}
    (node,) = plan(own, launcher="mpirun", mpi={"implementation": "OpenMPI"}).nodes

    assert [(rank.device, rank.devices) for rank in node.ranks] == [(2, (2,)), (0, (0,))]


def test_one_process_for_all_cores_is_left_to_the_entrypoint() -> None:
    """torchrun with one process for each node is how several nodes start under SPMD."""
    assert plan({"type": "neuron", "count": 2}, processesPerNode=1, launcher="torchrun").devices.count == 2
