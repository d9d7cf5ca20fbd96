"""Removes from a program's source the parts that only people and type checkers read. Pure.

It cuts at the positions that ``ast`` gives: tokenizers and ``ast.unparse`` differ between versions of Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator


def stripped(source: str) -> str:
    """``source`` without docstrings, comments, annotations and imports for type checkers, indented by one space.

    Lines keep their numbers, because an error of the program names its line.
    """
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    statements = [statement for node in nodes for statement in _dead(node)]
    dead = {line for statement in [*statements, *_unused(tree, nodes, statements)] for line in _lines(statement)}
    text = {line for node in nodes if _is_text(node) for line in _lines(node)} - dead
    inside = {line for node in nodes if _is_text(node) for line in _lines(node)[1:]} - dead
    lines = source.encode().split(b"\n")  # ast counts columns in bytes
    for number, first, last in sorted((cut for node in nodes for cut in _annotations(node, lines)), reverse=True):
        lines[number - 1] = lines[number - 1][:first] + lines[number - 1][last:]
    for number, line in enumerate(lines, start=1):
        code = line if number in text else line.partition(b"  # ")[0]  # ruff puts two spaces before such a comment
        lines[number - 1] = b"" if number in dead else line if number in inside else _lean(code)
    return b"\n".join(lines).decode()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _lines(node: ast.AST) -> range:
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
    return range(first, (last or first) + 1)


def _dead(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a block that do nothing at run time."""
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
        return
    if ast.get_docstring(node) and len(node.body) > 1:
        yield node.body[0]
    for statement in node.body:
        if _is_for_type_checkers(statement) or (_is_future(statement) and not _has_fields(node)):
            yield statement


def _unused(tree: ast.Module, nodes: list[ast.AST], dead: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The imports that only annotations and ``dead`` statements use. A module with ``__all__`` keeps its imports."""
    typed = [expression for node in nodes for expression in (_annotation(node), getattr(node, "returns", None))]
    unread = {id(node) for part in [*typed, *dead] if part for node in ast.walk(part)}
    used = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in unread}
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and not _is_future(statement):
            bound = {(name.asname or name.name).partition(".")[0] for name in statement.names}
            if "__all__" not in used and not bound & used:
                yield statement


def _annotation(node: ast.AST) -> ast.expr | None:
    return node.annotation if isinstance(node, (ast.arg, ast.AnnAssign)) else None


def _is_for_type_checkers(node: ast.stmt) -> bool:
    """Reports if ``node`` is an ``if TYPE_CHECKING:`` without an else."""
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING" and not node.orelse


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _has_fields(module: ast.AST) -> bool:
    """Reports if a class has annotated fields: programs read those annotations, so they must stay text."""
    return any(
        isinstance(item, ast.AnnAssign)
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for item in node.body
    )


def _annotations(node: ast.AST, lines: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """The line, first and last column of each annotation of a parameter, a result or a variable."""
    if isinstance(node, ast.arg) and node.annotation:
        yield from _cut(node, node.col_offset + len(node.arg.encode()), node.annotation)
    elif isinstance(node, ast.FunctionDef) and node.returns:
        arrow = lines[node.returns.lineno - 1].rindex(b" -> ", 0, node.returns.col_offset)
        yield from _cut(node.returns, arrow, node.returns)
    if isinstance(node, (ast.Module, ast.FunctionDef)):
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and item.value:
                yield from _cut(item, item.target.end_col_offset or 0, item.annotation)


def _cut(start: ast.arg | ast.expr | ast.stmt, column: int, end: ast.expr) -> Iterator[tuple[int, int, int]]:
    if start.lineno == end.end_lineno:  # an annotation over several lines stays: it does no harm
        yield start.lineno, column, end.end_col_offset or column


def _lean(line: bytes) -> bytes:
    content = line.lstrip(b" ")
    return b"" if content.startswith(b"#") else b" " * ((len(line) - len(content)) // 4) + content.rstrip()
