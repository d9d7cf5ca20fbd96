"""Whatever the entrypoint is told, and whatever it finds: a message and status 78, soon; never an error of its own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.client import await_
from entrypoint.machines import Box, Gpu, devices, left_over, uuid
from entrypoint.trees import amd, drm, kfd
from k8sel.bundle import files, zipapp
from k8sel.entrypoint import discovery, protocol, report
from k8sel.entrypoint.discovery import normal_pci, opened, pci_order
from k8sel.entrypoint.machine import under
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.report import Stop
from k8sel.entrypoint.start import byhand

A, B = "0000:1a:00.0", "0000:3b:00.0"
BY_HAND = {"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "3"}
MOVED = (
    "K8SEL_ROOT is set, and the entrypoint ignores it: it always checks this machine. "
    "Remove the variable from the image's ENV and from spec.env"
)
OWN_ERROR = "internal error: "
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)
FIELDS = some.dictionaries(some.sampled_from([protocol._camel(name) for name in Expectation.__annotations__]), VALUES)


@given(FIELDS)
def test_an_expectation_of_wrong_kinds(fields: dict[str, Any]) -> None:
    text = json.dumps({"version": 1, "accelerator": "cuda", "devices": [0], **fields})
    with contextlib.suppress(ValueError):
        assert isinstance(protocol.parse(text), Expectation)


@given(some.text())
def test_an_expectation_of_any_text(text: str) -> None:
    with pytest.raises(ValueError, match="K8SEL_EXPECT is not"):
        protocol.parse(text)


@given(some.dictionaries(some.sampled_from(["COUNT", "DEVICES", "ORDER", "PRODUCT", "MEMORY", "CHECK"]), some.text()))
def test_any_text_by_hand(values: dict[str, str]) -> None:
    environ = {"K8SEL_ACCELERATOR": "cuda", **{f"K8SEL_{name}": value for name, value in values.items()}}
    with contextlib.suppress(Stop):
        assert byhand.expectation(environ, ["torchrun"]).accelerator == "cuda"


EXTREMES: dict[str, tuple[str, str]] = {
    "nested beyond reason": ('{"version":1,"devices":' + "[" * 90_000, "K8SEL_EXPECT is n"),
    "a nested value": ('{"version":1,"devices":' + "[" * 900 + "]" * 900 + "}", "K8SEL_EXPECT"),
    "a fraction": ('{"version":1,"accelerator":"cuda","devices":[0],"count":1.5}', "count cannot be 1.5"),
    "not a number": ('{"version":1,"accelerator":"cuda","devices":[0],"count":NaN}', "count cannot be nan"),
    "digits without end": ('{"version":1,"accelerator":"cuda","devices":[' + "9" * 9000 + "]}", "K8SEL_EXPECT"),
    "processes without end": (
        '{"version":1,"accelerator":"cuda","devices":[0],"processesPerNode":999999999}',
        "processesPerNode cannot be 999999999",
    ),
    "a position without end": ('{"version":1,"accelerator":"cuda","devices":[4294967296]}', "devices cannot be [42949"),
    "a long wrong value": ('{"version":1,"accelerator":["' + "x" * 9000 + '"],"devices":[]}', "xx..."),
    "what a terminal obeys": (
        '{"version":1,"accelerator":"\\u001b]0;\\u0007","devices":[0]}',
        "\\x1b]0;\\x07 is none of",
    ),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name: str, nvml_box: Box) -> None:
    text, message = EXTREMES[name]
    start = time.monotonic()
    end = nvml_box.start(env={"K8SEL_EXPECT": text})
    assert (end.status, end.out) == (78, "")
    assert message in end.message
    assert OWN_ERROR not in end.err
    assert len(end.message) < 500
    assert "\x1b" not in end.err
    assert time.monotonic() - start < 10


def test_a_count_by_hand_without_end(nvml_box: Box) -> None:
    end = nvml_box.start(env={"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "999999999"})
    assert end.message == "k8sel: K8SEL_COUNT=999999999 is not a whole number from 0 to 65536\n"


@pytest.mark.parametrize("position", [3, 5])
def test_a_position_beyond_the_count(position: int, nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(position, count=3))
    assert (end.status, end.out) == (78, "")
    assert end.message == (
        f"k8sel: node box: device {position} is beyond the count of 3: set the count to {position + 1} or more\n"
    )


def test_going_on_without_the_devices_is_not_with_all_the_others(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(5, check="warn"))
    assert end.mask == ""
    assert "no cuda device" in end.err


def test_a_product_as_the_driver_spells_it(nvml_box: Box) -> None:
    expect = devices(0, count=3, product=["NVIDIA H100 80GB HBM3"])
    assert nvml_box.start(expect=expect).status == 0


@pytest.mark.parametrize("text", ["", "Model: H100\n", "Device Minor:\n", "\ufffd:\ufffd\n"])
def test_information_that_is_half_readable(text: str, box: Box) -> None:
    box.gpus(Gpu(0, A), Gpu(1, B))
    box.write(f"proc/driver/nvidia/gpus/{B}/information", text)
    end = box.start(expect=devices(1, 0, count=2))
    assert (end.mask, end.receipt["how"]) == ("1,0", "device nodes")
    assert f"gpus/{B}/information has no Device Minor" in end.err


def test_information_without_a_location_is_named_by_its_folder(box: Box) -> None:
    box.gpus(Gpu(0, A), Gpu(1, B))
    box.write(f"proc/driver/nvidia/gpus/{A}/information", f"Device Minor: 0\nGPU UUID: {uuid(0)}\n")
    assert box.start(expect=devices(1, 0, count=2)).mask == f"{uuid(1)},{uuid(0)}"


def test_a_folder_that_is_no_address(box: Box) -> None:
    box.gpus(Gpu(0, A))
    box.write("proc/driver/nvidia/gpus/x/information", "Device Minor: 0\n")
    end = box.start(expect=devices(0))
    assert end.receipt["how"] == "device nodes"
    assert "'x' is no PCI address" in end.err


def test_a_node_with_nothing_behind_it_is_not_counted(box: Box) -> None:
    box.nodes(0)
    os.mkfifo(box.root / "dev/nvidia2")  # opens, and must not wait for its other end
    os.mknod(box.root / "dev/nvidia1", stat.S_IFSOCK | 0o600)  # cannot be opened
    end = box.start(expect=devices(0, count=3))
    assert "2 found by device nodes" in end.message
    assert "nvidia1 cannot be opened: No such device or address" in end.message
    assert box.start(expect=devices(0, count=2)).status == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_nodes_that_the_cgroup_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: str, flags: int) -> int:
        raise OSError({"a": errno.EPERM, "b": errno.EPERM, "c": errno.ENXIO, "d": errno.EBUSY}[path], "")

    monkeypatch.setattr(os, "open", deny)
    tried = opened.tried(["a", "b", "c", "d"])
    assert sorted(tried.refused) == ["a", "b", "c"]
    assert tried.notes == (
        "a, b cannot be opened: Operation not permitted",
        "c cannot be opened: No such device or address",
    )


def deny(monkeypatch: pytest.MonkeyPatch, **errors: int) -> None:
    """Makes the nodes of these names fail to open, with that error."""
    really = os.open

    def opened_or_not(path: str, flags: int, *more: Any) -> int:  # noqa: ANN401
        name = Path(path).name
        if name in errors:
            raise OSError(errors[name], "")
        return really(path, flags, *more)

    monkeypatch.setattr(os, "open", opened_or_not)


def amd_machine(box: Box) -> None:
    kfd(box, (0, "0"), (128, "1"), (129, "2"))
    drm(box, *amd((128, "1a"), (129, "3b")))


WITHOUT_ROCM = "ROCm finds no GPU if it cannot open one of its nodes"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("name", ["renderD128", "kfd"])
def test_a_node_without_permission_leaves_rocm_no_gpu(name: str, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROCm/rocm-systems projects/rocr-runtime/libhsakmt/src/topology.c: any error but ENOENT and EPERM ends it."""
    amd_machine(box)
    node = next(box.root.glob(f"dev/**/{name}"))
    node.chmod(0o660)
    deny(monkeypatch, **{name: errno.EACCES})
    found = discovery.find("rocm", under(str(box.root)))
    assert (found.devices, found.how) == ((), "KFD")
    assert found.notes == (
        f"{node} cannot be opened: Permission denied, but its group may: "
        f"podSecurityContext: {{supplementalGroups: [{node.stat().st_gid}]}}",
        WITHOUT_ROCM,
    )


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_node_that_the_cgroup_denies_is_another_containers_gpu(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    amd_machine(box)
    deny(monkeypatch, renderD128=errno.EPERM)
    found = discovery.find("rocm", under(str(box.root)))
    assert [(device.pci, device.number) for device in found.devices] == [("0000:3b:00.0", "0")]
    assert WITHOUT_ROCM not in found.notes


def test_a_render_node_with_nothing_behind_it_leaves_rocm_no_gpu(box: Box) -> None:
    amd_machine(box)
    (box.root / "dev/dri/renderD128").unlink()
    os.mknod(box.root / "dev/dri/renderD128", stat.S_IFSOCK | 0o600)
    end = box.start(expect={"accelerator": "rocm", "devices": [0], "count": 1})
    assert end.status == 78
    assert "1 rocm device expected, 0 found by KFD\n" in end.message
    assert f"No such device or address; {WITHOUT_ROCM}" in end.message


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize(("mode", "mapped"), [(0o600, True), (0o640, True), (0o660, False)])
def test_no_group_is_named_that_would_not_help(
    mode: int, mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number stands for every group that this user namespace does not map."""
    node = tmp_path / "node"
    node.touch()
    node.chmod(mode)
    if not mapped:
        monkeypatch.setattr(opened, "_UNMAPPED", node.stat().st_gid)
    deny(monkeypatch, node=errno.EACCES)
    assert opened.tried([str(node)]).notes == (f"{node} cannot be opened: Permission denied",)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_no_group_is_named_of_a_node_in_a_closed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, node=errno.EACCES)
    missing = str(tmp_path / "closed/node")  # as os.stat sees it
    tried = opened.tried([missing])
    assert (tried.refused, tried.notes) == ((missing,), (f"{missing} cannot be opened: Permission denied",))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_nodes_that_take_too_long_to_open_are_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "SECONDS", 0.2)
    monkeypatch.setattr(os, "open", lambda path, flags: time.sleep(9))
    tried = opened.tried(["a"])
    assert tried.refused == ()
    assert tried.notes == ("the device nodes were not tried: no answer in 0.2 s",)


def test_nodes_beyond_what_the_driver_shows_are_named(nvml_box: Box) -> None:
    nvml_box.nodes(0, 1, 2, 11)  # the fake driver knows no eleventh
    end = nvml_box.start(expect=devices(0, count=4))
    assert "3 found" in end.message
    assert "4 device nodes are in this container, NVML shows 3 of them" in end.message


def test_pci_domains_are_numbers() -> None:
    addresses = ["10000:01:00.0", "2000:01:00.0", "0000:0a:00.1", "0000:09:00.0", "0000:0a:00.0"]
    assert sorted(addresses, key=pci_order) == [addresses[number] for number in (3, 4, 2, 1, 0)]
    assert normal_pci("00010000:3B:00.0") == "10000:3b:00.0"


@pytest.mark.parametrize(
    "job", [{"K8SEL_EXPECT": '{"version":1,"accelerator":"cuda","devices":[2,0],"count":3}'}, BY_HAND]
)
@pytest.mark.parametrize("mode", ["node", "rank", "gate", "check"])
def test_an_image_cannot_move_the_check_to_a_tree_of_its_own(
    mode: str, job: dict[str, str], nvml_box: Box, tmp_path: Path
) -> None:
    """``ENV K8SEL_ROOT=/forged`` in an image, where the forged tree has all that the job expects."""
    archive = tmp_path / files.ARCHIVE
    archive.write_bytes(zipapp.build())
    words = [sys.executable, "-I", "-S", str(archive), mode, *(() if mode == "check" else ("--", "env"))]
    env = {**nvml_box.environ(None, job), "K8SEL_ROOT": str(nvml_box.root)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
    if mode == "check":
        report = json.loads(done.stdout.removeprefix("k8sel-report: "))
        assert (report["ok"], len(report["problems"])) == (False, 1)
        assert MOVED in report["problems"][0]
    else:
        assert (done.returncode, done.stdout) == (78, "")
        assert done.stderr.splitlines() == [f"k8sel: {MOVED}"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, nvml_box: Box) -> None:
    words = f'exec "$0" -I -S "$1" -- touch {nvml_box.root}/started {closed}'
    command = ["/bin/sh", "-c", words, sys.executable, str(nvml_box.entrypoint / "entrypoint.pyz")]
    for count, status in ((3, 0), (4, 78)):
        environ = nvml_box.environ(devices(0, count=count), {})
        assert subprocess.run(command, env=environ, check=False).returncode == status
        assert (nvml_box.root / "started").exists() == (status == 0)
        (nvml_box.root / "started").unlink(missing_ok=True)
    assert "4 cuda devices expected, 3 found" in (nvml_box.root / "termination-log").read_text()


def test_a_check_that_nobody_reads_ends_with_0(nvml_box: Box) -> None:
    words = 'exec "$0" -I -S "$1" check >&-'
    command = ["/bin/sh", "-c", words, sys.executable, str(nvml_box.entrypoint / "entrypoint.pyz")]
    done = subprocess.run(command, env=nvml_box.environ(devices(0), {}), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_termination_log_that_nobody_reads(nvml_box: Box) -> None:
    os.mkfifo(nvml_box.root / "log")
    end = nvml_box.start(expect=devices(0, count=4), env={"K8SEL_TERMINATION_LOG": str(nvml_box.root / "log")})
    assert end.status == 78


def test_an_environment_that_is_too_large_for_the_command(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, count=3), env={f"V{n}": "x" * 100_000 for n in range(15)})
    assert end.status == 0
    assert len(end.env["V14"]) == 100_000


def test_a_long_report_stays_in_one_piece(capfd: pytest.CaptureFixture[str]) -> None:
    problem = "ü" * 3000
    many = [["0000:00:00.0", uuid(0)]] * 128
    for fields in (
        {"problems": [], "devices": many, "ok": True},
        {"problems": [problem] * 9, "devices": many, "ok": False},
        {"problems": [], "notes": ["n" * 5000], "devices": [], "ok": True},
    ):
        report.node_report({"node": "w-0", **fields})
        line = capfd.readouterr().out
        found = json.loads(line.partition(report.MARK)[2])
        assert len(line.encode()) < 4096
        assert (found["node"], found["ok"], bool(found["problems"])) == ("w-0", fields["ok"], bool(fields["problems"]))


def test_sigterm_while_the_driver_hangs_ends_both(nvml_box: Box) -> None:
    words = [sys.executable, "-I", "-S", str(nvml_box.entrypoint / "entrypoint.pyz"), "--", "sleep", "77"]
    environ = nvml_box.environ(devices(0, count=3), {"FAKE_NVML_HANG": "1"})
    started = subprocess.Popen(words, env=environ)
    mine = [str(nvml_box.entrypoint), "sleep 77"]
    await_(lambda: len(left_over(mine)) == 2, what="child that asks the driver")
    started.terminate()
    assert started.wait(10) == -signal.SIGTERM
    await_(lambda: not left_over(mine), timeout=10, what="end of the child")


def test_a_python_without_parts_of_its_library_is_no_bug_of_k8sel(box: Box) -> None:
    """As Debian's python3-minimal, which has no json."""
    gone = "import sys; sys.modules.update(dict.fromkeys(('json', '_json')));"
    start = f"{gone} sys.path.insert(0, sys.argv.pop(1)); import start"
    command = [sys.executable, "-I", "-S", "-c", start, str(box.entrypoint / "entrypoint.pyz"), "--", "env"]
    done = subprocess.run(command, env=box.environ(devices(0), {}), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert "lacks json, a part of Python's standard library: install the whole Python" in done.stderr
    assert OWN_ERROR not in done.stderr
