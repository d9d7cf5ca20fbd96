"""The first inputs of fuzz.py, from the repository's own files, and the mutations of them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from receipts.made import log, own, two_nodes

LINES = (
    "torchrun --nproc_per_node=2 train.py --lr 1e-3",
    "CUDA_VISIBLE_DEVICES=2,0 torchrun --standalone --nproc-per-node 2 -m pkg.train",
    "export HIP_VISIBLE_DEVICES=1; export A=$HOME; nohup python -u train.py > log 2>&1 &",
    "accelerate launch --num_processes 4 --num_machines 2 --multi_gpu train.py --x",
    "deepspeed --include localhost:1,0 --num_gpus 2 train.py --deepspeed ds.json",
    "mpirun -np 4 -H a:2,b:2 -x NCCL_DEBUG=INFO --mca btl tcp --map-by ppr:2:node python train.py",
    "mpiexec.hydra -n 4 -ppn 2 -hosts a,b -genv CCL_WORKER_COUNT=1 -genv I_MPI_PIN_DOMAIN=[F,F0] python t.py",
    "docker run --rm -it --gpus '\"device=0,2\"' --shm-size=16g -v /d:/d -e A=1 -u 1000 img:1 bash -c 'torchrun t.py'",
    "env -u A B=1 sudo exec time python3 train.py ${A:-x} $(nproc) `hostname` ~/x *.py {a,b} \"$B\" 'c d' \\e",
    "#!/bin/bash\nset -e\nsource /opt/intel/oneapi/setvars.sh\ncd /work && A=1\\\n  B+=2 torchrun t.py | tee log",
    "ZE_AFFINITY_MASK=0.0,0.1 KMP_AFFINITY=granularity=fine OMP_NUM_THREADS=8 taskset -c 0-7 numactl -N 0 python t.py",
    'bash -c "export A=\'bash -c $A\'; bash -c \\"$A\\""',
)
EXPECTATION = {
    **{
        "version": 1,
        "accelerator": "cuda",
        "devices": [1, 0],
        "count": 2,
        "order": "pci",
        "product": ["A"],
        "memory": 1,
    },
    **{
        "sharedMemory": 1,
        "isolation": "node",
        "launcher": "torchrun",
        "nodes": 2,
        "processesPerNode": 2,
        "check": "warn",
    },
    **{
        "threadsPerProcess": 4,
        "job": "a",
        "backend": "nccl",
        "mpi": "",
        "probe": ["a"],
        "hostfile": "/etc/mpi/hostfile",
    },
}
BY_HAND = (
    "K8SEL_ACCELERATOR=cuda\nK8SEL_COUNT=2\nK8SEL_DEVICES=1,0\nK8SEL_ORDER=pci\nK8SEL_PRODUCT=A,B\nK8SEL_MEMORY=80Gi",
    "K8SEL_ACCELERATOR=rocm\nK8SEL_CHECK=warn\nK8SEL_BACKEND=nccl\nCOMMAND=torchrun t.py",
    "K8SEL_ACCELERATOR=cpu\nCOMMAND=mpirun -np 2 k8sel-entrypoint rank -- python t.py\nK8SEL_DEVICE=1",
)
RECEIPT, REPORT_MARK = b"k8sel-receipt: ", b"k8sel-report: "
REPORT = {
    **{"node": "a-worker-0", "ok": False, "problems": ["3 expected"], "notes": ["n"], "names": ["H100"], "how": "NVML"},
    "devices": [["0000:1a:00.0", "GPU-1"]],
}
WORDS = (
    *(
        b"",
        b"\0",
        b"\xff",
        b"\xc3\x28",
        b"\x1b[2J",
        "\u202e".encode(),
        "\ufeff".encode(),
        b"\r\n",
        b"\t",
        b"  ",
        b"\n- ",
    ),
    *(
        b": ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"&a ",
        b"*a",
        b"!!x ",
        b"<<: *a",
        b"? ",
        b"|\n",
        b">-\n",
        b"'",
        b'"',
        b"#",
        b"---\n",
    ),
    *(b"...\n", b"%TAG ", b"$(A)", b"$$", b"$A", b"${A:-", b"`", b"$((", b"\\", b"<<EOF", b"&&", b"||", b";", b">"),
    *(
        b"null",
        b"~",
        b"yes",
        b".nan",
        b"-.inf",
        b"1e999",
        b"0x",
        b"0o17",
        b"1_000",
        b"-1",
        b"0",
        b"1",
        b"99999999999999999999",
    ),
    *(
        b"9" * 5000,
        b"x" * 2000,
        b"[" * 100,
        b"{a: " * 70,
        b"- " * 70,
        b"k8sel-receipt: ",
        b"k8sel-report: ",
        b"--x=",
        b"-np ",
    ),
    *(
        b"bash -c ",
        b"nohup ",
        b"env ",
        b"docker run ",
        b"--gpus ",
        b"CUDA_VISIBLE_DEVICES=",
        b"K8SEL_",
        b"nvidia.com/gpu",
    ),
)
NUMBERS = (
    b"9" * 5000,
    b"9" * 10,
    b"0",
    b"00",
    b"-1",
    b"1.5",
    b"0x1",
    b"\xc2\xb2",
    b"0-99999999",
    b"2147483648",
    b"1e9",
    b"",
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**31,
        2**63,
        2**70,
        1.5,
        -0.0,
        1e308,
        "",
        " ",
        "x" * 300,
        "0",
        "-1",
        "1e3",
        "1Gi",
        "64E",
    ),
    *(
        "$(A)",
        "$(A)$(A)",
        "\u0000",
        "\u001b[2J",
        "\u202e",
        "\ud800",
        "a\nb",
        "--volume=/:/host",
        "/",
        "../..",
        "${A}",
        "k8sel",
    ),
    *(
        "cuda",
        "cpu",
        "mps",
        "auto",
        "torchrun",
        "mpirun",
        "PyTorchJob",
        "MPIJob",
        "nvidia.com/gpu",
        "bash",
        "-c",
        "torchrun t.py",
    ),
    *([], {}, [[]], [{}], {"": ""}, [None], {"name": "A", "value": "$(A)"}, list(range(50)), ["bash", "-c", "$(A)"]),
)


def _read(*patterns: str) -> list[bytes]:
    return [file.read_bytes() for pattern in patterns for file in sorted(ROOT.glob(pattern))]


def jobs() -> list[bytes]:
    """Job files: the cases of the goldens, and the examples."""
    return _read("tests/cases/*/job.yaml", "examples/*.yaml")


def manifests() -> list[bytes]:
    """Manifests: the traps' cases, the goldens, and the gallery."""
    return _read("tests/audit/cases/*/*.yaml", "tests/cases/*/expected.yaml", "manifests/*/*job.yaml")


def resource_lists() -> list[bytes]:
    """ResourceLists with one job, or with two jobs and another object."""
    import yaml

    found = [json.dumps(next(yaml.safe_load_all(text))) for text in jobs()]
    return [
        f'{{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [{items}]}}'.encode()
        for items in [*found, f'{found[0]}, {found[1]}, {{"kind": "ConfigMap", "apiVersion": "v1"}}']
    ]


def lines() -> list[bytes]:
    """Command lines: those here, and the guides' own."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", (ROOT / "docs" / "guide.md").read_text(), re.DOTALL | re.MULTILINE)
    return [each.encode() for each in (*LINES, *blocks)]


def logs() -> list[bytes]:
    """Logs with receipts, and a document."""
    first, _ = two_nodes()
    several = log(*two_nodes(), own("first-worker-1", 4, 0, 0), own("first-worker-1", 5, 1, 1))
    document = {
        "version": 1,
        "job": "first",
        "nodes": 2,
        "notes": [],
        "earlier": {"a": 1},
        "broken": 1,
        "receipts": two_nodes(),
    }
    return [log(first).encode(), RECEIPT + json.dumps(first).encode(), several.encode(), json.dumps(document).encode()]


def reports() -> list[bytes]:
    """Nodes' reports, as a launcher's output has them."""
    report = json.dumps(REPORT)
    return [f"k8sel-report: {report}".encode(), f"[0] x k8sel-report: {report}k8sel-report: {report}\n".encode()]


def expectations() -> list[bytes]:
    """Expectations, as K8SEL_EXPECT has them."""
    return [json.dumps(EXPECTATION).encode(), b'{"version": 1, "accelerator": "cpu", "devices": []}']


def by_hand() -> list[bytes]:
    """The variables of an expectation by hand, one a line."""
    return [each.encode() for each in BY_HAND]


def changed_tree(random: Random, tree: Any) -> Any:  # noqa: ANN401  # JSON
    """Returns ``tree`` with one of its parts replaced, removed, doubled, renamed or put deeper."""
    places = list(_places(tree))
    if not places:
        return random.choice(VALUES)
    parent, key = random.choice(places)
    part = parent[key]
    other, other_key = random.choice(places)
    new = random.choice(
        (random.choice(VALUES), random.choice(VALUES), other[other_key], [part], {"a": part}, [part] * 3)
    )
    if isinstance(parent, dict) and random.random() < 0.2:
        parent[str(random.choice(VALUES))[:200]] = parent.pop(key)
    elif isinstance(parent, dict) and random.random() < 0.2:
        del parent[key]
    else:
        parent[key] = json.loads(json.dumps(new))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  # JSON
    """Yields each mapping or list with each of its keys."""
    waiting = [{"": tree}]
    while waiting:
        part: Any = waiting.pop()
        for key in list(part) if isinstance(part, dict) else range(len(part)):
            if key != "":
                yield part, key
            if isinstance(part[key], dict | list):
                waiting.append(part[key])


def _insert(random: Random, text: bytes, corpus: Sequence[bytes]) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(WORDS) + text[at:]


def _cut(random: Random, text: bytes, corpus: Sequence[bytes]) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + text[at + random.choice((1, 2, 8, 40, 400)) :]


def _double(random: Random, text: bytes, corpus: Sequence[bytes]) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + text[at : at + 60] * random.choice((2, 3, 20)) + text[at:]


def _splice(random: Random, text: bytes, corpus: Sequence[bytes]) -> bytes:
    other = random.choice(corpus)
    return text[: random.randrange(len(text) + 1)] + other[random.randrange(len(other) + 1) :]


def _flip(random: Random, text: bytes, corpus: Sequence[bytes]) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + bytes([random.randrange(256)]) + text[at + 1 :]


def _replace(random: Random, text: bytes, corpus: Sequence[bytes]) -> bytes:
    """Replaces a word or a number by another."""
    found = list(re.finditer(rb"[\w.-]+", text))
    if not found:
        return text
    word = random.choice(found)
    return text[: word.start()] + random.choice((*WORDS, random.choice(found)[0])) + text[word.end() :]


def _number(random: Random, text: bytes, corpus: Sequence[bytes]) -> bytes:
    """Replaces a number by one that is too large, too long, or none."""
    found = list(re.finditer(rb"[0-9]+", text))
    if not found:
        return text
    number = random.choice(found)
    return text[: number.start()] + random.choice(NUMBERS) + text[number.end() :]


Change = Callable[[Random, bytes, Sequence[bytes]], bytes]
TEXT_CHANGES: tuple[Change, ...] = (_insert, _cut, _double, _splice, _flip, _replace, _replace, _number)
