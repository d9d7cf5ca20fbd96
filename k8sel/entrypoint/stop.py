"""The one way in which the entrypoint ends without starting the command."""

from __future__ import annotations

# Outside the ranges that shells (126..255), sysexits users and launchers give a meaning that restarts a pod;
# EX_CONFIG in BSD's sysexits.h. `restartPolicy: ExitCode` retries only >= 128.
MISMATCH = 78
OUTSIDE = 1  # what went wrong outside: mpirun could not reach a node


class Stop(Exception):
    """The command must not start: what a person has to read, each message a line, and the exit status."""

    def __init__(self, messages: list[str], status: int = MISMATCH) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages
        self.status = status
