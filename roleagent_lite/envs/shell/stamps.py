"""Dates and certificates as text: how the machine writes times, and the certificate files of its services.

A certificate file here is readable text between the usual marks; nothing in it is secret or signed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime

DAY = 86400
_FIELD = re.compile(r"^(Subject|Issuer|Not Before|Not After|Serial): (.{1,200})$", re.MULTILINE)
_FORMAT = "%b %d %H:%M:%S %Y GMT"


@dataclass(frozen=True, slots=True)
class Cert:
    """Times in seconds since 1970."""

    subject: str
    issuer: str
    begins: float
    ends: float
    serial: str


def at(seconds: float) -> datetime:
    """The time as a date in UTC; what no calendar holds becomes its first or last year."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), 253_000_000_000.0), UTC)


def long_date(seconds: float) -> str:
    return at(seconds).strftime(_FORMAT)


def iso(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%d %H:%M:%S")


def syslog(seconds: float) -> str:
    return at(seconds).strftime("%b %d %H:%M:%S")


def write_cert(subject: str, begins: float, ends: float) -> str:
    """A certificate for `subject`, valid from `begins` to `ends`."""
    serial = hashlib.sha256(f"{subject} {ends}".encode()).hexdigest()[:16].upper()
    return (
        "-----BEGIN CERTIFICATE-----\n"
        f"Subject: CN = {subject}\nIssuer: CN = Internal Issuing CA 2\nNot Before: {long_date(begins)}\n"
        f"Not After: {long_date(ends)}\nSerial: {serial}\n-----END CERTIFICATE-----\n"
    )


def read_cert(text: str) -> Cert | None:
    """The certificate in a text; None where there is none."""
    found = dict(_FIELD.findall(text)) if "-----BEGIN CERTIFICATE-----" in text else {}
    try:
        begins, ends = (
            datetime.strptime(found[key], _FORMAT).replace(tzinfo=UTC).timestamp()
            for key in ("Not Before", "Not After")
        )
    except (KeyError, ValueError):
        return None
    return Cert(
        found.get("Subject", "").removeprefix("CN = "),
        found.get("Issuer", ""),
        begins,
        ends,
        found.get("Serial", ""),
    )


def read_date(text: str, now: float) -> float | None:
    """Seconds since 1970 for what people give `date -s`: ISO dates, `@seconds`, a time of day; else None."""
    text = text.strip().strip("'\"")
    if re.fullmatch(r"@[0-9]{1,11}(\.[0-9]{1,9})?", text):
        return float(text[1:])
    day = at(now).strftime("%Y-%m-%d")
    shapes = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S",
              "%a %b %d %H:%M:%S %Y", "%d %b %Y %H:%M:%S",
              "%b %d %H:%M:%S %Y", "%Y%m%d %H:%M:%S", "%a, %d %b %Y %H:%M:%S", "%m%d%H%M%Y.%S")  # fmt: skip
    bare = re.sub(r" ?(UTC|GMT|Z|\+00:?00)(?= |$)", "", text).removesuffix("Z")
    bare = re.sub(r"\.[0-9]{1,9}$", "", bare) if ":" in bare else bare
    for candidate in (bare, f"{day} {bare}"):
        for shape in shapes:
            try:
                return datetime.strptime(candidate, shape).replace(tzinfo=UTC).timestamp()
            except ValueError:
                continue
    return None
