"""A draft to the job file: what is still open is filled in, and the whole is checked as any job file is."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from k8sel import api
from k8sel.adopt.line import binding, ccl
from k8sel.adopt.line.draft import Draft
from k8sel.errors import FieldPath, Problem, SpecError
from k8sel.facts.accelerators import ROWS, Row
from k8sel.facts.launchers import LAUNCHERS
from k8sel.jobfile import yamlio
from k8sel.jobfile.load import load
from k8sel.jobfile.rules.env import owner
from k8sel.jobfile.spec import API_VERSION, KIND, decode
from k8sel.planning.env import literal
from k8sel.wording import bare, quote

IMAGE = "registry.example/train:1"
_ACCELERATOR = ("spec", "accelerator")
_BACKEND = ("spec", "backend")
_THREADS = "OMP_NUM_THREADS"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"


class Asked(Struct, frozen=True, kw_only=True):
    """What the caller says beside the line."""

    file: str = "<line>"
    name: str | None = None
    image: str | None = None
    accelerator: str | None = None


def check_words(draft: Draft) -> None:
    """The program's own words: each has to be known."""
    for word in draft.command:
        draft.known(word)
        if word.pattern and not word.unknown:
            message = f"{bare(word.text)} stays as it is: in a shell it would become the names of files"
            draft.warn(word, message, "the names themselves, or a program that looks for them")
        if word.text[:1] and word.text[0] in _DASHES:
            draft.warn(word, f"{bare(word.text)} begins with a typographic dash, so it is no option", "write - or --")


def written(draft: Draft, row: Row, asked: Asked) -> str:
    """The job file as YAML."""
    _counts(draft, row)
    _threads(draft)
    binding.settle(draft)
    ccl.sourced(draft)
    _env(draft)
    _unsaid(draft, row, asked)
    draft.fields[("spec", "launcher")] = draft.launcher
    draft.fields[("spec", "command")] = [word.text for word in draft.command]
    draft.sources |= {("spec", "command", index): word for index, word in enumerate(draft.command)}
    env = [*({"name": name, "value": value} for name, value in _values(draft)), *draft.read_elsewhere]
    fields = {**draft.fields, ("spec", "env"): env}
    try:
        text = _text(fields)
        api.check(load(text.encode(), asked.file)[0])
    except SpecError as error:
        draft.problems += [_placed(draft, problem) for problem in error.problems]
    return "" if draft.problems else text


def _text(fields: dict[FieldPath, Any]) -> str:
    """The fields in the order in which the job file's models have them."""
    whole: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    for path, value in fields.items():
        part = whole
        for name in path[:-1]:
            part = part.setdefault(str(name), {})
        part[str(path[-1])] = value
    try:
        return yamlio.dump([msgspec.to_builtins(decode(whole))])
    except msgspec.ValidationError:  # as it is, then: reading it says where and why
        return yamlio.dump([whole])


def _placed(draft: Draft, problem: Problem) -> Problem:
    """A job file's problem, at the word that the field is from."""
    path = problem.path
    while path and path not in draft.sources:
        path = path[:-1]
    word = draft.sources.get(path, draft.command[0])
    place = draft.located(word)
    return msgspec.structs.replace(problem, location=place)


def _counts(draft: Draft, row: Row) -> None:
    """Devices and processes, each from the other where the line has only one."""
    if not row.is_device:
        _processes(draft, draft.processes, None)
        return
    devices, count = draft.fields.get((*_ACCELERATOR, "devices")), draft.fields.get((*_ACCELERATOR, "count"))
    known: int | None = len(devices) if devices is not None else count
    if known is None and draft.processes:
        word = draft.processes_word or draft.command[0]
        draft.put((*_ACCELERATOR, "count"), draft.processes, word)
        known = draft.processes
        if draft.without_number:
            message = f"{draft.without_number}, and a job asks for what it uses: 1 device"
            draft.note(word, message, "count: N, for more")
    elif draft.without_number and known and known > 1 and draft.launcher != "python":
        message = f"{draft.without_number}; it sees all {known} devices, and so it is here"
        draft.warn(draft.command[0], message, f"leave processesPerNode out for {known} processes")
    _processes(draft, draft.processes, known)


def _processes(draft: Draft, processes: int | None, devices: int | None) -> None:
    """processesPerNode, where it is not the number of devices."""
    word = draft.processes_word or draft.command[0]
    if not LAUNCHERS[draft.launcher].per_device:
        return
    if processes is None and not devices:
        if draft.problems:  # a number that is refused already
            return
        message = "how many processes a node has is not in the line: the launcher would count the machine's devices"
        draft.refuse(word, message, "write the number, or a mask that names the devices")
    elif processes is not None and processes != devices:
        draft.put(("spec", "processesPerNode"), processes, word)


def _env(draft: Draft) -> None:
    """The program's variables: those that have a writer already are left out, and named."""
    for name, word in list(draft.env.items()):
        why = owner(name)
        if why:
            del draft.env[name]
            draft.note(word, f"{name} is not carried over: {why[0]}", why[1])
        elif word.unknown:
            del draft.env[name]
            message = f"{name} is not carried over: only the shell that runs the line knows {quote(word.unknown[0])}"
            draft.warn(word, message, "its value, or valueFrom with a Secret, in env")


def _threads(draft: Draft) -> None:
    """OMP_NUM_THREADS, where no option says the same."""
    word = draft.env.pop(_THREADS, None)
    if word and re.fullmatch("0*[1-9][0-9]{0,3}", word.text):
        draft.fields.setdefault(("spec", "cpu", "threadsPerProcess"), int(word.text))
        draft.sources.setdefault(("spec", "cpu", "threadsPerProcess"), word)
    elif word:
        message = f"{_THREADS}={bare(word.text)} is not carried over: it is no number of threads"
        draft.warn(word, message, "cpu.threadsPerProcess; without it they are counted where the process runs")


def _values(draft: Draft) -> list[tuple[str, str]]:
    """Each variable as Kubernetes leaves it as it is."""
    for name, word in draft.env.items():
        draft.sources[("spec", "env")] = word
        if not _NAME.fullmatch(name):
            draft.refuse(word, f"{quote(name)} is no name of a variable", "letters, digits and '_', no digit first")
    return [(name, literal(word.text)) for name, word in draft.env.items()]


def _unsaid(draft: Draft, row: Row, asked: Asked) -> None:
    """What no line says: the job's name, its image, its kind of devices."""
    start = draft.command[0]
    if asked.name or ("metadata", "name") not in draft.fields:
        draft.fields[("metadata", "name")] = asked.name or _name(draft)
    if asked.image:
        draft.fields[("spec", "image")] = asked.image
    elif ("spec", "image") not in draft.fields:
        draft.fields[("spec", "image")] = IMAGE
        draft.note(start, f"the line names no image; {IMAGE} stands for it", "--image NAME")
    if (*_ACCELERATOR, "type") not in draft.fields:
        draft.fields[(*_ACCELERATOR, "type")] = row.name
        if not asked.accelerator:
            others = ", ".join(name for name, other in ROWS.items() if other.in_container)
            first = f"the first that backend {draft.fields[_BACKEND]} serves" if draft.serves else "the table's first"
            message = f"the line does not say which accelerators; {row.name} is {first}"
            draft.note(start, message, f"--accelerator, one of {others}")


def _name(draft: Draft) -> str:
    """The job's name: the program's, as far as a name may have it."""
    files = (word.text for word in draft.command if re.search(r"\.(py|sh)$", word.text))
    stem = next(files, "").rpartition("/")[2].rpartition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).lstrip("-0123456789")[:40].strip("-") or "train"
