"""Pulls a missing image and shows the progress. Knows no client: the caller passes the function that pulls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from k8sel.errors import ContainersError
from k8sel.wording import one_line

Pull = Callable[..., Iterable[dict[str, Any]]]  # docker's own: (repository, tag=...) -> the daemon's messages


def image(pull: Pull, name: str, policy: str | None, *, here: bool, quiet: bool) -> None:
    """Makes sure that image ``name`` is on this machine. ``policy`` as in Kubernetes; default: IfNotPresent."""
    if policy == "Never" and not here:
        raise ContainersError(f"k8sel: image {name} is not on this machine, and imagePullPolicy: Never forbids a pull")
    if policy == "Never" or (here and policy != "Always"):
        return
    if not quiet:
        print(f"k8sel: pulling {name}", file=sys.stderr)
    repository, tag = _split(name)
    messages = pull(repository, tag=tag)
    shown = _bar(messages, name) if sys.stderr.isatty() and not quiet else messages
    for message in shown:
        if "error" in message:
            raise ContainersError(f"k8sel: image {name} cannot be pulled: {message['error']}")


def _split(name: str) -> tuple[str, str]:
    """The repository, and the tag or digest. A colon before the last slash belongs to a registry's port."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def _bar(messages: Iterable[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Shows the bytes of all layers that the daemon has reported so far; passes the messages on.

    The bar moves the cursor, so it uses the first writer of standard error, which makes nothing plain (cli/streams.py).
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    layers: dict[str, tuple[int, int]] = {}
    console = Console(file=sys.__stderr__)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(one_line(name), total=None)
        for message in messages:
            detail = message.get("progressDetail") or {}
            if message.get("status") == "Downloading" and "total" in detail:
                layers[message["id"]] = detail["current"], detail["total"]
                done, total = (sum(numbers) for numbers in zip(*layers.values(), strict=True))
                progress.update(task, completed=done, total=total)
            yield message
