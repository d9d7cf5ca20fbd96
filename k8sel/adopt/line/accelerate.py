"""`accelerate launch` to the job file's fields.

huggingface/accelerate src/accelerate/commands/launch.py and utils/launch.py: --num_processes counts those of all
machines, and much of the rest becomes variables of the processes. k8sel's own `accelerate launch` is told the numbers
alone, and would write those variables with their defaults; a line that sets them is started by torchrun, as accelerate
itself does.
"""

from __future__ import annotations

from collections.abc import Sequence

from k8sel.adopt.line import masks, torchrun
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.options import Given, Kept, Option, Style, read
from k8sel.adopt.line.torchrun import AGENT, BIND, BINDS, GROUP, LOGS, NAMES
from k8sel.adopt.line.words import Word

_VARIABLES = "a job file's launcher is told numbers only, and these are variables"
_PLUGIN = "env, with launcher: torchrun and ACCELERATE_{}=true beside what the option sets"
_GONE = "accelerate {} was the last version that has it, so a newer one stops here; a job file does without"
# Options that accelerate turns into a variable of each process -> that variable.
BECOME = {
    "--mixed-precision": "ACCELERATE_MIXED_PRECISION",
    "--dynamo-backend": "ACCELERATE_DYNAMO_BACKEND",
    "--dynamo-mode": "ACCELERATE_DYNAMO_MODE",
    "--gradient-accumulation-steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
}
_UPPER = ("--dynamo-backend",)  # accelerate writes these in capitals


def _families() -> tuple[Option, ...]:
    """Options that switch on a whole plugin."""
    names = {"--use-deepspeed": "USE_DEEPSPEED", "--use-fsdp": "USE_FSDP", "--use-megatron-lm": "USE_MEGATRON_LM"}
    return tuple(Option(name, 0, refuse=_VARIABLES, hint=_PLUGIN.format(word)) for name, word in names.items())


TABLE = (
    Option("--num-processes", keep=True),
    Option("--num-machines", keep=True),
    Option("--num-cpu-threads-per-process", keep=True),
    Option("--gpu-ids", keep=True),
    Option("--max-restarts", keep=True),
    Option("--cpu", takes=0, keep=True),
    Option("--module -m", takes=0, keep=True),
    Option("--no-python", takes=0, keep=True),
    Option("--debug", takes=0, keep=True),
    *(Option(name, keep=True) for name in BECOME),
    *_families(),
    Option("--multi-gpu", takes=0),
    Option("--same-network", takes=0),
    Option("--quiet -q", takes=0),
    Option("--machine-rank", note="each node gets its own"),
    Option("--main-process-ip", note=GROUP),
    Option("--main-process-port", note=GROUP),
    Option("--rdzv-backend", note=GROUP),
    Option("--rdzv-conf", note=GROUP),
    Option("--role", note=NAMES),
    Option("--monitor-interval", note=AGENT),
    Option("--tee -t", note=LOGS),
    Option("--log-dir", note=LOGS),
    Option("--enable-cpu-affinity", takes=0, note=BINDS, hint=BIND),
    Option("--ipex", takes=0, warn=_GONE.format("1.9.0"), hint="leave it out"),
    Option("--use-xpu", takes=0, warn=_GONE.format("1.12.0"), hint="leave it out: accelerator.type says it"),
    Option("--mpirun-ccl", warn=_GONE.format("1.12.0"), hint="ccl.workers"),
    Option("--mpirun-hostfile", refuse="this starts mpirun", hint="the mpirun line itself, with the program behind it"),
    Option("--config-file", refuse="what is in that file is not in the line", hint="write its numbers as options"),
    Option(
        "--tpu --tpu-cluster --tpu-use-sudo", takes=0, refuse="this starts machines of a cloud", hint="leave it out"
    ),
    Option("--fsdp-*", refuse=_VARIABLES, hint=_PLUGIN.format("USE_FSDP")),
    Option("--megatron-lm-*", refuse=_VARIABLES, hint=_PLUGIN.format("USE_MEGATRON_LM")),
    Option("--deepspeed-* --offload-* --zero3-*", refuse=_VARIABLES, hint=_PLUGIN.format("USE_DEEPSPEED")),
    Option("--fp8-* --parallelism-config-* --dynamo-use-*", refuse=_VARIABLES, hint="env: the variable that it sets"),
    Option("--zero-stage", refuse=_VARIABLES, hint=_PLUGIN.format("USE_DEEPSPEED")),
    Option("--help -h", takes=0, refuse="this only prints the options", hint="leave it out"),
)
_OWN_NOTE = "accelerate turns it into {}; the job does the same, started by {} as accelerate starts it"


def launch(draft: Draft, words: Sequence[Word]) -> None:
    """What ``words``, those behind `accelerate`, say."""
    if not words or words[0].text != "launch":
        place = words[0] if words else Word(text="", start=len(draft.text), end=len(draft.text))
        draft.refuse(
            place, "only `accelerate launch` starts a training", "accelerate launch --num_processes 2 train.py"
        )
        return
    apply(draft, words[1:])


def apply(draft: Draft, words: Sequence[Word]) -> None:
    """What ``words``, those behind `accelerate launch`, say."""
    kept = read(TABLE, words, draft, Style())
    draft.launcher = "accelerate"
    _group(draft, kept)
    _devices(draft, kept)
    torchrun.restarts(draft, kept.last("--max-restarts"))
    threads(draft, kept.last("--num-cpu-threads-per-process"))
    torchrun.script(draft, kept)
    if draft.processes != 1:  # one is started without an agent
        torchrun.agents_words(draft)
    _variables(draft, kept)


def _group(draft: Draft, kept: Kept) -> None:
    """Nodes, and the processes of each: what accelerate counts is the sum."""
    machines, total = kept.last("--num-machines"), kept.last("--num-processes")
    nodes = draft.number(machines.value, machines.option.text) if machines else None
    if machines and nodes:
        draft.nodes = nodes
        draft.put(("spec", "nodes"), nodes, machines.value)
    number = draft.number(total.value, total.option.text) if total else None
    if total and number:
        draft.processes, draft.processes_word = max(number // draft.nodes, 1), total.value
        if number % draft.nodes:
            message = f"{number} processes do not go into equal shares for {draft.nodes} nodes"
            draft.refuse(total.value, message, f"--num_processes {number // draft.nodes * draft.nodes or draft.nodes}")


def _devices(draft: Draft, kept: Kept) -> None:
    ids, cpu = kept.last("--gpu-ids"), kept.last("--cpu")
    if ids and ids.value.text != "all":
        draft.replaces_masks, draft.selection = ids.option.text, ids.value
    if cpu:
        draft.row_hints.setdefault(masks.row_of_cpus().name, cpu.option)
        _one_process(draft, cpu)


def _one_process(draft: Draft, cpu: Given) -> None:
    """`--cpu` without a hostfile starts the program once, whatever --num_processes says."""
    if (draft.processes or 1) > 1:
        message = f"with --cpu, accelerate starts 1 process, not {draft.processes}, and so it is here"
        draft.warn(cpu.option, message, f"processesPerNode: {draft.processes} starts them all")
    draft.processes, draft.processes_word = 1, cpu.option


def threads(draft: Draft, given: Given | None) -> None:
    """The threads of one process."""
    number = draft.number(given.value, given.option.text) if given else None
    if given and number:
        draft.put(("spec", "cpu", "threadsPerProcess"), number, given.value)


def _variables(draft: Draft, kept: Kept) -> None:
    """What accelerate tells the program by variables."""
    found = {BECOME[name]: given for name in BECOME if (given := kept.last(name))}
    debug = kept.last("--debug")
    if debug:
        draft.env["ACCELERATE_DEBUG_MODE"] = debug.option.part("true")
    for name, given in found.items():
        upper = name in [BECOME[each] for each in _UPPER]
        draft.env[name] = given.value.part(given.value.text.upper()) if upper else given.value
        started = "torchrun" if (draft.processes or 2) > 1 or draft.nodes > 1 else "python"
        draft.launcher = started
        draft.note(given.option, f"{given.option.text}: {_OWN_NOTE.format(name, started)}")
