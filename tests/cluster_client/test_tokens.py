"""A token reaches the API server as one clean header, or is refused; no way prints it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_client import fake
from cluster_client.fake import Reply, Server
from k8sel.cluster import JobRef, connect
from k8sel.cluster import plugin as exec_plugin
from k8sel.cluster import status as job_status
from k8sel.errors import ClusterError

SECRET = "s3cret-token"
VERSION = "client.authentication.k8s.io/v1"
GIVEN = {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": f"{SECRET}\n"}}


@pytest.fixture
def server() -> Iterator[Server]:
    """Knows no object."""
    with fake.serving(lambda _: Reply(code=404, body=fake.NOT_FOUND)) as made:
        yield made


def status(server: Server, folder: Path, user: dict[str, Any], **environment: str) -> str:
    """Returns the output of `k8sel status` for a kubeconfig with this ``user``."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-m", "k8sel", "status", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "KUBECONFIG": str(fake.kubeconfig(folder, server.host, user)), **environment},
    )
    assert done.returncode == 1
    return done.stdout + done.stderr


def tokens(server: Server) -> set[str | None]:
    return {asked.headers.get("Authorization", asked.headers.get("authorization")) for asked in server.seen}


def with_token(_: Path) -> dict[str, Any]:
    return {"token": f"{SECRET}\n"}


def with_file(folder: Path) -> dict[str, Any]:
    (folder / "token").write_text(f"{SECRET}\r\n")
    return {"tokenFile": str(folder / "token")}


def with_plugin(folder: Path) -> dict[str, Any]:
    return plugin(f"print({json.dumps(GIVEN)!r})")


def plugin(program: str, **entry: Any) -> dict[str, Any]:  # noqa: ANN401 - the kubeconfig's own YAML
    """A user whose exec plugin runs this Python program."""
    call = {"command": sys.executable, "args": ["-c", program], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": VERSION, **call, **entry}}


@pytest.mark.parametrize("user", [with_token, with_file, with_plugin])
def test_a_line_end_after_the_token_is_no_part_of_it(
    server: Server, tmp_path: Path, user: Callable[[Path], dict[str, Any]]
) -> None:
    printed = status(server, tmp_path, user(tmp_path))

    assert tokens(server) == {f"Bearer {SECRET}"}
    assert printed.startswith(f"{server.host}: the cluster has no PyTorchJob")
    assert SECRET not in printed


@pytest.mark.parametrize("character", ["\n", "\x00", "\x7f", "\u20ac"])
def test_a_token_that_fits_no_header_is_refused(server: Server, tmp_path: Path, character: str) -> None:
    printed = status(server, tmp_path, {"token": f"s3cret{character}token"}, K8SEL_TRACEBACK="1")

    assert printed == (
        f"{server.host}: the token of context one has a control character or a letter outside "
        "ASCII, and no HTTP header can carry it. Replace the token in the kubeconfig, or log in again\n"
    )
    assert server.seen == []


NAME = f"the exec plugin {sys.executable} of context one"
AGAIN = "Run it by hand, or log in again\n"
FAIL = """if True:
    import sys
    print('SECRET')
    print('first\\nno\\x1b[2J session.\\n\\n', file=sys.stderr)
    sys.exit(3)
"""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (FAIL.replace("SECRET", SECRET), f"{NAME} failed with exit status 3: no\\x1b[2J session. {AGAIN}"),
        ("import os; os.kill(os.getpid(), 9)", f"{NAME} was ended by signal 9. {AGAIN}"),
        (f"print('{SECRET}')", f"{NAME} printed no ExecCredential. {AGAIN}"),
        ("print('[' * 100000)", f"{NAME} printed no ExecCredential. {AGAIN}"),
        (f"print('{SECRET}' * 300000)", f"{NAME} printed no ExecCredential. {AGAIN}"),
        (
            f"print({json.dumps({**GIVEN, 'status': {}})!r})",
            f"{NAME} gave no token, and no certificate with a key. {AGAIN}",
        ),
        (
            f"print({json.dumps({**GIVEN, 'apiVersion': 'v9'})!r})",
            f"{NAME} answers in apiVersion v9, not {VERSION}\n",
        ),
    ],
    ids=["fails", "killed", "text", "deep", "long", "no token", "other version"],
)
def test_a_plugin_that_fails_is_named_and_no_request_is_sent(
    server: Server, tmp_path: Path, program: str, says: str
) -> None:
    assert status(server, tmp_path, plugin(program)) == says
    assert server.seen == []


def test_a_plugin_that_is_missing_is_named_with_its_hint(server: Server, tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": VERSION, "command": "no-such-plugin", "installHint": "Install it\nby x."}}
    assert status(server, tmp_path, user) == (
        "the exec plugin no-such-plugin of context one cannot be started: No such file or directory. "
        "Install it\\nby x.\n"
    )
    assert server.seen == []


@pytest.mark.parametrize(
    "entry", [{}, {"command": 7}, {"command": "x"}, {"command": "x", "apiVersion": "v", "args": "y"}]
)
def test_a_wrong_entry_is_named(server: Server, tmp_path: Path, entry: dict[str, Any]) -> None:
    assert "the entry exec of context one is not usable: " in status(server, tmp_path, {"exec": entry})
    assert server.seen == []


def test_a_plugin_that_needs_a_terminal_is_named(server: Server, tmp_path: Path) -> None:
    user = plugin(f"print('{SECRET}')", interactiveMode="Always")
    assert status(server, tmp_path, user) == f"{NAME} needs a terminal (interactiveMode: Always). Log in there first\n"


def test_a_plugin_gets_its_own_variables_and_the_cluster(server: Server, tmp_path: Path) -> None:
    program = f"""if True:
        import json, os
        told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        assert (told["kind"], told["apiVersion"]) == ("ExecCredential", "{VERSION}")
        assert told["spec"]["interactive"] is False
        assert told["spec"]["cluster"]["server"] == "{server.host}"
        print({json.dumps(GIVEN)!r}.replace("{SECRET}", os.environ["OWN"]))
    """
    user = plugin(program, env=[{"name": "OWN", "value": "other-token"}], provideClusterInfo=True)
    status(server, tmp_path, user)
    assert tokens(server) == {"Bearer other-token"}


HANGS = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"


def test_a_plugin_that_hangs_ends_with_its_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marked = {"name": "MARK", "value": str(tmp_path)}
    monkeypatch.setattr(exec_plugin, "SECONDS", 1.0)
    begun = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        exec_plugin.run(plugin(HANGS, env=[marked])["exec"], {}, "", "one")
    assert str(caught.value) == f"{NAME} did not end within 1 s. {AGAIN.strip()}"
    assert time.monotonic() - begun < 20
    while str(tmp_path).encode() in b"".join(map(_environment, Path("/proc").glob("[0-9]*"))):
        assert time.monotonic() - begun < 20


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes() if process.name != str(os.getpid()) else b""
    except OSError:
        return b""


def test_an_expired_token_is_renewed_or_the_request_is_not_sent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run of the plugin fails: the old token must not be sent again."""
    old = {**GIVEN, "status": {"token": SECRET, "expirationTimestamp": "2026-01-01T00:00:00Z"}}
    program = f"""if True:
        import pathlib, sys
        first = pathlib.Path({str(tmp_path / "first")!r})
        if first.exists():
            sys.exit("the session is over")
        first.touch()
        print({json.dumps(old)!r})
    """
    monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig(tmp_path, server.host, plugin(program))))
    monkeypatch.setenv("NO_PROXY", "*")
    at = connect()
    with pytest.raises(ClusterError, match="failed with exit status 1: the session is over"):
        job_status(at, JobRef(name="demo"))
    assert server.seen == []
