"""Converts torchrun (`torchrun`, `python -m torch.distributed.run` and `... .launch`) to the job file's fields.

pytorch/pytorch torch/distributed/run.py and argparse_util.py: each option also has a variable, PET_ and its name;
the option wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Template

from msgspec.structs import replace

from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.options import Given, Kept, Option, put_number, read
from k8sel.adopt.line.words import Word
from k8sel.wording import quote

GROUP = "k8sel or the operator sets the rendezvous of the nodes"
LOGS = "each process's output is in the container's log"
NAMES = "it only names the processes in the agent's messages"
AGENT = "the agent uses its default"
RANK = "each node gets its own"
HELP = Option("--help -h", takes=0, refuse="this only prints the options", hint="leave it out")
BINDS, BIND = "only mpirun binds processes", "use launcher: mpirun with mpi.binding"
TABLE = (
    *(Option(name, keep=True) for name in ("--nproc-per-node", "--nnodes", "--max-restarts")),
    *(Option(name, 0, keep=True) for name in ("--module -m", "--no-python")),
    Option("--standalone --use-env", takes=0),
    Option("--node-rank", note=RANK),
    Option("--master-addr --master-port --local-addr", note=GROUP),
    Option("--rdzv-endpoint --rdzv-id --rdzv-backend --rdzv-conf", note=GROUP),
    Option("--role", note=NAMES),
    Option("--monitor-interval --start-method --shutdown-timeout --signals-to-handle --event-log-handler", note=AGENT),
    Option("--log-dir --redirects -r --tee -t --logs-specs --local-ranks-filter", note=LOGS),
    Option("--numa-binding", note=BINDS, hint=BIND),
    Option(
        "--virtual-local-rank", takes=0, refuse="LOCAL_RANK is a process's own number in a job", hint="leave it out"
    ),
    Option(
        "--run-path",
        takes=0,
        refuse="a job file starts a script, a module or a program",
        hint="write the script's name",
    ),
    HELP,
)
RESTARTS = ("policy", "maxRestarts")  # how often torch's agent restarts the processes
_LOCAL_RANK = re.compile(r"\$local_rank(?![A-Za-z0-9_])|\$\{local_rank\}")
_COUNTED = ("auto", "gpu", "cpu", "xpu", "hpu", "npu", "mlu")  # torch counts them at run time


def apply(draft: Draft, words: Sequence[Word]) -> None:
    """Reads ``words``, the arguments of `torchrun`."""
    kept = read(TABLE, words, draft)
    draft.launcher = "torchrun"
    _nodes(draft, _given(draft, kept, "--nnodes"))
    _processes(draft, _given(draft, kept, "--nproc-per-node"))
    put_number(draft, _given(draft, kept, "--max-restarts"), *RESTARTS, least=0)
    _variables(draft)
    script(draft, kept)
    agents_words(draft)


def script(draft: Draft, kept: Kept) -> None:
    """Sets the command from the words after the options: a script, a module, or another program."""
    words = list(kept.rest)
    if not words:
        start = max((each.option.end for given in kept.options.values() for each in given), default=0)
        draft.refuse(
            Word(text="", start=start, end=start), "the program is missing", "write a script's name after the options"
        )
    elif kept.last("--no-python"):
        draft.command = words
    else:
        module = [words[0].part("-m")] if kept.last("--module") else []
        draft.command = [words[0].part("python"), *module, *words]


def agents_words(draft: Draft) -> None:
    """Expands the program's words as torch's agent does, because a job passes its words unchanged.

    https://github.com/pytorch/pytorch/blob/v2.9.0/torch/distributed/elastic/utils/api.py (``macros.substitute``)
    """
    program, words = draft.command[:1], draft.command[1:]
    for word in words:
        if _LOCAL_RANK.search(word.text.replace("$$", "")):
            message = f"torch's agent expands {quote(word.text)}, but all processes of a job get the same words"
            draft.refuse(word, message, "read LOCAL_RANK in the program")
        elif "$$" in word.text and not word.unknown:
            draft.note(word, "torch's agent turns two dollars into one; the job file does the same")
    draft.command = [*program, *(replace(word, text=Template(word.text).safe_substitute()) for word in words)]


def _given(draft: Draft, kept: Kept, name: str) -> Given | None:
    """Returns the option, or the variable that replaces it."""
    variable = "PET_" + name.lstrip("-").upper().replace("-", "_")
    word = draft.env.pop(variable, None)
    return kept.last(name) or (Given(word.part(variable), (word,)) if word else None)


def _nodes(draft: Draft, given: Given | None) -> None:
    if given is None:
        return
    least, colon, most = given.value.text.partition(":")
    if colon and least != most:
        hint = f"write --nnodes {most or least}"
        draft.refuse(given.value, f"{quote(given.value.text)} nodes: a job has a fixed number of nodes", hint)
        return
    put_number(draft, Given(given.option, (given.value.part(least),)), "nodes")


def _processes(draft: Draft, given: Given | None) -> None:
    if given is None:
        draft.processes = 1
        draft.without_number = "torchrun starts 1 process on a node without --nproc_per_node"
    elif given.value.text in _COUNTED:
        draft.processes_word = given.value
    else:
        draft.processes, draft.processes_word = draft.number(given.value, given.option.text), given.value


def _variables(draft: Draft) -> None:
    """Drops torchrun's other variables, which the operator sets."""
    for name in [name for name in draft.env if name.startswith("PET_")]:
        draft.note(draft.env.pop(name), f"{name} is not carried over: {GROUP}")
