"""Feeds mutated files to the functions behind the commands: each gives result or refusal, in little time and memory.

    python bench/fuzz.py [--inputs N] [--seeds 1 2] [--only TARGET ...]

Each target and seed runs in a process of its own, which mutates the repository's own files; --inputs is the sum of all
inputs. The same seed makes the same inputs. Prints a row for each process, and each distinct traceback with its input.
Exit status: 0 no traceback, no hang, and less memory than MEGABYTES; 1 otherwise.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import NamedTuple

import fuzz_inputs as inputs
import yaml

from k8sel import api
from k8sel.adopt import line as fromline
from k8sel.adopt import manifest as frommanifest
from k8sel.audit import audit
from k8sel.cli import krm
from k8sel.cli.show import audit as show_audit
from k8sel.cli.show import plan as show_plan
from k8sel.cli.show import receipts as show_receipts
from k8sel.entrypoint import protocol
from k8sel.entrypoint.report import Stop
from k8sel.entrypoint.start import byhand, gate
from k8sel.errors import K8selError
from k8sel.jobfile import load as loading
from k8sel.jobfile import yamlio
from k8sel.receipts import collect, compare
from k8sel.receipts.lines import prefixed

MEGABYTES = 256  # of memory that a process may take at its peak
SECONDS = 5  # of processor time that an input may take; the median takes a millisecond
ADDRESS_SPACE = 2 << 30  # a fault ends the process, not the machine
LONGEST = 1 << 14  # bytes of an input: mutations of mutations grow
SHOWN = 400  # characters of an input that are printed


class Hang(BaseException):
    """An input took more than SECONDS. No `except Exception` catches it."""


class Row(NamedTuple):
    """The result of one process."""

    target: str
    seed: int
    inputs: int
    accepted: int
    hangs: int
    slowest: float
    seconds: float
    megabytes: int
    tracebacks: Mapping[str, str]  # the place of each -> the first input that ended there


def _load(text: bytes) -> None:
    loading.load(text, "job.yaml")


def _render(text: bytes) -> None:
    for job in api.load(text, "job.yaml"):
        plan = api.plan(job)
        yamlio.dump(api.render(plan))
        show_plan.plan_json(plan)


def _from(text: bytes) -> None:
    fromline.convert(text.decode("utf-8", "replace"), fromline.Options())


def _from_file(text: bytes) -> None:
    frommanifest.convert(text.decode("utf-8", "replace"), fromline.Options(file="pod.yaml"))


def _audit(text: bytes) -> None:
    found, _ = audit(text, "pod.yaml")
    show_audit.text(found)
    show_audit.sarif(found)


def _krm(text: bytes) -> None:
    made = krm.answer(text, "list.yaml")
    yamlio.dump([made.resource_list])
    for finding in made.findings:
        str(finding)


def _receipts(text: bytes) -> None:
    lines = text.decode(errors="replace").split("\n")
    found = collect.saved(text) or collect.collect(map(prefixed, lines))
    if found:
        found.notes()
        show_receipts.receipts(found, "table")
        show_receipts.receipts(found, "json")
        show_receipts.differences(compare.compare(found, found), "table")


def _reports(text: bytes) -> None:
    reports = gate.parse(text.decode(errors="replace"))
    for each in reports:
        gate._found(each)
    gate._problems(reports)
    gate._missing(reports, protocol.Expectation(accelerator="cuda", devices=(0,), nodes=3))


def _expectation(text: bytes) -> None:
    protocol.parse(protocol.parse(text.decode(errors="replace")).to_json())


def _by_hand(text: bytes) -> None:
    lines = text.decode(errors="replace").split("\n")
    environ = dict(each.split("=", 1) for each in lines if "=" in each)
    made = byhand.expectation(environ, environ.get("COMMAND", "python t.py").split(" "))
    protocol.parse(made.to_json())


class Target(NamedTuple):
    """A function, its first inputs, and the exceptions that are refusals."""

    call: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    share: int  # of all inputs, in percent: the faster a target, the more
    refusals: tuple[type[Exception], ...] = (K8selError,)
    prefix: bytes = b""  # in front of a changed tree


TARGETS = {
    "load": Target(_load, inputs.jobs, 6),
    "render": Target(_render, inputs.jobs, 4),
    "from": Target(_from, inputs.lines, 12),
    "from -f": Target(_from_file, inputs.manifests, 6),
    "audit": Target(_audit, inputs.manifests, 8),
    "krm": Target(_krm, inputs.resource_lists, 4),
    "receipts": Target(_receipts, inputs.logs, 15, (ValueError,), inputs.RECEIPT),
    "reports": Target(_reports, inputs.reports, 15, (), inputs.REPORT_MARK),
    "expectation": Target(_expectation, inputs.expectations, 15, (ValueError,)),
    "by hand": Target(_by_hand, inputs.by_hand, 15, (Stop,)),
}


def mutated(random: Random, corpus: Sequence[bytes], trees: Sequence[str], prefix: bytes) -> bytes:
    """Returns a mutation of one of ``trees``, or of the words and bytes of one of ``corpus``."""
    if trees and random.random() < 0.5:
        tree = json.loads(random.choice(trees))
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            tree = inputs.changed_tree(random, tree)
        return (random.choice((prefix, b"")) + json.dumps(tree).encode())[:LONGEST]
    text = random.choice(corpus)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        text = random.choice(inputs.TEXT_CHANGES)(random, text, corpus)
    return text[:LONGEST]


def _trees(corpus: Iterable[bytes], prefix: bytes) -> Iterator[str]:
    """Yields the documents of the inputs that are YAML mappings, as JSON."""
    for text in corpus:
        try:
            yield from (
                json.dumps(each) for each in yaml.safe_load_all(text.removeprefix(prefix)) if isinstance(each, dict)
            )
        except (yaml.YAMLError, TypeError):
            continue


def run(name: str, seed: int, count: int) -> Row:
    """Feeds ``count`` inputs to a target."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGVTALRM, _too_long)
    target, random = TARGETS[name], Random(f"{name} {seed}")
    corpus = target.seeds()
    trees = list(_trees(corpus, target.prefix))
    accepted = hangs = 0
    slowest, began, tracebacks = 0.0, time.process_time(), dict[str, str]()
    for _ in range(count):
        text, before = mutated(random, corpus, trees, target.prefix), time.process_time()
        try:
            accepted += _accepts(target, text)
        except Hang:
            hangs += 1
            tracebacks.setdefault("hang", repr(text[:SHOWN]))
        except Exception as error:
            tracebacks.setdefault(_place(error), repr(text[:SHOWN]))
        slowest = max(slowest, time.process_time() - before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Row(name, seed, count, accepted, hangs, slowest, time.process_time() - began, peak, tracebacks)


def _accepts(target: Target, text: bytes) -> bool:
    """Calls the target, without its output. False for a refusal, whose text is made as for a user."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            target.call(text)
    except target.refusals as refusal:
        str(refusal)
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return True


def _too_long(*_: object) -> None:
    raise Hang


def _place(error: Exception) -> str:
    """The exception's type, and the last line of k8sel in its traceback."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "k8sel" in Path(frame.filename).parts]
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "no line of k8sel"
    return f"{type(error).__name__} at {where}: {str(error)[:80]}"


def _processes(names: Sequence[str], seeds: Sequence[int], total: int) -> Iterator[Row]:
    """Runs each target with each seed, one after the other, each in a new process."""
    shares = sum(TARGETS[name].share for name in names) * len(seeds)
    context = multiprocessing.get_context("spawn")
    for name in names:
        for seed in seeds:
            with context.Pool(1) as pool:
                yield pool.apply(run, (name, seed, -(-total * TARGETS[name].share // shares)))


def _print(row: Row) -> None:
    print(
        f"{row.target:12} seed {row.seed}: {row.inputs} inputs, {row.accepted} accepted, "
        f"{len(row.tracebacks)} tracebacks, {row.hangs} hangs, "
        f"slowest {row.slowest:.2f} s, {row.seconds:.0f} s, {row.megabytes} MB",
        flush=True,
    )
    for place, text in row.tracebacks.items():
        print(f"    {place}\n        {text}", flush=True)


def main(words: Sequence[str]) -> int:
    """Runs the targets, and prints a row for each and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all targets and seeds together")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=list(TARGETS))
    options = parser.parse_args(words)
    rows = []
    for row in _processes(options.only, options.seeds, options.inputs):
        _print(row)
        rows.append(row)
    faults = {place for row in rows for place in row.tracebacks}
    peak = max(row.megabytes for row in rows)
    print(
        f"{sum(row.inputs for row in rows)} inputs, {len(faults)} distinct tracebacks, "
        f"{sum(row.hangs for row in rows)} hangs, peak {peak} MB, "
        f"{sum(row.seconds for row in rows):.0f} s of processor time"
    )
    return 1 if faults or peak >= MEGABYTES else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
