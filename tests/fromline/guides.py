"""Each command line of the guides on selecting accelerators and on training with CPUs, and by hand what it does.

Hugging Face transformers, docs/source/en/accelerator_selection.md, docs/source/ko/gpu_selection.md and
docs/source/ko/perf_train_cpu_many.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PROGRAM = ("trainer-program.py", "...")
QA = (
    *("run_qa.py", "--model_name_or_path", "google-bert/bert-large-uncased", "--dataset_name", "squad"),
    *("--do_train", "--do_eval", "--per_device_train_batch_size", "12", "--learning_rate", "3e-5"),
    *("--num_train_epochs", "2", "--max_seq_length", "384", "--doc_stride", "128"),
    *("--output_dir", "/tmp/debug_squad/", "--no_cuda", "--ddp_backend", "ccl", "--use_ipex"),
)
QA_LINES = r""" python3 run_qa.py \
 --model_name_or_path google-bert/bert-large-uncased \
 --dataset_name squad \
 --do_train \
 --do_eval \
 --per_device_train_batch_size 12  \
 --learning_rate 3e-5  \
 --num_train_epochs 2  \
 --max_seq_length 384 \
 --doc_stride 128  \
 --output_dir /tmp/debug_squad/ \
 --no_cuda \
 --ddp_backend ccl \
 --use_ipex"""
HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
ALL_HIDDEN = {**HIDDEN, "NVIDIA_VISIBLE_DEVICES": "void", "ASCEND_VISIBLE_DEVICES": "void"}
TORCHRUN = ("k8sel-entrypoint", "--", "torchrun", "--standalone", "--nproc-per-node")
ACCELERATE = (
    *("k8sel-entrypoint", "--", "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"),
    *("--machine_rank", "0", "--main_process_ip", "127.0.0.1", "--main_process_port", "0", "--rdzv_backend", "static"),
    *("--same_network", "--gpu_ids", "all"),
)
MPIRUN = ("k8sel-entrypoint", "--", "mpiexec.hydra", "-n", "2", "-ppn", "2", "-genvlist")
MPI_ENV = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "PYTHONUNBUFFERED": "1"}
RANK = (*("-genv", "CUDA_VISIBLE_DEVICES", "", "-genv", "HIP_VISIBLE_DEVICES", "-1"), "k8sel-entrypoint", "rank", "--")
CCL = {"CCL_ATL_TRANSPORT": "mpi", "CCL_PROCESS_LAUNCHER": "hydra", "CCL_WORKER_COUNT": "1"}
SENT = f"K8SEL_EXPECT,MASTER_ADDR,MASTER_PORT,PYTHONUNBUFFERED,{','.join(CCL)}"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line, and what it starts on one machine."""

    text: str
    argv: tuple[str, ...]  # what `k8sel run` starts
    mask: dict[str, str]  # what the entrypoint writes for the processes
    sees: tuple[tuple[int, ...], ...]  # of each rank, the machine's devices in its own order
    env: dict[str, str] = field(default_factory=dict)
    order: str = "pci"
    threads: int | None = None
    backend: str = ""
    world_size: int = 0  # of the whole job; 0: the ranks of this machine are all
    remarks: tuple[str, ...] = ()  # words of what is said about it


_PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
_XPU_PCI = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}
_ONE = "torchrun starts 1 process on a node without --nproc_per_node"
_FIRST_TWO = {**_PCI, "CUDA_VISIBLE_DEVICES": "0,1"}
LINES = {
    "number, torchrun": Line(
        text="torchrun --nproc_per_node=2  trainer-program.py ...",
        argv=(*TORCHRUN, "2", *PROGRAM),
        mask=_FIRST_TWO,
        sees=((0, 1), (0, 1)),
    ),
    "number, accelerate": Line(
        text="accelerate launch --num_processes 2 trainer-program.py ...",
        argv=(*ACCELERATE, *PROGRAM),
        mask=_FIRST_TWO,
        sees=((0, 1), (0, 1)),
    ),
    "number, deepspeed": Line(
        text="deepspeed --num_gpus 2 trainer-program.py ...",
        argv=(*TORCHRUN, "2", *PROGRAM),
        mask=_FIRST_TWO,
        sees=((0, 1), (0, 1)),
        remarks=("deepspeed gives the script --local_rank=N",),
    ),
    "subset": Line(
        text="CUDA_VISIBLE_DEVICES=0,2 torchrun trainer-program.py ...",
        argv=(*TORCHRUN, "1", *PROGRAM),
        mask={**_PCI, "CUDA_VISIBLE_DEVICES": "0,2"},
        sees=((0, 2),),
        remarks=(_ONE,),
    ),
    "order": Line(
        text="CUDA_VISIBLE_DEVICES=2,0 torchrun trainer-program.py ...",
        argv=(*TORCHRUN, "1", *PROGRAM),
        mask={**_PCI, "CUDA_VISIBLE_DEVICES": "2,0"},
        sees=((2, 0),),
        remarks=(_ONE,),
    ),
    "none": Line(
        text="CUDA_VISIBLE_DEVICES= python trainer-program.py ...",
        argv=("k8sel-entrypoint", "--", "python", *PROGRAM),
        mask=HIDDEN,
        sees=((),),
        env=ALL_HIDDEN,
    ),
    "counted by PCI": Line(
        text="export CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=0,2 torchrun trainer-program.py ...",
        argv=(*TORCHRUN, "1", *PROGRAM),
        mask={**_PCI, "CUDA_VISIBLE_DEVICES": "0,2"},
        sees=((0, 2),),
        remarks=(_ONE,),
    ),
    "fastest first": Line(
        text="export CUDA_DEVICE_ORDER=FASTEST_FIRST\ntorchrun --nproc_per_node=2  trainer-program.py ...",
        argv=(*TORCHRUN, "2", *PROGRAM),
        mask={"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "0,1"},
        sees=((0, 1), (0, 1)),
        order="fastest",
    ),
    "order, exported": Line(
        text="export CUDA_VISIBLE_DEVICES=1,0\ntorchrun --nproc_per_node=2  trainer-program.py ...",
        argv=(*TORCHRUN, "2", *PROGRAM),
        mask={**_PCI, "CUDA_VISIBLE_DEVICES": "1,0"},
        sees=((1, 0), (1, 0)),
    ),
    "subset of XPUs": Line(
        text="ZE_AFFINITY_MASK=0,2 torchrun trainer-program.py ...",
        argv=(*TORCHRUN, "1", *PROGRAM),
        mask={**_XPU_PCI, "ZE_AFFINITY_MASK": "0,2"},
        sees=((0, 2),),
        remarks=(_ONE,),
    ),
    "order of XPUs": Line(
        text="ZE_AFFINITY_MASK=2,0 torchrun trainer-program.py ...",
        argv=(*TORCHRUN, "1", *PROGRAM),
        mask={**_XPU_PCI, "ZE_AFFINITY_MASK": "0,2"},
        sees=((0, 2),),
        remarks=(_ONE, "ZE_AFFINITY_MASK=2,0 does not order devices"),
    ),
    "XPUs counted by PCI": Line(
        text="export ZE_ENABLE_PCI_ID_DEVICE_ORDER=1\nZE_AFFINITY_MASK=0,2 torchrun trainer-program.py ...",
        argv=(*TORCHRUN, "1", *PROGRAM),
        mask={**_XPU_PCI, "ZE_AFFINITY_MASK": "0,2"},
        sees=((0, 2),),
        remarks=(_ONE,),
    ),
    "CPUs of one node": Line(
        text=" export CCL_WORKER_COUNT=1\n export MASTER_ADDR=127.0.0.1\n"
        f" mpirun -n 2 -genv OMP_NUM_THREADS=23 \\\n{QA_LINES}\n",
        argv=(*MPIRUN, SENT, *RANK, "python3", *QA),
        mask=HIDDEN,
        sees=((), ()),
        env={**CCL, **MPI_ENV, **ALL_HIDDEN},
        threads=23,
        backend="ccl",
        remarks=(
            "MASTER_ADDR is not carried over",
            "--no_cuda stays in the command: transformers 4.57",
            "--ddp_backend ccl stays in the command: transformers 5.0",
            "--use_ipex stays in the command: transformers 4.56",
        ),
    ),
    "CPUs of two nodes": Line(
        text=" export CCL_WORKER_COUNT=1\n export MASTER_ADDR=xxx.xxx.xxx.xxx #node0 ip\n"
        f" mpirun -f hostfile -n 4 -ppn 2 \\\n -genv OMP_NUM_THREADS=23 \\\n{QA_LINES} \\\n --bf16\n",
        argv=(*MPIRUN, SENT, *RANK, "python3", *QA, "--bf16"),
        mask=HIDDEN,
        sees=((), ()),
        env={**CCL, **MPI_ENV, **ALL_HIDDEN},
        threads=23,
        backend="ccl",
        world_size=4,
        remarks=("the hostfile is not carried over", "--ddp_backend ccl stays in the command"),
    ),
    "CPUs, behind setvars.sh": Line(
        text='oneccl_bindings_for_pytorch_path=$(python -c "from oneccl_bindings_for_pytorch import cwd; print(cwd)")\n'
        "source $oneccl_bindings_for_pytorch_path/env/setvars.sh\n"
        f"mpirun -n 2 -genv OMP_NUM_THREADS=23 \\\n{QA_LINES}\n",
        argv=(*MPIRUN, SENT, *RANK, "python3", *QA),
        mask=HIDDEN,
        sees=((), ()),
        env={**CCL, **MPI_ENV, **ALL_HIDDEN},
        threads=23,
        backend="ccl",
        remarks=("source is not carried over: the entrypoint reads it itself", "--use_ipex stays in the command"),
    ),
}

# Lines that start nothing, or whose effect no job file has -> what is said.
REFUSED = {
    "export CUDA_DEVICE_ORDER=PCI_BUS_ID": "<line>:1:1: invalid: nothing here starts a training",
    "export CUDA_DEVICE_ORDER=FASTEST_FIRST": "<line>:1:1: invalid: nothing here starts a training",
    "export CUDA_VISIBLE_DEVICES=1,0": "<line>:1:1: invalid: nothing here starts a training",
    "export ZE_ENABLE_PCI_ID_DEVICE_ORDER=1": "<line>:1:1: invalid: nothing here starts a training",
    "pip install oneccl_bind_pt=={pytorch_version} -f https://developer.intel.com/ipex-whl-stable-cpu": (
        "<line>:1:1: invalid: nothing here starts a training"
    ),
    'oneccl_bindings_for_pytorch_path=$(python -c "from oneccl_bindings_for_pytorch import cwd; print(cwd)")\n'
    "source $oneccl_bindings_for_pytorch_path/env/setvars.sh": "<line>:1:1: invalid: nothing here starts a training",
    'torch_ccl_path=$(python -c "import torch; import torch_ccl; import os;  '
    'print(os.path.abspath(os.path.dirname(torch_ccl.__file__)))")\nsource $torch_ccl_path/env/setvars.sh': (
        "<line>:1:1: invalid: nothing here starts a training"
    ),
    " cat hostfile\n xxx.xxx.xxx.xxx #node0 ip\n xxx.xxx.xxx.xxx #node1 ip": (
        "<line>:3:2: invalid: xxx.xxx.xxx.xxx is a second program, but a job has one"
    ),
}
