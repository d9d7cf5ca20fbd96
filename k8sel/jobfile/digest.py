"""sha256 by the interpreter's own code: ``hashlib`` loads OpenSSL first, and that is 3 ms of each start.

CPython's Lib/random.py takes its sha512 the same way, for the same reason. Where a Python has no such module, hashlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["sha256"]

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # Python >= 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256
