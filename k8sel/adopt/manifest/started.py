"""Finds the launcher in a container's command and arguments, also in a shell's text. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from k8sel.adopt.line import lexer, shell
from k8sel.errors import FieldPath
from k8sel.jobfile.rules.launch import MODULES, STARTERS
from k8sel.planning.env import LONGEST

_SHELLS = ("sh", "bash", "dash", "ash", "zsh")
_WRAPPERS = ("exec", "nohup", "time", "sudo", "command")
_MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun"}


class Started(Struct, frozen=True, kw_only=True):
    """A program with its arguments, and the path of its command."""

    program: str  # the name, without a folder
    words: tuple[str, ...]  # its arguments
    path: FieldPath
    env: Mapping[str, str]  # set by the shell's text before it
    by_shell: bool = False  # a shell is the container's first process, and runs other commands too
    replaces_shell: bool = False  # after `exec`

    def option(self, *names: str) -> str | None:
        """Returns the value of an option; "" for an option without a value; None where it is absent."""
        wanted = {name.replace("_", "-") for name in names}
        for index, word in enumerate(self.own):
            name, joined, value = word.partition("=")
            if name.replace("_", "-") in wanted:
                following = self.own[index + 1] if index + 1 < len(self.own) else ""
                return value if joined else ("" if following.startswith("-") else following)
        return None

    @property
    def own(self) -> tuple[str, ...]:
        """The launcher's own arguments, before the script, the module or the program."""
        for index, word in enumerate(self.words):
            if word.endswith((".py", ".sh")) or word.startswith("python") or word in ("-m", "--module"):
                return self.words[:index]
        return self.words


def started(words: Iterable[tuple[str, FieldPath]]) -> Started | None:
    """Returns the program of a container: the launcher, else the first word; None where the image names it."""
    listed = list(words)
    if not listed:
        return None
    program = _base(listed[0][0])
    if program.startswith("-"):  # arguments of the image's default program
        return None
    text = next((index for index, (word, _) in enumerate(listed) if index and word in ("-c", "-lc", "-ec", "-xc")), 0)
    if program in _SHELLS and text and text + 1 < len(listed):
        return _in_shell(*listed[text + 1])
    return _program([word for word, _ in listed], listed[0][1], {})


def _in_shell(text: str, path: FieldPath) -> Started | None:
    """Returns the launcher in a shell's text, else its last command."""
    if len(text) > LONGEST:  # no shell gets it
        return None
    try:
        raws = [raw for raw in shell.commands(lexer.tokens(text)) if raw.tokens and not _brackets(raw)]
    except lexer.NotRead:
        return None
    env: dict[str, str] = {}
    last = None
    for raw in raws:
        own = {found[0]: shell.value(token, {}).text for token in raw.tokens if (found := shell.assignment(token))}
        words = [word.text for token in raw.tokens if not shell.assignment(token) for word in shell.words(token, {})]
        if not words or words[0] in ("export", "set", "source", ".", "cd", "ulimit"):
            env |= own
            continue
        last = _program(words, path, {**env, **own}, by_shell=len(raws) > 1)
        if last and last.program in STARTERS:
            break
    return last


def _brackets(raw: shell.Raw) -> bool:
    return any(token.operator for token in raw.tokens)


def _program(
    words: Sequence[str], path: FieldPath, env: Mapping[str, str], *, by_shell: bool = False
) -> Started | None:
    rest, own = list(words), dict(env)
    front: list[str] = []
    while rest and (_base(rest[0]) in (*_WRAPPERS, "env") or _is_assignment(rest[0], front)):
        front.append(rest.pop(0))
        name, joined, value = front[-1].partition("=")
        own |= {name: value} if joined else {}
    if not rest:
        return None
    program, rest = _module(_base(rest[0]), rest[1:])
    return Started(
        program=program, words=tuple(rest), path=path, env=own, by_shell=by_shell, replaces_shell="exec" in front
    )


def _is_assignment(word: str, front: Sequence[str]) -> bool:
    return "env" in front and "=" in word and not word.startswith("-")


def _module(program: str, rest: list[str]) -> tuple[str, list[str]]:
    """Returns the launcher and its arguments: `python -m torch.distributed.run` is torchrun."""
    if program.startswith("python") and len(rest) > 1 and rest[0] == "-m" and rest[1] in MODULES:
        return _MODULES.get(rest[1], "accelerate"), rest[2:]
    return program, rest


def _base(word: str) -> str:
    return word.rpartition("/")[2]
