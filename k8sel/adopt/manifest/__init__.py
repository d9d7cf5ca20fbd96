"""Converts manifests to job files: PyTorchJob, MPIJob, Job and Pod. Opens no file, contacts no cluster.

Reads the training container's command like any command line; the rest of the manifest sets the job file's fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from k8sel.adopt.line import LineError, Options, ccl, dropped, finish, lexer, masks, programs
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.adopt.manifest import fields
from k8sel.adopt.manifest.places import Places
from k8sel.adopt.manifest.reader import KINDS, Container, Manifest, Pods, listing, manifests
from k8sel.errors import Problem
from k8sel.facts.names import LABEL_JOB
from k8sel.jobfile.yamlio import parse

_ROLES = {
    "PyTorchJob": ("Master", "Worker"),
    "MPIJob": ("Worker",),
}  # roles whose pods compute; the first one's template counts


def convert(text: str, options: Options) -> tuple[str, list[Problem]]:
    """Returns the job files for ``text``, and notes on what they leave out. Raises SpecError with every reason."""
    drafts, written = [], []
    for document in parse(text.encode(), options.file):
        for manifest in manifests(document):
            draft = Draft(text=text, file=options.file, in_container=True)
            drafts.append(draft)
            written.append(_written(draft, manifest, Places(text, document), options))
    problems = [problem for draft in drafts for problem in draft.problems]
    if not drafts:
        draft = Draft(text=text, file=options.file)
        draft.refuse(Word(text="", start=0, end=0), f"no {', '.join(KINDS)} is in this file", "give one that trains")
        problems = draft.problems
    if problems:
        raise LineError(problems, text)
    return "---\n".join(written), [note for draft in drafts for note in draft.notes]


def _written(draft: Draft, manifest: Manifest, places: Places, options: Options) -> str:
    """Returns one object as a job file; "" where its draft holds problems."""
    pods, container = _training(manifest)
    here = places.word(manifest.kind, manifest.at("kind"))
    if manifest.get("metadata", "labels", LABEL_JOB) is not None:
        draft.refuse(here, f"this {manifest.kind} was made by k8sel, from a job file", "use that job file")
        return ""
    if pods is None or container is None:
        draft.refuse(here, f"{manifest.kind} has no container", "write the pods' template with its containers")
        return ""
    starter = _starter(manifest) or container
    try:
        _command(draft, manifest, starter, places)
    except lexer.NotRead as error:
        draft.refuse(here, error.message, error.hint)
    if not draft.command:
        return ""
    fields.take(draft, manifest, pods, container, places)
    dropped.look(draft)
    ccl.look(draft)
    finish.check_words(draft)
    return finish.written(draft, masks.settle(draft, options.accelerator), options)


def _training(manifest: Manifest) -> tuple[Pods | None, Container | None]:
    """Returns the pods that compute, and the container in them that trains."""
    roles = _ROLES.get(manifest.kind, (manifest.kind,))
    pods = next((each for role in roles for each in manifest.pods if each.role == role and each.containers), None)
    named = [each for each in pods.containers if each.name == "pytorch"] if pods else []
    return pods, next(iter([*named, *(pods.containers if pods else ())]), None)


def _starter(manifest: Manifest) -> Container | None:
    """Returns the launcher's container of an MPIJob, which starts the workers' processes."""
    return next((each for pods in manifest.pods if pods.role == "Launcher" for each in pods.containers), None)


def _command(draft: Draft, manifest: Manifest, starter: Container, places: Places) -> None:
    """Reads the container's command as a command line."""
    fields.variables(draft, starter, places)
    given = list(_operators(manifest, places)) if manifest.kind == "PyTorchJob" else []
    added = {name: word for name, word in given if name not in draft.env}
    draft.env |= added
    draft.group = _group(manifest)
    words = list(_words(starter, places, draft))
    if not words or words[0].text.startswith("-"):
        hint = "write command, with the program that trains"
        draft.refuse(
            places.word("", starter.path), "the manifest does not name the program that the image starts", hint
        )
        return
    programs.read(draft, words)
    for name in added:
        draft.env.pop(name, None)
    if not draft.command and not draft.problems:
        draft.refuse(words[0], "nothing here starts a training", "give the command of the program that trains")


def _operators(manifest: Manifest, places: Places) -> Iterator[tuple[str, Word]]:
    """Yields the variables that training-operator sets for torchrun: pkg/controller.v1/pytorch/envvar.go."""
    path = manifest.at("spec", "nprocPerNode")
    value = manifest.get("spec", "nprocPerNode")
    yield "PET_NPROC_PER_NODE", places.word("auto" if value is None else str(value), path)
    yield "PET_NNODES", places.word(str(manifest.nodes or 1), manifest.at("spec"))


def _group(manifest: Manifest) -> tuple[int, int] | None:
    """Returns the nodes and the ranks of each, where the object gives them instead of the command."""
    if manifest.kind != "MPIJob":
        return None
    also = 1 if manifest.get("spec", "runLauncherAsWorker") else 0
    return manifest.nodes + also or 1, manifest.slots


def _words(container: Container, places: Places, draft: Draft) -> Iterable[Word]:
    """Yields the command and arguments as a container gets them."""
    for field in ("command", "args"):
        for index, word in enumerate(listing(container.data.get(field))):
            if isinstance(word, str | int | float):
                yield places.filled(str(word), (*container.path, field, index), draft.env)
