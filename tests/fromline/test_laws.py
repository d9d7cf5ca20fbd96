"""Laws of reading a command line: no text is too strange, and words are a shell's words."""

from __future__ import annotations

import shlex
import subprocess
import sys

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k8sel.adopt.line import LineError, Options, convert, lexer, shell
from k8sel.facts.backends import VARIABLES
from k8sel.jobfile.load import load

PIECES = [
    *("torchrun", "accelerate launch", "deepspeed", "mpirun", "docker run", "python", "env", "export", "bash -c", "cd"),
    *("--nproc_per_node", "=", "2", "-n", "-ppn", "-f", "-x", "-genv", "-H", "a:2,b", "--gpus", "'\"device=1,0\"'"),
    *("CUDA_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK=", "HIP_VISIBLE_DEVICES=", "2,0", "-1", ",", ":", "GPU-1", "all"),
    *("t.py", "-m", "--", "-", "--include", "localhost:1", "@", "--num_gpus", "--no_cuda", "--cpu", "-v", "/a:/b"),
    *("$X", "${X:-1}", "$(", ")", "`", "'", '"', "\\", "\n", "\\\n", " ", " ", " ", " ", ";", "&&", "||", "|", ">"),
    *("--ddp_backend", "ccl", "CCL_WORKER_COUNT=", "CCL_WORKER_AFFINITY=", "I_MPI_PIN_DOMAIN=", "source", "."),
    *("--bind-to", "--map-by", "slot:PE=2", "core:2", "mpirun.mpich", "OMP_NUM_THREADS=1", "/env/setvars.sh"),
    *("#", "*", "~", "{", "}", "(", "\0", "\r", "\x85", "\ud800", "é", "\u2013", "2>&1", "if", "$", "%"),
]  # fmt: skip
LINES = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
SPACED = st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join)
WORDS = st.lists(
    st.text(st.characters(exclude_characters="\0\ufffd", exclude_categories=["Cs"]), max_size=12), max_size=6
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(LINES | SPACED | st.text())
def test_any_text_is_a_valid_job_file_or_is_refused(text: str) -> None:
    try:
        made, notes = convert(text, Options())
    except LineError:
        return
    assert len(load(made.encode(), "job.yaml")) == 1
    assert all(note.location and note.location.line <= text.count("\n") + 1 for note in notes)


VALUES = st.sampled_from(
    ["0", "1", "2", "0,1", "0-3", "auto", "ofi", "mpi", "tcp", "eth0", "warn", "socket", "no", "x y"]
)
SETTINGS = st.dictionaries(st.sampled_from([*VARIABLES.values(), "I_MPI_PIN", "I_MPI_PIN_DOMAIN"]), VALUES, max_size=4)
BINDS = st.dictionaries(
    st.sampled_from(["--bind-to", "--map-by"]),
    st.sampled_from(
        ["none", "socket", "package", "numa", "core", "core:2", "slot", "slot:PE=2", "ppr:1:socket", "l3cache"]
    ),
)


@given(
    st.sampled_from(["mpirun -x A=1", "mpirun.mpich", "mpirun -genv I_MPI_DEBUG=1", "mpirun"]),
    st.sampled_from(["ccl", "gloo", "mpi", "xccl"]),
    SETTINGS,
    BINDS,
)
def test_nothing_of_a_line_for_cpus_is_lost_in_silence(
    program: str, backend: str, settings_: dict[str, str], binds: dict[str, str]
) -> None:
    given_ = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings_.items())
    options = " ".join(f"{name} {value}" for name, value in binds.items())
    try:
        made, notes = convert(f"{given_} {program} -n 2 {options} python t.py --ddp_backend {backend}", Options())
    except LineError:
        return
    spec, said = yaml.safe_load(made)["spec"], "\n".join(map(str, notes))
    variables = {entry["name"]: entry["value"] for entry in spec.get("env", [])}
    fields = {VARIABLES[field]: str(value) for field, value in spec.get("ccl", {}).items()}
    binding = spec["mpi"].get("binding")
    unbound = {"none", "slot"}

    assert spec["backend"] == backend
    assert {**variables, **fields, **({} if not binding else _pins(settings_))}.items() >= settings_.items()
    assert binding or all(f"{name} {value} is not" in said for name, value in binds.items() if value not in unbound)


def _pins(given_: dict[str, str]) -> dict[str, str]:
    """Returns the variables of Intel MPI that pin ranks."""
    return {name: value for name, value in given_.items() if name.startswith("I_MPI_PIN")}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(WORDS)
def test_a_programs_words_arrive_as_they_are(arguments: list[str]) -> None:
    words = ["--", *arguments]
    made, _ = convert(shlex.join(["python", "t.py", *words]), Options())
    assert yaml.safe_load(made)["spec"]["command"] == ["python", "t.py", *words]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.sampled_from("ab \t'\"\\=-,:"), max_size=30))
def test_words_are_those_of_a_posix_shell(text: str) -> None:
    """By shlex, which knows quotes and backslashes, and nothing to fill in."""
    try:
        expected = shlex.split(text)
    except ValueError:
        expected = None
    try:
        found = [word.text for token in lexer.tokens(text) for word in shell.words(token, {})]
    except lexer.NotRead:
        found = None
    if expected is None:
        assert found is None or text.endswith("\\")  # a backslash at the end stays one here, as in dash
    else:
        assert found == expected


def test_a_variable_is_filled_in_as_a_shell_would() -> None:
    text = 'A=\'x  y\'\nB="$A z"\nC=${D:-}$A\nexport E=$B\nshow $A "$A" \'$A\' p${A}q $B"$A" $E ${A:-no} ""'
    shown = subprocess.run(
        ["/bin/sh", "-c", f"show() {{ printf '%s\\n' \"$@\"; }}\n{text}"], capture_output=True, text=True, check=True
    ).stdout
    made, _ = convert(text.replace("show ", "python t.py "), Options())

    assert yaml.safe_load(made)["spec"]["command"][2:] == shown.split("\n")[:-1]


def test_bytes_that_are_no_text_are_refused_and_not_a_fault() -> None:
    k8sel = [sys.executable, "-m", "k8sel", "from", "-"]
    ended = subprocess.run(k8sel, input=b"python t.py \xff\xfe", capture_output=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.decode().startswith("<stdin>:1:13: invalid: the line contains a byte that is not UTF-8")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 64), st.permutations(range(5)))
def test_a_masks_order_is_the_jobs(processes: int, devices: list[int]) -> None:
    chosen = devices[: 1 + processes % 5]
    mask = ",".join(map(str, chosen))
    made, _ = convert(f"CUDA_VISIBLE_DEVICES={mask} torchrun --nproc_per_node=1 t.py", Options())

    assert yaml.safe_load(made)["spec"]["accelerator"]["devices"] == chosen
