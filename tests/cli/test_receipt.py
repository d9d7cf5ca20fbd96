"""`k8sel receipt`: logs and documents in, a table, JSON or the differences out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from receipts.made import line, log, receipt, two_nodes

from k8sel.cli import gather
from k8sel.errors import SpecError
from k8sel.facts.accelerators import owned_env

CLEAN = {name: value for name, value in os.environ.items() if name not in owned_env()}


def k8sel(*args: object, text: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "k8sel", *map(str, args)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=cwd, env=CLEAN)


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """The log of a job with another driver on one of its nodes."""
    first, second = two_nodes("slow")
    file = tmp_path / "slow.log"
    file.write_text(log(first, {**second, "driver": "570.86"}))
    return file


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.log"
    file.write_text(log(*two_nodes("good")))
    return file


def test_one_table(good: Path) -> None:
    shown = k8sel("receipt", good)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == (
        "NODE           RANK  LOCAL RANK  DEVICE             PCI           NUMA  MASK             THREADS  DRIVER     "
        "VERSIONS\n"
        "good-master-0  0     0           GPU-0000-00000003  0000:03:00.0  0     ...0003,...0001  4        550.54.15  "
        "python 3.11.7, torch 2.6.0\n"
        "good-master-0  1     1           GPU-0000-00000001  0000:01:00.0  0     ...0003,...0001  4        550.54.15  "
        "python 3.11.7, torch 2.6.0\n"
        "good-worker-0  2     0           GPU-0000-00000000  0000:00:00.0  0     ...0000,...0002  4        550.54.15  "
        "python 3.11.7, torch 2.6.0\n"
        "good-worker-0  3     1           GPU-0000-00000002  0000:02:00.0  0     ...0000,...0002  4        550.54.15  "
        "python 3.11.7, torch 2.6.0\n"
    )


def test_a_device_without_uuid_and_address_is_shown_by_its_part(tmp_path: Path) -> None:
    start = receipt("neuron-master-0", rank="0", accelerator="neuron", mask={})
    cores = [{"uuid": "", "pci": "", "numa": None, "part": f"NeuronCore {core}"} for core in range(2)]
    start["ranks"] = [{"localRank": core, "positions": [0], "devices": [each]} for core, each in enumerate(cores)]
    (tmp_path / "neuron.log").write_text(log(start))
    shown = k8sel("receipt", tmp_path / "neuron.log").stdout.splitlines()[1:]
    assert [line.split()[:5] for line in shown] == [
        ["neuron-master-0", "0", "0", "NeuronCore", "0"],
        ["neuron-master-0", "1", "1", "NeuronCore", "1"],
    ]


def test_a_document_can_be_kept_and_shown_again(good: Path, tmp_path: Path) -> None:
    kept = tmp_path / "good.json"
    kept.write_text(k8sel("receipt", good, "-o", "json").stdout)
    assert k8sel("receipt", kept).stdout == k8sel("receipt", good).stdout
    assert k8sel("receipt", "-", text=kept.read_text()).stdout == k8sel("receipt", good).stdout
    document = json.loads(kept.read_text())
    assert set(document) == {"version", "job", "nodes", "notes", "earlier", "broken", "contradictions", "receipts"}
    assert (document["job"], document["receipts"]) == ("good", two_nodes("good"))


def test_what_is_missing_is_said_beside_the_table(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(log(two_nodes("good", nodes=2)[0]) * 2)
    shown = k8sel("receipt", "one.log", cwd=tmp_path)
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) == 3
    assert shown.stderr == (
        "note: one.log: 2 nodes planned, and receipts of 1: good-master-0\n"
        "note: one.log: node good-master-0 was started 2 times: the last one is shown\n"
    )


def test_diff(good: Path, slow: Path) -> None:
    found = k8sel("receipt", "diff", good, slow)
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout == "ranks 2-3 (worker-0): driver: 550.54.15 -> 570.86\n"
    same = k8sel("receipt", "diff", good, good)
    assert (same.returncode, same.stdout) == (0, "no difference: 4 processes on 2 nodes\n")


def test_diff_as_json(good: Path, slow: Path) -> None:
    found = k8sel("receipt", "-o", "json", "diff", good, slow)
    assert found.returncode == 1
    assert json.loads(found.stdout) == {
        "equal": False,
        "processes": 4,
        "differences": [
            {
                "field": "driver",
                "a": "550.54.15",
                "b": "570.86",
                "ranks": [2, 3],
                "nodes": {"a": ["good-worker-0"], "b": ["slow-worker-0"]},
            }
        ],
        "notCompared": [],
    }


def test_what_every_rank_has_is_said_once(good: Path, tmp_path: Path) -> None:
    other = two_nodes("other", jobFile="bb", threads="1", libraries={"torch": "2.5.1", "triton": "3.1.0"})
    for fields in other:
        del fields["python"]
    (tmp_path / "other.log").write_text(log(*other))
    assert k8sel("receipt", "diff", good, tmp_path / "other.log").stdout == (
        "jobFile: aa -> bb\n"
        "every rank: threads: 4 -> 1\n"
        "every rank: libraries.torch: 2.6.0 -> 2.5.1\n"
        "every rank: libraries.triton: none -> 3.1.0\n"
        "not compared, only one of the two has it: python\n"
    )


def test_errors_of_diff_are_more_than_different(good: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("step 1\n")
    for other in ("nowhere.log", "empty.log", "."):
        failed = k8sel("receipt", "diff", good, other, cwd=tmp_path)
        assert (failed.returncode, failed.stdout) == (2, "")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "k8sel", "receipt", "diff", str(good), str(good)]
        assert subprocess.run(command, stdout=full, stderr=subprocess.DEVNULL, check=False).returncode == 2
    unreachable = {**CLEAN, "KUBECONFIG": str(tmp_path / "none")}
    command = [sys.executable, "-m", "k8sel", "receipt", "diff", "some-job", str(good)]
    assert subprocess.run(command, env=unreachable, capture_output=True, check=False).returncode == 2


def test_what_is_no_receipt_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("step 1\n")
    (tmp_path / "both.log").write_text(log(*two_nodes("first"), *two_nodes("second")))
    (tmp_path / "later.json").write_text('{"version": 2, "receipts": []}')
    for file, message in {
        "empty": "empty has no receipt. Hint: use a log from its start, or the output of `k8sel receipt JOB -o json`",
        "both.log": "both.log has receipts of several jobs: first, second. Hint: make one file for each job",
        "later.json": "later.json cannot be read as receipts: its version is 2, and this k8sel reads version 1. "
        "Hint: make it again with this k8sel",
        "none.log": "none.log cannot be read: No such file or directory. Hint: make it with `k8sel logs JOB > FILE` or "
        "`k8sel receipt JOB -o json > FILE`",
    }.items():
        failed = k8sel("receipt", file, cwd=tmp_path)
        assert (failed.returncode, failed.stdout, failed.stderr) == (2, "", f"invalid: {message}\n")


def test_words_that_mean_nothing_are_refused(good: Path) -> None:
    for words in (("diff", good), ("diff", good, good, good), (good, good)):
        failed = k8sel("receipt", *words)
        assert failed.returncode == 2
    assert "Hint: use k8sel receipt JOB|FILE, or k8sel receipt diff A B" in failed.stderr


def test_nothing_in_a_log_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    hostile = two_nodes("\x1b[3m", driver="\x1b[2J", threads="\x07", libraries={"\x1b]0;x\x07": "\x1b[1m"})
    (tmp_path / "hostile.log").write_text("\n".join(map(line, [*hostile, hostile[0]])))
    (tmp_path / "good.log").write_text(log(*two_nodes("good")))
    for words in (("receipt", "hostile.log"), ("receipt", "diff", "good.log", "hostile.log")):
        shown = k8sel(*words, cwd=tmp_path)
        assert not set(shown.stdout + shown.stderr) & {"\x1b", "\x07"}
        assert "\\x1b[2J" in shown.stdout


def test_what_run_leaves_can_be_read(tmp_path: Path) -> None:
    job = {"command": ["python3", "-c", "pass"], "launcher": "python", "accelerator": {"type": "cpu"}}
    head = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "local"}}
    done = k8sel("run", "-q", "-", text=json.dumps({**head, "spec": job}))
    (tmp_path / "run.log").write_text(done.stderr)
    shown = k8sel("receipt", tmp_path / "run.log")
    assert (shown.returncode, shown.stderr) == (0, "")
    node, rank, local, device, *_ = shown.stdout.splitlines()[1].split()
    assert (node, rank, local, device) == (os.uname().nodename, "0", "0", "-")
    assert f"python {sys.version_info[0]}.{sys.version_info[1]}" in shown.stdout


def test_contradictory_receipts_are_shown_and_named(good: Path, tmp_path: Path) -> None:
    first, second = two_nodes("good")
    forged = line({**first, "driver": "1"}, "good-worker-0 | ") + "\n"
    shown = k8sel("receipt", "-", text=good.read_text() + forged)
    assert (shown.returncode, shown.stdout) == (1, k8sel("receipt", good).stdout)
    said = "contradiction: good-worker-0 has a receipt for node good-master-0: it is left out"
    assert shown.stderr == f"note: -: {said}\n"
    file = tmp_path / "forged.log"
    file.write_text(log(first, second) + forged)
    for words in (("diff", good, file), ("diff", file, good)):
        compared = k8sel("receipt", *words)
        assert (compared.returncode, compared.stdout) == (2, "no difference: 4 processes on 2 nodes\n")
        assert compared.stderr == f"note: {file}: {said}\n"
    kept = tmp_path / "forged.json"
    kept.write_text(k8sel("receipt", file, "-o", "json").stdout)
    again = k8sel("receipt", kept)
    assert (again.returncode, again.stderr) == (1, f"note: {kept}: {said}\n")


def test_a_later_piece_of_a_long_line_begins_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program prints as much as one piece holds, and a receipt behind it."""
    monkeypatch.setattr(gather, "MOST_RECEIPTS", 10)
    monkeypatch.setattr(gather, "LONGEST_LINE", 1 << 16)
    file = tmp_path / "forged.log"
    (first, *_) = two_nodes("forged")
    file.write_text("a line before\n" + "x" * (1 << 16) + line(first) + "\n")

    with pytest.raises(SpecError, match="has no receipt"):
        gather.of_file(str(file))
