"""The Dockerfile's images on a real daemon, used by hand: statuses, signals and process 1 as a table."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from dist.building import builder

from cluster import machine
from containers.client import BASE, Docker, job

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

ROOT = Path(__file__).parents[2]
CPU = ("-e", "K8SEL_ACCELERATOR=cpu")
GPUS = ("--gpus", 'driver=nvidia,"device=0,2"', "-e", "K8SEL_ACCELERATOR=cuda")
SHOW = ("python3", "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'][-1:], os.getuid(), os.getpid())")
WAIT = "import signal, sys; {}; print('up', flush=True); signal.pause()"
HANDLER = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))"


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (("K8SEL_DEVICES=1,0",), 0, "5 1000 1"),
        (("K8SEL_DEVICES=0,1",), 0, "7 1000 1"),
        (("K8SEL_COUNT=2",), 0, "7 1000 1"),
        (("K8SEL_COUNT=3",), 78, "3 cuda devices expected, 2 found"),
        (("K8SEL_DEVICES=2,0",), 78, "3 or more cuda devices expected, 2 found"),
        (("K8SEL_COUNT=2", "K8SEL_PRODUCT=NVIDIA-L4"), 78, "product NVIDIA-L4 expected, "),
        (("K8SEL_COUNT=2", "CUDA_VISIBLE_DEVICES=7"), 78, "CUDA_VISIBLE_DEVICES=7 is set, "),
        (("K8SEL_COUNT=2", "K8SEL_ORDER=none"), 78, "K8SEL_ORDER=none is none of pci, fastest"),
        (("K8SEL_ACCELERATOR=xpu", "K8SEL_DEVICES=1,0"), 78, "devices [1, 0] cannot keep that order"),
        (("K8SEL_COUNT=2", "K8SEL_CHECK=warn", "K8SEL_PRODUCT=NVIDIA-L4"), 0, "7 1000 1"),
    ],
)
def test_plain_variables_say_what_to_find(
    docker_daemon: Docker, image: str, given: tuple[str, ...], status: int, said: str
) -> None:
    variables = [word for each in given for word in ("-e", each)]
    show = ("python3", "-c", SHOW[2].replace("[-1:]", ".split(',')[0][-1]"))
    done = docker_daemon("run", "--rm", *GPUS, *variables, image, *show, check=False)
    assert done.returncode == status
    assert said in (done.stderr if status else done.stdout)


@pytest.mark.parametrize("init", [(), ("--init",)])
@pytest.mark.parametrize(
    ("program", "status"),
    [("pass", 0), ("sys.exit(1)", 1), ("sys.exit(78)", 78), ("os.kill(os.getpid(), 9)", 137)],
)
def test_the_exit_status_is_the_programs(
    docker_daemon: Docker, image: str, init: tuple[str, ...], program: str, status: int
) -> None:
    if not init and status == 137:  # the kernel lets process 1 not even kill itself
        program = "sys.exit(137)"
    words = ("run", "--rm", *init, *CPU, image, "python3", "-c", f"import os, sys; {program}")
    assert docker_daemon(*words, check=False).returncode == status


@pytest.mark.parametrize(
    ("init", "handler", "status"),
    [
        ((), HANDLER, 5),
        (("--init",), HANDLER, 5),
        ((), "pass", 137),  # process 1 without a handler ignores SIGTERM, so SIGKILL follows
        (("--init",), "pass", 143),
    ],
)
def test_sigterm_reaches_the_program(
    docker_daemon: Docker, image: str, init: tuple[str, ...], handler: str, status: int
) -> None:
    started = docker_daemon("run", "-d", *init, *CPU, image, "python3", "-c", WAIT.format(handler))
    container = started.stdout.strip()
    try:
        with subprocess.Popen(
            ["docker", "logs", "-f", container],
            env=docker_daemon.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as logs:
            assert logs.stdout is not None
            assert logs.stdout.readline() == b"up\n"
            docker_daemon("stop", "-t", "2", container)
        assert docker_daemon("wait", container).stdout.strip() == str(status)
    finally:
        docker_daemon("rm", "-f", container)


ORPHAN = """
import subprocess, time
from pathlib import Path
orphan = subprocess.run(["sh", "-c", "sleep 0.1 > /dev/null & echo $!"], capture_output=True, text=True).stdout.strip()
status, end = Path("/proc", orphan, "stat"), time.monotonic() + 3
while status.exists() and time.monotonic() < end:
    time.sleep(0.02)
print(status.read_text().split()[2] if status.exists() else "reaped")
"""


@pytest.mark.parametrize(("init", "end"), [((), "Z"), (("--init",), "reaped")])
def test_whose_zombies_they_are(docker_daemon: Docker, image: str, init: tuple[str, ...], end: str) -> None:
    said = docker_daemon("run", "--rm", *init, *CPU, image, "python3", "-c", ORPHAN).stdout
    assert said.strip() == end


def test_k8sel_docker_leaves_no_zombies(docker_daemon: Docker) -> None:
    assert docker_daemon.k8sel(text=job("python3", "-c", ORPHAN)).stdout == "reaped\n"


def test_it_adds_little_to_its_base(docker_daemon: Docker, image: str) -> None:
    base, own = (int(docker_daemon("inspect", "-f", "{{.Size}}", name).stdout) for name in (BASE, image))
    assert 0 < own - base < 100_000


RANK = "import os; os.write(1, (os.environ['LOCAL_RANK'] + ' ' + os.environ['CUDA_VISIBLE_DEVICES'] + '\\n').encode())"


@pytest.mark.torch
def test_torchrun_by_hand(docker_daemon: Docker, image: str, torch_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANK)
    tmp_path.chmod(0o755)
    mounts = ("-v", f"{machine.CACHE / 'torch'}:/opt/torch:ro", "-v", f"{tmp_path}:/job:ro")
    given = ("-e", "K8SEL_DEVICES=2,0", "-e", "K8SEL_ACCELERATOR=cuda")
    torchrun = ("torchrun", "--nproc-per-node", "2", "/job/train.py")
    done = docker_daemon("run", "--rm", "--gpus", "all", *mounts, *given, image, *torchrun)
    mask = ",".join(f"GPU-00000000-0000-0000-0000-00000000000{minor}" for minor in (5, 7))
    assert sorted(done.stdout.splitlines()) == [f"0 {mask}", f"1 {mask}"], done.stderr


def test_without_a_command_it_says_its_variables(docker_daemon: Docker, image: str) -> None:
    said = docker_daemon("run", "--rm", image).stdout
    assert "K8SEL_DEVICES" in said


def test_a_job_uses_the_entrypoint_that_is_built_in(docker_daemon: Docker, image: str) -> None:
    spec = {"image": image, "entrypoint": {"mode": "image"}, "accelerator": {"type": "cuda", "devices": [2, 0]}}
    done = docker_daemon.k8sel(text=job(*SHOW, **spec))
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["7", "1000"]), done.stderr


@pytest.fixture(scope="module")
def cli_image(docker_daemon: Docker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Dockerfile's other image: what pip would install is this Python's own."""
    context = tmp_path_factory.mktemp("cli")
    shutil.copy(ROOT / "Dockerfile", context)
    shutil.copytree(ROOT / "k8sel", context / "k8sel", ignore=shutil.ignore_patterns("__pycache__"))
    site = context / "build" / "site"
    builder().install(ROOT, site, context / "pins.txt")
    docker_daemon("build", "-q", "--build-arg", f"BASE={BASE}", "--target", "cli", "-t", "cli", str(context))
    return "cli"


def test_the_command_line_is_an_image_too(docker_daemon: Docker, cli_image: str) -> None:
    env = docker_daemon.env
    words = ["docker", "run", "-i", "--rm", cli_image, "render", "-q", "-o", "json", "-"]
    done = subprocess.run(words, input=job("echo"), env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "List"
