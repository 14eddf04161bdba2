"""Takes out of a text what names a machine or a person: absolute paths, user and host names, private servers.

The same thing gets the same stand-in everywhere, so that records still fit together: `[path1]/tasks.jsonl`,
`[user]`, `[host]`, `server1`. Owns these rules. Leaves out keys (redact) and files (share). What a text says
about people or places in words is not recognised.
"""

from __future__ import annotations

import getpass
import ipaddress
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from roleagent_lite.redact import clean

_PART = r"[^\s/\\\"'<>|:;,()\[\]{}*?`]"
_POSIX = re.compile(rf"(?<![\w/.\]~])(?:file://)?(?P<folder>/(?:{_PART}+/)+)(?P<last>{_PART}*)")
_WINDOWS = re.compile(
    r"(?<![A-Za-z0-9])(?P<folder>(?:[A-Za-z]:|\\\\[\w.$-]+)[\\/]{1,2}(?:[^\\/\"'<>|:*?\n]+[\\/]{1,2})+)"
    rf"(?P<last>{_PART}*)"
)
_HOME = re.compile(r"(?:/home|/Users|/data/home|[\\/]+Users)[\\/]+([^\s/\\\"'<>|:;,]+)")
_URL = re.compile(r"(?<=://)(?P<before>[^\s/@\"'<>]*@)?(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+)")
_PRIVATE = (".local", ".lan", ".internal", ".intranet", ".corp", ".home", ".localdomain")
# Names that many machines share tell nothing, and some of them are ordinary words.
_COMMON = {"root", "user", "users", "admin", "ubuntu", "debian", "runner", "nobody", "docker", "app", "dev",
           "test", "build", "jovyan", "vscode", "codespace", "ec2-user", "localhost", "shared", "public",
           "work", "home", "agent", "world", "host", "local", "unknown", "none"}  # fmt: skip
_SHORTEST = 3  # letters; a shorter name is a part of too many words


def machine_names() -> tuple[set[str], set[str]]:
    """(user names, host names) of this process's machine, common ones left out."""
    users = {Path.home().name}
    try:
        users.add(getpass.getuser())
    except (OSError, KeyError):  # a container without an entry for its user
        users.discard("")
    host = platform.node()
    return _telling(users), _telling({host, host.partition(".")[0]})


def _telling(names: Iterable[str]) -> set[str]:
    return {n for n in names if len(n) >= _SHORTEST and n.lower() not in _COMMON and not n.isdigit()}


def home_names(text: str) -> set[str]:
    """User names that the home folders in a text tell, for a run that another machine played."""
    return _telling(_HOME.findall(text)) if "/" in text or "\\" in text else set()


class Anonymous:
    """`text` and `data` without what names machine or user; `counts`: how often each kind was replaced."""

    def __init__(self, users: Iterable[str], hosts: Iterable[str]) -> None:
        self.counts: dict[str, int] = {"paths": 0, "names": 0, "servers": 0}
        self._folders: dict[str, str] = {}
        self._servers: dict[str, str] = {}
        self._stand_ins = {n.lower(): "[host]" for n in hosts} | {n.lower(): "[user]" for n in users}
        words = sorted(self._stand_ins, key=len, reverse=True)
        self._names = re.compile(
            rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z0-9])", re.IGNORECASE
        ) if words else None  # fmt: skip

    def text(self, text: str) -> str:
        """Without keys either."""
        text = str(clean(text))
        if "://" in text:
            text = _URL.sub(self._server, text)
        if "\\" in text or ":/" in text:
            text = _WINDOWS.sub(self._path, text)
        if "/" in text:
            text = _POSIX.sub(self._path, text)
        return self._names.sub(self._name, text) if self._names is not None else text

    def data(self, value: Any) -> Any:
        """Plain data with every text in it, names included, so treated."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(k)): self.data(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(v) for v in value]
        return value

    def _path(self, found: re.Match[str]) -> str:
        self.counts["paths"] += 1
        folder = found["folder"].rstrip("/\\")
        known = self._folders.setdefault(folder, f"[path{len(self._folders) + 1}]")
        return f"{known}/{found['last']}" if found["last"] else known

    def _name(self, found: re.Match[str]) -> str:
        self.counts["names"] += 1
        return self._stand_ins[found[0].lower()]

    def _server(self, found: re.Match[str]) -> str:
        host = found["host"]
        if not _is_private(host):
            return found[0]
        self.counts["servers"] += 1
        return (found["before"] or "") + self._servers.setdefault(host, f"server{len(self._servers) + 1}")


def _is_private(host: str) -> bool:
    """Whether a URL's host is a machine of one's own network; this machine (loopback) names nothing."""
    if host.lower() == "localhost" or re.fullmatch(r"server\d+", host):
        return False
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        return address.is_private and not address.is_loopback and not address.is_unspecified
    except ValueError:
        return "." not in host or host.lower().endswith(_PRIVATE)
