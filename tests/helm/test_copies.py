"""Tests that the chart's copies of k8sel's sources are current."""

from __future__ import annotations

from base64 import b64decode
from hashlib import sha256
from types import ModuleType

from planning import goldens
from scripts import loaded

from helm.rendering import CHART, Renderer
from k8sel import __version__

HINT = "run: python charts/generate.py"


def generator() -> ModuleType:
    """charts/generate.py, which is in no package."""
    return loaded("charts/generate.py")


def test_generated_files_are_current() -> None:
    stale = [name for name, content in generator().files().items() if (CHART / name).read_bytes() != content]

    assert stale == [], HINT


def test_the_archive_has_the_entrypoint_of_these_sources() -> None:
    assert generator().archive_is_current(), HINT


def test_the_entrypoint_arrives_byte_for_byte_under_its_hash(renderer: Renderer) -> None:
    config_map, _ = renderer.render((goldens.CASES / "torchrun-order" / "job.yaml").read_text())
    script, archive = ((CHART / "files" / name).read_bytes() for name in ("entrypoint.sh", "entrypoint.pyz"))

    assert config_map["data"]["entrypoint"].encode() == script
    assert b64decode(config_map["binaryData"]["entrypoint.pyz"]) == archive
    assert config_map["metadata"]["name"].endswith("-k8sel-" + sha256(script + b"\0" + archive).hexdigest()[:10])


def test_the_chart_is_of_this_version() -> None:
    chart = (CHART / "Chart.yaml").read_text()

    assert f'version: {__version__}\nappVersion: "{__version__}"' in chart
