"""Dates as people write them, certificates as text."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.stamps import DAY, at, iso, long_date, read_cert, read_date, syslog, write_cert

NOW = 1_767_312_000.0  # 2026-01-02 00:00:00


def test_forms() -> None:
    assert (iso(NOW), long_date(NOW), syslog(NOW)) == (
        "2026-01-02 00:00:00",
        "Jan 02 00:00:00 2026 GMT",
        "Jan 02 00:00:00",
    )
    assert at(-5).year == 1970 and at(1e18).year > 9000


def test_a_certificate_reads_as_written() -> None:
    text = write_cert("api.svc.internal", NOW - DAY, NOW + DAY)
    cert = read_cert(text)
    assert cert is not None
    assert (cert.subject, cert.begins, cert.ends) == ("api.svc.internal", NOW - DAY, NOW + DAY)
    assert write_cert("api.svc.internal", NOW - DAY, NOW + DAY) == text


@pytest.mark.parametrize("old", ["-----BEGIN CERTIFICATE-----", "Not After: ", "Not Before: Jan"])
def test_what_is_no_certificate(old: str) -> None:
    assert read_cert(write_cert("a", NOW, NOW).replace(old, "x")) is None
    assert read_cert("") is None


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-05 06:07:08",
        "2026-01-05T06:07:08",
        "2026-01-05T06:07:08Z",
        "@1767593228",
        "Jan 05 06:07:08 2026 GMT",
        "20260105 06:07:08",
        "Mon Jan 05 06:07:08 2026",
        "Mon Jan 5 06:07:08 UTC 2026",
        "Mon, 05 Jan 2026 06:07:08 GMT",
        "'2026-01-05 06:07:08'",
        "5 Jan 2026 06:07:08",
        "2026-01-05 06:07:08 UTC",
        "2026-01-05 06:07:08.123",
        "010506072026.08",
    ],
)
def test_dates_as_people_write_them(text: str) -> None:
    assert read_date(text, NOW) == 1_767_593_228.0


def test_a_time_of_day_is_today() -> None:
    assert read_date("06:07:08", NOW) == NOW + 6 * 3600 + 7 * 60 + 8
    assert read_date("06:07", NOW) == NOW + 6 * 3600 + 7 * 60


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01 00:00:00", "@", "@x", "25:00", "\0", "٢٠٢٦"])
def test_what_is_no_date(text: str) -> None:
    assert read_date(text, NOW) is None
