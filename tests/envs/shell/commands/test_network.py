"""Ports, names and answers."""

from __future__ import annotations

import json

import pytest

from roleagent_lite.envs.shell.commands.call import Call
from roleagent_lite.envs.shell.commands.network import (
    curl,
    dig,
    getent,
    ip,
    lsof,
    nc,
    nslookup,
    openssl,
    ping,
    ss,
    wget,
)
from roleagent_lite.envs.shell.health import HOSTS
from roleagent_lite.envs.shell.runtime import stop
from roleagent_lite.envs.shell.stamps import write_cert
from tests.envs.shell.bench import Bench


def test_who_listens_where(bench: Bench) -> None:
    victim = bench.victim
    text = bench.out(ss, "-ltnp")
    assert f"*:{victim.port}" in text and f"pid={victim.pid}" in text and "*:22" in text
    assert "pid=" not in bench.out(ss, "-ltn")
    assert bench.out(ss, f"-ltnp sport = :{victim.port}").count("LISTEN") == 1
    assert str(victim.pid) in bench.out(lsof, f"-i :{victim.port}") and str(bench.peer.pid) not in bench.out(
        lsof, f"-i :{victim.port}"
    )
    assert str(victim.pid) in bench.out(lsof, f"-nP -iTCP:{victim.port}") and victim.lock in bench.out(
        lsof, f"-p {victim.pid}"
    )
    assert bench.out(lsof, f"-t -i :{victim.port}") == f"{victim.pid}\n"
    assert victim.lock in bench.out(lsof, victim.lock) and bench.call(lsof, "-i :1").code == 1


def test_curl_tells_health(bench: Bench) -> None:
    victim = bench.victim
    url = f"https://{victim.address}:{victim.port}/health"
    assert json.loads(bench.out(curl, f"-s {url}")) == {"service": victim.name, "status": "ok"}
    words = ("-s", "-o", "/dev/null", "-w", "%{http_code}\\n", url)
    assert curl(Call("curl", words, "", "/", bench.files, bench.machine)).out == "200\n"
    assert bench.out(curl, f"-sI {url}").startswith("HTTP/1.1 200 OK\ndate: ")
    stop(bench.peer, bench.files, bench.machine)
    assert "connection refused" in bench.out(curl, f"-s localhost:{victim.port}")
    assert "502 Bad Gateway" in bench.out(curl, f"-i localhost:{victim.port}")
    assert bench.call(curl, f"-sf localhost:{victim.port}").code == 22
    assert "(7)" in bench.call(curl, f"localhost:{bench.peer.port}").err
    bench.out(curl, f"localhost:{victim.port} -o /tmp/answer")
    assert '"error"' in (bench.files.text("/tmp/answer") or "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", 2),
        ("ftp://x/y", 3),
        ("file:///etc/passwd", 3),
        ("nowhere.example", 6),
        ("8.8.8.8", 28),
        ("localhost:1", 7),
        ("http://[::1]:80", 3),
        ("localhost:99999", 7),
    ],
)
def test_curl_says_what_does_not_go(bench: Bench, line: str, code: int) -> None:
    said = bench.call(curl, line)
    assert (said.code, said.err.startswith("curl: ")) == (code, True)


def test_a_bad_certificate_stops_curl_unless_told(bench: Bench) -> None:
    victim = bench.victim
    bench.files.write(victim.cert, write_cert("x", 0, 5))
    said = bench.call(curl, f"https://localhost:{victim.port}")
    assert said.code == 60 and "certificate has expired" in said.err
    assert '"status": "error"' in bench.out(curl, f"-k https://localhost:{victim.port}")
    bench.files.write(victim.cert, "")
    assert "issuer" in bench.call(curl, f"https://localhost:{victim.port}").err
    assert "certificate" in bench.call(wget, f"-q -O - https://localhost:{victim.port}").err
    assert "error" in bench.out(wget, f"--no-check-certificate https://localhost:{victim.port}")


def test_a_stranger_on_a_port_answers_too(bench: Bench) -> None:
    bench.machine.spawn("deploy", "/usr/bin/python3 -m http.server 8099", port=8099)
    assert "python3" in bench.out(curl, "localhost:8099")


def test_names_by_server_and_by_machine(bench: Bench) -> None:
    name, real = bench.peer.address, bench.machine.ip
    assert bench.out(dig, f"+short {name}") == f"{real}\n" and f"IN A {real}" in bench.out(
        dig, f"@10.0.0.2 {name} A"
    )
    bench.edit(HOSTS, "127.0.0.1 localhost", f"127.0.0.1 localhost\n10.200.0.9 {name}")
    assert real in bench.out(dig, name) and real in bench.out(nslookup, name)
    assert bench.out(getent, f"hosts {name}").split() == ["10.200.0.9", name]
    assert "100% packet loss" in bench.call(ping, f"-c 2 {name}").out
    assert "NXDOMAIN" in bench.out(dig, "nowhere") and bench.out(dig, "+short nowhere") == ""
    assert bench.call(nslookup, "nowhere").code == 1 and bench.call(getent, "hosts nowhere").code == 2
    assert bench.call(dig, "").code == 1
    assert bench.out(getent, f"passwd {bench.victim.user}").startswith(f"{bench.victim.user}:x:")


def test_ping_nc_and_addresses(bench: Bench) -> None:
    assert "3 received" in bench.out(ping, "localhost") and "5 received" in bench.out(ping, "-c 99 localhost")
    assert bench.call(ping, "nowhere").code == 2 == bench.call(ping, "").code
    assert "succeeded" in bench.call(nc, f"-zv localhost {bench.victim.port}").err
    for line, word in (
        ("localhost 1", "refused"),
        ("8.8.8.8 53", "timed out"),
        ("nowhere 1", "not known"),
        ("-l 1", "not possible"),
        ("localhost x", "refused"),
    ):
        assert word in bench.call(nc, line).err
    assert bench.machine.ip in bench.out(ip, "addr")


def test_openssl_reads_files_and_ports(bench: Bench) -> None:
    victim = bench.victim
    text = bench.out(openssl, f"x509 -in {victim.cert} -noout -subject -dates -issuer -serial")
    assert f"subject=CN = {victim.address}" in text and "notAfter=" in text and "notBefore=" in text
    assert bench.out(openssl, "x509 -noout -enddate", stdin=bench.files.text(victim.cert) or "").startswith(
        "notAfter="
    )
    assert bench.out(openssl, f"x509 -in {victim.cert} -text") == bench.files.text(victim.cert)
    bench.files.write(victim.cert, write_cert("x", 0, 5))
    assert bench.call(openssl, f"x509 -in {victim.cert} -noout -checkend 86400").code == 1
    for line in ("x509 -in /nothing", "x509", "genrsa 2048", "x509 -in"):
        assert bench.call(openssl, line).code == 1


def test_openssl_asks_a_port(bench: Bench) -> None:
    def ask(where: str) -> str:
        said = openssl(Call("openssl", ("s_client", "-connect", where), "", "/", bench.files, bench.machine))
        return said.out + said.err

    victim = bench.victim
    assert "Verify return code: 0 (ok)" in ask(f"localhost:{victim.port}")
    bench.files.write(victim.cert, write_cert("x", 0, 5))
    assert "certificate has expired" in ask(f"{victim.address}:{victim.port}")
    assert (
        "no TLS" in ask(f"localhost:{bench.peer.port}")
        and "no answer" in ask("localhost:1")
        and "no answer" in ask("")
    )
