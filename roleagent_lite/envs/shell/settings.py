"""A service's configuration file and unit file: what they hold, and the first thing that is wrong in them.

Owns the two formats. Leaves out what follows from a fault (health.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from roleagent_lite.envs.shell.machine import Service

_SIZE = re.compile(r"([0-9]{1,9})([KMG]?)", re.ASCII)
_UNITS = {"": 1 / 1024**2, "K": 1 / 1024, "M": 1.0, "G": 1024.0}


def _number(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high


def _address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(re.fullmatch(r"[A-Za-z0-9.-]{1,200}", host)) and _number(1, 65535)(port)


KEYS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "listen_port": (_number(1, 65535), "a port from 1 to 65535"),
    "workers": (_number(1, 64), "a whole number from 1 to 64"),
    "max_connections": (_number(1, 10000), "a whole number from 1 to 10000"),
    "log_level": (lambda text: text in ("debug", "info", "warn", "error"), "debug, info, warn or error"),
    "request_timeout": (lambda text: bool(re.fullmatch(r"[0-9]{1,5}(ms|s|m)", text)), "a time such as 30s"),
    "cache_size": (lambda text: bool(_SIZE.fullmatch(text)), "a size such as 256M"),
    "data_dir": (lambda text: text.startswith("/"), "an absolute path"),
    "lock_file": (lambda text: text.startswith("/"), "an absolute path"),
    "tls_cert": (lambda text: text.startswith("/"), "an absolute path"),
    "upstream": (_address, "host:port"),
}
_ALWAYS = ("listen_port", "data_dir", "lock_file")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a file says, by key; `problem`: the first thing wrong with it, "" = nothing."""

    values: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    def port(self, fallback: int) -> int:
        text = self.values.get("listen_port", "")
        return int(text) if _number(1, 65535)(text) else fallback


def read_settings(text: str, service: Service) -> Settings:
    """Lines `key = value`; `#` begins a comment. A service needs the keys that it was set up with."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            return Settings(values, f"line {number}: expected 'key = value', found '{line[:60]}'")
        if key not in KEYS:
            return Settings(values, f"line {number}: unknown key '{key[:60]}'")
        check, kind = KEYS[key]
        if not check(value):
            return Settings(values, f"line {number}: {key} must be {kind}, found '{value[:60]}'")
        values[key] = value
    wanted = [*_ALWAYS, *(["upstream"] if service.needs else []), *(["tls_cert"] if service.tls else [])]
    lacking = [key for key in wanted if key not in values]
    return Settings(values, f"missing key '{lacking[0]}'" if lacking else "")


def write_settings(service: Service, upstream: str | None) -> str:
    """The file as a service is set up with."""
    rows = [
        f"# {service.name} settings",
        f"listen_port = {service.port}",
        "workers = 4",
        "max_connections = 512",
        "log_level = info",
        "request_timeout = 30s",
        "cache_size = 64M",
        f"data_dir = {service.data}",
        f"lock_file = {service.lock}",
    ]
    if upstream:
        rows.append(f"upstream = {upstream}")
    if service.tls:
        rows.append(f"tls_cert = {service.cert}")
    return "\n".join(rows) + "\n"


def mebibytes(text: str) -> float | None:
    """A size such as 256M in MiB; None for what is none, or for `infinity`."""
    found = _SIZE.fullmatch(text.strip().removesuffix("B").removesuffix("i"))
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def unit_text(service: Service) -> str:
    """The unit file as a service is set up with."""
    binary = f"/opt/{service.name}/bin/{service.name}"
    options = "" if service.helper else f" --config {service.config}"
    return (
        f"[Unit]\nDescription={service.name} service\nAfter=network.target\n\n"
        f"[Service]\nUser={service.user}\nExecStart={binary}{options}\n"
        "Restart=on-failure\nRestartSec=5\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def unit_value(texts: list[str], key: str) -> str | None:
    """The last value of a key over a unit file and its drop-ins, in order; None where none sets it."""
    found = None
    for text in texts:
        for line in text.splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and name.strip() == key:
                found = value.strip() or None
    return found


def schema_of(text: str) -> tuple[int, bool]:
    """(version, dirty) of a schema file."""
    pairs = (line.partition("=") for line in text.splitlines())
    values = {key.strip(): value for key, equals, value in pairs if equals}
    version = values.get("version", "").strip()
    return (int(version) if version.isascii() and version.isdigit() and len(version) < 9 else 0), values.get(
        "dirty", ""
    ).strip() == "true"
