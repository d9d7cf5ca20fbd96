"""Words of a command line, with their places in it. Knows no launcher."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from k8sel.errors import Location


class Word(Struct, frozen=True, kw_only=True):
    """One word as a program gets it, and its place in the text."""

    text: str
    start: int
    end: int
    unknown: tuple[str, ...] = ()  # parts that only the running shell expands, as written
    pattern: bool = False  # holds a pattern that the shell expands to file names

    def part(self, text: str) -> Word:
        """Returns a part of this word, at the same place."""
        unknown = tuple(each for each in self.unknown if each in text)
        return Word(text=text, start=self.start, end=self.end, unknown=unknown, pattern=self.pattern)


def locate(text: str, start: int, file: str) -> Location:
    """Returns the line and column of the character ``start`` of ``text``."""
    line_start = text.rfind("\n", 0, start) + 1
    return Location(file=file, line=text.count("\n", 0, line_start) + 1, column=start - line_start + 1)


def excerpt(lines: Sequence[str], location: Location, width: int = 76) -> str:
    """Returns the text of ``lines`` around ``location``, with a caret below it."""
    line = lines[location.line - 1]
    begin = max(0, location.column - 1 - width // 2) if len(line) > width else 0
    shown = "".join(each if each.isprintable() else "?" for each in line[begin : begin + width])
    return f"    {shown}\n    {' ' * (location.column - 1 - begin)}^"
