"""Shows that the tests notice faults: makes one at a time, and runs the tests that should fail.

    python bench/mutations.py [--only NAME ...] [--jobs N] [--list]

The faults are in mutations_table.py. Works in temporary copies of this checkout, with the Python that runs it. At the
end each test that failed is run without a fault: one that fails anyway proves nothing. Exit status: 0 each mutation is
caught; 1 one survives; 2 a mutation no longer applies, or a test fails without one.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, NoReturn

from mutations_table import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parent.parent
CODE = ("k8sel", "charts/k8sel/templates")  # where the texts are looked for, whatever the file is called
SUFFIXES = (".py", ".json", ".tpl", ".yaml")
# These need a cluster, a Docker daemon, a GPU, or programs that take long: a mutation here has to fall without them.
QUICK = "not (cluster or docker or gpu or torch or mpi)"
OPTIONS = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb", "no", "-m", QUICK)
SECONDS = 600  # after which a run is ended: a mutation may make a program wait for ever
TIMED_OUT = -1


class Run(NamedTuple):
    """The end of one run of pytest."""

    status: int  # pytest's: 0 all passed, 1 a test failed, others: it could not run them
    failed: str  # the first test that failed
    output: str


class Result(NamedTuple):
    """A mutation, and the end of its run."""

    mutation: Mutation
    place: Path
    run: Run
    seconds: float

    @property
    def caught(self) -> bool:
        """Reports whether a test failed: a run that ends in another way shows nothing."""
        return self.run.status == 1 and bool(self.run.failed)

    def __str__(self) -> str:
        end = self.run.failed if self.caught else _survived(self.run)
        return f"{self.mutation.name:34} {self.seconds:5.1f} s  {self.place}  {end}"


class Copy:
    """A copy of the checkout, with a Python that imports this copy."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self._environment = folder / "environment"
        self._writes = 2**30
        _copy(self.root)
        _environment(self._environment, self.root)

    def run(self, targets: Iterable[str]) -> Run:
        """Runs the tests up to the first that fails."""
        python = self._environment / "bin" / "python"
        command = [str(python), "-m", "pytest", *OPTIONS, *targets]
        path = f"{python.parent}:{os.environ['PATH']}"
        environ = {**os.environ, "PATH": path}
        try:
            ended = subprocess.run(
                command, cwd=self.root, env=environ, capture_output=True, text=True, check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return Run(TIMED_OUT, "", "")
        first = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", ended.stdout, re.MULTILINE)
        return Run(ended.returncode, first[1] if first else "", ended.stdout + ended.stderr)

    def mutated(self, mutation: Mutation) -> Result:
        """Runs the mutation's tests on the mutated code, and mends it again."""
        started = time.monotonic()
        place = places(mutation, self.root)[0]
        file = self.root / place
        before = file.read_text()
        self._write(file, before.replace(mutation.old, mutation.new))
        run = self.run(mutation.tests)
        self._write(file, before)
        return Result(mutation, place, run, time.monotonic() - started)

    def _write(self, file: Path, text: str) -> None:
        """Writes a text with a time of its own: by time and size, Python knows whether its bytecode is stale."""
        self._writes += 1
        file.write_text(text)
        os.utime(file, (self._writes, self._writes))


def main() -> NoReturn:
    """Runs the mutations that the command line names, or all, and prints a line for each."""
    options = _options()
    chosen = [each for each in MUTATIONS if not options.only or each.name in options.only]
    _refuse_stale(chosen)
    if options.list:
        for each in chosen:
            print(f"{each.name:34} {places(each, ROOT)[0]}  {' '.join(each.tests)}")
        sys.exit(0)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copies = [Copy(Path(folder, str(number))) for number in range(options.jobs)]
        results = _all(chosen, copies)
        caught = [result.run.failed for result in results if result.caught]
        clean = copies[0].run(caught) if caught else None
    print(f"{len(caught)} of {len(results)} caught in {time.monotonic() - started:.0f} s")
    _refuse_failing(clean)
    sys.exit(0 if len(caught) == len(results) else 1)


def places(mutation: Mutation, root: Path) -> list[Path]:
    """The files of the code in which the mutation's old text stands, once for each time that it does."""
    files = sorted(path for folder in CODE for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    return [path.relative_to(root) for path in files for _ in range(path.read_text().count(mutation.old))]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [each.name for each in MUTATIONS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these mutations")
    parser.add_argument("--jobs", type=int, default=1, choices=(1, 2, 3, 4), help="copies that run side by side")
    parser.add_argument("--list", action="store_true", help="print name, file and tests of each, and run nothing")
    return parser.parse_args()


def _refuse_stale(mutations: Iterable[Mutation]) -> None:
    """Exits with 2 where an old text does not stand exactly once in the code."""
    found = {each.name: places(each, ROOT) for each in mutations}
    stale = {name: where for name, where in found.items() if len(where) != 1}
    for name, where in stale.items():
        print(f"{name} no longer applies: its text is found {len(where)} times {', '.join(map(str, where))}")
    if stale:
        sys.exit(2)


def _all(mutations: Sequence[Mutation], copies: Sequence[Copy]) -> list[Result]:
    """The result of each mutation, printed as it comes."""
    free: queue.Queue[Copy] = queue.Queue()
    for copy in copies:
        free.put(copy)

    def one(mutation: Mutation) -> Result:
        copy = free.get()
        result = copy.mutated(mutation)
        free.put(copy)
        print(result, flush=True)
        return result

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, mutations))


def _refuse_failing(clean: Run | None) -> None:
    """Exits with 2 where a test that caught a mutation fails without one, too."""
    if clean and clean.status:
        print(f"this test fails without a mutation: {clean.failed or clean.output[-2000:]}")
        sys.exit(2)


def _survived(run: Run) -> str:
    if run.status == TIMED_OUT:
        return f"SURVIVED: the tests did not end in {SECONDS} s"
    return "SURVIVED" if run.status == 0 else f"SURVIVED: pytest ended with {run.status}: {run.output[-300:].strip()}"


def _copy(into: Path) -> None:
    """Copies what git knows or would add: no environments, no caches."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name, follow_symlinks=False)


def _environment(folder: Path, root: Path) -> None:
    """Makes a virtual environment that finds this one's packages, and the copy's code before them."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "copy.pth").write_text(f"{root}\n{sysconfig.get_path('purelib')}\n")
    for program in Path(sysconfig.get_path("scripts")).iterdir():
        if program.is_file() and not (folder / "bin" / program.name).exists():
            _script(program, folder / "bin" / program.name)


def _script(program: Path, into: Path) -> None:
    """Copies a program of this environment; one that Python runs is run by the copy's Python."""
    data = program.read_bytes()
    into.write_bytes(data.replace(sysconfig.get_path("scripts").encode(), str(into.parent).encode()))
    into.chmod(program.stat().st_mode)


if __name__ == "__main__":
    main()
