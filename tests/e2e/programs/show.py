"""Says what a rank was given, without torch: its words, its variables, its folder, its /dev/shm, its devices."""

import json
import os
import socket
import sys
from pathlib import Path

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "OMP_NUM_THREADS")

memory = os.statvfs("/dev/shm")
seen = {
    "words": sys.argv[1:],
    "env": {name: value for name, value in os.environ.items() if name in NAMES or name.startswith("MY_")},
    "folder": str(Path.cwd()),
    "memory": memory.f_blocks * memory.f_frsize,
    "host": socket.gethostname(),
    "nodes": sorted(str(node) for node in Path("/dev").glob("nvidia[0-9]*")),
}
os.write(1, f"shown {json.dumps(seen)}\n".encode())  # one write: several ranks share the log
