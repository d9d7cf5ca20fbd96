"""Tokens to commands: lists of words with the variables of the same text filled in. Runs nothing.

What is not known (a variable that the text does not set, what a command prints) stays as it is written, and is marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from k8sel.adopt.line.lexer import NotRead, Piece, Token
from k8sel.adopt.line.words import Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_PATTERN = re.compile(r"[*?]|\{[^{}]*,[^{}]*\}")
_SPLITS = re.compile(r"[ \t\n]+")
LONGEST = 131071  # characters of a word: Linux, MAX_ARG_STRLEN
MOST = 2_000_000  # of a command, and of its variables
ENDS = ("\n", ";", "&", "&&", "||", "|", ";;")


class Raw(Struct, frozen=True, kw_only=True):
    """One command before anything is filled in."""

    tokens: tuple[Token, ...]
    redirections: tuple[Token, ...]
    before: str  # the operator in front of it
    after: str  # the operator behind it
    end: Token | None  # where that stands


def commands(found: Iterable[Token]) -> Iterator[Raw]:
    """The commands that ``found`` holds, between newlines, semicolons, pipes and the like."""
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
    """The variable that ``token`` sets, and whether it adds to it; None for another word."""
    first = token.pieces[0] if token.pieces else None
    if first is None or first.quoted or first.name or first.unknown:
        return None
    match = _ASSIGNMENT.match(first.text)
    return (match[1], bool(match[2])) if match else None


def value(token: Token, variables: Mapping[str, Word]) -> Word:
    """What ``token``, an assignment, gives its variable: one word, however many spaces are in it."""
    first, *others = token.pieces
    rest = Piece(text=_ASSIGNMENT.sub("", first.text, count=1))
    pieces = [_home(rest), *others]
    return _joined([_filled(each, variables) for each in pieces], token, pattern=False)


def command(tokens: Iterable[Token], variables: Mapping[str, Word]) -> list[Word]:
    """The words of a command."""
    listed: list[Word] = []
    length = 0
    for token in tokens:
        found = words(token, variables)
        listed += found
        length += sum(len(word.text) + 1 for word in found)
        if length > MOST:
            raise NotRead(token.start, "this command is longer than a program can get", f"at most {MOST} characters")
    return listed


def words(token: Token, variables: Mapping[str, Word]) -> list[Word]:
    """The words that ``token`` becomes: an unquoted variable may be several, or none."""
    first, *others = token.pieces
    pieces = [_home(first), *others]
    pattern = any(_PATTERN.search(each.text) for each in pieces if _is_text(each) and not each.quoted)
    if not any(_is_split(each, variables) for each in pieces):
        return [_joined([_filled(each, variables) for each in pieces], token, pattern=pattern)]
    return [_joined(group, token, pattern=pattern) for group in _split(pieces, variables)]


def _is_text(piece: Piece) -> bool:
    return piece.name is None and not piece.unknown


def _home(piece: Piece) -> Piece:
    """A tilde at a word's start is the user's home folder."""
    is_home = _is_text(piece) and not piece.quoted and piece.text.startswith("~")
    return Piece(text=piece.text, unknown=True) if is_home else piece


def _is_split(piece: Piece, variables: Mapping[str, Word]) -> bool:
    known = variables.get(piece.name or "")
    return piece.name is not None and not piece.quoted and known is not None and not known.unknown


def _filled(piece: Piece, variables: Mapping[str, Word]) -> tuple[str, tuple[str, ...]]:
    """The text of ``piece``, and what of it is not known."""
    if _is_text(piece):
        return piece.text, ()
    known = variables.get(piece.name or "")
    if known is None or known.unknown:
        return piece.text, (piece.text,)
    return (known.text or piece.default or ""), ()


def _split(pieces: Iterable[Piece], variables: Mapping[str, Word]) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """The pieces of each word, where unquoted variables are split at their spaces."""
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
        raise NotRead(token.start, "this word is longer than a program can get", f"at most {LONGEST} characters")
    text = "".join(text for text, _ in listed)
    unknown = tuple(each for _, names in listed for each in names)
    return Word(text=text, start=token.start, end=token.end, unknown=unknown, pattern=pattern)
