"""Reads a program without a launcher, and launchers that start as a Python module."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k8sel.adopt.line import accelerate, deepspeed, torchrun
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word


def _launch(draft: Draft, words: Sequence[Word]) -> None:
    """Reads torch.distributed.launch: torchrun, which also passes --local-rank to the program without --use-env."""
    torchrun.apply(draft, words)
    if draft.command and not any(word.text.replace("_", "-") == "--use-env" for word in words):
        message = "torch.distributed.launch gives the script --local-rank=N; a job sets the variable LOCAL_RANK instead"
        draft.note(draft.command[0], message, 'read os.environ["LOCAL_RANK"]')


_MODULES: dict[str, Callable[[Draft, Sequence[Word]], None]] = {
    "torch.distributed.run": torchrun.apply,
    "torch.distributed.launch": _launch,
    "accelerate.commands.launch": accelerate.apply,
    "accelerate.commands.accelerate_cli": accelerate.launch,
    "deepspeed.launcher.runner": deepspeed.apply,
    "deepspeed": deepspeed.apply,
}
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def apply(draft: Draft, words: Sequence[Word]) -> None:
    """Reads ``words``, python and its arguments."""
    at = 1
    while at < len(words) and words[at].text.startswith("-") and words[at].text not in ("-m", "-c", "-"):
        at += 2 if words[at].text in _WITH_VALUE else 1
    module = words[at + 1].text if at + 1 < len(words) and words[at].text == "-m" else ""
    if module in _MODULES:
        _MODULES[module](draft, words[at + 2 :])
    elif at == len(words):
        draft.refuse(words[0], "this is an interactive Python", "add the script's name after it")
    else:
        program(draft, words)


def program(draft: Draft, words: Sequence[Word]) -> None:
    """Reads a program that runs as one process on each node, and sees all of the node's devices."""
    draft.launcher, draft.processes = "python", 1
    draft.without_number = "a program without a launcher sees every device of the machine"
    draft.command = list(words)
