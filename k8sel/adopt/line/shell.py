"""Turns tokens into commands: lists of words, with the text's own variables filled in. Runs nothing.

Unknown parts (a variable that the text does not set, a command's output) stay as written, and are marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from k8sel.adopt.line.lexer import NotRead, Piece, Token
from k8sel.adopt.line.words import Word
from k8sel.planning.env import LONGEST, MOST

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_PATTERN = re.compile(r"[*?]|\{[^{}]*,[^{}]*\}")
_SPLITS = re.compile(r"[ \t\n]+")
_POINTER = 9  # bytes that the kernel adds to each word: its end and its place
LONGEST_TEXT = 1 << 16  # bytes of a command line: the scripts that people write have some kilobytes
ENDS = ("\n", ";", "&", "&&", "||", "|", ";;")


class Raw(Struct, frozen=True, kw_only=True):
    """One command before its variables are filled in."""

    tokens: tuple[Token, ...]
    redirections: tuple[Token, ...]
    before: str  # the operator before it
    after: str  # the operator after it
    end: Token | None  # the token of that operator


def commands(found: Iterable[Token]) -> Iterator[Raw]:
    """Yields the commands in ``found``, split at newlines, semicolons, pipes and the like."""
    words: list[Token] = []
    redirections: list[Token] = []
    before, target = "", False
    for token in found:
        if target and not token.operator:
            target = False
        elif token.operator in ENDS:
            yield _raw(words, redirections, before, token)
            words, redirections, before, target = [], [], token.operator, False
        elif token.operator and token.operator not in "()":
            redirections.append(token)
            target = True
        else:
            words.append(token)
    yield _raw(words, redirections, before, None)


def _raw(words: list[Token], redirections: list[Token], before: str, end: Token | None) -> Raw:
    after = end.operator if end else ""
    return Raw(tokens=tuple(words), redirections=tuple(redirections), before=before, after=after, end=end)


def assignment(token: Token) -> tuple[str, bool] | None:
    """Returns the variable that ``token`` sets, and whether it appends; None for another word."""
    first = token.pieces[0] if token.pieces else None
    if first is None or first.quoted or first.name or first.unknown:
        return None
    match = _ASSIGNMENT.match(first.text)
    return (match[1], bool(match[2])) if match else None


def value(token: Token, variables: Mapping[str, Word]) -> Word:
    """Returns the value that ``token``, an assignment, gives its variable: one word, even with spaces."""
    first, *others = token.pieces
    rest = Piece(text=_ASSIGNMENT.sub("", first.text, count=1))
    pieces = [_home(rest), *others]
    return _joined([_filled(each, variables) for each in pieces], token, pattern=False)


def command(tokens: Iterable[Token], variables: Mapping[str, Word]) -> list[Word]:
    """Returns the words of a command."""
    listed: list[Word] = []
    length = 0
    for token in tokens:
        found = words(token, variables)
        listed += found
        length += sum(len(word.text) + _POINTER for word in found)
        if length > MOST:
            raise NotRead(
                token.start, "this command is longer than a program can get", f"use at most {MOST} characters"
            )
    return listed


def words(token: Token, variables: Mapping[str, Word]) -> list[Word]:
    """Returns the words that ``token`` becomes: an unquoted variable may become several, or none."""
    first, *others = token.pieces
    pieces = [_home(first), *others]
    pattern = any(_PATTERN.search(each.text) for each in pieces if _is_text(each) and not each.quoted)
    if not any(_is_split(each, variables) for each in pieces):
        return [_joined([_filled(each, variables) for each in pieces], token, pattern=pattern)]
    return [_joined(group, token, pattern=pattern) for group in _split(pieces, variables)]


def _is_text(piece: Piece) -> bool:
    return piece.name is None and not piece.unknown


def _home(piece: Piece) -> Piece:
    """Marks a tilde at a word's start as unknown: it means the user's home folder."""
    is_home = _is_text(piece) and not piece.quoted and piece.text.startswith("~")
    return Piece(text=piece.text, unknown=True) if is_home else piece


def _is_split(piece: Piece, variables: Mapping[str, Word]) -> bool:
    known = variables.get(piece.name or "")
    return piece.name is not None and not piece.quoted and known is not None and not known.unknown


def _filled(piece: Piece, variables: Mapping[str, Word]) -> tuple[str, tuple[str, ...]]:
    """Returns the text of ``piece``, and its unknown parts."""
    if _is_text(piece):
        return piece.text, ()
    known = variables.get(piece.name or "")
    if known is None or known.unknown:
        return piece.text, (piece.text,)
    return (known.text or piece.default or ""), ()


def _split(pieces: Iterable[Piece], variables: Mapping[str, Word]) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """Yields the pieces of each word; splits unquoted variables at their spaces."""
    group: list[tuple[str, tuple[str, ...]]] = []
    for piece in pieces:
        text, unknown = _filled(piece, variables)
        if not _is_split(piece, variables):
            group.append((text, unknown))
            continue
        for index, part in enumerate(_SPLITS.split(text)):
            if index and group:
                yield group
                group = []
            group += [(part, ())] if part else []
    if group:
        yield group


def _joined(parts: Iterable[tuple[str, tuple[str, ...]]], token: Token, *, pattern: bool) -> Word:
    listed = list(parts)
    if sum(len(text) for text, _ in listed) > LONGEST:
        raise NotRead(token.start, "this word is longer than a program can get", f"use at most {LONGEST} characters")
    text = "".join(text for text, _ in listed)
    unknown = tuple(each for _, names in listed for each in names)
    return Word(text=text, start=token.start, end=token.end, unknown=unknown, pattern=pattern)
