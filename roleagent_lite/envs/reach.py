"""Whether anything listens at an address on this computer: asked before a run that needs it begins.

Owns the one question. Leaves out servers elsewhere, which a proxy may lie before: of them it is not asked.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

HERE = ("127.0.0.1", "localhost", "::1")
TIMEOUT = 5.0  # seconds
_PORTS = {"http": 80, "https": 443}


def listens(url: str) -> bool:
    """False where `url` lies on this computer and takes no connection, or has no port; else True."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        return False
    if parts.hostname not in HERE:
        return True
    try:
        socket.create_connection((parts.hostname, port), TIMEOUT).close()
    except OSError:
        return False
    return True
