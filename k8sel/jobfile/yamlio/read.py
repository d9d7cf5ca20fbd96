"""Parses bytes into plain data with a location for each value. Refuses text that two YAML readers read differently.

Any bytes give Documents or a SpecError, never a traceback. This module opens no file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from k8sel.errors import FieldPath, Kind, Location, Problem, SpecError
from k8sel.jobfile.limits import MAX_BYTES, MAX_DEPTH, MAX_NODES
from k8sel.jobfile.yamlio.pyyaml import yaml
from k8sel.jobfile.yamlio.scalars import Scalar, resolve
from k8sel.jobfile.yamlio.words import error, json_type, json_value, place_after, syntax

_Loader: Callable[[str], _Parser] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser if PyYAML has it
# What yaml.reader refuses. A set of the few refused characters compiles faster than its set of the many allowed ones.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_SURROGATE = "[\ud800-\udfff]"
_TAG_PREFIX = "tag:yaml.org,2002:"
_STARTER = "run `k8sel init` to create a job file"


class _Node(Struct, eq=False):
    """One value of the file, with its location."""

    line: int
    column: int
    data: Any
    text: str = ""  # a scalar as the user wrote it
    fields: dict[str, tuple[_Node, _Node]] = {}  # of a mapping: key and value
    items: list[_Node] = []
    size: int = 1  # number of values inside, including this one
    length: int = 0  # number of characters of all scalars inside, and of this one


class Document(Struct, frozen=True, eq=False):
    """One YAML document: its plain data, and the location of each part."""

    file: str
    data: dict[str, Any]
    _root: _Node

    def locate(self, path: FieldPath, key: bool = False) -> Location:
        """Returns the location of the value or the key at ``path``; if absent, that of its nearest known ancestor."""
        found = self._find(path)
        node = found[1] if not key or len(found[2]) < len(path) else found[0]
        return Location(file=self.file, line=node.line, column=node.column)

    def text(self, path: FieldPath) -> str | None:
        """Returns the scalar at ``path`` as the user wrote it, quotes included; None if there is no scalar."""
        _, node, known = self._find(path)
        return node.text if len(known) == len(path) and not isinstance(node.data, dict | list) else None

    def _find(self, path: FieldPath) -> tuple[_Node, _Node, FieldPath]:
        """Returns key, value and path of the deepest part of ``path`` that the file has."""
        key = node = self._root
        for depth, part in enumerate(path):
            step = _child(node, part)
            if step is None:
                return key, key, path[:depth]
            key, node = step
        return key, node, path


def _child(node: _Node, part: str | int) -> tuple[_Node, _Node] | None:
    if isinstance(part, str):
        return node.fields.get(part)
    return (node.items[part], node.items[part]) if 0 <= part < len(node.items) else None


def parse(text: bytes, file: str, *, times: int = 1) -> tuple[Document, ...]:
    """Returns the documents of ``text`` without the empty ones. Raises SpecError.

    ``file`` is the name that locations show. ``times`` multiplies the size limits of a job file.
    """
    composer = _Composer(file, _decode(text, file, MAX_BYTES * times), times)
    roots = composer.roots()
    if composer.problems:
        raise SpecError(composer.problems)
    return tuple(Document(file, node.data, node) for node in roots)


def _decode(text: bytes, file: str, most: int) -> str:
    """Returns ``text`` as a string; refuses characters that YAML does not allow."""
    if len(text) > most:
        raise error(file, (1, 1), f"the file has more than {most} bytes", "make it smaller")
    if text[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in text[:4]:
        raise error(file, (1, 1), "this is UTF-16, UTF-32 or a binary file", "save it as UTF-8 text")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as wrong:
        place = place_after(text[: wrong.start].decode("utf-8"))
        message = f"byte 0x{text[wrong.start]:02x} is not UTF-8"
        raise error(file, place, message, "save the file as UTF-8 text") from None
    decoded = decoded.removeprefix("\ufeff")  # some editors write a byte-order mark; Kubernetes skips it too
    found = _CONTROL.search(decoded)
    if found:
        message = f"the control character U+{ord(found[0]):04X} is not allowed"
        raise error(
            file, place_after(decoded[: found.start()]), message, "remove it, or write it as an escape in quotes"
        )
    return decoded


def _mark(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


class _Parser(Protocol):
    """The methods that PyYAML's parsers share, the C parser included."""

    def check_event(self) -> bool: ...
    def get_event(self) -> yaml.Event: ...
    def dispose(self) -> None: ...


class _Composer:
    """Builds nodes, within the limits, from the parser's events, which libyaml creates without recursion."""

    def __init__(self, file: str, text: str, times: int) -> None:
        self.file = file
        self.most, self.longest = MAX_NODES * times, MAX_BYTES * times
        self.text = text
        self.problems: list[Problem] = []
        self.nodes = 0
        self.aliased = 0  # characters that aliases repeat
        self.anchors: dict[str, _Node] = {}

    def roots(self) -> list[_Node]:
        """Returns the root of each document that is not empty."""
        try:
            loader = _Loader(self.text)
            try:
                roots = list(self._documents(loader))
            finally:
                loader.dispose()
        except yaml.YAMLError as wrong:
            self.problems.append(syntax(wrong, self.file, self.text))
            return []
        except SpecError as refused:
            self.problems.extend(refused.problems)
            return []
        if not roots and not self.problems:
            raise error(self.file, (1, 1), "there is no job in this file", _STARTER)
        return roots

    def _documents(self, loader: _Parser) -> Iterator[_Node]:
        while loader.check_event():
            event = loader.get_event()
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            self.anchors = {}
            root = self._node(loader, loader.get_event(), ())
            if isinstance(root.data, dict):
                yield root
            elif root.data is not None:
                message = f"expected a mapping (key: value), got a {json_type(root.data)}"
                self._problem((root.line, root.column), Kind.INVALID, (), message, _STARTER)

    def _node(self, loader: _Parser, event: yaml.Event, path: FieldPath) -> _Node:
        place = _mark(event)
        self._count(place, 1)
        if len(path) > MAX_DEPTH:
            raise error(self.file, place, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, place)
        self._check_tag(event, place, path)
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, place, path)
        elif isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(loader, place, path)
        else:
            node = self._sequence(loader, place, path)
        if anchor := getattr(event, "anchor", None):
            self.anchors[anchor] = node
        return node

    def _count(self, place: tuple[int, int], more: int) -> None:
        self.nodes += more
        if self.nodes > self.most:
            raise error(self.file, place, f"more than {self.most} values: each alias counts in full")

    def _alias(self, event: yaml.AliasEvent, place: tuple[int, int]) -> _Node:
        target = self.anchors.get(event.anchor or "")
        if target is None:
            message = "this alias has no finished anchor before it"  # its name may be a password that begins with *
            raise error(self.file, place, message, "write the value here, in quotes if it begins with *")
        self._count(place, target.size - 1)
        self.aliased += target.length
        if self.aliased > self.longest:
            raise error(
                self.file, place, f"more than {self.longest} characters: each alias counts in full", "write them once"
            )
        return replace(target, line=place[0], column=place[1])

    def _check_tag(self, event: yaml.Event, place: tuple[int, int], path: FieldPath) -> None:
        tag = getattr(event, "tag", None)
        if tag in (None, "!") or (tag == f"{_TAG_PREFIX}str" and isinstance(event, yaml.ScalarEvent)):
            return
        if tag.startswith(_TAG_PREFIX):
            name = f"!!{tag.removeprefix(_TAG_PREFIX)}"
            shown = name if name.isprintable() else ascii(name)
            self._problem(place, Kind.SYNTAX, path, f"the tag {shown} is not supported", "leave it out")
        else:  # it may be a password that begins with !
            self._problem(place, Kind.SYNTAX, path, "tags are not supported", "leave it out, or write all in quotes")

    def _scalar(self, event: yaml.ScalarEvent, place: tuple[int, int], path: FieldPath) -> _Node:
        text: str = event.value
        plain = event.implicit[0] and event.tag is None
        data: Scalar = resolve(text) if plain else text
        if isinstance(data, float) and not math.isfinite(data):
            self._problem(place, Kind.INVALID, path, f"{text} is not a number in JSON", f'write "{text}" in quotes')
        if not text.isascii() and re.search(_SURROGATE, text):
            self._problem(
                place, Kind.SYNTAX, path, "half of a surrogate pair is not a character", "write the character"
            )
        return _Node(*place, data, text if plain else f'"{text}"', length=len(text))

    def _mapping(self, loader: _Parser, place: tuple[int, int], path: FieldPath) -> _Node:
        node = _Node(*place, {})
        while not isinstance(event := loader.get_event(), yaml.MappingEndEvent):
            key = self._node(loader, event, (*path, "?"))
            name = self._key(event, key, path)
            value = self._node(loader, loader.get_event(), (*path, name))
            node.size += key.size + value.size
            node.length += key.length + value.length
            if name in node.fields:
                first = node.fields[name][0].line
                message = f"this key is already on line {first}"
                self._problem((key.line, key.column), Kind.DUPLICATE, (*path, name), message, "keep one of the two")
                continue
            node.fields[name] = key, value
            node.data[name] = value.data
        return node

    def _key(self, event: yaml.Event, key: _Node, path: FieldPath) -> str:
        place = key.line, key.column
        if isinstance(event, yaml.ScalarEvent) and key.text == "<<":
            # A merge key that comes last wins in go-yaml v2, but not in later readers: its meaning is ambiguous.
            self._problem(place, Kind.SYNTAX, path, "merge keys (<<) are not supported", "copy the keys here")
        elif isinstance(key.data, dict | list):
            self._problem(place, Kind.SYNTAX, path, f"a key must be a string, and this one is a {json_type(key.data)}")
            return f"?{place}"
        elif not isinstance(key.data, str):
            message = f"a key must be a string, but YAML reads {key.text or 'an empty one'} as {json_value(key.data)}"
            self._problem(place, Kind.SYNTAX, path, message, f'write "{key.text}" in quotes' if key.text else "")
        return key.data if isinstance(key.data, str) else key.text

    def _sequence(self, loader: _Parser, place: tuple[int, int], path: FieldPath) -> _Node:
        node = _Node(*place, [])
        while not isinstance(event := loader.get_event(), yaml.SequenceEndEvent):
            item = self._node(loader, event, (*path, len(node.items)))
            node.size += item.size
            node.length += item.length
            node.items.append(item)
            node.data.append(item.data)
        return node

    def _problem(self, place: tuple[int, int], kind: Kind, path: FieldPath, message: str, hint: str = "") -> None:
        location = Location(file=self.file, line=place[0], column=place[1])
        self.problems.append(Problem(kind=kind, path=path, message=message, hint=hint, location=location))
