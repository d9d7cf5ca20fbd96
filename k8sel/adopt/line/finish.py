"""Completes a draft: fills in what the line leaves open, and validates the result like any job file."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from k8sel import api
from k8sel.adopt.line import binding, ccl
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.errors import FieldPath, Problem, SpecError
from k8sel.facts.accelerators import ROWS, Row
from k8sel.facts.launchers import LAUNCHERS
from k8sel.jobfile import yamlio
from k8sel.jobfile.load import load
from k8sel.jobfile.rules.env import owner
from k8sel.jobfile.rules.surprises import from_a_secret, is_secret
from k8sel.jobfile.spec import API_VERSION, KIND, decode
from k8sel.planning.env import literal
from k8sel.wording import bare, quote

IMAGE = "registry.example/train:1"
_ACCELERATOR = ("spec", "accelerator")
_BACKEND = ("spec", "backend")
_THREADS = "OMP_NUM_THREADS"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"


class Options(Struct, frozen=True, kw_only=True):
    """The caller's options beside the line."""

    file: str = "<line>"
    name: str | None = None
    image: str | None = None
    accelerator: str | None = None


def check_words(draft: Draft) -> None:
    """Refuses words of the program that are not known, and warns about patterns and dashes."""
    for word in draft.command:
        draft.known(word)
        if word.pattern and not word.unknown:
            message = f"{bare(word.text)} stays as it is: a shell would replace it by file names"
            draft.warn(word, message, "write the names, or let the program look for them")
        if word.text[:1] and word.text[0] in _DASHES:
            draft.warn(
                word, f"{bare(word.text)} begins with a typographic dash, so it is not an option", "write - or --"
            )


def written(draft: Draft, row: Row, options: Options) -> str:
    """Returns the job file as YAML; "" where the draft holds problems."""
    _counts(draft, row)
    _threads(draft)
    binding.settle(draft)
    ccl.sourced(draft)
    _env(draft)
    _missing(draft, row, options)
    draft.fields[("spec", "launcher")] = draft.launcher
    draft.fields[("spec", "command")] = [word.text for word in draft.command]
    draft.sources |= {("spec", "command", index): word for index, word in enumerate(draft.command)}
    env = [*({"name": name, "value": value} for name, value in _values(draft)), *draft.read_elsewhere]
    fields = {**draft.fields, ("spec", "env"): env}
    try:
        text = _text(fields)
        api.check(load(text.encode(), options.file)[0])
    except SpecError as error:
        draft.problems += [_placed(draft, problem) for problem in error.problems]
    return "" if draft.problems else text


def _text(fields: dict[FieldPath, Any]) -> str:
    """Returns the fields as YAML, in the order of the job file's models."""
    whole: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    for path, value in fields.items():
        part = whole
        for name in path[:-1]:
            part = part.setdefault(str(name), {})
        part[str(path[-1])] = value
    try:
        return yamlio.dump([_in_order(whole, decode(whole))])
    except msgspec.ValidationError:  # written as it is: validation reports the place and the reason
        return yamlio.dump([whole])


def _in_order(part: dict[str, Any], model: Struct) -> dict[str, Any]:
    """The fields of ``part`` in the order of its ``model``, without empty ones; what repeats a default stays."""
    written, ordered = msgspec.to_builtins(model), dict[str, Any]()
    for key, attribute in zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True):
        inner = getattr(model, attribute)
        if isinstance(inner, Struct) and key in part:
            ordered[key] = _in_order(part[key], inner)
        elif key in written or part.get(key) not in (None, [], {}):
            ordered[key] = written.get(key, part.get(key))
    return ordered


def _placed(draft: Draft, problem: Problem) -> Problem:
    """Returns a problem of the job file, placed at the word that set the field."""
    path = problem.path
    while path and path not in draft.sources:
        path = path[:-1]
    word = draft.sources.get(path, draft.command[0])
    place = draft.located(word)
    return msgspec.structs.replace(problem, location=place)


def _counts(draft: Draft, row: Row) -> None:
    """Sets devices and processes, each from the other where the line gives only one."""
    if not row.is_device:
        _processes(draft, draft.processes, None)
        return
    devices, count = draft.fields.get((*_ACCELERATOR, "devices")), draft.fields.get((*_ACCELERATOR, "count"))
    known: int | None = len(devices) if devices is not None else count
    if known is None and draft.processes:
        word = draft.processes_word or draft.command[0]
        known = _of_units(draft, row, draft.processes, word) or draft.processes
        draft.put((*_ACCELERATOR, "count"), known, word)
        if draft.without_number:
            message = f"{draft.without_number}, so the job requests 1 device"
            draft.note(word, message, "set count: N for more")
    elif draft.without_number and known and known > 1 and not LAUNCHERS[draft.launcher].starts_one:
        message = f"{draft.without_number}; it sees all {known} devices, in the job too"
        draft.warn(draft.command[0], message, f"leave processesPerNode out for {known} processes")
    _processes(draft, draft.processes, known)
    _isolated(draft, row, draft.processes or known or 1)


def _isolated(draft: Draft, row: Row, processes: int) -> None:
    """Gives each process its own devices where only one process can open a device, and no plugin divides them."""
    launcher = LAUNCHERS[draft.launcher]
    if processes > 1 and row.exclusive and not launcher.starts_one and not (row.unit and launcher.restarts):
        word = draft.processes_word or draft.command[0]
        draft.put((*_ACCELERATOR, "isolation"), "process", word)
        message = f"only one process can open a device of type {row.name}, so the job gives each process its own"
        draft.note(word, message, "set launcher: python for one process with all devices")


def _of_units(draft: Draft, row: Row, processes: int, word: Word) -> int:
    """Returns the devices for so many processes, where each process gets one unit of a device; 0 for other types."""
    if not row.unit or not LAUNCHERS[draft.launcher].restarts or processes % row.unit_counts[0]:
        return 0
    few, *more = row.unit_counts
    others = " or ".join(f"count: {processes // number}" for number in more if not processes % number)
    message = f"each process gets one {row.unit}; the job counts {few} of them in a device, which the line does not say"
    draft.note(word, message, f"set {others} for devices of more" if others else "")
    return processes // few


def _processes(draft: Draft, processes: int | None, devices: int | None) -> None:
    """Sets processesPerNode where it differs from the number of devices."""
    word = draft.processes_word or draft.command[0]
    if not LAUNCHERS[draft.launcher].per_device:
        return
    if processes is None and not devices:
        if draft.problems:  # the number is refused already
            return
        message = "the number of processes per node is not in the line: the launcher would count the machine's devices"
        draft.refuse(word, message, "write the number, or a mask that names the devices")
    elif processes is not None and processes != devices:
        draft.put(("spec", "processesPerNode"), processes, word)


def _env(draft: Draft) -> None:
    """Removes variables that k8sel, an operator or a launcher writes, and unknown ones, with a note on each."""
    for name, word in list(draft.env.items()):
        why = owner(name)
        if why:
            del draft.env[name]
            draft.note(word, f"{name} is not carried over: {why[0]}", why[1])
        elif word.unknown:
            del draft.env[name]
            message = f"{name} is not carried over: only the shell that runs the line knows {quote(word.unknown[0])}"
            draft.warn(word, message, "write its value in env, or valueFrom with a Secret")


def _threads(draft: Draft) -> None:
    """Moves OMP_NUM_THREADS to cpu.threadsPerProcess, where no option sets that field."""
    word = draft.env.pop(_THREADS, None)
    if word and re.fullmatch("0*[1-9][0-9]{0,3}", word.text):
        draft.fields.setdefault(("spec", "cpu", "threadsPerProcess"), int(word.text))
        draft.sources.setdefault(("spec", "cpu", "threadsPerProcess"), word)
    elif word:
        message = f"{_THREADS}={bare(word.text)} is not carried over: it is not a number of threads"
        draft.warn(
            word, message, "set cpu.threadsPerProcess; without it, the threads are counted where the process runs"
        )


def _values(draft: Draft) -> list[tuple[str, str]]:
    """Returns each variable, escaped so that Kubernetes leaves its value alone."""
    for name, word in draft.env.items():
        draft.sources[("spec", "env")] = word
        if not _NAME.fullmatch(name):
            draft.refuse(
                word, f"{quote(name)} is not a variable name", "use letters, digits and '_', and no digit first"
            )
        if is_secret(name, word.text):
            message = f"the value of {name} looks like a secret, and the job file has it"
            draft.warn(word, message, f"replace value by {from_a_secret(name)}")
    return [(name, literal(word.text)) for name, word in draft.env.items()]


def _missing(draft: Draft, row: Row, options: Options) -> None:
    """Fills in the job's name, image and accelerator type, where the line does not give them."""
    start = draft.command[0]
    if options.name or ("metadata", "name") not in draft.fields:
        draft.fields[("metadata", "name")] = options.name or _name(draft)
    if options.image:
        draft.fields[("spec", "image")] = options.image
    elif ("spec", "image") not in draft.fields:
        draft.fields[("spec", "image")] = IMAGE
        draft.note(start, f"the line names no image; {IMAGE} is a placeholder", "add --image NAME")
    if (*_ACCELERATOR, "type") not in draft.fields:
        draft.fields[(*_ACCELERATOR, "type")] = row.name
        if not options.accelerator:
            others = ", ".join(name for name, other in ROWS.items() if other.in_container)
            first = (
                f"the first that backend {draft.fields[_BACKEND]} serves" if draft.serves else "the first in the table"
            )
            message = f"the line names no accelerator type; {row.name} is {first}"
            draft.note(start, message, f"add --accelerator with one of {others}")


def _name(draft: Draft) -> str:
    """Returns the job's name: the program's, reduced to the characters that a name may have."""
    files = (word.text for word in draft.command if re.search(r"\.(py|sh)$", word.text))
    stem = next(files, "").rpartition("/")[2].rpartition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).lstrip("-0123456789")[:40].strip("-") or "train"
