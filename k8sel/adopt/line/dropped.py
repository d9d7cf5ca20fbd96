"""Options of training programs that current versions no longer have. The command keeps them, with a warning.

Versions: read in huggingface/transformers src/transformers/training_args.py, version by version, and in the README.md
of intel/torch-ccl.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.facts.accelerators import without_devices


class Dropped(Struct, frozen=True):
    """An option, with one of its values or any, and the version that dropped it."""

    option: str
    value: str | None
    message: str
    hint: str


_CCL = "{} was the last to take ccl, and needs oneccl_bindings_for_pytorch, which ended with torch 2.8"
_TOOK_CCL = {
    **dict.fromkeys(("--xpu_backend", "--ddp_backend"), "transformers 5.0"),
    "--backend": "accelerate 1.12",
}
TABLE = (
    Dropped("--no_cuda", None, "transformers 4.57 was the last to have it", "use --use_cpu, from 4.32 on"),
    Dropped(
        "--use_ipex", None, "transformers 4.56 was the last to have it, and IPEX ended with torch 2.8", "leave it out"
    ),
    Dropped("--xpu_backend", None, "transformers 4.31 was the last to have it", "use --ddp_backend, from 4.29 on"),
    *(Dropped(name, "ccl", _CCL.format(last), "use gloo for CPUs, xccl for XPUs") for name, last in _TOOK_CCL.items()),
    Dropped("--ddp_backend", "xccl", "transformers 5.1 is the first to take xccl", "use a newer image"),
)
_ON_CPUS = ("--no_cuda", "--use_cpu")
_FALSE = ("false", "0", "no")


def look(draft: Draft) -> None:
    """Warns about each of these options, and sees whether the program uses no device."""
    for option, value, word in _pairs(draft.command):
        for row in TABLE:
            if row.option == option and row.value in (None, value):
                shown = f"{option} {row.value}" if row.value else option
                draft.warn(word, f"{shown} stays in the command: {row.message}", row.hint)
        if option in _ON_CPUS and value.lower() not in _FALSE:
            draft.row_hints.setdefault(without_devices().name, word)
    use_cpu = draft.env.get("ACCELERATE_USE_CPU")
    if use_cpu and use_cpu.text.lower() in ("true", "1"):
        draft.row_hints.setdefault(without_devices().name, use_cpu)


def _pairs(command: Sequence[Word]) -> Iterator[tuple[str, str, Word]]:
    """Yields each option with the word after it."""
    for index, word in enumerate(command):
        if word.text.startswith("--"):
            name, joined, value = word.text.partition("=")
            following = command[index + 1].text if index + 1 < len(command) else ""
            yield name.replace("-", "_").replace("__", "--", 1), value if joined else following, word
