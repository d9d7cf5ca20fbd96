"""Prints, as JSON, the UUIDs of the GPUs that a CUDA program sees, in its order: by libcuda, or by torch.

Run as a program of its own, in the environment in question: `python cuda_devices.py [torch]`.
"""

from __future__ import annotations

import ctypes
import json
import sys
import uuid

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE, https://docs.nvidia.com/cuda/cuda-driver-api


def by_libcuda() -> list[str]:
    """Returns the devices that the driver gives to this process."""
    cuda = ctypes.CDLL("libcuda.so.1")
    status = cuda.cuInit(0)
    if status == NO_DEVICE:
        return []
    _succeeded("cuInit", status)
    count = ctypes.c_int()
    _succeeded("cuDeviceGetCount", cuda.cuDeviceGetCount(ctypes.byref(count)))
    return [_uuid(cuda, number) for number in range(count.value)]


def by_torch() -> list[str]:
    """Returns the devices that a training program sees."""
    import torch

    numbers = range(torch.cuda.device_count())
    return [f"GPU-{torch.cuda.get_device_properties(number).uuid}" for number in numbers]


def _uuid(cuda: ctypes.CDLL, number: int) -> str:
    raw = ctypes.create_string_buffer(16)
    _succeeded("cuDeviceGetUuid", cuda.cuDeviceGetUuid(raw, ctypes.c_int(number)))
    return f"GPU-{uuid.UUID(bytes=raw.raw)}"


def _succeeded(function: str, status: int) -> None:
    if status:
        sys.exit(f"{function}: error {status}")


if __name__ == "__main__":
    print(json.dumps(by_torch() if sys.argv[1:] == ["torch"] else by_libcuda()))
