"""A wire between client and API server that a test can cut, to see what survives it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class Wire:
    """Passes bytes on, both ways. ``cut`` breaks every connection there is; new ones work."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        assert parts.hostname
        assert parts.port
        self.target = (parts.hostname, parts.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.open: list[socket.socket] = []
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends all connections, in the middle of whatever they carry."""
        ended, self.open = self.open, []
        self.cuts += 1
        for each in ended:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
                self.open += [near, far]
                threading.Thread(target=_carry, args=(near, far), daemon=True).start()


def _carry(near: socket.socket, far: socket.socket) -> None:
    """One connection, until either side ends it."""
    with near, far:
        back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
        back.start()
        _pass_on(near, far)
        back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire(target: str) -> Iterator[Wire]:
    """A wire to ``target``, gone at the block's end."""
    made = Wire(target)
    try:
        yield made
    finally:
        made.cut()
        with contextlib.suppress(OSError):
            made.listener.shutdown(socket.SHUT_RDWR)
        made.listener.close()
