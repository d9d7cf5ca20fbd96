"""The entrypoint's import contract is an allowlist: whatever is not on it breaks it."""

from __future__ import annotations

import pytest
from contracts import AllowlistContract
from grimp import ImportGraph


@pytest.mark.parametrize(
    ("imported", "kept"),
    [("os", True), ("k8sel", True), ("k8sel.entrypoint.masks", True), ("k8sel.facts.names", False), ("msgspec", False)],
)
def test_an_import_that_is_not_on_the_list(imported: str, kept: bool) -> None:
    graph = ImportGraph()
    for module in (
        "k8sel",
        "k8sel.facts.names",
        "k8sel.entrypoint",
        "k8sel.entrypoint.masks",
        "k8sel.entrypoint.ranks",
    ):
        graph.add_module(module)
    graph.add_import(importer="k8sel.entrypoint.ranks", imported=imported)
    options = {"package": "k8sel.entrypoint", "allowed": ["k8sel", "os"]}
    contract = AllowlistContract(name="", session_options={"root_packages": ["k8sel"]}, contract_options=options)
    checked = contract.check(graph, verbose=False)
    assert (checked.kept, checked.metadata["refused"]) == (
        kept,
        [] if kept else [("k8sel.entrypoint.ranks", imported)],
    )
