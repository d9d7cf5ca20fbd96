"""The program ``k8sel``, also as ``python -m k8sel``."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys


def main() -> None:
    """Runs the command line. Nearly all that it allocates stays to the end, when all of it goes.

    To look on the way for what does not stay is 3 % of a rendering, and to look once more at the end 8 %.
    """
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    from k8sel.cli.main import main as run

    try:
        run()
    except SystemExit as end:
        _end_with_readers(end.code)
        raise
    _end_with_readers(0)


def _end_with_readers(status: object) -> None:
    """Ends here and now where threads still read a cluster or a daemon, once the exit handlers have run.

    The interpreter's own end takes their connections away under them, and OpenSSL its memory: a thread that reads just
    then ends the program with SIGSEGV. docs.python.org, threading: daemon threads are abruptly stopped at shutdown.
    """
    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1 or not isinstance(status, int):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
