"""Makes what a release consists of: `make dist`, or `python release/build.py [FOLDER]`. The same sources, equal bytes.

k8sel-VERSION-py3-none-any.whl, k8sel-VERSION.tar.gz    the package
entrypoint.pyz                                          the check in the container, for images of one's own
k8sel-VERSION.tgz                                       the chart; `helm package` would write the time of day into it
                                                        (helm/helm pkg/chartutil/save.go, writeToTar)
k8sel-VERSION.cdx.json                                  the bill of materials (CycloneDX): what the package needs
SECURITY.md                                             how to report a weakness, and how to check these files
SHA256SUMS                                              of these
k8sel:VERSION, k8sel-entrypoint:VERSION                 the Dockerfile's images, where a Docker daemon answers

SOURCE_DATE_EPOCH is the time of every file; by default that of the last commit. BASE is the images' base, which has the
Python that runs this. By default it is the Dockerfile's, under Python 3.12; name another by its digest too.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import bill

from k8sel import __version__
from k8sel.bundle import files as brought
from k8sel.bundle import zipapp

ROOT = Path(__file__).parents[1]
CHART = Path("charts", "k8sel")
_ZIPAPP_IN_CHART = f"k8sel/files/{brought.ARCHIVE}"
EARLIEST = 315532800  # 1980: a wheel is a zip, which knows no earlier time
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
IMAGES = {"entrypoint": f"k8sel-entrypoint:{__version__}", "cli": f"k8sel:{__version__}"}  # by the Dockerfile's target


def build(out: Path) -> list[Path]:
    """The files, in ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    time = _time()
    with tempfile.TemporaryDirectory() as folder:
        tree = _tree(Path(folder, "k8sel"))
        made = _package(tree, out, time)
        archive, chart = out / brought.ARCHIVE, out / f"k8sel-{__version__}.tgz"
        archive.write_bytes(zipapp.build())
        chart.write_bytes(_packed(_chart(tree, archive.read_bytes()), time))
    materials, security = out / f"k8sel-{__version__}.cdx.json", out / "SECURITY.md"
    materials.write_text(bill.bill(time), encoding="utf-8")
    shutil.copyfile(ROOT / security.name, security)
    made += [archive, chart, materials, security]
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(made)))
    return [*made, sums]


def images(wheel: Path, base: str) -> Iterable[str]:
    """The images' names, each when it is built: the wheel and what it needs on ``base``."""
    with tempfile.TemporaryDirectory() as folder:
        tree = _tree(Path(folder, "k8sel"))
        install(wheel, tree / "build" / "site", Path(folder, "pins.txt"))
        for target, name in IMAGES.items():
            _run("docker", "build", "-q", "--build-arg", f"BASE={base}", "--target", target, "-t", name, tree)
            yield name


def default_base() -> str:
    """The Dockerfile's base, named by its digest, if it has the Python that runs this; else a tag."""
    (pinned,) = re.findall(r"^ARG BASE=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    tag = f"python:{PYTHON}-slim"
    return pinned if pinned.startswith(f"{tag}@") else tag


def install(wheel: Path, site: Path, pins: Path) -> None:
    """Installs the wheel in ``site``, and what it needs with the hashes of constraints.txt, written to ``pins``."""
    pins.write_text(bill.pins(bill.needed()), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile", "--no-deps"]
    _run(*pip, "--target", site, "--require-hashes", "-r", pins)
    _run(*pip, "--target", site, wheel)


def _run(*words: str | Path, **env: str) -> None:
    """Quiet, unless it fails. The umask is fixed, since a wheel holds the modes of its files."""
    environ = {**os.environ, **env}
    done = subprocess.run(words, env=environ, umask=0o022, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def _time() -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct").strip()
    return max(int(given or 0), EARLIEST)


def _git(*words: str) -> str:
    """What git says; nothing where this is no checkout."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout


def _tree(to: Path) -> Path:
    """The sources alone: what lies beside them here, an old build/lib say, would get into the wheel."""
    for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            file = to / name
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, file)
            file.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    if not to.exists():
        raise SystemExit("release/build.py: git does not list the sources: run it in a clone of the repository")
    return to


def _package(tree: Path, out: Path, time: int) -> list[Path]:
    """The sdist, and the wheel that comes from it."""
    with tempfile.TemporaryDirectory() as folder:
        # Without isolation, so that constraints.txt has the version of setuptools too, which stands in the wheel.
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder)
        _run(*build, tree, SOURCE_DATE_EPOCH=str(time))
        (sdist,), (wheel,) = Path(folder).glob("*.tar.gz"), Path(folder).glob("*.whl")
        (out / sdist.name).write_bytes(_packed(_unpacked(sdist), time))
        shutil.copyfile(wheel, out / wheel.name)
    return [out / sdist.name, out / wheel.name]


def _unpacked(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        files = [(member, tar.extractfile(member)) for member in tar]
        return {member.name: file.read() for member, file in files if file}


def _chart(tree: Path, archive: bytes) -> dict[str, bytes]:
    """Returns the files that helm packs, with the zipapp of this release: all of its parts have the same one."""
    folder = tree / CHART
    ignored = (folder / ".helmignore").read_text(encoding="utf-8").splitlines()
    paths = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    packed = {name: file for name, file in paths.items() if not any(fnmatch(name, pattern) for pattern in ignored)}
    return {**{f"k8sel/{name}": file.read_bytes() for name, file in packed.items()}, _ZIPAPP_IN_CHART: archive}


def _packed(files: Mapping[str, bytes], time: int) -> bytes:
    """A .tar.gz that says nothing of who made it, and when."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=time) as zipped,
        tarfile.open(mode="w", fileobj=zipped, format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), time
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _docker_answers() -> bool:
    docker = shutil.which("docker")
    return docker is not None and not subprocess.run([docker, "version"], capture_output=True, check=False).returncode


def main() -> None:
    """All of them, said as they come."""
    made = build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
    for file in made:
        print(os.path.relpath(file))
    if not _docker_answers():
        print("no images: no Docker daemon answers", file=sys.stderr)
        return
    (wheel,) = [file for file in made if file.suffix == ".whl"]
    base = os.environ.get("BASE") or default_base()
    if "@sha256:" not in base:
        print(
            f"the base {base} is a tag and may move: BASE={base}@sha256:... makes the same images again",
            file=sys.stderr,
        )
    for name in images(wheel, base):
        print(name)


if __name__ == "__main__":
    main()
