"""Makes a Cluster from a kubeconfig, or from a pod's service account.

Only this module imports `kubernetes`, and only in functions: the import takes a quarter of a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
import yaml
from urllib3.exceptions import InsecureRequestWarning

from k8sel.cluster.rest import Cluster
from k8sel.errors import ClusterError

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NO_KUBECONFIG = (
    "no cluster found: {files} does not exist. "
    "Set KUBECONFIG, or have your cluster's tool write one; `k8sel render` needs no cluster"
)


def connect(context: str | None = None, namespace: str | None = None) -> Cluster:
    """The cluster of ``context`` (default: the current one), or of the pod that runs k8sel. Sends nothing yet."""
    files = _kubeconfig_files()
    if any(path.is_file() for path in files):
        return _from_kubeconfig(os.pathsep.join(map(str, files)), context, namespace)
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _from_pod(namespace)
    raise ClusterError(_NO_KUBECONFIG.format(files=os.pathsep.join(map(str, files))))


def _kubeconfig_files() -> list[Path]:
    named = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return [Path(name).expanduser() for name in named.split(os.pathsep) if name]


def _from_kubeconfig(files: str, context: str | None, namespace: str | None) -> Cluster:
    config, configuration = _client()
    configuration.host = ""  # else the loader keeps its default, localhost, if the kubeconfig names no server
    with _readable(files):
        contexts, current = config.list_kube_config_contexts(config_file=files)
        chosen = _choose(contexts, context or current["name"], files)
        config.load_kube_config(
            config_file=files, context=chosen["name"], client_configuration=configuration, persist_config=False
        )
    if not configuration.host:
        raise ClusterError(f"{files}: the cluster of context {chosen['name']} has no server")
    default = chosen.get("context", {}).get("namespace") or "default"
    return _cluster(configuration, chosen["name"], namespace or default)


def _choose(contexts: list[dict[str, Any]], name: str, files: str) -> dict[str, Any]:
    for context in contexts:
        if context["name"] == name:
            return context
    known = ", ".join(sorted(context["name"] for context in contexts)) or "none"
    raise ClusterError(f"{files}: there is no context {name!r}. Known: {known}")


def _from_pod(namespace: str | None) -> Cluster:
    config, configuration = _client()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise ClusterError(
            f"this pod has no mounted service account ({error}). Set automountServiceAccountToken, or KUBECONFIG"
        ) from error
    mounted = _POD_NAMESPACE.read_text().strip() if _POD_NAMESPACE.is_file() else "default"
    return _cluster(configuration, "in-cluster", namespace or mounted)


def _client() -> tuple[Any, Any]:
    """Imports the generated client, which has no types: returns its loader and a new configuration."""
    from kubernetes import config
    from kubernetes.client import Configuration

    return config, Configuration()


def _cluster(configuration: Any, context: str, namespace: str) -> Cluster:  # noqa: ANN401  (untyped)
    """Takes TLS, proxies and credentials from the official client. k8sel sends requests on its connection pool."""
    from kubernetes.client.rest import RESTClientObject

    if not configuration.verify_ssl:
        urllib3.disable_warnings(InsecureRequestWarning)  # the kubeconfig asks for it; kubectl does not warn either
    return Cluster(
        host=configuration.host.rstrip("/"),
        context=context,
        namespace=namespace,
        pool=RESTClientObject(configuration).pool_manager,
        auth_headers=lambda: _headers(configuration),
    )


def _headers(configuration: Any) -> dict[str, str]:  # noqa: ANN401
    """The headers that log in. `auth_settings` renews expired tokens; a token from a file may end with a newline."""
    settings = configuration.auth_settings().values()
    return {each["key"]: each["value"].rstrip() for each in settings if each["in"] == "header" and each["value"]}


@contextmanager
def _readable(files: str) -> Iterator[None]:
    """Turns the loader's errors on a bad kubeconfig into one clear error.

    It never prints the loader's own messages: they can contain a whole user entry with its token
    (ConfigNode's name in kubernetes/config/kube_config.py is the entry's text).
    """

    try:
        yield
    except ClusterError:
        raise
    except Exception as error:
        raise ClusterError(f"{files}: not a usable kubeconfig: {_complaint(error)}") from None


def _complaint(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if isinstance(error, yaml.YAMLError) and mark is not None:
        return f"invalid YAML at line {mark.line + 1}, column {mark.column + 1}"
    if isinstance(error, OSError):
        return f"{error.strerror}"
    return "a cluster, user or context is missing or incomplete. `kubectl config view` shows it without secrets"
