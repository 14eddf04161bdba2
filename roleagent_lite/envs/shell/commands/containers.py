"""docker and kubectl: the services that run in containers and pods."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping

from roleagent_lite.envs.shell.commands.call import Call, Options, Said, columns, count, read, service_of
from roleagent_lite.envs.shell.health import run_problem
from roleagent_lite.envs.shell.machine import Service
from roleagent_lite.envs.shell.runtime import command_of, restart, start, stop
from roleagent_lite.envs.shell.settings import mebibytes
from roleagent_lite.envs.shell.stamps import iso

_KINDS = {
    "po": "pod", "pod": "pod", "pods": "pod", "deploy": "deployment", "deployment": "deployment",
    "deployments": "deployment", "no": "node", "node": "node", "nodes": "node", "svc": "service",
    "service": "service", "services": "service", "events": "events", "ev": "events", "all": "pod",
}  # fmt: skip


def short_id(name: str, length: int = 12) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:length]


def pod_of(service: Service) -> str:
    """The pod's name: the same until it is started anew."""
    one = short_id(f"{service.name} {service.pid or service.restarts}", 5)
    return f"{service.name}-{short_id(service.name, 9)}-{one}"


def _mine(call: Call, runtime: str) -> list[Service]:
    return sorted((s for s in call.machine.services.values() if s.runtime == runtime), key=lambda s: s.name)


def _logs(call: Call, service: Service, options: Options) -> Said:
    lines = [line for line in call.machine.journal if line.unit == service.name]
    lines = lines[-count(options.value("tail", "n"), 10**6) :]
    stamped = options.has("t", "timestamps")
    return Said("".join((f"{iso(x.time)} " if stamped else "") + x.text + "\n" for x in lines))


def _up(call: Call, service: Service) -> str:
    if service.pid is not None:
        return f"Up since {iso(service.since)}"
    return f"Restarting (1), {service.restarts} restarts" if service.enabled else "Exited (0)"


def _docker_list(call: Call, options: Options) -> Said:
    rows = [["CONTAINER ID", "IMAGE", "STATUS", "PORTS", "NAMES"]]
    for service in _mine(call, "docker"):
        if service.pid is None and not options.has("a", "all") and not service.enabled:
            continue
        ports = f"{service.listens}->{service.listens}/tcp" if service.listens else ""
        rows.append(
            [
                short_id(service.name),
                f"registry.internal/{service.name}",
                _up(call, service),
                ports,
                service.name,
            ]
        )
    return Said(columns(rows))


def _docker_inspect(call: Call, service: Service) -> Said:
    state = {
        "Running": service.pid is not None,
        "Pid": service.pid or 0,
        "Error": service.said,
        "RestartCount": service.restarts,
    }
    host = {
        "Memory": (service.limit or 0) * 1024**2,
        "NetworkMode": "host",
        "Binds": [f"/etc/{service.name}", service.data],
    }
    found = {"Id": short_id(service.name), "Name": f"/{service.name}", "State": state, "HostConfig": host,
             "Config": {"User": service.user, "Cmd": command_of(service).split()}}  # fmt: skip
    return Said(json.dumps([found], indent=2) + "\n")


def _docker_stats(call: Call) -> Said:
    rows = [["NAME", "CPU %", "MEM USAGE / LIMIT"]]
    for service in _mine(call, "docker"):
        process = call.machine.processes.get(service.pid or 0)
        if process is not None:
            rows.append([service.name, f"{process.cpu}%", f"{process.rss}MiB / {service.limit}MiB"])
    return Said(columns(rows))


def _set_limit(call: Call, service: Service, text: str | None) -> Said:
    size = mebibytes((text or "").upper().removesuffix("B").removesuffix("I"))
    if size is None or size < 1:
        return call.fail(f"invalid memory size '{text or ''}'")
    service.limit = int(size)
    return Said(f"{service.name}\n")


def _control(call: Call, verb: str, service: Service) -> Said:
    if verb in ("stop", "kill", "pause", "rm"):
        service.enabled = False
        stop(service, call.files, call.machine)
        return Said(f"{service.name}\n")
    service.enabled = True
    if verb == "start":
        start(service, call.files, call.machine)
    else:
        restart(service, call.files, call.machine)
    return Said(f"{service.name}\n")


def docker(call: Call) -> Said:
    options = read(call.words, valued="nmf", long_valued=("tail", "memory", "filter", "format", "since"))
    words = options.rest[1:] if options.rest[:1] in (("container",), ("compose",)) else options.rest
    verb, *names = words or ("help",)
    if verb in ("ps", "ls"):
        return _docker_list(call, options)
    if verb == "stats":
        return _docker_stats(call)
    if verb in ("exec", "run", "cp", "build", "pull"):
        return call.fail(
            f"'{verb}' is not available here; a container's files are the host's (/etc/NAME, /var/lib/NAME)"
        )
    if verb not in (
        "logs",
        "inspect",
        "update",
        "start",
        "restart",
        "stop",
        "kill",
        "pause",
        "rm",
        "top",
        "port",
    ):
        return call.fail(
            f"'{verb}' is not a docker command here: ps, logs, inspect, stats, start, restart, stop, update"
        )
    if not names:
        return call.fail(f'"docker {verb}" requires a container name')
    said = []
    for name in names[:20]:
        service = service_of(call, name, "docker") or next(
            (s for s in _mine(call, "docker") if short_id(s.name).startswith(name)), None
        )
        if service is None:
            return Said(err=f"Error response from daemon: No such container: {name}\n", code=1)
        if verb == "logs":
            said.append(_logs(call, service, options))
        elif verb == "update":
            said.append(_set_limit(call, service, options.value("m", "memory")))
        elif verb in ("inspect", "top", "port"):
            said.append(_docker_inspect(call, service))
        else:
            said.append(_control(call, verb, service))
    return Said("".join(s.out for s in said), "".join(s.err for s in said), max(s.code for s in said))


def _phase(service: Service) -> str:
    if service.pid is not None:
        return "Running"
    return "CrashLoopBackOff"


def _pods(call: Call) -> Said:
    rows = [["NAME", "READY", "STATUS", "RESTARTS"]]
    for s in _mine(call, "kubernetes"):
        if not s.enabled:
            continue
        sick = s.pid is None or run_problem(s, call.files, call.machine) is not None
        rows.append([pod_of(s), "0/1" if sick else "1/1", _phase(s), str(s.restarts)])
    return Said(columns(rows)) if len(rows) > 1 else Said("No resources found in default namespace.\n")


def _deployments(call: Call) -> Said:
    rows = [["NAME", "READY", "UP-TO-DATE", "AVAILABLE"]]
    for s in _mine(call, "kubernetes"):
        wanted, up = int(s.enabled), int(s.pid is not None)
        rows.append([s.name, f"{up}/{wanted}", str(wanted), str(up)])
    return Said(columns(rows)) if len(rows) > 1 else Said("No resources found in default namespace.\n")


def _endpoints(call: Call) -> Said:
    rows = [["NAME", "TYPE", "CLUSTER-IP", "PORT(S)"]]
    rows += [
        [s.name, "ClusterIP", call.machine.ip, f"{s.port}/TCP"]
        for s in _mine(call, "kubernetes")
        if not s.helper
    ]
    return Said(columns(rows))


def _events(call: Call, only: Service | None = None) -> Said:
    rows = [["TIME", "TYPE", "OBJECT", "MESSAGE"]]
    for line in call.machine.journal[-400:]:
        service = service_of(call, line.unit, "kubernetes")
        if service is not None and only in (None, service) and line.priority <= 4:
            rows.append([iso(line.time), "Warning", f"deployment/{service.name}", line.text])
    return Said(columns([rows[0], *rows[-10:]])) if len(rows) > 1 else Said("No events found.\n")


def _node(call: Call) -> Said:
    return Said(columns([["NAME", "STATUS", "ROLES"], [call.machine.host, "Ready", "control-plane"]]))


_LISTS: Mapping[str, Callable[[Call], Said]] = {
    "pod": _pods, "deployment": _deployments, "service": _endpoints, "events": _events, "node": _node,
}  # fmt: skip


def _find(call: Call, words: list[str]) -> Service | None:
    """The service that a pod, deployment or service name means; kind and name in one word or two."""
    name = words[-1].rsplit("/", 1)[-1] if words else ""
    mine = _mine(call, "kubernetes")
    return next(
        (
            s
            for s in mine
            if name in (s.name, pod_of(s)) or name.startswith(f"{s.name}-{short_id(s.name, 9)}")
        ),
        None,
    )


def _describe(call: Call, service: Service) -> Said:
    last = "" if service.pid else f"  Last State: Terminated ({service.said or 'stopped'})\n"
    events = _events(call, service).out
    return Said(
        f"Name: {pod_of(service)}\nNamespace: default\nNode: {call.machine.host}\nStatus: {_phase(service)}\n"
        f"Replicas: {int(service.enabled)}\nContainers:\n  {service.name}:\n"
        f"    Image: registry.internal/{service.name}\n"
        f"    Limits: memory: {service.limit}Mi\n    Restart Count: {service.restarts}\n{last}"
        f"Volumes: hostPath /etc/{service.name}, {service.data}\nEvents:\n{events}"
    )


def _kube_act(call: Call, verb: str, service: Service, options: Options) -> Said:
    if verb == "set":
        text = options.value("limits") or ""
        found = re.search(r"memory=([0-9A-Za-z]{1,12})", text)
        said = _set_limit(call, service, found[1] if found else None)
        if said.code == 0 and service.enabled:
            restart(service, call.files, call.machine)
        return said if said.code else Said(f"deployment.apps/{service.name} resource requirements updated\n")
    if "undo" in options.rest:
        service.limit = 1024
    if verb == "scale":
        service.enabled = count(options.value("replicas"), 0) > 0
    if service.enabled:
        restart(service, call.files, call.machine)
    else:
        stop(service, call.files, call.machine)
    done = {"scale": "scaled", "delete": "deleted"}.get(verb, "restarted")
    return Said(
        f"deployment.apps/{service.name} {done}\n"
        if verb != "delete"
        else f'pod "{pod_of(service)}" deleted\n'
    )


def kubectl(call: Call) -> Said:
    options = read(
        call.words,
        valued="nolcf",
        long_valued=("namespace", "output", "tail", "limits", "replicas", "since", "requests", "selector"),
    )
    verb, *words = options.rest or ("help",)
    kind = _KINDS.get(words[0].split("/")[0].split(",")[0]) if words else None
    if verb == "get" and kind is not None and len(words) == 1 and "/" not in words[0]:
        return _LISTS[kind](call)
    if verb == "top":
        return _docker_stats_of_pods(call)
    if verb in ("exec", "edit", "apply", "run", "cp", "port-forward", "patch"):
        return call.fail(
            f"'{verb}' is not available here; use set resources, scale, rollout restart, or the host's files"
        )
    if verb not in ("get", "describe", "logs", "rollout", "scale", "delete", "set"):
        return call.fail(
            f"unknown command '{verb}': get, describe, logs, rollout restart, scale, delete pod, set "
            "resources, top"
        )
    if verb == "describe" and kind == "node":
        return _node(call)
    if verb == "describe" and kind in ("pod", "deployment") and len(words) == 1 and "/" not in words[0]:
        return Said("\n".join(_describe(call, s).out for s in _mine(call, "kubernetes")))
    service = _find(call, words)
    if service is None:
        return Said(
            err=f'Error from server (NotFound): "{words[-1][:80] if words else ""}" not found\n', code=1
        )
    if verb == "logs":
        return _logs(call, service, options)
    if verb in ("get", "describe"):
        return _describe(call, service)
    if verb == "rollout" and words[0] not in ("restart", "undo"):
        return Said(
            f"deployment {service.name}: {'available' if service.pid else 'waiting, ' + _phase(service)}\n"
        )
    if verb == "delete" and kind != "pod":
        return call.fail("only pods are deleted here")
    return _kube_act(call, verb, service, options)


def _docker_stats_of_pods(call: Call) -> Said:
    rows = [["NAME", "CPU(cores)", "MEMORY(bytes)"]]
    for service in _mine(call, "kubernetes"):
        process = call.machine.processes.get(service.pid or 0)
        if process is not None:
            rows.append([pod_of(service), f"{int(process.cpu * 10)}m", f"{process.rss}Mi"])
    return Said(columns(rows))


COMMANDS = {"docker": docker, "kubectl": kubectl}
