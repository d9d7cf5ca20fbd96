"""The program ``k8sel``, also as ``python -m k8sel``."""

from __future__ import annotations

import atexit
import gc


def main() -> None:
    """Runs the command line. Nearly all that it allocates stays to the end, when all of it goes.

    To look on the way for what does not stay is 3 % of a rendering, and to look once more at the end 8 %.
    """
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    from k8sel.cli import main as run

    run()


if __name__ == "__main__":
    main()
