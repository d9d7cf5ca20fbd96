"""Input that is too large, or never ends: a refusal in plain words, within little memory and time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import limits
import pytest

ENDLESS = Path("/dev/zero")
JOB = "apiVersion: k8sel.dev/v1alpha1\nkind: AcceleratedJob\nmetadata: {name: a}\nspec:\n"
RUN = f"{JOB}  launcher: python\n  image: x\n  command: [python, t.py]\n  accelerator: {{type: cpu}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: x\n"
DOUBLED = "".join(f'  - {{name: A{index}, value: "$(A{index - 1})$(A{index - 1})"}}\n' for index in range(1, 31))
ENV = f"  env:\n  - {{name: A0, value: xxxxxxxx}}\n{DOUBLED}"
MIB = 1 << 20
COMMANDS = {
    "validate": (["validate"], f"has more than {MIB} bytes, and a job file has at most {MIB}"),
    "plan": (["plan"], f"has more than {MIB} bytes, and a job file has at most {MIB}"),
    "audit": (["audit"], f"has more than {MIB} bytes, and a manifest has at most {MIB}"),
    "from": (["from"], "has more than 65536 bytes, and a command line has at most 65536"),
    "from -f": (["from", "-f"], f"has more than {MIB} bytes, and a manifest has at most {MIB}"),
    "render --krm": (["render", "--krm"], f"has more than {20 * MIB} bytes, and a ResourceList has at most {20 * MIB}"),
    "receipt": (["receipt"], "has more than 268435456 bytes, and a log has at most 268435456"),
}
REFERRING = "the variable A14 has more than 131071 characters after its references are filled in"


@pytest.mark.parametrize(("command", "said"), COMMANDS.values(), ids=COMMANDS)
def test_standard_input_that_never_ends(command: list[str], said: str) -> None:
    with ENDLESS.open("rb") as endless:
        done = limits.k8sel(*command, "-", stdin=endless)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Hint: " in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [pytest.param(*each, id=name) for name, each in COMMANDS.items() if name != "from"],
)
def test_a_file_that_never_ends(command: list[str], said: str) -> None:
    done = limits.k8sel(*command, ENDLESS)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A FIFO whose writer writes until the reader has gone."""
    path = tmp_path / "job.yaml"
    os.mkfifo(path)

    def write() -> None:
        try:
            with path.open("wb") as opened:
                while opened.write(b"#" * MIB):
                    pass
        except BrokenPipeError:
            return

    writer = threading.Thread(target=write)
    writer.start()
    yield path
    writer.join(limits.SECONDS)


def test_a_fifo_that_never_ends(pipe: Path) -> None:
    done = limits.k8sel("validate", pipe)
    assert done.returncode == 2
    assert f"{pipe} has more than {MIB} bytes" in done.stderr


def test_a_long_command_line_is_refused_before_it_is_read() -> None:
    done = limits.k8sel("from", "python t.py " + "--x " * 20_000)
    assert done.returncode == 2
    assert "has more than 65536 bytes" in done.stderr


@pytest.mark.parametrize("command", [["run", "--print"], ["docker", "--print"]], ids=" ".join)
def test_references_that_double_in_a_job_file(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(RUN + ENV)
    done = limits.k8sel(*command, file)
    assert done.returncode == 2
    assert REFERRING in done.stderr


def test_references_that_double_in_a_manifest(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD + "    command: [python, t.py]\n" + ENV.replace("  ", "    ", 1).replace("  - ", "    - "))
    done = limits.k8sel("from", "-f", file)
    assert done.returncode == 2
    assert REFERRING in done.stderr


def test_many_long_values_in_a_manifest(tmp_path: Path) -> None:
    """No value is too long, but together they are: nothing of it could be started."""
    values = "".join(f'    - {{name: B{index}, value: "$(A)"}}\n' for index in range(1900))
    file = tmp_path / "pod.yaml"
    file.write_text(f"{POD}    command: [python, t.py]\n    env:\n    - {{name: A, value: {'x' * 100_000}}}\n{values}")
    done = limits.k8sel("from", "-f", file)
    assert done.returncode == 2
    assert "together the values up to B19 have more than 2000000 characters" in done.stderr


def test_many_long_words_in_a_manifest(tmp_path: Path) -> None:
    words = ", ".join(['"$(A)"'] * 9000)
    file = tmp_path / "pod.yaml"
    file.write_text(f"{POD}    command: [python, {words}]\n    env:\n    - {{name: A, value: {'x' * 100_000}}}\n")
    done = limits.k8sel("from", "-f", file)
    assert done.returncode == 2
    assert "together the values up to the command have more than 2000000 characters" in done.stderr


@pytest.mark.parametrize("command", [["run", "--print"], ["docker", "--print"], ["validate"]], ids=" ".join)
def test_references_without_an_end_take_little_time(command: list[str], tmp_path: Path) -> None:
    """The search for the end of each took the square of the time: minutes for 120 KB."""
    file = tmp_path / "job.yaml"
    file.write_text(f'{RUN}  env:\n  - {{name: A, value: "{"$(" * 60_000}"}}\n')
    done = limits.k8sel(*command, file)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("words", ["if x; ", "torchrun --a ", "docker run -e A x "])
def test_a_shells_long_text_in_a_manifest(words: str, tmp_path: Path) -> None:
    """130 KB are refused, and 900 KB are no program for the audit: each took minutes, or ten seconds."""
    for size, command, status in ((130_000, ["from", "-f"], 2), (900_000, ["audit"], 0)):
        file = tmp_path / "pod.yaml"
        file.write_text(f'{POD}    command: [bash, -c, "{(words * size)[:size]}"]\n')
        done = limits.k8sel(*command, file)
        assert (done.returncode, "more than 65536 characters" in done.stderr) == (status, status == 2)


def test_a_long_text_behind_many_aliases(tmp_path: Path) -> None:
    """Its values are few, its text is large: each alias counts in full."""
    values = "".join(f"  - {{name: B{index}, value: *long}}\n" for index in range(1000))
    file = tmp_path / "job.yaml"
    file.write_text(f"{RUN}  env:\n  - {{name: A, value: &long {'x' * 100_000}}}\n{values}")
    done = limits.k8sel("render", file)
    assert done.returncode == 2
    assert f"job.yaml:21:24: syntax: more than {MIB} characters: each alias counts in full" in done.stderr


def test_a_long_key_with_many_problems_in_it(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"? {'k' * 500_000}\n: [{'!!x a,' * 4000}]\n")
    done = limits.k8sel("validate", file)
    assert done.returncode == 2
    assert len(done.stderr) < 8 * MIB


def test_a_large_log_is_read_line_by_line(tmp_path: Path) -> None:
    """64 MB without a receipt, and one long line among them: far more than the memory that reading takes."""
    file = tmp_path / "job.log"
    with file.open("wb") as opened:
        opened.write(b"loss 0.1\n" * 1000)
        opened.write(b"#" * (32 * MIB) + b"\n")
        for _ in range(32):
            opened.write(b"loss 0.1234567890\n" * (MIB // 18))
    done = limits.k8sel("receipt", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no receipt" in done.stderr


def test_a_log_full_of_receipts(tmp_path: Path) -> None:
    file = tmp_path / "job.log"
    with file.open("w") as opened:
        for index in range(200_000):
            opened.write(f'k8sel-receipt: {{"node": "n{index}", "job": "a", "ranks": [{{"localRank": 0}}]}}\n')
    done = limits.k8sel("receipt", file)
    assert done.returncode == 2
    assert "has more than 8388608 bytes of receipts" in done.stderr


def test_the_library_reads_no_more_either() -> None:
    code = "import k8sel\ntry:\n    k8sel.load('/dev/zero')\nexcept k8sel.SpecError as error:\n    print(error)"
    done = limits.bounded(["-c", code])
    assert done.stdout == f"/dev/zero:1:1: syntax: the file has more than {MIB} bytes. Hint: make it smaller\n", (
        done.stderr
    )
