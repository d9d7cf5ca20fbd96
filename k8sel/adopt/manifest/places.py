"""Finds the places of a manifest's values in its text. Judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from k8sel.adopt.line.lexer import NotRead
from k8sel.adopt.line.words import Word
from k8sel.errors import FieldPath
from k8sel.jobfile.yamlio import Document
from k8sel.planning.env import SHORTEN, TooLong, added, filled, references
from k8sel.wording import bare


class Places:
    """The places in one document."""

    def __init__(self, text: str, document: Document) -> None:
        self._document = document
        self._length = 0  # of all texts that were filled in
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
        known = {key: word.text for key, word in env.items() if not word.unknown}
        unknown = tuple(f"$({each})" for each in references(text) if each not in known)
        what = f"the variable {bare(name)}" if name else "a word of the command"
        try:
            value = filled(text, known, what)
            self._length = added(self._length, value, name or "the command")
        except TooLong as error:
            raise NotRead(self.word("", path).start, str(error), SHORTEN) from None
        return self.word(value, path, unknown=unknown)
