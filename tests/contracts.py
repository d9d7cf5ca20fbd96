"""A contract for import-linter: what a package may import, said by name; everything else is refused."""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowlistContract(Contract):
    """``package`` imports itself, and nothing but ``allowed``: those modules, without what is below them."""

    type_name = "allowlist"

    package = fields.StringField()
    allowed = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compares each direct import with the list; ``verbose`` says no more."""
        package: Any = self.package  # the fields' values have their place when the contract is made
        allowed: Any = self.allowed
        own = {package, *graph.find_descendants(package)}
        found = [(by, of) for by in own for of in graph.find_modules_directly_imported_by(by)]
        refused = sorted((by, of) for by, of in found if of not in own and of not in allowed)
        return ContractCheck(kept=not refused, metadata={"refused": refused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints one line for each import that is not on the list."""
        for by, of in check.metadata["refused"]:
            output.print_error(f"{by} imports {of}, which is not in `allowed`.")
        output.new_line()
