"""Turns containers into command lines to paste. Pure."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Iterator, Sequence

from k8sel.machine.docker.emit import CDI, Container, Mount


def lines(containers: Sequence[Container], network: str | None) -> str:
    """The shell lines that start all containers and wait for their end."""
    if network is None:
        return "\n".join(line(container) for container in containers)
    started = [f"{line(container)} &" for container in containers]
    made, removed = (shlex.join(["docker", "network", what, network]) for what in ("create", "rm"))
    return "\n".join([made, *started, "wait", removed])


def line(container: Container) -> str:
    """The `docker run` line of ``container``."""
    program, *arguments = container.command
    return shlex.join(
        ["docker", "run", "--rm", *_options(container), "--entrypoint", program, container.image, *arguments]
    )


def _options(container: Container) -> Iterator[str]:
    yield from ("--name", container.name, "--hostname", container.name)
    yield from ["--init"] if container.init else []
    yield from _each("--label", _pairs(container.labels.items()))
    yield from _each("--env", _pairs(container.env.items()))
    yield from _device_options(container)
    yield from _each("--mount", map(_mount, container.mounts))
    yield from _given("--shm-size", container.shm_size)
    yield from _each("--ulimit", _pairs(container.ulimits))
    yield from _given("--user", container.user)
    yield from _each("--group-add", container.group_add)
    yield from _given("--workdir", container.workdir)
    yield from _given("--network", container.network)
    yield from _limits(container)


def _device_options(container: Container) -> Iterator[str]:
    if container.driver == CDI:
        yield from _each("--device", container.device_ids)
    elif container.driver:
        yield from ("--gpus", _csv([f"driver={container.driver}", "device=" + ",".join(container.device_ids)]))
    yield from _given("--runtime", container.runtime)
    yield from _each("--device", container.devices)


def _limits(container: Container) -> Iterator[str]:
    yield from ["--privileged"] if container.privileged else []
    yield from _each("--cap-drop", container.cap_drop)
    yield from _each("--cap-add", container.cap_add)
    yield from _each("--security-opt", container.security_opt)
    yield from _each("--sysctl", _pairs(container.sysctls.items()))
    yield from ["--read-only"] if container.read_only else []
    if container.nano_cpus is not None:
        yield from ("--cpus", f"{container.nano_cpus / 10**9:g}")
    yield from _given("--memory", container.memory)


def _mount(mount: Mount) -> str:
    read_only = ["readonly"] if mount.read_only else []
    return _csv(["type=bind", f"source={mount.source}", f"target={mount.target}", *read_only])


def _csv(fields: Iterable[str]) -> str:
    """Quotes a value that Docker reads as a line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def _pairs(items: Iterable[tuple[str, object]]) -> list[str]:
    return [f"{name}={value}" for name, value in items]


def _each(option: str, values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from (option, value)


def _given(option: str, value: object) -> Iterator[str]:
    if value is not None:
        yield from (option, str(value))
