"""Lines for which there is no job file: each reason, with the word's place."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from k8sel.adopt.line import LineError, Options, convert

SECONDS = 10  # on a busy machine: alone, each takes less than one


def refused(text: str) -> str:
    with pytest.raises(LineError) as error:
        convert(text, Options())
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "1:1: invalid: nothing here starts a training"),
        ("torchrun --nproc_per_node=2", "the program is missing"),
        ("torchrun --nproc_per_node=two t.py", '1:10: invalid: --nproc_per_node is "two", not a number of at least 1'),
        ("torchrun --nproc_per_node=0 t.py", '--nproc_per_node is "0", not a number of at least 1'),
        ("torchrun --nproc_per_node=2000 t.py", "spec.accelerator.count: invalid: 2000 is above the maximum 1024"),
        ("torchrun --nproc_per_node=auto t.py", "the number of processes per node is not in the line"),
        ("torchrun --nnodes=1:4 --nproc_per_node=1 t.py", '"1:4" nodes: a job has a fixed number of nodes'),
        ("torchrun --nproc_per_nodes=2 t.py", "--nproc_per_nodes is not a known option. Hint: did you mean"),
        ("torchrun --nproc_per_node", "--nproc_per_node has no value"),
        ("torchrun --standalone=1 t.py", "--standalone takes no value"),
        (
            "torchrun --nproc_per_node=$N t.py",
            'knows "$N", and a job file has no shell. Hint: put N=VALUE in a line above',
        ),
        ("torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) t.py", 'knows "$(nvidia-smi -L | wc -l)"'),
        ('torchrun --nproc_per_node=2 t.py "$@"', "Hint: write the script's arguments themselves, or leave it out"),
        ("torchrun --nproc_per_node=2 t.py --out ~/x", 'knows "~/x"'),
        (
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=4 t.py",
            "1:35: spec.processesPerNode: invalid: 4 processes on a node, but only 2",
        ),
        ("CUDA_VISIBLE_DEVICES=0,0 python t.py", "names device 0 twice, which is undefined"),
        ("CUDA_VISIBLE_DEVICES=a python t.py", '"a" in CUDA_VISIBLE_DEVICES is not the number of a device'),
        ("CUDA_VISIBLE_DEVICES=0 ZE_AFFINITY_MASK=1 python t.py", "names devices of types cuda and xpu"),
        (
            "ONEAPI_DEVICE_SELECTOR=level_zero:1 ZE_AFFINITY_MASK=0,1 python t.py",
            "selects among the devices of ONEAPI_DEVICE_SELECTOR",
        ),
        (
            "ROCR_VISIBLE_DEVICES=0,1 HIP_VISIBLE_DEVICES=1 python t.py",
            "selects among the devices of ROCR_VISIBLE_DEVICES",
        ),
        (
            "docker run --gpus device=0 -e CUDA_VISIBLE_DEVICES=1 i python t.py",
            "device 1 is not in the container, which has 1",
        ),
        ("docker run --gpus some i python t.py", '"some" chooses no devices'),
        ("docker run -it img", "the program that img starts by default is not in the line"),
        ("docker run --rm", "the image is missing"),
        ("docker run -- --volume=/:/host python t.py", '"--volume=/:/host" is not a reference to an image'),
        ("CUDA_VISIBLE_DEVICES= nohup", "1:23: invalid: nohup starts no program here. Hint: add the program after it"),
        ("nohup exec", "1:7: invalid: exec starts no program here"),
        ("uv run", "uv run starts no program here"),
        ("docker run img sudo", "sudo starts no program here"),
        ("bash -c time", "time starts no program here"),
        ("""export A='bash -c "$A"'; bash -c "$A\"""", "more than 8 shells start each other"),
        ("docker build .", "only `docker run` starts a training"),
        ("accelerate config", "only `accelerate launch` starts a training"),
        ("accelerate launch t.py", "the number of processes per node is not in the line"),
        ("accelerate launch --config_file c.yaml t.py", "--config_file: the content of that file is not in the line"),
        (
            "accelerate launch --use_fsdp --num_processes 2 t.py",
            "--use_fsdp: k8sel passes only counts to accelerate",
        ),
        (
            "accelerate launch --num_processes 3 --num_machines 2 t.py",
            "3 processes cannot be divided equally among 2 nodes",
        ),
        (
            "accelerate launch --num_processes 2 --fsdp_offload_params true t.py",
            "--fsdp_offload_params: k8sel passes only counts to accelerate",
        ),
        ("torchrun --nproc_per_node=2 t.py '${local_rank}'", "torch's agent expands"),
        ("deepspeed t.py", "the number of processes per node is not in the line"),
        ("deepspeed --exclude localhost:1 t.py", "the remaining devices depend on how many the machine has"),
        ("deepspeed --include a:0@b:1 t.py", "the hosts use different devices, but all nodes of a job use the same"),
        ("deepspeed --include localhost t.py", "the number of devices of a host is not in the line"),
        ("deepspeed --hostfile h --num_gpus 2 t.py", "the number of nodes in h is not in the line"),
        ("mpirun python t.py", "the number of ranks is not in the line"),
        ("mpirun -f h -n 4 python t.py", "the number of nodes in h is not in the line"),
        ("mpirun -f h -n 5 -ppn 2 python t.py", "5 ranks, 2 on each node, leave one node with fewer"),
        ("mpirun -n 3 -H a:2,b:2 python t.py", "the hosts get 2, 1 ranks"),
        ("mpiexec.hydra -hosts a,b -n 3 python t.py", "the hosts get 2, 1 ranks"),
        ("mpirun -ppn 2 -x A=1 -n 2 python t.py", "-x belongs to OpenMPI, the words before it to Intel and MPICH"),
        ("mpirun -n 1 python a.py : -n 1 python b.py", "starts another program beside the first"),
        (
            "mpirun -n 2 torchrun t.py",
            "the command already has the launcher torchrun, and k8sel adds the launcher itself",
        ),
        ("srun torchrun t.py", "srun: Slurm decides nodes and processes"),
        ("numactl -N 0 torchrun --nproc_per_node=2 t.py", "numactl before torchrun is not supported"),
        ("for i in 1 2; do python t.py; done", "1:1: not supported: for is shell syntax that k8sel does not read"),
        ("(python t.py)", "brackets are shell syntax that k8sel does not read"),
        ("python t.py || true", "|| is shell syntax that k8sel does not read"),
        ("yes | python t.py", "python gets the output of another program"),
        ("python a.py && python b.py", "1:16: invalid: python is a second program, but a job has one"),
        ("python", "this is an interactive Python"),
        ("python t.py 'x", "1:13: invalid: a single quote is opened here and never closed"),
        ("python t.py $(x", "1:14: invalid: a ( is opened here and never closed"),
        ("bash -c 'torchrun \"x'", "a double quote is opened here and never closed"),
        ("python t.py \0", "the line contains a zero byte"),
        ("python t.py \ufffd", "the line contains a byte that is not UTF-8"),
    ],
)
def test_a_line_is_refused_with_the_reason(line: str, words: str) -> None:
    assert words in refused(line)


def test_all_reasons_come_at_once_and_in_their_order() -> None:
    message = refused("CUDA_VISIBLE_DEVICES=0,0 \\\n  torchrun --nproc_per_node=two \\\n  --nnodes=$N t.py $X")
    places = [line.split(": ")[0] for line in message.split("\n") if line.startswith("<line>")]

    assert places == ["<line>:1:1", "<line>:2:12", "<line>:3:3", "<line>:3:20"]


def test_a_caret_points_at_the_word() -> None:
    assert refused("torchrun --nproc_per_node=2 \\\n  train.py --out $OUT").split("\n")[1:] == [
        "      train.py --out $OUT",
        "                     ^",
    ]


def test_a_long_line_is_cut_around_the_word() -> None:
    excerpt, caret = refused(f"python t.py {'--x 1 ' * 100} $OUT {'--y 2 ' * 100}").split("\n")[1:3]

    assert len(excerpt) <= 80
    assert excerpt[caret.index("^") :].startswith("$OUT")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("if x\n" * 13_000, "shell syntax that k8sel does not read"),
        ("python t.py" + " $a" * 20_000, "more than 10000 values"),
        ("torchrun " + "--a " * 16_000, "the program is missing"),
        ("docker run " + "-e A " * 13_000 + "x python t.py", "is not carried over"),
        ("mpirun -H " + ",".join(["a:1"] * 16_000) + " python t.py", "16000 is above the maximum 10000"),
        ("A=" + "x" * 9000 + "\n" + "".join(f"B{each}=$A\n" for each in range(5000)), "the variables up to B221 have"),
    ],
    ids=["keywords", "unknown words", "options", "docker's options", "hosts", "copies"],
)
def test_a_long_line_takes_little_time(line: str, words: str) -> None:
    """Each took minutes: the time grew with the square of the length."""
    before = time.process_time()
    try:
        found = "\n".join(map(str, convert(line, Options())[1]))
    except LineError as error:
        found = str(error)
    assert words in found
    assert time.process_time() - before < SECONDS


@pytest.mark.parametrize(
    "line",
    [
        "mpirun -n 2 --map-by slot:PE={} --bind-to core python t.py",
        "mpiexec.hydra -n 2 -bind-to core:{} python t.py",
        "mpirun -n 4 -H a:2,b:2 --map-by ppr:{}:node python t.py",
        "I_MPI_PIN_CELL=core I_MPI_PIN_DOMAIN={}:compact mpirun -n 2 python t.py",
        "torchrun --nproc_per_node={} t.py",
        "CUDA_VISIBLE_DEVICES={} python t.py",
    ],
)
def test_a_number_of_thousands_of_digits_is_no_fault(line: str) -> None:
    """Python refuses to read it, with a ValueError of its own."""
    with suppress(LineError):
        convert(line.format("9" * 5000), Options())
