"""`k8sel docker` on a real daemon: devices, exit statuses, signals, several nodes, and what is said when it cannot."""

from __future__ import annotations

import array
import fcntl
import shlex
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from cluster import machine
from containers.client import NO_PYTHON, Docker, command, job

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

SHOW_MASK = ("python3", "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
UP = ("sh", "-c", "echo up; exec sleep 600")
UP_AND_WAIT = "import signal, sys\n{}\nprint('up', flush=True)\nsignal.pause()"


@contextmanager
def started(docker: Docker, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """`k8sel docker` at work; it has ended afterwards."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command("-q"), stdin=pipe, stdout=pipe, stderr=pipe, env=docker.env) as child:
        assert child.stdin is not None
        child.stdin.write(text.encode())
        child.stdin.close()
        child.stdin = None  # or communicate() flushes it
        yield child


@contextmanager
def watched(docker: Docker, action: str) -> Iterator[Callable[[], None]]:
    """Yields a function that waits until the daemon does this to a container."""
    words = [
        "docker",
        "events",
        "--since",
        f"{time.time():.6f}",
        "--filter",
        "type=container",
        "--format",
        "{{.Action}}",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=docker.env, text=True) as events:
        assert events.stdout is not None
        lines = iter(events.stdout)
        yield lambda: next(None for line in lines if line.startswith(action))
        events.kill()


def await_full(pipe: IO[bytes]) -> None:
    """Until nobody has written any more for a moment."""
    before, size = -1, 0
    while size != before or not size:
        time.sleep(0.2)
        before, size = size, waiting(pipe)


def waiting(pipe: IO[bytes]) -> int:
    """Bytes in a pipe that nobody has read yet."""
    number = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, number)
    return number[0]


def uuids(*minors: int) -> str:
    """A mask of the stand-ins for GPUs with these minor numbers; the host's number i is minor 7 - i."""
    return ",".join(f"GPU-00000000-0000-0000-0000-00000000000{minor}" for minor in minors)


@pytest.mark.parametrize(
    ("accelerator", "mask"),
    [
        ({"devices": [2, 0]}, uuids(5, 7)),
        ({"devices": [0, 2]}, uuids(7, 5)),
        ({"devices": [6, 1, 3]}, uuids(1, 6, 4)),
        ({"count": 2}, uuids(7, 6)),
        ({"devices": []}, ""),
    ],
)
def test_exactly_these_devices_in_this_order(docker_daemon: Docker, accelerator: dict[str, object], mask: str) -> None:
    done = docker_daemon.k8sel(text=job(*SHOW_MASK, accelerator={"type": "cuda", **accelerator}))
    assert (done.returncode, done.stdout) == (0, f"{mask}\n"), done.stderr


@pytest.fixture
def broken_gpu(docker_daemon: Docker) -> Iterator[int]:
    """A GPU that the runtime promises, and does not hand over."""
    mark = docker_daemon.hook / "broken-3"
    mark.touch()
    yield 3
    mark.unlink()


def test_a_missing_device_stops_it_before_it_starts(docker_daemon: Docker, broken_gpu: int) -> None:
    accelerator = {"type": "cuda", "devices": [broken_gpu, 0]}
    done = docker_daemon.k8sel(text=job("echo", "trained", accelerator=accelerator))
    assert (done.returncode, done.stdout) == (78, "")
    assert "k8sel: node box-master-0: 2 cuda devices expected, 1 found (0000:10:00.0) by NVML" in done.stderr


def test_another_product_stops_it(docker_daemon: Docker) -> None:
    done = docker_daemon.k8sel(text=job("echo", accelerator={"type": "cuda", "product": ["NVIDIA-L4"]}))
    assert done.returncode == 78
    assert "product NVIDIA-L4 expected, " in done.stderr


def test_a_mask_of_the_images_own_stops_it(docker_daemon: Docker, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM box/base:1\nENV CUDA_VISIBLE_DEVICES=3\n")
    docker_daemon("build", "-q", "-t", "masked", str(tmp_path))
    done = docker_daemon.k8sel(text=job("echo", image="masked", accelerator={"type": "cuda", "count": 2}))
    assert done.returncode == 78
    assert "CUDA_VISIBLE_DEVICES=3 is set, " in done.stderr


def test_an_image_without_python_is_named(docker_daemon: Docker) -> None:
    done = docker_daemon.k8sel(text=job("echo", image=NO_PYTHON))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        78,
        "k8sel: the image has no python3: use an image with python3 >= 3.9, or entrypoint.mode: none",
    )


@pytest.mark.parametrize(
    ("program", "status"),
    [("pass", 0), ("sys.exit(1)", 1), ("sys.exit(78)", 78), ("os.kill(os.getpid(), 9)", 137)],
)
def test_the_exit_status_is_the_programs(docker_daemon: Docker, program: str, status: int) -> None:
    assert docker_daemon.k8sel(text=job("python3", "-c", f"import os, sys; {program}")).returncode == status


def test_output_and_complaints_stay_apart(docker_daemon: Docker) -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.stdout.write('no newline')"
    done = docker_daemon.k8sel(text=job("python3", "-c", program))
    assert done.stdout == "out\nno newline"
    assert done.stderr.endswith("\nerr\n")


@pytest.mark.parametrize(
    ("number", "handler", "status"),
    [
        (signal.SIGTERM, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))", 5),
        (signal.SIGINT, "signal.signal(signal.SIGINT, lambda *_: sys.exit(6))", 6),
        (signal.SIGTERM, "", 143),  # an init is process 1: without one, nothing would end it
    ],
)
def test_a_signal_reaches_the_program(docker_daemon: Docker, number: signal.Signals, handler: str, status: int) -> None:
    with started(docker_daemon, job("python3", "-c", UP_AND_WAIT.format(handler))) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        child.send_signal(number)
    assert child.returncode == status
    assert docker_daemon("ps", "-aq").stdout == ""


def test_a_reader_that_goes_ends_it(docker_daemon: Docker) -> None:
    line = f"{shlex.join(command('-q'))} | head -1; exit ${{PIPESTATUS[0]}}"
    many = "while True: print('line' * 100)"
    done = subprocess.run(
        ["bash", "-c", line],
        input=job("python3", "-c", many),
        env=docker_daemon.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (1, "line" * 100)
    assert "Traceback" not in done.stderr
    assert (docker_daemon("ps", "-aq").stdout, done.stderr.count("may be left")) == ("", 0)


def test_what_the_file_says_of_the_container_holds(docker_daemon: Docker, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("read me\n")
    program = (
        "id -u; id -g; pwd; cat /data/data; touch /data/new || df -k /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2"
    )
    text = job("sh", "-c", program,
               podSecurityContext={"runAsUser": 1234, "runAsGroup": 99}, workingDir="/usr", sharedMemory="96Mi",
               volumes=[{"name": "data", "hostPath": {"path": str(tmp_path)}}],
               volumeMounts=[{"name": "data", "mountPath": "/data", "readOnly": True}])  # fmt: skip
    tmp_path.chmod(0o777)
    assert docker_daemon.k8sel(text=text).stdout.splitlines() == ["1234", "99", "/usr", "read me", str(96 * 1024)]


def test_the_printed_line_does_the_same(docker_daemon: Docker) -> None:
    program = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1], os.environ['GREETING'])"
    text = job("python3", "-c", program, "$HOME; `id`", accelerator={"type": "cuda", "devices": [2, 0]},
               env=[{"name": "GREETING", "value": "it's \"me\" for $$5"}])  # fmt: skip
    printed = docker_daemon.k8sel("-q", "--print", text=text).stdout
    printed = printed.replace("--ulimit memlock=-1 ", "")  # root of a sandbox may not raise it
    pasted = subprocess.run(["sh", "-c", printed], env=docker_daemon.env, capture_output=True, text=True, check=False)
    assert pasted.stdout == docker_daemon.k8sel(text=text).stdout
    assert pasted.stdout == f'{uuids(5, 7)} $HOME; `id` it\'s "me" for $5\n'


def test_mpirun_starts_its_ranks_in_one_container(docker_daemon: Docker) -> None:
    program = 'echo "$RANK $WORLD_SIZE $CUDA_VISIBLE_DEVICES"'
    accelerator = {"type": "cuda", "devices": [2, 0]}
    done = docker_daemon.k8sel(text=job("sh", "-c", program, launcher="mpirun", accelerator=accelerator))
    assert sorted(done.stdout.splitlines()) == [f"{rank} 2 {uuids(5, 7)}" for rank in range(2)], done.stderr


REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
mask = os.environ["CUDA_VISIBLE_DEVICES"]
line = f"rank {dist.get_rank()} of {dist.get_world_size()} on {os.uname().nodename}: {total.item():g} {mask}"
os.write(1, f"{line}\\n".encode())  # at once: two processes share the pipe
dist.destroy_process_group()  # or its threads may outlive the interpreter, which aborts then
"""


@pytest.mark.torch
def test_two_nodes_are_one_group(docker_daemon: Docker, torch_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "reduce.py").write_text(REDUCE)
    text = job("python", "/job/reduce.py", launcher="torchrun", nodes=2, accelerator={"type": "cuda", "count": 2},
               **mounted(torch=machine.CACHE / "torch", job=tmp_path))  # fmt: skip
    done = docker_daemon.k8sel(text=text)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{node}: rank {rank} of 4 on {node}: 6 {mask}"
        for rank, node, mask in (
            (0, "box-master-0", uuids(7, 6)),
            (1, "box-master-0", uuids(7, 6)),
            (2, "box-worker-0", uuids(5, 4)),
            (3, "box-worker-0", uuids(5, 4)),
        )
    ]
    assert "k8sel" not in docker_daemon("network", "ls", "--format", "{{.Name}}").stdout


def mounted(**folders: Path) -> dict[str, object]:
    """Volumes and their mounts: torch at /opt/torch, others at the root."""
    return {
        "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()],
        "volumeMounts": [
            {"name": name, "mountPath": f"/opt/{name}" if name == "torch" else f"/{name}", "readOnly": True}
            for name in folders
        ],
    }


def test_the_first_failure_stops_the_other_nodes(docker_daemon: Docker) -> None:
    program = "[ $RANK = 0 ] && exec sleep 600; exit 9"
    done = docker_daemon.k8sel(text=job("sh", "-c", program, nodes=2))
    assert done.returncode == 9, done.stderr


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"image": "box/none:1"}, "k8sel: image box/none:1 cannot be pulled: "),
        (
            {"image": "box/none:1", "imagePullPolicy": "Never"},
            "k8sel: image box/none:1 is not on this machine, and imagePullPolicy",
        ),
        (
            {"accelerator": {"type": "neuron"}},
            "this machine does not have so many of these devices, or lacks the Neuron",
        ),
        ({"accelerator": {"type": "xpu", "count": 3}}, "this machine does not have so many of these devices"),
        ({"accelerator": {"type": "cuda", "devices": [9]}}, "unknown device"),
        ({"resources": {"cpu": 4096}}, "spec.resources.cpu is more than the daemon's machine has"),
        (
            {
                "volumes": [{"name": "a", "hostPath": {"path": "/no/such"}}],
                "volumeMounts": [{"name": "a", "mountPath": "/a"}],
            },
            "spec.volumes names a folder that is not on the daemon's machine",
        ),
    ],
)
def test_what_the_daemon_cannot_do_is_said(docker_daemon: Docker, spec: dict[str, object], said: str) -> None:
    done = docker_daemon.k8sel(text=job("echo", **spec))
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("accelerator", "said"),
    [("hpu", "install habana-container-runtime"), ("npu", "install Ascend Docker Runtime")],
)
def test_a_runtime_that_the_daemon_lacks_is_named(cdi_daemon: Docker, accelerator: str, said: str) -> None:
    done = cdi_daemon.k8sel(text=job("echo", accelerator={"type": accelerator}))
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("user", "status", "said"),
    [
        ("", 1, "k8sel: image user runs as root, and runAsNonRoot forbids that"),
        ("0:7", 1, "k8sel: image user runs as root, and runAsNonRoot forbids that"),
        ("nobody", 1, "k8sel: image user has a user without a number, nobody, which may be root"),
        ("1234:7", 0, ""),
    ],
)
def test_an_image_of_roots_is_refused_where_root_is(
    docker_daemon: Docker, tmp_path: Path, user: str, status: int, said: str
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM box/base:1\n" + (f"USER {user}\n" if user else ""))
    docker_daemon("build", "-q", "-t", "user", str(tmp_path))
    done = docker_daemon.k8sel(text=job("id", "-u", image="user", podSecurityContext={"runAsNonRoot": True}))
    assert (done.returncode, done.stdout) == (status, "" if status else "1234\n"), done.stderr
    assert said in done.stderr


def test_what_security_says_holds(docker_daemon: Docker) -> None:
    program = "grep -e ^Seccomp: -e ^NoNewPrivs: /proc/self/status; cat /proc/sys/net/core/somaxconn; id -G"
    pod = {"seccompProfile": {"type": "Unconfined"}, "sysctls": [{"name": "net.core.somaxconn", "value": "77"}],
           "runAsUser": 1000, "runAsGroup": 8, "fsGroup": 99}  # fmt: skip
    done = docker_daemon.k8sel(text=job("sh", "-c", program, podSecurityContext=pod))
    assert done.stdout.split() == ["NoNewPrivs:", "1", "Seccomp:", "0", "77", "8", "99"], done.stderr


@pytest.mark.parametrize("stage", ["create", "attach", "start"])
@pytest.mark.parametrize(
    ("number", "statuses"),
    [(signal.SIGTERM, [143]), (signal.SIGINT, [130, 1])],  # 1: a Python that is just starting takes it for a failure
)
def test_a_signal_at_any_stage_ends_it(
    docker_daemon: Docker, stage: str, number: signal.Signals, statuses: list[int]
) -> None:
    with watched(docker_daemon, stage) as reached, started(docker_daemon, job("sleep", "600")) as child:
        reached()
        child.send_signal(number)
        _, complaints = child.communicate()
    assert child.returncode in statuses, complaints
    assert docker_daemon("ps", "-aq").stdout == ""


def test_the_third_interrupt_ends_what_ignores_it(docker_daemon: Docker) -> None:
    program = "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('no', flush=True))\n"
    program += "print('up', flush=True)\nwhile True: signal.pause()"
    with started(docker_daemon, job("python3", "-c", program)) as child:
        for expected in (b"up\n", b"no\n", b"no\n"):
            assert child.stdout is not None
            assert child.stdout.readline() == expected
            child.send_signal(signal.SIGINT)
    assert child.returncode == 130
    assert docker_daemon("ps", "-aq").stdout == ""


def test_a_reader_that_does_not_read_keeps_nobody(docker_daemon: Docker) -> None:
    many = "while True: print('line' * 100)"
    with watched(docker_daemon, "start") as reached, started(docker_daemon, job("python3", "-c", many)) as child:
        reached()
        assert child.stdout is not None
        await_full(child.stdout)
        for _ in range(3):
            child.send_signal(signal.SIGINT)
            time.sleep(0.1)  # two that come at once are one
        child.wait(60)
    assert child.returncode == 130
    assert docker_daemon("ps", "-aq").stdout == ""


def test_a_container_that_somebody_removes_is_named(docker_daemon: Docker) -> None:
    with started(docker_daemon, job(*UP)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        docker_daemon("rm", "-f", "box-master-0")
        _, complaints = child.communicate()
    assert child.returncode in (1, 137), complaints  # the daemon may or may not tell its status before it is gone
    assert b"Traceback" not in complaints


def test_a_second_run_of_a_job_is_named(docker_daemon: Docker) -> None:
    docker_daemon("run", "-d", "--name", "box-master-0", "box/base:1", "sleep", "600")
    try:
        done = subprocess.run(
            command("-q"), input=job("echo"), env=docker_daemon.env, capture_output=True, text=True, check=False
        )
    finally:
        docker_daemon("rm", "-f", "box-master-0")
    assert done.returncode == 1
    assert "another run of this job is going on or was killed: docker rm -f box-master-0" in done.stderr
