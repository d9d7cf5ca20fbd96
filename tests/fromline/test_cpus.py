"""Lines that train on CPUs: the backend, oneCCL's settings and what ranks are bound to, in the job file's own words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from k8sel.adopt.line import Options, convert
from k8sel.adopt.line.dropped import TABLE
from k8sel.facts.backends import BACKENDS

SOURCED = "$(python -c 'from oneccl_bindings_for_pytorch import cwd; print(cwd)')"


def spec(line: str) -> dict[str, Any]:
    fields: dict[str, Any] = yaml.safe_load(convert(line, Options())[0])["spec"]
    return fields


def said(line: str) -> str:
    return "\n".join(map(str, convert(line, Options())[1]))


def on_cpus(line: str, *, backend: str = "ccl") -> str:
    return f"{line} python t.py --use_cpu --ddp_backend {backend}"


@pytest.mark.parametrize(
    ("words", "backend"),
    [
        ("--ddp_backend gloo", "gloo"),
        ("--ddp-backend=ccl", "ccl"),
        ("--ddp_backend gloo --ddp_backend mpi", "mpi"),
        ("--ddp_backend mccl", None),
        ("--ddp_backend", None),
        ("", None),
    ],
)
def test_the_backend_is_the_commands(words: str, backend: str | None) -> None:
    found = spec(f"mpirun -n 2 python t.py --use_cpu {words}")

    assert found.get("backend") == backend
    assert found["command"] == ["python", "t.py", "--use_cpu", *words.split()]


@pytest.mark.parametrize(("backend", "row"), [("ccl", "cpu"), ("xccl", "xpu"), ("nccl", "cuda"), ("gloo", "cuda")])
def test_a_backend_tells_the_accelerators_where_nothing_else_does(backend: str, row: str) -> None:
    assert spec(f"torchrun --nproc_per_node=2 t.py --ddp_backend {backend}")["accelerator"]["type"] == row


def test_a_mask_tells_more_than_the_backend() -> None:
    line = "ZE_AFFINITY_MASK=0,1 torchrun --nproc_per_node=2 t.py --ddp_backend ccl"
    assert spec(line)["accelerator"] == {"type": "xpu", "count": 2, "devices": [0, 1]}


def test_oneccls_variables_are_its_settings() -> None:
    line = (
        "CCL_WORKER_COUNT=2 CCL_WORKER_AFFINITY=22,23,46,47 CCL_ATL_TRANSPORT=ofi FI_PROVIDER=tcp CCL_KVS_IFACE=eth0 "
        f"CCL_LOG_LEVEL=info {on_cpus('mpirun -n 2 -ppn 2')}"
    )
    found = spec(line)

    assert found["ccl"] == {
        "workers": 2,
        "workerAffinity": "22,23,46,47",
        "transport": "ofi",
        "provider": "tcp",
        "interface": "eth0",
        "logLevel": "info",
    }
    assert "env" not in found


def test_a_value_that_no_setting_takes_stays_a_variable() -> None:
    found = spec(f"CCL_KVS_IFACE='eth0 eth1' CCL_ALLREDUCE=ring {on_cpus('mpirun -n 2 -ppn 2')}")

    assert "ccl" not in found
    assert [entry["name"] for entry in found["env"]] == ["CCL_KVS_IFACE", "CCL_ALLREDUCE"]


def test_a_backend_without_oneccl_leaves_its_variables_alone() -> None:
    found = spec(f"FI_PROVIDER=tcp CCL_WORKER_COUNT=1 {on_cpus('mpirun -n 2 -ppn 2', backend='gloo')}")

    assert "ccl" not in found
    assert [entry["name"] for entry in found["env"]] == ["FI_PROVIDER", "CCL_WORKER_COUNT"]


OPEN = "OMP_NUM_THREADS=23 mpirun -n 2 -x A=1"
MPICH = "OMP_NUM_THREADS=23 mpirun.mpich -n 2"
INTEL = "OMP_NUM_THREADS=23 mpirun -n 2 -ppn 2 -genv I_MPI_DEBUG=5"
SAME = [
    (f"{OPEN} --bind-to none", "none"),
    (f"{OPEN} --map-by ppr:2:node --bind-to none", "none"),
    (f"{OPEN} --map-by socket --bind-to socket", "socket"),
    (f"{OPEN} --map-by package --bind-to package", "socket"),
    (f"{OPEN} --map-by ppr:1:socket --bind-to socket", "socket"),
    (f"{OPEN} --map-by socket", "socket"),
    (f"{OPEN} --map-by numa --bind-to numa", "numa"),
    (f"{OPEN} --map-by numa", "numa"),
    (f"{OPEN} --map-by slot:PE=24 --bind-to core", "core"),
    (f"{OPEN} --map-by ppr:2:node:PE=24", "core"),
    (f"{OPEN} --oversubscribe --map-by slot:PE=24 --bind-to core", "core"),
    (f"{MPICH} -bind-to none", "none"),
    (f"{MPICH} -bind-to socket", "socket"),
    (f"{MPICH} -bind-to numa -map-by numa", "numa"),
    (f"{MPICH} -bind-to core:24", "core"),
    (f"{MPICH} -bind-to core:24 -map-by core:24", "core"),
    (f"{INTEL} -genv I_MPI_PIN=0", "none"),
    (f"{INTEL} -genv I_MPI_PIN_DOMAIN socket", "socket"),
    (f"I_MPI_PIN_DOMAIN=numa {INTEL}", "numa"),
    (f"{INTEL} -genv I_MPI_PIN_CELL=core -genv I_MPI_PIN_DOMAIN=24:compact", "core"),
]


@pytest.mark.parametrize(("line", "binding"), SAME, ids=lambda each: each if " " in each else "")
def test_what_binds_alike_is_the_jobs_binding(line: str, binding: str) -> None:
    """One worker of oneCCL beside 23 threads are 24 cores."""
    found = spec(on_cpus(line))

    assert found["mpi"]["binding"] == binding
    assert [entry["name"] for entry in found.get("env", []) if "PIN" in entry["name"]] == []
    assert "bind-to" not in said(on_cpus(line))
    assert "map-by" not in said(on_cpus(line))


def test_what_a_container_needs_in_order_to_bind_is_there_and_said() -> None:
    line = on_cpus(f"{MPICH} -bind-to socket")

    assert spec(line)["securityContext"] == {"capabilities": {"add": ["SYS_NICE"]}}
    assert "note: MPICH needs SYS_NICE to bind ranks in a container, so the job adds it" in said(line)
    assert "securityContext" not in spec(on_cpus(f"{MPICH} -bind-to none"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{OPEN} --bind-to socket", "--bind-to socket is not carried over"),
        (f"{OPEN} --map-by ppr:1:socket", "--map-by ppr:1:socket is not carried over"),
        (f"{OPEN} --map-by socket --bind-to core", "--map-by socket is not carried over"),
        (f"{OPEN} --map-by socket --oversubscribe", "--map-by socket is not carried over"),
        (f"{OPEN} --map-by slot:PE=23", "--map-by slot:PE=23 is not carried over"),
        (f"{OPEN} --map-by socket:PE=24", "--map-by socket:PE=24 is not carried over"),
        (f"{OPEN} --oversubscribe --map-by slot:PE=24", "--map-by slot:PE=24 is not carried over"),
        (f"{OPEN} --bind-to core", "--bind-to core is not carried over"),
        ("mpirun -n 2 -x A=1 --map-by slot:PE=24", "--map-by slot:PE=24 is not carried over"),
        (f"{MPICH} -bind-to core", "-bind-to core is not carried over"),
        (f"{MPICH} -bind-to socket -map-by numa", "-map-by numa is not carried over"),
        (f"{MPICH} -bind-to user:0,1", "-bind-to user:0,1 is not carried over"),
    ],
)
def test_what_binds_otherwise_is_named(line: str, words: str) -> None:
    assert "binding" not in spec(on_cpus(line))["mpi"]
    assert words in said(on_cpus(line))


@pytest.mark.parametrize(
    ("line", "noted"),
    [
        ("mpirun -n 2 -x A=1", True),
        ("mpirun -n 2 -x A=1 --map-by ppr:2:node", True),
        ("mpirun -n 2 -x A=1 --bind-to none", False),
        ("mpirun.mpich -n 2", False),
        (INTEL, False),
    ],
)
def test_what_an_mpi_would_bind_by_itself_is_named(line: str, noted: bool) -> None:
    assert ("Open MPI binds ranks by default" in said(on_cpus(line))) == noted


@pytest.mark.parametrize("value", ["auto", "[55,aa]", "8:scatter", "core"])
def test_intels_other_ways_to_pin_stay_variables(value: str) -> None:
    found = spec(on_cpus(f"I_MPI_PIN_DOMAIN={value} {INTEL}"))

    assert "binding" not in found["mpi"]
    assert {"name": "I_MPI_PIN_DOMAIN", "value": value} in found["env"]


@pytest.mark.parametrize(("value", "written"), [("omp", "23"), ("omp:scatter", "23:scatter")])
def test_intels_domain_by_threads_is_their_number(value: str, written: str) -> None:
    line = on_cpus(f"I_MPI_PIN_DOMAIN={value} {INTEL}")

    assert {"name": "I_MPI_PIN_DOMAIN", "value": written} in spec(line)["env"]
    assert "I_MPI_PIN_DOMAIN: omp becomes 23" in said(line)


@pytest.mark.parametrize(
    "source",
    [
        f"p={SOURCED}\nsource $p/env/setvars.sh",
        f"p={SOURCED}\n. ${{p}}/env/setvars.sh",
        f'source "{SOURCED}/env/setvars.sh"',
        "p=$(python -c 'import torch_ccl; print(torch_ccl.__file__)')\nsource $p/env/setvars.sh",
        "source /opt/intel/oneapi/setvars.sh",
    ],
)
def test_the_entrypoint_reads_what_a_line_sources(source: str) -> None:
    """And it is Intel's MPI that it puts on PATH."""
    line = f"{source}\n{on_cpus('mpirun -n 2')}"

    assert "note: source is not carried over: the entrypoint reads it itself" in said(line).replace(
        ": . is", ": source is"
    )
    assert spec(line)["mpi"] == {"implementation": "Intel"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("source venv/bin/activate", "source is not carried over. Hint: do it in the image"),
        ("source $X/env/setvars.sh", "source is not carried over. Hint: do it in the image"),
        ("source", "source is not carried over. Hint: do it in the image"),
    ],
)
def test_other_scripts_are_the_images(source: str, words: str) -> None:
    assert words in said(f"{source}\n{on_cpus('mpirun -n 2')}")


def test_without_a_backend_the_bindings_script_is_named_with_the_way_to_have_it() -> None:
    line = f"source {SOURCED}/env/setvars.sh\nmpirun -n 2 python t.py --use_cpu"

    assert "source is not carried over. Hint: set backend: ccl, and the entrypoint reads it" in said(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "torchrun --nproc_per_node=2 --numa-binding=node t.py",
            "--numa-binding is not carried over: only mpirun binds",
        ),
        ("deepspeed --num_gpus=2 --bind_cores_to_rank t.py", "--bind_cores_to_rank is not carried over: only mpirun"),
        (
            "accelerate launch --num_processes 2 --enable_cpu_affinity t.py",
            "--enable_cpu_affinity is not carried over: only mpirun binds",
        ),
        ("accelerate launch --num_processes 2 --mpirun_ccl 2 t.py", "Hint: set ccl.workers"),
    ],
)
def test_launchers_that_bind_are_led_to_mpirun(line: str, words: str) -> None:
    assert words in said(line)


def test_variables_of_another_mpi_may_be_left_over() -> None:
    found = spec(on_cpus("I_MPI_PIN_DOMAIN=socket mpirun.mpich -n 2"))

    assert found["mpi"] == {"implementation": "MPICH"}
    assert found["env"] == [{"name": "I_MPI_PIN_DOMAIN", "value": "socket"}]


def test_the_versions_that_are_named_are_those_that_the_entrypoint_compares() -> None:
    rows = {(row.option, row.value): row.message for row in TABLE if row.value}
    ccl, xccl = BACKENDS["ccl"].until, BACKENDS["xccl"].since

    assert f"transformers {ccl['transformers']} was the last" in rows["--ddp_backend", "ccl"]
    assert f"accelerate {ccl['accelerate']} was the last" in rows["--backend", "ccl"]
    assert f"transformers {xccl['transformers']} is the first" in rows["--ddp_backend", "xccl"]
    assert all(f"torch {ccl['torch']}" in message for (_, value), message in rows.items() if value == "ccl")
