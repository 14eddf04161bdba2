"""ss, lsof, curl, dig and their like: ports, names and answers of the simulated machine alone.

Nothing here opens a connection: every answer is computed from the machine.
"""

from __future__ import annotations

import json
import re

from roleagent_lite.envs.shell.commands.call import Call, Said, columns, count, read
from roleagent_lite.envs.shell.health import ZONE, address_of, run_problem, settings_of
from roleagent_lite.envs.shell.machine import Process, Service
from roleagent_lite.envs.shell.stamps import at, long_date, read_cert

_URL = re.compile(r"(?:(https?)://)?(?:[^/@]*@)?([A-Za-z0-9.\-]{1,253})(?::([0-9]{1,5}))?(/.*)?", re.DOTALL)
_WORDS = {
    200: "OK", 401: "Unauthorized", 495: "SSL Certificate Error", 502: "Bad Gateway",
    503: "Service Unavailable", 504: "Gateway Timeout", 507: "Insufficient Storage",
}  # fmt: skip


def _listeners(call: Call) -> list[Process]:
    return sorted((p for p in call.machine.processes.values() if p.port), key=lambda p: (p.port, p.pid))


def ss(call: Call) -> Said:
    options = read(call.words, valued="f")
    rows = [["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Process"]]
    wanted = [word.lstrip(":") for word in options.rest if word.lstrip(":").isdigit()]
    for process in _listeners(call):
        if wanted and str(process.port) not in wanted:
            continue
        who = f'users:(("{process.name[:15]}",pid={process.pid},fd=6))' if options.has("p") else ""
        rows.append(["LISTEN", "0", "4096", f"*:{process.port}", "*:*", who])
    return Said(columns(rows, 2))


def lsof(call: Call) -> Said:
    """`-i :PORT`, `-i`, `-p PID`; of files only the locks that services hold are known."""
    options = read(call.words, valued="ipu")
    ports = re.findall(r":([0-9]{1,5})", " ".join([options.value("i") or "", *options.rest]))
    rows = [["COMMAND", "PID", "USER", "NAME"]]
    for process in sorted(call.machine.processes.values(), key=lambda p: p.pid):
        service = call.machine.services.get(process.unit or "")
        lock = (
            service.lock
            if service is not None and not service.helper and service.pid == process.pid
            else None
        )
        if options.value("p") not in (None, str(process.pid)):
            continue
        if (
            process.port
            and (not ports or str(process.port) in ports)
            and (options.has("i") or not options.rest)
        ):
            rows.append([process.name[:15], str(process.pid), process.user, f"TCP *:{process.port} (LISTEN)"])
        if lock and (lock in map(call.path, options.rest) or options.has("p")):
            rows.append([process.name[:15], str(process.pid), process.user, lock])
    if len(rows) == 1:
        return Said(code=1)
    if options.has("t"):
        return Said("".join(f"{pid}\n" for pid in sorted({row[1] for row in rows[1:]}, key=int)))
    return Said(columns(rows))


def _certificate_error(call: Call, service: Service) -> str | None:
    if not service.tls:
        return None
    path = settings_of(service, call.files).values.get("tls_cert", service.cert)
    cert = read_cert(call.files.text(path) or "")
    if cert is None:
        return "unable to get local issuer certificate"
    return None if cert.begins <= call.machine.now <= cert.ends else "certificate has expired"


def _answer(call: Call, service: Service) -> tuple[int, str]:
    problem = run_problem(service, call.files, call.machine)
    if problem is None:
        return 200, json.dumps({"service": service.name, "status": "ok"})
    return problem.status, json.dumps({"service": service.name, "status": "error", "error": problem.text})


def curl(call: Call) -> Said:
    options = read(
        call.words, valued="omwXHdumAebT",
        long_valued=("max-time", "connect-timeout", "header", "data", "request", "output", "write-out",
                     "resolve", "cacert", "retry"),
    )  # fmt: skip
    if not options.rest:
        return call.fail("no URL specified", 2)
    found = _URL.fullmatch(options.rest[0])
    if found is None:
        return call.fail(f"(3) URL rejected or protocol not supported: {options.rest[0][:100]}", 3)
    secure, host = found[1] == "https", found[2]
    port = int(found[3] or (443 if secure else 80))
    address = address_of(host, call.files, call.machine)
    if address is None:
        return call.fail(f"(6) Could not resolve host: {host}", 6)
    if not call.machine.ours(address):
        return call.fail(
            f"(28) Failed to connect to {host} ({address}) port {port}: Connection timed out", 28
        )
    process = call.machine.listener(port)
    if process is None:
        return call.fail(f"(7) Failed to connect to {host} port {port}: Connection refused", 7)
    service = call.machine.services.get(process.unit or "")
    if service is None:
        code, body, error = 200, f"<html><body>{process.name}</body></html>", None
    else:
        (code, body), error = _answer(call, service), _certificate_error(call, service) if secure else None
    if error and not options.has("k", "insecure"):
        return call.fail(f"(60) SSL certificate problem: {error}", 60)
    now = f"{at(call.machine.clock):%a, %d %b %Y %H:%M:%S} GMT"
    head = f"HTTP/1.1 {code} {_WORDS.get(code, '')}\ndate: {now}\n\n"
    out = (
        head
        if options.has("I", "head")
        else (head if options.has("i", "include", "v", "verbose") else "") + body + "\n"
    )
    target = options.value("o", "output")
    if target:
        if target != "/dev/null":
            call.files.write(call.path(target), body + "\n")
        out = ""
    form = options.value("w", "write-out") or ""
    out += form.replace("%{http_code}", str(code)).replace("%{response_code}", str(code)).replace("\\n", "\n")
    if code >= 400 and options.has("f", "fail"):
        return Said(err=f"curl: (22) The requested URL returned error: {code}\n", code=22)
    return Said(out)


def wget(call: Call) -> Said:
    words = [w for w in call.words if not w.startswith("-") or w == "--no-check-certificate"]
    insecure = "--no-check-certificate" in words
    urls = tuple(w for w in words if not w.startswith("-"))[-1:]
    return curl(
        Call("wget", (*(["-k"] if insecure else []), *urls), call.stdin, call.cwd, call.files, call.machine)
    )


def _names(call: Call) -> list[str]:
    words = [w for w in call.words if not w.startswith(("-", "+", "@"))]
    return [w for w in words if w.upper() not in ("A", "AAAA", "ANY", "IN", "HOSTS", "AHOSTS", "AHOSTSV4")]


def dig(call: Call) -> Said:
    """What the name server says; /etc/hosts does not count here."""
    names = _names(call)
    if not names:
        return call.fail("no name given")
    found = call.machine.named(names[0], call.files.text(ZONE) or "")
    if "+short" in call.words:
        return Said(f"{found}\n" if found else "")
    if found is None:
        return Said(f";; ->>HEADER<<- status: NXDOMAIN\n;; QUESTION SECTION:\n;{names[0]}. IN A\n")
    return Said(
        f";; ->>HEADER<<- status: NOERROR\n;; ANSWER SECTION:\n{names[0]}. 300 IN A {found}\n"
        f";; SERVER: {call.machine.ip}#53\n"
    )


def nslookup(call: Call) -> Said:
    names = _names(call)
    found = call.machine.named(names[0], call.files.text(ZONE) or "") if names else None
    if found is None:
        return Said(f"** server can't find {names[0] if names else '(no name)'}: NXDOMAIN\n", code=1)
    return Said(f"Server: {call.machine.ip}\n\nName: {names[0]}\nAddress: {found}\n")


def getent(call: Call) -> Said:
    """`hosts NAME` as the services see it (/etc/hosts first); `passwd [NAME]`."""
    if call.words[:1] == ("passwd",):
        rows = (call.files.text("/etc/passwd") or "").splitlines()
        rows = [row for row in rows if len(call.words) < 2 or row.split(":")[0] in call.words[1:]]
        return Said("".join(f"{row}\n" for row in rows), code=0 if rows else 2)
    found = [(name, address_of(name, call.files, call.machine)) for name in _names(call)]
    out = "".join(f"{address:15} {name}\n" for name, address in found if address)
    return Said(out, code=0 if out else 2)


def ping(call: Call) -> Said:
    options = read(call.words, valued="cWwi")
    if not options.rest:
        return call.fail("usage error: Destination address required", 2)
    name = options.rest[-1]
    address = address_of(name, call.files, call.machine)
    if address is None:
        return call.fail(f"{name}: Name or service not known", 2)
    times = min(count(options.value("c"), 3), 5)
    up = call.machine.ours(address)
    lines = (
        [f"64 bytes from {address}: icmp_seq={n} ttl=64 time=0.2 ms" for n in range(1, times + 1)]
        if up
        else []
    )
    end = f"{times} packets transmitted, {len(lines)} received, {0 if up else 100}% packet loss"
    return Said("\n".join([f"PING {name} ({address})", *lines, end]) + "\n", code=0 if up else 1)


def nc(call: Call) -> Said:
    options = read(call.words, valued="wpq")
    if len(options.rest) < 2 or options.has("l"):
        return call.fail("give a host and a port; listening is not possible here")
    host, port = options.rest[0], options.rest[1]
    address = address_of(host, call.files, call.machine)
    if address is None:
        return call.fail(f"getaddrinfo: {host}: Name or service not known")
    if not call.machine.ours(address):
        return call.fail(f"connect to {host} ({address}) port {port} failed: Connection timed out")
    if not port.isdigit() or len(port) > 5 or call.machine.listener(int(port)) is None:
        return call.fail(f"connect to {host} ({address}) port {port} failed: Connection refused")
    return Said(err=f"Connection to {host} ({address}) {port} port [tcp/*] succeeded!\n")


def ip(call: Call) -> Said:
    return Said(f"1: lo    inet 127.0.0.1/8\n2: eth0  inet {call.machine.ip}/24\n")


def openssl(call: Call) -> Said:
    """`x509 -in FILE …` and `s_client -connect HOST:PORT`."""
    words = call.words
    if words[:1] == ("s_client",):
        where = words[words.index("-connect") + 1] if "-connect" in words[:-1] else ""
        host, _, port = where.rpartition(":")
        process = call.machine.listener(int(port)) if port.isdigit() and len(port) < 6 else None
        service = call.machine.services.get(process.unit or "") if process else None
        if service is None or not call.machine.ours(address_of(host, call.files, call.machine)):
            return call.fail(f"connect: no answer from {where[:80] or 'nowhere'}")
        if not service.tls:
            return call.fail(f"{where}: wrong version number (no TLS there)")
        text = call.files.text(settings_of(service, call.files).values.get("tls_cert", service.cert)) or ""
        error = _certificate_error(call, service)
        return Said(f"CONNECTED\n{text}Verify return code: {f'10 ({error})' if error else '0 (ok)'}\n")
    if words[:1] != ("x509",):
        return call.fail(
            f"'{words[0] if words else ''}' is not available here: x509, s_client (certctl renew NAME issues "
            "certificates)"
        )
    given = call.files.text(call.path(words[words.index("-in") + 1])) if "-in" in words[:-1] else call.stdin
    text = given or ""
    cert = read_cert(text)
    if cert is None:
        return call.fail("unable to load certificate")
    rows = {"-subject": f"subject=CN = {cert.subject}", "-issuer": f"issuer={cert.issuer}",
            "-dates": f"notBefore={long_date(cert.begins)}\nnotAfter={long_date(cert.ends)}",
            "-startdate": f"notBefore={long_date(cert.begins)}",
            "-enddate": f"notAfter={long_date(cert.ends)}",
            "-serial": f"serial={cert.serial}"}  # fmt: skip
    if "-checkend" in words:
        left = cert.ends - call.machine.clock > count(words[-1], 0)
        return Said(f"Certificate will {'not ' if left else ''}expire\n", code=int(not left))
    chosen = [rows[word] for word in words if word in rows] or [text]
    return Said("\n".join(chosen).rstrip("\n") + "\n")


COMMANDS = {
    "ss": ss, "netstat": ss, "lsof": lsof, "curl": curl, "wget": wget, "dig": dig,
    "host": nslookup, "nslookup": nslookup, "getent": getent, "ping": ping, "nc": nc,
    "ip": ip, "ifconfig": ip, "openssl": openssl,
}  # fmt: skip
