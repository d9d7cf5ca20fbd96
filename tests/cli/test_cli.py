"""The command line as a user meets it: whole processes, their output and their exit status."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = EXAMPLES / "ordered-torchrun.yaml"
QUOTED = """\
{apiVersion: k8sel.dev/v1alpha1, kind: AcceleratedJob, metadata: {name: a}, spec: {image: a, launcher: python,
 command: [python, -c, "print('a b')", $HOME, 'it is "it"', x=1], accelerator: {type: cpu}}}
"""
COMMANDS = [
    "init",
    "from",
    "schema",
    "validate",
    "plan",
    "render",
    "apply",
    "delete",
    "status",
    "logs",
    "run",
    "docker",
    "devices",
    "receipt",
    "audit",
]


def k8sel(*args: str, text: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "k8sel", *args], input=text, capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = k8sel(command, "--help")
    assert result.returncode == 0
    assert "Usage:" in result.stdout


def test_help_lists_exactly_these_commands() -> None:
    from k8sel.cli.main import COMMANDS as KNOWN

    assert sorted(KNOWN) == sorted(COMMANDS)
    listed = k8sel("--help").stdout.split("Commands:")[1]
    assert sorted(line.split()[0] for line in listed.splitlines() if line.startswith("  ")) == sorted(COMMANDS)


def test_version() -> None:
    from k8sel import __version__

    assert k8sel("--version").stdout == f"k8sel {__version__}\n"


@pytest.mark.parametrize("program", ["k8sel", "kubectl-k8sel", "k8sel-entrypoint"])
def test_the_programs_are_installed(program: str) -> None:
    result = subprocess.run(
        [Path(sys.executable).parent / program, "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0


def test_init_writes_a_file_that_renders(tmp_path: Path) -> None:
    assert k8sel("init", cwd=tmp_path).stdout == "job.yaml is written. Next: k8sel plan job.yaml\n"
    assert k8sel("render", "job.yaml", cwd=tmp_path).returncode == 0


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("mine")
    result = k8sel("init", cwd=tmp_path)
    assert (result.returncode, (tmp_path / "job.yaml").read_text()) == (2, "mine")
    assert (
        result.stderr == "invalid: job.yaml exists already. Hint: use k8sel init ... OTHER.yaml, or remove job.yaml\n"
    )


def test_render_reads_standard_input_and_several_files() -> None:
    alone = k8sel("render", "-q", str(JOB)).stdout
    assert k8sel("render", "-q", "-", text=JOB.read_text()).stdout == alone
    both = k8sel("render", "-q", str(JOB), str(EXAMPLES / "mpi.yaml")).stdout
    assert both.startswith(alone)
    assert both.count("\nkind: ") == 4


def test_render_json_is_one_list() -> None:
    assert json.loads(k8sel("render", "-q", "-o", "json", str(JOB)).stdout)["kind"] == "List"


def test_problems_of_all_files_come_together(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(JOB.read_text().replace("launcher: torchrun", "launcher: torchruns"))
    result = k8sel("render", "a.yaml", "b.yaml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["a.yaml", "b.yaml"]


def test_a_missing_file_is_a_message() -> None:
    result = k8sel("plan", "nowhere.yaml")
    assert result.returncode == 2
    assert result.stderr == (
        "invalid: nowhere.yaml cannot be read: No such file or directory. "
        "Hint: run `k8sel init` to write a starter file\n"
    )


def test_a_misspelt_file_is_told_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "train-job.yaml").write_text(JOB.read_text())
    for given, meant in (
        ("train-jobs.yaml", "train-job.yaml"),
        (f"{tmp_path}/trainjob.yml", f"{tmp_path}/train-job.yaml"),
    ):
        result = k8sel("plan", given, cwd=tmp_path)
        assert result.returncode == 2
        assert result.stderr.endswith(f"No such file or directory. Hint: did you mean {meant}?\n")


def test_a_folder_is_no_file() -> None:
    assert k8sel("plan", str(EXAMPLES)).stderr == (
        f"invalid: {EXAMPLES} cannot be read: Is a directory. Hint: name the files in it\n"
    )


def test_jobs_of_one_name_in_two_files_are_refused(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(JOB.read_text())
    result = k8sel("render", "-q", "a.yaml", "b.yaml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "b.yaml:6:9: metadata.name: duplicate: the job at a.yaml:6:9 is also called finetune. Hint: use another name\n"
    )
    again = k8sel("render", "-q", "a.yaml", "a.yaml", cwd=tmp_path)
    assert again.stderr == "a.yaml:6:9: metadata.name: duplicate: this file is given twice. Hint: give it once\n"


def test_plan_takes_several_files() -> None:
    shown = k8sel("plan", "-q", str(JOB), str(EXAMPLES / "mpi.yaml")).stdout
    assert [line.split(":")[0] for line in shown.splitlines() if " processes by " in line] == ["finetune", "simulate"]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda example: example.name)
def test_every_example_has_a_plan_as_json(example: Path) -> None:
    assert json.loads(k8sel("plan", "-q", "-o", "json", str(example)).stdout)["nodes"]


def test_the_plans_command_can_be_pasted() -> None:
    shown = k8sel("plan", "-q", str(EXAMPLES / "accelerate.yaml")).stdout.splitlines()[-1]
    assert "--machine_rank $(PET_NODE_RANK) " in shown
    assert k8sel("plan", "-q", "-", text=QUOTED).stdout.splitlines()[-1] == (
        """command: python -c "print('a b')" '$HOME' 'it is "it"' x=1"""
    )


def test_a_wrong_choice_names_the_allowed_ones() -> None:
    result = k8sel("render", "-o", "xml", str(JOB))
    assert (result.returncode, result.stderr) == (2, '-o: not supported: "xml" is not one of yaml, json.\n')


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m k8sel render -q {EXAMPLES}/*.yaml | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_the_platform_of_a_plan_has_an_old_name() -> None:
    plans = [k8sel("plan", "-q", "--nodes", "1", option, "docker", str(JOB)) for option in ("--on", "--door")]
    assert plans[0].returncode == plans[1].returncode == 0
    assert plans[0].stdout == plans[1].stdout != k8sel("plan", "-q", "--nodes", "1", str(JOB)).stdout


def test_plan_json_and_table_agree() -> None:
    plan = json.loads(k8sel("plan", "-q", "-o", "json", str(JOB)).stdout)
    table = k8sel("plan", "-q", str(JOB)).stdout
    ranks = [(node["name"], rank["rank"]) for node in plan["nodes"] for rank in node["ranks"]]
    rows = [tuple(line.split()[:2]) for line in table.splitlines()[2 : 2 + len(ranks)]]
    assert rows == [(name, str(rank)) for name, rank in ranks]


def test_rendering_imports_neither_client_nor_what_takes_long(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['k8sel', 'render', '-q', sys.argv[1]]\n"
        "from k8sel.cli.main import application; application(sys.argv[1:])(standalone_mode=False)\n"
        "bad = {'kubernetes', 'docker', 'jsonschema', 'rich', 'urllib3', 'json', '_hashlib', 'dataclasses'}\n"
        "sys.exit(f'imported: {found}' if (found := bad & set(sys.modules)) else 0)"
    )
    job = tmp_path / "job.yaml"  # nothing is brought: in a source tree, the zipapp is made when it is asked for
    job.write_text(JOB.read_text() + "  entrypoint: {mode: image}\n")
    result = subprocess.run([sys.executable, "-c", code, str(job)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_no_garbage_is_looked_for_at_the_end() -> None:
    code = (
        "import atexit, gc, sys; sys.argv = ['k8sel', '--version']\n"
        "atexit.register(lambda: print('kept from the search:', gc.get_freeze_count() > 0))\n"
        "from k8sel.__main__ import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[1:] == ["kept from the search: True"]


def test_threads_that_still_read_are_not_met_by_the_interpreters_end() -> None:
    """Which would take away what they read from. Output is out, exit handlers have run, the status is the command's."""
    code = (
        "import atexit, sys, threading; sys.argv = ['k8sel', 'validate', 'nowhere.yaml']\n"
        "class Met:\n"
        "    def __del__(self): print('met')\n"
        "threading.met = Met()\n"
        "atexit.register(print, 'handlers ran')\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "from k8sel.__main__ import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "handlers ran\n")


def test_the_readme_shows_the_real_plan() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    shown = readme.split("$ k8sel plan examples/ordered-torchrun.yaml\n")[1].split("```")[0]
    result = k8sel("plan", "examples/ordered-torchrun.yaml", cwd=EXAMPLES.parent)
    assert shown == result.stderr + result.stdout


def test_the_readmes_job_is_good_and_its_mistake_is_said_as_shown(tmp_path: Path) -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    job = readme.split("```yaml\n")[1].split("```")[0]
    assert k8sel("validate", "-", text=job).returncode == 0
    (tmp_path / "job.yaml").write_text(job.replace("count: 3", "count: 2"))
    said = k8sel("plan", "job.yaml", cwd=tmp_path).stderr
    assert said.startswith("job.yaml:")
    assert said in readme


def test_a_fault_of_k8sel_is_reported_without_the_text_of_the_exception() -> None:
    program = (
        "import sys, k8sel.cli.main\n"
        "def fault(*_):\n"
        "    raise ValueError('Invalid header value Bearer s3cret-token')\n"
        "k8sel.cli.main.read = fault\n"
        "sys.argv = ['k8sel', 'validate', 'job.yaml']\n"
        "k8sel.cli.main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    first, *rest = done.stderr.splitlines()
    assert re.fullmatch(r"k8sel: a fault in k8sel itself: ValueError in k8sel\.cli\.main, line \d+", first)
    assert rest == [
        "Please report it with the output of `K8SEL_TRACEBACK=1 k8sel ...`.",
        "Read the output first: it can quote your files with their secrets.",
    ]
