"""Converts `deepspeed` to the job file's fields.

deepspeedai/DeepSpeed deepspeed/launcher/runner.py: --num_gpus, --include and --exclude replace a mask, and deepspeed
sorts the device numbers of --include or a mask (since v0.15.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.options import Given, Kept, Option, put_number, read
from k8sel.adopt.line.torchrun import BIND, BINDS, GROUP, HELP, LOGS, RANK, script
from k8sel.adopt.line.words import Word
from k8sel.wording import bare, quote

_SSH = "the nodes of this job do not use ssh"
_FIXED = "a job has a fixed number of nodes"
_SORTS = "deepspeed sorts the numbers"
TABLE = (
    *(Option(name, keep=True) for name in ("--num-gpus --num-accelerators", "--num-nodes")),
    *(Option(name, keep=True) for name in ("--include -i", "--exclude -e", "--hostfile -H")),
    *(Option(name, 0, keep=True) for name in ("--module", "--no-python", "--no-local-rank")),
    Option("--master-addr --master-port", note=GROUP),
    Option("--node-rank", note=RANK),
    Option("--launcher", note=_SSH, hint="set launcher: mpirun to start the processes by MPI"),
    Option("--launcher-args --ssh-port", note=_SSH),
    Option("--no-ssh --no-ssh-check --force-multi", takes=0),
    Option("--save-pid", takes=0, note="a container needs no file of process ids"),
    Option("--enable-each-rank-log", note=LOGS),
    Option("--bind-cores-to-rank", takes=0, note=BINDS, hint=BIND),
    Option("--bind-core-list", note=BINDS, hint=BIND),
    Option("--comment --account", note="only Slurm reads it"),
    Option("--elastic-training", takes=0, refuse=_FIXED, hint="leave it out"),
    Option("--min-elastic-nodes --max-elastic-nodes", refuse=_FIXED, hint="leave it out"),
    Option("--autotuning", refuse="it starts many jobs, one after the other", hint="leave it out"),
    HELP,
)


def apply(draft: Draft, words: Sequence[Word]) -> None:
    """Reads ``words``, the arguments of `deepspeed`."""
    kept = read(TABLE, words, draft)
    draft.launcher, draft.sorts = "deepspeed", _SORTS
    _nodes(draft, kept)
    _devices(draft, kept)
    script(draft, kept)
    if draft.command and not kept.last("--no-local-rank"):
        message = "deepspeed gives the script --local_rank=N; a job sets the variable LOCAL_RANK instead"
        draft.note(draft.command[0], message, 'read os.environ["LOCAL_RANK"], as deepspeed.init_distributed does')


def _nodes(draft: Draft, kept: Kept) -> None:
    nodes, hostfile = kept.last("--num-nodes"), kept.last("--hostfile")
    put_number(draft, nodes, "nodes")
    if hostfile and not nodes and not kept.last("--include"):
        message = f"the number of nodes in {bare(hostfile.value.text)} is not in the line"
        draft.refuse(hostfile.value, message, "add --num_nodes N")
    elif hostfile:
        draft.note(hostfile.value, "the hostfile is not carried over: the job gets nodes of its own", "nodes: N")


def _devices(draft: Draft, kept: Kept) -> None:
    count, include, exclude = kept.last("--num-gpus"), kept.last("--include"), kept.last("--exclude")
    if exclude:
        message = "the remaining devices depend on how many the machine has"
        draft.refuse(exclude.value, message, "name the devices, for example --include localhost:0,2")
    elif include and draft.known(include.value):
        _include(draft, include)
    elif count:
        draft.replaces_masks = count.option.text
        draft.processes, draft.processes_word = draft.number(count.value, count.option.text), count.value


def _include(draft: Draft, include: Given) -> None:
    """Reads `host:0,2@host2:0,2`: one node for each host, with the same devices on each."""
    slots: dict[str, str] = {}
    for host, _, listed in (node.partition(":") for node in include.value.text.split("@")):
        slots[host] = f"{slots[host]},{listed}" if host in slots else listed
    lists = set(slots.values())
    if "" in lists:
        message = f"{quote(include.value.text)}: the number of devices of a host is not in the line"
        draft.refuse(include.value, message, "name them: localhost:0,1")
    elif len(lists) > 1:
        message = f"{quote(include.value.text)}: the hosts use different devices, but all nodes of a job use the same"
        draft.refuse(include.value, message, "give each host the same numbers")
    else:
        draft.replaces_masks, draft.selection = include.option.text, include.value.part(lists.pop())
        if len(slots) > 1:
            draft.put(("spec", "nodes"), len(slots), include.value)
