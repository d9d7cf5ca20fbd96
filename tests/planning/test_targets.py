"""Tests the fields that the operators and the API server require, and the other resources that a job requests."""

from __future__ import annotations

from typing import Any

import pytest

from planning.jobs import container, emit, plan

CUDA = {"type": "cuda", "count": 2}
CPU = {"type": "cpu"}
USER = {"runAsUser": 1000}


def replicas(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["pytorchReplicaSpecs"]
    return found


@pytest.mark.parametrize(
    ("nodes", "expected"), [(1, {"Master": 1}), (2, {"Master": 1, "Worker": 1}), (5, {"Master": 1, "Worker": 4})]
)
def test_there_is_one_master_and_the_rest_are_workers(nodes: int, expected: dict[str, int]) -> None:
    found = replicas(emit(CUDA, nodes=nodes))

    assert {name: replica["replicas"] for name, replica in found.items()} == expected
    assert {container(replica)["name"] for replica in found.values()} == {"pytorch"}


def test_the_number_of_processes_is_a_string() -> None:
    assert emit(CUDA)["spec"]["nprocPerNode"] == "2"


@pytest.mark.parametrize("restarts", [0, 3])
def test_restarts_are_torchruns_own_and_need_no_elastic_policy(restarts: int) -> None:
    assert "elasticPolicy" not in emit(CUDA, nodes=2, policy={"maxRestarts": restarts})["spec"]


@pytest.mark.parametrize(("nodes", "processes"), [(1, 1), (3, 2)])
def test_an_mpijob_has_the_plans_numbers(nodes: int, processes: int) -> None:
    spec = emit({"type": "cuda", "count": processes}, launcher="mpirun", nodes=nodes)["spec"]
    found = {name: replica["replicas"] for name, replica in spec["mpiReplicaSpecs"].items()}

    assert (spec["slotsPerWorker"], found) == (processes, {"Launcher": 1, "Worker": nodes})
    assert {replica["restartPolicy"] for replica in spec["mpiReplicaSpecs"].values()} == {"Never"}


@pytest.mark.parametrize(("backoff", "policy"), [(0, "Never"), (2, "ExitCode")])
def test_a_wrong_allotment_is_not_tried_again(backoff: int, policy: str) -> None:
    master = replicas(emit(CUDA, policy={"backoffLimit": backoff}))["Master"]

    assert master["restartPolicy"] == policy


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_a_queue_suspends_until_it_admits(launcher: str) -> None:
    job = emit(CUDA, launcher=launcher, scheduling={"queue": "team"})

    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert job["spec"]["runPolicy"]["suspend"] is True


def test_a_gang_is_all_pods_of_a_pytorchjob() -> None:
    job = emit(CUDA, nodes=3, scheduling={"gang": "volcano", "priorityClassName": "high"})
    pod = replicas(job)["Worker"]["template"]["spec"]

    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 3, "priorityClass": "high"}
    assert (pod["schedulerName"], pod["priorityClassName"]) == ("volcano", "high")


def test_a_gang_of_an_mpijob_does_not_wait_for_the_launcher_that_waits_for_it() -> None:
    spec = emit(CUDA, launcher="mpirun", nodes=3, scheduling={"gang": "volcano"})["spec"]

    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert spec["runPolicy"]["schedulingPolicy"]["minAvailable"] == 3


def test_a_product_is_wanted_in_every_term_of_the_users_affinity() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    terms = [
        {"matchExpressions": [zone]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    pod = plan({**CUDA, "product": ["A", "B"]}, affinity=affinity).pod

    found = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    wanted = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A", "B"]}
    assert found == [{"matchExpressions": [zone, wanted]}, {**terms[1], "matchExpressions": [wanted]}]


@pytest.mark.parametrize(
    ("asked", "below"), [("40Gi", "40959"), ("75.5Gi", "77311"), ("80G", "76292"), (2**40, "1048575"), ("1Mi", "0")]
)
def test_a_cards_memory_is_wanted_of_the_nodes_label(asked: str | int, below: str) -> None:
    affinity = plan({**CUDA, "memory": asked}).pod["affinity"]

    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": [below]}]


def test_memory_without_a_label_is_left_to_the_container() -> None:
    job = plan({"type": "rocm", "memory": "64Gi"})

    assert "affinity" not in job.pod
    assert job.expectation.memory == 64 * 2**30


def test_the_machines_own_shared_memory_is_not_the_job_files() -> None:
    doors = ("kubernetes", "docker", "run")
    asked = [plan(CUDA, door, sharedMemory="1.5Gi").expectation.shared_memory for door in doors]

    assert asked == [1536 * 2**20, 1536 * 2**20, None]


def test_an_mpi_launcher_runs_on_any_node() -> None:
    spec = emit({**CUDA, "product": ["A"]}, launcher="mpirun")["spec"]["mpiReplicaSpecs"]

    assert "affinity" in spec["Worker"]["template"]["spec"]
    assert "affinity" not in spec["Launcher"]["template"]["spec"]


def test_the_devices_taint_is_tolerated_once() -> None:
    given = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}

    assert plan(CUDA).pod["tolerations"] == [given]
    assert plan(CUDA, tolerations=[given]).pod["tolerations"] == [given]


@pytest.mark.parametrize(
    ("user", "path"),
    [({}, "/root/.ssh"), (USER, "/home/mpiuser/.ssh"), ({"runAsNonRoot": True}, "/home/mpiuser/.ssh")],
)
def test_ssh_keys_are_where_the_user_reads_them(user: dict[str, Any], path: str) -> None:
    spec = emit(CUDA, launcher="mpirun", podSecurityContext=user)["spec"]
    worker = container(spec["mpiReplicaSpecs"]["Worker"])

    assert spec["sshAuthMountPath"] == path
    assert f"HostKey={path}/id_rsa" in worker["command"]


@pytest.mark.parametrize(
    ("user", "added"), [({}, ["NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT"]), (USER, ["NET_BIND_SERVICE"])]
)
def test_sshd_has_the_capabilities_that_it_needs(user: dict[str, Any], added: list[str]) -> None:
    context = plan(CUDA, launcher="mpirun", podSecurityContext=user).container["securityContext"]

    assert context["capabilities"] == {"drop": ["ALL"], "add": added}


def test_the_users_capabilities_come_beside_those_of_sshd() -> None:
    added = {"capabilities": {"add": ["IPC_LOCK", "SETUID"]}}
    context = plan(CUDA, launcher="mpirun", securityContext=added).container["securityContext"]

    assert context["capabilities"]["add"] == ["NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT", "IPC_LOCK"]


def test_a_node_is_ready_once_its_sshd_listens_and_is_not_asked_again() -> None:
    worker = container(emit(CUDA, launcher="mpirun", mpi={"sshPort": 2200})["spec"]["mpiReplicaSpecs"]["Worker"])

    assert worker["startupProbe"]["tcpSocket"] == {"port": 2200}
    assert "readinessProbe" not in worker


def test_no_text_of_the_job_file_is_part_of_a_shells_program() -> None:
    mpi = {"sshAuthMountPath": "/tmp/$(touch x);`y`"}
    one = container(emit(CUDA, launcher="mpirun", mpi=mpi)["spec"]["mpiReplicaSpecs"]["Worker"])["command"]
    other = container(emit(CUDA, launcher="mpirun")["spec"]["mpiReplicaSpecs"]["Worker"])["command"]

    assert one[:3] == other[:3]


def test_the_users_security_context_is_laid_over_the_defaults() -> None:
    context = plan(CUDA, securityContext={"capabilities": {"add": ["IPC_LOCK"]}}).container["securityContext"]

    assert context == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}}


def test_nothing_is_laid_beside_privileged() -> None:
    assert plan(CUDA, securityContext={"privileged": True}).container["securityContext"] == {"privileged": True}


def test_a_fraction_is_written_as_text() -> None:
    resources = plan(CPU, resources={"cpu": 0.5, "memory": 1000}).container["resources"]

    assert resources["limits"] == {"cpu": "0.5", "memory": "1000"}


def test_the_hosts_network_keeps_the_clusters_names() -> None:
    assert plan(CUDA, hostNetwork=True).pod["dnsPolicy"] == "ClusterFirstWithHostNet"
