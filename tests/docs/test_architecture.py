"""docs/architecture.md shows the rooms that there are."""

from __future__ import annotations

import re

from docs.test_docs import ROOT, generator

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_picture_has_a_row_for_each_layer_and_a_box_for_each_room() -> None:
    made = generator()

    assert made._picture([["top"], ["left", "right"], ["base"]]) == (
        "┌───────────────────────────────────────────┐\n"
        "│                    top                    │\n"
        "├─────────────────────┬─────────────────────┤\n"
        "│         left        │        right        │\n"
        "├─────────────────────┴─────────────────────┤\n"
        "│                    base                   │\n"
        "└───────────────────────────────────────────┘\n"
    )
    assert f"```\n{made._picture(made._layers())}```\n" in PAGE


def test_the_rooms_are_those_of_the_package() -> None:
    there = {path.stem for path in (ROOT / "k8sel").iterdir() if path.suffix in ("", ".py") and path.name[:2] != "__"}
    rooms = [room for layer in generator()._layers() for room in layer]

    assert set(rooms) == there | {"__main__"}


def test_the_table_has_a_row_for_each_room_in_the_pictures_order() -> None:
    rooms = [room for layer in generator()._layers() for room in layer]

    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == rooms


def test_the_five_nouns_come_first() -> None:
    assert re.findall(r"^- An? \*\*(.*?)\*\*", PAGE.split("\n## ")[0], re.MULTILINE) == [
        "job file",
        "plan",
        "manifest",
        "expectation",
        "receipt",
    ]
