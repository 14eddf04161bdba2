"""The sandbox: nothing of this computer is seen or changed, every line ends, and the session goes on."""

from __future__ import annotations

import builtins
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs.shell import sandbox as module
from roleagent_lite.envs.shell.commands.call import Call, Said
from roleagent_lite.envs.shell.machine import Machine
from roleagent_lite.envs.shell.sandbox import COMMANDS, LIMITS, MOST_CALLS, Result, Sandbox
from roleagent_lite.envs.shell.world import draw
from roleagent_lite.errors import MissingExtra

pytest.importorskip("bashkit", reason="bashkit is not installed: pip install 'roleagent-lite[shell]'")


@pytest.fixture
def box() -> Sandbox:
    return fresh()


def fresh(seed: int = 2) -> Sandbox:
    drawn = draw(seed)
    return Sandbox(drawn.machine, drawn.files, drawn.modes)


def goes_on(box: Sandbox) -> None:
    """The session answers as if nothing had been."""
    assert box.run("echo alive | tr a-z A-Z").out == "ALIVE\n"
    assert box.run("hostname").out.strip() == box.machine.host
    assert box.run("systemctl --failed").code == 0


def all_of(result: Result) -> str:
    return result.out + result.err + result.undone


# --- the host is not there ----------------------------------------------------------------------------------


def test_accounts_and_names_are_the_made_up_ones(box: Sandbox) -> None:
    seen = box.run("cat /etc/passwd /etc/hostname /etc/hosts").out
    real = Path("/etc/passwd").read_text(encoding="utf-8")
    assert seen != real and box.machine.host in seen
    assert not {line for line in real.splitlines() if line.startswith(("www-data", "games", "sync"))} & set(
        seen.splitlines()
    )
    assert box.run("hostname").out.strip() == box.machine.host != socket.gethostname()


@pytest.mark.parametrize(
    "way",
    [
        "cat {0}",
        "head -c 100 {0}",
        "tail -n 1 {0}",
        "grep . {0}",
        "cat < {0}",
        "source {0}",
        ". {0}",
        "mapfile a < {0}; echo $a",
        "cat ../../../../../../../../{0}",
        "cat /proc/self/root{0}",
        "cat /proc/1/root{0}",
        "cp {0} /tmp/x; cat /tmp/x",
        "ln -s {0} /tmp/l; cat /tmp/l",
        "ln {0} /tmp/h; cat /tmp/h",
        "mv {0} /tmp/m; cat /tmp/m",
        "sed p {0}",
        "awk '{{print}}' {0}",
        "curl file://{0}",
        "wget -O- file://{0}",
        "openssl x509 -in {0}",
        "date -r {0}",
        "find {1} -name 'can*'",
        "ls {1}",
        "tar cf - {0}",
        "base64 {0}",
        "xxd {0}",
        "od -c {0}",
        "diff {0} /dev/null",
        "sort {0}",
        "dd if={0}",
        "shuf {0}",
        "python3 -c 'print(open(\"{0}\").read())'",
        "bash {0}",
        "bash -c 'cat {0}'",
        "cat $(echo {0})",
        "chown --reference={0} /tmp",
        "kubectl cp {0} x",
        "docker run -v /:/h alpine cat /h{0}",
        "docker exec x cat {0}",
        "stat {0}",
        "du {0}",
        "cat //{0}",
        "exec 3< {0}; cat <&3",
        "IFS= read -r x < {0}; echo $x",
        "journalctl --file {0}",
        "sqlite3 {0} .dump",
        "cat ~root/..{0}",
    ],
)
def test_no_way_leads_to_a_file_of_this_computer(box: Sandbox, tmp_path: Path, way: str) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text("SEEN-THE-CANARY\n", encoding="utf-8")
    said = all_of(box.run(way.format(canary, tmp_path)))
    assert "SEEN-THE-CANARY" not in said
    assert canary.read_text(encoding="utf-8") == "SEEN-THE-CANARY\n"
    goes_on(box)


@pytest.mark.parametrize(
    "way",
    [
        "echo x > {0}/new",
        "mkdir -p {0}/new; echo x > {0}/new/file",
        "touch {0}/new",
        "cp /etc/passwd {0}/new",
        "tee {0}/new <<< x",
        "rm -rf {0}",
        "rm -rf /",
        "rm -rf --no-preserve-root /",
        "rm -rf /*",
        "find / -delete",
        "chmod -R 000 {0}",
        "chown -R root {0}",
        "curl -o {0}/new localhost",
        "truncate -s 0 {0}/kept",
        "dd if=/dev/zero of={0}/kept count=1",
        "ln -sf /dev/null {0}/kept",
        "mv {0}/kept {0}/gone",
        "sed -i s/k/x/ {0}/kept",
        "mktemp -p {0}",
        "cd {0} && echo x > new",
    ],
)
def test_no_way_changes_a_file_of_this_computer(box: Sandbox, tmp_path: Path, way: str) -> None:
    (tmp_path / "kept").write_text("kept", encoding="utf-8")
    before = sorted(p.name for p in tmp_path.iterdir())
    box.run(way.format(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert (tmp_path / "kept").read_text(encoding="utf-8") == "kept"
    goes_on(box)


def test_the_environment_of_this_process_is_not_seen(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", "sk-canary-value")
    said = all_of(
        fresh().run("env; set; export -p; echo $CANARY_KEY; cat /proc/self/environ; printenv; declare -p")
    )
    assert "canary" not in said.lower()
    assert str(os.getpid()) not in box.run("echo $$ $PPID; ps aux; ls /proc").out.split()


@pytest.fixture
def listener() -> Iterator[tuple[int, list[Any]]]:
    """A real server on 127.0.0.1 and who came to it."""
    came: list[Any] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.05)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, address = server.accept()
                    connection.close()
                    came.append(address)
                except TimeoutError:
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], came
        stop.set()
        thread.join()


def test_nobody_comes_to_a_server_on_this_computer(box: Sandbox, listener: tuple[int, list[Any]]) -> None:
    port, came = listener
    for way in (
        "curl http://127.0.0.1:{0}",
        "curl -k https://localhost:{0}/x",
        "curl --resolve a:{0}:127.0.0.1 a:{0}",
        "wget http://127.0.0.1:{0}",
        "nc 127.0.0.1 {0} <<< x",
        "echo x > /dev/tcp/127.0.0.1/{0}",
        "exec 3<>/dev/tcp/127.0.0.1/{0}",
        "ssh -p {0} 127.0.0.1",
        "openssl s_client -connect 127.0.0.1:{0}",
        "ping -c 1 127.0.0.1",
        "http get 127.0.0.1:{0}",
        "command curl 127.0.0.1:{0}",
        "/usr/bin/curl 127.0.0.1:{0}",
        "/bin/curl 127.0.0.1:{0}",
        "builtin curl 127.0.0.1:{0}",
        "env curl 127.0.0.1:{0}",
        "bash -c 'curl 127.0.0.1:{0}'",
        "xargs curl <<< 127.0.0.1:{0}",
        "telnet 127.0.0.1 {0}",
        "git clone http://127.0.0.1:{0}/x",
        "dig @127.0.0.1 -p {0} x",
        "rsync 127.0.0.1:{0} .",
        "docker pull 127.0.0.1:{0}/x",
        "kubectl --server 127.0.0.1:{0} get pods",
        "unset -f curl; curl 127.0.0.1:{0}",
        "busybox wget 127.0.0.1:{0}",
        "python3 -m urllib 127.0.0.1:{0}",
    ):
        box.run(way.format(port))
    assert came == []
    with socket.create_connection(("127.0.0.1", port)):  # the listener itself works
        pass
    goes_on(box)


def test_no_command_opens_a_file_a_socket_or_a_process_here(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    def watched(name: str) -> Any:
        return lambda *args, **kwargs: used.append(f"{name} {args}")

    for owner, name in (
        (builtins, "open"),
        (os, "open"),
        (os, "system"),
        (os, "kill"),
        (socket, "socket"),
        (os, "popen"),
    ):
        monkeypatch.setattr(owner, name, watched(name))
    for name in COMMANDS:
        for words in (
            "",
            "--help",
            "-a",
            "/etc/passwd",
            "localhost:22 1",
            "-9 1 2",
            "status x",
            "-s 2020-01-01",
        ):
            box.run(f"{name} {words}")
    monkeypatch.undo()
    assert used == []


# --- every line ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        ":(){ :|:& };:",
        "f(){ f | f & }; f",
        "while true; do :; done",
        "until false; do echo x; done",
        "for ((;;)); do :; done",
        "f(){ f; }; f",
        "seq 1 100000000 | wc -l",
        "while :; do date; done",
        "cat /dev/zero > /tmp/z",
        "yes | wc -l",
        "a=x; while :; do a=$a$a; done",
        "echo {1..100000000} | wc -c",
        "printf '%1000000000d' 1 | wc -c",
    ],
)
def test_what_would_never_end_ends(box: Sandbox, line: str) -> None:
    before = box.run("ls -R /etc /tmp").out
    came = box.run(line)
    assert came.undone or len(all_of(came)) < 2_000_000
    if came.undone:
        assert came == Result("", "", 1, LIMITS)
        assert box.run("ls -R /etc /tmp").out == before
    goes_on(box)


def test_sleep_passes_on_the_simulated_clock_alone(box: Sandbox) -> None:
    before = box.machine.now
    came = box.run("sleep 3600; timeout 5 sleep 100000; date +%s")
    assert came.code == 0 and int(came.out) - before > 3600


@pytest.mark.parametrize(
    "line",
    [
        "for i in $(seq 1 90); do dd if=/dev/zero of=/tmp/f$i bs=1M count=1; done",
        "for i in $(seq 1 4000); do echo x > /tmp/f$i; done",
    ],
)
def test_what_fills_the_memory_is_undone(box: Sandbox, line: str) -> None:
    box.run("echo mine > /tmp/mine")
    came = box.run(line)
    assert came.undone
    assert box.run("ls /tmp; cat /tmp/mine").out == "mine\nmine\n"
    assert box.survey.bytes < 100_000
    goes_on(box)


def test_a_line_may_not_use_commands_without_end(box: Sandbox) -> None:
    came = box.run(f"for i in $(seq 1 {MOST_CALLS + 50}); do ss > /dev/null; done")
    assert "too many commands in one line" in came.err or came.undone
    goes_on(box)


def test_more_lines_than_one_bash_takes(box: Sandbox) -> None:
    box.run(
        "cd /var; v=kept; f() { echo called; }; chmod 600 /etc/hosts; rm /etc/shells; ln -s /etc/hosts /etc/l"
    )
    before = box.survey.digest
    for n in range(1100):
        assert box._execute(f"echo {n}").stdout == f"{n}\n"
    assert (
        box.run("pwd; echo $v; f; stat -c %a /etc/hosts; ls /etc/shells").out == "/var\nkept\ncalled\n600\n"
    )
    assert box.refresh().digest == before
    goes_on(box)


# --- the same again -----------------------------------------------------------------------------------------


def test_what_is_drawn_is_drawn_from_the_seed() -> None:
    line = "echo $RANDOM $RANDOM $EPOCHSECONDS $SECONDS; date; /bin/date; /usr/bin/date +%s; mktemp; "
    line += "seq 1 9 | shuf; uptime; touch /tmp/a; ls -l /tmp"
    first = [fresh(5).run(line) for _ in range(2)]
    assert first[0] == first[1] and first[0].code == 0
    assert fresh(6).run(line) != first[0]
    box = fresh(5)
    assert box.run(line) == first[0] and box.run(line) != first[0]


@pytest.mark.parametrize(
    "line",
    [
        "grep -rn port /etc; grep -rl . /etc /var | head -3",
        "cp -a /etc /tmp/e; diff -r /etc /var; md5sum /etc/*/*",
        "mapfile -t a < /etc/passwd; declare -A m=([x]=1 [y]=2 [z]=3); echo ${!m[@]} ${a[@]}",
        "gzip -k /etc/hosts; zip /tmp/z.zip /etc/hosts; tar cf /tmp/t /etc; split -l 1 /etc/passwd /tmp/x",
        "set; declare -p; env; export -p; alias; compgen -c | head -20; ls -la / /proc /dev",
        "awk '{c[$1]++} END{for(k in c) print k, c[k]}' /etc/*/*; jq -n '{b: 1, a: 2}'",
    ],
)
def test_what_bash_does_by_itself_is_the_same_each_time(line: str) -> None:
    seen = set()
    for _ in range(4):
        box = fresh()
        came = box.run(line)
        seen.add((came.out, came.err, came.code, box.survey.digest, box.place()))
    assert len(seen) == 1


def test_a_state_saved_comes_back_whole(box: Sandbox) -> None:
    box.run(
        "cd /etc; a=1; g() { echo g$a; }; echo one > /tmp/one; ln -s /tmp/one /tmp/link; "
        "printf '\\xff\\x00' > /tmp/raw; chmod 700 /tmp/one"
    )
    kept, looks = (
        box.save(),
        "pwd; g; cat /tmp/link; od -c /tmp/raw; stat -c %a /tmp/one; ls -a / /etc /tmp; cat /etc/hosts; date",
    )
    seen = box.run(looks)
    for harm in (
        "rm -rf /etc /tmp /root; cd /; unset a; unset -f g",
        "rm -rf /*",
        "echo two > /tmp/one; rm /etc/hosts; date -s 2001-01-01",
    ):
        box.run(harm)
        box.load(kept)
        assert box.run(looks) == seen
        box.load(kept)
        assert box.survey == kept.survey
    assert seen.out.startswith("/etc\ng1\none\n")


def test_a_state_without_a_file_does_not_bring_it_back(box: Sandbox) -> None:
    box.run("rm -rf /etc/hosts /etc/os-release /etc/chrony /opt")
    kept, seen = box.save(), box.run("ls /etc / | grep -E 'hosts|os-release|chrony|opt'")
    box.load(kept)
    assert box.run("ls /etc / | grep -E 'hosts|os-release|chrony|opt'") == seen == Result("", "", 1)


@pytest.mark.parametrize(
    "line",
    [
        "head -c 4 /dev/urandom | xxd",
        "awk 'BEGIN{srand(); print rand()}'",
        "awk 'BEGIN { print systime () }'",
        "printf '%(%s)T' -1",
        "cat /proc/uptime",
        "echo $SRANDOM",
        "seq 9 | sort -R",
        "seq 9 | sort -uR",
    ],
)
def test_real_chance_and_the_real_clock_are_not_there(box: Sandbox, line: str) -> None:
    came = box.run(line)
    assert came.code == 1 and "differ from run to run" in came.err and came.out == ""
    goes_on(box)


def test_time_and_identifiers_tell_nothing_of_this_computer(box: Sandbox) -> None:
    assert "real\t0m0.000s" in box.run("time ls /").err
    line = "uuidgen; echo $EPOCHREALTIME; mktemp -u"
    assert fresh().run(line) == fresh().run(line)
    assert len(fresh().run("uuidgen").out.strip()) == 36


def test_history_shows_what_was_typed(box: Sandbox) -> None:
    box.run("echo one")
    assert box.run("history").out.split("\n")[:2] == ["    1  echo one", "    2  history"]


@pytest.mark.parametrize(
    "line",
    [
        "sudo cat /etc/hostname",
        "sudo -u root cat /etc/hostname",
        "less /etc/hostname",
        "tail -f /etc/hostname",
        "tail -n 1 -F /etc/hostname",
        "sudo -n cat /etc/hostname",
    ],
)
def test_habits_work(box: Sandbox, line: str) -> None:
    assert box.run(line).out.strip() == box.machine.host


# --- borders ------------------------------------------------------------------------------------------------


def test_what_a_command_raises_is_raised_and_not_told_to_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(call: Call) -> Said:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(module, "COMMANDS", {**COMMANDS, "ss": broken})
    with pytest.raises(KeyError, match="a fault of ours"):
        fresh().run("ss -ltn; true")


def test_without_bashkit_one_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bashkit", None)
    with pytest.raises(MissingExtra, match=r"pip install 'roleagent-lite\[shell\]'"):
        Sandbox(Machine("h", "10.0.0.1", 0.0), {}, {})
