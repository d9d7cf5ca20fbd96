"""Which program a command is, past what stands in front of it, and which module reads it. A table, no branches."""

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
# Programs that start the one behind them -> how many words of theirs are in between, and what is to be said of it.
_IN_FRONT: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        ("nohup",): "",
        ("exec",): "",
        ("time",): "",
        ("command",): "",
        ("sudo",): "the container's user is securityContext's",
        ("uv", "run"): "the image has the environment that is to be used",
        ("poetry", "run"): "the image has the environment that is to be used",
    }
)
# Programs for which there is no job file -> why, and what to give instead.
_REFUSED = {
    **dict.fromkeys(("srun", "sbatch", "salloc"), ("Slurm decides nodes and processes", "the line that it starts")),
    **dict.fromkeys(("ssh", "pdsh", "parallel", "xargs"), ("it starts programs elsewhere", "the line that it starts")),
    **dict.fromkeys(("kubectl", "helm", "k8sel"), ("it starts no training by itself", "k8sel from -f MANIFEST")),
    **dict.fromkeys(
        ("horovodrun", "ray", "colossalai", "jsrun"), ("k8sel has no such launcher", "torchrun, or mpirun")
    ),
    **dict.fromkeys(("make", "tmux", "screen"), ("what it starts is not in the line", "the line that it starts")),
}
_SHELLS = ("sh", "bash", "dash", "zsh")


def read(draft: Draft, words: Sequence[Word]) -> None:
    """The command ``words``, whichever program it is."""
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
    """``words`` from the program on that is really started."""
    while words:
        front = next((each for each in _IN_FRONT if [word.text for word in words[: len(each)]] == list(each)), None)
        if front:
            if _IN_FRONT[front]:
                draft.note(words[0], f"{' '.join(front)} is not carried over: {_IN_FRONT[front]}")
            words = words[len(front) :]
        elif words[0].text == "env":
            words = _after_env(draft, words)
        else:
            break
    return words


def _after_env(draft: Draft, words: list[Word]) -> list[Word]:
    """`env -u NAME NAME=VALUE PROGRAM`."""
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
                words[at], f"env {bare(words[at].text)}: which variables are left is not in the line", "leave it out"
            )
            return []
        else:
            break
    if at == len(words):
        draft.refuse(words[0], "nothing is started here", "the program behind it")
    return words[at:]


def _program(draft: Draft, words: Sequence[Word]) -> None:
    """Any other program, which is the training itself."""
    inner = next((word for word in words[1:] if word.text.rpartition("/")[2] in STARTERS), None)
    name = words[0].text.rpartition("/")[2]
    if inner:
        message = f"{bare(name)} in front of {bare(inner.text)} is not known here"
        draft.refuse(words[0], message, f"the line from {bare(inner.text)} on", Kind.NOT_SUPPORTED)
        return
    if name in _SHELLS and len(words) > 2 and re.fullmatch("-[a-z]*c", words[1].text):
        _inner(draft, words[2])
        return
    if name in _SHELLS:
        message = f"what {quote(' '.join(word.text for word in words[:2]))} starts is not in the line"
        draft.warn(words[0], message, "a launcher in it starts each process many times: give its own line instead")
    python.program(draft, words)


def _inner(draft: Draft, text: Word) -> None:
    """`bash -c TEXT`: the text is a script like any other."""
    unknown = [name for name, word in draft.env.items() if word.unknown]
    found = script.inside(draft, text)
    draft.env = {**{name: draft.env[name] for name in unknown}, **found.env}
    if found.started:
        read(draft, found.started)
    elif not draft.problems:
        draft.refuse(text, "nothing here starts a training", "for example: bash -c 'torchrun train.py'")


def _behind(reader: _Reader) -> _Reader:
    """A reader of the words behind the program's name."""
    return lambda draft, words: reader(draft, words[1:])


def _mpirun(draft: Draft, words: Sequence[Word]) -> None:
    mpirun.apply(draft, words[1:], words[0])


def _docker(draft: Draft, words: Sequence[Word]) -> None:
    docker.run(draft, words[1:], read)


_READERS: Mapping[str, _Reader] = MappingProxyType(
    {
        "torchrun": _behind(torchrun.apply),
        "accelerate": _behind(accelerate.launch),
        "accelerate-launch": _behind(accelerate.apply),
        "deepspeed": _behind(deepspeed.apply),
        **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun"), _mpirun),
        **dict.fromkeys(("docker", "podman", "nerdctl"), _docker),
    }
)
