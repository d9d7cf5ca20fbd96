"""No cluster behind the kubeconfig, or no kubeconfig: each in one line, with the way out and without a secret."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from k8sel.cluster import Cluster, JobRef, connect, status
from k8sel.errors import ClusterError

SECRET = "s3cret-token"
GOOD = f"""
clusters: [{{name: c, cluster: {{server: "SERVER", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: {SECRET}}}}}]
contexts:
  - {{name: one, context: {{cluster: c, user: u, namespace: team}}}}
  - {{name: two, context: {{cluster: c, user: u}}}}
current-context: one
"""


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    return path


def test_no_kubeconfig(kubeconfig: Path) -> None:
    with pytest.raises(ClusterError) as caught:
        connect()
    assert str(caught.value) == (
        f"no cluster found: {kubeconfig} does not exist. "
        "Set KUBECONFIG, or have your cluster's tool write one; `k8sel render` needs no cluster"
    )


def test_contexts_and_namespaces(kubeconfig: Path) -> None:
    kubeconfig.write_text(GOOD.replace("SERVER", "https://127.0.0.1:1"))
    assert (connect().context, connect().namespace) == ("one", "team")
    assert (connect("two").context, connect("two").namespace) == ("two", "default")
    assert connect(namespace="mine").namespace == "mine"
    with pytest.raises(ClusterError, match=f"{kubeconfig}: there is no context 'three'. Known: one, two"):
        connect("three")


BAD = {
    "empty": "",
    "no mapping": "- a\n",
    "no yaml": "a: [\n",
    "text": "just words",
    "no contexts": "current-context: one\n",
    "no current context": GOOD.replace("current-context: one", ""),
    "no such cluster": GOOD.replace("name: c,", "name: d,"),
    "no user name": f"{{contexts: [{{name: one, context: {{cluster: c}}}}], users: [{{token: {SECRET}}}]}}",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_bad_kubeconfig(kubeconfig: Path, text: str) -> None:
    kubeconfig.write_text(text)
    with pytest.raises(ClusterError, match=f"{kubeconfig}: (not a usable kubeconfig|there is no context)") as caught:
        connect()
    assert SECRET not in str(caught.value)


def test_a_pod_without_its_service_account(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert not kubeconfig.exists()
    with pytest.raises(ClusterError, match="this pod has no mounted service account"):
        connect()


def test_a_cluster_without_a_server(kubeconfig: Path) -> None:
    kubeconfig.write_text(GOOD.replace("server: ", "port: "))
    with pytest.raises(ClusterError, match=f"{kubeconfig}: the cluster of context one has no server"):
        connect()


def test_a_closed_port(kubeconfig: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        host = f"https://127.0.0.1:{free.getsockname()[1]}"
    kubeconfig.write_text(GOOD.replace("SERVER", host))
    found = connect()
    with pytest.raises(ClusterError) as caught:
        status(found, JobRef(name="any"))
    assert str(caught.value).startswith(f"{host}: cannot connect: ")
    assert str(caught.value).endswith("Is the cluster up, and the context the right one? (context one)")
    assert SECRET not in f"{caught.value}{found!r}"


def test_a_host_name_that_is_not_known(kubeconfig: Path) -> None:
    kubeconfig.write_text(GOOD.replace("SERVER", "https://nowhere.invalid"))
    with pytest.raises(ClusterError, match=r"https://nowhere.invalid: DNS does not know this host name"):
        status(_direct(connect()), JobRef(name="any"))


def _direct(cluster: Cluster) -> Cluster:
    """Asked without a proxy, which would look the name up itself."""
    import urllib3

    return Cluster(
        host=cluster.host,
        namespace=cluster.namespace,
        context=cluster.context,
        pool=urllib3.PoolManager(),
        auth_headers=cluster.auth_headers,
    )


def test_something_else_answers(kubeconfig: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"https://127.0.0.1:{server.getsockname()[1]}"
        kubeconfig.write_text(GOOD.replace("SERVER", host))
        script = f"import socket; s = socket.fromfd({server.fileno()}, 2, 1); s.accept()[0].send(b'SSH-2.0-x\\r\\n')"
        other = subprocess.Popen([sys.executable, "-c", script], pass_fds=[server.fileno()])
        with other, pytest.raises(ClusterError, match=f"{host}: "):
            status(connect(), JobRef(name="any"))


def test_a_page_instead_of_an_answer(kubeconfig: Path) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>Log in</html>")

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        host = f"http://127.0.0.1:{server.server_port}"
        kubeconfig.write_text(GOOD.replace("SERVER", host))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ClusterError, match=f"{host}: the answer is not JSON"):
            status(connect(), JobRef(name="any"))
        server.shutdown()


def test_importing_the_package_does_not_import_the_client() -> None:
    script = "import sys, k8sel.cluster; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
