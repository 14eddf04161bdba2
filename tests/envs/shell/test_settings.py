"""Configuration and unit files: what is right, and the first thing that is wrong."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.machine import Service
from roleagent_lite.envs.shell.settings import (
    KEYS,
    mebibytes,
    read_settings,
    schema_of,
    unit_text,
    unit_value,
    write_settings,
)

SERVICE = Service("api", "systemd", "api", 8000, needs="db", tls=True)
TEXT = write_settings(SERVICE, "db.svc.internal:9000")


def test_what_is_written_reads_well() -> None:
    found = read_settings(TEXT, SERVICE)
    assert found.problem == "" and found.port(1) == 8000 and set(found.values) == set(KEYS)
    assert found.values["upstream"] == "db.svc.internal:9000"
    plain = Service("a", "systemd", "a", 1)
    assert read_settings(write_settings(plain, None), plain).problem == ""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("workers = 4", "wokers = 4", "line 3: unknown key 'wokers'"),
        ("workers = 4", "workers 4", "line 3: expected 'key = value'"),
        ("workers = 4", "workers = 0", "line 3: workers must be a whole number from 1 to 64, found '0'"),
        ("listen_port = 8000", "listen_port = 99999", "line 2: listen_port must be a port"),
        ("listen_port = 8000", "listen_port = ٣", "line 2: listen_port must be a port"),
        ("log_level = info", "log_level = loud", "debug, info, warn or error"),
        ("request_timeout = 30s", "request_timeout = 30", "a time such as 30s"),
        ("cache_size = 64M", "cache_size = big", "a size such as"),
        ("data_dir = /var", "data_dir = var", "an absolute path"),
        ("upstream = db.svc.internal:9000", "upstream = db", "host:port"),
        ("upstream = db.svc.internal:9000\n", "", "missing key 'upstream'"),
        ("listen_port = 8000\n", "", "missing key 'listen_port'"),
        ("tls_cert = /etc/ssl/api/fullchain.pem\n", "", "missing key 'tls_cert'"),
        ("max_connections = 512", "max_connections = -1", "from 1 to 10000"),
    ],
)
def test_the_first_thing_wrong_is_named_with_its_line(old: str, new: str, problem: str) -> None:
    assert old in TEXT
    assert problem in read_settings(TEXT.replace(old, new), SERVICE).problem


@pytest.mark.parametrize(
    "change", ["workers = 4  # four", "  workers=4  ", "# x\n\nworkers = 4", "workers = 4\nworkers = 5"]
)
def test_spaces_comments_and_repeated_keys_do_no_harm(change: str) -> None:
    assert read_settings(TEXT.replace("workers = 4", change), SERVICE).problem == ""


def test_a_port_that_is_none_falls_back() -> None:
    assert read_settings("listen_port = x", SERVICE).port(77) == 77
    assert read_settings("\0\xff = \ud800", SERVICE).problem.startswith("line 1: unknown key")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64M", 64.0),
        ("1G", 1024.0),
        ("512K", 0.5),
        ("1048576", 1.0),
        ("64MB", 64.0),
        ("1Gi", 1024.0),
        ("infinity", None),
        ("", None),
        ("-1M", None),
    ],
)
def test_sizes(text: str, size: float | None) -> None:
    assert mebibytes(text) == size


def test_the_last_value_over_unit_and_drop_ins_counts() -> None:
    unit = unit_text(SERVICE)
    assert unit_value([unit], "User") == "api" and unit_value([unit], "MemoryMax") is None
    assert unit_value([unit, "[Service]\nMemoryMax=1M\n", "MemoryMax = 2M"], "MemoryMax") == "2M"
    assert unit_value(["MemoryMax=1M", "MemoryMax="], "MemoryMax") is None
    assert "--config" not in unit_text(Service("h", "systemd", "batch", 0, helper=True))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("version=41\ndirty=true\n", (41, True)),
        ("version = 7", (7, False)),
        ("", (0, False)),
        ("version=x", (0, False)),
        ("version=²", (0, False)),
        ("version=99999999999", (0, False)),
        ("dirty=TRUE\nno line", (0, False)),
    ],
)
def test_schema_files(text: str, found: tuple[int, bool]) -> None:
    assert schema_of(text) == found
