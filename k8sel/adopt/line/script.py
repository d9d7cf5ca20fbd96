"""Finds the command of a text that starts the training, and its variables. Runs nothing.

The preparations of a script (exports, `cd`, `source`, `pip`) are read or noted; one command remains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from k8sel.adopt.line import shell
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.lexer import NotRead, Token, tokens
from k8sel.adopt.line.shell import Raw
from k8sel.adopt.line.words import Word
from k8sel.errors import Kind
from k8sel.jobfile.rules.env import owner
from k8sel.planning.env import LONGEST, MOST, SHORTEN
from k8sel.wording import bare, quote

_PROGRAMS_TEXT = "give the lines that set variables, and the one that starts the training"
_KEYWORDS = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac"),
        *("function", "{", "}", "!", "[", "[[", "select", "coproc", "eval", "alias", "trap", "mapfile"),
        *("declare", "local", "readonly"),
    )
)
# Commands that only read, and commands that prepare a machine -> the hint on each.
_READ_ONLY = frozenset(
    (
        *("cat", "clear", "date", "df", "echo", "free", "hostname", "ls", "nproc", "printf", "ps", "pwd"),
        *("sleep", "test", "true", "which", "whoami"),
    )
)
_PREPARES = {
    **dict.fromkeys(("pip", "pip3", "conda", "mamba", "apt", "apt-get"), "install it into the image"),
    **dict.fromkeys(("module", "ml", "activate"), "put the software that it loads into the image"),
    **dict.fromkeys(("git", "wget", "curl", "unzip", "tar", "hf"), "fetch it into the image or a volume"),
    **dict.fromkeys(("mkdir", "rm", "cp", "mv", "ln", "chmod", "touch"), "do it in the image, or in the program"),
    **dict.fromkeys(("ulimit", "sysctl"), "set these limits in the container runtime"),
    **dict.fromkeys(("set", "shopt", "wait", "exit", ":", "pkill", "killall", "sync"), ""),
}
_SINKS = frozenset(("tee", "grep", "egrep", "tail", "head", "sed", "awk", "cut", "less", "more", "sort", "ts", "cat"))
_NAME = re.compile(r"\$\{?(\w+)\}?")
_OUTPUT = "run `k8sel logs` to see the output, which goes to the container's log"


@dataclass
class Script:
    """The state of a shell after the commands so far."""

    variables: dict[str, Word] = field(default_factory=dict)
    exported: dict[str, Word] = field(default_factory=dict)  # name -> the place of the export
    started: list[Word] = field(default_factory=list)  # the command that starts the training
    env: dict[str, Word] = field(default_factory=dict)  # the variables of that command
    length: int = 0  # characters of all values that were set, also of those that were set again


def read(draft: Draft) -> Script:
    """Reads the commands of the draft's own text, one after the other."""
    return _read(tokens(draft.text), Script(), draft)


def inside(draft: Draft, word: Word) -> Script:
    """Reads the commands in ``word``, the text of another shell, with the variables that this shell gets."""
    known = {name: value for name, value in draft.env.items() if not value.unknown}
    if len(word.text) > shell.LONGEST_TEXT:
        message = f"the shell's text has more than {shell.LONGEST_TEXT} characters"
        raise NotRead(word.start, message, "put it into a script in the image")
    try:
        found = [msgspec.structs.replace(token, start=word.start, end=word.end) for token in tokens(word.text)]
    except NotRead as error:
        raise NotRead(word.start, error.message, error.hint) from None
    return _read(found, Script(variables=dict(known), exported=dict(known)), draft)


def _read(found: Iterable[Token], script: Script, draft: Draft) -> Script:
    for raw in shell.commands(found):
        if _is_understood(raw, draft):
            _command(raw, script, draft)
    return script


def _is_understood(raw: Raw, draft: Draft) -> bool:
    """Reports whether this is a plain command; refuses it if not."""
    bracket = next((token for token in raw.tokens if token.operator), None)
    first = raw.tokens[0] if raw.tokens else None
    word = "".join(piece.text for piece in first.pieces) if first else ""
    if bracket:
        place, what = bracket, "brackets are"
    elif first and word in _KEYWORDS:
        place, what = first, f"{bare(word)} is"
    elif raw.end and raw.after in ("||", ";;"):
        place, what = raw.end, f"{raw.after} is"
    else:
        return True
    message = f"{what} shell syntax that k8sel does not read"
    draft.refuse(_word(place), message, _PROGRAMS_TEXT, Kind.NOT_SUPPORTED)
    return False


def _command(raw: Raw, script: Script, draft: Draft) -> None:
    own, rest = _assignments(raw.tokens, script, draft)
    words = shell.command(rest, script.variables)
    if words and words[0].text in ("$", "%", ">>>"):  # a prompt that was copied with the line
        words = words[1:]
    if not words:
        script.variables |= own
    elif raw.before == "|":
        _behind_a_pipe(words[0], draft)
    elif words[0].text in _BUILT_IN:
        _BUILT_IN[words[0].text](rest, words, script, draft)
    elif _is_preparation(words[0], draft):
        return
    else:
        _start(raw, own, words, script, draft)


def _assignments(listed: Sequence[Token], script: Script, draft: Draft) -> tuple[dict[str, Word], Sequence[Token]]:
    """Splits a command into the variables that are set before it, and the rest."""
    own: dict[str, Word] = {}
    for index, token in enumerate(listed):
        set_here = shell.assignment(token)
        if set_here is None:
            return own, listed[index:]
        name, adds = set_here
        known = {**script.variables, **own}
        own[name] = shell.value(token, known)
        if adds:
            own[name] = _added(known.get(name), own[name])
        script.length += len(own[name].text)
        if script.length > MOST:
            message = f"together the variables up to {name} have more than {MOST} characters"
            raise NotRead(token.start, message, SHORTEN)
    return own, ()


def _added(before: Word | None, word: Word) -> Word:
    text = (before.text if before else "") + word.text
    if len(text) > LONGEST:
        raise NotRead(word.start, "this variable is longer than a program can get", "shorten it")
    unknown = (before.unknown if before else ()) + word.unknown
    return Word(text=text, start=word.start, end=word.end, unknown=unknown)


def _export(rest: Sequence[Token], words: Sequence[Word], script: Script, draft: Draft) -> None:
    """Reads `export NAME=VALUE NAME`."""
    for token in rest[1:]:
        own, others = _assignments([token], script, draft)
        script.variables |= own
        for word in (_word(token, name) for name in own):
            script.exported[word.text] = word
        for token_word in (word for other in others for word in shell.words(other, script.variables)):
            if not token_word.text.startswith("-"):
                script.exported[token_word.text] = token_word


def _unset(rest: Sequence[Token], words: Sequence[Word], script: Script, draft: Draft) -> None:
    for word in words[1:]:
        script.variables.pop(word.text, None)
        script.exported.pop(word.text, None)


def _cd(rest: Sequence[Token], words: Sequence[Word], script: Script, draft: Draft) -> None:
    """Reads `cd FOLDER`, which sets spec.workingDir."""
    folder = words[1] if len(words) > 1 else None
    if folder and draft.known(folder):
        if folder.text.startswith("/"):
            draft.put(("spec", "workingDir"), folder.text, folder)
        else:
            hint = f"set workingDir: /.../{folder.text.removeprefix('./')}, its place in the image"
            draft.note(
                folder, f"{bare(folder.text)} is not carried over: it is relative to the shell's own folder", hint
            )


def _source(rest: Sequence[Token], words: Sequence[Word], script: Script, draft: Draft) -> None:
    """Records the name of a sourced script, with the text's variables filled in; the script is not read."""
    named = words[1].text if len(words) > 1 else ""
    text = _NAME.sub(lambda match: script.variables[match[1]].text if match[1] in script.variables else match[0], named)
    draft.sourced.append((text, words[0]))


_BuiltIn = Callable[[Sequence[Token], Sequence[Word], Script, Draft], None]
_BUILT_IN: Mapping[str, _BuiltIn] = MappingProxyType(
    {"export": _export, "unset": _unset, "cd": _cd, "source": _source, ".": _source}
)


def _is_preparation(word: Word, draft: Draft) -> bool:
    """Reports whether a command only reads or prepares the machine; notes a preparation."""
    if word.text in _PREPARES:
        if _PREPARES[word.text]:
            draft.note(word, f"{word.text} is not carried over", _PREPARES[word.text])
        return True
    return word.text in _READ_ONLY


def _behind_a_pipe(word: Word, draft: Draft) -> None:
    if word.text in _SINKS:
        draft.note(word, f"{bare(word.text)} is not carried over", _OUTPUT)
    else:
        draft.refuse(word, f"{bare(word.text)} gets the output of another program", "leave out the part after the |")


def _start(raw: Raw, own: dict[str, Word], words: list[Word], script: Script, draft: Draft) -> None:
    """Records the command that starts the training."""
    if script.started:
        message = f"{bare(words[0].text)} is a second program, but a job has one"
        draft.refuse(words[0], message, f"convert one at a time; {quote(script.started[0].text)} is the first")
        return
    if raw.redirections:
        draft.note(_word(raw.redirections[0]), "the redirection of the output is not carried over", _OUTPUT)
    for name in script.variables.keys() - script.exported.keys() - own.keys():
        if owner(name):
            hint = f"export {name}=..., or write it before the program"
            draft.warn(script.variables[name], f"{name} does not reach the program: it is not exported", hint)
    script.started = words
    script.env = {**_exports(script, draft), **own}


def _exports(script: Script, draft: Draft) -> dict[str, Word]:
    """Returns the exported variables with their current values."""
    for name, word in script.exported.items():
        if name not in script.variables:
            draft.warn(
                word, f"{bare(name)} is not carried over: its value is not in the text", f"set {name}=VALUE above"
            )
    return {name: script.variables[name] for name in script.exported if name in script.variables}


def _word(token: Token, text: str = "") -> Word:
    """Returns the place of ``token``, as a word."""
    return Word(text=text, start=token.start, end=token.end)
