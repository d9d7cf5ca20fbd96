"""No hostile text drives a terminal: every command on a pseudo-terminal, with control characters in foreign text."""

from __future__ import annotations

import json
import os
import pty
import shlex
import socketserver
import subprocess
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cluster_client import fake
from cluster_client.fake import Asked, Object, Reply

from k8sel.cli.main import COMMANDS

# Title, clipboard (OSC 52), link (OSC 8), clear, C1, bidi, carriage return, backspace, DEL, bell
HOSTILE = "\x1b]0;t\x07\x1b]52;c;aGk=\x07\x1b]8;;http://x\x1b\\\x1b[2J\x9b31m\x9d0;t\x9c\u202e\u2066\rjob\x08\x7f\x07"
SEEN = ("\\x1b]0;t\\x07", "\\u001b]0;t\\u0007")  # a part of it, made plain; the second in JSON and in quotes
BOLD = ("\x1b[1m", "\x1b[0m")
META = {"name": "demo"}
SPEC: Object = {
    "image": "reg/x:1",
    "command": ["sh", "-c", f"echo {HOSTILE}"],
    "launcher": "python",
    "accelerator": {"type": "cpu"},
    "env": [{"name": "TEXT", "value": HOSTILE}],
}


def job_file(folder: Path, name: str = "job.yaml", meta: Object | None = None, **spec: Any) -> str:  # noqa: ANN401
    document = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": meta or META}
    (folder / name).write_text(json.dumps({**document, "spec": {**SPEC, **spec}}))
    return name


def wrong(folder: Path) -> str:
    """A job file with hostile keys and values in the fields that have a form of their own."""
    return job_file(
        folder,
        meta={"name": HOSTILE, HOSTILE: HOSTILE, "labels": {HOSTILE: HOSTILE}},
        image=HOSTILE,
        launcher=HOSTILE,
        accelerator={"type": HOSTILE},
        env=[{"name": HOSTILE, "value": HOSTILE}],
        volumes=[{"name": HOSTILE, HOSTILE: {}}],
    )


def manifest(folder: Path) -> str:
    container = {
        "name": HOSTILE,
        "image": f"reg/x:{HOSTILE}",
        "command": ["python", HOSTILE],
        "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": f"1,1{HOSTILE}"}, {"name": HOSTILE, "value": HOSTILE}],
        "resources": {"limits": {"nvidia.com/gpu": HOSTILE}},
    }
    text = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": HOSTILE}, "spec": {"containers": [container]}}
    (folder / "pod.json").write_text(json.dumps(text))
    return "pod.json"


def receipts(folder: Path) -> str:
    (folder / "run.log").write_text("\n".join(receipt(f"{HOSTILE}{node}") for node in range(2)))
    return "run.log"


def receipt(node: str) -> str:
    fields = {
        "node": node,
        "job": HOSTILE,
        "nodes": 3,
        "processesPerNode": 2,
        "accelerator": "cuda",
        "driver": HOSTILE,
        "threads": HOSTILE,
        "libraries": {HOSTILE: HOSTILE},
        "mask": {"CUDA_VISIBLE_DEVICES": HOSTILE},
        "ranks": [{"localRank": 0, "devices": [{"uuid": HOSTILE, "pci": HOSTILE, "numa": HOSTILE}]}],
    }
    return f"k8sel-receipt: {json.dumps(fields)}\n"


def krm(folder: Path) -> str:
    job = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": HOSTILE}, "spec": {}}
    (folder / "list.json").write_text(json.dumps({"kind": "ResourceList", "items": [job]}))
    return "list.json"


def raw(folder: Path) -> str:
    (folder / "raw.yaml").write_bytes(f"spec: {HOSTILE}\n".encode())
    return "raw.yaml"


LOCAL: dict[str, list[tuple[Callable[[Path], list[str]], bool]]] = {
    # command: its words, and if the hostile text has to be seen
    "init": [
        (lambda _: ["init", "-l", HOSTILE], True),
        (lambda _: ["init", "-a", "cpu", f"{HOSTILE.replace('/', '')}.yaml"], True),
        (lambda _: ["init", f"none/{HOSTILE}"], True),
    ],
    "from": [
        (lambda _: ["from", f"python {shlex.quote(HOSTILE)} train.py"], True),
        (lambda _: ["from", "--", f"torchrun --{HOSTILE} train.py | {HOSTILE}"], False),
        (lambda folder: ["from", "-f", manifest(folder)], True),
    ],
    "schema": [(lambda _: ["schema"], False)],
    "validate": [
        (lambda folder: ["validate", wrong(folder)], True),
        (lambda folder: ["validate", raw(folder)], False),
        (lambda _: ["validate", HOSTILE], True),
        (lambda folder: ["validate", job_file(folder, HOSTILE.replace("/", ""), image="")], True),
        (lambda _: [HOSTILE], True),
        (lambda _: ["validate", f"--{HOSTILE}", "x"], True),
    ],
    "plan": [
        (lambda folder: ["plan", job_file(folder)], True),
        (lambda folder: ["plan", "-o", "json", job_file(folder)], False),
        (lambda folder: ["plan", "--on", HOSTILE, job_file(folder)], True),
    ],
    "render": [
        (lambda folder: ["render", job_file(folder)], True),
        (lambda folder: ["render", "-o", "json", job_file(folder)], False),
        (lambda folder: ["render", "--krm", krm(folder)], True),
    ],
    "run": [
        (lambda folder: ["run", "--print", job_file(folder)], True),
        (lambda folder: ["run", "--plan", job_file(folder, workingDir=f"/none/{HOSTILE}")], True),
    ],
    "docker": [
        (lambda folder: ["docker", "--print", job_file(folder)], True),
        (lambda folder: ["docker", "-q", job_file(folder, entrypoint={"mode": "none"})], True),
    ],
    "devices": [(lambda _: ["devices", "--type", "cpu"], True), (lambda _: ["devices", "--type", HOSTILE], True)],
    "audit": [
        (lambda folder: ["audit", manifest(folder)], True),
        (lambda folder: ["audit", "-o", "json", manifest(folder)], False),
        (lambda folder: ["audit", "-o", "sarif", manifest(folder)], False),
        (lambda _: ["audit", HOSTILE], True),
    ],
    "receipt": [
        (lambda folder: ["receipt", receipts(folder)], True),
        (lambda folder: ["receipt", "diff", receipts(folder), receipts(folder)], True),
        (lambda _: ["receipt", f"none/{HOSTILE}"], True),
    ],
}
CLUSTER: dict[str, list[tuple[Callable[[Path], list[str]], bool]]] = {
    "apply": [
        (lambda folder: ["apply", "--wait", job_file(folder, meta={"name": "fresh"})], True),
        (lambda folder: ["apply", job_file(folder, meta={"name": "refused"})], True),
    ],
    "delete": [(lambda _: ["delete", "refused"], True), (lambda _: ["delete", HOSTILE], True)],
    "status": [(lambda _: ["status", "demo"], True), (lambda _: ["status", "-o", "json", "demo"], False)],
    "logs": [(lambda _: ["logs", "-F", "demo"], True), (lambda _: ["logs", "demo"], True)],
    "receipt": [(lambda _: ["receipt", "demo"], True)],
    "plan": [(lambda folder: ["plan", "--cluster", "--context", HOSTILE, job_file(folder)], True)],
    "from": [(lambda _: ["from", "-f", "pytorchjob/demo"], True)],
}
CASES = [
    pytest.param(words, seen, id=f"{command}-{number}")
    for cases in (LOCAL, CLUSTER)
    for command, rows in cases.items()
    for number, (words, seen) in enumerate(rows, 100 if cases is CLUSTER else 0)
]


def test_every_command_has_a_case() -> None:
    assert sorted(COMMANDS) == sorted({*LOCAL, *CLUSTER})


@pytest.mark.parametrize(("words", "seen"), CASES)
def test_no_control_character_reaches_the_terminal(
    words: Callable[[Path], list[str]], seen: bool, tmp_path: Path, places: dict[str, str]
) -> None:
    shown = on_terminal(words(tmp_path), tmp_path, places)

    assert "fault in k8sel" not in shown
    assert not seen or any(form in shown for form in SEEN)
    for own in BOLD:
        shown = shown.replace(own, "")
    assert {sign for sign in shown if not sign.isprintable() and sign not in "\n\t"} == set()


def on_terminal(words: list[str], folder: Path, places: dict[str, str]) -> str:
    """Returns what `k8sel WORDS` sends to a terminal."""
    masked = {"CUDA_VISIBLE_DEVICES": HOSTILE} if words[0] == "devices" else {}
    return shown_by([sys.executable, "-m", "k8sel", *words], folder, {**places, **masked})


def shown_by(command: list[str], folder: Path, places: dict[str, str]) -> str:
    """Returns the text that ``command`` sends to a terminal, which changes no byte of it."""
    own, its = pty.openpty()
    tty.setraw(its)
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env |= {"TERM": "xterm-256color", "COLUMNS": "200", **places}
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=env, cwd=folder):
        os.close(its)
        shown = b"".join(iter(lambda: _read(own), b""))
    os.close(own)
    return shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other side has ended
        return b""


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables that lead to an API server and a Docker daemon with hostile answers."""
    socket = str(tmp_path / "docker.sock")
    with fake.serving(_Cluster()) as server, _Daemon(socket, _Refusing) as daemon:
        threading.Thread(target=daemon.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield {
            "KUBECONFIG": str(fake.kubeconfig(tmp_path, server.host)),
            "DOCKER_HOST": f"unix://{socket}",
            "HOME": str(tmp_path),
        }
        daemon.shutdown()


ENDED = {"exitCode": 1, "reason": HOSTILE, "message": f"two\nlines {HOSTILE}", "finishedAt": "2026-01-01T00:01:00Z"}
FAILED = fake.job(
    command=["python", HOSTILE],
    conditions=[{"type": "Failed", "status": "True", "reason": HOSTILE, "message": HOSTILE}],
)
POD = fake.pod(phase="Failed", containerStatuses=[{"name": "pytorch", "state": {"terminated": ENDED}}])
WAITS = fake.pod(
    f"demo-worker-{HOSTILE.replace('/', '').replace(chr(13), '')}",
    containerStatuses=[{"name": "pytorch", "state": {"waiting": {"reason": HOSTILE, "message": HOSTILE}}}],
)
EVENT = {
    "metadata": {"name": "e", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "involvedObject": {"uid": "uid-demo"},
    "reason": HOSTILE,
    "message": HOSTILE,
}
LOG = f"k8sel-receipt: cut {HOSTILE}\n{receipt('demo-master-0')}{HOSTILE}\n".encode()
WARNING = {"Warning": f'299 - "{HOSTILE.encode("ascii", "ignore").decode().replace(chr(13), "")}"'}
REFUSAL = {
    "kind": "Status",
    "code": 422,
    "reason": "Invalid",
    "message": HOSTILE,
    "details": {"causes": [{"reason": "FieldValueInvalid", "field": f"spec.{HOSTILE}", "message": HOSTILE}]},
}


class _Cluster:
    """Has the job ``demo``, which failed; takes the job ``fresh``, which fails at once; refuses ``refused``."""

    def __init__(self) -> None:
        self.applied = False

    def __call__(self, asked: Asked) -> Reply:
        if "refused" in asked.path:
            return Reply(code=422, body=REFUSAL)
        if asked.path.endswith("/fresh") and not self.applied and asked.method == "GET":
            return Reply(code=404, body=fake.NOT_FOUND)
        name = "fresh" if "/fresh" in asked.path or self.applied else "demo"
        found = {**FAILED, "metadata": {**FAILED["metadata"], "name": name}}
        made = fake.served(asked, of_job=found, pods=[POD, WAITS], events=[EVENT], log=LOG)
        if asked.method == "PATCH":
            self.applied = self.applied or (asked.path.endswith("/fresh") and "dryRun" not in asked.query)
            return Reply(code=made.code, body=made.body, headers=WARNING)
        return made


class _Daemon(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _Refusing(BaseHTTPRequestHandler):
    """A Docker daemon that has no image and cannot pull one."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        known = {"_ping": b"OK", "version": b'{"ApiVersion": "1.43"}'}.get(self.path.rpartition("/")[2])
        code, body = (200, known) if known else (404, json.dumps({"message": HOSTILE}).encode())
        if "/images/create" in self.path:
            code, body = 200, json.dumps({"error": HOSTILE}).encode()
        self.send_response_only(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_DELETE = _answer

    def log_message(self, *_: object) -> None: ...


def test_a_plugin_that_asks_a_person_shows_its_words_plain(tmp_path: Path, places: dict[str, str]) -> None:
    program = f"import sys; print({HOSTILE!r} + 'stdout'); sys.exit('open http://login ' + {HOSTILE!r})"
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", program]}
    fake.kubeconfig(tmp_path, "http://127.0.0.1:1", {"exec": entry})
    shown = on_terminal(["status", "demo"], tmp_path, places)

    assert f"open http://login {SEEN[0]}" in shown
    assert "failed with exit status 1" in shown
    assert "stdout" not in shown
    assert {sign for sign in shown if not sign.isprintable() and sign not in "\n\t"} == set()


@pytest.mark.parametrize("words", [["validate", "--\x1b[2J", "x"], ["\x1b[2J"]])
def test_a_terminal_without_utf_8_gets_none_either(words: list[str], tmp_path: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert "\\x1b[2J" in (shown := on_terminal(words, tmp_path, ascii_only))
    assert "\x1b" not in shown


@pytest.mark.parametrize("command", ["run", "docker"])
def test_a_line_to_paste_is_unchanged_in_a_pipe(command: str, tmp_path: Path) -> None:
    done = piped([command, "-q", "--print", job_file(tmp_path)], tmp_path)
    assert shlex.quote(f"TEXT={HOSTILE}") in done.stdout.decode()


def test_a_log_is_unchanged_in_a_pipe(tmp_path: Path, places: dict[str, str]) -> None:
    done = piped(["logs", "-F", "demo"], tmp_path, **places)
    assert f"demo-master-0 | {HOSTILE}\n" in done.stdout.decode()


def test_messages_are_plain_in_a_pipe_too(tmp_path: Path) -> None:
    done = piped(["validate", wrong(tmp_path)], tmp_path)
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr


def piped(words: list[str], folder: Path, **places: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "k8sel", *words]
    return subprocess.run(command, env={**os.environ, **places}, cwd=folder, capture_output=True, check=False)


def test_the_bar_of_a_pull_is_drawn_and_the_image_s_name_is_plain(tmp_path: Path) -> None:
    program = f"""if True:
        from k8sel.cli import streams
        from k8sel.machine.docker import pulling
        streams.ready()
        parts = [{{"id": "a", "status": "Downloading", "progressDetail": {{"current": n, "total": 9}}}} for n in (1, 9)]
        pulling.image(lambda *_, **__: parts, {HOSTILE!r} + "[red]", None, here=False, quiet=False)
    """
    shown = shown_by([sys.executable, "-c", program], tmp_path, {})
    assert "\x1b[?25l" in shown  # the bar hides the cursor, and shows it again at the end
    assert SEEN[0] in shown
    assert "[red]" in shown
    assert not {"\x07", "\u202e", "\x08"} & set(shown)
