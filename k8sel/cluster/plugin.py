"""Runs the exec plugin of a kubeconfig, which prints a token or a certificate. Never shows what it prints.

The form: kubernetes.io/docs/reference/access-authn-authz/authentication, client-go credential plugins.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import IO, Any, Literal

import msgspec
from msgspec import Struct

from k8sel.errors import ClusterError
from k8sel.wording import bare, one_line

SECONDS = 60.0  # for a plugin that asks nobody
LOGIN_SECONDS = 300.0  # for one that may ask a person
_BYTES = 1 << 20  # of its output; a certificate has some KiB
_PIECE = 1 << 12
_AFTER_END_SECONDS = 1.0  # in which its last output arrives; a program that it has left behind may keep the pipe open
_LINE = 300  # characters of its last line


class Given(Struct, frozen=True):
    """The plugin's result: a token, or a certificate with its key."""

    token: str = ""
    clientCertificateData: str = ""
    clientKeyData: str = ""
    expirationTimestamp: datetime | None = None


class _Credential(Struct, frozen=True):
    kind: Literal["ExecCredential"]
    apiVersion: str
    status: Given


class _Entry(Struct, frozen=True):
    """The entry `exec` of a user."""

    command: str
    apiVersion: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    installHint: str | None = None
    interactiveMode: str | None = None
    provideClusterInfo: bool | None = None


def run(config: Mapping[str, Any], cluster: Mapping[str, Any], folder: str, context: str) -> Given:
    """Runs the plugin of ``context`` in ``folder``. Raises ClusterError if it gives no credential."""
    try:
        entry = msgspec.convert(config, _Entry)
    except msgspec.ValidationError as error:
        raise ClusterError(f"the entry exec of context {context} is not usable: {error}") from None
    name = f"the exec plugin {bare(entry.command)} of context {context}"
    interactive = entry.interactiveMode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if entry.interactiveMode == "Always" and not interactive:
        raise ClusterError(f"{name} needs a terminal (interactiveMode: Always). Log in there first")
    printed = _printed(entry, name, _environment(entry, cluster, interactive), folder, interactive)
    return _credential(printed, entry, name)


def _environment(entry: _Entry, cluster: Mapping[str, Any], interactive: bool) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": interactive}
    if entry.provideClusterInfo:
        extensions = {each["name"]: each["extension"] for each in cluster.get("extensions") or ()}
        spec["cluster"] = {**cluster, "config": extensions.get("client.authentication.k8s.io/exec")}
    told = {"apiVersion": entry.apiVersion, "kind": "ExecCredential", "spec": spec}
    own = {each["name"]: each["value"] for each in entry.env or ()}
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(told)}


def _printed(entry: _Entry, name: str, env: dict[str, str], folder: str, interactive: bool) -> bytes:
    """The plugin's standard output. Raises ClusterError with the last line of its standard error."""
    seconds = LOGIN_SECONDS if interactive else SECONDS
    try:
        process = subprocess.Popen(
            [entry.command, *(entry.args or ())],
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder or None,
            env=env,
            start_new_session=not interactive,  # so that its own children end with it
        )
    except OSError as error:
        hint = f" {one_line(entry.installHint)}" if entry.installHint else ""
        raise ClusterError(f"{name} cannot be started: {error.strerror}.{hint}") from None
    out, err = _Reader(process.stdout, show=False), _Reader(process.stderr, show=interactive)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{name} did not end within {seconds:g} s. Run it by hand, or log in again") from None
    finally:
        _end(process, interactive)
    printed, complaint = out.whole(), _last_line(err.whole())
    if status:
        how = f"failed with exit status {status}" if status > 0 else f"was ended by signal {-status}"
        raise ClusterError(f"{name} {how}{': ' if complaint else ''}{complaint}. Run it by hand, or log in again")
    return printed


def _end(process: subprocess.Popen[bytes], interactive: bool) -> None:
    """Ends the plugin and the programs that it started."""
    with suppress(ProcessLookupError, PermissionError):
        if interactive:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _credential(printed: bytes, entry: _Entry, name: str) -> Given:
    try:
        found = msgspec.json.decode(printed, type=_Credential)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ClusterError(f"{name} printed no ExecCredential. Run it by hand, or log in again") from None
    if found.apiVersion != entry.apiVersion:
        raise ClusterError(f"{name} answers in apiVersion {bare(found.apiVersion)}, not {bare(entry.apiVersion)}")
    given = found.status
    if not given.token and not (given.clientCertificateData and given.clientKeyData):
        raise ClusterError(f"{name} gave no token, and no certificate with a key. Run it by hand, or log in again")
    return given


def _last_line(data: bytes) -> str:
    lines = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
    return one_line(lines[-1].strip()[:_LINE].rstrip(".")) if lines else ""


class _Reader:
    """Keeps the end of a stream, in a thread, and shows it on standard error if ``show``."""

    def __init__(self, stream: IO[bytes] | None, *, show: bool) -> None:
        assert stream is not None
        self.stream, self.show, self.data = stream, show, bytearray()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError), self.stream:
            while piece := os.read(self.stream.fileno(), _PIECE):
                if self.show:
                    print(piece.decode(errors="replace"), end="", file=sys.stderr, flush=True)
                self.data += piece
                del self.data[:-_BYTES]

    def whole(self) -> bytes:
        """All that was read; more than the largest size is cut at its beginning."""
        self.thread.join(_AFTER_END_SECONDS)
        return bytes(self.data)
