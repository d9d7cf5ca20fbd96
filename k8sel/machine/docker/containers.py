"""`k8sel docker`: runs containers by this machine's daemon. Only this module imports ``docker``.

A thread for each container copies its output and waits for its end. The main thread gets signals and ends by a queue.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import CancellableStream
from docker.utils.socket import SocketError
from msgspec import Struct
from msgspec.structs import replace
from requests.exceptions import RequestException, Timeout

from k8sel.errors import ContainersError
from k8sel.machine.docker import pulling
from k8sel.machine.docker.arguments import arguments
from k8sel.machine.docker.emit import Container
from k8sel.machine.docker.output import copy

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container as Made

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
REMOVE_AGAIN_AFTER = (0.2, 0.5, 1, 2, 4)  # seconds
GRACE_SECONDS = 10  # between SIGTERM and SIGKILL, as in Docker
CONNECT_SECONDS = 60
ANSWER_SECONDS = 300  # for one request: a busy daemon may take a minute to start a container
PATIENCE = 2  # this many Ctrl-C go to the program; the next one ends this process
# A part of the daemon's answer -> the hint. {needs}: the table's requirements for a machine with these devices.
CAUSES = (
    ('could not select device driver "cdi"', "the daemon has no CDI: use Docker 25 or newer, or leave --cdi out"),
    ("CDI device injection failed", "the daemon finds no such CDI device: it needs {needs}"),
    ("could not select device driver", "the daemon cannot expose this kind of device: install {needs}"),
    ("unknown or invalid runtime name", "the daemon does not have the runtime for this device: install {needs}"),
    ("Unknown runtime specified", "the daemon does not have the runtime for this device: install {needs}"),
    ("error gathering device information", "this machine does not have so many of these devices, or lacks {needs}"),
    ("bind source path does not exist", "spec.volumes names a folder that is not on the daemon's machine"),
    ("is already in use by container", "another run of this job is going on or was killed: docker rm -f {name}"),
    ("range of CPUs is from", "spec.resources.cpu is more than the daemon's machine has"),
    ("No such container", "the container was removed in the meantime"),
    (
        "network with name",
        "another run of this job is going on or was killed: docker rm -f {names}, then docker network rm {network}",
    ),
)


class _Ended(Struct, frozen=True, kw_only=True):
    """The end of a container; ``status`` is the program's."""

    index: int
    status: int
    trouble: Exception | None = None  # the error, if its output or its end could not be read


# Standard output and error, piece by piece
_Output: TypeAlias = "CancellableStream[tuple[bytes | None, bytes | None]]"
_Events = queue.SimpleQueue["_Ended | signal.Signals"]


def run(containers: Sequence[Container], network: str | None, *, needs: str = "", pull: str | None, quiet: bool) -> int:
    """Runs all containers to their end. Returns the first failure's exit status, or 0. Raises ContainersError."""
    first = containers[0]
    names = " ".join(each.name for each in containers)
    hints = {"needs": needs, "name": first.name, "names": names, "network": network or ""}
    with _explained(hints):
        client = _connect()
        _pull(client, first.image, pull, quiet)
        _check_user(client, first)
        with contextlib.ExitStack() as left:
            events: _Events = queue.SimpleQueue()
            left.enter_context(_signals(events))
            if network:
                own = client.networks.create(network, check_duplicate=True, labels=dict(first.labels))
                left.callback(_remove, own.remove, f"docker network rm {network}")
            started: list[Made] = []
            for each in containers:
                made, output = _start(client, each, left, quiet)
                _follow(made, output, f"{each.name}: ".encode() if network else b"", len(started), events)
                started.append(made)
            return _await_all(started, events)


def _connect() -> DockerClient:
    try:
        client = docker.from_env(timeout=CONNECT_SECONDS)
        client.ping()
        client.api.timeout = ANSWER_SECONDS
    except (DockerException, RequestException) as error:
        raise ContainersError(
            f"k8sel: no Docker daemon answers: {_system(error) or _brief(error)}. "
            "Is it running, and may this user use it? Set DOCKER_HOST if it is not at /var/run/docker.sock."
        ) from None
    return client


def _pull(client: DockerClient, image: str, policy: str | None, quiet: bool) -> None:
    get = functools.partial(client.api.pull, stream=True, decode=True)
    try:
        pulling.image(get, image, policy, here=_has(client, image), quiet=quiet)
    except APIError as error:
        raise ContainersError(
            f"k8sel: image {image} cannot be pulled: {_brief(error)}. Is spec.image right, and this machine logged in?"
        ) from None


def _has(client: DockerClient, image: str) -> bool:
    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    return True


def _check_user(client: DockerClient, container: Container) -> None:
    """Refuses an image whose user may be root under runAsNonRoot, as the kubelet does.

    kubernetes/kubernetes pkg/kubelet/kuberuntime/security_context_others.go, verifyRunAsNonRoot.
    """
    if not container.not_root:
        return
    user = ((client.images.get(container.image).attrs["Config"] or {}).get("User") or "root").partition(":")[0]
    if user.isdecimal() and user.strip("0"):
        return
    why = "runs as root" if user in ("root", "0") else f"has a user without a number, {user}, which may be root"
    raise ContainersError(
        f"k8sel: image {container.image} {why}, and runAsNonRoot forbids that. "
        "Hint: set podSecurityContext: {runAsUser: 1000}, for example, or use an image with USER 1000"
    )


def _start(client: DockerClient, container: Container, left: contextlib.ExitStack, quiet: bool) -> tuple[Made, _Output]:
    """Starts a container. Returns it with its output stream; ``left`` removes it later."""
    made = client.containers.create(**arguments(container))
    left.callback(_remove, functools.partial(made.remove, force=True, v=True), f"docker rm -f {container.name}")
    output = made.attach(stream=True, stdout=True, stderr=True, logs=True, demux=True)
    left.callback(_hang_up, output)
    try:
        made.start()
    except APIError as error:
        if not container.ulimits or "rlimit" not in _brief(error):
            raise
        limits = " and ".join(name for name, _ in container.ulimits)
        if not quiet:
            print(f"k8sel: this daemon may not raise {limits} (is it rootless?): left out", file=sys.stderr)
        made.remove(force=True, v=True)
        return _start(client, replace(container, ulimits=()), left, quiet)
    return made, output


def _hang_up(output: _Output) -> None:
    """Closes the output before the container's removal: a daemon with undelivered output does not see the end."""
    with contextlib.suppress(OSError, DockerException):
        output.close()


def _follow(container: Made, output: _Output, prefix: bytes, index: int, events: _Events) -> None:
    """Copies a container's output and reports its end, in a thread."""

    def follow() -> None:
        try:
            copy(output, prefix)
            events.put(_Ended(index=index, status=int(container.wait()["StatusCode"])))
        except Exception as error:
            events.put(_Ended(index=index, status=1, trouble=error))

    threading.Thread(target=follow, daemon=True).start()


@contextlib.contextmanager
def _signals(events: _Events) -> Iterator[None]:
    """Sends this process's signals to the queue, from where they go to the program."""
    active = [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]  # nohup stays nohup
    interrupts = 0

    def receive(number: int, frame: object) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        if number == signal.SIGINT and interrupts > PATIENCE:
            raise KeyboardInterrupt
        events.put(signal.Signals(number))

    before = {number: signal.signal(number, receive) for number in active}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _await_all(containers: list[Made], events: _Events) -> int:
    running, failed = set(range(len(containers))), 0
    while running:
        event = events.get()
        if isinstance(event, signal.Signals):
            _forward(event, [containers[index] for index in running])
            continue
        running.discard(event.index)
        if event.trouble:
            raise event.trouble
        if event.status and not failed:
            failed = event.status
            _stop([containers[index] for index in running])
    return failed


def _forward(number: signal.Signals, containers: list[Made]) -> None:
    for container in containers:
        _gone(functools.partial(container.kill, int(number)))


def _stop(containers: list[Made]) -> None:
    """Stops all containers at once: their programs wait for each other."""
    threads = [
        threading.Thread(target=_gone, args=(functools.partial(each.stop, timeout=GRACE_SECONDS),))
        for each in containers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _remove(remove: Callable[[], object], by_hand: str) -> None:
    """Removes a container or network. Tries again: a daemon may refuse while it ends a container."""
    reason = ""
    for pause in REMOVE_AGAIN_AFTER:
        try:
            remove()
        except NotFound:
            return
        except (Timeout, KeyboardInterrupt) as error:
            reason = _brief(error) or "interrupted"
            break
        except (APIError, RequestException) as error:
            reason = _brief(error)
            time.sleep(pause)
        else:
            return
    print(f"k8sel: a part of the job may be left ({reason}): {by_hand}", file=sys.stderr)


def _gone(act: Callable[[], object]) -> None:
    """Calls ``act``; ignores the error for a container that has ended or is removed."""
    with contextlib.suppress(NotFound, APIError, RequestException):
        act()


@contextlib.contextmanager
def _explained(hints: dict[str, str]) -> Iterator[None]:
    """Turns the daemon's errors into ContainersErrors, with a hint where one is known."""
    try:
        yield
    except Timeout:
        raise ContainersError(
            f"k8sel: the Docker daemon did not answer for {ANSWER_SECONDS:g} s: it is overloaded, or hangs. "
            "Hint: `docker ps -a` shows what it may have started meanwhile; docker rm -f {name}".format(**hints)
        ) from None
    except DockerException as error:
        answer = _brief(error)
        way = next((f" Hint: {way.format(**hints)}" for part, way in CAUSES if part.lower() in answer.lower()), "")
        raise ContainersError(f"k8sel: the Docker daemon refused: {answer.rstrip('.')}.{way}") from None
    except (RequestException, SocketError) as error:
        raise ContainersError(f"k8sel: the Docker daemon went away: {_brief(error)}. Hint: see its log") from None


def _system(error: BaseException | None) -> str:
    """The operating system's error behind a client's error, such as ``Permission denied``; empty if there is none."""
    while error:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        error = error.__context__
    return ""


def _brief(error: BaseException) -> str:
    return " ".join(str(getattr(error, "explanation", None) or error).split())
