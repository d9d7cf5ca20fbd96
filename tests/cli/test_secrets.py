"""No output has a secret: tokens, passwords, the output of exec plugins, and the variables' values of job files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_client import fake
from cluster_client.fake import Asked, Object, Reply, Server

from k8sel.cli.main import COMMANDS
from k8sel.errors import SpecError
from k8sel.jobfile import load

TOKEN, PASSWORD, PRINTED = "t0ken.of-the.kubeconfig", "p4ssword-in-kubeconfig", "pr1nted-by-the-plugin"
VALUE = "hf_v4lue-of-a-variable"
SECRETS = (TOKEN, PASSWORD, PRINTED, VALUE)
META = {"name": "demo"}
SPEC: Object = {
    "image": "reg/x:1",
    "command": ["true"],
    "launcher": "python",
    "accelerator": {"type": "cpu"},
    "env": [{"name": "HF_TOKEN", "value": VALUE}],
}


def job_file(folder: Path, **spec: Any) -> str:  # noqa: ANN401 - the job file's own YAML
    document = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": META}
    (folder / "job.json").write_text(json.dumps({**document, "spec": {**SPEC, **spec}}))
    return "job.json"


def pod_file(folder: Path) -> str:
    container = {"name": "a", "image": "a", "command": ["true"], "env": SPEC["env"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": {"containers": [container]}}
    (folder / "pod.json").write_text(json.dumps(pod))
    return "pod.json"


# command -> its calls. The second column: standard output is a manifest, a job file or a line to paste, with values.
CASES: dict[str, list[tuple[Callable[[Path], list[str]], bool]]] = {
    "init": [(lambda _: ["init", "x.yaml"], False)],
    "from": [
        (lambda folder: ["from", "-f", pod_file(folder)], True),
        (lambda _: ["from", "-f", "pytorchjob/demo"], True),
    ],
    "schema": [(lambda _: ["schema"], False)],
    "validate": [
        (lambda folder: ["validate", job_file(folder)], False),
        (lambda folder: ["validate", "--namespace-policy", "restricted", job_file(folder)], False),
    ],
    "plan": [
        (lambda folder: ["plan", job_file(folder)], False),
        (lambda folder: ["plan", "--cluster", job_file(folder)], False),
        (lambda folder: ["plan", "-o", "json", job_file(folder)], True),
    ],
    "render": [(lambda folder: ["render", job_file(folder)], True)],
    "run": [
        (lambda folder: ["run", "--print", job_file(folder)], True),
        (lambda folder: ["run", "--plan", job_file(folder, workingDir="/none")], False),
    ],
    "docker": [
        (lambda folder: ["docker", "--print", job_file(folder)], True),
        (lambda folder: ["docker", "--plan", job_file(folder)], False),
    ],
    "devices": [(lambda _: ["devices"], False)],
    "audit": [(lambda folder: ["audit", pod_file(folder)], False)],
    "apply": [
        (lambda folder: ["apply", "--wait", "--timeout", "5", job_file(folder)], False),
        (lambda folder: ["apply", "--dry-run", "server", job_file(folder)], False),
    ],
    "delete": [(lambda _: ["delete", "demo"], False), (lambda _: ["delete", "other"], False)],
    "status": [(lambda _: ["status", "demo"], False), (lambda _: ["status", "-o", "json", "demo"], False)],
    "logs": [(lambda _: ["logs", "-F", "demo"], False), (lambda _: ["logs", "demo"], False)],
    "receipt": [(lambda _: ["receipt", "demo"], False)],
}
ROWS = [
    pytest.param(words, data, id=f"{command}-{number}")
    for command, rows in CASES.items()
    for number, (words, data) in enumerate(rows)
]
PLUGIN = f"import sys; print('{PRINTED}'); sys.exit(1)"
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", PLUGIN]}
USERS: dict[str, Object] = {
    "token": {"token": TOKEN},
    "password": {"username": "me", "password": PASSWORD},
    "plugin": {"exec": EXEC},
}


def test_every_command_has_a_case() -> None:
    assert sorted(COMMANDS) == sorted(CASES)


@pytest.mark.parametrize(("words", "data"), ROWS)
def test_no_command_prints_a_secret(
    words: Callable[[Path], list[str]], data: bool, tmp_path: Path, server: Server
) -> None:
    out, err = output(words(tmp_path), tmp_path, fake.kubeconfig(tmp_path, server.host, USERS["token"]))

    assert "fault in k8sel" not in err
    assert [secret for secret in SECRETS if secret in err] == []
    assert [secret for secret in SECRETS if secret in out and not (data and secret == VALUE)] == []


CLUSTER = [row for row in ROWS if str(row.id).partition("-")[0] in ("apply", "delete", "status", "logs", "receipt")]


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
@pytest.mark.parametrize(("words", "data"), CLUSTER)
def test_nor_where_a_proxy_sends_the_request_back(
    words: Callable[[Path], list[str]], data: bool, user: Object, tmp_path: Path, server: Server
) -> None:
    server.answer = echo
    out, err = output(words(tmp_path), tmp_path, fake.kubeconfig(tmp_path, server.host, user))

    assert "plugin" in err or "502 [redacted]" in err
    assert [secret for secret in SECRETS if secret in out + err] == []


def test_nor_is_a_login_in_the_server_s_address_printed(tmp_path: Path, server: Server) -> None:
    host = server.host.replace("://", f"://me:{PASSWORD}@")
    out, err = output(["status", "other"], tmp_path, fake.kubeconfig(tmp_path, host))

    assert err.startswith(f"{server.host}: ")
    assert PASSWORD not in out + err


@pytest.mark.parametrize(
    "text",
    [
        f"{{HF: {VALUE}}}",
        f"[HF={VALUE}]",
        f"[{{name: HF={VALUE}}}]",
        f"[{{name: HF, value: {VALUE}, x: 1}}]",
        f"[{{name: HF, value: [{VALUE}]}}]",
        f"[{{name: HF, value: {{a: {VALUE}}}}}]",
        f"[{{name: HF, valueFrom: {VALUE}}}]",
        f"[{{name: HF, value: '{VALUE}', valueFrom: {{}}}}]",
        f"[{{name: HF, value: {VALUE}}}, {{name: HF, value: {VALUE}}}]",
        f"[{{name: RANK, value: {VALUE}}}]",
        f"[{{name: CUDA_VISIBLE_DEVICES, value: {VALUE}}}]",
        f"[{{name: OMP_NUM_THREADS, value: {VALUE}}}]",
        f'[{{name: HF, value: "{VALUE}\\0"}}]',
        f"[{{name: HF, value: !{VALUE}}}]",
        f"[{{name: HF, value: *{VALUE}}}]",
        f"[{{name: HF, value: &{VALUE}}}]",
        f"[{{name: HF, value: @{VALUE}}}]",
        f"[{{name: HF, value: %{VALUE}}}]",
        f"[{{name: HF, value: '{VALUE}}}]",
        f'[{{name: HF, value: "{VALUE}\\q"}}]',
        VALUE,
    ],
)
def test_no_mistake_in_a_variable_shows_its_value(text: str) -> None:
    job = "{apiVersion: k8sel.dev/v1alpha1, kind: AcceleratedJob, metadata: {name: a}, spec: {image: a, env: %s}}"
    with pytest.raises(SpecError) as caught:
        load.load((job % text).encode(), "job.yaml")
    assert VALUE not in str(caught.value)


def test_nor_does_a_number() -> None:
    job = "{apiVersion: k8sel.dev/v1alpha1, kind: AcceleratedJob, metadata: {name: a}, spec: {image: a, env: %s}}"
    with pytest.raises(SpecError) as caught:
        load.load((job % "[{name: PIN, value: 743917465}]").encode(), "job.yaml")
    assert "743917465" not in str(caught.value)
    assert "expected a string, got a number. Hint: write the value in quotes" in str(caught.value)


def output(words: list[str], folder: Path, config: Path) -> tuple[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env = {**kept, "KUBECONFIG": str(config), "DOCKER_HOST": f"unix://{folder}/none", "HOME": str(folder)}
    command = [sys.executable, "-m", "k8sel", *words]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout, done.stderr


@pytest.fixture
def server() -> Iterator[Server]:
    """A cluster with the job ``demo``, whose pods fail."""
    ended = {"exitCode": 1, "reason": "Error", "message": "no devices", "finishedAt": "2026-01-01T00:01:00Z"}
    job = fake.job(command=["true"], conditions=[{"type": "Failed", "status": "True", "message": "failed"}])
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"] = SPEC["env"]
    pod = fake.pod(phase="Failed", containerStatuses=[{"name": "pytorch", "state": {"terminated": ended}}])
    with fake.serving(lambda asked: fake.served(asked, of_job=job, pods=[pod], events=[], log=b"line\n")) as made:
        yield made


def echo(asked: Asked) -> Reply:
    """Answers with the request, as a proxy in search of a fault does."""
    seen = {name.lower(): value for name, value in asked.headers.items()}
    return Reply(code=502, body=f"502 {seen.get('authorization')}: bad gateway".encode(), headers={
        "Warning": f'299 - "{seen.get("authorization")}"'})  # fmt: skip
