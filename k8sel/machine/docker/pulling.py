"""Gets an image that is not here yet, and says how far it is. Knows no client: it is handed its way to pull."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from k8sel.errors import ContainersError

Pull = Callable[..., Iterable[dict[str, Any]]]  # docker's own: (repository, tag=...), what the daemon says meanwhile


def image(pull: Pull, name: str, policy: str | None, *, here: bool, quiet: bool) -> None:
    """``name`` is here afterwards; ``policy`` as in Kubernetes, IfNotPresent if not given."""
    if policy == "Never" and not here:
        raise ContainersError(f"k8sel: image {name} is not here, and imagePullPolicy: Never forbids to pull it")
    if policy == "Never" or (here and policy != "Always"):
        return
    if not quiet:
        print(f"k8sel: pulling {name}", file=sys.stderr)
    repository, tag = _split(name)
    said = pull(repository, tag=tag)
    shown = _bar(said, name) if sys.stderr.isatty() and not quiet else said
    for message in shown:
        if "error" in message:
            raise ContainersError(f"k8sel: image {name} cannot be pulled: {message['error']}")


def _split(name: str) -> tuple[str, str]:
    """Repository, and tag or digest: a colon before the last slash is a registry's port."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def _bar(said: Iterable[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Bytes of all layers, as far as the daemon has told of them."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    layers: dict[str, tuple[int, int]] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        for message in said:
            detail = message.get("progressDetail") or {}
            if message.get("status") == "Downloading" and "total" in detail:
                layers[message["id"]] = detail["current"], detail["total"]
                done, total = (sum(numbers) for numbers in zip(*layers.values(), strict=True))
                progress.update(task, completed=done, total=total)
            yield message
