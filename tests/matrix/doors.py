"""Each door, really gone through: job file, plan, and the entrypoint's own process where the door starts it.

What stands behind a door (a device plugin, a container runtime) is played here; what k8sel does is k8sel's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from entrypoint import rooted
from entrypoint.machines import Box, uuid

from k8sel import api
from k8sel.bundle import files
from k8sel.errors import SpecError
from k8sel.facts import accelerators
from k8sel.machine import hardware
from k8sel.machine import processes as local
from k8sel.machine.docker import emit, resolve
from k8sel.planning import env
from k8sel.planning.launch import FOLDER
from k8sel.planning.plan import JobPlan
from matrix.hosts import DEVICES, MODULES, Host
from matrix.vendors import HOSTS

VARIABLES = sorted({name for row in accelerators.ROWS.values() for name in row.owned_env})
# Images bring these: without a word of the job, a runtime that is the node's default would expose every device.
IMAGE = {"NVIDIA_VISIBLE_DEVICES": "all", "ASCEND_VISIBLE_DEVICES": "0-3"}
READ = {"cuda": "NVIDIA_VISIBLE_DEVICES", "npu": "ASCEND_VISIBLE_DEVICES"}
SHOW = "#!/bin/sh\nenv\necho\n"
BUILT_IN = '#!/bin/sh\nexec /bin/sh "${0%/*/*}/entrypoint" "$@"\n'
# Starts its processes one after the other, so that what they print is in their order.
TORCHRUN = """#!/bin/sh
while [ "$1" != --no-python ]; do
  [ "$1" = --nproc-per-node ] && processes=$2
  shift
done
shift
for rank in $(seq 0 $((processes - 1))); do
  RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$processes LOCAL_WORLD_SIZE=$processes TORCHELASTIC_RUN_ID=none "$@" || exit
done
"""


@dataclass(frozen=True)
class Start:
    """The command of a platform, and its place."""

    words: Sequence[str]
    given: Mapping[str, str]  # variables that are not k8sel's
    env: Mapping[str, str]  # k8sel's
    held: Collection[int]  # devices whose nodes are there


@dataclass(frozen=True)
class Seen:
    """The result of one job on one platform."""

    refused: str = ""  # what is wrong with the job file there; else it was started
    status: int = 0
    said: str = ""  # on standard error
    held: Collection[int] = ()
    processes: tuple[Mapping[str, str], ...] = ()  # the environment of each
    written: tuple[Mapping[str, str], ...] = ()  # what of it chooses devices and is k8sel's


def go(door: str, row: str, accelerator: Mapping[str, Any], image: Path, processes: int = 0) -> Seen:
    """One job through one door, in a furnished ``image``: ``processes`` of torchrun; two with isolation `process`."""
    try:
        plan = api.plan(_job(row, accelerator, door, processes), "kubernetes" if door == "host" else door)
    except SpecError as error:
        return Seen(refused="; ".join(problem.message for problem in error.problems))
    with TemporaryDirectory() as scratch:
        machine, box = Box(Path(scratch, "machine"), image), Box(Path(scratch, "box"), image)
        start = DOORS[door](plan, HOSTS[row], machine)
        box.root.mkdir()
        HOSTS[row].lay_out(box, start.held)
        return _started(start, box)


def _job(row: str, accelerator: Mapping[str, Any], door: str, processes: int) -> api.Job:
    """For Docker, the image has the entrypoint, which is quicker than to lay it down for each."""
    number = processes or (2 if accelerator.get("isolation") == "process" else 1)
    launched = {"launcher": "torchrun", "processesPerNode": number} if number > 1 else {"launcher": "python"}
    mode = {"entrypoint": {"mode": "image"}} if door == "docker" else {}
    asked = {"type": row, **(_on_the_host(row, accelerator) if door == "host" else accelerator)}
    spec = {"image": "image", "command": ["show"], **launched, **mode, "accelerator": asked}
    file = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "job"}, "spec": spec}
    (job,) = api.load(json.dumps(file).encode(), "job.yaml")
    return job


def _on_the_host(row: str, accelerator: Mapping[str, Any]) -> dict[str, Any]:
    """The same devices, by the numbers of this host."""
    named, asked = HOSTS[row].named, {**accelerator, "allocation": "host"}
    if named == DEVICES:
        return asked
    devices = asked.pop("devices", range(asked.pop("count", 0)))
    return {**asked, "devices": [named[device] for device in devices]}


def _kubernetes(plan: JobPlan, host: Host, machine: Box) -> Start:
    """A device plugin gives as many as are asked for, and not the first ones."""
    *_, job = api.render(plan)
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    variables = env.resolve(container["env"])
    words = [env.filled(word, variables) for word in container["command"]]
    count = int(container.get("resources", {}).get("limits", {}).get(plan.devices.resource_name, 0))
    held = DEVICES[len(DEVICES) - count :]
    given = {**IMAGE, **_plugin(plan.devices.type, host, held)}
    return Start(words, given, variables, held if count else _unasked(plan, {**given, **variables}))


def _host(plan: JobPlan, host: Host, machine: Box) -> Start:
    """On Kubernetes with `allocation: host`, the vendor's runtime reads the pod's own variable."""
    start, row = _kubernetes(plan, host, machine), accelerators.by_name(plan.devices.type)
    # HabanaAI/gaudi-container-runtime cmd/habana-container-runtime/specs.go, filterDevicesByENV
    read = {"hpu": ("HABANA_VISIBLE_MODULES", MODULES)}
    name, numbers = read.get(plan.devices.type, (str(row.exposure_env), host.numbers))
    listed = start.env.get(name, "").split(",")
    held = [n for n in DEVICES[: len(host.nodes)] if str(numbers[n]) in listed]
    return replace(start, held=held or start.held)


def _plugin(row: str, host: Host, held: Sequence[int]) -> dict[str, str]:
    """Returns the variables that the vendor's plugin sets in the container, in no order.

    NVIDIA/k8s-device-plugin internal/plugin/server.go;
    HabanaAI/habana-container-runtime cmd/habana-container-runtime/testdata/output/for_create.json
    """
    backwards = held[::-1]
    said = {
        "cuda": {"NVIDIA_VISIBLE_DEVICES": ",".join(map(uuid, backwards))},
        "hpu": {
            "HABANA_VISIBLE_DEVICES": ",".join(str(host.numbers[n]) for n in backwards),
            "HABANA_VISIBLE_MODULES": ",".join(str(MODULES[n]) for n in backwards),
        },
    }
    return said.get(row, {}) if held else {}


def _docker(plan: JobPlan, host: Host, machine: Box) -> Start:
    """Docker and the vendor's runtime hand over exactly what the container's arguments say."""
    host.lay_out(machine, DEVICES)
    with patch.object(hardware, "ROOT", str(machine.root)):
        (container,) = resolve.containers(plan)
    requested = {"NVIDIA_VISIBLE_DEVICES": ",".join(container.device_ids)} if container.driver == "nvidia" else {}
    given = {**IMAGE, **requested}
    held = _handed_over(host, container, accelerators.by_name(plan.devices.type).exposure_env)
    return Start(container.command, given, container.env, held or _unasked(plan, {**given, **container.env}))


def _handed_over(host: Host, container: emit.Container, runtimes: str | None) -> list[int]:
    """By number (a CDI device's name ends with it), by the variable that a runtime reads, or by node."""
    numbers = {int(re.sub(r"\D*(?=\d+$)", "", name)) for name in container.device_ids}
    if container.runtime:
        listed = container.env[str(runtimes)].split(",")
        numbers = {n for n in DEVICES if str(host.numbers[n]) in listed}
    nodes = {node.rpartition(":")[2] for node in container.devices}
    return [n for n, node in enumerate(host.nodes) if n in numbers or node in nodes]


def _run(plan: JobPlan, host: Host, machine: Box) -> Start:
    """All of the machine is there."""
    command = local.command(plan, override_env=False, started=False, environ={})
    return Start(command.argv, {}, command.env, DEVICES[: len(host.nodes)])


DOORS = {"kubernetes": _kubernetes, "host": _host, "docker": _docker, "run": _run}


def _unasked(plan: JobPlan, variables: Mapping[str, str]) -> Collection[int]:
    """Returns the devices in a container without a request: those of the image's variable, if a runtime reads it."""
    name = READ.get(plan.devices.type, "")
    return DEVICES if name and variables[name] == IMAGE[name] else ()


def _started(start: Start, box: Box) -> Seen:
    image = box.entrypoint
    given = {**start.given, "PATH": f"{image / 'bin'}:{os.defpath}", "K8SEL_ROOT": str(box.root), "K8SEL_NODE": "box"}
    words = [word.replace(FOLDER, str(image), 1) if word.startswith(f"{FOLDER}/") else word for word in start.words]
    done = subprocess.run(
        words, env={**given, **start.env}, capture_output=True, text=True, check=False, timeout=60, cwd=box.root
    )
    processes = tuple(_environment(text) for text in done.stdout.split("\n\n") if text.strip())
    written = tuple(_written(given, process) for process in processes)
    return Seen(status=done.returncode, said=done.stderr, held=start.held, processes=processes, written=written)


def _environment(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _written(given: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    return {name: found[name] for name in VARIABLES if name in found and given.get(name) != found[name]}


def furnish(image: Path) -> None:
    """Puts in what /k8sel has in a container, and the image's programs."""
    (image / files.ARCHIVE).write_bytes(rooted.archive())
    (image / files.SCRIPT).write_text(files.script(), encoding="utf-8")
    (image / "bin").mkdir()
    (image / "bin" / "python3").symlink_to(sys.executable)
    for name, text in {"show": SHOW, "torchrun": TORCHRUN, "k8sel-entrypoint": BUILT_IN}.items():
        (image / "bin" / name).write_text(text, encoding="utf-8")
        (image / "bin" / name).chmod(0o755)
