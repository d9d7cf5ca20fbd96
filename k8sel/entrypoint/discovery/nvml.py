"""NVML, NVIDIA's management library, by ctypes. Called in a child process only: see k8sel.entrypoint.discovery.forked.

Prototypes and codes: NVIDIA/go-nvml, gen/nvml/nvml.h.
"""

from __future__ import annotations

import _thread
import ctypes
import os

from k8sel.entrypoint.lean import TYPE_CHECKING, sha256
from k8sel.entrypoint.machine import read

if TYPE_CHECKING:
    from typing import Any, Callable

_NAME = "libnvidia-ml.so.1"
# Folders that runtimes use without telling the loader: GKE's driver installer, WSL.
_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib")
_NO_PERMISSION, _NOT_FOUND = 4, 6
_UNSUPPORTED = (3, 13)  # Jetson Orin has no PCI address: NVIDIA/nvidia-container-toolkit pkg/nvcdi/lib-csv.go
_PART = 2**20  # bytes read at once
_CODES = {
    1: "not initialised",
    2: "invalid argument",
    3: "not supported",
    4: "no permission",
    6: "not found",
    9: "driver not loaded",
    12: "library not found",
    13: "function not found",
    15: "GPU is lost",
    17: "the operating system blocks it",
    18: "driver and library are of different versions",
    999: "unknown error",
}


class NvmlError(Exception):
    """A call that did not return 0."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: error {code} ({_CODES.get(code, 'see nvml.h')})")
        self.code = code


class _PciInfo(ctypes.Structure):
    """nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3."""

    _fields_ = [
        ("busIdLegacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("busId", ctypes.c_char * 32),
    ]


def look(folder: str) -> dict[str, Any]:
    """Returns devices as ``[PCI address or None, UUID, name, bytes]``, versions, notes and the library's own file.

    Raises OSError or NvmlError.

    Does not shut NVML down: the process that uses it ends at once, and the shutdown could hang, too.
    """
    library = _load(folder)
    identity = _identified(library)
    _call(library, "nvmlInit_v2")
    notes: list[str] = []
    devices = []
    for index in range(_number(library, "nvmlDeviceGetCount_v2")):
        try:
            devices += _devices_at(library, index)
        except NvmlError as error:
            # This GPU is not in this container: NVML also counts GPUs that it may not open.
            if error.code != _NO_PERMISSION:
                notes.append(f"NVML GPU {index}: {error}")
    versions = {"driver": _driver(library), "runtime": _runtime(library)}
    return {"devices": devices, **versions, "notes": notes, "library": identity()}


def _driver(library: Any) -> str:
    """Returns the driver's version; empty on an error, since the devices are known without it."""
    try:
        return _text(library, "nvmlSystemGetDriverVersion", 80)
    except NvmlError:
        return ""


def _runtime(library: Any) -> str:
    """Returns the newest CUDA that this container's driver library runs (12080 is 12.8); empty without that library."""
    try:
        number = _number(library, "nvmlSystemGetCudaDriverVersion_v2")
    except NvmlError:
        return ""
    return f"{number // 1000}.{number % 1000 // 10}"


def _load(folder: str) -> Any:
    paths = [os.path.join(folder, _NAME)] if folder else [_NAME, *(os.path.join(path, _NAME) for path in _FOLDERS)]
    for path in paths:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError(f"{_NAME} is not found (add utility to NVIDIA_DRIVER_CAPABILITIES)")


def _identified(library: Any) -> Callable[[], dict[str, str]]:
    """Starts to hash the library's file, beside the calls of the driver; the result waits for the end.

    An image or LD_LIBRARY_PATH may have another library than the driver's. Its path and hash stand in the receipt.
    """
    path, digests, hashed = _file(library), [""], _thread.allocate_lock()

    def work() -> None:
        try:
            digests.append(_digest(path))
        except OSError:  # the library was deleted after it was loaded
            pass
        hashed.release()

    def wait() -> dict[str, str]:
        hashed.acquire()
        return {"path": path, "sha256": digests[-1]}

    hashed.acquire()
    _thread.start_new_thread(work, ())
    return wait


def _file(library: Any) -> str:
    """Returns the file that the kernel has mapped where ``nvmlInit_v2`` is; empty if it does not show its maps."""
    function: Any = getattr(library, "nvmlInit_v2", None)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    for line in read("/proc/self/maps").splitlines():
        span, *_, path = line.split(None, 5)
        first, last = (int(end, 16) for end in span.split("-"))
        if first <= address < last:
            return path
    return ""


def _digest(path: str) -> str:
    """Returns the file's SHA-256."""
    digest = sha256()
    with open(path, "rb") as file:
        while part := file.read(_PART):
            digest.update(part)
    return digest.hexdigest()


def _devices_at(library: Any, index: int) -> list[list[Any]]:
    """Returns the GPU at ``index``, or its slices if it is partitioned (MIG): then no process can use it whole."""
    handle = ctypes.c_void_p()
    _call(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    handles = _slices(library, handle) if _is_partitioned(library, handle) else [handle]
    address = _if_supported(lambda: _address(library, handle))
    return [[address, *_described(library, each)] for each in handles]


def _address(library: Any, handle: ctypes.c_void_p) -> str:
    pci = _PciInfo()
    _call(library, "nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
    address: bytes = pci.busId
    return address.decode(errors="replace")


def _described(library: Any, handle: ctypes.c_void_p) -> list[Any]:
    """Returns UUID, name and memory of a GPU or a slice."""
    functions = ("nvmlDeviceGetUUID", "nvmlDeviceGetName")
    texts = [_if_supported(lambda: _text(library, function, 96, handle)) or "" for function in functions]  # noqa: B023
    return [*texts, _memory(library, handle)]


def _if_supported(ask: Callable[[], str]) -> str | None:
    """Returns the answer; None if this GPU has none."""
    try:
        return ask()
    except NvmlError as error:
        if error.code in _UNSUPPORTED:
            return None
        raise


def _memory(library: Any, handle: ctypes.c_void_p) -> int:
    """Returns the bytes in total; 0 if the driver has no number, as for GPUs that use the host's memory."""
    sizes = (ctypes.c_ulonglong * 3)()  # nvmlMemory_t: total, free, used
    try:
        _call(library, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(sizes))
    except NvmlError:
        return 0
    return sizes[0]


def _is_partitioned(library: Any, handle: ctypes.c_void_p) -> bool:
    now, pending = ctypes.c_uint(), ctypes.c_uint()
    try:
        _call(library, "nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(pending))
    except NvmlError:  # not supported: most GPUs
        return False
    return now.value == 1


def _slices(library: Any, handle: ctypes.c_void_p) -> list[ctypes.c_void_p]:
    slices = []
    for index in range(_number(library, "nvmlDeviceGetMaxMigDeviceCount", handle)):
        each = ctypes.c_void_p()
        try:
            _call(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(index), ctypes.byref(each))
        except NvmlError as error:
            if error.code not in (_NOT_FOUND, _NO_PERMISSION):  # an empty place, or another container's slice
                raise
        else:
            slices.append(each)
    return slices


def _number(library: Any, function: str, *arguments: Any) -> int:
    number = ctypes.c_uint()
    _call(library, function, *arguments, ctypes.byref(number))
    return number.value


def _text(library: Any, function: str, size: int, *arguments: Any) -> str:
    buffer = ctypes.create_string_buffer(size)
    _call(library, function, *arguments, buffer, ctypes.c_uint(size))
    return buffer.value.decode(errors="replace")


def _call(library: Any, function: str, *arguments: Any) -> None:
    """Raises NvmlError for any code but 0; a library that is too old for ``function`` counts as code 13."""
    try:
        pointer = getattr(library, function)
    except AttributeError:
        raise NvmlError(function, 13) from None
    code = pointer(*arguments)
    if code:
        raise NvmlError(function, code)
