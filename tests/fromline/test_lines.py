"""Tests the job file and the notes for each launcher's line."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from k8sel.adopt.line import Options, convert

GPU = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"


def spec(text: str, options: Options | None = None) -> dict[str, Any]:
    made, _ = convert(text, options or Options())
    fields: dict[str, Any] = yaml.safe_load(made)["spec"]
    return fields


def said(text: str) -> str:
    return "\n".join(map(str, convert(text, Options())[1]))


def job(**fields: object) -> dict[str, Any]:
    """A spec of ``python t.py`` with these fields."""
    return {"image": "registry.example/train:1", "command": ["python", "t.py"], **fields}


def cuda(**fields: object) -> dict[str, Any]:
    return {"type": "cuda", **fields}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torchrun --nproc-per-node 4 t.py", job(launcher="torchrun", accelerator=cuda(count=4))),
        (
            "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=0 --master_addr=10.0.0.1 t.py",
            job(launcher="torchrun", nodes=2, accelerator=cuda(count=4)),
        ),
        (
            "torchrun --nnodes 2:2 --nproc_per_node 1 --max-restarts=3 t.py",
            job(launcher="torchrun", nodes=2, accelerator=cuda(count=1), policy={"maxRestarts": 3}),
        ),
        ("PET_NPROC_PER_NODE=2 torchrun t.py", job(launcher="torchrun", accelerator=cuda(count=2))),
        ("PET_NPROC_PER_NODE=2 torchrun --nproc=3 t.py", job(launcher="torchrun", accelerator=cuda(count=3))),
        (
            "python3 -m torch.distributed.run --nproc-per-node 2 t.py",
            job(launcher="torchrun", accelerator=cuda(count=2)),
        ),
        (
            "CUDA_VISIBLE_DEVICES=1,3 torchrun --nproc_per_node=gpu t.py",
            job(launcher="torchrun", accelerator=cuda(count=4, devices=[1, 3])),
        ),
        (
            f"CUDA_VISIBLE_DEVICES={GPU} torchrun --nproc_per_node=1 t.py",
            job(launcher="torchrun", accelerator=cuda(count=1)),
        ),
        ("CUDA_VISIBLE_DEVICES=-1 python t.py", job(launcher="python", accelerator=cuda(devices=[]))),
        (
            "CUDA_VISIBLE_DEVICES=1,-1,2 torchrun --nproc_per_node=1 t.py",
            job(launcher="torchrun", accelerator=cuda(count=2, devices=[1])),
        ),
        (
            "HIP_VISIBLE_DEVICES=1,0 torchrun --nproc_per_node=2 t.py",
            job(launcher="torchrun", accelerator={"type": "rocm", "count": 2, "devices": [1, 0]}),
        ),
        (
            "CUDA_VISIBLE_DEVICES= ZE_AFFINITY_MASK=0,1 torchrun --nproc_per_node=2 t.py",
            job(launcher="torchrun", accelerator={"type": "xpu", "count": 2, "devices": [0, 1]}),
        ),
        (
            "ONEAPI_DEVICE_SELECTOR=level_zero:gpu ZE_AFFINITY_MASK=0,1 torchrun --nproc_per_node=2 t.py",
            job(launcher="torchrun", accelerator={"type": "xpu", "count": 2, "devices": [0, 1]}),
        ),
        (
            "CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=1,0 torchrun --nproc_per_node=2 t.py",
            job(launcher="torchrun", accelerator={"type": "rocm", "count": 2, "devices": [1, 0]}),
        ),
        (
            "ONEAPI_DEVICE_SELECTOR=level_zero:* python t.py",
            job(launcher="python", accelerator={"type": "xpu", "count": 1}),
        ),
        ("CUDA_VISIBLE_DEVICES=0,1 python t.py", job(launcher="python", accelerator=cuda(count=2, devices=[0, 1]))),
        ("python -u t.py", job(launcher="python", command=["python", "-u", "t.py"], accelerator=cuda(count=1))),
        (
            "torchrun --nproc_per_node=2 -m pkg.train --lr 1e-3",
            job(launcher="torchrun", command=["python", "-m", "pkg.train", "--lr", "1e-3"], accelerator=cuda(count=2)),
        ),
        (
            "torchrun --nproc_per_node=2 --no-python ./train --x",
            job(launcher="torchrun", command=["./train", "--x"], accelerator=cuda(count=2)),
        ),
        (
            "accelerate launch --num_processes 8 --num_machines 2 --machine_rank 1 --main_process_ip h t.py",
            job(launcher="accelerate", nodes=2, accelerator=cuda(count=4)),
        ),
        (
            "CUDA_VISIBLE_DEVICES=3 accelerate launch --gpu_ids 2,0 --num_processes 2 t.py",
            job(launcher="accelerate", accelerator=cuda(count=3, devices=[2, 0])),
        ),
        (
            "CUDA_VISIBLE_DEVICES=2,0 accelerate launch t.py",
            job(launcher="accelerate", accelerator=cuda(count=3, devices=[2, 0])),
        ),
        (
            "accelerate launch --num_processes=2 --mixed_precision bf16 --dynamo_backend inductor t.py",
            job(
                launcher="torchrun",
                accelerator=cuda(count=2),
                env=[
                    {"name": "ACCELERATE_MIXED_PRECISION", "value": "bf16"},
                    {"name": "ACCELERATE_DYNAMO_BACKEND", "value": "INDUCTOR"},
                ],
            ),
        ),
        (
            "accelerate launch --num_processes=1 --mixed_precision=fp16 t.py",
            job(
                launcher="python",
                accelerator=cuda(count=1),
                env=[{"name": "ACCELERATE_MIXED_PRECISION", "value": "fp16"}],
            ),
        ),
        (
            "accelerate launch --cpu --num_processes 4 --num_cpu_threads_per_process 8 t.py",
            job(launcher="accelerate", processesPerNode=1, accelerator={"type": "cpu"}, cpu={"threadsPerProcess": 8}),
        ),
        (
            "deepspeed --include localhost:2,0 t.py",
            job(launcher="deepspeed", accelerator=cuda(count=3, devices=[0, 2])),
        ),
        (
            "CUDA_VISIBLE_DEVICES=2,0 deepspeed t.py",
            job(launcher="deepspeed", accelerator=cuda(count=3, devices=[0, 2])),
        ),
        ("CUDA_VISIBLE_DEVICES=2,0 deepspeed --num_gpus=1 t.py", job(launcher="deepspeed", accelerator=cuda(count=1))),
        (
            "deepspeed --include=worker-0:0,1@worker-1:0,1 t.py",
            job(launcher="deepspeed", nodes=2, accelerator=cuda(count=2, devices=[0, 1])),
        ),
        (
            "deepspeed --hostfile h --num_nodes 2 --num_gpus 8 --master_port 29501 t.py",
            job(launcher="deepspeed", nodes=2, accelerator=cuda(count=8)),
        ),
        (
            "mpirun -np 2 t.py",
            job(launcher="mpirun", command=["t.py"], accelerator=cuda(count=2), mpi={"implementation": "OpenMPI"}),
        ),
        (
            "mpirun -np 4 --map-by ppr:2:node --hostfile h -x NCCL_DEBUG=INFO python t.py",
            job(
                launcher="mpirun",
                nodes=2,
                accelerator=cuda(count=2),
                env=[{"name": "NCCL_DEBUG", "value": "INFO"}],
                mpi={"implementation": "OpenMPI"},
            ),
        ),
        (
            "NCCL_DEBUG=INFO mpirun -H a:4,b:4 --bind-to none -x NCCL_DEBUG python t.py",
            job(
                launcher="mpirun",
                nodes=2,
                accelerator=cuda(count=4),
                env=[{"name": "NCCL_DEBUG", "value": "INFO"}],
                mpi={"implementation": "OpenMPI", "binding": "none"},
            ),
        ),
        (
            "mpirun -n 2 -H a:2,b:2 python t.py",
            job(launcher="mpirun", accelerator=cuda(count=2), mpi={"implementation": "OpenMPI"}),
        ),
        (
            "HYDRA_IFACE=eth0 mpiexec.hydra -hosts a,b -n 4 -ppn 2 -genv FOO bar python t.py --use_cpu",
            job(
                command=["python", "t.py", "--use_cpu"],
                launcher="mpirun",
                nodes=2,
                processesPerNode=2,
                accelerator={"type": "cpu"},
                env=[{"name": "HYDRA_IFACE", "value": "eth0"}, {"name": "FOO", "value": "bar"}],
                mpi={"implementation": "MPICH"},
            ),
        ),
        (
            "mpirun -f h -n 4 -ppn 2 -genv I_MPI_PIN_DOMAIN=socket -genv OMP_NUM_THREADS 23 python t.py --use_cpu",
            job(
                command=["python", "t.py", "--use_cpu"],
                launcher="mpirun",
                nodes=2,
                processesPerNode=2,
                accelerator={"type": "cpu"},
                cpu={"threadsPerProcess": 23},
                mpi={"implementation": "Intel", "binding": "socket"},
            ),
        ),
        (
            "docker run --rm -it --gpus '\"device=2,0\"' --shm-size=16g --cpus 8 -m 64g -w /app -u 1000:100 -eA=1 "
            "-v /data:/data:ro reg/img:1 python t.py",
            {
                "image": "reg/img:1",
                "command": ["python", "t.py"],
                "launcher": "python",
                "accelerator": cuda(count=3, devices=[0, 2]),
                "resources": {"cpu": "8", "memory": "64Gi"},
                "sharedMemory": "16Gi",
                "env": [{"name": "A", "value": "1"}],
                "workingDir": "/app",
                "volumes": [{"name": "volume-0", "hostPath": {"path": "/data"}}],
                "volumeMounts": [{"name": "volume-0", "mountPath": "/data", "readOnly": True}],
                "securityContext": {"runAsUser": 1000, "runAsGroup": 100},
            },
        ),
        (
            "docker run --gpus '\"device=1,3\"' -e CUDA_VISIBLE_DEVICES=1,0 img torchrun --nproc_per_node=2 t.py",
            job(image="img", launcher="torchrun", accelerator=cuda(count=4, devices=[3, 1])),
        ),
        (
            "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=3,1 img torchrun --nproc_per_node=2 t.py",
            job(image="img", launcher="torchrun", accelerator=cuda(count=4, devices=[1, 3])),
        ),
        (
            "docker run --gpus 2 img torchrun --nproc_per_node=2 t.py",
            job(image="img", launcher="torchrun", accelerator=cuda(count=2)),
        ),
        (
            "docker run --gpus all img torchrun --nproc_per_node=2 t.py",
            job(image="img", launcher="torchrun", accelerator=cuda(count=2)),
        ),
        (
            "podman run --device /dev/kfd --device /dev/dri img torchrun --nproc_per_node=2 t.py",
            job(image="img", launcher="torchrun", accelerator={"type": "rocm", "count": 2}),
        ),
        (
            "docker run --device=/dev/dri img torchrun --nproc_per_node=2 t.py",
            job(image="img", launcher="torchrun", accelerator={"type": "xpu", "count": 2}),
        ),
        (
            "docker run --runtime=habana -e HABANA_VISIBLE_DEVICES=all img torchrun --nproc_per_node=2 t.py",
            job(image="img", launcher="torchrun", accelerator={"type": "hpu", "count": 2}),
        ),
        (
            "docker run --entrypoint bash img -lc 'cd /app && A=1 torchrun --nproc_per_node=2 t.py'",
            job(
                image="img",
                launcher="torchrun",
                accelerator=cuda(count=2),
                env=[{"name": "A", "value": "1"}],
                workingDir="/app",
            ),
        ),
    ],
)
def test_a_line_becomes_a_job(line: str, expected: dict[str, Any]) -> None:
    assert spec(line) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "torchrun --nproc_per_node=1 --master_port=1 t.py",
            "1:29: note: --master_port is not carried over: k8sel or the",
        ),
        ("torchrun --tee 3 --nproc_per_node=1 t.py", "note: --tee is not carried over"),
        (f"CUDA_VISIBLE_DEVICES={GPU} python t.py", "only the number of devices in GPU-8932f937"),
        ("NVIDIA_VISIBLE_DEVICES=0 python t.py", "NVIDIA_VISIBLE_DEVICES has no effect here"),
        ("ZE_AFFINITY_MASK= python t.py", "ZE_AFFINITY_MASK is empty, which hides nothing from type xpu"),
        ("HIP_VISIBLE_DEVICES= python t.py", "HIP_VISIBLE_DEVICES is empty, which hides nothing from type rocm"),
        (
            "ONEAPI_DEVICE_SELECTOR=level_zero:gpu ZE_AFFINITY_MASK=0,1 python t.py",
            "note: ONEAPI_DEVICE_SELECTOR is not carried over: it selects no device here",
        ),
        (
            "CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=1,0 python t.py",
            "note: CUDA_VISIBLE_DEVICES is not carried over: it selects no device here",
        ),
        (
            "HF_TOKEN=hf_abcdefghijklmnop python t.py",
            "the value of HF_TOKEN looks like a secret, and the job file has it. Hint: replace value by valueFrom: {",
        ),
        ("CUDA_DEVICE_ORDER=2 python t.py", "CUDA_DEVICE_ORDER=2 is not carried over"),
        ("CUDA_VISIBLE_DEVICES=1,-1 python t.py", 'CUDA_VISIBLE_DEVICES ends at "-1": 1 of its 2 devices are used'),
        ("CUDA_VISIBLE_DEVICES=1,0 deepspeed t.py", "does not order devices: deepspeed sorts the numbers"),
        ("CUDA_VISIBLE_DEVICES=1 deepspeed --num_gpus=1 t.py", "CUDA_VISIBLE_DEVICES has no effect: --num_gpus counts"),
        ("docker run --gpus '\"device=1,0\"' i python t.py", "--gpus is a set"),
        (
            "CUDA_VISIBLE_DEVICES=0 docker run --gpus all i python t.py",
            "CUDA_VISIBLE_DEVICES is not carried over: it reaches docker",
        ),
        ("docker run -v data:/d -v $PWD:/w i python t.py", "data:/d is not carried over: only a folder of the host"),
        ("docker run -v data:/d -v $PWD:/w i python t.py", 'is not carried over: only the shell knows "$PWD"'),
        ("docker run --ipc=host --ulimit memlock=-1 i python t.py", "--ipc is not carried over: sharedMemory"),
        ("accelerate launch --cpu --num_processes 4 t.py", "with --cpu, accelerate starts 1 process, not 4"),
        ("accelerate launch --ipex --num_processes 1 t.py", "warning: --ipex: accelerate 1.9.0 was the last version"),
        ("accelerate launch --use_xpu --num_processes 1 t.py", "warning: --use_xpu: accelerate 1.12.0 was the last"),
        (
            "python t.py --xpu_backend ccl",
            "--xpu_backend ccl stays in the command: transformers 5.0 was the last to take ccl",
        ),
        (
            "python t.py --xpu-backend=ccl",
            "--xpu_backend stays in the command: transformers 4.31 was the last to have it",
        ),
        ("mpirun -n 2 --bind-to core python t.py", "--bind-to core is not carried over"),
        ("mpirun -n 2 python t.py", "the line fits OpenMPI or Intel or MPICH; the job file uses OpenMPI"),
        ("mpirun -n 2 -x FOO python t.py", "FOO is not carried over: its value is not in the text"),
        ("OMP_NUM_THREADS=many python t.py", "OMP_NUM_THREADS=many is not carried over"),
        ("RANK=0 WORLD_SIZE=1 python t.py", "RANK is not carried over: the launcher sets it in each process"),
        (
            "HF_TOKEN=$HF_TOKEN python t.py",
            'HF_TOKEN is not carried over: only the shell that runs the line knows "$HF_TOKEN"',
        ),
        ("export HF_TOKEN\npython t.py", "1:8: warning: HF_TOKEN is not carried over: its value is not in the text"),
        ("python t.py --data *.json", "*.json stays as it is: a shell would replace it by file names"),
        ("python t.py \u2013\u2013lr 1", "begins with a typographic dash"),
        ("pip install x && cd src && python t.py > log 2>&1", "pip is not carried over"),
        (
            "pip install x && cd src && python t.py > log 2>&1",
            "src is not carried over: it is relative to the shell's own folder",
        ),
        ("pip install x && cd src && python t.py > log 2>&1", "the redirection of the output is not carried over"),
        ("CUDA_VISIBLE_DEVICES=0\npython t.py", "CUDA_VISIBLE_DEVICES does not reach the program: it is not exported"),
        ("torchrun --nproc_per_node=2 t.py '$$x'", "torch's agent turns two dollars into one"),
        ("python t.py | tee log", "tee is not carried over"),
        ("sudo python t.py", "sudo is not carried over"),
        ("bash train.sh", 'the commands in "bash train.sh" are not in the line'),
    ],
)
def test_what_is_not_carried_over_is_named(line: str, words: str) -> None:
    assert words in said(line)


def test_the_callers_word_counts() -> None:
    options = Options(name="mine", image="reg/mine:2", accelerator="xpu")
    made, notes = convert("torchrun --nproc_per_node=2 t.py", options)
    whole = yaml.safe_load(made)

    assert (whole["metadata"]["name"], whole["spec"]["image"]) == ("mine", "reg/mine:2")
    assert whole["spec"]["accelerator"] == {"type": "xpu", "count": 2}
    assert notes == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python /app/Run_QA.v2.py", "run-qa-v2"),
        ("python 2x.py", "x"),
        ("python -m pkg", "train"),
        ("docker run --name fine-tune img python t.py", "fine-tune"),
        (f"python {'long-' * 30}.py", "long-long-long-long-long-long-long-long"),
    ],
)
def test_the_jobs_name_is_the_programs(line: str, name: str) -> None:
    assert yaml.safe_load(convert(line, Options())[0])["metadata"]["name"] == name


def test_a_dollar_in_a_value_is_the_programs_own() -> None:
    assert spec("A='$(X) $$' python t.py")["env"] == [{"name": "A", "value": "$$(X) $$$$"}]


def test_processes_that_each_get_a_core_of_a_device() -> None:
    made, notes = convert("torchrun --nproc_per_node=32 t.py", Options(image="i", accelerator="neuron"))
    spec = yaml.safe_load(made)["spec"]
    assert (spec["accelerator"]["count"], spec["processesPerNode"]) == (16, 32)
    assert [note.message for note in notes] == [
        "each process gets one NeuronCore; the job counts 2 of them in a device, which the line does not say"
    ]


@pytest.mark.parametrize(("line", "row"), [("torchrun --nproc_per_node=4 t.py", "tpu"), ("mpirun -np 4 t", "neuron")])
def test_processes_that_cannot_share_a_device(line: str, row: str) -> None:
    made, notes = convert(line, Options(image="i", accelerator=row))
    assert yaml.safe_load(made)["spec"]["accelerator"] == {"type": row, "count": 4, "isolation": "process"}
    assert any(f"only one process can open a device of type {row}, so" in note.message for note in notes)
