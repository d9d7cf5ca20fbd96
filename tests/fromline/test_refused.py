"""Lines for which there is no job file: each reason, with the word's place."""

from __future__ import annotations

import pytest

from k8sel.adopt.line import Asked, LineError, convert


def refused(text: str) -> str:
    with pytest.raises(LineError) as error:
        convert(text, Asked())
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "1:1: invalid: nothing here starts a training"),
        ("torchrun --nproc_per_node=2", "the program is missing"),
        ("torchrun --nproc_per_node=two t.py", '1:10: invalid: --nproc_per_node is "two", not a number from 1 on'),
        ("torchrun --nproc_per_node=0 t.py", '--nproc_per_node is "0", not a number from 1 on'),
        ("torchrun --nproc_per_node=2000 t.py", "spec.accelerator.count: invalid: 2000 is not at most 1024"),
        ("torchrun --nproc_per_node=auto t.py", "how many processes a node has is not in the line"),
        ("torchrun --nnodes=1:4 --nproc_per_node=1 t.py", '"1:4" nodes: a job has one number of them'),
        ("torchrun --nproc_per_nodes=2 t.py", "--nproc_per_nodes is no option that is known here. Hint: did you mean"),
        ("torchrun --nproc_per_node", "nothing stands behind --nproc_per_node"),
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
            "1:35: spec.processesPerNode: invalid: 4 processes, and 2",
        ),
        ("CUDA_VISIBLE_DEVICES=0,0 python t.py", "names device 0 twice, and what that does is not defined"),
        ("CUDA_VISIBLE_DEVICES=a python t.py", '"a" in CUDA_VISIBLE_DEVICES is not the number of a device'),
        ("CUDA_VISIBLE_DEVICES=0 ZE_AFFINITY_MASK=1 python t.py", "about devices of types cuda and xpu"),
        ("ROCR_VISIBLE_DEVICES=0,1 HIP_VISIBLE_DEVICES=1 python t.py", "counts what ROCR_VISIBLE_DEVICES leaves over"),
        (
            "docker run --gpus device=0 -e CUDA_VISIBLE_DEVICES=1 i python t.py",
            "device 1 is not in the container, which has 1",
        ),
        ("docker run --gpus some i python t.py", '"some" chooses no devices'),
        ("docker run -it img", "which program img starts by itself is not in the line"),
        ("docker run --rm", "the image is missing"),
        ("docker build .", "only `docker run` starts a training"),
        ("accelerate config", "only `accelerate launch` starts a training"),
        ("accelerate launch t.py", "how many processes a node has is not in the line"),
        ("accelerate launch --config_file c.yaml t.py", "--config_file: what is in that file is not in the line"),
        (
            "accelerate launch --use_fsdp --num_processes 2 t.py",
            "--use_fsdp: a job file's launcher is told numbers only",
        ),
        (
            "accelerate launch --num_processes 3 --num_machines 2 t.py",
            "3 processes do not go into equal shares for 2 nodes",
        ),
        (
            "accelerate launch --num_processes 2 --fsdp_offload_params true t.py",
            "--fsdp_offload_params: a job file's launcher is told numbers only",
        ),
        ("torchrun --nproc_per_node=2 t.py '${local_rank}'", "torch's agent fills in"),
        ("deepspeed t.py", "how many processes a node has is not in the line"),
        ("deepspeed --exclude localhost:1 t.py", "which devices are left depends on how many the machine has"),
        ("deepspeed --include a:0@b:1 t.py", "the hosts use different devices, and the nodes of a job the same"),
        ("deepspeed --include localhost t.py", "how many devices a host has is not in the line"),
        ("deepspeed --hostfile h --num_gpus 2 t.py", "how many nodes h has is not in the line"),
        ("mpirun python t.py", "how many ranks there are is not in the line"),
        ("mpirun -f h -n 4 python t.py", "how many nodes h has is not in the line"),
        ("mpirun -f h -n 5 -ppn 2 python t.py", "5 ranks, 2 on each node, leave one node with fewer"),
        ("mpirun -n 3 -H a:2,b:2 python t.py", "the hosts get 2, 1 ranks"),
        ("mpirun -ppn 2 -x A=1 -n 2 python t.py", "-x is of OpenMPI, and what is before it of Intel and MPICH"),
        ("mpirun -n 1 python a.py : -n 1 python b.py", "starts another program beside the first"),
        ("mpirun -n 2 torchrun t.py", "the launcher is put around the command, and torchrun is in it already"),
        ("srun torchrun t.py", "srun: Slurm decides nodes and processes"),
        ("numactl -N 0 torchrun --nproc_per_node=2 t.py", "numactl in front of torchrun is not known here"),
        ("for i in 1 2; do python t.py; done", "1:1: not supported: for is a program of the shell's"),
        ("(python t.py)", "brackets are a program of the shell's"),
        ("python t.py || true", "|| is a program of the shell's"),
        ("yes | python t.py", "python gets the output of another program"),
        ("python a.py && python b.py", "1:16: invalid: python is a second program, and a job has one"),
        ("python", "this is an interactive Python"),
        ("python t.py 'x", "1:13: invalid: a single quote is opened here and never closed"),
        ("python t.py $(x", "1:14: invalid: a ( is opened here and never closed"),
        ("bash -c 'torchrun \"x'", "a double quote is opened here and never closed"),
        ("python t.py \0", "a zero byte is in the line"),
        ("python t.py \ufffd", "a byte that is no UTF-8 text is in the line"),
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
