"""Splits shell text into tokens: words in pieces, and operators. Runs nothing, expands nothing.

POSIX.1-2024, Shell Command Language, 2.3 Token Recognition, with the redirections of bash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_SPACE = re.compile(r"(?:[ \t\r\f\v]|\\\r?\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"\n|&&|\|\||;;|&>>|&>|[0-9]*(?:<<<|<<-|<<|>>|[<>]&|<>|>\||<|>)|[;&|()]")
_PLAIN = re.compile(r"[^\s\\'\"$`;&|<>()]+")
_IN_QUOTES = re.compile(r'[^\\"$`]+')
_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_BRACED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::[-=]([^${}'\"`\\]*))?\}")
_SPECIAL = re.compile(r"\$[0-9@*#?$!-]")
_ESCAPED_IN_QUOTES = '"\\$`'


class Piece(Struct, frozen=True, kw_only=True):
    """A part of a word: text, a variable, or another expansion."""

    text: str  # without its quotes; as written, where the value is not known
    quoted: bool = False
    name: str | None = None  # of the variable
    default: str | None = None  # for the variable, where it has no value
    unknown: bool = False  # neither text nor a plain variable


class Token(Struct, frozen=True, kw_only=True):
    """A word or an operator."""

    start: int
    end: int
    pieces: tuple[Piece, ...] = ()
    operator: str = ""


class NotRead(Exception):
    """Text that is not valid shell; ``start`` is the place of the error."""

    def __init__(self, start: int, message: str, hint: str) -> None:
        self.start, self.message, self.hint = start, message, hint
        super().__init__(message)


def _unclosed(start: int, what: str) -> NotRead:
    return NotRead(start, f"{what} is opened here and never closed", "close it")


def tokens(text: str) -> Iterator[Token]:
    """Yields the tokens of ``text``. Raises NotRead."""
    at = 0
    while at < len(text):
        skipped = _SPACE.match(text, at) or _COMMENT.match(text, at)
        if skipped:
            at = skipped.end()
            continue
        token = _operator(text, at) or _word(text, at)
        yield token
        at = token.end


def _operator(text: str, at: int) -> Token | None:
    match = _OPERATOR.match(text, at)
    return Token(start=at, end=match.end(), operator=match[0]) if match else None


def _word(text: str, start: int) -> Token:
    pieces: list[Piece] = []
    at = start
    while at < len(text) and (found := _piece(text, at)):
        piece, at = found
        pieces += piece
    if at == start:  # white space that does not separate words is a part of the word
        pieces, at = [Piece(text=text[at])], at + 1
    return Token(start=start, end=at, pieces=tuple(pieces))


def _piece(text: str, at: int) -> tuple[list[Piece], int] | None:
    """Returns the pieces that begin at ``at``, and their end; None at a word's end."""
    first = text[at]
    if first == "\\":
        return _escaped(text, at)
    if first == "'":
        end = _until(text, at + 1, "'", at, "a single quote")
        return [Piece(text=text[at + 1 : end], quoted=True)], end + 1
    if first == '"':
        return _double_quoted(text, at)
    if first in "$`":
        return _expansion(text, at, quoted=False)
    plain = _PLAIN.match(text, at)
    return ([Piece(text=plain[0])], plain.end()) if plain else None


def _escaped(text: str, at: int) -> tuple[list[Piece], int]:
    """Reads a backslash and the character that it quotes; one at a line's end joins two lines."""
    if text.startswith("\\\r\n", at):
        return [], at + 3
    following = text[at + 1 : at + 2]
    return ([] if following == "\n" else [Piece(text=following or "\\", quoted=True)]), at + 2


def _double_quoted(text: str, start: int) -> tuple[list[Piece], int]:
    pieces = [Piece(text="", quoted=True)]
    at = start + 1
    while at < len(text) and text[at] != '"':
        if text[at] in "$`":
            found, at = _expansion(text, at, quoted=True)
            pieces += found
        elif text[at] == "\\":
            found, at = _escaped_in_quotes(text, at)
            pieces += found
        else:
            plain = _IN_QUOTES.match(text, at)
            assert plain is not None
            pieces.append(Piece(text=plain[0], quoted=True))
            at = plain.end()
    if at >= len(text):
        raise _unclosed(start, "a double quote")
    return pieces, at + 1


def _escaped_in_quotes(text: str, at: int) -> tuple[list[Piece], int]:
    following = text[at + 1 : at + 2]
    if following == "\n":
        return [], at + 2
    shown = following if following and following in _ESCAPED_IN_QUOTES else "\\" + following
    return [Piece(text=shown, quoted=True)], at + 2


def _expansion(text: str, at: int, *, quoted: bool) -> tuple[list[Piece], int]:
    """Reads an expansion, which begins with a dollar or a backquote."""
    if text[at] == "`":
        end = _until(text, at + 1, "`", at, "a backquote") + 1
        return [Piece(text=text[at:end], quoted=quoted, unknown=True)], end
    known = _BRACED.match(text, at) or _NAME.match(text, at)
    if known:
        default = known[2] if known.re is _BRACED else None
        return [Piece(text=known[0], quoted=quoted, name=known[1], default=default)], known.end()
    return _unknown(text, at, quoted=quoted)


def _unknown(text: str, at: int, *, quoted: bool) -> tuple[list[Piece], int]:
    following = text[at + 1 : at + 2]
    if following in ("(", "{"):
        end = _closing(text, at + 1) + 1
    elif not quoted and following in ("'", '"'):  # bash's own quotes
        end = _until(text, at + 2, following, at, "a quote") + 1
    elif _SPECIAL.match(text, at):
        end = at + 2
    else:
        return [Piece(text="$", quoted=quoted)], at + 1
    return [Piece(text=text[at:end], quoted=quoted, unknown=True)], end


def _until(text: str, at: int, closing: str, start: int, what: str) -> int:
    """Returns the position of ``closing``. A backslash escapes it, except in single quotes."""
    end = text.find(closing, at)
    while end > 0 and closing != "'" and text[end - 1] == "\\" and end > at:
        end = text.find(closing, end + 1)
    if end < 0:
        raise _unclosed(start, what)
    return end


def _closing(text: str, start: int) -> int:
    """Returns the position of the bracket that closes the one at ``start``; skips nested brackets and quotes."""
    pairs = {"(": ")", "{": "}"}
    opening, closing = text[start], pairs[text[start]]
    depth, at = 0, start
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] in "'\"":
            at = _until(text, at + 1, text[at], at, "a quote")
        elif text[at] in (opening, closing):
            depth += 1 if text[at] == opening else -1
            if not depth:
                return at
        at += 1
    raise _unclosed(start, f"a {opening}")
