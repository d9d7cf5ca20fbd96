"""Rank 1 ends with a status; once it is gone, rank 0 stays for some seconds more: `fail.py FOLDER STATUS SECONDS`."""

import os
import sys
import time
from pathlib import Path

folder, status, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
other = folder / "pid"


def gone(pid: str) -> bool:
    """Reports whether it has ended: hydra waits for it only at the end."""
    try:
        return "\nState:\tZ" in Path("/proc", pid, "status").read_text()
    except OSError:
        return True


if os.environ["RANK"] == "1":
    (folder / "part").write_text(str(os.getpid()))
    (folder / "part").rename(other)
    sys.exit(status)
while not other.exists() or not gone(other.read_text()):
    time.sleep(0.05)
time.sleep(seconds)
os.write(1, b"rank 0 lived on\n")
