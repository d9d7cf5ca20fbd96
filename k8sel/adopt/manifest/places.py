"""Finds the places of a manifest's values in its text. Judges nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate

from k8sel.adopt.line.lexer import NotRead
from k8sel.adopt.line.words import Word
from k8sel.errors import FieldPath
from k8sel.jobfile.yamlio import Document
from k8sel.planning.env import EXPANDED, SHORTEN, TooLong, filled_variable


class Places:
    """The places in one document."""

    def __init__(self, text: str, document: Document) -> None:
        self._document = document
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def word(self, text: str, path: FieldPath, *, unknown: tuple[str, ...] = ()) -> Word:
        """Returns ``text`` as a word at the place of ``path``."""
        place = self._document.locate(path)
        start = self._starts[min(place.line, len(self._starts)) - 1] + place.column - 1
        return Word(text=text, start=start, end=start + len(text), unknown=unknown)

    def filled(self, text: str, path: FieldPath, env: Mapping[str, Word], name: str = "") -> Word:
        """Returns ``text`` with ``$(NAME)`` filled in from ``env``, as the kubelet does; a missing name stays.

        ``name`` is the variable that ``text`` belongs to; "" for a word of the command. Raises NotRead.
        """
        known = {name: word.text for name, word in env.items() if not word.unknown}
        unknown = (match[0] for match in re.finditer(EXPANDED, text) if match[1] is not None and match[1] not in known)
        try:
            value = filled_variable(name, text, known)
        except TooLong as error:
            raise NotRead(self.word("", path).start, str(error), SHORTEN) from None
        return self.word(value, path, unknown=tuple(unknown))
