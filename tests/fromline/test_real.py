"""A line and its job file, both really started: each process gets the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "GREETING")
shown = {name: os.environ.get(name) for name in names}
line = json.dumps({"argv": sys.argv[1:], "folder": os.getcwd(), **shown})
os.write(1, (line + "\\n").encode())
"""
ARGUMENTS = "--use_cpu --lr 1e-3 'two  words' '$HOME' '$$' '' \"it's\""


def _started(output: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"argv"')]
    return sorted(lines, key=lambda shown: str(shown["RANK"]))


@pytest.mark.torch
@pytest.mark.parametrize(
    "line",
    [
        f"GREETING='a $b' OMP_NUM_THREADS=2 torchrun --nproc_per_node=2 --master_port=29611 show.py {ARGUMENTS}",
        f"export GREETING=hi OMP_NUM_THREADS=1\ntorchrun --nproc_per_node 3 \\\n  --standalone show.py {ARGUMENTS}",
        f"OMP_NUM_THREADS=1 PET_NPROC_PER_NODE=2 python -m torch.distributed.run --standalone show.py {ARGUMENTS}",
        f"OMP_NUM_THREADS=3 python show.py {ARGUMENTS}",
    ],
)
def test_each_process_gets_the_same(line: str, tmp_path: Path, torch_env: dict[str, str]) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    k8sel = [sys.executable, "-m", "k8sel"]
    root = Path(__file__).parents[2]
    env = {**torch_env, "PYTHONPATH": f"{root}:{torch_env['PYTHONPATH']}"}
    by_line = subprocess.run(
        ["/bin/bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    job = subprocess.run([*k8sel, "from", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    by_file = subprocess.run(
        [*k8sel, "run", "--override-env", "-q", "-"],
        input=job.stdout,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert by_file.returncode == 0, by_file.stderr
    assert _started(by_file.stdout) == _started(by_line.stdout) != []
