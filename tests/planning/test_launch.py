"""The launchers' command lines, trap by trap."""

from __future__ import annotations

from string import Template
from typing import Any

import pytest

from k8sel.facts.launchers import MPIS
from k8sel.planning.env import Reference, literal
from k8sel.planning.plan import Argv
from planning.jobs import container, emit, plan, variables

CUDA = {"type": "cuda", "count": 2}
CPU = {"type": "cpu"}
BY_CONFIG_MAP = ("/bin/sh", "/k8sel/entrypoint")


def test_torchrun_gets_nothing_that_would_beat_the_operators_variables() -> None:
    assert plan(CUDA, nodes=2).launch == ("torchrun", "--nproc-per-node", "2", "train.py")


def test_torchrun_on_this_machine_forms_its_own_group() -> None:
    assert plan(CUDA, "run").launch == ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["python", "a.py", "-m", "x"], ("a.py", "-m", "x")),
        (["python3", "a.py"], ("a.py",)),
        (["python", "-m", "pkg.main", "--x"], ("-m", "pkg.main", "--x")),
        (["python", "-u", "a.py"], ("--no-python", "python", "-u", "a.py")),
        (["python", "-m"], ("--no-python", "python", "-m")),
        (["python"], ("--no-python", "python")),
        (["python3.12", "a.py"], ("--no-python", "python3.12", "a.py")),
        (["./solver"], ("--no-python", "./solver")),
        (["python", "a.py", "--", "x"], ("a.py", "--", "--", "x")),
        (["./solver", "--", "x"], ("--no-python", "./solver", "--", "--", "x")),
        (["python", "a.py", "x", "--", "y"], ("a.py", "x", "--", "y")),
    ],
)
def test_a_command_is_a_script_a_module_or_a_program(command: list[str], script: Argv) -> None:
    assert plan(CUDA, command=command).launch[3:] == script


@pytest.mark.parametrize(
    "word", ["$$", "a$$b$c", "${local_rank}", "$local_rank/$HOME", "$HOME", "$(x)", "$", "$$$", "100$"]
)
@pytest.mark.parametrize("program", [["python", "a.py"], ["python", "-m", "a"], ["./solver"], ["python", "-u", "a.py"]])
@pytest.mark.parametrize("isolation", ["node", "process"])
def test_torchs_agent_leaves_words_alone(program: list[str], word: str, isolation: str) -> None:
    launch = plan({**CUDA, "isolation": isolation}, command=[*program, word]).launch
    filled_in = [Template(each).safe_substitute(local_rank="0") for each in launch]

    assert filled_in[-1] == word


def test_accelerate_has_an_agent_only_for_several() -> None:
    spec: dict[str, Any] = {"launcher": "accelerate", "command": ["python", "a.py", "$$"]}

    assert plan(CUDA, **spec).launch[-1] == "$$$$"
    assert plan({"type": "cuda"}, **spec).launch[-1] == "$$"


def test_max_restarts_is_torchruns() -> None:
    assert plan(CUDA, policy={"maxRestarts": 3}).launch[3:5] == ("--max-restarts", "3")


def test_isolated_processes_have_the_entrypoint_in_front_of_each() -> None:
    launch = plan({**CUDA, "isolation": "process"}).launch

    assert launch[3:] == ("--no-python", *BY_CONFIG_MAP, "rank", "--", "python", "train.py")


def test_deepspeed_is_started_through_torchrun() -> None:
    assert plan(CUDA, launcher="deepspeed").launch == plan(CUDA).launch


def test_accelerate_is_told_every_number() -> None:
    launch = plan(CUDA, launcher="accelerate", nodes=2).launch

    assert " ".join(launch) == (
        "accelerate launch --multi_gpu --num_processes 4 --num_machines 2 --machine_rank $(PET_NODE_RANK)"
        " --main_process_ip $(PET_MASTER_ADDR) --main_process_port $(PET_MASTER_PORT) --rdzv_backend static"
        " --same_network --gpu_ids all train.py"
    )
    assert [word for word in launch if isinstance(word, Reference)] == [
        "$(PET_NODE_RANK)",
        "$(PET_MASTER_ADDR)",
        "$(PET_MASTER_PORT)",
    ]


def test_accelerate_with_one_process_is_not_told_of_several() -> None:
    assert "--multi_gpu" not in plan({"type": "cuda"}, launcher="accelerate").launch


def test_accelerate_on_this_machine_needs_no_operator() -> None:
    launch = plan(CUDA, "run", launcher="accelerate").launch

    assert not [word for word in launch if isinstance(word, Reference)]
    assert launch[launch.index("--main_process_port") + 1] == "0"


def test_accelerate_on_cpus_is_started_through_torchrun() -> None:
    job = emit(CPU, launcher="accelerate", processesPerNode=2)
    only = container(job["spec"]["pytorchReplicaSpecs"]["Master"])

    assert only["command"][3:] == ["torchrun", "--nproc-per-node", "2", "train.py"]
    assert variables(only)["ACCELERATE_USE_CPU"] == "true"


def test_python_starts_as_it_is_and_counts_one_process() -> None:
    job = emit(CUDA, launcher="python", nodes=2)

    assert job["spec"]["nprocPerNode"] == "1"
    assert plan(CUDA, launcher="python").launch == ("python", "train.py")


@pytest.mark.parametrize(
    ("mode", "front"), [("configMap", (*BY_CONFIG_MAP, "--")), ("image", ("k8sel-entrypoint", "--")), ("none", ())]
)
def test_the_entrypoint_is_in_front(mode: str, front: Argv) -> None:
    job_plan = plan(CUDA, entrypoint={"mode": mode})

    assert job_plan.command == front + job_plan.launch


@pytest.mark.parametrize(
    ("text", "written"), [("$HOME", "$$HOME"), ("$(X)", "$$(X)"), ("$$", "$$$$"), (Reference("$(X)"), "$(X)")]
)
def test_a_dollar_is_the_programs_own(text: str, written: str) -> None:
    assert literal(text) == written


def mpirun(implementation: str, door: str = "kubernetes", **spec: object) -> Argv:
    return plan(
        CUDA, door, launcher="mpirun", nodes=1 if door == "run" else 2, mpi={"implementation": implementation}, **spec
    ).launch


def test_open_mpi_on_this_machine_has_a_slot_for_each_rank() -> None:
    assert "localhost:2" in mpirun("OpenMPI", "run")


def test_open_mpi_is_told_hosts_and_ssh_options_by_flags_that_4_and_5_have() -> None:
    launch = mpirun("OpenMPI", env=[{"name": "A", "value": "1"}])

    assert " ".join(launch) == (
        "mpirun --allow-run-as-root --hostfile /etc/mpi/hostfile -n 4 -N 2 --bind-to none --mca plm_rsh_args"
        " -p 2222 -i /root/.ssh/id_rsa -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        " -o LogLevel=ERROR -o ConnectionAttempts=10"
        " -x K8SEL_EXPECT -x MASTER_ADDR -x MASTER_PORT -x PYTHONUNBUFFERED -x A"
        " /bin/sh /k8sel/entrypoint rank -- python train.py"
    )


@pytest.mark.parametrize(
    ("implementation", "variable"),
    [("Intel", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"), ("MPICH", "HYDRA_LAUNCHER_EXTRA_ARGS")],
)
def test_hydra_is_started_behind_env_since_the_operator_sets_the_variable_too(
    implementation: str, variable: str
) -> None:
    launch = mpirun(implementation, env=[{"name": "A", "value": "1"}])

    assert launch[0] == "env"
    assert launch[1].startswith(f"{variable}=-p 2222 -i /root/.ssh/id_rsa ")
    assert launch[2:11] == (
        *("mpiexec.hydra", "-f", "/etc/mpi/hostfile", "-n", "4", "-ppn", "2"),
        *("-genvlist", "K8SEL_EXPECT,MASTER_ADDR,MASTER_PORT,PYTHONUNBUFFERED,A"),
    )


@pytest.mark.parametrize("implementation", MPIS)
def test_on_this_machine_there_is_neither_hostfile_nor_ssh(implementation: str) -> None:
    words = " ".join(mpirun(implementation, "run"))

    assert "/etc/mpi/hostfile" not in words
    assert "StrictHostKeyChecking" not in words
    assert words.endswith("k8sel-entrypoint rank -- python train.py")


@pytest.mark.parametrize("implementation", MPIS)
@pytest.mark.parametrize(("mode", "sent"), [("configMap", ["SAME"]), ("none", ["IP", "SAME", "URL"])])
def test_what_differs_from_pod_to_pod_is_not_the_launcher_pods(implementation: str, mode: str, sent: list[str]) -> None:
    own = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    variables = [own, {"name": "SAME", "value": "$$(IP)"}, {"name": "URL", "value": "tcp://$(IP)"}]
    settings = {"launcher": "mpirun", "mpi": {"implementation": implementation}, "entrypoint": {"mode": mode}}
    launch = plan(CUDA, "kubernetes", env=variables, **settings).launch
    words = {part for word in launch for part in word.split(",")}

    assert sorted(words & {"IP", "SAME", "URL"}) == sent


@pytest.mark.parametrize("implementation", MPIS)
def test_the_gate_probes_each_node_once(implementation: str) -> None:
    job_plan = plan(CUDA, launcher="mpirun", nodes=3, mpi={"implementation": implementation})
    probe, row = job_plan.expectation.probe, MPIS[implementation]

    assert job_plan.command[:4] == (*BY_CONFIG_MAP, "gate", "--")
    assert probe[probe.index(row.count) + 1] == "3"
    assert probe[probe.index(row.binding[""][0]) + 1] == "1"
    assert probe[-3:] == (*BY_CONFIG_MAP, "check")


@pytest.mark.parametrize(
    ("behind_rank", "spec"),
    [
        (True, {"launcher": "mpirun"}),
        (True, {"launcher": "torchrun", "accelerator": {**CUDA, "isolation": "process"}}),
        (False, {"launcher": "torchrun"}),
        (False, {"launcher": "python"}),
    ],
)
def test_the_entrypoint_is_told_where_a_ranks_command_begins(behind_rank: bool, spec: dict[str, Any]) -> None:
    command = ["/venv/bin/python", "train.py", "rank", "--", "x"]
    job_plan = plan(**{"accelerator": CUDA, "command": command, **spec})
    words = job_plan.expectation.rank_command
    ranks = job_plan.launch[len(job_plan.launch) - words :]

    assert (words, ranks) == ((5, tuple(command)) if behind_rank else (0, ()))
    assert job_plan.expectation.hostfile == ("/etc/mpi/hostfile" if spec["launcher"] == "mpirun" else "")


def test_without_the_entrypoint_mpirun_carries_the_mask() -> None:
    launch = plan({"type": "cuda", "devices": [1, 0]}, launcher="mpirun", entrypoint={"mode": "none"}).launch

    assert launch[-6:] == ("-x", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "-x", "CUDA_VISIBLE_DEVICES=1,0", "python", "train.py")


def test_without_the_entrypoint_mpirun_carries_the_threads_too() -> None:
    spec: dict[str, object] = {"entrypoint": {"mode": "none"}, "cpu": {"threadsPerProcess": 3}}

    assert "OMP_NUM_THREADS=3" in plan(CUDA, "kubernetes", launcher="mpirun", **spec).launch


def test_hiding_values_cross_ssh() -> None:
    assert "CUDA_VISIBLE_DEVICES=" in plan(CPU, launcher="mpirun").launch


def test_a_variable_of_the_file_is_sent_once() -> None:
    given = [{"name": "PYTHONUNBUFFERED", "value": ""}]
    job = plan(CUDA, launcher="mpirun", env=given)

    assert job.launch.count("PYTHONUNBUFFERED") == 1
    assert [entry for entry in job.env if entry["name"] == "PYTHONUNBUFFERED"] == given


WORDS = {  # what follows the number of processes, up to what is sent to the ranks
    ("OpenMPI", None): "-N 2 --bind-to none",
    ("OpenMPI", "none"): "-N 2 --bind-to none",
    ("Intel", None): "-ppn 2",
    ("Intel", "none"): "-ppn 2 -genv I_MPI_PIN 0",
    ("Intel", "socket"): "-ppn 2 -genv I_MPI_PIN_DOMAIN socket",
    ("Intel", "numa"): "-ppn 2 -genv I_MPI_PIN_DOMAIN numa",
    ("MPICH", None): "-ppn 2",
    ("MPICH", "none"): "-ppn 2 -bind-to none",
    ("MPICH", "socket"): "-ppn 2 -bind-to socket",
    ("MPICH", "numa"): "-ppn 2 -bind-to numa",
}


def bound(implementation: str, binding: str | None, **spec: object) -> Argv:
    """mpirun's words between the number of processes and what is sent to them."""
    asked = {"implementation": implementation, "binding": binding}
    words = plan(CPU, "run", launcher="mpirun", processesPerNode=2, mpi=asked, **spec).launch
    row = MPIS[implementation]
    return words[words.index(row.count) + 2 : words.index(row.export)]


@pytest.mark.parametrize(("implementation", "binding"), WORDS)
def test_mpirun_binds_to_what_the_file_says(implementation: str, binding: str | None) -> None:
    assert " ".join(bound(implementation, binding)) == WORDS[implementation, binding]


@pytest.mark.parametrize("implementation", MPIS)
@pytest.mark.parametrize("binding", ["none", "socket", "numa", "core"])
def test_a_binding_is_the_rows_words(implementation: str, binding: str) -> None:
    words = [word.format(per_node=2, cores=4) for word in MPIS[implementation].binding[binding]]

    assert list(bound(implementation, binding, cpu={"threadsPerProcess": 4})) == words


@pytest.mark.parametrize("implementation", MPIS)
@pytest.mark.parametrize(("given", "cores"), [({}, 23), ({"backend": "ccl"}, 24), ({"backend": "gloo"}, 23)])
def test_a_process_has_cores_for_its_threads_and_for_oneccls_workers(
    implementation: str, given: dict[str, object], cores: int
) -> None:
    words = " ".join(bound(implementation, "core", cpu={"threadsPerProcess": 23}, **given))

    assert str(cores) in words
    assert str(47 - cores) not in words


def test_the_probe_is_bound_to_nothing() -> None:
    spec: dict[str, Any] = {"launcher": "mpirun", "mpi": {"implementation": "Intel", "binding": "socket"}}
    job_plan = plan(CPU, **spec)

    assert "I_MPI_PIN_DOMAIN" in job_plan.launch
    assert "I_MPI_PIN_DOMAIN" not in job_plan.expectation.probe


@pytest.mark.parametrize(
    ("launcher", "implementation", "expected"),
    [
        ("torchrun", None, {"CCL_ATL_TRANSPORT": "ofi", "CCL_PROCESS_LAUNCHER": "torchrun"}),
        ("accelerate", None, {"CCL_ATL_TRANSPORT": "ofi", "CCL_PROCESS_LAUNCHER": "torchrun"}),
        ("deepspeed", None, {"CCL_ATL_TRANSPORT": "ofi", "CCL_PROCESS_LAUNCHER": "torchrun"}),
        (
            "python",
            None,
            {
                "CCL_ATL_TRANSPORT": "ofi",
                "CCL_LOCAL_RANK": "0",
                "CCL_LOCAL_SIZE": "1",
                "CCL_PROCESS_LAUNCHER": "none",
            },
        ),
        *(("mpirun", name, dict(row.ccl)) for name, row in MPIS.items()),
    ],
)
@pytest.mark.parametrize("door", ["kubernetes", "docker", "run"])
def test_oneccl_is_told_how_its_processes_are_started(
    launcher: str, implementation: str | None, expected: dict[str, str], door: str
) -> None:
    mpi = {"mpi": {"implementation": implementation}} if implementation else {}
    job_plan = plan(CPU, door, launcher=launcher, backend="ccl", **mpi)
    ours = {entry["name"]: entry["value"] for entry in job_plan.env if entry["name"].startswith(("CCL_", "FI_"))}

    assert ours == {**expected, "CCL_WORKER_COUNT": "1"}
    assert (job_plan.expectation.backend, job_plan.expectation.mpi) == ("ccl", implementation or "")


@pytest.mark.parametrize("backend", ["gloo", "mpi", None])
def test_oneccl_is_told_nothing_where_it_is_not_used(backend: str | None) -> None:
    words = plan(CPU, launcher="mpirun", backend=backend).launch

    assert not [word for word in words if "CCL_" in word]


@pytest.mark.parametrize("implementation", MPIS)
def test_oneccls_variables_reach_the_ranks(implementation: str) -> None:
    settings: dict[str, Any] = {"workers": 2, "interface": "eth0", "provider": "tcp", "transport": "ofi"}
    job_plan = plan(CPU, launcher="mpirun", backend="ccl", ccl=settings, mpi={"implementation": implementation})
    sent = ",".join(job_plan.launch).split(",")
    names = {"CCL_WORKER_COUNT", "CCL_KVS_IFACE", "FI_PROVIDER", "CCL_ATL_TRANSPORT", "CCL_PROCESS_LAUNCHER"}

    assert names <= set(sent)
    assert len([word for word in sent if word in names]) == len(names)
    assert {"name": "CCL_ATL_TRANSPORT", "value": "ofi"} in job_plan.env


def test_what_no_field_of_ccl_says_may_stand_in_env() -> None:
    own = {"name": "CCL_PROCESS_LAUNCHER", "value": "none"}
    job_plan = plan(CPU, launcher="mpirun", backend="ccl", env=[own, {"name": "CCL_KVS_MODE", "value": "pmi"}])

    assert [entry for entry in job_plan.env if entry["name"] == "CCL_PROCESS_LAUNCHER"] == [own]
    assert job_plan.launch.count("CCL_PROCESS_LAUNCHER") == 1
