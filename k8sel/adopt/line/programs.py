"""Finds the program of a command after its wrappers, and the module that reads it. A table, no branches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from k8sel.adopt.line import accelerate, deepspeed, docker, mpirun, python, script, torchrun
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.errors import Kind
from k8sel.jobfile.rules.launch import STARTERS
from k8sel.wording import bare, quote

_Reader = Callable[[Draft, Sequence[Word]], None]
# Wrappers, which start the program after them -> the note on each.
_WRAPPERS: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        ("nohup",): "",
        ("exec",): "",
        ("time",): "",
        ("command",): "",
        ("sudo",): "securityContext sets the container's user",
        ("uv", "run"): "the job uses the environment in the image",
        ("poetry", "run"): "the job uses the environment in the image",
    }
)
# Programs for which there is no job file -> the reason and the hint.
_REFUSED = {
    **dict.fromkeys(
        ("srun", "sbatch", "salloc"), ("Slurm decides nodes and processes", "give the line that it starts")
    ),
    **dict.fromkeys(
        ("ssh", "pdsh", "parallel", "xargs"), ("it starts programs elsewhere", "give the line that it starts")
    ),
    **dict.fromkeys(("kubectl", "helm", "k8sel"), ("it starts no training by itself", "run k8sel from -f MANIFEST")),
    **dict.fromkeys(
        ("horovodrun", "ray", "colossalai", "jsrun"), ("k8sel does not support this launcher", "use torchrun or mpirun")
    ),
    **dict.fromkeys(
        ("make", "tmux", "screen"), ("the command that it starts is not in the line", "give the line that it starts")
    ),
}
_SHELLS = ("sh", "bash", "dash", "zsh")
_SHELLS_DEEP = 8  # shells in shells; a variable that holds its own `bash -c` would never end


def read(draft: Draft, words: Sequence[Word]) -> None:
    """Reads the command ``words``, whichever program it is."""
    words = _without_front(draft, list(words))
    if not words or not draft.known(words[0]):
        return
    name = words[0].text.rpartition("/")[2]
    if name in _REFUSED:
        why, hint = _REFUSED[name]
        draft.refuse(words[0], f"{bare(name)}: {why}", hint, Kind.NOT_SUPPORTED)
    elif name.startswith("python") or name == "pypy3":
        python.apply(draft, words)
    else:
        _READERS.get(name.partition(".")[0], _program)(draft, words)


def _without_front(draft: Draft, words: list[Word]) -> list[Word]:
    """Returns ``words`` without the wrappers before the program."""
    while words:
        front = next((each for each in _WRAPPERS if [word.text for word in words[: len(each)]] == list(each)), None)
        if front:
            if _WRAPPERS[front]:
                draft.note(words[0], f"{' '.join(front)} is not carried over: {_WRAPPERS[front]}")
            if len(words) == len(front):
                draft.refuse(words[0], f"{' '.join(front)} starts no program here", "add the program after it")
            words = words[len(front) :]
        elif words[0].text == "env":
            words = _after_env(draft, words)
        else:
            break
    return words


def _after_env(draft: Draft, words: list[Word]) -> list[Word]:
    """Reads `env -u NAME NAME=VALUE PROGRAM`, and returns the words from PROGRAM on."""
    at = 1
    while at < len(words):
        name, joined, value = words[at].text.partition("=")
        if words[at].text in ("-u", "--unset") and at + 1 < len(words):
            draft.env.pop(words[at + 1].text, None)
            at += 2
        elif joined and not name.startswith("-"):
            draft.env[name] = words[at].part(value)
            at += 1
        elif name.startswith("-"):
            draft.refuse(
                words[at], f"env {bare(words[at].text)}: the remaining variables are not in the line", "leave it out"
            )
            return []
        else:
            break
    if at == len(words):
        draft.refuse(words[0], "env starts no program here", "add the program after it")
    return words[at:]


def _program(draft: Draft, words: Sequence[Word]) -> None:
    """Reads any other program, which is the training itself."""
    inner = next((word for word in words[1:] if word.text.rpartition("/")[2] in STARTERS), None)
    name = words[0].text.rpartition("/")[2]
    if inner:
        message = f"{bare(name)} before {bare(inner.text)} is not supported"
        draft.refuse(words[0], message, f"give the line from {bare(inner.text)} on", Kind.NOT_SUPPORTED)
        return
    if name in _SHELLS and len(words) > 2 and re.fullmatch("-[a-z]*c", words[1].text):
        _inner(draft, words[2])
        return
    if name in _SHELLS:
        message = f"the commands in {quote(' '.join(word.text for word in words[:2]))} are not in the line"
        draft.warn(
            words[0], message, "give the line of a launcher in it instead: each process would start all processes again"
        )
    python.program(draft, words)


def _inner(draft: Draft, text: Word) -> None:
    """Reads `bash -c TEXT`: the text is a script like any other."""
    draft.shells += 1
    if draft.shells > _SHELLS_DEEP:
        draft.refuse(
            text, f"more than {_SHELLS_DEEP} shells start each other", "give the line that the last one starts"
        )
        return
    unknown = [name for name, word in draft.env.items() if word.unknown]
    found = script.inside(draft, text)
    draft.env = {**{name: draft.env[name] for name in unknown}, **found.env}
    if found.started:
        read(draft, found.started)
    elif not draft.problems:
        draft.refuse(
            text, "nothing here starts a training", "give a training command, for example bash -c 'torchrun train.py'"
        )


def _after_name(reader: _Reader) -> _Reader:
    """Returns a reader of the words after the program's name."""
    return lambda draft, words: reader(draft, words[1:])


def _mpirun(draft: Draft, words: Sequence[Word]) -> None:
    mpirun.apply(draft, words[1:], words[0])


def _docker(draft: Draft, words: Sequence[Word]) -> None:
    docker.run(draft, words[1:], read)


_READERS: Mapping[str, _Reader] = MappingProxyType(
    {
        "torchrun": _after_name(torchrun.apply),
        "accelerate": _after_name(accelerate.launch),
        "accelerate-launch": _after_name(accelerate.apply),
        "deepspeed": _after_name(deepspeed.apply),
        **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun"), _mpirun),
        **dict.fromkeys(("docker", "podman", "nerdctl"), _docker),
    }
)
