"""Reads a launcher's options by a table of their values and effects. Knows no launcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.errors import Kind
from k8sel.wording import bare, did_you_mean


class Option(Struct, frozen=True):
    """An option and its effect: kept for the launcher's module, noted, warned about, refused, or dropped."""

    names: str  # separated by spaces; code looks up the first; a * at the end matches any ending
    takes: int = 1  # words after it; -1: NAME=VALUE, or NAME VALUE
    note: str = ""  # why it is not carried over
    hint: str = ""
    refuse: str = ""  # why there is no job file for it
    warn: str = ""  # why it does not do what it looks like
    keep: bool = False


class Given(Struct, frozen=True):
    """An option as it stands in the line."""

    option: Word
    values: tuple[Word, ...] = ()

    @property
    def value(self) -> Word:
        """Its first value; the option itself, where it takes none."""
        return self.values[0] if self.values else self.option


class Style(Struct, frozen=True):
    """The way in which a program reads its options."""

    abbreviates: bool = False  # a unique prefix is enough, as in argparse
    joins: bool = False  # -eNAME and -it, as in getopt


_ARGPARSE = Style(abbreviates=True)


class Kept(Struct, frozen=True):
    """The options that a launcher's module reads, and the words after all options."""

    options: Mapping[str, Sequence[Given]]
    rest: tuple[Word, ...]

    def last(self, name: str) -> Given | None:
        """Returns the last occurrence, which wins."""
        given = self.options.get(name, ())
        return given[-1] if given else None

    def all(self, name: str) -> Sequence[Given]:
        """Returns every occurrence."""
        return self.options.get(name, ())


def put_number(draft: Draft, given: Given | None, *path: str, least: int = 1) -> int | None:
    """Sets the field at ``path`` of spec to an option's number, and returns it; None where there is none."""
    number = draft.number(given.value, given.option.text, least=least) if given else None
    if given and number:
        draft.put(("spec", *path), number, given.value)
    return number


def read(table: Sequence[Option], words: Sequence[Word], draft: Draft, style: Style = _ARGPARSE) -> Kept:
    """Reads the options at the beginning of ``words``, and applies ``table`` to each."""
    index = {_normal(name): option for option in table for name in option.names.split()}
    window = 2 + max(2, *(option.takes for option in table))  # words that one option can take; 2 for NAME VALUE
    kept: dict[str, list[Given]] = {}
    at = 0
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "-":
        if words[at].text == "--":
            at += 1
            break
        found, taken = _options(index, words[at : at + window], draft, style)
        for option, given in found:
            _apply(option, given, draft)
            if option.keep:
                kept.setdefault(option.names.split()[0], []).append(given)
        at += taken
    return Kept(kept, tuple(words[at:]))


def _normal(name: str) -> str:
    """Returns one spelling for --nproc-per-node and --nproc_per_node, and for -np and --np."""
    bare_name = name.lstrip("-").replace("_", "-")
    return bare_name if len(bare_name) > 1 else f"-{bare_name}"


_Found = tuple[list[tuple[Option, Given]], int]


def _options(index: Mapping[str, Option], words: Sequence[Word], draft: Draft, style: Style) -> _Found:
    """Returns the options in the first of ``words``, and how many words they take."""
    word = words[0]
    name, joined, value = word.text.partition("=")
    option = _look_up(index, name, style)
    if option and joined:
        return _with_values(option, word.part(name), [word.part(value), *words[1:]], draft, already=1)
    if option:
        return _with_values(option, word, words[1:], draft, already=0)
    if style.joins and not word.text.startswith("--"):
        return _letters(index, words, draft)
    return _unknown(index, word, name, draft)


def _look_up(index: Mapping[str, Option], name: str, style: Style) -> Option | None:
    normal = _normal(name)
    family = next((index[each] for each in index if each.endswith("*") and normal.startswith(each[:-1])), None)
    if normal in index or family or not style.abbreviates or not name.startswith("--"):
        return index.get(normal, family)
    longer = [option for each, option in index.items() if each.startswith(normal)]
    return longer[0] if len(longer) == 1 else None


def _with_values(option: Option, name: Word, following: Sequence[Word], draft: Draft, *, already: int) -> _Found:
    """Returns ``option`` with its values; ``already``: how many of them stand in its own word."""
    takes = _takes(option, following)
    if already and not takes:
        draft.refuse(name, f"{bare(name.text)} takes no value", f"write {bare(name.text)} alone")
        return [], 1
    values = tuple(following[:takes])
    if len(values) < takes:
        draft.refuse(name, f"{bare(name.text)} has no value", "write its value", Kind.REQUIRED)
        return [], 1 + len(values)
    return [(option, Given(name, values))], 1 + takes - already


def _takes(option: Option, following: Sequence[Word]) -> int:
    if option.takes >= 0:
        return option.takes
    return 1 if following and "=" in following[0].text else 2


def _letters(index: Mapping[str, Option], words: Sequence[Word], draft: Draft) -> _Found:
    """Reads one-letter options in one word; the first that takes a value takes the rest."""
    word = words[0]
    found: list[tuple[Option, Given]] = []
    for place, letter in enumerate(word.text[1:], start=2):
        option = index.get(f"-{letter}")
        if option is None:
            return _unknown(index, word, f"-{letter}", draft)
        rest = word.text[place:]
        if option.takes:
            following = [word.part(rest), *words[1:]] if rest else words[1:]
            last, taken = _with_values(option, word.part(f"-{letter}"), following, draft, already=1 if rest else 0)
            return [*found, *last], taken
        found.append((option, Given(word.part(f"-{letter}"))))
    return found, 1


def _unknown(index: Mapping[str, Option], word: Word, name: str, draft: Draft) -> _Found:
    if draft.known(word):
        near = did_you_mean(name.lstrip("-"), index)
        hint = near or "leave it out, or move an option of the program after the program's name"
        draft.refuse(word, f"{bare(name)} is not a known option", hint, Kind.UNKNOWN)
    return [], 1


def _apply(option: Option, given: Given, draft: Draft) -> None:
    """Refuses, warns about or notes an option of the line, as its row says."""
    shown = bare(given.option.text)
    if option.refuse:
        draft.refuse(given.option, f"{shown}: {option.refuse}", option.hint, Kind.FORBIDDEN)
    if option.warn:
        draft.warn(given.option, f"{shown}: {option.warn}", option.hint)
    if option.note:
        draft.note(given.option, f"{shown} is not carried over: {option.note}", option.hint)
