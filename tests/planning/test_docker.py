"""The platform `docker`: a plan as container arguments, as a command line, and what has no place there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from k8sel.bundle import files
from k8sel.cli.show import plan as show
from k8sel.errors import Kind
from k8sel.facts import accelerators
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile import validate
from k8sel.jobfile.defaults import default
from k8sel.machine import hardware
from k8sel.machine.docker import arguments, cdi, emit
from k8sel.machine.docker import line as docker_line
from k8sel.planning.plan import JobPlan
from planning.jobs import job, plan

NODES = {
    "/dev/dri/renderD*": tuple(f"/dev/dri/renderD{number}" for number in (130, 128, 129)),
    "/dev/dri/card*": tuple(f"/dev/dri/card{number}" for number in (3, 1, 2)),
}
HOST = emit.Host(entrypoint="/cache/it", nodes=NODES, groups={"/dev/dri/renderD129": 105, "/dev/kfd": 105})


def containers(accelerator: dict[str, Any], **spec: object) -> list[emit.Container]:
    return emitted(plan(accelerator, "docker", **spec))


def emitted(job_plan: JobPlan) -> list[emit.Container]:
    row = accelerators.by_name(job_plan.devices.type)
    return [emit.emit(job_plan, row, node, HOST) for node in job_plan.nodes]


@pytest.mark.parametrize(
    ("accelerator", "expected"),
    [
        ({"type": "cuda", "devices": [2, 0]}, {"driver": "nvidia", "device_ids": ("0", "2")}),
        ({"type": "cuda", "count": 2}, {"driver": "nvidia", "device_ids": ("0", "1")}),
        ({"type": "hpu", "devices": [2, 0]}, {"runtime": "habana", "HABANA_VISIBLE_DEVICES": "0,2"}),
        ({"type": "npu", "devices": [0, 2]}, {"runtime": "ascend", "ASCEND_VISIBLE_DEVICES": "0,2"}),
        (
            {"type": "xpu", "devices": [0, 2]},
            {
                "devices": ("/dev/dri/renderD130", "/dev/dri/renderD129", "/dev/dri/card3", "/dev/dri/card2"),
                "group_add": ("105",),
            },
        ),
        (
            {"type": "rocm", "devices": [1]},
            {"devices": ("/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card1"), "group_add": ("105",)},
        ),
        ({"type": "neuron", "devices": [0, 2]}, {"devices": ("/dev/neuron0", "/dev/neuron2")}),
        ({"type": "cuda", "devices": []}, {"NVIDIA_VISIBLE_DEVICES": "void", "ASCEND_VISIBLE_DEVICES": "void"}),
        ({"type": "cpu"}, {"NVIDIA_VISIBLE_DEVICES": "void", "ASCEND_VISIBLE_DEVICES": "void"}),
    ],
)
def test_a_row_says_how_its_devices_enter(accelerator: dict[str, Any], expected: dict[str, object]) -> None:
    (container,) = containers(accelerator)
    ways = {"driver": None, "device_ids": (), "devices": (), "runtime": None, "group_add": ()}
    exposing = {row.exposure_env for row in accelerators.ROWS.values()}
    found = {name: getattr(container, name) for name in ways}
    found |= {name: value for name, value in container.env.items() if name in exposing}
    assert found == {**ways, **expected}


def test_nodes_have_devices_behind_each_other_and_one_group() -> None:
    first, second = containers({"type": "cuda", "count": 2}, nodes=2)
    assert (first.device_ids, second.device_ids) == (("0", "1"), ("2", "3"))
    assert {first.network, second.network} == {"job-k8sel"}
    assert (first.env["PET_NODE_RANK"], second.env["PET_NODE_RANK"]) == ("0", "1")
    assert (first.env["RANK"], second.env["RANK"]) == ("0", "1")
    for each in (first, second):
        assert each.env["PET_NNODES"] == "2"
        assert each.env["PET_MASTER_ADDR"] == each.env["MASTER_ADDR"] == first.name == "job-master-0"


def test_each_node_requests_its_own_cdi_devices() -> None:
    row, job_plan = accelerators.by_name("cuda"), plan({"type": "cuda", "count": 2}, "docker", nodes=2)
    names = cdi.names(row, range(4), ())
    host = emit.Host(entrypoint="/cache/it", nodes=NODES, groups={}, cdi=names)
    first, second = (arguments.arguments(emit.emit(job_plan, row, node, host)) for node in job_plan.nodes)
    for found, numbers in ((first, (0, 1)), (second, (2, 3))):
        ids = [f"nvidia.com/gpu={number}" for number in numbers]
        assert found["device_requests"] == [{"driver": "cdi", "device_ids": ids, "capabilities": []}]


def test_a_cdi_device_of_several_devices_is_not_requested(tmp_path: Path) -> None:
    nodes = [f"/dev/accel/accel{number}" for number in range(2)]
    devices = {"all": nodes, "module1": nodes[1:], "module0": nodes[:1]}
    edits = {name: {"deviceNodes": [{"path": path} for path in paths]} for name, paths in devices.items()}
    spec = {"kind": "intel.com/gaudi", "devices": [{"name": n, "containerEdits": edits[n]} for n in devices]}
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/gaudi.json").write_text(json.dumps(spec))
    found = cdi.names(accelerators.by_name("hpu"), [0, 1], nodes, str(tmp_path))
    assert found == {0: "intel.com/gaudi=module0", 1: "intel.com/gaudi=module1"}


def test_a_container_with_devices_has_its_limits_in_the_line_and_for_the_daemon() -> None:
    (container,) = containers({"type": "cuda", "count": 1})
    words = shlex.split(docker_line.line(container))
    assert [value for option, value in pairwise(words) if option == "--ulimit"] == ["memlock=-1", "stack=67108864"]
    assert arguments.arguments(container)["ulimits"] == [
        {"name": "memlock", "soft": -1, "hard": -1},
        {"name": "stack", "soft": 67108864, "hard": 67108864},
    ]


def test_a_runtime_that_counts_in_its_own_way_gets_its_own_numbers() -> None:
    row, job_plan = accelerators.by_name("hpu"), plan({"type": "hpu", "devices": [2, 0]}, "docker")
    host = emit.Host(entrypoint="/cache/it", nodes=NODES, groups={}, order=(1, 0, 3, 2))
    found = emit.emit(job_plan, row, job_plan.nodes[0], host)
    assert found.env["HABANA_VISIBLE_DEVICES"] == "1,3"


def test_a_plan_says_the_hosts_numbers() -> None:
    said = show.headline(plan({"type": "cuda", "devices": [2, 0]}, "docker"), PLATFORMS["docker"])
    assert said == "job: containers on this machine, 1 x 2 processes by torchrun, 2 x cuda a node (the host's 0, 2)"


def test_the_command_is_that_of_a_pod() -> None:
    (container,) = containers({"type": "cuda", "devices": [2, 0]})
    assert container.command == (
        *("/bin/sh", "/k8sel/entrypoint", "--", "torchrun", "--nproc-per-node", "2"),
        "train.py",
    )
    assert container.mounts == (emit.Mount(source="/cache/it", target="/k8sel", read_only=True),)
    assert container.init


def test_what_kubernetes_would_fill_in_is_filled_in() -> None:
    _, second = containers({"type": "cuda", "count": 2}, nodes=2, launcher="accelerate")
    words = dict(zip(second.command, second.command[1:], strict=False))
    assert (words["--machine_rank"], words["--main_process_ip"]) == ("1", "job-master-0")


def test_pod_fields_have_their_words() -> None:
    (container,) = containers(
        {"type": "cpu"},
        resources={"cpu": "1500m", "memory": "2Gi"},
        sharedMemory="1Gi",
        podSecurityContext={"runAsUser": 1000, "runAsGroup": 7, "supplementalGroups": [44]},
        securityContext={"readOnlyRootFilesystem": True, "capabilities": {"add": ["SYS_NICE"]}},
        volumes=[{"name": "data", "hostPath": {"path": "/srv/"}}],
        volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "a,b", "readOnly": True}],
        hostNetwork=True,
        workingDir="/work",
    )
    assert (container.nano_cpus, container.memory, container.shm_size) == (1_500_000_000, 2 * 2**30, 2**30)
    assert (container.user, container.group_add, container.workdir) == ("1000:7", ("44",), "/work")
    assert (container.network, container.read_only, container.security_opt) == ("host", True, ("no-new-privileges",))
    assert (container.cap_drop, container.cap_add) == (("ALL",), ("SYS_NICE",))
    line = shlex.split(docker_line.line(container))
    assert 'type=bind,"source=/srv/a,b",target=/data,readonly' in line
    assert line[line.index("--cpus") + 1] == "1.5"


def test_security_has_its_words() -> None:
    own = {"seLinuxOptions": {"level": "s0:c1"}, "appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"}}
    (container,) = containers(
        {"type": "hpu", "count": 1},
        podSecurityContext={
            **{"runAsUser": 1000, "fsGroup": 7, "supplementalGroups": [44, 7]},
            **{"seccompProfile": {"type": "Unconfined"}, "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}]},
        },
        securityContext=own,
    )
    options = ("no-new-privileges", "seccomp=unconfined", "apparmor=mine", "label=level:s0:c1")
    assert container.security_opt == options
    assert (container.group_add, container.sysctls) == (("44", "7"), {"net.core.somaxconn": "1024"})
    assert container.cap_add == ("SYS_NICE",)
    line = shlex.split(docker_line.line(container))
    assert [word for before, word in pairwise(line) if before == "--security-opt"] == list(options)
    assert line[line.index("--sysctl") + 1] == "net.core.somaxconn=1024"


@pytest.mark.parametrize(
    ("pod", "container", "checked"),
    [
        ({}, {}, False),  # root is allowed
        ({"runAsNonRoot": True}, {}, True),
        ({"runAsNonRoot": True}, {"runAsUser": 1000}, False),  # the file says who it is
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, False),  # the container's own word counts
    ],
)
def test_the_images_own_user_is_checked_where_it_may_not_be_root(
    pod: dict[str, object], container: dict[str, object], checked: bool
) -> None:
    (made,) = containers({"type": "cpu"}, podSecurityContext=pod, securityContext=container)
    assert made.not_root is checked


def test_the_lines_of_several_nodes_make_and_remove_their_network() -> None:
    made = containers({"type": "cuda", "count": 1}, nodes=2)
    first, *nodes, wait, last = docker_line.lines(made, made[0].network).splitlines()
    assert (first, wait, last) == ("docker network create job-k8sel", "wait", "docker network rm job-k8sel")
    assert [node.endswith(" &") for node in nodes] == [True, True]
    assert "'driver=nvidia,device=1'" in nodes[1] or "driver=nvidia,device=1" in nodes[1]


@pytest.mark.parametrize(
    ("accelerator", "spec", "path"),
    [
        ({"type": "tpu"}, {}, "spec.accelerator.type"),
        ({"type": "cuda", "devices": [1, 0]}, {"nodes": 2}, "spec.accelerator.devices"),
        ({"type": "cuda"}, {"nodes": 2, "launcher": "mpirun"}, "spec.nodes"),
        ({"type": "cuda"}, {"nodes": 2, "hostNetwork": True}, "spec.hostNetwork"),
        (
            {"type": "cpu"},
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "b"}}]},
            "spec.volumes[0].persistentVolumeClaim",
        ),
        (
            {"type": "cpu"},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "b", "key": "c"}}}]},
            "spec.env[0].valueFrom",
        ),
        (
            {"type": "cpu"},
            {"podSecurityContext": {"sysctls": [{"name": "a"}]}},
            "spec.podSecurityContext.sysctls[0].value",
        ),
        (
            {"type": "cpu"},
            {"securityContext": {"appArmorProfile": {"type": "Localhost"}}},
            "spec.securityContext.appArmorProfile.localhostProfile",
        ),
    ],
)
def test_what_needs_a_cluster_is_refused(accelerator: dict[str, Any], spec: dict[str, object], path: str) -> None:
    file = default(job(accelerator, spec), PLATFORMS["docker"])
    assert [
        str(problem).split(": ")[0] for problem in validate.errors(validate.validate(file, PLATFORMS["docker"]))
    ] == [path]


def test_what_says_nothing_here_is_said() -> None:
    spec = {
        **{"nodeSelector": {"a": "b"}, "policy": {"backoffLimit": 3}, "resources": {"cpu": 1, "rdma/hca": 1}},
        "podSecurityContext": {"fsGroupChangePolicy": "Always", "fsGroup": 3},
        "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}, "procMount": "x"},
    }
    found = validate.validate(
        default(job({"type": "cuda", "allocation": "host"}, spec), PLATFORMS["docker"]), PLATFORMS["docker"]
    )
    ignored = [str(problem).split(": ")[0] for problem in found if problem.kind is Kind.WARNING]
    assert ignored == [
        "spec.accelerator.allocation",
        "spec.nodeSelector",
        "spec.policy.backoffLimit",
        "spec.podSecurityContext.fsGroupChangePolicy",
        "spec.securityContext.procMount",
        "spec.securityContext.seccompProfile.localhostProfile",
        "spec.resources.rdma/hca",
    ]


@pytest.mark.parametrize(
    ("spec", "ignored"),
    [
        ({"scheduling": {"schedulerName": "mine"}}, ["spec.scheduling.schedulerName"]),
        ({"scheduling": {"gang": "volcano"}}, ["spec.scheduling.gang"]),
        ({"policy": {"cleanPodPolicy": "All"}}, ["spec.policy.cleanPodPolicy"]),
        ({"policy": {"cleanPodPolicy": "Running"}}, []),
        ({}, []),
    ],
)
def test_what_k8sel_fills_in_for_a_cluster_gets_no_warning(spec: dict[str, object], ignored: list[str]) -> None:
    docker = PLATFORMS["docker"]
    found = validate.validate(default(job({"type": "cpu"}, spec), docker), docker)
    assert [str(problem).split(": ")[0] for problem in found] == ignored


def test_nodes_of_a_vendor_count_by_pci_address(tmp_path: Path) -> None:
    for number, address, vendor in (
        (128, "0000:9a:00.0", "0x8086"),
        (129, "0000:3b:00.0", "0x8086"),
        (130, "1", "0x1"),
    ):
        device = tmp_path / "sys/devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "uevent").write_text(f"DRIVER=i915\nPCI_SLOT_NAME={address}\n")
        link = tmp_path / f"sys/class/drm/renderD{number}/device"
        link.parent.mkdir(parents=True)
        link.symlink_to(device)
        node = tmp_path / f"dev/dri/renderD{number}"
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
    found = hardware.device_nodes(accelerators.by_name("xpu"), str(tmp_path))
    assert found == {"/dev/dri/renderD*": ("/dev/dri/renderD129", "/dev/dri/renderD128"), "/dev/dri/card*": ()}


FILE = Path(__file__).parents[2] / "examples" / "hello.yaml"


def test_a_missing_daemon_is_named(tmp_path: Path) -> None:
    env = {"DOCKER_HOST": f"unix://{tmp_path}/none", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "k8sel", "docker", "-q", str(FILE)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("k8sel: no Docker daemon answers: No such file or directory. Is it running, ")


def test_the_line_needs_no_client(tmp_path: Path) -> None:
    program = "import sys; from k8sel.cli.main import application; application(sys.argv[1:])(standalone_mode=False); "
    program += "print(sorted({'docker', 'kubernetes'} & set(sys.modules)))"
    command = [sys.executable, "-c", program, "docker", "-q", "--print", str(FILE)]
    env = {"HOME": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    line, modules = done.stdout.splitlines()
    assert (line.split()[:2], modules) == (["docker", "run"], "[]")
    assert len(list((tmp_path / ".cache/k8sel").iterdir())) == 1


def test_the_entrypoint_is_laid_down_once_and_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = os.umask(0o077)
    try:
        folder = files.folder()
    finally:
        os.umask(before)
    assert files.folder() == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert (folder / files.ARCHIVE).read_bytes() == files.archive()
    assert {oct(path.stat().st_mode)[-3:] for path in (folder, *folder.iterdir())} == {"755", "644"}


CHANGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder that others write": (
        lambda made: made.parent.chmod(0o777),
        "other users can write {cache}: run chmod -R go-w",
    ),
    "a group's folder": (lambda made: made.chmod(0o775), "other users can write {made}: run chmod -R go-w {made}"),
    "a file that others write": (
        lambda made: (made / files.SCRIPT).chmod(0o646),
        "other users can write {made}/entrypoint",
    ),
    "another archive": (
        lambda made: (made / files.ARCHIVE).write_bytes(b""),
        "{made}/entrypoint.pyz was changed since",
    ),
    "another script": (
        lambda made: (made / files.SCRIPT).write_bytes(b"exit 0"),
        "{made}/entrypoint was changed since",
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_an_entrypoint_that_another_user_can_change_is_not_mounted(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made, (change, message) = files.folder(), CHANGED[case]
    change(made)
    with pytest.raises(OSError, match=re.escape(message.format(cache=made.parent, made=made))):
        files.folder()


def test_an_entrypoint_of_another_user_is_not_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files.folder()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="belongs to another user"):
        files.folder()


def test_an_umask_for_a_group_makes_no_folder_of_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = os.umask(0o002)
    try:
        assert files.folder() == files.folder()
    finally:
        os.umask(before)
