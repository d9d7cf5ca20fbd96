"""Makes a Cluster from a kubeconfig, or from a pod's service account.

Only this module imports `kubernetes`, and only in functions: the import takes a quarter of a second.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
import yaml
from urllib3.exceptions import InsecureRequestWarning

from k8sel.cluster import plugin
from k8sel.cluster.rest import Cluster
from k8sel.errors import ClusterError

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LOGIN_IN_URL = re.compile(r"^(\w+://)?[^/]*@")  # messages would print it, and no request has it
_KUBECONFIG_BYTES = 1 << 20  # of one file: some hundred clusters with their certificates
_LEVELS = 50
_VALUES = 50_000  # YAML events: a cluster with its user and context has about 40
_EXPANDED = 4 << 20  # characters, with each alias replaced by its value
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
        _refuse_large(files)
        read = config.kube_config.KubeConfigMerger(files).config
        loader = config.kube_config.KubeConfigLoader(config_dict=read, config_base_path=None)
        chosen = _choose(loader.list_contexts(), context or loader.current_context["name"], files)
        loader.set_active_context(chosen["name"])
        loader._load_from_exec_plugin = lambda: _log_in(loader, chosen["name"])
        loader.load_and_set(configuration)
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


def _log_in(loader: Any, context: str) -> bool:  # noqa: ANN401  (untyped)
    """Gives the loader the credential of the exec plugin. Its own method goes on without one if the plugin fails."""
    if "exec" not in loader._user:
        return False
    folder = loader._get_base_path(loader._cluster.path)
    given = plugin.run(loader._user["exec"].value, loader._cluster.value, folder, context)
    if given.token:
        loader.token = f"Bearer {given.token}"
    else:
        parts = {"certificate": given.clientCertificateData, "key": given.clientKeyData}
        for part, text in parts.items():
            loader._user.value[f"client-{part}-data"] = base64.b64encode(text.encode()).decode()
    if given.expirationTimestamp:
        loader.expiry = given.expirationTimestamp
    return True


def _refuse_large(files: str) -> None:
    """Refuses a kubeconfig that is too large, also after its YAML aliases are replaced by their values.

    The client reads YAML by Python alone, 20 s for a file of 1 MiB, and prints aliases into the names of its nodes.
    """
    for file in [path for path in map(Path, files.split(os.pathsep)) if path.is_file()]:
        with file.open("rb") as opened:
            text = opened.read(_KUBECONFIG_BYTES + 1)
        if len(text) > _KUBECONFIG_BYTES:
            raise ClusterError(f"{file}: a kubeconfig has at most {_KUBECONFIG_BYTES >> 20} MiB")
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if _expanded(itertools.islice(events, _VALUES)) > _EXPANDED or next(iter(events), None):
            raise ClusterError(f"{file}: it has too many values, or YAML aliases that repeat them without an end")


def _expanded(events: Iterable[yaml.Event]) -> float:
    """The characters of a document with each alias replaced; endless for too many levels, or an anchor in itself."""
    sizes: list[float] = [0]
    anchors: list[str | None] = [None]
    known: dict[str | None, float] = {}
    for event in events:
        if len(sizes) > _LEVELS:
            return float("inf")
        if isinstance(event, yaml.CollectionStartEvent):
            sizes.append(0)
            anchors.append(event.anchor)
            continue
        size, anchor = _size(event, known), event.anchor if isinstance(event, yaml.ScalarEvent) else None
        if isinstance(event, yaml.CollectionEndEvent):
            size, anchor = sizes.pop(), anchors.pop()
        known[anchor] = size
        sizes[-1] += size + 1
    return max(sizes)


def _size(event: yaml.Event, known: Mapping[str | None, float]) -> float:
    if isinstance(event, yaml.ScalarEvent):
        return len(event.value)
    return known.get(event.anchor, float("inf")) if isinstance(event, yaml.AliasEvent) else 0


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
        host=_LOGIN_IN_URL.sub(lambda found: found[1] or "", configuration.host).rstrip("/"),
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
