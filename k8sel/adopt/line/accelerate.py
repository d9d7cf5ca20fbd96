"""Converts `accelerate launch` to the job file's fields.

huggingface/accelerate src/accelerate/commands/launch.py and utils/launch.py: --num_processes counts the processes of
all machines, and many other options become variables of the processes. k8sel passes only the numbers to its own
`accelerate launch`, which would set those variables to their defaults. So torchrun starts a line that sets them, as
accelerate itself does.
"""

from __future__ import annotations

from collections.abc import Sequence

from k8sel.adopt.line import torchrun
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.options import Given, Kept, Option, Style, put_number, read
from k8sel.adopt.line.torchrun import AGENT, BIND, BINDS, GROUP, HELP, LOGS, NAMES, RANK
from k8sel.adopt.line.words import Word
from k8sel.facts.accelerators import without_devices

_VARIABLES = "k8sel passes only counts to accelerate, and this option sets variables"
_PLUGIN = "set launcher: torchrun, and in env ACCELERATE_{}=true and the option's own variables"
_GONE = "accelerate {} was the last version with it, and newer versions refuse it; the job file leaves it out"
# Option that accelerate turns into a variable of each process -> that variable.
_BECOME = {
    "--mixed-precision": "ACCELERATE_MIXED_PRECISION",
    "--dynamo-backend": "ACCELERATE_DYNAMO_BACKEND",
    "--dynamo-mode": "ACCELERATE_DYNAMO_MODE",
    "--gradient-accumulation-steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
}
_IN_CAPITALS = "--dynamo-backend"  # accelerate writes its value so
# Plugin -> the option that switches it on, and the options that set it up.
_PLUGINS = {
    "USE_DEEPSPEED": ("--use-deepspeed", "--deepspeed-* --offload-* --zero3-* --zero-stage"),
    "USE_FSDP": ("--use-fsdp", "--fsdp-*"),
    "USE_MEGATRON_LM": ("--use-megatron-lm", "--megatron-lm-*"),
}
TABLE = (
    *(Option(name, keep=True) for name in ("--num-processes", "--num-machines", "--num-cpu-threads-per-process")),
    *(Option(name, keep=True) for name in ("--gpu-ids", "--max-restarts", *_BECOME)),
    *(Option(name, 0, keep=True) for name in ("--cpu", "--module -m", "--no-python", "--debug")),
    *(
        Option(names, takes, refuse=_VARIABLES, hint=_PLUGIN.format(plugin))
        for plugin, both in _PLUGINS.items()
        for takes, names in enumerate(both)
    ),
    Option("--multi-gpu --same-network --quiet -q", takes=0),
    Option("--machine-rank", note=RANK),
    Option("--main-process-ip --main-process-port --rdzv-backend --rdzv-conf", note=GROUP),
    Option("--role", note=NAMES),
    Option("--monitor-interval", note=AGENT),
    Option("--tee -t --log-dir", note=LOGS),
    Option("--enable-cpu-affinity", takes=0, note=BINDS, hint=BIND),
    Option("--ipex", takes=0, warn=_GONE.format("1.9.0"), hint="leave it out"),
    Option("--use-xpu", takes=0, warn=_GONE.format("1.12.0"), hint="leave it out: accelerator.type selects the device"),
    Option("--mpirun-ccl", warn=_GONE.format("1.12.0"), hint="set ccl.workers"),
    Option(
        "--mpirun-hostfile", refuse="it starts mpirun", hint="give the mpirun line itself, with the program after it"
    ),
    Option("--config-file", refuse="the content of that file is not in the line", hint="write its numbers as options"),
    Option("--tpu --tpu-cluster --tpu-use-sudo", takes=0, refuse="it starts cloud machines", hint="leave it out"),
    Option("--fp8-* --parallelism-config-* --dynamo-use-*", refuse=_VARIABLES, hint="set its variable in env"),
    HELP,
)
_OWN_NOTE = "accelerate turns it into {}; the job sets that variable, and {} starts the program as accelerate does"


def launch(draft: Draft, words: Sequence[Word]) -> None:
    """Reads ``words``, the arguments of `accelerate`."""
    if not words or words[0].text != "launch":
        place = words[0] if words else Word(text="", start=len(draft.text), end=len(draft.text))
        draft.refuse(
            place, "only `accelerate launch` starts a training", "write accelerate launch --num_processes 2 train.py"
        )
        return
    apply(draft, words[1:])


def apply(draft: Draft, words: Sequence[Word]) -> None:
    """Reads ``words``, the arguments of `accelerate launch`."""
    kept = read(TABLE, words, draft, Style())
    draft.launcher = "accelerate"
    _group(draft, kept)
    _devices(draft, kept)
    put_number(draft, kept.last("--max-restarts"), *torchrun.RESTARTS, least=0)
    put_number(draft, kept.last("--num-cpu-threads-per-process"), "cpu", "threadsPerProcess")
    torchrun.script(draft, kept)
    if draft.processes != 1:  # accelerate starts one process without torch's agent
        torchrun.agents_words(draft)
    _variables(draft, kept)


def _group(draft: Draft, kept: Kept) -> None:
    """Sets the nodes and the processes of each; accelerate counts the processes of all nodes."""
    put_number(draft, kept.last("--num-machines"), "nodes")
    total = kept.last("--num-processes")
    number = draft.number(total.value, total.option.text) if total else None
    if total and number:
        draft.processes, draft.processes_word = max(number // draft.nodes, 1), total.value
        if number % draft.nodes:
            message = f"{number} processes cannot be divided equally among {draft.nodes} nodes"
            draft.refuse(
                total.value, message, f"write --num_processes {number // draft.nodes * draft.nodes or draft.nodes}"
            )


def _devices(draft: Draft, kept: Kept) -> None:
    ids, cpu = kept.last("--gpu-ids"), kept.last("--cpu")
    if ids and ids.value.text != "all":
        draft.replaces_masks, draft.selection = ids.option.text, ids.value
    if cpu:
        draft.row_hints.setdefault(without_devices().name, cpu.option)
        _one_process(draft, cpu)


def _one_process(draft: Draft, cpu: Given) -> None:
    """Sets one process: without a hostfile, `--cpu` starts the program once, whatever --num_processes is."""
    if (draft.processes or 1) > 1:
        message = f"with --cpu, accelerate starts 1 process, not {draft.processes}; the job does the same"
        draft.warn(cpu.option, message, f"set processesPerNode: {draft.processes} to start them all")
    draft.processes, draft.processes_word = 1, cpu.option


def _variables(draft: Draft, kept: Kept) -> None:
    """Sets the variables that accelerate gives the program."""
    found = {option: given for option in _BECOME if (given := kept.last(option))}
    debug = kept.last("--debug")
    if debug:
        draft.env["ACCELERATE_DEBUG_MODE"] = debug.option.part("true")
    for option, given in found.items():
        name, text = _BECOME[option], given.value.text
        draft.env[name] = given.value.part(text.upper() if option == _IN_CAPITALS else text)
        draft.launcher = "torchrun" if (draft.processes or 2) > 1 or draft.nodes > 1 else "python"
        draft.note(given.option, f"{given.option.text}: {_OWN_NOTE.format(name, draft.launcher)}")
